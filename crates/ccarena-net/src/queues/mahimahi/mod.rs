//! The disciplines of mahimahi 0.98 where they differ from their specifications, errors included: `compat: mahimahi`.
//!
//! Common to them: a clock of whole milliseconds, and packets that count with the 4 bytes that the TUN device puts before
//! the IP header (`src/packet/dropping_packet_queue.cc`). No packet is ever marked.

mod codel;
mod pie;
#[cfg(test)]
mod tests;

use ccarena_cc::types::{Dur, Time};

use super::limit::{FULL_PACKET_BYTES, Room};
use super::stamped::Stamped;
use super::{Infinite, Item, Kind, Limit, Queue, QueueSpec, Setting};

/// Bytes that the TUN device puts before a packet.
const TUN_HEADER_BYTES: u32 = 4;

/// `PACKET_SIZE` of mahimahi's sources: the bytes of a delivery opportunity.
const PACKET_SIZE: u64 = FULL_PACKET_BYTES + TUN_HEADER_BYTES as u64;

/// Mahimahi's own form of what `spec` describes, if it has one.
pub(super) fn build<T: Item + Send + Sync + 'static>(spec: &QueueSpec, setting: &Setting) -> Option<Box<dyn Queue<T>>> {
    match spec.kind {
        Kind::CoDel => Some(Box::new(codel::CoDel::new(spec, setting))),
        Kind::Pie => Some(Box::new(pie::Pie::new(spec, setting))),
        _ => None,
    }
}

/// `timestamp()`: whole milliseconds.
fn timestamp(t: Time) -> u64 {
    t.0 / Dur::from_millis(1).0
}

/// A parameter in ms, which mahimahi takes in whole ones only, none of them zero.
fn whole_ms(spec: &QueueSpec, name: &str) -> u32 {
    spec.params.get(name).round().max(1.0) as u32
}

/// `DroppingPacketQueue`.
#[derive(Debug)]
struct Fifo<T> {
    fifo: Infinite<Stamped<T>>,
    room: Room,
}

impl<T: Item + Send + Sync> Fifo<T> {
    fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        let mut room = Room::new(spec.limit, setting.bdp_bytes);
        if let Some(Limit::Bdp(_)) = spec.limit {
            room.bytes = room.bytes.max(PACKET_SIZE);
        }
        Self { fifo: Infinite::empty(), room }
    }

    /// `size_bytes`: with the TUN device's headers.
    fn size_bytes(&self) -> u64 {
        self.fifo.len_bytes() + u64::from(TUN_HEADER_BYTES) * self.fifo.len_packets() as u64
    }

    /// `good_with` one more.
    fn fits(&self, item: &T) -> bool {
        self.room.fits(self.fifo.len_packets(), self.size_bytes(), item.bytes() + TUN_HEADER_BYTES)
    }
}
