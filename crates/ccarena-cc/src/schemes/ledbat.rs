//! `ledbat`: Low Extra Delay Background Transport, RFC 6817.
//!
//! The window follows the distance of the queueing delay from TARGET: up by at most one segment per round trip while the
//! queue is shorter, down in proportion while it is longer, so that the flow yields to others. A loss halves.
//!
//! Section 2.4.2's pseudocode, with the values that section 2.5 recommends.
//!
//! Departures from the RFC:
//! - Delays are round-trip times less their minimum, not one-way delays: queues on the way of the acknowledgements count.
//! - INIT_CWND is the configured initial window; the RFC recommends two segments. There is no slow start.
//! - The congestion timeout (CTO) is the transport's retransmission timeout.
//! - While a reduction is under way the window stays; the transport's recovery steers the flight there.

use crate::controller::Controller;
use crate::events::{AckInfo, LossInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "ledbat",
    summary: "LEDBAT: background transport that keeps the queueing delay at a target (RFC 6817)",
    params: &[Param {
        name: "target_ms",
        default: 100.0,
        min: 1.0,
        max: 100.0,
        doc: "queueing delay aimed at in ms (TARGET; RFC 6817 section 2.5: at most 100)",
    }],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Ledbat::new(config)),
};

/// Segments per round trip that the window grows by without a queue.
const GAIN: f64 = 1.0;
/// Segments that the window may exceed the flight by.
const ALLOWED_INCREASE: f64 = 1.0;
/// Segments.
const MIN_CWND: f64 = 2.0;
/// Minima of a minute each that make up the base delay.
const BASE_HISTORY: usize = 10;
const MINUTE: Dur = Dur::from_millis(60_000);
/// Most recent samples that make up the current delay.
const CURRENT_FILTER: usize = 4;
/// No window grows beyond this many segments.
const LARGEST: f64 = (1 << 24) as f64;

struct Ledbat {
    /// Window in segments, at least one.
    cwnd: f64,
    base_delays: BaseDelays,
    current_delays: CurrentDelays,
    target: Dur,
    /// State before the last reduction, for undoing it.
    prior: Option<f64>,
    mss: u64,
}

/// The minima of the last minutes, the present one's in slot `minute` mod [`BASE_HISTORY`] (`base_delays`).
struct BaseDelays {
    minima: [Dur; BASE_HISTORY],
    minute: u64,
}

/// The last samples and their times (`current_delays`).
struct CurrentDelays {
    samples: [(Time, Dur); CURRENT_FILTER],
    next: usize,
}

impl Ledbat {
    fn new(config: &Config) -> Self {
        Self {
            cwnd: f64::from(config.initial_window.max(1)).min(LARGEST),
            base_delays: BaseDelays { minima: [Dur::MAX; BASE_HISTORY], minute: 0 },
            current_delays: CurrentDelays { samples: [(Time::ZERO, Dur::MAX); CURRENT_FILTER], next: 0 },
            target: Dur::from_secs_f64(config.param("target_ms") / 1e3),
            prior: None,
            mss: u64::from(config.mss.max(1)),
        }
    }

    fn queueing_delay(&self, ack: &AckInfo) -> Dur {
        self.current_delays.smallest(ack.now, ack.srtt) - self.base_delays.smallest()
    }
}

impl BaseDelays {
    /// `update_base_delay`; minutes without a sample leave none behind.
    fn update(&mut self, now: Time, delay: Dur) {
        let minute = now.0 / MINUTE.0;
        for passed in self.minute + 1..=minute.min(self.minute + BASE_HISTORY as u64) {
            self.minima[passed as usize % BASE_HISTORY] = Dur::MAX;
        }
        self.minute = minute;
        let present = &mut self.minima[minute as usize % BASE_HISTORY];
        *present = delay.min(*present);
    }

    fn smallest(&self) -> Dur {
        self.minima.iter().copied().min().unwrap_or(Dur::MAX)
    }
}

impl CurrentDelays {
    /// `update_current_delay`.
    fn update(&mut self, now: Time, delay: Dur) {
        self.samples[self.next] = (now, delay);
        self.next = (self.next + 1) % CURRENT_FILTER;
    }

    /// FILTER: the smallest sample of the last round trip, which samples must not be older than.
    fn smallest(&self, now: Time, round_trip: Dur) -> Dur {
        let recent = self.samples.iter().filter(|(at, _)| now.since(*at) <= round_trip);
        recent.map(|&(_, delay)| delay).min().unwrap_or(Dur::MAX)
    }
}

impl Controller for Ledbat {
    /// Section 2.4.2, "on acknowledgment".
    fn on_ack(&mut self, ack: &AckInfo) {
        let Some(delay) = ack.rtt else { return };
        self.base_delays.update(ack.now, delay);
        self.current_delays.update(ack.now, delay);
        if ack.recovery.reducing() {
            return;
        }
        let off_target = 1.0 - self.queueing_delay(ack).as_secs_f64() / self.target.as_secs_f64();
        self.cwnd += GAIN * off_target * f64::from(ack.acked_packets) / self.cwnd;
        let flight = ack.prior_in_flight.0 as f64 / self.mss as f64;
        self.cwnd = self.cwnd.min(flight + ALLOWED_INCREASE).clamp(MIN_CWND, LARGEST);
    }

