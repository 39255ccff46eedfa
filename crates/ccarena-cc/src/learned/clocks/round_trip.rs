//! Periods of some round trips.

use super::{Clock, ClockEntry, Length};
use crate::param::Param;

/// Ends with an acknowledgement.
pub const ROUND_TRIP: ClockEntry = ClockEntry {
    name: "rtt",
    doc: "every `rtts` smoothed round trips, with the first acknowledgement at or after that; 100 ms before a sample",
    source: "Jay et al., Aurora, ICML 2019",
    options: &[Param {
        name: "rtts",
        default: 1.0,
        min: 0.1,
        max: 10.0,
        doc: "length of a period in smoothed round trips",
    }],
    kernel: true,
    build: |options| Box::new(RoundTrips(options[0])),
};

struct RoundTrips(f64);

impl Clock for RoundTrips {
    fn first(&self) -> Length {
        Length::RoundTrips(self.0)
    }
}
