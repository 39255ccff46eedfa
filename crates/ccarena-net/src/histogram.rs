//! Durations counted in buckets of logarithmic width, for percentiles of many in little memory.

use ccarena_cc::types::Dur;

/// Buckets per factor of two: values are known to 3 %.
const STEPS: u64 = 32;

/// Counts of durations in buckets of logarithmic width.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Vec<u64>,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Returns a histogram without values.
    #[must_use]
    pub fn new() -> Self {
        Self { counts: vec![0; bucket(u64::MAX) + 1], max: 0 }
    }

    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: Dur) {
        if let Some(count) = self.counts.get_mut(bucket(value.0)) {
            *count += 1;
        }
        self.max = self.max.max(value.0);
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.max = self.max.max(other.max);
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the largest value.
    #[must_use]
    pub fn max(&self) -> Dur {
        Dur(self.max)
    }

    /// Returns the smallest upper edge of a bucket that `percent` of all values do not exceed: at most 3 % too much.
    #[must_use]
    pub fn percentile(&self, percent: u64) -> Dur {
        let wanted = (u128::from(self.count()) * u128::from(percent)).div_ceil(100) as u64;
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
            values.sort_unstable();
            for percent in [50, 99] {
                let (got, want) = (all.percentile(percent), values[(values.len() * percent as usize).div_ceil(100) - 1]);
                prop_assert!(got.0 >= want && got.0 - want <= want / STEPS, "{got:?} for {want}");
            }
            prop_assert_eq!(all.count(), values.len() as u64);
            prop_assert_eq!(all.max().0, values[values.len() - 1]);
        }
    }
}
