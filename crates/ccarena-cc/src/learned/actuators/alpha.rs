//! Actuator of α of an additive increase.

use super::{Actuator, ActuatorEntry, Takes};
use crate::learned::bases::base::{Base, Lever};
use crate::learned::monitor::Monitor;
use crate::param::Param;

/// Registry entry.
pub const ALPHA: ActuatorEntry = ActuatorEntry {
    name: "alpha",
    doc: "sets α, by which the window grows per window of acknowledged data",
    source: "Kheirkhah et al., ACCT, equation 4",
    unit: "segments",
    lever: Lever::Alpha,
    relative: false,
    range: (0.0, 1000.0),
    bounds: (1.0, 100.0),
    takes: Takes::Numbers,
    options: &[Param { name: "initial", default: 1.0, min: 0.0, max: 1000.0, doc: "α until the first action" }],
    kernel: true,
    build: |parts| Box::new(Alpha { initial: parts.options[0] as f32 }),
};

struct Alpha {
    initial: f32,
}

impl Actuator for Alpha {
    fn begin(&self, base: &mut dyn Base) -> f32 {
        base.set_alpha(self.initial);
        self.initial
    }

    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        base.set_alpha(value);
        value
    }
}
