//! ProbeRTT and the minimum-RTT filter (§5.3.4): if five seconds saw no lower RTT, half a bandwidth-delay product in flight
//! for a while lets queues drain so that it shows.

use super::probe_bw::AckPhase;
use super::sample::Sample;
use super::{Bbr3, State};
use crate::types::{Dur, Time};

/// `BBR.ProbeRTTInterval`.
const PROBE_RTT_INTERVAL: Dur = Dur::from_millis(5000);
/// `BBR.MinRTTFilterLen`: two of them, so that one probe is remembered while the next sets its window.
const MIN_RTT_FILTER_LEN: Dur = Dur::from_millis(10_000);
/// `BBR.ProbeRTTDuration`.
const PROBE_RTT_DURATION: Dur = Dur::from_millis(200);

#[derive(Debug)]
pub(super) struct MinRtt {
    /// `min_rtt`; [`Dur::MAX`] before the first sample.
    pub(super) value: Dur,
    stamp: Time,
    /// The minimum since the last probe, and when it was measured (`probe_rtt_min_delay`, `probe_rtt_min_stamp`).
    pub(super) since_probe: Dur,
    pub(super) since_probe_stamp: Time,
    /// Flag that it is due for a refresh (`probe_rtt_expired`).
    expired: bool,
    /// Time at which ProbeRTT may end, once its flight is small (`probe_rtt_done_stamp`), and whether a round has
    /// passed since.
    done: Option<Time>,
    round_done: bool,
}

impl Default for MinRtt {
    fn default() -> Self {
        Self {
            value: Dur::MAX,
            stamp: Time::ZERO,
            since_probe: Dur::MAX,
            since_probe_stamp: Time::ZERO,
            expired: false,
            done: None,
            round_done: false,
        }
    }
}

impl Bbr3 {
    /// `UpdateMinRTT` (§5.3.4.3).
    pub(super) fn update_min_rtt(&mut self, rs: &Sample) {
        let (now, filter) = (self.now, &mut self.min_rtt);
        // The clock starts with the first sample: a flow may begin late.
        let known = filter.since_probe < Dur::MAX;
        filter.expired = known && now > filter.since_probe_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = rs.rtt.filter(|&rtt| rtt < filter.since_probe || filter.expired) {
            (filter.since_probe, filter.since_probe_stamp) = (rtt, now);
        }
        let min_rtt_expired = known && now > filter.stamp + MIN_RTT_FILTER_LEN;
        if filter.since_probe < filter.value || min_rtt_expired {
            (filter.value, filter.stamp) = (filter.since_probe, filter.since_probe_stamp);
        }
    }

    /// `CheckProbeRTT`.
    pub(super) fn check_probe_rtt(&mut self, rs: &Sample) {
        if self.state != State::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            self.min_rtt.done = None;
            self.probe.ack_phase = AckPhase::ProbeStopping;
            self.start_round();
        }
        if self.state == State::ProbeRtt {
            self.handle_probe_rtt();
        }
        if rs.newly_acked > 0 {
            self.idle_restart = false;
        }
    }

    /// `HandleProbeRTT`.
    fn handle_probe_rtt(&mut self) {
        self.packets.hold_back_until(self.delivered + self.in_flight);
        if self.min_rtt.done.is_some() {
            self.min_rtt.round_done |= self.rounds.start;
            if self.min_rtt.round_done {
                self.check_probe_rtt_done();
            }
        } else if self.in_flight <= self.probe_rtt_cwnd() {
            self.min_rtt.done = Some(self.now + PROBE_RTT_DURATION);
            self.min_rtt.round_done = false;
            self.start_round();
        }
    }

    /// `CheckProbeRTTDone`.
    pub(super) fn check_probe_rtt_done(&mut self) {
        if self.min_rtt.done.is_some_and(|done| self.now > done) {
            self.min_rtt.since_probe_stamp = self.now;
            self.restore_cwnd();
            self.exit_probe_rtt();
        }
    }

    /// `ExitProbeRTT` (§5.3.4.4).
    fn exit_probe_rtt(&mut self) {
        self.short_term.reset();
        if self.full_bw.reached {
            self.start_probe_bw_down();
            self.state = State::ProbeBwCruise;
        } else {
            self.state = State::Startup;
        }
    }

    /// `ProbeRTTCwnd` (§5.6.4.5).
    pub(super) fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp_multiple(self.bw, State::ProbeRtt.gains().1).max(self.min_pipe_cwnd())
    }
}
