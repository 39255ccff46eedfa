//! Actions of a spec: `act`, one actuator or a list of several.
//!
//! The actions of several actuators are all continuous, a number for each, or all discrete. Discrete ones form a product:
//! an action is one index, and the actions of the last actuator change fastest, so that whoever takes an index takes it.

use serde_json::{Value, json};

use super::over::BaseSpec;
use super::{Chosen, Entries, MOST, chosen, required};
use crate::action::MOST_NUMBERS;
use crate::learned::actuators::{self, ACTUATORS, ActuatorEntry, Op, Takes};
use crate::learned::bases::Lever;
use crate::learned::interface::ParamSpec;
use crate::learned::number::Number;
use crate::learned::plan::Acting;
use crate::reader::{At, DocumentError, Object, Problem, Result};

/// An actuator with its actions.
pub(in crate::learned) struct ActuatorSpec {
    pub(in crate::learned) entry: &'static ActuatorEntry,
    /// Values in the order of the entry's options.
    pub(in crate::learned) options: Vec<Number>,
    pub(in crate::learned) actions: Actions,
}

/// Actions of one actuator.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::learned) enum Actions {
    /// A number within bounds.
    Bounds(f64, f64),
    /// One of some numbers.
    Levels(Vec<f64>),
    /// One of some operations.
    Operations(Vec<String>),
    /// One of the base's schemes, by their names.
    Schemes(Vec<String>),
}

const FIELDS: &[&str] = &["bounds", "levels", "ops"];

impl Actions {
    /// Bounds of its value.
    fn bounds(&self) -> (f64, f64) {
        match self {
            Self::Bounds(low, high) => (*low, *high),
            Self::Levels(levels) => (levels[0], levels[levels.len() - 1]),
            Self::Operations(names) | Self::Schemes(names) => (0.0, (names.len() - 1) as f64),
        }
    }

    /// Values of its discrete actions; none if it is continuous.
    fn values(&self) -> Vec<f32> {
        match self {
            Self::Bounds(..) => Vec::new(),
            Self::Levels(levels) => levels.iter().map(|x| *x as f32).collect(),
            Self::Operations(names) | Self::Schemes(names) => (0..names.len()).map(|k| k as f32).collect(),
        }
    }

    fn names(&self) -> Vec<String> {
        match self {
            Self::Bounds(..) => Vec::new(),
            Self::Levels(levels) => levels.iter().map(ToString::to_string).collect(),
            Self::Operations(names) | Self::Schemes(names) => names.clone(),
        }
    }

    fn is_continuous(&self) -> bool {
        matches!(self, Self::Bounds(..))
    }

    /// The field of a spec that has them; none for schemes, which the base names.
    pub(in crate::learned) fn field(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Bounds(low, high) => Some(("bounds", json!([low, high]))),
            Self::Levels(levels) => Some(("levels", json!(levels))),
            Self::Operations(ops) => Some(("ops", json!(ops))),
            Self::Schemes(_) => None,
        }
    }
}

impl ActuatorSpec {
    fn read(at: &At<'_>, entries: &[Entries<ActuatorEntry>], params: &[ParamSpec], base: &BaseSpec) -> Result<Self> {
        let Chosen { entry, options } = chosen("actuator", at, entries, FIELDS, params)?;
        Ok(Self { entry, options, actions: actions(at, entry, base)? })
    }

