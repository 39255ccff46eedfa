//! What the transport does where it is easy to go wrong: each retransmission repairs a loss.

mod common;

use ccarena_cc::registry::schemes;
use common::run;
use serde_json::{Value, json};

fn document(scheme: &str, service: &Value, packets: u32) -> Value {
    json!({
        "duration_s": 20,
        "links": [{"service": service, "queue": {"type": "droptail", "packets": packets}, "delay_ms": 20}],
        "flows": [{"scheme": scheme}],
    })
}

/// Slow start overshoots a deep queue by its length, and repairing that takes a second: acknowledgements without
/// progress have to hold the timeout off.
#[test]
fn a_deep_queue_is_repaired_without_a_timeout() {
    for scheme in ["reno", "cubic"] {
        let mut document = document(scheme, &json!({"type": "constant", "rate_mbps": 12}), 1000);
        document["flows"][0]["params"] = if scheme == "cubic" { json!({"hystart": 0}) } else { json!({}) };
        let sim = run(&document, u64::MAX);
        let (stats, dropped) = (sim.flows()[0].sender.stats, sim.links()[0].stats.dropped_packets);
        assert!(dropped > 800, "{scheme}: {dropped} dropped");
        assert_eq!((stats.timeouts, stats.retransmitted), (0, dropped), "{scheme}: {stats:?}");
        assert_eq!(sim.flows()[0].receiver().duplicates, 0, "{scheme}");
    }
}

/// Without selective acknowledgements NewReno repairs one loss per round trip, and duplicates of what was repeated are no
/// signs of further losses.
#[test]
fn cumulative_acknowledgements_repair_each_loss_once() {
    let mut document = document("reno", &json!({"type": "constant", "rate_mbps": 12}), 60);
    document["flows"][0]["sack"] = json!(false);
    document["flows"][0]["slow_start"] = json!(false);
    document["duration_s"] = json!(300);
    let sim = run(&document, u64::MAX);
    let (stats, dropped) = (sim.flows()[0].sender.stats, sim.links()[0].stats.dropped_packets);
    assert!(dropped >= 10, "{dropped} dropped");
    assert_eq!(
        (stats.timeouts, stats.retransmitted, sim.flows()[0].receiver().duplicates),
        (0, dropped, 0),
        "{stats:?}"
    );
}

/// During an outage the timer expires though nothing is lost; timestamps tell, and nothing but what the timer itself sent
/// is sent twice.
#[test]
fn an_outage_causes_no_needless_retransmissions() {
    let outage = json!({"type": "steps", "steps": [
        {"at_s": 0, "rate_mbps": 10}, {"at_s": 5, "rate_mbps": 0}, {"at_s": 6, "rate_mbps": 10}]});
    for scheme in ["reno", "cubic", "bbr"] {
        let sim = run(&document(scheme, &outage, 100), u64::MAX);
        let (stats, receiver) = (sim.flows()[0].sender.stats, sim.flows()[0].receiver());
        let dropped = sim.links()[0].stats.dropped_packets;
        assert!(stats.timeouts >= 1, "{scheme}: {stats:?}");
        assert!(receiver.duplicates <= stats.timeouts + 1, "{scheme}: {} duplicates, {stats:?}", receiver.duplicates);
        assert!(stats.retransmitted <= dropped + stats.timeouts + 1, "{scheme}: {dropped} dropped, {stats:?}");
    }
}

/// A lost last segment is repaired by a probe in about two RTTs, not by a timeout.
#[test]
fn a_lost_tail_is_probed() {
    let mut document = document("cubic", &json!({"type": "constant", "rate_mbps": 12}), 6);
    document["flows"][0]["app"] = json!({"type": "transfers", "sizes_bytes": [14_480]});
    let sim = run(&document, u64::MAX);
    let flow = &sim.flows()[0];
    assert!(sim.links()[0].stats.dropped_packets >= 3, "the initial window does not fit the queue");
    assert_eq!((flow.sender.stats.timeouts, flow.receiver().goodput_bytes), (0, 14_480));
    assert!(
        flow.sender.app.outcome().completion[0].as_millis_f64() < 300.0,
        "{:?}",
        flow.sender.app.outcome().completion
    );
}

