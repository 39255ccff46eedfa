//! Wrong calls: each gets a code and a reason, changes nothing, and is never undefined behaviour.
#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "calls the functions as C does, on values of its own"
)]

mod common;

use std::ptr;

use ccarena::abi::*;
use ccarena_cc::{AckInfo, Bytes, Dur, LossInfo, RateSample, SentInfo, Time};
use ccarena_wasm::abi as layout;
use common::{Aligned, REPORTS, create, create_policy, decided_by, facts, operated, read_policy, shipped, why};
use proptest::prelude::*;

const MSS: u64 = 1448;

fn ack(now: u64, delivered: u64) -> AckInfo {
    AckInfo {
        now: Time(now),
        acked: Bytes(MSS.min(delivered)),
        acked_packets: 1,
        rtt: Some(Dur::from_millis(40)),
        min_rtt: Dur::from_millis(40),
        srtt: Dur::from_millis(40),
        delivered: Bytes(delivered),
        snd_una: delivered,
        snd_nxt: delivered + 10 * MSS,
        ..AckInfo::default()
    }
}

fn on_ack(flow: *mut ccarena_flow, ack: &AckInfo) -> i32 {
    on_words(flow, layout::ack(ack))
}

fn on_words(flow: *mut ccarena_flow, event: [u8; layout::ACK_BYTES]) -> i32 {
    unsafe { ccarena_on_ack(flow, Aligned(event).0.as_ptr().cast(), ptr::null_mut()) }
}

fn free(flow: *mut ccarena_flow) -> i32 {
    unsafe { ccarena_free(flow) }
}

#[test]
fn wrong_handles_are_found() {
    assert_eq!(on_ack(ptr::null_mut(), &ack(1, 0)), CCARENA_NULL);
    assert_eq!(free(ptr::null_mut()), CCARENA_NULL);
    assert_eq!(unsafe { (ccarena_window(ptr::null_mut()), ccarena_next_timer(ptr::null_mut())) }, (0, u64::MAX));
    let mut noise = [0x1234_5678_9abc_def0_u64; 8];
    let wrong = noise.as_mut_ptr().cast();
    assert_eq!(on_ack(wrong, &ack(1, 0)), CCARENA_HANDLE);
    assert_eq!(on_ack(wrong.wrapping_byte_add(3), &ack(1, 0)), CCARENA_HANDLE);
    assert_eq!(free(wrong), CCARENA_HANDLE);

    let policy = read_policy(&shipped("hyvar")).unwrap();
    assert_eq!(on_ack(policy.cast(), &ack(1, 0)), CCARENA_HANDLE, "a policy is no flow");
    let flow = create("cubic", &[], &facts()).unwrap();
    assert_eq!(create_policy(flow.cast(), &facts()).unwrap_err().0, CCARENA_HANDLE, "a flow is no policy");
    assert_eq!(create_policy(ptr::null(), &facts()).unwrap_err().0, CCARENA_NULL);
    // A copy lies elsewhere than its mark says.
    let mut copy = [0_u64; 4];
    unsafe { ptr::copy_nonoverlapping(flow.cast::<u64>(), copy.as_mut_ptr(), 1) };
    assert_eq!(on_ack(copy.as_mut_ptr().cast(), &ack(1, 0)), CCARENA_HANDLE);
    assert_eq!((free(flow), unsafe { ccarena_policy_free(policy) }), (CCARENA_OK, CCARENA_OK));
}

#[test]
fn a_policy_decides_in_the_shadow_and_the_guard_hands_its_flow_back() {
    let cubic = create("cubic", &[], &facts()).unwrap();
    let shadow = operated("aurora", "cubic", 1, 0).unwrap();
    let guarded = operated("aurora", "cubic", 0, 3).unwrap();
    let role = |flow| unsafe { ccarena_role(flow) };
    assert_eq!((role(cubic), role(shadow), role(guarded), role(ptr::null_mut())), (-1, 1, 0, -1));
    for n in 1..1000 {
        // The RTT grows tenfold; training has seen less than five times the least one.
        let rtt = Dur::from_millis(if n < 200 { 40 } else { 400 });
        let ack = AckInfo { rtt: Some(rtt), srtt: rtt, cwnd_limited: true, ..ack(n * 10_000_000, n * MSS) };
        for flow in [cubic, shadow, guarded] {
            let sent =
                SentInfo { now: ack.now, bytes: Bytes(MSS), snd_nxt: ack.snd_nxt, number: n, ..SentInfo::default() };
            let words = Aligned(layout::sent(&sent));
            assert_eq!(unsafe { ccarena_on_sent(flow, words.0.as_ptr().cast(), n, ptr::null_mut()) }, CCARENA_OK);
            assert_eq!(on_ack(flow, &ack), CCARENA_OK, "{}", why(flow));
        }
        assert!(n >= 200 || role(guarded) == 0, "an RTT that training saw trips nothing: {n}");
        let [acting, alone] = [shadow, cubic].map(|flow| unsafe { ccarena_window(flow) });
        assert_eq!(acting, alone);
    }
    assert!(unsafe { ccarena_decisions(shadow) } > 10);
    assert_eq!((role(shadow), role(guarded)), (1, 4));
    for (wrong, code) in
        [(operated("aurora", "cubik", 0, 3), CCARENA_SCHEME), (operated("aurora", "cubic", 2, 3), CCARENA_RANGE)]
    {
        assert_eq!(wrong.unwrap_err().0, code);
    }
    assert_eq!([cubic, shadow, guarded].map(free), [CCARENA_OK; 3]);
}

