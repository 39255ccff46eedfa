//! Operations on the window.

use super::{Actuator, ActuatorEntry, Takes};
use crate::elementary;
use crate::learned::bases::base::{Base, Held, Lever};
use crate::learned::monitor::Monitor;

/// Registry entry.
pub const WINDOW_OPS: ActuatorEntry = ActuatorEntry {
    name: "window_ops",
    doc: "one of the operations `ops` on the window in segments, such as \"/2\", \"-10\", \"+0\", \"+10\", \"*2\"",
    source: "Yan et al., Pantheon/Indigo, ATC 2018",
    unit: "index",
    lever: Lever::Window,
    relative: true,
    range: (0.0, 255.0),
    bounds: (0.0, 255.0),
    takes: Takes::Operations,
    options: &[],
    kernel: true,
    build: |parts| Box::new(Ops(parts.ops.into())),
};

/// An operation on the window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Segments more, or fewer.
    Add(f64),
    /// A factor.
    Multiply(f64),
}

impl Op {
    /// Reads `"+N"`, `"-N"`, `"*N"` or `"/N"`, N being a number from 0 to 10^6 and not 0 in a quotient.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (sign, number) = text.split_at_checked(1)?;
        let number: f64 = number.parse().ok().filter(|n| (0.0..=1e6).contains(n))?;
        match sign {
            "+" => Some(Self::Add(number)),
            "-" => Some(Self::Add(-number)),
            "*" => Some(Self::Multiply(number)),
            "/" if number > 0.0 => Some(Self::Multiply(1.0 / number)),
            _ => None,
        }
    }

    fn on(self, segments: f64) -> f64 {
        match self {
            Self::Add(n) => segments + n,
            Self::Multiply(factor) => segments * factor,
        }
    }
}

struct Ops(Vec<Op>);

impl Actuator for Ops {
    fn apply(&self, value: f32, base: &mut dyn Base, _monitor: &Monitor) -> f32 {
        if let Some(op) = self.0.get(value as usize) {
            let before = base.segments().max(1.0);
            base.scale_window(op.on(before).max(1.0) / before, u32::MAX);
        }
        value
    }

    /// The operation whose window is the nearest one by its ratio.
    fn implied(&self, before: Held, after: Held) -> Option<f32> {
        let distance = |op: &Op| elementary::ln(op.on(before.segments).max(1.0) / after.segments).abs();
        let distances = self.0.iter().map(distance).enumerate();
        distances.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(index, _)| index as f32)
    }
}
