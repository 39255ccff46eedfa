//! Rewards of the shipped learned schemes.

use ccarena_sim::rewards;
use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Reward(name, columns, coefficients, actions=()): the reward `name` of the columns `(privileged, number)` of the reports or of
/// the privileged state.
///
/// Raises ValueError if there is none of this name with as many columns and coefficients.
#[pyclass(module = "ccarena._core", frozen)]
struct Reward {
    reward: rewards::Reward,
    columns: Vec<(bool, usize)>,
}

#[pymethods]
impl Reward {
    #[new]
    #[pyo3(signature = (name, columns, coefficients, actions=Vec::new()))]
    #[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
    fn new(name: &str, columns: Vec<(bool, usize)>, coefficients: Vec<f64>, actions: Vec<f64>) -> PyResult<Self> {
        let found = rewards::Reward::find(name, &coefficients, actions);
        let reward = found.filter(|reward| reward.columns() == columns.len()).ok_or_else(|| {
            let (count, numbers) = (columns.len(), coefficients.len());
            PyValueError::new_err(format!("no reward {name:?} of {count} columns with {numbers} coefficients"))
        })?;
        Ok(Self { reward, columns })
    }

    /// `reward(reports: float32[n, columns], privileged: float32[n, columns] = None) -> (float32[n], bool)`: of n intervals, and
    /// whether all are finite.
    #[pyo3(signature = (reports, privileged=None))]
    #[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        reports: PyReadonlyArray2<'py, f32>,
        privileged: Option<PyReadonlyArray2<'py, f32>>,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, bool)> {
        let rows = reports.shape()[0];
        let (reports, privileged) = (reports.as_array(), privileged.as_ref().map(|array| array.as_array()));
        let mut columns = Vec::with_capacity(self.columns.len());
        for &(is_privileged, number) in &self.columns {
            let table = if is_privileged { privileged } else { Some(reports) };
            let fits = table.filter(|table| table.nrows() == rows && number < table.ncols());
            let table = fits.ok_or_else(|| {
                let what = if is_privileged { "privileged state" } else { "reports" };
                PyValueError::new_err(format!("no column {number} of {rows} rows in the {what}"))
            })?;
            columns.push(table.index_axis_move(numpy::ndarray::Axis(1), number));
        }
        let (mut row, mut finite) = (vec![0.0; columns.len()], true);
        let rewards = (0..rows).map(|index| {
            row.iter_mut().zip(&columns).for_each(|(value, column)| *value = column[index]);
            let reward = self.reward.of(&row);
            finite &= reward.is_finite();
            reward
        });
        let rewards = PyArray1::from_iter(py, rewards);
        Ok((rewards, finite))
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Reward>()
}
