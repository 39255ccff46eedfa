//! ACCT's router: it advertises to each flow its share of the link.
//!
//! Flows that sent a packet in the last idle period count as active, whether or not they speak ACCT; each is offered
//! capacity / active. The router overwrites the rate in a packet if its offer is smaller.
//!
//! The paper's router knows its capacity at any time. Others measure it now and then, are late, wrong or silent, or write
//! few bits: the parameters from `every_ms` on ([`Imperfect`]).

use std::collections::VecDeque;

use ccarena_cc::types::{Dur, Rate, Time};

use super::{Description, Header, Param, Params, Router, Sight};
use crate::rng::Stream;

/// Registry entry.
pub const ROUTER: Description = Description {
    name: "acct",
    summary: "ACCT's router: offers each flow that sent lately its equal share of the capacity",
    params: &[
        Param {
            name: "idle_ms",
            default: 250.0,
            min: 1.0,
            max: 1e6,
            doc: "flows silent for so many ms do not count",
        },
        Param { name: "headroom", default: 1.0, min: 0.01, max: 10.0, doc: "share of the capacity that is offered" },
        Param { name: "every_ms", default: 0.0, min: 0.0, max: 1e6, doc: "time between two measurements in ms" },
        Param { name: "late_ms", default: 0.0, min: 0.0, max: 1e6, doc: "age in ms at which a measurement is offered" },
        Param { name: "noise", default: 0.0, min: 0.0, max: 0.99, doc: "largest relative error, uniform either way" },
        Param { name: "bits", default: 0.0, min: 0.0, max: 64.0, doc: "significant bits that are written; 0 is all" },
        Param { name: "missing", default: 0.0, min: 0.0, max: 1.0, doc: "share of measurements that are not offered" },
    ],
    on_the_wire: true,
};

/// Time after its last packet for which a flow counts, if the scenario does not set it.
pub const DEFAULT_IDLE: Dur = Dur::from_millis(250);

const NONE: u32 = u32::MAX;

/// Links a flow into the list of active flows, which is ordered by last packet.
#[derive(Clone, Copy, Debug)]
struct Node {
    last: Time,
    older: u32,
    newer: u32,
    active: bool,
}

/// Counts active flows and divides a link's capacity among them.
///
/// Flows are dense indices (memory grows with the largest seen). Counting is exact: a list in order of last packets
/// costs O(1) per packet and lets idle flows fall off its old end.
#[derive(Clone, Debug)]
pub struct AcctRouter {
    idle: Dur,
    headroom: f64,
    flows: Vec<Node>,
    oldest: u32,
    newest: u32,
    active: u32,
    /// Capacity, number of flows and offer of the last answer: a division per packet is worth saving.
    cached: (Rate, u32, Rate),
    imperfect: Option<Imperfect>,
}

/// Parts of `late_ms` in which at most one measurement is made, so that few wait.
const MEASUREMENTS_WAITING: u64 = 64;

/// A router's knowledge of its capacity, measured with packets that leave.
#[derive(Clone, Debug)]
struct Imperfect {
    every: Dur,
    late: Dur,
    noise: f64,
    bits: u32,
    missing: f64,
    stream: Stream,
    /// Time of the next measurement.
    due: Time,
    /// Measurements with the time from which on they are offered, oldest first; none is one that is missing.
    waiting: VecDeque<(Time, Option<Rate>)>,
    offered: Option<Rate>,
}

impl Imperfect {
    /// The imperfections in `params`; none if the router is perfect.
    fn of(params: &Params) -> Option<Self> {
        let late = params.millis("late_ms");
        let given = |name| params.on(name);
        ["every_ms", "late_ms", "noise", "bits", "missing"].into_iter().any(given).then(|| Self {
            every: params.millis("every_ms").max(Dur(late.0 / MEASUREMENTS_WAITING)),
            late,
            noise: params.get("noise"),
            bits: params.get("bits") as u32,
            missing: params.get("missing"),
            stream: Stream::keyed(0),
            due: Time::ZERO,
            waiting: VecDeque::new(),
            offered: None,
        })
    }

    /// Returns whether a measurement is due at `now`.
    fn measures(&self, now: Time) -> bool {
        now >= self.due
    }

    /// The true offer at `now` is `rate`.
    fn measured(&mut self, rate: Rate, now: Time) {
        self.due = now + self.every;
        let (error, missing) = (self.stream.uniform(-self.noise, self.noise), self.stream.next_f64() < self.missing);
        let seen = (rate.0 as f64 * (1.0 + error)) as u64;
        self.waiting.push_back((now + self.late, (!missing).then(|| Rate(significant(seen, self.bits)))));
    }

