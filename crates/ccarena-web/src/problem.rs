//! Faults of what a page gives.

use ccarena_net::ScenarioError;
use ccarena_sim::SimError;
use serde_json::{Value, json};

/// A fault, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field of the scenario, as `flows[2].scheme`; none if it is not about one.
    pub path: Option<String>,
    /// The whole sentence, which begins with the path.
    pub message: String,
}

impl Problem {
    /// A fault that is about no field.
    pub fn new(message: impl Into<String>) -> Self {
        Self { path: None, message: message.into() }
    }

    /// A fault at `path`; `why` says what was found and expected.
    #[must_use]
    pub fn at(path: &str, why: &str) -> Self {
        Self { path: Some(path.into()), message: format!("{path}: {why}") }
    }

    /// Returns the fault as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({"path": self.path, "message": self.message})
    }

    /// Finds the path at the beginning of a sentence.
    fn led_by_path(message: String) -> Self {
        let is_path = |text: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '[' | ']'))
        };
        let path = message.split_once(": ").map(|(path, _)| path).filter(|path| is_path(path) && *path != "document");
        Self { path: path.map(Into::into), message }
    }
}

impl From<ScenarioError> for Problem {
    fn from(error: ScenarioError) -> Self {
        let message = error.to_string();
        Self { path: (!error.path.is_empty()).then_some(error.path), message }
    }
}

impl From<SimError> for Problem {
    fn from(error: SimError) -> Self {
        Self::led_by_path(error.to_string())
    }
}
