//! Actuator of the window by a factor, in whole segments.

use super::rate::change;
use super::{Actuator, ActuatorEntry, Takes};
use crate::elementary;
use crate::learned::bases::base::{Base, Held, Lever};
use crate::learned::monitor::Monitor;
use crate::param::Param;

/// Registry entry.
pub const WINDOW_FACTOR: ActuatorEntry = ActuatorEntry {
    name: "window_factor",
    doc: "window × (1 + δa) if a ≥ 0, window / (1 − δa) otherwise, or window × power^a; rounded to whole segments",
    source: "Liao et al., Astraea, EuroSys 2024; Orca's published code (power 4, parts 100, rounding 1, least 4)",
    unit: "1",
    lever: Lever::Window,
    relative: true,
    range: (-16.0, 16.0),
    bounds: (-1.0, 1.0),
    takes: Takes::Numbers,
    options: &[
        Param { name: "delta", default: 0.025, min: 0.0, max: 1.0, doc: "δ, the change of window per unit of action" },
        Param {
            name: "power",
            default: 0.0,
            min: 0.0,
            max: 16.0,
            doc: "the factor of action 1, in place of δ; 0 is not",
        },
        Param {
            name: "parts",
            default: 0.0,
            min: 0.0,
            max: 1e6,
            doc: "the factor is cut to this many parts of 1: 100 is whole percent; 0 is not",
        },
        Param {
            name: "rounding",
            default: 0.0,
            min: 0.0,
            max: 3.0,
            doc: "of the window: 0 to the nearest segment, 1 down, 2 up, 3 away from the window before",
        },
        Param { name: "least", default: 2.0, min: 1.0, max: 1000.0, doc: "smallest window that an action leads to" },
        Param {
            name: "most",
            default: 1e9,
            min: 2.0,
            max: 1e9,
            doc: "no action lifts the window beyond so many segments, as a send buffer does not",
        },
    ],
    kernel: true,
    build: |parts| {
        let [delta, power, cut, rounding, least, most] = *parts.options else { return Box::new(Factor::default()) };
        Box::new(Factor { delta, power, parts: cut.round(), rounding, least, most: most as u32 })
    },
};

#[derive(Default)]
struct Factor {
    delta: f64,
    power: f64,
    parts: f64,
    rounding: f64,
    least: f64,
    most: u32,
}

impl Factor {
    /// The window that action `a` makes of `segments`.
    fn after(&self, a: f64, segments: f64) -> f64 {
        let factor = if self.power > 0.0 {
            elementary::powf(self.power, a)
        } else if a >= 0.0 {
            1.0 + self.delta * a
        } else {
            1.0 / (1.0 - self.delta * a)
        };
        // Whole numbers until the last step, so that no rounding error decides.
        let exact =
            if self.parts > 0.0 { (factor * self.parts).floor() * segments / self.parts } else { factor * segments };
        let whole = match self.rounding.round() as u32 {
            1 => exact.floor(),
            2 => exact.ceil(),
            3 if a > 0.0 => exact.ceil(),
            3 => exact.floor(),
            _ => exact.round(),
        };
        whole.max(self.least)
    }
}

impl Actuator for Factor {
    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        let before = base.segments().max(1.0);
        base.scale_window(self.after(value.into(), before.round()) / before, self.most);
        value
    }

    fn implied(&self, before: Held, after: Held) -> Option<f32> {
        let factor = after.segments / before.segments;
        let by_power = || (elementary::ln(factor) / elementary::ln(self.power)) as f32;
        Some(if self.power > 0.0 { by_power() } else { change(factor, self.delta) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_those_of_the_published_code() {
        let orca = Factor { power: 4.0, parts: 100.0, rounding: 1.0, least: 4.0, ..Factor::default() };
        // int(4^a x 100) percent, then percent x window / 100 in whole numbers, at least 4.
        for (a, before, after) in
            [(0.0, 57.0, 57.0), (1.0, 57.0, 228.0), (-1.0, 57.0, 14.0), (-1.0, 10.0, 4.0), (0.1, 101.0, 115.0)]
        {
            assert!((orca.after(a, before) - after).abs() < 1e-12, "{a} {before}: {}", orca.after(a, before));
        }
        let astraea = Factor { delta: 0.025, rounding: 3.0, least: 4.0, ..Factor::default() };
        for (a, before, after) in [
            (0.0, 57.0, 57.0),
            (1e-9, 57.0, 58.0),
            (1.0, 10.0, 11.0),
            (1.0, 800.0, 820.0),
            (-1e-9, 57.0, 56.0),
            (-1.0, 820.0, 800.0),
            (-1.0, 4.0, 4.0),
        ] {
            assert!((astraea.after(a, before) - after).abs() < 1e-12, "{a} {before}: {}", astraea.after(a, before));
        }
        let nearest = Factor { delta: 0.1, least: 1.0, ..Factor::default() };
        assert!((nearest.after(1.0, 13.0) - 14.0).abs() < 1e-12);
        assert!((Factor { rounding: 2.0, ..nearest }.after(-1.0, 12.0) - 11.0).abs() < 1e-12);
    }
}
