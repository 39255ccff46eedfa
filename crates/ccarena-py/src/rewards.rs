//! Rewards of the shipped learned schemes.

use ccarena_sim::rewards::{self, Column, ColumnReward};
use numpy::ndarray::s;
use numpy::{PyArray1, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Reward(name, columns, coefficients, actions=()): the reward `name` of the columns `(privileged, number)` of the reports or of
/// the privileged state.
///
/// Raises ValueError if there is none of this name with as many columns and coefficients.
#[pyclass(module = "ccarena._core", frozen)]
pub struct Reward(pub ColumnReward);

#[pymethods]
impl Reward {
    #[new]
    #[pyo3(signature = (name, columns, coefficients, actions=Vec::new()))]
    #[expect(clippy::needless_pass_by_value, reason = "as PyO3 hands arguments over")]
    fn new(name: &str, columns: Vec<(bool, usize)>, coefficients: Vec<f64>, actions: Vec<f64>) -> PyResult<Self> {
        let column = |&(privileged, number): &(bool, usize)| match privileged {
            true => Column::Privileged(number),
            false => Column::Report(number),
        };
        let found = rewards::Reward::find(name, &coefficients, actions);
        let found = found.and_then(|reward| ColumnReward::new(reward, columns.iter().map(column).collect()));
        found.map(Self).ok_or_else(|| {
            let (count, numbers) = (columns.len(), coefficients.len());
            PyValueError::new_err(format!("no reward {name:?} of {count} columns with {numbers} coefficients"))
        })
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
        let reports = reports.as_array();
        let privileged = privileged.as_ref().map_or_else(|| reports.slice_move(s![.., ..0]), |array| array.as_array());
        for &column in self.0.columns() {
            let (number, table, what) = match column {
                Column::Report(number) => (number, reports, "reports"),
                Column::Privileged(number) => (number, privileged, "privileged state"),
            };
            if table.nrows() != rows || number >= table.ncols() {
                return Err(PyValueError::new_err(format!("no column {number} of {rows} rows in the {what}")));
            }
        }
        let mut finite = true;
        let rewards = (0..rows).map(|row| {
            let reward = self.0.of(|column| match column {
                Column::Report(number) => reports[[row, number]],
                Column::Privileged(number) => privileged[[row, number]],
            });
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
