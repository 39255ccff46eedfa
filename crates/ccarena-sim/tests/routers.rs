//! Senders and routers together: ABC and XCP do over a link what their papers say of them.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use ccarena_cc::Time;
use ccarena_sim::Sim;
use common::build;
use serde_json::{Value, json};

const MS: u64 = 1_000_000;

/// Wire rates in Mbit/s of every flow over a stretch of the run.
fn rates(sim: &mut Sim, from_s: f64, to_s: f64) -> Vec<f64> {
    sim.run_until(Time::from_secs_f64(from_s));
    let before = sim.wire_bytes();
    sim.run_until(Time::from_secs_f64(to_s));
    let rate = |(now, before): (u64, u64)| (now - before) as f64 * 8.0 / 1e6 / (to_s - from_s);
    sim.wire_bytes().into_iter().zip(before).map(rate).collect()
}

fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = rates.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    sum * sum / (rates.len() as f64 * squares)
}

/// Flows of `scheme` over one link with its router and much room, 50 ms each way.
fn scenario(scheme: &str, service: &Value, flows: &[Value], seconds: f64) -> Value {
    let flows: Vec<Value> = flows
        .iter()
        .map(|extra| {
            let mut flow = json!({"scheme": scheme});
            flow.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            flow
        })
        .collect();
    json!({
        "duration_s": seconds,
        "links": [{"service": service, "queue": {"type": "infinite"}, "delay_ms": 50, "router": scheme}],
        "flows": flows,
        "record": {"packets": true},
    })
}

fn constant(rate_mbps: f64) -> Value {
    json!({"type": "constant", "rate_mbps": rate_mbps})
}

/// Queueing delays in ms of packets that left between two times.
fn queueing(sim: &mut Sim, from_s: f64, to_s: f64) -> Vec<f64> {
    let (from, to) = (Time::from_secs_f64(from_s), Time::from_secs_f64(to_s));
    let log = sim.take_log(0).unwrap();
    let within = log.delivered.iter().filter(|p| p.departure >= from && p.departure < to);
    let mut delays: Vec<f64> =
        within.map(|p| (p.departure.since(p.arrival) - p.serialisation).as_millis_f64()).collect();
    delays.sort_by(f64::total_cmp);
    delays
}

/// Section 3.1: at a constant capacity the rate is η times it, and the queue stays below what costs something.
#[test]
fn abc_holds_its_target_rate_and_delay() {
    let (_, mut sim) = build(&scenario("abc", &constant(12.0), &[json!({})], 20.0));
    let rate = rates(&mut sim, 5.0, 20.0)[0];
    assert!((0.96 * 12.0..=12.0).contains(&rate), "{rate} Mbit/s of 12");
    let delays = queueing(&mut sim, 5.0, 20.0);
    let p95 = delays[delays.len() * 95 / 100];
    assert!(p95 < 60.0, "{p95} ms; the threshold is 50");
}

/// Section 2: a window can double or empty within a round trip, so that capacity is followed within a few of them.
#[test]
fn abc_follows_capacity() {
    let steps = json!({"type": "steps", "steps": [
        {"at_s": 0, "rate_mbps": 12}, {"at_s": 10, "rate_mbps": 48}, {"at_s": 20, "rate_mbps": 6}]});
    let (_, mut sim) = build(&scenario("abc", &steps, &[json!({})], 30.0));
    let risen = rates(&mut sim, 11.0, 20.0)[0];
    assert!(risen > 0.9 * 48.0, "{risen} Mbit/s of 48, from 1 s after the step on");
    let fallen = rates(&mut sim, 22.0, 30.0)[0];
    assert!(fallen > 0.9 * 6.0, "{fallen} Mbit/s of 6");
    let delays = queueing(&mut sim, 22.0, 30.0);
    let p95 = delays[delays.len() * 95 / 100];
    assert!(p95 < 80.0, "{p95} ms once the queue of the step is gone");
}

/// Section 3.1.3: the additive increase of equation 3 makes flows equal, which multiplicative changes alone do not.
#[test]
fn abc_flows_become_equal() {
    let flows = [json!({}), json!({"start_s": 10}), json!({"start_s": 20})];
    let (_, mut sim) = build(&scenario("abc", &constant(24.0), &flows, 90.0));
    let shares = rates(&mut sim, 60.0, 90.0);
    assert!(jain(&shares) > 0.97, "{shares:?}");
    assert!(shares.iter().sum::<f64>() > 0.95 * 24.0, "{shares:?}");
}

