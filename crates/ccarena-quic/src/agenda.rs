//! Order of service: first connections with new input, in its order of arrival, then those that are due, in their
//! order.
//!
//! A fixed order is unfair. Acknowledgements of many flows arrive within one wake of the thread. A full drop-tail queue
//! has room for only some of the packets that they release: each time for the packets of the connection that is served
//! first.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;

use ccarena_cc::Time;

/// Keys that wait for their turn, and times at which others will.
#[derive(Debug)]
pub struct Agenda<K> {
    queue: VecDeque<K>,
    due: BTreeSet<(Time, K)>,
    entries: HashMap<K, Entry>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    waits: bool,
    at: Time,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), due: BTreeSet::new(), entries: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash + Ord> Agenda<K> {
    /// Lets `key` wait for its turn, behind all that wait already.
    pub fn call(&mut self, key: K) {
        let entry = self.entries.entry(key).or_insert(Entry { waits: false, at: Time::NEVER });
        if !std::mem::replace(&mut entry.waits, true) {
            self.queue.push_back(key);
        }
    }

    /// Lets everyone who is due at `now` wait for a turn.
    pub fn call_due(&mut self, now: Time) {
        while let Some(&(at, key)) = self.due.first().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, key));
            self.call(key);
        }
    }

    /// Makes `key` due at `at`, and at no other time.
    pub fn schedule(&mut self, key: K, at: Time) {
        let entry = self.entries.entry(key).or_insert(Entry { waits: false, at: Time::NEVER });
        let before = std::mem::replace(&mut entry.at, at);
        self.due.remove(&(before, key));
        if at != Time::NEVER {
            self.due.insert((at, key));
        }
    }

    /// Whoever has waited for longest.
    pub fn pop(&mut self) -> Option<K> {
        while let Some(key) = self.queue.pop_front() {
            let waits = self.entries.get_mut(&key).is_some_and(|entry| std::mem::take(&mut entry.waits));
            if waits {
                return Some(key);
            }
        }
        None
    }

    /// Forgets `key`.
    pub fn remove(&mut self, key: K) {
        if let Some(entry) = self.entries.remove(&key) {
            self.due.remove(&(entry.at, key));
        }
    }

    /// Returns an upper bound of those that wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The time of the next turn: at once if anybody waits.
    #[must_use]
    pub fn next(&self) -> Time {
        if self.queue.is_empty() { self.due.first().map_or(Time::NEVER, |(at, _)| *at) } else { Time::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(agenda: &mut Agenda<u32>) -> Vec<u32> {
        std::iter::from_fn(|| agenda.pop()).collect()
    }

    #[test]
    fn turns_are_taken_in_the_order_of_what_has_come() {
        let mut agenda = Agenda::default();
        [7, 2, 9, 2].into_iter().for_each(|key| agenda.call(key));
        assert_eq!((agenda.waiting(), agenda.next()), (3, Time::ZERO));
        assert_eq!(all(&mut agenda), [7, 2, 9]);
        assert_eq!((agenda.waiting(), agenda.next()), (0, Time::NEVER));
        agenda.call(2);
        assert_eq!(all(&mut agenda), [2], "it has had its turn, and may have another");
    }

    #[test]
    fn those_that_are_due_come_in_the_order_of_their_times() {
        let mut agenda = Agenda::default();
        [(1, 50), (2, 30), (3, 10), (4, 99)].into_iter().for_each(|(key, at)| agenda.schedule(key, Time(at)));
        agenda.schedule(3, Time(40));
        assert_eq!(agenda.next(), Time(30));
        agenda.call(1);
        agenda.call_due(Time(50));
        assert_eq!(all(&mut agenda), [1, 2, 3]);
        assert_eq!(agenda.next(), Time(99));
    }

    #[test]
    fn one_that_is_gone_has_no_turn_and_leaves_nothing_behind() {
        let mut agenda = Agenda::default();
        agenda.call(1);
        agenda.schedule(1, Time(5));
        agenda.remove(1);
        agenda.call_due(Time(9));
        assert_eq!(agenda.pop(), None);
        // Another one with the same key waits once.
        agenda.call(1);
        agenda.remove(1);
        agenda.call(1);
        assert_eq!(all(&mut agenda), [1]);
        for at in 0..10_000 {
            agenda.schedule(2, Time(at));
        }
        assert!(agenda.due.len() == 1 && agenda.queue.is_empty(), "rescheduling costs no memory");
    }
}
