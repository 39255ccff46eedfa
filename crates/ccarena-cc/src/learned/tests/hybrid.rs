//! Hyvar and Orca, through their specs.

use super::{act, due, report};
use crate::events::AckInfo;
use crate::scheme::Config;
use crate::schemes::testing::{Flow, MSS};
use crate::types::{Bytes, Dur, Rate, Time};

const HISTORY: usize = 10;
const SERIES: usize = 7;
const RTT: Dur = Dur::from_millis(40);

/// A flow in congestion avoidance that has sent its first packet.
fn started(scheme: &str, segments: u32, params: &[(&str, f64)]) -> Flow {
    let params = params.iter().map(|&(name, value)| (name.to_string(), value)).collect();
    let mut flow =
        Flow::new(scheme, &Config { initial_window: segments, slow_start: false, params, ..Config::default() });
    flow.send(Bytes(0));
    flow
}

/// The report's entry is `expected`, up to rounding.
fn assert_reported(flow: &mut Flow, name: &str, expected: f64) {
    let found = report(flow, name);
    assert!((found - expected).abs() <= 1e-5 * expected.abs(), "{name} is {found}; expected {expected}");
}

fn newest(flow: &mut Flow) -> [f32; SERIES] {
    let mut observation = [0.0; HISTORY * SERIES];
    flow.controller.learned().unwrap().observe(&mut observation);
    std::array::from_fn(|series| observation[series * HISTORY + HISTORY - 1])
}

/// Acknowledges a packet every 5 ms for `ms`; how often the learner was asked.
fn run(flow: &mut Flow, ms: u64, min_rtt: Dur, rtt: Dur) -> u32 {
    (0..ms / 5).map(|_| ack(flow, min_rtt, rtt)).map(u32::from).sum()
}

fn ack(flow: &mut Flow, min_rtt: Dur, rtt: Dur) -> bool {
    flow.now = flow.now + Dur::from_millis(5);
    flow.snd_una += MSS;
    flow.controller.on_ack(&AckInfo {
        now: flow.now,
        acked: Bytes(MSS),
        acked_packets: 1,
        rtt: Some(rtt),
        min_rtt,
        srtt: rtt,
        snd_una: flow.snd_una,
        snd_nxt: flow.snd_una + MSS,
        ..AckInfo::default()
    });
    due(flow)
}

#[test]
fn orca_is_asked_at_the_end_of_every_period() {
    for (mtp_ms, expected) in [(10.0, 100), (20.0, 50), (50.0, 20), (100.0, 10), (200.0, 5)] {
        let mut flow = started("orca", 10, &[("mtp_ms", mtp_ms)]);
        assert_eq!(run(&mut flow, 1000, RTT, RTT), expected, "MTP of {mtp_ms} ms");
        assert_reported(&mut flow, "mtp_ms", mtp_ms);
        assert_reported(&mut flow, "interval_ms", mtp_ms);
        assert_reported(&mut flow, "periods", 1.0);
    }
}

#[test]
fn hyvar_asks_the_learner_in_cases_3_and_4_alone() {
    let mut flow = started("hyvar", 100, &[]);
    assert_eq!(run(&mut flow, 5000, RTT, RTT), 0, "an empty queue: case 2");
    assert!(run(&mut flow, 1000, RTT, RTT * 2) >= 90, "a queue: case 4, every 10 ms");
    assert_reported(&mut flow, "case", 4.0);
    assert_reported(&mut flow, "mtp_ms", 10.0);
    assert_eq!(run(&mut flow, 1000, RTT, RTT), 0, "drained");
    flow.lose(true);
    assert_eq!(run(&mut flow, 200, RTT, RTT), 1, "one period had losses: case 3");
    assert_reported(&mut flow, "case", 3.0);
}

/// Returns how often hyvar is asked in a second without acknowledgements, after one with them and short queues.
fn asked_in_an_outage(timed: f64) -> u32 {
    let mut flow = started("hyvar", 100, &[("timed", timed)]);
    let mut tick = |acked: bool| {
        flow.now = flow.now + Dur::from_millis(5);
        if flow.controller.next_timer() <= flow.now {
            flow.controller.on_timer(flow.now);
        }
        if acked {
            flow.now = flow.now - Dur::from_millis(5);
            return ack(&mut flow, RTT, RTT);
        }
        due(&mut flow)
    };
    let before: u32 = (0..200).map(|_| u32::from(tick(true))).sum();
    assert_eq!(before, 0, "no queue, no question");
    (0..200).map(|_| u32::from(tick(false))).sum()
}

