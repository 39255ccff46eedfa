//! FQ-CoDel (RFC 8290), as Linux does it (`net/sched/sch_fq_codel.c`): flows are hashed to queues, each of which
//! [`CoDel`](super::CoDel) controls; deficit round robin serves them, those that have just begun before the others.
//!
//! Departures from Linux: sizes are IP bytes, so that the quantum of one full packet is 1500 where Linux counts 14 more of
//! Ethernet; a limit in bytes stands for `memory_limit`, and limits hold after every arrival, with as many rounds of drops
//! as that takes; see [`State::count_forced`] too.

use std::collections::VecDeque;

use ccarena_cc::types::Time;

use super::codel::{CE_THRESHOLD_MS, ECN, INTERVAL_MS, ControlLaw, State, TARGET_MS};
use super::limit::Room;
use super::marks::Marks;
use super::stamped::Stamped;
use super::{Discipline, Infinite, Item, Limit, LimitRule, Param, Params, Queue, QueueSpec, Refusal, Setting};
use crate::rng::mix;

/// Registry entry of this discipline.
pub const DISCIPLINE: Discipline = Discipline {
    name: "fq_codel",
    summary: "FlowQueue-CoDel, RFC 8290, as Linux: fair queueing between flows, CoDel within each",
    limit: LimitRule::Default(Limit::Packets(10_240)),
    params: &[
        TARGET_MS,
        INTERVAL_MS,
        Param { default: 1.0, ..ECN },
        Param {
            name: "flows",
            default: 1024.0,
            min: 1.0,
            max: 65_536.0,
            doc: "queues that flows are hashed to (RFC 8290 §5.2.3); rounded",
        },
        Param {
            name: "quantum_bytes",
            default: 1500.0,
            min: 256.0,
            max: 1e9,
            doc: "IP bytes that a queue may send in a round (RFC 8290 §5.2.4); rounded",
        },
        CE_THRESHOLD_MS,
        Param {
            name: "ce_threshold_l4s",
            default: 0.0,
            min: 0.0,
            max: 1.0,
            doc: "mark only packets with ECT(1) beyond ce_threshold_ms (Linux: ce_threshold_selector 0x1/0x3)",
        },
    ],
    check: a_threshold_for_its_selector,
    mahimahi: false,
    random: true,
};

fn a_threshold_for_its_selector(params: &Params) -> Result<(), Refusal> {
    if params.on("ce_threshold_l4s") && !params.on("ce_threshold_ms") {
        return Err(Refusal { param: "ce_threshold_l4s", expected: "false, or a ce_threshold_ms above 0".into() });
    }
    Ok(())
}

/// Packets that are dropped at once from the longest queue, at most (`drop_batch_size`).
const DROP_BATCH: usize = 64;

/// Fair queueing between flows, each of which CoDel controls.
#[derive(Debug)]
pub struct FqCoDel<T> {
    flows: Vec<Flow<T>>,
    /// Flows that have just begun, then those that have not; each flow with packets is in one of them.
    new: VecDeque<usize>,
    old: VecDeque<usize>,
    quantum: i64,
    law: ControlLaw,
    room: Room,
    /// Makes the hash this run's own.
    perturbation: u64,
    packets: usize,
    bytes: u64,
    marks: Marks,
}

/// One queue.
#[derive(Debug)]
struct Flow<T> {
    fifo: Infinite<Stamped<T>>,
    codel: State,
    /// Bytes that it may still send in this round; at or below zero its turn is over.
    deficit: i64,
    listed: bool,
}

