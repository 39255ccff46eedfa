//! Departures that are known when packets arrive.
//!
//! Nothing that comes later to a first-in-first-out link which drops arrivals alone moves a packet that waits there: its
//! departure follows from what arrived before it. With a timetable, nothing need happen when a packet leaves.

use std::collections::VecDeque;

use ccarena_cc::types::{Dur, Time};

use super::LinkStats;
use crate::queues::Room;

/// Flag in the number of a flow: the packet is not counted for it.
const UNCOUNTED: u32 = 1 << 31;

/// A packet that has not left yet.
#[derive(Clone, Copy, Debug)]
struct Entry {
    departs: Time,
    bytes: u32,
    /// Flow of the packet, perhaps with [`UNCOUNTED`].
    flow: u32,
}

/// A packet that has left.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    pub at: Time,
    pub bytes: u32,
    pub flow: u32,
    /// Stay of the packet, if the timetable keeps stays.
    pub stay: Option<Stay>,
}

/// Times of a packet at the link, for what is written down of it.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    /// Time of arrival at the queue.
    pub arrival: Time,
    /// Time of its own transmission.
    pub serialisation: Dur,
}

/// Timetable of a link: its packets, and the time at which each leaves.
#[derive(Debug)]
pub struct Timetable {
    entries: VecDeque<Entry>,
    /// Stays of these packets, if they are kept: apart, since most timetables keep none.
    stays: Option<VecDeque<Stay>>,
    bytes: u64,
    /// Time at which the newest packet leaves, or left.
    last: Time,
    room: Room,
    /// The first packet is in transmission, and takes no room.
    transmits: bool,
}

impl Timetable {
    /// Returns the timetable of an idle link whose queue holds `room`, besides the packet in
    /// transmission if the link `transmits`. It keeps the packets' stays if it `records`.
    pub fn new(room: Room, transmits: bool, records: bool) -> Self {
        let stays = records.then(VecDeque::new);
        Self { entries: VecDeque::new(), stays, bytes: 0, last: Time::ZERO, room, transmits }
    }

    /// Returns whether it keeps the packets' stays.
    #[inline]
    pub fn records(&self) -> bool {
        self.stays.is_some()
    }

    /// Keeps the stay of the packet that is pushed next.
    #[inline]
    pub fn keep(&mut self, stay: Stay) {
        if let Some(stays) = &mut self.stays {
            stays.push_back(stay);
        }
    }

    /// Returns the stay of the newest packet that has not left, if stays are kept.
    pub fn newest(&self) -> Option<Stay> {
        self.stays.as_ref()?.back().copied()
    }

    /// Returns the time at which the newest packet leaves, or left.
    #[inline]
    pub fn last(&self) -> Time {
        self.last
    }

    /// Returns the time at which the first packet leaves; never if there is none.
    #[inline]
    pub fn next(&self) -> Time {
        self.entries.front().map_or(Time::NEVER, |first| first.departs)
    }

    /// Returns whether the queue has room for a packet of `bytes` that arrives at `now`. Departures until then are booked
    /// only if that matters, many together: those that are not yet booked take room.
    #[inline]
    pub fn fits(&mut self, bytes: u32, now: Time, stats: &mut LinkStats) -> bool {
        self.has_spare_room(bytes) || {
            self.settle(now, stats);
            self.has_room(bytes)
        }
    }

    /// Returns whether it has room even beside the packets that have left and are not yet booked.
    #[inline]
    pub fn has_spare_room(&self, bytes: u32) -> bool {
        let unbooked = self.entries.len();
        unbooked < self.entries.capacity() && self.room.fits(unbooked, self.bytes, bytes)
    }

    fn has_room(&self, bytes: u32) -> bool {
        let (mut packets, mut waiting) = (self.entries.len(), self.bytes);
        if let Some(first) = self.entries.front().filter(|_| self.transmits) {
            packets -= 1;
            waiting -= u64::from(first.bytes);
        }
        self.room.fits(packets, waiting, bytes)
    }

    /// A packet of `flow` that leaves at `departs`, after all others, and counts or not.
    #[inline]
    pub fn push(&mut self, departs: Time, bytes: u32, flow: u32, counts: bool) {
        self.last = departs;
        self.bytes += u64::from(bytes);
        self.entries.push_back(Entry { departs, bytes, flow: if counts { flow } else { flow | UNCOUNTED } });
    }

    /// Books what leaves by `now`, of a timetable without stays.
    #[inline(never)]
    pub fn settle(&mut self, now: Time, stats: &mut LinkStats) {
        let (mut packets, mut bytes) = (0, 0);
        for entry in self.entries.iter().take_while(|entry| entry.departs <= now) {
            packets += 1;
            bytes += u64::from(entry.bytes);
        }
        self.entries.drain(..packets);
        self.bytes -= bytes;
        stats.delivered_packets += packets as u64;
        stats.delivered_bytes += bytes;
    }

    /// Books the first packet if it leaves by `now`.
    #[inline]
    pub fn leave(&mut self, now: Time, stats: &mut LinkStats) -> Option<Left> {
        let &Entry { departs, bytes, flow } = self.entries.front().filter(|first| first.departs <= now)?;
        self.entries.pop_front();
        self.bytes -= u64::from(bytes);
        stats.delivered_packets += 1;
        stats.delivered_bytes += u64::from(bytes);
        let stay = self.stays.as_mut().and_then(VecDeque::pop_front);
        Some(Left { at: departs, bytes, flow: flow & !UNCOUNTED, stay })
    }

    /// Packets that wait or are in transmission.
    pub fn packets(&self) -> usize {
        self.entries.len()
    }

    /// Returns their IP bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Flow and IP bytes of those that are counted.
    pub fn counted(&self) -> impl Iterator<Item = (u32, u32)> {
        self.entries.iter().filter(|e| e.flow & UNCOUNTED == 0).map(|e| (e.flow, e.bytes))
    }
}
