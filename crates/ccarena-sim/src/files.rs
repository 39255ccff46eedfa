//! Resources of the machine for simulations: files, and limits of use.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ccarena_cc::bounded::Store;
use ccarena_cc::scheme::Config;
use ccarena_cc::{Backend, Controller, Policies};
use ccarena_net::conditions::{self, Conditions, Recordings};
use ccarena_net::{Limits, ResourceError, Trace, TraceError, resources, trace};

/// Builder of controllers of Python classes: of a flow by its number and the class, with the reason if it cannot.
pub type PythonControllers = dyn Fn(usize, &str, &Config) -> Result<Box<dyn Controller>, String> + Send + Sync;

type Cache<T> = Arc<Mutex<HashMap<PathBuf, T>>>;

/// Traces and policies by file, each read once. Clones share what they have read, also between threads.
#[derive(Clone)]
pub struct Files {
    store: Store,
    traces: Cache<Trace>,
    conditions: Cache<Conditions>,
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
        Self::new(Store::default(), Limits::from_setting(setting.as_deref()))
    }
}

impl Files {
    /// Returns the files in `store`, and the default limits.
    #[must_use]
    pub fn in_store(store: Store) -> Self {
        Self::new(store, Ok(Limits::default()))
    }

    fn new(store: Store, limits: Result<Limits, ResourceError>) -> Self {
        let policies = Policies::in_store(store.clone(), Backend::default());
        Self { store, traces: Arc::default(), conditions: Arc::default(), policies, python: None, limits }
    }
}

impl Recordings for Files {
    fn trace(&self, file: &Path) -> Result<Trace, TraceError> {
        cached(&self.traces, file, |file| trace::load_from(&self.store, file))
    }

    fn conditions(&self, file: &Path) -> Result<Conditions, TraceError> {
        cached(&self.conditions, file, |file| conditions::load_from(&self.store, file))
    }
}

fn cached<T: Clone>(
    cache: &Cache<T>,
    file: &Path,
    load: impl FnOnce(&Path) -> Result<T, TraceError>,
) -> Result<T, TraceError> {
    let mut cache = cache.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = cache.get(file) {
        return Ok(known.clone());
    }
    let read = load(file)?;
    cache.insert(file.into(), read.clone());
    Ok(read)
}
