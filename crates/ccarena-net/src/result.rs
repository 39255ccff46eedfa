//! The result of a run: figures of its flows and links, in one layout for every backend.
//!
//! Plain figures serialise with serde under the names of docs/results.md. Arrays are too large for that and travel by a
//! way of the backend's choice ([`FlowResult::take_arrays`], [`LinkResult::take_arrays`]). A figure that a backend does
//! not have is `None`.

use std::collections::BTreeMap;

use ccarena_cc::{Dur, Feedback, Time};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::apps::Outcome;
use crate::impairments::{ImpairedStats, Impairment};
use crate::link::{Carried, Link, PacketLog};
use crate::queues::{Marks, Part};
use crate::scenario::{Record, Scenario};
use crate::series::{FlowBin, LinkBin};
use crate::transmissions::TransmissionLog;

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct RunResult {
    /// Length of the scenario.
    pub duration_s: f64,
    /// The scenario's seed.
    pub seed: u64,
    /// The flows, in the scenario's order.
    pub flows: Vec<FlowResult>,
    /// The links, in the scenario's order.
    pub links: Vec<LinkResult>,
    /// Punctuality of the machine; none in virtual time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineResult>,
    /// The path between two machines; none of emulated links.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathResult>,
}

impl RunResult {
    /// The result of a run of `scenario` in virtual time.
    #[must_use]
    pub fn new(scenario: &Scenario, flows: Vec<FlowResult>, links: Vec<LinkResult>) -> Self {
        Self {
            duration_s: scenario.duration.as_secs_f64(),
            seed: scenario.seed,
            flows,
            links,
            machine: None,
            path: None,
        }
    }
}

/// A result's plain figures as JSON, and the digest of all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The figures; arrays are left out.
    pub json: String,
    /// SHA-256 in hexadecimal digits: of the JSON, then of each array its place, its length and its values.
    pub digest: String,
}

impl RunResult {
    /// Returns the figures as JSON, and the digest of these and of the arrays that `record` asks for: equal wherever the
    /// same scenario runs in virtual time.
    #[must_use]
    pub fn sealed(mut self, record: &Record) -> Sealed {
        let json = serde_json::to_string(&self).unwrap_or_default();
        let mut hash = Sha256::new();
        hash.update(&json);
        for flow in &mut self.flows {
            flow.series = flow.series.take().filter(|_| record.series);
            flow.transmissions = flow.transmissions.take().filter(|_| record.transmissions);
            flow.take_arrays().iter().for_each(|placed| placed_into(&mut hash, placed));
        }
        for link in &mut self.links {
            link.series = link.series.take().filter(|_| record.series);
            link.log = link.log.take().filter(|_| record.packets || record.transmissions);
            link.take_arrays().iter().for_each(|placed| placed_into(&mut hash, placed));
        }
        let digest = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Sealed { json, digest }
    }
}

/// Takes an array into a digest.
fn placed_into(hash: &mut Sha256, (place, array): &Placed) {
    fn values<const N: usize>(hash: &mut Sha256, values: impl ExactSizeIterator<Item = [u8; N]>) {
        hash.update((values.len() as u64).to_le_bytes());
        values.for_each(|value| hash.update(value));
    }
    hash.update(place.join("."));
    match array {
        Array::U64(all) => values(hash, all.iter().map(|x| x.to_le_bytes())),
        Array::U8(all) => values(hash, all.iter().map(|x| [*x])),
        Array::U32(all) => values(hash, all.iter().map(|x| x.to_le_bytes())),
        // All that are no number have the same bits.
        Array::F64(all) => {
            values(hash, all.iter().map(|x| if x.is_nan() { f64::NAN } else { *x }.to_bits().to_le_bytes()));
        }
        Array::Rows(rows) => {
            values(hash, rows.values.iter().map(|x| if x.is_nan() { f32::NAN } else { *x }.to_bits().to_le_bytes()));
        }
    }
}

/// The path between two machines, and how well their clocks are known to agree.
#[derive(Clone, Debug, Serialize)]
pub struct PathResult {
    /// Address of the other machine.
    pub remote: String,
    /// `forward` if this machine sent, `reverse` if the other one did.
    pub direction: &'static str,
    /// Least delay of a packet from the sender to the receiver; its error is that of the clocks' offset.
    pub one_way_ms: f64,
    /// Lead of the other clock over this one after the run.
    pub clock_offset_ms: f64,
    /// Bound of the offset's error.
    pub clock_uncertainty_ms: f64,
    /// Gain of the other clock during the run, in parts per million.
    pub clock_drift_ppm: f64,
}

