//! Aurora, through its spec.

use super::{act, report};
use crate::scheme::Config;
use crate::schemes::testing::Flow;
use crate::types::{Bytes, Dur};

const HISTORY: usize = 10;
const SERIES: usize = 3;

const RTT: Dur = Dur::from_millis(40);

/// Acknowledges a packet every 10 ms until a decision is due; how many it took.
fn until_decision(flow: &mut Flow, rtt: impl Fn(u32) -> Dur) -> u32 {
    for n in 1..1000 {
        flow.ack(1, Dur::from_millis(10), rtt(n));
        if flow.controller.learned().unwrap().take_decision() {
            return n;
        }
    }
    panic!("no decision in 1000 acknowledgements");
}

fn started() -> Flow {
    let mut flow = Flow::new("aurora", &Config::default());
    flow.send(Bytes(0));
    until_decision(&mut flow, |_| RTT);
    flow
}

fn rate_mbps(flow: &Flow) -> f64 {
    flow.controller.pacing_rate().unwrap().as_mbps()
}

#[test]
fn the_rate_starts_at_an_initial_window_per_rtt() {
    let mut flow = Flow::new("aurora", &Config::default());
    assert!((rate_mbps(&flow) - 10.0 * 1448.0 * 8.0 / 0.1 / 1e6).abs() < 1e-6);
    flow.send(Bytes(0));
    flow.ack(1, RTT, RTT);
    assert!((rate_mbps(&flow) - 10.0 * 1448.0 * 8.0 / 0.04 / 1e6).abs() < 1e-6);
}

#[test]
fn an_action_multiplies_the_rate_and_its_opposite_takes_that_back() {
    let mut flow = started();
    let before = rate_mbps(&flow);
    act(&mut flow, 4.0);
    assert!((rate_mbps(&flow) / before - 1.1).abs() < 1e-6);
    act(&mut flow, 4.0);
    assert!((rate_mbps(&flow) / before - 1.1).abs() < 1e-6, "an action that nobody asked for counts nothing");
    until_decision(&mut flow, |_| RTT);
    act(&mut flow, -4.0);
    assert!((rate_mbps(&flow) / before - 1.0).abs() < 1e-6);
}

#[test]
fn an_interval_is_a_round_trip_and_reports_what_it_saw() {
    let mut flow = started();
    act(&mut flow, 0.0);
    for _ in 0..6 {
        flow.send(Bytes(0));
    }
    // RTTs grow by 1 ms per 10 ms.
    let acks = until_decision(&mut flow, |n| RTT + Dur::from_millis(u64::from(n)));
    assert_eq!(acks, 5, "the smoothed RTT has risen above 40 ms");
    assert!((report(&mut flow, "interval_ms") - 50.0).abs() < 1e-3);
    assert!((report(&mut flow, "rtt_ms") - 43.0).abs() < 1e-3);
    assert!((report(&mut flow, "latency_gradient") - 0.1).abs() < 1e-5);
    assert!((report(&mut flow, "send_ratio") - 6.0 / 5.0).abs() < 1e-6);
    assert!((report(&mut flow, "throughput_mbps") - 5.0 * 1448.0 * 8.0 / 0.05 / 1e6).abs() < 1e-4);
    let mut observation = [0.0; HISTORY * SERIES];
    flow.controller.learned().unwrap().observe(&mut observation);
    assert!((observation[HISTORY - 1] - 0.1).abs() < 1e-5);
    assert!((observation[3 * HISTORY - 1] - 1.2).abs() < 1e-6);
}

#[test]
fn losses_are_counted_and_do_nothing_else() {
    let mut flow = started();
    let before = (rate_mbps(&flow), flow.window());
    flow.lose(true);
    flow.lose(false);
    flow.time_out(true);
    assert_eq!((rate_mbps(&flow), flow.window()), before);
    let acks = until_decision(&mut flow, |_| RTT);
    assert!((report(&mut flow, "loss_ratio") - 3.0 / (3.0 + f64::from(acks))).abs() < 1e-6);
}

#[test]
fn the_rate_stays_within_its_bounds() {
    let mut flow = started();
    for (a, bound) in [(10.0, 1000.0), (-10.0, 0.1)] {
        for _ in 0..200 {
            act(&mut flow, a);
            until_decision(&mut flow, |_| RTT);
        }
        assert!((rate_mbps(&flow) - bound).abs() < 1e-9);
    }
}
