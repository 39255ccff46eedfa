use std::collections::BTreeMap;

use super::*;
use crate::queues::Limit;
use crate::routers::Kind;
use serde_json::json;

fn minimal() -> Value {
    json!({
        "links": [{"service": {"type": "constant", "rate_mbps": 48}}],
        "flows": [{"scheme": "cubic"}],
    })
}

/// A document that uses every field.
fn full() -> Value {
    json!({
        "version": 1, "duration_s": 12.5, "seed": 7,
        "links": [
            {"name": "a", "service": {"type": "constant", "rate_mbps": 48.5}, "queue": {"type": "droptail", "packets": 100},
             "delay_ms": 12.25, "jitter_ms": 0.5, "loss": 0.01, "duplicate": 0.02, "policer": {"rate_mbps": 9, "burst_bytes": 9000, "action": "mark"},
             "reorder": {"probability": 0.1, "late_ms": 3, "correlation": 0.2}, "corrupt": {"probability": 0.01}, "router": {"idle_ms": 100, "headroom": 0.9, "mode": "equal"}},
            {"name": "b", "service": {"type": "steps", "steps": [{"at_s": 0, "rate_mbps": 5}, {"at_s": 1.5, "rate_mbps": 0}]},
             "queue": {"type": "droptail", "bytes": 30000}, "router": true, "loss": {"type": "gilbert_elliott", "p": 0.01, "r": 0.3}},
            {"name": "c", "service": {"type": "random_steps", "min_mbps": 5, "max_mbps": 100, "period_s": 4},
             "delay_ms": {"steps": [{"at_s": 0, "delay_ms": 10}, {"at_s": 1.5, "delay_ms": 30}], "keep_order": false},
             "queue": {"type": "infinite"}, "router": false, "loss": {"type": "slots", "slot_ms": 5, "probability": 0.1}},
            {"name": "d", "service": {"type": "trace", "file": "x.down", "offset_ms": 10}},
            {"service": {"type": "cellular", "preset": crate::cellular::PRESETS[0].name, "seed": 3}, "queue": {"type": "droptail", "bdp": 0.5}},
            {"name": "w", "service": {"type": "wifi", "rate_mbps": 144, "packets": 20, "retry": 0.2}, "shaper": {"rate_mbps": 50, "burst_bytes": 30000, "peak_mbps": 80}},
            {"name": "g", "service": {"type": "grants", "rate": {"type": "random_steps", "min_mbps": 5, "max_mbps": 20, "period_s": 2}, "slot_ms": 2}, "shaper": {"rate_mbps": 50, "burst_bytes": 30000}},
            {"conditions": {"file": "x.csv", "offset_ms": "random", "keep_order": false}, "delay_ms": 7},
            {"conditions": {"file": "y.csv", "offset_ms": 30}, "service": {"type": "constant", "rate_mbps": 1},
             "loss": {"type": "steps", "steps": [{"at_s": 0, "loss": 0.5}, {"at_s": 2, "loss": 0}]}},
        ],
        "flows": [
            {"name": "f", "scheme": "cubic", "params": {}, "start_s": 1, "stop_s": 5, "path": ["c", "a"],
             "return_path": ["b"], "base_rtt_ms": 80, "app": {"type": "cbr", "rate_mbps": 2}, "weight": 2, "changes": [{"at_s": 1, "weight": 3}, {"at_s": 2, "requirement": {"min_mbps": 3, "max_mbps": 4}}],
             "requirement": {"min_mbps": 1, "max_mbps": 2}, "desired_mbps": [{"at_s": 0, "mbps": 5}, {"at_s": 1, "mbps": 9}],
             "sack": false, "slow_start": false, "delayed_ack": false, "initial_window": 4, "receive_window_packets": 40, "mss_bytes": 1200,
             "header_bytes": 40, "ack_bytes": 40, "count": 3},
            {"scheme": "acct", "policy": {"constant": 3}, "ack_policy": {"type": "quic", "packets": 4, "rtt_fraction": 0.5}, "min_rto_ms": 1000, "app": {"type": "onoff", "rate_mbps": 1, "on_s": 2, "off_s": 1}},
            {"scheme": "acct", "policy": {"integer": "a.safetensors"}, "burst_bytes": 65536, "app": {"type": "transfers", "sizes_bytes": [1, 2000], "gap_s": 1}},
            {"scheme": "remy", "rules": "rules.json"},
        ],
        "record": {"packets": true, "reports": true, "bin_ms": 50},
    })
}

