//! Queue disciplines. One file holds each; adding one costs that file, a variant of [`QueueSpec`] and a line in [`all`].

mod droptail;
mod infinite;

pub use ccarena_cc::registry::Param;
use ccarena_cc::types::Time;

pub use droptail::{DropTail, Limit};
pub use infinite::Infinite;

/// What a queue holds.
pub trait Item {
    /// IP bytes on the wire.
    fn bytes(&self) -> u32;
}

/// A queue discipline: decides which packets wait, which leave next and which are dropped.
pub trait Queue<T: Item>: Send + Sync {
    /// Takes `item` at `now`. Whatever is dropped for it, itself or others, is pushed to `drops`.
    fn enqueue(&mut self, item: T, now: Time, drops: &mut Vec<T>);

    /// The packet that leaves at `now`, if any waits. Packets dropped on the way to it are pushed to `drops`.
    fn dequeue(&mut self, now: Time, drops: &mut Vec<T>) -> Option<T>;

    /// Size in IP bytes of the packet that `dequeue` would look at first.
    fn head_bytes(&self) -> Option<u32>;

    /// Packets that wait.
    fn len_packets(&self) -> usize;

    /// IP bytes that wait.
    fn len_bytes(&self) -> u64;
}

/// A registered discipline, for listings and for the scenario's checks.
#[derive(Clone, Copy, Debug)]
pub struct Discipline {
    /// Its name in a scenario.
    pub name: &'static str,
    /// One line: what it does and its source.
    pub summary: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
}

/// A discipline with its parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub enum QueueSpec {
    /// [`Infinite`].
    Infinite,
    /// [`DropTail`].
    DropTail(Limit),
}

impl Default for QueueSpec {
    /// One bandwidth-delay product of drop-tail queue.
    fn default() -> Self {
        Self::DropTail(Limit::Bdp(1.0))
    }
}

impl QueueSpec {
    /// The discipline's entry in [`all`].
    #[must_use]
    pub fn discipline(&self) -> &'static Discipline {
        match self {
            Self::Infinite => &infinite::DISCIPLINE,
            Self::DropTail(_) => &droptail::DISCIPLINE,
        }
    }
}

/// All disciplines, by name.
#[must_use]
pub fn all() -> &'static [&'static Discipline] {
    &[&droptail::DISCIPLINE, &infinite::DISCIPLINE]
}

/// Builds the queue that `spec` describes; `bdp_bytes` is the bandwidth-delay product that a limit in BDP multiplies.
#[must_use]
pub fn build<T: Item + Send + Sync + 'static>(spec: &QueueSpec, bdp_bytes: u64) -> Box<dyn Queue<T>> {
    match spec {
        QueueSpec::Infinite => Box::new(Infinite::new()),
        QueueSpec::DropTail(limit) => Box::new(DropTail::new(*limit, bdp_bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Packet(u32, u32);

    impl Item for Packet {
        fn bytes(&self) -> u32 {
            self.1
        }
    }

    #[derive(Clone, Debug)]
    enum Op {
        Enqueue(u32),
        Dequeue,
        Wait(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0_u32..9_000).prop_map(Op::Enqueue),
            3 => Just(Op::Dequeue),
            1 => (0_u64..1_000_000_000).prop_map(Op::Wait),
        ]
    }

    /// Every discipline with limits small enough for drops.
    fn spec() -> impl Strategy<Value = QueueSpec> {
        prop_oneof![
            Just(QueueSpec::Infinite),
            (0_u32..20).prop_map(|n| QueueSpec::DropTail(Limit::Packets(n))),
            (0_u64..40_000).prop_map(|n| QueueSpec::DropTail(Limit::Bytes(n))),
            (0.0..4.0).prop_map(|n| QueueSpec::DropTail(Limit::Bdp(n))),
        ]
    }

    proptest! {
        #[test]
        fn packets_are_conserved(spec in spec(), ops in prop::collection::vec(op(), 0..400)) {
            let mut queue = build::<Packet>(&spec, 20_000);
            let (mut id, mut now) = (0, Time::ZERO);
            let (mut entered, mut left, mut dropped) = ((0, 0), (0, 0), (0, 0));
            let mut newest_out = None;
            let mut drops = Vec::new();
            for op in ops {
                match op {
                    Op::Enqueue(bytes) => {
                        queue.enqueue(Packet(id, bytes), now, &mut drops);
                        id += 1;
                        entered = (entered.0 + 1, entered.1 + u64::from(bytes));
                    }
                    Op::Dequeue => {
                        let head = queue.head_bytes();
                        let out = queue.dequeue(now, &mut drops);
                        prop_assert_eq!(head.is_none(), out.is_none() && drops.is_empty());
                        if let Some(p) = out {
                            prop_assert!(newest_out.is_none_or(|n| n < p.0), "packets leave in order");
                            newest_out = Some(p.0);
                            left = (left.0 + 1, left.1 + u64::from(p.1));
                        }
                    }
                    Op::Wait(ns) => now = now + ccarena_cc::Dur(ns),
                }
                for p in drops.drain(..) {
                    dropped = (dropped.0 + 1, dropped.1 + u64::from(p.1));
                }
                prop_assert_eq!(entered.0, left.0 + dropped.0 + queue.len_packets());
                prop_assert_eq!(entered.1, left.1 + dropped.1 + queue.len_bytes());
                match spec {
                    QueueSpec::Infinite => prop_assert_eq!(dropped.0, 0),
                    QueueSpec::DropTail(Limit::Packets(n)) => prop_assert!(queue.len_packets() <= n as usize),
                    QueueSpec::DropTail(Limit::Bytes(n)) => prop_assert!(queue.len_bytes() <= n),
                    QueueSpec::DropTail(Limit::Bdp(_)) => {}
                }
            }
        }
    }

    #[test]
    fn every_discipline_is_listed_once() {
        for spec in [QueueSpec::Infinite, QueueSpec::DropTail(Limit::Packets(1))] {
            let name = spec.discipline().name;
            assert_eq!(all().iter().filter(|d| d.name == name).count(), 1, "{name}");
        }
        assert!(all().windows(2).all(|w| w[0].name < w[1].name), "sorted by name");
    }
}
