//! The spec of a learned scheme: read, checked once, and built into controllers.

mod acting;
mod expr;
mod items;
mod measured;
mod over;
mod write;

pub(super) use self::acting::ActuatorSpec;
pub use self::items::STANDARD_REPORT;
pub(super) use self::items::{Item, Source};
use self::items::{Reader, SIGNALS_EXPECTED};
pub(super) use self::over::BaseSpec;

use std::sync::Arc;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::VERSION;
use super::bases::Lever;
use super::clocks::{CLOCKS, ClockEntry};
use super::derived::Compiler;
use super::interface::{Entry, Interface, ParamSpec};
use super::monitor::{Horizon, Parts};
use super::number::Number;
use super::plan::Plan;
use super::start::Start;
use crate::build_error::BuildError;
use crate::controller::Controller;
use crate::feedback::Feedback;
use crate::param::Param;
use crate::reader::{self, At, DocumentError, Object, Problem, Result};
use crate::scheme::{Config, check_params, check_requirement};

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
    pub(super) actuators: Vec<ActuatorSpec>,
    pub(super) base: BaseSpec,
    pub(super) history: usize,
    pub(super) observe: Vec<Item>,
    pub(super) report: Vec<Item>,
    /// The time before the first decision, if it is special.
    pub(super) start: Option<Start>,
    /// Flag that packets leave as ECT(1), for an L4S queue.
    pub(super) l4s: bool,
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
        let clocks: Vec<_> = CLOCKS.iter().map(|c| (c.name, c.options, c)).collect();
        let clock = chosen("clock", &required(&o, "clock", &clocks)?, &clocks, &[], &params)?;
        let base = BaseSpec::read(&o, &params)?;
        let actuators = acting::read(&o, &params, &base)?;
        actuators.iter().try_for_each(|a| base.check_lever(&o, a.entry.name, a.entry.lever))?;
        let acted = actuators.iter().map(|actuator| (actuator.entry.name, actuator.in_force(&params))).collect();
        let reader = Reader { params: &params, acted };
        let observe_at = o.require("observe", "an object with a list `signals`")?;
        let observed = observe_at.object(&["history", "signals"])?;
        let history = observed.or("history", 1, |at| at.small(1, MOST_HISTORY))? as usize;
        let observe = reader.items(&observed.require("signals", SIGNALS_EXPECTED)?, Some(history))?;
        let report = match o.get("report") {
            Some(at) => reader.items(&at, None)?,
            None => reader.standard_report()?,
        };
        base.check_signals(&o, observe.iter().chain(&report))?;
        let entries: Vec<_> = actuators.iter().map(|a| a.entry).collect();
        let start = o.get("start").map(|at| Start::read(&at, &entries)).transpose()?;
        let mut spec = Self {
            interface: Arc::new(Interface {
                name: identifier(&name, "a name of letters, digits, - and _")?,
                digest: String::new(),
                observation_len: 0,
                observation: Vec::new(),
                actions: acting::values(&actuators),
                action_names: acting::names(&actuators),
                bounds: acting::bounds(&actuators),
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
            actuators,
            base,
            history,
            observe,
            report,
            start,
            l4s: o.or("l4s", false, At::boolean)?,
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
        self.observe.iter().chain(&self.report).any(|item| item.signals().iter().any(|s| signals.contains(&s.name)))
    }

    /// Bound above which it takes a flow's weight, as a signal or for its base; none if the weight has no effect.
    #[must_use]
    pub fn weight_above(&self) -> Option<f64> {
        let observed = self.observes(&["weight"]).then_some(0.0);
        self.base.schemes().filter_map(|scheme| scheme.weight_above).chain(observed).reduce(f64::max)
    }

    /// Returns the least ECN feedback at which the spec runs as trained: counts in an L4S queue, otherwise that of its base.
    #[must_use]
    pub fn needed_feedback(&self) -> Feedback {
        if self.l4s { Feedback::Accurate } else { self.base.feedback() }
    }

    /// Returns whether it takes a flow's requirement, as a signal or for its base.
    #[must_use]
    pub fn takes_requirement(&self) -> bool {
        self.observes(&["required_min_mbps", "required_max_mbps"]) || self.base.schemes().any(|s| s.requirement)
    }

    /// The items of its observation, and with `reported` those of its report.
    pub(super) fn items(&self, reported: bool) -> impl Iterator<Item = &Item> {
        self.observe.iter().chain(self.report.iter().filter(move |_| reported))
    }

    /// Returns whether actions set the rate.
    pub(super) fn moves_rate(&self) -> bool {
        self.actuators.iter().any(|actuator| actuator.entry.lever == Lever::Rate)
    }

    /// A controller of the scheme, missing parameters at their defaults.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds, or the requirement is no range.
    pub fn controller(&self, config: &Config) -> std::result::Result<Box<dyn Controller>, BuildError> {
        let (plan, values) = self.plan(config)?;
        self.base.build(config, &values, self.moves_rate(), plan)
    }

    /// Everything of a controller but its base, and the values of the spec's parameters.
    pub(super) fn plan(&self, config: &Config) -> std::result::Result<(Plan, Vec<f64>), BuildError> {
        check_requirement(config)?;
        let params = &self.interface.params;
        let bounds = params.iter().map(|p| (p.name.as_str(), p.min, p.max)).collect::<Vec<_>>();
        check_params(&self.interface.name, &bounds, &config.params)?;
        let value = |p: &ParamSpec| config.params.get(&p.name).copied().unwrap_or(p.default);
        let values: Vec<f64> = params.iter().map(value).collect();
        let resolve = |options: &[Number]| options.iter().map(|n| n.resolve(&values)).collect::<Vec<f64>>();
        let (mss, count) = (f64::from(config.mss.max(1)), self.actuators.len());
        let (mut parts, mut horizon) = (Parts::NONE, Horizon::default());
        let mut compile = |items: &[Item], of_report: bool| {
            let mut compiler = Compiler::new(of_report, &mut parts, &mut horizon, &resolve);
            let (mut columns, mut at) = (Vec::with_capacity(items.len()), 0);
            items.iter().for_each(|item| item.compile(&mut compiler, &mut columns, &mut at));
            (columns, compiler.program, compiler.taps)
        };
        let (observe, observed, taps) = compile(&self.observe, false);
        let (report, reported, more_taps) = compile(&self.report, true);
        let plan = Plan {
            interface: Arc::clone(&self.interface),
            clock: (self.clock.entry.build)(&resolve(&self.clock.options)),
            actuators: self.actuators.iter().map(|a| a.build(&resolve(&a.options), mss, count)).collect(),
            observe,
            report,
            observed,
            reported,
            taps: [taps, more_taps],
            start: self.start,
            l4s: self.l4s,
            takes_rate: self.base.takes_rate() || parts.has(Parts::ADVERTISED),
            parts,
            horizon,
            desired: config.desired_rate,
            mss,
            wire_bytes: f64::from(config.mss + config.header_bytes),
            weight: config.weight,
            requirement: config.requirement,
            params: values.clone(),
        };
        Ok((plan, values))
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
    "start",
    "l4s",
];

/// The value of `field`, of which one of `entries` is expected.
fn required<'a, E>(o: &Object<'a>, field: &str, entries: &[Entries<E>]) -> Result<At<'a>> {
    o.require(field, &format!("an object whose `kind` is one of {}", names(entries)))
}

