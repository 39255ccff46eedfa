//! Limits of queues.

use ccarena_cc::Param;

/// IP bytes of a full-size Ethernet packet: no queue whose limit is in BDP is smaller.
pub(super) const FULL_PACKET_BYTES: u64 = 1500;

/// Limit of a queue. The packet in service is not in the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Packets.
    Packets(u32),
    /// IP bytes.
    Bytes(u64),
    /// Multiples of the link's bandwidth-delay product, at least one full-size packet.
    Bdp(f64),
}

/// The ways of giving a limit: at most one of them.
pub const LIMITS: &[Param] = &[
    Param { name: "packets", default: 100.0, min: 1.0, max: 1e9, doc: "limit in packets" },
    Param { name: "bytes", default: 150_000.0, min: 1.0, max: 1e12, doc: "limit in IP bytes" },
    Param {
        name: "bdp",
        default: 1.0,
        min: 0.001,
        max: 1e6,
        doc: "limit in bandwidth-delay products: mean rate times the largest base RTT of the flows that cross the link",
    },
];

impl Limit {
    /// Returns the limit in bytes of a link with this bandwidth-delay product; a packet counts as one on Ethernet.
    #[must_use]
    pub fn bytes(self, bdp_bytes: u64) -> u64 {
        match self {
            Self::Packets(n) => u64::from(n).saturating_mul(FULL_PACKET_BYTES),
            Self::Bytes(n) => n,
            Self::Bdp(k) => ((k * bdp_bytes as f64).round() as u64).max(FULL_PACKET_BYTES),
        }
    }

    /// Returns its entry in [`LIMITS`] and its amount.
    #[must_use]
    pub fn param(self) -> (&'static Param, f64) {
        match self {
            Self::Packets(n) => (&LIMITS[0], n.into()),
            Self::Bytes(n) => (&LIMITS[1], n as f64),
            Self::Bdp(k) => (&LIMITS[2], k),
        }
    }
}

/// Rule of a discipline about limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LimitRule {
    /// The discipline has no limit.
    Unlimited,
    /// The discipline must be given a limit.
    Required,
    /// The discipline takes a limit, and has this default.
    Default(Limit),
}

/// A limit in packets and bytes.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    pub(super) packets: usize,
    pub(super) bytes: u64,
}

impl Room {
    /// Returns the room for `limit`; `bdp_bytes` is the factor of a limit in BDP.
    #[must_use]
    pub fn new(limit: Option<Limit>, bdp_bytes: u64) -> Self {
        let (packets, bytes) = match limit {
            None => (usize::MAX, u64::MAX),
            Some(Limit::Packets(n)) => (n as usize, u64::MAX),
            Some(limit) => (usize::MAX, limit.bytes(bdp_bytes)),
        };
        Self { packets, bytes }
    }

    /// A queue with so many packets and bytes has room for a packet of `more` bytes.
    #[inline]
    #[must_use]
    pub fn fits(&self, packets: usize, bytes: u64, more: u32) -> bool {
        self.holds(packets + 1, bytes + u64::from(more))
    }

    /// Returns whether `packets` and `bytes` are within the limit.
    #[inline]
    #[must_use]
    pub fn holds(&self, packets: usize, bytes: u64) -> bool {
        packets <= self.packets && bytes <= self.bytes
    }
}
