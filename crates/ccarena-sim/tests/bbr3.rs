//! BBR version 3 on links: full, with a short queue, beside others, and where packets are lost or marked.

mod common;

use ccarena_sim::Sim;
use common::run;
use serde_json::{Value, json};

/// Mbit/s, delay one way in ms, queue in bandwidth-delay products.
fn document(link: (f64, f64, f64), schemes: &[&str]) -> Value {
    let (mbps, delay_ms, bdp) = link;
    let flows: Vec<Value> = schemes.iter().map(|scheme| json!({"scheme": scheme})).collect();
    json!({
        "duration_s": 60,
        "links": [{"service": {"type": "constant", "rate_mbps": mbps}, "queue": {"type": "droptail", "bdp": bdp},
            "delay_ms": delay_ms}],
        "flows": flows,
    })
}

fn goodput_mbps(sim: &Sim, flow: usize, seconds: f64) -> f64 {
    sim.flows()[flow].receiver().goodput_bytes as f64 * 8e-6 / seconds
}

fn mean_rtt_ms(sim: &Sim) -> f64 {
    let stats = sim.flows()[0].sender.stats;
    stats.rtt_sum.as_millis_f64() / stats.rtt_count as f64
}

/// What payload a link of `mbps` carries.
fn payload(mbps: f64) -> f64 {
    mbps * 1448.0 / 1500.0
}

#[test]
fn a_clean_link_is_full_and_its_queue_short() {
    for link in [(5.0, 20.0, 1.0), (20.0, 50.0, 0.5), (50.0, 10.0, 5.0), (200.0, 40.0, 1.0), (1000.0, 5.0, 2.0)] {
        let sim = run(&document(link, &["bbr3"]), u64::MAX);
        let share = goodput_mbps(&sim, 0, 60.0) / payload(link.0);
        let rtt = mean_rtt_ms(&sim) / (2.0 * link.1);
        let lost = sim.links()[0].stats.dropped_packets as f64 / sim.links()[0].stats.arrived_packets as f64;
        println!("{link:?}: {share:.3} of the link, RTT {rtt:.2}, loss {lost:.4}");
        assert!(share > 0.95, "{link:?}: {share} of the link");
        assert!(rtt < 1.5, "{link:?}: {rtt} of the base RTT on average");
        assert!(lost < 0.01, "{link:?}: {lost} lost");
    }
}

#[test]
fn in_a_shallow_buffer_cubic_keeps_more_beside_version_3_than_beside_version_1() {
    for (link, least) in [((50.0, 20.0, 0.5), 0.1), ((50.0, 20.0, 1.0), 0.2), ((20.0, 15.0, 1.0), 0.2)] {
        let share = |scheme: &str| {
            let sim = run(&document(link, &["cubic", scheme]), u64::MAX);
            goodput_mbps(&sim, 0, 60.0) / (goodput_mbps(&sim, 0, 60.0) + goodput_mbps(&sim, 1, 60.0))
        };
        let (v1, v3) = (share("bbr"), share("bbr3"));
        println!("{link:?}: cubic has {v1:.3} beside version 1, {v3:.3} beside version 3");
        assert!(v3 > v1 + 0.03, "{link:?}: cubic has {v1} beside version 1, {v3} beside version 3");
        assert!(v3 > least, "{link:?}: {v3}");
    }
}

#[test]
fn flows_of_version_3_share_alike() {
    let sim = run(&document((50.0, 20.0, 1.0), &["bbr3"; 4]), u64::MAX);
    let rates: Vec<f64> = (0..4).map(|flow| goodput_mbps(&sim, flow, 60.0)).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    assert!(sum * sum / (4.0 * squares) > 0.9, "{rates:?}");
    assert!(sum > 0.95 * payload(50.0), "{rates:?}");
}

/// The threshold is 2 % of a round trip: half of that at random does not slow it down, ten times that does.
#[test]
fn random_loss_below_the_threshold_hardly_matters() {
    let share = |loss: f64| {
        let mut document = document((20.0, 20.0, 1.0), &["bbr3"]);
        document["links"][0]["loss"] = json!(loss);
        goodput_mbps(&run(&document, u64::MAX), 0, 60.0) / payload(20.0)
    };
    let shares = [0.0, 0.005, 0.01, 0.2].map(share);
    println!("{shares:?}");
    assert!(shares[1] > 0.85 && shares[2] > 0.75, "{shares:?}");
    assert!(shares[3] < 0.7, "{shares:?}");
}

