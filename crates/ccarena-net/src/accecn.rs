//! Accurate ECN for TCP (AccECN, RFC 9768): counts of marked packets and bytes in every acknowledgement.
//!
//! The receiver counts packets marked CE in the three bits of the ACE field, and payload bytes by code point in the AccECN
//! option. The sender takes the differences. If more than seven packets are acknowledged at once, the field may have
//! wrapped. The option tells then; without it the sender assumes as many marks as there may have been (RFC 9768 §3.2.2.5 and
//! appendix A). Follows Linux 6.18's `include/net/tcp_ecn.h` and `__tcp_accecn_process`.
//!
//! Departures:
//! - Packets of acknowledgements are not counted: they leave as Not-ECT here.
//! - No path strips or zeroes the option, so that nothing tests for this (§3.2.3.2).

use ccarena_cc::Feedback;

use crate::ecn::Ecn;

/// First value of the counter of packets (§3.2.1), and of the counters of bytes by code point (§3.2.1).
const FIRST_PACKETS: u32 = 5;
const FIRST_ECT_BYTES: u32 = 1;
/// Bits of the ACE field.
const ACE: u32 = 0b111;
/// Bits of the count of marks in a simulated acknowledgement of QUIC. RFC 9000 §13.4 has the whole count; these tell it
/// exactly for up to 127 packets.
const QUIC: u32 = 0x7f;
/// Bits of a counter in the option.
const COUNTER: u32 = 0xff_ffff;
/// Kinds of the option: the order of its counters (§3.2.3).
const KINDS: [u8; 2] = [172, 174];
/// Length of an option with all three counters.
pub const OPTION_BYTES: usize = 11;

/// The bits AE, CWR and ECE of a SYN that asks for `feedback` (§3.1.1).
#[must_use]
pub const fn syn(feedback: Feedback) -> u8 {
    match feedback {
        Feedback::None => 0b000,
        Feedback::Classic | Feedback::Changes => 0b011,
        Feedback::Accurate => 0b111,
    }
}

/// The bits of the answer to a `syn` that arrived as Not-ECT, by a server that can give `feedback` (table 2).
#[must_use]
pub const fn syn_ack(syn: u8, feedback: Feedback) -> u8 {
    match (syn, feedback) {
        (0b000, _) | (_, Feedback::None) => 0b000,
        (0b011, _) => 0b001,
        // A server of RFC 3168 looks at CWR and ECE alone.
        (_, Feedback::Classic | Feedback::Changes) => {
            if syn & 0b011 == 0b011 {
                0b001
            } else {
                0b000
            }
        }
        (_, Feedback::Accurate) => 0b010,
    }
}

/// Feedback of marks that a client which asks for `asked` has of a server that can give `given` (table 2).
#[must_use]
pub const fn agreed(asked: Feedback, given: Feedback) -> Feedback {
    match (asked, syn_ack(syn(asked), given)) {
        // All three bits set: the server reflects what it does not know.
        (Feedback::None, _) | (_, 0b000 | 0b111) => Feedback::None,
        (_, 0b001 | 0b101) => Feedback::Classic,
        (Feedback::Accurate, _) => Feedback::Accurate,
        _ => Feedback::None,
    }
}

/// Counters of the data that a receiver has got (§3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverCounters {
    /// Packets marked CE (r.cep).
    packets: u32,
    /// Payload bytes that arrived as ECT(1), CE and ECT(0) (r.e1b, r.ceb, r.e0b).
    bytes: [u32; 3],
}

impl Default for ReceiverCounters {
    fn default() -> Self {
        Self { packets: FIRST_PACKETS, bytes: [FIRST_ECT_BYTES, 0, FIRST_ECT_BYTES] }
    }
}

impl ReceiverCounters {
    /// A data packet with `payload` bytes has arrived.
    pub fn add(&mut self, ecn: Ecn, payload: u32) {
        let counter = match ecn {
            Ecn::NotEct => return,
            Ecn::Ect1 => 0,
            Ecn::Ce => 1,
            Ecn::Ect0 => 2,
        };
        self.packets = self.packets.wrapping_add(u32::from(ecn == Ecn::Ce));
        self.bytes[counter] = self.bytes[counter].wrapping_add(payload);
    }

    /// The ACE field.
    #[must_use]
    pub const fn ace(&self) -> u8 {
        (self.packets & ACE) as u8
    }

    /// The count of marks in an acknowledgement of QUIC.
    #[must_use]
    pub const fn quic(&self) -> u8 {
        (self.packets & QUIC) as u8
    }

    /// The counters of bytes.
    #[must_use]
    pub fn option(&self) -> AccEcnOption {
        AccEcnOption { counters: self.bytes.map(|bytes| Some(bytes & COUNTER)) }
    }
}

