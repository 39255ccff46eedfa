//! A first-in-first-out queue that drops arrivals when it is full.

use ccarena_cc::registry::Param;
use ccarena_cc::types::Time;

use super::{Discipline, Infinite, Item, Queue};

/// This discipline's registry entry; exactly one of its parameters is given.
pub const DISCIPLINE: Discipline = Discipline {
    name: "droptail",
    summary: "first in, first out; an arrival that does not fit is dropped",
    params: &[
        Param { name: "packets", default: 100.0, min: 1.0, max: 1e9, doc: "limit in packets" },
        Param { name: "bytes", default: 150_000.0, min: 1.0, max: 1e12, doc: "limit in IP bytes" },
        Param {
            name: "bdp",
            default: 1.0,
            min: 0.001,
            max: 1e6,
            doc: "limit in bandwidth-delay products: mean rate times the largest base RTT of the flows that cross the link",
        },
    ],
};

/// How much a queue holds. The packet in service is not in the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Packets.
    Packets(u32),
    /// IP bytes.
    Bytes(u64),
    /// Multiples of the link's bandwidth-delay product, at least one full-size packet.
    Bdp(f64),
}

/// IP bytes of a full-size Ethernet packet: no queue whose limit is in BDP is smaller.
const FULL_PACKET_BYTES: u64 = 1500;

/// A first-in-first-out queue with a limit.
#[derive(Debug)]
pub struct DropTail<T> {
    fifo: Infinite<T>,
    limit_packets: usize,
    limit_bytes: u64,
}

impl<T: Item + Send> DropTail<T> {
    /// An empty queue that holds `limit`; `bdp_bytes` is what a limit in BDP multiplies.
    #[must_use]
    pub fn new(limit: Limit, bdp_bytes: u64) -> Self {
        let (limit_packets, limit_bytes) = match limit {
            Limit::Packets(n) => (n as usize, u64::MAX),
            Limit::Bytes(n) => (usize::MAX, n),
            Limit::Bdp(k) => (usize::MAX, ((k * bdp_bytes as f64).round() as u64).max(FULL_PACKET_BYTES)),
        };
        Self { fifo: Infinite::new(), limit_packets, limit_bytes }
    }
}

impl<T: Item + Send + Sync> Queue<T> for DropTail<T> {
    #[inline]
    fn enqueue(&mut self, item: T, _now: Time, drops: &mut Vec<T>) {
        let fits = self.fifo.len_packets() < self.limit_packets
            && self.fifo.len_bytes() + u64::from(item.bytes()) <= self.limit_bytes;
        if fits {
            self.fifo.push(item);
        } else {
            drops.push(item);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _drops: &mut Vec<T>) -> Option<T> {
        self.fifo.pop()
    }

    #[inline]
    fn head_bytes(&self) -> Option<u32> {
        self.fifo.head_bytes()
    }

    #[inline]
    fn len_packets(&self) -> usize {
        self.fifo.len_packets()
    }

    #[inline]
    fn len_bytes(&self) -> u64 {
        self.fifo.len_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Item for u32 {
        fn bytes(&self) -> u32 {
            *self
        }
    }

    fn accepted(limit: Limit, bdp_bytes: u64) -> usize {
        let mut queue = DropTail::new(limit, bdp_bytes);
        let mut drops = Vec::new();
        for _ in 0..100 {
            queue.enqueue(1500_u32, Time::ZERO, &mut drops);
        }
        assert_eq!(drops.len(), 100 - queue.len_packets());
        queue.len_packets()
    }

    #[test]
    fn limits_count_what_they_say() {
        assert_eq!(accepted(Limit::Packets(7), 0), 7);
        assert_eq!(accepted(Limit::Bytes(15_000), 0), 10);
        assert_eq!(accepted(Limit::Bytes(14_999), 0), 9);
        assert_eq!(accepted(Limit::Bdp(2.0), 15_000), 20);
        assert_eq!(accepted(Limit::Bdp(0.01), 15_000), 1, "never below one packet");
    }
}
