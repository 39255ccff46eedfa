//! What simulations read from files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ccarena_cc::Policies;
use ccarena_net::{Trace, TraceError, trace};

/// Traces and policies by file, each read once. Clones share what they have read, also between threads.
#[derive(Clone, Default)]
pub struct Files {
    traces: Arc<Mutex<HashMap<PathBuf, Trace>>>,
    /// The policies.
    pub policies: Policies,
}

impl Files {
    /// The trace in `file`.
    ///
    /// # Errors
    /// If it is missing or no trace.
    pub fn trace(&self, file: &Path) -> Result<Trace, TraceError> {
        let mut traces = self.traces.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = traces.get(file) {
            return Ok(trace.clone());
        }
        let trace = trace::load(file)?;
        traces.insert(file.into(), trace.clone());
        Ok(trace)
    }
}
