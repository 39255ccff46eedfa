//! Feedback of marks and the schemes that need it, in the simulator.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use ccarena_net::Scenario;
use ccarena_net::link::Delivered;
use ccarena_sim::{Files, Sim};
use common::run;
use serde_json::{Value, json};

/// Flows over one link with `queue`, 10 ms each way.
fn over(queue: &Value, rate_mbps: f64, flows: &Value) -> Value {
    json!({
        "duration_s": 20, "seed": 3,
        "links": [{"service": {"type": "constant", "rate_mbps": rate_mbps}, "queue": queue, "delay_ms": 10}],
        "flows": flows, "record": {"packets": true},
    })
}

fn codel() -> Value {
    json!({"type": "codel", "packets": 1000, "ecn": true})
}

fn goodput_mbps(sim: &Sim, flow: usize, seconds: f64) -> f64 {
    sim.flows()[flow].receiver().goodput_bytes as f64 * 8e-6 / seconds
}

#[test]
fn classic_schemes_do_the_same_with_counts_as_with_echoes() {
    // Marks of CoDel come one at a time, so that an echo and a count of one are answered alike.
    for scheme in ["reno", "cubic"] {
        let with = |ecn: Value| {
            let sim = run(&over(&codel(), 20.0, &json!([{"scheme": scheme, "ecn": ecn}])), u64::MAX);
            let stats = sim.flows()[0].sender.stats;
            assert_eq!(stats.retransmitted, 0, "{scheme}: {stats:?}");
            (stats.ecn_reductions, goodput_mbps(&sim, 0, 20.0))
        };
        let (classic, accurate) = (with(json!(true)), with(json!("accurate")));
        assert!(classic.0 > 3 && classic.0.abs_diff(accurate.0) <= 2, "{scheme}: {classic:?} {accurate:?}");
        assert!((classic.1 - accurate.1).abs() < 0.1 * classic.1, "{scheme}: {classic:?} {accurate:?}");
    }
}

#[test]
fn ends_fall_back_to_what_both_can_and_the_result_says_so() {
    let result = |flow: Value| {
        let scenario = Scenario::from_json(&over(&codel(), 20.0, &json!([flow]))).unwrap();
        let mut sim = Sim::new(&scenario, &Files::default(), false).unwrap();
        sim.run_until(ccarena_cc::Time::from_secs_f64(5.0));
        let mut result = sim.take_result(&scenario);
        let flow = result.flows.remove(0);
        (flow.feedback, flow.fallback.is_some(), flow.ecn_reductions.unwrap() > 0)
    };
    assert_eq!(result(json!({"scheme": "cubic"})), (None, false, false));
    assert_eq!(result(json!({"scheme": "cubic", "ecn": true})), (None, false, true));
    assert_eq!(result(json!({"scheme": "cubic", "ecn": "accurate"})), (Some("accurate"), false, true));
    let classic = json!({"scheme": "cubic", "ecn": "accurate", "peer_ecn": true});
    assert_eq!(result(classic), (Some("classic"), false, true));
    let none = json!({"scheme": "cubic", "ecn": "accurate", "peer_ecn": false});
    assert_eq!(result(none), (Some("none"), false, false));
    assert_eq!(result(json!({"scheme": "dctcp"})), (Some("dctcp"), false, true));
    assert_eq!(result(json!({"scheme": "dctcp", "ecn": "accurate"})), (Some("accurate"), false, true));
    assert_eq!(result(json!({"scheme": "dctcp", "ecn": false})), (Some("none"), true, false));
    assert_eq!(result(json!({"scheme": "prague"})), (Some("accurate"), false, true));
    assert_eq!(result(json!({"scheme": "prague", "peer_ecn": true})), (Some("classic"), true, true));
    assert_eq!(result(json!({"scheme": "prague", "ecn": false})), (Some("none"), true, false));
    let quic = json!({"scheme": "prague", "ecn": true, "ack_policy": {"type": "quic"}});
    assert_eq!(result(quic), (Some("accurate"), false, true));
}

/// A spec whose window never moves, over `base`.
fn spec(base: &Value, l4s: bool) -> Value {
    json!({"learned": 1, "name": "still", "l4s": l4s, "clock": "rtt", "base": base,
           "observe": {"signals": ["ce_ratio"]}, "act": {"kind": "window_exp2", "bounds": [-1, 1]}})
}

