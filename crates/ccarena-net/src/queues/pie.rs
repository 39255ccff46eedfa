//! Queue with PIE, "Proportional Integral controller Enhanced" (RFC 8033), and the enhancements of
//! its §5 that Linux has too (`net/sched/sch_pie.c` with `dq_rate_estimator`).
//!
//! Arrivals are dropped with a probability that a proportional-integral controller moves every
//! `update_ms`. It brings the queueing delay, estimated as backlog over departure rate (§5.2), to
//! the target.
//!
//! Departures:
//!
//! - Updates of the timer are caught up before each packet, with the backlog at that time, which is
//!   what the timer would have seen.
//! - A measurement of the departure rate starts after the packet that starts it, so that no
//!   packet's bytes count without its time. The average is over time per byte, weighted as in §5.2.
//! - PIE is always active (§5.3 is optional).
//! - As in Linux, a delay above 250 ms adds 2 % to the probability.

use ccarena_cc::types::{Dur, Time};

use super::codel::ECN;
use super::limit::{FULL_PACKET_BYTES, Room};
use super::marks::Marks;
use super::{Discipline, Infinite, Item, Limit, LimitRule, Param, Queue, QueueSpec, Setting};
use crate::rng::Stream;

/// Registry entry of this discipline.
pub const DISCIPLINE: Discipline = Discipline {
    name: "pie",
    summary: "Proportional Integral controller Enhanced, RFC 8033: drops arrivals to hold a target delay",
    limit: LimitRule::Default(Limit::Packets(1000)),
    params: &[
        Param {
            name: "target_ms",
            default: 15.0,
            min: 0.01,
            max: 10_000.0,
            doc: "queueing delay in ms to hold (RFC 8033 §4.2, QDELAY_REF)",
        },
        Param {
            name: "update_ms",
            default: 15.0,
            min: 1.0,
            max: 1_000.0,
            doc: "time in ms between updates of the probability (§4.2, T_UPDATE); mahimahi's is always 30",
        },
        Param {
            name: "alpha_hz",
            default: 0.125,
            min: 0.0,
            max: 100.0,
            doc: "gain in 1/s of the delay's distance from the target (§4.2); mahimahi's is always 0.125",
        },
        Param {
            name: "beta_hz",
            default: 1.25,
            min: 0.0,
            max: 100.0,
            doc: "gain in 1/s of the delay's change since the last update (§4.2); mahimahi's is always 1.25",
        },
        Param {
            name: "burst_ms",
            default: 150.0,
            min: 0.0,
            max: 100_000.0,
            doc: "time in ms for which a burst into a calm queue is left alone (§4.4, MAX_BURST)",
        },
        ECN,
    ],
    check: |_| Ok(()),
    mahimahi: true,
    random: true,
};

/// Backlog in bytes from which, and bytes over which, the departure rate is measured (§5.2, DQ_THRESHOLD).
const DQ_THRESHOLD: u64 = 1 << 14;
/// Weight of a new measurement in the average (§5.2: DQ_THRESHOLD / 2^16).
const DQ_WEIGHT: f64 = 0.25;
/// Probability up to which ECN-capable packets are marked (§5.1, mark_ecnth).
const MARK_BELOW: f64 = 0.1;
/// Delay in seconds from which Linux raises the probability by 2 % more.
const LONG_DELAY_S: f64 = 0.25;

/// A first-in-first-out queue that PIE controls.
#[derive(Debug)]
pub struct Pie<T> {
    fifo: Infinite<T>,
    room: Room,
    controller: Controller,
    ecn: bool,
    marks: Marks,
    update: Dur,
    next_update: Time,
    meter: Meter,
    /// Probabilities since the last drop, summed (§5.4).
    accumulated: f64,
    stream: Stream,
}

