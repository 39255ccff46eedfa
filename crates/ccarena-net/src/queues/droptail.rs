//! A first-in-first-out queue that drops arrivals when it is full.

use ccarena_cc::types::Time;

use super::limit::Room;
use super::{Discipline, Infinite, Item, LimitRule, Queue, QueueSpec, Setting};

/// This discipline's registry entry.
pub const DISCIPLINE: Discipline = Discipline {
    name: "droptail",
    summary: "first in, first out; an arrival that does not fit is dropped",
    limit: LimitRule::Required,
    params: &[],
    check: |_| Ok(()),
    mahimahi: false,
    random: false,
};

/// A first-in-first-out queue with a limit.
#[derive(Debug)]
pub struct DropTail<T> {
    fifo: Infinite<T>,
    room: Room,
}

impl<T: Item> DropTail<T> {
    /// An empty queue that holds what `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        Self { fifo: Infinite::empty(), room: Room::new(spec.limit, setting.bdp_bytes) }
    }
}

impl<T: Item + Send + Sync> Queue<T> for DropTail<T> {
    #[inline(always)]
    fn enqueue(&mut self, item: T, _now: Time, drops: &mut Vec<T>) {
        if self.room.fits(self.fifo.len_packets(), self.fifo.len_bytes(), item.bytes()) {
            self.fifo.push(item);
        } else {
            drops.push(item);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _drops: &mut Vec<T>) -> Option<T> {
        self.fifo.pop()
    }

    backlog_of_fifo!();
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Packet, setting};
    use super::super::{Limit, build};
    use super::*;

    fn accepted(limit: Limit, bdp_bytes: u64) -> usize {
        let mut queue = build(&QueueSpec::droptail(limit), &setting(bdp_bytes));
        let mut drops = Vec::new();
        for id in 0..100 {
            queue.enqueue(Packet::new(id, 1500), Time::ZERO, &mut drops);
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
