//! The minimum-RTT filter, and PROBE_RTT: if ten seconds saw no new minimum, a short cut of the flight lets queues drain
//! so that it shows.

use super::window::MIN_PACKETS;
use super::{Bbr, Mode};
use crate::events::AckInfo;
use crate::types::{Bytes, Dur, Time};

/// `bbr_min_rtt_win_sec`.
const FILTER_LENGTH: Dur = Dur::from_millis(10_000);
/// `bbr_probe_rtt_mode_ms`.
const PROBE_LENGTH: Dur = Dur::from_millis(200);

#[derive(Debug)]
pub(super) struct MinRtt {
    min_rtt: Dur,
    /// Time at which `min_rtt` was measured (`min_rtt_stamp`).
    stamp: Time,
    /// Time at which PROBE_RTT may end, once its flight is small (`probe_rtt_done_stamp`).
    probe_end: Option<Time>,
    probe_round_done: bool,
    /// Packets sent while the total delivered was within these were held back by PROBE_RTT (`tp->app_limited`).
    limited: Option<(Bytes, Bytes)>,
}

impl Default for MinRtt {
    fn default() -> Self {
        Self { min_rtt: Dur::MAX, stamp: Time::ZERO, probe_end: None, probe_round_done: false, limited: None }
    }
}

impl MinRtt {
    /// [`Dur::MAX`] before the first sample.
    #[inline]
    pub(super) fn value(&self) -> Dur {
        self.min_rtt
    }

    /// A packet sent when `delivered` was the total was held back by PROBE_RTT, not by the path.
    #[inline]
    pub(super) fn limited_at(&self, delivered: Bytes) -> bool {
        self.limited.is_some_and(|(from, to)| (from..=to).contains(&delivered))
    }
}

impl Bbr {
    /// `bbr_update_min_rtt`.
    #[inline]
    pub(super) fn update_min_rtt(&mut self, ack: &AckInfo) {
        let expired = self.min_rtt.min_rtt < Dur::MAX && ack.now > self.min_rtt.stamp + FILTER_LENGTH;
        if let Some(rtt) = ack.rtt {
            // A lone short segment may have waited for the receiver's delayed-acknowledgement timer.
            let maybe_delayed = ack.acked_packets == 1 && ack.acked.0 < self.mss;
            // Only a lower RTT postpones PROBE_RTT, not an equal one (Linux 5.10, commit 1b9e2a8c99a5).
            if rtt < self.min_rtt.min_rtt || (expired && !maybe_delayed) {
                self.min_rtt.min_rtt = rtt;
                self.min_rtt.stamp = ack.now;
            }
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.window.save(self.mode);
            self.min_rtt.probe_end = None;
            self.min_rtt.limited = Some((ack.delivered, ack.delivered));
        }
        if self.mode == Mode::ProbeRtt {
            self.hold_probe_rtt(ack);
        }
        if ack.acked > Bytes(0) {
            self.idle_restart = false;
        }
    }

    /// Keeps the flight small for 200 ms and at least a round.
    fn hold_probe_rtt(&mut self, ack: &AckInfo) {
        if let Some((_, to)) = &mut self.min_rtt.limited {
            *to = ack.delivered + ack.in_flight;
        }
        if self.min_rtt.probe_end.is_some() {
            self.min_rtt.probe_round_done |= self.rounds.starts;
            if self.min_rtt.probe_round_done {
                self.check_probe_rtt_done();
            }
        } else if self.in_packets(ack.in_flight) <= MIN_PACKETS {
            self.min_rtt.probe_end = Some(ack.now + PROBE_LENGTH);
            self.min_rtt.probe_round_done = false;
            self.rounds.end = ack.delivered;
        }
    }

    /// `bbr_check_probe_rtt_done`.
    pub(super) fn check_probe_rtt_done(&mut self) {
        if self.min_rtt.probe_end.is_some_and(|end| self.now > end) {
            self.min_rtt.stamp = self.now;
            self.window.restore();
            self.leave_probe_rtt();
        }
    }
}
