//! The receiving end of a flow.

use std::collections::HashMap;

use ccarena_cc::Time;
use ccarena_net::Scenario;
use ccarena_net::series::{FlowBin, Series};
use noq_proto::Event;

use super::HEADER_BYTES;
use crate::host::{Link, Peer};
use crate::streams;

/// Data of a flow that arrived.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Payload, each byte once.
    pub payload_bytes: u64,
    /// Bytes of IP packets.
    pub wire_bytes: u64,
    /// Amounts per bin, if they are kept.
    pub series: Option<Series<FlowBin>>,
    /// Times at which streams were there whole, by their numbers, if the application needs arrivals.
    pub whole: Option<HashMap<u64, Time>>,
    /// Payload by time, if the application needs arrivals of one stream of TCP.
    pub progress: Option<Vec<(Time, u64)>>,
}

/// Takes everything and counts it.
pub struct Receiver(Received);

impl Receiver {
    /// A receiver for flow number `index` of `scenario`.
    #[must_use]
    pub fn new(scenario: &Scenario, index: usize) -> Self {
        let whole = scenario.flows[index].app.needs().arrivals.then(HashMap::new);
        let series = scenario.record.series.then(|| Series::new(scenario.record.bin, scenario.duration));
        Self(Received { series, whole, ..Received::default() })
    }

    /// Returns the data that arrived.
    #[must_use]
    pub fn finish(self) -> Received {
        self.0
    }
}

impl Peer for Receiver {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        let bytes = streams::discard(link.stack, &event, |stream| {
            if let Some(whole) = &mut self.0.whole {
                whole.entry(stream.index()).or_insert(link.now);
            }
        });
        self.0.payload_bytes += bytes;
        if let Some(bin) = self.0.series.as_mut().and_then(|s| s.at(link.now)) {
            bin.payload_bytes += bytes;
        }
    }

    fn on_datagram(&mut self, now: Time, payload: &[u8]) {
        let bytes = payload.len() as u64 + u64::from(HEADER_BYTES);
        self.0.wire_bytes += bytes;
        if let Some(bin) = self.0.series.as_mut().and_then(|s| s.at(now)) {
            bin.wire_bytes += bytes;
        }
    }

    fn write(&mut self, _: &mut Link<'_>) {}
}
