//! A run that is changed as it goes on is, packet by packet, the run of the scenario that has the changes as steps.

use ccarena_cc::types::Rate;
use ccarena_net::scenario::LinkChange;
use ccarena_net::{Scenario, trace};
use proptest::option;
use proptest::prelude::*;

use super::tests::{number, packet};
use super::*;

/// Time from the event before, and what happens then.
#[derive(Clone, Debug)]
enum Event {
    Send(u64, usize),
    Change(u64, LinkChange),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let values = (option::of(0_u64..30), option::of(0_u64..40), option::of(0.0_f64..0.5));
    let change = (0_u64..20_000, values).prop_map(|(gap, (mbps, ms, loss))| {
        let (rate, delay) = (mbps.map(|mbps| Rate(mbps * 1_000_000)), ms.map(Dur::from_millis));
        Event::Change(gap, LinkChange { rate, delay, loss })
    });
    let send = (0_u64..2_000, 40_usize..1500).prop_map(|(gap, bytes)| Event::Send(gap, bytes));
    prop::collection::vec(prop_oneof![1 => change, 20 => send], 1..200)
}

/// Sends the packets and, if `live`, changes the link of `scenario` in which they are recorded. Returns what came out when.
fn run(scenario: &mut Scenario, events: &[Event], live: bool) -> Vec<(usize, Time)> {
    let link = Link::of(scenario, 0, &trace::load).unwrap();
    let route = Route { delay: Dur::ZERO, path: vec![0] };
    let (mut fabric, mut now, mut out) = (Fabric::new(vec![link], vec![route], None), Time::ZERO, Vec::new());
    for (i, event) in events.iter().enumerate() {
        let (Event::Send(gap, _) | Event::Change(gap, _)) = event;
        // At the latest of one nanosecond, a change comes before what is next.
        now = now + Dur::from_micros(*gap) + Dur(1);
        fabric.advance(now, |p, due| out.push((number(&p), due)));
        match event {
            Event::Send(_, bytes) => fabric.send(packet(i, *bytes), 0, now),
            Event::Change(_, change) if live => {
                now = now + Dur(1);
                fabric.links[0].change(now, change);
                scenario.change(0, now, change);
            }
            Event::Change(..) => now = now + Dur(1),
        }
    }
    fabric.advance(now + Dur::from_millis(600_000), |p, due| out.push((number(&p), due)));
    out
}

proptest! {
    #[test]
    fn a_changed_run_is_the_run_of_its_scenario(
        events in events(), queue in prop::sample::select(vec!["droptail", "codel"]), jitter in 0..2,
    ) {
        let document = format!(
            r#"{{"links": [{{"service": {{"type": "constant", "rate_mbps": 12}}, "queue": {{"type": "{queue}", "packets": 9}},
                "delay_ms": 5, "jitter_ms": {jitter}}}], "flows": [{{"scheme": "cubic"}}]}}"#
        );
        let mut scenario = Scenario::parse(&document).unwrap();
        scenario.make_changeable().unwrap();
        let live = run(&mut scenario, &events, true);
        let mut written = Scenario::from_json(&scenario.to_json()).unwrap();
        prop_assert_eq!(live, run(&mut written, &events, false));
    }
}
