//! Counts of flows whose ends are not believed: what entered the links, and what came out, by the packets alone.
//!
//! The emulator goes on until all programs have stopped, which takes a busy machine long. Bytes for rates count until the
//! scenario's end, as in packet logs. Packets, and the bytes that programs count themselves, count until the stop.

use std::collections::BTreeMap;

use ccarena_cc::types::{Dur, Time};
use ccarena_net::Scenario;
use ccarena_net::scenario::Foreign;
use ccarena_net::series::{FlowBin, Series};

/// Connections of a flow whose bytes are told apart; those of others count whenever they come.
const MOST_CONNECTIONS: usize = 4096;
/// Gaps in the bytes of a connection that are remembered.
const MOST_GAPS: usize = 4096;

/// Counts of one flow, by packets with payload.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Packets that entered the links.
    pub sent_packets: u64,
    /// Packets among them that brought no byte of TCP for the first time.
    pub resent_packets: u64,
    /// Packets that reached the receiver.
    pub delivered_packets: u64,
    /// Packets among them that brought no byte of TCP for the first time.
    pub duplicate_packets: u64,
    /// IP bytes that reached the receiver until the scenario's end, packets without payload included.
    pub wire_bytes: u64,
    /// Payload that reached the receiver until the scenario's end: of TCP for the first time, of UDP each time.
    pub payload_bytes: u64,
    /// The same until the program stopped, which may be later.
    pub payload_bytes_until_stop: u64,
    /// Time from the flow's start until its transfer was delivered, if that was before the scenario's end.
    pub completion: Option<Dur>,
    /// Amounts per bin, if they are kept.
    pub series: Option<Series<FlowBin>>,
}

/// The flows that are counted, by their number.
#[derive(Debug, Default)]
pub(crate) struct Tally(Vec<Option<Box<Flow>>>);

#[derive(Debug)]
struct Flow {
    start: Time,
    /// End of the scenario.
    end: Time,
    goal: Option<u64>,
    sent: Connections,
    received: Connections,
    seen: Seen,
}

impl Tally {
    /// Counts the flows of `scenario` whose ends are programs of others.
    pub fn of(scenario: &Scenario) -> Self {
        let series = || scenario.record.series.then(|| Series::new(scenario.record.bin, scenario.duration));
        let flow = |flow: &ccarena_net::scenario::Flow| {
            matches!(flow.foreign, Some(Foreign::Programs(_))).then(|| {
                Box::new(Flow {
                    start: flow.start,
                    end: Time(scenario.duration.0),
                    goal: flow.app.only_transfer(),
                    sent: Connections::default(),
                    received: Connections::default(),
                    seen: Seen { series: series(), ..Seen::default() },
                })
            })
        };
        Self(scenario.flows.iter().map(flow).collect())
    }

    /// `packet` of flow number `flow` enters the links.
    #[inline]
    pub fn sent(&mut self, flow: u32, packet: &[u8]) {
        if let Some(Some(flow)) = self.0.get_mut(flow as usize) {
            flow.enters(packet);
        }
    }

    /// `packet` of flow number `flow` reaches the receiver at `now`.
    #[inline]
    pub fn delivered(&mut self, flow: u32, packet: &[u8], now: Time) {
        if let Some(Some(flow)) = self.0.get_mut(flow as usize) {
            flow.arrives(packet, now);
        }
    }

    /// Returns the counts, by flow; none of a flow that is not counted.
    pub fn into_seen(self) -> Vec<Option<Seen>> {
        self.0.into_iter().map(|flow| flow.map(|flow| flow.seen)).collect()
    }
}

impl Flow {
    fn enters(&mut self, packet: &[u8]) {
        let payload = Payload::of(packet);
        if payload.bytes > 0 {
            self.seen.sent_packets += 1;
            self.seen.resent_packets += u64::from(self.sent.new_bytes(&payload) == 0);
        } else {
            self.sent.new_bytes(&payload);
        }
    }

