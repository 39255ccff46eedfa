//! `ccarena._core`: the simulator for Python. Converts types, nothing else.

mod documents;
mod errors;
mod figures;
mod integer;
mod learned;
mod modules;
mod own;
mod policy;
mod rewards;
mod simulate;
mod traces;
mod trials;
mod worlds;

use pyo3::prelude::*;

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    documents::register(module)?;
    simulate::register(module)?;
    learned::register(module)?;
    modules::register(module)?;
    traces::register(module)?;
    figures::register(module)?;
    policy::register(module)?;
    integer::register(module)?;
    rewards::register(module)?;
    worlds::register(module)?;
    trials::register(module)
}
