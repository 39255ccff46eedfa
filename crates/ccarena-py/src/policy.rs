//! Policy artifacts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use ccarena_cc::Policies;
use ccarena_cc::policy::Policy as Inner;
use numpy::{PyArray1, PyArray2, PyReadonlyArray2, PyReadonlyArrayDyn, PyReadwriteArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors;

/// Policy(path): a trained policy, with inference in float32 by the same code as in a datapath.
#[pyclass(frozen, module = "ccarena._core")]
pub struct Policy(pub Arc<Inner>);

#[pymethods]
impl Policy {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        Policies::default().load(&path).map(Self).map_err(errors::policy)
    }

    /// Reads a policy from a file's bytes: of(bytes) -> Policy.
    #[staticmethod]
    fn of(bytes: &[u8]) -> PyResult<Self> {
        Inner::from_bytes(bytes).map(|p| Self(Arc::new(p))).map_err(errors::policy)
    }

    /// The digest of the spec that it was trained for.
    #[getter]
    fn digest(&self) -> &str {
        &self.0.trained().spec.interface().digest
    }

    /// Numbers that a recurrent policy remembers; 0 of another.
    #[getter]
    fn state_len(&self) -> usize {
        self.0.graph().state_len()
    }

    /// with_weights(weights: dict[str, float32 array]) -> Policy: the same with other weights, by the tensors' names.
    fn with_weights(&self, weights: BTreeMap<String, PyReadonlyArrayDyn<'_, f32>>) -> PyResult<Self> {
        let weights = weights.into_iter().map(|(name, array)| Ok((name, array.as_slice()?.to_vec())));
        let weights = weights.collect::<PyResult<_>>()?;
        self.0.with_weights(&weights).map(|p| Self(Arc::new(p))).map_err(errors::policy)
    }

    /// `act(observations: float32[n, len], state: float32[n, state_len] | None) -> (actions: int64[n], logits:
    /// float32[n, actions])`; where actions are continuous, `(zeros, actions: float32[n, numbers])`. `state` goes to the next one;
    /// without it every row starts from zeros.
    #[pyo3(signature = (observations, state=None))]
    #[expect(clippy::type_complexity, reason = "a pair of arrays")]
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f32>,
        state: Option<PyReadwriteArray2<'py, f32>>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<f32>>)> {
        let width = self.0.trained().observation_len;
        let &[rows, found] = observations.shape() else { return Err(errors::policy("observations of 2 axes")) };
        if found != width {
            return Err(errors::policy(format!(
                "observations have {found} entries per row; the policy's have {width}"
            )));
        }
        let expected = [rows, self.state_len()];
        let mut state = state;
        if let Some(state) = state.as_ref().filter(|state| *state.shape() != expected) {
            return Err(errors::policy(format!("state of shape {:?}; expected {expected:?}", state.shape())));
        }
        let mut states = state.as_mut().map(|s| s.as_slice_mut()).transpose()?;
        let mut scratch = self.0.scratch();
        let (mut actions, mut logits) = (Vec::with_capacity(rows), Vec::with_capacity(rows * self.0.outputs()));
        for (index, row) in observations.as_slice()?.chunks_exact(width).enumerate() {
            let place = index * expected[1]..(index + 1) * expected[1];
            match &states {
                Some(states) => scratch.state().copy_from_slice(&states[place.clone()]),
                None => scratch.state().fill(0.0),
            }
            let (action, values) = self.0.act(row, &mut scratch).map_err(errors::policy)?;
            actions.push(i64::from(action));
            logits.extend_from_slice(values);
            if let Some(states) = &mut states {
                states[place].copy_from_slice(scratch.state());
            }
        }
        let shape = [rows, self.0.outputs()];
        let logits = numpy::PyArrayMethods::reshape(&PyArray1::from_vec(py, logits), shape)?;
        Ok((PyArray1::from_vec(py, actions), logits))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Policy>()
}
