//! Acknowledgements under way to their senders.
//!
//! Those that take the same way back arrive in the order in which they left, whatever flows they are of: they share one
//! FIFO, so that what the next one costs to find does not grow with the number of flows.

use std::collections::VecDeque;

use ccarena_cc::Time;

use crate::packet::Ack;
use crate::schedule::{Schedule, Turn};

/// What is under way on each way back.
#[derive(Debug)]
pub struct Arrivals {
    ways: Vec<VecDeque<(Turn, Ack)>>,
    /// The head of each.
    heads: Schedule,
}

impl Arrivals {
    /// Nothing is under way on any of `ways` ways.
    pub fn new(ways: usize) -> Self {
        Self { ways: vec![VecDeque::new(); ways], heads: Schedule::new(ways) }
    }

    /// The flow whose acknowledgement arrives next, and when.
    #[inline]
    pub fn next(&self) -> Turn {
        self.heads.next()
    }

    /// An acknowledgement of `flow` is under way and arrives at `at`. False if it overtakes another one there, or comes
    /// before one of a later flow at the same time: it has to be kept elsewhere.
    #[inline]
    pub fn push(&mut self, way: usize, flow: u32, at: Time, ack: Ack) -> bool {
        let (turn, queue) = (Turn::new(at, flow), &mut self.ways[way]);
        match queue.back() {
            Some(last) if last.0 > turn => return false,
            Some(_) => {}
            None => self.heads.set(way, turn),
        }
        queue.push_back((turn, ack));
        true
    }

    /// The acknowledgement of `flow` that arrives by `now`, if it is next on its way: where it lies, until it is
    /// [taken](Self::take).
    #[inline]
    pub fn front(&mut self, way: usize, flow: u32, now: Time) -> Option<&mut Ack> {
        let (turn, ack) = self.ways[way].front_mut()?;
        (*turn <= Turn::new(now, flow)).then_some(ack)
    }

    /// Takes the next acknowledgement off its way.
    #[inline]
    pub fn take(&mut self, way: usize) {
        let queue = &mut self.ways[way];
        queue.pop_front();
        self.heads.set(way, queue.front().map_or(Turn::NEVER, |head| head.0));
    }
}
