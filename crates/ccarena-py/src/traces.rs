//! Traces, the cellular generator and the link models.

use std::path::PathBuf;

use ccarena_cc::{Dur, Rate};
use ccarena_net::stepped::Stepped;
use ccarena_net::{Trace, cellular, conditions, link_models, trace};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::simulate::to_python;

/// `read_trace(path) -> uint32[n]`: the delivery opportunities in ms.
#[pyfunction]
fn read_trace(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyArray1<u32>>> {
    let trace = py.detach(|| trace::load(&path)).map_err(errors::trace)?;
    Ok(PyArray1::from_slice(py, trace.opportunities_ms()))
}

/// `read_conditions(path) -> dict`: the columns of a conditions trace by name, each an array of rows `(time_ms, value)`; a value
/// holds from its time on. `period_ms` is None if one row holds for ever.
#[pyfunction]
fn read_conditions(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let read = py.detach(|| conditions::load(&path)).map_err(errors::trace)?;
    let columns = PyDict::new(py);
    columns.set_item("period_ms", read.period.map(Dur::as_millis_f64))?;
    for (name, column) in [
        ("rate_mbps", read.rates.map(|rates| by_time(&rates, Rate::as_mbps))),
        ("delay_ms", read.delays.map(|delays| by_time(&delays, Dur::as_millis_f64))),
        ("loss", read.losses.map(|losses| by_time(&losses, |loss| loss))),
    ] {
        if let Some(column) = column {
            columns.set_item(name, PyArray2::from_vec2(py, &column)?)?;
        }
    }
    Ok(columns)
}

fn by_time<V: Copy>(stepped: &Stepped<V>, convert: impl Fn(V) -> f64) -> Vec<Vec<f64>> {
    stepped.rows().map(|(at, value)| vec![at.as_millis_f64(), convert(value)]).collect()
}

/// `write_trace(path, opportunities_ms: uint32[n])`
#[pyfunction]
fn write_trace(path: PathBuf, opportunities_ms: PyReadonlyArray1<'_, u32>) -> PyResult<()> {
    let name = path.display().to_string();
    let trace = Trace::from_ms(opportunities_ms.as_slice()?.to_vec(), &name).map_err(errors::trace)?;
    Ok(std::fs::write(path, trace.write())?)
}

/// `generate_cellular(preset, duration_s, seed, mean_mbps=None) -> uint32[n]`: a synthetic cellular trace in ms.
#[pyfunction]
#[pyo3(signature = (preset, duration_s, seed, mean_mbps=None))]
fn generate_cellular<'py>(
    py: Python<'py>,
    preset: &str,
    duration_s: f64,
    seed: u64,
    mean_mbps: Option<f64>,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let mut preset = cellular::find_preset(preset).map_err(errors::trace)?.clone();
    if let Some(mean) = mean_mbps {
        preset = preset.with_mean(mean).map_err(errors::trace)?;
    }
    let trace = py.detach(|| cellular::generate(&preset, Dur::from_secs_f64(duration_s), seed));
    Ok(PyArray1::from_vec(py, trace))
}

/// cellular_presets() -> list of dicts: name, summary and parameters of the generator's presets.
#[pyfunction]
fn cellular_presets(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    cellular::PRESETS.iter().map(|p| to_python(py, &p.to_json())).collect()
}

/// draw_conditions(model, duration_s, seed, mean_mbps=None) -> float64[n, 4]: time in ms, rate, delay and loss by row.
#[pyfunction]
#[pyo3(signature = (model, duration_s, seed, mean_mbps=None))]
fn draw_conditions<'py>(
    py: Python<'py>,
    model: &str,
    duration_s: f64,
    seed: u64,
    mean_mbps: Option<f64>,
) -> PyResult<Bound<'py, PyArray2<f64>>> {
    let model = link_models::find(model).map_err(errors::trace)?;
    let rows = py.detach(|| {
        let rows = model.draw(Dur::from_secs_f64(duration_s), seed, mean_mbps);
        rows.iter().flat_map(|row| [f64::from(row.time_ms), row.rate_mbps, row.delay_ms, row.loss]).collect::<Vec<_>>()
    });
    let count = rows.len() / 4;
    PyArray1::from_vec(py, rows).reshape([count, 4])
}

/// base_delay_ms(model, seed) -> float: the base delay of the trace that a link model draws from a seed.
#[pyfunction]
fn base_delay_ms(model: &str, seed: u64) -> PyResult<f64> {
    Ok(link_models::find(model).map_err(errors::trace)?.base_delay(seed).as_millis_f64())
}

/// link_models() -> list of dicts: name, family, summary, source and figures of the link models.
#[pyfunction]
#[pyo3(name = "link_models")]
fn all_link_models(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    link_models::MODELS.iter().map(|model| to_python(py, &model.to_json())).collect()
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_trace, module)?)?;
    module.add_function(wrap_pyfunction!(read_conditions, module)?)?;
    module.add_function(wrap_pyfunction!(write_trace, module)?)?;
    module.add_function(wrap_pyfunction!(generate_cellular, module)?)?;
    module.add_function(wrap_pyfunction!(cellular_presets, module)?)?;
    module.add_function(wrap_pyfunction!(draw_conditions, module)?)?;
    module.add_function(wrap_pyfunction!(base_delay_ms, module)?)?;
    module.add_function(wrap_pyfunction!(all_link_models, module)?)
}
