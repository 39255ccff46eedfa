//! Errors of a scheme that cannot be built.

use crate::backends::Unmeasured;
use crate::types::{MOST_WEIGHT, Rate};

/// A scheme that cannot be built as asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// No scheme of that name.
    #[error("unknown scheme {name:?}; {}{}", suggestion(.nearest, .known), apart(.name))]
    UnknownScheme {
        /// Requested name.
        name: String,
        /// The nearest registered name.
        nearest: Option<String>,
        /// All names.
        known: String,
    },
    /// No parameter of that name.
    #[error("scheme {scheme:?} has no parameter {name:?}; {}", suggestion(.nearest, .known))]
    UnknownParam {
        /// The scheme.
        scheme: String,
        /// Given name.
        name: String,
        /// The nearest parameter.
        nearest: Option<String>,
        /// All parameters.
        known: String,
    },
    /// A signal of its spec that the backend does not measure.
    #[error(transparent)]
    Signal(#[from] Unmeasured),
    /// The value is outside the parameter's bounds, or not a number.
    #[error("parameter {name:?} of scheme {scheme:?} is {value}; expected {min} to {max}")]
    OutOfRange {
        /// The scheme.
        scheme: String,
        /// The parameter.
        name: String,
        /// Given value.
        value: f64,
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// The scheme cannot share by this weight.
    #[error("weight {weight} does not suit scheme {scheme:?}; expected more than {above}, at most {MOST_WEIGHT}")]
    Weight {
        /// The scheme.
        scheme: String,
        /// Given weight.
        weight: f64,
        /// Weights have to be larger.
        above: f64,
    },
    /// A requirement (a, b) without 0 <= a < b.
    #[error("requirement ({min}, {max}) is no range; expected the first rate below the second")]
    Requirement {
        /// a.
        min: Rate,
        /// b.
        max: Rate,
    },
}

fn suggestion(nearest: &Option<String>, known: &str) -> String {
    match nearest {
        Some(n) => format!("did you mean {n:?}?"),
        None if known.is_empty() => "it takes none".into(),
        None => format!("expected one of {known}"),
    }
}

/// Says what to do with parameters in the name, which command lines and scenarios take apart.
fn apart(name: &str) -> &'static str {
    if name.contains('@') {
        " Parameters are given apart from the name: as `Config::params` in Rust, as `ccarena_value` in C"
    } else {
        ""
    }
}

/// The name in `known` nearest to `name`, if any is near enough to be a slip.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(name, k), k))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}
