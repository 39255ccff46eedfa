//! Actuator of the pacing rate as windows per smoothed RTT.

use super::{Actuator, ActuatorEntry, Takes};
use crate::learned::bases::base::{Base, Lever};
use crate::learned::monitor::Monitor;

/// Registry entry.
pub const PACING_GAIN: ActuatorEntry = ActuatorEntry {
    name: "pacing_gain",
    doc: "paces at so many windows per smoothed RTT; the base's own pacing until the first action",
    source: "Linux, sk_pacing_rate (tcp_update_pacing_rate)",
    unit: "windows per smoothed RTT",
    lever: Lever::Pacing,
    relative: false,
    range: (0.01, 100.0),
    bounds: (0.5, 2.0),
    takes: Takes::Numbers,
    options: &[],
    kernel: true,
    build: |_| Box::new(PacingGain),
};

struct PacingGain;

impl Actuator for PacingGain {
    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        base.set_pacing_gain(f64::from(value));
        value
    }
}
