//! Actuators: what an action moves.

mod alpha;
mod cap;
mod choice;
mod pacing_gain;
mod rate;
mod window;
mod window_factor;
mod window_ops;

pub use self::window_ops::Op;
use super::bases::base::{Base, Held, Lever};
use super::monitor::Monitor;
use crate::param::Param;

/// Turns an action's value into a change of the base.
pub trait Actuator: Send + Sync {
    /// The flow begins; the action that is then in force.
    fn begin(&self, _base: &mut dyn Base) -> f32 {
        0.0
    }

    /// Puts `value` in force; what [`last_action`](super::signals) then is.
    fn apply(&self, value: f32, base: &mut dyn Base, monitor: &Monitor) -> f32;

    /// Returns the value that leads from `before` to `after`, over a base that moves neither by itself; none if the
    /// actuator moves something else.
    fn implied(&self, _before: Held, _after: Held) -> Option<f32> {
        None
    }
}

/// Arguments of an actuator's constructor.
pub struct Parts<'a> {
    /// The options' values in the entry's order.
    pub options: &'a [f64],
    /// Bounds of the action.
    pub bounds: (f32, f32),
    /// Operations, for an actuator that takes them.
    pub ops: &'a [Op],
    /// Payload of a segment in bytes.
    pub mss: f64,
}

/// Kind of an actuator's actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// A number within bounds, or one of some levels.
    Numbers,
    /// An operation out of a list.
    Operations,
    /// A scheme of the base.
    Schemes,
}

/// A registered actuator.
pub struct ActuatorEntry {
    /// Name in a spec.
    pub name: &'static str,
    /// Description.
    pub doc: &'static str,
    /// Source of the design.
    pub source: &'static str,
    /// Unit of the action.
    pub unit: &'static str,
    /// Lever that it moves.
    pub lever: Lever,
    /// Flag that it changes the present value. Its action counts only when one was requested: not before the first
    /// packet, nor twice.
    pub relative: bool,
    /// Values that an action may have at all.
    pub range: (f64, f64),
    /// Bounds of the action if a spec gives none.
    pub bounds: (f64, f64),
    /// Kind of its actions.
    pub takes: Takes,
    /// Options of the actuator.
    pub options: &'static [Param],
    /// A program in the kernel can run it.
    pub kernel: bool,
    /// Builds one.
    pub build: fn(&Parts<'_>) -> Box<dyn Actuator>,
}

/// All actuators, by name.
pub const ACTUATORS: &[ActuatorEntry] = &[
    alpha::ALPHA,
    cap::CAP,
    choice::CHOICE,
    pacing_gain::PACING_GAIN,
    rate::RATE,
    rate::RATE_FACTOR,
    window::WINDOW,
    window::WINDOW_EXP2,
    window_factor::WINDOW_FACTOR,
    window_ops::WINDOW_OPS,
];
