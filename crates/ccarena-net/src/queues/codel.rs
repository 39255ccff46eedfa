//! CoDel, "Controlled Delay" (RFC 8289), as Linux does it (`include/net/codel_impl.h`,
//! `net/sched/sch_codel.c`).
//!
//! A packet is dropped when it would leave, if its sojourn time was at least the target, as that of
//! all packets for an interval before it. Further drops follow at intervals that shrink with the
//! square root of their number.
//!
//! Where Linux and RFC 8289 §5 differ, this follows Linux:
//!
//! - The reciprocal square root comes from one Newton step in 16-bit fixed point for each drop. The
//!   first gaps are therefore 100, 50, 56.2, 48.8, … ms, where the formula gives 100, 70.7, 57.7,
//!   50, … ms.
//! - A next episode starts from the drops of the last (`count - lastcount`).
//! - One MTU (1500 bytes of IP) of backlog is exempt instead of the largest packet seen.
//!
//! Departure from Linux: its clock ticks every 1024 ns, ours every nanosecond.

use ccarena_cc::types::{Dur, Time};

use super::limit::{FULL_PACKET_BYTES, Room};
use super::marks::Marks;
use super::stamped::Stamped;
use super::{Discipline, Infinite, Item, Limit, LimitRule, Param, Params, Queue, QueueSpec, Setting};
use crate::ecn::Ecn;

/// Time that a packet may wait, for any discipline that runs CoDel.
pub(super) const TARGET_MS: Param = Param {
    name: "target_ms",
    default: 5.0,
    min: 0.01,
    max: 10_000.0,
    doc: "sojourn time in ms above which a standing queue is too long (RFC 8289 §4.3)",
};

/// Time for which it may wait longer.
pub(super) const INTERVAL_MS: Param = Param {
    name: "interval_ms",
    default: 100.0,
    min: 0.1,
    max: 100_000.0,
    doc: "time in ms for which sojourn times stay above the target before the first drop: a worst-case RTT (RFC 8289 §4.2)",
};

/// Parameter that marks ECN-capable packets instead of dropping them.
pub(super) const ECN: Param = Param {
    name: "ecn",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    doc: "mark ECN-capable packets instead of dropping them (RFC 3168)",
};

/// Sojourn time from which on packets are marked, whatever the rest does.
pub(super) const CE_THRESHOLD_MS: Param = Param {
    name: "ce_threshold_ms",
    default: 0.0,
    min: 0.0,
    max: 10_000.0,
    doc: "sojourn time in ms beyond which every ECN-capable packet is marked (Linux: ce_threshold; RFC 8289 §3.4); 0: off",
};

/// Registry entry of this discipline.
pub const DISCIPLINE: Discipline = Discipline {
    name: "codel",
    summary: "Controlled Delay, RFC 8289, as Linux: drops at the head while packets wait too long",
    limit: LimitRule::Default(Limit::Packets(1000)),
    params: &[TARGET_MS, INTERVAL_MS, ECN, CE_THRESHOLD_MS],
    check: |_| Ok(()),
    mahimahi: true,
    random: false,
};

/// A first-in-first-out queue that CoDel controls.
#[derive(Debug)]
pub struct CoDel<T> {
    fifo: Infinite<Stamped<T>>,
    room: Room,
    law: ControlLaw,
    state: State,
    marks: Marks,
}

impl<T: Item + Send + Sync> CoDel<T> {
    /// An empty queue as `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        Self {
            fifo: Infinite::empty(),
            room: Room::new(spec.limit, setting.bdp_bytes),
            law: ControlLaw::new(&spec.params),
            state: State::default(),
            marks: Marks::default(),
        }
    }
}

impl<T: Item + Send + Sync> Queue<T> for CoDel<T> {
    #[inline]
    fn enqueue(&mut self, item: T, now: Time, drops: &mut Vec<T>) {
        if self.room.fits(self.fifo.len_packets(), self.fifo.len_bytes(), item.bytes()) {
            self.fifo.push(Stamped { item, arrival: now });
        } else {
            drops.push(item);
        }
    }

