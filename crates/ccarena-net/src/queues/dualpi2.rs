//! DualPI2 (RFC 9332 with its appendix A), as Linux does it (`net/sched/sch_dualpi2.c` of 6.17): two queues behind one
//! limit. Packets with ECT(1) or CE wait in the L queue, which is for scalable senders (L4S, RFC 9331), all others in the
//! classic queue.
//!
//! A proportional-integral controller moves one base probability p' so that the longer of the two delays holds a target.
//! Classic packets are marked or dropped with probability p'², packets of the L queue are marked with k·p': senders whose
//! rate falls with the root of one and those whose rate falls with the other then get equal shares (RFC 9332 §2.1). The
//! L queue also marks what waited longer than a step, or on a ramp (§2.4, §A.1). It goes first, up to a share that is
//! kept for the classic queue (§4.2.2).
//!
//! If k·p' exceeds 1, ECN is no longer enough: both queues drop with p'² whatever packets support, and the L queue marks
//! the rest (§4.2.3, §A.2).
//!
//! Departures:
//!
//! - From the RFC's pseudocode, as Linux: marks are drawn at random, each by itself, and not by adding probabilities up
//!   (`recur`), and the default is a step and not a ramp.
//! - From Linux, as the RFC: the step spares a packet behind which none waits (Linux: `min_qlen_step` 0). On slow links
//!   it would mark almost all that wait for a classic packet, and scalable flows would get less than their share.
//! - From Linux: sizes are IP bytes, so that the two full packets up to which nothing is marked at random (`must_drop`)
//!   are 3000 bytes; probabilities are floating-point numbers; there is a limit in packets or bytes and none of memory. The
//!   credit of the scheduler begins anew once the last packet has left, not at the next attempt to take one.
//! - Absent: drops at arrival (`drop_early`), other masks of the classifier and tc's filters. Packets come one by one, so
//!   there is nothing to split (`split_gso`).

use ccarena_cc::types::{Dur, Time};

use super::limit::{FULL_PACKET_BYTES, Room};
use super::marks::Marks;
use super::stamped::Stamped;
use super::{Discipline, Infinite, Item, Limit, LimitRule, Param, Params, Part, Queue, QueueSpec, Setting};
use crate::rng::Stream;

/// Registry entry of this discipline.
pub const DISCIPLINE: Discipline = Discipline {
    name: "dualpi2",
    summary: "coupled queues for L4S and classic traffic, RFC 9332, as Linux: low latency for ECT(1), equal rates for both",
    limit: LimitRule::Default(Limit::Packets(10_000)),
    params: &[
        Param {
            name: "target_ms",
            default: 15.0,
            min: 0.1,
            max: 10_000.0,
            doc: "queueing delay in ms that the controller holds (RFC 9332 §A.1)",
        },
        Param {
            name: "update_ms",
            default: 16.0,
            min: 1.0,
            max: 1_000.0,
            doc: "time in ms between updates of the base probability (§A.1, Tupdate)",
        },
        Param {
            name: "alpha_hz",
            default: 0.16,
            min: 0.004,
            max: 100.0,
            doc: "gain in 1/s of the delay's distance from the target (§A.1)",
        },
        Param {
            name: "beta_hz",
            default: 3.2,
            min: 0.004,
            max: 100.0,
            doc: "gain in 1/s of the delay's change since the last update (§A.1)",
        },
        Param {
            name: "coupling",
            default: 2.0,
            min: 1.0,
            max: 255.0,
            doc: "coupling factor k: the L queue marks with k times the base probability (§2.1)",
        },
        Param {
            name: "step_ms",
            default: 1.0,
            min: 0.01,
            max: 10_000.0,
            doc: "sojourn time in ms beyond which the L queue marks (Linux: step_thresh; §A.1: minTh)",
        },
        Param {
            name: "ramp_ms",
            default: 0.0,
            min: 0.0,
            max: 10_000.0,
            doc: "width in ms of a ramp from no mark at step_ms to all (§A.1: range, 0.4 from step_ms 0.8); 0: a step",
        },
        Param {
            name: "step_packets",
            default: 1.0,
            min: 0.0,
            max: 1e6,
            doc: "packets that must wait behind one for step or ramp to mark it, lest slow links always mark (§A.1: Th_len; Linux: 0)",
        },
        Param {
            name: "classic_percent",
            default: 10.0,
            min: 0.0,
            max: 100.0,
            doc: "share in percent of the rate that the classic queue can count on (Linux: c_protection)",
        },
        Param {
            name: "shift_ms",
            default: 0.0,
            min: 0.0,
            max: 10_000.0,
            doc: "head start in ms of the L queue in a time-shifted FIFO (§4.2.2) instead of weights; 0: weights",
        },
        Param {
            name: "drop_overload",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            doc: "drop from the L queue in overload (§4.2.3); without, it only marks, until the limit is reached",
        },
    ],
    check: |_| Ok(()),
    mahimahi: false,
    random: true,
};

