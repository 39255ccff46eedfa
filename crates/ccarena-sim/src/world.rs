//! A world for training: a simulation that runs from one decision of its learners to the next, and its episodes.
//!
//! A world's state is its episode's number and the actions since the episode began: that is all a checkpoint needs,
//! and replaying it restores the world exactly.

use std::sync::Arc;

use ccarena_cc::action::MOST_NUMBERS;
use ccarena_cc::policy::PolicyError;
use ccarena_cc::{Action, ActionError, Dur, Interface, Time, registry};
use ccarena_net::rng::{Purpose, derive};
use ccarena_net::scenario::Flow;
use ccarena_net::{ResourceError, Scenario};

use crate::build::SimError;
use crate::domain::Domain;
use crate::files::Files;
use crate::privileged::{Before, PRIVILEGED};
use crate::sim::{Sim, Stop};

/// Source of a world's episodes.
#[derive(Clone, Debug)]
pub enum Source {
    /// Each episode draws a scenario.
    Domain(Box<Domain>),
    /// Every episode runs this one, with its own seed.
    Scenario(Box<Scenario>),
}

impl Source {
    /// Returns the scenario of episode number `episode` of world `world`, in a run seeded with
    /// `seed`.
    #[must_use]
    pub fn scenario(&self, seed: u64, world: u64, episode: u64) -> Scenario {
        match self {
            Self::Domain(domain) => domain.draw(seed, world, episode),
            Self::Scenario(scenario) => {
                let mut scenario = (**scenario).clone();
                let own = derive(derive(seed, Purpose::Domain, world), Purpose::Domain, episode);
                scenario.seed = derive(own, Purpose::Domain, scenario.seed);
                scenario
            }
        }
    }

    /// The flows of a scenario of this source that learn, or whose parameters are searched.
    #[must_use]
    pub fn learners(&self, scenario: &Scenario) -> Vec<usize> {
        let learned = |scheme: &str| registry::schemes().iter().any(|s| s.name == scheme && s.learned);
        let learns = |flow: &Flow| match self {
            Self::Domain(_) => Domain::learns(flow),
            Self::Scenario(_) => flow.policy.is_none() && (flow.spec.is_some() || learned(&flow.scheme)),
        };
        (0..scenario.flows.len()).filter(|&i| learns(&scenario.flows[i])).collect()
    }
}

/// Error of worlds that cannot be made, stepped or restored.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// A scenario cannot be simulated.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// An action is refused; no world has moved.
    #[error("actions[{index}]: {source}")]
    Action {
        /// Index of the action.
        index: usize,
        /// Cause.
        source: ActionError,
    },
    /// No learned flow, or more than the caller handles.
    #[error("the scenario has {found} flows whose scheme is learned and has no policy; expected {expected}")]
    Learners {
        /// Number that was found.
        found: usize,
        /// Number that was expected.
        expected: String,
    },
    /// Learners that one policy cannot serve.
    #[error("learned flows without a policy are of {first:?} and {other:?}; expected one scheme among them")]
    Mixed {
        /// The first one's scheme.
        first: String,
        /// Another one's.
        other: String,
    },
    /// Each is within the limit, and all together are not.
    #[error("{worlds} worlds: {source}")]
    Resources {
        /// Number of worlds.
        worlds: usize,
        /// Cause.
        source: ResourceError,
    },
    /// An array of another length.
    #[error("{name}: {found} numbers; expected {expected}")]
    Length {
        /// Name of the array.
        name: &'static str,
        /// Length that was found.
        found: usize,
        /// Length that was expected.
        expected: usize,
    },
    /// The policy of a rollout has no answer.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A saved state that does not fit.
    #[error("saved environment state: {0}")]
    State(String),
    /// Threads could not be started.
    #[error("could not start {threads} threads: {message}")]
    Threads {
        /// Number of threads.
        threads: usize,
        /// Cause.
        message: String,
    },
}

