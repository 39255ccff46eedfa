//! Actions of a decider, and reasons why a scheme refuses one.

use std::ops::{Deref, DerefMut};

/// Most numbers that one action has: a lever each.
pub const MOST_NUMBERS: usize = 4;

/// The numbers of a continuous action, in the order of the spec's actuators.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    values: [f32; MOST_NUMBERS],
    length: usize,
}

impl Numbers {
    /// The first [`MOST_NUMBERS`] of `values`.
    #[must_use]
    pub fn of(values: &[f32]) -> Self {
        let mut numbers = Self { values: [0.0; MOST_NUMBERS], length: values.len().min(MOST_NUMBERS) };
        numbers.values.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
        numbers
    }
}

impl Deref for Numbers {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[..self.length]
    }
}

impl DerefMut for Numbers {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[..self.length]
    }
}

impl From<f32> for Numbers {
    fn from(value: f32) -> Self {
        Self::of(&[value])
    }
}

/// Action of a decider at the end of a decision interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Index into the scheme's list of actions.
    Discrete(u32),
    /// A value within its bounds for each actuator of the scheme.
    Continuous(Numbers),
}

/// An action that the scheme cannot take. The action in force stays.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ActionError {
    /// The action is outside the action space.
    #[error("action {got} is outside the action space: expected {expected}")]
    OutOfRange {
        /// Given action.
        got: String,
        /// Actions that the scheme takes.
        expected: String,
    },
    /// NaN or infinite.
    #[error("action {0} is not a finite number")]
    NotFinite(f32),
    /// Discrete where continuous is expected, or the other way round.
    #[error("the scheme takes {expected} actions")]
    WrongKind {
        /// "discrete" or "continuous".
        expected: &'static str,
    },
    /// An action of too few or too many numbers.
    #[error("an action of {got} numbers: the scheme takes {expected}, one for each of its actuators")]
    Count {
        /// Given count.
        got: usize,
        /// Expected count.
        expected: usize,
    },
}
