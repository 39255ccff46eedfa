//! One scenario in, one record out.

use std::path::Path;
use std::sync::Arc;

use ccarena_cc::{Dur, Time, policy, registry};
use ccarena_net::link::PacketLog;
use ccarena_net::queues::LimitRule;
use ccarena_net::series::LinkBin;
use ccarena_net::{Scenario, Trace, TraceError, queues, trace};
use ccarena_sim::{PolicyFn, Resources, Sim};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::{Value, json};

use crate::errors;

/// Traces and policies from files.
struct Files;

impl Resources for Files {
    fn trace(&mut self, file: &Path) -> Result<Trace, TraceError> {
        trace::load(file)
    }

    fn policy(&mut self, file: &str, observation: &str) -> Result<PolicyFn, String> {
        policy::decider(Arc::new(policy::load(Path::new(file))?), file, observation)
    }
}

/// simulate(scenario_json) -> dict: runs a scenario in virtual time; the GIL is released meanwhile.
///
/// Raises ScenarioError, TraceError or PolicyError. The result's layout is in docs/results.md.
#[pyfunction]
fn simulate<'py>(py: Python<'py>, scenario_json: &str) -> PyResult<Bound<'py, PyDict>> {
    let scenario = Scenario::parse(scenario_json).map_err(errors::scenario)?;
    let mut sim = py.detach(|| Sim::new(&scenario, &mut Files, false)).map_err(|e| errors::sim(&e))?;
    let end = Time(scenario.duration.0);
    let mut at = Time::ZERO;
    while at < end {
        // In slices, so that an interrupt is heard.
        at = end.min(at + Dur::from_millis(10_000));
        py.detach(|| sim.run_until(at));
        py.check_signals()?;
    }
    result(py, &scenario, &mut sim)
}

fn result<'py>(py: Python<'py>, scenario: &Scenario, sim: &mut Sim) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("duration_s", scenario.duration.as_secs_f64())?;
    out.set_item("seed", scenario.seed)?;
    let flows = PyList::empty(py);
    for index in 0..scenario.flows.len() {
        flows.append(flow(py, scenario, sim, index)?)?;
    }
    out.set_item("flows", flows)?;
    let links = PyList::empty(py);
    for index in 0..scenario.links.len() {
        links.append(link(py, scenario, sim, index)?)?;
    }
    out.set_item("links", links)?;
    Ok(out)
}

fn flow<'py>(py: Python<'py>, scenario: &Scenario, sim: &mut Sim, index: usize) -> PyResult<Bound<'py, PyDict>> {
    let spec = &scenario.flows[index];
    let out = PyDict::new(py);
    let width = sim.spec(index).map(|s| s.report.len());
    let Some(flow) = sim.flow_mut(index) else { return Ok(out) };
    let stats = flow.sender.stats;
    let min = flow.sender.min_rtt();
    let ms = |d: Dur| d.as_millis_f64();
    let seen = stats.rtt_count > 0;
    out.set_item("name", &spec.name)?;
    out.set_item("scheme", &spec.scheme)?;
    out.set_item("start_s", spec.start.as_secs_f64())?;
    out.set_item("stop_s", spec.stop.map_or(scenario.duration.as_secs_f64(), Time::as_secs_f64))?;
    out.set_item("sent_packets", stats.sent)?;
    out.set_item("retransmitted_packets", stats.retransmitted)?;
    out.set_item("lost_packets", stats.lost)?;
    out.set_item("timeouts", stats.timeouts)?;
    out.set_item("ecn_reductions", stats.ecn_reductions)?;
    out.set_item("delivered_bytes", flow.receiver.goodput_bytes)?;
    out.set_item("wire_bytes", flow.wire_bytes)?;
    out.set_item("duplicate_packets", flow.receiver.duplicates)?;
    out.set_item("rtt_min_ms", seen.then(|| ms(min)))?;
    out.set_item("rtt_mean_ms", seen.then(|| ms(stats.rtt_sum) / stats.rtt_count as f64))?;
    let completion: Vec<f64> = flow.sender.app.completion.iter().map(|d| d.as_secs_f64()).collect();
    out.set_item("completion_s", completion)?;
    out.set_item("decisions", flow.decisions)?;
    if let Some(series) = &flow.series {
        let entry = PyDict::new(py);
        entry.set_item("wire_bytes", PyArray1::from_iter(py, series.bins.iter().map(|b| b.wire_bytes)))?;
        entry.set_item("payload_bytes", PyArray1::from_iter(py, series.bins.iter().map(|b| b.payload_bytes)))?;
        out.set_item("series", entry)?;
    }
    if let (Some(rows), Some(width)) = (flow.reports.take(), width) {
        let count = rows.len() / width;
        out.set_item("reports", PyArray1::from_vec(py, rows).reshape([count, width])?)?;
    }
    Ok(out)
}

