//! Startup and Drain (§5.3.1, §5.3.2): double the rate each round until the pipe is full, then empty its queue.

use super::sample::Sample;
use super::{Bandwidth, Bbr3, State};
use crate::events::{AckInfo, RecoveryState};

/// Growth of the delivery rate that says that the pipe is not full yet.
const GROWTH: f64 = 1.25;
/// Rounds without it that say that it is.
const FULL_BW_ROUNDS: u32 = 3;
/// Ranges lost in a round that say so, too (`BBRStartupFullLossCnt`).
const FULL_LOSS_RANGES: u32 = 6;
/// Drain ends after this many rounds, in case the bandwidth was overestimated.
const DRAIN_ROUNDS: u64 = 3;

/// Detects that faster sending does not deliver faster (§5.3.1.2).
#[derive(Debug, Default)]
pub(super) struct FullBw {
    /// Ever (`full_bw_reached`).
    pub(super) reached: bool,
    /// Flag of a full pipe since the search began (`full_bw_now`).
    pub(super) now: bool,
    baseline: Bandwidth,
    rounds: u32,
}

impl FullBw {
    /// `ResetFullBW`.
    pub(super) fn reset(&mut self) {
        self.reset_to(0.0);
    }

    /// Looks anew for growth beyond `baseline`.
    pub(super) fn reset_to(&mut self, baseline: Bandwidth) {
        (self.baseline, self.rounds, self.now) = (baseline, 0, false);
    }
}

/// Ranges of packets lost in this round of losses (§5.3.1.3).
#[derive(Debug, Default)]
pub(super) struct StartupLoss {
    ranges: u32,
    last: Option<u64>,
}

impl StartupLoss {
    pub(super) fn on_lost(&mut self, number: u64) {
        if self.last.is_none_or(|last| number != last + 1) {
            self.ranges += 1;
        }
        self.last = Some(number);
    }
}

impl Bbr3 {
    /// `CheckFullBWReached` (§5.3.1.2).
    pub(super) fn check_full_bw_reached(&mut self, rs: &Sample) {
        let Some(sample) = rs.rate else { return };
        if self.full_bw.now || !self.rounds.start || rs.app_limited {
            return;
        }
        if sample.delivery_rate >= self.full_bw.baseline * GROWTH {
            self.full_bw.reset_to(sample.delivery_rate);
            return;
        }
        self.full_bw.rounds += 1;
        self.full_bw.now = self.full_bw.rounds >= FULL_BW_ROUNDS;
        self.full_bw.reached |= self.full_bw.now;
    }

    /// `CheckStartupDone` (§5.3.1.1).
    pub(super) fn check_startup_done(&mut self, rs: &Sample, ack: &AckInfo) {
        self.check_startup_high_loss(rs, ack);
        if self.state == State::Startup && self.full_bw.reached {
            self.enter_drain();
        }
    }

    /// `CheckStartupHighLoss` (§5.3.1.3), at the end of a round that losses began.
    fn check_startup_high_loss(&mut self, rs: &Sample, ack: &AckInfo) {
        if !self.short_term.loss_round_start {
            return;
        }
        let StartupLoss { ranges, .. } = std::mem::take(&mut self.startup_loss);
        let recovering = ack.recovery == RecoveryState::Recovery;
        if !self.full_bw.reached && recovering && ranges >= FULL_LOSS_RANGES && self.is_loss_too_high(rs) {
            self.undo.state = Some(State::Startup);
            self.leave_startup_with_full_queue();
        }
    }

    /// The queue is full: no more than what the last round has delivered fits for now.
    pub(super) fn leave_startup_with_full_queue(&mut self) {
        (self.full_bw.now, self.full_bw.reached) = (true, true);
        self.inflight_longterm = self.bdp_multiple(self.max_bw.get(), 1.0).max(self.short_term.inflight_latest);
    }

    /// `EnterDrain` (§5.3.2).
    fn enter_drain(&mut self) {
        self.state = State::Drain;
        self.drain_start_round = self.rounds.count;
    }

    /// `CheckDrainDone` (§5.3.2).
    pub(super) fn check_drain_done(&mut self) {
        let drained = || self.in_flight <= self.inflight(self.bw, 1.0);
        if self.state == State::Drain && (self.rounds.count > self.drain_start_round + DRAIN_ROUNDS || drained()) {
            self.start_probe_bw_down();
        }
    }
}