impl<T: Item + Send + Sync> Pie<T> {
    /// An empty queue as `spec` says.
    #[must_use]
    pub fn new(spec: &QueueSpec, setting: &Setting) -> Self {
        let p = &spec.params;
        let burst_s = p.get("burst_ms") / 1e3;
        Self {
            fifo: Infinite::empty(),
            room: Room::new(spec.limit, setting.bdp_bytes),
            controller: Controller {
                target_s: p.get("target_ms") / 1e3,
                update_s: p.get("update_ms") / 1e3,
                alpha: p.get("alpha_hz"),
                beta: p.get("beta_hz"),
                max_burst_s: burst_s,
                state: State { burst_s, ..State::default() },
            },
            ecn: p.on("ecn"),
            marks: Marks::default(),
            update: p.millis("update_ms"),
            next_update: Time::ZERO + p.millis("update_ms"),
            meter: Meter::default(),
            accumulated: 0.0,
            stream: setting.stream.clone(),
        }
    }

    /// Makes up for the updates between the last packet and `now`.
    #[inline]
    fn catch_up(&mut self, now: Time) {
        while now >= self.next_update {
            self.next_update = self.next_update + self.update;
            let before = self.controller.state;
            self.controller.update(self.fifo.len_bytes() as f64 * self.meter.s_per_byte);
            if self.controller.state == before {
                // So do all further updates leave it: the queue has not changed.
                let missed = now.since(self.next_update).0 / self.update.0;
                self.next_update = self.next_update + self.update * missed;
            }
        }
    }

    /// An arrival is to be dropped or marked (§4.1, §5.4).
    fn drops_early(&mut self) -> bool {
        let State { probability, delay_old_s, burst_s, .. } = self.controller.state;
        let calm = delay_old_s < self.controller.target_s / 2.0 && probability < 0.2;
        if burst_s > 0.0 || calm || self.fifo.len_bytes() <= 2 * FULL_PACKET_BYTES {
            return false;
        }
        self.accumulated = if probability > 0.0 { self.accumulated + probability } else { 0.0 };
        if self.accumulated < 0.85 || (self.accumulated < 8.5 && !self.stream.chance(probability)) {
            return false;
        }
        self.accumulated = 0.0;
        true
    }
}

impl<T: Item + Send + Sync> Queue<T> for Pie<T> {
    fn enqueue(&mut self, mut item: T, now: Time, drops: &mut Vec<T>) {
        self.catch_up(now);
        if !self.room.fits(self.fifo.len_packets(), self.fifo.len_bytes(), item.bytes()) {
            self.accumulated = 0.0;
            drops.push(item);
            return;
        }
        if self.drops_early() {
            let may_mark = self.ecn && self.controller.state.probability <= MARK_BELOW;
            if !(may_mark && self.marks.mark(&mut item)) {
                drops.push(item);
                return;
            }
        }
        self.fifo.push(item);
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Vec<T>) -> Option<T> {
        self.catch_up(now);
        let item = self.fifo.pop()?;
        self.meter.on_departure(item.bytes(), self.fifo.len_bytes(), now);
        Some(item)
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    backlog_of_fifo!();
}

/// Moves the probability (§4.2).
#[derive(Clone, Debug)]
struct Controller {
    target_s: f64,
    update_s: f64,
    alpha: f64,
    beta: f64,
    max_burst_s: f64,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct State {
    probability: f64,
    delay_s: f64,
    delay_old_s: f64,
    burst_s: f64,
}

impl Controller {
    fn update(&mut self, delay_s: f64) {
        let s = &mut self.state;
        (s.delay_old_s, s.delay_s) = (s.delay_s, delay_s);
        let error = self.alpha * (delay_s - self.target_s) + self.beta * (delay_s - s.delay_old_s);
        let mut step = error * tuning(s.probability);
        if s.probability >= 0.1 {
            // §5.5.
            step = step.min(0.02);
        }
        if delay_s > LONG_DELAY_S {
            step += 0.02;
        }
        s.probability += step;
        if delay_s <= 0.0 && s.delay_old_s <= 0.0 {
            s.probability *= 0.98;
        }
        s.probability = s.probability.clamp(0.0, 1.0);
        let calm = delay_s < self.target_s / 2.0 && s.delay_old_s < self.target_s / 2.0;
        // §4.4.
        s.burst_s =
            if s.probability <= 0.0 && calm { self.max_burst_s } else { (s.burst_s - self.update_s).max(0.0) };
    }
}

/// Factor on both gains, so that small probabilities move in small steps (§4.2).
fn tuning(probability: f64) -> f64 {
    const STEPS: [(f64, f64); 6] =
        [(1e-6, 2048.0), (1e-5, 512.0), (1e-4, 128.0), (1e-3, 32.0), (1e-2, 8.0), (1e-1, 2.0)];
    STEPS.iter().find(|(below, _)| probability < *below).map_or(1.0, |(_, divisor)| 1.0 / divisor)
}

/// Measures the departure rate while enough waits for a busy link (§5.2).
#[derive(Clone, Debug, Default)]
struct Meter {
    /// Start of the measurement and bytes since; none while too little waits.
    cycle: Option<(Time, u64)>,
    /// Average; zero before the first measurement.
    s_per_byte: f64,
}

impl Meter {
    #[inline]
    fn on_departure(&mut self, bytes: u32, backlog: u64, now: Time) {
        let restart = || (backlog >= DQ_THRESHOLD).then_some((now, 0));
        let Some((start, count)) = &mut self.cycle else {
            self.cycle = restart();
            return;
        };
        *count += u64::from(bytes);
        let elapsed = now.since(*start);
        if *count < DQ_THRESHOLD || elapsed == Dur::ZERO {
            return;
        }
        let sample = elapsed.as_secs_f64() / *count as f64;
        let weight = if self.s_per_byte > 0.0 { DQ_WEIGHT } else { 1.0 };
        self.s_per_byte += weight * (sample - self.s_per_byte);
        self.cycle = restart();
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
        build(&QueueSpec::new(Kind::Pie, limit, &given, false).expect("valid"), &setting(0))
    }

