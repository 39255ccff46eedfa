//! PROBE_BW: a cycle of pacing gains, each for about a minimum RTT, that probes for bandwidth and drains the probe.

use super::{BANDWIDTH_ROUNDS, BW_SCALE, Bbr, Gain, Mode, UNIT};
use crate::events::AckInfo;
use crate::schemes::split_mix::split_mix;
use crate::types::{Bytes, Time};

/// `bbr_pacing_gain`.
const GAINS: [Gain; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// The bandwidth filter must see a probe of every cycle.
const _: () = assert!(BANDWIDTH_ROUNDS as usize == GAINS.len() + 2);
/// Phases that the cycle may begin in: all but the one that drains (`bbr_cycle_rand`).
const START_PHASES: u64 = 7;

#[derive(Debug)]
pub(super) struct Cycle {
    phase: usize,
    /// Time at which the phase began (`cycle_mstamp`).
    start: Time,
    seed: u64,
    draws: u64,
}

impl Cycle {
    pub(super) fn new(seed: u64) -> Self {
        Self { phase: 0, start: Time::ZERO, seed, draws: 0 }
    }

    #[inline]
    pub(super) fn gain(&self) -> Gain {
        GAINS[self.phase]
    }

    /// Returns whether the phase probes for more (which needs a flight above the bandwidth-delay product).
    #[inline]
    pub(super) fn probes(&self) -> bool {
        self.phase == 0
    }

    pub(super) fn advance(&mut self, now: Time) {
        self.phase = (self.phase + 1) % GAINS.len();
        self.start = now;
    }

    #[cfg(test)]
    pub(super) fn phase(&self) -> usize {
        self.phase
    }

    /// A random phase, so that flows do not probe in step.
    pub(super) fn restart(&mut self, now: Time) {
        self.draws += 1;
        self.phase = GAINS.len() - 1 - (split_mix(self.seed, self.draws) % START_PHASES) as usize;
        self.advance(now);
    }
}

impl Bbr {
    /// `bbr_reset_probe_bw_mode`.
    pub(super) fn enter_probe_bw(&mut self) {
        self.mode = Mode::ProbeBw;
        self.cycle.restart(self.now);
    }

    /// `bbr_is_next_cycle_phase`.
    #[inline]
    pub(super) fn cycle_phase_is_over(&self, ack: &AckInfo, lost_packets: u64) -> bool {
        let full_length = ack.now.since(self.cycle.start) > self.min_rtt.value();
        if self.pacing_gain == UNIT {
            return full_length;
        }
        let bandwidth = self.bandwidth.max();
        if self.pacing_gain > UNIT {
            // Persists until the flight has grown by the gain, unless that does not fit.
            return full_length
                && (lost_packets > 0
                    || self.net_will_hold(ack.prior_in_flight, self.inflight_target(bandwidth, self.pacing_gain)));
        }
        // Ends early once the probe's queue is drained.
        full_length || !self.net_will_hold(ack.prior_in_flight, self.inflight_target(bandwidth, UNIT) + 1)
    }

    /// `bbr_packets_in_net_at_edt`: whether the network will hold at least `packets` when the next burst leaves.
    pub(super) fn net_will_hold(&self, in_flight: Bytes, packets: u64) -> bool {
        let next_burst = if self.pacing_gain > UNIT { self.window.burst() } else { 0 };
        let until_us = self.pacing.next_departure.since(self.now).as_micros();
        let delivered_until = self.bandwidth().saturating_mul(until_us) >> BW_SCALE;
        // in_flight / mss, rounded up, + next_burst - delivered_until >= packets, without the division.
        in_flight.0 + (next_burst + 1) * self.mss > (packets + delivered_until).saturating_mul(self.mss)
    }
}
