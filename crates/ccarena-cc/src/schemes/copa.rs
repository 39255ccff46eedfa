//! `copa`: Copa (Arun and Balakrishnan, "Copa: Practical Delay-Based Congestion Control for the Internet", NSDI 2018).
//!
//! The sender steers towards the rate 1/(delta * queueing delay), in packets, at which 1/delta packets of it are queued.
//! Flows of Copa empty the queue once in five round trips; if it does not empty, others fill it, and the sender competes
//! with them by additive increase and multiplicative decrease of 1/delta (section 2.2).
//!
//! Where the paper leaves a choice, this follows the authors' code (github.com/venkatarun95/genericCC, `markoviancc.cc`
//! and `rtt-window.cc`), and says so.
//!
//! Departures:
//! - A velocity above 1 falls to 1 as soon as the window has to turn (`Copa::changeDirection` in
//!   github.com/facebook/mvfst). Until the end of the round trip it would carry the window far past the target.
//! - The window grows only while half of it is in flight; the paper does not treat applications that send less.
//! - An acknowledgement of n packets counts n times.
//! - A timeout leaves two segments; the paper does not treat timeouts.
//! - The authors' code also reduces the window at high loss rates; the paper's default mode does not heed losses, nor
//!   does this.
//!
//! A buffer of B packets below 2/delta holds too little delay for the target rate: with at most B packets queued at the
//! link's rate mu, equation 1 gives at least mu/(delta * B). Default mode then drops about a share 1 - delta * B, and more
//! where the standing RTT, a minimum, shows less than the queue's mean. This is the algorithm's own.

mod extremum;

use std::cmp::Ordering;

use self::extremum::Extremum;
use crate::controller::{Controller, TransportNeeds};
use crate::events::{AckInfo, LossInfo};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "copa",
    summary: "Copa: steers to the rate 1/(delta * queueing delay), with a competitive mode (NSDI 2018)",
    params: &[
        Param {
            name: "delta",
            default: 0.5,
            min: 0.01,
            max: 10.0,
            doc: "1/packets kept in the queue, in default mode (section 2.1)",
        },
        Param {
            name: "competitive",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            doc: "1: compete with flows that fill the queue (section 2.2), 0: stay in default mode",
        },
    ],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Copa::new(config)),
};

/// Smallest window in segments (`update_intersend_time`).
const MIN_WINDOW: f64 = 2.0;
/// No window grows beyond this many segments.
const LARGEST: f64 = (1 << 24) as f64;
/// RTTmin is the smallest RTT of this long (section 2.1).
const MIN_RTT_SPAN: Dur = Dur::from_millis(10_000);
/// Round trips of which RTTmax is the largest RTT (section 2.2).
const MAX_RTT_ROUNDS: u64 = 4;
/// The queue is nearly empty at this part of RTTmax - RTTmin (section 2.2: a tenth).
const NEARLY_EMPTY: u64 = 10;
/// Round trips without a nearly empty queue after which others are taken to fill it (section 2.2).
const FULL_ROUNDS: u64 = 5;
/// Round trips that the direction has to stay the same before the velocity doubles (section 2.1).
const STEADY_ROUNDS: u32 = 3;

struct Copa {
    /// Window in segments, as windows and 1/delta below.
    cwnd: f64,
    slow_start: bool,
    /// 1/delta: what is to be queued.
    inverse_delta: f64,
    rtts: Rtts,
    round: Round,
    velocity: Velocity,
    competition: Competition,
    srtt: Dur,
    /// The window before the last timeout, for undoing it.
    prior: Option<f64>,
    mss: u64,
}

/// Sliding extrema of the RTT (`RTTWindow`).
struct Rtts {
    min: Extremum,
    standing: Extremum,
    max: Extremum,
}

/// A window of data, from the sending of its first packet until that is acknowledged.
struct Round {
    end: u64,
    /// The window when it began.
    cwnd: f64,
}

