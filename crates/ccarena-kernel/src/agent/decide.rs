//! Who decides for a learned controller.

use std::path::Path;
use std::sync::Arc;

use ccarena_cc::policy::{self, Policy, PolicyFn};
use ccarena_cc::{Action, LearnedController, Time};
use ccarena_net::scenario::PolicySpec;

/// Who decides.
pub enum Decider {
    /// The environment, at the other end of the pipe.
    Environment,
    /// Always the same action.
    Constant(Action),
    /// A policy: gives the index of its action for an observation.
    Policy(PolicyFn),
}

/// Policy artifacts by file, each read once.
#[derive(Default)]
pub struct Policies(Vec<(String, Arc<Policy>)>);

impl Policies {
    fn load(&mut self, file: &str) -> Result<Arc<Policy>, String> {
        if let Some((_, policy)) = self.0.iter().find(|(name, _)| name == file) {
            return Ok(Arc::clone(policy));
        }
        let policy = Arc::new(policy::load(Path::new(file))?);
        self.0.push((file.into(), Arc::clone(&policy)));
        Ok(policy)
    }

    /// Who decides for `learned` as `spec` says; without one the environment, if there is any.
    ///
    /// # Errors
    /// A message: an artifact that cannot be used, an action that the scheme does not take, nobody.
    pub fn decider(
        &mut self,
        spec: Option<&PolicySpec>,
        learned: &mut dyn LearnedController,
        environment: bool,
    ) -> Result<Decider, String> {
        match spec {
            Some(PolicySpec::Artifact(file)) => {
                policy::decider(self.load(file)?, file, learned.spec().id).map(Decider::Policy)
            }
            Some(PolicySpec::Constant(value)) => {
                let action = learned.spec().action(*value).map_err(|e| e.to_string())?;
                learned.act(action, Time::ZERO).map_err(|e| e.to_string())?;
                Ok(Decider::Constant(action))
            }
            None if environment => Ok(Decider::Environment),
            None => Err("missing; the scheme is learned: expected the path of a policy artifact or \
                         {constant: ACTION}"
                .into()),
        }
    }
}
