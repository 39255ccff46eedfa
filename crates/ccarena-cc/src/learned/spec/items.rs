//! The signals of an observation and the columns of a report.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::{Value, json};

use super::{ANY, MOST, MOST_HISTORY, identifier};
use crate::learned::derived::{self, Compiler, Expr, Raw};
use crate::learned::interface::{Entry, ParamSpec};
use crate::learned::number::Number;
use crate::learned::plan::Column;
use crate::learned::signals::{self, Range, Signal};
use crate::param::Param;
use crate::reader::{At, DocumentError, Object, Problem, Result, unknown};

pub(super) const SIGNALS_EXPECTED: &str = "a list of signals, each a name or {signal, as, history, offset, scale, clip}, or a derived one such as {quotient: \
     [a, b], as}";

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

/// Origin of an item's values.
pub(in crate::learned) enum Source {
    /// A signal of the registry.
    Signal(Raw),
    /// A derived signal.
    Derived(Expr),
}

/// A signal as the spec names it.
pub(in crate::learned) struct Item {
    pub(in crate::learned) source: Source,
    pub(in crate::learned) name: String,
    pub(in crate::learned) history: usize,
    pub(in crate::learned) offset: f64,
    pub(in crate::learned) scale: f64,
    pub(in crate::learned) clip: (f64, f64),
}

impl Item {
    /// Suffixes of its channels' names; empty if it is one number.
    pub(in crate::learned) fn channels(&self) -> &'static [&'static str] {
        match &self.source {
            Source::Signal(raw) => raw.signal.channels,
            Source::Derived(_) => &[],
        }
    }

    /// Names of its channels.
    pub(in crate::learned) fn names(&self) -> Vec<String> {
        match self.channels() {
            [] => vec![self.name.clone()],
            channels => channels.iter().map(|channel| format!("{}_{channel}", self.name)).collect(),
        }
    }

    /// Bounds of its values.
    pub(in crate::learned) fn bounds(&self) -> (f64, f64) {
        match &self.source {
            Source::Signal(raw) => (raw.low, raw.high),
            Source::Derived(expr) => (expr.low, expr.high),
        }
    }

    /// Returns whether it is read when the decider is asked; other series are zero as long as there was no period.
    pub(in crate::learned) fn is_live(&self) -> bool {
        matches!(&self.source, Source::Signal(raw) if raw.signal.live) && self.history == 1
    }

    /// The derived signal that it is, if it is one.
    pub(in crate::learned) fn derived(&self) -> Option<&Expr> {
        match &self.source {
            Source::Signal(_) => None,
            Source::Derived(expr) => Some(expr),
        }
    }

    /// The signals that it is made of.
    pub(in crate::learned) fn signals(&self) -> Vec<&'static Signal> {
        match &self.source {
            Source::Signal(raw) => vec![raw.signal],
            Source::Derived(expr) => expr.signals(),
        }
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let (low, high) = self.bounds();
        let (low, high) = if self.is_live() { (low, high) } else { (low.min(0.0), high.max(0.0)) };
        let (unit, doc) = match &self.source {
            Source::Signal(raw) => (raw.signal.unit.into(), raw.signal.doc.into()),
            Source::Derived(expr) => (expr.unit().into(), expr.text().into()),
        };
        let entry = |name| Entry {
            name,
            group: self.name.clone(),
            length: self.history,
            low,
            high,
            offset: self.offset,
            scale: self.scale,
            clip: self.clip,
            unit: Cow::clone(&unit),
            doc: Cow::clone(&doc),
        };
        self.names().into_iter().map(entry).collect()
    }

    /// Appends its columns to `columns`, the first of which begins `at` in the observation.
    pub(in crate::learned) fn compile(&self, compiler: &mut Compiler<'_>, columns: &mut Vec<Column>, at: &mut usize) {
        let (low, high) = self.bounds();
        let (value, options): (signals::Read, Box<[f64]>) = match &self.source {
            Source::Signal(raw) => (raw.signal.value, raw.options(compiler.resolve, compiler.parts, compiler.horizon)),
            Source::Derived(expr) => (signals::derived, [compiler.add(expr) as f64].into()),
        };
        for channel in 0..self.channels().len().max(1) {
            let (length, live) = (self.history, self.is_live());
            columns.push(Column { value, options: options.clone(), channel, low, high, at: *at, length, live });
            *at += self.history;
        }
    }
}

/// Reads signals.
pub(super) struct Reader<'a> {
    pub(super) params: &'a [ParamSpec],
    /// The actuators' names, and bounds of their actions in force.
    pub(super) acted: Vec<(&'static str, (f64, f64))>,
}

