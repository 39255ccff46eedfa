//! Structs of `ccarena.h` in a module's or a host's memory: little-endian, in the order of the header's fields.

use ccarena_cc::{AckInfo, Bytes, Config, Dur, LossInfo, RateSample, RecoveryState, SentInfo, Time};

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

/// Two fields of 32 bits in a word.
const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

/// Returns the bytes of a struct that begins with `words`; what is left stays zero.
#[inline(always)]
fn bytes<const W: usize, const N: usize>(words: [u64; W]) -> [u8; N] {
    let mut bytes = [0; N];
    for (room, word) in bytes.chunks_exact_mut(8).zip(words) {
        room.copy_from_slice(&word.to_le_bytes());
    }
    bytes
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
    let sample = ack.rate.unwrap_or_default();
    bytes([
        ack.now.0,
        ack.acked.0,
        ack.rtt.unwrap_or(Dur(NEVER)).0,
        ack.min_rtt.0,
        ack.srtt.0,
        ack.rttvar.0,
        ack.prior_in_flight.0,
        ack.in_flight.0,
        ack.delivered.0,
        ack.lost.0,
        sample.delivered.0,
        sample.interval.0,
        sample.prior_delivered.0,
        ack.snd_una,
        ack.snd_nxt,
        pair(ack.acked_packets, ack.retransmitted),
        pair(ack.ecn_ce, recovery(ack.recovery)),
        pair(flag(ack.cwnd_limited, flags::WINDOW_LIMITED) | flag(sample.app_limited, flags::APP_LIMITED), 0),
    ])
}

/// Returns `cc_loss`.
#[must_use]
pub fn loss(loss: &LossInfo) -> [u8; LOSS_BYTES] {
    let flags = flag(loss.new_episode, flags::NEW_EPISODE) | flag(loss.ecn, flags::MARKED);
    bytes([loss.now.0, loss.lost.0, loss.in_flight.0, loss.delivered.0, loss.snd_nxt, pair(loss.lost_packets, flags)])
}

/// Returns `cc_sent`.
#[must_use]
#[inline]
pub fn sent(sent: &SentInfo) -> [u8; SENT_BYTES] {
    let flags = flag(sent.app_limited, flags::APP_LIMITED) | flag(sent.retransmission, flags::RETRANSMISSION);
    bytes([
        sent.now.0,
        sent.bytes.0,
        sent.prior_in_flight.0,
        sent.snd_nxt,
        sent.last_sent.0,
        sent.unreported.0,
        pair(sent.unreported_packets, flags),
    ])
}

/// The halves of a word.
const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// Returns the acknowledgement in a `cc_ack`; none if its `recovery` is not a state.
#[must_use]
#[inline(always)]
pub fn read_ack(words: &[u64; ACK_BYTES / 8]) -> Option<AckInfo> {
    let [now, acked, rtt, min_rtt, srtt, rttvar, prior_in_flight, in_flight, delivered, lost, ..] = *words;
    let [.., rate, interval, prior_delivered, snd_una, snd_nxt, packets, marks, set, _, _] = *words;
    let ((acked_packets, retransmitted), (ecn_ce, recovery)) = (halves(packets), halves(marks));
    let has = |flag: u32| set as u32 & flag != 0;
    let sample = RateSample {
        delivered: Bytes(rate),
        interval: Dur(interval),
        prior_delivered: Bytes(prior_delivered),
        app_limited: has(flags::APP_LIMITED),
    };
    Some(AckInfo {
        now: Time(now),
        acked: Bytes(acked),
        acked_packets,
        rtt: (rtt != NEVER).then_some(Dur(rtt)),
        min_rtt: Dur(min_rtt),
        srtt: Dur(srtt),
        rttvar: Dur(rttvar),
        prior_in_flight: Bytes(prior_in_flight),
        in_flight: Bytes(in_flight),
        delivered: Bytes(delivered),
        lost: Bytes(lost),
        rate: (interval != 0).then_some(sample),
        snd_una,
        snd_nxt,
        retransmitted,
        cwnd_limited: has(flags::WINDOW_LIMITED),
        recovery: match recovery {
            0 => RecoveryState::Open,
            1 => RecoveryState::Reduction,
            2 => RecoveryState::Recovery,
            3 => RecoveryState::Loss,
            _ => return None,
        },
        ecn_ce,
        ..AckInfo::default()
    })
}

/// Returns the loss in a `cc_loss`.
#[must_use]
#[inline]
pub fn read_loss(words: &[u64; LOSS_BYTES / 8]) -> LossInfo {
    let [now, lost, in_flight, delivered, snd_nxt, packets, ..] = *words;
    let (lost_packets, set) = halves(packets);
    LossInfo {
        now: Time(now),
        lost: Bytes(lost),
        lost_packets,
        in_flight: Bytes(in_flight),
        new_episode: set & flags::NEW_EPISODE != 0,
        ecn: set & flags::MARKED != 0,
        delivered: Bytes(delivered),
        snd_nxt,
    }
}

/// Returns the packet in a `cc_sent`, which is transmission `number`.
#[must_use]
#[inline]
pub fn read_sent(words: &[u64; SENT_BYTES / 8], number: u64) -> SentInfo {
    let [now, bytes, prior_in_flight, snd_nxt, last_sent, unreported, packets, ..] = *words;
    let (unreported_packets, set) = halves(packets);
    SentInfo {
        now: Time(now),
        bytes: Bytes(bytes),
        prior_in_flight: Bytes(prior_in_flight),
        snd_nxt,
        app_limited: set & flags::APP_LIMITED != 0,
        last_sent: Time(last_sent),
        retransmission: set & flags::RETRANSMISSION != 0,
        unreported: Bytes(unreported),
        unreported_packets,
        number,
    }
}

/// Returns `cc_config`, with the values of the parameters.
#[must_use]
pub fn config(config: &Config, params: &[f64]) -> [u8; CONFIG_BYTES] {
    const BEFORE: usize = CONFIG_BYTES / 8 - PARAMS;
    let mut words = [0; CONFIG_BYTES / 8];
    words[..4].copy_from_slice(&[
        pair(config.mss.max(1), config.initial_window),
        pair(u32::from(config.slow_start), params.len() as u32),
        config.weight.to_bits(),
        pair(config.header_bytes, 0),
    ]);
    words[BEFORE..].iter_mut().zip(params).for_each(|(word, value)| *word = value.to_bits());
    bytes(words)
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
        bytes([self.window_bytes.to_bits(), self.pacing_bps.to_bits(), self.threshold_bytes.to_bits(), self.timer_ns])
    }
}

#[cfg(test)]
mod tests;
