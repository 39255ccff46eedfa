//! The result of a run over a real path, from the packet times of both ends.

use std::net::SocketAddr;

use ccarena_cc::{Dur, Time};
use ccarena_net::Scenario;
use ccarena_net::link::{Delivered, PacketLog};
use ccarena_net::result::{FlowResult, LinkResult, PathResult, RunResult};
use ccarena_net::series::{FlowBin, LinkBin, Series};
use ccarena_net::transmissions::{Fate, Transmission, TransmissionLog};

use super::offset::Offset;
use super::report::{Report, TcpCounts};
use super::stamps::{Seen, Stamp};
use crate::run::receiver::Received;
use crate::run::{HEADER_BYTES, Plan, record};

/// Header of IPv6 beyond that of IPv4.
const IPV6_BYTES: u32 = 20;
/// Headers of IPv4 and of TCP with timestamps.
const TCP_HEADER_BYTES: u32 = 52;

/// A flow as both ends saw it, each by its own clock.
pub struct Flow {
    /// Results at its sender.
    pub report: Report,
    /// Record of the sender.
    pub departed: Seen,
    /// Record of the receiver.
    pub arrived: Seen,
}

/// The path of a run.
pub struct Path {
    /// Offset between the clocks.
    pub offset: Offset,
    /// Time zero of the run by the clock that the offset is about.
    pub zero: Time,
    /// The other machine.
    pub remote: SocketAddr,
    /// Flag that the other machine sent.
    pub reverse: bool,
}

impl Path {
    /// Time of the run, in ns, at which the other machine's clock showed `there`.
    fn there_ns(&self, there: Time) -> f64 {
        self.offset.here_ns(there) - self.zero.0 as f64
    }

    /// Time of the run, in ns, that a sender's clock showed.
    fn left_ns(&self, at: Time) -> f64 {
        if self.reverse { self.there_ns(at) } else { at.0 as f64 }
    }

    /// Time of the run, in ns, that a receiver's clock showed.
    fn came_ns(&self, at: Time) -> f64 {
        if self.reverse { at.0 as f64 } else { self.there_ns(at) }
    }
}

/// A packet on the path: when it left and came, in ns of this machine's clock since the run began. Those of the kernel's TCP
/// are reckoned from what its ends know.
struct Packet {
    flow: usize,
    sent: Time,
    /// Time of its arrival; none if it did not come.
    came_ns: Option<f64>,
    bytes: u32,
}

/// The result of a run of `scenario` over `path`.
pub fn outcome(scenario: &Scenario, plans: &[Plan], mut flows: Vec<Flow>, path: &Path) -> RunResult {
    let header_bytes = HEADER_BYTES + if path.remote.is_ipv6() { IPV6_BYTES } else { 0 };
    let mut packets: Vec<Packet> =
        flows.iter().enumerate().flat_map(|(index, flow)| packets(index, flow, header_bytes, path)).collect();
    let delays_ns = packets.iter().filter_map(|packet| Some(packet.came_ns? - packet.sent.0 as f64));
    let least_ns = delays_ns.fold(f64::INFINITY, f64::min);
    // Without a packet whose time is known at both ends, both ways count as equally long.
    let half = flows.iter().filter_map(|flow| flow.report.rtt_min()).map(|rtt| rtt.0 as f64 / 2.0);
    let half = half.fold(f64::INFINITY, f64::min);
    let least_ns = [least_ns, half, 0.0].into_iter().find(|ns| ns.is_finite()).unwrap_or(0.0);
    for (index, flow) in flows.iter().enumerate() {
        packets.extend(tcp_packets(scenario, index, flow, least_ns, path));
    }
    packets.sort_by_key(|packet| packet.sent);
    let link = link(scenario, &packets, least_ns);
    let records = (0..flows.len())
        .map(|index| {
            let mine: Vec<&Packet> = packets.iter().filter(|packet| packet.flow == index).collect();
            flow_result(scenario, index, &plans[index], &mut flows[index], (&mine, least_ns), path)
        })
        .collect();
    let result = PathResult {
        remote: path.remote.to_string(),
        direction: if path.reverse { "reverse" } else { "forward" },
        one_way_ms: least_ns / 1e6,
        clock_offset_ms: path.offset.after_ms(),
        clock_uncertainty_ms: path.offset.uncertainty_ms(),
        clock_drift_ppm: path.offset.drift_ppm(),
    };
    RunResult { path: Some(result), ..RunResult::new(scenario, records, vec![link]) }
}

