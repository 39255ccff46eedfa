//! Round-trip time: smoothing, variation and the retransmission timeout (RFC 6298 as Linux does it).

use ccarena_cc::Dur;

/// Least retransmission timeout beyond the smoothed RTT (`TCP_RTO_MIN`).
const RTO_MIN: Dur = Dur::from_millis(200);
/// The timeout before the first sample (RFC 6298 §2.1).
const RTO_INITIAL: Dur = Dur::from_millis(1000);

/// `tcp_rtt_estimator` and `__tcp_set_rto`.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    smoothed: Dur,
    variation: Dur,
    min: Dur,
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self { smoothed: Dur::ZERO, variation: Dur::ZERO, min: Dur::MAX }
    }
}

impl RttEstimator {
    /// Books a sample: `sequence` for the timeout, `congestion` (the newest segment's) for the minimum.
    #[inline]
    pub fn sample(&mut self, sequence: Dur, congestion: Dur) {
        self.min = self.min.min(congestion);
        if self.smoothed == Dur::ZERO {
            self.smoothed = sequence;
            self.variation = sequence / 2;
            return;
        }
        let error = self.smoothed.0.abs_diff(sequence.0);
        // RFC 6298 §2.3 with Linux's damping of the variation when the RTT falls below what was expected.
        let gain = if sequence < self.smoothed && error > self.variation.0 { 32 } else { 4 };
        self.variation = Dur(self.variation.0 - self.variation.0 / gain + error / gain);
        self.smoothed = Dur(self.smoothed.0 - self.smoothed.0 / 8 + sequence.0 / 8);
    }

    /// Smoothed RTT; zero before the first sample.
    #[must_use]
    #[inline]
    pub fn smoothed(&self) -> Dur {
        self.smoothed
    }

    /// Smallest RTT; [`Dur::MAX`] before the first sample.
    #[must_use]
    #[inline]
    pub fn min(&self) -> Dur {
        self.min
    }

    /// Retransmission timeout: the smoothed RTT and four times its variation, at least [`RTO_MIN`] of it.
    #[must_use]
    #[inline]
    pub fn timeout(&self) -> Dur {
        if self.smoothed == Dur::ZERO { RTO_INITIAL } else { self.smoothed + (self.variation * 4).max(RTO_MIN) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_stays_200_ms_above_a_steady_rtt() {
        let mut e = RttEstimator::default();
        assert_eq!(e.timeout(), RTO_INITIAL);
        for _ in 0..200 {
            e.sample(Dur::from_millis(40), Dur::from_millis(40));
        }
        assert!(e.timeout().0.abs_diff(Dur::from_millis(240).0) < 1_000_000, "{}", e.timeout());
        assert_eq!(e.min(), Dur::from_millis(40));
    }

    #[test]
    fn variation_raises_the_timeout() {
        let mut e = RttEstimator::default();
        for k in 0..200 {
            e.sample(Dur::from_millis(if k % 2 == 0 { 40 } else { 400 }), Dur::from_millis(40));
        }
        assert!(e.timeout() > Dur::from_millis(700));
    }
}
