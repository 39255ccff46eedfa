//! RTT samples and times between acknowledgements.

use crate::types::{Dur, Time};

/// Most samples that are kept; of more, every second one, again and again.
const MOST: usize = 2048;

/// RTT samples of the last period and of the time since the decider was last asked.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Values in microseconds, oldest first; the last period's are those in `period`.
    values: Vec<f32>,
    period: (usize, usize),
    /// One of so many (a power of two, as its exponent) is kept; which of them is next.
    stride: u32,
    count: u32,
    /// The span is over; its samples go with the next one.
    stale: bool,
}

impl Samples {
    /// Takes a sample.
    pub fn add(&mut self, rtt: Dur) {
        if std::mem::take(&mut self.stale) {
            *self = Self::default();
        }
        self.count = self.count.wrapping_add(1);
        if self.count & ((1 << self.stride) - 1) != 0 {
            return;
        }
        if self.values.len() >= MOST {
            let mut index = 0;
            self.values.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.period = (self.period.0 / 2, self.period.1 / 2);
            self.stride = (self.stride + 1).min(20);
        }
        self.values.push((rtt.0 as f64 / 1e3) as f32);
    }

    /// The period ends.
    pub fn end_period(&mut self) {
        if std::mem::take(&mut self.stale) {
            *self = Self::default();
        }
        self.period = (self.period.1, self.values.len());
    }

    /// The span's samples are no longer wanted once the next one begins.
    pub fn forget_span(&mut self) {
        self.stale = true;
    }

    /// The `q`-quantile in milliseconds (nearest rank) of the last period or the span; none without samples.
    #[must_use]
    pub fn quantile_ms(&self, q: f64, of_span: bool) -> Option<f64> {
        let (from, to) = if of_span { (0, self.values.len()) } else { self.period };
        let mut values = self.values.get(from..to)?.to_vec();
        values.sort_unstable_by(f32::total_cmp);
        let rank = (q * values.len() as f64).ceil() as usize;
        values.get(rank.saturating_sub(1)).map(|us| f64::from(*us) / 1e3)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct GapSums {
    n: f64,
    sum: f64,
    squares: f64,
}

/// Times between acknowledgements of the last period and of the time since the decider was last asked, in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gaps {
    last: Option<Time>,
    present: GapSums,
    period: GapSums,
    span: GapSums,
}

impl Gaps {
    /// An acknowledgement comes.
    pub fn add(&mut self, now: Time) {
        if let Some(last) = self.last.replace(now) {
            let gap = now.since(last).as_secs_f64();
            self.present.n += 1.0;
            self.present.sum += gap;
            self.present.squares += gap * gap;
        }
    }

    /// The period ends.
    pub fn end_period(&mut self) {
        self.period = std::mem::take(&mut self.present);
        self.span.n += self.period.n;
        self.span.sum += self.period.sum;
        self.span.squares += self.period.squares;
    }

    /// The span is over.
    pub fn forget_span(&mut self) {
        self.span = GapSums::default();
    }

    /// Mean gap in seconds, and its standard deviation, of the last period or the span; zero without any.
    #[must_use]
    pub fn moments(&self, of_span: bool) -> (f64, f64) {
        let GapSums { n, sum, squares } = if of_span { self.span } else { self.period };
        if n < 1.0 {
            return (0.0, 0.0);
        }
        let mean = sum / n;
        (mean, (squares / n - mean * mean).max(0.0).sqrt())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_period_or_of_the_span() {
        let mut samples = Samples::default();
        (1..=10).for_each(|ms| samples.add(Dur::from_millis(ms)));
        samples.end_period();
        (11..=20).for_each(|ms| samples.add(Dur::from_millis(ms)));
        samples.end_period();
        assert_eq!(samples.quantile_ms(0.5, false), Some(15.0));
        assert_eq!(samples.quantile_ms(0.5, true), Some(10.0));
        assert_eq!(samples.quantile_ms(1.0, true), Some(20.0));
        samples.forget_span();
        samples.end_period();
        assert_eq!(samples.quantile_ms(0.5, true), None);
    }

    #[test]
    fn of_many_samples_some_are_kept() {
        let mut samples = Samples::default();
        (1..=100_000).for_each(|us| samples.add(Dur::from_micros(us)));
        samples.end_period();
        assert!(samples.values.len() <= MOST);
        let median = samples.quantile_ms(0.5, false).unwrap();
        assert!((median - 50.0).abs() < 1.0, "{median}");
    }

    #[test]
    fn gaps_have_a_mean_and_a_deviation() {
        let mut gaps = Gaps::default();
        for ms in [0, 10, 40, 50, 80] {
            gaps.add(Time(ms * 1_000_000));
        }
        gaps.end_period();
        let (mean, deviation) = gaps.moments(false);
        assert!((mean - 0.02).abs() < 1e-12 && (deviation - 0.01).abs() < 1e-12, "{mean} {deviation}");
        assert_eq!(gaps.moments(true), gaps.moments(false));
    }
}
