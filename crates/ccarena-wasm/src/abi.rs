//! Structs of `ccarena.h` in a module's memory: little-endian, in the order of the header's fields.

use ccarena_cc::{AckInfo, Config, Dur, LossInfo, RecoveryState, SentInfo};

use crate::limits::PARAMS;

/// Version of the interface (`CC_ABI`).
pub const VERSION: u32 = 1;
/// `CC_NEVER`: a time that never comes, a duration that is not known.
pub const NEVER: u64 = u64::MAX;

/// Flags of `cc_about`.
pub mod wants {
    /// `CC_OWNS_RECOVERY`
    pub const OWNS_RECOVERY: u32 = 1;
    /// `CC_EVERY_SEGMENT`
    pub const EVERY_SEGMENT: u32 = 2;
    /// `CC_RATE_SAMPLES`
    pub const RATE_SAMPLES: u32 = 4;
}

/// Flags of events.
pub mod flags {
    /// `CC_WINDOW_LIMITED`
    pub const WINDOW_LIMITED: u32 = 1;
    /// `CC_APP_LIMITED`
    pub const APP_LIMITED: u32 = 2;
    /// `CC_NEW_EPISODE`
    pub const NEW_EPISODE: u32 = 4;
    /// `CC_MARKED`
    pub const MARKED: u32 = 8;
    /// `CC_RETRANSMISSION`
    pub const RETRANSMISSION: u32 = 16;
}

/// Bytes of `cc_control`.
pub const CONTROL_BYTES: usize = 48;
/// Bytes of `cc_config`.
pub const CONFIG_BYTES: usize = 48 + 8 * PARAMS;
/// Bytes of `cc_ack`.
pub const ACK_BYTES: usize = 160;
/// Bytes of `cc_loss`.
pub const LOSS_BYTES: usize = 64;
/// Bytes of `cc_sent`.
pub const SENT_BYTES: usize = 72;
/// Room that a module gives (`CC_SCRATCH_BYTES`): `cc_control`, and an event or `cc_config` after it.
pub const SCRATCH_BYTES: usize = 512;

const _: () = assert!(CONTROL_BYTES + CONFIG_BYTES <= SCRATCH_BYTES);

/// Writes fields one after the other; what is left stays zero.
struct Fields<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Fields<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    #[inline(always)]
    fn put<const M: usize>(mut self, field: [u8; M]) -> Self {
        self.bytes[self.at..self.at + M].copy_from_slice(&field);
        self.at += M;
        self
    }

    #[inline(always)]
    fn u64(self, value: u64) -> Self {
        self.put(value.to_le_bytes())
    }

    #[inline(always)]
    fn u32(self, value: u32) -> Self {
        self.put(value.to_le_bytes())
    }

    fn f64(self, value: f64) -> Self {
        self.put(value.to_le_bytes())
    }
}

const fn flag(set: bool, flag: u32) -> u32 {
    if set { flag } else { 0 }
}

const fn recovery(state: RecoveryState) -> u32 {
    match state {
        RecoveryState::Open => 0,
        RecoveryState::Reduction => 1,
        RecoveryState::Recovery => 2,
        RecoveryState::Loss => 3,
    }
}

/// Returns `cc_ack`.
#[must_use]
#[inline]
pub fn ack(ack: &AckInfo) -> [u8; ACK_BYTES] {
    let rate = ack.rate.as_ref();
    let app_limited = rate.is_some_and(|sample| sample.app_limited);
    Fields::new()
        .u64(ack.now.0)
        .u64(ack.acked.0)
        .u64(ack.rtt.unwrap_or(Dur(NEVER)).0)
        .u64(ack.min_rtt.0)
        .u64(ack.srtt.0)
        .u64(ack.rttvar.0)
        .u64(ack.prior_in_flight.0)
        .u64(ack.in_flight.0)
        .u64(ack.delivered.0)
        .u64(ack.lost.0)
        .u64(rate.map_or(0, |sample| sample.delivered.0))
        .u64(rate.map_or(0, |sample| sample.interval.0))
        .u64(rate.map_or(0, |sample| sample.prior_delivered.0))
        .u64(ack.snd_una)
        .u64(ack.snd_nxt)
        .u32(ack.acked_packets)
        .u32(ack.retransmitted)
        .u32(ack.ecn_ce)
        .u32(recovery(ack.recovery))
        .u32(flag(ack.cwnd_limited, flags::WINDOW_LIMITED) | flag(app_limited, flags::APP_LIMITED))
        .bytes
}

/// Returns `cc_loss`.
#[must_use]
pub fn loss(loss: &LossInfo) -> [u8; LOSS_BYTES] {
    Fields::new()
        .u64(loss.now.0)
        .u64(loss.lost.0)
        .u64(loss.in_flight.0)
        .u64(loss.delivered.0)
        .u64(loss.snd_nxt)
        .u32(loss.lost_packets)
        .u32(flag(loss.new_episode, flags::NEW_EPISODE) | flag(loss.ecn, flags::MARKED))
        .bytes
}

/// Returns `cc_sent`.
#[must_use]
#[inline]
pub fn sent(sent: &SentInfo) -> [u8; SENT_BYTES] {
    Fields::new()
        .u64(sent.now.0)
        .u64(sent.bytes.0)
        .u64(sent.prior_in_flight.0)
        .u64(sent.snd_nxt)
        .u64(sent.last_sent.0)
        .u64(sent.unreported.0)
        .u32(sent.unreported_packets)
        .u32(flag(sent.app_limited, flags::APP_LIMITED) | flag(sent.retransmission, flags::RETRANSMISSION))
        .bytes
}

/// Returns `cc_config`, with the values of the parameters.
#[must_use]
pub fn config(config: &Config, params: &[f64]) -> [u8; CONFIG_BYTES] {
    let mut fields = Fields::new()
        .u32(config.mss.max(1))
        .u32(config.initial_window)
        .u32(u32::from(config.slow_start))
        .u32(params.len() as u32)
        .f64(config.weight)
        .u32(config.header_bytes);
    fields.at = CONFIG_BYTES - 8 * PARAMS;
    params.iter().take(PARAMS).fold(fields, |fields, value| fields.f64(*value)).bytes
}

/// Answers of a controller, `cc_control`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Control {
    /// Bytes that may be in flight.
    pub window_bytes: f64,
    /// Rate at which packets leave, bit/s; zero is none.
    pub pacing_bps: f64,
    /// Slow-start threshold; zero is none.
    pub threshold_bytes: f64,
    /// Time of the next timer, ns.
    pub timer_ns: u64,
}

impl Control {
    /// Reads what a module has written.
    #[must_use]
    #[inline(always)]
    pub fn read(bytes: &[u8; CONTROL_BYTES]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let number = |at| f64::from_bits(word(at));
        Self { window_bytes: number(0), pacing_bps: number(8), threshold_bytes: number(16), timer_ns: word(24) }
    }

    /// Returns whether window, rate and threshold are the same bits.
    #[must_use]
    #[inline(always)]
    pub const fn same_numbers(&self, other: &Self) -> bool {
        self.window_bytes.to_bits() == other.window_bytes.to_bits()
            && self.pacing_bps.to_bits() == other.pacing_bps.to_bits()
            && self.threshold_bytes.to_bits() == other.threshold_bytes.to_bits()
    }

    /// Returns what a module finds.
    #[must_use]
    pub fn bytes(&self) -> [u8; CONTROL_BYTES] {
        Fields::new().f64(self.window_bytes).f64(self.pacing_bps).f64(self.threshold_bytes).u64(self.timer_ns).bytes
    }
}

#[cfg(test)]
mod tests;