/// Results of one flow.
#[derive(Clone, Debug, Default, Serialize)]
pub struct FlowResult {
    /// Name in the scenario.
    pub name: String,
    /// Scheme of the flow.
    pub scheme: String,
    /// Start of its application.
    pub start_s: f64,
    /// Stop of its application: at the end of the run, if not before.
    pub stop_s: f64,
    /// Data packets sent, retransmissions included.
    pub sent_packets: u64,
    /// Number of retransmissions among these.
    pub retransmitted_packets: u64,
    /// Packets that the sender took for lost.
    pub lost_packets: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Window reductions for ECN echoes; none where the kernel does not count them.
    pub ecn_reductions: Option<u64>,
    /// Feedback of marks that its ends agreed on, if it asked for more than RFC 3168's, or its scheme needs more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<&'static str>,
    /// Statement that its scheme ran as another, for want of feedback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Payload that reached the receiver for the first time.
    pub delivered_bytes: u64,
    /// The same until its programs stopped, the time after the scenario's end included; none of others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delivered_bytes_until_stop: Option<u64>,
    /// IP bytes that reached the receiver.
    pub wire_bytes: u64,
    /// Packets that reached the receiver again.
    pub duplicate_packets: u64,
    /// Acknowledgements that told the sender of packets out of order; none where its stack does not count them.
    pub reordered: Option<u64>,
    /// Retransmissions of what the receiver had already, as its acknowledgements say; none where they do not.
    pub spurious_retransmits: Option<u64>,
    /// Recoveries that proved needless, so that the reduction of the window was undone; none where they are not counted.
    pub undone_recoveries: Option<u64>,
    /// Least RTT; none without a sample.
    pub rtt_min_ms: Option<f64>,
    /// Mean RTT; none without a sample.
    pub rtt_mean_ms: Option<f64>,
    /// Share of its time with data in which the sender's socket buffer bounded it instead of the congestion window; none where
    /// that is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sender_buffer_share: Option<f64>,
    /// The same of the receiver's buffer, by its window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receiver_buffer_share: Option<f64>,
    /// Results of its application.
    #[serde(flatten)]
    pub app: AppResult,
    /// Decisions of its learned controller.
    pub decisions: u64,
    /// Share of these on observations outside of what its policy saw in training; none if that is not known.
    pub observations_outside: Option<f64>,
    /// Share of decisions on observations that tripped its policy's guard; none without a guard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guard_trips: Option<f64>,
    /// Reason why its traffic ended early: its controller gave up, or real sockets failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Series of what reached the receiver per bin, if recorded.
    #[serde(skip)]
    pub series: Option<Vec<FlowBin>>,
    /// Packets at the ends of the flow, if recorded.
    #[serde(skip)]
    pub transmissions: Option<TransmissionLog>,
    /// The reports of its learned controller, if recorded.
    #[serde(skip)]
    pub reports: Option<Rows>,
    /// A row per period of the recorded spec: time in s, action during the period, observation, report, privileged state.
    #[serde(skip)]
    pub trajectory: Option<Rows>,
}

/// Results of an application.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AppResult {
    /// Completion times of its transfers.
    pub completion_s: Vec<f64>,
    /// Further columns by name; none of most applications.
    #[serde(rename = "application", skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<&'static str, Vec<f64>>,
}

impl From<Outcome> for AppResult {
    fn from(outcome: Outcome) -> Self {
        let completion_s = outcome.completion.iter().map(|d| d.as_secs_f64()).collect();
        Self { completion_s, columns: outcome.columns.into_iter().collect() }
    }
}

/// Results of one link.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LinkResult {
    /// Name in the scenario.
    pub name: String,
    /// Bytes that it could have carried.
    pub capacity_bytes: u64,
    /// Packets that reached it.
    pub arrived_packets: u64,
    /// IP bytes that left it.
    pub delivered_bytes: u64,
    /// Packets that left it.
    pub delivered_packets: u64,
    /// Packets that its queue dropped.
    pub dropped_packets: u64,
    /// Packets lost at random or in an outage.
    pub lost_packets: u64,
    /// Packets that its policer dropped.
    pub policed_packets: u64,
    /// Marks by its queue and its policer.
    #[serde(flatten)]
    pub marks: Marks,
    /// The queues that its discipline is made of; none of one that does not tell them apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueResult>,
    /// Packets that something befell on the wire.
    #[serde(flatten)]
    pub impaired: ImpairedStats,
    /// Capacity per bin in Mbit/s.
    #[serde(skip)]
    pub capacity_mbps: Vec<f64>,
    /// Series of its traffic per bin, if recorded.
    #[serde(skip)]
    pub series: Option<Vec<LinkBin>>,
    /// Every packet, if recorded.
    #[serde(skip)]
    pub log: Option<PacketLog>,
}

