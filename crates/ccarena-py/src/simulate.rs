//! One scenario in, one result out.

use std::path::Path;
use std::sync::{Arc, PoisonError};

use ccarena_cc::learned::shipped;
use ccarena_cc::{Dur, Policies, Time, steady_state};
use ccarena_net::result::{Array, FlowResult, LinkResult, RunResult};
use ccarena_net::scenario::{Flow, Own};
use ccarena_net::{Demand, Scenario, catalogue};
use ccarena_sim::{Files, Sim, oracle};
use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray1};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::{errors, own};

/// Time that a run with a user's controller goes on before an interrupt or an exception is heard.
const SLICE: Dur = Dur::from_millis(100);

/// simulate(scenario_json, make=None, stopped=None) -> dict: runs a scenario in virtual time; the GIL is released meanwhile,
/// unless a flow's controller is a Python class, of which `make(flow, class, facts)` returns an instance.
///
/// Raises ScenarioError, TraceError or PolicyError, and ControllerError if a user's controller raises. Raises
/// KeyboardInterrupt after Ctrl-C in the main thread; in others as soon as `stopped()` is true. The result's layout is
/// in docs/results.md.
#[pyfunction]
#[pyo3(signature = (scenario_json, make=None, stopped=None))]
fn simulate<'py>(
    py: Python<'py>,
    scenario_json: &str,
    make: Option<Py<PyAny>>,
    stopped: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let scenario = Scenario::parse(scenario_json).map_err(errors::document)?;
    let is_python = |flow: &Flow| matches!(flow.own, Some(Own::Python { .. }));
    if let (Some(make), true) = (make, scenario.flows.iter().any(is_python)) {
        return with_own(py, &scenario, make, stopped.as_ref());
    }
    let mut sim = py.detach(|| Sim::new(&scenario, &Files::default(), false)).map_err(|e| errors::sim(&e))?;
    to_the_end(py, &mut sim, &scenario, stopped.as_ref())?;
    let record = py.detach(|| sim.take_result(&scenario));
    dict(py, record)
}

/// result_digest(scenario_json) -> str: the SHA-256 of the result of a run in virtual time, of its figures and of the arrays
/// that the scenario records: the one that a web page shows for the same scenario.
///
/// Raises ScenarioError, TraceError or PolicyError; KeyboardInterrupt after Ctrl-C.
#[pyfunction]
fn result_digest(py: Python<'_>, scenario_json: &str) -> PyResult<String> {
    let scenario = Scenario::parse(scenario_json).map_err(errors::document)?;
    let mut sim = py.detach(|| Sim::new(&scenario, &Files::default(), false)).map_err(|e| errors::sim(&e))?;
    to_the_end(py, &mut sim, &scenario, None)?;
    Ok(py.detach(|| sim.take_result(&scenario).sealed(&scenario.record).digest))
}

/// Runs a simulation to the end of its scenario, in slices, so that an interrupt is heard.
fn to_the_end(py: Python<'_>, sim: &mut Sim, scenario: &Scenario, stopped: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    let end = Time(scenario.duration.0);
    let mut at = Time::ZERO;
    while at < end {
        at = end.min(at + SLICE * 10);
        py.detach(|| sim.run_until(at));
        check_interrupt(py, stopped)?;
    }
    Ok(())
}

/// Runs a scenario with Python controllers, which need the interpreter all the time.
fn with_own<'py>(
    py: Python<'py>,
    scenario: &Scenario,
    make: Py<PyAny>,
    stopped: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let failures = own::Failures::default();
    let first = || failures.lock().unwrap_or_else(PoisonError::into_inner).take();
    let mut files = Files::default();
    files.python = Some(own::builder(make, Arc::clone(&failures)));
    let mut sim = Sim::new(scenario, &files, false).map_err(|e| match first() {
        Some(failure) => errors::controller(py, scenario, failure),
        None => errors::sim(&e),
    })?;
    let end = Time(scenario.duration.0);
    let mut at = Time::ZERO;
    while at < end {
        at = end.min(at + SLICE);
        sim.run_until(at);
        check_interrupt(py, stopped)?;
        if let Some(failure) = first() {
            return Err(errors::controller(py, scenario, failure));
        }
    }
    dict(py, sim.take_result(scenario))
}