    /// Bounds of the action in force: an option may scale actions, or say the first one.
    pub(super) fn in_force(&self, params: &[ParamSpec]) -> (f64, f64) {
        let bounds = self.actions.bounds();
        let (mut low, mut high) = bounds;
        let extremes = |n: Number| match n {
            Number::Value(x) => (x, x),
            Number::Param(index) => params.get(index).map_or((0.0, 0.0), |p| (p.min, p.max)),
        };
        for (option, number) in self.entry.options.iter().zip(&self.options) {
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

    /// Operations that it takes; none if it takes numbers or schemes.
    pub(in crate::learned) fn ops(&self) -> Vec<Op> {
        match &self.actions {
            Actions::Operations(ops) => ops.iter().filter_map(|op| Op::parse(op)).collect(),
            _ => Vec::new(),
        }
    }

    /// The actuator of a flow, one of `count`, with its options' values.
    pub(super) fn build(&self, options: &[f64], mss: f64, count: usize) -> Acting {
        let (low, high) = self.actions.bounds();
        let ops = self.ops();
        let parts = actuators::Parts { options, bounds: (low as f32, high as f32), ops: &ops, mss };
        Acting {
            actuator: (self.entry.build)(&parts),
            lever: self.entry.lever,
            relative: self.entry.relative,
            values: if count > 1 { self.actions.values() } else { Vec::new() },
        }
    }
}

/// Reads `act`: an actuator, or a list of several that do not move the same lever.
pub(super) fn read(o: &Object<'_>, params: &[ParamSpec], base: &BaseSpec) -> Result<Vec<ActuatorSpec>> {
    let entries: Vec<_> = ACTUATORS.iter().map(|a| (a.name, a.options, a)).collect();
    let at = required(o, "act", &entries)?;
    let Value::Array(_) = at.value else { return Ok(vec![ActuatorSpec::read(&at, &entries, params, base)?]) };
    let expected = format!("an actuator, or a list of 2 to {MOST_NUMBERS}");
    let items = at.list(&expected)?;
    if !(2..=MOST_NUMBERS).contains(&items.len()) {
        return at.fail(expected);
    }
    let mut several: Vec<ActuatorSpec> = Vec::with_capacity(items.len());
    for item in &items {
        let next = ActuatorSpec::read(item, &entries, params, base)?;
        for before in &several {
            if excludes(before.entry.lever, next.entry.lever) {
                let (name, other) = (next.entry.name, before.entry.name);
                return item.fail(format!("an actuator beside {other:?}; {name:?} moves what that one moves"));
            }
            if before.actions.is_continuous() != next.actions.is_continuous() {
                return item.fail(format!(
                    "{} as {:?} has: the actions of a list are all continuous (`bounds`) or all discrete",
                    if before.actions.is_continuous() { "bounds" } else { "discrete actions" },
                    before.entry.name
                ));
            }
        }
        several.push(next);
    }
    let count: usize = several.iter().map(|a| a.actions.values().len()).product();
    if count > MOST {
        return at.fail(format!("at most {MOST} discrete actions; the product of these has {count}"));
    }
    Ok(several)
}

/// Two actuators cannot move one lever. A rate is that of pacing, and over a rate the window only bounds it.
fn excludes(a: Lever, b: Lever) -> bool {
    let with_rate = |lever| matches!(lever, Lever::Pacing | Lever::Window);
    a == b || (a == Lever::Rate && with_rate(b)) || (b == Lever::Rate && with_rate(a))
}

/// Values of the discrete actions; none if they are continuous.
pub(super) fn values(actuators: &[ActuatorSpec]) -> Vec<f32> {
    match actuators {
        [one] => one.actions.values(),
        several => (0..several.iter().map(|a| a.actions.values().len()).product()).map(|k: usize| k as f32).collect(),
    }
}

/// Names of the discrete actions.
pub(super) fn names(actuators: &[ActuatorSpec]) -> Vec<String> {
    let product = |before: Vec<String>, next: &ActuatorSpec| {
        let own = next.actions.names();
        before.iter().flat_map(|name| own.iter().map(move |own| format!("{name}, {own}"))).collect()
    };
    match actuators {
        [first, others @ ..] => others.iter().fold(first.actions.names(), product),
        [] => Vec::new(),
    }
}

/// Bounds of each number of an action.
pub(super) fn bounds(actuators: &[ActuatorSpec]) -> Vec<(f32, f32)> {
    let values = values(actuators);
    match (actuators, values.len()) {
        ([_, _, ..], count @ 1..) => vec![(0.0, (count - 1) as f32)],
        _ => actuators.iter().map(|a| a.actions.bounds()).map(|(low, high)| (low as f32, high as f32)).collect(),
    }
}

/// Actions of an actuator at `at`.
fn actions(at: &At<'_>, actuator: &ActuatorEntry, base: &BaseSpec) -> Result<Actions> {
    let get = |name: &str| match at.value {
        Value::Object(map) => {
            map.get(name).filter(|v| !v.is_null()).map(|value| At { value, path: format!("{}.{name}", at.path) })
        }
        _ => None,
    };
    match actuator.takes {
        Takes::Schemes => match get("bounds").or_else(|| get("levels")).or_else(|| get("ops")) {
            Some(at) => at.fail("null: its actions are the base's `schemes`"),
            None => Ok(Actions::Schemes(base.names())),
        },
        Takes::Operations => match get("bounds").or_else(|| get("levels")) {
            Some(at) => at.fail("null: its actions are `ops`"),
            None => operations(at, get("ops")),
        },
        Takes::Numbers => match get("ops") {
            Some(at) => at.fail(format!("null: {:?} takes bounds or levels", actuator.name)),
            None => numbers(actuator, get("bounds"), get("levels")),
        },
    }
}

fn operations(at: &At<'_>, list: Option<At<'_>>) -> Result<Actions> {
    let expected = "a list of 2 to 256 operations such as \"/2\", \"-10\", \"+0\", \"+10\", \"*2\"";
    let Some(list) = list else {
        if at.value.is_string() {
            return at.fail("an object with a list `ops`");
        }
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
    Ok(Actions::Operations(ops))
}

fn numbers(actuator: &ActuatorEntry, bounds: Option<At<'_>>, levels: Option<At<'_>>) -> Result<Actions> {
    let (low, high) = actuator.range;
    match (bounds, levels) {
        (Some(_), Some(at)) => at.fail("bounds of a continuous action or levels of a discrete one, not both"),
        (None, None) => Ok(Actions::Bounds(actuator.bounds.0, actuator.bounds.1)),
        (Some(at), None) => {
            let expected = format!("[low, high] within {low} to {high}, the high one above the low one and above 0");
            match at.list(&expected)?.as_slice() {
                [a, b] => {
                    let bounds = (a.number(low, high)?, b.number(low, high)?);
                    // As they are used, in single precision.
                    if (bounds.0 as f32) < bounds.1 as f32 && bounds.1 as f32 > 0.0 {
                        Ok(Actions::Bounds(bounds.0, bounds.1))
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
            let fit = (2..=MOST).contains(&levels.len()) && increasing && levels.last().is_some_and(|last| *last > 0.0);
            if fit { Ok(Actions::Levels(levels)) } else { at.fail(expected) }
        }
    }
}
