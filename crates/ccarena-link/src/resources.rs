//! Check whether this machine may give the resources of a real-time run.

use ccarena_net::{Demand, Limits, ResourceError, Scenario, resources};

/// Holds what `scenario` asks for against the limit, as the environment sets it.
///
/// # Errors
/// If it is more, or the variable is no factor.
pub fn check(scenario: &Scenario) -> Result<(), ResourceError> {
    let setting = std::env::var(resources::VARIABLE).ok();
    Demand::of(scenario).check(&Limits::from_setting(setting.as_deref())?)
}