    /// Returns the rate to write into packets at `now`; none leaves them as they are.
    fn offer(&mut self, now: Time) -> Option<Rate> {
        while let Some(&(from, rate)) = self.waiting.front() {
            if from > now {
                break;
            }
            self.offered = rate;
            self.waiting.pop_front();
        }
        self.offered
    }
}

/// `x` rounded down to `bits` significant bits; 0 is all of them.
const fn significant(x: u64, bits: u32) -> u64 {
    let used = u64::BITS - x.leading_zeros();
    if bits == 0 || used <= bits { x } else { x >> (used - bits) << (used - bits) }
}

impl AcctRouter {
    /// A router that counts a flow for `idle` after its last packet and offers `headroom` (1 is all) of the capacity.
    #[must_use]
    pub fn new(idle: Dur, headroom: f64) -> Self {
        Self { idle, headroom, flows: Vec::new(), oldest: NONE, newest: NONE, active: 0, cached: Default::default(), imperfect: None }
    }

    /// A packet of `flow` came by at `now`; times do not go back.
    #[inline]
    pub fn on_packet(&mut self, flow: u32, now: Time) {
        if flow == self.newest && flow != NONE {
            self.flows[flow as usize].last = now;
            return;
        }
        self.touch(flow, now);
    }

    /// Flows that sent a packet in the last idle period, its start included.
    #[inline]
    pub fn active(&mut self, now: Time) -> u32 {
        while self.oldest != NONE && now.since(self.flows[self.oldest as usize].last) > self.idle {
            self.unlink(self.oldest);
        }
        self.active
    }

    /// Returns the offer of `capacity` to each active flow; all of it while none is active.
    #[inline]
    pub fn offer(&mut self, capacity: Rate, now: Time) -> Rate {
        let active = self.active(now).max(1);
        if (capacity, active) != (self.cached.0, self.cached.1) {
            let share = capacity.0 as f64 * self.headroom / f64::from(active);
            self.cached = (capacity, active, Rate(share as u64));
        }
        self.cached.2
    }

    pub(super) fn of(params: &Params) -> Self {
        Self { imperfect: Imperfect::of(params), ..Self::new(params.millis("idle_ms"), params.get("headroom")) }
    }

    fn touch(&mut self, flow: u32, now: Time) {
        let at = flow as usize;
        if at >= self.flows.len() {
            self.flows.resize(at + 1, Node { last: Time::ZERO, older: NONE, newer: NONE, active: false });
        }
        if self.flows[at].active {
            self.unlink(flow);
        }
        self.flows[at] = Node { last: now, older: self.newest, newer: NONE, active: true };
        match self.newest {
            NONE => self.oldest = flow,
            newest => self.flows[newest as usize].newer = flow,
        }
        self.newest = flow;
        self.active += 1;
    }

    fn unlink(&mut self, flow: u32) {
        let Node { older, newer, .. } = self.flows[flow as usize];
        match older {
            NONE => self.oldest = newer,
            o => self.flows[o as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            n => self.flows[n as usize].older = older,
        }
        self.flows[flow as usize].active = false;
        self.active -= 1;
    }
}

impl Router for AcctRouter {
    #[inline]
    fn on_arrival(&mut self, packet: &Header<'_>, now: Time, _backlog_bytes: u64) {
        self.on_packet(packet.flow, now);
    }

    #[inline]
    fn on_departure(&mut self, packet: &mut Header<'_>, sight: &mut Sight<'_>) {
        let now = sight.now;
        let offer = match &self.imperfect {
            None => Some(self.offer(sight.service.rate(now), now)),
            Some(imperfect) => {
                let seen = imperfect.measures(now).then(|| sight.service.rate(now)).map(|rate| self.offer(rate, now));
                self.imperfect.as_mut().and_then(|imperfect| {
                    if let Some(rate) = seen {
                        imperfect.measured(rate, now);
                    }
                    imperfect.offer(now)
                })
            }
        };
        if let Some(rate) = offer {
            packet.offer(rate.max(Rate(1)));
        }
    }

