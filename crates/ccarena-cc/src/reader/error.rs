//! Faults of a document.

use std::fmt;

/// A field that cannot be taken, and why.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct DocumentError {
    /// The field, as `flows[2].scheme`; empty for the whole document.
    pub path: String,
    /// Fault of the field.
    pub problem: Problem,
}

/// Fault of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    /// The text is not JSON.
    Syntax(String),
    /// The field must be given.
    Missing {
        /// Expectation.
        expected: String,
    },
    /// A name that is not on the list.
    Unknown {
        /// Kind of the name: "field", "scheme", "link".
        what: &'static str,
        /// The name.
        value: String,
        /// The nearest right one, if it looks like a slip.
        nearest: Option<String>,
        /// All right ones.
        known: String,
    },
    /// The value has the wrong type, is outside its bounds or contradicts another field.
    Invalid {
        /// The value, shortened.
        value: String,
        /// Expectation.
        expected: String,
    },
    /// The spec's actions cannot describe what another scheme does.
    Unwatchable(Box<Unwatchable>),
}

/// A spec that is to record another scheme, and cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwatchable {
    /// The value, shortened.
    pub value: String,
    /// Name of the spec.
    pub spec: String,
    /// Flow that the other scheme runs.
    pub flow: String,
    /// The other scheme.
    pub scheme: String,
    /// Reason of [`crate::learned::Spec::unwatchable`].
    pub why: String,
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "document" } else { &self.path };
        match &self.problem {
            Problem::Syntax(error) => write!(f, "{path}: not JSON: {error}; expected one JSON object"),
            Problem::Missing { expected } => write!(f, "{path}: missing; expected {expected}"),
            Problem::Invalid { value, expected } => write!(f, "{path}: got {value}; expected {expected}"),
            Problem::Unwatchable(no) => write!(
                f,
                "{path}: got {}; expected a spec that other schemes' behaviour amounts to actions of; flow {:?} runs {:?}, and \
                 of {spec:?} {}. Give a spec that moves a window or a rate over the base none, or record flows that run \
                 {spec:?}",
                no.value,
                no.flow,
                no.scheme,
                no.why,
                spec = no.spec
            ),
            Problem::Unknown { what, value, nearest: Some(nearest), .. } => {
                write!(f, "{path}: unknown {what} {value:?}; did you mean {nearest:?}?")
            }
            Problem::Unknown { what, value, known, .. } if known.is_empty() => {
                write!(f, "{path}: unknown {what} {value:?}; expected none")
            }
            Problem::Unknown { what, value, known, .. } => {
                write!(f, "{path}: unknown {what} {value:?}; expected one of {known}")
            }
        }
    }
}