fn packets(index: usize, flow: &Flow, header_bytes: u32, path: &Path) -> Vec<Packet> {
    let came = flow.arrived.by_tag();
    let packet = |stamp: &Stamp| Packet {
        flow: index,
        sent: time(path.left_ns(stamp.at)),
        came_ns: came.get(&stamp.tag).map(|&at| path.came_ns(at)),
        bytes: u32::from(stamp.bytes) + header_bytes,
    };
    flow.departed.packets.iter().map(packet).collect()
}

/// Packets of a flow of the kernel's TCP: full segments of what came at once, each as long in the queue as the sender's
/// smoothed RTT then was above its least; and a lost one for each retransmission, when the sender's counter showed it.
fn tcp_packets(scenario: &Scenario, index: usize, flow: &Flow, least_ns: f64, path: &Path) -> Vec<Packet> {
    let Some(counts) = flow.report.tcp() else { return Vec::new() };
    let segment = segment_bytes(counts, scenario, index);
    let header_bytes = TCP_HEADER_BYTES + if path.remote.is_ipv6() { IPV6_BYTES } else { 0 };
    let rtt_min_ns = flow.report.rtt_min().map_or(0.0, |rtt| rtt.0 as f64);
    let samples = &flow.departed.samples;
    let queueing_ns = |came_ns: f64| {
        // The first sample after the acknowledgement, which takes as long as the least way back.
        let seen_ns = came_ns + rtt_min_ns - least_ns;
        let at = samples.partition_point(|sample| path.left_ns(sample.at) < seen_ns);
        let sample = samples.get(at).or(samples.last());
        sample.map_or(0.0, |sample| (f64::from(sample.rtt_us) * 1e3 - rtt_min_ns).max(0.0))
    };
    let mut packets = Vec::new();
    for &(at, bytes) in &flow.arrived.payload {
        let came_ns = path.came_ns(at);
        let sent = time(came_ns - least_ns - queueing_ns(came_ns));
        let sizes = std::iter::repeat_n(segment, (bytes / segment) as usize).chain([bytes % segment]);
        packets.extend(sizes.filter(|&size| size > 0).map(|size| Packet {
            flow: index,
            sent,
            came_ns: Some(came_ns),
            bytes: size + header_bytes,
        }));
    }
    let mut before = 0;
    for sample in samples {
        let sent = time(path.left_ns(sample.at));
        let lost = sample.retransmitted.saturating_sub(before);
        packets.extend((0..lost).map(|_| Packet { flow: index, sent, came_ns: None, bytes: segment + header_bytes }));
        before = before.max(sample.retransmitted);
    }
    packets
}

/// Payload of a full segment.
fn segment_bytes(counts: TcpCounts, scenario: &Scenario, index: usize) -> u32 {
    if counts.segment_bytes > 0 { counts.segment_bytes } else { scenario.flows[index].mss_bytes.max(1) }
}

fn time(ns: f64) -> Time {
    Time(ns.max(0.0).round() as u64)
}

/// The path as a link: what waits on it is what a packet takes beyond the least.
fn link(scenario: &Scenario, packets: &[Packet], least_ns: f64) -> LinkResult {
    let end = Time(scenario.duration.0);
    let mut log = PacketLog::default();
    let mut series: Series<LinkBin> = Series::new(scenario.record.bin, scenario.duration);
    for packet in packets.iter().filter(|packet| packet.sent <= end) {
        let Some(came_ns) = packet.came_ns else {
            log.lost.push((packet.sent, packet.flow as u32));
            continue;
        };
        let departure = time(came_ns - least_ns).max(packet.sent);
        if departure > end {
            continue;
        }
        log.delivered.push(Delivered {
            arrival: packet.sent,
            departure,
            serialisation: Dur::ZERO,
            flow: packet.flow as u32,
            bytes: packet.bytes,
        });
    }
    log.delivered.sort_by_key(|packet| packet.departure);
    for packet in &log.delivered {
        let Some(bin) = series.at(packet.departure) else { continue };
        bin.delivered_bytes += u64::from(packet.bytes);
        bin.packets += 1;
        bin.queueing += packet.departure.since(packet.arrival);
    }
    LinkResult {
        name: scenario.links[0].name.clone(),
        arrived_packets: packets.len() as u64,
        delivered_bytes: log.delivered.iter().map(|packet| u64::from(packet.bytes)).sum(),
        delivered_packets: log.delivered.len() as u64,
        lost_packets: log.lost.len() as u64,
        // Nobody knows what the path could have carried.
        capacity_mbps: vec![f64::NAN; series.bins.len()],
        series: scenario.record.series.then_some(series.bins),
        log: scenario.record.packets.then_some(log),
        ..LinkResult::default()
    }
}