/// A queue that marks instead of dropping: the sender reduces for each window of data in which a mark is echoed, and
/// sends nothing twice.
#[test]
fn marks_reduce_the_window_without_a_loss() {
    let red = json!({"type": "red", "min_bytes": 15_000, "max_bytes": 90_000, "packets": 1000, "ecn": true});
    let codel = json!({"type": "codel", "packets": 1000, "ecn": true});
    for queue in [red, codel] {
        for scheme in ["reno", "cubic", "vegas", "illinois", "wcc-ai"] {
            let mut document = document(scheme, &json!({"type": "constant", "rate_mbps": 20}), 1);
            document["links"][0]["queue"] = queue.clone();
            document["flows"][0]["slow_start"] = json!(false);
            document["duration_s"] = json!(60);
            document["flows"][0]["ecn"] = json!(false);
            let dropped = run(&document, u64::MAX).links()[0].stats.dropped_packets;
            document["flows"][0]["ecn"] = json!(true);
            let sim = run(&document, u64::MAX);
            let stats = sim.flows()[0].sender.stats;
            assert_eq!(sim.links()[0].stats.dropped_packets, 0, "{scheme} over {queue}");
            assert_eq!((stats.retransmitted, stats.timeouts), (0, 0), "{scheme} over {queue}: {stats:?}");
            // Vegas keeps its few packets below both queues' thresholds.
            let expected = if scheme == "vegas" { 0..=3 } else { 3..=1000 };
            assert!(expected.contains(&stats.ecn_reductions), "{scheme} over {queue}: {stats:?}");
            assert!(stats.ecn_reductions <= 2 * dropped + 3, "{scheme} over {queue}: {dropped} drops, {stats:?}");
            let goodput_mbps = sim.flows()[0].receiver().goodput_bytes as f64 * 8e-6 / 60.0;
            assert!(goodput_mbps > 14.0, "{scheme} over {queue}: {goodput_mbps} Mbit/s");
        }
    }
}

/// A mark is echoed until the sender says that it has reduced: one reduction per round trip at most, however many marks.
#[test]
fn one_reduction_per_window_of_data() {
    let mut document = document("fixed", &json!({"type": "constant", "rate_mbps": 12}), 1);
    document["links"][0]["queue"] = json!({"type": "codel", "packets": 1000, "ecn": true});
    document["flows"][0]["ecn"] = json!(true);
    document["flows"][0]["params"] = json!({"window": 100});
    let sim = run(&document, u64::MAX);
    let stats = sim.flows()[0].sender.stats;
    // 100 packets of 1 ms each and 40 ms of propagation: each window of data takes at least 100 ms.
    assert!((50..=200).contains(&stats.ecn_reductions), "{stats:?}");
}

/// A host that sleeps takes packets together: what left a link in a millisecond of sleep arrives at one instant, in order.
#[test]
fn a_sleeping_host_takes_packets_together() {
    let mut document = document("cubic", &json!({"type": "constant", "rate_mbps": 96}), 1000);
    document["links"][0]["wakes_ms"] = json!(5);
    document["links"][0]["jitter_ms"] = json!(0.1);
    let sim = run(&document, u64::MAX);
    let flow = &sim.flows()[0];
    assert_eq!(flow.receiver().duplicates, 0);
    let rtt_ms = flow.sender.min_rtt().as_millis_f64();
    assert!((40.0..46.0).contains(&rtt_ms), "{rtt_ms} ms: two ways of 20 ms and up to a sleep");
    let mean_ms = flow.sender.stats.rtt_sum.as_millis_f64() / flow.sender.stats.rtt_count as f64;
    assert!(mean_ms > rtt_ms + 1.0, "{mean_ms} ms on average");
    // A year of silence costs nothing.
    document["flows"][0]["app"] = json!({"type": "transfers", "sizes_bytes": [10_000, 10_000], "gap_s": 500_000});
    document["duration_s"] = json!(600_000);
    document["links"][0]["wakes_ms"] = json!(0.001);
    assert_eq!(run(&document, u64::MAX).flows()[0].sender.app.outcome().completion.len(), 2);
}

