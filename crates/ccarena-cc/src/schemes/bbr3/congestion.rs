//! Effects of losses and marks on the model (§5.5.10), and their reversal if losses prove spurious (§5.5.11).

use super::sample::{Packet, Sample};
use super::{BETA, Bandwidth, Bbr3, INFINITE, LOSS_THRESH, State};
use crate::events::AckInfo;

/// Reduction of `inflight_shortterm` by a share of marks of 1 (`bbr_ecn_factor`).
const ECN_FACTOR: f64 = 1.0 / 3.0;
/// Gain of the share's average (`bbr_ecn_alpha_gain`).
const ECN_ALPHA_GAIN: f64 = 1.0 / 16.0;
/// Share of marks that is too high for a probe (`bbr_ecn_thresh`).
const ECN_THRESH: f64 = 0.5;
/// Rounds with such a share that end Startup (`bbr_full_ecn_cnt`).
const FULL_ECN_ROUNDS: u32 = 2;

/// The short-term model and the signals of the round that move it.
#[derive(Debug)]
pub(super) struct ShortTerm {
    /// `bw_shortterm` and `inflight_shortterm`.
    pub(super) bw: Bandwidth,
    pub(super) inflight: u64,
    /// Most that was delivered in the last round: rate and volume (`bw_latest`, `inflight_latest`).
    bw_latest: Bandwidth,
    pub(super) inflight_latest: u64,
    pub(super) loss_in_round: bool,
    /// The acknowledgement at hand ends a round that the first loss began.
    pub(super) loss_round_start: bool,
    loss_round_delivered: u64,
}

impl Default for ShortTerm {
    fn default() -> Self {
        Self {
            bw: Bandwidth::INFINITY,
            inflight: INFINITE,
            bw_latest: 0.0,
            inflight_latest: 0,
            loss_in_round: false,
            loss_round_start: false,
            loss_round_delivered: 0,
        }
    }
}

impl ShortTerm {
    /// `ResetShortTermModel`.
    pub(super) fn reset(&mut self) {
        (self.bw, self.inflight) = (Bandwidth::INFINITY, INFINITE);
    }
}

/// Marks (Linux's `bbr_update_ecn_alpha`).
#[derive(Debug)]
pub(super) struct Ecn {
    /// Average share of marked data.
    pub(super) alpha: f64,
    in_round: bool,
    /// Totals delivered and marked when the average was last updated.
    at: (u64, u64),
    startup_rounds: u32,
}

impl Default for Ecn {
    fn default() -> Self {
        Self { alpha: 1.0, in_round: false, at: (0, 0), startup_rounds: 0 }
    }
}

/// State from before an episode of losses (§2.15).
#[derive(Debug, Default)]
pub(super) struct Undo {
    pub(super) state: Option<State>,
    bw_shortterm: Bandwidth,
    inflight_shortterm: u64,
    inflight_longterm: u64,
}

impl Bbr3 {
    /// `UpdateLatestDeliverySignals` (§5.5.10.3).
    pub(super) fn update_latest_delivery_signals(&mut self, rs: &Sample) {
        let latest = &mut self.short_term;
        latest.loss_round_start = false;
        let Some(sample) = rs.rate else { return };
        latest.bw_latest = latest.bw_latest.max(sample.delivery_rate);
        latest.inflight_latest = latest.inflight_latest.max(sample.delivered);
        if sample.prior_delivered >= latest.loss_round_delivered {
            latest.loss_round_delivered = self.delivered;
            latest.loss_round_start = true;
        }
    }

    /// `AdvanceLatestDeliverySignals`.
    pub(super) fn advance_latest_delivery_signals(&mut self, rs: &Sample) {
        if let Some(sample) = rs.rate.filter(|_| self.short_term.loss_round_start) {
            self.short_term.bw_latest = sample.delivery_rate;
            self.short_term.inflight_latest = sample.delivered;
        }
    }

    /// `ResetCongestionSignals`.
    pub(super) fn reset_congestion_signals(&mut self) {
        self.short_term.loss_in_round = false;
        self.short_term.bw_latest = 0.0;
        self.short_term.inflight_latest = 0;
        self.ecn.in_round = false;
    }

    /// `UpdateCongestionSignals`.
    pub(super) fn update_congestion_signals(&mut self, rs: &Sample, ack: &AckInfo) {
        self.update_max_bw(rs);
        self.ecn.in_round |= ack.ecn_ce > 0;
        if self.rounds.start {
            self.update_ecn_alpha();
        }
        if self.short_term.loss_round_start {
            self.adapt_lower_bounds_from_congestion();
            self.short_term.loss_in_round = false;
            self.ecn.in_round = false;
        }
    }

    /// `bbr_update_ecn_alpha`, `bbr_check_ecn_too_high_in_startup`.
    fn update_ecn_alpha(&mut self) {
        let (delivered, marked) =
            (self.delivered - self.ecn.at.0.min(self.delivered), self.packets.marked - self.ecn.at.1);
        if self.packets.marked == 0 || delivered == 0 {
            // No mark ever: the connection does not use ECN, or needs no answer yet.
            return;
        }
        let share = (marked as f64 / delivered as f64).min(1.0);
        self.ecn.at = (self.delivered, self.packets.marked);
        self.ecn.alpha += ECN_ALPHA_GAIN * (share - self.ecn.alpha);
        self.ecn.startup_rounds = if share >= ECN_THRESH { self.ecn.startup_rounds + 1 } else { 0 };
        if !self.full_bw.reached && self.ecn.startup_rounds >= FULL_ECN_ROUNDS {
            self.leave_startup_with_full_queue();
        }
    }

