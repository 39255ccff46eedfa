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

/// `policy`, which was read from `file`, deciding for one flow whose document has this `digest`.
///
/// # Errors
/// A message, if it was trained for another document.
pub fn decider(policy: Arc<Policy>, file: &str, digest: &str) -> Result<PolicyFn, String> {
    let contract = policy.contract();
    if contract.digest != digest {
        return Err(format!(
            "{file}: was trained for the document {:?}; the flow's is {digest:?}: train for it, or give the flow the \
             policy's scheme",
            contract.digest
        ));
    }
    let mut scratch = policy.scratch();
    // For an observation that is not finite, or weights so large that a sum is not.
    let (low, high) = contract.bounds;
    let fallback =
        if contract.actions.is_empty() { Action::Continuous(0.0_f32.clamp(low, high)) } else { Action::Discrete(0) };
    Ok(Box::new(move |observation| policy.action(observation, &mut scratch).unwrap_or(fallback)))
}
