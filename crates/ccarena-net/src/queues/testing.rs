//! Packets for tests of disciplines.

use ccarena_cc::types::Rate;

use super::{Ecn, Item, Setting};
use crate::rng::{Purpose, Stream};

#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    pub id: u32,
    pub bytes: u32,
    pub ecn: Ecn,
}

impl Packet {
    /// Every second packet takes marks.
    pub fn new(id: u32, bytes: u32) -> Self {
        Self { id, bytes, ecn: if id % 2 == 1 { Ecn::Ect0 } else { Ecn::NotEct } }
    }

    pub fn is_marked(&self) -> bool {
        self.ecn == Ecn::Ce
    }
}

impl Item for Packet {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Three flows.
    fn flow(&self) -> u64 {
        u64::from(self.id % 3)
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        assert!(self.ecn.is_capable(), "only packets that take marks are marked");
        self.ecn = Ecn::Ce;
    }
}

/// A link of 12 Mbit/s, which takes 1 ms for 1500 bytes.
pub fn setting(bdp_bytes: u64) -> Setting {
    Setting { bdp_bytes, rate: Rate::from_mbps(12.0), stream: Stream::new(1, Purpose::Queue, 0) }
}
