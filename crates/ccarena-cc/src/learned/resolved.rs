//! A spec with the values of its parameters put in: names and numbers, for programs other than this one.

use std::collections::BTreeMap;

use super::Spec;
use super::actuators::Op;
use super::derived::{Derivation, Expr, Flat, Raw};
use super::number::Number;
use super::spec::{ActuatorSpec, BaseSpec, Item, Source};
use crate::build_error::BuildError;
use crate::scheme::check_params;

/// An entry of a registry, and what the spec says about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// `clock`, `actuator`, `base` or `signal`.
    pub kind: &'static str,
    /// Name in the registry.
    pub name: &'static str,
    /// Name in the spec.
    pub label: String,
    /// Values in the order of the entry's options.
    pub options: Vec<f64>,
}

/// One series of the observation.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Signal with its options.
    pub piece: Piece,
    /// Channel of the signal.
    pub channel: usize,
    /// Bounds of its values.
    pub low: f64,
    /// See `low`.
    pub high: f64,
    /// Index of its first entry in the observation.
    pub at: usize,
    /// Number of values, oldest first.
    pub length: usize,
    /// Flag that it is read when the decider is asked, not at the end of a period.
    pub live: bool,
    /// Flag that it is measured over another stretch than the period.
    pub windowed: bool,
    /// Place among [`Resolved::derived`] of a derived signal that is observed.
    pub derived: Option<usize>,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// Clock of the decisions.
    pub clock: Piece,
    /// Actuator of the actions; `several` if there is a list of them.
    pub actuator: Piece,
    /// Base under the actuator; `scheme` if it runs schemes of the registry.
    pub base: Piece,
    /// An action counts only when one was asked for.
    pub relative: bool,
    /// Actions move the rate.
    pub by_rate: bool,
    /// Operations of an actuator that takes them.
    pub ops: Vec<Op>,
    /// Derived signals of the observation.
    pub derived: Flat<Piece>,
    /// The time before the first decision is special.
    pub starts: bool,
    /// Observed series.
    pub observe: Vec<Series>,
    /// The reported series, one value each, at their places in the report.
    pub report: Vec<Series>,
}

impl Resolved {
    /// Returns whether the signal `name` is observed, reported or part of a derived one.
    #[must_use]
    pub fn measures(&self, name: &str) -> bool {
        let derived = self.derived.values.iter().filter_map(|value| match &value.derivation {
            Derivation::Signal(piece) => Some(piece),
            _ => None,
        });
        let series = self.observe.iter().chain(&self.report).map(|series| &series.piece);
        series.chain(derived).any(|piece| piece.name == name)
    }
}

impl Spec {
    /// The spec with `params`, missing ones at their defaults.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds.
    pub fn resolve(&self, params: &BTreeMap<String, f64>) -> Result<Resolved, BuildError> {
        let specs = &self.interface().params;
        let bounds = specs.iter().map(|p| (p.name.as_str(), p.min, p.max)).collect::<Vec<_>>();
        check_params(&self.interface().name, &bounds, params)?;
        let values: Vec<f64> = specs.iter().map(|p| params.get(&p.name).copied().unwrap_or(p.default)).collect();
        let piece = |kind, name, label: &str, options: &[Number]| {
            let options = options.iter().map(|n| n.resolve(&values)).collect();
            Piece { kind, name, label: label.into(), options }
        };
        let signal = |raw: &Raw| piece("signal", raw.signal.name, raw.signal.name, &raw.options);
        let exprs: Vec<&Expr> = self.observe.iter().filter_map(Item::derived).collect();
        let (derived, places) = Flat::new(&exprs, &signal);
        let series = |items: &[Item], places: &[usize]| {
            let (mut all, mut at, mut places) = (Vec::new(), 0, places.iter().copied());
            for item in items {
                let piece = match &item.source {
                    Source::Signal(raw) => Piece { label: item.name.clone(), ..signal(raw) },
                    Source::Derived(expr) => piece("signal", expr.form(), &item.name, &[]),
                };
                let derived = item.derived().and_then(|_| places.next());
                let windowed = matches!(&item.source, Source::Signal(raw) if raw.signal.is_windowed())
                    && piece.options[..2].iter().any(|x| *x > 0.0);
                for channel in 0..item.channels().len().max(1) {
                    let ((low, high), length, live) = (item.bounds(), item.history, item.is_live());
                    all.push(Series { piece: piece.clone(), channel, low, high, at, length, live, windowed, derived });
                    at += item.history;
                }
            }
            all
        };
        let clock = &self.clock;
        let actuator = match &self.actuators[..] {
            [one] => piece("actuator", one.entry.name, one.entry.name, &one.options),
            several => piece("actuator", "several", &names(several.iter().map(|a| a.entry.name)), &[]),
        };
        let base = match &self.base {
            BaseSpec::Kind(base) => piece("base", base.entry.name, base.entry.name, &base.options),
            BaseSpec::Schemes(list) => piece("base", "scheme", &names(list.iter().map(|s| s.entry.name)), &[]),
        };
        Ok(Resolved {
            clock: piece("clock", clock.entry.name, clock.entry.name, &clock.options),
            actuator,
            base,
            relative: self.actuators.iter().any(|a| a.entry.relative),
            by_rate: self.moves_rate(),
            ops: self.actuators.iter().flat_map(ActuatorSpec::ops).collect(),
            starts: self.start.is_some(),
            observe: series(&self.observe, &places),
            report: series(&self.report, &[]),
            derived,
        })
    }
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}
