//! The record of a run, laid out as that of the simulator (docs/results.md).

use ccarena_cc::{Dur, Time};
use ccarena_link::{Datagram, Lateness};
use ccarena_net::Scenario;
use ccarena_net::link::{Link, PacketLog};
use ccarena_net::scenario::Flow;
use ccarena_net::series::LinkBin;
use serde_json::{Value, json};

use super::plan::{Home, Plan};
use crate::agent::Totals;
use crate::traffic::{HEADER_BYTES, Received, Sent, nothing};
use crate::wire::{Array, Arrays};

/// What became of one flow.
pub struct FlowOutcome<'a> {
    /// What it was to be.
    pub spec: &'a Flow,
    /// How it ran.
    pub plan: &'a Plan,
    /// At its sender.
    pub sent: Sent,
    /// At its receiver.
    pub received: Received,
    /// At its controller, if that was in user space.
    pub totals: Totals,
}

/// Flow number `index`. What the kernel does not count is null.
pub fn flow(scenario: &Scenario, index: usize, outcome: FlowOutcome<'_>, arrays: &mut Arrays) -> Value {
    let FlowOutcome { spec, plan, sent, received, totals } = outcome;
    let info = sent.info.unwrap_or_else(nothing);
    let bridged = plan.home == Home::Bridge;
    let ms = |d: Dur| d.as_millis_f64();
    let segments = received.info.map_or(0, |i| u64::from(i.tcpi_data_segs_in));
    let duplicates = u64::from(info.tcpi_dsack_dups);
    let mean = if totals.rtt_count > 0 { Some(totals.rtt_sum / totals.rtt_count) } else { sent.rtt_mean };
    let seen = info.tcpi_min_rtt > 0 && info.tcpi_min_rtt != u32::MAX && mean.is_some();
    // TCP_INFO has the lost packets of this moment alone.
    let lost = if bridged { totals.lost_packets } else { u64::from(info.tcpi_total_retrans) };
    let reductions = match (bridged, spec.ecn) {
        (true, _) => json!(totals.ecn_reductions),
        (false, false) => json!(0),
        (false, true) => Value::Null,
    };
    let mut out = json!({
        "name": spec.name,
        "scheme": spec.scheme,
        "start_s": spec.start.as_secs_f64(),
        "stop_s": spec.stop.map_or(scenario.duration.as_secs_f64(), Time::as_secs_f64),
        "sent_packets": info.tcpi_data_segs_out,
        "retransmitted_packets": info.tcpi_total_retrans,
        "lost_packets": lost,
        "timeouts": info.tcpi_total_rto,
        "ecn_reductions": reductions,
        "delivered_bytes": received.payload_bytes,
        "wire_bytes": received.payload_bytes + duplicates * u64::from(info.tcpi_snd_mss) + segments * HEADER_BYTES,
        "duplicate_packets": duplicates,
        "rtt_min_ms": seen.then(|| ms(Dur::from_micros(u64::from(info.tcpi_min_rtt)))),
        "rtt_mean_ms": mean.filter(|_| seen).map(ms),
        "completion_s": sent.completion.iter().map(|d| d.as_secs_f64()).collect::<Vec<_>>(),
        "decisions": totals.decisions,
    });
    if let Some(series) = received.series {
        let column = |of: fn(&ccarena_net::series::FlowBin) -> u64| Array::U64(series.bins.iter().map(of).collect());
        out["series"] = json!({
            "wire_bytes": arrays.put(format!("flows.{index}.series.wire_bytes"), column(|b| b.wire_bytes)),
            "payload_bytes": arrays.put(format!("flows.{index}.series.payload_bytes"), column(|b| b.payload_bytes)),
        });
    }
    if let Some(learned) = plan.learned.filter(|_| scenario.record.reports) {
        out["reports"] = arrays.put_rows(format!("flows.{index}.reports"), totals.reports, learned.report.len());
    }
    if let Some(error) = sent.error {
        out["error"] = json!(error);
    }
    out
}

/// Link number `index`.
pub fn link(scenario: &Scenario, index: usize, link: &mut Link<Datagram>, arrays: &mut Arrays) -> Value {
    let stats = link.stats;
    let (bin, end) = (scenario.record.bin.max(Dur(1)), Time(scenario.duration.0));
    let capacity = (0..scenario.duration.0.div_ceil(bin.0)).map(|k| {
        let (from, to) = (Time(k * bin.0), Time((k + 1) * bin.0));
        link.capacity_bytes(from, to) as f64 * 8.0 / bin.as_secs_f64() / 1e6
    });
    let mut put = |name: &str, array| arrays.put(format!("links.{index}.{name}"), array);
    let mut out = json!({
        "name": scenario.links[index].name,
        "capacity_bytes": link.capacity_bytes(Time::ZERO, end),
        "arrived_packets": stats.arrived_packets,
        "delivered_bytes": stats.delivered_bytes,
        "delivered_packets": stats.delivered_packets,
        "dropped_packets": stats.dropped_packets,
        "lost_packets": stats.lost_packets,
        "capacity_mbps": put("capacity_mbps", Array::F64(capacity.collect())),
    });
    if let Some(series) = &link.series {
        let bins = &series.bins;
        let mean = |b: &LinkBin| if b.packets > 0 { b.queueing.as_millis_f64() / b.packets as f64 } else { f64::NAN };
        out["series"] = json!({
            "delivered_bytes":
                put("series.delivered_bytes", Array::U64(bins.iter().map(|b| b.delivered_bytes).collect())),
            "queueing_ms": put("series.queueing_ms", Array::F64(bins.iter().map(mean).collect())),
            "dropped_packets":
                put("series.dropped_packets", Array::U64(bins.iter().map(|b| b.dropped_packets).collect())),
        });
    }
    if let Some(PacketLog { delivered: mut rows, mut dropped }) = link.log.take() {
        // Links serve until they are told that the run is over.
        rows.retain(|r| r.departure <= end);
        dropped.retain(|d| d.0 <= end);
        out["log"] = json!({
            "arrival_ns": put("log.arrival_ns", Array::U64(rows.iter().map(|r| r.arrival.0).collect())),
            "departure_ns": put("log.departure_ns", Array::U64(rows.iter().map(|r| r.departure.0).collect())),
            "serialisation_ns":
                put("log.serialisation_ns", Array::U32(rows.iter().map(|r| r.serialisation.0 as u32).collect())),
            "flow": put("log.flow", Array::U32(rows.iter().map(|r| r.flow).collect())),
            "bytes": put("log.bytes", Array::U32(rows.iter().map(|r| r.bytes).collect())),
        });
        out["drops"] = json!({
            "time_ns": put("drops.time_ns", Array::U64(dropped.iter().map(|d| d.0.0).collect())),
            "flow": put("drops.flow", Array::U32(dropped.iter().map(|d| d.1).collect())),
        });
    }
    out
}

/// The emulator's check of itself.
pub fn lateness(lateness: &Lateness) -> Value {
    json!({
        "count": lateness.count,
        "p50_ms": lateness.p50.as_millis_f64(),
        "p99_ms": lateness.p99.as_millis_f64(),
        "max_ms": lateness.max.as_millis_f64(),
        "bound_ms": lateness.bound.as_millis_f64(),
    })
}

/// Quantiles of latencies in microseconds; nothing if there are none.
pub fn quantiles(samples: &mut [u32]) -> Value {
    samples.sort_unstable();
    let at = |q: f64| samples.get((samples.len() as f64 * q) as usize).or(samples.last());
    json!({"count": samples.len(), "p50": at(0.5), "p99": at(0.99), "max": samples.last()})
}