    #[inline]
    fn dequeue(&mut self, now: Time, drops: &mut Vec<T>) -> Option<T> {
        let fifo = &mut self.fifo;
        let next = || fifo.pop().map(|packet| (packet, fifo.len_bytes()));
        self.state.dequeue(&self.law, now, next, &mut self.marks, drops)
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    backlog_of_fifo!();
}

/// CoDel's parameters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ControlLaw {
    target: Dur,
    interval: Dur,
    ecn: bool,
    /// Sojourn time beyond which packets are marked; none if there is no such time.
    ce_threshold: Option<Dur>,
    /// Packets with ECT(1) alone are marked for that.
    ce_threshold_l4s: bool,
}

impl ControlLaw {
    pub fn new(params: &Params) -> Self {
        Self {
            target: params.millis("target_ms"),
            interval: params.millis("interval_ms"),
            ecn: params.on("ecn"),
            ce_threshold: params.on("ce_threshold_ms").then(|| params.millis("ce_threshold_ms")),
            ce_threshold_l4s: params.on("ce_threshold_l4s"),
        }
    }

    /// Marks `item` if that replaces dropping it.
    fn marks<T: Item>(&self, item: &mut T, marks: &mut Marks) -> bool {
        self.ecn && marks.mark(item)
    }

    /// Marks a packet that leaves at `now` if it has waited beyond the threshold for that (end of `codel_dequeue`).
    #[inline]
    fn mark_late<T: Item>(&self, Stamped { item, arrival }: &mut Stamped<T>, now: Time, marks: &mut Marks) {
        if self.ce_threshold.is_some_and(|most| now.since(*arrival) > most) {
            let selected = if self.ce_threshold_l4s { item.ecn() == Ecn::Ect1 } else { item.ecn().is_capable() };
            if selected {
                marks.mark(item);
            }
        }
    }
}

/// CoDel's variables for one queue (`struct codel_vars`).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct State {
    /// Drops since the dropping state was entered, and more if the last episode was recent.
    count: u32,
    /// `count` when it was entered.
    last_count: u32,
    /// 1/√count as a 16-bit fraction.
    reciprocal_root: u16,
    dropping: bool,
    /// Time at which packets will have been late for an interval; none while they are not.
    first_above: Option<Time>,
    /// The next drop, or the last one when not dropping.
    drop_next: Time,
}

impl State {
    /// The next packet to leave (`codel_dequeue`); `next` takes one from the queue, with the bytes behind it.
    #[inline]
    pub fn dequeue<T: Item>(
        &mut self,
        law: &ControlLaw,
        now: Time,
        next: impl FnMut() -> Option<(Stamped<T>, u64)>,
        marks: &mut Marks,
        drops: &mut Vec<T>,
    ) -> Option<T> {
        let mut packet = self.take(law, now, next, marks, drops)?;
        law.mark_late(&mut packet, now, marks);
        Some(packet.item)
    }

    #[inline]
    fn take<T: Item>(
        &mut self,
        law: &ControlLaw,
        now: Time,
        mut next: impl FnMut() -> Option<(Stamped<T>, u64)>,
        marks: &mut Marks,
        drops: &mut Vec<T>,
    ) -> Option<Stamped<T>> {
        let Some((mut packet, mut late)) = self.judge(law, now, next()) else {
            self.dropping = false;
            return None;
        };
        if !self.dropping {
            if !late {
                return Some(packet);
            }
            let leaves = if law.marks(&mut packet.item, marks) {
                Some(packet)
            } else {
                drops.push(packet.item);
                self.judge(law, now, next()).map(|(packet, _)| packet)
            };
            self.begin_dropping(law, now);
            return leaves;
        }
        self.dropping = late;
        while self.dropping && now >= self.drop_next {
            self.count = self.count.wrapping_add(1);
            self.newton_step();
            if law.marks(&mut packet.item, marks) {
                self.drop_next = self.after(self.drop_next, law);
                break;
            }
            drops.push(packet.item);
            let Some(following) = self.judge(law, now, next()) else {
                self.dropping = false;
                return None;
            };
            (packet, late) = following;
            if late {
                self.drop_next = self.after(self.drop_next, law);
            } else {
                self.dropping = false;
            }
        }
        Some(packet)
    }