#[test]
fn an_operated_flow_refuses_null_wrong_handles_and_calls_out_of_order() {
    let policy = read_policy(&shipped("aurora")).unwrap();
    let none = ptr::null_mut();
    let create = |policy, facts: *const ccarena_facts, name, out| unsafe {
        ccarena_create_operated(policy, ptr::null(), 0, facts, name, 1, 0, out, none, 0)
    };
    let (given, cubic) = (facts(), c"cubic".as_ptr());
    let mut flow = ptr::null_mut();
    assert_eq!(create(ptr::null(), &given, cubic, &mut flow), CCARENA_NULL);
    assert_eq!(create(policy, ptr::null(), cubic, &mut flow), CCARENA_NULL);
    assert_eq!(create(policy, &given, ptr::null(), &mut flow), CCARENA_NULL);
    assert_eq!(create(policy, &given, cubic, ptr::null_mut()), CCARENA_NULL);
    assert_eq!(flow, ptr::null_mut());
    assert_eq!(create(policy, &given, cubic, &mut flow), CCARENA_OK);
    let mut second = ptr::null_mut();
    assert_eq!(create(flow.cast_const().cast(), &given, cubic, &mut second), CCARENA_HANDLE, "a flow is no policy");
    assert_eq!(unsafe { ccarena_role(policy.cast()) }, -1, "a policy is no flow");
    assert_eq!(on_ack(flow, &ack(1_000_000_000, MSS)), CCARENA_OK, "{}", why(flow));
    assert_eq!(on_ack(flow, &ack(999_999_999, 2 * MSS)), CCARENA_TIME, "time runs backwards");
    assert_eq!(unsafe { ccarena_policy_free(policy) }, CCARENA_OK);
    assert_eq!(on_ack(flow, &ack(1_000_000_001, 2 * MSS)), CCARENA_OK, "the flow keeps what it needs");
    assert_eq!((unsafe { ccarena_role(flow) }, free(flow)), (1, CCARENA_OK));
}

