use super::super::testing::{Flow, MSS};
use super::*;

const RTT: Dur = Dur::from_millis(25);

fn config(segments: u32) -> Config {
    Config { initial_window: segments, slow_start: false, feedback: Feedback::Accurate, ..Config::default() }
}

/// The window in segments, by the rate that it paces at.
fn window(flow: &Flow, rtt: Dur) -> f64 {
    flow.controller.pacing_rate().unwrap().0 as f64 * rtt.as_secs_f64() / 8.0 / MSS as f64
}

/// Acknowledges a window of data, every `spacing`th segment marked, over `rtt`; zero marks none.
fn round(flow: &mut Flow, spacing: u64, rtt: Dur) {
    let segments = flow.window();
    for segment in 1..=segments {
        let marked = spacing > 0 && segment % spacing == 0;
        flow.ack_marked(1, u32::from(marked), rtt / segments, rtt);
    }
}

#[test]
fn it_leaves_as_ect_1_only_with_counts_of_marks() {
    assert!(Flow::new("prague", &config(10)).controller.transport().l4s);
    let mut reno = Flow::avoiding("prague", 40);
    assert!(!reno.controller.transport().l4s && reno.controller.pacing_rate().is_none());
    reno.echo();
    assert_eq!(reno.window(), 20, "NewReno answers the echo");
}

#[test]
fn slow_start_doubles_until_the_first_mark_halves() {
    let mut flow = Flow::new("prague", &Config { slow_start: true, ..config(10) });
    for expected in [20, 40, 80] {
        round(&mut flow, 0, RTT);
        assert_eq!(flow.window(), expected);
    }
    flow.ack_marked(1, 1, RTT / 80, RTT);
    assert_eq!(flow.window(), 40, "alpha begins at 1");
    assert_eq!(flow.threshold(), 40);
}

#[test]
fn growth_is_that_of_the_virtual_rtt() {
    // At 25 ms one segment per round trip; at 5 ms 1/25 of it, so that a flow gains as many bit/s per second squared.
    for (rtt_ms, rounds, expected) in [(25, 10, 10.0), (50, 10, 10.0), (5, 250, 10.0)] {
        let rtt = Dur::from_millis(rtt_ms);
        let mut flow = Flow::new("prague", &config(100));
        for _ in 0..rounds {
            round(&mut flow, 0, rtt);
        }
        let growth = window(&flow, rtt) - 100.0;
        assert!((growth - expected).abs() < 1.5, "{growth} segments at {rtt_ms} ms");
    }
    let mut dependent = Flow::new("prague", &Config { params: [("rtt_target_ms".into(), 0.0)].into(), ..config(100) });
    for _ in 0..10 {
        round(&mut dependent, 0, Dur::from_millis(5));
    }
    assert!(window(&dependent, Dur::from_millis(5)) > 109.0);
}

#[test]
fn alpha_follows_the_share_of_marks() {
    let mut flow = Flow::new("prague", &config(100));
    // In a steady state the window falls by alpha/2 once and grows by (1 - p) per round trip: p = 2/W for small p.
    for _ in 0..400 {
        round(&mut flow, 10, RTT);
    }
    let settled = window(&flow, RTT);
    let expected = 2.0 * 0.9 / 0.1;
    assert!(
        (settled - expected).abs() < 0.35 * expected,
        "{settled} segments for one mark in ten, {expected} expected"
    );
}

#[test]
fn marks_of_one_round_are_answered_once_and_a_loss_within_it_still_halves() {
    let mut flow = Flow::new("prague", &config(100));
    (0..10).for_each(|_| flow.ack_marked(1, 1, Dur::from_micros(100), RTT));
    assert_eq!(flow.window(), 50);
    flow.recovery = RecoveryState::Recovery;
    flow.lose(false);
    flow.lose(false);
    assert_eq!(flow.window(), 25, "the transport had reduced for the marks already");
    let now = flow.now;
    flow.controller.on_spurious_loss(now);
    assert_eq!(flow.window(), 50);
    flow.controller.on_recovery_end(now, Bytes(0));
    flow.time_out(true);
    assert_eq!((flow.window(), flow.threshold()), (1, 25));
}

#[test]
fn an_application_that_leaves_the_window_unused_does_not_grow_it() {
    let mut flow = Flow::new("prague", &config(40));
    flow.cwnd_limited = false;
    round(&mut flow, 0, RTT);
    round(&mut flow, 0, RTT);
    assert_eq!(flow.window(), 40);
}

/// RFC 5681 §4.3: the loss of a retransmission is another indication of congestion, once per round trip.
#[test]
fn losses_in_successive_windows_of_one_repair_halve_again() {
    let mut flow = Flow::new("prague", &config(64));
    flow.cwnd_limited = false;
    flow.ack(1, RTT, RTT);
    flow.recovery = RecoveryState::Recovery;
    flow.lose(true);
    assert_eq!(flow.window(), 32);
    for expected in [32, 32, 16, 16, 16, 8] {
        flow.now = flow.now + RTT;
        flow.lose(false);
        assert_eq!(flow.window(), expected);
    }
    let now = flow.now;
    flow.controller.on_spurious_loss(now);
    assert!(flow.window() >= 64, "undone as a whole");
}
