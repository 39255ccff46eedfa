//! RED, Random Early Detection (Floyd and Jacobson, "Random early detection gateways for congestion avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993), with thresholds in bytes.
//!
//! Every arrival updates an exponentially weighted average of the queue's length, and is dropped or marked with a
//! probability that grows with the average between the two thresholds. `gentle` (Floyd, "Recommendation on using the
//! gentle variant of RED", 2000): from the upper threshold to twice it the probability grows on from `max_p` to 1
//! instead of jumping there.
//!
//! Departures. The probability does not depend on the packet's size (RFC 7141 §2.2). Beyond the region in which the
//! probability grows packets are dropped even if they may be marked (RFC 3168 §7). What the queue could have sent while
//! it was empty counts in packets of 1500 bytes at the link's mean rate, which need not be whole.

use ccarena_cc::elementary;
use ccarena_cc::types::Time;

use super::codel::ECN;
use super::limit::{FULL_PACKET_BYTES, Room};
use super::marks::Marks;
use super::{Discipline, Infinite, Item, Limit, LimitRule, Param, Params, Queue, QueueSpec, Refusal, Setting};
use crate::rng::Stream;

/// Registry entry of this discipline.
pub const DISCIPLINE: Discipline = Discipline {
    name: "red",
    summary: "Random Early Detection, Floyd and Jacobson 1993: drops arrivals by the average length of the queue",
    limit: LimitRule::Default(Limit::Bytes(100_000_000)),
    params: &[
        Param {
            name: "min_bytes",
            default: 7_500.0,
            min: 0.0,
            max: 1e11,
            doc: "average length in bytes up to which nothing is dropped (min_th; Floyd 1997: 5 packets)",
        },
        Param {
            name: "max_bytes",
            default: 22_500.0,
            min: 1.0,
            max: 1e11,
            doc: "average length in bytes at which the probability reaches max_p (max_th; Floyd 1997: 3 min_th)",
        },
        Param { name: "max_p", default: 0.1, min: 1e-6, max: 1.0, doc: "probability at max_bytes" },
        Param {
            name: "weight",
            default: 0.002,
            min: 1e-6,
            max: 1.0,
            doc: "weight of the present length in the average (w_q)",
        },
        Param {
            name: "gentle",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            doc: "the probability grows from max_p to 1 between max_bytes and twice that, instead of jumping there",
        },
        ECN,
    ],
    check: thresholds_in_order,
    mahimahi: false,
    random: true,
};

fn thresholds_in_order(params: &Params) -> Result<(), Refusal> {
    let min = params.get("min_bytes");
    if params.get("max_bytes") > min {
        return Ok(());
    }
    Err(Refusal { param: "max_bytes", expected: format!("more than min_bytes, which is {min}") })
}

/// A first-in-first-out queue that RED controls.
#[derive(Debug)]
pub struct Red<T> {
    fifo: Infinite<T>,
    room: Room,
    curve: Curve,
    ecn: bool,
    marks: Marks,
    weight: f64,
    /// Average length in bytes.
    average: f64,
    /// Time since which the queue is empty, if it is.
    idle_since: Option<Time>,
    /// Time that a full-size packet takes, in seconds.
    packet_s: f64,
    /// Arrivals since the last drop or mark in the region where they are random; none outside.
    count: Option<u32>,
    stream: Stream,
}

