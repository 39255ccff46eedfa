//! Decider of a learned controller at the end of a decision interval.
//!
//! Every backend builds a flow's controller and its [`Decider`] together, by [`Policies::build`], from the scenario,
//! and asks the decider with [`Decider::decide`]. A policy keeps its working memory in its flow's decider, so that no
//! two flows share any.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::action::{Action, ActionError, MOST_NUMBERS, Numbers};
use crate::backends::Backend;
use crate::bounded::{LARGEST_POLICY_BYTES, Store};
use crate::build_error::BuildError;
use crate::controller::Controller;
use crate::learned::LearnedController;
use crate::learned::{Interface, Spec, shipped};
use crate::policy::integer::{Memory, Program};
use crate::policy::{Policy, PolicyError, Scratch};
use crate::reader::DocumentError;
use crate::registry;
use crate::rules::Rules;
use crate::scheme::Config;
use crate::types::Time;

/// Specification of the decider for a learned scheme in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub enum PolicySpec {
    /// The policy artifact in this file.
    Artifact(String),
    /// The same, inferred in integers ([`Program`]), as where there is no floating point.
    Integer(String),
    /// Constant action: an index into discrete actions, or a value for each actuator.
    Constant(Vec<f64>),
    /// Action for each category 0, 1, ... in a column of the report; the last one is also for larger categories.
    Table {
        /// The column.
        by: String,
        /// The actions.
        actions: Vec<Vec<f64>>,
    },
    /// No decider: the base alone.
    Nobody,
    /// The rules in this file, for a scheme that runs a rule file.
    Rules(String),
}

/// Decider for the learned controller of one flow.
#[derive(Clone, Debug)]
pub enum Decider {
    /// A program outside of the run, such as a training environment. The backend hands it each observation and puts its
    /// action in force when it arrives.
    Outside,
    /// Always the same action.
    Constant(Action),
    /// An action for each category.
    Table(Table),
    /// No decider: no action is ever put in force.
    Nobody,
    /// A policy.
    Policy(BoundPolicy),
}

/// A policy that fits the flow's controller, with the memory that it needs for this flow.
#[derive(Clone, Debug)]
pub struct BoundPolicy {
    policy: Arc<Policy>,
    observation: Vec<f32>,
    /// The last observation was outside of what training saw; none if that is not known.
    was_outside: Option<bool>,
    /// The last observation tripped the policy's guard; none without a guard.
    was_tripped: Option<bool>,
    memory: Inference,
}

/// Working memory of inference.
#[derive(Clone, Debug)]
enum Inference {
    Float32(Scratch),
    Integer(Memory),
}

/// Decisions of a flow's policy, those on observations that its training did not see, and trips of its guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outside {
    /// Decisions of a policy that knows the range of its training.
    pub decisions: u64,
    /// Decisions on an observation outside of the training's range.
    pub outside: u64,
    /// Decisions of a policy that has a guard.
    pub guarded: u64,
    /// Decisions on an observation that tripped the guard.
    pub tripped: u64,
}

impl Outside {
    /// Counts the last decision of `decider`.
    pub fn count(&mut self, decider: &Decider) {
        if let Some(outside) = decider.was_outside() {
            self.decisions += 1;
            self.outside += u64::from(outside);
        }
        if let Some(tripped) = decider.was_tripped() {
            self.guarded += 1;
            self.tripped += u64::from(tripped);
        }
    }

    /// The share of decisions outside of the training's range; none if there was none.
    #[must_use]
    pub fn share(self) -> Option<f64> {
        (self.decisions > 0).then(|| self.outside as f64 / self.decisions as f64)
    }

    /// The share of decisions that tripped the guard; none without a guard.
    #[must_use]
    pub fn tripped_share(self) -> Option<f64> {
        (self.guarded > 0).then(|| self.tripped as f64 / self.guarded as f64)
    }
}

/// The last observation of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// An entry lay outside the box of its guard, or without one outside the range of training.
    pub outside: bool,
    /// An entry was clipped.
    pub clamped: bool,
    /// A guard counts it: it was outside, or if neither box nor range is known it was clipped.
    pub trips: bool,
}

/// An action for each category that a column of the report holds.
#[derive(Clone, Debug)]
pub struct Table {
    column: usize,
    actions: Vec<Action>,
    report: Vec<f32>,
    /// Flags of the actions that have been taken.
    taken: Vec<bool>,
}

