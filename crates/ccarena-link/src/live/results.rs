//! Facts that every run over the emulator reports.

use std::fs;

use ccarena_cc::{Dur, Interface};
use ccarena_net::Scenario;
use ccarena_net::result::{LatenessResult, MachineResult};
use serde_json::{Value, json};

use crate::{Lateness, Outcome};

/// Returns the content of [`Frames::start`](super::Frames::start): for each flow of `scenario` the name of its
/// congestion control and, if it is learned, its observation and actions.
#[must_use]
pub fn started<'a>(
    scenario: &Scenario,
    flows: impl IntoIterator<Item = (&'a str, Option<&'a Interface>)>,
    zero_ns: u64,
) -> Value {
    let flow = |(flow, (control, learned)): (&ccarena_net::scenario::Flow, (&str, Option<&Interface>))| {
        let learned = learned.map(|interface| {
            json!({
                "observation": interface.digest,
                "observation_len": interface.observation_len,
                "observation_entries": interface.labels(),
                "actions": interface.actions,
                "bounds": bounds(interface),
                "report": interface.report,
            })
        });
        json!({"name": flow.name, "scheme": flow.scheme, "congestion_control": control, "learned": learned})
    };
    let flows: Vec<Value> = scenario.flows.iter().zip(flows).map(flow).collect();
    json!({"flows": flows, "zero_ns": zero_ns})
}

/// Bounds of an action: a pair, or one for each number of a continuous action.
fn bounds(interface: &Interface) -> Value {
    match interface.bounds[..] {
        [(low, high)] => json!([low, high]),
        _ => interface.bounds.iter().map(|(low, high)| json!([low, high])).collect(),
    }
}

/// The emulator's part of a run's result: the run is valid if packets were late by no more than `bound` (p99) and devices
/// dropped none, of which there were `overruns`.
#[must_use]
pub fn machine(outcome: &Outcome, bound: Dur, overruns: u64) -> MachineResult {
    let lateness = outcome.lateness.judged(bound);
    MachineResult {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().into(),
        valid: lateness.valid && overruns == 0,
        lateness: record(&lateness),
        emulator_cpu_s: outcome.counts.cpu.as_secs_f64(),
        emulator_packets: outcome.counts.written,
        emulator_refused_packets: outcome.counts.refused,
        emulator_overrun_packets: overruns,
        bridge: None,
    }
}

fn record(lateness: &Lateness) -> LatenessResult {
    LatenessResult {
        count: lateness.count,
        p50_ms: lateness.p50.as_millis_f64(),
        p99_ms: lateness.p99.as_millis_f64(),
        max_ms: lateness.max.as_millis_f64(),
        bound_ms: lateness.bound.as_millis_f64(),
    }
}
