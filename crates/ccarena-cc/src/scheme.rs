//! What a scheme is: its registry entry, its parameters, and what its controllers are built from.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::controller::Controller;
use crate::learned::Document;
use crate::types::{Rate, Requirement};

/// A parameter of a scheme.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name in a scenario.
    pub name: &'static str,
    /// Its value if none is given.
    pub default: f64,
    /// Smallest allowed value.
    pub min: f64,
    /// Largest allowed value.
    pub max: f64,
    /// What it is, with unit and source.
    pub doc: &'static str,
}

/// A registered scheme.
#[derive(Clone, Copy)]
pub struct Scheme {
    /// Its name in scenarios and on the command line.
    pub name: &'static str,
    /// One line: what it is and its source.
    pub summary: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Its actions come from a decider.
    pub learned: bool,
    /// It shares by weight: weights above this bound are taken. None if the weight means nothing to it.
    pub weight_above: Option<f64>,
    /// It steers by the flow's requirement.
    pub requirement: bool,
    /// Builds one; `config.params` are complete and within bounds.
    pub build: fn(&Config) -> Box<dyn Controller>,
}

/// What every controller is built from.
#[derive(Clone, Debug)]
pub struct Config {
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Start in slow start (or the scheme's equivalent).
    pub slow_start: bool,
    /// Seed for schemes that randomise.
    pub seed: u64,
    /// Rate that the application wants, for schemes that signal it.
    pub desired_rate: Rate,
    /// Bytes of header on the wire per segment, for schemes that compare windows with link rates.
    pub header_bytes: u32,
    /// Weight in the WCC family.
    pub weight: f64,
    /// What Hercules is to reach; none if the application does not say.
    pub requirement: Option<Requirement>,
    /// Scheme parameters by name.
    pub params: BTreeMap<String, f64>,
    /// A learned scheme that stands in no list: it is built whatever name is asked for.
    pub document: Option<Arc<Document>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window: 10,
            slow_start: true,
            seed: 0,
            desired_rate: Rate(10_000_000_000),
            header_bytes: 52,
            weight: 1.0,
            requirement: None,
            params: BTreeMap::new(),
            document: None,
        }
    }
}

impl Config {
    /// The value of parameter `name`; zero if the scheme does not declare it ([`registry::build`](crate::registry::build) fills in declared ones).
    #[must_use]
    pub fn param(&self, name: &str) -> f64 {
        self.params.get(name).copied().unwrap_or(0.0)
    }
}