/// Weights and requirements may change during the run, and shares follow.
#[test]
fn shares_follow_weights_and_requirements() {
    let mut weighted = document("wcc-ai", &json!({"type": "constant", "rate_mbps": 50}), 200);
    weighted["flows"] = json!([{"scheme": "wcc-ai"}, {"scheme": "wcc-ai", "changes": [{"at_s": 60, "weight": 4}]}]);
    let need = |a: f64| json!({"min_mbps": a, "max_mbps": 1.5 * a});
    let mut required = document("hercules", &json!({"type": "constant", "rate_mbps": 50}), 200);
    required["flows"] = json!([{"scheme": "hercules", "requirement": need(10.0)},
        {"scheme": "hercules", "requirement": need(10.0), "changes": [{"at_s": 60, "requirement": need(40.0)}]}]);
    for mut document in [weighted, required] {
        document["duration_s"] = json!(120);
        document["record"] = json!({"series": true, "bin_ms": 60_000});
        let sim = run(&document, u64::MAX);
        let got =
            |flow: usize, bin: usize| sim.flows()[flow].series().map_or(0.0, |s| s.bins[bin].payload_bytes as f64);
        let (before, after) = (got(1, 0) / got(0, 0), got(1, 1) / got(0, 1));
        assert!((0.6..1.6).contains(&before), "{before} for alike flows: {document}");
        assert!(after > 1.8, "{after} for a flow of four times the weight or need: {document}");
    }
}

/// Of bulk data with a cap, each slot sends its amount and no more; a rate far below a segment per slot is kept exactly.
#[test]
fn a_cap_is_kept() {
    for (rate_mbps, link_mbps) in [(0.015, 10.0), (0.15, 10.0), (7.5, 10.0), (15.0, 10.0)] {
        let mut document = document("cubic", &json!({"type": "constant", "rate_mbps": link_mbps}), 100);
        document["flows"][0]["app"] = json!({"type": "capped", "rate_mbps": rate_mbps});
        let sim = run(&document, u64::MAX);
        let goodput_mbps = sim.flows()[0].receiver().goodput_bytes as f64 * 8e-6 / 20.0;
        let most = f64::min(rate_mbps, link_mbps * 1448.0 / 1500.0);
        assert!((0.97 * most..=most).contains(&goodput_mbps), "{goodput_mbps} of {most} Mbit/s");
    }
}

/// An outage loses what arrives in it, as often as its mean times say.
#[test]
fn outages_lose_what_arrives() {
    let mut document = document("fixed", &json!({"type": "constant", "rate_mbps": 12}), 1000);
    document["duration_s"] = json!(600);
    document["flows"][0]["app"] = json!({"type": "cbr", "rate_mbps": 1});
    document["flows"][0]["params"] = json!({"window": 1000});
    document["links"][0]["outages"] = json!({"on_s": 0.9, "off_s": 0.1});
    document["record"] = json!({"packets": true});
    let mut sim = run(&document, u64::MAX);
    let stats = sim.links()[0].stats;
    let share = stats.lost_packets as f64 / stats.arrived_packets as f64;
    assert!((0.06..0.16).contains(&share), "{share} lost, about a tenth expected");
    let log = sim.take_log(0).unwrap();
    assert_eq!((log.lost.len() as u64, log.dropped.len() as u64), (stats.lost_packets, stats.dropped_packets));
}

/// A receiver's window below the bandwidth-delay product is what limits: a window per round trip.
#[test]
fn the_receive_window_limits() {
    let mut document = document("cubic", &json!({"type": "constant", "rate_mbps": 100}), 1000);
    document["flows"][0]["receive_window_packets"] = json!(50);
    let sim = run(&document, u64::MAX);
    let expected = 50.0 / 0.04 * 20.0;
    let delivered = sim.links()[0].stats.delivered_packets as f64;
    assert!((0.9 * expected..expected).contains(&delivered), "{delivered} packets, at most {expected}");
    assert_eq!(sim.links()[0].stats.dropped_packets, 0);
}

/// A path that has died gets a packet or two per timeout, and timeouts double (RFC 6298 §5.5), whatever the controller.
#[test]
fn in_silence_every_scheme_backs_off() {
    let sent = |scheme: &str, seconds: u32| {
        let mut document = document(scheme, &json!({"type": "constant", "rate_mbps": 20}), 70);
        document["duration_s"] = json!(seconds);
        document["links"][0]["loss"] =
            json!({"type": "steps", "steps": [{"at_s": 0, "loss": 0}, {"at_s": 5, "loss": 1}]});
        run(&document, u64::MAX).flows()[0].sender.stats.sent
    };
    for scheme in schemes().iter().filter(|scheme| !scheme.learned && !scheme.rules) {
        let late = sent(scheme.name, 35) - sent(scheme.name, 15);
        assert!(late <= 4, "{}: {late} packets from the 10th to the 30th second of silence", scheme.name);
    }
}