/// Error of a flow without the decider that its scenario specifies.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The scenario names no decider, and no program outside of the run decides.
    #[error(
        "missing; the scheme is learned: expected the path of a policy artifact, {{integer: FILE}} or {{constant: ACTION}}"
    )]
    Missing,
    /// The artifact cannot be read.
    #[error("{}: cannot be read: {source}", .file.display())]
    Read {
        /// File of the policy.
        file: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The file is not a policy artifact, or not one that can be used.
    #[error("{}: {source}", .file.display())]
    Artifact {
        /// The file.
        file: PathBuf,
        /// Fault of the policy.
        source: PolicyError,
    },
    /// The policy was trained for another spec.
    #[error(
        "{file}: was trained for the scheme {found}; the flow's is {expected}: give the flow the policy's scheme, or train for the flow's"
    )]
    Spec {
        /// The artifact's file.
        file: String,
        /// Name and digest of the policy's spec.
        found: String,
        /// Expected spec, the flow's.
        expected: String,
    },
    /// The artifact contradicts its own spec.
    #[error("{file}: its network or its actions do not fit its own spec: the file was changed; train the policy again")]
    Shape {
        /// The artifact's file.
        file: String,
    },
    /// The flow sets a parameter otherwise than the policy was trained with.
    #[error(
        "{file}: was trained with {name} = {trained}, and the flow has {given}: leave the parameter out, or train for it \
         (only parameters that the spec marks `runtime` may differ)"
    )]
    Param {
        /// The artifact's file.
        file: String,
        /// The parameter.
        name: String,
        /// Value in training.
        trained: f64,
        /// Value in the scenario.
        given: f64,
    },
    /// A table goes by a column that the scheme does not report, or has no action.
    #[error("by {by:?}, {actions} actions: expected at least one action, and one of the report's columns: {columns}")]
    Table {
        /// The column.
        by: String,
        /// Number of its actions.
        actions: usize,
        /// Columns that the scheme reports.
        columns: String,
    },
    /// The scheme runs a rule file, and the scenario names none.
    #[error("missing; the scheme runs a rule file: expected its path as `rules`, for an entrant remy@rules=FILE")]
    NoRules,
    /// The file has no rules that can be run.
    #[error("{}: {source}", .file.display())]
    Rules {
        /// The file.
        file: PathBuf,
        /// Field at fault, or a memory that no rule covers.
        source: Box<DocumentError>,
    },
    /// The scheme does not take the constant action.
    #[error(transparent)]
    Action(#[from] ActionError),
}

/// Error of a flow's controller or decider.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// Error in its scheme, a parameter or its weight.
    #[error(transparent)]
    Scheme(#[from] BuildError),
    /// Error in its decider.
    #[error(transparent)]
    Policy(#[from] BindError),
}

/// Builds flows of one backend. Policy artifacts are read once each; clones share what they have read, also between
/// threads.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    read: Arc<Mutex<HashMap<PathBuf, Arc<Policy>>>>,
    rules: Arc<Mutex<HashMap<PathBuf, Arc<Rules>>>>,
    store: Store,
    backend: Backend,
}

impl Policies {
    /// Creates policies for flows that run on `backend`.
    #[must_use]
    pub fn on(backend: Backend) -> Self {
        Self { backend, ..Self::default() }
    }

    /// Creates policies for flows that run on `backend`, whose files are in `store`.
    #[must_use]
    pub fn in_store(store: Store, backend: Backend) -> Self {
        Self { store, backend, ..Self::default() }
    }

    /// The policy in `file`.
    ///
    /// # Errors
    /// [`BindError::Read`] or [`BindError::Artifact`], which name the file.
    pub fn load(&self, file: &Path) -> Result<Arc<Policy>, BindError> {
        let mut policies = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = policies.get(file) {
            return Ok(Arc::clone(policy));
        }
        let bytes = self
            .store
            .read(file, LARGEST_POLICY_BYTES)
            .map_err(|source| BindError::Read { file: file.into(), source })?;
        let policy = Policy::from_bytes(&bytes).map_err(|source| BindError::Artifact { file: file.into(), source })?;
        let policy = Arc::new(policy);
        policies.insert(file.into(), Arc::clone(&policy));
        Ok(policy)
    }