impl<T: Item + Send + Sync> FqCoDel<T> {
    /// An empty queue as `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        let flow = || Flow { fifo: Infinite::empty(), codel: State::default(), deficit: 0, listed: false };
        Self {
            flows: std::iter::repeat_with(flow).take(spec.params.get("flows").round() as usize).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            quantum: spec.params.get("quantum_bytes").round() as i64,
            law: ControlLaw::new(&spec.params),
            room: Room::new(spec.limit, setting.bdp_bytes),
            perturbation: setting.stream.at(0),
            packets: 0,
            bytes: 0,
            marks: Marks::default(),
        }
    }

    #[inline]
    fn hash(&self, flow: u64) -> usize {
        ((u128::from(mix(flow ^ self.perturbation)) * self.flows.len() as u128) >> 64) as usize
    }

    /// Drops from the head of the longest queue until half of it is gone, at most a batch (`fq_codel_drop`).
    #[cold]
    fn drop_from_longest(&mut self, drops: &mut Vec<T>) {
        let waiting = self.flows.iter_mut().filter(|flow| flow.fifo.len_packets() > 0);
        let Some(flow) = waiting.max_by_key(|flow| flow.fifo.len_bytes()) else { return };
        let half = flow.fifo.len_bytes() / 2;
        let (mut packets, mut bytes) = (0, 0);
        while packets == 0 || (packets < DROP_BATCH && bytes < half) {
            let Some(packet) = flow.fifo.pop() else { break };
            packets += 1;
            bytes += u64::from(packet.bytes());
            drops.push(packet.item);
        }
        flow.codel.count_forced(packets as u32);
        self.packets -= packets;
        self.bytes -= bytes;
    }

    /// The flow that `dequeue` would serve first: the first in new that has packets and a deficit, else the first in old,
    /// behind which the others of new have gone, to get one after the fewest rounds.
    fn next_flow(&self) -> Option<&Flow<T>> {
        let flow = |&i: &usize| self.flows.get(i).filter(|f| f.fifo.len_packets() > 0);
        if let Some(ready) = self.new.iter().filter_map(flow).find(|f| f.deficit > 0) {
            return Some(ready);
        }
        let rounds = |deficit: i64| (self.quantum - deficit).max(0) / self.quantum;
        let old = self.old.iter().filter_map(flow).map(|f| (rounds(f.deficit), f));
        let spent = self.new.iter().filter_map(flow).map(|f| (rounds(f.deficit + self.quantum), f));
        let mut best = None;
        for (needed, flow) in old.chain(spent) {
            if needed == 0 {
                return Some(flow);
            }
            if best.is_none_or(|(fewest, _)| needed < fewest) {
                best = Some((needed, flow));
            }
        }
        best.map(|(_, flow)| flow)
    }
}

