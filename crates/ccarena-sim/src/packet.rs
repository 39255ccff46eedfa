//! Packets: data segments and acknowledgements.

use ccarena_cc::{Dur, Signal, Time};
use ccarena_net::accecn::{AccEcnOption, OPTION_BYTES};
use ccarena_net::queues::Item;
use ccarena_net::{Carried, Ecn};

use crate::rtt::RoundTrip;

/// Selectively acknowledged blocks that fit beside timestamps (RFC 2018 §3 with RFC 7323).
pub const SACK_BLOCKS: usize = 3;

/// A half-open range of segment numbers.
pub type Block = (u32, u32);

/// A packet in a queue or on a wire.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Time of arrival at the current queue.
    pub arrival: Time,
    /// Time at which the sender sent it (the timestamp option of data).
    pub sent: Time,
    /// Round-trip times that the sender knew then.
    pub rtt: RoundTrip,
    /// Signal that the sender requests, as changed by the routers so far.
    pub signal: Signal,
    /// The flow it belongs to.
    pub flow: u32,
    /// Segment number of data; index into the flow's acknowledgements under way otherwise.
    pub seq: u32,
    /// IP bytes.
    pub bytes: u32,
    /// Position on the path.
    pub hop: u8,
    /// An acknowledgement on the return path.
    pub is_ack: bool,
    /// ECN code point.
    pub ecn: Ecn,
    /// Flags of the header: [`REDUCED`](Self::REDUCED), [`PUSH`](Self::PUSH).
    pub flags: u8,
}

impl Packet {
    /// The sender has reduced its window for an echo (the CWR flag of RFC 3168 §6.1.2).
    pub const REDUCED: u8 = 1;
    /// A message ends here (the PSH flag of RFC 9293 §3.9.1.2).
    pub const PUSH: u8 = 2;

    /// Returns whether the sender has reduced its window.
    #[inline]
    #[must_use]
    pub fn reduced(&self) -> bool {
        self.flags & Self::REDUCED != 0
    }

    /// Returns whether a message ends here.
    #[inline]
    #[must_use]
    pub fn pushed(&self) -> bool {
        self.flags & Self::PUSH != 0
    }
}

impl Item for Packet {
    #[inline]
    fn bytes(&self) -> u32 {
        self.bytes
    }

    #[inline]
    fn flow(&self) -> u64 {
        u64::from(self.flow) << 1 | u64::from(self.is_ack)
    }

    #[inline]
    fn ecn(&self) -> Ecn {
        self.ecn
    }