/// Velocity of the window (section 2.1, step 4).
struct Velocity {
    /// v.
    v: f64,
    direction: Ordering,
    /// Round trips that have kept the direction.
    steady: u32,
}

/// Test whether others fill the queue (section 2.2).
struct Competition {
    allowed: bool,
    /// Competitive mode.
    on: bool,
    nearly_empty_at: Time,
    /// 1/delta of the default mode.
    default_inverse_delta: f64,
    /// Time of the last decrease of 1/delta.
    yielded_at: Time,
}

impl Copa {
    fn new(config: &Config) -> Self {
        let cwnd = f64::from(config.initial_window).clamp(MIN_WINDOW, LARGEST);
        let inverse_delta = 1.0 / config.param("delta");
        Self {
            cwnd,
            slow_start: config.slow_start,
            inverse_delta,
            rtts: Rtts { min: Extremum::smallest(), standing: Extremum::smallest(), max: Extremum::largest() },
            round: Round { end: 0, cwnd },
            velocity: Velocity::new(Ordering::Equal),
            competition: Competition {
                allowed: config.param("competitive") >= 0.5,
                on: false,
                nearly_empty_at: Time::ZERO,
                default_inverse_delta: inverse_delta,
                yielded_at: Time::ZERO,
            },
            srtt: Dur::ZERO,
            prior: None,
            mss: u64::from(config.mss.max(1)),
        }
    }

    /// Section 2.1, steps 2 and 3: towards lambda_t = 1/(delta * dq) from lambda = cwnd/RTTstanding.
    fn steer(&mut self, ack: &AckInfo, queueing: Dur) {
        let acked = f64::from(ack.acked_packets);
        let below = self.cwnd * queueing.as_secs_f64() <= self.inverse_delta * self.rtts.standing.get().as_secs_f64();
        if below && ack.prior_in_flight * 2 < self.window() {
            return;
        }
        let direction = if below { Ordering::Greater } else { Ordering::Less };
        if self.velocity.v > 1.0 && self.velocity.direction != direction {
            self.velocity = Velocity::new(direction);
            self.round = Round { end: ack.snd_nxt, cwnd: self.cwnd };
        }
        // At most doubling or halving in a round trip, as the authors' code bounds `update_amt`.
        self.velocity.v = self.velocity.v.min(self.cwnd / self.inverse_delta).max(1.0);
        let step = acked * self.velocity.v * self.inverse_delta / self.cwnd;
        self.cwnd = match (below, self.slow_start) {
            // Doubles once per round trip until lambda exceeds lambda_t.
            (true, true) => self.cwnd + acked,
            (true, false) => self.cwnd + step,
            (false, _) => self.cwnd - step,
        };
        self.slow_start &= below;
        self.cwnd = self.cwnd.clamp(MIN_WINDOW, LARGEST);
    }

    fn end_round(&mut self, snd_nxt: u64) {
        if !self.slow_start {
            self.velocity.update(self.cwnd.total_cmp(&self.round.cwnd));
        }
        if self.competition.on {
            // Additive increase of 1/delta per round trip, as NewReno's of the window.
            self.inverse_delta = (self.inverse_delta + 1.0).min(LARGEST);
        }
        self.round = Round { end: snd_nxt, cwnd: self.cwnd };
    }

    /// Multiplicative decrease of 1/delta, once per round trip with losses, even if the transport repairs them all as one
    /// episode (`prev_delta_update_time_loss`). Delta stays at most what it is in default mode.
    fn yield_to_others(&mut self, loss: &LossInfo) {
        let again = loss.now.since(self.competition.yielded_at) > self.srtt;
        if self.competition.on && (loss.new_episode || again) {
            self.competition.yielded_at = loss.now;
            self.inverse_delta = (self.inverse_delta / 2.0).max(self.competition.default_inverse_delta);
        }
    }
}

impl Velocity {
    fn new(direction: Ordering) -> Self {
        Self { v: 1.0, direction, steady: 0 }
    }

