//! Derived signals compiled for one flow: steps in the order in which they are computed, each with its place.

use super::memory::{Memory, Stamp};
use crate::learned::monitor::{Newest, Tap};
use crate::learned::signals::{Arguments, Each, Read, View};
use crate::types::Time;

/// Computation of one value.
#[derive(Clone, Debug)]
pub(super) enum Op {
    /// A number.
    Constant(f64),
    /// A signal at the end of a period.
    Signal { value: Read, options: Box<[f64]> },
    /// A signal at an acknowledgement.
    Each { value: Each, options: Box<[f64]> },
    /// Value of the tap of this number at the end of a period.
    Tapped(usize),
    /// One value over another.
    Quotient { of: [usize; 2], default: f64 },
    /// One value less another.
    Difference([usize; 2]),
    /// A value among those before it.
    Held { of: usize, memory: Memory },
}

/// A computation with its bounds.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) op: Op,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Values of a program's steps; none where there is no sample.
#[derive(Clone, Debug, Default)]
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    values: Vec<Option<f64>>,
    period: u64,
}

impl Steps {
    /// Adds a step, and returns its place.
    pub(super) fn push(&mut self, step: Step) -> usize {
        self.steps.push(step);
        self.values.push(None);
        self.steps.len() - 1
    }

    fn run(&mut self, stamp: Stamp, source: impl Fn(&Op) -> Option<f64>) {
        for place in 0..self.steps.len() {
            let Step { op, low, high } = &mut self.steps[place];
            let at = |index: usize| self.values.get(index).copied().flatten();
            let found = match op {
                Op::Constant(x) => Some(*x),
                Op::Quotient { of: [a, b], default } => match (at(*a), at(*b)) {
                    (Some(a), Some(b)) => Some(if b == 0.0 { *default } else { a / b }),
                    _ => None,
                },
                Op::Difference([a, b]) => at(*a).zip(at(*b)).map(|(a, b)| a - b),
                Op::Held { of, memory } => {
                    if let Some(x) = at(*of) {
                        memory.add(x, stamp);
                    }
                    Some(memory.value(stamp))
                }
                op => source(op),
            };
            self.values[place] = found.map(|x| if x.is_nan() { *low } else { x.clamp(*low, *high) });
        }
    }

    fn end_period(&mut self, stamp: Stamp) {
        for step in &mut self.steps {
            if let Op::Held { memory, .. } = &mut step.op {
                memory.end_period(stamp);
            }
        }
        self.period += 1;
    }
}

/// All derived signals of an observation or of a report.
#[derive(Clone, Debug, Default)]
pub struct Program {
    pub(super) steps: Steps,
    /// Flag that its taps are the report's.
    pub(super) of_report: bool,
}

impl Program {
    /// Returns whether there is nothing to compute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.steps.is_empty()
    }

    /// Computes all values at the end of a period, and returns the view with them.
    #[must_use]
    pub fn run<'a>(&'a mut self, view: View<'a>) -> View<'a> {
        if self.is_empty() {
            return view;
        }
        let of_report = self.of_report;
        let stamp = Stamp { now: view.now, period: self.steps.period };
        self.steps.run(stamp, |op| match op {
            Op::Signal { value, options } => Some(value(&view, Arguments { options, channel: 0 })),
            Op::Tapped(index) => Some(view.monitor.tapped(of_report, *index, view.now)),
            _ => None,
        });
        self.steps.end_period(stamp);
        View { derived: &self.steps.values, ..view }
    }
}

/// Derived signal that acknowledgements feed.
#[derive(Debug, Default)]
pub(super) struct AckProgram {
    pub(super) steps: Steps,
}

impl Tap for AckProgram {
    fn on_ack(&mut self, newest: &Newest) {
        let stamp = Stamp { now: newest.at, period: self.steps.period };
        self.steps.run(stamp, |op| match op {
            Op::Each { value, options } => value(newest, options),
            _ => None,
        });
    }

    fn value(&self, now: Time) -> f64 {
        let Some(Step { op: Op::Held { memory, .. }, low, high }) = self.steps.steps.last() else { return 0.0 };
        memory.value(Stamp { now, period: self.steps.period }).clamp(*low, *high)
    }

    fn end_period(&mut self, now: Time) {
        self.steps.end_period(Stamp { now, period: self.steps.period });
    }
}
