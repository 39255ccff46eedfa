//! First-in-first-out queue that marks by a step, as switches in data centres do for DCTCP (Alizadeh et al., SIGCOMM 2010,
//! §3.1; RFC 8257 §3.1): every packet beyond a threshold is marked, no other.
//!
//! A threshold in packets or bytes is that of the queue that an arrival finds, itself included. A threshold in time is that
//! of a departing packet's sojourn time (RFC 9332 §2.4). Packets that take no marks are dropped instead (RFC 3168 §5), as
//! switches do whose step is a RED with equal thresholds.

use ccarena_cc::types::{Dur, Time};

use super::limit::Room;
use super::marks::Marks;
use super::stamped::Stamped;
use super::{Discipline, Infinite, Item, LimitRule, Param, Params, Queue, QueueSpec, Refusal, Setting};

/// Registry entry of this discipline.
pub const DISCIPLINE: Discipline = Discipline {
    name: "step",
    summary: "step marking of data centres, RFC 8257 §3.1: marks all packets beyond a threshold",
    limit: LimitRule::Required,
    params: &[
        Param {
            name: "mark_packets",
            default: 65.0,
            min: 0.0,
            max: 1e9,
            doc: "packets in the queue beyond which arrivals are marked (K; the paper: 65 at 10 Gbit/s, 20 at 1 Gbit/s)",
        },
        Param {
            name: "mark_bytes",
            default: 0.0,
            min: 0.0,
            max: 1e12,
            doc: "the same in IP bytes, instead of mark_packets; 0: not used",
        },
        Param {
            name: "mark_ms",
            default: 0.0,
            min: 0.0,
            max: 10_000.0,
            doc: "sojourn time in ms beyond which departures are marked, instead of mark_packets; 0: not used",
        },
    ],
    check: one_threshold,
    mahimahi: false,
    random: false,
};

fn one_threshold(params: &Params) -> Result<(), Refusal> {
    if params.on("mark_bytes") && params.on("mark_ms") {
        return Err(Refusal { param: "mark_ms", expected: "one threshold, and mark_bytes is another".into() });
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
enum Threshold {
    Packets(usize),
    Bytes(u64),
    Time(Dur),
}

/// A first-in-first-out queue that marks all packets beyond a threshold.
#[derive(Debug)]
pub struct Step<T> {
    fifo: Infinite<Stamped<T>>,
    room: Room,
    threshold: Threshold,
    marks: Marks,
}

impl<T: Item + Send + Sync> Step<T> {
    /// An empty queue as `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        let p = &spec.params;
        let threshold = if p.on("mark_ms") {
            Threshold::Time(p.millis("mark_ms"))
        } else if p.on("mark_bytes") {
            Threshold::Bytes(p.get("mark_bytes").round() as u64)
        } else {
            Threshold::Packets(p.get("mark_packets").round() as usize)
        };
        Self {
            fifo: Infinite::empty(),
            room: Room::new(spec.limit, setting.bdp_bytes),
            threshold,
            marks: Marks::default(),
        }
    }
}

impl<T: Item + Send + Sync> Queue<T> for Step<T> {
    fn enqueue(&mut self, mut item: T, now: Time, drops: &mut Vec<T>) {
        let (packets, bytes) = (self.fifo.len_packets() + 1, self.fifo.len_bytes() + u64::from(item.bytes()));
        let beyond = match self.threshold {
            Threshold::Packets(most) => packets > most,
            Threshold::Bytes(most) => bytes > most,
            Threshold::Time(_) => false,
        };
        if !self.room.holds(packets, bytes) || beyond && !self.marks.mark(&mut item) {
            drops.push(item);
        } else {
            self.fifo.push(Stamped { item, arrival: now });
        }
    }

    fn dequeue(&mut self, now: Time, drops: &mut Vec<T>) -> Option<T> {
        loop {
            let Stamped { mut item, arrival } = self.fifo.pop()?;
            let beyond = matches!(self.threshold, Threshold::Time(most) if now.since(arrival) > most);
            if !beyond || self.marks.mark(&mut item) {
                return Some(item);
            }
            drops.push(item);
        }
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    backlog_of_fifo!();
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Packet, setting};
    use super::super::{Ecn, Kind, Limit};
    use super::*;
    use std::collections::BTreeMap;

    fn queue(given: &[(&str, f64)]) -> Step<Packet> {
        let given: BTreeMap<&str, f64> = given.iter().copied().collect();
        Step::new(&QueueSpec::new(Kind::Step, Some(Limit::Packets(9)), &given, false).expect("valid"), &setting(0))
    }

    fn packet(id: u32, ecn: Ecn) -> Packet {
        Packet { ecn, ..Packet::new(id, 1500) }
    }

    #[test]
    fn arrivals_beyond_the_threshold_are_marked_and_dropped_if_they_cannot_be() {
        for given in [[("mark_packets", 3.0)], [("mark_bytes", 4500.0)]] {
            let (mut queue, mut drops) = (queue(&given), Vec::new());
            for id in 0..12 {
                let ecn = if id == 5 { Ecn::NotEct } else { Ecn::Ect0 };
                queue.enqueue(packet(id, ecn), Time::ZERO, &mut drops);
            }
            // Of 12 packets number 5 takes no marks and the last two do not fit.
            assert_eq!(drops.iter().map(|p| p.id).collect::<Vec<_>>(), [5, 10, 11]);
            let left: Vec<_> = std::iter::from_fn(|| queue.dequeue(Time::ZERO, &mut drops)).collect();
            assert!(left.iter().all(|p| (p.ecn == Ecn::Ce) == (p.id >= 3)), "{left:?}");
            assert_eq!(queue.marks(), Marks { ect0: 6, ect1: 0, refused: 1 });
        }
    }

    #[test]
    fn departures_beyond_a_sojourn_time_are_marked() {
        let (mut queue, mut drops) = (queue(&[("mark_ms", 2.0)]), Vec::new());
        for id in 0..6 {
            queue.enqueue(packet(id, if id == 4 { Ecn::NotEct } else { Ecn::Ect1 }), Time::ZERO, &mut drops);
        }
        let mut at = |ms| queue.dequeue(Time::ZERO + Dur::from_millis(ms), &mut drops).map(|p| (p.id, p.ecn));
        assert_eq!(at(0), Some((0, Ecn::Ect1)));
        assert_eq!(at(2), Some((1, Ecn::Ect1)));
        assert_eq!([at(3), at(4), at(5)], [Some((2, Ecn::Ce)), Some((3, Ecn::Ce)), Some((5, Ecn::Ce))]);
        assert_eq!(drops.iter().map(|p| p.id).collect::<Vec<_>>(), [4]);
        assert_eq!(queue.marks(), Marks { ect0: 0, ect1: 3, refused: 1 });
    }

    #[test]
    fn two_thresholds_are_refused() {
        let given = BTreeMap::from([("mark_bytes", 1500.0), ("mark_ms", 1.0)]);
        let refusal = QueueSpec::new(Kind::Step, Some(Limit::Packets(9)), &given, false).expect_err("two");
        assert_eq!((refusal.param, &*refusal.expected), ("mark_ms", "one threshold, and mark_bytes is another"));
    }
}
