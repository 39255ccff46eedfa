//! JSON from outside.

use ccarena_cc::Rules;
use ccarena_cc::reader::{self, Problem};
use pyo3::prelude::*;

use crate::errors;

/// check_json(text, origin): raises ConfigError with `origin`, line and column if the text is not JSON, or an object in it has a
/// key twice.
#[pyfunction]
fn check_json(text: &str, origin: &str) -> PyResult<()> {
    reader::parse(text).map(drop).map_err(|e| match e.problem {
        Problem::Syntax(why) => errors::config(format_args!("{origin}: not JSON: {why}")),
        _ => errors::config(format_args!("{origin}: {e}")),
    })
}

/// check_rules(text, origin) -> int: how many rules there are in a rule file for scheme `remy`. Raises PolicyError with
/// `origin` and the field at fault, or a memory that no rule covers.
#[pyfunction]
fn check_rules(text: &str, origin: &str) -> PyResult<usize> {
    Rules::parse(text).map(|rules| rules.len()).map_err(|e| errors::policy(format_args!("{origin}: {e}")))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(check_json, module)?)?;
    module.add_function(wrap_pyfunction!(check_rules, module)?)
}