#[test]
fn with_a_timer_hyvar_decides_on_outages() {
    assert_eq!(asked_in_an_outage(0.0), 0);
    assert!(asked_in_an_outage(1.0) > 50, "every 10 ms once the silence is longer than the queue that is allowed");
}

#[test]
fn a_report_covers_the_time_since_the_learner_was_last_asked() {
    let mut flow = started("hyvar", 100, &[]);
    let start = flow.now;
    run(&mut flow, 995, RTT, RTT);
    flow.lose(true);
    while !ack(&mut flow, RTT, RTT) {}
    let interval = flow.now.since(start);
    let packets = interval.0 / Dur::from_millis(5).0;
    assert_reported(&mut flow, "interval_ms", interval.as_millis_f64());
    assert_reported(&mut flow, "acked_packets", packets as f64);
    let mbps = packets as f64 * MSS as f64 * 8.0 / interval.as_secs_f64() / 1e6;
    assert_reported(&mut flow, "throughput_mbps", mbps);
    assert_reported(&mut flow, "loss_mbps", mbps / packets as f64);
    assert!(report(&mut flow, "periods") > 40.0, "of 20 ms at first");
    assert_reported(&mut flow, "mtp_least_ms", 20.0);
}

#[test]
fn an_action_scales_the_window_once_when_asked() {
    let mut flow = started("orca", 100, &[("window_limit", 1000.0)]);
    act(&mut flow, 1.0);
    assert_eq!(flow.window(), 100, "nobody has asked yet");
    run(&mut flow, 20, RTT, RTT);
    let before = flow.window();
    act(&mut flow, 1.0);
    act(&mut flow, 1.0);
    assert_eq!(flow.window(), 2 * before);
    run(&mut flow, 20, RTT, RTT);
    assert_reported(&mut flow, "action", 1.0);
    let before = flow.window();
    act(&mut flow, -2.0);
    assert_eq!(flow.window(), (before as f64 / 4.0).round() as u64);
    assert!(flow.threshold() <= flow.window(), "slow start does not bring it back");
}

#[test]
fn the_parameter_scales_actions() {
    let mut flow = started("orca", 100, &[("max_action", 1.0), ("window_limit", 1000.0)]);
    run(&mut flow, 20, RTT, RTT);
    act(&mut flow, 2.0);
    assert_eq!(flow.window(), 200);
    run(&mut flow, 20, RTT, RTT);
    assert_reported(&mut flow, "action", 1.0);
    act(&mut flow, -1.0);
    assert_eq!(flow.window(), 141);
}

#[test]
fn actions_neither_starve_nor_overflow() {
    let mut flow = started("orca", 10, &[]);
    // A packet each 5 ms is eight per RTT.
    for (a, bound) in [(-2.0, 2), (2.0, 16)] {
        for _ in 0..20 {
            run(&mut flow, 20, RTT, RTT);
            act(&mut flow, a);
        }
        assert_eq!(flow.window(), bound);
    }
    let mut large = started("orca", 100, &[]);
    run(&mut large, 20, RTT, RTT);
    act(&mut large, 2.0);
    assert_eq!(large.window(), 100, "the limit lowers no window");
}

#[test]
fn an_action_supersedes_what_undoing_a_loss_would_restore() {
    let mut flow = started("orca", 100, &[]);
    flow.lose(true);
    run(&mut flow, 20, RTT, RTT);
    act(&mut flow, -1.0);
    let after = flow.window();
    flow.controller.on_spurious_loss(flow.now);
    assert_eq!(flow.window(), after);
}

#[test]
fn without_actions_it_is_cubic() {
    let config = Config::default();
    let (mut hybrid, mut cubic) = (Flow::new("hyvar", &config), Flow::new("cubic", &config));
    for k in 0..5000_u32 {
        for flow in [&mut hybrid, &mut cubic] {
            flow.send(Bytes(MSS));
            flow.ack(1 + k % 3, RTT / 20, RTT);
            if k % 700 == 699 {
                flow.lose(true);
            }
            if k % 2100 == 2099 {
                flow.time_out(true);
            }
        }
        let seen = |flow: &Flow| (flow.controller.window(), flow.controller.slow_start_threshold());
        assert_eq!(seen(&hybrid), seen(&cubic), "at {k}");
        due(&mut hybrid);
        act(&mut hybrid, 0.0);
    }
}

