//! ProbeBW (§5.3.3): DOWN drains, CRUISE keeps, REFILL fills the pipe again, UP probes for more.

use super::sample::Sample;
use super::{Bandwidth, Bbr3, HEADROOM, INFINITE, State};
use crate::events::AckInfo;
use crate::schemes::split_mix::split_mix;
use crate::types::{Dur, Time};

/// Most rounds between probes, so that Reno flows of up to this window keep up (§5.3.3.8).
const MOST_ROUNDS: u64 = 63;
/// Least time between probes, and by how much a random one is longer.
const WAIT: Dur = Dur::from_millis(2000);
const WAIT_SPREAD: Dur = Dur::from_millis(1000);

/// Meaning of current acknowledgements for a probe (`BBR.ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// State of the probing cycle (§2.14).
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) ack_phase: AckPhase,
    /// Samples are of packets sent while probing, and no excess has been answered yet.
    pub(super) is_sample: bool,
    /// `bw_probe_up_rounds`, `bw_probe_up_acked`, `probe_up_acked_per_inc`.
    up_rounds: u32,
    up_acked: u64,
    acked_per_inc: u64,
    pub(super) rounds_since_up: u64,
    /// `cycle_stamp`, `bw_probe_wait`.
    cycle_stamp: Time,
    pub(super) wait: Dur,
    pub(super) prev_too_high: bool,
    pub(super) prev_precautionary: bool,
    seed: u64,
    draws: u64,
}

impl Probe {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            ack_phase: AckPhase::Init,
            is_sample: false,
            up_rounds: 0,
            up_acked: 0,
            acked_per_inc: INFINITE,
            rounds_since_up: 0,
            cycle_stamp: Time::ZERO,
            wait: Dur::ZERO,
            prev_too_high: false,
            prev_precautionary: false,
            seed,
            draws: 0,
        }
    }

    /// `PickProbeWait` (§5.3.3.8.3).
    pub(super) fn pick_wait(&mut self) {
        self.draws += 1;
        let random = split_mix(self.seed, self.draws);
        self.rounds_since_up = random & 1;
        self.wait = WAIT + Dur((random >> 1) % WAIT_SPREAD.0);
    }
}

impl Bbr3 {
    /// `StartProbeBW_DOWN`, which is all of `EnterProbeBW`.
    pub(super) fn start_probe_bw_down(&mut self) {
        self.reset_congestion_signals();
        self.probe.acked_per_inc = INFINITE;
        self.probe.pick_wait();
        self.probe.cycle_stamp = self.now;
        self.probe.ack_phase = AckPhase::ProbeStopping;
        self.start_round();
        self.state = State::ProbeBwDown;
    }

    /// `StartProbeBW_REFILL`.
    pub(super) fn start_probe_bw_refill(&mut self) {
        self.short_term.reset();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.prev_precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.start_round();
        self.state = State::ProbeBwRefill;
    }

    /// `StartProbeBW_UP`.
    fn start_probe_bw_up(&mut self, delivery_rate: Bandwidth) {
        self.probe.ack_phase = AckPhase::ProbeStarting;
        self.start_round();
        self.full_bw.reset_to(delivery_rate);
        self.state = State::ProbeBwUp;
        self.raise_inflight_longterm_slope();
    }

    /// `UpdateProbeBWCyclePhase`.
    pub(super) fn update_probe_bw_cycle_phase(&mut self, rs: &Sample, ack: &AckInfo) {
        let Some(sample) = rs.rate else { return };
        if !self.full_bw.reached || self.adapt_long_term_model(rs, ack) {
            return;
        }
        let state = self.state;
        match state {
            State::ProbeBwDown | State::ProbeBwCruise if self.is_time_to_probe_bw() => self.start_probe_bw_refill(),
            State::ProbeBwDown if self.is_time_to_cruise() => self.state = State::ProbeBwCruise,
            State::ProbeBwRefill if self.rounds.start => {
                self.probe.is_sample = true;
                self.start_probe_bw_up(sample.delivery_rate);
            }
            State::ProbeBwUp if self.is_time_to_go_down(ack, sample.delivery_rate) => {
                self.probe.prev_too_high = false;
                self.start_probe_bw_down();
            }
            _ => {}
        }
    }

    /// `IsTimeToProbeBW` (§5.3.3.8.3), without its effect.
    fn is_time_to_probe_bw(&self) -> bool {
        self.now > self.probe.cycle_stamp + self.probe.wait || self.is_reno_coexistence_probe_time()
    }

