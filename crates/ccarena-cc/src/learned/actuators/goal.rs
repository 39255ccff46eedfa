//! What a law's window moves towards, by a factor.

use super::{Actuator, ActuatorEntry};
use crate::learned::bases::base::{Base, Lever};
use crate::learned::monitor::Monitor;

/// By a factor.
pub const GOAL_EXP: ActuatorEntry = ActuatorEntry {
    name: "goal_exp",
    doc: "what the window moves towards is e^a of what the base would have; 0 leaves the base alone",
    source: "common",
    unit: "1",
    lever: Lever::Goal,
    relative: false,
    range: (-4.0, 4.0),
    bounds: (-1.0, 1.0),
    takes_ops: false,
    options: &[],
    kernel: false,
    build: |_| Box::new(Factor),
};

struct Factor;

impl Actuator for Factor {
    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        base.set_goal_factor(f64::from(value).exp());
        value
    }
}
