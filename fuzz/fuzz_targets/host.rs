//! Any sequence of calls of a host on a flow behind the C ABI, with any words in the events: a code, never a panic, and a flow
//! that still answers.
#![no_main]

use std::ffi::CString;
use std::ptr;

use ccarena::abi::*;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const SCHEMES: [&str; 16] = [
    "reno", "cubic", "bbr", "bbr3", "copa", "vivace", "gcc", "ledbat", "pilot", "prague", "dctcp", "hercules", "wcc-ai",
    "wcc-md", "multcp", "ewtcp",
];
const POLICIES: [&[u8]; 2] = [
    include_bytes!("../../ccarena/hyvar/policies/hyvar.safetensors"),
    include_bytes!("../../ccarena/acct/policies/acct.safetensors"),
];

#[derive(Arbitrary, Debug)]
struct Input {
    entrant: u8,
    reports: u8,
    mss: u16,
    weight: u16,
    /// Fallback, shadow and guard of a policy that is operated.
    operated: (u8, u8, u32),
    calls: Vec<(u32, Call)>,
}

#[derive(Arbitrary, Debug)]
enum Call {
    Ack([u32; 20], bool),
    Loss([u32; 8], bool),
    Sent([u32; 9], u64),
    Acked(u64),
    Lost(u64),
    Timer,
    Back(u32),
    Spurious,
    RecoveryEnd(u64),
    Idle(u64, u64),
    Weight(f64),
    Requirement(f64, f64),
    Desired(f64),
    Router(f64),
    Words([u64; 20]),
}

/// The words of an event at `now`. What a struct has beyond its halves of words comes as it is.
fn words<const N: usize>(now: u64, parts: [u32; N]) -> [u64; N] {
    let mut words = parts.map(u64::from);
    words[0] = now;
    words
}

fuzz_target!(|input: Input| {
    let facts = ccarena_facts {
        abi: CCARENA_ABI,
        mss_bytes: input.mss.into(),
        initial_window_packets: 0,
        header_bytes: 52,
        reports: u32::from(input.reports) & 126,
        flags: 0,
        now_ns: 0,
        seed: 1,
        weight: f64::from(input.weight) / 64.0,
        desired_bps: 0.0,
        required_min_bps: 1e6,
        required_max_bps: 2e6,
        reserved: [0; 4],
    };
    let (mut flow, none) = (ptr::null_mut(), ptr::null_mut());
    let index = usize::from(input.entrant) % (SCHEMES.len() + POLICIES.len());
    // SAFETY: pointers are to what is here, or null.
    unsafe {
        if let Some(scheme) = SCHEMES.get(index) {
            let name = CString::new(*scheme).unwrap();
            ccarena_create(name.as_ptr(), ptr::null(), 0, &facts, &mut flow, none, 0);
        } else {
            let (bytes, mut policy) = (POLICIES[index - SCHEMES.len()], ptr::null_mut());
            assert_eq!(ccarena_policy_read(bytes.as_ptr(), bytes.len(), &mut policy, none, 0), CCARENA_OK);
            match input.entrant & 3 {
                0 => ccarena_create_policy(policy, ptr::null(), 0, &facts, &mut flow, none, 0),
                shadow => {
                    let (fallback, wrong, guard) = input.operated;
                    let names = [c"cubic", c"reno", c"bbr", c"hyvar", c"cubik", c""];
                    let name = names.get(usize::from(fallback) % (names.len() + 1)).map_or(ptr::null(), |name| name.as_ptr());
                    let shadow = u32::from(shadow & 1) + u32::from(wrong == 1);
                    ccarena_create_operated(policy, ptr::null(), 0, &facts, name, shadow, guard, &mut flow, none, 0)
                }
            };
            assert_eq!(ccarena_policy_free(policy), CCARENA_OK);
        }
    }
    if flow.is_null() {
        return;
    }
    let (mut now, mut out) = (0_u64, [0_u64; 6]);
    let out: *mut cc_control = out.as_mut_ptr().cast();
    for (gap, call) in input.calls {
        now += u64::from(gap);
        // SAFETY: as above; events are words, aligned as the structs are.
        let code = unsafe {
            match call {
                Call::Ack(parts, limited) => {
                    let mut ack = words(now, parts);
                    // Totals that mostly fit, a state that mostly is one, and no unknown flags.
                    ack[13] = ack[13].min(ack[14]);
                    ack[16] = (ack[16] & 3) << 32 | ack[16] >> 8;
                    (ack[17], ack[18], ack[19]) = (u64::from(limited), 0, 0);
                    ccarena_on_ack(flow, ack.as_ptr().cast(), out)
                }
                Call::Loss(parts, timeout) => {
                    let mut loss = words(now, parts);
                    loss[5] = (loss[5] & 15) << 32 | loss[5] >> 8;
                    (loss[6], loss[7]) = (0, 0);
                    let loss = loss.as_ptr().cast();
                    if timeout { ccarena_on_timeout(flow, loss, out) } else { ccarena_on_loss(flow, loss, out) }
                }
                Call::Sent(parts, number) => {
                    let mut sent = words(now, parts);
                    (sent[7], sent[8]) = (0, 0);
                    ccarena_on_sent(flow, sent.as_ptr().cast(), number, out)
                }
                Call::Acked(number) => ccarena_on_packet_acked(flow, number),
                Call::Lost(number) => ccarena_on_packet_lost(flow, number),
                Call::Timer => {
                    let due = ccarena_next_timer(flow);
                    now = if due < 1 << 62 { now.max(due) } else { now };
                    ccarena_on_timer(flow, now, out)
                }
                Call::Back(by) => ccarena_on_timer(flow, now.saturating_sub(by.into()), out),
                Call::Spurious => ccarena_on_spurious_loss(flow, now, out),
                Call::RecoveryEnd(in_flight) => ccarena_on_recovery_end(flow, now, in_flight, out),
                Call::Idle(idle, rto) => ccarena_on_idle_restart(flow, now, idle, rto, out),
                Call::Weight(weight) => ccarena_set_weight(flow, weight, out),
                Call::Requirement(min, max) => ccarena_set_requirement(flow, min, max, out),
                Call::Desired(bps) => ccarena_set_desired_rate(flow, bps, out),
                Call::Router(bps) => ccarena_on_router_rate(flow, bps),
                Call::Words(words) => ccarena_on_ack(flow, words.as_ptr().cast(), out),
            }
        };
        assert_ne!(code, CCARENA_FAILED);
        // SAFETY: the flow is not freed yet.
        unsafe { assert!([-1, 0, 1, 4].contains(&ccarena_role(flow))) };
        // SAFETY: as before.
        unsafe { assert!(ccarena_window(flow) >= u64::from(input.mss) && ccarena_pacing_rate(flow).is_finite()) };
    }
    // SAFETY: it is not used any more.
    assert_eq!(unsafe { ccarena_free(flow) }, CCARENA_OK);
});
