//! Round-trip time: smoothing, variation and the retransmission timeout (RFC 6298 as Linux does it).

use ccarena_cc::Dur;

/// The timeout before the first sample (RFC 6298 §2.1).
const RTO_INITIAL: Dur = Dur::from_millis(1000);

/// Round-trip times that a sender knows at one moment.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    /// Smoothed; zero before the first sample.
    pub smoothed: Dur,
    /// The smallest; [`Dur::MAX`] before the first sample.
    pub min: Dur,
}

impl RoundTrip {
    /// Value before the first sample.
    pub const UNKNOWN: Self = Self { smoothed: Dur::ZERO, min: Dur::MAX };
}

/// `tcp_rtt_estimator` and `__tcp_set_rto`: the timeout takes the largest mean deviation of the last round trips, where
/// RFC 6298 takes the latest.
#[derive(Clone, Copy, Debug)]
pub struct RttEstimator {
    /// Eight times the smoothed RTT in nanoseconds (`srtt_us`); zero before the first sample.
    smoothed: u64,
    /// Four times the mean deviation, its largest value in this round trip, and what the timeout uses.
    deviation: u64,
    deviation_max: u64,
    variation: u64,
    /// The round trip ends when this segment is acknowledged (`rtt_seq`).
    round_end: u32,
    min: Dur,
    /// Least variation that the retransmission timeout adds to the smoothed RTT (`tcp_rto_min`).
    least: u64,
}

impl RttEstimator {
    /// An estimator whose timeout adds at least `min_rto` to the smoothed RTT.
    #[must_use]
    pub fn new(min_rto: Dur) -> Self {
        Self {
            smoothed: 0,
            deviation: 0,
            deviation_max: 0,
            variation: 0,
            round_end: 0,
            min: RoundTrip::UNKNOWN.min,
            least: min_rto.0,
        }
    }

    /// Books a sample: `sequence` for the timeout, `congestion` (the newest segment's) for the minimum; segments from
    /// `una` to `nxt` are outstanding.
    #[inline]
    pub fn sample(&mut self, sequence: Dur, congestion: Dur, una: u32, nxt: u32) {
        self.min = self.min.min(congestion);
        if self.smoothed == 0 {
            self.smoothed = (sequence.0 << 3).max(1);
            self.deviation = sequence.0 << 1;
            self.variation = self.deviation.max(self.least);
            self.deviation_max = self.variation;
            self.round_end = nxt;
            return;
        }
        let expected = self.smoothed >> 3;
        let error = sequence.0.abs_diff(expected);
        self.smoothed = self.smoothed - expected + sequence.0;
        let old = self.deviation >> 2;
        // A falling RTT hardly raises the deviation, so that the timeout does not grow when a queue drains.
        let gain = if sequence.0 < expected && error > old { (error - old) >> 3 } else { error.saturating_sub(old) };
        self.deviation = self.deviation - old.saturating_sub(error) + gain;
        self.deviation_max = self.deviation_max.max(self.deviation);
        self.variation = self.variation.max(self.deviation_max);
        if una > self.round_end {
            self.variation -= (self.variation - self.deviation_max) >> 2;
            self.round_end = nxt;
            self.deviation_max = self.least;
        }
    }

    /// Least variation that the timeout adds to the smoothed RTT.
    #[must_use]
    #[inline]
    pub fn min_rto(&self) -> Dur {
        Dur(self.least)
    }

    /// Smoothed RTT; zero before the first sample.
    #[must_use]
    #[inline]
    pub fn smoothed(&self) -> Dur {
        Dur(self.smoothed >> 3)
    }

    /// Smallest RTT; [`Dur::MAX`] before the first sample.
    #[must_use]
    #[inline]
    pub fn min(&self) -> Dur {
        self.min
    }

    /// Returns the current round-trip times.
    #[must_use]
    #[inline]
    pub fn known(&self) -> RoundTrip {
        RoundTrip { smoothed: self.smoothed(), min: self.min }
    }

    /// Retransmission timeout, backoff not applied.
    #[must_use]
    #[inline]
    pub fn timeout(&self) -> Dur {
        if self.smoothed == 0 { RTO_INITIAL } else { Dur((self.smoothed >> 3) + self.variation) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(samples_ms: impl Iterator<Item = u64>) -> RttEstimator {
        let mut e = RttEstimator::new(Dur::from_millis(200));
        for (i, ms) in samples_ms.enumerate() {
            // Ten segments per round trip.
            e.sample(Dur::from_millis(ms), Dur::from_millis(ms), i as u32, i as u32 + 10);
        }
        e
    }

    #[test]
    fn timeout_stays_200_ms_above_a_steady_rtt() {
        assert_eq!(after(std::iter::empty()).timeout(), RTO_INITIAL);
        let e = after(std::iter::repeat_n(40, 200));
        assert!(e.timeout().0.abs_diff(Dur::from_millis(240).0) < 1_000_000, "{}", e.timeout());
        assert_eq!(e.min(), Dur::from_millis(40));
        let mut e = RttEstimator::new(Dur::from_millis(1000));
        (0..100).for_each(|i| e.sample(Dur::from_millis(40), Dur::from_millis(40), i, i + 10));
        assert!(e.timeout().0.abs_diff(Dur::from_millis(1040).0) < 1_000_000, "{}", e.timeout());
    }

    #[test]
    fn variation_raises_the_timeout_and_decays_by_a_quarter_per_round_trip() {
        let swinging = (0..200).map(|k| if k % 2 == 0 { 40 } else { 400 });
        let high = after(swinging.clone()).timeout();
        assert!(high > Dur::from_millis(700), "{high}");
        let calm = after(swinging.chain(std::iter::repeat_n(400, 300)));
        assert!(calm.timeout() < Dur::from_millis(620), "{}", calm.timeout());
    }
}
