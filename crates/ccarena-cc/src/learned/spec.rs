//! The spec of a learned scheme: read, checked once, and built into controllers.

mod measured;
mod write;

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::VERSION;
use super::actuators::{self, ACTUATORS, ActuatorEntry, Op};
use super::bases::{self, BASES, BaseEntry};
use super::clocks::{CLOCKS, ClockEntry};
use super::interface::{Entry, Interface, ParamSpec};
use super::monitor::{Horizon, Parts};
use super::number::Number;
use super::plan::{Column, Plan};
use super::signals::{self, Range, Signal};
use crate::build_error::BuildError;
use crate::controller::Controller;
use crate::param::Param;
use crate::reader::{self, At, DocumentError, Object, Problem, Result, unknown};
use crate::scheme::{Config, check_params, check_requirement};
use crate::types::Dur;

/// No spec names more parameters, signals, columns, levels or operations.
const MOST: usize = 256;
/// Longest history of a signal, and most values of an observation.
const MOST_HISTORY: u32 = 1024;
const MOST_VALUES: usize = 1 << 16;
/// Bounds of numbers that have none of their own.
const ANY: f64 = 1e15;

/// An entry of a registry and what the spec says about it.
pub(super) struct Chosen<E: 'static> {
    pub(super) entry: &'static E,
    /// Values in the order of the entry's options.
    pub(super) options: Vec<Number>,
}

/// A signal as the spec names it.
pub(super) struct Item {
    pub(super) signal: &'static Signal,
    pub(super) name: String,
    pub(super) history: usize,
    pub(super) offset: f64,
    pub(super) scale: f64,
    pub(super) clip: (f64, f64),
    pub(super) options: Vec<Number>,
    /// The parameter or input that it is the value of.
    pub(super) named: Option<usize>,
    pub(super) low: f64,
    pub(super) high: f64,
}

/// A learned scheme.
pub struct Spec {
    interface: Arc<Interface>,
    canonical: String,
    /// One line: what it is.
    pub summary: String,
    /// Source of the design.
    pub source: String,
    /// Departures from the source.
    pub departures: Vec<String>,
    pub(super) clock: Chosen<ClockEntry>,
    pub(super) actuator: Chosen<ActuatorEntry>,
    pub(super) base: Chosen<BaseEntry>,
    /// Bounds, levels or operations of the action.
    pub(super) bounds: (f64, f64),
    pub(super) levels: Vec<f64>,
    pub(super) ops: Vec<String>,
    pub(super) history: usize,
    pub(super) observe: Vec<Item>,
    pub(super) report: Vec<Item>,
}

impl std::fmt::Debug for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Spec {}", self.to_json())
    }
}

impl PartialEq for Spec {
    fn eq(&self, other: &Self) -> bool {
        self.to_json() == other.to_json()
    }
}

impl Spec {
    /// Reads a spec from JSON text.
    ///
    /// # Errors
    /// If the text is not JSON, or the first field at fault.
    pub fn parse(text: &str) -> Result<Self> {
        Self::read(&At { value: &reader::parse(text)?, path: String::new() })
    }