impl WorldError {
    /// Returns the error for a world whose first action is number `first` among those of all
    /// worlds.
    pub(crate) fn at(self, first: usize) -> Self {
        match self {
            Self::Action { index, source } => Self::Action { index: first + index, source },
            other => other,
        }
    }
}

/// Longest time past its horizon that an episode waits for the decision interval to end. A stalled
/// flow then reports what it has.
const GRACE: Dur = Dur::from_millis(1000);

/// One simulation and its episodes.
pub struct World {
    source: Arc<Source>,
    files: Files,
    pub(crate) seed: u64,
    index: u64,
    pub(crate) episode: u64,
    pub(crate) actions: Vec<f32>,
    pub(crate) sim: Sim,
    interface: Arc<Interface>,
    pub(crate) learners: Vec<usize>,
    horizon: Time,
    /// Most decisions of an episode.
    pub(crate) most_decisions: u64,
    /// Scratch of a step: the last report, and who has not decided yet.
    report: Vec<f32>,
    waits: Vec<bool>,
}

impl World {
    /// World `index` of a run seeded with `seed`, at the start of its first episode.
    ///
    /// # Errors
    /// If its scenario cannot be simulated or has no learner.
    pub fn new(source: Arc<Source>, seed: u64, index: u64) -> Result<Self, WorldError> {
        Self::build(source, Files::default(), seed, index)
    }

    pub(crate) fn build(source: Arc<Source>, files: Files, seed: u64, index: u64) -> Result<Self, WorldError> {
        let scenario = source.scenario(seed, index, 0);
        let mut sim = Sim::new(&scenario, &files, true)?;
        let learners = sim.learners();
        let first = learners.first().and_then(|&flow| sim.interface(flow));
        let interface = first.ok_or_else(|| WorldError::Learners { found: 0, expected: "at least one".into() })?;
        let mut others = learners.iter().filter_map(|&flow| sim.interface(flow));
        if let Some(other) = others.find(|other| *other != interface) {
            return Err(WorldError::Mixed { first: interface.name.clone(), other: other.name.clone() });
        }
        let horizon = Time(scenario.duration.0);
        let report = vec![0.0; interface.report.len()];
        Ok(Self {
            source,
            files,
            seed,
            index,
            episode: 0,
            actions: Vec::new(),
            sim,
            interface,
            learners,
            horizon,
            most_decisions: u64::MAX,
            report,
            waits: Vec::new(),
        })
    }

    /// Starts episode number `episode`.
    ///
    /// # Errors
    /// If its scenario cannot be simulated.
    pub fn reset(&mut self, episode: u64) -> Result<(), WorldError> {
        let scenario = self.source.scenario(self.seed, self.index, episode);
        self.sim = Sim::new(&scenario, &self.files, true)?;
        self.learners = self.sim.learners();
        self.horizon = Time(scenario.duration.0);
        self.episode = episode;
        self.actions.clear();
        Ok(())
    }

    /// The flows that learn.
    #[must_use]
    pub fn learners(&self) -> &[usize] {
        &self.learners
    }

    /// Numbers of one action of every learner.
    pub(crate) fn row(&self) -> usize {
        self.learners.len() * self.interface.width()
    }