#[test]
fn a_minimal_document_has_the_defaults() {
    let s = Scenario::from_json(&minimal()).unwrap();
    let flow = &s.flows[0];
    assert_eq!(s.links, [Link::default()]);
    assert_eq!(s.duration, Dur::from_millis(30_000));
    assert_eq!(s.base_rtt(flow), Dur::from_millis(20));
    assert_eq!(s.return_delay(flow), Dur::from_millis(10));
    assert_eq!(s.bdp_bytes(0, Rate::from_mbps(48.0)), 120_000);
    let filled = Flow { params: flow.params.clone(), base_rtt: flow.base_rtt, ..Flow::default() };
    assert_eq!(*flow, filled);
    assert_eq!(Scenario::default().base_rtt(&Flow::default()), Dur::from_millis(20));
}

#[test]
fn a_full_document_is_read() {
    let s = Scenario::from_json(&full()).unwrap();
    let names: Vec<&str> = s.flows.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["f-0", "f-1", "f-2", "flow1", "flow2", "flow3"]);
    let f = &s.flows[1];
    assert_eq!((f.path.as_slice(), f.return_path.as_slice()), ([2, 0].as_slice(), [1].as_slice()));
    assert_eq!(s.return_delay(f), Dur(80_000_000 - 10_000_000 - 12_250_000 - 10_000_000));
    assert_eq!(s.links[4].queue, QueueSpec::droptail(Limit::Bdp(0.5)));
    let given = [("idle_ms", 100.0), ("headroom", 0.9)].into();
    assert_eq!(s.links[0].router, Some(RouterSpec::new(Kind::AcctRouter, &given)));
    assert_eq!(s.links[1].router, Some(RouterSpec::default()));
    assert_eq!(f.desired[1], (Time(1_000_000_000), Rate::from_mbps(9.0)));
    assert_eq!(s.flows[3].policy, Some(PolicySpec::Constant(vec![3.0])));
    let quic = QuicAcks { packets: 4, rtt_fraction: 0.5, ..QuicAcks::default() };
    assert_eq!((s.flows[3].ack_policy, s.flows[3].min_rto), (AckPolicy::Quic(quic), Dur::from_millis(1000)));
    assert_eq!(s.flows[5].policy, Some(PolicySpec::Rules("rules.json".into())));
    assert_eq!((s.flows[4].burst_bytes, s.flows[4].min_rto), (Some(65_536), Dur::from_millis(200)));
    assert_eq!(s.bdp_bytes(1, Rate::from_mbps(8.0)), 178_500, "the longest of 80 and 2 x 89.25 ms");
}

#[test]
fn the_normalised_document_reads_back_equal() {
    for document in [minimal(), full()] {
        let s = Scenario::from_json(&document).unwrap();
        let normal = s.to_json();
        let again = Scenario::from_json(&normal).unwrap();
        assert_eq!(again, s);
        assert_eq!(again.to_json(), normal);
        assert_eq!(Scenario::parse(&normal.to_string()).unwrap(), s);
    }
    assert_eq!(Scenario::from_json(&Scenario::default().to_json()).unwrap().to_json(), {
        Scenario::from_json(&minimal()).unwrap().to_json()
    });
}

/// The error after `value` has been put at `pointer` (RFC 6901), whose last part may be new.
fn error(pointer: &str, value: Value) -> String {
    let mut document = minimal();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    match document.pointer_mut(parent).unwrap() {
        Value::Object(map) => drop(map.insert(key.into(), value)),
        Value::Array(list) => match key.parse::<usize>().unwrap() {
            i if i < list.len() => list[i] = value,
            _ => list.push(value),
        },
        other => panic!("{other} has no fields"),
    }
    Scenario::from_json(&document).unwrap_err().to_string()
}

#[test]
fn a_policy_is_inferred_in_integers_where_that_is_said() {
    let given = |policy: Value| {
        let flow = json!({"scheme": "acct", "policy": policy});
        error("/flows/0", flow).split_once("policy").unwrap().1.to_string()
    };
    assert_eq!(given(json!({"integer": 3})), ".integer: got 3; expected the path of a policy artifact");
    let both = given(json!({"integer": "a", "constant": 1}));
    assert!(both.ends_with("expected one of `integer`, `constant` and `by`"), "{both}");
}