    /// Reads a spec that stands in another one.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn read(at: &At<'_>) -> Result<Self> {
        let o = at.object(FIELDS)?;
        let version = o.require("learned", &format!("{VERSION}, the version of this format"))?;
        if version.whole(0, u64::MAX)? != VERSION {
            return version.fail(format!("{VERSION}, the version that this program reads"));
        }
        let name = o.require("name", "the scheme's name")?;
        let params = params(&o)?;
        let clock = chosen("clock", &o, CLOCKS.iter().map(|c| (c.name, c.options, c)), &[], &params)?;
        let actuator = chosen("act", &o, ACTUATORS.iter().map(|a| (a.name, a.options, a)), ACTION_FIELDS, &params)?;
        let base = chosen("base", &o, BASES.iter().map(|b| (b.name, b.options, b)), &[], &params)?;
        if !base.entry.levers.contains(&actuator.entry.lever) {
            let fitting = BASES.iter().filter(|b| b.levers.contains(&actuator.entry.lever));
            let names = fitting.map(|b| format!("{:?}", b.name)).collect::<Vec<_>>().join(" or ");
            let at = o.require("base", "a base")?;
            return at.fail(format!("a base of which {:?} moves something: {names}", actuator.entry.name));
        }
        let (bounds, levels, ops) = actions(&o, actuator.entry)?;
        let acted = in_force(&actuator, bounds, &params);
        let reader = Reader { params: &params, acted };
        let observe_at = o.require("observe", "an object with a list `signals`")?;
        let observed = observe_at.object(&["history", "signals"])?;
        let history = observed.or("history", 1, |at| at.small(1, MOST_HISTORY))? as usize;
        let observe = reader.items(&observed.require("signals", SIGNALS_EXPECTED)?, Some(history))?;
        let report = match o.get("report") {
            Some(at) => reader.items(&at, None)?,
            None => reader.standard_report()?,
        };
        let mut spec = Self {
            interface: Arc::new(Interface {
                name: identifier(&name, "a name of letters, digits, - and _")?,
                digest: String::new(),
                observation_len: 0,
                observation: Vec::new(),
                actions: action_values(&levels, &ops),
                bounds: (bounds.0 as f32, bounds.1 as f32),
                report: report.iter().flat_map(Item::names).collect(),
                params,
            }),
            canonical: String::new(),
            summary: o.or("summary", String::new(), |at| Ok(at.text("one line")?.into()))?,
            source: o.or("source", String::new(), |at| Ok(at.text("a reference")?.into()))?,
            departures: o.or("departures", Vec::new(), |at| {
                at.list("a list of sentences")?.iter().map(|at| Ok(at.text("a sentence")?.into())).collect()
            })?,
            clock,
            actuator,
            base,
            bounds,
            levels,
            ops,
            history,
            observe,
            report,
        };
        let canonical = write::canonical(&spec).to_string();
        let digest = Sha256::digest(canonical.as_bytes());
        let entries: Vec<Entry> = spec.observe.iter().flat_map(Item::entries).collect();
        let length: usize = entries.iter().map(|e| e.length).sum();
        if length > MOST_VALUES {
            return observe_at.fail(format!("at most {MOST_VALUES} values; these are {length}"));
        }
        let interface = Arc::make_mut(&mut spec.interface);
        interface.digest = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        interface.observation_len = length;
        interface.observation = entries;
        spec.canonical = canonical;
        Ok(spec)
    }

    /// Returns its observation, report and actions.
    #[must_use]
    pub fn interface(&self) -> &Arc<Interface> {
        &self.interface
    }

    /// Returns its canonical form: JSON with sorted keys, defaults filled in, without texts for readers.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// The whole spec, defaults filled in; reading it gives an equal one.
    #[must_use]
    pub fn to_json(&self) -> Value {
        write::spec(self)
    }

    /// Returns whether it observes one of `signals`, such as the flow's weight or its requirement.
    #[must_use]
    pub fn observes(&self, signals: &[&str]) -> bool {
        self.observe.iter().chain(&self.report).any(|item| signals.contains(&item.signal.name))
    }

    /// The signals that it observes, and with `reported` those of its report, with what it calls them.
    pub(super) fn named_signals(&self, reported: bool) -> impl Iterator<Item = (&'static Signal, &str)> {
        let reports = self.report.iter().filter(move |_| reported);
        self.observe.iter().chain(reports).map(|item| (item.signal, item.name.as_str()))
    }

    /// A controller of the scheme, missing parameters at their defaults.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds, or the requirement is no range.
    pub fn controller(&self, config: &Config) -> std::result::Result<Box<dyn Controller>, BuildError> {
        check_requirement(config)?;
        let params = &self.interface.params;
        let bounds = params.iter().map(|p| (p.name.as_str(), p.min, p.max)).collect::<Vec<_>>();
        check_params(&self.interface.name, &bounds, &config.params)?;
        let value = |p: &ParamSpec| config.params.get(&p.name).copied().unwrap_or(p.default);
        let values: Vec<f64> = params.iter().map(value).collect();
        let resolve = |options: &[Number]| options.iter().map(|n| n.resolve(&values)).collect::<Vec<f64>>();
        let actuator = &self.actuator.entry;
        let ops: Vec<Op> = self.ops.iter().filter_map(|op| Op::parse(op)).collect();
        let actuator_parts = actuators::Parts {
            options: &resolve(&self.actuator.options),
            bounds: self.interface.bounds,
            ops: &ops,
            mss: f64::from(config.mss.max(1)),
        };
        let (mut parts, mut horizon) = (Parts::NONE, Horizon::default());
        let mut observe = Vec::with_capacity(self.interface.observation.len());
        let mut at = 0;
        for item in &self.observe {
            item.compile(&resolve(&item.options), &mut observe, &mut at, &mut parts, &mut horizon);
        }
        let mut report = Vec::with_capacity(self.interface.report.len());
        for item in &self.report {
            item.compile(&resolve(&item.options), &mut report, &mut 0, &mut parts, &mut horizon);
        }
        let plan = Plan {
            interface: Arc::clone(&self.interface),
            clock: (self.clock.entry.build)(&resolve(&self.clock.options)),
            actuator: (actuator.build)(&actuator_parts),
            relative: actuator.relative,
            observe,
            report,
            takes_rate: self.base.entry.takes_rate || parts.has(Parts::ADVERTISED),
            parts,
            horizon,
            desired: config.desired_rate,
            mss: f64::from(config.mss.max(1)),
            wire_bytes: f64::from(config.mss + config.header_bytes),
            weight: config.weight,
            requirement: config.requirement,
            params: values.clone(),
        };
        let options = resolve(&self.base.options);
        Ok((self.base.entry.build)(bases::Parts { config, options: &options, lever: actuator.lever, plan }))
    }
}

