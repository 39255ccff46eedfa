//! Golden runs of the learned schemes in the simulator, under pseudo-random actions: every observation, report and packet.
//!
//! `CCARENA_WRITE_GOLDEN=1 cargo test -p ccarena-sim --test golden_learned` records them anew.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use ccarena_cc::{Action, Time};
use ccarena_net::Scenario;
use ccarena_sim::{Files, Sim, Stop};
use common::{digest_from, next};
use serde_json::{Value, json};

/// Scheme, its parameters: the defaults, the shipped configurations' and the suites' ablations.
fn schemes() -> Vec<Value> {
    vec![
        json!({"scheme": "acct"}),
        json!({"scheme": "acct", "params": {
            "reduce_at": 1, "slack": 0, "jitter_slack": 0, "pacing_gain": 0, "min_window": 1}}),
        json!({"scheme": "hyvar"}),
        json!({"scheme": "hyvar", "params": {"alpha": 1.1, "max_action": 1, "mtp_ms": 50, "mtp_min_ms": 50}}),
        json!({"scheme": "hyvar", "params": {"case3_as_printed": 1}}),
        json!({"scheme": "hyvar", "params": {"learn_1": 1, "learn_2": 1}}),
        json!({"scheme": "orca", "params": {"max_action": 1}}),
        json!({"scheme": "orca", "params": {"mtp_ms": 100, "pacing_gain": 1.25, "hystart": 0}}),
        json!({"scheme": "aurora"}),
        json!({"scheme": "aurora", "params": {"delta": 0.1, "interval_rtts": 0.5, "window_rtts": 1}}),
    ]
}

/// Links, what the learned flow is besides its scheme, and who else sends.
fn paths() -> Vec<(&'static str, Value, Value, Value)> {
    let constant = |mbps: f64| json!({"type": "constant", "rate_mbps": mbps});
    let bdp = json!({"type": "droptail", "bdp": 1.5});
    let cellular = json!({"type": "cellular", "preset": "lte-driving", "seed": 7});
    let steps = json!({"type": "steps", "steps": [
        {"at_s": 0, "rate_mbps": 24}, {"at_s": 1.5, "rate_mbps": 4}, {"at_s": 3, "rate_mbps": 48}]});
    let link = |service: &Value, queue: &Value| json!({"service": service, "queue": queue, "delay_ms": 15});
    let mut lossy = link(&constant(20.0), &bdp);
    lossy["loss"] = json!(0.01);
    let mut outage = link(&constant(12.0), &json!({"type": "infinite"}));
    outage["outages"] = json!({"on_s": 1.2, "off_s": 0.4});
    let mut signalled = link(&cellular, &json!({"type": "infinite"}));
    signalled["router"] = json!(true);
    let mut stepped = link(&steps, &bdp);
    stepped["router"] = json!(true);
    let (plain, none) = (json!({}), json!([]));
    vec![
        ("constant", json!([link(&constant(20.0), &bdp)]), plain.clone(), none.clone()),
        ("steps, router", json!([stepped]), plain.clone(), none.clone()),
        ("cellular, router", json!([signalled]), plain.clone(), none.clone()),
        (
            "cellular",
            json!([link(&cellular, &json!({"type": "droptail", "packets": 60}))]),
            plain.clone(),
            none.clone(),
        ),
        ("random loss", json!([lossy]), plain.clone(), none.clone()),
        ("outages", json!([outage]), plain.clone(), none.clone()),
        (
            "cross traffic",
            json!([link(&constant(20.0), &bdp)]),
            plain.clone(),
            json!([{"scheme": "cubic", "start_s": 1},
                {"scheme": "reno", "app": {"type": "onoff", "rate_mbps": 4, "on_s": 0.7, "off_s": 0.5}}]),
        ),
        (
            "no delayed ACKs, cumulative",
            json!([link(&constant(8.0), &bdp)]),
            json!({"delayed_ack": false, "sack": false, "slow_start": false, "initial_window": 20}),
            none.clone(),
        ),
        (
            "changing wishes, idle times",
            json!([link(&constant(30.0), &json!({"type": "red", "packets": 200}))]),
            json!({"desired_mbps": [{"at_s": 0, "mbps": 10}, {"at_s": 2, "mbps": 3}, {"at_s": 3, "mbps": 100}], "ecn": true,
                "app": {"type": "onoff", "rate_mbps": 15, "on_s": 0.4, "off_s": 0.6}, "mss_bytes": 1000}),
            none,
        ),
    ]
}

