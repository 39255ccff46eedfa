//! Distribution of links over a shared medium.

use std::collections::BTreeMap;

use ccarena_cc::Rate;
use ccarena_net::ServiceSpec;
use ccarena_net::rng::Stream;
use ccarena_net::service::access::{self, AccessSpec, Kind};
use serde::Deserialize;

use super::Range;

/// A kind of access to a medium, and how much of it is drawn.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Given")]
pub struct Medium {
    kind: Kind,
    /// Weight among the kinds of capacity.
    pub weight: f64,
    /// Ranges of parameters, drawn uniformly; others have their defaults.
    params: Vec<(&'static str, Range)>,
}

/// A medium as JSON describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    access: String,
    weight: f64,
    params: BTreeMap<String, Range>,
}

impl TryFrom<Given> for Medium {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        let name = given.access;
        let kind = access::find(&name).ok_or_else(|| format!("no access called {name:?}"))?;
        let mut params = Vec::new();
        for (param, range) in given.params {
            let known = kind.description().params.iter().find(|p| p.name == param);
            let known = known.ok_or_else(|| format!("{name} has no parameter {param:?}"))?;
            let (low, high) = range.bounds();
            if low < known.min || high > known.max {
                return Err(format!("{name}.{param} is {low} to {high}; expected {} to {}", known.min, known.max));
            }
            params.push((known.name, range));
        }
        let this = Self { kind, weight: given.weight, params };
        this.check().map_err(|e| format!("{name}.{e}"))?;
        Ok(this)
    }
}

impl Medium {
    /// Checks the corners of the ranges: parameters bound one another in one direction.
    fn check(&self) -> Result<(), String> {
        for corner in 0..1_u32 << self.params.len() {
            let end = |(i, (name, range)): (usize, &(&'static str, Range))| {
                let (low, high) = range.bounds();
                (*name, if corner >> i & 1 == 0 { low } else { high })
            };
            let drawn = self.params.iter().enumerate().map(end).collect();
            if let Err(refusal) = AccessSpec::new(self.kind, &drawn, ServiceSpec::default()) {
                return Err(format!("{}: expected {} wherever others are drawn", refusal.param, refusal.expected));
            }
        }
        Ok(())
    }

    /// Draws a service whose medium has `rate`.
    pub fn draw(&self, rate: Rate, stream: &mut Stream) -> ServiceSpec {
        let drawn = self.params.iter().map(|(name, range)| (*name, range.uniform(stream))).collect();
        let rate = ServiceSpec::Constant(rate);
        // The corners of the ranges fit, so that everything within does.
        AccessSpec::new(self.kind, &drawn, rate.clone()).map_or(rate, ServiceSpec::Access)
    }
}
