//! Queue in first-in-first-out order that makes room for an arrival by dropping the packet that has
//! waited longest.
//!
//! A sender therefore learns of congestion one queueing delay sooner than with drop-tail. Source:
//! Lakshman, Neidhardt and Ott, "The drop from front strategy in TCP and in TCP over ATM", INFOCOM
//! 1996. As in mahimahi's `drophead`, an arrival that is larger than the limit empties the queue
//! and is dropped itself.

use ccarena_cc::types::Time;

use super::limit::Room;
use super::{Discipline, Infinite, Item, LimitRule, Queue, QueueSpec, Setting};

/// Registry entry of this discipline.
pub const DISCIPLINE: Discipline = Discipline {
    name: "drophead",
    summary: "first in, first out; the oldest packets are dropped to make room for an arrival",
    limit: LimitRule::Required,
    params: &[],
    check: |_| Ok(()),
    mahimahi: false,
    random: false,
};

/// A first-in-first-out queue that drops from its head.
#[derive(Debug)]
pub struct DropHead<T> {
    fifo: Infinite<T>,
    room: Room,
}

impl<T: Item> DropHead<T> {
    /// An empty queue that holds what `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        Self { fifo: Infinite::empty(), room: Room::new(spec.limit, setting.bdp_bytes) }
    }
}

impl<T: Item + Send + Sync> Queue<T> for DropHead<T> {
    #[inline]
    fn enqueue(&mut self, item: T, _now: Time, drops: &mut Vec<T>) {
        self.fifo.push(item);
        while !self.room.holds(self.fifo.len_packets(), self.fifo.len_bytes()) {
            drops.extend(self.fifo.pop());
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
    use super::super::{AnyQueue, Kind, Limit, build};
    use super::*;

    fn queue(limit: Limit) -> AnyQueue<Packet> {
        build(&QueueSpec::new(Kind::DropHead, Some(limit), &[].into(), false).expect("valid"), &setting(0))
    }

    #[test]
    fn the_oldest_make_room() {
        let mut queue = queue(Limit::Bytes(3_000));
        let mut drops = Vec::new();
        for (id, bytes) in [(0, 500), (1, 1000), (2, 1500), (3, 1200)] {
            queue.enqueue(Packet::new(id, bytes), Time::ZERO, &mut drops);
        }
        assert_eq!(drops.iter().map(|p| p.id).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|p| p.id), Some(2));
    }

    #[test]
    fn an_arrival_beyond_the_limit_empties_the_queue() {
        let mut queue = queue(Limit::Bytes(1_000));
        let mut drops = Vec::new();
        queue.enqueue(Packet::new(0, 400), Time::ZERO, &mut drops);
        queue.enqueue(Packet::new(1, 1_001), Time::ZERO, &mut drops);
        assert_eq!((drops.len(), queue.len_packets(), queue.head_bytes()), (2, 0, None));
    }
}
