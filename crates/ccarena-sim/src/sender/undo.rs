//! Undoing of recoveries that proved needless: what they repeated had arrived. Echoed timestamps tell (Eifel, RFC 3522 and
//! 4015), or duplicates that the receiver reports (RFC 2883 and 3708), as `tcp_may_undo` asks.

use ccarena_cc::Time;

use super::Sender;
use crate::delivery::older;

/// Record of the last recovery, as far as undoing it needs one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undo {
    /// First outstanding segment when it began (`undo_marker`); none if it cannot be undone or has been.
    marker: Option<u32>,
    /// Retransmissions that the receiver has not reported as duplicates (`undo_retrans`); none if nothing was repeated.
    unproved: Option<u32>,
    /// The controller reduced its window when it began, and no mark has proved congestion since (`prior_ssthresh`).
    restores: bool,
    /// First retransmission (`retrans_stamp`); never if there was none.
    first: Time,
    /// Recoveries undone.
    count: u64,
}

impl Default for Undo {
    fn default() -> Self {
        Self { marker: None, unproved: None, restores: false, first: Time::NEVER, count: 0 }
    }
}

impl Undo {
    /// A recovery begins at segment `una` with `in_flight` retransmissions under way (`tcp_init_undo`).
    #[cold]
    pub(super) fn begin(&mut self, una: u32, in_flight: u32, restores: bool) {
        self.marker = Some(una);
        self.unproved = (in_flight > 0).then_some(in_flight);
        self.restores = restores;
    }

    /// A reduction begins that nothing may undo (`tcp_enter_cwr`).
    pub(super) fn forbid(&mut self) {
        self.marker = None;
        self.restores = false;
    }

    /// A mark proves congestion, whatever becomes of the losses.
    pub(super) fn on_mark(&mut self) {
        self.restores = false;
    }

    /// A lost segment is sent again (`tcp_retransmit_skb`).
    #[cold]
    pub(super) fn on_retransmission(&mut self, now: Time) {
        self.first = self.first.min(now);
        self.unproved = Some(self.unproved.unwrap_or(0) + 1);
    }

    /// No retransmission is under way: the next one is the first (`tcp_retrans_stamp_cleanup`).
    pub(super) fn forget_first(&mut self) {
        self.first = Time::NEVER;
    }

    /// The receiver had `seq` twice. It counts if this recovery may have repeated it (`tcp_check_dsack`,
    /// `tcp_sacktag_one`).
    pub(super) fn on_duplicate(&mut self, seq: u32) {
        if self.marker.is_some_and(|marker| seq >= marker) {
            self.unproved = self.unproved.map(|n| n.saturating_sub(1));
        }
    }

    /// A recovery is there that may yet be undone.
    pub(super) fn possible(&self) -> bool {
        self.marker.is_some()
    }

    /// All retransmissions were duplicates.
    fn all_duplicate(&self) -> bool {
        self.marker.is_some() && self.unproved == Some(0)
    }

    /// The original has arrived: the echoed timestamp is older than the first retransmission, or none was sent
    /// (`tcp_packet_delayed`). `holds`: without SACK the stamp may have been forgotten.
    fn delayed(&self, echo: Time, holds: bool) -> bool {
        self.marker.is_some() && if self.first == Time::NEVER { !holds } else { older(echo, self.first) }
    }
}

impl Sender {
    /// Recoveries undone since they proved needless.
    #[must_use]
    pub fn undone(&self) -> u64 {
        self.undo.count
    }

    /// `tcp_may_undo`.
    fn may_undo(&self, echo: Time) -> bool {
        self.undo.all_duplicate() || self.delayed(echo)
    }

    #[inline]
    fn delayed(&self, echo: Time) -> bool {
        self.undo.delayed(echo, !self.options.sack && self.board.una() >= self.high)
    }

    /// `tcp_any_retrans_done`.
    fn any_retransmission(&self) -> bool {
        let (una, nxt) = (self.board.una(), self.board.nxt());
        self.board.retransmitted() > 0 || (una < nxt && self.board.get(una).ever_retransmitted())
    }

    /// `tcp_retrans_stamp_cleanup`.
    pub(super) fn forget_first_retransmission(&mut self) {
        if !self.any_retransmission() {
            self.undo.forget_first();
        }
    }

    /// `tcp_undo_cwnd_reduction`; with `unmark` no segment counts as lost any more.
    fn undo_reduction(&mut self, now: Time, unmark: bool) {
        if unmark {
            self.board.unmark_losses();
        }
        if self.undo.restores {
            self.controller.on_spurious_loss(now);
            self.read_controller();
        }
        self.undo.marker = None;
        self.undo.count += 1;
        self.rack_advanced = true;
    }

    /// Undoes the recovery at its end if it proved needless (`tcp_try_undo_recovery`).
    pub(super) fn try_undo_recovery(&mut self, echo: Time, now: Time) {
        if self.may_undo(echo) {
            self.undo_reduction(now, false);
        } else {
            self.reordering.on_recovery_end();
        }
    }

    /// Undoes a recovery whose retransmissions were all duplicates (`tcp_try_undo_dsack`). True if it has.
    #[inline]
    pub(super) fn try_undo_duplicates(&mut self, now: Time) -> bool {
        let undoes = self.undo.all_duplicate();
        if undoes {
            self.reordering.on_undone_by_duplicates();
            self.undo_reduction(now, false);
        }
        undoes
    }

    /// Undoes a needless timeout (`tcp_try_undo_loss`), `surely` if F-RTO says that it was. True if it has.
    pub(super) fn try_undo_loss(&mut self, echo: Time, surely: bool, now: Time) -> bool {
        let undoes = surely || self.may_undo(echo);
        if undoes {
            self.undo_reduction(now, true);
            self.timeouts = 0;
        }
        undoes
    }

    /// Undoes a fast recovery if an acknowledgement that moved on from `una` proves it needless (`tcp_try_undo_partial`).
    /// True if retransmissions that are under way forbid both to undo and to repeat more.
    #[inline]
    pub(super) fn try_undo_partial(&mut self, echo: Time, una: u32, now: Time) -> bool {
        if !self.delayed(echo) {
            return false;
        }
        // Luck: what closed the gap was late, not lost.
        self.reordering.on_behind(una, self.board.highest_sacked());
        if self.board.retransmitted() > 0 {
            return true;
        }
        self.forget_first_retransmission();
        self.undo_reduction(now, true);
        self.end_recovery(now);
        false
    }
}
