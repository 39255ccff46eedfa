//! The window: towards a gain times the bandwidth-delay product, by packet conservation in the first round of recovery,
//! and back to what it was once recovery or PROBE_RTT is over.

use super::{BW_SCALE, BW_UNIT, Bandwidth, Bbr, GAIN_SCALE, Gain, Mode};
use crate::events::{AckInfo, RecoveryState};
use crate::scheme::Config;
use crate::types::{Dur, Rate};

/// Keeps a receiver that acknowledges every other packet supplied (`bbr_cwnd_min_target`).
pub(super) const MIN_PACKETS: u64 = 4;
/// No window is larger (`snd_cwnd_clamp`).
const MAX_PACKETS: u64 = 1 << 24;
/// Rate below which segmentation offload sends single segments (`bbr_min_tso_rate`).
const MIN_BURST_RATE: Rate = Rate(1_200_000);
/// A burst is at most 1/1024 s at the pacing rate (`sk_pacing_shift`), 2^16 bytes less headers, and 127 segments.
const BURST_SHIFT: u32 = 10;
const MAX_BURST_BYTES: u64 = 65_536 - 1 - 320;
const MAX_BURST_PACKETS: u64 = 127;

#[derive(Debug)]
pub(super) struct Window {
    packets: u64,
    /// The last good window, from before recovery or PROBE_RTT (`prior_cwnd`).
    saved: u64,
    initial: u64,
    mss: u64,
    recovery: RecoveryState,
    /// First round of recovery: a packet out for a packet in (`packet_conservation`).
    conserving: bool,
    /// Segments of a burst at the pacing rate (`bbr_tso_segs_goal`).
    burst: u64,
}

impl Window {
    pub(super) fn new(config: &Config) -> Self {
        let initial = u64::from(config.initial_window).clamp(1, MAX_PACKETS);
        Self {
            packets: initial,
            saved: 0,
            initial,
            mss: u64::from(config.mss.max(1)),
            recovery: RecoveryState::Open,
            conserving: false,
            burst: 1,
        }
    }

    #[inline]
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    pub(super) fn burst(&self) -> u64 {
        self.burst
    }

    pub(super) fn set_burst(&mut self, rate: Rate) {
        let bytes = ((rate.0 / 8) >> BURST_SHIFT).min(MAX_BURST_BYTES);
        let least = if rate < MIN_BURST_RATE { 1 } else { 2 };
        self.burst = (bytes / self.mss).clamp(least, MAX_BURST_PACKETS);
    }

    /// `bbr_save_cwnd`.
    pub(super) fn save(&mut self, mode: Mode) {
        self.saved = if self.recovery == RecoveryState::Open && mode != Mode::ProbeRtt {
            self.packets
        } else {
            self.saved.max(self.packets)
        };
    }

    pub(super) fn restore(&mut self) {
        self.packets = self.packets.max(self.saved);
    }

    pub(super) fn end_conservation(&mut self) {
        self.conserving = false;
    }

    /// A timeout (`tcp_enter_loss`).
    pub(super) fn collapse(&mut self, in_flight: u64) {
        self.packets = (in_flight + 1).min(self.packets);
        self.recovery = RecoveryState::Loss;
    }
}

impl Bbr {
    /// `bbr_set_cwnd`.
    #[inline]
    pub(super) fn set_window(&mut self, ack: &AckInfo, lost_packets: u64) {
        let acked = u64::from(ack.acked_packets);
        if acked > 0 && !self.recover_or_restore(ack, lost_packets) {
            let target = self.bdp(self.bandwidth(), self.cwnd_gain) + self.aggregation_packets();
            let target = self.with_quantization_budget(target);
            let window = &mut self.window;
            if self.full_pipe.reached {
                window.packets = (window.packets + acked).min(target);
            } else if window.packets < target || ack.delivered.0 < window.initial * self.mss {
                window.packets += acked;
            }
            window.packets = window.packets.max(MIN_PACKETS);
        }
        let most = if self.mode == Mode::ProbeRtt { MIN_PACKETS } else { MAX_PACKETS };
        self.window.packets = self.window.packets.min(most);
    }

    /// Follows recovery; true while packets are conserved (`bbr_set_cwnd_to_recover_or_restore`).
    #[inline]
    fn recover_or_restore(&mut self, ack: &AckInfo, lost_packets: u64) -> bool {
        let window = &mut self.window;
        if window.recovery == RecoveryState::Open && ack.recovery == RecoveryState::Open && lost_packets == 0 {
            return false;
        }
        let conserved = ack.in_flight.0.div_ceil(self.mss) + u64::from(ack.acked_packets);
        window.packets = window.packets.saturating_sub(lost_packets).max(1);
        if ack.recovery == RecoveryState::Recovery && window.recovery != RecoveryState::Recovery {
            window.conserving = true;
            self.rounds.end = ack.delivered;
            window.packets = conserved;
        } else if window.recovery != RecoveryState::Open && ack.recovery == RecoveryState::Open {
            window.restore();
            window.conserving = false;
        }
        window.recovery = ack.recovery;
        if window.conserving {
            window.packets = window.packets.max(conserved);
        }
        window.conserving
    }

    /// `bbr_inflight`.
    pub(super) fn inflight_target(&self, bandwidth: Bandwidth, gain: Gain) -> u64 {
        self.with_quantization_budget(self.bdp(bandwidth, gain))
    }

    /// `gain` times the bandwidth-delay product in packets, rounded up (`bbr_bdp`).
    #[inline]
    fn bdp(&self, bandwidth: Bandwidth, gain: Gain) -> u64 {
        let min_rtt = self.min_rtt.value();
        if min_rtt == Dur::MAX {
            return self.window.initial;
        }
        let product = bandwidth.saturating_mul(min_rtt.as_micros()).saturating_mul(gain) >> GAIN_SCALE;
        product.saturating_add(BW_UNIT - 1) >> BW_SCALE
    }

    /// Room for bursts in both hosts, for delayed acknowledgements, and for probing at small products
    /// (`bbr_quantization_budget`).
    #[inline]
    fn with_quantization_budget(&self, packets: u64) -> u64 {
        let even = (packets + 3 * self.window.burst).next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle.probes() { even + 2 } else { even }
    }
}
