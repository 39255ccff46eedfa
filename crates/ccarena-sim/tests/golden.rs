//! The link model under the whole simulator: a fixed window over Verizon-LTE-short against what real mahimahi gave
//! (published by katexyu, 6829-pset2), transport machinery and all. The crate `ccarena-net` holds the bare model to it.
//!
//! Throughput holds to 1.5 %. The delay holds to 7 %: in an outage TCP probes and times out, where the published sender
//! sent one packet per second of silence.
//!
//! The traces are not part of the repository: `CCARENA_TRACE_DIR` names the folders that have them, separated by colons.

mod common;

use std::path::PathBuf;

use common::run;
use serde_json::json;

/// Window in packets, throughput in Mbit/s, 95th percentile of the signal delay in ms.
const PUBLISHED: [(u32, f64, f64); 6] = [
    (10, 1.99, 155.0),
    (20, 3.32, 278.0),
    (40, 4.55, 505.0),
    (60, 4.92, 714.0),
    (80, 4.99, 897.0),
    (100, 5.02, 1054.0),
];

/// The file called `name` in the trace folders or the folders in them.
fn find(name: &str) -> Option<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/traces");
    let folders = std::env::var("CCARENA_TRACE_DIR").unwrap_or_else(|_| beside.into());
    folders
        .split(':')
        .map(PathBuf::from)
        .flat_map(|f| [f.clone(), f.join("mahimahi")])
        .map(|f| f.join(name))
        .find(|f| f.is_file())
}

/// For each millisecond the least delay of what arrived then or later, waiting included (mahimahi's mm-throughput-graph).
fn p95_signal_delay_ms(packets: &[(u64, u64)]) -> f64 {
    let (first, last) = (packets[0].0, packets.iter().map(|p| p.0).max().unwrap_or(0));
    let mut delays = vec![u64::MAX; (last - first + 1) as usize];
    for &(arrival, departure) in packets {
        let slot = &mut delays[(arrival - first) as usize];
        *slot = (*slot).min(departure - arrival);
    }
    for i in (0..delays.len() - 1).rev() {
        delays[i] = delays[i].min(delays[i + 1].saturating_add(1));
    }
    delays.sort_unstable();
    delays[delays.len() * 95 / 100] as f64
}

#[test]
fn a_fixed_window_over_an_lte_trace_matches_mahimahi() {
    let (Some(down), Some(up)) = (find("Verizon-LTE-short.down"), find("Verizon-LTE-short.up")) else {
        eprintln!(
            "SKIPPED: the golden test needs Verizon-LTE-short.down and .up; set CCARENA_TRACE_DIR to their folder"
        );
        return;
    };
    let pass_s = f64::from(ccarena_net::trace::load(&down).unwrap().duration_ms()) / 1e3;
    for (window, mbps, delay_ms) in PUBLISHED {
        let document = json!({
            "duration_s": pass_s,
            "links": [
                {"service": {"type": "trace", "file": down}, "queue": {"type": "infinite"}, "delay_ms": 20},
                {"service": {"type": "trace", "file": up}, "queue": {"type": "infinite"}, "delay_ms": 20}],
            // Every packet is acknowledged, in the 80 bytes of the published runs (4 of them mahimahi's own).
            "flows": [{"scheme": "fixed", "params": {"window": window}, "path": ["link0"], "return_path": ["link1"],
                "ack_bytes": 76, "delayed_ack": false, "initial_window": window}],
            "record": {"packets": true},
        });
        let mut sim = run(&document, u64::MAX);
        let log = sim.take_log(0).unwrap();
        let bits: f64 = log.delivered.iter().map(|d| f64::from(d.bytes + 4) * 8.0).sum();
        let packets: Vec<_> =
            log.delivered.iter().map(|d| (d.arrival.0 / 1_000_000, d.departure.0 / 1_000_000)).collect();
        let (got_mbps, got_ms) = (bits / pass_s / 1e6, p95_signal_delay_ms(&packets));
        println!("window {window}: {got_mbps:.2} ({mbps}) Mbit/s, {got_ms:.0} ({delay_ms}) ms");
        assert!((got_mbps / mbps - 1.0).abs() < 0.015, "window {window}: {got_mbps:.3} Mbit/s, published {mbps}");
        assert!((got_ms / delay_ms - 1.0).abs() < 0.07, "window {window}: {got_ms:.0} ms, published {delay_ms}");
    }
}
