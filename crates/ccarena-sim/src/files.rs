//! Resources of the machine for simulations: files, and limits of use.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

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
        cached(&self.traces, file, |file| match self.store.is_disk() {
            true => recent(file, |file| trace::load_from(&self.store, file)),
            false => trace::load_from(&self.store, file),
        })
    }

    fn conditions(&self, file: &Path) -> Result<Conditions, TraceError> {
        cached(&self.conditions, file, |file| conditions::load_from(&self.store, file))
    }
}

/// A trace, with the file and what tells a change of it: when it was last written, and its length.
type Read = (PathBuf, (SystemTime, u64), Trace);

/// Traces that this process read last, for all simulations: reading a long one takes about as long as a short run.
static RECENT: Mutex<VecDeque<Read>> = Mutex::new(VecDeque::new());
const MOST_RECENT: usize = 16;
/// The longest trace that is kept, 4 MB.
const LONGEST_RECENT: usize = 1_000_000;

/// Returns a trace that was read lately, unless its file has changed since, or reads it.
fn recent(file: &Path, load: impl FnOnce(&Path) -> Result<Trace, TraceError>) -> Result<Trace, TraceError> {
    let known = || RECENT.lock().unwrap_or_else(PoisonError::into_inner);
    // Looked at before it is read: of a file that changes meanwhile, the older state is kept, which is not found again.
    let about = file.metadata().and_then(|about| Ok((about.modified()?, about.len())));
    let Ok(state) = about else { return load(file) };
    let found = known().iter().find(|(of, seen, _)| of == file && *seen == state).map(|(.., trace)| trace.clone());
    if let Some(trace) = found {
        return Ok(trace);
    }
    let trace = load(file)?;
    if trace.opportunities_ms().len() <= LONGEST_RECENT {
        let mut kept = known();
        kept.retain(|(of, ..)| of != file);
        kept.truncate(MOST_RECENT - 1);
        kept.push_front((file.into(), state, trace.clone()));
    }
    Ok(trace)
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_trace_is_read_again_only_if_its_file_changes() {
        let path = std::env::temp_dir().join(format!("ccarena-recent-{}.trace", std::process::id()));
        let times = || Files::default().trace(&path).map(|trace| Arc::clone(trace.opportunities_ms()));
        fs::write(&path, "1\n2\n").unwrap();
        let first = times().unwrap();
        assert!(Arc::ptr_eq(&first, &times().unwrap()), "simulations share it");
        fs::write(&path, "1\n2\n3\n").unwrap();
        assert_eq!(times().unwrap()[..], [1, 2, 3]);
        fs::remove_file(&path).unwrap();
        assert!(times().is_err());
    }
}
