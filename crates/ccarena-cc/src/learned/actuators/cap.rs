//! Actuator of the window's upper bound.

use super::{Actuator, ActuatorEntry, Takes};
use crate::learned::bases::base::{Base, Lever};
use crate::learned::monitor::Monitor;

/// Registry entry.
pub const CAP: ActuatorEntry = ActuatorEntry {
    name: "cap",
    doc: "bounds the window until the next action: by so many times highest throughput x smallest RTT, at least 2 \
          segments; no bound before there is a sample",
    source: "common",
    unit: "bandwidth-delay products",
    lever: Lever::Cap,
    relative: false,
    range: (0.0, 1000.0),
    bounds: (0.5, 4.0),
    takes: Takes::Numbers,
    options: &[],
    kernel: true,
    build: |parts| Box::new(Cap { mss: parts.mss }),
};

struct Cap {
    mss: f64,
}

impl Actuator for Cap {
    fn apply(&self, value: f32, base: &mut dyn Base, monitor: &Monitor) -> f32 {
        let segments = monitor.throughput_max * monitor.rtt_min.as_secs_f64() / 8.0 / self.mss;
        if segments > 0.0 {
            base.set_cap(f64::from(value) * segments);
        }
        value
    }
}