    /// Counts `drops` that were forced by the queue's limit, which strengthens the signal (`fq_codel_drop`).
    ///
    /// Departure: Linux leaves 1/√count behind, from where one Newton step diverges once `count` has more than tripled.
    pub fn count_forced(&mut self, drops: u32) {
        self.count = self.count.saturating_add(drops);
        self.reciprocal_root = (65_536.0 / f64::from(self.count).sqrt()).min(65_535.0) as u16;
    }

    /// The packet and whether it may be dropped: it has waited too long, as all have for an interval, and more than
    /// one MTU waits behind it (`codel_should_drop`).
    #[inline]
    fn judge<T: Item>(
        &mut self,
        law: &ControlLaw,
        now: Time,
        packet: Option<(Stamped<T>, u64)>,
    ) -> Option<(Stamped<T>, bool)> {
        let Some((packet, backlog)) = packet else {
            self.first_above = None;
            return None;
        };
        if now.since(packet.arrival) < law.target || backlog <= FULL_PACKET_BYTES {
            self.first_above = None;
            return Some((packet, false));
        }
        let since = *self.first_above.get_or_insert(now + law.interval);
        Some((packet, now > since))
    }

    fn begin_dropping(&mut self, law: &ControlLaw, now: Time) {
        self.dropping = true;
        let delta = self.count.wrapping_sub(self.last_count);
        if delta > 1 && now.since(self.drop_next) < law.interval * 16 {
            self.count = delta;
            self.newton_step();
        } else {
            self.count = 1;
            self.reciprocal_root = u16::MAX;
        }
        self.last_count = self.count;
        self.drop_next = self.after(now, law);
    }

    /// `t` + interval / √count (`codel_control_law`).
    fn after(&self, t: Time, law: &ControlLaw) -> Time {
        t + Dur((law.interval.0 * u64::from(self.reciprocal_root)) >> 16)
    }

    /// One step towards 1/√count: x ← x (3 - count·x²) / 2 (`codel_Newton_step`).
    fn newton_step(&mut self) {
        let x = u64::from(self.reciprocal_root) << 16;
        let squared = (x * x) >> 32;
        let rest = (3_u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul(squared)) >> 2;
        self.reciprocal_root = (rest.wrapping_mul(x) >> 31 >> 16) as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Packet, setting};
    use super::super::{AnyQueue, Kind, build};
    use super::*;
    use std::collections::BTreeMap;

    fn queue(given: &[(&str, f64)]) -> AnyQueue<Packet> {
        let given: BTreeMap<&str, f64> = given.iter().copied().collect();
        let limit = Some(Limit::Packets(1_000_000));
        build(&QueueSpec::new(Kind::CoDel, limit, &given, false).expect("valid"), &setting(0))
    }

    /// Feeds 1500-byte packets at 1.5 per ms to a link that takes one per ms, for `ms`; (drop times, packets that left).
    fn overload(queue: &mut dyn Queue<Packet>, ms: u64) -> (Vec<u64>, Vec<Packet>) {
        let (mut id, mut times, mut left, mut drops) = (0, Vec::new(), Vec::new(), Vec::new());
        for t in 0..ms {
            let now = Time::ZERO + Dur::from_millis(t);
            for _ in 0..1 + t % 2 {
                queue.enqueue(Packet::new(id, 1500), now, &mut drops);
                id += 1;
            }
            left.extend(queue.dequeue(now, &mut drops));
            times.extend(drops.drain(..).map(|_| t));
        }
        (times, left)
    }

    #[test]
    fn a_constant_overload_is_dropped_at_the_kernels_schedule() {
        // Packets take 1 ms each and the queue grows by half a packet per ms. The first sojourn of 5 ms is that of packet 14,
        // which came at 9 ms; so the interval ends at 114 ms and the first drop is at the first departure after that.
        // From there 1/√count by Newton steps from 1: 1, 1/2, 9/16, 0.4878, 0.4415, 0.4046, …
        let (times, _) = overload(&mut queue(&[]), 600);
        let mut x: f64 = 1.0;
        let mut t: f64 = 115.0;
        let mut expected = vec![115];
        for count in 2..=10 {
            t += 100.0 * x;
            expected.push(t.ceil() as u64);
            x *= (3.0 - f64::from(count) * x * x) / 2.0;
        }
        assert_eq!(expected[1..4], [215, 265, 322]);
        assert_eq!(times[..10], expected);
    }