#[test]
fn events_that_do_not_fit_are_refused_with_the_reason_and_change_nothing() {
    let flow = create("cubic", &[], &facts()).unwrap();
    assert_eq!(on_ack(flow, &ack(1000, 5 * MSS)), CCARENA_OK);
    let window = unsafe { ccarena_window(flow) };
    let refused = |code: i32, expected: i32, reason: &str| {
        assert_eq!(code, expected, "{}", why(flow));
        assert!(why(flow).contains(reason), "{}", why(flow));
        assert_eq!(unsafe { ccarena_window(flow) }, window);
    };
    refused(on_ack(flow, &ack(999, 6 * MSS)), CCARENA_TIME, "now_ns is 999, but the event before was at 1000");
    refused(on_ack(flow, &ack(1001, 4 * MSS)), CCARENA_ORDER, "delivered_bytes is 5792; expected at least 7240");
    let backwards = AckInfo { snd_nxt: 1, ..ack(1001, 5 * MSS) };
    refused(on_ack(flow, &backwards), CCARENA_ORDER, "sent_to is 1; expected at least 7240");
    refused(on_ack(flow, &ack(u64::MAX, 5 * MSS)), CCARENA_RANGE, "now_ns is out of range");
    refused(
        on_ack(flow, &AckInfo { lost: Bytes(1 << 60), ..ack(1001, 5 * MSS) }),
        CCARENA_RANGE,
        "an amount of cc_ack",
    );
    let mut event = layout::ack(&ack(1001, 5 * MSS));
    event[132] = 4;
    refused(on_words(flow, event), CCARENA_RANGE, "recovery is out of range");
    let mut event = layout::ack(&ack(1001, 5 * MSS));
    event[150] = 1;
    refused(on_words(flow, event), CCARENA_RANGE, "zero in reserved fields");
    refused(unsafe { ccarena_on_timer(flow, 2000, ptr::null_mut()) }, CCARENA_ORDER, "the timer is not set");
    refused(unsafe { ccarena_set_weight(flow, f64::NAN, ptr::null_mut()) }, CCARENA_RANGE, "weight");
    refused(unsafe { ccarena_set_requirement(flow, 2e6, 1e6, ptr::null_mut()) }, CCARENA_RANGE, "min_bps is out");
    refused(unsafe { ccarena_set_requirement(flow, 0.2, 0.8, ptr::null_mut()) }, CCARENA_RANGE, "in whole bit/s");
    refused(unsafe { ccarena_set_requirement(flow, 1.0, 1e15, ptr::null_mut()) }, CCARENA_RANGE, "max_bps is out");
    refused(unsafe { ccarena_set_weight(flow, 1000.1, ptr::null_mut()) }, CCARENA_RANGE, "at most 1000");
    refused(unsafe { ccarena_on_router_rate(flow, -1.0) }, CCARENA_RANGE, "bps");
    let nothing = AckInfo { acked_packets: 0, ..ack(1001, 6 * MSS) };
    refused(on_ack(flow, &nothing), CCARENA_RANGE, "acked_packets is out of range; expected at least 1");
    let null = unsafe { ccarena_on_ack(flow, ptr::null(), ptr::null_mut()) };
    refused(null, CCARENA_NULL, "the pointer to the event is null or not aligned");
    let unaligned = ptr::without_provenance_mut::<cc_control>(1);
    let wrong = unsafe { ccarena_on_spurious_loss(flow, 1001, unaligned) };
    refused(wrong, CCARENA_NULL, "the pointer to cc_control is null or not aligned");
    assert_eq!(on_ack(flow, &ack(1001, 6 * MSS)), CCARENA_OK, "the flow goes on");
    assert_eq!(free(flow), CCARENA_OK);

    let few = ccarena_facts { reports: CCARENA_EVERY_PACKET, ..facts() };
    let flow = create("cubic", &[], &few).unwrap();
    assert_eq!(unsafe { ccarena_on_packet_acked(flow, 1) }, CCARENA_ORDER);
    assert!(why(flow).contains("did not declare CCARENA_PACKET_NUMBERS"), "{}", why(flow));
    assert_eq!(free(flow), CCARENA_OK);
}