/// The AccECN option: counters of 24 bits of the bytes that arrived as ECT(1), CE and ECT(0), in this order (§3.2.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccEcnOption {
    /// The counters that it has.
    pub counters: [Option<u32>; 3],
}

impl AccEcnOption {
    /// Writes the option with its first counters, as many as are there and fit `room` bytes. Returns its length; zero is no
    /// option. Its order is 1: ECT(1), CE, ECT(0).
    pub fn write(&self, room: usize, to: &mut [u8; OPTION_BYTES]) -> usize {
        let mut length = 2;
        for counter in self.counters.iter().map_while(|counter| *counter) {
            if length + 3 > room.min(OPTION_BYTES) {
                break;
            }
            to[length..length + 3].copy_from_slice(&counter.to_be_bytes()[1..]);
            length += 3;
        }
        (to[0], to[1]) = (KINDS[1], length as u8);
        if room < length { 0 } else { length }
    }

    /// Reads an option of either order; none if `bytes` do not begin with one.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let order = KINDS.iter().position(|kind| bytes.first() == Some(kind))?;
        let length = usize::from(*bytes.get(1)?);
        let fields = bytes.get(2..length)?;
        // Padding of a longer option is ignored; an incomplete counter is none (§3.2.3.1).
        let mut counters = fields.chunks_exact(3).map(|c| u32::from_be_bytes([0, c[0], c[1], c[2]]));
        let read = [counters.next(), counters.next(), counters.next()];
        Some(Self { counters: if order == 1 { read } else { [read[2], read[1], read[0]] } })
    }
}

/// A sender's copies of the receiver's counters (§3.2.1), by which it counts newly marked packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderCounters {
    /// Packets marked CE (s.cep).
    packets: u32,
    /// Payload bytes that arrived as CE (s.ceb).
    bytes: u32,
    /// Bits of the field that carries the receiver's counter of packets.
    field: u32,
}

impl Default for SenderCounters {
    fn default() -> Self {
        Self { packets: FIRST_PACKETS, bytes: 0, field: ACE }
    }
}

impl SenderCounters {
    /// Counters of a sender over QUIC.
    #[must_use]
    pub fn quic() -> Self {
        Self { field: QUIC, ..Self::default() }
    }

    /// Takes the ACE field and the option of an acknowledgement that newly delivers `packets` with `payload` bytes in all,
    /// of segments of `mss` bytes. Returns how many of these were marked, by the safest likely estimate (appendix A.2). Marks
    /// of duplicates beyond `packets` are taken and not returned.
    pub fn take(&mut self, ace: u8, option: Option<&AccEcnOption>, packets: u32, payload: u64, mss: u32) -> u32 {
        if packets == 0 {
            // Perhaps older than one before it.
            return 0;
        }
        let bytes = option.and_then(|option| option.counters[1]).map(|counter| self.new_bytes(counter));
        let least = u32::from(ace).wrapping_sub(self.packets) & self.field;
        let marked = if packets <= self.field { least } else { self.estimate(least, packets, bytes, payload, mss) };
        self.packets = self.packets.wrapping_add(marked);
        marked.min(packets)
    }

    /// Bytes newly marked, by their counter of 24 bits (`tcp_update_ecn_bytes`).
    fn new_bytes(&mut self, counter: u32) -> u64 {
        let delta = counter.wrapping_sub(self.bytes) & COUNTER;
        // The upper half of the range is an older counter.
        if delta > COUNTER / 2 {
            return 0;
        }
        self.bytes = self.bytes.wrapping_add(delta);
        u64::from(delta)
    }

    /// Newly marked packets, if the field has grown by `least` and wrapped an unknown number of times.
    fn estimate(&self, least: u32, packets: u32, bytes: Option<u64>, payload: u64, mss: u32) -> u32 {
        // The largest number that the field allows (A.2.1).
        let most = packets - (packets.wrapping_sub(least) & self.field);
        let Some(bytes) = bytes else { return most };
        if bytes == 0 {
            return least;
        }
        if packets >= 2 * (self.field + 1) {
            let likely = (bytes * u64::from(packets)).div_ceil(payload.max(1));
            return most.min(least + (u32::try_from(likely).unwrap_or(u32::MAX) & !self.field));
        }
        let (least_bytes, most_bytes) = (u64::from(least) * u64::from(mss), u64::from(most) * u64::from(mss));
        // Small packets may hide marks: the field's least is taken only if the bytes are clearly fewer than its most.
        if bytes <= least_bytes && bytes < most_bytes / 2 { least } else { most }
    }
}

#[cfg(test)]
mod tests;
