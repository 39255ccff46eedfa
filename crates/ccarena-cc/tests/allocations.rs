//! A flow allocates nothing per event: a counting allocator watches the thread that drives it.
#![allow(unsafe_code, reason = "a global allocator is unsafe to implement")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ccarena_cc::steady_state::{self, Event, WINDOW};
use ccarena_cc::{Config, Flow, Host, Source, Time, all_schemes};

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

fn drive(flow: &mut Flow, acks: u64) {
    let mut sent_to = 0_u64;
    steady_state::events(acks, |event| match event {
        Event::Loss(loss) => flow.on_loss(&loss),
        Event::Ack(ack) => {
            flow.on_packet_acked(sent_to.saturating_sub(WINDOW));
            flow.on_ack(&ack);
            flow.on_timer(ack.now);
        }
        Event::Sent(sent) => {
            sent_to = sent.number;
            flow.on_sent(&sent);
        }
    });
}

/// Allocations of the events of a flow, after the first `before` acknowledgements.
fn allocations(source: &Source<'_>, before: u64) -> Result<u64, String> {
    let mut flow =
        Flow::build(source, &Config::default(), &Host::ALL, Time::ZERO).map_err(|refused| refused.to_string())?;
    drive(&mut flow, before);
    let so_far = ALLOCATIONS.get();
    drive(&mut flow, 30_000);
    Ok(ALLOCATIONS.get() - so_far)
}

#[test]
fn no_event_of_a_settled_flow_allocates() {
    drop(vec![0_u8; 100]);
    assert!(ALLOCATIONS.get() > 0, "the allocator counts");
    for scheme in all_schemes().iter().filter(|scheme| !scheme.learned && !scheme.rules) {
        assert_eq!(allocations(&Source::Scheme(scheme.name), 30_000), Ok(0), "{}", scheme.name);
    }
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ccarena");
    for (scheme, policy) in [("acct", "acct"), ("acct", "acct-signals"), ("acct", "acct-table"), ("hyvar", "hyvar")] {
        let bytes = std::fs::read(format!("{root}/{scheme}/policies/{policy}.safetensors")).unwrap();
        assert_eq!(allocations(&Source::Artifact(&bytes), 0), Ok(0), "{policy}");
    }
}