    /// Outcome of an open-loop source of `per_s` packets of 1500 bytes per second on a link of one
    /// per ms.
    #[derive(Default)]
    struct Outcome {
        /// Queueing delay in ms, each ms.
        delays: Vec<f64>,
        first_drop_ms: Option<u64>,
        dropped: u32,
        marked: u32,
    }

    fn run(queue: &mut dyn Queue<Packet>, per_s: u64, ms: u64) -> Outcome {
        let (mut sent, mut drops, mut outcome) = (0, Vec::new(), Outcome::default());
        for t in 0..ms {
            let now = Time::ZERO + Dur::from_millis(t);
            while u64::from(sent) * 1_000 < t * per_s {
                queue.enqueue(Packet::new(sent, 1500), now, &mut drops);
                sent += 1;
            }
            if !drops.is_empty() {
                outcome.first_drop_ms.get_or_insert(t);
            }
            outcome.dropped += drops.drain(..).len() as u32;
            outcome.delays.push(queue.len_packets() as f64);
            outcome.marked += u32::from(queue.dequeue(now, &mut drops).is_some_and(|p| p.is_marked()));
        }
        outcome
    }

    #[test]
    fn an_open_loop_overload_comes_to_the_target() {
        for (target, per_s) in [(15.0, 1_050), (15.0, 1_500), (40.0, 1_200)] {
            let outcome = run(&mut queue(&[("target_ms", target)]), per_s, 60_000);
            let late = &outcome.delays[30_000..];
            let mean = late.iter().sum::<f64>() / late.len() as f64;
            assert!((mean / target - 1.0).abs() < 0.1, "{mean} ms at {per_s}/s");
            // In the long run what is too much is dropped, no more and no less.
            let excess = (per_s - 1_000) as f64 * 60.0;
            assert!((f64::from(outcome.dropped) / excess - 1.0).abs() < 0.05, "{} of {excess}", outcome.dropped);
        }
    }

