//! Stand-in for [`Module`] in programs that were built without an engine.

use std::collections::BTreeMap;

use ccarena_cc::{BuildError, Config, Controller};

use crate::{About, ModuleError};

/// A module, of which there is none without an engine.
#[derive(Debug)]
pub enum Module {}

impl Module {
    /// Refuses each module.
    ///
    /// # Errors
    /// Always.
    pub fn load(_bytes: &[u8]) -> Result<Self, ModuleError> {
        Err(ModuleError::Refused(
            "this program was built without WebAssembly; build it with the cargo feature `wasm`".into(),
        ))
    }

    /// Returns the facts about the module.
    #[must_use]
    pub fn about(&self) -> &About {
        match *self {}
    }

    /// Returns the values of all parameters.
    ///
    /// # Errors
    /// None.
    pub fn params(&self, _given: &BTreeMap<String, f64>) -> Result<Vec<f64>, BuildError> {
        match *self {}
    }

    /// Returns the controller of a flow.
    ///
    /// # Errors
    /// None.
    pub fn controller(&self, _config: &Config) -> Result<Box<dyn Controller>, BuildError> {
        match *self {}
    }
}
