//! What the tests of the simulator share.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]
#![allow(dead_code, reason = "each test file uses its part")]

use std::fmt::Write;

use ccarena_cc::Time;
use ccarena_net::Scenario;
use ccarena_sim::{Files, Sim};
use serde_json::Value;

/// The simulation of a document, before it runs.
pub fn build(document: &Value) -> (Scenario, Sim) {
    let scenario = Scenario::from_json(document).unwrap();
    let sim = Sim::new(&scenario, &Files::default(), false).unwrap();
    (scenario, sim)
}

/// Runs to the end of the scenario, in slices of `slice_ns`.
pub fn run(document: &Value, slice_ns: u64) -> Sim {
    let (scenario, mut sim) = build(document);
    let end = scenario.duration.0;
    let mut at = 0;
    while at < end {
        at = end.min(at.saturating_add(slice_ns));
        sim.run_until(Time(at));
    }
    sim
}

/// Everything that a run says about itself, as text.
pub fn fingerprint(mut sim: Sim) -> String {
    let mut text = String::new();
    for flow in sim.flows() {
        let r = &flow.receiver;
        writeln!(
            text,
            "{:?} {} {} {} {} {:?} {:?}",
            flow.sender.stats,
            flow.wire_bytes,
            r.goodput_bytes,
            r.duplicates,
            r.next(),
            flow.sender.app.completion,
            flow.reports
        )
        .unwrap();
    }
    for i in 0..sim.links().len() {
        let log = sim.take_log(i);
        writeln!(text, "{:?} {:?}", sim.links()[i].stats, log).unwrap();
    }
    text
}
