//! Traces and the cellular generator.

use std::path::PathBuf;

use ccarena_cc::Dur;
use ccarena_net::{Trace, cellular, trace};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::errors;
use crate::simulate::to_python;

/// `read_trace(path) -> uint32[n]`: the delivery opportunities in ms.
#[pyfunction]
fn read_trace(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyArray1<u32>>> {
    let trace = py.detach(|| trace::load(&path)).map_err(errors::trace)?;
    Ok(PyArray1::from_slice(py, trace.opportunities_ms()))
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

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_trace, module)?)?;
    module.add_function(wrap_pyfunction!(write_trace, module)?)?;
    module.add_function(wrap_pyfunction!(generate_cellular, module)?)?;
    module.add_function(wrap_pyfunction!(cellular_presets, module)?)
}
