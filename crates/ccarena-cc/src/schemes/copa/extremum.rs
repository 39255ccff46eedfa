//! The smallest or largest RTT of a sliding span of time.

use std::collections::VecDeque;

use crate::types::{Dur, Time};

/// The smallest or largest of the recent samples (`ExtremeWindow`): those that may yet be it, in order of time.
pub(super) struct Extremum {
    largest: bool,
    samples: VecDeque<(Time, Dur)>,
}

impl Extremum {
    pub(super) fn smallest() -> Self {
        Self { largest: false, samples: VecDeque::new() }
    }

    pub(super) fn largest() -> Self {
        Self { largest: true, samples: VecDeque::new() }
    }

    /// Takes a sample and forgets those older than `span`.
    pub(super) fn update(&mut self, now: Time, sample: Dur, span: Dur) {
        let surpassed = |old: Dur| if self.largest { old <= sample } else { old >= sample };
        while self.samples.back().is_some_and(|&(_, old)| surpassed(old)) {
            self.samples.pop_back();
        }
        self.samples.push_back((now, sample));
        while self.samples.front().is_some_and(|&(at, _)| now.since(at) > span) {
            self.samples.pop_front();
        }
    }

    /// Zero before the first sample.
    pub(super) fn get(&self) -> Dur {
        self.samples.front().map_or(Dur::ZERO, |&(_, sample)| sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extrema_slide() {
        let (mut min, mut max) = (Extremum::smallest(), Extremum::largest());
        let at = |ms| Time::ZERO + Dur::from_millis(ms);
        for (ms, sample) in [(0, 5), (1, 3), (2, 4), (3, 9), (4, 7)] {
            min.update(at(ms), Dur(sample), Dur::from_millis(2));
            max.update(at(ms), Dur(sample), Dur::from_millis(2));
        }
        assert_eq!((min.get(), max.get()), (Dur(4), Dur(9)));
        assert_eq!(Extremum::smallest().get(), Dur::ZERO);
    }
}