fn link<'py>(py: Python<'py>, scenario: &Scenario, sim: &mut Sim, index: usize) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let log = sim.take_log(index);
    let link = &sim.links()[index];
    let stats = link.stats;
    let end = Time(scenario.duration.0);
    out.set_item("name", &scenario.links[index].name)?;
    out.set_item("capacity_bytes", link.capacity_bytes(Time::ZERO, end))?;
    out.set_item("arrived_packets", stats.arrived_packets)?;
    out.set_item("delivered_bytes", stats.delivered_bytes)?;
    out.set_item("delivered_packets", stats.delivered_packets)?;
    out.set_item("dropped_packets", stats.dropped_packets)?;
    out.set_item("lost_packets", stats.lost_packets)?;
    let bin = scenario.record.bin;
    let bins = scenario.duration.0.div_ceil(bin.0.max(1));
    let capacity: Vec<f64> = (0..bins)
        .map(|k| {
            let (from, to) = (Time(k * bin.0), Time((k + 1) * bin.0));
            link.capacity_bytes(from, to) as f64 * 8.0 / bin.as_secs_f64() / 1e6
        })
        .collect();
    out.set_item("capacity_mbps", PyArray1::from_vec(py, capacity))?;
    if let Some(series) = &link.series {
        let bins = &series.bins;
        let mean = |b: &LinkBin| if b.packets > 0 { b.queueing.as_millis_f64() / b.packets as f64 } else { f64::NAN };
        let entry = PyDict::new(py);
        entry.set_item("delivered_bytes", PyArray1::from_iter(py, bins.iter().map(|b| b.delivered_bytes)))?;
        entry.set_item("queueing_ms", PyArray1::from_iter(py, bins.iter().map(mean)))?;
        entry.set_item("dropped_packets", PyArray1::from_iter(py, bins.iter().map(|b| b.dropped_packets)))?;
        out.set_item("series", entry)?;
    }
    if let Some(log) = log {
        let (delivered, drops) = packet_log(py, &log)?;
        out.set_item("log", delivered)?;
        out.set_item("drops", drops)?;
    }
    Ok(out)
}

/// The packet log as arrays.
fn packet_log<'py>(py: Python<'py>, log: &PacketLog) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let rows = &log.delivered;
    let delivered = PyDict::new(py);
    delivered.set_item("arrival_ns", PyArray1::from_iter(py, rows.iter().map(|r| r.arrival.0)))?;
    delivered.set_item("departure_ns", PyArray1::from_iter(py, rows.iter().map(|r| r.departure.0)))?;
    delivered.set_item("serialisation_ns", PyArray1::from_iter(py, rows.iter().map(|r| r.serialisation.0 as u32)))?;
    delivered.set_item("flow", PyArray1::from_iter(py, rows.iter().map(|r| r.flow)))?;
    delivered.set_item("bytes", PyArray1::from_iter(py, rows.iter().map(|r| r.bytes)))?;
    let drops = PyDict::new(py);
    drops.set_item("time_ns", PyArray1::from_iter(py, log.dropped.iter().map(|d| d.0.0)))?;
    drops.set_item("flow", PyArray1::from_iter(py, log.dropped.iter().map(|d| d.1)))?;
    Ok((delivered, drops))
}

/// validate_scenario(scenario_json) -> str: the normalised document, every default filled in. Raises ScenarioError.
#[pyfunction]
fn validate_scenario(scenario_json: &str) -> PyResult<String> {
    Scenario::parse(scenario_json).map(|s| s.to_json().to_string()).map_err(errors::scenario)
}

fn params(params: &[registry::Param]) -> Value {
    params
        .iter()
        .map(|p| json!({"name": p.name, "default": p.default, "min": p.min, "max": p.max, "doc": p.doc}))
        .collect()
}

/// schemes() -> list of dicts: every congestion control with its parameters and, if learned, its interface.
#[pyfunction]
fn schemes(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    registry::schemes()
        .iter()
        .map(|s| {
            let mut entry = json!({
                "name": s.name, "summary": s.summary, "learned": s.learned, "weight_above": s.weight_above,
                "requirement": s.requirement,
                "params": params(s.params),
            });
            if let Some(spec) = registry::build(s.name, &registry::Config::default())
                .map_err(errors::scenario)?
                .learned()
                .map(|l| l.spec())
            {
                entry["observation"] = json!(spec.id);
                entry["observation_len"] = json!(spec.observation_len);
                entry["observation_entries"] = json!(spec.observation);
                entry["observation_bounds"] = json!(spec.observation_bounds);
                entry["actions"] = json!(spec.actions);
                entry["bounds"] = json!([spec.bounds.0, spec.bounds.1]);
                entry["report"] = json!(spec.report);
            }
            to_python(py, &entry)
        })
        .collect()
}

/// queue_disciplines() -> list of dicts: every queue discipline with its parameters.
#[pyfunction]
fn queue_disciplines(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyAny>>> {
    queues::all()
        .map(|d| {
            let limit = match d.limit {
                LimitRule::Unlimited => Value::Null,
                LimitRule::Required => json!("required"),
                LimitRule::Default(limit) => {
                    let (param, amount) = limit.param();
                    json!({param.name: amount})
                }
            };
            to_python(
                py,
                &json!({
                    "name": d.name, "summary": d.summary, "limit": limit, "params": params(d.params),
                    "mahimahi": d.mahimahi,
                }),
            )
        })
        .collect()
}

/// A JSON value as Python objects.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (value.to_string(),))
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(simulate, module)?)?;
    module.add_function(wrap_pyfunction!(validate_scenario, module)?)?;
    module.add_function(wrap_pyfunction!(schemes, module)?)?;
    module.add_function(wrap_pyfunction!(queue_disciplines, module)?)
}
