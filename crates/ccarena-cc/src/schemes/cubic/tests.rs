use proptest::prelude::*;

use super::super::testing::Flow;
use super::*;
use crate::events::RecoveryState;

const RTT: Dur = Dur::from_millis(100);

fn config(segments: u32, reno_friendly: f64) -> Config {
    Config {
        initial_window: segments,
        slow_start: false,
        params: [("reno_friendly".to_string(), reno_friendly)].into(),
        ..Config::default()
    }
}

/// Loses at `segments` and returns the flow when growth begins again.
fn after_loss(segments: u32, reno_friendly: f64) -> Flow {
    let mut flow = Flow::new("cubic", &config(segments, reno_friendly));
    flow.recovery = RecoveryState::Recovery;
    flow.ack(1, Dur::ZERO, RTT);
    flow.lose(true);
    flow.recovery = RecoveryState::Open;
    flow
}

#[test]
fn a_loss_leaves_seven_tenths() {
    // 1000 * 717 / 1024 = 700.2
    assert_eq!(after_loss(1000, 1.0).window(), 700);
    assert_eq!(after_loss(2, 1.0).window(), 2);
}

#[test]
fn with_abe_a_mark_leaves_more_than_a_loss() {
    let params = [("abe".to_string(), 1.0)].into();
    let mut flow = Flow::new("cubic", &Config { params, ..config(1000, 1.0) });
    flow.echo();
    assert_eq!(flow.window(), 849, "RFC 8511 section 3.1: 1000 * 870 / 1024");
    flow.lose(true);
    assert_eq!(flow.window(), 594);
}

#[test]
fn k_is_the_time_back_to_the_last_maximum() {
    let mut curve = Curve { last_max: 1000, ..Curve::default() };
    curve.update(0, 700, 1, RTT);
    // RFC 9438 equation 2: cbrt((1000 - 700) / 0.4) = 9.0856 s.
    assert!((curve.k as f64 / 1024.0 - 9.0856).abs() < 0.01, "{}", curve.k);
    assert_eq!(curve.origin, 1000);
}

#[test]
fn the_window_follows_the_cubic_function() {
    let mut flow = after_loss(1000, 0.0);
    let (k, start) = (9.0856, flow.now);
    for second in 1..=14 {
        while flow.now.since(start) < Dur::from_millis(1000 * second) {
            flow.ack(2, RTT / (flow.window() / 2), RTT);
        }
        // Equation 1; the window reaches at t what the curve has at t + RTT - RTT.
        let t = flow.now.since(start).as_secs_f64();
        let expected = 0.4 * (t - k).powi(3) + 1000.0;
        let window = flow.window() as f64;
        assert!((window - expected).abs() < 0.02 * expected, "{window} for {expected:.1} at {t:.1} s");
    }
}

#[test]
fn reno_leads_where_the_curve_is_slow() {
    let rtt = Dur::from_millis(10);
    let grown = |reno_friendly| {
        let mut flow = after_loss(20, reno_friendly);
        for _ in 0..100 {
            flow.round(1, rtt);
        }
        flow.window()
    };
    // RFC 9438 section 4.3: 14 + 3 (1 - 0.7) / (1 + 0.7) segments per round trip = 14 + 0.53 * 100, less the start.
    assert!((62..=68).contains(&grown(1.0)), "{}", grown(1.0));
    // K = cbrt(6 / 0.4) = 2.5 s: within the first second the curve is still below the last maximum.
    assert!(grown(0.0) < 20, "{}", grown(0.0));
}

#[test]
fn fast_convergence_remembers_less_than_was_reached() {
    let mut cubic = Cubic::new(&config(100, 1.0));
    cubic.fast_convergence = true;
    assert_eq!((cubic.end_epoch(), cubic.curve.last_max), (70, 100));
    cubic.cwnd.reduce(70);
    // 70 * (1 + 717/1024) / 2 = 59.5
    assert_eq!((cubic.end_epoch(), cubic.curve.last_max), (49, 59));
    cubic.fast_convergence = false;
    assert_eq!((cubic.end_epoch(), cubic.curve.last_max), (49, 70));
}

#[test]
fn before_the_first_loss_avoidance_adds_a_twentieth_per_round_trip() {
    let mut flow = Flow::new("cubic", &config(100, 0.0));
    flow.round(1, RTT);
    flow.round(1, RTT);
    assert!((109..=111).contains(&flow.window()), "{}", flow.window());
}

#[test]
fn a_timeout_forgets_the_curve() {
    let mut flow = after_loss(1000, 1.0);
    flow.time_out(true);
    assert_eq!((flow.window(), flow.threshold()), (1, 490));
    flow.controller.on_spurious_loss(flow.now);
    assert_eq!((flow.window(), flow.threshold()), (700, 700));
}

#[test]
fn a_pause_does_not_count_as_time_on_the_curve() {
    let grown = |pause: Dur| {
        let mut flow = after_loss(1000, 0.0);
        for _ in 0..10 {
            flow.round(2, RTT);
        }
        flow.send(Bytes(1));
        flow.now = flow.now + pause;
        flow.send(Bytes(0));
        for _ in 0..10 {
            flow.round(2, RTT);
        }
        flow.window()
    };
    assert!(grown(Dur::ZERO).abs_diff(grown(Dur::from_millis(20_000))) <= 1);
}

#[test]
fn hystart_leaves_slow_start_on_a_growing_delay() {
    let mut flow = Flow::new("cubic", &Config { initial_window: 40, ..Config::default() });
    let base = Dur::from_millis(40);
    // Threshold: 40 / 8 = 5 ms. Spaced by more than 2 ms, so that no train is seen.
    let spaced = Dur::from_millis(3);
    flow.ack(1, spaced, base);
    for _ in 0..30 {
        flow.ack(1, spaced, base + Dur::from_millis(5));
    }
    assert!(flow.threshold() > 1000, "5 ms is not above the threshold");
    for _ in 0..60 {
        flow.ack(1, spaced, base + Dur::from_millis(6));
    }
    assert!(flow.threshold() < 140, "{}", flow.threshold());
}

#[test]
fn hystart_leaves_slow_start_when_a_train_is_half_a_round_trip_long() {
    let mut flow = Flow::new("cubic", &Config { initial_window: 100, ..Config::default() });
    let base = Dur::from_millis(40);
    flow.ack(1, Dur::ZERO, base);
    // A window of 100 arrives within (40 + 1) / 2 ms only in part.
    for _ in 0..20 {
        flow.ack(1, Dur::from_millis(1), base);
    }
    assert!(flow.threshold() > 1000);
    flow.ack(1, Dur::from_millis(1), base);
    assert_eq!(flow.threshold(), 121);
}

#[test]
fn hystart_waits_for_a_window_of_sixteen() {
    let mut flow = Flow::new("cubic", &Config { initial_window: 2, ..Config::default() });
    for _ in 0..12 {
        flow.ack(1, Dur::from_millis(1), Dur::from_millis(5));
    }
    assert!(flow.threshold() > 1000);
}

proptest! {
    #[test]
    fn the_cube_root_is_exact(root in 0_u64..2_000_000, above in 0_u64..1000) {
        let cube = root.pow(3);
        prop_assert_eq!(cube_root(cube), root);
        prop_assert_eq!(cube_root(cube + above.min(3 * root * root)), root);
    }
}
