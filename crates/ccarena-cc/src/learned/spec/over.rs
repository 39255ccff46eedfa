//! Base of a spec: one of its own kinds, a scheme of the registry, or several schemes of which an action chooses.

use serde_json::{Map, Value};

use super::{Chosen, Item, chosen, required};
use crate::build_error::BuildError;
use crate::controller::Controller;
use crate::feedback::Feedback;
use crate::learned::bases::schemes::{self, Member};
use crate::learned::bases::{self, BASES, BaseEntry, EVERYWHERE, Lever};
use crate::learned::interface::ParamSpec;
use crate::learned::monitor::Parts;
use crate::learned::number::Number;
use crate::learned::plan::Plan;
use crate::param::Param;
use crate::reader::{At, DocumentError, Object, Problem, Result, unknown};
use crate::scheme::{Config, Scheme, check_weight};
use crate::schemes::ALL;

/// Base of a spec: it moves window and rate between decisions.
pub(in crate::learned) enum BaseSpec {
    /// A kind of base.
    Kind(Chosen<BaseEntry>),
    /// A scheme, or several of which the first runs until an action chooses another.
    Schemes(Vec<Chosen<Scheme>>),
}

/// Most schemes to choose from.
const MOST_SCHEMES: usize = 16;

impl BaseSpec {
    /// Reads `base`: a kind, `{scheme: NAME, ...}` or `{schemes: [...]}`.
    pub(super) fn read(o: &Object<'_>, params: &[ParamSpec]) -> Result<Self> {
        let entries: Vec<_> = BASES.iter().map(|b| (b.name, b.options, b)).collect();
        let at = required(o, "base", &entries)?;
        let Value::Object(map) = at.value else {
            return Ok(Self::Kind(chosen("base", &at, &entries, &[], params)?));
        };
        if map.contains_key("schemes") {
            let list = at.object(&["schemes"])?.require("schemes", "a list of schemes")?;
            return Ok(Self::Schemes(several(&list, params)?));
        }
        if map.contains_key("scheme") {
            return Ok(Self::Schemes(vec![scheme(&at, params)?]));
        }
        Ok(Self::Kind(chosen("base", &at, &entries, &[], params)?))
    }

    /// The schemes that it runs.
    pub(super) fn schemes(&self) -> impl Iterator<Item = &'static Scheme> {
        let list = match self {
            Self::Kind(_) => [].iter(),
            Self::Schemes(list) => list.iter(),
        };
        list.map(|chosen: &Chosen<Scheme>| chosen.entry)
    }

    /// The value of the option `name` of its kind.
    pub(in crate::learned) fn option(&self, name: &str, values: &[f64]) -> Option<f64> {
        let Self::Kind(Chosen { entry, options }) = self else { return None };
        let at = entry.options.iter().position(|option| option.name == name)?;
        options.get(at).map(|number| number.resolve(values))
    }

    /// Names of the schemes, with the parameters that are not at their defaults, as entrants have them.
    pub(super) fn names(&self) -> Vec<String> {
        match self {
            Self::Kind(_) => Vec::new(),
            Self::Schemes(list) => list.iter().map(label).collect(),
        }
    }

    pub(super) fn takes_rate(&self) -> bool {
        matches!(self, Self::Kind(chosen) if chosen.entry.takes_rate)
    }

    /// Feedback of marks that it needs.
    pub(super) fn feedback(&self) -> Feedback {
        match self {
            Self::Kind(chosen) => chosen.entry.feedback,
            Self::Schemes(list) => list.iter().map(|chosen| chosen.entry.feedback).max().unwrap_or_default(),
        }
    }

    fn has(&self, lever: Lever) -> bool {
        match self {
            Self::Kind(chosen) => chosen.entry.has(lever),
            Self::Schemes(list) => {
                lever == Lever::Window || EVERYWHERE.contains(&lever) || (lever == Lever::Choice && list.len() > 1)
            }
        }
    }

    /// Refuses an actuator called `name` if its `lever` moves nothing of this base.
    pub(super) fn check_lever(&self, o: &Object<'_>, name: &str, lever: Lever) -> Result<()> {
        if self.has(lever) {
            return Ok(());
        }
        let mut fitting: Vec<String> = BASES.iter().filter(|b| b.has(lever)).map(|b| format!("{:?}", b.name)).collect();
        match lever {
            Lever::Window => fitting.push("{\"scheme\": NAME}".into()),
            Lever::Choice => fitting.push("{\"schemes\": [NAME, NAME, ...]}".into()),
            _ => {}
        }
        let names = fitting.join(" or ");
        o.require("base", "a base")?.fail(format!("a base of which {name:?} moves something: {names}"))
    }

    /// Refuses signals of an advertised rate over a scheme whose packets ask routers for something else.
    pub(super) fn check_signals<'a>(&self, o: &Object<'_>, mut items: impl Iterator<Item = &'a Item>) -> Result<()> {
        let Some(scheme) = self.schemes().find(|scheme| asks_routers(scheme)) else { return Ok(()) };
        let Some(item) = items.find(|item| item.signals().iter().any(|signal| signal.parts.has(Parts::ADVERTISED)))
        else {
            return Ok(());
        };
        let at = o.require("base", "a base")?;
        let (scheme, name) = (scheme.name, &item.name);
        at.fail(format!("a scheme that asks routers for nothing: {name:?} needs the rate that they advertise, and {scheme:?} asks for another header"))
    }

    /// The controller over it; `values` are those of the spec's parameters.
    pub(super) fn build(
        &self,
        config: &Config,
        values: &[f64],
        by_rate: bool,
        plan: Plan,
    ) -> std::result::Result<Box<dyn Controller>, BuildError> {
        let resolve = |options: &[Number]| options.iter().map(|n| n.resolve(values)).collect::<Vec<f64>>();
        let list = match self {
            Self::Kind(Chosen { entry, options }) => {
                let options = &resolve(options);
                return Ok((entry.build)(bases::Parts { config, options, by_rate, plan }));
            }
            Self::Schemes(list) => list,
        };
        let member = |Chosen { entry: scheme, options }: &Chosen<Scheme>| {
            check_weight(scheme, config.weight)?;
            let names = scheme.params.iter().map(|p| p.name.to_string());
            let params = names.zip(resolve(options)).collect();
            Ok(Member { scheme, config: Config { params, ..config.clone() } })
        };
        let mut members = list.iter().map(member).collect::<std::result::Result<Vec<_>, BuildError>>()?;
        let others = members.split_off(1);
        match members.pop() {
            Some(first) => Ok(schemes::build(first, others, plan)),
            None => Err(BuildError::UnknownScheme { name: String::new(), nearest: None, known: String::new() }),
        }
    }
}

