//! Arrays for pictures: series over time, and packets at links. Each is one column of 64-bit floats, as pages draw them.

use ccarena_cc::{Dur, Time};
use ccarena_net::Scenario;
use ccarena_net::link::PacketLog;
use ccarena_net::series::{FlowBin, LinkBin};
use ccarena_sim::Sim;

/// Most samples of a series: longer runs have longer steps.
const MOST_SAMPLES: u64 = 6000;

/// A named array. `group` is "", `flows` or `links`, and `index` the number of the flow or link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Column<'a> {
    /// Kind of what it is about; empty for what all share.
    pub group: &'static str,
    /// Number of the flow or link.
    pub index: usize,
    /// Name.
    pub name: &'static str,
    /// Values.
    pub values: &'a [f64],
}

/// Columns of one flow or link, in the order of their names.
struct Table<const N: usize> {
    columns: [Vec<f64>; N],
}

impl<const N: usize> Table<N> {
    fn new() -> Self {
        Self { columns: std::array::from_fn(|_| Vec::new()) }
    }

    fn push(&mut self, row: [f64; N]) {
        self.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
    }

    fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
    }

    fn named(&self, group: &'static str, index: usize, names: [&'static str; N]) -> impl Iterator<Item = Column<'_>> {
        let named = names.into_iter().zip(&self.columns);
        named.map(move |(name, values)| Column { group, index, name, values })
    }
}

/// Series of a flow. Rates are of IP bytes and of new payload that arrived, the window is that at the end of the step, and
/// the RTT the mean of the sender's samples.
const FLOW: [&str; 6] = ["rate_mbps", "goodput_mbps", "window_bytes", "in_flight_bytes", "rtt_ms", "lost_packets"];
/// Series of a link: capacity, throughput, the bytes in its queue at the end of the step, and the mean queueing delay of
/// packets that left. Three more count packets that its queue dropped, that it marked, and that were lost otherwise.
const LINK: [&str; 7] = [
    "capacity_mbps",
    "throughput_mbps",
    "queue_bytes",
    "queueing_ms",
    "dropped_packets",
    "marked_packets",
    "lost_packets",
];

/// Counters of a flow at the end of the last step.
#[derive(Clone, Copy, Default)]
struct FlowMark {
    rtt_sum: Dur,
    rtt_count: u64,
    lost: u64,
}

/// Counters of a link at the end of the last step.
#[derive(Clone, Copy, Default)]
struct LinkMark {
    marked: u64,
    lost: u64,
}

/// Series of a run: a sample at the end of each step.
pub struct Series {
    bin: Dur,
    bins_per_step: u64,
    /// Steps sampled so far.
    steps: u64,
    end: Time,
    mss: Vec<f64>,
    time_s: Vec<f64>,
    flows: Vec<(FlowMark, Table<6>)>,
    links: Vec<(LinkMark, Table<7>)>,
}

impl Series {
    /// Returns the series of a run that has not started.
    #[must_use]
    pub fn new(scenario: &Scenario) -> Self {
        let bin = scenario.record.bin.max(Dur(1));
        let bins = scenario.duration.0.div_ceil(bin.0);
        Self {
            bin,
            bins_per_step: bins.div_ceil(MOST_SAMPLES).max(1),
            steps: 0,
            end: Time(scenario.duration.0),
            mss: scenario.flows.iter().map(|flow| f64::from(flow.app.segment_bytes(flow.mss_bytes))).collect(),
            time_s: Vec::new(),
            flows: scenario.flows.iter().map(|_| (FlowMark::default(), Table::new())).collect(),
            links: scenario.links.iter().map(|_| (LinkMark::default(), Table::new())).collect(),
        }
    }

    /// Returns the end of the step that is not sampled yet.
    #[must_use]
    pub fn next(&self) -> Time {
        Time((self.steps + 1).saturating_mul(self.bins_per_step * self.bin.0)).min(self.end)
    }

