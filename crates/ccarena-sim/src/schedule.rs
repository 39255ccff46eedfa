//! Order of events: a tournament tree over the actors' next times.
//!
//! Packets wait in FIFO pipes that keep their order, so that only a pipe's head matters here and
//! most packets never touch a tree. An update climbs as long as it changes anything. Ties go to the
//! lower actor, which makes the order of simultaneous events part of the model.

use ccarena_cc::Time;

/// Turn of an actor: the time above the actor's number in one integer, so that one comparison finds
/// the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn(u128);

impl Turn {
    /// Nobody's, at no time.
    pub const NEVER: Self = Self(u128::MAX);

    /// `actor` acts at `at`.
    #[inline]
    #[must_use]
    pub fn new(at: Time, actor: u32) -> Self {
        Self(u128::from(at.0) << 64 | u128::from(actor))
    }

    /// Returns the time.
    #[inline]
    #[must_use]
    pub fn at(self) -> Time {
        Time((self.0 >> 64) as u64)
    }

    /// Returns the actor.
    #[inline]
    #[must_use]
    pub fn actor(self) -> usize {
        self.0 as u32 as usize
    }
}

/// A tournament tree of turns, four children to a parent: siblings lie side by side.
#[derive(Debug)]
pub struct Schedule {
    /// The root, which is the first turn, then level by level down to the leaves; the children of `i` are `4 i + 1` to
    /// `4 i + 4`, and each parent repeats the first of them.
    tree: Vec<Turn>,
    first_leaf: usize,
}

impl Schedule {
    /// A schedule of `leaves` turns, none of which comes.
    #[must_use]
    pub fn new(leaves: usize) -> Self {
        let mut width = 1;
        while width < leaves {
            width *= 4;
        }
        let first_leaf = (width - 1) / 3;
        Self { tree: vec![Turn::NEVER; first_leaf + width], first_leaf }
    }

    /// The next turn.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Turn {
        self.tree[0]
    }

    /// The turn at `leaf`.
    #[inline]
    #[must_use]
    pub fn get(&self, leaf: usize) -> Turn {
        self.tree[self.first_leaf + leaf]
    }

    /// Sets the turn at `leaf`.
    #[inline(always)]
    pub fn set(&mut self, leaf: usize, turn: Turn) {
        let i = self.first_leaf + leaf;
        if i == 0 {
            self.tree[0] = turn;
        } else if self.tree[i] != turn {
            self.tree[i] = turn;
            self.climb(i);
        }
    }

    #[inline(never)]
    fn climb(&mut self, mut i: usize) {
        while i > 0 {
            i = (i - 1) / 4;
            let [a, b, c, d] = [1, 2, 3, 4].map(|k| self.tree[4 * i + k]);
            let first = a.min(b).min(c.min(d));
            if self.tree[i] == first {
                return;
            }
            self.tree[i] = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_the_least_time_and_the_lowest_actor(
            leaves in 1usize..70,
            changes in prop::collection::vec((0usize..70, 0u64..50, 0u32..9), 1..300),
        ) {
            let mut schedule = Schedule::new(leaves);
            let mut model = vec![Turn::NEVER; leaves];
            for (leaf, at, actor) in changes {
                let (leaf, turn) = (leaf % leaves, Turn::new(Time(at), actor));
                schedule.set(leaf, turn);
                model[leaf] = turn;
                let first = model.iter().min_by_key(|t| (t.at(), t.actor())).copied();
                prop_assert_eq!(Some(schedule.next()), first);
            }
        }
    }
}
