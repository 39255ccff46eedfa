//! What a flow's options do to its transport: the least timeout, QUIC's acknowledgements, bursts of offload.

mod common;

use ccarena_sim::Sim;
use common::run;
use serde_json::{Value, json};

fn document(scheme: &str, mbps: f64, packets: u32, delay_ms: f64, options: &Value) -> Value {
    let mut flow = options.clone();
    flow["scheme"] = json!(scheme);
    json!({
        "duration_s": 20,
        "links": [{"service": {"type": "constant", "rate_mbps": mbps}, "queue": {"type": "droptail", "packets": packets},
            "delay_ms": delay_ms}],
        "flows": [flow],
    })
}

fn goodput_mbps(sim: &Sim, seconds: f64) -> f64 {
    sim.flows()[0].receiver().goodput_bytes as f64 * 8e-6 / seconds
}

fn mean_rtt_ms(sim: &Sim) -> f64 {
    let stats = sim.flows()[0].sender.stats;
    stats.rtt_sum.as_millis_f64() / stats.rtt_count as f64
}

/// An outage of 0.7 s: a least timeout of 200 ms expires in it, one of a second does not.
#[test]
fn the_least_timeout_decides_whether_an_outage_is_one() {
    let timeouts = |min_rto_ms: u32| {
        let mut document = document("cubic", 10.0, 100, 20.0, &json!({"min_rto_ms": min_rto_ms}));
        document["links"][0]["service"] = json!({"type": "steps", "steps": [
            {"at_s": 0, "rate_mbps": 10}, {"at_s": 5, "rate_mbps": 0}, {"at_s": 5.7, "rate_mbps": 10}]});
        run(&document, u64::MAX).flows()[0].sender.stats.timeouts
    };
    assert!(timeouts(200) >= 1);
    assert_eq!(timeouts(1000), 0);
}

/// The last three packets of a transfer are lost, and without selective acknowledgements no probe is sent: the timeout
/// repairs them, and comes as late as its least value says.
#[test]
fn a_repair_by_timeout_takes_as_long_as_the_least_timeout() {
    let completion_ms = |min_rto_ms: u32| {
        let options = json!({"min_rto_ms": min_rto_ms, "sack": false,
            "app": {"type": "transfers", "sizes_bytes": [14_480]}});
        let sim = run(&document("cubic", 12.0, 6, 20.0, &options), u64::MAX);
        assert!(sim.flows()[0].sender.stats.timeouts >= 1);
        sim.flows()[0].sender.app.outcome().completion[0].as_millis_f64()
    };
    let (linux, ns3) = (completion_ms(200), completion_ms(1000));
    assert!((750.0..900.0).contains(&(ns3 - linux)), "{linux} and {ns3} ms");
}

/// QUIC acknowledges every tenth packet or after a quarter of the RTT; RTT samples do not contain that delay.
#[test]
fn quic_acknowledges_rarely_and_its_delay_is_no_rtt() {
    // Mean RTT, and RTT samples, one per acknowledgement, of a window that leaves the link idle.
    let samples = |options: Value| {
        let mut document = document("fixed", 50.0, 1000, 20.0, &options);
        document["flows"][0]["params"] = json!({"window": 20});
        document["flows"][0]["initial_window"] = json!(1);
        let sim = run(&document, u64::MAX);
        (mean_rtt_ms(&sim), sim.flows()[0].sender.stats.rtt_count as f64)
    };
    let (_, tcp) = samples(json!({}));
    let (_, decimated) = samples(json!({"ack_policy": {"type": "quic"}}));
    assert!(decimated < 0.3 * tcp, "{decimated} of {tcp} acknowledgements");
    // By the timer alone, after 10 ms: as late would RTTs be without the correction.
    let (rtt, rare) = samples(json!({"ack_policy": {"type": "quic", "packets": 1000}}));
    assert!(rare < 0.7 * decimated, "{rare} of {decimated} acknowledgements");
    assert!((40.2..46.0).contains(&rtt), "{rtt} ms");
}

