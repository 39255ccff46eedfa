//! Faults of what a page gives.

use ccarena_net::{ResourceError, ScenarioError};
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
        Self { path: path.map(Into::into), message }.advised()
    }

    /// Says how a page gets a policy, which the command finds by its name alone.
    fn advised(mut self) -> Self {
        if self.path.as_deref().is_some_and(|path| path.starts_with("flows[") && path.ends_with("].policy")) {
            self.message += "; a page that has it is made by: ccarena play SCENARIO.yaml";
        }
        self
    }
}

impl From<ScenarioError> for Problem {
    fn from(error: ScenarioError) -> Self {
        let message = error.to_string();
        Self { path: (!error.path.is_empty()).then_some(error.path), message }.advised()
    }
}

impl From<SimError> for Problem {
    fn from(error: SimError) -> Self {
        match error {
            SimError::Resources(error) => error.into(),
            error => Self::led_by_path(error.to_string()),
        }
    }
}

impl From<ResourceError> for Problem {
    fn from(error: ResourceError) -> Self {
        match error {
            // A page has no variable to set.
            ResourceError::TooMuch { path, asked, what, limit, advice, .. } => Self::at(
                &path,
                &format!(
                    "the run asks for about {asked}, {what}, and the limit is {limit}; {advice}, or run it with the command \
                     ccarena"
                ),
            ),
            error => Self::new(error.to_string()),
        }
    }
}