const FIELDS: &[&str] = &[
    "learned",
    "name",
    "summary",
    "source",
    "departures",
    "params",
    "inputs",
    "clock",
    "observe",
    "act",
    "base",
    "report",
];
const ACTION_FIELDS: &[&str] = &["bounds", "levels", "ops"];
const SIGNALS_EXPECTED: &str = "a list of signals, each a name or {signal, as, history, offset, scale, clip}";

impl Item {
    /// Names of its channels.
    fn names(&self) -> Vec<String> {
        match self.signal.channels {
            [] => vec![self.name.clone()],
            channels => channels.iter().map(|channel| format!("{}_{channel}", self.name)).collect(),
        }
    }

    /// Returns whether it is read when the decider is asked; other series are zero as long as there was no period.
    pub(super) fn is_live(&self) -> bool {
        self.signal.live && self.history == 1
    }

    fn entries(&self) -> Vec<Entry> {
        let (low, high) = if self.is_live() { (self.low, self.high) } else { (self.low.min(0.0), self.high.max(0.0)) };
        let entry = |name| Entry {
            name,
            group: self.name.clone(),
            length: self.history,
            low,
            high,
            offset: self.offset,
            scale: self.scale,
            clip: self.clip,
            unit: self.signal.unit,
            doc: self.signal.doc,
        };
        self.names().into_iter().map(entry).collect()
    }

    fn compile(
        &self,
        options: &[f64],
        columns: &mut Vec<Column>,
        at: &mut usize,
        parts: &mut Parts,
        horizon: &mut Horizon,
    ) {
        *parts = parts.and(self.signal.parts);
        if self.signal.is_windowed() && (options[0] > 0.0 || options[1] > 0.0) {
            *parts = parts.and(Parts::RECENT);
            horizon.reach(Dur::from_secs_f64(options[0] / 1e3), options[1]);
        }
        let mut options: Vec<f64> = options.into();
        options.extend(self.named.map(|index| index as f64));
        for channel in 0..self.signal.channels.len().max(1) {
            columns.push(Column {
                value: self.signal.value,
                options: options.clone().into(),
                channel,
                low: self.low,
                high: self.high,
                at: *at,
                length: self.history,
                live: self.is_live(),
            });
            *at += self.history;
        }
    }
}

/// Text that names something.
fn identifier(at: &At<'_>, expected: &str) -> Result<String> {
    let text = at.text(expected)?;
    let named = text.len() <= 64 && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    if named { Ok(text.into()) } else { at.fail(expected) }
}

