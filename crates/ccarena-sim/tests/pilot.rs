//! The scheme `pilot` in the simulator: what it fills, what it leaves empty, and how it gets on with others.

mod common;

use common::run;
use serde_json::{Value, json};

const SECONDS: f64 = 30.0;

fn flow(more: &Value) -> Value {
    let mut flow = json!({"scheme": "pilot"});
    for (key, value) in more.as_object().into_iter().flatten() {
        flow[key] = value.clone();
    }
    flow
}

/// Mbit/s of each flow, and the mean of its RTT samples in ms.
fn figures(link: &Value, flows: &[Value]) -> Vec<(f64, f64)> {
    figures_of(link, flows, SECONDS)
}

fn figures_of(link: &Value, flows: &[Value], seconds: f64) -> Vec<(f64, f64)> {
    let document = json!({"duration_s": seconds, "links": [link], "flows": flows});
    let sim = run(&document, u64::MAX);
    let wire_bytes = sim.wire_bytes();
    let figures = sim.flows().iter().enumerate().map(|(i, flow)| {
        let stats = flow.sender.stats;
        let rtt_ms = stats.rtt_sum.as_millis_f64() / stats.rtt_count.max(1) as f64;
        (wire_bytes[i] as f64 * 8e-6 / seconds, rtt_ms)
    });
    figures.collect()
}

fn link(mbps: f64, rtt_ms: f64, bdp: f64) -> Value {
    json!({"service": {"type": "constant", "rate_mbps": mbps}, "delay_ms": rtt_ms / 2.0,
           "queue": {"type": "droptail", "bdp": bdp}})
}

#[test]
fn a_constant_link_is_full_and_its_queue_short() {
    for (mbps, rtt_ms) in [(2.0, 40.0), (12.0, 20.0), (48.0, 30.0), (100.0, 100.0), (200.0, 10.0)] {
        let (rate, mean_rtt_ms) = figures(&link(mbps, rtt_ms, 2.0), &[flow(&json!({}))])[0];
        assert!(rate > 0.93 * mbps, "{mbps} Mbit/s, {rtt_ms} ms: {rate} Mbit/s");
        // A few packets are always queued, which take long where the link is slow.
        assert!(
            mean_rtt_ms < rtt_ms + 10.0 + 3.0 * 12.0 / mbps,
            "{mbps} Mbit/s, {rtt_ms} ms: mean RTT {mean_rtt_ms} ms"
        );
    }
}

#[test]
fn on_a_long_path_the_window_does_not_swing() {
    for (mbps, rtt_ms) in [(1.0, 200.0), (2.0, 200.0), (5.0, 300.0)] {
        let (rate, mean_rtt_ms) = figures_of(&link(mbps, rtt_ms, 2.0), &[flow(&json!({}))], 60.0)[0];
        assert!(rate > 0.94 * mbps, "{mbps} Mbit/s, {rtt_ms} ms: {rate} Mbit/s");
        assert!(mean_rtt_ms < 1.35 * rtt_ms, "{mbps} Mbit/s, {rtt_ms} ms: mean RTT {mean_rtt_ms} ms");
    }
}

#[test]
fn preference_moves_between_throughput_and_delay() {
    let cellular = json!({"service": {"type": "cellular", "preset": "lte-bus", "seed": 5}, "delay_ms": 20,
                          "queue": {"type": "infinite"}});
    let at = |preference: f64| figures(&cellular, &[flow(&json!({"params": {"preference": preference}}))])[0];
    let curve: Vec<(f64, f64)> = [0.0, 0.25, 0.5, 0.75, 1.0].map(at).into();
    for pair in curve.windows(2) {
        assert!(pair[1].0 < pair[0].0, "less throughput the more delay is worth: {curve:?}");
    }
    // In between a search for competitors may cost a few seconds of queue.
    assert!(curve[4].1 < curve[0].1 - 10.0, "and less delay: {curve:?}");
}

#[test]
fn random_loss_is_no_news_of_a_queue() {
    let mut lossy = link(24.0, 40.0, 2.0);
    lossy["loss"] = json!(0.01);
    let (rate, _) = figures(&lossy, &[flow(&json!({}))])[0];
    assert!(rate > 0.9 * 24.0, "{rate} Mbit/s");
}

#[test]
fn an_outage_is_over_as_soon_as_the_link_is_back() {
    let outage = json!({"service": {"type": "steps", "steps": [
        {"at_s": 0, "rate_mbps": 12}, {"at_s": 5, "rate_mbps": 0}, {"at_s": 10, "rate_mbps": 12}]},
        "delay_ms": 20, "queue": {"type": "infinite"}});
    let (rate, _) = figures(&outage, &[flow(&json!({}))])[0];
    // Five of thirty seconds are lost, and not a second more.
    assert!(rate > 12.0 * 24.0 / 30.0, "{rate} Mbit/s");
}

/// Without acknowledgements the last that is known of the queue may be that it was empty, however long ago.
#[test]
fn silence_is_no_reason_to_send_more_and_more() {
    // In the last one the smoothed RTT is of ten seconds: that no acknowledgement comes for a while is nothing unusual.
    let cases = [
        ("umts-driving", 2, 0, 20.0, 0.0, 0),
        ("umts-driving", 10, 0, 20.0, 0.0, 0),
        ("umts-driving", 11, 0, 20.0, 0.0, 0),
        ("sprout", 210_266_592, 128_656, 18.940_476_071_419_013, 0.25, 77),
    ];
    for (preset, seed, offset_ms, delay_ms, preference, run_seed) in cases {
        let flow = flow(&json!({"params": {"preference": preference}, "delayed_ack": preference > 0.0}));
        let service = json!({"type": "cellular", "preset": preset, "seed": seed, "offset_ms": offset_ms});
        let link = json!({"service": service, "delay_ms": delay_ms, "queue": {"type": "droptail", "packets": 1000}});
        let sim = run(&json!({"duration_s": 60, "seed": run_seed, "links": [link], "flows": [flow]}), u64::MAX);
        let (sent, arrived) = (sim.flows()[0].sender.stats.sent, sim.wire_bytes()[0] / 1500);
        assert!(sent < arrived + arrived / 4, "{preset}, seed {seed}: {sent} packets sent, {arrived} arrived");
    }
}

