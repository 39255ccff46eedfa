//! A windowed maximum in constant space: Kathleen Nichols' algorithm (Linux's `lib/win_minmax.c`).
//!
//! The best, second and third best samples are kept, each younger than the one before; as the best ages out of the
//! window the next steps up. The maximum is at worst one from a quarter of the window ago.

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: u64,
    value: u64,
}

#[derive(Clone, Debug, Default)]
pub(in crate::schemes) struct MaxFilter {
    best: [Sample; 3],
}

impl MaxFilter {
    #[inline]
    pub(in crate::schemes) fn max(&self) -> u64 {
        self.best[0].value
    }

    /// Takes `value` at `at` (in rounds, not decreasing), for a window of `length` rounds.
    #[inline]
    pub(in crate::schemes) fn update(&mut self, length: u64, at: u64, value: u64) {
        let sample = Sample { at, value };
        if value >= self.best[0].value || at - self.best[2].at > length {
            self.best = [sample; 3];
            return;
        }
        if value >= self.best[1].value {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].value {
            self.best[2] = sample;
        }
        self.expire(length, sample);
    }

    fn expire(&mut self, length: u64, sample: Sample) {
        let age = sample.at - self.best[0].at;
        if age > length {
            self.step_up(sample);
            if sample.at - self.best[0].at > length {
                self.step_up(sample);
            }
        } else if self.best[1].at == self.best[0].at && age > length / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].at == self.best[1].at && age > length / 2 {
            self.best[2] = sample;
        }
    }

    fn step_up(&mut self, sample: Sample) {
        self.best = [self.best[1], self.best[2], sample];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_a_maximum_for_the_window_and_no_longer() {
        let mut filter = MaxFilter::default();
        filter.update(10, 0, 100);
        for round in 1..=10 {
            filter.update(10, round, 50);
            assert_eq!(filter.max(), 100, "round {round}");
        }
        filter.update(10, 11, 50);
        assert_eq!(filter.max(), 50);
        filter.update(10, 11, 70);
        assert_eq!(filter.max(), 70);
        filter.update(10, 30, 3);
        assert_eq!(filter.max(), 3, "everything older than the window is forgotten");
    }
}