impl Reader<'_> {
    /// Signals of an observation, with this history if they give no other, or columns of a report.
    pub(super) fn items(&self, at: &At<'_>, history: Option<usize>) -> Result<Vec<Item>> {
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
        let mut more = vec!["as"];
        if history.is_some() {
            more.extend(["history", "offset", "scale", "clip"]);
        }
        let (source, own, o) = if derived::form_of(at.value).is_some() {
            let (expr, o) = self.derived(at, &more)?;
            let named = o.require("as", "a name: a derived signal has none of its own")?;
            let name = named.text("a name")?.to_string();
            (Source::Derived(expr), name, o)
        } else {
            let (raw, o) = self.raw(at, &more)?;
            let name = raw.named.map_or(raw.signal.name, |index| self.params[index].name.as_str()).to_string();
            (Source::Signal(raw), name, o)
        };
        let (offset, scale, natural) = match &source {
            Source::Signal(raw) if raw.signal.range == Range::Own => {
                (raw.signal.offset, raw.signal.scale, raw.signal.clip)
            }
            Source::Signal(raw) => (raw.signal.offset, raw.signal.scale, (raw.low, raw.high)),
            Source::Derived(expr) => (0.0, 1.0, (expr.low, expr.high)),
        };
        Ok(Item {
            source,
            name: o.or("as", own, |at| identifier(at, "a name of letters, digits, - and _"))?,
            history: o.or("history", history.unwrap_or(1), |at| Ok(at.small(1, MOST_HISTORY)? as usize))?,
            offset: o.or("offset", offset, |at| at.number(-ANY, ANY))?,
            scale: o.or("scale", scale, |at| at.number(-ANY, ANY))?,
            clip: o.or("clip", natural, ordered)?,
        })
    }

    /// A signal of the registry, by name or as an object with fields `more` besides.
    pub(super) fn raw<'v>(&self, at: &At<'v>, more: &[&str]) -> Result<(Raw, Object<'v>)> {
        let name = match at.value {
            Value::Object(map) => match map.get("signal") {
                Some(value) => At { value, path: format!("{}.signal", at.path) },
                None => {
                    if let Some(key) = map.keys().find(|key| !more.contains(&key.as_str())) {
                        let known: Vec<&str> = derived::names().into_iter().chain(["signal"]).collect();
                        return Err(unknown(format!("{}.{key}", at.path), "field", key, &known));
                    }
                    let problem = Problem::Missing { expected: "the name of a signal".into() };
                    return Err(DocumentError { path: format!("{}.signal", at.path), problem });
                }
            },
            Value::String(_) => at.clone(),
            _ => return at.fail("the name of a signal, or an object with a field `signal`"),
        };
        let found = name.text("the name of a signal")?;
        let Some(signal) = signals::find(found) else {
            let known: Vec<&str> = signals::all().map(|s| s.name).collect();
            return Err(unknown(name.path, "signal", found, &known));
        };
        let mut fields = vec!["signal"];
        fields.extend(more);
        fields.extend(signal.options.iter().map(|p| p.name));
        if signal.range == Range::Named {
            fields.push("name");
        }
        if signal.range == Range::Action && self.acted.len() > 1 {
            fields.push("action");
        }
        let object = if at.value.is_string() { At { value: &EMPTY, path: at.path.clone() } } else { at.clone() };
        let o = object.object(&fields)?;
        let read = |p: &Param| o.or(p.name, Number::Value(p.default), |at| Number::read(at, p, self.params));
        let options: Vec<Number> = signal.options.iter().map(read).collect::<Result<_>>()?;
        if signal.is_windowed() && options[..2].iter().all(|n| *n != Number::Value(0.0)) {
            return at.fail("over_ms or over_rtts, not both");
        }
        let named = if signal.range == Range::Named { Some(self.named(&o)?) } else { None };
        let actuator = if signal.range == Range::Action { Some(self.actuator(&o)?) } else { None };
        let (low, high) = match (actuator, named) {
            (Some(index), _) => self.acted[index].1,
            (_, Some(index)) => (self.params[index].min, self.params[index].max),
            _ => (signal.low, signal.high),
        };
        Ok((Raw { signal, options, named, actuator, low, high }, o))
    }

    /// The input or run-time parameter that field `name` names.
    fn named(&self, o: &Object<'_>) -> Result<usize> {
        let names: Vec<&str> = self.params.iter().filter(|p| p.runtime).map(|p| p.name.as_str()).collect();
        let at = o.require("name", "the name of an input or run-time parameter")?;
        let name = at.choice("input", &names)?;
        let index = self.params.iter().position(|p| p.name == name);
        index.map_or_else(|| at.fail(names.join(", ")), Ok)
    }

    /// The actuator that field `action` names; the only one if there are no others.
    fn actuator(&self, o: &Object<'_>) -> Result<usize> {
        if let [_] = self.acted[..] {
            return Ok(0);
        }
        let names: Vec<&str> = self.acted.iter().map(|(name, _)| *name).collect();
        let at = o.require("action", &format!("the actuator whose action it is: {}", names.join(", ")))?;
        let name = at.choice("actuator", &names)?;
        names.iter().position(|n| *n == name).map_or_else(|| at.fail(names.join(", ")), Ok)
    }

    /// Returns the default report of a spec: of several actuators it has `last_NAME` for each.
    pub(super) fn standard_report(&self) -> Result<Vec<Item>> {
        let (last, others) = (STANDARD_REPORT[0], STANDARD_REPORT[1..].iter().map(|name| Value::from(*name)));
        let actions: Vec<Value> = match &self.acted[..] {
            [_] => vec![last.into()],
            several => {
                let column = |name| json!({"signal": last, "action": name, "as": format!("last_{name}")});
                several.iter().map(|(name, _)| column(name)).collect()
            }
        };
        let standard: Value = actions.into_iter().chain(others).collect();
        self.items(&At { value: &standard, path: "report".into() }, None)
    }
}

static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(serde_json::Map::new()));

/// Reads `[low, high]`.
pub(super) fn ordered(at: &At<'_>) -> Result<(f64, f64)> {
    match at.list("[low, high]")?.as_slice() {
        [a, b] => match (a.number(-ANY, ANY)?, b.number(-ANY, ANY)?) {
            (low, high) if low <= high => Ok((low, high)),
            _ => at.fail("[low, high], the first not above the second"),
        },
        _ => at.fail("[low, high]"),
    }
}