/// Results of one of the queues that a discipline is made of.
#[derive(Clone, Debug, Serialize)]
pub struct QueueResult {
    /// Name of the queue.
    pub name: &'static str,
    /// Packets that left it.
    pub delivered_packets: u64,
    /// Median of the times that they had waited, rounded up by at most 3 %; none without a packet.
    pub delay_p50_ms: Option<f64>,
    /// 99th percentile, likewise.
    pub delay_p99_ms: Option<f64>,
}

impl QueueResult {
    fn new(Part { name, delays }: &Part) -> Self {
        let count = delays.count();
        let percentile = |percent| (count > 0).then(|| delays.percentile(percent).as_millis_f64());
        Self { name, delivered_packets: count, delay_p50_ms: percentile(50), delay_p99_ms: percentile(99) }
    }
}

/// Punctuality of the machine in a real-time run.
#[derive(Clone, Debug, Serialize)]
pub struct MachineResult {
    /// Release of the running kernel.
    pub kernel: String,
    /// Lateness of the emulator.
    pub lateness: LatenessResult,
    /// Flag that it was punctual enough for the run to count.
    pub valid: bool,
    /// CPU time of the emulator.
    pub emulator_cpu_s: f64,
    /// Packets that the emulator delivered.
    pub emulator_packets: u64,
    /// Packets that the kernel did not take from it.
    pub emulator_refused_packets: u64,
    /// Packets that the devices at the links' ends dropped before the emulator took them.
    pub emulator_overrun_packets: u64,
    /// The kernel bridge's own figures, for runs on kernel TCP.
    #[serde(flatten)]
    pub bridge: Option<BridgeResult>,
}

/// Punctuality of the kernel bridge.
#[derive(Clone, Debug, Serialize)]
pub struct BridgeResult {
    /// CPU time of the bridge daemon.
    #[serde(rename = "daemon_cpu_s")]
    pub daemon_cpu_s: f64,
    /// CPU time of the BPF programs, where the kernel counts it.
    pub datapath_cpu_s: Option<f64>,
    /// Reports of sockets.
    pub reports: u64,
    /// Number of times that reports, of one socket or several, woke the daemon.
    pub wakeups: u64,
    /// Number of reports made under the kernel's fallback.
    pub fallback_reports: u64,
    /// Reports that the ring buffer had no room for.
    pub dropped_reports: u64,
    /// Time from each report to its answer.
    pub answer_latency_us: Quantiles,
    /// Time from each report to the moment that its answer was in force.
    pub enforced_latency_us: Quantiles,
}

/// Lateness of packets against the emulator's own schedule.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatenessResult {
    /// Packets.
    pub count: u64,
    /// Median.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Maximum.
    pub max_ms: f64,
    /// Largest accepted 99th percentile.
    pub bound_ms: f64,
}

/// Quantiles of a sample; none if it is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Quantiles {
    /// Size of the sample.
    pub count: u64,
    /// Median.
    pub p50: Option<u32>,
    /// 99th percentile.
    pub p99: Option<u32>,
    /// Maximum.
    pub max: Option<u32>,
}

impl Quantiles {
    /// Returns the quantiles of `samples`, which it sorts.
    #[must_use]
    pub fn of(samples: &mut [u32]) -> Self {
        samples.sort_unstable();
        let last = samples.last().copied();
        let at = |q: f64| samples.get((samples.len() as f64 * q) as usize).copied().or(last);
        Self { count: samples.len() as u64, p50: at(0.5), p99: at(0.99), max: last }
    }
}

/// Rows of equal length, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// All rows.
    pub values: Vec<f32>,
    /// Values per row.
    pub width: usize,
}

impl Rows {
    /// Number of rows and values per row.
    #[must_use]
    pub fn shape(&self) -> [usize; 2] {
        [self.values.len() / self.width.max(1), self.width]
    }
}

/// An array of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Amounts and times.
    U64(Vec<u64>),
    /// Flags and kinds.
    U8(Vec<u8>),
    /// Small numbers.
    U32(Vec<u32>),
    /// Figures.
    F64(Vec<f64>),
    /// Reports.
    Rows(Rows),
}

