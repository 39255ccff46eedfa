//! Report of a flow's sender, which travels to the machine that asked for the run.

use ccarena_cc::packet_flow::Counts;
use ccarena_cc::{Dur, Outside};
use ccarena_link::tcp;
use ccarena_net::Scenario;
use ccarena_net::apps::{Outcome, Source};
use serde::{Deserialize, Serialize};

use crate::run::sender::Sent;
use crate::steering::Totals;

/// Results of a flow at its sender. Floating-point numbers are given by their bits, since JSON has no NaN.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Report {
    completion_ns: Vec<u64>,
    columns: Vec<(String, Vec<u64>)>,
    ends: Vec<u64>,
    error: Option<String>,
    failure: Option<String>,
    sent_packets: u64,
    lost_packets: u64,
    timeouts: u64,
    ecn_reductions: u64,
    undone_recoveries: u64,
    rtt_sum_ns: u64,
    rtt_count: u64,
    rtt_min_ns: Option<u64>,
    decisions: u64,
    /// Counts of [`Outside`] in their order.
    outside: [u64; 4],
    reports: Vec<u32>,
    tcp: Option<TcpCounts>,
}

/// Counts of a sender of the kernel's TCP that one over QUIC does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpCounts {
    /// Payload of a full segment.
    pub segment_bytes: u32,
    /// Times at which segments arrived out of order.
    pub reordered: u32,
    /// Segments that the receiver had already (D-SACK).
    pub duplicates: u32,
}

impl Report {
    /// Returns the report of a sender and its controller.
    #[must_use]
    pub fn new(sent: Sent, totals: Totals) -> Self {
        let Totals { counts, decisions, outside, reports, failure, .. } = totals;
        let columns = sent.app.columns.into_iter();
        Self {
            completion_ns: sent.app.completion.iter().map(|time| time.0).collect(),
            columns: columns
                .map(|(name, values)| (name.into(), values.into_iter().map(f64::to_bits).collect()))
                .collect(),
            ends: sent.app.ends,
            error: sent.error,
            failure,
            sent_packets: counts.sent_packets,
            lost_packets: counts.lost_packets,
            timeouts: counts.timeouts,
            ecn_reductions: counts.ecn_reductions,
            undone_recoveries: counts.undone_recoveries,
            rtt_sum_ns: counts.rtt_sum.0,
            rtt_count: counts.rtt_count,
            rtt_min_ns: counts.rtt_min.map(|rtt| rtt.0),
            decisions,
            outside: [outside.decisions, outside.outside, outside.guarded, outside.tripped],
            reports: reports.into_iter().map(f32::to_bits).collect(),
            tcp: None,
        }
    }

    /// Returns the report of a sender of the kernel's TCP.
    #[must_use]
    pub fn of_tcp(sent: tcp::Sent) -> Self {
        let info = sent.info.unwrap_or_else(tcp::nothing);
        let rtt_min = (1..u32::MAX).contains(&info.tcpi_min_rtt).then(|| Dur::from_micros(info.tcpi_min_rtt.into()));
        let counts = Counts {
            sent_packets: info.tcpi_data_segs_out.into(),
            // TCP_INFO has the lost packets of this moment alone.
            lost_packets: info.tcpi_total_retrans.into(),
            timeouts: info.tcpi_total_rto.into(),
            rtt_min,
            rtt_sum: sent.rtt_mean.unwrap_or_default(),
            rtt_count: sent.rtt_mean.is_some().into(),
            ..Counts::default()
        };
        let tcp = TcpCounts {
            segment_bytes: info.tcpi_snd_mss,
            reordered: info.tcpi_reord_seen,
            duplicates: info.tcpi_dsack_dups,
        };
        let sent = Sent { app: sent.app, error: sent.error };
        Self { tcp: Some(tcp), ..Self::new(sent, Totals { counts, ..Totals::default() }) }
    }

