//! A log of a connection's congestion control that qvis draws: qlog 0.3 in JSON text sequences
//! (draft-ietf-quic-qlog-main-schema-04 §6.2, RFC 7464).
//!
//! The events are those of which qvis draws its congestion graph: packets sent, acknowledgements received, packets lost,
//! and what recovery and the controller make of it.

use std::io::{self, Write};

use ccarena_cc::{Dur, Time};
use serde_json::{Value, json};

use crate::metrics::Metrics;

/// Log in qlog's format.
pub struct Qlog {
    out: Box<dyn Write + Send>,
    last: Option<Metrics>,
    failed: bool,
}

impl Qlog {
    /// A log on `out`, of a connection called `title`, whose vantage point is `side` (`client` or `server`). Time zero is
    /// `reference_ms` after 1970.
    ///
    /// # Errors
    /// If `out` cannot be written.
    pub fn new(mut out: Box<dyn Write + Send>, title: &str, side: &str, reference_ms: u64) -> io::Result<Self> {
        let header = json!({
            "qlog_version": "0.3",
            "qlog_format": "JSON-SEQ",
            "title": title,
            "trace": {
                "vantage_point": {"type": side},
                "common_fields": {
                    "protocol_type": ["QUIC"],
                    "time_format": "relative",
                    "reference_time": reference_ms,
                },
            },
        });
        writeln!(out, "\u{1e}{header}")?;
        Ok(Self { out, last: None, failed: false })
    }

    /// Packet `number` of `bytes` has left.
    pub fn sent(&mut self, now: Time, number: u64, bytes: u64) {
        let data = json!({
            "header": {"packet_type": "1RTT", "packet_number": number},
            "raw": {"length": bytes},
        });
        self.event(now, "transport:packet_sent", &data);
    }

    /// Acknowledgements of `acked` have come, and `lost` count as lost.
    pub fn heard(&mut self, now: Time, acked: &[u64], lost: &[u64]) {
        if !acked.is_empty() {
            let data = json!({
                "header": {"packet_type": "1RTT"},
                "frames": [{"frame_type": "ack", "acked_ranges": ranges(acked)}],
            });
            self.event(now, "transport:packet_received", &data);
        }
        for number in lost {
            let data = json!({"header": {"packet_type": "1RTT", "packet_number": number}});
            self.event(now, "recovery:packet_lost", &data);
        }
    }

    /// The connection stands so; what has not changed is left out.
    pub fn metrics(&mut self, now: Time, metrics: &Metrics) {
        let ms = |d: Dur| json!(d.as_millis_f64());
        let (last, s) = (self.last.replace(*metrics), metrics);
        let all = |s: &Metrics| {
            [
                ("congestion_window", json!(s.window)),
                ("bytes_in_flight", json!(s.in_flight)),
                ("ssthresh", s.threshold.map_or(Value::Null, |t| json!(t))),
                ("pacing_rate", s.pacing.map_or(Value::Null, |r| json!(r.0))),
                ("smoothed_rtt", ms(s.srtt)),
                ("latest_rtt", ms(s.rtt_latest)),
                ("min_rtt", ms(s.rtt_min)),
            ]
        };
        let old = last.as_ref().map(all);
        let mut data = serde_json::Map::new();
        for (index, (name, value)) in all(s).into_iter().enumerate() {
            if !value.is_null() && old.as_ref().is_none_or(|old| old[index].1 != value) {
                data.insert(name.into(), value);
            }
        }
        if !data.is_empty() {
            self.event(now, "recovery:metrics_updated", &Value::Object(data));
        }
    }

    /// Writes an event. After a failure nothing more is written: a full disk must not end a transfer.
    fn event(&mut self, now: Time, name: &str, data: &Value) {
        if !self.failed {
            let event = json!({"time": now.0 as f64 / 1e6, "name": name, "data": data});
            self.failed = writeln!(self.out, "\u{1e}{event}").is_err();
        }
    }
}

impl Drop for Qlog {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.out.flush();
    }
}