/// An array and its place: names of keys, from the outermost in.
pub type Placed = (&'static [&'static str], Array);

fn u64s<T>(rows: &[T], of: impl Fn(&T) -> u64) -> Array {
    Array::U64(rows.iter().map(of).collect())
}

fn u32s<T>(rows: &[T], of: impl Fn(&T) -> u32) -> Array {
    Array::U32(rows.iter().map(of).collect())
}

fn u8s<T>(rows: &[T], of: impl Fn(&T) -> u8) -> Array {
    Array::U8(rows.iter().map(of).collect())
}

impl FlowResult {
    /// Flow number `index` of `scenario`, of which nothing is known but what the scenario says.
    #[must_use]
    pub fn new(scenario: &Scenario, index: usize) -> Self {
        let spec = &scenario.flows[index];
        let (needed, agreed) = (spec.needed_feedback(), spec.feedback());
        Self {
            feedback: (needed.max(spec.ecn) > Feedback::Classic).then(|| agreed.name()),
            fallback: spec.fallback(),
            name: spec.name.clone(),
            scheme: spec.scheme.clone(),
            start_s: spec.start.as_secs_f64(),
            stop_s: spec.stop.map_or(scenario.duration.as_secs_f64(), Time::as_secs_f64),
            ..Self::default()
        }
    }

    /// Takes the arrays out.
    pub fn take_arrays(&mut self) -> Vec<Placed> {
        let mut arrays: Vec<Placed> = Vec::new();
        if let Some(bins) = self.series.take() {
            arrays.push((&["series", "wire_bytes"], u64s(&bins, |b| b.wire_bytes)));
            arrays.push((&["series", "payload_bytes"], u64s(&bins, |b| b.payload_bytes)));
        }
        if let Some(TransmissionLog { packets, acks, blocks, .. }) = self.transmissions.take() {
            arrays.push((&["transmissions", "sent_ns"], u64s(&packets, |p| p.sent.0)));
            arrays.push((&["transmissions", "arrived_ns"], u64s(&packets, |p| p.arrived.0)));
            arrays.push((&["transmissions", "queueing_ns"], u64s(&packets, |p| p.queueing.0)));
            arrays.push((&["transmissions", "sequence"], u32s(&packets, |p| p.sequence)));
            arrays.push((&["transmissions", "bytes"], u32s(&packets, |p| p.bytes)));
            arrays.push((&["transmissions", "fate"], u8s(&packets, |p| p.fate as u8)));
            arrays.push((&["transmissions", "flags"], u8s(&packets, |p| p.flags)));
            arrays.push((&["acks", "time_ns"], u64s(&acks, |a| a.time.0)));
            arrays.push((&["acks", "echo_ns"], u64s(&acks, |a| a.echo.0)));
            arrays.push((&["acks", "cumulative"], u32s(&acks, |a| a.cumulative)));
            arrays.push((&["acks", "sacked"], u8s(&acks, |a| a.sacked)));
            arrays.push((&["acks", "flags"], u8s(&acks, |a| a.flags)));
            arrays.push((&["acks", "block_starts"], u32s(&blocks, |b| b.0)));
            arrays.push((&["acks", "block_ends"], u32s(&blocks, |b| b.1)));
        }
        if let Some(rows) = self.reports.take() {
            arrays.push((&["reports"], Array::Rows(rows)));
        }
        if let Some(rows) = self.trajectory.take() {
            arrays.push((&["trajectory"], Array::Rows(rows)));
        }
        arrays
    }
}

impl LinkResult {
    /// Link number `index` of `scenario`, whose packet log is taken. Packets that left after the end of the scenario are
    /// not in it.
    #[must_use]
    pub fn new<T: Carried>(scenario: &Scenario, index: usize, link: &mut Link<T>) -> Self {
        let (bin, end) = (scenario.record.bin.max(Dur(1)), Time(scenario.duration.0));
        let mbps = |bytes: u64| bytes as f64 * 8.0 / bin.as_secs_f64() / 1e6;
        let capacity = link.capacity_of_bins(bin, scenario.duration.0.div_ceil(bin.0));
        let capacity_mbps = capacity.into_iter().map(mbps).collect();
        let log = link.log.take().map(|mut log| {
            log.delivered.retain(|packet| packet.departure <= end);
            log.dropped.retain(|drop| drop.0 <= end);
            log.lost.retain(|loss| loss.0 <= end);
            log.policed.retain(|drop| drop.0 <= end);
            log.impaired.retain(|packet| packet.at <= end);
            log
        });
        Self {
            name: scenario.links[index].name.clone(),
            capacity_bytes: link.capacity_bytes(Time::ZERO, end),
            arrived_packets: link.stats.arrived_packets,
            delivered_bytes: link.stats.delivered_bytes,
            delivered_packets: link.stats.delivered_packets,
            dropped_packets: link.stats.dropped_packets,
            lost_packets: link.stats.lost_packets,
            policed_packets: link.policed_packets(),
            marks: link.marks(),
            queues: link.queue_parts().iter().map(QueueResult::new).collect(),
            impaired: link.impaired(),
            capacity_mbps,
            series: link.series.take().map(|series| series.bins),
            log,
        }
    }

