//! The result of a simulated run.

use ccarena_net::Scenario;
use ccarena_net::result::{FlowResult, LinkResult, Rows, RunResult};

use crate::sim::Sim;

impl Sim {
    /// The result of this run of `scenario`. Packet logs, series and reports are taken for it.
    #[must_use]
    pub fn take_result(&mut self, scenario: &Scenario) -> RunResult {
        self.settle_fates();
        let wire_bytes = self.wire_bytes();
        let flows = (0..scenario.flows.len()).map(|i| self.flow_record(scenario, i, wire_bytes[i])).collect();
        let links = self.links.iter_mut().enumerate().map(|(index, link)| LinkResult::new(scenario, index, link));
        let links = links.collect();
        RunResult::new(scenario, flows, links)
    }

    /// Writes down which transmissions were dropped or lost.
    fn settle_fates(&mut self) {
        let gone = self.links.iter_mut().filter_map(|link| link.gone.take()).flatten();
        for (packet, fate) in gone.filter(|(packet, _)| !packet.is_ack) {
            let log = self.flows[packet.flow as usize].log.as_mut();
            if let Some(transmission) = log.and_then(|log| log.find(packet.sent, packet.seq)) {
                transmission.fate = fate;
            }
        }
    }

    fn flow_record(&mut self, scenario: &Scenario, index: usize, wire_bytes: u64) -> FlowResult {
        let width = self.interface(index).map_or(0, |interface| interface.report.len());
        let flow = &mut self.flows[index];
        let stats = flow.sender.stats;
        let seen = stats.rtt_count > 0;
        let recorder = flow.far_end.recorder.as_deref_mut();
        let (series, progress) = recorder.map_or((None, None), |r| (r.series.take(), r.progress.as_deref()));
        let app = flow.sender.app.outcome_with(progress.unwrap_or_default()).into();
        let error = flow.sender.controller().failure().map(|reason| scenario.gave_up(index, reason));
        FlowResult {
            sent_packets: stats.sent,
            retransmitted_packets: stats.retransmitted,
            lost_packets: stats.lost,
            timeouts: stats.timeouts,
            ecn_reductions: Some(stats.ecn_reductions),
            delivered_bytes: flow.receiver().goodput_bytes,
            wire_bytes,
            duplicate_packets: flow.receiver().duplicates,
            reordered: Some(u64::from(flow.sender.reordering().seen())),
            spurious_retransmits: Some(u64::from(flow.sender.reordering().duplicates()).min(stats.retransmitted)),
            undone_recoveries: Some(flow.sender.undone()),
            rtt_min_ms: seen.then(|| flow.sender.min_rtt().as_millis_f64()),
            rtt_mean_ms: seen.then(|| stats.rtt_sum.as_millis_f64() / stats.rtt_count as f64),
            error,
            app,
            decisions: flow.decisions,
            observations_outside: flow.outside.share(),
            guard_trips: flow.outside.tripped_share(),
            series: series.map(|series| series.bins),
            transmissions: flow.log.take().map(|log| *log),
            reports: flow.reports.take().map(|values| Rows { values, width }),
            trajectory: flow.trajectory.take().map(|trajectory| trajectory.finish()),
            ..FlowResult::new(scenario, index)
        }
    }
}
