//! Amounts per bin of time, for figures over time without a packet log.

use ccarena_cc::types::{Dur, Time};

/// Traffic of a link in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkBin {
    /// IP bytes that left it.
    pub delivered_bytes: u64,
    /// Packets that left it, and the sum of their queueing delays.
    pub packets: u64,
    /// See `packets`.
    pub queueing: Dur,
    /// Packets dropped by its queue.
    pub dropped_packets: u64,
}

/// Traffic of a flow's receiver in one bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowBin {
    /// IP bytes.
    pub wire_bytes: u64,
    /// Payload bytes received for the first time.
    pub payload_bytes: u64,
}

/// One value per bin of a run.
#[derive(Clone, Debug)]
pub struct Series<B> {
    bin: Dur,
    /// The bins, in order.
    pub bins: Vec<B>,
}

impl<B: Clone + Default> Series<B> {
    /// Returns empty bins of length `bin` for a run of `duration`.
    #[must_use]
    pub fn new(bin: Dur, duration: Dur) -> Self {
        let bin = bin.max(Dur(1));
        let count = usize::try_from(duration.0.div_ceil(bin.0)).unwrap_or(usize::MAX);
        Self { bin, bins: vec![B::default(); count] }
    }

    /// The bin of `at`; none after the run.
    #[inline]
    pub fn at(&mut self, at: Time) -> Option<&mut B> {
        self.bins.get_mut((at.0 / self.bin.0) as usize)
    }
}