    fn arrives(&mut self, packet: &[u8], now: Time) {
        let payload = Payload::of(packet);
        let new = self.received.new_bytes(&payload);
        let seen = &mut self.seen;
        if payload.bytes > 0 {
            seen.delivered_packets += 1;
            seen.duplicate_packets += u64::from(new == 0);
        }
        seen.payload_bytes_until_stop += new;
        if now > self.end {
            return;
        }
        seen.wire_bytes += packet.len() as u64;
        seen.payload_bytes += new;
        if let Some(bin) = seen.series.as_mut().and_then(|series| series.at(now)) {
            bin.wire_bytes += packet.len() as u64;
            bin.payload_bytes += new;
        }
        if self.goal.is_some_and(|goal| seen.payload_bytes >= goal) && seen.completion.is_none() {
            seen.completion = Some(now.since(self.start));
        }
    }
}

/// The payload of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Payload {
    bytes: u64,
    /// Ports, sequence number and SYN of a TCP segment.
    tcp: Option<(u32, u32, bool)>,
}

impl Payload {
    /// Reads the headers of an IPv4 packet (RFC 791 §3.1, RFC 9293 §3.1, RFC 768).
    fn of(packet: &[u8]) -> Self {
        let Some(header) = packet.first().filter(|&&head| head >> 4 == 4).map(|head| usize::from(head & 0xf) * 4)
        else {
            return Self::default();
        };
        let body = packet.get(header..).unwrap_or_default();
        let word = |at: usize| body.get(at..at + 4).and_then(|w| w.try_into().ok()).map(u32::from_be_bytes);
        match packet.get(9).map(|&protocol| i32::from(protocol)) {
            Some(libc::IPPROTO_TCP) => {
                let (Some(ports), Some(sequence), Some(flags)) = (word(0), word(4), word(12)) else {
                    return Self::default();
                };
                let options = (flags >> 28) as usize * 4;
                let syn = flags >> 17 & 1 == 1;
                Self { bytes: body.len().saturating_sub(options) as u64, tcp: Some((ports, sequence, syn)) }
            }
            Some(libc::IPPROTO_UDP) => Self { bytes: body.len().saturating_sub(8) as u64, tcp: None },
            _ => Self { bytes: body.len() as u64, tcp: None },
        }
    }
}

/// The TCP connections of a flow in one direction, by their ports.
#[derive(Debug, Default)]
struct Connections(BTreeMap<u32, Bytes>);

impl Connections {
    /// Returns the bytes of `payload` that were not seen before.
    fn new_bytes(&mut self, payload: &Payload) -> u64 {
        let Some((ports, sequence, syn)) = payload.tcp else { return payload.bytes };
        if syn {
            if self.0.len() < MOST_CONNECTIONS || self.0.contains_key(&ports) {
                // The SYN takes one number (RFC 9293 §3.4).
                self.0.insert(ports, Bytes { next: sequence.wrapping_add(1), ..Bytes::default() });
            }
            return payload.bytes;
        }
        match self.0.get_mut(&ports) {
            Some(bytes) => bytes.add(sequence, payload.bytes),
            None => payload.bytes,
        }
    }
}

/// Bytes of a connection that were seen.
#[derive(Debug, Default)]
struct Bytes {
    /// All before this number were seen.
    next: u32,
    /// Runs beyond it: distance from the first byte of the connection to begin and end, apart from each other.
    seen: u64,
    beyond: BTreeMap<u64, u64>,
}

