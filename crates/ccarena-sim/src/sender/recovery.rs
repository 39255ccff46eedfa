//! Loss detection and recovery: the state machine of `tcp_fastretrans_alert`.

use ccarena_cc::{LossInfo, RecoveryState, Time};

use super::{Sender, Timer, timers};
use crate::delivery::Delivery;
use crate::packet::Ack;
use crate::reduction::Reduction;
use crate::scoreboard::Detection;

impl Sender {
    pub(super) fn repairing(&self) -> bool {
        matches!(self.recovery, RecoveryState::Recovery | RecoveryState::Loss)
    }

    /// RACK (RFC 8985, `tcp_rack_detect_loss`).
    #[inline]
    pub(super) fn detect_losses(&mut self, now: Time) -> Detection {
        let (min, smoothed) = (self.rtt.min(), self.rtt.smoothed());
        let window = self.reordering.window(self.repairing(), self.board.sacked(), min, smoothed);
        self.board.detect_losses(self.rack, self.rack_rtt + window, now)
    }

    /// NewReno (RFC 6582, `tcp_newreno_mark_lost`).
    fn detect_losses_without_sack(&mut self, advanced: bool) -> Detection {
        let due = match self.recovery {
            RecoveryState::Open | RecoveryState::Reduction => self.board.sacked() >= self.reordering.threshold(),
            RecoveryState::Recovery => advanced,
            RecoveryState::Loss => false,
        };
        let una = self.board.una();
        let marked = u32::from(due && una < self.board.nxt() && self.board.mark_lost(una));
        Detection { marked, ..Detection::NONE }
    }

    /// `tcp_identify_packet_loss`. RACK looks for losses only if something has arrived that was sent later than all that
    /// had. True if it has set the timer.
    #[inline]
    fn identify_losses(&mut self, now: Time, advanced: bool) -> (Detection, bool) {
        let found = match (self.options.sack, std::mem::take(&mut self.rack_advanced)) {
            (true, true) => self.detect_losses(now),
            (true, false) => Detection::NONE,
            (false, _) => self.detect_losses_without_sack(advanced),
        };
        self.stats.lost += u64::from(found.marked);
        if found.again != Time::NEVER {
            self.timer = Timer::Reorder;
            self.timer_at = found.again + timers::TIMEOUT_MIN;
        }
        (found, found.again != Time::NEVER)
    }

    /// The state machine, at an acknowledgement that is not plain progress and moved on from segment `una`
    /// (`tcp_fastretrans_alert`). `marked`: newly marked segments, if it tells of marks. Returns the number of segments newly
    /// marked lost, and whether a timer is set.
    #[cold]
    pub(super) fn alert(&mut self, ack: &Ack, una: u32, marked: Option<u32>, delivery: &Delivery) -> (u32, bool) {
        let (now, advanced) = (delivery.now, ack.cumulative > una);
        if marked.is_some() {
            self.undo.on_mark();
        }
        if self.leave_states(ack, una, delivery) {
            self.reduction.on_delivered(delivery.delivered(), self.board.in_flight(), self.window, false);
            return (0, false);
        }
        let (found, timer_set) = self.identify_losses(now, advanced);
        let starts = match self.recovery {
            RecoveryState::Open | RecoveryState::Reduction => self.board.lost() > 0,
            RecoveryState::Recovery => false,
            RecoveryState::Loss => found.retransmissions > 0,
        };
        if starts {
            self.enter_recovery(now, found.marked, marked.is_some());
        } else if found.marked > 0 {
            let loss = self.loss_info(now, found.marked, false);
            self.controller.on_loss(&loss);
            self.read_controller();
        } else if self.recovery == RecoveryState::Open {
            self.forget_first_retransmission();
            if marked.is_some() {
                self.enter_reduction(now);
            }
        }
        if self.recovery.reducing() {
            let progress = advanced && found.marked == 0;
            self.reduction.on_delivered(delivery.delivered(), self.board.in_flight(), self.window, progress);
        }
        (found.marked, timer_set)
    }

