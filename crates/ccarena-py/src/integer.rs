//! Integer policies.

use std::sync::Arc;

use ccarena_cc::policy::Policy;
use ccarena_cc::policy::integer::{HEADER, OBSERVATION_BITS, Program};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyReadwriteArray2, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// A policy in integers, by the same code as in the simulator.
#[pyclass(frozen, module = "ccarena._core")]
struct IntegerPolicy(Arc<Policy>);

impl IntegerPolicy {
    fn inner(&self) -> PyResult<&Program> {
        self.0.integer().map_err(errors::policy)
    }
}

#[pymethods]
impl IntegerPolicy {
    #[new]
    fn new(data: &[u8]) -> PyResult<Self> {
        let policy = Self(Arc::new(Policy::from_bytes(data).map_err(errors::policy)?));
        policy.inner()?;
        Ok(policy)
    }

    /// Returns the computation, as numbers and arrays by name.
    fn program<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let program = self.inner()?;
        let out = PyDict::new(py);
        let steps = program.steps.iter().flat_map(|s| {
            let numbers =
                [s.op as usize, s.input, s.second, s.output, s.rows, s.inputs, s.outputs, s.weights, s.constants];
            let numbers = numbers.map(|n| n as i64);
            numbers.into_iter().chain([s.shift.into(), s.low.into(), s.high.into()])
        });
        let steps = PyArray1::from_vec(py, steps.collect()).reshape([program.steps.len(), 12])?;
        out.set_item("observation", program.observation)?;
        out.set_item("observation_bits", OBSERVATION_BITS)?;
        out.set_item("state", program.state)?;
        out.set_item("next", program.next.clone())?;
        out.set_item("steps", steps)?;
        out.set_item("weights", PyArray1::from_slice(py, &program.weights))?;
        out.set_item("constants", PyArray1::from_slice(py, &program.constants))?;
        out.set_item("values", program.values)?;
        out.set_item("output", program.output)?;
        out.set_item("output_bits", program.output_bits)?;
        out.set_item("bounds", program.bounds)?;
        Ok(out)
    }

    /// `act(observations: float32[n, len], state: int32[n, state] | None) -> (best: int64[n], outputs: int32[n, outputs])`;
    /// `state` goes to the next one; without it every row starts from zeros.
    #[pyo3(signature = (observations, state=None))]
    #[expect(clippy::type_complexity, reason = "a pair of arrays")]
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: PyReadonlyArray2<'py, f32>,
        state: Option<PyReadwriteArray2<'py, i32>>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray2<i32>>)> {
        let program = self.inner()?;
        let &[rows, found] = observations.shape() else { return Err(errors::policy("observations of 2 axes")) };
        let (width, remembered) = (program.observation, program.state);
        let mut state = state;
        if found != width || state.as_ref().is_some_and(|state| *state.shape() != [rows, remembered]) {
            return Err(errors::policy(format!(
                "observations have {found} entries per row; expected {width}, and a state [{rows}, {remembered}]"
            )));
        }
        let mut states = state.as_mut().map(|s| s.as_slice_mut()).transpose()?;
        let mut memory = program.memory();
        let (mut actions, mut outputs) = (Vec::with_capacity(rows), Vec::with_capacity(rows * program.output.1));
        for (index, row) in observations.as_slice()?.chunks_exact(width).enumerate() {
            let place = index * remembered..(index + 1) * remembered;
            match &states {
                Some(states) => memory.state().copy_from_slice(&states[place.clone()]),
                None => memory.state().fill(0),
            }
            let (best, values) = program.act(row, &mut memory).map_err(errors::policy)?;
            actions.push(i64::from(best));
            outputs.extend_from_slice(values);
            if let Some(states) = &mut states {
                states[place].copy_from_slice(memory.state());
            }
        }
        let outputs = PyArray1::from_vec(py, outputs).reshape([rows, program.output.1])?;
        Ok((PyArray1::from_vec(py, actions), outputs))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("POLICY_HEADER", HEADER)?;
    module.add_class::<IntegerPolicy>()
}
