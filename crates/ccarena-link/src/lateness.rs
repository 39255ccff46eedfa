//! Lateness of packets: the emulator's check of itself.

use ccarena_cc::types::Dur;
use ccarena_net::histogram::Histogram;

/// Default bound that at most 1 in 100 packets may exceed in a valid run.
pub const DEFAULT_BOUND: Dur = Dur::from_millis(1);

/// Lateness: the time from each packet's schedule to its handover to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// Packets.
    pub count: u64,
    /// Median, rounded up by at most 3 %.
    pub p50: Dur,
    /// 99th percentile, likewise.
    pub p99: Dur,
    /// The largest.
    pub max: Dur,
    /// Largest accepted `p99`.
    pub bound: Dur,
    /// `p99` is within the bound: the links were those of the scenario.
    pub valid: bool,
}

impl Lateness {
    /// Returns the lateness of packets as counted in `late`, judged by the default bound.
    #[must_use]
    pub(crate) fn of(late: &Histogram) -> Self {
        let (p50, p99, bound) = (late.percentile(50), late.percentile(99), DEFAULT_BOUND);
        Self { count: late.count(), p50, p99, max: late.max(), bound, valid: p99 <= bound }
    }

    /// The same run judged by another bound.
    #[must_use]
    pub fn judged(self, bound: Dur) -> Self {
        Self { bound, valid: self.p99 <= bound, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_packets_is_on_time() {
        let summary = Lateness::of(&Histogram::new());
        assert_eq!((summary.count, summary.p99, summary.valid), (0, Dur::ZERO, true));
        assert!(!Lateness { p99: Dur(2), ..summary }.judged(Dur(1)).valid);
    }

    #[test]
    fn a_run_is_valid_if_its_99th_percentile_is_within_the_bound() {
        let mut late = Histogram::new();
        (0..99).for_each(|_| late.add(DEFAULT_BOUND / 2));
        late.add(DEFAULT_BOUND * 50);
        assert!(Lateness::of(&late).valid);
        late.add(DEFAULT_BOUND * 50);
        assert!(!Lateness::of(&late).valid);
    }
}
