//! Policy artifacts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ccarena_cc::policy::Policy as Inner;
use ccarena_sim::PolicyFn;
use numpy::{PyArray1, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors;

/// Reads the artifact `path`; the message names the file.
pub fn load(path: &Path) -> Result<Inner, String> {
    let bytes = std::fs::read(path).map_err(|e| format!("{}: cannot be read: {e}", path.display()))?;
    Inner::from_bytes(&bytes).map_err(|e| format!("{}: {e}", path.display()))
}

/// The policy in `path` as the simulator's decider, for a scheme that observes `observation`.
pub fn decider(path: &str, observation: &str) -> Result<PolicyFn, String> {
    let policy = load(Path::new(path))?;
    if policy.spec().id != observation {
        return Err(format!("{path}: observes {:?}; the scheme gives {observation:?}", policy.spec().id));
    }
    let mut scratch = policy.scratch();
    // The observation's length was checked with the artifact, so inference cannot fail; a first action is never reached.
    Ok(Box::new(move |observation| policy.act(observation, &mut scratch).map_or(0, |(action, _)| action)))
}

/// Policy(path): a trained policy, with inference in float32 by the same code as in a datapath.
#[pyclass(frozen, module = "ccarena._core")]
struct Policy(Arc<Inner>);

#[pymethods]
impl Policy {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        load(&path).map(|p| Self(Arc::new(p))).map_err(errors::policy)
    }

    /// What it observes, such as "acct-1".
    #[getter]
    fn observation(&self) -> &'static str {
        self.0.spec().id
    }

    /// act(observations: float32[n, len]) -> (actions: int64[n], logits: float32[n, actions])
    #[expect(clippy::type_complexity, reason = "a pair of arrays")]
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f32>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<f32>>)> {
        let spec = self.0.spec();
        if observations.shape()[1] != spec.observation_len {
            let got = observations.shape()[1];
            return Err(errors::policy(format!(
                "observations have {got} entries per row; {:?} has {}",
                spec.id, spec.observation_len
            )));
        }
        let rows = observations.as_slice()?;
        let mut scratch = self.0.scratch();
        let (mut actions, mut logits) = (Vec::new(), Vec::new());
        for row in rows.chunks_exact(spec.observation_len) {
            let (action, values) = self.0.act(row, &mut scratch).map_err(errors::policy)?;
            actions.push(i64::from(action));
            logits.extend_from_slice(values);
        }
        let shape = [actions.len(), spec.actions.len()];
        let logits = numpy::PyArrayMethods::reshape(&PyArray1::from_vec(py, logits), shape)?;
        Ok((PyArray1::from_vec(py, actions), logits))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Policy>()
}