    /// `IsRenoCoexistenceProbeTime`: a Reno flow of this window would have caused a loss by now.
    fn is_reno_coexistence_probe_time(&self) -> bool {
        self.probe.rounds_since_up >= (self.target_inflight() / self.smss).min(MOST_ROUNDS)
    }

    /// `TargetInflight`.
    pub(super) fn target_inflight(&self) -> u64 {
        self.bdp_multiple(self.bw, 1.0).min(self.control.cwnd)
    }

    /// `IsTimeToCruise`.
    fn is_time_to_cruise(&self) -> bool {
        self.in_flight <= self.inflight_with_headroom() && self.in_flight <= self.inflight(self.max_bw.get(), 1.0)
    }

    /// `IsTimeToGoDown`.
    fn is_time_to_go_down(&mut self, ack: &AckInfo, delivery_rate: Bandwidth) -> bool {
        // Before the acknowledgement, as in Linux, and in whole segments: a window at the bound fills no more.
        let reached = ack.prior_in_flight.0.saturating_add(self.smss) > self.inflight_longterm;
        if self.probe.prev_too_high && reached {
            // The last probe lost too much at this level: look at what it does before staying there.
            self.probe.prev_precautionary = true;
            return true;
        }
        if ack.cwnd_limited && self.control.cwnd >= self.inflight_longterm {
            // The bound limits the rate, not the path.
            self.full_bw.reset_to(delivery_rate);
            return false;
        }
        self.full_bw.now
    }

    /// `InflightWithHeadroom`.
    pub(super) fn inflight_with_headroom(&self) -> u64 {
        if self.inflight_longterm == INFINITE {
            return INFINITE;
        }
        let headroom = ((HEADROOM * self.inflight_longterm as f64) as u64).max(self.smss);
        self.inflight_longterm.saturating_sub(headroom).max(self.min_pipe_cwnd())
    }

    /// `RaiseInflightLongtermSlope`: 1, 2, 4, ... segments per round.
    fn raise_inflight_longterm_slope(&mut self) {
        let growth_this_round = 1_u64 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.acked_per_inc = (self.control.cwnd / growth_this_round).max(self.smss);
    }

    /// `ProbeInflightLongtermUpward`.
    fn probe_inflight_longterm_upward(&mut self, rs: &Sample, ack: &AckInfo) {
        if !ack.cwnd_limited || self.control.cwnd < self.inflight_longterm {
            return;
        }
        self.probe.up_acked += rs.newly_acked;
        let steps = self.probe.up_acked / self.probe.acked_per_inc;
        self.probe.up_acked -= steps * self.probe.acked_per_inc;
        self.inflight_longterm = self.inflight_longterm.saturating_add(steps * self.smss);
        if self.rounds.start {
            self.raise_inflight_longterm_slope();
        }
    }

    /// `AdaptLongTermModel`. True if it has changed the state.
    fn adapt_long_term_model(&mut self, rs: &Sample, ack: &AckInfo) -> bool {
        if self.rounds.start && self.probe.ack_phase == AckPhase::ProbeStarting {
            self.probe.ack_phase = AckPhase::ProbeFeedback;
        }
        if self.rounds.start && self.probe.ack_phase == AckPhase::ProbeStopping && self.end_probe_feedback(rs) {
            return true;
        }
        if self.are_marks_too_many(rs) {
            if self.probe.is_sample {
                let changes = self.state == State::ProbeBwUp;
                self.handle_inflight_too_high(rs.tx_in_flight, rs.app_limited);
                return changes;
            }
        } else if !self.is_loss_too_high(rs) && self.inflight_longterm != INFINITE {
            self.inflight_longterm = self.inflight_longterm.max(rs.tx_in_flight);
            if self.state == State::ProbeBwUp {
                self.probe_inflight_longterm_upward(rs, ack);
            }
        }
        false
    }

    /// The last samples of a probe have come. True if the next one follows at once.
    fn end_probe_feedback(&mut self, rs: &Sample) -> bool {
        self.probe.is_sample = false;
        self.probe.ack_phase = AckPhase::Init;
        if !self.state.is_probe_bw() {
            return false;
        }
        if !rs.by_application {
            self.max_bw.advance();
        }
        // The cautious probe has lost nothing: this time the flight may stay at the bound and move it (§5.3.3.6).
        let again = self.probe.prev_precautionary && !self.probe.prev_too_high;
        if again {
            self.start_probe_bw_refill();
        }
        again
    }
}
