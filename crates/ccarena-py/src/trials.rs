//! Trials of candidates, for learners that score whole runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccarena_sim::PRIVILEGED;
use ccarena_sim::trials::{Answers, Candidate, Done, FIGURES, Learned, Trials as Inner};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::policy::Policy;
use crate::{errors, worlds};

/// Decider: a policy, a constant action, or a column of the report with an action for each
/// category.
#[derive(FromPyObject)]
enum Given<'py> {
    Policy(Bound<'py, Policy>),
    Constant(Numbers),
    Table(String, Vec<Numbers>),
}

/// An action: an index or a value, or a value for each actuator.
#[derive(FromPyObject)]
enum Numbers {
    One(f64),
    Several(Vec<f64>),
}

impl From<Numbers> for Vec<f64> {
    fn from(numbers: Numbers) -> Self {
        match numbers {
            Numbers::One(number) => vec![number],
            Numbers::Several(numbers) => numbers,
        }
    }
}

impl Given<'_> {
    fn answers(self) -> Answers {
        match self {
            Given::Policy(policy) => Answers::Policy(Arc::clone(&policy.get().0)),
            Given::Constant(numbers) => Answers::Constant(numbers.into()),
            Given::Table(by, actions) => Answers::Table(by, actions.into_iter().map(Into::into).collect()),
        }
    }
}

/// Trials(distribution_json=None, scenario_json=None, threads=1, measures=True): whole runs of candidates. Unless it measures,
/// figures are NaN, and runs take less time.
#[pyclass(frozen, module = "ccarena._core")]
struct Trials(Inner);

#[pymethods]
impl Trials {
    #[new]
    #[pyo3(signature = (distribution_json=None, scenario_json=None, threads=1, measures=true))]
    fn new(
        distribution_json: Option<&str>,
        scenario_json: Option<&str>,
        threads: usize,
        measures: bool,
    ) -> PyResult<Self> {
        let source = worlds::source(distribution_json, scenario_json)?;
        Inner::new(source, threads, measures).map(Self).map_err(|e| errors::world(&e))
    }

    /// Names of the figures of a learner's run.
    #[classattr]
    fn figures() -> Vec<&'static str> {
        FIGURES.to_vec()
    }

    /// `scenario(seed, trial) -> str`: the scenario of a trial, as JSON.
    fn scenario(&self, seed: u64, trial: u64) -> String {
        self.0.scenario(seed, trial).to_json().to_string()
    }

    /// `run(candidates: [(policy | action | (column, actions) | None, params)], seed, trials)` -> list of dicts, one per
    /// candidate, of its `trials`, rising numbers. The GIL is released meanwhile.
    ///
    /// - `figures: float64[rows, FIGURES]`, `params: [rows]`
    /// - `reports: float32[n, report]`, `privileged: float32[n, columns]`
    /// - `intervals: uint64[rows]`: how many of them each row has
    /// - `learners: uint64[trials]`: how many rows each trial has
    /// - `taken: [trials]`: flags of a table's actions that were taken in each trial, empty for other candidates
    fn run<'py>(
        &self,
        py: Python<'py>,
        candidates: Vec<(Option<Given<'py>>, BTreeMap<String, f64>)>,
        seed: u64,
        trials: Vec<Vec<u64>>,
    ) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let candidates: Vec<Candidate> = candidates
            .into_iter()
            .map(|(given, params)| Candidate { answers: given.map_or(Answers::Nobody, Given::answers), params })
            .collect();
        let done = py.detach(|| self.0.run(&candidates, seed, &trials)).map_err(|e| errors::world(&e))?;
        done.into_iter().map(|runs| dict(py, runs)).collect()
    }
}

/// The runs of one candidate, a row per learner.
fn dict(py: Python<'_>, runs: Vec<Done>) -> PyResult<Bound<'_, PyDict>> {
    let learners: Vec<u64> = runs.iter().map(|run| run.learners.len() as u64).collect();
    let (rows, taken): (Vec<_>, Vec<_>) = runs.into_iter().map(|run| (run.learners, run.taken)).unzip();
    let rows: Vec<Learned> = rows.into_iter().flatten().collect();
    let intervals: Vec<usize> = rows.iter().map(|row| row.privileged.len() / PRIVILEGED.len()).collect();
    let total: usize = intervals.iter().sum();
    let floats = |of: fn(&Learned) -> &[f32]| {
        let all: Vec<f32> = rows.iter().flat_map(|row| of(row).iter().copied()).collect();
        let width = all.len() / total.max(1);
        PyArray1::from_vec(py, all).reshape([total, width])
    };
    let out = PyDict::new(py);
    let figures: Vec<f64> = rows.iter().flat_map(|row| row.figures.iter().copied()).collect();
    out.set_item("figures", PyArray1::from_vec(py, figures).reshape([rows.len(), FIGURES.len()])?)?;
    out.set_item("reports", floats(|row| &row.reports)?)?;
    out.set_item("privileged", floats(|row| &row.privileged)?)?;
    out.set_item("learners", PyArray1::from_vec(py, learners))?;
    out.set_item("taken", taken)?;
    out.set_item("intervals", PyArray1::from_iter(py, intervals.iter().map(|&n| n as u64)))?;
    out.set_item("params", rows.into_iter().map(|row| row.params).collect::<Vec<_>>())?;
    Ok(out)
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Trials>()
}
