//! Queue disciplines. One file holds each; adding one costs that file and a line in `disciplines!`.

/// Defines the backlog functions of a discipline with all its packets in one `fifo`.
macro_rules! backlog_of_fifo {
    () => {
        #[inline]
        fn head_bytes(&self) -> Option<u32> {
            self.fifo.head_bytes()
        }

        #[inline]
        fn len_packets(&self) -> usize {
            self.fifo.len_packets()
        }

        #[inline]
        fn len_bytes(&self) -> u64 {
            self.fifo.len_bytes()
        }
    };
}

mod limit;
mod mahimahi;
mod marks;
mod spec;
mod stamped;
#[cfg(test)]
mod testing;

pub use ccarena_cc::Param;
use ccarena_cc::types::Time;

use crate::ecn::Ecn;
use crate::histogram::Histogram;

pub use limit::{LIMITS, Limit, LimitRule, Room};
pub use marks::Marks;
pub use spec::{Discipline, Params, QueueSpec, Refusal, Setting};

/// Packet that a queue holds.
pub trait Item: Send + Sync {
    /// IP bytes on the wire.
    fn bytes(&self) -> u32;

    /// Returns a key that only packets of one flow share, for disciplines that separate flows.
    fn flow(&self) -> u64;

    /// Returns its ECN code point.
    fn ecn(&self) -> Ecn;

    /// Makes its code point [`Ecn::Ce`]; only that of a packet that is [capable](Ecn::is_capable).
    fn mark(&mut self);
}

/// A queue discipline: decides which packets wait, which leave next, which are marked and which are dropped.
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

    /// Returns the counts of marks; zeros of a discipline that never marks.
    fn marks(&self) -> Marks {
        Marks::default()
    }

    /// Returns the queues that the discipline is made of, if it measures them one by one.
    fn parts(&self) -> &[Part] {
        &[]
    }
}

/// One of the queues that a discipline is made of.
#[derive(Clone, Debug)]
pub struct Part {
    /// Name of the queue.
    pub name: &'static str,
    /// Times that the packets which left it had waited.
    pub delays: Histogram,
}

impl Part {
    /// Returns a queue that no packet has left.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, delays: Histogram::new() }
    }
}

/// A queue of any discipline. The commonest is known to the compiler, which merges it with the link it is in: a call that
/// it cannot see through, twice per packet, shows in the simulator's rate.
pub enum AnyQueue<T> {
    /// The commonest.
    DropTail(DropTail<T>),
    /// Any other.
    Other(Box<dyn Queue<T>>),
}

/// Evaluates `$body` with `$q` bound to whatever queue `$any` is.
macro_rules! each {
    ($any:expr, $q:ident => $body:expr) => {
        match $any {
            AnyQueue::DropTail($q) => $body,
            AnyQueue::Other($q) => $body,
        }
    };
}

impl<T: Item> Queue<T> for AnyQueue<T> {
    #[inline(always)]
    fn enqueue(&mut self, item: T, now: Time, drops: &mut Vec<T>) {
        each!(self, q => q.enqueue(item, now, drops));
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut Vec<T>) -> Option<T> {
        each!(self, q => q.dequeue(now, drops))
    }

    #[inline]
    fn head_bytes(&self) -> Option<u32> {
        each!(self, q => q.head_bytes())
    }

    #[inline]
    fn len_packets(&self) -> usize {
        each!(self, q => q.len_packets())
    }

    #[inline]
    fn len_bytes(&self) -> u64 {
        each!(self, q => q.len_bytes())
    }

    fn marks(&self) -> Marks {
        each!(self, q => q.marks())
    }

    fn parts(&self) -> &[Part] {
        each!(self, q => q.parts())
    }
}

/// `file: Type` for each discipline, by name.
macro_rules! disciplines {
    ($($file:ident: $queue:ident),* $(,)?) => {
        $(mod $file; pub use $file::$queue;)*

        /// Kind of discipline.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = concat!("[`", stringify!($queue), "`].")] $queue,)*
        }

        impl Kind {
            /// All of them, by name.
            pub const ALL: &[Self] = &[$(Self::$queue),*];

            /// Returns its registry entry.
            #[must_use]
            pub const fn discipline(self) -> &'static Discipline {
                match self {
                    $(Self::$queue => &$file::DISCIPLINE,)*
                }
            }
        }

        /// Builds the queue that `spec` describes, before the link that `setting` describes.
        #[must_use]
        pub fn build<T: Item + Send + Sync + 'static>(spec: &QueueSpec, setting: &Setting) -> AnyQueue<T> {
            if spec.mahimahi {
                if let Some(queue) = mahimahi::build(spec, setting) {
                    return AnyQueue::Other(queue);
                }
            }
            match spec.kind {
                Kind::DropTail => AnyQueue::DropTail(DropTail::new(spec, setting)),
                $(#[allow(unreachable_patterns, reason = "the one above is among them")]
                Kind::$queue => AnyQueue::Other(Box::new($queue::new(spec, setting))),)*
            }
        }
    };
}

disciplines! {
    codel: CoDel,
    drophead: DropHead,
    droptail: DropTail,
    dualpi2: DualPi2,
    fq_codel: FqCoDel,
    infinite: Infinite,
    pie: Pie,
    red: Red,
    step: Step,
}