/// One of the two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    L4s,
    Classic,
}

/// Two coupled queues.
#[derive(Debug)]
pub struct DualPi2<T> {
    l4s: Infinite<Stamped<T>>,
    classic: Infinite<Stamped<T>>,
    room: Room,
    pi: Pi,
    scheduler: Scheduler,
    coupling: f64,
    native: Native,
    drop_overload: bool,
    marks: Marks,
    /// Delays of the L queue and of the classic one.
    parts: [Part; 2],
    stream: Stream,
}

impl<T: Item + Send + Sync> DualPi2<T> {
    /// An empty queue as `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        let p = &spec.params;
        let (coupling, drop_overload) = (p.get("coupling"), p.on("drop_overload"));
        Self {
            l4s: Infinite::empty(),
            classic: Infinite::empty(),
            room: Room::new(spec.limit, setting.bdp_bytes),
            pi: Pi::new(p, if drop_overload { 1.0 } else { 1.0 / coupling }),
            scheduler: Scheduler::new(p),
            coupling,
            native: Native {
                from: p.millis("step_ms"),
                ramp: p.millis("ramp_ms"),
                packets: p.get("step_packets").round() as usize,
            },
            drop_overload,
            marks: Marks::default(),
            parts: [Part::new("l4s"), Part::new("classic")],
            stream: setting.stream.clone(),
        }
    }

    #[inline]
    fn heads(&self) -> (Option<Time>, Option<Time>) {
        let arrival = |queue: &Infinite<Stamped<T>>| queue.front().map(|packet| packet.arrival);
        (arrival(&self.l4s), arrival(&self.classic))
    }

    #[inline]
    fn queue(&mut self, class: Class) -> &mut Infinite<Stamped<T>> {
        match class {
            Class::L4s => &mut self.l4s,
            Class::Classic => &mut self.classic,
        }
    }

    /// Marks `item`, which leaves after `sojourn`, or returns that it is dropped (§A.2; `must_drop` and `do_step_aqm`).
    fn drops(&mut self, class: Class, item: &mut T, sojourn: Dur) -> bool {
        let base = if self.len_bytes() < 2 * FULL_PACKET_BYTES { 0.0 } else { self.pi.probability };
        let coupled = base * self.coupling;
        let overload = coupled > 1.0;
        match class {
            Class::Classic => self.squared(base) && (overload || !self.marks.mark(item)),
            Class::L4s => {
                if overload && self.drop_overload && self.squared(base) {
                    return true;
                }
                let native = self.native.probability(sojourn, self.l4s.len_packets());
                self.stream.chance(coupled.max(native)) && !self.marks.mark(item)
            }
        }
    }

    /// Returns true with probability `p`², by two draws (§2.1, "think twice to drop").
    #[inline]
    fn squared(&mut self, p: f64) -> bool {
        self.stream.chance(p) && self.stream.chance(p)
    }
}

impl<T: Item + Send + Sync> Queue<T> for DualPi2<T> {
    fn enqueue(&mut self, item: T, now: Time, drops: &mut Vec<T>) {
        self.pi.catch_up(now, self.heads());
        if !self.room.fits(self.len_packets(), self.len_bytes(), item.bytes()) {
            drops.push(item);
            return;
        }
        let class = if item.ecn().is_l4s() { Class::L4s } else { Class::Classic };
        self.queue(class).push(Stamped { item, arrival: now });
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<T>) -> Option<T> {
        self.pi.catch_up(now, self.heads());
        loop {
            let class = self.scheduler.next(self.heads())?;
            let Stamped { mut item, arrival } = self.queue(class).pop()?;
            let sojourn = now.since(arrival);
            let both = self.scheduler.competes(class, self.heads());
            let dropped = self.drops(class, &mut item, sojourn);
            if !dropped && both {
                self.scheduler.count(class, item.bytes());
            }
            if self.len_packets() == 0 {
                self.scheduler.reset();
            }
            if !dropped {
                self.parts[class as usize].delays.add(sojourn);
                return Some(item);
            }
            drops.push(item);
        }
    }

    fn head_bytes(&self) -> Option<u32> {
        match self.scheduler.next(self.heads())? {
            Class::L4s => self.l4s.head_bytes(),
            Class::Classic => self.classic.head_bytes(),
        }
    }

    #[inline]
    fn len_packets(&self) -> usize {
        self.l4s.len_packets() + self.classic.len_packets()
    }

