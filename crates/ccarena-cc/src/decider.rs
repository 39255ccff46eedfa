//! Who answers a learned controller's question at the end of a decision interval.
//!
//! Every backend holds one [`Decider`] per flow, which [`Policies::bind`] makes from what the scenario says, and asks it
//! with [`Decider::decide`]. A policy keeps its working memory in its flow's decider, so that no two flows share any.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::controller::{Action, ActionError, Controller, LearnedController};
use crate::policy::{Policy, PolicyError, Scratch};
use crate::types::Time;

/// Who is to decide for a learned scheme, as a scenario says it.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicySpec {
    /// The policy artifact in this file.
    Artifact(String),
    /// This action at every decision: an index into discrete actions, or a continuous value.
    Constant(f64),
}

/// Who decides for the learned controller of one flow.
#[derive(Clone, Debug)]
pub enum Decider {
    /// A program outside of the run, such as a training environment. The backend hands it each observation and puts its
    /// action in force when it arrives.
    Outside,
    /// Always the same action.
    Constant(Action),
    /// A policy.
    Policy(BoundPolicy),
}

/// A policy that fits the flow's controller, with the memory that it needs for this flow.
#[derive(Clone, Debug)]
pub struct BoundPolicy {
    policy: Arc<Policy>,
    observation: Vec<f32>,
    scratch: Scratch,
}

/// Why nobody can decide for a flow as its scenario says.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The scenario names nobody, and no program outside of the run decides.
    #[error("missing; the scheme is learned: expected the path of a policy artifact or {{constant: ACTION}}")]
    Missing,
    /// The artifact cannot be read.
    #[error("{}: cannot be read: {source}", .file.display())]
    Read {
        /// Its file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file is not a policy artifact, or not one that can be used.
    #[error("{}: {source}", .file.display())]
    Artifact {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        source: PolicyError,
    },
    /// The policy observes something else than the scheme gives.
    #[error(
        "{file}: was trained for the document {found:?}; the flow's is {expected:?}: train for it, or give the flow the policy's scheme"
    )]
    Observation {
        /// The artifact's file.
        file: String,
        /// What the policy observes.
        found: String,
        /// What the scheme gives.
        expected: String,
    },
    /// The scheme does not take the constant action.
    #[error(transparent)]
    Action(#[from] ActionError),
}

/// Policy artifacts by file, each read once. Clones share what they have read, also between threads.
#[derive(Clone, Debug, Default)]
pub struct Policies(Arc<Mutex<HashMap<PathBuf, Arc<Policy>>>>);

impl Policies {
    /// The policy in `file`.
    ///
    /// # Errors
    /// [`BindError::Read`] or [`BindError::Artifact`], which name the file.
    pub fn load(&self, file: &Path) -> Result<Arc<Policy>, BindError> {
        let mut policies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = policies.get(file) {
            return Ok(Arc::clone(policy));
        }
        let bytes = std::fs::read(file).map_err(|source| BindError::Read { file: file.into(), source })?;
        let policy = Policy::from_bytes(&bytes).map_err(|source| BindError::Artifact { file: file.into(), source })?;
        let policy = Arc::new(policy);
        policies.insert(file.into(), Arc::clone(&policy));
        Ok(policy)
    }

    /// Who decides for `controller` as `spec` says; nobody if it is not learned. Without a `spec` it is a program outside
    /// of the run, if there is one (`outside`).
    ///
    /// # Errors
    /// If the artifact cannot be read or does not fit the scheme, if the scheme does not take the constant action, or if
    /// nobody decides for a learned one.
    pub fn bind(
        &self,
        spec: Option<&PolicySpec>,
        controller: &mut dyn Controller,
        outside: bool,
    ) -> Result<Option<Decider>, BindError> {
        let Some(learned) = controller.learned() else { return Ok(None) };
        let decider = match spec {
            Some(PolicySpec::Artifact(file)) => {
                Decider::Policy(BoundPolicy::new(self.load(Path::new(file))?, file, learned)?)
            }
            Some(PolicySpec::Constant(value)) => {
                let action = learned.spec().action(*value)?;
                learned.act(action, Time::ZERO)?;
                Decider::Constant(action)
            }
            None if outside => Decider::Outside,
            None => return Err(BindError::Missing),
        };
        Ok(Some(decider))
    }
}

