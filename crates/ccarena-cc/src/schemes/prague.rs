//! `prague`: Prague (draft-briscoe-iccrg-prague-congestion-control-04), with the defaults of its reference, Linux's
//! `net/ipv4/tcp_prague.c` of the L4S tree, and of its second implementation, `udp_prague`.
//!
//! A scalable controller for Low Latency, Low Loss and Scalable throughput (L4S, RFC 9330): packets leave as ECT(1), and the
//! window moves by the share of marked packets, as DCTCP's. It differs from [`dctcp`](super::dctcp) as follows.
//!
//! - RTT independence: below 25 ms the window grows, and alpha and reductions come, as at a virtual RTT of 25 ms. Growth
//!   per unmarked segment is (RTT / virtual RTT)^2 / window.
//! - The window has a fraction, and grows in round trips with marks, too: by unmarked segments only.
//! - Each segment is paced, at window / RTT, and twice that in the first half of slow start.
//! - A loss halves the window, whatever the marks did to it.
//!
//! It needs counts of marks ([`Feedback::Accurate`]). With less it is NewReno and leaves as ECT(0), as `prague_reno` in
//! Linux.
//!
//! Departures:
//! - RTT independence holds from the start. Linux waits for 500 round trips after slow start (`prague_rtt_transition`).
//! - Losses are answered as Reno answers them; the draft allows CUBIC's answer, too.
//! - Pacing often keeps the last segment of a window back. The window counts as the limit if three quarters are in flight.
//! - A loss of what was sent after a reduction for losses is answered again though the first is still being repaired (RFC
//!   5681 §4.3). Linux answers once per recovery, which at a high loss rate does not end, and reduces no further by
//!   proportional rate reduction, which Prague goes without.
//! - After a timeout slow start leads to half of the window. Linux adds a segment per acknowledgement.
//! - The fallback on classic queues: see `fallback`.

mod fallback;

use self::fallback::ClassicQueue;
use super::aimd::{Aimd, NEWRENO};
use crate::controller::{Controller, TransportNeeds};
use crate::events::{AckInfo, LossInfo, RecoveryState};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "prague",
    summary: "Prague: scalable control for L4S queues (draft-briscoe-iccrg-prague-congestion-control)",
    params: &[
        Param {
            name: "rtt_target_ms",
            default: 25.0,
            min: 0.0,
            max: 100.0,
            doc: "RTT in ms below which flows behave alike (`prague_rtt_target`); 0: no RTT independence",
        },
        Param {
            name: "classic_fallback",
            default: 0.0,
            min: 0.0,
            max: 1.0,
            doc: "1: reduce as Reno would behind a queue that looks classic (`prague_ecn_fallback`)",
        },
    ],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::Accurate,
    build,
};

/// Gain of alpha's average (`PRAGUE_SHIFT_G`).
const GAIN: f64 = 1.0 / 16.0;
/// Least window of a reduction in segments (`MIN_CWND`).
const LEAST: f64 = 2.0;
/// No window grows beyond this many segments.
const MOST: f64 = (1 << 24) as f64;

fn build(config: &Config) -> Box<dyn Controller> {
    if config.feedback < SCHEME.feedback {
        return Box::new(Aimd::new(config, NEWRENO));
    }
    Box::new(Prague::new(config))
}

/// A stretch of time that ends after a window of data and a virtual RTT.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    began: Time,
    end: u64,
}

impl Round {
    fn starting(ack: &AckInfo) -> Self {
        Self { began: ack.now, end: ack.snd_nxt }
    }

    fn is_over(self, ack: &AckInfo, virtual_rtt: Dur) -> bool {
        ack.snd_una >= self.end && ack.now.since(self.began) >= virtual_rtt
    }
}

/// Prague, of a flow whose acknowledgements count marks.
pub struct Prague {
    mss: f64,
    /// Window and slow-start threshold in segments, with fractions.
    window: f64,
    threshold: f64,
    rtt_target: Dur,
    srtt: Dur,
    /// Average share of marked segments, from the first mark on.
    alpha: f64,
    is_marked: bool,
    /// Segments of alpha's round that have arrived, and those of them that were marked.
    round: Round,
    acked: f64,
    marked: f64,
    /// The last reduction for marks, after which the next one has to wait.
    reduction: Option<Round>,
    /// Window and threshold before the last loss, for undoing its reduction.
    prior: Option<(f64, f64)>,
    is_repairing: bool,
    /// Time of the last reduction for losses.
    reduced: Time,
    classic_queue: Option<ClassicQueue>,
}

