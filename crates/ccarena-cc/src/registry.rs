//! The list of schemes. Adding one costs a file in [`crate::schemes`] and a line here, or a document and a line in
//! [`crate::learned::shipped`]; names, parameters, docs tables, conformance tests and command-line choices all read this
//! list.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::controller::Controller;
use crate::learned::shipped;
pub use crate::scheme::{Config, Param, Scheme};
use crate::schemes;
use crate::types::{Rate, Requirement};

/// A scheme that cannot be built as asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BuildError {
    /// No scheme of that name.
    #[error("unknown scheme {name:?}; {}", suggestion(.nearest, .known))]
    UnknownScheme {
        /// What was asked for.
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
        /// What was given.
        name: String,
        /// The nearest parameter.
        nearest: Option<String>,
        /// All parameters.
        known: String,
    },
    /// Outside the parameter's bounds, or not a number.
    #[error("parameter {name:?} of scheme {scheme:?} is {value}; expected {min} to {max}")]
    OutOfRange {
        /// The scheme.
        scheme: String,
        /// The parameter.
        name: String,
        /// What was given.
        value: f64,
        /// Smallest allowed.
        min: f64,
        /// Largest allowed.
        max: f64,
    },
    /// The scheme cannot share by this weight.
    #[error("weight {weight} does not suit scheme {scheme:?}; expected more than {above}")]
    Weight {
        /// The scheme.
        scheme: String,
        /// What was given.
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

/// The name in `known` nearest to `name`, if any is near enough to be a slip.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|k| (strsim::jaro_winkler(name, k), k))
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, k)| k)
}

const HAND_WRITTEN: &[Scheme] = &[
    schemes::bbr::SCHEME,
    schemes::bbr3::SCHEME,
    schemes::copa::SCHEME,
    schemes::cubic::SCHEME,
    schemes::ewtcp::SCHEME,
    schemes::fixed::SCHEME,
    schemes::hercules::SCHEME,
    schemes::illinois::SCHEME,
    schemes::ledbat::SCHEME,
    schemes::multcp::SCHEME,
    schemes::reno::SCHEME,
    schemes::vegas::SCHEME,
    schemes::vivace::SCHEME,
    schemes::vivace_hercules::SCHEME,
    schemes::wcc_ai::SCHEME,
    schemes::wcc_md::SCHEME,
];

/// All registered schemes, by name.
#[must_use]
pub fn schemes() -> &'static [Scheme] {
    static SCHEMES: LazyLock<Vec<Scheme>> = LazyLock::new(|| {
        let mut schemes = shipped::schemes();
        schemes.extend(HAND_WRITTEN);
        schemes.sort_by_key(|s| s.name);
        schemes
    });
    &SCHEMES
}

/// The scheme called `name`.
///
/// # Errors
/// [`BuildError::UnknownScheme`] with the nearest name.
pub fn find(name: &str) -> Result<&'static Scheme, BuildError> {
    schemes().iter().find(|s| s.name == name).ok_or_else(|| BuildError::UnknownScheme {
        name: name.into(),
        nearest: nearest(name, schemes().iter().map(|s| s.name)).map(Into::into),
        known: schemes().iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
    })
}

/// Builds scheme `name`, or the document of `config`, with missing parameters at their defaults.
///
/// # Errors
/// If the scheme or a parameter is unknown, or a value is outside its bounds.
pub fn build(name: &str, config: &Config) -> Result<Box<dyn Controller>, BuildError> {
    if let Some(Requirement { min, max }) = config.requirement.filter(|r| r.min >= r.max) {
        return Err(BuildError::Requirement { min, max });
    }
    if let Some(document) = &config.document {
        return document.controller(config);
    }
    let scheme = find(name)?;
    let mut full = config.clone();
    full.params = complete_params(scheme, &config.params)?;
    check_weight(scheme, config.weight)?;
    Ok((scheme.build)(&full))
}

/// Whether `scheme` can share by `weight`, which has to be finite.
///
/// # Errors
/// [`BuildError::Weight`] if it is not above the scheme's bound.
pub fn check_weight(scheme: &'static Scheme, weight: f64) -> Result<(), BuildError> {
    match scheme.weight_above {
        Some(above) if !(weight > above && weight.is_finite()) => {
            Err(BuildError::Weight { scheme: scheme.name.into(), weight, above })
        }
        _ => Ok(()),
    }
}

/// `given` checked against the scheme's parameters and completed with their defaults.
///
/// # Errors
/// If a parameter is unknown or outside its bounds.
pub fn complete_params(
    scheme: &'static Scheme,
    given: &BTreeMap<String, f64>,
) -> Result<BTreeMap<String, f64>, BuildError> {
    let bounds: Vec<_> = scheme.params.iter().map(|p| (p.name, p.min, p.max)).collect();
    check_params(scheme.name, &bounds, given)?;
    Ok(scheme.params.iter().map(|p| (p.name.to_string(), given.get(p.name).copied().unwrap_or(p.default))).collect())
}

/// `given` checked against the parameters of `scheme`: name, smallest and largest value of each.
///
/// # Errors
/// If a parameter is unknown or outside its bounds.
pub fn check_params(
    scheme: &str,
    params: &[(&str, f64, f64)],
    given: &BTreeMap<String, f64>,
) -> Result<(), BuildError> {
    for (name, &value) in given {
        let Some(&(_, min, max)) = params.iter().find(|p| p.0 == name) else {
            return Err(BuildError::UnknownParam {
                scheme: scheme.into(),
                name: name.clone(),
                nearest: nearest(name, params.iter().map(|p| p.0)).map(Into::into),
                known: params.iter().map(|p| p.0).collect::<Vec<_>>().join(", "),
            });
        };
        if !(min..=max).contains(&value) {
            return Err(BuildError::OutOfRange { scheme: scheme.into(), name: name.clone(), value, min, max });
        }
    }
    Ok(())
}
