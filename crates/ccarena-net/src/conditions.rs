//! Conditions traces: the rate, one-way delay and loss of a link by time, in one CSV table.
//!
//! Its header is `time_ms` and any of `rate_mbps`, `delay_ms` and `loss`. Each row holds from its time until the next
//! row's time. The trace repeats: its period is the last row's time plus the interval before it. One row holds for ever.

mod parse;
mod spec;

use std::path::Path;

use ccarena_cc::bounded::{LARGEST_TRACE_BYTES, Store};
use ccarena_cc::types::{Dur, Rate};

use crate::stepped::Stepped;
use crate::trace::{Trace, TraceError, TraceErrorKind};

pub use self::spec::{ConditionsSpec, Offset, Source};

/// Names of the columns; the first one is required, and one of the others.
pub const COLUMNS: &[&str] = &["time_ms", "rate_mbps", "delay_ms", "loss"];

/// Conditions of a link by time, checked. Cheap to clone: the values are shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Time after which it repeats; none if one row holds for ever.
    pub period: Option<Dur>,
    /// Rates; some are above zero.
    pub rates: Option<Stepped<Rate>>,
    /// One-way delays.
    pub delays: Option<Stepped<Dur>>,
    /// Probabilities of loss.
    pub losses: Option<Stepped<f64>>,
}

impl Conditions {
    /// Reads a conditions trace from the bytes of its file; `name` stands in errors.
    ///
    /// # Errors
    /// [`TraceError`] with the line of the first fault.
    pub fn read(bytes: &[u8], name: &str) -> Result<Self, TraceError> {
        parse::table(bytes).map_err(|(line, fault)| TraceError {
            file: name.into(),
            line,
            kind: TraceErrorKind::Conditions(fault.to_string()),
        })
    }

    /// Returns the least delay; none if the trace has no delays.
    #[must_use]
    pub fn least_delay(&self) -> Option<Dur> {
        self.delays.as_ref().and_then(|delays| delays.values().min())
    }

    /// Returns the conditions of a run that starts at `offset` in the trace.
    #[must_use]
    pub fn starting_at(&self, offset: Dur) -> Self {
        Self {
            period: self.period,
            rates: self.rates.as_ref().map(|rates| rates.starting_at(offset)),
            delays: self.delays.as_ref().map(|delays| delays.starting_at(offset)),
            losses: self.losses.as_ref().map(|losses| losses.starting_at(offset)),
        }
    }
}

/// Reads the conditions trace in file `path`.
///
/// # Errors
/// If the file cannot be read or is no conditions trace.
pub fn load(path: &Path) -> Result<Conditions, TraceError> {
    load_from(&Store::default(), path)
}

/// Reads the conditions trace in file `path` of `store`.
///
/// # Errors
/// If the file cannot be read or is no conditions trace.
pub fn load_from(store: &Store, path: &Path) -> Result<Conditions, TraceError> {
    let file = path.display().to_string();
    match store.read(path, LARGEST_TRACE_BYTES) {
        Ok(bytes) => Conditions::read(&bytes, &file),
        Err(e) => Err(TraceError { file, line: None, kind: TraceErrorKind::Io(e.to_string()) }),
    }
}

/// Source of recordings by file name, such as a cache. A function that finds traces is one, too.
pub trait Recordings {
    /// Returns the mahimahi trace in `file`.
    ///
    /// # Errors
    /// If it is missing or no trace.
    fn trace(&self, file: &Path) -> Result<Trace, TraceError>;

    /// Returns the conditions trace in `file`.
    ///
    /// # Errors
    /// If it is missing or no conditions trace.
    fn conditions(&self, file: &Path) -> Result<Conditions, TraceError> {
        load(file)
    }
}

impl<F: Fn(&Path) -> Result<Trace, TraceError>> Recordings for F {
    fn trace(&self, file: &Path) -> Result<Trace, TraceError> {
        self(file)
    }
}

#[cfg(test)]
mod tests;