/// Names, options and entries of a registry.
type Entries<E> = (&'static str, &'static [Param], &'static E);

fn names<E>(entries: &[Entries<E>]) -> String {
    entries.iter().map(|e| e.0).collect::<Vec<_>>().join(", ")
}

/// The entry of a registry that `at` names, a string or an object with `kind`, and its options.
fn chosen<E>(
    what: &'static str,
    at: &At<'_>,
    entries: &[Entries<E>],
    more: &[&'static str],
    params: &[ParamSpec],
) -> Result<Chosen<E>> {
    let known: Vec<&str> = entries.iter().map(|e| e.0).collect();
    let expected = format!("an object whose `kind` is one of {}", names(entries));
    let kind = match at.value {
        Value::String(_) => at.clone(),
        Value::Object(map) => match map.get("kind") {
            Some(value) => At { value, path: format!("{}.kind", at.path) },
            None => {
                let problem = Problem::Missing { expected: format!("one of {}", names(entries)) };
                return Err(DocumentError { path: format!("{}.kind", at.path), problem });
            }
        },
        _ => return at.fail(expected),
    };
    let name = kind.choice(what, &known)?;
    let Some(&(_, options, entry)) = entries.iter().find(|e| e.0 == name) else { return at.fail(expected) };
    if at.value.is_string() {
        return Ok(Chosen { entry, options: options.iter().map(|p| Number::Value(p.default)).collect() });
    }
    let known: Vec<&str> = options.iter().map(|p| p.name).chain(more.iter().copied()).chain(["kind"]).collect();
    let fields = at.object(&known)?;
    let read = |p: &Param| fields.or(p.name, Number::Value(p.default), |at| Number::read(at, p, params));
    Ok(Chosen { entry, options: options.iter().map(read).collect::<Result<_>>()? })
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
