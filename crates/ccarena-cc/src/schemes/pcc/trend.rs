//! PCC-Uspace's judgement whether RTTs trend upwards across monitor intervals, by which noise within one is told from
//! congestion: the slope of the last mean RTTs against the slopes seen so far.

use std::collections::VecDeque;

const HISTORY: usize = 6;
/// Weight of a slope in the running averages.
const GAIN: f64 = 0.1;
/// Deviations from the average that a slope may be off.
const DEVIATIONS: f64 = 2.0;
/// A flatter slope than this (µs per interval), or than the flattest one over `FLATTER`, starts the averages anew.
const FLAT_US: f64 = 1e-6;
const FLATTER: f64 = 100.0;

/// Mean RTTs of recent intervals, and how their slopes have been.
#[derive(Clone, Debug, Default)]
pub(super) struct Trend {
    means_us: VecDeque<f64>,
    average: f64,
    deviation: f64,
    flattest: f64,
    last: f64,
}

impl Trend {
    /// Books an interval's mean RTT; true if RTTs now rise more than they usually do.
    pub(super) fn rises(&mut self, mean_rtt_us: f64) -> bool {
        if self.means_us.len() == HISTORY {
            self.means_us.pop_front();
        }
        self.means_us.push_back(mean_rtt_us);
        if self.means_us.len() < HISTORY {
            return false;
        }
        let slope = self.slope();
        if self.flattest < FLAT_US || slope.abs() < self.flattest / FLATTER {
            *self = Self {
                means_us: std::mem::take(&mut self.means_us),
                average: 0.0,
                deviation: slope.abs(),
                flattest: slope.abs(),
                last: slope,
            };
            return false;
        }
        if (slope - self.average).abs() > DEVIATIONS * self.deviation {
            return slope > 0.0;
        }
        self.average += GAIN * (slope - self.average);
        self.deviation += GAIN * ((slope - self.last).abs() - self.deviation);
        self.flattest = self.flattest.min(slope.abs());
        self.last = slope;
        false
    }

    /// Least-squares slope, in microseconds per interval.
    fn slope(&self) -> f64 {
        let centre = (self.means_us.len() as f64 - 1.0) / 2.0;
        let (mut products, mut squares) = (0.0, 0.0);
        for (i, mean) in self.means_us.iter().enumerate() {
            let x = i as f64 - centre;
            products += x * mean;
            squares += x * x;
        }
        products / squares
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rise_beyond_the_usual_is_told_from_noise() {
        let mut trend = Trend::default();
        let noise = |i: u64| 20_000.0 + ((i * 7919) % 101) as f64;
        let alarms = (0..200).filter(|&i| trend.rises(noise(i))).count();
        assert!(alarms < 100, "{alarms}");
        assert!((0..6).any(|i| trend.rises(20_000.0 + 500.0 * f64::from(i))));
    }

    #[test]
    fn falling_rtts_are_no_rise() {
        let mut trend = Trend::default();
        (0..50).for_each(|i| {
            trend.rises(20_000.0 + f64::from((i * 37) % 11));
        });
        assert!(!(0..6).any(|i| trend.rises(20_000.0 - 500.0 * f64::from(i))));
    }
}