#[test]
fn flows_of_its_own_share() {
    let flows: Vec<Value> = (0..3).map(|i| flow(&json!({"start_s": i}))).collect();
    let rates: Vec<f64> = figures(&link(24.0, 40.0, 2.0), &flows).iter().map(|f| f.0).collect();
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    assert!(sum * sum / squares / 3.0 > 0.9, "{rates:?}");
    assert!(sum > 0.93 * 24.0, "{rates:?}");
}

/// Flows that start together know neither the smallest RTT nor when the others drain the queue: until they do, each could take the
/// others for a competitor, and fill the buffer of 80 ms.
#[test]
fn flows_that_start_together_on_a_short_path_do_not_compete() {
    for k in 0..8 {
        let k = f64::from(k);
        let starts = [0.0, 0.5 + 0.3 * k, 1.0 + 0.7 * k, 2.0 + k];
        for mbps in [8.0, 20.0, 60.0] {
            let flows = starts.map(|s| flow(&json!({"start_s": s})));
            let most_ms = figures(&link(mbps, 20.0, 4.0), &flows).iter().map(|f| f.1).fold(0.0, f64::max);
            assert!(most_ms < 60.0, "{mbps} Mbit/s, starts {starts:?}: mean RTT {most_ms} ms");
        }
    }
}

/// On a slow link a few packets of each flow take long to go through, and a packet train of one makes the queue longer for all: each
/// could take the others for competitors, and fill the buffer.
#[test]
fn three_flows_on_a_slow_link_rarely_compete() {
    const BUFFER_PACKETS: u32 = 36;
    for mbps in [1.0, 1.5] {
        let mut slow = link(mbps, 40.0, 1.0);
        slow["queue"] = json!({"type": "droptail", "packets": BUFFER_PACKETS});
        let full_ms = f64::from(BUFFER_PACKETS) * 12.0 / mbps;
        let runs = (0..16).filter(|k| {
            let k = f64::from(*k);
            let starts = [0.0, 0.4 + 0.4 * k, 1.0 + 0.55 * k];
            let flows = starts.map(|s| flow(&json!({"start_s": s})));
            let mean_ms = figures_of(&slow, &flows, 60.0).iter().map(|f| f.1).sum::<f64>() / 3.0;
            mean_ms > 40.0 + 0.6 * full_ms
        });
        let filled = runs.count();
        assert!(filled <= 5, "{mbps} Mbit/s: {filled} of 16 runs");
    }
}

/// What it gets depends on the moment at which the other one comes: the mean over several.
#[test]
fn it_is_not_starved_by_those_who_fill_the_queue() {
    const STARTS: u32 = 8;
    for scheme in ["cubic", "reno"] {
        let (mut own, mut others) = (0.0, 0.0);
        for k in 0..STARTS {
            let other = json!({"scheme": scheme, "start_s": 2.0 + 0.25 * f64::from(k)});
            let rates = figures(&link(24.0, 40.0, 4.0), &[flow(&json!({})), other]);
            own += rates[0].0 / f64::from(STARTS);
            others += rates[1].0 / f64::from(STARTS);
        }
        assert!(own > 0.3 * 12.0, "beside {scheme}: {own} Mbit/s");
        assert!(others > 0.3 * 12.0, "{scheme} beside it: {others} Mbit/s");
    }
}

/// A queue that another flow holds up for minutes is not taken for the path, nor for the flow's own.
#[test]
fn it_keeps_its_share_beside_cubic() {
    const STARTS: u32 = 6;
    for bdp in [1.0, 4.0] {
        let (mut own, mut other) = (0.0, 0.0);
        for k in 0..STARTS {
            let cubic = json!({"scheme": "cubic", "start_s": 2.0 + 0.25 * f64::from(k)});
            let rates = figures_of(&link(48.0, 40.0, bdp), &[flow(&json!({})), cubic], 120.0);
            own += rates[0].0 / f64::from(STARTS);
            other += rates[1].0 / f64::from(STARTS);
        }
        let share = own / (own + other);
        assert!((0.35..0.65).contains(&share), "{bdp} BDP: {share}");
    }
}

/// Where RTTs are of seconds and the window is of a few packets, there is nothing to drain, and each push has to say much.
#[test]
fn it_is_not_starved_in_a_deep_queue_of_a_cellular_link() {
    let (mut own, mut other) = (0.0, 0.0);
    for seed in 1..=6 {
        let service = json!({"type": "cellular", "preset": "lte-bus", "seed": seed});
        let link = json!({"service": service, "delay_ms": 20, "queue": {"type": "droptail", "packets": 1000}});
        let cubic = json!({"scheme": "cubic", "start_s": 1.0});
        let rates = figures_of(&link, &[flow(&json!({"start_s": 3.0})), cubic], 100.0);
        own += rates[0].0;
        other += rates[1].0;
    }
    let share = own / (own + other);
    assert!(share > 0.25, "{share}");
}
