//! Detection of a classic queue, which has one queue for all and marks rarely (Briscoe and Ahmed, "TCP Prague Fall-back on
//! Detection of a Classic ECN AQM", arXiv:1911.00710; `prague_classic_ecn_detection`).
//!
//! A score rises with the variation of the RTT above 750 us and with a queue above 2 ms: by half of their logarithms to base
//! 2 per round. It falls with little variation. From 8 to 9 the least share that a reduction takes rises from 0 to 5/8.
//!
//! Departures from Linux:
//! - The fraction of a logarithm is linear between powers of two, where Linux carries remainders over.
//! - The score does not fall while the application limits sending; Linux has that switched off, too.

use crate::types::Dur;

/// Scores from which the queue counts as partly, and as surely classic (`L_STICKY`, `CLASSIC_ECN`), and the bound.
const PARTLY: f64 = 8.0;
const SURELY: f64 = 9.0;
const MOST: f64 = 17.0;
/// Logarithms of the reference variation (750 us) and queue (2 ms) in us (`V0_LG`, `D0_LG`).
const VARIATION: f64 = 9.55;
const DEPTH: f64 = 10.97;
/// Least share of marks behind a queue that is surely classic.
const SHARE: f64 = 0.625;
/// Gain of the averages before the first reduction, as a power of two (`PRAGUE_MAX_SRTT_BITS`).
const SHIFT_MOST: u32 = 18;

/// Evidence of a classic queue; times in us.
#[derive(Debug)]
pub(super) struct ClassicQueue {
    score: f64,
    rtt: f64,
    variation: f64,
    shift: u32,
}

impl Default for ClassicQueue {
    fn default() -> Self {
        Self { score: 0.0, rtt: 0.0, variation: 1.0, shift: SHIFT_MOST }
    }
}

impl ClassicQueue {
    /// Takes an RTT sample into the averages (`prague_rtt_estimator`).
    pub(super) fn on_sample(&mut self, rtt: Dur) {
        let sample = rtt.0 as f64 / 1e3;
        if self.rtt == 0.0 {
            self.rtt = sample;
            return;
        }
        let gain = 1.0 / (1_u64 << self.shift) as f64;
        let error = sample - self.rtt;
        self.rtt += gain * error;
        self.variation += gain / 2.0 * (error.abs() - self.variation);
    }

    /// Adapts the averages' gain to the window (`prague_update_rtt_scaling`).
    pub(super) fn on_reduction(&mut self, threshold: f64) {
        let log = (threshold.max(1.0) as u64).ilog2();
        self.shift = (log + log / 2 + 1).min(SHIFT_MOST);
    }

    /// Moves the score at the end of a round with marks on the path.
    pub(super) fn end_round(&mut self, min_rtt: Dur) {
        let depth = self.rtt - min_rtt.0 as f64 / 1e3;
        let deep = if depth > 0.0 { (log2(depth) - DEPTH).max(0.0) } else { 0.0 };
        self.score = (self.score + 0.5 * (log2(self.variation) - VARIATION) + 0.5 * deep).clamp(0.0, MOST);
    }

    /// Least share of marks by which a reduction counts (`prague_classic_ecn_fallback`).
    pub(super) fn least_share(&self) -> f64 {
        SHARE * (self.score.min(SURELY) - PARTLY).max(0.0)
    }
}

/// Logarithm to base 2 of `x` >= 1, exact at powers of two. The same on every platform, as the library's is not.
fn log2(x: f64) -> f64 {
    let whole = (x.max(1.0) as u64).ilog2();
    f64::from(whole) + x.max(1.0) / (1_u64 << whole) as f64 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The score after rounds of 100 samples that swing by `swing_us` around a queue of `queue_us`.
    fn queue(rounds: u32, swing_us: u64, queue_us: u64) -> ClassicQueue {
        let base = Dur::from_millis(20);
        let mut queue = ClassicQueue::default();
        queue.on_sample(base + Dur::from_micros(queue_us));
        queue.on_reduction(20.0);
        for _ in 0..rounds {
            for k in 0..100 {
                queue.on_sample(base + Dur::from_micros(queue_us + swing_us * (k / 50)));
            }
            queue.end_round(base);
        }
        queue
    }

    #[test]
    fn a_deep_and_swinging_queue_counts_as_classic_and_a_shallow_one_does_not() {
        let classic = queue(60, 8_000, 10_000);
        assert!((classic.least_share() - SHARE).abs() < 1e-9, "{classic:?}");
        let shallow = queue(60, 200, 400);
        assert!(shallow.least_share() < 1e-9, "{shallow:?}");
        let mut fallen = classic;
        for _ in 0..60 {
            for _ in 0..2000 {
                fallen.on_sample(Dur::from_micros(20_300));
            }
            fallen.end_round(Dur::from_millis(20));
        }
        assert!(fallen.least_share() < 1e-9, "the path has changed: {fallen:?}");
    }

    #[test]
    fn logarithms_are_exact_at_powers_of_two() {
        for power in 0..20 {
            assert!((log2(f64::from(1 << power)) - f64::from(power)).abs() < 1e-12);
        }
        assert!((log2(750.0) - 750.0_f64.log2()).abs() < 0.09);
    }
}
