//! Flows that arrive: entries that expand into several flows when the scenario is read, so that every backend has the
//! same ones.
//!
//! A transfer is a flow with a connection of its own, as in studies of completion times: on one connection a small
//! transfer would wait behind a large one, and slow start would happen once.

mod incast;
mod poisson;

use ccarena_cc::reader::{At, Object, Result};
use ccarena_cc::{Dur, Rate};

use super::App;
use crate::rng::Stream;

/// No entry expands into more flows.
pub const MAX_FLOWS: usize = 50_000;

/// Facts of the entry that expands.
pub struct Context<'a> {
    /// The application in the document.
    pub at: &'a At<'a>,
    /// Time from the entry's start to its stop, or to the end of the run.
    pub length: Dur,
    /// Least rate of the links on its path; none if one of them varies.
    pub rate: Option<Rate>,
    /// Random numbers of the entry.
    pub random: Stream,
}

/// A process of arrivals.
pub trait Arrivals {
    /// The flows: when each starts after the entry does, in order, and its application.
    ///
    /// # Errors
    /// If it does not fit the scenario.
    fn expand(&self, context: Context<'_>) -> Result<Vec<(Dur, App)>>;
}

/// Description of a process of arrivals.
pub struct Description {
    /// Value of `type` in a scenario.
    pub name: &'static str,
    /// Fields beside `type`.
    pub fields: &'static [&'static str],
    /// Reads its fields.
    pub read: fn(&Object<'_>) -> Result<Box<dyn Arrivals>>,
}

/// All of them.
pub const ALL: &[Description] = &[poisson::DESCRIPTION, incast::DESCRIPTION];
