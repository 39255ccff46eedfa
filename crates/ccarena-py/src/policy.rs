//! Policy artifacts.

use std::path::PathBuf;
use std::sync::Arc;

use ccarena_cc::Policies;
use ccarena_cc::policy::Policy as Inner;
use ccarena_cc::policy::artifact::observation;
use numpy::{PyArray1, PyArray2, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors;

/// Policy(path): a trained policy, with inference in float32 by the same code as in a datapath.
#[pyclass(frozen, module = "ccarena._core")]
struct Policy(Arc<Inner>);

#[pymethods]
impl Policy {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Policies::default().load(&path).map(Self).map_err(errors::policy)
    }

    /// What it observes, such as "acct-1".
    #[getter]
    fn observation(&self) -> String {
        observation(self.0.spec())
    }

    /// act(observations: float32[n, len]) -> (actions: int64[n], logits: float32[n, actions]); where actions are
    /// continuous, (zeros, actions: float32[n, 1])
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
                observation(spec),
                spec.observation_len
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
        let shape = [actions.len(), self.0.outputs()];
        let logits = numpy::PyArrayMethods::reshape(&PyArray1::from_vec(py, logits), shape)?;
        Ok((PyArray1::from_vec(py, actions), logits))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Policy>()
}