#[test]
fn only_a_trained_policy_completes_parameters_by_itself() {
    let params = |policy: Value| {
        let mut document = minimal();
        document["flows"] = json!([{"scheme": "acct", "params": {"budget_ms": 7}, "policy": policy}]);
        Scenario::from_json(&document).unwrap().flows[0].params.clone()
    };
    let given: BTreeMap<String, f64> = [("budget_ms".to_string(), 7.0)].into();
    assert_eq!(params(json!("a.safetensors")), given);
    assert_eq!(params(json!({"integer": "a.safetensors"})), given);
    for policy in [json!(null), json!("none"), json!({"constant": 3})] {
        let params = params(policy);
        assert!(params.len() > 1 && params.get("budget_ms") == given.get("budget_ms"), "{params:?}");
    }
}

#[test]
fn slips_get_the_nearest_name() {
    let cases = [
        ("/flows/0/scheme", json!("cubik"), r#"flows[0].scheme: unknown scheme "cubik"; did you mean "cubic"?"#),
        ("/flws", json!([]), r#"flws: unknown field "flws"; did you mean "flows"?"#),
        ("/links/0/delay_s", json!(1), r#"links[0].delay_s: unknown field "delay_s"; did you mean "delay_ms"?"#),
        ("/flows/0/path", json!(["link1"]), r#"flows[0].path[0]: unknown link "link1"; did you mean "link0"?"#),
        (
            "/flows/0/return_path",
            json!(["xyz"]),
            r#"flows[0].return_path[0]: unknown link "xyz"; expected one of link0"#,
        ),
        (
            "/links/0/service/type",
            json!("constnat"),
            r#"links[0].service.type: unknown service "constnat"; did you mean "constant"?"#,
        ),
        (
            "/links/0/service/rate",
            json!(3),
            r#"links[0].service.rate: unknown field "rate"; did you mean "rate_mbps"?"#,
        ),
        (
            "/links/0/queue",
            json!({"type": "droptial", "packets": 5}),
            r#"links[0].queue.type: unknown queue discipline "droptial"; did you mean "droptail"?"#,
        ),
        (
            "/links/0/queue",
            json!({"type": "infinite", "packets": 5}),
            r#"links[0].queue.packets: unknown field "packets"; expected one of type"#,
        ),
        ("/flows/0/params", json!({"betta": 1}), r#"flows[0].params.betta: unknown field "betta""#),
    ];
    for (pointer, value, expected) in cases {
        let got = error(pointer, value);
        assert!(got.starts_with(expected), "{got}\nis not\n{expected}");
    }
}

#[test]
fn impossible_values_are_refused() {
    let cases = [
        ("/version", json!(2), "version: got 2; expected 1, "),
        ("/duration_s", json!(0), "duration_s: got 0; expected a number from 0.001 to 1000000"),
        ("/duration_s", json!(-1), "duration_s: got -1;"),
        ("/duration_s", json!(1e300), "duration_s: got 1e+300;"),
        ("/duration_s", json!("30"), "duration_s: got \"30\";"),
        ("/seed", json!(-1), "seed: got -1; expected a whole number"),
        ("/seed", json!(1.5), "seed: got 1.5;"),
        ("/links", json!([]), "links: got []; expected a list of 1 to"),
        ("/links", json!({}), "links: got {}; expected a list"),
        ("/links/0", json!(5), "links[0]: got 5; expected an object"),
        ("/links/1", json!({"name": "link0", "service": {"type": "constant", "rate_mbps": 1}}), "links[1]: got "),
        ("/links/0/name", json!(""), "links[0].name: got \"\"; expected a name"),
        ("/links/0/loss", json!(1.5), "links[0].loss: got 1.5; expected a number from 0 to 1"),
        ("/links/0/jitter_ms", json!(-1), "links[0].jitter_ms: got -1;"),
        ("/links/0/loss", json!(-0.1), "links[0].loss: got -0.1;"),
        (
            "/links/0/loss",
            json!({"type": "gilbert_eliot"}),
            "links[0].loss.type: unknown loss process \"gilbert_eliot\"; did you mean \"gilbert_elliott\"?",
        ),
        (
            "/links/0/loss",
            json!({"type": "gilbert_elliott", "p": 0.1}),
            "links[0].loss.r: missing; expected the probability per packet that a bad channel becomes good",
        ),
        (
            "/links/0/loss",
            json!({"type": "gilbert_elliott", "p": 0.1, "r": 2}),
            "links[0].loss.r: got 2; expected a number from 0 to 1",
        ),
        (
            "/links/0/loss",
            json!({"type": "independent"}),
            "links[0].loss.probability: missing; expected the probability",
        ),
        (
            "/links/0/loss",
            json!({"type": "slots", "slot_ms": 0, "probability": 0.1}),
            "links[0].loss.slot_ms: got 0; expected a number from 0.001 to 600000",
        ),
        (
            "/links/0/loss",
            json!({"type": "steps"}),
            "links[0].loss.steps: missing; expected a list of {at_s, loss}, the first at 0 s",
        ),
        (
            "/links/0/loss",
            json!({"type": "steps", "steps": [{"at_s": 0, "loss": 0}, {"at_s": 1, "loss": 1.1}]}),
            "links[0].loss.steps[1].loss: got 1.1; expected a number from 0 to 1",
        ),
        (
            "/links/0/loss",
            json!({"type": "steps", "steps": [{"at_s": 0, "loss": 0}, {"at_s": 0, "loss": 1}]}),
            "links[0].loss.steps[1].at_s: got 0; expected more than 0",
        ),
        ("/links/0/conditions", json!("x.csv"), "links[0].conditions: got \"x.csv\"; expected an object with fields"),
        (
            "/links/0/conditions",
            json!({}),
            "links[0].conditions.file: missing; expected the path of a conditions trace",
        ),
        (
            "/links/0/conditions",
            json!({"file": "x.csv", "offset_ms": "rand"}),
            "links[0].conditions.offset_ms: got \"rand\"; expected a number from 0 to",
        ),
        (
            "/links/0/conditions",
            json!({"file": "x.csv", "offset_ms": -1}),
            "links[0].conditions.offset_ms: got -1; expected a number from 0",
        ),
        (
            "/links/0/conditions",
            json!({"file": "x.csv", "model": "starlink"}),
            "links[0].conditions: got {\"file\":\"x.csv\",\"model\":\"starlink\"}; expected one of `file` and `model`",
        ),
        (
            "/links/0/conditions",
            json!({"file": "x.csv", "seed": 3}),
            "links[0].conditions.seed: got 3; expected `model` beside it, which draws the trace",
        ),
        (
            "/links/0/conditions",
            json!({"model": "starlnk"}),
            "links[0].conditions.model: unknown model \"starlnk\"; did you mean \"starlink\"?",
        ),
        (
            "/links/0/conditions",
            json!({"model": "starlink", "mean_mbps": 0}),
            "links[0].conditions.mean_mbps: got 0; expected a number from 0.01 to 10000",
        ),
        (
            "/links/0/service",
            json!({"type": "conditions"}),
            "links[0].service: got {\"type\":\"conditions\"}; expected `conditions: {file: ...}` on the link",
        ),
        ("/links/0/loss", json!({"type": "slots", "p": 0.1}), "links[0].loss.p: unknown field \"p\""),
        ("/links/0/delay_ms", json!(-1), "links[0].delay_ms: got -1;"),
        (
            "/links/0/reorder",
            json!(0.1),
            "links[0].reorder: got 0.1; expected an object with fields out of probability",
        ),
        (
            "/links/0/delay_ms",
            json!("x"),
            "links[0].delay_ms: got \"x\"; expected a number from 0 to 100000, or {steps",
        ),
        (
            "/links/0/delay_ms",
            json!({"keep_order": true}),
            "links[0].delay_ms: got {\"keep_order\":true}; expected exactly one of steps",
        ),
        (
            "/links/0/delay_ms",
            json!({"steps": [{"at_s": 0, "delay_ms": -1}]}),
            "links[0].delay_ms.steps[0].delay_ms: got -1; expected a number from 0 to 100000",
        ),
        (
            "/links/0/delay_ms",
            json!({"steps": [{"at_s": 0, "delay_ms": 1}, {"at_s": 5, "delay_ms": 2}, {"at_s": 4, "delay_ms": 1}]}),
            "links[0].delay_ms.steps[2].at_s: got 4; expected more than 5, the time of the step before",
        ),
        (
            "/links/0/policer",
            json!({"burst_bytes": 9000}),
            "links[0].policer.rate_mbps: missing; expected the policed rate in Mbit/s",
        ),
        (
            "/links/0/policer",
            json!({"rate_mbps": 9}),
            "links[0].policer.burst_bytes: missing; expected bytes that pass",
        ),
        (
            "/links/0/policer",
            json!({"rate_mbps": 9, "burst_bytes": 100}),
            "links[0].policer.burst_bytes: got 100; expected a whole number from 1500",
        ),
        ("/links/0/policer", json!({"rate_mbps": 0, "burst_bytes": 9000}), "links[0].policer.rate_mbps: got 0;"),
        (
            "/links/0/policer",
            json!({"rate_mbps": 9, "burst_bytes": 9000, "action": "mrak"}),
            "links[0].policer.action: unknown action \"mrak\"; did you mean \"mark\"?",
        ),
        (
            "/links/0/shaper",
            json!({"burst_bytes": 9000}),
            "links[0].shaper.rate_mbps: missing; expected the shaped rate in Mbit/s",
        ),
        (
            "/links/0/shaper",
            json!({"rate_mbps": 9, "burst_bytes": 9000, "peak_mbps": 8}),
            "links[0].shaper.peak_mbps: got 8; expected more than rate_mbps, which is 9",
        ),
        (
            "/links/0/service",
            json!({"type": "wifi"}),
            "links[0].service.rate_mbps: missing; expected the rate of frames",
        ),
        ("/links/0/service", json!({"type": "wlan"}), "links[0].service.type: unknown service \"wlan\""),
        (
            "/links/0/service",
            json!({"type": "wifi", "rate_mbps": 100, "retry": 1.5}),
            "links[0].service.retry: got 1.5; expected a number from 0 to 0.9",
        ),
        (
            "/links/0/service",
            json!({"type": "wifi", "rate_mbps": 100, "absent_every_s": 1, "absent_ms": 600}),
            "links[0].service.absent_ms: got 600; expected at most half of absent_every_s, which is 500 ms",
        ),
        (
            "/links/0/service",
            json!({"type": "wifi", "rate_mbps": 100, "window": 2000}),
            "links[0].service.window: got 2000; expected a number from 0 to 1023",
        ),
        (
            "/links/0/service",
            json!({"type": "wifi", "rate_mbps": 100, "slot_ms": 1}),
            "links[0].service.slot_ms: unknown field \"slot_ms\"; did you mean \"slot_us\"?",
        ),
        (
            "/links/0/service",
            json!({"type": "grants", "rate_mbps": 9, "grant_bytes": 500, "proactive_bytes": 600}),
            "links[0].service.proactive_bytes: got 600; expected at most grant_bytes, which is 500",
        ),
        (
            "/links/0/service",
            json!({"type": "grants", "rate": {"type": "trace", "file": "x"}}),
            "links[0].service.rate: got {\"file\":\"x\",\"type\":\"trace\"}; expected a service of type constant, steps",
        ),
        (
            "/links/0/service",
            json!({"type": "grants", "rate": {"type": "conditions"}}),
            "links[0].service: got {\"rate\":{\"type\":\"conditions\"},\"type\":\"grants\"}; expected `conditions: {file",
        ),
        (
            "/links/0/service",
            json!({"type": "grants", "rate_mbps": 9, "rate": {"type": "constant", "rate_mbps": 9}}),
            "links[0].service.rate: got {\"rate_mbps\":9,\"type\":\"constant\"}; expected either `rate_mbps` or `rate`",
        ),
        ("/links/0/reorder", json!({"probability": 0.1}), "links[0].reorder.late_ms: missing; expected milliseconds"),
        ("/links/0/reorder", json!({"late_ms": 1}), "links[0].reorder.probability: missing; expected a probability"),
        (
            "/links/0/reorder",
            json!({"probability": 0.1, "late_ms": -1}),
            "links[0].reorder.late_ms: got -1; expected a number from 0 to 60000",
        ),
        ("/links/0/duplicate", json!(2), "links[0].duplicate: got 2; expected a probability from 0 to 1, or {"),
        (
            "/links/0/corrupt",
            json!({"probability": 0.1, "correlation": 1.5}),
            "links[0].corrupt.correlation: got 1.5; expected a number from 0 to 1",
        ),
        ("/links/0/router", json!(1), "links[0].router: got 1; expected true, false"),
        ("/links/0/service", json!(null), "links[0].service: missing; expected"),
        ("/links/0/service", json!({}), "links[0].service.type: missing; expected one of constant"),
        ("/links/0/service/rate_mbps", json!(0), "links[0].service.rate_mbps: got 0;"),
        ("/links/0/service/rate_mbps", json!(1e12), "links[0].service.rate_mbps: got 1"),
        ("/links/0/service", json!({"type": "steps", "steps": []}), "links[0].service.steps: got []; expected a list"),
        (
            "/links/0/service",
            json!({"type": "steps", "steps": [{"at_s": 1, "rate_mbps": 1}]}),
            "links[0].service.steps[0].at_s: got 1; expected 0",
        ),
        (
            "/links/0/service",
            json!({"type": "steps", "steps": [{"at_s": 0, "rate_mbps": 1}, {"at_s": 0, "rate_mbps": 1}]}),
            "links[0].service.steps[1].at_s: got 0; expected more than 0",
        ),
        (
            "/links/0/service",
            json!({"type": "random_steps", "min_mbps": 9, "max_mbps": 5, "period_s": 1}),
            "links[0].service.max_mbps: got 5; expected at least min_mbps, which is 9",
        ),
        (
            "/links/0/service",
            json!({"type": "cellular", "preset": "x"}),
            "links[0].service.preset: unknown preset \"x\"",
        ),
        (
            "/links/0/queue",
            json!({"type": "droptail"}),
            "links[0].queue: got {\"type\":\"droptail\"}; expected exactly one",
        ),
        ("/links/0/queue", json!({"type": "droptail", "packets": 1, "bdp": 1}), "links[0].queue: got "),
        ("/links/0/queue", json!({"type": "droptail", "packets": 0}), "links[0].queue.packets: got 0;"),
        ("/flows", json!([]), "flows: got []; expected a list of 1 to"),
        ("/flows/0/scheme", json!(null), "flows[0].scheme: missing; expected one of"),
        ("/flows/0/path", json!([]), "flows[0].path: got []; expected at least one link"),
        ("/flows/0/path", json!(["link0", "link0"]), "flows[0].path[1]: got \"link0\"; expected each link once"),
        ("/flows/0/stop_s", json!(0), "flows[0].stop_s: got 0; expected more than start_s, which is 0"),
        ("/flows/0/base_rtt_ms", json!(9), "flows[0].base_rtt_ms: got 9; expected at least 10 ms"),
        ("/flows/0/app", json!({"type": "transfers", "sizes_bytes": []}), "flows[0].app.sizes_bytes: got [];"),
        (
            "/flows/0/rules",
            json!("x"),
            "flows[0].rules: got \"x\"; expected null, because scheme \"cubic\" runs no rule file",
        ),
        ("/flows/0/policy", json!("x"), "flows[0].policy: got \"x\"; expected null, because scheme \"cubic\""),
        (
            "/flows/0/requirement",
            json!({"min_mbps": 2, "max_mbps": 2}),
            "flows[0].requirement.max_mbps: got 2; expected more than min_mbps, which is 2",
        ),
        ("/flows/0/sack", json!(1), "flows[0].sack: got 1; expected true or false"),
        ("/flows/0/min_rto_ms", json!(0), "flows[0].min_rto_ms: got 0; expected a number from 1 to 60000"),
        ("/flows/0/burst_bytes", json!(100_000), "flows[0].burst_bytes: got 100000; expected a whole number from 1 to"),
        (
            "/flows/0/ack_policy",
            json!("quic"),
            "flows[0].ack_policy: got \"quic\"; expected an object with a field `type`",
        ),
        (
            "/flows/0/ack_policy",
            json!({"type": "quik"}),
            "flows[0].ack_policy.type: unknown acknowledgement policy \"quik\"; did you mean \"quic\"?",
        ),
        (
            "/flows/0/ack_policy",
            json!({"type": "tcp", "packets": 2}),
            "flows[0].ack_policy.packets: unknown field \"packets\"; expected one of type",
        ),
        (
            "/flows/0/ack_policy",
            json!({"type": "quic", "packets": 0}),
            "flows[0].ack_policy.packets: got 0; expected a whole number from 1 to 1000",
        ),
        (
            "/flows/0",
            json!({"scheme": "cubic", "ack_policy": {"type": "quic"}, "sack": false}),
            "flows[0].sack: got false; expected true where ack_policy is of type quic",
        ),
        (
            "/flows/0",
            json!({"scheme": "cubic", "ack_policy": {"type": "quic"}, "burst_bytes": 3000}),
            "flows[0].burst_bytes: got 3000; expected null where ack_policy is of type quic",
        ),
        ("/flows/0/count", json!(0), "flows[0].count: got 0;"),
        ("/flows/0/count", json!(1_000_000), "flows[0].count: got 1000000;"),
        ("/flows/0/count", json!(20_000), "flows[0]: got "),
        ("/flows/0", json!({"scheme": "cubic", "count": 100, "path": vec!["link0"; 5000]}), "flows[0].path[1]: got "),
        (
            "/flows/0",
            json!({"scheme": "cubic", "count": 100, "app": {"type": "transfers", "sizes_bytes": vec![1; 5000]}}),
            "flows[0]: got ",
        ),
        ("/flows/0/name", json!("x".repeat(101)), "flows[0].name: got "),
        ("/flows/0/mss_bytes", json!(4_294_967_297_u64), "flows[0].mss_bytes: got 4294967297;"),
        ("/flows/1", json!({"scheme": "cubic", "name": "flow0"}), "flows[1]: got "),
        ("/record", json!({"bin_ms": 0}), "record.bin_ms: got 0;"),
    ];
    for (pointer, value, expected) in cases {
        let got = error(pointer, value);
        assert!(got.starts_with(expected), "{got}\nis not\n{expected}");
    }
}

#[test]
fn what_copies_and_paths_would_spell_out_is_bounded() {
    let service = json!({"type": "constant", "rate_mbps": 1});
    let document = |links: usize, count: usize| json!({"links": vec![json!({"service": service}); links], "flows": [{"scheme": "cubic", "count": count}]});
    for (links, count, works) in [(1, 10_000, true), (1, 20_000, false), (1000, 400, true), (1000, 500, false)] {
        let said = Scenario::from_json(&document(links, count)).map_err(|e| e.to_string());
        assert_eq!(said.is_ok(), works, "{links} {count}");
        match said {
            Ok(scenario) => assert_eq!(Scenario::from_json(&scenario.to_json()), Ok(scenario), "{links} {count}"),
            Err(e) => assert!(e.contains("expected flows of at most 500000 values with all copies"), "{e}"),
        }
    }
    let named = |bytes: usize| {
        let mut document = document(1, 11);
        document["flows"][0]["name"] = json!("x".repeat(bytes));
        Scenario::from_json(&document).map_err(|e| e.to_string())
    };
    let scenario = named(97).unwrap();
    assert_eq!(Scenario::from_json(&scenario.to_json()), Ok(scenario));
    assert!(named(98).unwrap_err().contains("a name of at most 100 bytes, with the numbers of copies"));
}

#[test]
fn not_a_number_is_not_json() {
    for text in
        ["", "{", "[1]", "null", r#"{"duration_s": NaN}"#, r#"{"duration_s": Infinity}"#, r#"{"duration_s": 1e999}"#]
    {
        let error = Scenario::parse(text).unwrap_err().to_string();
        assert!(error.starts_with("document: "), "{error}");
    }
    let long = format!(r#"{{"links": "{}"}}"#, "x".repeat(10_000));
    assert!(Scenario::parse(&long).unwrap_err().to_string().len() < 300, "long values are cut");
}

#[test]
fn a_model_gives_a_link_its_delay_and_survives_writing() {
    let link = json!({"conditions": {"model": "starlink", "seed": 7, "mean_mbps": 20, "keep_order": false}});
    let scenario = Scenario::from_json(&json!({"links": [link], "flows": [{"scheme": "cubic"}]})).unwrap();
    assert_eq!(scenario.links[0].delay, crate::link_models::find("starlink").unwrap().base_delay(7));
    assert_eq!(Scenario::from_json(&scenario.to_json()).unwrap(), scenario);
}
