//! The window, by value or by a power of two.

use super::{Actuator, ActuatorEntry, Takes};
use crate::elementary;
use crate::learned::bases::base::{Base, Held, Lever};
use crate::learned::monitor::Monitor;
use crate::param::Param;

/// Actuator of the window by value.
pub const WINDOW: ActuatorEntry = ActuatorEntry {
    name: "window",
    doc: "sets the window",
    source: "common",
    unit: "segments",
    lever: Lever::Window,
    relative: false,
    range: (1.0, 1e6),
    bounds: (2.0, 1000.0),
    takes: Takes::Numbers,
    options: &[],
    kernel: true,
    build: |_| Box::new(Value),
};

/// Actuator of the window by a power of two.
pub const WINDOW_EXP2: ActuatorEntry = ActuatorEntry {
    name: "window_exp2",
    doc: "window × 2^a",
    source: "Abbasloo et al., Orca, SIGCOMM 2020",
    unit: "1",
    lever: Lever::Window,
    relative: true,
    range: (-16.0, 16.0),
    bounds: (-2.0, 2.0),
    takes: Takes::Numbers,
    options: &[
        Param {
            name: "max",
            default: 2.0,
            min: 0.0,
            max: 16.0,
            doc: "the a that the largest action stands for; other actions stand for less in proportion",
        },
        Param {
            name: "window_limit",
            default: 2.0,
            min: 1.0,
            max: 1000.0,
            doc: "no action lifts the window beyond this many times highest throughput x smoothed RTT: a learner that \
                  explores would otherwise have millions of segments in flight, where a socket's send buffer ends this",
        },
    ],
    kernel: true,
    build: |parts| {
        let scale = parts.options[0] as f32 / parts.bounds.1;
        Box::new(PowerOfTwo { scale, window_limit: parts.options[1], mss: parts.mss })
    },
};

struct Value;

impl Actuator for Value {
    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        base.scale_window(f64::from(value) / base.segments().max(1.0), u32::MAX);
        value
    }

    fn implied(&self, _before: Held, after: Held) -> Option<f32> {
        Some(after.segments as f32)
    }
}

struct PowerOfTwo {
    scale: f32,
    window_limit: f64,
    mss: f64,
}

impl Actuator for PowerOfTwo {
    fn apply(&self, value: f32, base: &mut dyn Base, monitor: &Monitor) -> f32 {
        let a = value * self.scale;
        // The largest window that an action may lead to; an initial window in any case.
        let bits = self.window_limit * monitor.throughput_max * monitor.srtt.as_secs_f64();
        let most = ((bits / 8.0 / self.mss) as u32).max(10);
        base.scale_window(elementary::exp2(f64::from(a)), most);
        a
    }

    fn implied(&self, before: Held, after: Held) -> Option<f32> {
        let a = elementary::ln(after.segments / before.segments) / std::f64::consts::LN_2;
        Some((a / f64::from(self.scale)) as f32)
    }
}
