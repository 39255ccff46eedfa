//! Resources of the machine for simulations: files, and limits of use.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ccarena_cc::scheme::Config;
use ccarena_cc::{Controller, Policies};
use ccarena_net::{Limits, ResourceError, Trace, TraceError, resources, trace};

/// Builder of controllers of Python classes: of a flow by its number and the class, with the reason if it cannot.
pub type PythonControllers = dyn Fn(usize, &str, &Config) -> Result<Box<dyn Controller>, String> + Send + Sync;

/// Traces and policies by file, each read once. Clones share what they have read, also between threads.
#[derive(Clone)]
pub struct Files {
    traces: Arc<Mutex<HashMap<PathBuf, Trace>>>,
    /// The policies.
    pub policies: Policies,
    /// Builder of users' Python controllers; none refuses them.
    pub python: Option<Arc<PythonControllers>>,
    /// Limits of a scenario, or the error in the variable that sets them ([`resources::VARIABLE`]).
    pub limits: Result<Limits, ResourceError>,
}

impl Default for Files {
    fn default() -> Self {
        let setting = std::env::var(resources::VARIABLE).ok();
        let limits = Limits::from_setting(setting.as_deref());
        Self { traces: Arc::default(), policies: Policies::default(), python: None, limits }
    }
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
