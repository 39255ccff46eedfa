//! Monitor intervals by hand.

use std::collections::VecDeque;

use super::*;
use crate::registry::build;
use crate::types::Requirement;

const MSS: u64 = 1448;

fn requirement(min: f64, max: f64) -> Option<Requirement> {
    Some(Requirement { min: Rate::from_mbps(min), max: Rate::from_mbps(max) })
}

/// A flow over a path that delivers every packet after `rtt`.
struct Flow {
    controller: Box<dyn Controller>,
    now: Time,
    rtt: Dur,
    /// Acknowledgements have RTT samples.
    samples: bool,
    sent: u64,
    in_flight: VecDeque<(Time, u64)>,
}

impl Flow {
    fn new(scheme: &str, config: &Config) -> Self {
        Self {
            controller: build(scheme, config).unwrap(),
            now: Time::ZERO,
            rtt: Dur::from_millis(30),
            samples: true,
            sent: 0,
            in_flight: VecDeque::new(),
        }
    }

    fn pacing_mbps(&self) -> f64 {
        // With headers above UDP.
        self.controller.pacing_rate().unwrap().as_mbps() * 1472.0 / 1448.0
    }

    fn send(&mut self) -> u64 {
        let number = self.sent;
        self.sent += 1;
        self.controller.on_sent(&SentInfo { now: self.now, bytes: Bytes(MSS), number, ..SentInfo::default() });
        number
    }

    fn acknowledge(&mut self, number: u64) {
        self.controller.packet_tracker().unwrap().on_packet_acked(number);
        let rtt = self.samples.then_some(self.rtt);
        self.controller.on_ack(&AckInfo {
            now: self.now,
            acked: Bytes(MSS),
            acked_packets: 1,
            rtt,
            ..AckInfo::default()
        });
    }

    /// Sends at the pacing rate for `time`, every packet being acknowledged (or, where `lose` says so, lost) an RTT later.
    fn run(&mut self, time: Dur, lose: impl Fn(u64) -> bool) -> Vec<f64> {
        let end = self.now + time;
        let mut rates = vec![self.pacing_mbps()];
        let mut next = self.now;
        while self.now < end {
            let back = self.in_flight.front().map_or(Time::NEVER, |d| d.0);
            self.now = next.min(back);
            if back <= next {
                let number = self.in_flight.pop_front().unwrap().1;
                if lose(number) {
                    self.controller.packet_tracker().unwrap().on_packet_lost(number);
                } else {
                    self.acknowledge(number);
                }
            } else {
                let number = self.send();
                self.in_flight.push_back((self.now + self.rtt, number));
                next = self.now + self.controller.pacing_rate().unwrap().time_for(MSS);
            }
            if rates.last() != Some(&self.pacing_mbps()) {
                rates.push(self.pacing_mbps());
            }
        }
        rates
    }
}

/// A flow that stops at 53 Mbit/s.
fn bounded() -> Flow {
    Flow::new("hercules", &Config { requirement: requirement(40.0, 50.0), ..Config::default() })
}

fn near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-3
}

#[test]
fn starts_at_the_rates_of_the_code_bases() {
    let flow = |scheme, requirement| Flow::new(scheme, &Config { requirement, ..Config::default() });
    assert!(near(flow("hercules", None).pacing_mbps(), 3.7376));
    assert!(near(flow("hercules", requirement(100.0, 150.0)).pacing_mbps(), 3.7376));
    assert!(near(flow("hercules", requirement(0.01, 0.015)).pacing_mbps(), 0.0106));
    assert!(near(flow("vivace-hercules", requirement(0.01, 0.015)).pacing_mbps(), 3.7376));
    let mut vivace = flow("vivace", None);
    assert!(near(vivace.pacing_mbps(), 1.12));
    let number = vivace.send();
    vivace.now = vivace.now + vivace.rtt;
    vivace.acknowledge(number);
    vivace.send();
    assert!(near(vivace.pacing_mbps(), 1.12 * 100.0 / 30.0));
}

#[test]
fn a_free_path_is_doubled_into_up_to_the_cap_and_then_climbed_to_the_ceiling() {
    let mut flow = Flow::new("hercules", &Config { requirement: requirement(10.0, 20.0), ..Config::default() });
    let rates = flow.run(Dur::from_millis(10_000), |_| false);
    for (rate, expected) in rates.iter().zip([3.7376, 7.4752, 14.9504, 15.9]) {
        assert!(near(*rate, expected), "{rates:?}");
    }
    // Probes may exceed the ceiling by 5 %.
    let last = rates[rates.len() - 1];
    assert!((20.0..22.3).contains(&last), "{rates:?}");
    assert!(rates.iter().all(|&r| r < 1.06 * 20.0 * 1.0501), "{rates:?}");
}

