//! Packets: data segments and acknowledgements.

use ccarena_cc::{Dur, Signal, Time};
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

/// Selectively acknowledged blocks, the most recent first; before them that of a duplicate, if one is reported.
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
    /// A mark is echoed (the ECE flag of RFC 3168 §6.1.3).
    pub echo_congestion: bool,
    /// Send time of the segment whose timestamp is echoed (RFC 7323 §4.3: the earliest unacknowledged one).
    pub echo: Time,
    /// Signals of routers in data segments.
    pub signal: Signal,
    /// Delay since the arrival of the newest segment that it reports, for QUIC (RFC 9000 §13.2.5).
    pub delay: Dur,
}
