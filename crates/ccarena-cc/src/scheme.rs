//! Scheme: its registry entry, its parameters, and the arguments of its controllers.

use std::collections::BTreeMap;
#[cfg(feature = "policies")]
use std::sync::Arc;

use crate::build_error::{BuildError, nearest};
use crate::controller::Controller;
use crate::feedback::Feedback;
use crate::param::Param;
#[cfg(feature = "policies")]
use crate::rules::Rules;
use crate::types::{MOST_WEIGHT, Rate, Requirement};

/// A registered scheme.
#[derive(Clone, Copy)]
pub struct Scheme {
    /// Name in scenarios and on the command line.
    pub name: &'static str,
    /// One line: what it is and its source.
    pub summary: &'static str,
    /// Parameters of the scheme.
    pub params: &'static [Param],
    /// Flag that its actions come from a decider.
    pub learned: bool,
    /// Flag that it runs a rule file, which the flow's `rules` names.
    pub rules: bool,
    /// Bound above which weights are accepted, for a scheme that shares by weight. None if the weight has no effect.
    pub weight_above: Option<f64>,
    /// Flag that it steers by the flow's requirement.
    pub requirement: bool,
    /// The scheme that it does exactly as, with default parameters and weight 1; boards have one of the two.
    pub alias_of: Option<&'static str>,
    /// Feedback of marks that it needs; with less it runs as NewReno.
    pub feedback: Feedback,
    /// Builds one; `config.params` are complete and within bounds.
    pub build: fn(&Config) -> Box<dyn Controller>,
}

/// Configuration of every controller.
#[derive(Clone, Debug)]
pub struct Config {
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Start in slow start (or the scheme's equivalent).
    pub slow_start: bool,
    /// State of the connection, if another scheme ran it before; `initial_window` is then its present window.
    pub carried: Option<Carried>,
    /// Seed for schemes that randomise.
    pub seed: u64,
    /// Rate that the application wants, for schemes that signal it.
    pub desired_rate: Rate,
    /// Bytes of header on the wire per segment, for schemes that compare windows with link rates.
    pub header_bytes: u32,
    /// Weight in the WCC family.
    pub weight: f64,
    /// Requirement for Hercules; none if the application has none.
    pub requirement: Option<Requirement>,
    /// Feedback of marks that the connection has.
    pub feedback: Feedback,
    /// Scheme parameters by name.
    pub params: BTreeMap<String, f64>,
    /// Rules for a scheme that runs a rule file.
    #[cfg(feature = "policies")]
    pub rules: Option<Arc<Rules>>,
}

/// State that stays with a connection when its scheme changes, as in Linux's `tcp_sock`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Slow-start threshold in segments (`snd_ssthresh`).
    pub threshold: u32,
    /// Window of the connection's start in segments, from which it restarts after silence (`tcp_init_cwnd`).
    pub restart_window: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1448,
            initial_window: 10,
            slow_start: true,
            carried: None,
            seed: 0,
            desired_rate: Rate(10_000_000_000),
            header_bytes: 52,
            weight: 1.0,
            requirement: None,
            feedback: Feedback::None,
            params: BTreeMap::new(),
            #[cfg(feature = "policies")]
            rules: None,
        }
    }
}

impl Config {
    /// The value of parameter `name`; zero if the scheme does not declare it ([`registry::build`](crate::registry::build) fills in declared ones).
    #[must_use]
    pub fn param(&self, name: &str) -> f64 {
        self.params.get(name).copied().unwrap_or(0.0)
    }
}

/// Checks that the requirement of `config`, if any, is a range.
///
/// # Errors
///
/// [`BuildError::Requirement`] if it is not.
pub fn check_requirement(config: &Config) -> Result<(), BuildError> {
    match config.requirement {
        Some(Requirement { min, max }) if min >= max => Err(BuildError::Requirement { min, max }),
        _ => Ok(()),
    }
}

/// Checks that `scheme` can share by `weight`.
///
/// # Errors
///
/// [`BuildError::Weight`] if it is not above the scheme's bound, or above [`MOST_WEIGHT`].
pub fn check_weight(scheme: &'static Scheme, weight: f64) -> Result<(), BuildError> {
    match scheme.weight_above {
        Some(above) if !(weight > above && weight <= MOST_WEIGHT) => {
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
