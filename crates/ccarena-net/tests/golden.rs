//! The link model against real mahimahi: a sender with a fixed window over Verizon-LTE-short, data by the downlink trace,
//! 80-byte ACKs by the uplink trace, 20 ms each way, infinite queues. The expected figures were published by katexyu
//! (6829-pset2) for mahimahi itself.
//!
//! The traces are not part of the repository: `CCARENA_TRACE_DIR` names the folders that have them, separated by colons.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use ccarena_cc::types::{Dur, Rate, Time};
use ccarena_net::rng::{Purpose, Stream};
use ccarena_net::trace::{self, OVERHEAD_BYTES};
use ccarena_net::{Ecn, Item, Queue, QueueSpec, Service, Trace, queues};

/// Window in packets, throughput in Mbit/s, 95th percentile of the signal delay in ms.
const PUBLISHED: [(u64, f64, f64); 12] = [
    (5, 1.08, 108.0),
    (10, 1.99, 155.0),
    (15, 2.72, 214.0),
    (20, 3.32, 278.0),
    (30, 4.11, 402.0),
    (40, 4.55, 505.0),
    (50, 4.80, 609.0),
    (60, 4.92, 714.0),
    (70, 4.97, 811.0),
    (80, 4.99, 897.0),
    (90, 5.01, 975.0),
    (100, 5.02, 1054.0),
];

const DELAY: Dur = Dur::from_millis(20);
const TIMEOUT: Dur = Dur::from_millis(1000);
const DATA_IP_BYTES: u32 = 1500;
const ACK_IP_BYTES: u32 = 80 - OVERHEAD_BYTES;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    sequence: u64,
    bytes: u32,
    arrival: Time,
}

impl Item for Packet {
    fn bytes(&self) -> u32 {
        self.bytes
    }

    fn flow(&self) -> u64 {
        0
    }

    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    fn mark(&mut self) {}
}

struct Link {
    queue: queues::AnyQueue<Packet>,
    service: Service,
    serving: Option<Packet>,
}

impl Link {
    fn new(trace: &Trace) -> Self {
        let setting = queues::Setting { bdp_bytes: 0, rate: Rate(0), stream: Stream::new(1, Purpose::Queue, 0) };
        Self {
            queue: queues::build(&QueueSpec::infinite(), &setting),
            service: Service::trace(trace, Dur::ZERO),
            serving: None,
        }
    }

    /// The time of departure, if the packet goes into service at once.
    fn arrive(&mut self, mut packet: Packet, now: Time) -> Option<Time> {
        packet.arrival = now;
        if self.serving.is_some() {
            self.queue.enqueue(packet, now, &mut Vec::new());
            return None;
        }
        self.serving = Some(packet);
        Some(self.service.departure(now, packet.bytes, false, || now))
    }

    /// The packet that has left, and when the next one will have.
    fn depart(&mut self, now: Time) -> (Option<Packet>, Option<Time>) {
        let next = self.queue.dequeue(now, &mut Vec::new());
        let out = std::mem::replace(&mut self.serving, next);
        (out, next.map(|p| self.service.departure(now, p.bytes, true, || now)))
    }
}

/// Departures come first among the events of one instant, because a link's opportunities of a millisecond are used before
/// the arrivals of that millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Depart(usize),
    Arrive(usize, Packet),
    Acked(Packet),
    Timeout,
}