    #[inline]
    fn len_bytes(&self) -> u64 {
        self.l4s.len_bytes() + self.classic.len_bytes()
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    fn parts(&self) -> &[Part] {
        &self.parts
    }
}

/// The L queue's own marking: a step, or a ramp (§A.1, `laqm`).
#[derive(Clone, Copy, Debug)]
struct Native {
    from: Dur,
    ramp: Dur,
    /// Packets that must wait behind.
    packets: usize,
}

impl Native {
    #[inline]
    fn probability(&self, sojourn: Dur, behind: usize) -> f64 {
        if sojourn <= self.from || behind < self.packets {
            return 0.0;
        }
        let beyond = sojourn - self.from;
        if beyond >= self.ramp { 1.0 } else { beyond.0 as f64 / self.ramp.0 as f64 }
    }
}

/// The choice between the two queues while packets wait in both.
#[derive(Clone, Debug)]
enum Scheduler {
    /// Weighted round robin (`dequeue_packet`): the sign of the credit, in percent of bytes, tells whose turn it is.
    Weights { classic: i64, credit: i64 },
    /// Time-shifted FIFO: first whose head has waited longest, with a head start for the L queue.
    Shift(Dur),
}

impl Scheduler {
    fn new(params: &Params) -> Self {
        if params.on("shift_ms") {
            return Self::Shift(params.millis("shift_ms"));
        }
        let mut weights = Self::Weights { classic: params.get("classic_percent").round() as i64, credit: 0 };
        weights.reset();
        weights
    }

    /// The queue that is served next, given the arrivals of the heads of L queue and classic queue.
    #[inline]
    fn next(&self, heads: (Option<Time>, Option<Time>)) -> Option<Class> {
        let l4s_first = match (heads, self) {
            ((None, None), _) => return None,
            ((Some(_), None), _) => true,
            ((None, Some(_)), _) => false,
            (_, Self::Weights { credit, .. }) => *credit <= 0,
            ((Some(l4s), Some(classic)), Self::Shift(shift)) => l4s <= classic + *shift,
        };
        Some(if l4s_first { Class::L4s } else { Class::Classic })
    }

    /// Returns whether packets of the other queue wait too.
    #[inline]
    fn competes(&self, class: Class, heads: (Option<Time>, Option<Time>)) -> bool {
        match class {
            Class::L4s => heads.1.is_some(),
            Class::Classic => heads.0.is_some(),
        }
    }

    /// Counts a packet of `class` that went before one of the other queue.
    #[inline]
    fn count(&mut self, class: Class, bytes: u32) {
        if let Self::Weights { classic, credit } = self {
            *credit += i64::from(bytes) * if class == Class::L4s { *classic } else { *classic - 100 };
        }
    }

    /// Begins anew; first with the L queue if its weight is larger (`dualpi2_calculate_c_protection`).
    fn reset(&mut self) {
        if let Self::Weights { classic, credit } = self {
            *credit = FULL_PACKET_BYTES as i64 * (2 * *classic - 100);
        }
    }
}

/// The controller of the base probability (§A.1, `dualpi2_update`; `calculate_probability`).
#[derive(Clone, Debug)]
struct Pi {
    target_s: f64,
    alpha: f64,
    beta: f64,
    period: Dur,
    next_update: Time,
    /// The base probability p'.
    probability: f64,
    most: f64,
    delay_s: f64,
}

impl Pi {
    fn new(params: &Params, most: f64) -> Self {
        let period = params.millis("update_ms");
        Self {
            target_s: params.get("target_ms") / 1e3,
            alpha: params.get("alpha_hz"),
            beta: params.get("beta_hz"),
            period,
            next_update: Time::ZERO + period,
            probability: 0.0,
            most,
            delay_s: 0.0,
        }
    }

    /// Makes up for the updates by `now`, at each of which the heads of the queues, which arrived then, have waited longer.
    #[inline]
    fn catch_up(&mut self, now: Time, heads: (Option<Time>, Option<Time>)) {
        if now >= self.next_update {
            self.update_until(now, heads);
        }
    }

    #[inline(never)]
    fn update_until(&mut self, now: Time, heads: (Option<Time>, Option<Time>)) {
        let oldest = heads.0.into_iter().chain(heads.1).min();
        while now >= self.next_update {
            let settled = match oldest {
                None => self.probability <= 0.0,
                Some(arrival) => {
                    self.probability >= self.most && self.waited(arrival) >= self.target_s.max(self.delay_s)
                }
            };
            if settled {
                // No update changes the probability any more: go to the last one.
                let missed = now.since(self.next_update).0 / self.period.0;
                self.next_update = self.next_update + self.period * missed;
            }
            let delay_s = oldest.map_or(0.0, |arrival| self.waited(arrival));
            let step = self.alpha * (delay_s - self.target_s) + self.beta * (delay_s - self.delay_s);
            self.probability = (self.probability + step).clamp(0.0, self.most);
            self.delay_s = delay_s;
            self.next_update = self.next_update + self.period;
        }
    }

    fn waited(&self, arrival: Time) -> f64 {
        self.next_update.since(arrival).as_secs_f64()
    }
}

#[cfg(test)]
mod tests;