/// Raises KeyboardInterrupt if the run shall end.
fn check_interrupt(py: Python<'_>, stopped: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
    py.check_signals()?;
    match stopped {
        Some(stopped) if stopped.call0()?.is_truthy()? => Err(PyKeyboardInterrupt::new_err(())),
        _ => Ok(()),
    }
}

/// The result as nested dictionaries.
fn dict<'py>(py: Python<'py>, mut record: RunResult) -> PyResult<Bound<'py, PyDict>> {
    let flows: Vec<_> = record.flows.iter_mut().map(FlowResult::take_arrays).collect();
    let links: Vec<_> = record.links.iter_mut().map(LinkResult::take_arrays).collect();
    let text = serde_json::to_string(&record).map_err(|e| PyValueError::new_err(e.to_string()))?;
    let out = py.import("json")?.call_method1("loads", (text,))?.cast_into::<PyDict>()?;
    for (key, arrays) in [("flows", flows), ("links", links)] {
        let entries = out.as_any().get_item(key)?;
        for (index, arrays) in arrays.into_iter().enumerate() {
            let entry = entries.get_item(index)?.cast_into::<PyDict>()?;
            for (place, values) in arrays {
                put(&entry, place, &array(py, values)?)?;
            }
        }
    }
    Ok(out)
}

/// Puts `value` into `entry` at `place`, the names of keys from the outermost in.
fn put(entry: &Bound<'_, PyDict>, place: &[&str], value: &Bound<'_, PyAny>) -> PyResult<()> {
    match place {
        [] => Ok(()),
        [key] => entry.set_item(key, value),
        [key, rest @ ..] => {
            if !entry.contains(key)? {
                entry.set_item(key, PyDict::new(entry.py()))?;
            }
            put(&entry.as_any().get_item(key)?.cast_into::<PyDict>()?, rest, value)
        }
    }
}

fn array(py: Python<'_>, values: Array) -> PyResult<Bound<'_, PyAny>> {
    Ok(match values {
        Array::U64(values) => PyArray1::from_vec(py, values).into_any(),
        Array::U8(values) => PyArray1::from_vec(py, values).into_any(),
        Array::U32(values) => PyArray1::from_vec(py, values).into_any(),
        Array::F64(values) => PyArray1::from_vec(py, values).into_any(),
        Array::Rows(rows) => {
            let shape = rows.shape();
            PyArray1::from_vec(py, rows.values).reshape(shape)?.into_any()
        }
    })
}

/// validate_scenario(scenario_json) -> str: the normalised document, every default filled in. Raises ScenarioError.
#[pyfunction]
fn validate_scenario(scenario_json: &str) -> PyResult<String> {
    Scenario::parse(scenario_json).map(|s| s.to_json().to_string()).map_err(errors::document)
}

/// estimate(scenario_json) -> dict: what a run would ask for, `memory_bytes` and `packets` (counted at every link; traces
/// do not count, whose rate their file says). Raises ScenarioError.
#[pyfunction]
fn estimate<'py>(py: Python<'py>, scenario_json: &str) -> PyResult<Bound<'py, PyAny>> {
    let scenario = Scenario::parse(scenario_json).map_err(errors::document)?;
    let demand = Demand::of(&scenario);
    to_python(py, &json!({"memory_bytes": demand.memory_bytes(), "packets": demand.packets()}))
}

/// schemes() -> list of dicts: every congestion control with its parameters and, if learned, its interface.
#[pyfunction]
fn schemes(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    catalogue::schemes()
        .map(|mut entry| {
            if let Some(spec) = entry["name"].as_str().and_then(shipped::find) {
                let interface = spec.interface();
                entry["observation_len"] = json!(interface.observation_len);
                entry["observation_entries"] = json!(interface.labels());
                entry["actions"] = json!(interface.actions);
                entry["bounds"] = json!(interface.bounds);
                entry["report"] = json!(interface.report);
                entry["digest"] = json!(interface.digest);
                entry["source"] = json!(spec.source);
                entry["departures"] = json!(spec.departures);
            }
            to_python(py, &entry)
        })
        .collect()
}

/// queue_disciplines() -> list of dicts: every queue discipline with its parameters.
#[pyfunction]
fn queue_disciplines(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    catalogue::queue_disciplines().map(|entry| to_python(py, &entry)).collect()
}