    /// The rules in `file`.
    ///
    /// # Errors
    /// [`BindError::Read`] or [`BindError::Rules`], which name the file.
    pub fn load_rules(&self, file: &Path) -> Result<Arc<Rules>, BindError> {
        let mut read = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rules) = read.get(file) {
            return Ok(Arc::clone(rules));
        }
        let text = self.store.read_text(file).map_err(|source| BindError::Read { file: file.into(), source })?;
        let rules = Rules::parse(&text).map_err(|e| BindError::Rules { file: file.into(), source: Box::new(e) })?;
        let rules = Arc::new(rules);
        read.insert(file.into(), Arc::clone(&rules));
        Ok(rules)
    }

    /// Builds the controller of a flow of `scheme`, or of `spec` if one is given, and its decider from `policy`.
    ///
    /// There is no decider if the scheme is not learned. Without a `policy`, a program outside of the run decides, if
    /// there is one (`outside`). The controller gets the parameters that its policy was trained with. `config` may give
    /// the same values, and others for parameters that the spec marks `runtime`.
    ///
    /// # Errors
    ///
    /// - The scheme or its parameters are refused.
    /// - The backend does not measure a signal of the scheme.
    /// - The artifact cannot be read or does not fit the flow.
    /// - The scheme does not take the constant action.
    /// - A learned scheme has no decider.
    pub fn build(
        &self,
        scheme: &str,
        spec: Option<&Spec>,
        config: &Config,
        policy: Option<&PolicySpec>,
        outside: bool,
    ) -> Result<(Box<dyn Controller>, Option<Decider>), FlowError> {
        let build = |config: &Config| match spec {
            Some(spec) => spec.controller(config),
            None => registry::build(scheme, config),
        };
        if let Some(spec) = spec.or_else(|| shipped::find(scheme)) {
            spec.check_signals(self.backend).map_err(BuildError::from)?;
        }
        if spec.is_none() && registry::find(scheme)?.rules {
            let Some(PolicySpec::Rules(file)) = policy else { return Err(BindError::NoRules.into()) };
            let rules = Some(self.load_rules(Path::new(file))?);
            return Ok((build(&Config { rules, ..config.clone() })?, None));
        }
        let mut controller = build(config)?;
        let Some(learned) = controller.learned() else { return Ok((controller, None)) };
        let decider = match policy {
            Some(decided @ (PolicySpec::Artifact(file) | PolicySpec::Integer(file))) => {
                let policy = self.load(Path::new(file))?;
                let in_integers = matches!(decided, PolicySpec::Integer(_));
                let bound = BoundPolicy::new(Arc::clone(&policy), file, learned, in_integers)?;
                let params = trained_params(&policy, file, learned.interface(), &config.params)?;
                if params != config.params {
                    controller = build(&Config { params, ..config.clone() })?;
                }
                Decider::Policy(bound)
            }
            Some(PolicySpec::Constant(value)) => {
                let action = learned.interface().action(value).map_err(BindError::from)?;
                learned.act(action, Time::ZERO).map_err(BindError::from)?;
                Decider::Constant(action)
            }
            Some(PolicySpec::Table { by, actions }) => {
                let table = Table::new(by, actions, learned)?;
                learned.act(table.actions[0], Time::ZERO).map_err(BindError::from)?;
                Decider::Table(table)
            }
            Some(PolicySpec::Nobody | PolicySpec::Rules(_)) => Decider::Nobody,
            None if outside => Decider::Outside,
            None => return Err(BindError::Missing.into()),
        };
        Ok((controller, Some(decider)))
    }
}

/// The parameters of a flow that `policy`, read from `file`, decides for: `given` ones, completed with those of its
/// training.
pub(crate) fn trained_params(
    policy: &Policy,
    file: &str,
    interface: &Interface,
    given: &BTreeMap<String, f64>,
) -> Result<BTreeMap<String, f64>, BindError> {
    let mut params = given.clone();
    for declared in &interface.params {
        let Some(&trained) = policy.trained().params.get(&declared.name) else { continue };
        let given = *params.entry(declared.name.clone()).or_insert(trained);
        if !declared.runtime && given.total_cmp(&trained).is_ne() {
            return Err(BindError::Param { file: file.into(), name: declared.name.clone(), trained, given });
        }
    }
    Ok(params)
}

impl Decider {
    /// `policy`, which was read from `file`, for a flow of `learned`'s scheme. Parameters are the caller's to compare.
    ///
    /// # Errors
    /// If the policy was trained for another spec or contradicts its own.
    pub fn policy(policy: Arc<Policy>, file: &str, learned: &dyn LearnedController) -> Result<Self, BindError> {
        BoundPolicy::new(policy, file, learned, false).map(Self::Policy)
    }