/// All disciplines, by name.
pub fn all() -> impl Iterator<Item = &'static Discipline> {
    Kind::ALL.iter().map(|kind| kind.discipline())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::testing::{Packet, setting};
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Enqueue(u32, Ecn),
        Dequeue,
        Wait(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0_u32..9_000, prop::sample::select(&Ecn::ALL[..])).prop_map(|(bytes, ecn)| Op::Enqueue(bytes, ecn)),
            3 => Just(Op::Dequeue),
            1 => (0_u64..1_000_000_000).prop_map(Op::Wait),
        ]
    }

    /// Any discipline, its parameters anywhere within their bounds, with limits small enough for drops.
    fn spec() -> impl Strategy<Value = QueueSpec> {
        let limit = prop_oneof![
            (1_u32..20).prop_map(Limit::Packets),
            (1_u64..40_000).prop_map(Limit::Bytes),
            (0.001..4.0).prop_map(Limit::Bdp),
        ];
        (0..Kind::ALL.len(), limit, prop::collection::vec(0.0..=1.0, 12), any::<bool>()).prop_filter_map(
            "parameters that do not fit one another",
            |(kind, limit, fractions, mahimahi)| {
                let discipline = Kind::ALL[kind].discipline();
                let limit = (discipline.limit != LimitRule::Unlimited).then_some(limit);
                // Cubed: small values, which act within the time of a test, are as likely as large ones.
                let value = |(p, f): (&Param, &f64)| (p.name, p.min + f * f * f * (p.max - p.min));
                let given: BTreeMap<&str, f64> = discipline.params.iter().zip(&fractions).map(value).collect();
                QueueSpec::new(Kind::ALL[kind], limit, &given, mahimahi && discipline.mahimahi).ok()
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn packets_and_marks_are_conserved(spec in spec(), ops in prop::collection::vec(op(), 0..400)) {
            let mut queue = build::<Packet>(&spec, &setting(20_000));
            let (mut id, mut now) = (0, Time::ZERO);
            let (mut entered, mut left, mut dropped) = ((0, 0), (0, 0), (0, 0));
            let mut newest_out = BTreeMap::new();
            let (mut drops, mut came, mut marked) = (Vec::new(), Vec::new(), Marks::default());
            let mut check_mark = |came: Ecn, p: &Packet| {
                // Only packets that take marks get one, and no mark vanishes. The queue counts the marks that it made.
                prop_assert!(p.ecn == came || p.ecn == Ecn::Ce && came.is_capable(), "{:?} became {:?}", came, p.ecn);
                marked.ect0 += u64::from(p.ecn != came && came == Ecn::Ect0);
                marked.ect1 += u64::from(p.ecn != came && came == Ecn::Ect1);
                Ok(())
            };
            for op in ops {
                match op {
                    Op::Enqueue(bytes, ecn) => {
                        queue.enqueue(Packet { id, bytes, ecn }, now, &mut drops);
                        came.push(ecn);
                        id += 1;
                        entered = (entered.0 + 1, entered.1 + u64::from(bytes));
                    }
                    Op::Dequeue => {
                        let head = queue.head_bytes();
                        prop_assert_eq!(head.is_none(), queue.len_packets() == 0);
                        let out = queue.dequeue(now, &mut drops);
                        prop_assert_eq!(head.is_none(), out.is_none() && drops.is_empty());
                        if let Some(p) = out {
                            // Low-latency packets overtake others of the same flow, if it has both.
                            let ecn = came[p.id as usize];
                            let newest = newest_out.insert((p.flow(), ecn.is_l4s()), p.id);
                            prop_assert!(newest.is_none_or(|n| n < p.id), "a flow's packets leave in order");
                            check_mark(ecn, &p)?;
                            left = (left.0 + 1, left.1 + u64::from(p.bytes));
                        }
                    }
                    Op::Wait(ns) => now = now + ccarena_cc::Dur(ns),
                }
                for p in drops.drain(..) {
                    check_mark(came[p.id as usize], &p)?;
                    dropped = (dropped.0 + 1, dropped.1 + u64::from(p.bytes));
                }
                prop_assert_eq!(entered.0, left.0 + dropped.0 + queue.len_packets());
                prop_assert_eq!(entered.1, left.1 + dropped.1 + queue.len_bytes());
                match spec.limit {
                    None => prop_assert_eq!(dropped.0, 0),
                    Some(Limit::Packets(n)) => prop_assert!(queue.len_packets() <= n as usize),
                    Some(Limit::Bytes(n)) => prop_assert!(queue.len_bytes() <= n),
                    Some(Limit::Bdp(_)) => {}
                }
            }
            now = now + ccarena_cc::Dur::from_millis(1);
            while queue.len_packets() > 0 {
                let out = queue.dequeue(now, &mut drops);
                left.0 += usize::from(out.is_some());
                drops.extend(out);
                for p in drops.drain(..) {
                    check_mark(came[p.id as usize], &p)?;
                }
            }
            let Marks { ect0, ect1, refused } = queue.marks();
            prop_assert_eq!((ect0, ect1), (marked.ect0, marked.ect1));
            prop_assert!(refused <= came.iter().filter(|&&ecn| ecn == Ecn::NotEct).count() as u64);
            let parted: u64 = queue.parts().iter().map(|part| part.delays.count()).sum();
            prop_assert!(queue.parts().is_empty() || parted == left.0 as u64);
        }
    }

    #[test]
    fn disciplines_are_sorted_and_build_with_their_defaults() {
        let names: Vec<_> = all().map(|d| d.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for &kind in Kind::ALL {
            let limit = (kind.discipline().limit == LimitRule::Required).then_some(Limit::Packets(5));
            let spec = QueueSpec::new(kind, limit, &BTreeMap::new(), false).expect("defaults fit");
            let mut queue = build::<Packet>(&spec, &setting(20_000));
            queue.enqueue(Packet::new(0, 1500), Time::ZERO, &mut Vec::new());
            assert_eq!(queue.dequeue(Time::ZERO, &mut Vec::new()).map(|p| p.id), Some(0), "{}", kind.discipline().name);
            for p in kind.discipline().params {
                assert!((p.min..=p.max).contains(&p.default), "{}.{}", kind.discipline().name, p.name);
            }
        }
    }
}