    /// `AdaptLowerBoundsFromCongestion`, once per round, and `bbr_adapt_lower_bounds` for marks.
    fn adapt_lower_bounds_from_congestion(&mut self) {
        if self.state.is_probing() {
            return;
        }
        let (lost, marked) = (self.short_term.loss_in_round, self.ecn.in_round);
        let bounds = &mut self.short_term;
        if (lost || marked) && bounds.inflight == INFINITE {
            bounds.inflight = self.control.cwnd;
        }
        let inflight = bounds.inflight as f64;
        if lost {
            if bounds.bw == Bandwidth::INFINITY {
                bounds.bw = self.max_bw.get();
            }
            bounds.bw = bounds.bw_latest.max(BETA * bounds.bw);
            bounds.inflight = bounds.inflight_latest.max((BETA * inflight) as u64);
        }
        if marked {
            bounds.inflight = bounds.inflight.min((inflight * (1.0 - self.ecn.alpha * ECN_FACTOR)) as u64);
        }
    }

    /// `IsInflightTooHigh` (§5.5.10.2), for losses.
    pub(super) fn is_loss_too_high(&self, rs: &Sample) -> bool {
        rs.lost as f64 > rs.tx_in_flight as f64 * LOSS_THRESH
    }

    /// The same for marks (`bbr_is_inflight_too_high`).
    pub(super) fn are_marks_too_many(&self, rs: &Sample) -> bool {
        rs.marked > 0 && rs.rate.is_some_and(|sample| rs.marked as f64 > ECN_THRESH * sample.delivered as f64)
    }

    /// `HandleInflightTooHigh`.
    pub(super) fn handle_inflight_too_high(&mut self, tx_in_flight: u64, app_limited: bool) {
        self.probe.prev_too_high = true;
        // Answered once per probe.
        self.probe.is_sample = false;
        if !app_limited {
            self.inflight_longterm = tx_in_flight.max((self.target_inflight() as f64 * BETA) as u64);
        }
        if self.state == State::ProbeBwUp {
            self.undo.state = Some(State::ProbeBwUp);
            self.start_probe_bw_down();
        }
    }

    /// `NoteLoss`.
    fn note_loss(&mut self) {
        if !self.short_term.loss_in_round {
            self.short_term.loss_round_delivered = self.delivered;
        }
        self.short_term.loss_in_round = true;
    }

    /// `HandleLostPacket` for each packet newly marked lost.
    pub(super) fn handle_lost_packets(&mut self) {
        for (number, packet) in std::mem::take(&mut self.packets.lost_now) {
            self.packets.lost += packet.size;
            self.note_loss();
            self.startup_loss.on_lost(number);
            if !self.probe.is_sample {
                continue;
            }
            let lost = self.packets.lost - packet.lost;
            if lost as f64 > packet.tx_in_flight as f64 * LOSS_THRESH {
                self.handle_inflight_too_high(inflight_at_loss(&packet, lost), packet.app_limited);
            }
        }
    }

    /// A tail-loss probe has repaired the loss of one segment (`bbr_run_loss_probe_recovery`).
    pub(super) fn handle_loss_repaired_by_probe(&mut self) {
        self.note_loss();
        let tx_in_flight = self.short_term.inflight_latest + self.smss;
        if self.probe.is_sample && self.smss as f64 > tx_in_flight as f64 * LOSS_THRESH {
            self.handle_inflight_too_high(tx_in_flight, false);
        }
    }

    /// `SaveStateUponLoss` (§5.5.11.1).
    fn save_state_upon_loss(&mut self) {
        self.save_cwnd();
        self.undo = Undo {
            state: None,
            bw_shortterm: self.short_term.bw,
            inflight_shortterm: self.short_term.inflight,
            inflight_longterm: self.inflight_longterm,
        };
    }

    /// A recovery begins, unless it is under way.
    pub(super) fn enter_recovery(&mut self) {
        if !self.control.in_recovery {
            self.save_state_upon_loss();
            self.control.in_recovery = true;
        }
    }

    /// `HandleSpuriousLossDetection` (§5.5.11.2).
    pub(super) fn handle_spurious_loss_detection(&mut self) {
        self.restore_cwnd();
        self.short_term.loss_in_round = false;
        self.full_bw.reset();
        self.short_term.bw = self.short_term.bw.max(self.undo.bw_shortterm);
        self.short_term.inflight = self.short_term.inflight.max(self.undo.inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo.inflight_longterm);
        match self.undo.state.take() {
            Some(State::Startup) if self.state != State::Startup => {
                self.full_bw.reached = false;
                if self.state != State::ProbeRtt {
                    self.state = State::Startup;
                }
            }
            Some(State::ProbeBwUp) if !matches!(self.state, State::ProbeBwUp | State::ProbeRtt) => {
                self.start_probe_bw_refill();
            }
            _ => {}
        }
    }
}

/// `InflightAtLoss` (§5.5.10.2): the flight at which losses crossed the threshold, `lost` bytes of it lost since the packet
/// was sent, the packet included.
fn inflight_at_loss(packet: &Packet, lost: u64) -> u64 {
    let inflight_prev = packet.tx_in_flight.saturating_sub(packet.size) as f64;
    let lost_prev = lost.saturating_sub(packet.size) as f64;
    let lost_prefix = (LOSS_THRESH * inflight_prev - lost_prev) / (1.0 - LOSS_THRESH);
    (inflight_prev + lost_prefix.max(0.0)) as u64
}