impl Bytes {
    /// Adds `count` bytes from number `sequence` on. Returns how many are new.
    fn add(&mut self, sequence: u32, count: u64) -> u64 {
        // Half of the numbers are ahead, half behind (RFC 9293 §3.4).
        let ahead = i64::from(sequence.wrapping_sub(self.next) as i32);
        let begin = self.seen as i64 + ahead;
        let end = begin + count as i64;
        if end <= self.seen as i64 {
            return 0;
        }
        let (mut begin, mut end) = ((begin.max(self.seen as i64)) as u64, end as u64);
        let mut new = end - begin;
        let touching: Vec<(u64, u64)> =
            self.beyond.range(..=end).rev().take_while(|(_, e)| **e >= begin).map(|(&b, &e)| (b, e)).collect();
        for (b, e) in touching {
            self.beyond.remove(&b);
            new -= e.min(end).saturating_sub(b.max(begin)).min(new);
            (begin, end) = (begin.min(b), end.max(e));
        }
        if begin <= self.seen {
            self.next = self.next.wrapping_add((end - self.seen) as u32);
            self.seen = end;
        } else {
            self.beyond.insert(begin, end);
            if self.beyond.len() > MOST_GAPS {
                self.beyond.pop_last();
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(sequence: u32, payload: usize, syn: bool) -> Vec<u8> {
        let mut packet = vec![0; 52 + payload];
        (packet[0], packet[9]) = (0x45, 6);
        packet[24..28].copy_from_slice(&sequence.to_be_bytes());
        (packet[32], packet[33]) = (8 << 4, if syn { 2 } else { 16 });
        packet
    }

    fn flow(goal: Option<u64>) -> Flow {
        let (sent, received) = (Connections::default(), Connections::default());
        Flow { start: Time::ZERO, end: Time(100), goal, sent, received, seen: Seen::default() }
    }

    #[test]
    fn each_byte_of_tcp_counts_once_and_the_numbers_wrap() {
        let mut flow = flow(Some(3000));
        flow.arrives(&tcp(u32::MAX - 500, 0, true), Time(1));
        flow.arrives(&tcp(u32::MAX - 499, 1000, false), Time(2));
        flow.arrives(&tcp(u32::MAX - 499, 1000, false), Time(3));
        flow.arrives(&tcp(1500, 1000, false), Time(4));
        assert_eq!(flow.seen.completion, None);
        flow.arrives(&tcp(500, 1000, false), Time(5));
        let seen = flow.seen;
        assert_eq!((seen.payload_bytes, seen.delivered_packets, seen.duplicate_packets), (3000, 4, 1));
        assert_eq!((seen.wire_bytes, seen.completion), (4 * 1052 + 52, Some(Dur(5))));
    }

    #[test]
    fn bytes_for_rates_end_with_the_scenario_and_those_of_the_program_with_its_stop() {
        let mut flow = flow(Some(300));
        for (at, sequence) in [(90, 1), (100, 101), (101, 201)] {
            flow.enters(&tcp(sequence, 100, false));
            flow.arrives(&tcp(sequence, 100, false), Time(at));
        }
        let seen = flow.seen;
        assert_eq!((seen.payload_bytes, seen.wire_bytes), (200, 2 * 152));
        assert_eq!((seen.payload_bytes_until_stop, seen.sent_packets, seen.delivered_packets), (300, 3, 3));
        assert_eq!(seen.completion, None, "it was complete after the end");
    }

    #[test]
    fn payload_of_udp_counts_whenever_it_comes_and_of_nonsense_nothing_fails() {
        let mut udp = vec![0; 128];
        (udp[0], udp[9]) = (0x45, 17);
        assert_eq!(Payload::of(&udp), Payload { bytes: 100, tcp: None });
        for length in 0..60 {
            Payload::of(&tcp(7, 8, false)[..length]);
        }
    }

    proptest! {
        #[test]
        fn new_bytes_are_those_of_the_union(start in any::<u32>(), parts in prop::collection::vec((0..200_u32, 0..60_u64), 1..60)) {
            let (mut bytes, mut all) = (Bytes { next: start, ..Bytes::default() }, std::collections::BTreeSet::new());
            for (at, count) in parts {
                let before = all.len();
                all.extend((0..count).map(|i| u64::from(at) + i));
                prop_assert_eq!(bytes.add(start.wrapping_add(at), count), (all.len() - before) as u64);
                let contiguous = (0..).take_while(|i| all.contains(i)).count() as u64;
                prop_assert_eq!(bytes.seen, contiguous);
            }
        }

        #[test]
        fn any_packet_is_read(packet in prop::collection::vec(any::<u8>(), 0..80)) {
            let mut flow = flow(None);
            flow.enters(&packet);
            flow.arrives(&packet, Time(1));
        }
    }
}