/// Schemes that take their time from many acknowledgements still fill a clean link behind rare ones.
#[test]
fn quic_acknowledgements_do_not_slow_a_flow_down() {
    for scheme in ["reno", "cubic", "bbr", "bbr3", "vivace"] {
        let quic = json!({"ack_policy": {"type": "quic"}});
        let (tcp, quic) = (document(scheme, 50.0, 200, 20.0, &json!({})), document(scheme, 50.0, 200, 20.0, &quic));
        let (before, after) = (goodput_mbps(&run(&tcp, u64::MAX), 20.0), goodput_mbps(&run(&quic, u64::MAX), 20.0));
        assert!(after > 0.85 * before, "{scheme}: {after} Mbit/s, {before} with TCP's acknowledgements");
        assert!(after > 35.0, "{scheme}: {after} Mbit/s");
    }
}

/// With segmentation offload the packets of a flow without pacing leave up to 45 at once; receive offload answers them
/// with one acknowledgement. The throughput stays.
#[test]
fn offload_sends_in_bursts() {
    let figures = |options: Value| {
        let mut document = document("reno", 10_000.0, 1000, 0.15, &options);
        document["duration_s"] = json!(0.2);
        document["flows"][0]["slow_start"] = json!(false);
        document["flows"][0]["initial_window"] = json!(400);
        document["record"] = json!({"packets": true});
        let mut sim = run(&document, u64::MAX);
        let goodput = goodput_mbps(&sim, 0.2);
        let acknowledgements = sim.flows()[0].sender.stats.rtt_count as f64;
        let log = sim.take_log(0).unwrap_or_default();
        let packets = log.delivered.len() as f64;
        let bursts = 1 + log.delivered.windows(2).filter(|pair| pair[0].arrival != pair[1].arrival).count();
        (goodput, acknowledgements / packets, packets / bursts as f64)
    };
    let (plain, plain_acks, plain_burst) = figures(json!({}));
    let (bursty, bursty_acks, bursty_burst) = figures(json!({"burst_bytes": 65_536}));
    println!("{plain} and {bursty} Mbit/s, {plain_acks} and {bursty_acks} acknowledgements per packet,");
    println!("{plain_burst} and {bursty_burst} packets at once");
    assert!(bursty > 0.95 * plain, "{bursty} and {plain} Mbit/s");
    assert!(bursty_acks < 0.1 * plain_acks, "{bursty_acks} and {plain_acks} acknowledgements per packet");
    assert!(plain_burst < 4.0 && bursty_burst > 20.0, "{plain_burst} and {bursty_burst} packets at once");
}

/// Bursts are of senders that do not pace, and neither hold the end of a transfer back.
#[test]
fn bursts_leave_pacing_and_tails_alone() {
    let same = |scheme: &str| {
        let sent =
            |options: Value| run(&document(scheme, 50.0, 200, 20.0, &options), u64::MAX).flows()[0].sender.stats.sent;
        let (plain, bursty) = (sent(json!({})), sent(json!({"burst_bytes": 65_536})));
        (plain as f64 / bursty as f64 - 1.0).abs() < 0.05
    };
    assert!(same("bbr") && same("bbr3"));
    let completion = |options: Value| {
        let mut document = document("cubic", 50.0, 200, 20.0, &options);
        document["flows"][0]["app"] =
            json!({"type": "transfers", "sizes_bytes": [1_000_000, 1448, 30_000], "gap_s": 1});
        let sim = run(&document, u64::MAX);
        assert_eq!(sim.flows()[0].sender.app.outcome().completion.len(), 3);
        sim.flows()[0].sender.app.outcome().completion.iter().map(|c| c.as_millis_f64()).sum::<f64>()
    };
    let (plain, bursty) = (completion(json!({})), completion(json!({"burst_bytes": 65_536})));
    assert!(bursty < 1.2 * plain + 50.0, "{bursty} and {plain} ms");
}