impl<T: Item + Send + Sync> Red<T> {
    /// An empty queue as `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        let p = &spec.params;
        Self {
            fifo: Infinite::empty(),
            room: Room::new(spec.limit, setting.bdp_bytes),
            curve: Curve {
                min: p.get("min_bytes"),
                max: p.get("max_bytes"),
                max_p: p.get("max_p"),
                gentle: p.on("gentle"),
            },
            ecn: p.on("ecn"),
            marks: Marks::default(),
            weight: p.get("weight"),
            average: 0.0,
            idle_since: Some(Time::ZERO),
            packet_s: setting.rate.time_for(FULL_PACKET_BYTES).as_secs_f64(),
            count: None,
            stream: setting.stream.clone(),
        }
    }

    /// The average with the length as an arrival finds it (§4 of the paper; the idle time, §11).
    #[inline]
    fn update_average(&mut self, now: Time) {
        match self.idle_since {
            None => self.average += self.weight * (self.fifo.len_bytes() as f64 - self.average),
            Some(since) => {
                let packets = now.since(since).as_secs_f64() / self.packet_s;
                self.average *= elementary::powf(1.0 - self.weight, packets);
                // What has been counted is not counted again if this arrival is dropped.
                self.idle_since = Some(now);
            }
        }
    }

    /// Returns whether an arrival is dropped or marked, with probability p / (1 - count·p). This
    /// makes the gaps between drops uniform instead of geometric (§7, method 2). As in Fig. 2,
    /// `count` includes the arrival, so that gaps after a drop are 1 to 1/p - 1; §7's text, which
    /// does not count it, has 1 to 1/p.
    #[inline]
    fn chosen(&mut self, p: f64) -> bool {
        let count = self.count.map_or(0, |c| c.saturating_add(1));
        self.count = Some(count);
        let odds = 1.0 - f64::from(count) * p;
        let chosen = odds <= p || self.stream.chance(p / odds);
        if chosen {
            self.count = Some(0);
        }
        chosen
    }
}

