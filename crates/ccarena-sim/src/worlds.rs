//! Worlds for training: many simulations side by side, each running from one decision of its learners to the next.
//!
//! A world's state is its episode's number and the actions since the episode began: that is all a checkpoint needs,
//! and replaying it restores the world exactly.

use std::sync::Arc;

use ccarena_cc::action::MOST_NUMBERS;
use ccarena_cc::policy::PolicyError;
use ccarena_cc::{Action, ActionError, Dur, Interface, Time, registry};
use ccarena_net::rng::{Purpose, derive};
use ccarena_net::scenario::Flow;
use ccarena_net::{Demand, ResourceError, Scenario};
use rayon::prelude::*;

use crate::build::SimError;
use crate::domain::Domain;
use crate::files::Files;
use crate::helpers::Helpers;
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
    seed: u64,
    index: u64,
    episode: u64,
    actions: Vec<f32>,
    sim: Sim,
    interface: Arc<Interface>,
    learners: Vec<usize>,
    horizon: Time,
    /// Most decisions of an episode.
    most_decisions: u64,
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

    fn build(source: Arc<Source>, files: Files, seed: u64, index: u64) -> Result<Self, WorldError> {
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
    fn row(&self) -> usize {
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
        let mut checked = Vec::with_capacity(self.learners.len());
        let mut rows = actions.chunks(self.interface.width());
        for i in 0..self.learners.len() {
            checked.push(action(&self.interface, rows.next().unwrap_or_default()).map_err(|e| (i, e))?);
        }
        for (i, action) in checked.into_iter().enumerate() {
            self.sim.act(self.learners[i], action).map_err(|e| (i, e))?;
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
    pub(crate) fn advance(&mut self, actions: &[f32], row: Row<'_>) -> Result<(), WorldError> {
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

/// Results of a step of one world, a row per learner: the fields of [`StepOut`] without the next
/// observations.
pub(crate) struct Row<'a> {
    pub reports: &'a mut [f32],
    pub truncated: &'a mut [bool],
    pub finals: &'a mut [f32],
    pub privileged: &'a mut [f32],
}

/// Arrays that a step fills, one row per learner: those of the first world, of the second and so on.
pub struct StepOut<'a> {
    /// Observations, after an automatic reset those of the new episode; `[rows, observation_len]`.
    pub observations: &'a mut [f32],
    /// Reports of the finished intervals, the last one if a learner has decided more than once; `[rows, report_len]`.
    pub reports: &'a mut [f32],
    /// The episode is over; `[rows]`.
    pub truncated: &'a mut [bool],
    /// Last observations of finished episodes, elsewhere untouched; `[rows, observation_len]`.
    pub final_observations: &'a mut [f32],
    /// Privileged state of the step, if requested: `[rows, PRIVILEGED]`, or empty.
    pub privileged: &'a mut [f32],
}

/// Many worlds with as many learners each, stepped by a pool of threads.
pub struct Worlds {
    worlds: Vec<World>,
    pool: rayon::ThreadPool,
    helpers: Helpers,
    interface: Arc<Interface>,
    learners: usize,
}

impl Worlds {
    /// `count` worlds on `threads` threads, each with `learners` learners and at the start of its first episode.
    ///
    /// # Errors
    /// If a scenario cannot be simulated or has not so many learners, or threads cannot be started.
    pub fn new(source: Source, count: usize, seed: u64, threads: usize, learners: usize) -> Result<Self, WorldError> {
        let failed = |e: rayon::ThreadPoolBuildError| WorldError::Threads { threads, message: e.to_string() };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.max(1))
            .thread_name(|i| format!("worlds-{i}"))
            .build()
            .map_err(failed)?;
        let helpers = Helpers::new(threads).map_err(failed)?;
        let (source, files) = (Arc::new(source), Files::default());
        if count > 1 {
            let demand = Demand::of(&source.scenario(seed, 0, 0)).times(count);
            let checked = files.limits.clone().and_then(|limits| demand.check(&limits));
            checked.map_err(|source| WorldError::Resources { worlds: count, source })?;
        }
        let worlds: Vec<World> = pool.install(|| {
            (0..count.max(1))
                .into_par_iter()
                .map(|i| World::build(source.clone(), files.clone(), seed, i as u64))
                .collect::<Result<_, _>>()
        })?;
        if let Some(other) = worlds.iter().find(|world| world.learners.len() != learners) {
            let expected = if learners == 1 { "exactly one".into() } else { format!("exactly {learners}") };
            return Err(WorldError::Learners { found: other.learners.len(), expected });
        }
        let interface = Arc::clone(worlds[0].interface());
        Ok(Self { worlds, pool, helpers, interface, learners })
    }

    /// Returns the learners' observation, report and actions.
    #[must_use]
    pub fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }

    /// Number of worlds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.worlds.len()
    }

    /// Learners of each world.
    #[must_use]
    pub fn learners(&self) -> usize {
        self.learners
    }

    /// Ends every episode after `decisions`, unless it ends before.
    pub fn limit_episodes(&mut self, decisions: u64) {
        self.worlds.iter_mut().for_each(|world| world.most_decisions = decisions.max(1));
    }

    /// False: there is at least one world.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.worlds.is_empty()
    }

    /// Data packets delivered in the current episodes, for figures of speed.
    #[must_use]
    pub fn data_packets(&self) -> Vec<u64> {
        self.worlds.iter().map(|w| w.sim.data_packets()).collect()
    }

    /// Starts every world anew from its first episode; with `seed`, of a run seeded with it.
    ///
    /// # Errors
    /// If a scenario cannot be simulated.
    pub fn reset(&mut self, seed: Option<u64>, observations: &mut [f32]) -> Result<(), WorldError> {
        let (width, learners) = (self.interface.observation_len, self.learners);
        let Self { worlds, pool, .. } = self;
        pool.install(|| {
            worlds.par_iter_mut().zip(observations.par_chunks_mut(width * learners)).try_for_each(|(world, out)| {
                world.seed = seed.unwrap_or(world.seed);
                world.reset(0)?;
                world.observe_all(out);
                Ok(())
            })
        })
    }

    /// Steps every world to its next decision; one whose episode is over starts the next one at once.
    ///
    /// # Errors
    /// If an action is refused (checked before any world moves) or a new episode's scenario cannot be simulated.
    pub fn step(&mut self, actions: &[f32], out: StepOut<'_>) -> Result<(), WorldError> {
        self.step_others(actions, &[], out)
    }

    /// Steps the worlds whose rows are not `held`; the others stay where they are, and their rows as they were. `held` has
    /// a value per row, the same for all learners of a world, or is empty.
    ///
    /// # Errors
    /// The errors of [`step`](Self::step), and if `held` has another length.
    pub fn step_others(&mut self, actions: &[f32], held: &[bool], out: StepOut<'_>) -> Result<(), WorldError> {
        let numbers = self.interface.width();
        if !held.is_empty() && held.len() * numbers != actions.len() {
            return Err(WorldError::Length { name: "held", found: held.len(), expected: actions.len() / numbers });
        }
        for (index, row) in actions.chunks(numbers).enumerate() {
            action(&self.interface, row).map_err(|source| WorldError::Action { index, source })?;
        }
        let (width, report_width, learners) =
            (self.interface.observation_len, self.interface.report.len(), self.learners);
        let Self { worlds, helpers, .. } = self;
        let privileged: Vec<&mut [f32]> = match out.privileged.len() {
            0 => worlds.iter().map(|_| Default::default()).collect(),
            _ => out.privileged.chunks_mut(PRIVILEGED.len() * learners).collect(),
        };
        let rows = worlds
            .iter_mut()
            .zip(actions.chunks(learners * numbers))
            .zip(out.observations.chunks_mut(width * learners))
            .zip(out.reports.chunks_mut(report_width * learners))
            .zip(out.truncated.chunks_mut(learners))
            .zip(out.final_observations.chunks_mut(width * learners))
            .zip(privileged)
            .enumerate();
        helpers.share_out(
            rows,
            |(index, ((((((world, actions), observation), reports), truncated), finals), privileged))| {
                if held.get(index * learners).copied().unwrap_or_default() {
                    return Ok(());
                }
                let row = Row { reports, truncated, finals, privileged };
                world.advance(actions, row).map_err(|error| error.at(index * learners))?;
                world.observe_all(observation);
                Ok(())
            },
        )
    }

    /// The threads, and the worlds that they run.
    pub(crate) fn parts(&mut self) -> (&rayon::ThreadPool, &mut [World]) {
        (&self.pool, &mut self.worlds)
    }

    /// The state of all worlds: per world the seed, the episode's number, and the actions since it began.
    #[must_use]
    pub fn state(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for world in &self.worlds {
            bytes.extend(world.seed.to_le_bytes());
            bytes.extend(world.episode.to_le_bytes());
            bytes.extend((world.actions.len() as u64).to_le_bytes());
            bytes.extend(world.actions.iter().flat_map(|a| a.to_le_bytes()));
        }
        bytes
    }

    /// Restores what [`state`](Self::state) gave by replaying it, and writes the observations.
    ///
    /// # Errors
    /// If the state is not one of as many worlds of the same kind.
    pub fn restore(&mut self, state: &[u8], observations: &mut [f32]) -> Result<(), WorldError> {
        let mut rest = state;
        let mut saved = Vec::with_capacity(self.worlds.len());
        for _ in 0..self.worlds.len() {
            let (seed, episode, count) = (take_u64(&mut rest)?, take_u64(&mut rest)?, take_u64(&mut rest)?);
            let bytes = usize::try_from(count).ok().and_then(|c| c.checked_mul(4)).filter(|&b| b <= rest.len());
            let (head, tail) = rest.split_at(bytes.ok_or_else(truncated_state)?);
            rest = tail;
            let actions: Vec<f32> =
                head.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
            saved.push((seed, episode, actions));
        }
        if !rest.is_empty() {
            return Err(WorldError::State(format!("{} bytes too many: of more worlds?", rest.len())));
        }
        let (width, learners) = (self.interface.observation_len, self.learners);
        let Self { worlds, pool, .. } = self;
        pool.install(|| {
            worlds
                .par_iter_mut()
                .zip(saved)
                .zip(observations.par_chunks_mut(width * learners))
                .enumerate()
                .try_for_each(|(index, ((world, (seed, episode, actions)), out))| {
                    world.seed = seed;
                    world.reset(episode)?;
                    for actions in actions.chunks(world.row()) {
                        let refused = |(i, source)| WorldError::Action { index: index * learners + i, source };
                        let over = world.step(actions, |_, _| ()).map_err(refused)?;
                        if over {
                            return Err(WorldError::State(format!("world {index}'s episode ended during replay")));
                        }
                    }
                    world.observe_all(out);
                    Ok(())
                })
        })
    }
}

/// The action that `numbers` stand for.
fn action(interface: &Interface, numbers: &[f32]) -> Result<Action, ActionError> {
    let mut values = [0.0; MOST_NUMBERS];
    values.iter_mut().zip(numbers).for_each(|(to, from)| *to = f64::from(*from));
    interface.action(&values[..numbers.len().min(MOST_NUMBERS)])
}

fn truncated_state() -> WorldError {
    WorldError::State("truncated".into())
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, WorldError> {
    let (head, tail) = bytes.split_first_chunk::<8>().ok_or_else(truncated_state)?;
    *bytes = tail;
    Ok(u64::from_le_bytes(*head))
}
