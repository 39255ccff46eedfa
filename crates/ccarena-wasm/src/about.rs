//! Facts that a module gives about itself.

use std::collections::BTreeMap;

use ccarena_cc::BuildError;
use ccarena_cc::scheme::check_params;

/// Description of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    /// Name that its author gave it.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// Parameters in the order of its table.
    pub params: Vec<Parameter>,
    /// Flag that the window alone says what is sent during recovery.
    pub owns_recovery: bool,
    /// Flag that each packet that leaves is reported to it.
    pub every_segment: bool,
    /// Flag that it reads delivery-rate samples.
    pub rate_samples: bool,
    /// Names of its exported functions of the interface.
    pub exports: Vec<String>,
    /// Flag that it draws random numbers.
    pub random: bool,
    /// Memory at its start in bytes.
    pub memory_bytes: u64,
    /// Size of the module in bytes.
    pub module_bytes: usize,
    /// SHA-256 of the module, hexadecimal.
    pub digest: String,
}

/// A parameter of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Unit; empty if it has none.
    pub unit: String,
    /// One sentence.
    pub help: String,
    /// Value if none is given.
    pub initial: f64,
    /// Smallest value.
    pub least: f64,
    /// Largest value.
    pub most: f64,
}

impl About {
    /// Returns the values of all parameters in the order of the table, those that are not `given` at their defaults.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds.
    pub fn values(&self, given: &BTreeMap<String, f64>) -> Result<Vec<f64>, BuildError> {
        let bounds: Vec<_> = self.params.iter().map(|p| (p.name.as_str(), p.least, p.most)).collect();
        check_params(&self.name, &bounds, given)?;
        Ok(self.params.iter().map(|p| given.get(&p.name).copied().unwrap_or(p.initial)).collect())
    }
}