#[test]
fn after_an_action_cubic_goes_on_from_the_new_window() {
    let mut flow = started("orca", 1000, &[("reno_friendly", 0.0)]);
    flow.lose(true);
    for _ in 0..100 {
        flow.round(1, RTT);
    }
    due(&mut flow);
    act(&mut flow, -1.0);
    let scaled = flow.window();
    // W_max is 1000: half a second into a new epoch the curve has left the scaled window and not reached W_max.
    for _ in 0..12 {
        flow.round(1, RTT);
    }
    assert!(flow.window() > scaled + 10 && flow.window() < 1000, "{scaled}, then {}", flow.window());
}

#[test]
fn the_observation_is_free_of_units() {
    let mut flow = started("orca", 20, &[("mtp_ms", 50.0)]);
    run(&mut flow, 200, RTT, RTT + RTT / 2);
    let [throughput, delivery, rtt, srtt, loss, window, interval] = newest(&mut flow);
    assert!((throughput - 1.0).abs() < 1e-6 && loss.abs() < 1e-6, "{throughput} {loss}");
    assert!((rtt - 1.5).abs() < 1e-6 && (srtt - 1.5).abs() < 1e-6 && (interval - 1.25).abs() < 1e-6);
    // A packet each 5 ms is eight per 40 ms, of a window of twenty.
    assert!((delivery - 8.0 / 20.0).abs() < 1e-5 && (window - 20.0 / 8.0).abs() < 1e-5, "{delivery} {window}");
    flow.lose(true);
    run(&mut flow, 50, RTT, RTT);
    let loss = newest(&mut flow)[4];
    assert!((loss - 1.0 / 11.0).abs() < 1e-6, "{loss}");
}

#[test]
fn a_pacing_gain_spreads_the_window() {
    let mut flow = started("orca", 20, &[("pacing_gain", 1.25)]);
    assert_eq!(flow.controller.pacing_rate(), None, "before there is an RTT");
    run(&mut flow, 5, RTT, RTT);
    let bits = 1.25 * f64::from(20 * MSS as u32) * 8.0;
    assert_eq!(flow.controller.pacing_rate(), Some(Rate((bits / 0.04) as u64)));
}

#[test]
fn a_window_that_the_datapath_runs_moves_by_actions_alone() {
    let mut flow = started("orca", 10, &[("window_limit", 1000.0)]);
    let left = |flow: &mut Flow| flow.extrapolation().cubic;
    assert_eq!(left(&mut flow), None, "slow start is off, and Linux's is not");
    flow.controller.extrapolated().unwrap().adopt_window(Bytes(100 * MSS));
    run(&mut flow, 10, RTT, RTT);
    flow.lose(true);
    flow.time_out(true);
    run(&mut flow, 10, RTT, RTT);
    assert_eq!(flow.window(), 100);
    act(&mut flow, -1.0);
    assert_eq!(flow.window(), 50);
    assert_reported(&mut flow, "cwnd_packets", 100.0);
}

#[test]
fn the_datapath_is_left_alone_to_the_end_of_the_period() {
    let mut flow = Flow::new("orca", &Config::default());
    let left = |flow: &mut Flow| flow.extrapolation().cubic;
    assert_eq!(left(&mut flow), Some(Dur::from_millis(20)), "before the first packet");
    flow.send(Bytes(0));
    run(&mut flow, 15, RTT, RTT);
    assert_eq!(left(&mut flow), Some(Dur::from_millis(5)));
    for name in ["hystart", "fast_convergence", "reno_friendly"] {
        let params = [(name.to_string(), 0.0)].into();
        assert_eq!(left(&mut Flow::new("hyvar", &Config { params, ..Config::default() })), None, "not Linux's {name}");
    }
}

#[test]
fn the_first_period_of_a_late_flow_begins_with_its_first_packet() {
    let mut flow = Flow::new("acct", &Config::default());
    flow.now = Time::from_secs_f64(5.0);
    flow.send(Bytes(0));
    for _ in 0..4 {
        ack(&mut flow, RTT, RTT);
    }
    let interval_ms = report(&mut flow, "interval_ms");
    assert!((1.0..100.0).contains(&interval_ms), "{interval_ms}");
}