/// `numbers`, in any order, as inclusive ranges.
fn ranges(numbers: &[u64]) -> Vec<[u64; 2]> {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let mut ranges: Vec<[u64; 2]> = Vec::new();
    for number in sorted {
        match ranges.last_mut() {
            Some(range) if range[1] + 1 >= number => range[1] = number,
            _ => ranges.push([number, number]),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Fields by their path, as draft-ietf-quic-qlog-main-schema-04 (§3, §6.2) and draft-ietf-quic-qlog-quic-events-03 (§5, §6)
    /// define them: those that a record has to have, and the others that it may have.
    const SCHEMA: [(&str, &[&str], &[&str]); 5] = [
        ("", &["qlog_version", "qlog_format", "trace"], &["title", "description", "summary"]),
        ("transport:packet_sent", &["header"], &["frames", "raw", "datagram_id", "trigger", "is_coalesced"]),
        ("transport:packet_received", &["header"], &["frames", "raw", "datagram_id", "trigger", "is_coalesced"]),
        ("recovery:packet_lost", &[], &["header", "frames", "is_mtu_probe_packet", "trigger"]),
        (
            "recovery:metrics_updated",
            &[],
            &[
                "min_rtt",
                "smoothed_rtt",
                "latest_rtt",
                "rtt_variance",
                "pto_count",
                "congestion_window",
                "bytes_in_flight",
                "ssthresh",
                "packets_in_flight",
                "pacing_rate",
            ],
        ),
    ];

    fn has_fields(value: &Value, required: &[&str], optional: &[&str]) {
        let fields: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        assert!(required.iter().all(|field| fields.contains(field)), "{value}");
        assert!(fields.iter().all(|field| required.contains(field) || optional.contains(field)), "{value}");
    }

    /// Asserts that a record conforms to the schema, with the fields that qvis needs (its
    /// `CongestionGraphD3Renderer.ts`).
    fn conforms(record: &Value) {
        let name = record["name"].as_str().unwrap_or_default();
        let (_, required, optional) = SCHEMA.iter().find(|(known, ..)| *known == name).unwrap();
        if name.is_empty() {
            has_fields(record, required, optional);
            assert_eq!((&record["qlog_version"], &record["qlog_format"]), (&json!("0.3"), &json!("JSON-SEQ")));
            let trace = &record["trace"];
            has_fields(trace, &["vantage_point"], &["common_fields", "configuration", "title", "description"]);
            has_fields(&trace["vantage_point"], &["type"], &["name", "flow"]);
            let fields = ["time_format", "reference_time", "protocol_type", "group_id"];
            has_fields(&trace["common_fields"], &[], &fields);
            assert_eq!(trace["common_fields"]["time_format"], "relative");
            return;
        }
        let time = ["time_format", "protocol_type", "group_id"];
        has_fields(record, &["time", "name", "data"], &time);
        assert!(record["time"].is_f64());
        let data = &record["data"];
        has_fields(data, required, optional);
        if let Some(header) = data.get("header") {
            has_fields(
                header,
                &["packet_type"],
                &["packet_number", "flags", "token", "length", "version", "scil", "dcil"],
            );
            assert_eq!(header["packet_type"], "1RTT");
        }
        if name == "transport:packet_sent" {
            assert!(data["raw"]["length"].as_u64() > Some(0) && data["header"]["packet_number"].is_u64());
        }
        for frame in data["frames"].as_array().into_iter().flatten() {
            has_fields(frame, &["frame_type", "acked_ranges"], &["ack_delay", "ect1", "ect0", "ce"]);
            let ranges = frame["acked_ranges"].as_array().unwrap();
            assert!(ranges.iter().all(|range| range[0].as_u64() <= range[1].as_u64() && range[0].is_u64()));
        }
    }

    #[test]
    fn every_record_is_a_json_text_of_a_sequence() {
        let out = Shared::default();
        let mut qlog = Qlog::new(Box::new(out.clone()), "test", "server", 7).unwrap();
        qlog.sent(Time(1_500_000), 3, 1200);
        qlog.heard(Time(2_000_000), &[3, 5, 4, 9], &[6]);
        qlog.metrics(Time(2_000_000), &Metrics { window: 14_720, ..Metrics::default() });
        qlog.metrics(Time(3_000_000), &Metrics { window: 16_192, ..Metrics::default() });
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let records: Vec<Value> = text
            .split('\u{1e}')
            .skip(1)
            .map(|record| serde_json::from_str(record.strip_suffix('\n').unwrap()).unwrap())
            .collect();
        records.iter().for_each(conforms);
        let names: Vec<_> = records[1..].iter().map(|r| r["name"].as_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "transport:packet_sent",
                "transport:packet_received",
                "recovery:packet_lost",
                "recovery:metrics_updated",
                "recovery:metrics_updated"
            ]
        );
        assert_eq!(records[1]["time"], 1.5);
        assert_eq!(records[2]["data"]["frames"][0]["acked_ranges"], json!([[3, 5], [9, 9]]));
        assert_eq!(records[5]["data"], json!({"congestion_window": 16_192}), "what has not changed is left out");
    }
}