/// Parameters, then inputs.
fn params(o: &Object<'_>) -> Result<Vec<ParamSpec>> {
    let mut params: Vec<ParamSpec> = Vec::new();
    for (field, input) in [("params", false), ("inputs", true)] {
        let Some(at) = o.get(field) else { continue };
        for (name, at) in at.entries("an object of {default, min, max, doc} by name")? {
            let known: &[&str] =
                if input { &["default", "min", "max", "doc"] } else { &["default", "min", "max", "doc", "runtime"] };
            let fields = at.object(known)?;
            let number = |field: &str| fields.require(field, "a number")?.number(-ANY, ANY);
            let (min, max) = (number("min")?, number("max")?);
            let default = fields.require("default", "a number")?;
            let value = default.number(-ANY, ANY)?;
            if !(min..=max).contains(&value) {
                return default.fail(format!("a number from {min} to {max}, its min and max"));
            }
            let named =
                !name.is_empty() && name.len() <= 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !named || params.iter().any(|p| p.name == name) || params.len() >= MOST {
                return at.fail(format!(
                    "up to {MOST} parameters and inputs, each with a name of its own of letters, digits and _"
                ));
            }
            params.push(ParamSpec {
                name: name.into(),
                default: value,
                min,
                max,
                doc: fields.or("doc", String::new(), |at| Ok(at.text("what it is")?.into()))?,
                runtime: input || fields.or("runtime", false, At::boolean)?,
                input,
            });
        }
    }
    Ok(params)
}

