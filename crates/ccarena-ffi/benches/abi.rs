//! Cost of an acknowledgement through the C ABI beyond that of the native call: `cargo bench -p ccarena-ffi`.
//!
//! Rounds of both alternate, on the events of a long flow (`ccarena_cc::steady_state`), so that other work on the machine
//! reaches both. Both times include the packet that leaves in answer, and the ABI's include filling in the structs.
#![allow(unsafe_code, reason = "calls the functions as C does")]
#![allow(clippy::expect_used, reason = "a benchmark ends if it cannot measure")]

use std::ffi::CString;
use std::hint::black_box;
use std::ptr;

use ccarena::abi::*;
use ccarena_cc::steady_state::{Event, events};
use ccarena_cc::{Config, Flow, Host, Source, Time};
use ccarena_wasm::abi as layout;

#[path = "../tests/common/mod.rs"]
mod common;
use common::{Aligned, facts};

/// Rounds are so short that most of them run undisturbed, and the fastest of each kind counts.
const ACKS: u64 = 2_000;
const ROUNDS: usize = 1_000;

/// Nanoseconds per acknowledgement of a native flow.
fn native(scheme: &str) -> f64 {
    let mut flow = Flow::build(&Source::Scheme(scheme), &Config::default(), &Host::ALL, Time::ZERO)
        .expect("a host that reports all");
    timed(|event| match event {
        Event::Loss(loss) => flow.on_loss(&loss),
        Event::Ack(ack) => {
            flow.on_ack(black_box(&ack));
            black_box((flow.window(), flow.pacing_rate(), flow.slow_start_threshold(), flow.next_timer()));
        }
        Event::Sent(sent) => flow.on_sent(black_box(&sent)),
    })
}

/// Drives a flow with the same events through the ABI.
fn abi(scheme: &str) -> f64 {
    let name = CString::new(scheme).expect("a name");
    let facts = facts();
    let (mut flow, mut out) = (ptr::null_mut(), Aligned([0; layout::CONTROL_BYTES]));
    // SAFETY: all pointers are to what is above.
    let made = unsafe { ccarena_create(name.as_ptr(), ptr::null(), 0, &facts, &mut flow, ptr::null_mut(), 0) };
    assert_eq!(made, CCARENA_OK);
    let answers: *mut cc_control = out.0.as_mut_ptr().cast();
    let taken = timed(|event| {
        // SAFETY: the flow is not freed yet, and events are aligned as the structs are.
        let code = unsafe {
            match event {
                Event::Loss(loss) => ccarena_on_loss(flow, Aligned(layout::loss(&loss)).0.as_ptr().cast(), answers),
                Event::Ack(ack) => {
                    ccarena_on_ack(flow, black_box(Aligned(layout::ack(&ack))).0.as_ptr().cast(), black_box(answers))
                }
                Event::Sent(sent) => {
                    let event = black_box(Aligned(layout::sent(&sent)));
                    ccarena_on_sent(flow, event.0.as_ptr().cast(), sent.number, ptr::null_mut())
                }
            }
        };
        assert_eq!(code, CCARENA_OK);
    });
    // SAFETY: it is not used any more.
    unsafe { ccarena_free(flow) };
    taken
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures wall-clock time")]
fn timed(on_event: impl FnMut(Event)) -> f64 {
    let start = std::time::Instant::now();
    events(ACKS, on_event);
    start.elapsed().as_nanos() as f64 / ACKS as f64
}

fn main() {
    println!("{:<10} {:>12} {:>12} {:>12}", "scheme", "native, ns", "ABI, ns", "more, ns");
    for scheme in ["fixed", "cubic", "bbr", "pilot"] {
        let (mut first, mut second) = (f64::MAX, f64::MAX);
        for _ in 0..ROUNDS {
            (first, second) = (first.min(native(scheme)), second.min(abi(scheme)));
        }
        println!("{scheme:<10} {first:>12.1} {second:>12.1} {:>12.1}", second - first);
    }
}
