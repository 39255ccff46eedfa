//! Which node acts next: a tournament tree over the nodes' next times.
//!
//! Packets wait in FIFO pipes that keep their order, so that only a pipe's head matters here and most packets never
//! touch the tree. An update costs one comparison per level; ties go to the lower node index, which makes the order of
//! simultaneous events part of the model: links are numbered before flows, so that a delivery opportunity is used
//! before the arrivals of the same instant.

use ccarena_cc::Time;

/// A tournament tree of next times.
#[derive(Debug)]
pub struct Schedule {
    times: Vec<u64>,
    /// `winners[1]` is the node with the least time; `winners[i]` the winner of the subtree at `i`.
    winners: Vec<u32>,
    leaves: usize,
}

impl Schedule {
    /// A schedule for `nodes` nodes, none of which has anything to do.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        let leaves = nodes.next_power_of_two().max(2);
        let mut winners = vec![0; 2 * leaves];
        for i in 0..leaves {
            winners[leaves + i] = i as u32;
        }
        for i in (1..leaves).rev() {
            winners[i] = winners[2 * i];
        }
        Self { times: vec![u64::MAX; leaves], winners, leaves }
    }

    /// The node that acts next and when.
    #[inline]
    #[must_use]
    pub fn next(&self) -> (usize, Time) {
        let node = self.winners[1] as usize;
        (node, Time(self.times[node]))
    }

    /// When `node` acts next.
    #[inline]
    #[must_use]
    pub fn time(&self, node: usize) -> Time {
        Time(self.times[node])
    }

    /// Sets when `node` acts next.
    #[inline]
    pub fn set(&mut self, node: usize, at: Time) {
        if self.times[node] == at.0 {
            return;
        }
        self.times[node] = at.0;
        let mut i = (self.leaves + node) >> 1;
        while i > 0 {
            let (a, b) = (self.winners[2 * i], self.winners[2 * i + 1]);
            self.winners[i] = if self.times[b as usize] < self.times[a as usize] { b } else { a };
            i >>= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_the_least_time_and_the_lowest_index(
            nodes in 1usize..40,
            changes in prop::collection::vec((0usize..40, 0u64..50), 1..200),
        ) {
            let mut schedule = Schedule::new(nodes);
            let mut model = vec![u64::MAX; nodes];
            for (node, at) in changes {
                let node = node % nodes;
                schedule.set(node, Time(at));
                model[node] = at;
                let best = (0..nodes).min_by_key(|&i| (model[i], i)).unwrap_or(0);
                prop_assert_eq!(schedule.next(), (best, Time(model[best])));
            }
        }
    }
}