#[test]
fn a_flow_that_cannot_be_created_is_refused_with_the_reason() {
    let refused = |made: common::Made<ccarena_flow>, code: i32, reason: &str| {
        let (found, text) = made.unwrap_err();
        assert_eq!(found, code, "{text}");
        assert!(text.contains(reason), "{text}");
    };
    refused(create("cubik", &[], &facts()), CCARENA_SCHEME, "did you mean \"cubic\"?");
    refused(create("cubic", &[("histart", 0.5)], &facts()), CCARENA_SCHEME, "no parameter \"histart\"");
    refused(create("cubic", &[("hystart", 7.0)], &facts()), CCARENA_SCHEME, "is 7; expected");
    refused(create("acct", &[], &facts()), CCARENA_SCHEME, "give the bytes of a policy artifact instead");
    refused(create("remy", &[], &facts()), CCARENA_SCHEME, "runs a rule file, which this interface does not take");
    refused(create("xcp", &[], &facts()), CCARENA_LACKING, "a header in packets that routers change");
    let none = ccarena_facts { reports: 0, ..facts() };
    refused(create("bbr", &[], &none), CCARENA_LACKING, "a report of each packet that leaves");
    let no_routers = ccarena_facts { reports: REPORTS & !CCARENA_ROUTER_RATES, ..facts() };
    let no_l4s = ccarena_facts { reports: REPORTS & !CCARENA_L4S, ..facts() };
    refused(create("prague", &[], &no_l4s), CCARENA_LACKING, "packets that leave as ECT(1)");
    refused(decided_by("acct", &no_routers), CCARENA_LACKING, "for its signal \"zone\"");
    refused(create("cubic", &[], &ccarena_facts { abi: 9, ..facts() }), CCARENA_RANGE, "ccarena_facts.abi");
    refused(create("cubic", &[], &ccarena_facts { mss_bytes: 0, ..facts() }), CCARENA_RANGE, "mss_bytes");
    refused(create("cubic", &[], &ccarena_facts { reserved: [0, 1, 0, 0], ..facts() }), CCARENA_RANGE, "reserved");
    refused(create("cubic", &[], &ccarena_facts { reports: 1 << 31, ..facts() }), CCARENA_RANGE, "reports");
    for weight in [1000.1, 9_223_372_036_854_775.0, f64::NAN, -1.0] {
        refused(create("wcc-md", &[], &ccarena_facts { weight, ..facts() }), CCARENA_RANGE, "ccarena_facts.weight");
    }
    let text = c"\xff".as_ptr();
    for (scheme, code) in [(text, CCARENA_RANGE), (ptr::null(), CCARENA_NULL)] {
        let mut flow = ptr::null_mut();
        let found = unsafe { ccarena_create(scheme, ptr::null(), 0, &facts(), &mut flow, ptr::null_mut(), 0) };
        assert_eq!((found, flow), (code, ptr::null_mut()));
    }
    let value = ccarena_value { name: text, value: 1.0 };
    let mut flow = ptr::null_mut();
    let found = unsafe { ccarena_create(c"cubic".as_ptr(), &value, 1, &facts(), &mut flow, ptr::null_mut(), 0) };
    assert_eq!(found, CCARENA_RANGE, "a name that is not UTF-8");
    let (code, reason) = read_policy(b"no artifact").unwrap_err();
    assert_eq!(code, CCARENA_ARTIFACT);
    assert!(reason.starts_with("artifact: "), "{reason}");
    let call =
        unsafe { ccarena_create(ptr::null(), ptr::null(), 0, &facts(), &mut ptr::null_mut(), ptr::null_mut(), 0) };
    assert_eq!(call, CCARENA_NULL);
}

