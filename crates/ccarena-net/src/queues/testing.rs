//! Packets for tests of disciplines.

use ccarena_cc::types::Rate;

use super::{Ecn, Item, Setting};
use crate::rng::{Purpose, Stream};

#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    pub id: u32,
    pub bytes: u32,
    pub marked: bool,
}

impl Packet {
    pub fn new(id: u32, bytes: u32) -> Self {
        Self { id, bytes, marked: false }
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

    /// Every second packet is capable.
    fn ecn(&self) -> Ecn {
        match (self.marked, self.id % 2 == 1) {
            (true, _) => Ecn::Ce,
            (false, true) => Ecn::Ect0,
            (false, false) => Ecn::NotEct,
        }
    }

    fn mark(&mut self) {
        assert!(self.ecn().is_capable(), "only packets that take marks are marked");
        self.marked = true;
    }
}

/// A link of 12 Mbit/s, which takes 1 ms for 1500 bytes.
pub fn setting(bdp_bytes: u64) -> Setting {
    Setting { bdp_bytes, rate: Rate::from_mbps(12.0), stream: Stream::new(1, Purpose::Queue, 0) }
}
