//! Policy artifacts as deciders.

use std::path::Path;
use std::sync::Arc;

use super::Policy;
use crate::controller::Action;

/// A policy as a function from observation to action.
pub type PolicyFn = Box<dyn FnMut(&[f32]) -> Action + Send + Sync>;

/// Reads the policy artifact `path`.
///
/// # Errors
/// A message that names the file.
pub fn load(path: &Path) -> Result<Policy, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: cannot be read: {e}", path.display()))?;
    Policy::from_bytes(&bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// `policy`, which was read from `file`, deciding for a scheme that observes `observation` (such as `acct-1`).
///
/// # Errors
/// A message, if it observes something else.
pub fn decider(policy: Arc<Policy>, file: &str, observation: &str) -> Result<PolicyFn, String> {
    if policy.spec().id != observation {
        return Err(format!("{file}: observes {:?}; the scheme gives {observation:?}", policy.spec().id));
    }
    let mut scratch = policy.scratch();
    // Never reached: the observation's length was checked with the artifact, so inference cannot fail.
    let fallback = if policy.spec().actions.is_empty() { Action::Continuous(0.0) } else { Action::Discrete(0) };
    Ok(Box::new(move |observation| policy.action(observation, &mut scratch).unwrap_or(fallback)))
}
