//! A spec compiled for one flow: functions, numbers and places, no names.

use std::sync::Arc;

use super::actuators::Actuator;
use super::bases::base::Lever;
use super::clocks::Clock;
use super::derived::Program;
use super::interface::Interface;
use super::monitor::{Horizon, Parts, Tap};
use super::signals::{Arguments, Read, View};
use super::start::Start;
use crate::action::{MOST_NUMBERS, Numbers};
use crate::types::{Rate, Requirement};

/// One series of the observation, or one column of the report.
pub struct Column {
    /// Value function.
    pub value: Read,
    /// Options in the spec.
    pub options: Box<[f64]>,
    /// Index of the channel of its signal.
    pub channel: usize,
    /// Bounds of its values.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Index of its first value.
    pub at: usize,
    /// Number of values.
    pub length: usize,
    /// Flag that it is read when the decider is asked.
    pub live: bool,
}

impl Column {
    /// Returns its value in `view`, within its bounds.
    pub fn read(&self, view: &View<'_>) -> f32 {
        let x = (self.value)(view, Arguments { options: &self.options, channel: self.channel });
        (if x.is_nan() { self.low } else { x.clamp(self.low, self.high) }) as f32
    }
}

/// An actuator of a flow.
pub struct Acting {
    /// The actuator.
    pub actuator: Box<dyn Actuator>,
    /// Lever that it moves.
    pub lever: Lever,
    /// An action counts only when one was asked for.
    pub relative: bool,
    /// Values of its discrete actions, where they are one of several actuators'.
    pub values: Vec<f32>,
}

/// All that a [`Composed`](super::composed::Composed) is built from besides its base.
pub struct Plan {
    /// Observation, report and actions.
    pub interface: Arc<Interface>,
    /// Clock that ends its periods.
    pub clock: Box<dyn Clock>,
    /// Actuators of its actions.
    pub actuators: Vec<Acting>,
    /// The observation.
    pub observe: Vec<Column>,
    /// The report.
    pub report: Vec<Column>,
    /// Derived signals of the observation, and of the report.
    pub observed: Program,
    /// See `observed`.
    pub reported: Program,
    /// Derived signals of both that acknowledgements feed.
    pub taps: [Vec<Box<dyn Tap>>; 2],
    /// The time before the first decision, if it is special.
    pub start: Option<Start>,
    /// Flag that packets leave as ECT(1), for an L4S queue.
    pub l4s: bool,
    /// Measured parts.
    pub parts: Parts,
    /// Horizon of its signals.
    pub horizon: Horizon,
    /// Flag that it takes an advertised rate.
    pub takes_rate: bool,
    /// The rate that the application wants.
    pub desired: Rate,
    /// Payload of a segment in bytes, and the same with headers.
    pub mss: f64,
    /// See `mss`.
    pub wire_bytes: f64,
    /// Values of parameters and inputs.
    pub params: Vec<f64>,
    /// The flow's weight.
    pub weight: f64,
    /// The application's requirement.
    pub requirement: Option<Requirement>,
}

impl Plan {
    /// The values of an action's numbers by actuator. A discrete action of several actuators is an index into the product
    /// of their actions, of which the last actuator's change fastest.
    pub(super) fn split(&self, numbers: Numbers) -> [f32; MOST_NUMBERS] {
        let mut values = [0.0; MOST_NUMBERS];
        values.iter_mut().zip(&*numbers).for_each(|(to, from)| *to = *from);
        if self.actuators.iter().all(|acting| acting.values.is_empty()) {
            return values;
        }
        let mut index = values[0] as usize;
        for (value, acting) in values.iter_mut().take(self.actuators.len()).zip(&self.actuators).rev() {
            let count = acting.values.len().max(1);
            *value = acting.values.get(index % count).copied().unwrap_or_default();
            index /= count;
        }
        values
    }
}
