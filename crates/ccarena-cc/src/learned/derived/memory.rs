//! Memory of a derived signal: the values that it is made of.

use std::collections::VecDeque;

use crate::types::{Dur, Time};

/// Most values that a stretch of time or periods keeps; of more, the oldest go.
const MOST: usize = 1 << 16;

/// One number out of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statistic {
    /// The smallest.
    Min,
    /// The mean.
    Mean,
    /// The largest.
    Max,
}

impl Statistic {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 3] = [Self::Max, Self::Mean, Self::Min];

    /// The name in a spec.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Mean => "mean",
            Self::Max => "max",
        }
    }

    /// Returns whether `x` makes an older `y` superfluous.
    fn beats(self, x: f64, y: f64) -> bool {
        match self {
            Self::Min => x <= y,
            Self::Max => x >= y,
            Self::Mean => false,
        }
    }
}

/// Values that a statistic is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Over {
    /// All of the flow so far.
    Flow,
    /// Values of the last so many milliseconds.
    Ms(f64),
    /// Values of the last so many periods, the present one included.
    Periods(u32),
}

/// Rule by which values become one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// A moving average; if it is reset, each period begins a new one.
    Ewma {
        /// Weight of the newest value.
        gain: f64,
        /// Flag that each period begins anew.
        reset: bool,
    },
    /// A statistic.
    Of(Statistic, Over),
}

/// Time of a value: on the clock, and in periods.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// The time.
    pub now: Time,
    /// Number of the period.
    pub period: u64,
}

/// The values so far, as far as the rule needs them.
#[derive(Clone, Debug)]
pub struct Memory {
    rule: Rule,
    /// The average, or the statistic of the whole flow; the last known one of a stretch.
    value: f64,
    count: f64,
    /// The next value begins a new average.
    stale: bool,
    /// Values with their times or periods, oldest first; of a minimum or maximum those that can still become one.
    kept: VecDeque<(u64, f64)>,
}

impl Memory {
    /// One without a value yet, which reads as zero.
    #[must_use]
    pub fn new(rule: Rule) -> Self {
        Self { rule, value: 0.0, count: 0.0, stale: true, kept: VecDeque::new() }
    }

    /// Takes a value.
    pub fn add(&mut self, x: f64, stamp: Stamp) {
        match self.rule {
            Rule::Ewma { gain, .. } => {
                let first = std::mem::take(&mut self.stale);
                self.value = if first { x } else { (1.0 - gain) * self.value + gain * x };
            }
            Rule::Of(statistic, Over::Flow) => {
                self.count += 1.0;
                let first = std::mem::take(&mut self.stale);
                if first || statistic.beats(x, self.value) {
                    self.value = x;
                } else if statistic == Statistic::Mean {
                    self.value += (x - self.value) / self.count;
                }
            }
            Rule::Of(statistic, over) => {
                while self.kept.back().is_some_and(|(_, y)| statistic.beats(x, *y)) {
                    self.kept.pop_back();
                }
                if self.kept.len() >= MOST {
                    self.kept.pop_front();
                }
                self.kept.push_back((place(over, stamp), x));
                let oldest = begin(over, stamp);
                while self.kept.front().is_some_and(|(at, _)| *at < oldest) {
                    self.kept.pop_front();
                }
            }
        }
    }

    /// Returns the value at a time; the one before it if the stretch has none, zero if there never was one.
    #[must_use]
    pub fn value(&self, stamp: Stamp) -> f64 {
        let Rule::Of(statistic, over @ (Over::Ms(_) | Over::Periods(_))) = self.rule else { return self.value };
        let from = self.kept.partition_point(|(at, _)| *at < begin(over, stamp));
        let mut values = self.kept.range(from..).map(|(_, x)| *x);
        if statistic == Statistic::Mean {
            let count = self.kept.len() - from;
            return if count > 0 { values.sum::<f64>() / count as f64 } else { self.value };
        }
        values.next().unwrap_or(self.value)
    }

    /// A period ends; `stamp` is its own.
    pub fn end_period(&mut self, stamp: Stamp) {
        match self.rule {
            Rule::Ewma { reset, .. } => self.stale |= reset,
            Rule::Of(_, Over::Flow) => {}
            Rule::Of(..) => self.value = self.value(stamp),
        }
    }
}

fn place(over: Over, stamp: Stamp) -> u64 {
    if matches!(over, Over::Periods(_)) { stamp.period } else { stamp.now.0 }
}

/// The first place of a stretch that ends at `stamp`.
fn begin(over: Over, stamp: Stamp) -> u64 {
    match over {
        Over::Flow => 0,
        Over::Ms(ms) => (stamp.now.0 + 1).saturating_sub(Dur::from_secs_f64(ms / 1e3).0),
        Over::Periods(count) => (stamp.period + 1).saturating_sub(count.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Stamp {
        Stamp { now: Time(ms * 1_000_000), period: ms / 10 }
    }

    fn after(rule: Rule, values: &[(u64, f64)], ms: u64) -> f64 {
        let mut memory = Memory::new(rule);
        values.iter().for_each(|&(ms, x)| memory.add(x, at(ms)));
        memory.value(at(ms))
    }

    #[test]
    fn a_statistic_is_of_its_stretch() {
        let values = [(1, 5.0), (12, 1.0), (23, 4.0), (29, 2.0), (31, 3.0)];
        for (statistic, expected) in
            [(Statistic::Min, [1.0, 2.0, 2.0]), (Statistic::Mean, [3.0, 3.0, 3.0]), (Statistic::Max, [5.0, 4.0, 4.0])]
        {
            let found = [Over::Flow, Over::Ms(10.0), Over::Periods(2)]
                .map(|over| after(Rule::Of(statistic, over), &values, 32));
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{statistic:?}: {found:?}");
        }
    }

    #[test]
    fn a_stretch_without_a_value_keeps_the_one_before() {
        for over in [Over::Ms(10.0), Over::Periods(1)] {
            for statistic in Statistic::ALL {
                let mut memory = Memory::new(Rule::Of(statistic, over));
                assert_eq!(memory.value(at(5)).to_bits(), 0.0_f64.to_bits());
                memory.add(7.0, at(5));
                memory.end_period(at(5));
                assert!((memory.value(at(500)) - 7.0).abs() < 1e-12, "{over:?} {statistic:?}");
            }
        }
    }

    #[test]
    fn an_average_begins_anew_where_it_is_told_to() {
        for (reset, expected) in [(true, 8.0), (false, 4.5)] {
            let mut memory = Memory::new(Rule::Ewma { gain: 0.5, reset });
            memory.add(2.0, at(1));
            memory.add(0.0, at(2));
            assert!((memory.value(at(2)) - 1.0).abs() < 1e-12);
            memory.end_period(at(2));
            assert!((memory.value(at(3)) - 1.0).abs() < 1e-12, "without a value the one before");
            memory.add(8.0, at(11));
            assert!((memory.value(at(11)) - expected).abs() < 1e-12, "reset {reset}");
        }
    }
}
