//! The start of a flow, before its decider is asked.

use serde_json::{Value, json};

use crate::learned::actuators::ActuatorEntry;
use crate::learned::bases::base::Lever;
use crate::reader::{At, Result};
use crate::types::Dur;

/// Growth of the window until the base has left slow start: as often as `every`, by `factor`, cut to whole segments.
/// Each step waits for an acknowledgement, and is on top of what the base does. What is measured in this time is no part
/// of an observation, and there is no decision. The step that finds the window above the slow-start threshold ends a
/// period as any other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Start {
    /// Length of a step.
    pub every: Dur,
    /// Growth of a step.
    pub factor: f64,
    /// Segments that it does not lead beyond.
    pub most: u32,
}

impl Start {
    pub(in crate::learned) fn read(at: &At<'_>, actuators: &[&ActuatorEntry]) -> Result<Self> {
        if actuators.iter().all(|actuator| actuator.lever != Lever::Window) {
            let names: Vec<String> = actuators.iter().map(|actuator| format!("{:?}", actuator.name)).collect();
            return at.fail(format!("null: {} does not move the window", names.join(" with ")));
        }
        let o = at.object(&["every_ms", "factor", "most"])?;
        let every_ms = o.require("every_ms", "the length of a step in ms")?.number(0.1, 1000.0)?;
        let factor = o.require("factor", "the growth of a step")?.number(1.0, 2.0)?;
        let most = o.or("most", u32::MAX, |at| at.small(2, u32::MAX))?;
        Ok(Self { every: Dur::from_secs_f64(every_ms / 1e3), factor, most })
    }

    pub(in crate::learned) fn to_json(self) -> Value {
        json!({"every_ms": self.every.as_millis_f64(), "factor": self.factor, "most": self.most})
    }
}