fn flow_result(
    scenario: &Scenario,
    index: usize,
    plan: &Plan,
    flow: &mut Flow,
    (packets, least_ns): (&[&Packet], f64),
    path: &Path,
) -> FlowResult {
    let end = Time(scenario.duration.0);
    let mut series: Series<FlowBin> = Series::new(scenario.record.bin, scenario.duration);
    let (tcp, arrivals) = (flow.report.tcp(), scenario.flows[index].app.needs().arrivals);
    let mut received = Received {
        whole: (arrivals && tcp.is_none()).then(Default::default),
        progress: (arrivals && tcp.is_some()).then(Default::default),
        ..Received::default()
    };
    let mut arrived_bytes = 0;
    for packet in packets {
        let Some(came) = packet.came_ns.map(time).filter(|&came| came <= end) else { continue };
        received.wire_bytes += u64::from(packet.bytes);
        if let Some(bin) = series.at(came) {
            bin.wire_bytes += u64::from(packet.bytes);
        }
    }
    for &(at, bytes) in &flow.arrived.payload {
        let at = time(path.came_ns(at));
        arrived_bytes += u64::from(bytes);
        if let Some(progress) = &mut received.progress {
            progress.push((at, arrived_bytes));
        }
        if at <= end {
            received.payload_bytes += u64::from(bytes);
        }
        if let Some(bin) = series.at(at) {
            bin.payload_bytes += u64::from(bytes);
        }
    }
    if let Some(whole) = &mut received.whole {
        for &(stream, at) in &flow.arrived.whole {
            whole.entry(stream).or_insert(time(path.came_ns(at)));
        }
    }
    received.series = scenario.record.series.then_some(series);
    let width = plan.learned.as_ref().map_or(0, |learned| learned.report.len());
    let (sent, totals) = std::mem::take(&mut flow.report).parts(scenario, index, width);
    let nothing_came = tcp.is_none() && received.payload_bytes == 0 && packets.len() > 10 && sent.error.is_none();
    let mut record = record(scenario, index, plan, (sent, totals), received);
    if nothing_came && record.error.is_none() {
        record.error = Some(format!(
            "flows[{index}]: no packet of {} bytes arrived; if the path carries smaller ones only, set `mss_bytes` to \
             1200 and `header_bytes` to 52",
            plan.settings.mtu
        ));
    }
    record.transmissions = scenario.record.transmissions.then(|| match tcp {
        None => transmissions(packets, least_ns, end),
        // Nobody saw its packets one by one.
        Some(_) => TransmissionLog::default(),
    });
    if let Some(counts) = tcp {
        record.duplicate_packets = counts.duplicates.into();
        record.reordered = Some(counts.reordered.into());
        record.spurious_retransmits = Some(record.duplicate_packets.min(record.retransmitted_packets));
        (record.undone_recoveries, record.ecn_reductions) = (None, None);
    }
    record
}

fn transmissions(packets: &[&Packet], least_ns: f64, end: Time) -> TransmissionLog {
    let transmission = |(number, packet): (usize, &&Packet)| {
        let came = packet.came_ns.map(time);
        let arrived = came.filter(|&came| came <= end);
        Transmission {
            sent: packet.sent,
            arrived: arrived.unwrap_or(Time::ZERO),
            queueing: arrived.map_or(Dur::ZERO, |_| {
                Dur((packet.came_ns.unwrap_or(0.0) - packet.sent.0 as f64 - least_ns).max(0.0) as u64)
            }),
            sequence: number as u32,
            bytes: packet.bytes,
            fate: match (arrived, came) {
                (Some(_), _) => Fate::Delivered,
                (None, Some(_)) => Fate::UnderWay,
                (None, None) => Fate::Lost,
            },
            flags: 0,
        }
    };
    let mut log = TransmissionLog::default();
    log.packets = packets.iter().enumerate().map(transmission).collect();
    log
}
