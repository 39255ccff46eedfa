//! The family over a model of a bottleneck: one drop-tail queue, an acknowledgement for every packet.

use std::collections::VecDeque;

use crate::controller::Controller;
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::registry::build;
use crate::scheme::Config;
use crate::schemes::split_mix::split_mix;
use crate::types::{Bytes, Dur, Rate, Requirement, Time};

const MSS: u64 = 1448;
const PACKET: u64 = 1500;

struct Link {
    rate: Rate,
    rtt: Dur,
    /// Longest queueing delay.
    buffer: Dur,
    /// Acknowledgements are late by this much on average, exponentially distributed and in order.
    jitter: Dur,
    busy_until: Time,
    draws: u64,
}

impl Link {
    fn new(mbps: f64, jitter: Dur) -> Self {
        let (rtt, buffer) = (Dur::from_millis(20), Dur::from_millis(100));
        Self { rate: Rate::from_mbps(mbps), rtt, buffer, jitter, busy_until: Time::ZERO, draws: 0 }
    }

    /// Returns when the acknowledgement of a packet sent at `now` arrives; none if the queue is full.
    fn pass(&mut self, now: Time) -> Option<Time> {
        if self.busy_until.since(now) > self.buffer {
            return None;
        }
        self.busy_until = self.busy_until.max(now) + self.rate.time_for(PACKET);
        self.draws += 1;
        let uniform = (split_mix(1, self.draws) >> 11) as f64 / (1_u64 << 53) as f64;
        let late = Dur::from_secs_f64(-(1.0 - uniform).ln() * self.jitter.as_secs_f64());
        Some(self.busy_until + self.rtt + late)
    }
}

struct Packet {
    number: u64,
    sent: Time,
    /// Time of the acknowledgement. None: dropped.
    acknowledged: Option<Time>,
}

struct Flow {
    controller: Box<dyn Controller>,
    packets: VecDeque<Packet>,
    next_departure: Time,
    sent: u64,
    delivered: u64,
}

impl Flow {
    fn new(scheme: &str, seed: u64, requirement: Option<(f64, f64)>) -> Self {
        let requirement = requirement.map(|(a, b)| Requirement { min: Rate::from_mbps(a), max: Rate::from_mbps(b) });
        let config = Config { seed, requirement, ..Config::default() };
        let controller = build(scheme, &config).unwrap();
        Self { controller, packets: VecDeque::new(), next_departure: Time::ZERO, sent: 0, delivered: 0 }
    }

    fn next_event(&self) -> Time {
        self.departure().min(self.acknowledgement())
    }

    fn departure(&self) -> Time {
        let room = self.packets.len() as u64 * MSS < self.controller.window().0;
        if room { self.next_departure } else { Time::NEVER }
    }

    /// A flow whose packets were all dropped learns of it late.
    fn acknowledgement(&self) -> Time {
        let Some(first) = self.packets.front() else { return Time::NEVER };
        let arrival = self.packets.iter().find_map(|p| p.acknowledged);
        arrival.unwrap_or(first.sent + Dur::from_millis(500))
    }

    fn advance(&mut self, now: Time, link: &mut Link) {
        if self.acknowledgement() <= now {
            self.acknowledge(now);
            return;
        }
        let acknowledged = link.pass(now).map(|t| t.max(self.packets.back().and_then(|p| p.acknowledged).unwrap_or(t)));
        self.packets.push_back(Packet { number: self.sent, sent: now, acknowledged });
        let sent = SentInfo { now, bytes: Bytes(MSS), number: self.sent, ..SentInfo::default() };
        self.sent += 1;
        self.controller.on_sent(&sent);
        self.next_departure = now + self.controller.pacing_rate().unwrap().time_for(MSS);
    }

    fn acknowledge(&mut self, now: Time) {
        while let Some(packet) = self.packets.pop_front() {
            if packet.acknowledged.is_none() {
                self.controller.packet_tracker().unwrap().on_packet_lost(packet.number);
                self.controller.on_loss(&LossInfo { now, lost: Bytes(MSS), lost_packets: 1, ..LossInfo::default() });
                continue;
            }
            self.delivered += 1;
            self.controller.packet_tracker().unwrap().on_packet_acked(packet.number);
            self.controller.on_ack(&AckInfo {
                now,
                acked: Bytes(MSS),
                acked_packets: 1,
                rtt: Some(now.since(packet.sent)),
                ..AckInfo::default()
            });
            return;
        }
    }
}

/// Each flow's rate on the link in Mbit/s, over the second half of `seconds`.
fn rates(mut link: Link, mut flows: Vec<Flow>, seconds: f64) -> Vec<f64> {
    let mut half = vec![0; flows.len()];
    loop {
        let (i, now) = flows.iter().map(Flow::next_event).enumerate().min_by_key(|e| e.1).unwrap();
        if now.as_secs_f64() > seconds {
            break;
        }
        flows[i].advance(now, &mut link);
        if now.as_secs_f64() < seconds / 2.0 {
            half[i] = flows[i].delivered;
        }
    }
    let rate = |(f, half): (&Flow, &u64)| (f.delivered - half) as f64 * PACKET as f64 * 8e-6 / (seconds / 2.0);
    flows.iter().zip(&half).map(rate).collect()
}

#[test]
fn one_flow_fills_a_link() {
    for scheme in ["hercules", "vivace", "vivace-hercules"] {
        for mbps in [10.0, 100.0] {
            let rate = rates(Link::new(mbps, Dur::ZERO), vec![Flow::new(scheme, 1, None)], 10.0)[0];
            assert!(rate > 0.8 * mbps, "{scheme} at {mbps}: {rate}");
        }
    }
}

/// The paper's point: a flow that has what it requires minds the latency that another makes.
#[test]
fn requirements_order_rates() {
    let jitter = Dur::from_millis(1);
    for seed in [1, 2, 3] {
        let flows =
            vec![Flow::new("hercules", seed, Some((60.0, 90.0))), Flow::new("hercules", seed + 10, Some((20.0, 90.0)))];
        let shares = rates(Link::new(100.0, jitter), flows, 20.0);
        assert!(shares[0] > 55.0 && shares[1] < 45.0 && shares[0] + shares[1] > 80.0, "seed {seed}: {shares:?}");
    }
    let vivace = |seed| vec![Flow::new("vivace-hercules", seed, None), Flow::new("vivace-hercules", seed + 10, None)];
    let shares = rates(Link::new(100.0, jitter), vivace(1), 20.0);
    assert!(shares[0] < 2.0 * shares[1] && shares[1] < 2.0 * shares[0], "without requirements: {shares:?}");
}
