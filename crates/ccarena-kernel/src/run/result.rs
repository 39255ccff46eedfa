//! The result of a run on kernel TCP.

use ccarena_cc::{Dur, Feedback};
use ccarena_link::tcp::{Sent, nothing};
use ccarena_net::Scenario;
use ccarena_net::apps;
use ccarena_net::result::{FlowResult, Rows};

use super::plan::{Plan, Runtime};
use crate::daemon::Totals;
use crate::traffic::{HEADER_BYTES, Received};

/// Results of one flow.
pub struct FlowOutcome<'a> {
    /// Plan of the flow.
    pub plan: &'a Plan,
    /// Results at its sender.
    pub sent: Sent,
    /// Results at its receiver.
    pub received: Received,
    /// Totals of its controller, if that was in user space.
    pub totals: Totals,
}

/// Flow number `index`.
pub fn flow(scenario: &Scenario, index: usize, outcome: FlowOutcome<'_>) -> FlowResult {
    let FlowOutcome { plan, sent, received, totals } = outcome;
    let info = sent.info.unwrap_or_else(nothing);
    let bridged = plan.runtime == Runtime::Bridge;
    let ms = |d: Dur| d.as_millis_f64();
    let segments = received.info.map_or(0, |i| u64::from(i.tcpi_data_segs_in));
    let duplicates = u64::from(info.tcpi_dsack_dups);
    // iperf3 passes on a part of TCP_INFO, which has no RTT and nothing of reordering.
    let whole = info.tcpi_rtt > 0;
    let mean = if totals.rtt_count > 0 { Some(totals.rtt_sum / totals.rtt_count) } else { sent.rtt_mean };
    let seen = info.tcpi_min_rtt > 0 && info.tcpi_min_rtt != u32::MAX && mean.is_some();
    let share = |limited_us: u64| (info.tcpi_busy_time > 0).then(|| limited_us as f64 / info.tcpi_busy_time as f64);
    FlowResult {
        sent_packets: u64::from(info.tcpi_data_segs_out),
        retransmitted_packets: u64::from(info.tcpi_total_retrans),
        // TCP_INFO has the lost packets of this moment alone.
        lost_packets: if bridged { totals.lost_packets } else { u64::from(info.tcpi_total_retrans) },
        timeouts: u64::from(info.tcpi_total_rto),
        ecn_reductions: match (bridged, scenario.flows[index].ecn) {
            (true, _) => Some(totals.ecn_reductions),
            (false, Feedback::None) => Some(0),
            (false, _) => None,
        },
        delivered_bytes: received.payload_bytes,
        wire_bytes: received.payload_bytes + duplicates * u64::from(info.tcpi_snd_mss) + segments * HEADER_BYTES,
        duplicate_packets: duplicates,
        reordered: whole.then_some(u64::from(info.tcpi_reord_seen)),
        spurious_retransmits: whole.then_some(duplicates.min(u64::from(info.tcpi_total_retrans))),
        undone_recoveries: bridged.then_some(totals.undone_recoveries),
        rtt_min_ms: seen.then(|| ms(Dur::from_micros(u64::from(info.tcpi_min_rtt)))),
        rtt_mean_ms: mean.filter(|_| seen).map(ms),
        sender_buffer_share: share(info.tcpi_sndbuf_limited),
        receiver_buffer_share: share(info.tcpi_rwnd_limited),
        app: sent
            .app
            .with_arrivals(scenario.flows[index].start, |_, end| apps::reached(&received.progress, end))
            .into(),
        decisions: totals.decisions,
        observations_outside: totals.outside.share(),
        guard_trips: totals.outside.tripped_share(),
        error: totals.failure.map(|reason| scenario.gave_up(index, &reason)).or(sent.error),
        series: received.series.map(|series| series.bins),
        reports: plan
            .learned
            .as_ref()
            .filter(|_| scenario.record.reports)
            .map(|learned| Rows { values: totals.reports, width: learned.report.len() }),
        ..FlowResult::new(scenario, index)
    }
}
