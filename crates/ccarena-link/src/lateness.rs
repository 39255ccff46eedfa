//! Lateness of packets: the emulator's check of itself.

use ccarena_cc::types::Dur;

/// Default bound that at most 1 in 100 packets may exceed in a valid run.
pub const DEFAULT_BOUND: Dur = Dur::from_millis(1);

/// Buckets per factor of two: values are known to 3 %.
const STEPS: u64 = 32;

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
    /// The same run judged by another bound.
    #[must_use]
    pub fn judged(self, bound: Dur) -> Self {
        Self { bound, valid: self.p99 <= bound, ..self }
    }
}

/// Counts of lateness in buckets of logarithmic width.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    max: u64,
}

impl Histogram {
    pub fn new() -> Self {
        Self { counts: vec![0; bucket(u64::MAX) + 1], max: 0 }
    }

    #[inline]
    pub fn add(&mut self, late: Dur) {
        self.counts[bucket(late.0)] += 1;
        self.max = self.max.max(late.0);
    }

    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }

    pub fn summary(&self) -> Lateness {
        let count = self.counts.iter().sum();
        let (p50, p99) = (self.quantile(count, 50), self.quantile(count, 99));
        let bound = DEFAULT_BOUND;
        Lateness { count, p50, p99, max: Dur(self.max), bound, valid: p99 <= bound }
    }

    /// The smallest upper edge of a bucket that `percent` of all values do not exceed.
    fn quantile(&self, count: u64, percent: u64) -> Dur {
        let wanted = (u128::from(count) * u128::from(percent)).div_ceil(100) as u64;
        let mut below = 0;
        for (bucket, n) in self.counts.iter().enumerate() {
            below += n;
            if below >= wanted && below > 0 {
                return Dur(upper_edge(bucket).min(self.max));
            }
        }
        Dur(self.max)
    }
}

/// Values below [`STEPS`] have a bucket each; above, each factor of two has [`STEPS`] buckets.
#[inline]
fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS.ilog2();
    (u64::from(shift) * STEPS + (value >> shift)) as usize
}

fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    let lower = (bucket - shift * STEPS) << shift;
    lower + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_values(mut values in prop::collection::vec(any::<u64>().prop_flat_map(|v| (0..64_u32).prop_map(move |s| v >> s)), 1..300)) {
            let mut parts = [Histogram::new(), Histogram::new()];
            for (i, &v) in values.iter().enumerate() {
                parts[i % 2].add(Dur(v));
            }
            let [mut all, other] = parts;
            all.merge(&other);
            let summary = all.summary();
            values.sort_unstable();
            let exact = |percent: usize| values[(values.len() * percent).div_ceil(100) - 1];
            for (got, want) in [(summary.p50, exact(50)), (summary.p99, exact(99))] {
                prop_assert!(got.0 >= want && got.0 - want <= want / STEPS, "{got:?} for {want}");
            }
            prop_assert_eq!(summary.count, values.len() as u64);
            prop_assert_eq!(summary.max.0, values[values.len() - 1]);
            prop_assert_eq!(summary.valid, summary.p99 <= DEFAULT_BOUND);
        }
    }

    #[test]
    fn a_run_without_packets_is_on_time() {
        let summary = Histogram::new().summary();
        assert_eq!((summary.count, summary.p99, summary.valid), (0, Dur::ZERO, true));
        assert!(!Lateness { p99: Dur(2), ..summary }.judged(Dur(1)).valid);
    }
}
