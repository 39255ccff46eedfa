//! ACCT's network agent: a router that tells each flow its share of the link.
//!
//! Flows that sent a packet in the last idle period count as active, whether or not they speak ACCT; each is offered
//! capacity / active. The router overwrites the rate in a packet if its offer is smaller.

use ccarena_cc::types::{Dur, Rate, Time};

use super::{Description, Param, Params, Router, Sight};
use crate::link::Carried;

/// Registry entry.
pub const ROUTER: Description = Description {
    name: "acct",
    summary: "ACCT's network agent: offers each flow that was heard of late its equal share of the capacity",
    params: &[
        Param {
            name: "idle_ms",
            default: 250.0,
            min: 1.0,
            max: 1e6,
            doc: "flows silent for so many ms do not count",
        },
        Param { name: "headroom", default: 1.0, min: 0.01, max: 10.0, doc: "share of the capacity that is offered" },
    ],
    on_the_wire: true,
};

/// How long a flow counts after its last packet, if the scenario does not say.
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
pub struct NetworkAgent {
    idle: Dur,
    headroom: f64,
    flows: Vec<Node>,
    oldest: u32,
    newest: u32,
    active: u32,
    /// Capacity, number of flows and offer of the last answer: a division per packet is worth saving.
    cached: (Rate, u32, Rate),
}

impl NetworkAgent {
    /// A network agent that counts a flow for `idle` after its last packet and offers `headroom` (1 is all) of the capacity.
    #[must_use]
    pub fn new(idle: Dur, headroom: f64) -> Self {
        Self { idle, headroom, flows: Vec::new(), oldest: NONE, newest: NONE, active: 0, cached: Default::default() }
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

    /// What each active flow is offered of `capacity`; all of it while none is active.
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
        Self::new(params.millis("idle_ms"), params.get("headroom"))
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

impl Router for NetworkAgent {
    #[inline]
    fn on_arrival(&mut self, packet: &dyn Carried, now: Time, _backlog_bytes: u64) {
        self.on_packet(packet.flow_number(), now);
    }

    #[inline]
    fn on_departure(&mut self, packet: &mut dyn Carried, sight: &mut Sight<'_>) {
        let offer = self.offer(sight.service.rate(sight.now), sight.now);
        packet.offer(offer.max(Rate(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn capacity_is_shared_among_the_active() {
        let mut agent = NetworkAgent::new(DEFAULT_IDLE, 1.0);
        let capacity = Rate::from_mbps(60.0);
        assert_eq!(agent.offer(capacity, Time::ZERO), capacity, "nobody to share with");
        let ms = |t| Time::ZERO + Dur::from_millis(t);
        agent.on_packet(0, ms(0));
        agent.on_packet(4, ms(100));
        agent.on_packet(2, ms(200));
        assert_eq!(agent.offer(capacity, ms(250)), Rate::from_mbps(20.0));
        assert_eq!(agent.offer(capacity, ms(251)), Rate::from_mbps(30.0), "flow 0 has been silent for over 250 ms");
        assert_eq!(agent.offer(Rate::from_mbps(10.0), ms(251)), Rate::from_mbps(5.0));
        assert_eq!(agent.active(ms(9_000)), 0);
        assert_eq!(NetworkAgent::new(DEFAULT_IDLE, 0.9).offer(capacity, ms(0)), Rate::from_mbps(54.0));
    }

    proptest! {
        #[test]
        fn the_count_equals_a_naive_one(
            idle in 0_u64..50,
            steps in prop::collection::vec((0_u64..20, prop::option::of(0_u32..12)), 0..300),
        ) {
            let mut agent = NetworkAgent::new(Dur(idle), 1.0);
            let mut last = [None; 12];
            let mut now = Time::ZERO;
            for (wait, flow) in steps {
                now = now + Dur(wait);
                if let Some(flow) = flow {
                    agent.on_packet(flow, now);
                    last[flow as usize] = Some(now);
                }
                let naive = last.iter().flatten().filter(|&&t| now.since(t) <= Dur(idle)).count();
                prop_assert_eq!(agent.active(now) as usize, naive);
            }
        }
    }
}
