//! A first-in-first-out queue that never drops.

use std::collections::VecDeque;

use ccarena_cc::types::Time;

use super::{Discipline, Item, LimitRule, Queue, QueueSpec, Setting};

/// Registry entry of this discipline.
pub const DISCIPLINE: Discipline = Discipline {
    name: "infinite",
    summary: "first in, first out, without limit: delay is the only sign of congestion",
    limit: LimitRule::Unlimited,
    params: &[],
    check: |_| Ok(()),
    mahimahi: false,
    random: false,
};

/// A first-in-first-out queue without limit.
#[derive(Debug)]
pub struct Infinite<T> {
    ring: VecDeque<T>,
    bytes: u64,
}

impl<T: Item> Infinite<T> {
    /// An empty queue, whatever `spec` and `setting` are.
    #[must_use]
    pub fn new(_spec: &QueueSpec, _setting: &Setting) -> Self {
        Self::empty()
    }

    pub(super) fn empty() -> Self {
        Self { ring: VecDeque::new(), bytes: 0 }
    }

    #[inline]
    pub(super) fn push(&mut self, item: T) {
        self.bytes += u64::from(item.bytes());
        self.ring.push_back(item);
    }

    #[inline]
    pub(super) fn front(&self) -> Option<&T> {
        self.ring.front()
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<T> {
        let item = self.ring.pop_front()?;
        self.bytes -= u64::from(item.bytes());
        Some(item)
    }
}

impl<T: Item + Send + Sync> Queue<T> for Infinite<T> {
    #[inline]
    fn enqueue(&mut self, item: T, _now: Time, _drops: &mut Vec<T>) {
        self.push(item);
    }

    #[inline]
    fn dequeue(&mut self, _now: Time, _drops: &mut Vec<T>) -> Option<T> {
        self.pop()
    }

    #[inline]
    fn head_bytes(&self) -> Option<u32> {
        self.front().map(Item::bytes)
    }

    #[inline]
    fn len_packets(&self) -> usize {
        self.ring.len()
    }

    #[inline]
    fn len_bytes(&self) -> u64 {
        self.bytes
    }
}
