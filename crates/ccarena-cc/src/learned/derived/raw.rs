//! Signals of the registry as a spec names them.

use crate::learned::monitor::{Horizon, Parts};
use crate::learned::number::Number;
use crate::learned::signals::Signal;
use crate::types::Dur;

/// A signal of the registry with its options.
pub(in crate::learned) struct Raw {
    pub(in crate::learned) signal: &'static Signal,
    pub(in crate::learned) options: Vec<Number>,
    /// The parameter or input that it is the value of.
    pub(in crate::learned) named: Option<usize>,
    /// The actuator whose action it is.
    pub(in crate::learned) actuator: Option<usize>,
    pub(in crate::learned) low: f64,
    pub(in crate::learned) high: f64,
}

impl Raw {
    /// Returns the values of its options, and adds what has to be measured for it to `parts` and `horizon`.
    pub(in crate::learned) fn options(
        &self,
        resolve: &dyn Fn(&[Number]) -> Vec<f64>,
        parts: &mut Parts,
        horizon: &mut Horizon,
    ) -> Box<[f64]> {
        let mut options = resolve(&self.options);
        *parts = parts.and(self.signal.parts);
        if self.signal.is_windowed() && (options[0] > 0.0 || options[1] > 0.0) {
            *parts = parts.and(Parts::RECENT);
            horizon.reach(Dur::from_secs_f64(options[0] / 1e3), options[1]);
        }
        options.extend(self.named.or(self.actuator).map(|index| index as f64));
        options.into()
    }
}
