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
    let wire_bytes = sim.wire_bytes();
    for (i, flow) in sim.flows().iter().enumerate() {
        let r = flow.receiver();
        writeln!(
            text,
            "{:?} {} {} {} {:?} {:?}",
            flow.sender.stats,
            wire_bytes[i],
            r.goodput_bytes,
            r.duplicates,
            flow.sender.app.outcome().completion,
            flow.reports
        )
        .unwrap();
    }
    for i in 0..sim.links().len() {
        // The counters have what was lost at random.
        let log = sim.take_log(i).map_or_else(
            || "None".to_owned(),
            |log| format!("Some(PacketLog {{ delivered: {:?}, dropped: {:?} }})", log.delivered, log.dropped),
        );
        writeln!(text, "{:?} {log}", sim.links()[i].stats).unwrap();
    }
    text
}

/// Xorshift64* (Vigna, 2016): the same numbers everywhere.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
}

/// FNV-1a.
pub fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    digest_from(0xcbf2_9ce4_8422_2325, bytes)
}

/// FNV-1a that goes on from `hash`.
pub fn digest_from(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
