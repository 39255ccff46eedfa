//! `pilot`, a scheme of this project. In every period, with or without acknowledgements, the window moves towards a
//! product: the expected rate of the path, times its smallest RTT and a few milliseconds of queue.
//!
//! - **Rate**: a mix of a fast and a slow average of delivered packets. Where the fast one is ahead, a part of their
//!   difference is added. Some standard deviations are added too, less the part that single packets cause.
//! - **Goal**: (rate × (smallest RTT + d) + extra) × e^(feedback). d shrinks with the RTT and the rate, and where the
//!   rate is steady. The feedback is on (queueing delay − d) / (smallest RTT + d), strong above d and weak below. The
//!   window moves a part of the way.
//! - **Silence**: while no acknowledgement comes, part of that time counts as queueing delay.
//! - **Search**: while round trips pass without a queue the window grows in addition, twice as much in each. This is
//!   slow start at the beginning, and finds capacity that has become free.
//! - **Pacing**: somewhat faster than a window per round trip. Flows that send their windows in bursts take turns on
//!   the link and therefore measure varying rates; they starve a flow that sends evenly. In its first moments a flow is
//!   paced faster, for the sake of short transfers.
//! - **Trickle**: after a silence one packet goes beyond the window, so that the end of an outage is seen. Each of these
//!   waits twice as long as the one before, as timeouts do (RFC 6298 §5.5; "full backoff" of RFC 9743 §5.1.1).
//! - **Sharing**: see [`sharing`].
//!
//! Losses alone do not lower the window unless they are many, but lost packets are replaced: random loss is no evidence
//! of a queue. If the buffer is smaller than d, the share of lost packets shows it. The transport's timeout leaves two
//! packets, from which slow start follows.

mod estimates;
mod numbers;
mod sharing;
mod trial;

use self::estimates::Estimates;
use self::numbers::Numbers;
use self::sharing::Sharing;
use crate::controller::{Controller, Extrapolated, Extrapolation, TransportNeeds};
use crate::elementary;
use crate::events::{AckInfo, LossInfo, RecoveryState, SentInfo};
use crate::feedback::Feedback;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "pilot",
    summary: "pilot: a window that a timer moves towards the expected rate times the smallest RTT and a few milliseconds",
    params: Numbers::PARAMS,
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Pilot::new(config)),
};

/// Returns the values of the parameters at the flow's preference, in the registry's order, for a program that runs the law
/// itself. `config.params` are complete.
#[must_use]
pub fn numbers(config: &Config) -> Vec<f64> {
    Numbers::read(|name| config.param(name)).at_preference().values().into()
}

/// Fewest packets in the window: with one, a receiver that delays acknowledgements stalls the flow.
const LEAST: f64 = 2.0;
/// Most (`snd_cwnd_clamp`).
const MOST: f64 = (1 << 24) as f64;
/// The time that `rise` and `fall` are for, in seconds.
const STEP_S: f64 = 0.01;
/// The longest smallest RTT in seconds at which the window falls as `fall` says. What a longer path does comes back later, and a
/// window that falls as fast swings.
const SHORT_RTT_S: f64 = 0.1;
/// Doublings of the trickle's wait, as of a timeout's (RFC 6298 §5.5 allows a maximum).
const MOST_DOUBLINGS: u32 = 16;

struct Pilot {
    numbers: Numbers,
    period: Dur,
    /// Start of the present period; none before the first packet.
    began: Option<Time>,
    /// End of the present period.
    ends: Time,
    /// Acknowledged in it.
    acked: Bytes,
    seen: Estimates,
    sharing: Sharing,
    mss: u64,
    /// Window in packets.
    window: f64,
    /// Growth per round trip of the search; 0 if there is none.
    velocity: f64,
    /// Time at which the search last went on to the next round trip.
    searched: Time,
    /// Packets in flight up to which the trickle sends; 0 without silence.
    beyond: f64,
    /// Time at which the trickle last sent, and how often it has in this silence.
    trickled: Time,
    trickles: u32,
    /// Most packets in the window: after a timeout it grows by what is acknowledged, as in slow start, so that what the
    /// timer took for lost is not sent again at once.
    ceiling: f64,
}