/// The schemes to choose from.
fn several(list: &At<'_>, params: &[ParamSpec]) -> Result<Vec<Chosen<Scheme>>> {
    let expected = format!("a list of 2 to {MOST_SCHEMES} schemes, each a name or {{scheme: NAME, PARAMETER: number}}");
    let items = list.list(&expected)?;
    if !(2..=MOST_SCHEMES).contains(&items.len()) {
        return list.fail(expected);
    }
    let mut schemes: Vec<Chosen<Scheme>> = Vec::with_capacity(items.len());
    for item in &items {
        let next = scheme(item, params)?;
        if asks_routers(next.entry) {
            return item.fail(format!(
                "a scheme that asks routers for nothing: a flow's packets keep their header when {:?} gives way to another",
                next.entry.name
            ));
        }
        if schemes.iter().any(|before| label(before) == label(&next)) {
            return item.fail("another scheme than those before, or other parameters");
        }
        schemes.push(next);
    }
    Ok(schemes)
}

/// A scheme of the registry: a name, or an object with `scheme` and its parameters.
fn scheme(at: &At<'_>, params: &[ParamSpec]) -> Result<Chosen<Scheme>> {
    let known: Vec<&str> = ALL.iter().filter(|s| !s.rules).map(|s| s.name).collect();
    let name = match at.value {
        Value::String(_) => at.clone(),
        Value::Object(map) => match map.get("scheme") {
            Some(value) => At { value, path: format!("{}.scheme", at.path) },
            None => {
                let problem = Problem::Missing { expected: format!("one of {}", known.join(", ")) };
                return Err(DocumentError { path: format!("{}.scheme", at.path), problem });
            }
        },
        _ => return at.fail("the name of a scheme, or an object with `scheme` and its parameters"),
    };
    let text = name.text("the name of a scheme")?;
    let Some(entry) = ALL.iter().find(|s| s.name == text) else {
        return Err(unknown(name.path, "scheme", text, &known));
    };
    if entry.rules {
        return name.fail("a scheme without a rule file, which a spec cannot name");
    }
    let empty = Value::Object(Map::new());
    let object = if at.value.is_string() { At { value: &empty, path: at.path.clone() } } else { at.clone() };
    let fields: Vec<&str> = entry.params.iter().map(|p| p.name).chain(["scheme"]).collect();
    let o = object.object(&fields)?;
    let read = |p: &Param| o.or(p.name, Number::Value(p.default), |at| Number::read(at, p, params));
    Ok(Chosen { entry, options: entry.params.iter().map(read).collect::<Result<_>>()? })
}

fn label(Chosen { entry, options }: &Chosen<Scheme>) -> String {
    let given = entry.params.iter().zip(options).filter(|(p, n)| **n != Number::Value(p.default));
    let given: Vec<String> = given
        .map(|(p, n)| match n {
            Number::Value(x) => format!("{}={x}", p.name),
            Number::Param(index) => format!("{}=${index}", p.name),
        })
        .collect();
    if given.is_empty() { entry.name.into() } else { format!("{}@{}", entry.name, given.join(",")) }
}

/// Returns whether packets of the scheme ask routers for something.
fn asks_routers(scheme: &Scheme) -> bool {
    let params = scheme.params.iter().map(|p| (p.name.to_string(), p.default)).collect();
    let config = Config { params, ..Config::default() };
    (scheme.build)(&config).router_assisted().is_some()
}
