//! Learned schemes as specs, and the registries that they name parts of.

use ccarena_cc::Spec;
use ccarena_cc::backends::Backend;
use ccarena_cc::learned::actuators::{ACTUATORS, Takes};
use ccarena_cc::learned::bases::{BASES, EVERYWHERE, Lever};
use ccarena_cc::learned::clocks::CLOCKS;
use ccarena_cc::learned::derived::FORMS;
use ccarena_cc::learned::{Interface, ParamSpec, shipped, signals};
use ccarena_cc::param::Param;
use ccarena_net::catalogue::params;
use ccarena_sim::PRIVILEGED;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Map, Value, json};

use crate::errors;
use crate::simulate::to_python;

/// Returns the observation, report and actions of a learned scheme.
pub fn interface(interface: &Interface) -> Value {
    let entries: Vec<Value> = interface
        .observation
        .iter()
        .map(|e| {
            json!({
                "name": e.name, "signal": e.group, "length": e.length, "low": e.low, "high": e.high,
                "offset": e.offset, "scale": e.scale, "clip": [e.clip.0, e.clip.1], "unit": e.unit, "doc": e.doc,
            })
        })
        .collect();
    let param = |p: &ParamSpec| {
        json!({
            "name": p.name, "default": p.default, "min": p.min, "max": p.max, "doc": p.doc, "runtime": p.runtime,
        })
    };
    let input =
        |p: &ParamSpec| (p.name.clone(), json!({"default": p.default, "min": p.min, "max": p.max, "doc": p.doc}));
    json!({
        "name": interface.name,
        "digest": interface.digest,
        "observation": entries,
        "observation_len": interface.observation_len,
        "actions": interface.actions,
        "action_names": interface.action_names,
        "bounds": interface.continuous(),
        "report": interface.report,
        "privileged": PRIVILEGED,
        "params": interface.params.iter().filter(|p| !p.input).map(param).collect::<Vec<_>>(),
        "inputs": interface.params.iter().filter(|p| p.input).map(input).collect::<Map<_, _>>(),
    })
}

/// learned(spec_json) -> dict: a spec checked, with its digest, canonical form and interface.
///
/// Raises ScenarioError.
#[pyfunction]
fn learned<'py>(py: Python<'py>, spec_json: &str) -> PyResult<Bound<'py, PyAny>> {
    let spec = Spec::parse(spec_json).map_err(errors::scenario)?;
    let mut entry = interface(spec.interface());
    entry["canonical"] = json!(spec.canonical());
    entry["spec"] = spec.to_json();
    entry["summary"] = json!(spec.summary);
    entry["source"] = json!(spec.source);
    entry["departures"] = json!(spec.departures);
    to_python(py, &entry)
}

/// shipped_specs() -> dict: the specs of the shipped learned schemes as JSON, by name.
#[pyfunction]
fn shipped_specs(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let specs = PyDict::new(py);
    for spec in shipped::specs() {
        specs.set_item(&spec.interface().name, spec.to_json().to_string())?;
    }
    Ok(specs)
}

fn entry(name: &str, doc: &str, source: &str, options: &[Param]) -> Value {
    json!({"name": name, "doc": doc, "source": source, "options": params(options)})
}

/// A clock, an actuator or a base, which a program in the `kernel` may know.
fn piece(name: &str, doc: &str, source: &str, options: &[Param], kernel: bool) -> Value {
    let mut value = entry(name, doc, source, options);
    value["kernel"] = json!(kernel);
    value
}

/// signals() -> list of dicts: what a spec can observe and report.
#[pyfunction(name = "signals")]
fn all_signals(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    signals::all()
        .map(|s| {
            let mut value = entry(s.name, s.doc, s.source, s.options);
            value["backends"] = json!(s.backends().map(Backend::name).collect::<Vec<_>>());
            value["unit"] = json!(s.unit);
            value["each"] = json!(s.each.is_some());
            value["channels"] = json!(s.channels);
            (value["low"], value["high"]) = (json!(s.low), json!(s.high));
            (value["offset"], value["scale"], value["clip"]) =
                (json!(s.offset), json!(s.scale), json!([s.clip.0, s.clip.1]));
            to_python(py, &value)
        })
        .collect()
}

/// derived_signals() -> list of dicts: what a spec can make of signals.
#[pyfunction]
fn derived_signals(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    FORMS.iter().map(|f| to_python(py, &json!({"name": f.name, "written": f.written, "doc": f.doc}))).collect()
}

/// clocks() -> list of dicts: when a spec can decide.
#[pyfunction]
fn clocks(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    CLOCKS.iter().map(|c| to_python(py, &piece(c.name, c.doc, c.source, c.options, c.kernel))).collect()
}

/// actuators() -> list of dicts: what the actions of a spec can move.
#[pyfunction]
fn actuators(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    ACTUATORS
        .iter()
        .map(|a| {
            let mut value = piece(a.name, a.doc, a.source, a.options, a.kernel);
            value["takes"] = json!(takes(a.takes));
            value["unit"] = json!(a.unit);
            value["moves"] = json!(moves(a.lever));
            value["bounds"] = json!((a.takes == Takes::Numbers).then_some([a.bounds.0, a.bounds.1]));
            value["range"] = json!((a.takes == Takes::Numbers).then_some([a.range.0, a.range.1]));
            to_python(py, &value)
        })
        .collect()
}

/// bases() -> list of dicts: over what a spec can decide.
#[pyfunction]
fn bases(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    BASES
        .iter()
        .map(|b| {
            let mut value = piece(b.name, b.doc, b.source, b.options, b.kernel);
            value["moves"] = json!(b.levers.iter().chain(EVERYWHERE).copied().map(moves).collect::<Vec<_>>());
            to_python(py, &value)
        })
        .collect()
}

fn takes(takes: Takes) -> &'static str {
    match takes {
        Takes::Numbers => "numbers",
        Takes::Operations => "operations",
        Takes::Schemes => "schemes",
    }
}

fn moves(lever: Lever) -> &'static str {
    match lever {
        Lever::Window => "window",
        Lever::Rate => "rate",
        Lever::Alpha => "alpha",
        Lever::Pacing => "pacing",
        Lever::Cap => "cap",
        Lever::Choice => "choice",
    }
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(learned, module)?)?;
    module.add_function(wrap_pyfunction!(shipped_specs, module)?)?;
    module.add_function(wrap_pyfunction!(all_signals, module)?)?;
    module.add_function(wrap_pyfunction!(derived_signals, module)?)?;
    module.add_function(wrap_pyfunction!(clocks, module)?)?;
    module.add_function(wrap_pyfunction!(actuators, module)?)?;
    module.add_function(wrap_pyfunction!(bases, module)?)
}