    /// An action for each category of the column `by`.
    ///
    /// # Errors
    /// If the scheme reports no such column, there is no action, or it takes one of them not.
    pub fn table(by: &str, actions: &[Vec<f64>], learned: &dyn LearnedController) -> Result<Self, BindError> {
        Table::new(by, actions, learned).map(Self::Table)
    }

    /// Returns the actions of a table that it has taken so far; nothing for other deciders.
    #[must_use]
    pub fn taken(&self) -> &[bool] {
        if let Self::Table(table) = self { &table.taken } else { &[] }
    }

    /// True if the policy's last observation was outside of what its training saw ([`Observed`]); none without a policy
    /// that says what that was.
    ///
    /// [`Observed`]: crate::policy::Observed
    #[must_use]
    pub fn was_outside(&self) -> Option<bool> {
        if let Self::Policy(policy) = self { policy.was_outside } else { None }
    }

    /// True if the policy's last observation tripped its guard ([`Guard`]); none without a guard.
    ///
    /// [`Guard`]: crate::policy::Guard
    #[must_use]
    pub fn was_tripped(&self) -> Option<bool> {
        if let Self::Policy(policy) = self { policy.was_tripped } else { None }
    }

    /// Returns what the policy's last observation was; nothing special without a policy.
    #[must_use]
    pub fn seen(&self) -> Seen {
        let Self::Policy(of) = self else { return Seen::default() };
        let (limits, clamped) = (of.was_tripped.or(of.was_outside), of.policy.clips(&of.observation));
        Seen { outside: limits.unwrap_or(false), clamped, trips: limits.unwrap_or(clamped) }
    }

    /// Decides for `learned` at `now` and puts the action in force. False if that is up to a program outside of the run.
    pub fn decide(&mut self, learned: &mut dyn LearnedController, now: Time) -> bool {
        let action = match self {
            Self::Outside => return false,
            Self::Nobody => return true,
            Self::Constant(action) => *action,
            Self::Table(table) => table.decide(learned),
            Self::Policy(policy) => policy.decide(learned),
        };
        // `bind` has checked constants against the action space and policies against the scheme.
        let accepted = learned.act(action, now);
        debug_assert!(accepted.is_ok(), "{accepted:?}");
        true
    }
}

impl Table {
    fn new(by: &str, actions: &[Vec<f64>], learned: &dyn LearnedController) -> Result<Self, BindError> {
        let interface = learned.interface();
        let column = interface.report.iter().position(|name| name == by).filter(|_| !actions.is_empty());
        let columns = || interface.report.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let column =
            column.ok_or_else(|| BindError::Table { by: by.into(), actions: actions.len(), columns: columns() })?;
        let actions = actions.iter().map(|numbers| interface.action(numbers)).collect::<Result<Vec<_>, _>>()?;
        let taken = vec![false; actions.len()];
        Ok(Self { column, actions, report: vec![0.0; interface.report.len()], taken })
    }

    fn decide(&mut self, learned: &dyn LearnedController) -> Action {
        learned.report(&mut self.report);
        // Before the first interval the report is of zeros: category 0.
        let category = (self.report[self.column].max(0.0) as usize).min(self.actions.len() - 1);
        self.taken[category] = true;
        self.actions[category]
    }
}

impl BoundPolicy {
    /// `policy`, which was read from `file`, for a flow of `learned`'s scheme.
    fn new(
        policy: Arc<Policy>,
        file: &str,
        learned: &dyn LearnedController,
        in_integers: bool,
    ) -> Result<Self, BindError> {
        let (interface, trained) = (learned.interface(), policy.trained());
        let own = trained.spec.interface();
        if own.digest != interface.digest {
            let name = |interface: &Interface| format!("{} ({})", interface.name, interface.digest);
            return Err(BindError::Spec { file: file.into(), found: name(own), expected: name(interface) });
        }
        let (entries, actions) = (trained.observation_len, &trained.actions);
        let bounds = interface.continuous().unwrap_or_default();
        if entries != interface.observation_len || *actions != interface.actions || trained.bounds != bounds {
            return Err(BindError::Shape { file: file.into() });
        }
        let observation = vec![0.0; interface.observation_len];
        let memory = if in_integers {
            let program = policy.integer();
            Inference::Integer(program.map_err(|source| BindError::Artifact { file: file.into(), source })?.memory())
        } else {
            Inference::Float32(policy.scratch())
        };
        Ok(Self { policy, observation, was_outside: None, was_tripped: None, memory })
    }

