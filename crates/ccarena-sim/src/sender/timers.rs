//! The sender's one timer (`tcp_timer.c`, `tcp_schedule_loss_probe`, `tcp_rearm_rto`): retransmission timeout, tail-loss
//! probe or RACK's reordering timeout, whichever was set last.

use ccarena_cc::{Dur, RecoveryState, Time};

use super::{Leaving, Sender, Timer};
use crate::delivery::Delivery;
use crate::packet::Ack;

/// Least timeout, and the slack of a tail-loss probe: two ticks at HZ 250 (`TCP_TIMEOUT_MIN`).
pub(super) const TIMEOUT_MIN: Dur = Dur::from_millis(8);
/// The timeout of a probe before there is an RTT sample (`TCP_TIMEOUT_INIT`).
const PROBE_INITIAL: Dur = Dur::from_millis(1000);
/// Longest retransmission timeout (`TCP_RTO_MAX`).
const RTO_MAX: Dur = Dur::from_millis(120_000);

impl Sender {
    /// `tcp_rack_reo_timeout`.
    pub(super) fn on_reorder_timeout(&mut self, now: Time) {
        let found = self.detect_losses(now);
        self.stats.lost += u64::from(found.marked);
        if found.marked > 0 && self.recovery != RecoveryState::Recovery {
            self.enter_recovery(now, found.marked, false);
            self.reduction.on_delivered(1, self.board.in_flight(), self.window, false);
        }
        if self.timer != Timer::Retransmit {
            self.rearm(now);
        }
    }

    /// `tcp_retransmit_timer`, `tcp_enter_loss`.
    pub(super) fn on_timeout(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.timer = Timer::Off;
            self.timer_at = Time::NEVER;
            return;
        }
        self.stats.timeouts += 1;
        if !self.options.sack {
            self.board.reset_duplicates();
        }
        let lost = self.board.mark_all_lost(now - self.rack_rtt);
        self.stats.lost += u64::from(lost);
        // A timeout within an episode does not reduce again.
        let new_episode = match self.recovery {
            RecoveryState::Open => true,
            RecoveryState::Reduction | RecoveryState::Recovery => self.board.una() >= self.high,
            RecoveryState::Loss => self.board.una() >= self.high || self.timeouts == 0,
        };
        if new_episode {
            self.undo.begin(self.board.una(), self.board.retransmitted(), true);
        }
        if self.recovery == RecoveryState::Open {
            self.reordering.on_timeout(self.board.sacked());
        }
        let new_recovery = matches!(self.recovery, RecoveryState::Open | RecoveryState::Reduction);
        self.frto = new_recovery || self.timeouts > 0;
        self.new_data_first = false;
        self.recovery = RecoveryState::Loss;
        self.high = self.board.nxt();
        self.probe_high = None;
        let info = self.loss_info(now, lost, new_episode);
        self.controller.on_timeout(&info);
        self.read_controller();
        self.loss_window = self.board.in_flight() + 1;
        self.timeouts += 1;
        self.backoff = (self.backoff + 1).min(16);
        self.start_timer(Timer::Retransmit, now, self.rto());
    }

    /// `tcp_send_loss_probe` (RFC 8985 §7.3): new data if there is some, else the last segment again.
    pub(super) fn on_probe(&mut self, now: Time) -> Option<Leaving> {
        let mut probe = None;
        if self.probe_high.is_none() && self.board.outstanding() > 0 {
            let fresh = self.may_send_new();
            if fresh {
                probe = Some(self.transmit_new(now));
            } else {
                let last = self.board.nxt() - 1;
                if let Some(numbers) = &self.numbers {
                    // Nobody will hear of its last transmission again.
                    numbers.tell_lost(self.controller.as_mut(), last);
                }
                probe = Some(self.retransmit(last, now));
            }
            self.probe_high = Some((self.board.nxt(), !fresh));
            self.timer = Timer::Off;
        }
        self.rearm(now);
        probe
    }

    /// `tcp_process_tlp_ack`: a repeated segment that repaired a loss hides it; one reduction is due.
    #[cold]
    pub(super) fn on_probe_acknowledged(&mut self, ack: &Ack, advanced: bool, delivery: &Delivery) {
        let Some((high, repeated)) = self.probe_high else { return };
        if ack.cumulative < high {
            return;
        }
        if !repeated || delivery.probe_duplicate {
            self.probe_high = None;
        } else if ack.cumulative > high {
            self.probe_high = None;
            let info = self.loss_info(delivery.now, 0, true);
            self.controller.on_loss(&info);
            self.controller.on_recovery_end(delivery.now, info.in_flight);
            self.read_controller();
        } else if !advanced && !delivery.sacked {
            self.probe_high = None;
        }
    }

    /// `tcp_set_xmit_timer`.
    #[inline]
    pub(super) fn set_timer(&mut self, now: Time) {
        if !self.schedule_probe(now, self.rto()) {
            self.rearm(now);
        }
    }

    /// `tcp_schedule_loss_probe`: a tail-loss probe, at the retransmission timeout (`rto` from now) at the latest. False
    /// if none may be sent.
    #[inline]
    pub(super) fn schedule_probe(&mut self, now: Time, rto: Dur) -> bool {
        let outstanding = self.board.outstanding();
        if outstanding == 0 || !self.options.sack || self.repairing() || self.board.sacked() > 0 {
            return false;
        }
        let smoothed = self.rtt.smoothed();
        let timeout = if smoothed == Dur::ZERO {
            PROBE_INITIAL
        } else {
            // The acknowledgement of a lone segment may be delayed (`tcp_rto_min`).
            smoothed * 2 + if outstanding == 1 { self.rtt.min_rto() } else { TIMEOUT_MIN }
        };
        self.start_timer(Timer::Probe, now, if rto > Dur::ZERO { timeout.min(rto) } else { timeout });
        true
    }

    /// `tcp_rearm_rto`: in place of another timer it runs from when the first outstanding segment was sent.
    pub(super) fn rearm(&mut self, now: Time) {
        if self.board.outstanding() == 0 {
            self.timer = Timer::Off;
            self.timer_at = Time::NEVER;
            return;
        }
        let in_place = matches!(self.timer, Timer::Probe | Timer::Reorder);
        let timeout = if in_place { self.until_timeout(now).max(Dur(1)) } else { self.rto() };
        self.start_timer(Timer::Retransmit, now, timeout);
    }

    /// Returns the time until the first outstanding segment times out (`tcp_rto_delta_us`).
    #[inline]
    pub(super) fn until_timeout(&self, now: Time) -> Dur {
        (self.board.get(self.board.una()).sent + self.rto()).since(now)
    }

    /// `tcp_reset_xmit_timer`: counts from when pacing lets the next segment go.
    #[inline]
    pub(super) fn start_timer(&mut self, timer: Timer, now: Time, timeout: Dur) {
        self.timer = timer;
        self.timer_at = if self.pacing.is_some() { self.pacer.next().max(now) } else { now } + timeout;
    }

    #[inline]
    pub(super) fn rto(&self) -> Dur {
        if self.backoff == 0 { self.rtt.timeout() } else { (self.rtt.timeout() * (1 << self.backoff)).min(RTO_MAX) }
    }
}
