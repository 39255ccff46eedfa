//! Modules that this thread has compiled.
//!
//! Each thread compiles for itself: calls into modules of one engine take turns at its lock.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use ccarena_cc::{Config, Controller, bounded};
use sha2::{Digest as _, Sha256};

use crate::limits::MODULE_BYTES;
use crate::{Module, ModuleError};

/// Most modules that a thread keeps: a search tries thousands, each in many runs after each other.
const KEPT: usize = 16;

thread_local! {
    /// Modules with their digests, the latest used last.
    static MODULES: RefCell<Vec<([u8; 32], Arc<Module>)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the module of `bytes`, compiled once for this thread.
///
/// # Errors
/// If it is no module that runs here.
pub fn compile(bytes: &[u8]) -> Result<Arc<Module>, ModuleError> {
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    MODULES.with_borrow_mut(|kept| {
        let entry = match kept.iter().position(|(known, _)| *known == digest) {
            Some(at) => kept.remove(at),
            None => (digest, Arc::new(Module::load(bytes)?)),
        };
        let module = Arc::clone(&entry.1);
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(entry);
        Ok(module)
    })
}

/// Returns the module in the file at `path`, compiled once for this thread.
///
/// # Errors
/// If the file cannot be read, or is no module that runs here.
pub fn load(path: &Path) -> Result<Arc<Module>, ModuleError> {
    let name = || path.display().to_string();
    let bytes = bounded::read(path, MODULE_BYTES)
        .map_err(|error| ModuleError::File { path: name(), reason: error.to_string() })?;
    compile(&bytes).map_err(|error| ModuleError::Refused(format!("{}: {error}", name())))
}

/// Returns the controller of a flow that the module in the file at `path` steers.
///
/// # Errors
/// If the module or a parameter is refused.
pub fn controller(path: &Path, config: &Config) -> Result<Box<dyn Controller>, ModuleError> {
    load(path)?.controller(config).map_err(|error| ModuleError::Refused(error.to_string()))
}
