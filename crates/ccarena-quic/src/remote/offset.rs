//! Offset between the clocks of two machines, from messages there and back (RFC 5905 §8).

use ccarena_cc::{Dur, Time};

/// A question for the time and its answer: two times of this machine around two of the other, each in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Exchange {
    /// Time here at which the question left.
    pub sent: Time,
    /// Time there at which it came.
    pub received: Time,
    /// Time there at which the answer left.
    pub answered: Time,
    /// Time here at which it came.
    pub back: Time,
}

impl Exchange {
    /// Time that it spent on the way, there and back.
    #[must_use]
    pub fn delay(&self) -> Dur {
        Dur(self.back.since(self.sent).0.saturating_sub(self.answered.since(self.received).0))
    }

    /// Lead of the other clock over this one, in ns, if both ways took equally long.
    fn offset_ns(&self) -> f64 {
        (difference_ns(self.received, self.sent) + difference_ns(self.answered, self.back)) / 2.0
    }

    /// Middle of its times there.
    fn there_ns(&self) -> f64 {
        (self.received.0 as f64 + self.answered.0 as f64) / 2.0
    }
}

fn difference_ns(a: Time, b: Time) -> f64 {
    a.0 as f64 - b.0 as f64
}

/// Estimate of the other machine's clock: its offset before and after a run, and a straight line between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Offset {
    before: Exchange,
    after: Exchange,
}

impl Offset {
    /// An estimate from the exchanges with the least delay before and after a run.
    #[must_use]
    pub fn new(before: Exchange, after: Exchange) -> Self {
        Self { before, after }
    }

    /// Lead of the other clock at its time `there`, in ns.
    fn at_ns(&self, there: Time) -> f64 {
        let since_ns = there.0 as f64 - self.before.there_ns();
        self.before.offset_ns() + since_ns * self.drift()
    }

    /// Gain of the other clock per unit of its time.
    fn drift(&self) -> f64 {
        let passed_ns = self.after.there_ns() - self.before.there_ns();
        if passed_ns > 0.0 { (self.after.offset_ns() - self.before.offset_ns()) / passed_ns } else { 0.0 }
    }

    /// Time here, in ns, that was `there` on the other clock; below zero before this clock began.
    #[must_use]
    pub fn here_ns(&self, there: Time) -> f64 {
        there.0 as f64 - self.at_ns(there)
    }

    /// The same as a time; zero before this clock began.
    #[must_use]
    pub fn here(&self, there: Time) -> Time {
        Time(self.here_ns(there).max(0.0).round() as u64)
    }

    /// Offset in ms after the run.
    #[must_use]
    pub fn after_ms(&self) -> f64 {
        self.after.offset_ns() / 1e6
    }

    /// Bound of its error in ms: half the delay of the slower exchange, all of which one of the ways may have taken.
    #[must_use]
    pub fn uncertainty_ms(&self) -> f64 {
        self.before.delay().max(self.after.delay()).as_millis_f64() / 2.0
    }

    /// Drift in parts per million.
    #[must_use]
    pub fn drift_ppm(&self) -> f64 {
        self.drift() * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An exchange at `at`, with a clock there that is ahead by `offset` and gains `ppm`.
    fn exchange(at: u64, forth: u64, back: u64, offset: u64, ppm: u64) -> Exchange {
        let there = |here: u64| Time(here + offset + here * ppm / 1_000_000);
        let came = at + forth;
        Exchange { sent: Time(at), received: there(came), answered: there(came + 1000), back: Time(came + 1000 + back) }
    }

    proptest! {
        #[test]
        fn the_error_is_within_its_bound(
            forth in 0_u64..50_000_000, back in 0_u64..50_000_000, later in 0_u64..50_000_000,
            offset in 0_u64..1_000_000_000_000, ppm in 0_u64..200, at in 0_u64..10_000_000_000,
        ) {
            let estimate = Offset::new(
                exchange(0, forth, back, offset, ppm),
                exchange(10_000_000_000, forth, later, offset, ppm),
            );
            let there = Time(at + offset + at * ppm / 1_000_000);
            let error_ms = (estimate.here_ns(there) - at as f64).abs() / 1e6;
            // Drift during an exchange, and rounding, come on top.
            prop_assert!(error_ms <= estimate.uncertainty_ms() + 0.03, "{error_ms} ms of {}", estimate.uncertainty_ms());
        }
    }

    #[test]
    fn equal_ways_give_offset_and_drift() {
        let estimate = Offset::new(
            exchange(0, 5_000_000, 5_000_000, 70_000_000, 50),
            exchange(10_000_000_000, 5_000_000, 5_000_000, 70_000_000, 50),
        );
        assert!((estimate.drift_ppm() - 50.0).abs() < 0.1, "{}", estimate.drift_ppm());
        assert!((estimate.after_ms() - 70.5).abs() < 0.01, "{}", estimate.after_ms());
        assert!((estimate.uncertainty_ms() - 5.0).abs() < 0.01);
    }
}