/// Mbit/s and p95 signal delay in ms of the data link's queue over one pass of its trace.
fn fixed_window(window: u64, data: &Trace, acks: &Trace) -> (f64, f64) {
    const DATA: usize = 0;
    const ACKS: usize = 1;
    let mut links = [Link::new(data), Link::new(acks)];
    let mut events: BinaryHeap<Reverse<(Time, Event)>> = BinaryHeap::new();
    let end = Time::ZERO + data.duration();
    let (mut next, mut acked, mut heard) = (0, 0, Time::ZERO);
    let mut departures: Vec<(Time, Time)> = Vec::new();
    let send = |events: &mut BinaryHeap<_>, sequence: &mut u64, now: Time| {
        let packet = Packet { sequence: *sequence, bytes: DATA_IP_BYTES, arrival: now };
        *sequence += 1;
        events.push(Reverse((now, Event::Arrive(DATA, packet))));
    };
    for _ in 0..window {
        send(&mut events, &mut next, Time::ZERO);
    }
    events.push(Reverse((Time::ZERO + TIMEOUT, Event::Timeout)));
    while let Some(Reverse((now, event))) = events.pop() {
        if now > end {
            break;
        }
        match event {
            Event::Arrive(link, packet) => {
                if let Some(at) = links[link].arrive(packet, now) {
                    events.push(Reverse((at, Event::Depart(link))));
                }
            }
            Event::Depart(link) => {
                let (out, at) = links[link].depart(now);
                if let Some(at) = at {
                    events.push(Reverse((at, Event::Depart(link))));
                }
                let Some(out) = out else { continue };
                if link == DATA {
                    departures.push((out.arrival, now));
                    let ack = Packet { bytes: ACK_IP_BYTES, ..out };
                    events.push(Reverse((now + DELAY * 2, Event::Arrive(ACKS, ack))));
                } else {
                    events.push(Reverse((now, Event::Acked(out))));
                }
            }
            Event::Acked(packet) => {
                heard = now;
                acked = acked.max(packet.sequence + 1);
                while next - acked < window {
                    send(&mut events, &mut next, now);
                }
            }
            Event::Timeout => {
                if now.since(heard) >= TIMEOUT {
                    send(&mut events, &mut next, now);
                    heard = now;
                }
                events.push(Reverse((heard + TIMEOUT, Event::Timeout)));
            }
        }
    }
    let bits = departures.len() as f64 * f64::from(DATA_IP_BYTES + OVERHEAD_BYTES) * 8.0;
    (bits / data.duration().as_secs_f64() / 1e6, p95_signal_delay_ms(&departures))
}

/// For each ms, the smallest time until a message created then or later has arrived (mm-throughput-graph).
fn p95_signal_delay_ms(departures: &[(Time, Time)]) -> f64 {
    let ms = |t: Time| (t.0 / 1_000_000) as usize;
    let last = departures.iter().map(|d| ms(d.0)).max().unwrap_or(0);
    let mut delay = vec![usize::MAX; last + 1];
    for &(arrival, departure) in departures {
        let own = &mut delay[ms(arrival)];
        *own = (*own).min(ms(departure) - ms(arrival));
    }
    for t in (0..last).rev() {
        delay[t] = delay[t].min(delay[t + 1] + 1);
    }
    delay.sort_unstable();
    delay[delay.len() * 95 / 100] as f64
}

fn find(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var("CCARENA_TRACE_DIR").unwrap_or_default();
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let roots = dirs.split(':').filter(|d| !d.is_empty()).map(PathBuf::from).chain([beside]);
    roots.flat_map(|root| [root.join(name), root.join("mahimahi").join(name)]).find(|p| p.is_file())
}

#[test]
fn fixed_windows_match_mahimahi() {
    let (Some(down), Some(up)) = (find("Verizon-LTE-short.down"), find("Verizon-LTE-short.up")) else {
        eprintln!(
            "SKIPPED: the golden test needs Verizon-LTE-short.down and .up; set CCARENA_TRACE_DIR to their folder"
        );
        return;
    };
    let (down, up) = (trace::load(&down).unwrap(), trace::load(&up).unwrap());
    let mut far = Vec::new();
    println!("window  Mbit/s (mahimahi)  p95 signal delay ms (mahimahi)");
    for (window, mbps, ms) in PUBLISHED {
        let (got_mbps, got_ms) = fixed_window(window, &down, &up);
        println!("{window:6}  {got_mbps:6.3} ({mbps:4.2})      {got_ms:6.0} ({ms:.0})");
        if (got_mbps - mbps).abs() > 0.015 * mbps || (got_ms - ms).abs() > 3.0 {
            far.push(window);
        }
    }
    assert!(far.is_empty(), "more than 1.5 % or 3 ms from mahimahi at windows {far:?}");
}
