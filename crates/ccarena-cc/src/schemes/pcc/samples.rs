//! RTT samples of a monitor interval, as the sums that mean, spread and least-squares slope follow from: constant time
//! and space per sample.

/// Sums over (packet number, RTT). Both count from the first sample, which keeps the sums small and so exact.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Samples {
    count: u64,
    origin: (u64, f64),
    p: f64,
    pp: f64,
    r: f64,
    rr: f64,
    pr: f64,
    min: f64,
    max: f64,
}

/// Regression over the samples. Times in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fit {
    pub(super) mean_us: f64,
    /// RTT change per time of sending, dimensionless; zero below two samples.
    pub(super) gradient: f64,
    /// Deviation from the regression line, relative to the mean.
    pub(super) error: f64,
    /// Standard deviation without the one sample farthest from the mean; zero below three samples.
    pub(super) deviation_us: f64,
}

impl Samples {
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn add(&mut self, number: u64, rtt_us: f64) {
        if self.count == 0 {
            self.origin = (number, rtt_us);
        }
        self.count += 1;
        let p = number as f64 - self.origin.0 as f64;
        let r = rtt_us - self.origin.1;
        self.p += p;
        self.pp += p * p;
        self.r += r;
        self.rr += r * r;
        self.pr += p * r;
        self.min = self.min.min(r);
        self.max = self.max.max(r);
    }

    /// The statistics, packets being sent every `spacing_us`.
    ///
    /// The error takes the gradient, which is normalised by the spacing, for the slope per packet, as both code bases
    /// do: it is near the coefficient of variation of the RTT.
    pub(super) fn fit(&self, spacing_us: f64) -> Fit {
        if self.count == 0 {
            return Fit::default();
        }
        let n = self.count as f64;
        let mean = self.r / n;
        let mean_us = self.origin.1 + mean;
        // Sums of squares and products around the means, not below zero by rounding.
        let pp = (self.pp - self.p * self.p / n).max(0.0);
        let rr = (self.rr - self.r * mean).max(0.0);
        let pr = self.pr - self.p * mean;
        let gradient = if pp > 0.0 { pr / pp / spacing_us } else { 0.0 };
        let residue = (rr - 2.0 * gradient * pr + gradient * gradient * pp).max(0.0);
        let error = (residue / n).sqrt() / mean_us.max(f64::MIN_POSITIVE);
        Fit { mean_us, gradient, error, deviation_us: self.deviation_us(mean) }
    }

    fn deviation_us(&self, mean: f64) -> f64 {
        if self.count < 3 {
            return 0.0;
        }
        let outlier = if self.max - mean > mean - self.min { self.max } else { self.min };
        let n = self.count as f64 - 1.0;
        let (r, rr) = (self.r - outlier, self.rr - outlier * outlier);
        ((rr - r * r / n).max(0.0) / n).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rtts_us: &[f64]) -> Samples {
        let mut samples = Samples::default();
        rtts_us.iter().enumerate().for_each(|(i, &rtt)| samples.add(1_000_000 + i as u64, rtt));
        samples
    }

    #[test]
    fn a_ramp_has_its_slope() {
        // 12 microseconds per packet of 120 microseconds.
        let ramp: Vec<f64> = (0..50).map(|i| 20_000.0 + 12.0 * f64::from(i)).collect();
        let fit = samples(&ramp).fit(120.0);
        assert!((fit.gradient - 0.1).abs() < 1e-9, "{fit:?}");
        assert!((fit.mean_us - 20_294.0).abs() < 1e-6);
        assert!(fit.error < fit.gradient);
        let falling = samples(&ramp.into_iter().rev().collect::<Vec<_>>()).fit(120.0);
        assert!((falling.gradient + 0.1).abs() < 1e-9);
    }

    #[test]
    fn noise_has_an_error_above_its_slope() {
        let noise: Vec<f64> = (0..40).map(|i| 20_000.0 + f64::from(i % 2) * 2000.0).collect();
        let fit = samples(&noise).fit(120.0);
        assert!(fit.error > fit.gradient.abs(), "{fit:?}");
        let spread = noise.iter().map(|r| (r - fit.mean_us).powi(2)).sum::<f64>() / 40.0;
        assert!((fit.error - spread.sqrt() / fit.mean_us).abs() < 0.01, "{fit:?}");
    }

    #[test]
    fn the_deviation_leaves_out_one_outlier() {
        assert!(samples(&[20_000.0, 20_000.0, 20_000.0, 90_000.0]).fit(100.0).deviation_us < 1e-6);
        assert!(samples(&[20_000.0, 20_000.0, 20_000.0, 1_000.0]).fit(100.0).deviation_us < 1e-6);
        let two = samples(&[10_000.0, 12_000.0, 14_000.0, 40_000.0]).fit(100.0).deviation_us;
        assert!((two - (8_000_000.0_f64 / 3.0).sqrt()).abs() < 1e-6, "{two}");
        assert!(samples(&[1.0, 3.0]).fit(1.0).deviation_us.abs() < 1e-9);
    }

    #[test]
    fn few_samples_have_no_slope() {
        assert!(samples(&[]).fit(1.0).gradient.abs() < 1e-9);
        assert!(samples(&[5.0]).fit(1.0).gradient.abs() < 1e-9);
    }
}