/// routers() -> list of dicts: every kind of router that a link's `router` can be, with its parameters.
#[pyfunction]
#[pyo3(name = "routers")]
fn list_routers<'py>(py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    catalogue::routers().map(|entry| to_python(py, &entry)).collect()
}

/// accesses() -> list of dicts: every kind of access to a medium that a link's `service` can have, with its parameters.
#[pyfunction]
fn accesses(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    catalogue::accesses().map(|entry| to_python(py, &entry)).collect()
}

/// A JSON value as Python objects.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

/// drive(scenario_json, acks): drives the controller of the first flow with made-up acknowledgements, so that the caller
/// can see what they cost. Nobody decides for a learned scheme.
///
/// Raises ScenarioError.
#[pyfunction]
fn drive(py: Python<'_>, scenario_json: &str, acks: u64) -> PyResult<()> {
    let scenario = Scenario::parse(scenario_json).map_err(errors::document)?;
    let flow = scenario.flows.first().ok_or_else(|| errors::scenario("no flow"))?;
    let config = scenario.controller(0, flow.mss_bytes);
    let mut controller = match &flow.own {
        None => Policies::default()
            .build(&flow.scheme, flow.spec.as_deref(), &config, None, true)
            .map(|(controller, _)| controller)
            .map_err(errors::scenario)?,
        Some(Own::Wasm { module }) => ccarena_wasm::controller(Path::new(module), &config).map_err(errors::scenario)?,
        Some(Own::Python { .. }) => return Err(errors::scenario("a Python class runs in a simulation only")),
    };
    py.detach(|| steady_state::drive(controller.as_mut(), acks));
    Ok(())
}

/// `one_rtt_late(served_most: float64[n], known: float64[n], late, gain, limit_bytes, packet_bytes, carries=False,
/// infers=0) -> (sent, served, lost, queue)`, each `float64[n + 1]`: bytes so far of a sender that learns of capacity
/// `late` slots later; by its own packets alone, over `infers` slots, if `infers` is above 0.
#[pyfunction]
#[pyo3(signature = (served_most, known, late, gain, limit_bytes, packet_bytes, carries=false, infers=0))]
#[expect(clippy::too_many_arguments, reason = "those of the sender, one by one")]
#[expect(clippy::type_complexity, reason = "four arrays")]
fn one_rtt_late<'py>(
    py: Python<'py>,
    served_most: PyReadonlyArray1<'py, f64>,
    known: PyReadonlyArray1<'py, f64>,
    late: usize,
    gain: f64,
    limit_bytes: f64,
    packet_bytes: f64,
    carries: bool,
    infers: usize,
) -> PyResult<(
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
    Bound<'py, PyArray1<f64>>,
)> {
    let (served_most, known) = (served_most.as_slice()?, known.as_slice()?);
    let sender = oracle::Sender { late, gain, packet: packet_bytes, carries, infers };
    let run = py.detach(|| oracle::one_rtt_late(served_most, known, sender, limit_bytes));
    let [sent, served, lost, queue] = [run.sent, run.served, run.lost, run.queue].map(|x| PyArray1::from_vec(py, x));
    Ok((sent, served, lost, queue))
}

/// `oracle_waits(accepted: float64[n + 1], served: float64[n + 1]) -> int64[n]`: slots until the bytes that were accepted by the
/// end of each slot are served; to the end of the run if they never are.
#[pyfunction]
fn oracle_waits<'py>(
    py: Python<'py>,
    accepted: PyReadonlyArray1<'py, f64>,
    served: PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    Ok(PyArray1::from_vec(py, oracle::waits(accepted.as_slice()?, served.as_slice()?)))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(drive, module)?)?;
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(result_digest, module)?)?;
    module.add_class::<own::Ack>()?;
    module.add_class::<own::Loss>()?;
    module.add_class::<own::Sent>()?;
    module.add_function(wrap_pyfunction!(one_rtt_late, module)?)?;
    module.add_function(wrap_pyfunction!(oracle_waits, module)?)?;
    module.add_function(wrap_pyfunction!(validate_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(schemes, module)?)?;
    module.add_function(wrap_pyfunction!(queue_disciplines, module)?)?;
    module.add_function(wrap_pyfunction!(list_routers, module)?)?;
    module.add_function(wrap_pyfunction!(accesses, module)?)?;
    module.add_function(wrap_pyfunction!(estimate, module)?)
}
