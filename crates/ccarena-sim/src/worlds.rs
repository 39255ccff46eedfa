//! Worlds for training: many simulations side by side, each running from one decision of its learners to the next.

use std::sync::Arc;

use ccarena_cc::Interface;
use ccarena_net::Demand;
use rayon::prelude::*;

use crate::files::Files;
use crate::helpers::Helpers;
use crate::rewards::ColumnReward;
use crate::steps::{StepOut, Steps};
use crate::world::{Source, World, WorldError, action};

/// Many worlds with as many learners each, stepped by a pool of threads.
pub struct Worlds {
    worlds: Vec<World>,
    pool: rayon::ThreadPool,
    helpers: Helpers,
    interface: Arc<Interface>,
    learners: usize,
    /// Column of the reports that has the interval's length, ms.
    interval: usize,
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
        let interval = interface.report.iter().position(|column| column == "interval_ms").unwrap_or_default();
        Ok(Self { worlds, pool, helpers, interface, learners, interval })
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

    /// Steps every world to its next decision, and fills `out`, its rewards by `reward`. What one world takes, one thread does:
    /// between two steps, only the actions are checked.
    ///
    /// # Errors
    /// If an array has another length, `reward` reads a column that there is not, or an action is refused: no world has moved
    /// then. If a new episode's scenario cannot be simulated.
    pub fn step(&mut self, actions: &[f32], reward: Option<&ColumnReward>, out: StepOut<'_>) -> Result<(), WorldError> {
        let Self { worlds, helpers, interface, learners, interval, .. } = self;
        let (numbers, row) = (interface.width(), interface.width() * *learners);
        if actions.len() != worlds.len() * row {
            return Err(WorldError::Length { name: "actions", found: actions.len(), expected: worlds.len() * row });
        }
        out.check(interface, worlds.len() * *learners, reward)?;
        for (index, numbers) in actions.chunks(numbers).enumerate() {
            action(interface, numbers).map_err(|source| WorldError::Action { index, source })?;
        }
        helpers.share_out(Steps::new(worlds, out), |step| {
            let index = step.index;
            let taken = step.take(&actions[index * row..(index + 1) * row], *interval, reward);
            taken.map_err(|error| error.at(index * *learners))
        })
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

fn truncated_state() -> WorldError {
    WorldError::State("truncated".into())
}

fn take_u64(bytes: &mut &[u8]) -> Result<u64, WorldError> {
    let (head, tail) = bytes.split_first_chunk::<8>().ok_or_else(truncated_state)?;
    *bytes = tail;
    Ok(u64::from_le_bytes(*head))
}