    /// Ends or undoes what the acknowledgement ends or proves needless. True if nothing more is to be done about losses.
    #[inline]
    fn leave_states(&mut self, ack: &Ack, una: u32, delivery: &Delivery) -> bool {
        let (now, advanced) = (delivery.now, ack.cumulative > una);
        match self.recovery {
            RecoveryState::Recovery if self.board.una() >= self.high => {
                self.try_undo_recovery(ack.echo, now);
                if self.holds() {
                    self.board.reset_duplicates();
                    return true;
                }
                self.end_recovery(now);
            }
            // Held a little longer, for the receiver to hear of the reduction.
            RecoveryState::Reduction if self.board.una() > self.high => self.end_recovery(now),
            RecoveryState::Open | RecoveryState::Reduction => {}
            RecoveryState::Recovery => {
                if advanced && self.try_undo_partial(ack.echo, una, now) {
                    return true;
                }
            }
            RecoveryState::Loss => self.process_loss(ack, advanced, delivery),
        }
        let undoable = matches!(self.recovery, RecoveryState::Open | RecoveryState::Recovery);
        if undoable && self.try_undo_duplicates(now) && self.recovery == RecoveryState::Recovery {
            self.end_recovery(now);
        }
        false
    }

    /// `tcp_enter_recovery`: a window that is on its way down already is not reduced again.
    pub(super) fn enter_recovery(&mut self, now: Time, lost: u32, marked: bool) {
        let reduces = !self.recovery.reducing();
        self.forget_first_retransmission();
        self.undo.begin(self.board.una(), self.board.retransmitted(), reduces && !marked);
        if reduces {
            self.begin_reduction();
        }
        self.recovery = RecoveryState::Recovery;
        let loss = self.loss_info(now, lost, reduces);
        self.controller.on_loss(&loss);
        self.read_controller();
    }

    /// An ECN echo (`tcp_enter_cwr`).
    fn enter_reduction(&mut self, now: Time) {
        self.recovery = RecoveryState::Reduction;
        self.undo.forbid();
        self.begin_reduction();
        self.stats.ecn_reductions += 1;
        let echo = LossInfo { ecn: true, ..self.loss_info(now, 0, true) };
        self.controller.on_loss(&echo);
        self.read_controller();
    }

    /// `tcp_init_cwnd_reduction`.
    fn begin_reduction(&mut self) {
        self.high = self.board.nxt();
        self.probe_high = None;
        self.reduction = Reduction::from_window(self.window);
        self.tell_reduction = self.options.ecn.is_capable() && !self.options.counts_marks;
    }

    pub(super) fn end_recovery(&mut self, now: Time) {
        self.recovery = RecoveryState::Open;
        if !self.options.sack {
            self.board.reset_duplicates();
        }
        let in_flight = self.bytes(self.board.in_flight());
        self.controller.on_recovery_end(now, in_flight);
        self.read_controller();
    }

    /// Decides after a timeout whether it was spurious, and whether everything is repaired
    /// (`tcp_process_loss`).
    fn process_loss(&mut self, ack: &Ack, advanced: bool, delivery: &Delivery) {
        let now = delivery.now;
        let recovered = self.board.una() >= self.high;
        let surely = self.frto && delivery.original;
        if (advanced || surely) && self.try_undo_loss(ack.echo, surely, now) {
            if (surely || self.options.sack) && !self.holds() {
                self.end_recovery(now);
            }
            return;
        }
        if self.frto {
            if self.board.nxt() > self.high {
                // RFC 5682 §3.1 step 3a: a duplicate acknowledgement of anything but a duplicate.
                self.frto = !delivery.sacked && (advanced || delivery.duplicates > 0);
            } else if advanced && !recovered {
                // RFC 5682 §3.1 step 2b: new data tells whether what was sent before the timeout still arrives.
                self.high = self.board.nxt();
                self.new_data_first = self.may_send_new();
                self.frto = self.new_data_first;
            }
        }
        if recovered {
            self.try_undo_recovery(ack.echo, now);
            if !self.holds() {
                self.end_recovery(now);
            }
        }
    }

    /// Returns whether to hold the state without SACK until something above `high` is acknowledged.
    /// Otherwise, duplicates of repeated segments would look like losses (RFC 6582 section 4,
    /// `tcp_is_non_sack_preventing_reopen`).
    fn holds(&self) -> bool {
        !self.options.sack && self.board.una() == self.high
    }

    pub(super) fn loss_info(&mut self, now: Time, lost: u32, new_episode: bool) -> LossInfo {
        if let Some(numbers) = &self.numbers {
            for seq in self.board.take_losses() {
                numbers.tell_lost(self.controller.as_mut(), seq);
            }
        }
        LossInfo {
            now,
            lost: self.bytes(lost),
            lost_packets: lost,
            in_flight: self.bytes(self.board.in_flight()),
            new_episode,
            ecn: false,
            delivered: self.bytes(self.delivered),
            snd_nxt: self.bytes(self.board.nxt()).0,
        }
    }
}