impl<T: Item + Send + Sync> Queue<T> for Red<T> {
    fn enqueue(&mut self, mut item: T, now: Time, drops: &mut Vec<T>) {
        self.update_average(now);
        let fits = self.room.fits(self.fifo.len_packets(), self.fifo.len_bytes(), item.bytes());
        let accepted = match self.curve.at(self.average) {
            Fate::Pass => {
                self.count = None;
                true
            }
            Fate::Random(p) if self.chosen(p) => self.ecn && fits && self.marks.mark(&mut item),
            Fate::Random(_) => true,
            Fate::Drop => {
                self.count = None;
                false
            }
        };
        if accepted && fits {
            self.idle_since = None;
            self.fifo.push(item);
        } else {
            drops.push(item);
        }
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<T>) -> Option<T> {
        let item = self.fifo.pop();
        if item.is_some() && self.fifo.len_packets() == 0 {
            self.idle_since = Some(now);
        }
        item
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    backlog_of_fifo!();
}

/// Probability over average length.
#[derive(Clone, Debug)]
struct Curve {
    min: f64,
    max: f64,
    max_p: f64,
    gentle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Pass,
    Random(f64),
    Drop,
}

impl Curve {
    #[inline]
    fn at(&self, average: f64) -> Fate {
        if average < self.min {
            Fate::Pass
        } else if average < self.max {
            Fate::Random(self.max_p * (average - self.min) / (self.max - self.min))
        } else if self.gentle && average < 2.0 * self.max {
            Fate::Random(self.max_p + (1.0 - self.max_p) * (average - self.max) / self.max)
        } else {
            Fate::Drop
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Packet, setting};
    use super::super::{Kind, build};
    use super::*;
    use ccarena_cc::types::Dur;
    use std::collections::BTreeMap;

    fn spec(given: &[(&str, f64)]) -> Result<QueueSpec, Refusal> {
        QueueSpec::new(Kind::Red, None, &given.iter().copied().collect::<BTreeMap<_, _>>(), false)
    }

    fn red(given: &[(&str, f64)]) -> Red<Packet> {
        Red::new(&spec(given).expect("valid"), &setting(0))
    }

    fn curve(gentle: bool) -> Curve {
        Curve { min: 1e6, max: 5e6, max_p: 0.1, gentle }
    }

    #[test]
    fn the_curve_is_the_papers_and_gentle_goes_on() {
        let close = |average, expected: f64| match curve(true).at(average) {
            Fate::Random(p) => assert!((p - expected).abs() < 1e-12, "{p} at {average}"),
            other => panic!("{other:?} at {average}"),
        };
        close(1e6, 0.0);
        close(3e6, 0.05);
        close(5e6, 0.1);
        close(7.5e6, 0.55);
        close(9.999_999_999_999e6, 1.0 - 1.8e-13);
        assert_eq!(curve(true).at(999_999.0), Fate::Pass);
        assert_eq!(curve(true).at(1e7), Fate::Drop);
        assert_eq!(curve(false).at(4e6), Fate::Random(0.075));
        assert_eq!(curve(false).at(5e6), Fate::Drop);
    }

    #[test]
    fn the_average_is_exponentially_weighted_and_decays_while_idle() {
        let mut red = red(&[("weight", 0.1), ("min_bytes", 1e6), ("max_bytes", 2e6)]);
        let mut drops = Vec::new();
        let mut expected = 0.0;
        for id in 0..20 {
            red.enqueue(Packet::new(id, 1000), Time::ZERO, &mut drops);
            // Each arrival finds `id` packets; the first ends an idle time of nothing.
            expected += if id == 0 { 0.0 } else { 0.1 * (1e3 * f64::from(id) - expected) };
            assert!((red.average - expected).abs() < 1e-9);
        }
        let empty = Time::ZERO + Dur::from_millis(3);
        while red.dequeue(empty, &mut drops).is_some() {}
        // 10 ms later: as if 10 packets of 1500 bytes, 1 ms each, had found the queue empty.
        red.enqueue(Packet::new(20, 1000), empty + Dur::from_millis(10), &mut drops);
        assert!((red.average - expected * 0.9_f64.powi(10)).abs() < 1e-9);
    }

    /// Gaps between drops at a steady average where the probability is `p`.
    fn gaps(p: f64, arrivals: u32) -> Vec<u32> {
        let mut red = red(&[]);
        let mut gaps = Vec::new();
        let mut gap = 0;
        for _ in 0..arrivals {
            gap += 1;
            if red.chosen(p) {
                gaps.push(gap);
                gap = 0;
            }
        }
        gaps
    }

    #[test]
    fn gaps_between_drops_are_uniform() {
        // Uniform on 1 to 1/p - 1, so that their mean is 1/(2p), and none is longer.
        let gaps = gaps(0.05, 400_000);
        let mean = gaps[1..].iter().sum::<u32>() as f64 / (gaps.len() - 1) as f64;
        assert!((mean - 10.0).abs() < 0.1, "{mean}");
        assert!(gaps[1..].iter().all(|&g| g < 20));
        for length in 1..20 {
            let share = gaps.iter().filter(|&&g| g == length).count() as f64 / gaps.len() as f64;
            assert!((share - 1.0 / 19.0).abs() < 0.004, "{share} of gaps are {length}");
        }
    }

    #[test]
    fn an_overload_is_held_between_the_thresholds() {
        let given = [("min_bytes", 15_000.0), ("max_bytes", 150_000.0), ("max_p", 0.2)];
        let run = |extra: &[(&str, f64)]| {
            let spec = spec(&[&given[..], extra].concat()).expect("valid");
            let mut queue = build::<Packet>(&spec, &setting(0));
            let (mut drops, mut marked, mut lengths) = (Vec::new(), 0, Vec::new());
            for t in 0..20_000 {
                let now = Time::ZERO + Dur::from_millis(t);
                // 10 % too much.
                for k in 0..1 + u32::from(t % 10 == 0) {
                    queue.enqueue(Packet::new(3 * t as u32 + k, 1500), now, &mut drops);
                }
                marked += u32::from(queue.dequeue(now, &mut drops).is_some_and(|p| p.is_marked()));
                lengths.push(queue.len_bytes() as f64);
            }
            (drops.len() as f64, marked, lengths[10_000..].iter().sum::<f64>() / 1e4)
        };
        let (dropped, marked, length) = run(&[]);
        assert!((15_000.0..150_000.0).contains(&length), "{length}");
        assert!(marked == 0 && (dropped / 2_000.0 - 1.0).abs() < 0.1, "{dropped}");
        let (dropped, marked, length) = run(&[("ecn", 1.0)]);
        assert!(marked > 500 && dropped > 500.0 && length > 15_000.0, "{marked} marked, {dropped} dropped, {length}");
    }

    #[test]
    fn thresholds_out_of_order_are_refused() {
        let refusal = spec(&[("min_bytes", 22_500.0)]).expect_err("not above");
        assert_eq!((refusal.param, &*refusal.expected), ("max_bytes", "more than min_bytes, which is 22500"));
        assert!(spec(&[("min_bytes", 1e6), ("max_bytes", 5e6)]).is_ok());
    }
}