    #[inline]
    fn mark(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

impl Carried for Packet {
    #[inline]
    fn flow_number(&self) -> u32 {
        self.flow
    }

    #[inline]
    fn arrival(&self) -> Time {
        self.arrival
    }

    #[inline]
    fn arrive(&mut self, now: Time) {
        self.arrival = now;
    }

    #[inline]
    fn signal(&self) -> Signal {
        self.signal
    }

    #[inline]
    fn set_signal(&mut self, signal: Signal) {
        self.signal = signal;
    }
}

/// A link that carries packets.
pub type Link = ccarena_net::Link<Packet>;

/// Feedback of marks in the flags AE, CWR and ECE of an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks(u8);

impl Marks {
    /// No mark is echoed, or the connection has no ECN.
    pub const NONE: Self = Self(0);
    /// A mark is echoed (the ECE flag of RFC 3168 §6.1.3).
    pub const ECHO: Self = Self(1);
    const ACCURATE: u8 = 0x80;

    /// A count of marks: the ACE field of AccECN (RFC 9768 §3.2.2), or QUIC's count.
    #[must_use]
    pub fn count(field: u8) -> Self {
        Self(Self::ACCURATE | field)
    }

    /// Returns the count, if the connection has one.
    #[must_use]
    pub fn accurate(self) -> Option<u8> {
        (self.0 & Self::ACCURATE != 0).then_some(self.0 & !Self::ACCURATE)
    }
}

/// Room for options in an acknowledgement: selectively acknowledged blocks, the most recent first, before them that of a
/// duplicate, if one is reported. An AccECN option gets the room that the blocks leave (RFC 9768 §3.2.3.3).
pub type Blocks = [Block; SACK_BLOCKS];

/// An acknowledgement. Its blocks, if it has any, are kept apart: most have none.
#[derive(Clone, Copy, Debug)]
pub struct Ack {
    /// Next segment expected.
    pub cumulative: u32,
    /// Number of valid blocks.
    pub sacked: u8,
    /// The first block is of a segment that had arrived before (D-SACK, RFC 2883).
    pub duplicate: bool,
    /// Feedback of marks in the header's flags.
    pub marks: Marks,
    /// Flag that it has [options](Blocks): blocks, or counters of marked bytes.
    pub has_options: bool,
    /// Send time of the segment whose timestamp is echoed (RFC 7323 §4.3: the earliest unacknowledged one).
    pub echo: Time,
    /// Signals of routers in data segments.
    pub signal: Signal,
    /// Delay since the arrival of the newest segment that it reports, for QUIC (RFC 9000 §13.2.5).
    pub delay: Dur,
}

impl Ack {
    /// Bytes of an AccECN option beside the blocks: 40 bytes hold it, timestamps and a block, or a part of it and two.
    fn option_room(&self) -> usize {
        match (self.marks.accurate(), self.sacked) {
            (None, _) | (_, 3..) => 0,
            (_, 2) => 8,
            _ => OPTION_BYTES,
        }
    }

    /// Bytes of options besides timestamps, padded: 8 per block and 4 for their head (RFC 2018 §3), and AccECN's.
    #[must_use]
    pub fn options_bytes(&self) -> u32 {
        let blocks = if self.sacked > 0 { 4 + 8 * u32::from(self.sacked) } else { 0 };
        blocks + (self.option_room() as u32).next_multiple_of(4)
    }

    /// Writes as many counters of `option` as there is room for behind the blocks.
    pub fn write_option(&self, option: &AccEcnOption, blocks: &mut Blocks) {
        let mut bytes = [0; OPTION_BYTES];
        option.write(self.option_room(), &mut bytes);
        let word = |at: usize| bytes[at..].iter().take(4).fold(0, |word, byte| word << 8 | u32::from(*byte));
        match self.option_room() {
            0 => {}
            8 => blocks[2] = (word(0), word(4)),
            _ => (blocks[1], blocks[2]) = ((word(0), word(4)), (word(8), 0)),
        }
    }

    /// Reads what [`write_option`](Self::write_option) wrote.
    #[must_use]
    pub fn read_option(&self, blocks: &[Block]) -> Option<AccEcnOption> {
        let room = self.option_room();
        let first = if room > 8 { 1 } else { 2 };
        let mut bytes = [0; 16];
        for (to, block) in bytes.chunks_exact_mut(8).zip(blocks.get(first..)?) {
            to[..4].copy_from_slice(&block.0.to_be_bytes());
            to[4..].copy_from_slice(&block.1.to_be_bytes());
        }
        // The last word has three bytes.
        bytes[8..12].rotate_left(1);
        AccEcnOption::read(&bytes[..room])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccarena_net::accecn::ReceiverCounters;

    #[test]
    fn options_share_their_room() {
        let ack = |sacked, marks| Ack {
            cumulative: 0,
            sacked,
            duplicate: false,
            marks,
            has_options: true,
            echo: Time::ZERO,
            signal: Signal::None,
            delay: Dur::ZERO,
        };
        let mut received = ReceiverCounters::default();
        received.add(Ecn::Ce, 0x0102_0304);
        received.add(Ecn::Ect1, 77);
        for (sacked, counters, bytes) in [(0, 3, 12), (1, 3, 24), (2, 2, 28), (3, 0, 28)] {
            let ack = ack(sacked, Marks::count(5));
            let before = [(1, 2), (3, 4), (5, 6)];
            let mut blocks = before;
            ack.write_option(&received.option(), &mut blocks);
            let kept = usize::from(sacked);
            assert_eq!((&blocks[..kept], ack.options_bytes()), (&before[..kept], bytes));
            let expected = received.option().counters.iter().take(counters).copied().collect::<Vec<_>>();
            let read = ack.read_option(&blocks).map_or(vec![], |o| o.counters[..counters].to_vec());
            assert_eq!(read, expected, "beside {sacked} blocks");
        }
        assert_eq!((ack(3, Marks::NONE).options_bytes(), ack(0, Marks::NONE).options_bytes()), (28, 0));
        assert_eq!((Marks::count(0).accurate(), Marks::ECHO.accurate()), (Some(0), None));
    }
}
