//! Worlds for training, over arrays that the caller owns.

use std::sync::Arc;

use ccarena_net::Scenario;
use ccarena_sim::{Domain, Draw, PRIVILEGED, RolloutOut, Source, StepOut, World, Worlds};
use numpy::{
    PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyReadonlyArrayDyn, PyReadwriteArray1, PyReadwriteArray2,
    PyReadwriteArrayDyn,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::policy::Policy;
use crate::rewards::Reward;
use crate::simulate::to_python;
use crate::{errors, learned};

/// A domain or a scenario from JSON; exactly one is given.
pub fn source(distribution_json: Option<&str>, scenario_json: Option<&str>) -> PyResult<Source> {
    match (distribution_json, scenario_json) {
        (Some(text), None) => serde_json::from_str::<Domain>(text)
            .map(|d| Source::Domain(Box::new(d)))
            .map_err(|e| errors::scenario(format!("domain: {e}"))),
        (None, Some(text)) => Scenario::parse(text).map(|s| Source::Scenario(Box::new(s))).map_err(errors::document),
        _ => Err(errors::scenario("expected a domain or a scenario, not both")),
    }
}

/// draw_scenario(distribution_json=None, scenario_json=None, seed=0, world=0, episode=0) -> str: what an episode of a world
/// runs, as a normalised document, so that other backends run it as well.
#[pyfunction]
#[pyo3(signature = (distribution_json=None, scenario_json=None, seed=0, world=0, episode=0))]
fn draw_scenario(
    distribution_json: Option<&str>,
    scenario_json: Option<&str>,
    seed: u64,
    world: u64,
    episode: u64,
) -> PyResult<String> {
    let scenario = source(distribution_json, scenario_json)?.scenario(seed, world, episode);
    Ok(scenario.to_json().to_string())
}

/// VecWorlds(distribution_json=None, scenario_json=None, worlds=1, seed=0, threads=1, learners=1): many worlds with so many
/// learners each. Arrays have a row per learner: those of the first world, of the second and so on.
#[pyclass(module = "ccarena._core")]
struct VecWorlds(Worlds);

#[pymethods]
impl VecWorlds {
    #[new]
    #[pyo3(signature = (distribution_json=None, scenario_json=None, worlds=1, seed=0, threads=1, learners=1))]
    fn new(
        py: Python<'_>,
        distribution_json: Option<&str>,
        scenario_json: Option<&str>,
        worlds: usize,
        seed: u64,
        threads: usize,
        learners: usize,
    ) -> PyResult<Self> {
        let source = source(distribution_json, scenario_json)?;
        py.detach(|| Worlds::new(source, worlds, seed, threads, learners)).map(Self).map_err(|e| errors::world(&e))
    }

    /// reset(observations: float32[n, len], seed=None): every world anew, from its first episode.
    #[pyo3(signature = (observations, seed=None))]
    fn reset(
        &mut self,
        py: Python<'_>,
        mut observations: PyReadwriteArray2<'_, f32>,
        seed: Option<u64>,
    ) -> PyResult<()> {
        let out = observations.as_slice_mut()?;
        py.detach(|| self.0.reset(seed, out)).map_err(|e| errors::world(&e))
    }

    /// limit_episodes(decisions): ends every episode after so many, unless it ends before.
    fn limit_episodes(&mut self, decisions: u64) {
        self.0.limit_episodes(decisions);
    }

    /// `step(actions: float32[n * numbers], observations, reports, intervals_s, truncated, final_observations, rewards=None,
    /// reward=None, privileged=None, held=None) -> (ended, finite)`: to the next decision of every learner; fills the arrays.
    /// Returns whether an episode has ended, and whether all rewards are finite. The GIL is released meanwhile.
    #[pyo3(signature = (actions, observations, reports, intervals_s, truncated, final_observations, rewards=None, reward=None,
                        privileged=None, held=None))]
    #[expect(clippy::too_many_arguments, reason = "an array each")]
    fn step(
        &mut self,
        py: Python<'_>,
        actions: PyReadonlyArray1<'_, f32>,
        mut observations: PyReadwriteArray2<'_, f32>,
        mut reports: PyReadwriteArray2<'_, f32>,
        mut intervals_s: PyReadwriteArray1<'_, f32>,
        mut truncated: PyReadwriteArray1<'_, bool>,
        mut final_observations: PyReadwriteArray2<'_, f32>,
        mut rewards: Option<PyReadwriteArray1<'_, f32>>,
        reward: Option<&Reward>,
        mut privileged: Option<PyReadwriteArray2<'_, f32>>,
        mut held: Option<PyReadwriteArray1<'_, bool>>,
    ) -> PyResult<(bool, bool)> {
        let (truncated, actions) = (truncated.as_slice_mut()?, actions.as_slice()?);
        let rewards = rewards.as_mut().map(|array| array.as_slice_mut()).transpose()?.unwrap_or_default();
        let out = StepOut {
            observations: observations.as_slice_mut()?,
            reports: reports.as_slice_mut()?,
            intervals_s: intervals_s.as_slice_mut()?,
            rewards: &mut *rewards,
            truncated: &mut *truncated,
            final_observations: final_observations.as_slice_mut()?,
            privileged: privileged.as_mut().map(|array| array.as_slice_mut()).transpose()?.unwrap_or_default(),
            held: held.as_mut().map(|array| array.as_slice_mut()).transpose()?.unwrap_or_default(),
        };
        py.detach(|| self.0.step(actions, reward.map(|reward| &reward.0), out)).map_err(|e| errors::world(&e))?;
        Ok((truncated.contains(&true), rewards.iter().all(|reward| reward.is_finite())))
    }

    /// rollout(policy, noise, spread, observations, drawn, reports, truncated, final_observations, following, privileged=None):
    /// every world runs as many decisions as `drawn` [worlds, steps, learners, numbers] has room for, without Python in
    /// between; `spread`, of so many numbers, is empty if actions are discrete.
    #[pyo3(signature = (policy, noise, spread, observations, drawn, reports, truncated, final_observations, following, privileged=None))]
    #[expect(clippy::too_many_arguments, reason = "an array each")]
    fn rollout(
        &mut self,
        py: Python<'_>,
        policy: &Policy,
        noise: PyReadonlyArrayDyn<'_, f32>,
        spread: PyReadonlyArray1<'_, f32>,
        mut observations: PyReadwriteArrayDyn<'_, f32>,
        mut drawn: PyReadwriteArrayDyn<'_, f32>,
        mut reports: PyReadwriteArrayDyn<'_, f32>,
        mut truncated: PyReadwriteArrayDyn<'_, bool>,
        mut final_observations: PyReadwriteArrayDyn<'_, f32>,
        mut following: PyReadwriteArrayDyn<'_, f32>,
        mut privileged: Option<PyReadwriteArrayDyn<'_, f32>>,
    ) -> PyResult<()> {
        let policy = &*policy.0;
        let trained = policy.trained();
        let (digest, expected) = (&trained.spec.interface().digest, &self.0.interface().digest);
        if digest != expected {
            return Err(errors::policy(format!("a policy for the spec {digest}; expected one for {expected}")));
        }
        let draw = Draw { noise: noise.as_slice()?, spread: spread.as_slice()?, bounds: &trained.bounds };
        let drawn = drawn.as_slice_mut()?;
        let steps = drawn.len() / (self.0.len() * self.0.learners() * trained.bounds.len().max(1));
        let out = RolloutOut {
            observations: observations.as_slice_mut()?,
            drawn,
            reports: reports.as_slice_mut()?,
            truncated: truncated.as_slice_mut()?,
            final_observations: final_observations.as_slice_mut()?,
            following: following.as_slice_mut()?,
            privileged: privileged.as_mut().map(|array| array.as_slice_mut()).transpose()?.unwrap_or_default(),
        };
        py.detach(|| self.0.rollout(policy, draw, steps, out)).map_err(|e| errors::world(&e))
    }

    /// state() -> bytes: all that restore needs.
    fn state<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0.state())
    }

    /// restore(state, observations): replays `state`, exactly.
    fn restore(&mut self, py: Python<'_>, state: &[u8], mut observations: PyReadwriteArray2<'_, f32>) -> PyResult<()> {
        let out = observations.as_slice_mut()?;
        py.detach(|| self.0.restore(state, out)).map_err(|e| errors::world(&e))
    }

    /// `data_packets() -> uint64[n]`: packets delivered in each world's current episode.
    fn data_packets<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u64>> {
        PyArray1::from_vec(py, self.0.data_packets())
    }

    /// Returns the learners' observation, report and actions: a dict as `learned` gives, without
    /// texts for readers.
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &learned::interface(self.0.interface()))
    }

    /// Learners of each world.
    #[getter]
    fn learners(&self) -> usize {
        self.0.learners()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }
}