    fn draws_from(&mut self, stream: Stream) {
        if let Some(imperfect) = &mut self.imperfect {
            imperfect.stream = stream;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn capacity_is_shared_among_the_active() {
        let mut router = AcctRouter::new(DEFAULT_IDLE, 1.0);
        let capacity = Rate::from_mbps(60.0);
        assert_eq!(router.offer(capacity, Time::ZERO), capacity, "nobody to share with");
        let ms = |t| Time::ZERO + Dur::from_millis(t);
        router.on_packet(0, ms(0));
        router.on_packet(4, ms(100));
        router.on_packet(2, ms(200));
        assert_eq!(router.offer(capacity, ms(250)), Rate::from_mbps(20.0));
        assert_eq!(router.offer(capacity, ms(251)), Rate::from_mbps(30.0), "flow 0 has been silent for over 250 ms");
        assert_eq!(router.offer(Rate::from_mbps(10.0), ms(251)), Rate::from_mbps(5.0));
        assert_eq!(router.active(ms(9_000)), 0);
        assert_eq!(AcctRouter::new(DEFAULT_IDLE, 0.9).offer(capacity, ms(0)), Rate::from_mbps(54.0));
    }

    fn imperfect(given: &[(&'static str, f64)]) -> Imperfect {
        let params = Params::new(ROUTER.params, &given.iter().copied().collect());
        Imperfect::of(&params).expect("a parameter is given")
    }

    #[test]
    fn a_measurement_is_offered_late_and_until_the_next() {
        let mut router = imperfect(&[("every_ms", 100.0), ("late_ms", 30.0)]);
        let ms = |t| Time::ZERO + Dur::from_millis(t);
        router.measured(Rate(1000), ms(0));
        assert_eq!((router.offer(ms(29)), router.offer(ms(30)), router.measures(ms(99))), (None, Some(Rate(1000)), false));
        assert!(router.measures(ms(100)));
        router.measured(Rate(2000), ms(100));
        assert_eq!((router.offer(ms(129)), router.offer(ms(130))), (Some(Rate(1000)), Some(Rate(2000))));
    }

    #[test]
    fn few_measurements_wait_however_late() {
        let mut router = imperfect(&[("late_ms", 1000.0)]);
        for us in 0..5_000_000_u64 {
            let now = Time::ZERO + Dur(us * 1000);
            if router.measures(now) {
                router.measured(Rate(us), now);
            }
            router.offer(now);
            assert!(router.waiting.len() <= MEASUREMENTS_WAITING as usize + 1);
        }
    }

    #[test]
    fn without_parameters_the_router_is_perfect() {
        assert!(Imperfect::of(&Params::new(ROUTER.params, &std::collections::BTreeMap::new())).is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_near_the_capacity_or_missing(
            rate in 1_000_u64..1 << 40, noise in 0.0_f64..0.9, bits in 0_u32..8, missing in 0.0_f64..1.0,
        ) {
            let given = [("every_ms", 1.0), ("noise", noise), ("bits", f64::from(bits)), ("missing", missing)];
            let mut router = imperfect(&given);
            let mut silent = 0;
            for ms in 0..400 {
                let now = Time::ZERO + Dur::from_millis(ms);
                router.measured(Rate(rate), now);
                let Some(Rate(seen)) = router.offer(now) else { silent += 1; continue };
                let coarse = if bits == 0 { 0.0 } else { 0.5_f64.powi(bits as i32 - 1) };
                let (low, high) = ((1.0 - noise) * (1.0 - coarse) - 1e-3, 1.0 + noise + 1e-3);
                let share = seen as f64 / rate as f64;
                prop_assert!((low..=high).contains(&share), "{} of the rate", share);
                prop_assert!(bits == 0 || seen.count_ones() <= bits);
            }
            prop_assert!((f64::from(silent) / 400.0 - missing).abs() < 0.15);
        }

        #[test]
        fn the_count_equals_a_naive_one(
            idle in 0_u64..50,
            steps in prop::collection::vec((0_u64..20, prop::option::of(0_u32..12)), 0..300),
        ) {
            let mut router = AcctRouter::new(Dur(idle), 1.0);
            let mut last = [None; 12];
            let mut now = Time::ZERO;
            for (wait, flow) in steps {
                now = now + Dur(wait);
                if let Some(flow) = flow {
                    router.on_packet(flow, now);
                    last[flow as usize] = Some(now);
                }
                let naive = last.iter().flatten().filter(|&&t| now.since(t) <= Dur(idle)).count();
                prop_assert_eq!(router.active(now) as usize, naive);
            }
        }
    }
}