impl Pilot {
    fn new(config: &Config) -> Self {
        let numbers = Numbers::read(|name| config.param(name)).at_preference();
        Self {
            period: Dur::from_secs_f64(numbers.period_ms / 1e3),
            began: None,
            ends: Time::NEVER,
            acked: Bytes(0),
            numbers,
            seen: Estimates::new(config.mss),
            sharing: Sharing::default(),
            mss: u64::from(config.mss.max(1)),
            window: f64::from(config.initial_window.max(1)).max(LEAST),
            velocity: if config.slow_start { 1.0 } else { 0.0 },
            searched: Time::ZERO,
            beyond: 0.0,
            trickled: Time::ZERO,
            trickles: 0,
            ceiling: f64::INFINITY,
        }
    }

    /// A period in which `packets` came back has ended after `dt` seconds.
    fn step(&mut self, now: Time, (packets, dt): (f64, f64)) {
        self.seen.tick(&self.numbers, now, packets, dt, self.sharing.frozen());
        self.trickle(now);
        let Some(rtt_min) = self.seen.rtt_min() else { return };
        match self.sharing.tick(now, &self.numbers, &self.seen, self.window, (packets, dt)) {
            Some(window) => (self.window, self.velocity) = (window, 0.0),
            None => self.steer(now, rtt_min, (packets, dt)),
        }
        self.window = self.window.min(self.ceiling).clamp(LEAST, MOST);
    }

    /// Returns the goal of the window.
    fn goal(&self, rtt_min: f64) -> f64 {
        let numbers = &self.numbers;
        let variation = self.seen.variation(numbers);
        // What gets lost takes its place in the window, too.
        let rate = self.seen.rate(numbers, variation) * (1.0 + self.seen.loss.min(numbers.loss_share));
        let full = rtt_min + numbers.allowed(rtt_min, self.seen.slow, variation);
        let excess = (self.seen.queueing() + rtt_min - full) / full;
        let gain = if excess > 0.0 { numbers.feedback } else { numbers.feedback_below };
        let lost = (self.seen.loss - numbers.loss_share).max(0.0);
        (rate * full + numbers.extra) * elementary::exp((-gain * excess - 10.0 * lost).clamp(-3.0, 3.0))
    }

    /// Moves the window by the law.
    fn steer(&mut self, now: Time, rtt_min: f64, (packets, dt): (f64, f64)) {
        let goal = self.goal(rtt_min);
        let (part, step_s) = if goal > self.window {
            (self.numbers.rise, STEP_S)
        } else {
            (self.numbers.fall, STEP_S * (rtt_min / SHORT_RTT_S).max(1.0))
        };
        let moved = self.window + (goal - self.window) * (1.0 - elementary::powf(1.0 - part, dt / step_s));
        self.search(now, rtt_min);
        let searched = if self.velocity > 0.0 && self.is_filled() {
            self.window + self.velocity * packets
        } else if self.velocity > 0.0 {
            self.window
        } else {
            0.0
        };
        self.window = moved.max(searched);
    }

    /// The window is in use: growth beyond what is sent would be no search.
    fn is_filled(&self) -> bool {
        self.seen.in_flight + 1.0 >= 0.5 * self.window
    }

    /// Sets the speed of the search, by whether there is a queue.
    fn search(&mut self, now: Time, rtt_min: f64) {
        let slack = self.numbers.slack(rtt_min, self.seen.slow);
        if self.seen.standing() > 0.5 * slack || self.seen.queueing() > 2.0 * slack {
            self.velocity = 0.0;
            self.searched = now;
        } else if now.since(self.searched) > self.seen.srtt.max(Dur::from_millis(10)) {
            self.searched = now;
            self.velocity = (2.0 * self.velocity).max(self.numbers.search).min(1.0);
        }
    }

