//! Actuator of the scheme that runs.

use super::{Actuator, ActuatorEntry, Takes};
use crate::learned::bases::base::{Base, Lever};
use crate::learned::monitor::Monitor;

/// Registry entry.
pub const CHOICE: ActuatorEntry = ActuatorEntry {
    name: "choice",
    doc: "which of the base's `schemes` runs; the first one until the first action",
    source: "Zhou et al., Antelope, ICNP 2021; Linux, tcp_set_congestion_control",
    unit: "index",
    lever: Lever::Choice,
    relative: false,
    range: (0.0, 255.0),
    bounds: (0.0, 255.0),
    takes: Takes::Schemes,
    options: &[],
    kernel: false,
    build: |_| Box::new(Choice),
};

struct Choice;

impl Actuator for Choice {
    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        base.choose(value as usize);
        value
    }
}