impl<T: Item + Send + Sync> Queue<T> for FqCoDel<T> {
    fn enqueue(&mut self, item: T, now: Time, drops: &mut Vec<T>) {
        let i = self.hash(item.flow());
        let Some(flow) = self.flows.get_mut(i) else { return };
        self.packets += 1;
        self.bytes += u64::from(item.bytes());
        flow.fifo.push(Stamped { item, arrival: now });
        if !flow.listed {
            flow.listed = true;
            flow.deficit = self.quantum;
            self.new.push_back(i);
        }
        while !self.room.holds(self.packets, self.bytes) {
            self.drop_from_longest(drops);
        }
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<T>) -> Option<T> {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let i = *list.front()?;
            let flow = self.flows.get_mut(i)?;
            if flow.deficit <= 0 {
                flow.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(i);
                continue;
            }
            let (packets, bytes) = (&mut self.packets, &mut self.bytes);
            let fifo = &mut flow.fifo;
            let next = || {
                let packet = fifo.pop()?;
                *packets -= 1;
                *bytes -= u64::from(packet.bytes());
                Some((packet, *bytes))
            };
            if let Some(item) = flow.codel.dequeue(&self.law, now, next, &mut self.marks, drops) {
                flow.deficit -= i64::from(item.bytes());
                return Some(item);
            }
            list.pop_front();
            if from_new && !self.old.is_empty() {
                // An emptied flow passes through the old ones, lest it stays new by sending a packet at a time.
                self.old.push_back(i);
            } else {
                flow.listed = false;
            }
        }
    }

    fn head_bytes(&self) -> Option<u32> {
        self.next_flow()?.fifo.head_bytes()
    }

    #[inline]
    fn len_packets(&self) -> usize {
        self.packets
    }

    #[inline]
    fn len_bytes(&self) -> u64 {
        self.bytes
    }

    fn marks(&self) -> Marks {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Packet, setting};
    use super::super::{Kind, build};
    use super::*;
    use crate::rng::{Purpose, Stream};
    use ccarena_cc::types::Dur;
    use std::collections::BTreeMap;

    fn queue(limit: Limit, given: &[(&str, f64)]) -> FqCoDel<Packet> {
        let given: BTreeMap<&str, f64> = given.iter().copied().collect();
        FqCoDel::new(&QueueSpec::new(Kind::FqCoDel, Some(limit), &given, false).expect("valid"), &setting(0))
    }

    /// Packets of flow 0 are multiples of 3, those of flow 1 one more.
    fn packet(flow: u32, number: u32, bytes: u32) -> Packet {
        Packet::new(3 * number + flow, bytes)
    }

    #[test]
    fn a_sparse_flow_does_not_wait_for_a_heavy_one() {
        let mut queue = queue(Limit::Packets(10_240), &[]);
        let (mut drops, mut sent, mut waits) = (Vec::new(), BTreeMap::new(), Vec::new());
        for t in 0..10_000 {
            let now = Time::ZERO + Dur::from_millis(t);
            let number = 2 * t as u32;
            // Twice what the link carries, and 100 bytes every 20 ms.
            queue.enqueue(packet(0, number, 1500), now, &mut drops);
            queue.enqueue(packet(0, number + 1, 1500), now, &mut drops);
            if t % 20 == 0 {
                let small = packet(1, number, 100);
                sent.insert(small.id, now);
                queue.enqueue(small, now, &mut drops);
            }
            let out = queue.dequeue(now, &mut drops).expect("busy");
            waits.extend(sent.get(&out.id).map(|&since| now.since(since)));
        }
        assert_eq!(waits.len(), 500);
        assert!(waits.iter().all(|&w| w <= Dur::from_millis(1)), "{:?}", waits.iter().max());
        assert!(!drops.is_empty() && drops.iter().all(|p| p.id % 3 == 0));
    }

    #[test]
    fn backlogged_flows_share_bytes_and_not_packets() {
        let mut queue = queue(Limit::Packets(100_000), &[("interval_ms", 100_000.0)]);
        let mut drops = Vec::new();
        for number in 0..6_000 {
            queue.enqueue(packet(0, number, 1500), Time::ZERO, &mut drops);
            queue.enqueue(packet(1, number, 500), Time::ZERO, &mut drops);
        }
        let mut bytes = [0_i64; 3];
        for _ in 0..4_000 {
            let out = queue.dequeue(Time::ZERO, &mut drops).expect("busy");
            bytes[(out.id % 3) as usize] += i64::from(out.bytes);
        }
        assert!((bytes[0] - bytes[1]).abs() <= 2 * 1500, "{bytes:?}");
    }

    #[test]
    fn a_full_queue_drops_from_the_longest() {
        let mut queue = queue(Limit::Packets(200), &[]);
        let mut drops = Vec::new();
        for number in 0..10 {
            queue.enqueue(packet(1, number, 1500), Time::ZERO, &mut drops);
        }
        for number in 0..191 {
            queue.enqueue(packet(0, number, 1500), Time::ZERO, &mut drops);
        }
        // The oldest of flow 0, half of it but at most a batch, and CoDel hears of them.
        assert_eq!(drops.iter().map(|p| p.id).collect::<Vec<_>>(), (0..64).map(|n| 3 * n).collect::<Vec<_>>());
        assert_eq!(queue.len_packets(), 137);
        assert!(queue.flows.iter().any(|f| f.codel != State::default()));
    }

    #[test]
    fn what_is_looked_at_first_is_what_head_bytes_says() {
        let mut stream = Stream::new(3, Purpose::Queue, 0);
        let given = [("quantum_bytes", 300.0), ("flows", 7.0), ("target_ms", 1.0), ("interval_ms", 5.0), ("ecn", 0.0)];
        let mut queue = queue(Limit::Packets(60), &given);
        let (mut now, mut drops, mut seen) = (Time::ZERO, Vec::new(), 0);
        for id in 0..50_000 {
            now = now + Dur::from_micros(stream.below(900));
            if stream.chance(0.52) {
                queue.enqueue(Packet::new(id, 40 + stream.below(3_000) as u32), now, &mut drops);
            } else {
                drops.clear();
                let head = queue.head_bytes();
                let out = queue.dequeue(now, &mut drops);
                assert_eq!(head, drops.first().or(out.as_ref()).map(|p| p.bytes));
                seen += drops.len();
            }
        }
        assert!(seen > 100, "{seen} drops on the way out");
    }

    #[test]
    fn flows_are_hashed_by_the_runs_own_key() {
        let spec = QueueSpec::new(Kind::FqCoDel, None, &BTreeMap::new(), false).expect("valid");
        let hashes = |seed| {
            let setting = Setting { stream: Stream::new(seed, Purpose::Queue, 0), ..setting(0) };
            let queue = FqCoDel::<Packet>::new(&spec, &setting);
            (0..1000).map(|flow| queue.hash(flow)).collect::<Vec<_>>()
        };
        assert_eq!(hashes(1), hashes(1));
        let same = hashes(1).iter().zip(hashes(2)).filter(|(a, b)| *a == b).count();
        assert!(same < 20, "{same}");
    }

    #[test]
    fn a_default_queue_marks() {
        let spec = QueueSpec::new(Kind::FqCoDel, None, &BTreeMap::new(), false).expect("valid");
        let mut queue = build::<Packet>(&spec, &setting(0));
        let (mut drops, mut marks) = (Vec::new(), 0);
        for t in 0..1_000 {
            let now = Time::ZERO + Dur::from_millis(t);
            queue.enqueue(packet(0, 2 * t as u32, 1500), now, &mut drops);
            queue.enqueue(packet(0, 2 * t as u32 + 1, 1500), now, &mut drops);
            marks += u32::from(queue.dequeue(now, &mut drops).is_some_and(|p| p.is_marked()));
        }
        assert!(marks > 3, "{marks}");
    }
}
