//! A discipline with its parameters, checked.

use std::collections::BTreeMap;

use ccarena_cc::Param;
use ccarena_cc::types::{Dur, Rate};

use super::{Kind, Limit, LimitRule};
use crate::rng::Stream;

/// A registered discipline, for listings and for the scenario's checks.
#[derive(Clone, Copy, Debug)]
pub struct Discipline {
    /// Name in a scenario.
    pub name: &'static str,
    /// One line: what it does and its source.
    pub summary: &'static str,
    /// Rule about its limit.
    pub limit: LimitRule,
    /// Parameters besides the limit.
    pub params: &'static [Param],
    /// Check of the parameters against each other, after each alone.
    pub check: fn(&Params) -> Result<(), Refusal>,
    /// Mahimahi's differs: `compat: mahimahi` asks for that.
    pub mahimahi: bool,
    /// The discipline draws at random.
    pub random: bool,
}

/// A parameter that does not fit the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Name of the parameter.
    pub param: &'static str,
    /// Expectation.
    pub expected: String,
}

/// Parameters by name, complete.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(BTreeMap<&'static str, f64>);

impl Params {
    /// `params` with `given` in place of their defaults.
    #[must_use]
    pub fn new(params: &[Param], given: &BTreeMap<&str, f64>) -> Self {
        Self(params.iter().map(|p| (p.name, given.get(p.name).copied().unwrap_or(p.default))).collect())
    }

    /// The parameter called `name`; zero if the discipline does not declare it.
    #[must_use]
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or(0.0)
    }

    /// A parameter that is an option: on unless zero.
    #[must_use]
    pub fn on(&self, name: &str) -> bool {
        self.get(name) != 0.0
    }

    /// A parameter in milliseconds as a time.
    #[must_use]
    pub fn millis(&self, name: &str) -> Dur {
        Dur::from_secs_f64(self.get(name) / 1e3)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.0.iter().map(|(&name, &value)| (name, value))
    }
}

/// A discipline with its parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    pub(super) kind: Kind,
    /// Limit; none for no limit.
    pub limit: Option<Limit>,
    /// Other parameters, complete.
    pub params: Params,
    /// Mahimahi's version, errors included.
    pub mahimahi: bool,
}

impl QueueSpec {
    /// A queue of `kind`; parameters that are not `given` have their defaults, and so has the limit.
    ///
    /// # Errors
    /// If parameters do not fit one another, or a limit is missing or too much.
    pub fn new(kind: Kind, limit: Option<Limit>, given: &BTreeMap<&str, f64>, mahimahi: bool) -> Result<Self, Refusal> {
        let discipline = kind.discipline();
        let refuse = |param, expected: &str| Err(Refusal { param, expected: expected.into() });
        let limit = match (discipline.limit, limit) {
            (LimitRule::Unlimited, Some(limit)) => return refuse(limit.param().0.name, "nothing: it has no limit"),
            (LimitRule::Required, None) => return refuse("packets", "exactly one limit: packets, bytes or bdp"),
            (LimitRule::Unlimited, None) => None,
            (LimitRule::Default(default), None) => Some(default),
            (_, given) => given,
        };
        if mahimahi && !discipline.mahimahi {
            return refuse("compat", "nothing: mahimahi's does not differ, or it has none");
        }
        let params = Params::new(discipline.params, given);
        (discipline.check)(&params)?;
        Ok(Self { kind, limit, params, mahimahi })
    }

    /// A queue without limit.
    #[must_use]
    pub fn infinite() -> Self {
        Self { kind: Kind::Infinite, limit: None, params: Params::default(), mahimahi: false }
    }

    /// A first-in-first-out queue that holds `limit`.
    #[must_use]
    pub fn droptail(limit: Limit) -> Self {
        Self { kind: Kind::DropTail, limit: Some(limit), params: Params::default(), mahimahi: false }
    }

    /// The discipline's entry in [`all`](super::all).
    #[must_use]
    pub fn discipline(&self) -> &'static Discipline {
        self.kind.discipline()
    }
}

impl Default for QueueSpec {
    /// One bandwidth-delay product of drop-tail queue.
    fn default() -> Self {
        Self::droptail(Limit::Bdp(1.0))
    }
}

/// Facts of the link behind a queue that the queue may use.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The bandwidth-delay product that a limit in BDP multiplies.
    pub bdp_bytes: u64,
    /// The link's mean rate.
    pub rate: Rate,
    /// Random numbers for disciplines that draw.
    pub stream: Stream,
}
