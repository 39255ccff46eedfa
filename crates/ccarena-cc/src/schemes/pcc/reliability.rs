//! Reliable RTT samples: all but those of acknowledgements that the path or the receiver has bunched.
//!
//! An acknowledgement interval more than fifty times out of proportion to its neighbour begins a bunch. It lasts until
//! the RTT, from below its average, rises again.
//!
//! Departures from PCC-Uspace:
//! - Intervals are a microsecond at least. There, an event with losses alone counts as an interval of zero, which makes
//!   the average ratio infinite and ends the filtering for good.
//! - RTTs that are equal within a thousandth end a bunch too: on a path without jitter nothing else would.

use crate::types::{Dur, Time};

/// Ratio of intervals, relative to the average, that begins a bunch.
const BUNCH_RATIO: f64 = 50.0;
/// Weight of a sample in the average ratio.
const GAIN: f64 = 0.1;
/// RTTs as close as this count as equal.
const EQUAL: f64 = 1.001;

/// An acknowledgement event, as the controller saw it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Event {
    pub(super) now: Time,
    /// Time since the event before; none before the first RTT sample.
    pub(super) interval: Option<Dur>,
    pub(super) rtt_us: f64,
    /// Smoothed RTT after it.
    pub(super) srtt_us: f64,
}

/// The filter's memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reliability {
    average_ratio: Option<f64>,
    bunched: bool,
}

impl Reliability {
    /// Returns whether a sample of `event` is reliable, `next` being the event after it.
    pub(super) fn judge(&mut self, event: &Event, next: &Event) -> bool {
        let (Some(a), Some(b)) = (event.interval, next.interval) else { return false };
        let (a, b) = (a.as_micros().max(1) as f64, b.as_micros().max(1) as f64);
        let ratio = (a / b).max(b / a);
        let average = self.average_ratio.unwrap_or(ratio);
        let mut reliable = false;
        if ratio > BUNCH_RATIO * average {
            self.bunched = true;
        } else if self.bunched {
            self.bunched = next.rtt_us * EQUAL < event.rtt_us || event.rtt_us > event.srtt_us * EQUAL;
        } else {
            reliable = true;
        }
        self.average_ratio = Some(average + GAIN * (ratio - average));
        reliable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(interval_us: u64, rtt_us: f64, srtt_us: f64) -> Event {
        Event { now: Time::ZERO, interval: Some(Dur::from_micros(interval_us)), rtt_us, srtt_us }
    }

    #[test]
    fn an_interval_out_of_proportion_begins_a_bunch_and_a_rising_rtt_ends_it() {
        let mut filter = Reliability::default();
        let steady = event(100, 20e3, 20e3);
        (0..50).for_each(|_| assert!(filter.judge(&steady, &steady)));
        assert!(filter.judge(&steady, &event(4_900, 20e3, 20e3)), "49 times is within proportion");
        let mut filter = Reliability::default();
        (0..50).for_each(|_| assert!(filter.judge(&steady, &steady)));
        assert!(!filter.judge(&steady, &event(5_100, 30e3, 20e3)));
        // Falling from above the average: still the same bunch.
        assert!(!filter.judge(&event(100, 30e3, 20e3), &event(100, 28e3, 20e3)));
        assert!(!filter.judge(&event(100, 28e3, 20e3), &event(100, 26e3, 20e3)));
        // Below the average and rising: the bunch ends with this sample.
        assert!(!filter.judge(&event(100, 18e3, 20e3), &event(100, 19e3, 20e3)));
        assert!(filter.judge(&event(100, 19e3, 20e3), &event(100, 19e3, 20e3)));
    }

    #[test]
    fn samples_without_an_interval_are_not_believed() {
        let mut filter = Reliability::default();
        let first = Event { interval: None, ..event(100, 20e3, 20e3) };
        assert!(!filter.judge(&first, &event(100, 20e3, 20e3)));
        assert!(filter.judge(&event(0, 20e3, 20e3), &event(0, 20e3, 20e3)), "two at one instant are no bunch");
    }
}
