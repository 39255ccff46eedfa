//! Flows whose controllers are WebAssembly modules: what they send, and how they end.
#![allow(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::path::PathBuf;

use ccarena_net::Scenario;
use ccarena_net::result::RunResult;
use ccarena_sim::{Files, Sim};
use serde_json::{Value, json};

/// A module with a window of `window` packets of 1448 bytes, which goes wrong after `acks` acknowledgements.
fn module(name: &str, window: u64, acks: u32, wrong: &str) -> PathBuf {
    let bytes = window * 1448;
    let text = format!(
        r#"(module (memory (export "memory") 1) (global $seen (mut i32) (i32.const 0))
          (data (i32.const 1024) "\01\00\00\00\00\00\00\00\4c\04\00\00")
          (data (i32.const 1100) "try\00")
          (func (export "cc_scratch") (result i32) i32.const 4096)
          (func (export "cc_describe") (result i32) i32.const 1024)
          (func (export "cc_create") (param $config i32) (param $out i32) (result i32)
            (f64.store (local.get $out) (f64.const {bytes})) i32.const 0)
          (func (export "cc_on_ack") (param $cc i32) (param $ack i32) (param $out i32)
            (global.set $seen (i32.add (global.get $seen) (i32.const 1)))
            (if (i32.gt_u (global.get $seen) (i32.const {acks})) (then {wrong}))))"#
    );
    let path = std::env::temp_dir().join(format!("ccarena-{}-{name}.wasm", std::process::id()));
    std::fs::write(&path, wat::parse_str(text).unwrap()).unwrap();
    path
}

fn run(flows: &[Value]) -> RunResult {
    let link = json!({"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 20,
        "queue": {"type": "droptail", "packets": 30}});
    let document = json!({"duration_s": 4, "links": [link], "flows": flows});
    let scenario = Scenario::parse(&document.to_string()).unwrap();
    let mut sim = Sim::new(&scenario, &Files::default(), false).unwrap();
    sim.run_until(ccarena_cc::Time(scenario.duration.0));
    sim.take_result(&scenario)
}

fn flow(module: &std::path::Path) -> Value {
    json!({"scheme": "mine", "controller": {"type": "wasm", "module": module}})
}

fn counts(result: &RunResult, flow: usize) -> (u64, u64, u64, u64) {
    let flow = &result.flows[flow];
    (flow.sent_packets, flow.lost_packets, flow.delivered_bytes, flow.timeouts)
}

#[test]
fn a_module_sends_as_a_scheme_with_the_same_window() {
    let mine = module("fixed", 20, u32::MAX, "");
    let (theirs, ours) = (run(&[json!({"scheme": "fixed", "params": {"window": 20}})]), run(&[flow(&mine)]));
    std::fs::remove_file(mine).unwrap();
    assert_eq!(counts(&ours, 0), counts(&theirs, 0));
    assert!(ours.flows[0].error.is_none());
}

#[test]
fn a_module_that_goes_wrong_ends_its_flow_and_touches_nothing_else() {
    let other = json!({"scheme": "cubic"});
    for (name, wrong, said) in [
        ("trap", "unreachable", "cc_on_ack: trap: "),
        ("loop", "(loop $again (br $again))", "cc_on_ack: more than 1000000 instructions in one call"),
        ("nan", "(f64.store (local.get $out) (f64.const nan))", "cc_on_ack: window_bytes = NaN"),
    ] {
        // The queue overflows before, so that the flow ends while it repairs losses.
        let mine = module(name, 60, 70, wrong);
        let result = run(&[flow(&mine), other.clone()]);
        let error = result.flows[0].error.clone().unwrap();
        assert!(error.starts_with(&format!("flows[0] (mine): {said}")), "{error}");
        assert_eq!(result.flows[1].error, None);
        let at: f64 = error.rsplit_once(", at ").unwrap().1.strip_suffix(" s").unwrap().parse().unwrap();
        assert!(0.05 < at && at < 1.0, "{error}");

        // A flow that stops at this time leaves the same to the other.
        let mut stops = flow(&module(name, 60, u32::MAX, ""));
        stops["stop_s"] = json!(at);
        let expected = run(&[stops, other.clone()]);
        assert_eq!(counts(&result, 1), counts(&expected, 1));
        assert_eq!(result.flows[0].sent_packets, expected.flows[0].sent_packets);
        std::fs::remove_file(mine).unwrap();
    }
}

#[test]
fn a_module_that_cannot_begin_sends_nothing() {
    // Its first window is more than any.
    let mine = module("begin", 1 << 31, 0, "");
    let result = run(&[flow(&mine), json!({"scheme": "cubic"})]);
    std::fs::remove_file(mine).unwrap();
    let error = result.flows[0].error.clone().unwrap();
    assert!(error.contains("cc_create: window_bytes = ") && error.ends_with(", before the flow's start"), "{error}");
    assert_eq!(counts(&result, 0), (0, 0, 0, 0));
    assert_eq!(counts(&result, 1), counts(&run(&[json!({"scheme": "cubic"})]), 0));
}

#[test]
fn a_module_that_is_refused_refuses_the_scenario() {
    let document = json!({"links": [{"service": {"type": "constant", "rate_mbps": 12}}],
        "flows": [flow(std::path::Path::new("absent.wasm"))]});
    let scenario = Scenario::parse(&document.to_string()).unwrap();
    let error = Sim::new(&scenario, &Files::default(), false).map(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("flows[0].controller: cannot read absent.wasm: "), "{error}");
    let bad =
        json!({"links": document["links"], "flows": [{"scheme": "x", "controller": {"type": "wasm", "class": "x"}}]});
    let error = Scenario::parse(&bad.to_string()).unwrap_err().to_string();
    assert!(error.starts_with("flows[0].controller"), "{error}");
}