    /// One packet beyond the window after a long time without acknowledgements.
    fn trickle(&mut self, now: Time) {
        let silence = self.numbers.trickle_ms / 1e3 + self.numbers.trickle_packets / self.seen.slow.max(1.0);
        // Where a packet now and then gets through, what is sent into the silence piles up, and the newest RTT shows it.
        let first = silence.max(self.numbers.trickle_rtts * self.seen.rtt.as_secs_f64());
        let gap = first * f64::from(1_u32 << self.trickles);
        if self.seen.in_flight > 0.0 && now.since(self.seen.heard.max(self.trickled)).as_secs_f64() > gap {
            self.beyond = self.seen.in_flight + 1.0;
            self.trickled = now;
            self.trickles = (self.trickles + 1).min(MOST_DOUBLINGS);
        }
    }
}

impl Controller for Pilot {
    #[inline]
    fn on_ack(&mut self, ack: &AckInfo) {
        self.acked += ack.acked;
        self.seen.on_ack(ack, self.numbers.base_s, self.sharing.competes());
        (self.beyond, self.trickles) = (0.0, 0);
        if ack.recovery == RecoveryState::Loss {
            self.ceiling += f64::from(ack.acked_packets);
        } else {
            self.ceiling = f64::INFINITY;
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.seen.on_loss(loss);
        (self.velocity, self.beyond) = (0.0, 0.0);
        if loss.new_episode {
            self.sharing.on_loss(loss.now, self.seen.rtt, &self.numbers);
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.seen.on_loss(loss);
        self.sharing.on_timeout(loss.now);
        (self.window, self.velocity, self.beyond, self.ceiling) = (LEAST, 0.0, 0.0, LEAST);
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        self.ceiling = f64::INFINITY;
    }

    #[inline]
    fn on_sent(&mut self, sent: &SentInfo) {
        if self.began.is_none() {
            (self.began, self.ends) = (Some(sent.now), sent.now + self.period);
        }
        self.seen.on_sent(sent);
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { rate_samples: false, owns_recovery: true, ..TransportNeeds::default() }
    }

    fn on_timer(&mut self, now: Time) {
        let Some(began) = self.began.filter(|_| now >= self.ends) else { return };
        // A timer that fires late does not delay the ones after it, unless a whole period has passed.
        self.ends = if self.ends + self.period > now { self.ends } else { now } + self.period;
        let (acked, dt) = (std::mem::take(&mut self.acked), now.since(began).as_secs_f64());
        self.began = Some(now);
        if dt > 0.0 {
            self.step(now, (acked.0 as f64 / self.mss as f64, dt));
        }
    }

    fn next_timer(&self) -> Time {
        self.ends
    }

    #[inline]
    fn window(&self) -> Bytes {
        Bytes(self.window.max(self.beyond).round() as u64 * self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if self.numbers.pacing == 0.0 || self.sharing.sends_train() {
            return None;
        }
        let rtt_min = self.seen.rtt_min()?;
        let packets = self.window.max(self.beyond);
        let early = self.seen.averaged < self.numbers.early_rtts * self.seen.srtt.as_secs_f64();
        let ahead = self.numbers.pacing * if early { self.numbers.pacing_early } else { 1.0 };
        Some(Rate((ahead * packets * self.mss as f64 * 8.0 / rtt_min) as u64))
    }

    fn extrapolated(&mut self) -> Option<&mut dyn Extrapolated> {
        Some(self)
    }
}

impl Extrapolated for Pilot {
    /// The window stays, and every period needs a fresh measurement.
    fn extrapolation(&self, _now: Time) -> Extrapolation {
        Extrapolation { report: Some(self.period / 4), ..Extrapolation::HOLD }
    }
}