impl Prague {
    /// `prague_init`.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let initial = f64::from(config.initial_window.max(1)).min(MOST);
        let fresh = if config.slow_start { MOST } else { initial };
        Self {
            mss: f64::from(config.mss.max(1)),
            window: initial,
            threshold: config.carried.map_or(fresh, |carried| f64::from(carried.threshold).clamp(LEAST, MOST)),
            rtt_target: Dur::from_secs_f64(config.param("rtt_target_ms") / 1e3),
            srtt: Dur::ZERO,
            alpha: 1.0,
            is_marked: false,
            round: Round::default(),
            acked: 0.0,
            marked: 0.0,
            reduction: None,
            prior: None,
            is_repairing: false,
            reduced: Time::ZERO,
            classic_queue: (config.param("classic_fallback") >= 0.5).then(ClassicQueue::default),
        }
    }

    /// The window in segments.
    #[must_use]
    pub fn segments(&self) -> f64 {
        self.window
    }

    /// Multiplies the window, but lifts it to no more than `most` segments. After slow start the threshold follows it down.
    pub fn scale(&mut self, factor: f64, most: f64) {
        let has_started = self.window >= self.threshold;
        self.window = (self.window * factor).min(most.max(self.window)).clamp(LEAST, MOST);
        if has_started {
            self.threshold = self.threshold.min(self.window);
        }
    }

    fn virtual_rtt(&self) -> Dur {
        self.srtt.max(self.rtt_target)
    }

    /// `prague_update_alpha`.
    fn update_alpha(&mut self, ack: &AckInfo) {
        self.acked += f64::from(ack.acked_packets);
        self.marked += f64::from(ack.ecn_ce);
        if !self.round.is_over(ack, self.virtual_rtt()) {
            return;
        }
        if self.is_marked {
            let share = (self.marked / self.acked.max(1.0)).min(1.0);
            self.alpha += GAIN * (share - self.alpha);
            if let Some(queue) = &mut self.classic_queue {
                queue.end_round(ack.min_rtt);
            }
        }
        (self.round, self.acked, self.marked) = (Round::starting(ack), 0.0, 0.0);
    }

    /// `prague_update_cwnd`.
    fn grow(&mut self, ack: &AckInfo) {
        let unmarked = f64::from(ack.acked_packets.saturating_sub(ack.ecn_ce));
        let is_limiting = ack.cwnd_limited || ack.prior_in_flight.0 as f64 * 4.0 >= self.window * self.mss * 3.0;
        if unmarked == 0.0 || ack.recovery == RecoveryState::Recovery || !is_limiting {
            return;
        }
        let slow = unmarked.min((self.threshold - self.window).max(0.0));
        self.window += slow;
        let scale = self.srtt.as_secs_f64() / self.virtual_rtt().as_secs_f64().max(1e-9);
        self.window = (self.window + (unmarked - slow) * scale * scale / self.window).min(MOST);
    }

    /// Reduces the window by alpha/2 of it, once per round (`prague_enter_cwr`).
    fn answer_marks(&mut self, ack: &AckInfo) {
        let waits = self.reduction.is_some_and(|round| !round.is_over(ack, self.virtual_rtt()));
        if ack.ecn_ce == 0 || waits || self.is_repairing {
            return;
        }
        self.reduction = Some(Round::starting(ack));
        let share = self.classic_queue.as_ref().map_or(self.alpha, |queue| queue.least_share().max(self.alpha));
        self.window = (self.window * (1.0 - share / 2.0)).max(LEAST.min(self.window));
        self.threshold = self.window;
        if let Some(queue) = &mut self.classic_queue {
            queue.on_reduction(self.threshold);
        }
    }

    /// Returns whether the loss is the first of an episode, which is answered though marks were just before.
    fn begins_episode(&mut self, loss: &LossInfo) -> bool {
        let begins = loss.new_episode || !self.is_repairing;
        if begins {
            self.prior = Some((self.window, self.threshold));
            self.is_repairing = true;
            self.halve_threshold(loss);
        }
        begins
    }

    fn halve_threshold(&mut self, loss: &LossInfo) {
        self.reduced = loss.now;
        self.threshold = (self.window / 2.0).max(LEAST);
    }

    /// Returns whether something is lost that was sent after the last reduction: by now, what was lost before is known.
    fn is_lost_again(&self, loss: &LossInfo) -> bool {
        loss.lost_packets > 0 && loss.now.since(self.reduced) > self.virtual_rtt() * 2
    }
}

impl Controller for Prague {
    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, paces_each: true, l4s: true, ..TransportNeeds::WINDOW }
    }

    fn on_ack(&mut self, ack: &AckInfo) {
        self.srtt = ack.srtt;
        self.is_marked |= ack.ecn_ce > 0;
        if let (Some(queue), Some(rtt)) = (&mut self.classic_queue, ack.rtt) {
            queue.on_sample(rtt);
        }
        self.update_alpha(ack);
        self.grow(ack);
        self.answer_marks(ack);
    }

    /// `prague_enter_loss`. The echo of marks is answered where acknowledgements count them.
    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.ecn {
            return;
        }
        if self.begins_episode(loss) {
            self.window = self.window.min(self.threshold);
        } else if self.is_lost_again(loss) {
            self.halve_threshold(loss);
            self.window = self.window.min(self.threshold);
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.begins_episode(loss);
        self.window = self.window.min((loss.in_flight.0 as f64 / self.mss).ceil() + 1.0);
    }

    /// `prague_cwnd_undo`.
    fn on_spurious_loss(&mut self, _now: Time) {
        if let Some((window, threshold)) = self.prior.take() {
            self.window = self.window.max(window);
            self.threshold = self.threshold.max(threshold);
        }
    }

    fn on_recovery_end(&mut self, _now: Time, _in_flight: Bytes) {
        self.is_repairing = false;
    }

    fn window(&self) -> Bytes {
        Bytes((self.window.ceil() * self.mss) as u64)
    }

    /// `prague_update_pacing_rate`.
    fn pacing_rate(&self) -> Option<Rate> {
        if self.srtt == Dur::ZERO {
            return None;
        }
        let gain = if self.window < self.threshold / 2.0 { 2.0 } else { 1.0 };
        Some(Rate(((gain * self.window * self.mss * 8.0 / self.srtt.as_secs_f64()) as u64).max(1)))
    }

    fn min_burst_segments(&self) -> u32 {
        1
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        Some(Bytes((self.threshold * self.mss) as u64))
    }
}

#[cfg(test)]
mod tests;