/// The entry of a registry that `field` names, a string or an object with `kind`, and its options.
fn chosen<E>(
    field: &'static str,
    o: &Object<'_>,
    entries: impl Iterator<Item = (&'static str, &'static [Param], &'static E)>,
    more: &[&'static str],
    params: &[ParamSpec],
) -> Result<Chosen<E>> {
    let entries: Vec<_> = entries.collect();
    let names: Vec<&str> = entries.iter().map(|e| e.0).collect();
    let expected = format!("an object whose `kind` is one of {}", names.join(", "));
    let at = o.require(field, &expected)?;
    let what = if field == "act" { "actuator" } else { field };
    let kind = match at.value {
        Value::String(_) => at.clone(),
        Value::Object(map) => match map.get("kind") {
            Some(value) => At { value, path: format!("{}.kind", at.path) },
            None => {
                let problem = Problem::Missing { expected: format!("one of {}", names.join(", ")) };
                return Err(DocumentError { path: format!("{}.kind", at.path), problem });
            }
        },
        _ => return at.fail(expected),
    };
    let name = kind.choice(what, &names)?;
    let Some(&(_, options, entry)) = entries.iter().find(|e| e.0 == name) else { return at.fail(expected) };
    if at.value.is_string() {
        return Ok(Chosen { entry, options: options.iter().map(|p| Number::Value(p.default)).collect() });
    }
    let known: Vec<&str> = options.iter().map(|p| p.name).chain(more.iter().copied()).chain(["kind"]).collect();
    let fields = at.object(&known)?;
    let read = |p: &Param| fields.or(p.name, Number::Value(p.default), |at| Number::read(at, p, params));
    Ok(Chosen { entry, options: options.iter().map(read).collect::<Result<_>>()? })
}

/// Bounds, levels and operations of the action.
#[expect(clippy::type_complexity, reason = "three small things that belong together")]
fn actions(o: &Object<'_>, actuator: &ActuatorEntry) -> Result<((f64, f64), Vec<f64>, Vec<String>)> {
    let at = o.require("act", "an actuator")?;
    let Value::Object(map) = at.value else {
        return if actuator.takes_ops {
            at.fail("an object with a list `ops`")
        } else {
            Ok((actuator.bounds, vec![], vec![]))
        };
    };
    let get = |name: &str| {
        map.get(name).filter(|v| !v.is_null()).map(|value| At { value, path: format!("{}.{name}", at.path) })
    };
    if actuator.takes_ops {
        if let Some(at) = get("bounds").or_else(|| get("levels")) {
            return at.fail("null: its actions are `ops`");
        }
        let expected = "a list of 2 to 256 operations such as \"/2\", \"-10\", \"+0\", \"+10\", \"*2\"";
        let Some(list) = get("ops") else {
            let problem = Problem::Missing { expected: expected.into() };
            return Err(DocumentError { path: format!("{}.ops", at.path), problem });
        };
        let items = list.list(expected)?;
        if !(2..=MOST).contains(&items.len()) {
            return list.fail(expected);
        }
        let mut ops = Vec::with_capacity(items.len());
        for item in items {
            let text = item.text(expected)?;
            if Op::parse(text).is_none() {
                return item.fail("+N, -N, *N or /N with a number N from 0 to 10^6, not 0 in a quotient");
            }
            ops.push(text.to_string());
        }
        return Ok(((0.0, (ops.len() - 1) as f64), vec![], ops));
    }
    if let Some(at) = get("ops") {
        return at.fail(format!("null: {:?} takes bounds or levels", actuator.name));
    }
    let (low, high) = actuator.range;
    match (get("bounds"), get("levels")) {
        (Some(_), Some(at)) => at.fail("bounds of a continuous action or levels of a discrete one, not both"),
        (None, None) => Ok((actuator.bounds, vec![], vec![])),
        (Some(at), None) => {
            let expected = format!("[low, high] within {low} to {high}, the high one above the low one and above 0");
            match at.list(&expected)?.as_slice() {
                [a, b] => {
                    let bounds = (a.number(low, high)?, b.number(low, high)?);
                    // As they are used, in single precision.
                    if (bounds.0 as f32) < bounds.1 as f32 && bounds.1 as f32 > 0.0 {
                        Ok((bounds, vec![], vec![]))
                    } else {
                        at.fail(expected)
                    }
                }
                _ => at.fail(expected),
            }
        }
        (None, Some(at)) => {
            let expected = format!("a list of 2 to {MOST} numbers from {low} to {high}, increasing");
            let levels: Vec<f64> = at.list(&expected)?.iter().map(|at| at.number(low, high)).collect::<Result<_>>()?;
            let increasing = levels.windows(2).all(|pair| (pair[0] as f32) < pair[1] as f32);
            match (levels.first(), levels.last()) {
                (Some(&first), Some(&last)) if (2..=MOST).contains(&levels.len()) && increasing && last > 0.0 => {
                    Ok(((first, last), levels, vec![]))
                }
                _ => at.fail(expected),
            }
        }
    }
}

fn action_values(levels: &[f64], ops: &[String]) -> Vec<f32> {
    if ops.is_empty() { levels.iter().map(|x| *x as f32).collect() } else { (0..ops.len()).map(|k| k as f32).collect() }
}

/// Bounds of the action in force: an option may scale actions, or say the first one.
fn in_force(actuator: &Chosen<ActuatorEntry>, bounds: (f64, f64), params: &[ParamSpec]) -> (f64, f64) {
    let (mut low, mut high) = bounds;
    let extremes = |n: Number| match n {
        Number::Value(x) => (x, x),
        Number::Param(index) => params.get(index).map_or((0.0, 0.0), |p| (p.min, p.max)),
    };
    for (option, number) in actuator.entry.options.iter().zip(&actuator.options) {
        let (least, most) = extremes(*number);
        match option.name {
            "max" => (low, high) = (low.min(0.0) * most / bounds.1, most),
            "initial" => (low, high) = (low.min(least), high.max(most)),
            _ => {}
        }
    }
    // Before the first action of an actuator that has no other it is 0.
    (low.min(0.0), high.max(0.0))
}

struct Reader<'a> {
    params: &'a [ParamSpec],
    /// Bounds of the action in force.
    acted: (f64, f64),
}

impl Reader<'_> {
    /// Signals of an observation, with this history if they give no other, or columns of a report.
    fn items(&self, at: &At<'_>, history: Option<usize>) -> Result<Vec<Item>> {
        let list = at.list(SIGNALS_EXPECTED)?;
        if list.is_empty() || list.len() > MOST {
            return at.fail(format!("1 to {MOST} signals"));
        }
        let mut names = HashSet::new();
        let mut items = Vec::with_capacity(list.len());
        for at in &list {
            let item = self.item(at, history)?;
            for name in item.names() {
                if !names.insert(name.clone()) {
                    return at.fail(format!("another name than {name:?}, which is taken: give one with `as`"));
                }
            }
            items.push(item);
        }
        Ok(items)
    }

    fn item(&self, at: &At<'_>, history: Option<usize>) -> Result<Item> {
        let known: Vec<&str> = signals::all().map(|s| s.name).collect();
        let name = match at.value {
            Value::Object(map) => match map.get("signal") {
                Some(value) => At { value, path: format!("{}.signal", at.path) },
                None => {
                    let problem = Problem::Missing { expected: "the name of a signal".into() };
                    return Err(DocumentError { path: format!("{}.signal", at.path), problem });
                }
            },
            Value::String(_) => at.clone(),
            _ => return at.fail("the name of a signal, or an object with a field `signal`"),
        };
        let found = name.text("the name of a signal")?;
        let Some(signal) = signals::find(found) else { return Err(unknown(name.path, "signal", found, &known)) };
        let mut fields = vec!["signal", "as"];
        if history.is_some() {
            fields.extend(["history", "offset", "scale", "clip"]);
        }
        fields.extend(signal.options.iter().map(|p| p.name));
        if signal.range == Range::Named {
            fields.push("name");
        }
        let empty = Value::Object(serde_json::Map::new());
        let object = if at.value.is_string() { At { value: &empty, path: at.path.clone() } } else { at.clone() };
        let o = object.object(&fields)?;
        let read = |p: &Param| o.or(p.name, Number::Value(p.default), |at| Number::read(at, p, self.params));
        let options: Vec<Number> = signal.options.iter().map(read).collect::<Result<_>>()?;
        if signal.is_windowed() && options[..2].iter().all(|n| *n != Number::Value(0.0)) {
            return at.fail("over_ms or over_rtts, not both");
        }
        let named = if signal.range == Range::Named { Some(self.named(&o)?) } else { None };
        let (low, high) = match (signal.range, named) {
            (Range::Action, _) => self.acted,
            (_, Some(index)) => (self.params[index].min, self.params[index].max),
            _ => (signal.low, signal.high),
        };
        let natural = if signal.range == Range::Own { signal.clip } else { (low, high) };
        let clip = o.or("clip", natural, |at| match at.list("[low, high]")?.as_slice() {
            [a, b] => match (a.number(-ANY, ANY)?, b.number(-ANY, ANY)?) {
                (low, high) if low <= high => Ok((low, high)),
                _ => at.fail("[low, high], the first not above the second"),
            },
            _ => at.fail("[low, high]"),
        })?;
        let own = named.map_or(signal.name, |index| self.params[index].name.as_str());
        Ok(Item {
            signal,
            name: o.or("as", own.into(), |at| identifier(at, "a name of letters, digits, - and _"))?,
            history: o.or("history", history.unwrap_or(1), |at| Ok(at.small(1, MOST_HISTORY)? as usize))?,
            offset: o.or("offset", signal.offset, |at| at.number(-ANY, ANY))?,
            scale: o.or("scale", signal.scale, |at| at.number(-ANY, ANY))?,
            clip,
            options,
            named,
            low,
            high,
        })
    }

    /// The input or run-time parameter that field `name` names.
    fn named(&self, o: &Object<'_>) -> Result<usize> {
        let names: Vec<&str> = self.params.iter().filter(|p| p.runtime).map(|p| p.name.as_str()).collect();
        let at = o.require("name", "the name of an input or run-time parameter")?;
        let name = at.choice("input", &names)?;
        let index = self.params.iter().position(|p| p.name == name);
        index.map_or_else(|| at.fail(names.join(", ")), Ok)
    }

    /// Returns the default report of a spec.
    fn standard_report(&self) -> Result<Vec<Item>> {
        let standard = Value::from(STANDARD_REPORT.map(Value::from).to_vec());
        self.items(&At { value: &standard, path: "report".into() }, None)
    }
}

/// Columns of a report that the spec does not list.
pub const STANDARD_REPORT: [&str; 14] = [
    "last_action",
    "throughput_mbps",
    "throughput_max_mbps",
    "loss_mbps",
    "loss_ratio",
    "lost_packets",
    "rtt_ms",
    "rtt_min_ms",
    "srtt_ms",
    "queueing_delay_ms",
    "cwnd_packets",
    "interval_ms",
    "acked_packets",
    "time_s",
];
