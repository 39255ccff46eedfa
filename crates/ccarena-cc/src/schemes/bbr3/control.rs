//! Pacing rate, send quantum and congestion window (§5.6).

use super::sample::Sample;
use super::{Bandwidth, Bbr3, INFINITE, MIN_PIPE_SEGMENTS, State};
use crate::events::LossInfo;
use crate::types::{Dur, Rate};

/// `BBR.PacingMarginPercent`: 1, so that queues shrink.
const PACED: f64 = 0.99;
/// A quantum is a millisecond at the pacing rate, 64 KB at most and two segments at least (§5.6.3).
const QUANTUM_S: f64 = 0.001;
const MOST_QUANTUM: u64 = 65_536;
/// No window is larger, in segments.
const MOST_SEGMENTS: u64 = 1 << 24;

#[derive(Debug)]
pub(super) struct Control {
    pub(super) cwnd: u64,
    /// The last good window, from before recovery or ProbeRTT.
    pub(super) prior_cwnd: u64,
    pub(super) in_recovery: bool,
    pub(super) pacing_rate: Rate,
    /// The initial rate is from an RTT sample, not from the nominal one.
    from_rtt: bool,
    send_quantum: u64,
}

impl Control {
    pub(super) fn new(initial_cwnd: u64) -> Self {
        Self {
            cwnd: initial_cwnd,
            prior_cwnd: 0,
            in_recovery: false,
            pacing_rate: Rate(1),
            from_rtt: false,
            send_quantum: 0,
        }
    }
}

impl Bbr3 {
    /// The transport's counters at a loss.
    pub(super) fn follow(&mut self, loss: &LossInfo) {
        self.now = loss.now;
        self.delivered = self.delivered.max(loss.delivered.0);
        self.in_flight = loss.in_flight.0;
    }

    /// `InitPacingRate` (§5.6.2).
    pub(super) fn init_pacing_rate(&mut self, rtt: Dur) {
        let nominal_bandwidth = self.initial_cwnd as f64 / rtt.as_secs_f64();
        self.control.pacing_rate = rate_of(State::Startup.gains().0 * nominal_bandwidth);
    }

    /// `SetPacingRateWithGain`.
    pub(super) fn set_pacing_rate_with_gain(&mut self, pacing_gain: f64) {
        let rate = rate_of(pacing_gain * self.bw * PACED);
        if self.bw > 0.0 && (self.full_bw.reached || rate > self.control.pacing_rate) {
            self.control.pacing_rate = rate;
        }
    }

    /// `SetPacingRate`.
    pub(super) fn set_pacing_rate(&mut self, srtt: Dur) {
        if !self.control.from_rtt && srtt > Dur::ZERO {
            self.control.from_rtt = true;
            self.init_pacing_rate(srtt);
        }
        self.set_pacing_rate_with_gain(self.state.gains().0);
    }

    /// `SetSendQuantum` (§5.6.3).
    pub(super) fn set_send_quantum(&mut self) {
        let quantum = (self.control.pacing_rate.0 as f64 / 8.0 * QUANTUM_S) as u64;
        self.control.send_quantum = quantum.min(MOST_QUANTUM).max(2 * self.smss);
    }

    /// `BBR.MinPipeCwnd` in bytes.
    pub(super) fn min_pipe_cwnd(&self) -> u64 {
        MIN_PIPE_SEGMENTS * self.smss
    }

    /// `BDPMultiple` (§5.6.4.2).
    pub(super) fn bdp_multiple(&self, bw: Bandwidth, gain: f64) -> u64 {
        if self.min_rtt.value == Dur::MAX {
            return self.initial_cwnd;
        }
        (gain * bw * self.min_rtt.value.as_secs_f64()) as u64
    }

    /// `QuantizationBudget`.
    fn quantization_budget(&self, inflight_cap: u64) -> u64 {
        let offload_budget = 3 * self.control.send_quantum;
        let cap = inflight_cap.max(offload_budget).max(self.min_pipe_cwnd());
        if self.state == State::ProbeBwUp { cap.saturating_add(2 * self.smss) } else { cap }
    }

    /// `Inflight`.
    pub(super) fn inflight(&self, bw: Bandwidth, gain: f64) -> u64 {
        self.quantization_budget(self.bdp_multiple(bw, gain))
    }

    /// `UpdateMaxInflight`.
    fn max_inflight(&self) -> u64 {
        let cap = self.bdp_multiple(self.bw, self.state.gains().1);
        self.quantization_budget(cap.saturating_add(self.aggregation.extra_acked()))
    }

    /// `SaveCwnd` (§5.6.4.4).
    pub(super) fn save_cwnd(&mut self) {
        let control = &mut self.control;
        control.prior_cwnd = if !control.in_recovery && self.state != State::ProbeRtt {
            control.cwnd
        } else {
            control.prior_cwnd.max(control.cwnd)
        };
    }

    /// `RestoreCwnd`.
    pub(super) fn restore_cwnd(&mut self) {
        self.control.cwnd = self.control.cwnd.max(self.control.prior_cwnd);
    }

    /// `SetCwnd` (§5.6.4.6).
    pub(super) fn set_cwnd(&mut self, rs: &Sample) {
        let cwnd = self.control.cwnd;
        let max_inflight = self.max_inflight();
        let grown = if self.full_bw.reached {
            cwnd.saturating_add(rs.newly_acked).min(max_inflight)
        } else if cwnd < max_inflight || self.delivered < self.initial_cwnd {
            cwnd.saturating_add(rs.newly_acked)
        } else {
            cwnd
        };
        let cwnd = grown.max(self.min_pipe_cwnd()).min(self.cwnd_cap()).min(MOST_SEGMENTS * self.smss);
        self.control.cwnd = cwnd.max(self.min_pipe_cwnd());
    }

    /// `BoundCwndForProbeRTT` and `BoundCwndForModel` (§5.6.4.5, §5.6.4.7).
    fn cwnd_cap(&self) -> u64 {
        let long_term = match self.state {
            State::ProbeBwDown | State::ProbeBwRefill | State::ProbeBwUp => self.inflight_longterm,
            State::ProbeBwCruise => self.inflight_with_headroom(),
            State::ProbeRtt => self.inflight_with_headroom().min(self.probe_rtt_cwnd()),
            State::Startup | State::Drain => INFINITE,
        };
        long_term.min(self.short_term.inflight)
    }
}

/// Returns at least one bit per second.
fn rate_of(bandwidth: Bandwidth) -> Rate {
    Rate(((bandwidth * 8.0) as u64).max(1))
}