#[test]
fn a_spec_gets_the_feedback_that_it_or_its_base_needs() {
    let result = |scheme: &Value, peer: Value| {
        let flow = json!({"scheme": scheme, "policy": {"constant": 0}, "peer_ecn": peer});
        let document = over(&json!({"type": "dualpi2"}), 20.0, &json!([flow]));
        let scenario = Scenario::from_json(&document).unwrap();
        let mut sim = Sim::new(&scenario, &Files::default(), false).unwrap();
        sim.run_until(ccarena_cc::Time::from_secs_f64(3.0));
        let result = sim.take_result(&scenario);
        let l4s =
            result.links[0].queues.iter().find(|queue| queue.name == "l4s").map_or(0, |queue| queue.delivered_packets);
        (result.flows[0].feedback, result.flows[0].fallback.is_some(), l4s > 1000)
    };
    let (prague, none) = (json!({"scheme": "prague"}), json!("none"));
    assert_eq!(result(&spec(&none, false), json!("accurate")), (None, false, false));
    assert_eq!(result(&spec(&none, true), json!("accurate")), (Some("accurate"), false, true));
    assert_eq!(result(&spec(&prague, false), json!("accurate")), (Some("accurate"), false, true), "as Prague alone");
    assert_eq!(result(&spec(&json!("prague"), false), json!("accurate")), (Some("accurate"), false, true));
    assert_eq!(result(&spec(&none, true), json!(true)), (Some("classic"), true, false));
    assert_eq!(result(&spec(&json!("prague"), false), json!(true)), (Some("classic"), true, false), "NewReno");
    assert_eq!(result(&spec(&json!({"scheme": "dctcp"}), false), json!(true)), (Some("dctcp"), false, false));
    let digest = |l4s| ccarena_cc::Spec::parse(&spec(&none, l4s).to_string()).unwrap().interface().digest.clone();
    assert_ne!(digest(true), digest(false));
    assert!(!ccarena_cc::Spec::parse(&spec(&none, false).to_string()).unwrap().canonical().contains("l4s"));
}

#[test]
fn actions_move_pragues_own_window() {
    let sent = |scheme: &Value, policy: Value| {
        let flow = json!({"scheme": scheme, "policy": policy});
        let flow = if scheme == "prague" { json!({"scheme": scheme}) } else { flow };
        let sim = run(&over(&json!({"type": "dualpi2"}), 20.0, &json!([flow])), u64::MAX);
        let stats = sim.flows()[0].sender.stats;
        (stats.sent, stats.lost)
    };
    let (alone, own) = (sent(&json!("prague"), json!(null)), spec(&json!("prague"), false));
    assert_eq!(sent(&own, json!("none")), alone, "without actions it is Prague");
    assert_eq!(sent(&own, json!({"constant": 0})), alone, "a factor of 1");
    // Factors that last would multiply, and leave nothing; Prague grows again each round trip.
    let lower = sent(&own, json!({"constant": -0.05}));
    assert!(lower.0 < alone.0 * 9 / 10 && lower.0 > alone.0 / 6, "{lower:?} {alone:?}");
}

#[test]
fn l4s_needs_counts_of_marks() {
    let read = |flow: Value| Scenario::from_json(&over(&codel(), 20.0, &json!([flow]))).map_err(|e| e.to_string());
    assert!(read(json!({"scheme": "reno", "l4s": true})).is_ok(), "ecn is then accurate");
    let error = read(json!({"scheme": "reno", "l4s": true, "ecn": true})).unwrap_err();
    assert!(error.contains("flows[0].l4s: got true; expected false, or ecn \"accurate\""), "{error}");
    let error = read(json!({"scheme": "reno", "ecn": "precise"})).unwrap_err();
    assert!(error.contains("expected false, true (RFC 3168) or \"accurate\""), "{error}");
    let written = read(json!({"scheme": "reno", "l4s": true, "peer_ecn": true})).unwrap().to_json();
    assert_eq!((&written["flows"][0]["ecn"], &written["flows"][0]["peer_ecn"]), (&json!("accurate"), &json!(true)));
    assert_eq!(Scenario::from_json(&written).unwrap().to_json(), written);
}

