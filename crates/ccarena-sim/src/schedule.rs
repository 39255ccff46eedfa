//! Which node acts next: a tournament tree over the nodes' next times.
//!
//! Packets wait in FIFO pipes that keep their order, so that only a pipe's head matters here and most packets never
//! touch the tree. An update climbs as long as it changes anything; ties go to the lower node index, which makes the
//! order of simultaneous events part of the model: links are numbered before flows, so that a delivery opportunity is
//! used before the arrivals of the same instant.

use ccarena_cc::Time;

/// A node and when it acts next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    at: u64,
    node: u32,
}

/// A tournament tree of next times, four children to a parent: siblings lie side by side.
#[derive(Debug)]
pub struct Schedule {
    /// The root, which has the least time, then level by level down to the nodes; the children of `i` are
    /// `4 i + 1` to `4 i + 4`, and each parent repeats the least of them.
    tree: Vec<Entry>,
    first_leaf: usize,
}

impl Schedule {
    /// A schedule for `nodes` nodes, none of which has anything to do.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        let mut leaves = 4;
        while leaves < nodes {
            leaves *= 4;
        }
        let first_leaf = (leaves - 1) / 3;
        let mut tree = vec![Entry { at: u64::MAX, node: 0 }; first_leaf + leaves];
        for i in (0..tree.len()).rev() {
            tree[i].node = if i < first_leaf { tree[4 * i + 1].node } else { (i - first_leaf) as u32 };
        }
        Self { tree, first_leaf }
    }

    /// The node that acts next and when.
    #[inline]
    #[must_use]
    pub fn next(&self) -> (usize, Time) {
        (self.tree[0].node as usize, Time(self.tree[0].at))
    }

    /// When `node` acts next.
    #[inline]
    #[must_use]
    pub fn time(&self, node: usize) -> Time {
        Time(self.tree[self.first_leaf + node].at)
    }

    /// Sets when `node` acts next.
    #[inline]
    pub fn set(&mut self, node: usize, at: Time) {
        let mut i = self.first_leaf + node;
        if self.tree[i].at == at.0 {
            return;
        }
        self.tree[i].at = at.0;
        while i > 0 {
            i = (i - 1) / 4;
            let [a, b, c, d] = [1, 2, 3, 4].map(|k| self.tree[4 * i + k]);
            let least = earlier(earlier(a, b), earlier(c, d));
            if self.tree[i] == least {
                return;
            }
            self.tree[i] = least;
        }
    }
}

#[inline]
fn earlier(a: Entry, b: Entry) -> Entry {
    if b.at < a.at { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_the_least_time_and_the_lowest_index(
            nodes in 1usize..70,
            changes in prop::collection::vec((0usize..70, 0u64..50), 1..300),
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
