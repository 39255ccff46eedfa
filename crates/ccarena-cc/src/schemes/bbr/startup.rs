//! STARTUP and DRAIN: find out that the pipe is full, then empty the queue that finding out has built.

use super::{Bandwidth, Bbr, Mode, UNIT};
use crate::types::Bytes;

/// Growth of bandwidth that says the pipe is not full yet: 25 % (`bbr_full_bw_thresh`), in eighths.
const GROWTH_EIGHTHS: u64 = 10;
/// Rounds without it that say the pipe is full (`bbr_full_bw_cnt`).
const ROUNDS: u32 = 3;

/// Full-pipe detection (`bbr_check_full_bw_reached`).
#[derive(Debug, Default)]
pub(super) struct FullPipe {
    pub(super) reached: bool,
    bandwidth: Bandwidth,
    rounds: u32,
}

impl FullPipe {
    /// A round has ended that the application did not limit.
    pub(super) fn on_round(&mut self, max_bandwidth: Bandwidth) {
        if self.reached {
            return;
        }
        if max_bandwidth >= self.bandwidth * GROWTH_EIGHTHS / 8 {
            self.bandwidth = max_bandwidth;
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        self.reached = self.rounds >= ROUNDS;
    }

    /// A slow-down was spurious: count anew.
    pub(super) fn restart(&mut self) {
        self.bandwidth = 0;
        self.rounds = 0;
    }

    /// Counts the next round after a timeout as growth.
    pub(super) fn forget_bandwidth(&mut self) {
        self.bandwidth = 0;
    }
}

impl Bbr {
    /// `bbr_check_drain`.
    pub(super) fn check_drain(&mut self, in_flight: Bytes) {
        if self.mode == Mode::Startup && self.full_pipe.reached {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain {
            let full = self.inflight_target(self.bandwidth.max(), UNIT);
            if !self.net_will_hold(in_flight, full + 1) {
                self.enter_probe_bw();
            }
        }
    }
}
