//! The field `record.trajectories`: a spec, or an object with the spec, its parameters and the flows.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccarena_cc::learned::{Spec, shipped};
use ccarena_cc::reader::{At, Result, unknown};
use serde_json::{Value, json};

use super::{Flow, Trajectories};

/// Reads the field.
///
/// # Errors
/// The first field at fault; or a flow whose behaviour amounts to no action of the spec.
pub fn read(at: &At<'_>, flows: &[Flow]) -> Result<Trajectories> {
    let whole = at.value.get("spec").is_some();
    let (spec_at, params, named) = if whole {
        let o = at.object(&["spec", "params", "flows"])?;
        (o.require("spec", "a spec")?, o.get("params"), o.get("flows"))
    } else {
        (at.clone(), None, None)
    };
    let spec = Arc::new(spec(&spec_at)?);
    let params = match params {
        Some(at) => values(&at, &spec)?,
        None => BTreeMap::new(),
    };
    let chosen = match named {
        Some(at) => at.list("a list of flows' names")?.iter().map(|at| flow(at, flows)).collect::<Result<_>>()?,
        None => (0..flows.len()).collect(),
    };
    let recorded = Trajectories { spec, params, flows: chosen };
    if let Some(why) = recorded.spec.unwatchable() {
        let other = recorded.flows.iter().filter_map(|&index| flows.get(index)).find(|flow| !recorded.is_own(flow));
        if let Some(other) = other {
            return spec_at.fail_to_watch(&recorded.spec.interface().name, &other.name, &other.scheme, why);
        }
    }
    Ok(recorded)
}

/// The spec at `at`: a shipped one's name, or a document.
fn spec(at: &At<'_>) -> Result<Spec> {
    if at.value.is_object() {
        return Spec::read(at);
    }
    let name = at.text("the name of a learned scheme or a spec")?;
    match shipped::find(name) {
        Some(spec) => Spec::read(&At { value: &spec.to_json(), path: at.path.clone() }),
        None => {
            let names: Vec<&str> = shipped::specs().map(|spec| spec.interface().name.as_str()).collect();
            Err(unknown(at.path.clone(), "learned scheme", name, &names))
        }
    }
}

fn values(at: &At<'_>, spec: &Spec) -> Result<BTreeMap<String, f64>> {
    let known = &spec.interface().params;
    let names: Vec<&str> = known.iter().map(|param| param.name.as_str()).collect();
    let entries = at.entries("an object of numbers by parameter")?;
    let read = |(name, at): (&str, At<'_>)| {
        let Some(param) = known.iter().find(|param| param.name == name) else {
            return Err(unknown(at.path, "parameter", name, &names));
        };
        Ok((name.to_string(), at.number(param.min, param.max)?))
    };
    entries.into_iter().map(read).collect()
}

fn flow(at: &At<'_>, flows: &[Flow]) -> Result<usize> {
    let name = at.text("a flow's name")?;
    let names: Vec<&str> = flows.iter().map(|flow| flow.name.as_str()).collect();
    names.iter().position(|known| *known == name).ok_or_else(|| unknown(at.path.clone(), "flow", name, &names))
}

/// Writes the field.
#[must_use]
pub fn write(recorded: &Trajectories, flows: &[Flow]) -> Value {
    let names = recorded.flows.iter().filter_map(|&index| flows.get(index)).map(|flow| &flow.name);
    json!({
        "spec": recorded.spec.to_json(),
        "params": recorded.params,
        "flows": names.collect::<Vec<_>>(),
    })
}