/// SharedWorld(distribution_json=None, scenario_json=None, seed=0): one world with several learners on one bottleneck.
#[pyclass(module = "ccarena._core")]
struct SharedWorld(World);

#[pymethods]
impl SharedWorld {
    #[new]
    #[pyo3(signature = (distribution_json=None, scenario_json=None, seed=0))]
    fn new(distribution_json: Option<&str>, scenario_json: Option<&str>, seed: u64) -> PyResult<Self> {
        World::new(Arc::new(source(distribution_json, scenario_json)?), seed, 0)
            .map(Self)
            .map_err(|e| errors::world(&e))
    }

    /// Number of learners.
    #[getter]
    fn learners(&self) -> usize {
        self.0.learners().len()
    }

    /// Returns the learners' observation, report and actions: a dict as `learned` gives, without
    /// texts for readers.
    #[getter]
    fn spec<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &learned::interface(self.0.interface()))
    }

    /// reset(episode)
    fn reset(&mut self, episode: u64) -> PyResult<()> {
        self.0.reset(episode).map_err(|e| errors::world(&e))
    }

    /// `observe(learner) -> float32[len]`
    fn observe<'py>(&mut self, py: Python<'py>, learner: usize) -> PyResult<Bound<'py, PyArray1<f32>>> {
        if learner >= self.0.learners().len() {
            return Err(errors::action(format!("learner {learner} of {}", self.0.learners().len())));
        }
        let mut out = vec![0.0; self.0.interface().observation_len];
        self.0.observe(learner, &mut out);
        Ok(PyArray1::from_vec(py, out))
    }

    /// `step(actions: float32[learners * numbers]) -> (reports per learner: list of float32[k, report], privileged: float32[learners,
    /// columns], over: bool)`
    #[expect(clippy::type_complexity, reason = "three things of one step")]
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        actions: PyReadonlyArray1<'py, f32>,
    ) -> PyResult<(Vec<Bound<'py, PyArray2<f32>>>, Bound<'py, PyArray2<f32>>, bool)> {
        let actions = actions.as_slice()?;
        let (width, learners) = (self.0.interface().report.len(), self.0.learners().len());
        let mut rows = vec![Vec::new(); learners];
        let before = self.0.before();
        let over = py
            .detach(|| self.0.step(actions, |learner, report| rows[learner].extend_from_slice(report)))
            .map_err(|(index, e)| errors::action(format!("actions[{index}]: {e}")))?;
        let reports = rows
            .into_iter()
            .map(|r| {
                let count = r.len() / width;
                PyArray1::from_vec(py, r).reshape([count, width])
            })
            .collect::<PyResult<_>>()?;
        let mut privileged = vec![0.0; learners * PRIVILEGED.len()];
        for (learner, row) in privileged.chunks_mut(PRIVILEGED.len()).enumerate() {
            self.0.write_privileged(&before, learner, row);
        }
        Ok((reports, PyArray1::from_vec(py, privileged).reshape([learners, PRIVILEGED.len()])?, over))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(draw_scenario, module)?)?;
    module.add_class::<VecWorlds>()?;
    module.add_class::<SharedWorld>()
}