    /// Takes a sample if `sim` is at the end of a step.
    pub fn sample(&mut self, sim: &Sim) {
        let (from, now) = (Time(self.steps * self.bins_per_step * self.bin.0), self.next());
        if sim.now() < now || from >= now {
            return;
        }
        let span = now.since(from);
        let mbps = |bytes: u64| bytes as f64 * 8e-6 / span.as_secs_f64();
        let bins = (self.steps * self.bins_per_step) as usize..((self.steps + 1) * self.bins_per_step) as usize;
        self.steps += 1;
        self.time_s.push(now.as_secs_f64());
        for (flow, ((mark, table), mss)) in sim.flows().iter().zip(self.flows.iter_mut().zip(&self.mss)) {
            let mut got = FlowBin::default();
            for bin in flow.series().into_iter().flat_map(|series| within(&series.bins, &bins)) {
                got.wire_bytes += bin.wire_bytes;
                got.payload_bytes += bin.payload_bytes;
            }
            let stats = &flow.sender.stats;
            let samples = stats.rtt_count - mark.rtt_count;
            let rtt_ms = (stats.rtt_sum - mark.rtt_sum).as_millis_f64() / samples as f64;
            table.push([
                mbps(got.wire_bytes),
                mbps(got.payload_bytes),
                f64::from(flow.sender.window()) * mss,
                f64::from(flow.sender.in_flight()) * mss,
                if samples > 0 { rtt_ms } else { f64::NAN },
                (stats.lost - mark.lost) as f64,
            ]);
            *mark = FlowMark { rtt_sum: stats.rtt_sum, rtt_count: stats.rtt_count, lost: stats.lost };
        }
        for (link, (mark, table)) in sim.links().iter().zip(&mut self.links) {
            let mut left = LinkBin::default();
            for bin in link.series.iter().flat_map(|series| within(&series.bins, &bins)) {
                left.delivered_bytes += bin.delivered_bytes;
                left.packets += bin.packets;
                left.queueing += bin.queueing;
                left.dropped_packets += bin.dropped_packets;
            }
            let marks = link.marks();
            let marked = marks.ect0 + marks.ect1;
            let lost = link.stats.lost_packets + link.policed_packets();
            table.push([
                mbps(link.capacity_bytes(from, now)),
                mbps(left.delivered_bytes),
                link.backlog_bytes() as f64,
                if left.packets > 0 { left.queueing.as_millis_f64() / left.packets as f64 } else { f64::NAN },
                left.dropped_packets as f64,
                (marked - mark.marked) as f64,
                (lost - mark.lost) as f64,
            ]);
            *mark = LinkMark { marked, lost };
        }
    }

    /// Returns all columns; `time_s` is the end of each step.
    #[must_use]
    pub fn columns(&self) -> Vec<Column<'_>> {
        let mut columns = vec![Column { group: "", index: 0, name: "time_s", values: &self.time_s }];
        for (index, (_, table)) in self.flows.iter().enumerate() {
            columns.extend(table.named("flows", index, FLOW));
        }
        for (index, (_, table)) in self.links.iter().enumerate() {
            columns.extend(table.named("links", index, LINK));
        }
        columns
    }
}

fn within<'a, B>(bins: &'a [B], range: &std::ops::Range<usize>) -> &'a [B] {
    let end = range.end.min(bins.len());
    &bins[range.start.min(end)..end]
}

/// A packet that left a link: when it came to the queue, when it had left, its own transmission, whose it is, and IP bytes.
const LEFT: [&str; 5] = ["arrival_s", "departure_s", "serialisation_s", "flow", "bytes"];
/// Packets that ended at a link, by how.
const ENDED: [[&str; 2]; 3] = [["dropped_s", "dropped_flow"], ["lost_s", "lost_flow"], ["policed_s", "policed_flow"]];

/// Packets at the links since some time, as columns.
#[derive(Default)]
pub struct Packets {
    /// Logs of the links, once a result has taken theirs.
    kept: Vec<PacketLog>,
    left: Vec<Table<5>>,
    ended: Vec<[Table<2>; 3]>,
}

impl Packets {
    /// Keeps copies of the logs, before a result takes them.
    pub fn keep(&mut self, sim: &Sim) {
        self.kept = sim.links().iter().filter_map(|link| link.log.clone()).collect();
    }

    /// Returns the columns of what left the links, or ended there, from `since` on.
    pub fn since(&mut self, since: Time, sim: &Sim) -> Vec<Column<'_>> {
        let Self { kept, left, ended } = self;
        let links = sim.links();
        left.resize_with(links.len(), Table::new);
        ended.resize_with(links.len(), || std::array::from_fn(|_| Table::new()));
        let logs: Vec<&PacketLog> = if kept.is_empty() {
            links.iter().filter_map(|link| link.log.as_ref()).collect()
        } else {
            kept.iter().collect()
        };
        for ((log, left), ended) in logs.into_iter().zip(&mut *left).zip(&mut *ended) {
            left.clear();
            let first = log.delivered.partition_point(|packet| packet.departure < since);
            for packet in &log.delivered[first..] {
                left.push([
                    packet.arrival.as_secs_f64(),
                    packet.departure.as_secs_f64(),
                    packet.serialisation.as_secs_f64(),
                    f64::from(packet.flow),
                    f64::from(packet.bytes),
                ]);
            }
            for (rows, table) in [&log.dropped, &log.lost, &log.policed].into_iter().zip(ended) {
                table.clear();
                let first = rows.partition_point(|row| row.0 < since);
                rows[first..].iter().for_each(|row| table.push([row.0.as_secs_f64(), f64::from(row.1)]));
            }
        }
        let mut columns = Vec::new();
        for (index, (left, ended)) in left.iter().zip(&*ended).enumerate() {
            columns.extend(left.named("links", index, LEFT));
            for (table, names) in ended.iter().zip(ENDED) {
                columns.extend(table.named("links", index, names));
            }
        }
        columns
    }
}