    fn decide(&mut self, learned: &dyn LearnedController) -> Action {
        learned.observe(&mut self.observation);
        self.was_outside = self.policy.observed().map(|observed| observed.is_outside(&self.observation));
        let guard = self.policy.guard();
        self.was_tripped = guard.map(|guard| guard.is_tripped(&self.observation));
        // Inference refuses observations of another length, which `new` rules out, and such that are not finite.
        let width = self.policy.trained().bounds.len();
        let neutral = || match width {
            0 => Action::Discrete(0),
            width => Action::Continuous(Numbers::of(&[0.0; MOST_NUMBERS][..width.min(MOST_NUMBERS)])),
        };
        let action = match &mut self.memory {
            Inference::Float32(scratch) => self.policy.action(&self.observation, scratch),
            Inference::Integer(memory) => {
                self.policy.integer().and_then(|program: &Program| program.action(&self.observation, memory))
            }
        };
        let action = action.unwrap_or_else(|_| neutral());
        guard.map_or(action, |guard| guard.bounded(action))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::build;
    use crate::scheme::Config;

    const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/golden.safetensors");

    fn bind(scheme: &str, spec: Option<&PolicySpec>, outside: bool) -> Result<Decider, String> {
        let built =
            Policies::default().build(scheme, None, &Config::default(), spec, outside).map_err(|e| e.to_string());
        built.map(|(_, decider)| decider.expect("the schemes here are learned"))
    }

    #[test]
    fn nobody_decides_for_a_scheme_that_asks_nothing() {
        let (_, decider) = Policies::default().build("cubic", None, &Config::default(), None, true).unwrap();
        assert!(decider.is_none());
    }

    #[test]
    fn a_policy_decides_for_the_spec_that_it_was_trained_for() {
        let artifact = PolicySpec::Artifact(GOLDEN.into());
        let Ok(mut decider) = bind("acct", Some(&artifact), false) else { panic!("the policy is acct's") };
        let mut controller = build("acct", &Config::default()).unwrap();
        assert!(decider.decide(controller.learned().unwrap(), Time::ZERO));
        let error = bind("hyvar", Some(&artifact), false).unwrap_err();
        assert!(error.contains("golden.safetensors: was trained for the scheme acct ("), "{error}");
    }

    #[test]
    fn a_policy_decides_in_integers_as_in_float32() {
        let decided = |spec: PolicySpec| {
            let mut controller = build("acct", &Config::default()).unwrap();
            assert!(bind("acct", Some(&spec), false).unwrap().decide(controller.learned().unwrap(), Time::ZERO));
            controller.window()
        };
        assert_eq!(decided(PolicySpec::Integer(GOLDEN.into())), decided(PolicySpec::Artifact(GOLDEN.into())));
    }

    #[test]
    fn a_flow_has_the_parameters_that_its_policy_was_trained_with() {
        let artifact = PolicySpec::Artifact(GOLDEN.into());
        let policies = Policies::default();
        let built = |name: &str, value: f64| {
            let config = Config { params: [(name.to_string(), value)].into(), ..Config::default() };
            policies.build("acct", None, &config, Some(&artifact), false).map(drop).map_err(|e| e.to_string())
        };
        assert_eq!(built("budget_ms", 5.0), Ok(()));
        let error = built("budget_ms", 20.0).unwrap_err();
        assert!(
            error.contains("was trained with budget_ms = 5, and the flow has 20: leave the parameter out"),
            "{error}"
        );
        let policy = policies.load(Path::new(GOLDEN)).unwrap();
        let controller =
            build("acct", &Config::default()).unwrap().learned().map(|l| Arc::clone(l.interface())).unwrap();
        let params = trained_params(&policy, GOLDEN, &controller, &BTreeMap::new()).unwrap();
        assert_eq!(params, policy.trained().params, "what the flow leaves out is the policy's");
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
        refused(Some(PolicySpec::Constant(vec![15.0])), "expected an index from 0 to 14");
        let table = |by: &str, actions: &[f64]| {
            Some(PolicySpec::Table { by: by.into(), actions: actions.iter().map(|action| vec![*action]).collect() })
        };
        refused(
            table("zones", &[1.0]),
            "by \"zones\", 1 actions: expected at least one action, and one of the report's",
        );
        refused(table("zone", &[]), "by \"zone\", 0 actions");
        refused(table("zone", &[1.0, 15.0]), "expected an index from 0 to 14");
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