#[test]
fn two_threads_at_once_on_a_flow_are_refused_or_served() {
    let flow = create("pilot", &[], &facts()).unwrap() as usize;
    let call = || on_ack(flow as *mut _, &ack(1, 0));
    std::thread::scope(|scope| {
        let calls = || (0..20_000).all(|_| [CCARENA_OK, CCARENA_BUSY].contains(&call()));
        let threads = [scope.spawn(calls), scope.spawn(calls)];
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
    assert_eq!(call(), CCARENA_OK);
    assert_eq!(free(flow as *mut _), CCARENA_OK);
}

/// An event of a host that need not know what it does.
#[derive(Clone, Debug)]
enum Call {
    Ack { after: u64, words: [u64; 6], recovery: u8 },
    Loss { after: u64, lost: u64, flags: u8, timeout: bool },
    Sent { after: u64, number: u64, bytes: u64 },
    Packet { number: u64, lost: bool },
    Timer { after: u64 },
    Time { after: i64, which: u8 },
    Set { value: f64, which: u8 },
}

fn call() -> impl Strategy<Value = Call> {
    let amount = || prop_oneof![4 => 0_u64..3_000_000, 1 => any::<u64>(), 1 => 0_u64..1 << 56];
    let after = || prop_oneof![8 => 0_u64..100_000_000, 1 => any::<u64>()];
    prop_oneof![
        6 => (after(), prop::array::uniform6(amount()), 0_u8..5)
            .prop_map(|(after, words, recovery)| Call::Ack { after, words, recovery }),
        2 => (after(), amount(), 0_u8..16, any::<bool>())
            .prop_map(|(after, lost, flags, timeout)| Call::Loss { after, lost, flags, timeout }),
        6 => (after(), amount(), amount()).prop_map(|(after, number, bytes)| Call::Sent { after, number, bytes }),
        3 => (amount(), any::<bool>()).prop_map(|(number, lost)| Call::Packet { number, lost }),
        3 => after().prop_map(|after| Call::Timer { after }),
        2 => (any::<i64>(), 0_u8..3).prop_map(|(after, which)| Call::Time { after, which }),
        1 => (prop::num::f64::ANY, 0_u8..4).prop_map(|(value, which)| Call::Set { value, which }),
    ]
}

fn apply(flow: *mut ccarena_flow, now: &mut u64, delivered: &mut u64, call: &Call) -> i32 {
    let out = ptr::null_mut();
    let mut later = |after: u64| {
        *now = now.saturating_add(after);
        Time(*now)
    };
    match *call {
        Call::Ack { after, words: [acked, rtt, before, left, rate, interval], recovery } => {
            *delivered = delivered.saturating_add(acked);
            let ack = AckInfo {
                now: later(after),
                acked: Bytes(acked),
                acked_packets: acked as u32,
                rtt: (rtt % 5 > 0).then_some(Dur(rtt)),
                min_rtt: Dur(rtt),
                srtt: Dur(rtt),
                prior_in_flight: Bytes(before),
                in_flight: Bytes(left),
                delivered: Bytes(*delivered),
                rate: Some(RateSample { delivered: Bytes(rate), interval: Dur(interval), ..RateSample::default() }),
                snd_una: *delivered,
                snd_nxt: delivered.saturating_add(left),
                ecn_ce: rate as u32,
                retransmitted: left as u32,
                ..AckInfo::default()
            };
            let mut event = layout::ack(&ack);
            event[132] = recovery;
            on_words(flow, event)
        }
        Call::Loss { after, lost, flags, timeout } => {
            let loss = LossInfo {
                now: later(after),
                lost: Bytes(lost),
                lost_packets: lost as u32,
                new_episode: flags & 1 > 0,
                ecn: flags & 2 > 0,
                delivered: Bytes(*delivered),
                ..LossInfo::default()
            };
            let event = Aligned(layout::loss(&loss));
            let event = event.0.as_ptr().cast();
            if timeout {
                unsafe { ccarena_on_timeout(flow, event, out) }
            } else {
                unsafe { ccarena_on_loss(flow, event, out) }
            }
        }
        Call::Sent { after, number, bytes } => {
            let sent =
                SentInfo { now: later(after), bytes: Bytes(bytes), app_limited: bytes % 7 == 0, ..SentInfo::default() };
            unsafe { ccarena_on_sent(flow, Aligned(layout::sent(&sent)).0.as_ptr().cast(), number, out) }
        }
        Call::Packet { number, lost: false } => unsafe { ccarena_on_packet_acked(flow, number) },
        Call::Packet { number, lost: true } => unsafe { ccarena_on_packet_lost(flow, number) },
        Call::Timer { after } => {
            let due = unsafe { ccarena_next_timer(flow) };
            let at = if after % 2 == 0 { due.max(*now) } else { later(after).0 };
            *now = if at == u64::MAX { *now } else { at };
            unsafe { ccarena_on_timer(flow, at, out) }
        }
        Call::Time { after, which } => {
            let at = now.saturating_add_signed(after >> (after & 63));
            match which {
                0 => unsafe { ccarena_on_spurious_loss(flow, at, out) },
                1 => unsafe { ccarena_on_recovery_end(flow, at, after as u64, out) },
                _ => unsafe { ccarena_on_idle_restart(flow, at, after as u64, at, out) },
            }
        }
        Call::Set { value, which } => match which {
            0 => unsafe { ccarena_set_weight(flow, value, out) },
            1 => unsafe { ccarena_set_requirement(flow, value, value * 2.0, out) },
            2 => unsafe { ccarena_set_desired_rate(flow, value, out) },
            _ => unsafe { ccarena_on_router_rate(flow, value) },
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_sequence_of_calls_leaves_a_flow_that_answers(
        calls in prop::collection::vec(call(), 1..80),
        weight in prop_oneof![0.6..1000.0, Just(1000.0)],
    ) {
        let entrants = ["reno", "cubic", "bbr", "bbr3", "copa", "vivace", "gcc", "ledbat", "pilot", "prague", "illinois",
                        "wcc-ai", "wcc-md", "multcp", "ewtcp"];
        let facts = ccarena_facts { weight, ..facts() };
        let flows = entrants.map(|scheme| (scheme, create(scheme, &[], &facts).unwrap()));
        let policies = ["hyvar", "acct"].map(|policy| (policy, decided_by(policy, &facts).unwrap()));
        for (name, flow) in flows.into_iter().chain(policies) {
            let (mut now, mut delivered) = (0, 0);
            for call in &calls {
                let code = apply(flow, &mut now, &mut delivered, call);
                prop_assert!(code != CCARENA_FAILED, "{name}: {call:?}: {}", why(flow));
                let (window, pace) = unsafe { (ccarena_window(flow), ccarena_pacing_rate(flow)) };
                prop_assert!(window >= MSS, "{name}: {call:?}: window {window}");
                prop_assert!(pace >= 0.0 && pace.is_finite(), "{name}: {call:?}: pacing {pace}");
            }
            prop_assert_eq!(free(flow), CCARENA_OK);
        }
    }
}
