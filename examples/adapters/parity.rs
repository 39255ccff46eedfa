//! One flow over a small link in virtual time: the same acknowledgements for an adapter and for packets reported by number.

use std::sync::Arc;

use ccarena_cc::packet_flow::PacketFlow;
use ccarena_cc::policy::Policy;
use ccarena_cc::{Config, Dur, Flow, Host, Source, Time};

pub const MTU: u16 = 1472;
/// 24 Mbit/s, 40 ms, a queue of 60 packets.
const PACKET: Dur = Dur::from_micros(500);
const RTT: Dur = Dur::from_millis(40);
const QUEUE: Dur = Dur::from_millis(30);
/// A packet is lost if one so much newer has arrived.
const THRESHOLD: u64 = 3;

/// An adapter, as its stack calls it.
pub trait Adapter {
    /// Packet `number` of a full size leaves.
    fn on_sent(&mut self, now: Time, number: u64);

    /// Packets have arrived and others are lost, the oldest first: number and time of sending of each.
    fn on_ack(&mut self, now: Time, acked: &[(u64, Time)], lost: &[(u64, Time)], in_flight: u64, srtt: Dur);

    /// Returns the controller's window.
    fn window(&mut self) -> u64;
}

/// A policy of the package.
pub fn policy(name: &str) -> Source<'static> {
    let scheme = name.split('-').next().unwrap();
    let path = format!("{}/../../../ccarena/{scheme}/policies/{name}.safetensors", env!("CARGO_MANIFEST_DIR"));
    Source::Policy(Arc::new(Policy::from_bytes(&std::fs::read(path).unwrap()).unwrap()))
}

/// The flow of a source on a host.
pub fn flow(source: &Source<'_>, host: &Host) -> PacketFlow {
    let config = Config { mss: MTU.into(), ..Config::default() };
    PacketFlow::new(Flow::build(source, &config, host, Time::ZERO).unwrap(), MTU).from_handshake()
}

/// Runs 20 s of the link, and checks after each acknowledgement that the two windows differ by no more than this share.
/// `late`: the stack's smoothed RTT lacks the newest acknowledgement. Returns how many packets were lost.
pub fn check(adapter: &mut impl Adapter, mut exact: PacketFlow, late: bool, share: f64) -> usize {
    let (mut now, mut free, mut number, mut losses) = (Time(1_000_000), Time::ZERO, 0, 0);
    let mut srtt = Dur::ZERO;
    let mut outstanding: Vec<(u64, Time)> = Vec::new();
    let mut arriving: Vec<(Time, u64, Time)> = Vec::new();
    while now < Time(20_000_000_000) {
        while (outstanding.len() as u64 + 1) * u64::from(MTU) <= exact.window() {
            number += 1;
            adapter.on_sent(now, number);
            exact.on_sent(now, number, MTU.into());
            outstanding.push((number, now));
            if free <= now + QUEUE {
                free = free.max(now) + PACKET;
                arriving.push((free + RTT, number, now));
            }
        }
        let Some(&(at, newest, sent)) = arriving.get(1).or(arriving.first()) else { break };
        now = at;
        let arrived: Vec<_> = arriving.drain(..arriving.len().min(2)).map(|(_, number, sent)| (number, sent)).collect();
        outstanding.retain(|packet| !arrived.contains(packet));
        let in_flight = outstanding.len() as u64 * u64::from(MTU);
        let lost: Vec<_> = outstanding.iter().copied().filter(|(number, _)| number + THRESHOLD <= newest).collect();
        outstanding.retain(|packet| !lost.contains(packet));
        losses += lost.len();
        let sample = now.since(sent);
        let before = srtt;
        srtt = if before == Dur::ZERO { sample } else { (before * 7 + sample) / 8 };
        let given = if late { before } else { srtt };
        exact.on_window_limited();
        assert!(arrived.iter().all(|&(number, _)| exact.on_acked(now, number)));
        assert!(lost.iter().all(|&(number, _)| exact.on_lost(number)));
        exact.settle(now, given);
        exact.on_timer(now);
        adapter.on_ack(now, &arrived, &lost, in_flight, given);
        let (found, expected) = (adapter.window(), exact.window());
        let off = found.abs_diff(expected) as f64;
        assert!(off <= share * expected as f64, "{found} and {expected} bytes at {now}, {number} packets sent");
    }
    assert!(number > 20_000, "the link carried {number} packets");
    losses
}