    #[test]
    fn gaps_shrink_with_the_square_root() {
        let mut state = State { count: 0, ..State::default() };
        let law = ControlLaw { target: Dur(0), interval: Dur::from_millis(100), ..ControlLaw::default() };
        state.begin_dropping(&law, Time::ZERO);
        for count in 2_u32..2_000 {
            state.count = count;
            state.newton_step();
            let gap = state.after(Time::ZERO, &law).0 as f64 / 100e6;
            let wrong = gap * f64::from(count).sqrt() - 1.0;
            assert!(count < 4 || wrong.abs() < 0.03, "gap {count}: {gap}");
        }
    }

    #[test]
    fn short_bursts_and_short_queues_are_left_alone() {
        // Late for less than an interval.
        let (times, _) = overload(&mut queue(&[]), 115);
        assert!(times.is_empty());
        // Late, but with no more than one MTU behind: two packets that left 1 s after their arrival, every time.
        let mut queue = queue(&[]);
        let mut drops = Vec::new();
        for t in 0..20 {
            queue.enqueue(Packet::new(2 * t, 1500), Time::from_secs_f64(t.into()), &mut drops);
            queue.enqueue(Packet::new(2 * t + 1, 1500), Time::from_secs_f64(t.into()), &mut drops);
            for _ in 0..2 {
                assert!(queue.dequeue(Time::from_secs_f64(f64::from(t) + 0.9), &mut drops).is_some());
            }
        }
        assert_eq!(drops, []);
    }

    #[test]
    fn one_packet_in_time_ends_the_dropping_state() {
        let mut queue = queue(&[]);
        let (times, _) = overload(&mut queue, 300);
        assert_eq!(times.len(), 3);
        let now = Time::from_secs_f64(0.3);
        let mut drops = Vec::new();
        while queue.len_packets() > 0 {
            queue.dequeue(now, &mut drops);
        }
        // Now four packets again wait too long, but not yet for an interval.
        for id in 0..4 {
            queue.enqueue(Packet::new(id, 1500), now, &mut drops);
        }
        drops.clear();
        assert!(queue.dequeue(now + Dur::from_millis(50), &mut drops).is_some());
        assert!(drops.is_empty());
    }

    #[test]
    fn an_episode_soon_after_the_last_starts_from_its_count() {
        let law = ControlLaw { target: Dur(0), interval: Dur::from_millis(100), ..ControlLaw::default() };
        let ended = State { count: 12, last_count: 2, reciprocal_root: (65_536.0 / 12_f64.sqrt()) as u16, ..State::default() };
        let mut soon = ended;
        soon.begin_dropping(&law, Time::from_secs_f64(1.5));
        assert_eq!((soon.count, soon.last_count), (10, 10));
        let mut late = ended;
        late.begin_dropping(&law, Time::from_secs_f64(1.6));
        assert_eq!((late.count, late.last_count), (1, 1));
    }

    #[test]
    fn ecn_capable_packets_are_marked_instead() {
        let (unmarked_drops, _) = overload(&mut queue(&[]), 2_000);
        let (drops, left) = overload(&mut queue(&[("ecn", 1.0)]), 2_000);
        let marks = left.iter().filter(|p| p.is_marked()).count();
        assert!(left.iter().all(|p| p.ecn != Ecn::Ce || p.id % 2 == 1));
        // Every second packet is capable, and a drop is followed by the next decision as a mark is.
        assert!(marks > 5 && drops.len() > 5 && marks + drops.len() >= unmarked_drops.len() * 9 / 10, "{marks} marks");
    }

    #[test]
    fn forced_drops_keep_the_root_of_their_count() {
        let mut state = State { count: 1, reciprocal_root: u16::MAX, ..State::default() };
        state.count_forced(63);
        assert_eq!((state.count, state.reciprocal_root), (64, 1 << 13));
    }
}