/// Section 4.1: the smallest share of accelerates of the way rules, and a bottleneck that does not mark is CUBIC's.
#[test]
fn abc_obeys_the_slowest_router_and_does_without() {
    let links = |first: &str, router: &Value| {
        json!([
            {"name": "a", "service": constant(if first == "slow" { 6.0 } else { 24.0 }), "delay_ms": 10, "router": router},
            {"name": "b", "service": constant(if first == "slow" { 24.0 } else { 6.0 }), "delay_ms": 10, "router": router},
        ])
    };
    for first in ["slow", "fast"] {
        let mut document = scenario("abc", &constant(1.0), &[json!({})], 20.0);
        document["links"] = links(first, &json!({"type": "abc", "threshold_ms": 20}));
        let (_, mut sim) = build(&document);
        let rate = rates(&mut sim, 5.0, 20.0)[0];
        assert!((5.5..=6.0).contains(&rate), "{first} link first: {rate} Mbit/s of 6");
        document["links"] = links(first, &json!(false));
        let (_, mut sim) = build(&document);
        let rate = rates(&mut sim, 5.0, 20.0)[0];
        assert!(rate > 5.0, "without marks, {first} link first: {rate} Mbit/s of 6");
    }
}

/// Sections 3.5 and 5: utilisation near 1, next to no queue, no drop, and equal shares within some round trips of a
/// flow's beginning.
#[test]
fn xcp_fills_the_link_and_shares_it_within_round_trips() {
    let flows = [json!({}), json!({"start_s": 10}), json!({"start_s": 20}), json!({"start_s": 30})];
    let mut document = scenario("xcp", &constant(40.0), &flows, 60.0);
    document["links"][0]["queue"] = json!({"type": "droptail", "bdp": 1});
    let (_, mut sim) = build(&document);
    let alone = rates(&mut sim, 3.0, 10.0)[0];
    assert!(alone > 0.95 * 40.0, "{alone} Mbit/s of 40");
    // γ = 0.1 shuffles a tenth of the traffic per round trip: some 50 round trips are plenty.
    let two = rates(&mut sim, 15.0, 20.0);
    assert!(jain(&two[..2]) > 0.98, "{two:?}");
    let four = rates(&mut sim, 40.0, 60.0);
    assert!(jain(&four) > 0.98, "{four:?}");
    assert!(four.iter().sum::<f64>() > 0.95 * 40.0, "{four:?}");
    assert_eq!(sim.links()[0].stats.dropped_packets, 0);
    let delays = queueing(&mut sim, 40.0, 60.0);
    let mean = delays.iter().sum::<f64>() / delays.len() as f64;
    assert!(mean < 10.0, "{mean} ms of queue on average, of 100 ms of round trip");
}

/// Section 5.2.3: feedback grows with the square of the round trip, so that shares do not depend on it.
#[test]
fn xcp_is_fair_to_long_round_trips() {
    let flows = [json!({"base_rtt_ms": 100}), json!({"base_rtt_ms": 200}), json!({"base_rtt_ms": 400})];
    let (_, mut sim) = build(&scenario("xcp", &constant(30.0), &flows, 120.0));
    let shares = rates(&mut sim, 60.0, 120.0);
    assert!(jain(&shares) > 0.97, "{shares:?}");
}

/// Without a router that answers XCP is NewReno.
#[test]
fn xcp_does_without_routers() {
    let mut document = scenario("xcp", &constant(12.0), &[json!({})], 30.0);
    document["links"][0]["router"] = json!(false);
    document["links"][0]["queue"] = json!({"type": "droptail", "bdp": 1});
    let (_, mut sim) = build(&document);
    let rate = rates(&mut sim, 10.0, 30.0)[0];
    assert!(rate > 0.85 * 12.0, "{rate} Mbit/s of 12");
}

/// What routers say to one scheme means nothing to another, and the same scenario gives the same bytes.
#[test]
fn routers_leave_other_schemes_alone_and_runs_repeat() {
    for scheme in ["abc", "xcp"] {
        let document = |router: Value| {
            let mut document = scenario("cubic", &constant(12.0), &[json!({})], 10.0);
            document["links"][0]["router"] = router;
            document
        };
        let with = common::fingerprint(common::run(&document(json!(scheme)), 700 * MS));
        assert!(with == common::fingerprint(common::run(&document(json!(false)), 10_000 * MS)), "{scheme}");
        let own = scenario(scheme, &json!({"type": "cellular", "preset": "lte-driving"}), &[json!({})], 5.0);
        let once = common::fingerprint(common::run(&own, 300 * MS));
        assert!(once == common::fingerprint(common::run(&own, 5_000 * MS)), "{scheme}");
    }
}
