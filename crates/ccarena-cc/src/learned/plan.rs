//! A spec compiled for one flow: functions, numbers and places, no names.

use std::sync::Arc;

use super::actuators::Actuator;
use super::clocks::Clock;
use super::derived::{Program, Tap};
use super::interface::Interface;
use super::monitor::{Horizon, Parts};
use super::signals::{Arguments, Read, View};
use super::spec::Start;
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

/// All that a [`Composed`](super::composed::Composed) is built from besides its base.
pub struct Plan {
    /// Observation, report and actions.
    pub interface: Arc<Interface>,
    /// Clock that ends its periods.
    pub clock: Box<dyn Clock>,
    /// Actuator of its actions.
    pub actuator: Box<dyn Actuator>,
    /// An action counts only when one was asked for.
    pub relative: bool,
    /// The observation.
    pub observe: Vec<Column>,
    /// The report.
    pub report: Vec<Column>,
    /// Derived signals of the observation, and of the report.
    pub observed: Program,
    /// See `observed`.
    pub reported: Program,
    /// Those of both that acknowledgements feed.
    pub taps: [Vec<Tap>; 2],
    /// The time before the first decision, if it is special.
    pub start: Option<Start>,
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
