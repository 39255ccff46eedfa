//! Metrics of a connection, as qlog and status lines show them.

use ccarena_cc::{Dur, Rate};

/// Metrics of a connection at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// The controller's window.
    pub window: u64,
    /// Pacing rate.
    pub pacing: Option<Rate>,
    /// Slow-start threshold.
    pub threshold: Option<u64>,
    /// Bytes in flight.
    pub in_flight: u64,
    /// Smoothed RTT, smallest and latest.
    pub srtt: Dur,
    /// See `srtt`.
    pub rtt_min: Dur,
    /// See `srtt`.
    pub rtt_latest: Dur,
}