/// Whether `policy` can decide for `learned`: it was trained for the same document.
#[must_use]
pub fn fits(policy: &Policy, learned: &dyn LearnedController) -> bool {
    policy.contract().digest == learned.spec().digest
}

impl Decider {
    /// Decides for `learned` at `now` and puts the action in force. False if that is up to a program outside of the run.
    pub fn decide(&mut self, learned: &mut dyn LearnedController, now: Time) -> bool {
        let action = match self {
            Self::Outside => return false,
            Self::Constant(action) => *action,
            Self::Policy(policy) => policy.decide(learned),
        };
        // `bind` has checked constants against the action space and policies against the scheme.
        let accepted = learned.act(action, now);
        debug_assert!(accepted.is_ok(), "{accepted:?}");
        true
    }
}

impl BoundPolicy {
    /// `policy`, which was read from `file`, for a flow of `learned`'s scheme.
    fn new(policy: Arc<Policy>, file: &str, learned: &dyn LearnedController) -> Result<Self, BindError> {
        if !fits(&policy, learned) {
            let (found, expected) = (policy.contract().digest.clone(), learned.spec().digest.clone());
            return Err(BindError::Observation { file: file.into(), found, expected });
        }
        let observation = vec![0.0; learned.spec().observation_len];
        let scratch = policy.scratch();
        Ok(Self { policy, observation, scratch })
    }

    fn decide(&mut self, learned: &dyn LearnedController) -> Action {
        learned.observe(&mut self.observation);
        // Inference refuses observations of another length, which `new` rules out, and such that are not finite.
        let neutral =
            || if self.policy.contract().actions.is_empty() { Action::Continuous(0.0) } else { Action::Discrete(0) };
        self.policy.action(&self.observation, &mut self.scratch).unwrap_or_else(|_| neutral())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::build;
    use crate::scheme::Config;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/golden.safetensors");

    fn bind(scheme: &str, spec: Option<&PolicySpec>, outside: bool) -> Result<Decider, String> {
        let mut controller = build(scheme, &Config::default()).unwrap();
        let bound = Policies::default().bind(spec, controller.as_mut(), outside).map_err(|e| e.to_string());
        bound.map(|decider| decider.expect("the schemes here are learned"))
    }

    #[test]
    fn nobody_decides_for_a_scheme_that_asks_nothing() {
        let mut controller = build("cubic", &Config::default()).unwrap();
        assert!(Policies::default().bind(None, controller.as_mut(), true).unwrap().is_none());
    }

    #[test]
    fn a_policy_decides_for_the_document_that_it_was_trained_for() {
        let artifact = PolicySpec::Artifact(GOLDEN.into());
        let Ok(mut decider) = bind("acct", Some(&artifact), false) else { panic!("the policy is acct's") };
        let mut controller = build("acct", &Config::default()).unwrap();
        assert!(decider.decide(controller.learned().unwrap(), Time::ZERO));
        let error = bind("hyvar", Some(&artifact), false).unwrap_err();
        assert!(error.contains("golden.safetensors: was trained for the document"), "{error}");
    }

    #[test]
    fn an_artifact_is_read_once() {
        let policies = Policies::default();
        let first = policies.load(Path::new(GOLDEN)).unwrap();
        assert!(Arc::ptr_eq(&first, &policies.clone().load(Path::new(GOLDEN)).unwrap()));
    }

    #[test]
    fn what_cannot_decide_is_refused_with_its_reason() {
        let refused = |spec: Option<PolicySpec>, expected: &str| {
            let error = bind("acct", spec.as_ref(), false).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        refused(None, "missing; the scheme is learned");
        refused(Some(PolicySpec::Constant(15.0)), "expected an index from 0 to 14");
        refused(Some(PolicySpec::Artifact("/nowhere".into())), "/nowhere: cannot be read");
        refused(Some(PolicySpec::Artifact(file!().into())), file!());
    }

    #[test]
    fn without_a_policy_a_program_outside_decides() {
        let mut decider = bind("acct", None, true).unwrap();
        let mut controller = build("acct", &Config::default()).unwrap();
        assert!(!decider.decide(controller.learned().unwrap(), Time::ZERO));
    }
}
