//! A first-in-first-out queue that drops arrivals when it is full.

use ccarena_cc::types::Time;

use super::limit::Room;
use super::{Discipline, Infinite, Item, LimitRule, Queue, QueueSpec, Setting};

/// Registry entry of this discipline.
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
    /// Packets that wait behind the packet in service, if that has stayed.
    fifo: Infinite<T>,
    room: Room,
    /// Size of the packet in service, if it has stayed.
    serving: Option<u32>,
}

impl<T: Item> DropTail<T> {
    /// An empty queue that holds what `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        Self { fifo: Infinite::empty(), room: Room::new(spec.limit, setting.bdp_bytes), serving: None }
    }

    /// Returns its capacity.
    #[must_use]
    pub fn room(&self) -> Room {
        self.room
    }

    /// The head goes into service: it waits no longer, but stays until it is dequeued, which saves a copy of each packet.
    /// Its size, if there is one.
    #[inline]
    pub fn serve(&mut self) -> Option<u32> {
        self.serving = self.fifo.head_bytes();
        self.serving
    }

    /// The packet that leaves next.
    #[must_use]
    pub fn head(&self) -> Option<&T> {
        self.fifo.front()
    }

    /// Size of the packet in service, if it has stayed.
    #[inline]
    #[must_use]
    pub fn serving(&self) -> Option<u32> {
        self.serving
    }
}

impl<T: Item + Send + Sync> Queue<T> for DropTail<T> {
    #[inline(always)]
    fn enqueue(&mut self, item: T, _now: Time, drops: &mut Vec<T>) {
        if self.room.fits(self.len_packets(), self.len_bytes(), item.bytes()) {
            self.fifo.push(item);
        } else {
            drops.push(item);
        }
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _drops: &mut Vec<T>) -> Option<T> {
        self.serving = None;
        self.fifo.pop()
    }

    #[inline]
    fn head_bytes(&self) -> Option<u32> {
        self.fifo.head_bytes()
    }

    #[inline]
    fn len_packets(&self) -> usize {
        self.fifo.len_packets() - usize::from(self.serving.is_some())
    }

    #[inline]
    fn len_bytes(&self) -> u64 {
        self.fifo.len_bytes() - u64::from(self.serving.unwrap_or(0))
    }
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

    #[test]
    fn the_packet_in_service_takes_no_room() {
        let mut queue = DropTail::new(&QueueSpec::droptail(Limit::Packets(2)), &setting(0));
        let mut drops = Vec::new();
        queue.enqueue(Packet::new(0, 100), Time::ZERO, &mut drops);
        assert_eq!(queue.serve(), Some(100));
        for id in 1..4 {
            queue.enqueue(Packet::new(id, 1500), Time::ZERO, &mut drops);
        }
        assert_eq!((queue.len_packets(), queue.len_bytes(), drops.len()), (2, 3000, 1));
        assert_eq!(queue.dequeue(Time::ZERO, &mut drops).map(|p| p.id), Some(0));
        assert_eq!((queue.len_packets(), queue.len_bytes(), queue.serving()), (2, 3000, None));
    }
}
