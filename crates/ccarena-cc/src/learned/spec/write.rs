//! Writes specs.

use serde_json::{Map, Value, json};

use super::acting::ActuatorSpec;
use super::over::BaseSpec;
use super::{Chosen, Item, Source, Spec};
use crate::learned::VERSION;
use crate::learned::derived::Raw;
use crate::learned::interface::ParamSpec;
use crate::learned::number::Number;
use crate::learned::signals::Range;
use crate::param::Param;
use crate::scheme::Scheme;

/// Returns the canonical form of a spec, without texts for readers.
pub(super) fn canonical(d: &Spec) -> Value {
    let interface = d.interface();
    let params = &interface.params;
    let mut acts: Vec<Value> = d.actuators.iter().map(|a| act(a, params)).collect();
    let several = acts.len() > 1;
    let mut spec = json!({
        "learned": VERSION,
        "name": interface.name,
        "clock": chosen(d.clock.entry.name, d.clock.entry.options, &d.clock.options, params),
        "observe": {
            "history": d.history,
            "signals": d.observe.iter().map(|i| item(i, d, true)).collect::<Vec<_>>(),
        },
        "act": if several { Value::from(acts) } else { acts.pop().unwrap_or_default() },
        "base": base(&d.base, params),
        "report": d.report.iter().map(|i| item(i, d, false)).collect::<Vec<_>>(),
    });
    // Later than version 1 of the format, like the options below.
    if let Some(start) = d.start {
        spec["start"] = start.to_json();
    }
    if d.l4s {
        spec["l4s"] = json!(true);
    }
    for (field, input) in [("params", false), ("inputs", true)] {
        let fields: Map<String, Value> =
            params.iter().filter(|p| p.input == input).map(|p| (p.name.clone(), param(p))).collect();
        spec[field] = Value::Object(fields);
    }
    spec
}

/// The whole spec.
pub(super) fn spec(d: &Spec) -> Value {
    let mut spec = canonical(d);
    for p in d.interface().params.iter().filter(|p| !p.doc.is_empty()) {
        spec[if p.input { "inputs" } else { "params" }][&p.name]["doc"] = json!(p.doc);
    }
    for (field, text) in [("summary", &d.summary), ("source", &d.source)] {
        if !text.is_empty() {
            spec[field] = json!(text);
        }
    }
    if !d.departures.is_empty() {
        spec["departures"] = json!(d.departures);
    }
    spec
}

fn act(actuator: &ActuatorSpec, params: &[ParamSpec]) -> Value {
    let mut act = chosen(actuator.entry.name, actuator.entry.options, &actuator.options, params);
    if let Some((field, value)) = actuator.actions.field() {
        act[field] = value;
    }
    act
}

fn base(base: &BaseSpec, params: &[ParamSpec]) -> Value {
    let scheme = |Chosen { entry, options }: &Chosen<Scheme>| {
        let mut fields: Map<String, Value> =
            entry.params.iter().zip(options).map(|(p, n)| (p.name.to_string(), n.to_json(params))).collect();
        fields.insert("scheme".into(), json!(entry.name));
        Value::Object(fields)
    };
    match base {
        BaseSpec::Kind(Chosen { entry, options }) => chosen(entry.name, entry.options, options, params),
        BaseSpec::Schemes(list) => match &list[..] {
            [one] => scheme(one),
            several => json!({"schemes": several.iter().map(scheme).collect::<Vec<_>>()}),
        },
    }
}

fn param(p: &ParamSpec) -> Value {
    let mut value = json!({"default": p.default, "min": p.min, "max": p.max});
    if !p.input {
        value["runtime"] = json!(p.runtime);
    }
    value
}

/// Options that came later than version 1 of the format, by the kind of their piece: a spec that leaves them at their
/// defaults keeps its digest, and with it the policies that were trained for it.
const LATER: &[(&str, &str)] = &[("acct", "silent_at"), ("cubic", "new_epoch")];

fn chosen(kind: &str, options: &[Param], values: &[Number], params: &[ParamSpec]) -> Value {
    let is_written = |o: &Param, value: &Value| !LATER.contains(&(kind, o.name)) || *value != json!(o.default);
    let mut fields: Map<String, Value> = options
        .iter()
        .zip(values)
        .map(|(o, n)| (o, n.to_json(params)))
        .filter(|(o, value)| is_written(o, value))
        .map(|(o, value)| (o.name.to_string(), value))
        .collect();
    fields.insert("kind".into(), json!(kind));
    Value::Object(fields)
}

fn item(i: &Item, d: &Spec, observed: bool) -> Value {
    let mut value = match &i.source {
        Source::Signal(raw) => signal(raw, d),
        Source::Derived(expr) => expr.to_json(&|raw| signal(raw, d)),
    };
    value["as"] = json!(i.name);
    if observed {
        value["history"] = json!(i.history);
        value["offset"] = json!(i.offset);
        value["scale"] = json!(i.scale);
        value["clip"] = json!([i.clip.0, i.clip.1]);
    }
    value
}

/// A signal of the registry with its options.
fn signal(raw: &Raw, d: &Spec) -> Value {
    let params = &d.interface().params;
    let options = raw.signal.options.iter().zip(&raw.options);
    let mut fields: Map<String, Value> = options.map(|(o, n)| (o.name.to_string(), n.to_json(params))).collect();
    fields.insert("signal".into(), json!(raw.signal.name));
    if let (Range::Named, Some(index)) = (raw.signal.range, raw.named) {
        fields.insert("name".into(), json!(params[index].name));
    }
    if let (Some(index), true) = (raw.actuator, d.actuators.len() > 1) {
        fields.insert("action".into(), json!(d.actuators.get(index).map(|a| a.entry.name)));
    }
    Value::Object(fields)
}