#[test]
fn an_interval_lasts_long_enough_to_be_measured() {
    let mut flow = Flow::new("hercules", &Config::default());
    // 3.7376 Mbit/s are 3.2 ms per packet: twelve samples take longer than 1.5 RTTs.
    let rates = flow.run(Dur::from_millis(2 * 30 + 11 * 3), |_| false);
    assert_eq!(rates.len(), 1, "{rates:?}");
    let rates = flow.run(Dur::from_millis(200), |_| false);
    assert!(rates.len() > 1 && near(rates[1], 7.4752), "{rates:?}");
}

#[test]
fn heavy_loss_turns_starting_back() {
    let mut flow = Flow::new("hercules", &Config::default());
    flow.run(Dur::from_millis(250), |_| false);
    let before = flow.pacing_mbps();
    let rates = flow.run(Dur::from_millis(4_000), |n| n % 4 == 0);
    assert!(rates[rates.len() - 1] < before, "{before}, {rates:?}");
}

/// Acknowledgements have no RTT samples where nearly all that arrives are retransmissions.
#[test]
fn retransmissions_that_are_lost_too_lower_the_rate() {
    for scheme in ["vivace", "hercules", "vivace-hercules"] {
        let mut flow = Flow::new(scheme, &Config::default());
        flow.run(Dur::from_millis(400), |_| false);
        let before = flow.pacing_mbps();
        flow.samples = false;
        let rates = flow.run(Dur::from_millis(20_000), |n| n % 10 != 0);
        assert!(rates[rates.len() - 1] < 0.3 * before, "{scheme}: {before}, {rates:?}");
    }
}

#[test]
fn an_interval_whose_packets_stay_unaccounted_for_stops_nothing() {
    let mut flow = bounded();
    flow.run(Dur::from_millis(150), |_| false);
    // Neither acknowledged nor lost.
    (0..3).for_each(|_| {
        flow.send();
    });
    let rates = flow.run(Dur::from_millis(6_000), |_| false);
    assert!(rates.len() > 5, "{rates:?}");
}

#[test]
fn rtts_that_rise_a_little_do_not_end_starting() {
    let mut flow = bounded();
    let number = flow.send();
    flow.now = flow.now + flow.rtt;
    flow.acknowledge(number);
    flow.rtt = Dur::from_millis(31);
    let rates = flow.run(Dur::from_millis(400), |_| false);
    assert!(near(rates[1], 7.4752) && near(rates[2], 14.9504), "{rates:?}");
}

#[test]
fn slow_flows_are_waited_for() {
    let mut flow = Flow::new("hercules", &Config { requirement: requirement(0.01, 1.0), ..Config::default() });
    // A second per packet, five per interval, four intervals to compare.
    flow.run(Dur::from_millis(150_000), |_| false);
    assert!(flow.pacing_mbps() > 0.02, "{}", flow.pacing_mbps());
}

#[test]
fn news_of_unknown_packets_is_ignored() {
    let mut flow = bounded();
    flow.run(Dur::from_millis(100), |_| false);
    let rate = flow.pacing_mbps();
    for number in [flow.sent, flow.sent + 1000, u64::MAX] {
        flow.controller.packet_tracker().unwrap().on_packet_lost(number);
        flow.controller.packet_tracker().unwrap().on_packet_acked(number);
    }
    assert!(near(flow.pacing_mbps(), rate));
    assert!(flow.run(Dur::from_millis(1_000), |_| false).len() > 3);
}

#[test]
fn the_window_bounds_the_own_queue() {
    let mut flow = Flow::new("hercules", &Config::default());
    let segments = |flow: &Flow| flow.controller.window().0 / MSS;
    // 2.25 times the rate times 100 ms before there is an RTT, the minimum RTT afterwards.
    assert_eq!(segments(&flow), 72);
    let number = flow.send();
    flow.now = flow.now + flow.rtt;
    flow.acknowledge(number);
    assert_eq!(segments(&flow), 22);
    flow.rtt = Dur::from_millis(300);
    flow.acknowledge(number);
    assert_eq!(segments(&flow), 22);
    let small = Flow::new("hercules", &Config { requirement: requirement(0.01, 0.015), ..Config::default() });
    assert_eq!(segments(&small), 2);
    assert_eq!((flow.controller.min_burst_segments(), small.controller.min_burst_segments()), (2, 1));
}

#[test]
fn vivace_sends_into_a_growing_queue_without_a_window_in_the_way() {
    let mut flow = Flow::new("vivace", &Config::default());
    flow.run(Dur::from_millis(400), |_| false);
    flow.rtt = Dur::from_millis(90);
    flow.run(Dur::from_millis(400), |_| false);
    let in_path = flow.pacing_mbps() * 1e6 * flow.rtt.as_secs_f64() / 11_776.0;
    assert!((flow.controller.window().0 / MSS) as f64 > 2.0 * in_path);
}
