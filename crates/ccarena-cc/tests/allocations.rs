//! A flow allocates nothing per event: a counting allocator watches the thread that drives it.
#![allow(unsafe_code, reason = "a global allocator is unsafe to implement")]
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ccarena_cc::steady_state::{self, Event, WINDOW};
use ccarena_cc::{Config, Dur, Flow, Host, LossInfo, Source, Time, all_schemes};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Acknowledgements until a flow has settled.
const SETTLES: u64 = 30_000;

/// Calls of a flow after it has settled.
#[derive(Default)]
struct Settled {
    allocations: u64,
    timers: u64,
}

/// Runs a flow, and counts from acknowledgement `after` on.
fn drive(source: &Source<'_>, after: u64) -> Settled {
    let mut flow = Flow::build(source, &Config::default(), &Host::ALL, Time::ZERO).unwrap();
    let (mut acks, mut sent_to, mut before, mut timers) = (0, 0_u64, 0, 0);
    steady_state::events(SETTLES + after, |event| match event {
        Event::Loss(loss) => {
            flow.on_packet_lost(sent_to.saturating_sub(WINDOW));
            flow.on_loss(&loss);
        }
        Event::Ack(ack) => {
            acks += 1;
            if acks == after {
                (before, timers) = (ALLOCATIONS.get(), 0);
            }
            flow.on_packet_acked(sent_to.saturating_sub(WINDOW - 1));
            flow.on_ack(&ack);
            timers += u64::from(flow.on_timer(ack.now));
            // Events that are rare in a settled flow, each once in a while.
            match acks % 5000 {
                1000 => flow.on_spurious_loss(ack.now),
                2000 => flow.on_recovery_end(ack.now, ack.in_flight),
                3000 => flow.on_idle_restart(ack.now, Dur::from_millis(500), Dur::from_millis(200)),
                4000 => flow.on_timeout(&LossInfo {
                    now: ack.now,
                    lost: ack.in_flight,
                    lost_packets: WINDOW as u32,
                    new_episode: true,
                    delivered: ack.delivered,
                    ..LossInfo::default()
                }),
                _ => {}
            }
        }
        Event::Sent(sent) => {
            sent_to = sent.number;
            flow.on_sent(&sent);
        }
    });
    Settled { allocations: ALLOCATIONS.get() - before, timers }
}

#[test]
fn no_event_of_a_settled_flow_allocates() {
    drop(vec![0_u8; 100]);
    assert!(ALLOCATIONS.get() > 0, "the allocator counts");
    let mut with_timers = Vec::new();
    for scheme in all_schemes().iter().filter(|scheme| !scheme.learned && !scheme.rules) {
        let settled = drive(&Source::Scheme(scheme.name), SETTLES);
        assert_eq!(settled.allocations, 0, "{}", scheme.name);
        with_timers.extend((settled.timers > 100).then_some(scheme.name));
    }
    assert_eq!(with_timers, ["pilot"], "schemes whose timer runs again and again");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ccarena");
    for (scheme, policy) in [("acct", "acct"), ("acct", "acct-signals"), ("acct", "acct-table"), ("hyvar", "hyvar")] {
        let bytes = std::fs::read(format!("{root}/{scheme}/policies/{policy}.safetensors")).unwrap();
        assert_eq!(drive(&Source::Artifact(&bytes), 1).allocations, 0, "{policy}");
    }
}