fn of_floats(hash: u64, values: &[f32]) -> u64 {
    digest_from(hash, values.iter().flat_map(|x| x.to_bits().to_le_bytes()))
}

fn act(sim: &mut Sim, flow: usize, numbers: &mut u64) {
    let interface = sim.interface(flow).unwrap();
    let (actions, (low, high)) = (interface.actions.len() as u64, interface.bounds[0]);
    let action = match actions {
        0 => Action::Continuous((low + (high - low) * (next(numbers) % 1001) as f32 / 1000.0).into()),
        n => Action::Discrete((next(numbers) % n) as u32),
    };
    sim.act(flow, action).unwrap();
}

/// A run with a packet log, which changes nothing else.
fn run(document: &Value, seed: u64) -> Value {
    let logged = run_as_it_is(document, seed);
    let plain = run_as_it_is(&merged(document.clone(), &json!({"record": {"reports": true}})), seed);
    for key in ["seen", "goodput_bytes", "last_report"] {
        assert_eq!(logged[key], plain[key], "{key} without a packet log: {document}");
    }
    logged
}

fn run_as_it_is(document: &Value, seed: u64) -> Value {
    let scenario = Scenario::from_json(document).unwrap();
    let mut sim = Sim::new(&scenario, &Files::default(), true).unwrap();
    let (mut hash, mut numbers, mut decisions) = (0xcbf2_9ce4_8422_2325, seed, 0);
    let (mut observation, mut report) = (Vec::new(), Vec::new());
    for flow in sim.learners() {
        observation.resize(sim.interface(flow).unwrap().observation_len, 0.0);
        report.resize(sim.interface(flow).unwrap().report.len(), 0.0);
        act(&mut sim, flow, &mut numbers);
    }
    let end = Time(scenario.duration.0);
    while let Stop::Decision(flow) = sim.run_until(end) {
        decisions += 1;
        sim.observe(flow, &mut observation);
        sim.report(flow, &mut report);
        hash = of_floats(of_floats(hash, &observation), &report);
        act(&mut sim, flow, &mut numbers);
    }
    for flow in sim.learners() {
        sim.end_interval(flow);
        sim.observe(flow, &mut observation);
        sim.report(flow, &mut report);
        hash = of_floats(of_floats(hash, &observation), &report);
    }
    let last: Vec<f64> = report.iter().map(|x| (f64::from(*x) * 1e3).round() / 1e3).collect();
    let goodput: Vec<u64> = sim.flows().iter().map(|f| f.receiver().goodput_bytes).collect();
    let packets = digest_from(hash, common::fingerprint(sim).into_bytes());
    json!({
        "decisions": decisions, "seen": format!("{hash:016x}"), "packets": format!("{packets:016x}"),
        "goodput_bytes": goodput, "last_report": last,
    })
}

fn merged(mut base: Value, with: &Value) -> Value {
    for (key, value) in with.as_object().unwrap() {
        base[key] = value.clone();
    }
    base
}

#[test]
fn learned_schemes_run_as_recorded() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden_learned.json");
    let mut found = BTreeMap::new();
    let learners = |flows: Vec<Value>, links: &Value| json!({"duration_s": 5, "seed": 3, "links": links, "flows": flows, "record": {"packets": true, "reports": true}});
    for scheme in schemes() {
        for (index, (name, links, flow, others)) in paths().into_iter().enumerate() {
            let flows: Vec<Value> =
                [merged(flow, &scheme)].into_iter().chain(others.as_array().unwrap().clone()).collect();
            found.insert(format!("{scheme} {name}"), run(&learners(flows, &links), 17 + index as u64));
        }
        let links = json!([{"service": {"type": "constant", "rate_mbps": 20}, "delay_ms": 10, "router": true}]);
        let two = vec![scheme.clone(), merged(json!({"start_s": 1.5}), &scheme)];
        found.insert(format!("{scheme} two learners"), run(&learners(two, &links), 99));
        let constant = merged(json!({"policy": {"constant": 1}}), &scheme);
        found.insert(format!("{scheme} constant action"), run(&learners(vec![constant], &links), 1));
    }
    if std::env::var_os("CCARENA_WRITE_GOLDEN").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
    }
    let golden: BTreeMap<String, Value> = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>());
    for (name, run) in &found {
        assert_eq!(run, &golden[name], "{name}");
    }
}
