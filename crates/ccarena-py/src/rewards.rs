//! Rewards of the shipped learned schemes.

use ccarena_sim::rewards::Reward;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Returns the reward `name` of n intervals, `float32[n]`; `columns` is a list of `float32[n]`.
///
/// Raises ValueError if there is none of this name with as many columns, equally long, and coefficients.
#[pyfunction]
#[pyo3(signature = (name, columns, coefficients, actions=Vec::new()))]
#[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
fn reward<'py>(
    py: Python<'py>,
    name: &str,
    columns: Vec<PyReadonlyArray1<'py, f32>>,
    coefficients: Vec<f64>,
    actions: Vec<f64>,
) -> PyResult<Bound<'py, PyArray1<f32>>> {
    let found = Reward::find(name, &coefficients, actions).filter(|reward| reward.columns() == columns.len());
    let (count, numbers) = (columns.len(), coefficients.len());
    let reward = found.ok_or_else(|| {
        PyValueError::new_err(format!("no reward {name:?} of {count} columns with {numbers} coefficients"))
    })?;
    let arrays: Vec<_> = columns.iter().map(|column| column.as_array()).collect();
    let rows = arrays.first().map_or(0, |first| first.len());
    if arrays.iter().any(|array| array.len() != rows) {
        return Err(PyValueError::new_err(format!("reward {name:?}: columns of different lengths")));
    }
    let mut row = vec![0.0; count];
    let rewards = (0..rows).map(|index| {
        row.iter_mut().zip(&arrays).for_each(|(value, array)| *value = array[index]);
        reward.of(&row)
    });
    Ok(PyArray1::from_iter(py, rewards))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(reward, module)?)
}