    #[test]
    fn a_burst_into_a_calm_queue_is_allowed() {
        let first = |burst_ms| run(&mut queue(&[("burst_ms", burst_ms)]), 3_000, 2_000).first_drop_ms.expect("drops");
        let (without, with) = (first(0.0), first(150.0));
        // Probability has to build up in any case. The allowance lasts from the update after the delay passes 7.5 ms, half
        // the target, which takes a few ms.
        assert!((50..150).contains(&without), "{without}");
        assert!((150..200).contains(&with), "{with}");
        assert!(first(1_000.0) > 1_000);
    }

    #[test]
    fn small_probabilities_move_in_small_steps() {
        let controller = |probability| Controller {
            target_s: 0.015,
            update_s: 0.015,
            alpha: 0.125,
            beta: 1.25,
            max_burst_s: 0.15,
            state: State { probability, delay_s: 0.03, ..State::default() },
        };
        // α·15 ms, no change: 0.001875.
        for (probability, divisor) in
            [(0.0, 2048.0), (5e-6, 512.0), (5e-5, 128.0), (5e-4, 32.0), (5e-3, 8.0), (0.05, 2.0), (0.3, 1.0)]
        {
            let mut c = controller(probability);
            c.update(0.03);
            assert!((c.state.probability - probability - 0.001_875 / divisor).abs() < 1e-12, "{probability}");
        }
        // β·(1 - 0.03) s would be far more than what §5.5 allows, and Linux adds as much for a delay beyond 250 ms.
        let mut c = controller(0.3);
        c.update(0.249);
        assert!((c.state.probability - 0.32).abs() < 1e-12);
        c.update(1.0);
        assert!((c.state.probability - 0.36).abs() < 1e-12);
        // Two updates without delay: exponential decay.
        let mut c = controller(0.3);
        c.state.delay_s = 0.0;
        c.update(0.0);
        assert!((c.state.probability - 0.98 * (0.3 - 0.125 * 0.015)).abs() < 1e-12);
    }

    #[test]
    fn the_departure_rate_is_measured_without_bias() {
        let mut meter = Meter::default();
        for ms in 0..200 {
            let backlog = if ms < 150 { 100_000 } else { 3_000 };
            meter.on_departure(1500, backlog, Time::ZERO + Dur::from_millis(ms));
        }
        assert!((meter.s_per_byte * 1.5e6 - 1.0).abs() < 1e-9);
        // While too little waits the last figure stays, however slow the source; then a quarter of the new one counts.
        for s in 1..100 {
            meter.on_departure(1500, 3_000, Time::ZERO + Dur::from_millis(1_000 * s));
        }
        assert!((meter.s_per_byte * 1.5e6 - 1.0).abs() < 1e-9);
        for ms in 0..12 {
            meter.on_departure(1500, 20_000, Time::from_secs_f64(100.0) + Dur::from_millis(2 * ms));
        }
        assert!((meter.s_per_byte * 1.5e6 - 1.25).abs() < 1e-9);
    }

    #[test]
    fn ecn_capable_packets_are_marked_up_to_ten_percent() {
        let light = run(&mut queue(&[("ecn", 1.0)]), 1_050, 30_000);
        assert!(light.marked > 100, "{}", light.marked);
        // Five times too much takes a probability of 80 %, at which nothing is marked any more.
        let heavy = run(&mut queue(&[("ecn", 1.0)]), 5_000, 20_000);
        assert!(f64::from(heavy.marked) < 0.02 * f64::from(heavy.dropped), "{} of {}", heavy.marked, heavy.dropped);
    }

    #[test]
    fn updates_missed_while_idle_are_made_up_for() {
        let mut queue = queue(&[]);
        run(&mut queue, 1_500, 10_000);
        let mut drops = Vec::new();
        while queue.dequeue(Time::from_secs_f64(10.0), &mut drops).is_some() {}
        // A year later the probability is gone and a burst is allowed again.
        for id in 0..100 {
            queue.enqueue(Packet::new(id, 1500), Time::from_secs_f64(3.2e7), &mut drops);
        }
        assert!(drops.is_empty());
    }
}
