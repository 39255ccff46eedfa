//! The rate, by value or by a factor.

use super::{Actuator, ActuatorEntry, Takes};
use crate::learned::bases::base::{Base, Held, Lever};
use crate::learned::monitor::Monitor;
use crate::param::Param;

/// Actuator of the rate by value.
pub const RATE: ActuatorEntry = ActuatorEntry {
    name: "rate",
    doc: "sets the sending rate",
    source: "common",
    unit: "Mbit/s",
    lever: Lever::Rate,
    relative: false,
    range: (0.01, 100_000.0),
    bounds: (0.1, 1000.0),
    takes: Takes::Numbers,
    options: &[],
    kernel: true,
    build: |_| Box::new(Value),
};

/// Actuator of the rate by a factor.
pub const RATE_FACTOR: ActuatorEntry = ActuatorEntry {
    name: "rate_factor",
    doc: "rate × (1 + δa) if a ≥ 0, rate / (1 − δa) otherwise: an action and its opposite cancel out",
    source: "Jay et al., Aurora, ICML 2019, equation 1",
    unit: "1",
    lever: Lever::Rate,
    relative: true,
    range: (-1000.0, 1000.0),
    bounds: (-10.0, 10.0),
    takes: Takes::Numbers,
    options: &[Param {
        name: "delta",
        default: 0.025,
        min: 0.0,
        max: 1.0,
        doc: "δ, the change of rate per unit of action",
    }],
    kernel: true,
    build: |parts| Box::new(Factor { delta: parts.options[0] }),
};

struct Value;

impl Actuator for Value {
    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        base.set_rate(f64::from(value) * 1e6);
        value
    }

    fn implied(&self, _before: Held, after: Held) -> Option<f32> {
        Some((after.rate_bps / 1e6) as f32)
    }
}

struct Factor {
    delta: f64,
}

impl Actuator for Factor {
    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        let (step, rate) = (self.delta * f64::from(value), base.rate_bps());
        base.set_rate(if value >= 0.0 { rate * (1.0 + step) } else { rate / (1.0 - step) });
        value
    }

    fn implied(&self, before: Held, after: Held) -> Option<f32> {
        Some(change(after.rate_bps / before.rate_bps, self.delta))
    }
}

/// The action a of which the factor is 1 + δa, or 1 / (1 − δa) below 1.
pub(super) fn change(factor: f64, delta: f64) -> f32 {
    ((if factor >= 1.0 { factor - 1.0 } else { 1.0 - 1.0 / factor }) / delta) as f32
}