/// Marks keep the queue short where nothing is dropped.
#[test]
fn marks_bound_the_queue() {
    let figures = |ecn: bool, scheme: &str| {
        let mut document = document((50.0, 20.0, 4.0), &[scheme, scheme]);
        document["links"][0]["queue"] = json!({"type": "codel", "packets": 1000, "ecn": true});
        for flow in 0..2 {
            document["flows"][flow]["ecn"] = json!(ecn);
        }
        let sim = run(&document, u64::MAX);
        let stats = sim.links()[0].stats;
        (goodput_mbps(&sim, 0, 60.0) + goodput_mbps(&sim, 1, 60.0), mean_rtt_ms(&sim), stats.dropped_packets)
    };
    let (dropping, marking) = (figures(false, "bbr3"), figures(true, "bbr3"));
    println!("{dropping:?} {marking:?}");
    assert!(marking.0 > 0.9 * payload(50.0), "{marking:?}");
    assert!(marking.1 < 40.0 * 1.4, "{marking:?}");
    assert_eq!(marking.2, 0, "{marking:?}");
}

/// Ten times less bandwidth, and then ten times more: the flow follows within seconds.
#[test]
fn a_change_of_capacity_is_followed() {
    let mut document = document((100.0, 20.0, 1.0), &["bbr3"]);
    document["links"][0]["service"] = json!({"type": "steps", "steps": [
        {"at_s": 0, "rate_mbps": 100}, {"at_s": 20, "rate_mbps": 10}, {"at_s": 40, "rate_mbps": 100}]});
    document["record"] = json!({"series": true, "bin_ms": 10_000});
    let sim = run(&document, u64::MAX);
    let bins = &sim.flows()[0].series().map_or(Vec::new(), |s| s.bins.clone());
    let mbps: Vec<f64> = bins.iter().map(|bin| bin.payload_bytes as f64 * 8e-7).collect();
    println!("{mbps:?}");
    assert!(mbps[1] > 90.0 && mbps[3] > 9.0 && mbps[5] > 85.0, "{mbps:?}");
}

/// A fall of the capacity fills a deep buffer so far that ProbeRTT interrupts every probe. The bandwidth filter still
/// forgets the old rate, so that the queue drains and nothing more is lost.
#[test]
fn a_fall_of_the_capacity_leaves_no_standing_queue() {
    for (low, then, delay_ms, packets) in
        [(1.0, 4.0, 20.0, 1000), (0.5, 2.0, 20.0, 400), (2.0, 2.0, 50.0, 1000), (1.0, 1.0, 20.0, 250)]
    {
        let after = |seconds: u64| {
            let mut document = document((20.0, delay_ms, 1.0), &["bbr3"]);
            document["duration_s"] = json!(seconds);
            document["links"][0]["service"] = json!({"type": "steps", "steps": [
                {"at_s": 0, "rate_mbps": 20}, {"at_s": 10, "rate_mbps": low}, {"at_s": 20, "rate_mbps": then}]});
            document["links"][0]["queue"] = json!({"type": "droptail", "packets": packets});
            let sim = run(&document, u64::MAX);
            let stats = sim.flows()[0].sender.stats;
            (stats.rtt_sum.as_millis_f64(), stats.rtt_count, stats.lost, goodput_mbps(&sim, 0, 1.0))
        };
        let (before, end) = (after(60), after(120));
        let queue_ms = (end.0 - before.0) / (end.1 - before.1) as f64 - 2.0 * delay_ms;
        let buffer_ms = 12.0 * f64::from(packets) / then;
        let lost = end.2 - before.2;
        let share = (end.3 - before.3) / 60.0 / payload(then);
        println!(
            "{low} then {then} Mbit/s: queue {queue_ms:.0} of {buffer_ms:.0} ms, {lost} lost, {share:.3} of the link"
        );
        assert!(queue_ms < 0.1 * buffer_ms, "{low} then {then} Mbit/s: queue {queue_ms} of {buffer_ms} ms");
        assert_eq!(lost, 0, "{low} then {then} Mbit/s");
        assert!(share > 0.9, "{low} then {then} Mbit/s: {share} of the link");
    }
}
