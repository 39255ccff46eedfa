//! The model's parts that every acknowledgement updates (§5.5.1 to §5.5.9): rounds, bandwidth, aggregation.

use super::sample::Sample;
use super::{Bandwidth, Bbr3};
use crate::schemes::bbr::max_filter::MaxFilter;
use crate::types::Time;

/// `BBR.ExtraAckedFilterLen` in rounds, once the pipe is full.
const EXTRA_ACKED_ROUNDS: u64 = 10;

/// Packet-timed round trips (§5.5.1).
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// The acknowledgement at hand begins a round (`round_start`).
    pub(super) start: bool,
    /// A packet sent when this much was delivered ends the round (`next_round_delivered`).
    pub(super) next_delivered: u64,
}

/// Largest delivery rate of this bandwidth probing cycle and of the one before (§5.5.3): `BBR.MaxBwFilterLen` = 2.
#[derive(Debug, Default)]
pub(super) struct MaxBw {
    previous: Bandwidth,
    current: Bandwidth,
}

impl MaxBw {
    pub(super) fn get(&self) -> Bandwidth {
        self.previous.max(self.current)
    }

    fn update(&mut self, rate: Bandwidth) {
        self.current = self.current.max(rate);
    }

    /// `AdvanceMaxBwFilter` (§5.5.6). A cycle without samples does not count (Linux's `bbr_advance_max_bw_filter`).
    pub(super) fn advance(&mut self) {
        if self.current > 0.0 {
            self.previous = std::mem::take(&mut self.current);
        }
    }
}

/// Excess of acknowledged data at once over what the bandwidth explains (§5.5.9).
#[derive(Debug, Default)]
pub(super) struct Aggregation {
    interval_start: Time,
    delivered: u64,
    extra_acked: MaxFilter,
}

impl Aggregation {
    pub(super) fn restart(&mut self, now: Time) {
        self.interval_start = now;
    }

    pub(super) fn extra_acked(&self) -> u64 {
        self.extra_acked.max()
    }
}

impl Bbr3 {
    /// `StartRound`.
    pub(super) fn start_round(&mut self) {
        self.rounds.next_delivered = self.delivered;
    }

    /// `UpdateRound`.
    fn update_round(&mut self, prior_delivered: u64) {
        self.rounds.start = prior_delivered >= self.rounds.next_delivered;
        if self.rounds.start {
            self.start_round();
            self.rounds.count += 1;
            self.probe.rounds_since_up += 1;
        }
    }

    /// `UpdateMaxBw` (§5.5.5).
    pub(super) fn update_max_bw(&mut self, rs: &Sample) {
        self.rounds.start = false;
        let Some(sample) = rs.rate else { return };
        self.update_round(sample.prior_delivered);
        // A sample limited by the application says little about the path, unless it is larger than the estimate.
        if !rs.app_limited || sample.delivery_rate >= self.max_bw.get() {
            self.max_bw.update(sample.delivery_rate);
        }
    }

    /// `UpdateACKAggregation` (§5.5.9).
    pub(super) fn update_ack_aggregation(&mut self, rs: &Sample) {
        if rs.rate.is_none() {
            return;
        }
        let aggregation = &mut self.aggregation;
        let mut expected = self.bw * self.now.since(aggregation.interval_start).as_secs_f64();
        if aggregation.delivered as f64 <= expected {
            aggregation.delivered = 0;
            aggregation.interval_start = self.now;
            expected = 0.0;
        }
        aggregation.delivered += rs.newly_acked;
        let extra = (aggregation.delivered as f64 - expected).max(0.0) as u64;
        let rounds = if self.full_bw.reached { EXTRA_ACKED_ROUNDS } else { 1 };
        aggregation.extra_acked.update(rounds, self.rounds.count, extra.min(self.control.cwnd));
    }
}
