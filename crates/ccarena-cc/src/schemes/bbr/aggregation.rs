//! Excess of data that arrives at once when acknowledgements come in bunches, beyond what the bandwidth explains. The
//! window grows by it, so that sending does not stall between bunches (`bbr_update_ack_aggregation`).

use super::{BW_SCALE, Bbr, valid_sample};
use crate::events::AckInfo;
use crate::types::Time;

/// Rounds in each of the two slots of the maximum filter (`bbr_extra_acked_win_rtts`).
const SLOT_ROUNDS: u32 = 5;
/// An epoch restarts at this many packets (`bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_PACKETS: u64 = 1 << 20;
/// The window grows by at most this much time's worth (`bbr_extra_acked_max_us`).
const MAX_US: u64 = 100_000;

#[derive(Debug, Default)]
pub(super) struct Aggregation {
    epoch_start: Time,
    /// Packets acknowledged in the epoch.
    epoch_acked: u64,
    /// Largest excess in the slots' rounds, in packets.
    extra: [u64; 2],
    slot: usize,
    slot_rounds: u32,
}

impl Aggregation {
    pub(super) fn restart(&mut self, now: Time) {
        self.epoch_start = now;
        self.epoch_acked = 0;
    }
}

impl Bbr {
    #[inline]
    pub(super) fn update_aggregation(&mut self, ack: &AckInfo) {
        if ack.acked_packets == 0 || valid_sample(ack).is_none() {
            return;
        }
        let bandwidth = self.bandwidth();
        let epoch = &mut self.aggregation;
        if self.rounds.starts {
            epoch.slot_rounds += 1;
            if epoch.slot_rounds >= SLOT_ROUNDS {
                epoch.slot_rounds = 0;
                epoch.slot = 1 - epoch.slot;
                epoch.extra[epoch.slot] = 0;
            }
        }
        let acked = u64::from(ack.acked_packets);
        let elapsed_us = ack.now.since(epoch.epoch_start).as_micros();
        let mut expected = bandwidth.saturating_mul(elapsed_us) >> BW_SCALE;
        // Below the expected rate nothing is aggregated: the epoch begins anew.
        if epoch.epoch_acked <= expected || epoch.epoch_acked + acked >= EPOCH_PACKETS {
            epoch.restart(ack.now);
            expected = 0;
        }
        epoch.epoch_acked = (epoch.epoch_acked + acked).min(EPOCH_PACKETS - 1);
        let extra = (epoch.epoch_acked - expected).min(self.window.packets());
        epoch.extra[epoch.slot] = epoch.extra[epoch.slot].max(extra);
    }

    /// Packets to add to the window (`bbr_ack_aggregation_cwnd`).
    #[inline]
    pub(super) fn aggregation_packets(&self) -> u64 {
        if !self.full_pipe.reached {
            return 0;
        }
        let most = self.bandwidth().saturating_mul(MAX_US) >> BW_SCALE;
        self.aggregation.extra[0].max(self.aggregation.extra[1]).min(most)
    }
}
