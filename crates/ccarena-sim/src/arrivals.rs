//! Acknowledgements under way to their senders.
//!
//! Those that take the same way back arrive in the order in which they left, whatever flows they are of: they share one
//! FIFO, so that what the next one costs to find does not grow with the number of flows.

use std::collections::VecDeque;

use ccarena_cc::Time;

use crate::packet::{Ack, Block, Blocks};
use crate::schedule::{Schedule, Turn};

/// An acknowledgement under way: to whom, and when it arrives.
#[derive(Clone, Copy, Debug)]
struct Coming {
    at: Time,
    flow: u32,
    ack: Ack,
}

/// Acknowledgements on one way back.
#[derive(Clone, Debug, Default)]
struct Way {
    acks: VecDeque<Coming>,
    /// Options of those that have some.
    blocks: VecDeque<Blocks>,
}

/// Packets under way on each way back.
#[derive(Debug)]
pub struct Arrivals {
    ways: Vec<Way>,
    /// The head of each.
    heads: Schedule,
}

impl Arrivals {
    /// Nothing is under way on any of `ways` ways.
    pub fn new(ways: usize) -> Self {
        Self { ways: vec![Way::default(); ways], heads: Schedule::new(ways) }
    }

    /// The flow whose acknowledgement arrives next, and when.
    #[inline]
    pub fn next(&self) -> Turn {
        self.heads.next()
    }

    /// An acknowledgement of `flow` is under way and arrives at `at`, with `blocks` if it has options. False if it overtakes
    /// another one there, or comes before one of a later flow at the same time: it has to be kept elsewhere.
    #[inline(always)]
    pub fn push(&mut self, way: usize, flow: u32, at: Time, ack: Ack, blocks: Option<Blocks>) -> bool {
        let Way { acks, blocks: all } = &mut self.ways[way];
        match acks.back() {
            Some(last) if (last.at, last.flow) > (at, flow) => return false,
            Some(_) => {}
            None => self.heads.set(way, Turn::new(at, flow)),
        }
        acks.push_back(Coming { at, flow, ack });
        if let Some(blocks) = blocks {
            all.push_back(blocks);
        }
        true
    }

    /// The acknowledgement of `flow` that arrives by `now`, if it is next on its way: where it lies, until it is
    /// [taken](Self::take), and its options.
    #[inline]
    pub fn front(&self, way: usize, flow: u32, now: Time) -> Option<(&Ack, &[Block])> {
        let Way { acks, blocks } = &self.ways[way];
        let coming = acks.front().filter(|coming| (coming.at, coming.flow) <= (now, flow))?;
        let blocks = if coming.ack.has_options { blocks.front().map_or(&[][..], |blocks| &blocks[..]) } else { &[] };
        Some((&coming.ack, blocks))
    }

    /// Takes the next acknowledgement off its way.
    #[inline]
    pub fn take(&mut self, way: usize) {
        let Way { acks, blocks } = &mut self.ways[way];
        if acks.pop_front().is_some_and(|coming| coming.ack.has_options) {
            blocks.pop_front();
        }
        self.heads.set(way, acks.front().map_or(Turn::NEVER, |head| Turn::new(head.at, head.flow)));
    }
}
