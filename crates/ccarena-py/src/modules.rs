//! WebAssembly modules of users.

use std::path::PathBuf;

use pyo3::prelude::*;
use serde_json::json;

use crate::errors;
use crate::simulate::to_python;

/// Module as bytes, or its file.
#[derive(FromPyObject)]
enum Given {
    #[pyo3(transparent)]
    Bytes(Vec<u8>),
    #[pyo3(transparent)]
    File(PathBuf),
}

/// module_about(module: bytes | path) -> dict: checks and compiles a WebAssembly controller, and returns what it says about
/// itself: `name`, `summary`, `params` (with `name`, `unit`, `doc`, `default`, `min`, `max`), `exports`, `random`,
/// `owns_recovery`, `every_segment`, `rate_samples`, `memory_bytes`, `module_bytes` and `digest`.
///
/// Raises ConfigError if no such module runs here.
#[pyfunction]
fn module_about<'py>(py: Python<'py>, module: Given) -> PyResult<Bound<'py, PyAny>> {
    let module = match module {
        Given::Bytes(bytes) => ccarena_wasm::compile(&bytes),
        Given::File(file) => ccarena_wasm::load(&file),
    };
    let module = module.map_err(errors::config)?;
    let about = module.about();
    let params: Vec<_> = about
        .params
        .iter()
        .map(|p| json!({"name": p.name, "unit": p.unit, "doc": p.help, "default": p.initial, "min": p.least, "max": p.most}))
        .collect();
    to_python(
        py,
        &json!({
            "name": about.name, "summary": about.summary, "params": params, "exports": about.exports,
            "random": about.random, "owns_recovery": about.owns_recovery, "every_segment": about.every_segment,
            "rate_samples": about.rate_samples, "memory_bytes": about.memory_bytes, "module_bytes": about.module_bytes,
            "digest": about.digest,
        }),
    )
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(module_about, module)?)
}