    /// Updates at the end of a round trip in which the window moved to `direction`.
    fn update(&mut self, direction: Ordering) {
        if direction == Ordering::Equal || direction != self.direction {
            *self = Self::new(direction);
            return;
        }
        self.steady += 1;
        if self.steady >= STEADY_ROUNDS {
            self.v *= 2.0;
        }
    }
}

impl Competition {
    /// Returns whether to compete. If RTTs do not vary at all, an empty queue counts as nearly empty too.
    fn decide(&mut self, ack: &AckInfo, queueing: Dur, largest_queueing: Dur) -> bool {
        if queueing * NEARLY_EMPTY <= largest_queueing {
            self.nearly_empty_at = ack.now;
        }
        self.allowed && ack.now.since(self.nearly_empty_at) > ack.srtt * FULL_ROUNDS
    }
}

impl Controller for Copa {
    fn on_ack(&mut self, ack: &AckInfo) {
        if let Some(rtt) = ack.rtt {
            self.rtts.min.update(ack.now, rtt, MIN_RTT_SPAN);
            self.rtts.standing.update(ack.now, rtt, ack.srtt / 2);
            self.rtts.max.update(ack.now, rtt, ack.srtt * MAX_RTT_ROUNDS);
        }
        self.srtt = ack.srtt;
        let (min, standing, max) = (self.rtts.min.get(), self.rtts.standing.get(), self.rtts.max.get());
        if standing == Dur::ZERO {
            return;
        }
        // Equation 2.
        let queueing = standing - min;
        let competes = self.competition.decide(ack, queueing, max - min);
        if self.competition.on && !competes {
            self.inverse_delta = self.competition.default_inverse_delta;
        }
        self.competition.on = competes;
        self.steer(ack, queueing);
        if ack.snd_una > self.round.end {
            self.end_round(ack.snd_nxt);
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.yield_to_others(loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.prior = Some(self.cwnd);
            self.yield_to_others(loss);
        }
        self.cwnd = MIN_WINDOW;
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        self.cwnd = self.cwnd.max(self.prior.take().unwrap_or(0.0));
    }

    fn window(&self) -> Bytes {
        Bytes(self.cwnd as u64 * self.mss)
    }

    /// 2 cwnd/RTTstanding (section 2.1).
    fn pacing_rate(&self) -> Option<Rate> {
        let standing = self.rtts.standing.get();
        (standing > Dur::ZERO).then(|| Rate::of((2.0 * self.cwnd * self.mss as f64) as u64, standing).max(Rate(1)))
    }

    /// Losses do not move the window.
    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, ..TransportNeeds::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, Path};
    use super::*;

    const RTT: Dur = Dur::from_millis(50);

    fn config(params: &[(&str, f64)]) -> Config {
        Config { params: params.iter().map(|&(name, value)| (name.to_string(), value)).collect(), ..Config::default() }
    }

    #[test]
    fn one_by_delta_packets_queue_and_the_link_is_full() {
        for (delta, mbps) in [(0.5, 12.0), (0.5, 50.0), (0.25, 12.0), (0.1, 50.0)] {
            let mut path = Path::new("copa", &config(&[("delta", delta)]), mbps, RTT);
            let queue = path.mean_queue_packets(40.0);
            // Section 3.1: over a cycle of five round trips the queue goes from nothing to 2.5/delta.
            assert!((1.0..=1.5).contains(&(queue * delta)), "{queue} packets at delta {delta}, {mbps} Mbit/s");
            assert!(path.utilisation() > 0.95, "{} at delta {delta}, {mbps} Mbit/s", path.utilisation());
        }
    }

    #[test]
    fn slow_start_doubles_until_a_queue_shows() {
        let mut flow = Flow::new("copa", &config(&[]));
        for expected in [20, 40, 80] {
            flow.round(1, RTT);
            assert_eq!(flow.window(), expected);
        }
        // 80 segments at 51 ms: the target is 2 * 51/1 = 102 segments; at 60 ms it is 12.
        flow.round(1, RTT + RTT / 50);
        let before = flow.window();
        flow.round(1, RTT + RTT / 5);
        flow.round(1, RTT + RTT / 5);
        assert!(flow.window() < before, "{} from {before}", flow.window());
    }