    /// Takes the arrays out.
    pub fn take_arrays(&mut self) -> Vec<Placed> {
        let mut arrays: Vec<Placed> = vec![(&["capacity_mbps"], Array::F64(std::mem::take(&mut self.capacity_mbps)))];
        if let Some(bins) = self.series.take() {
            let queueing_ms =
                |b: &LinkBin| if b.packets > 0 { b.queueing.as_millis_f64() / b.packets as f64 } else { f64::NAN };
            arrays.push((&["series", "delivered_bytes"], u64s(&bins, |b| b.delivered_bytes)));
            arrays.push((&["series", "queueing_ms"], Array::F64(bins.iter().map(queueing_ms).collect())));
            arrays.push((&["series", "dropped_packets"], u64s(&bins, |b| b.dropped_packets)));
        }
        if let Some(PacketLog { delivered: rows, dropped, lost, policed, impaired }) = self.log.take() {
            arrays.push((&["log", "arrival_ns"], u64s(&rows, |r| r.arrival.0)));
            arrays.push((&["log", "departure_ns"], u64s(&rows, |r| r.departure.0)));
            arrays.push((&["log", "serialisation_ns"], u32s(&rows, |r| r.serialisation.0 as u32)));
            arrays.push((&["log", "flow"], u32s(&rows, |r| r.flow)));
            arrays.push((&["log", "bytes"], u32s(&rows, |r| r.bytes)));
            arrays.push((&["drops", "time_ns"], u64s(&dropped, |d| d.0.0)));
            arrays.push((&["drops", "flow"], u32s(&dropped, |d| d.1)));
            arrays.push((&["losses", "time_ns"], u64s(&lost, |l| l.0.0)));
            arrays.push((&["losses", "flow"], u32s(&lost, |l| l.1)));
            arrays.push((&["policed", "time_ns"], u64s(&policed, |p| p.0.0)));
            arrays.push((&["policed", "flow"], u32s(&policed, |p| p.1)));
            for kind in Impairment::ALL {
                let (times, flows) = kind.arrays();
                let rows: Vec<_> = impaired.iter().filter(|packet| packet.kind == kind).collect();
                arrays.push((times, u64s(&rows, |i| i.at.0)));
                arrays.push((flows, u32s(&rows, |i| i.flow)));
            }
        }
        arrays
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_sample() {
        assert_eq!(Quantiles::of(&mut []), Quantiles::default());
        let one = Quantiles::of(&mut [7]);
        assert_eq!((one.count, one.p50, one.p99, one.max), (1, Some(7), Some(7), Some(7)));
        let mut many: Vec<u32> = (0..200).rev().collect();
        let many = Quantiles::of(&mut many);
        assert_eq!((many.count, many.p50, many.p99, many.max), (200, Some(100), Some(198), Some(199)));
    }

    #[test]
    fn arrays_are_taken_and_the_rest_serialises_under_its_names() {
        let mut flow = FlowResult {
            series: Some(vec![FlowBin { wire_bytes: 3, payload_bytes: 2 }]),
            reports: Some(Rows { values: vec![1.0; 6], width: 3 }),
            ..FlowResult::default()
        };
        let arrays = flow.take_arrays();
        let places: Vec<String> = arrays.iter().map(|(place, _)| place.join(".")).collect();
        assert_eq!(places, ["series.wire_bytes", "series.payload_bytes", "reports"]);
        assert_eq!(arrays[0].1, Array::U64(vec![3]));
        assert!(matches!(&arrays[2].1, Array::Rows(rows) if rows.shape() == [2, 3]));
        assert!(flow.take_arrays().is_empty());
        let document = serde_json::to_value(&flow).unwrap();
        let mut names: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names[..4], ["completion_s", "decisions", "delivered_bytes", "duplicate_packets"]);
        assert!(document["rtt_min_ms"].is_null() && document.get("error").is_none());
    }
}