    /// The simulation.
    #[must_use]
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// Returns the learners' observation, report and actions.
    #[must_use]
    pub fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }

    /// Puts an action in force for each learner and runs until every one of them has decided at least once; one that
    /// decides more often keeps its action. `on_report` gets each finished interval's learner and report. Returns whether
    /// the episode is over.
    ///
    /// # Errors
    /// If an action is refused, with its index; the world then has not moved.
    pub fn step(
        &mut self,
        actions: &[f32],
        mut on_report: impl FnMut(usize, &[f32]),
    ) -> Result<bool, (usize, ActionError)> {
        let width = self.interface.width();
        let checked = |i: usize| {
            let numbers = actions.get(i * width..(i + 1) * width).unwrap_or_default();
            action(&self.interface, numbers).map_err(|e| (i, e))
        };
        for i in 0..self.learners.len() {
            checked(i)?;
        }
        for (i, &learner) in self.learners.iter().enumerate() {
            self.sim.act(learner, checked(i)?).map_err(|e| (i, e))?;
        }
        self.actions.extend_from_slice(&actions[..self.row()]);
        let mut waiting = self.learners.len();
        let Self { sim, learners, report, waits, horizon, .. } = self;
        waits.clear();
        waits.resize(learners.len(), true);
        while waiting > 0 {
            match sim.run_until(*horizon + GRACE) {
                Stop::Decision(flow) => {
                    if let Some(i) = learners.iter().position(|&l| l == flow) {
                        waiting -= usize::from(std::mem::take(&mut waits[i]));
                        sim.report(flow, report);
                        on_report(i, report);
                    }
                }
                Stop::Time => {
                    for (i, _) in waits.iter().enumerate().filter(|(_, waits)| **waits) {
                        sim.end_interval(learners[i]);
                        sim.report(learners[i], report);
                        on_report(i, report);
                    }
                    waiting = 0;
                }
            }
        }
        Ok(sim.now() >= *horizon)
    }

    /// Returns the present state, the start of a step for
    /// [`write_privileged`](Self::write_privileged).
    #[must_use]
    pub fn before(&self) -> Before {
        Before::of(&self.sim)
    }

    /// Writes what only the simulator knows of the time since `before`, [`PRIVILEGED`] for learner number
    /// `learner`.
    pub fn write_privileged(&self, before: &Before, learner: usize, out: &mut [f32]) {
        before.write(&self.sim, self.learners[learner], &self.learners, out);
    }

    /// Writes what learner number `learner` observes.
    pub fn observe(&mut self, learner: usize, out: &mut [f32]) {
        self.sim.observe(self.learners[learner], out);
    }

    /// Steps to the next decision of every learner; if that ends the episode, to the first decision
    /// of the next one.
    pub(crate) fn advance(&mut self, actions: &[f32], row: &mut Row<'_>) -> Result<(), WorldError> {
        let (before, width) = ((!row.privileged.is_empty()).then(|| self.before()), self.interface.report.len());
        let over = self
            .step(actions, |i, report| row.reports[i * width..(i + 1) * width].copy_from_slice(report))
            .map_err(|(index, source)| WorldError::Action { index, source })?;
        let over = over || (self.actions.len() / self.row()) as u64 >= self.most_decisions;
        row.truncated.fill(over);
        if let Some(before) = before {
            for (i, privileged) in row.privileged.chunks_mut(PRIVILEGED.len()).enumerate() {
                self.write_privileged(&before, i, privileged);
            }
        }
        if over {
            self.observe_all(row.finals);
            self.reset(self.episode + 1)?;
        }
        Ok(())
    }

    /// Writes what every learner observes, one after the other.
    pub(crate) fn observe_all(&mut self, out: &mut [f32]) {
        let width = self.interface.observation_len;
        for (learner, row) in out.chunks_mut(width).enumerate() {
            self.observe(learner, row);
        }
    }

    /// Writes the last report of learner number `learner`.
    pub fn report(&mut self, learner: usize, out: &mut [f32]) {
        self.sim.report(self.learners[learner], out);
    }
}

/// Results of a step of one world, a row per learner: fields of [`StepOut`](crate::StepOut).
pub(crate) struct Row<'a> {
    pub reports: &'a mut [f32],
    pub truncated: &'a mut [bool],
    pub finals: &'a mut [f32],
    pub privileged: &'a mut [f32],
}

/// The action that `numbers` stand for.
pub(crate) fn action(interface: &Interface, numbers: &[f32]) -> Result<Action, ActionError> {
    let mut values = [0.0; MOST_NUMBERS];
    values.iter_mut().zip(numbers).for_each(|(to, from)| *to = f64::from(*from));
    interface.action(&values[..numbers.len().min(MOST_NUMBERS)])
}