    #[test]
    fn velocity_doubles_after_three_steady_round_trips_and_returns_to_one() {
        let mut velocity = Velocity::new(Ordering::Equal);
        let mut after = |direction| {
            velocity.update(direction);
            velocity.v as u32
        };
        let up: Vec<u32> = (0..6).map(|_| after(Ordering::Greater)).collect();
        assert_eq!(up, [1, 1, 1, 2, 4, 8]);
        assert_eq!((after(Ordering::Less), after(Ordering::Equal)), (1, 1));
    }

    #[test]
    fn pacing_is_two_windows_per_standing_rtt() {
        let mut flow = Flow::new("copa", &config(&[]));
        assert_eq!(flow.controller.pacing_rate(), None);
        flow.ack(1, RTT, RTT);
        assert_eq!(flow.controller.pacing_rate(), Some(Rate::of(2 * flow.controller.window().0, RTT)));
    }

    /// The window after others have kept 50 ms queued for 10 s, and their leaving.
    fn against_others(competitive: f64) -> (u64, u64, f64) {
        let mut path = Path::new("copa", &config(&[("competitive", competitive)]), 50.0, RTT);
        path.run(10.0);
        path.others = Dur::from_millis(50);
        path.run(8.0);
        let during = path.window();
        path.others = Dur::ZERO;
        path.run(20.0);
        (during, path.window(), path.mean_queue_packets(1.0))
    }

    #[test]
    fn others_that_keep_the_queue_full_are_competed_with_until_they_leave() {
        let (meek, _, _) = against_others(0.0);
        let (competitive, after, queue) = against_others(1.0);
        // In default mode 2 * 100/50 segments.
        assert!(meek <= 8, "{meek}");
        assert!(competitive > 40, "{competitive}");
        // 50 Mbit/s over 50 ms are 216 packets.
        assert!((210..=225).contains(&after) && queue < 6.0, "{after}, {queue}");
    }

    #[test]
    fn losses_count_in_competitive_mode_alone() {
        let mut copa = Copa::new(&config(&[("delta", 0.5), ("competitive", 1.0)]));
        let echo = LossInfo { new_episode: true, ecn: true, ..LossInfo::default() };
        copa.inverse_delta = 40.0;
        copa.on_loss(&echo);
        assert!((copa.inverse_delta - 40.0).abs() < 1e-9);
        copa.competition.on = true;
        copa.on_loss(&echo);
        copa.on_loss(&LossInfo { new_episode: false, ..echo });
        assert!((copa.inverse_delta - 20.0).abs() < 1e-9, "{}", copa.inverse_delta);
        copa.srtt = RTT;
        copa.on_loss(&LossInfo { new_episode: false, ecn: false, now: Time::ZERO + RTT * 2, ..echo });
        assert!((copa.inverse_delta - 10.0).abs() < 1e-9, "a round trip later, of the same episode");
        for _ in 0..9 {
            copa.on_loss(&LossInfo { ecn: false, ..echo });
        }
        assert!((copa.inverse_delta - 2.0).abs() < 1e-9, "not below that of the default mode");
        assert_eq!(copa.window(), Bytes(10 * copa.mss), "the window itself stays");
    }

    #[test]
    fn a_timeout_leaves_two_segments_and_a_spurious_one_nothing_changed() {
        let mut flow = Flow::new("copa", &config(&[]));
        flow.time_out(true);
        flow.time_out(false);
        assert_eq!(flow.window(), 2);
        flow.controller.on_spurious_loss(flow.now);
        assert_eq!(flow.window(), 10);
    }

    #[test]
    fn a_window_left_half_unused_does_not_grow() {
        let mut flow = Flow::new("copa", &config(&[]));
        flow.cwnd_limited = false;
        flow.round(1, RTT);
        assert_eq!(flow.window(), 10);
    }
}