    /// Section 2.4.2, "on data loss": at most once per round trip, which an episode lasts.
    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.prior = Some(self.cwnd);
            self.cwnd = self.cwnd.min((self.cwnd / 2.0).max(MIN_CWND));
        }
    }

    /// Section 2.4.2, "if no ACKs are received within a CTO".
    fn on_timeout(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.prior = Some(self.cwnd);
        }
        self.cwnd = 1.0;
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        self.cwnd = self.cwnd.max(self.prior.take().unwrap_or(0.0));
    }

    fn window(&self) -> Bytes {
        Bytes(self.cwnd as u64 * self.mss)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, MSS, Path};
    use super::*;
    use crate::events::RecoveryState;

    const RTT: Dur = Dur::from_millis(50);

    fn target(target_ms: f64) -> Config {
        Config { params: [("target_ms".to_string(), target_ms)].into(), ..Config::default() }
    }

    #[test]
    fn the_queueing_delay_settles_at_the_target() {
        for (target_ms, mbps) in [(100.0, 5.0), (25.0, 10.0)] {
            let mut path = Path::new("ledbat", &target(target_ms), mbps, RTT);
            path.run(60.0);
            let delay_ms = path.mean_queueing().as_millis_f64();
            assert!((delay_ms - target_ms).abs() < 0.05 * target_ms, "{delay_ms} ms for {target_ms}");
            assert!(path.utilisation() > 0.99);
        }
    }

    #[test]
    fn growth_is_the_off_target_part_of_a_segment_per_round_trip() {
        for (queueing_ms, expected) in [(0, 20), (50, 10), (100, 0), (200, -20)] {
            let mut flow = Flow::new("ledbat", &Config { initial_window: 100, ..Config::default() });
            flow.ack(1, RTT, RTT);
            // Samples without the queue leave the filter.
            for _ in 0..4 {
                flow.ack(1, RTT, RTT + Dur::from_millis(queueing_ms));
            }
            let before = flow.window() as i64;
            for _ in 0..20 {
                flow.round(1, RTT + Dur::from_millis(queueing_ms));
            }
            let grown = flow.window() as i64 - before;
            assert!((grown - expected).abs() <= 3, "{grown} at {queueing_ms} ms");
        }
    }

    #[test]
    fn one_delayed_sample_is_filtered_out() {
        let mut current = CurrentDelays { samples: [(Time::ZERO, Dur::MAX); CURRENT_FILTER], next: 0 };
        let (now, late) = (Time::from_secs_f64(9.0), Dur::from_millis(300));
        current.update(now, RTT);
        current.update(now, late);
        assert_eq!(current.smallest(now, RTT), RTT);
        let later = now + RTT + Dur(1);
        current.update(later, late);
        assert_eq!(current.smallest(later, RTT), late, "samples older than a round trip do not count");
    }

    #[test]
    fn the_base_delay_is_that_of_ten_minutes() {
        let mut base = BaseDelays { minima: [Dur::MAX; BASE_HISTORY], minute: 0 };
        let at = |minute: u64| Time::ZERO + MINUTE * minute;
        base.update(at(1), RTT);
        for minute in 2..=10 {
            base.update(at(minute), RTT * 2);
            assert_eq!(base.smallest(), RTT, "minute {minute}");
        }
        base.update(at(11), RTT * 2);
        assert_eq!(base.smallest(), RTT * 2);
        base.update(at(1000), RTT * 3);
        assert_eq!(base.smallest(), RTT * 3);
    }

    #[test]
    fn a_loss_or_an_echo_halves_once_and_growth_pauses_until_it_is_over() {
        for ecn in [false, true] {
            let mut flow = Flow::new("ledbat", &Config { initial_window: 40, ..Config::default() });
            if ecn {
                flow.echo()
            } else {
                flow.lose(true)
            }
            flow.lose(false);
            assert_eq!(flow.window(), 20);
            flow.recovery = RecoveryState::Recovery;
            flow.round(1, RTT);
            assert_eq!(flow.window(), 20);
            for _ in 0..6 {
                flow.lose(true);
            }
            assert_eq!(flow.window(), 2);
        }
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_a_spurious_one_nothing_changed() {
        let mut flow = Flow::new("ledbat", &Config { initial_window: 40, ..Config::default() });
        flow.time_out(true);
        flow.time_out(false);
        assert_eq!(flow.window(), 1);
        flow.controller.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 40);
    }

    #[test]
    fn the_window_stays_within_a_segment_of_the_flight() {
        let mut flow = Flow::new("ledbat", &Config { initial_window: 40, ..Config::default() });
        flow.cwnd_limited = false;
        flow.ack(1, RTT, RTT);
        assert_eq!(flow.controller.window(), Bytes(11 * MSS));
    }
}