    /// Returns the report of a flow of the kernel's TCP that has no connection, or whose receiver lost it.
    #[must_use]
    pub fn failed(self, error: String) -> Self {
        Self { error: self.error.or(Some(error)), tcp: self.tcp.or_else(|| Some(TcpCounts::default())), ..self }
    }

    /// Counts of the kernel's TCP; none of a flow over QUIC.
    #[must_use]
    pub fn tcp(&self) -> Option<TcpCounts> {
        self.tcp
    }

    /// Least RTT.
    #[must_use]
    pub fn rtt_min(&self) -> Option<Dur> {
        self.rtt_min_ns.map(Dur)
    }

    /// Returns the report as bytes.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the report of a flow that joined its run; the one of a flow that did not is empty.
    ///
    /// # Errors
    /// If the bytes are no report.
    pub fn read(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        if bytes.is_empty() { Ok(Self::default()) } else { serde_json::from_slice(bytes) }
    }

    /// Returns the results of the sender of flow number `index` and of its controller, whose reports have rows of `width`.
    #[must_use]
    pub fn parts(self, scenario: &Scenario, index: usize, width: usize) -> (Sent, Totals) {
        let names = Source::new(&scenario.flows[index].app, &scenario.start(index)).outcome().columns;
        let named = |(given, values): (String, Vec<u64>)| {
            let (name, _) = names.iter().find(|(name, _)| *name == given)?;
            Some((*name, values.into_iter().map(f64::from_bits).collect()))
        };
        let app = Outcome {
            completion: self.completion_ns.into_iter().map(Dur).collect(),
            columns: self.columns.into_iter().filter_map(named).collect(),
            ends: self.ends,
        };
        let counts = Counts {
            sent_packets: self.sent_packets,
            lost_packets: self.lost_packets,
            timeouts: self.timeouts,
            ecn_reductions: self.ecn_reductions,
            undone_recoveries: self.undone_recoveries,
            rtt_min: self.rtt_min_ns.map(Dur),
            rtt_sum: Dur(self.rtt_sum_ns),
            rtt_count: self.rtt_count,
            ..Counts::default()
        };
        let [decisions, outside, guarded, tripped] = self.outside;
        let mut reports: Vec<f32> = self.reports.into_iter().map(f32::from_bits).collect();
        // Whole rows alone.
        reports.truncate(reports.len() - reports.len() % width.max(1));
        let totals = Totals {
            counts,
            decisions: self.decisions,
            outside: Outside { decisions, outside, guarded, tripped },
            reports,
            failure: self.failure,
            ..Totals::default()
        };
        (Sent { app, error: self.error }, totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn a_report_comes_back_whole() {
        let scenario = json!({
            "links": [{"service": {"type": "constant", "rate_mbps": 1}}],
            "flows": [{"scheme": "cubic", "app": {"type": "request_response", "sizes": 5, "think_s": 1}}],
        });
        let scenario = Scenario::from_json(&scenario).unwrap();
        let app =
            Outcome { completion: vec![Dur(5), Dur(7)], columns: vec![("size_bytes", vec![1.5, -1.0])], ends: vec![3] };
        let sent = Sent { app, error: Some("gone".into()) };
        let totals = Totals {
            counts: Counts { sent_packets: 9, rtt_min: Some(Dur(4)), rtt_count: 2, ..Counts::default() },
            decisions: 3,
            outside: Outside { decisions: 4, outside: 1, guarded: 2, tripped: 2 },
            reports: vec![1.0, f32::INFINITY],
            ..Totals::default()
        };
        let bytes = Report::new(sent.clone(), totals.clone()).write();
        let (sent_back, totals_back) = Report::read(&bytes).unwrap().parts(&scenario, 0, 2);
        assert_eq!((sent_back.app, sent_back.error, totals_back), (sent.app, sent.error, totals));
        assert!(Report::read(&bytes).unwrap().parts(&scenario, 0, 4).1.reports.is_empty());
        assert_eq!(Report::read(b"").unwrap(), Report::default());
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Report::read(&bytes);
        }
    }
}