/// Queueing delays in ms of each flow's packets that left after a third of the run.
fn queueing_ms(sim: &mut Sim, flows: u32) -> Vec<Vec<f64>> {
    let log = sim.take_log(0).unwrap();
    let settled = log.delivered.last().unwrap().departure.0 / 3;
    let rows = |flow| log.delivered.iter().filter(move |row| row.flow == flow && row.departure.0 > settled);
    let delay = |row: &Delivered| (row.departure.since(row.arrival) - row.serialisation).as_millis_f64();
    (0..flows).map(|flow| rows(flow).map(delay).collect()).collect()
}

/// The element at `q` of the sorted values.
fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[(values.len() as f64 * q) as usize]
}

/// A queue that marks all beyond K = 30 kB, as switches do for DCTCP (Alizadeh et al. §3.1): more than a seventh of the
/// bandwidth-delay product, so that the link stays busy (§3.4).
#[test]
fn dctcp_holds_the_queue_at_the_threshold() {
    let step = json!({"type": "red", "min_bytes": 30_000, "max_bytes": 30_100, "max_p": 1, "weight": 1, "packets": 1000, "ecn": true});
    let with = |scheme: &str| {
        let mut document =
            over(&step, 100.0, &json!([{"scheme": scheme, "ecn": true, "slow_start": false, "count": 2}]));
        document["links"][0]["delay_ms"] = json!(1);
        let mut sim = run(&document, u64::MAX);
        assert_eq!(sim.flows()[0].sender.stats.retransmitted, 0, "{scheme}");
        let mbps = goodput_mbps(&sim, 0, 20.0) + goodput_mbps(&sim, 1, 20.0);
        let mut delays = queueing_ms(&mut sim, 2).concat();
        let kb = |ms: f64| ms * 100.0 / 8.0;
        (mbps, kb(quantile(&mut delays, 0.5)), kb(quantile(&mut delays, 0.99)))
    };
    let (mbps, median_kb, most_kb) = with("dctcp");
    assert!(mbps > 94.0, "{mbps} Mbit/s");
    assert!((20.0..36.0).contains(&median_kb) && most_kb < 45.0, "{median_kb} kB, 99 %: {most_kb} kB");
    let reno = with("reno");
    assert!(reno.1 < median_kb, "Reno halves and leaves the queue emptier: {reno:?}");
}

/// Prague and CUBIC at equal RTT over DualPI2: rates within a factor of two, and a low-latency queue (RFC 9332; De Schepper,
/// Albisser, Tilmans and Briscoe, "Dual Queue Coupled AQM", figures 15 and 16).
#[test]
fn prague_and_cubic_share_dualpi2() {
    for (rate_mbps, delay_ms) in [(12.0, 10.0), (40.0, 10.0), (120.0, 5.0), (40.0, 25.0)] {
        let flows = json!([{"scheme": "cubic", "ecn": true}, {"scheme": "prague"}]);
        let mut document = over(&json!({"type": "dualpi2"}), rate_mbps, &flows);
        document["links"][0]["delay_ms"] = json!(delay_ms);
        let mut sim = run(&document, u64::MAX);
        let mut delays = queueing_ms(&mut sim, 2);
        let shares: Vec<f64> = delays.iter().map(|of_flow| of_flow.len() as f64).collect();
        let ratio = shares[1] / shares[0];
        let (classic, low) = (quantile(&mut delays[0], 0.5), quantile(&mut delays[1], 0.99));
        let case =
            format!("{rate_mbps} Mbit/s, {delay_ms} ms: Prague/CUBIC {ratio:.2}, delays {classic:.1} and {low:.2} ms");
        assert!((0.5..=2.0).contains(&ratio), "{case}");
        assert!(low <= 2.0 && classic > 2.0, "{case}");
        assert_eq!(sim.flows()[1].sender.stats.retransmitted, 0, "{case}");
    }
}

#[test]
fn quic_counts_marks_exactly_whatever_is_reordered() {
    let quic = json!({"type": "quic", "packets": 10});
    let mut without = over(
        &json!({"type": "droptail", "packets": 1000}),
        20.0,
        &json!([
            {"scheme": "cubic", "ecn": true, "ack_policy": quic}
        ]),
    );
    without["links"][0]["reorder"] = json!({"probability": 0.02, "late_ms": 6});
    let sim = run(&without, u64::MAX);
    assert_eq!(sim.flows()[0].sender.stats.ecn_reductions, 0, "nothing marks");
    let marked = over(&codel(), 20.0, &json!([{"scheme": "cubic", "ecn": true, "ack_policy": quic}]));
    assert!(run(&marked, u64::MAX).flows()[0].sender.stats.ecn_reductions > 3);
}
