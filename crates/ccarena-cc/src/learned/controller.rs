//! The side of a controller whose actions come from outside.

use std::sync::Arc;

use super::clocks::{DatapathClock, Decision};
use super::interface::Interface;
use crate::action::{Action, ActionError, Numbers};
use crate::types::Time;

/// A controller whose actions come from a [decider](crate::decider): it reports at the end of each decision interval and
/// holds the last action until the next.
pub trait LearnedController {
    /// Returns its observation, report and actions.
    fn interface(&self) -> &Arc<Interface>;

    /// True once after each decision interval: an action is due.
    fn take_decision(&mut self) -> bool;

    /// The clock that a datapath may run in the controller's place, while the datapath runs CUBIC
    /// ([`Extrapolation::cubic`](crate::controller::Extrapolation::cubic)). The datapath then judges each interval and
    /// passes on its decision ([`adopt_decision`](Self::adopt_decision)); it waits for an action only if the decision
    /// asks for one.
    fn datapath_clock(&self) -> Option<DatapathClock> {
        None
    }

    /// A datapath runs the clock ([`datapath_clock`](Self::datapath_clock)). If it has a decision, the present interval
    /// ends with the next acknowledgement. From the first call on no interval ends in another way.
    fn adopt_decision(&mut self, _decision: Option<Decision>) {}

    /// Ends the interval at `now` with the measurements so far: for an episode that is cut off.
    fn end_interval(&mut self, now: Time);

    /// Writes the observation (`interface().observation_len` values; a shorter `out` gets the first of them).
    fn observe(&self, out: &mut [f32]);

    /// Writes the last interval's report (`interface().report.len()` values).
    fn report(&self, out: &mut [f32]);

    /// Returns the action in force: an index into discrete actions, or continuous values; zeros before the first one.
    fn acted(&self) -> Numbers;

    /// Puts `action` in force at `now`.
    ///
    /// # Errors
    /// If the action is outside the action space, not finite or of the wrong kind; the old one then stays in force.
    fn act(&mut self, action: Action, now: Time) -> Result<(), ActionError>;
}
