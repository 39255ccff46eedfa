//! The list of schemes. Adding one costs a file and two lines in [`crate::schemes`], or a spec and a line in
//! [`crate::learned::shipped`]; names, parameters, docs tables, conformance tests and command-line choices all read this
//! list.

use std::sync::LazyLock;

pub use crate::build_error::{BuildError, nearest};
use crate::controller::Controller;
#[cfg(feature = "policies")]
use crate::learned::shipped;
use crate::scheme::{Config, Scheme, check_requirement, check_weight, complete_params};

/// All registered schemes, by name.
#[must_use]
pub fn schemes() -> &'static [Scheme] {
    static SCHEMES: LazyLock<Vec<Scheme>> = LazyLock::new(|| {
        let mut schemes = crate::schemes::ALL.to_vec();
        #[cfg(feature = "policies")]
        schemes.extend(shipped::schemes());
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
        nearest: nearest(name.split('@').next().unwrap_or(name), schemes().iter().map(|s| s.name)).map(Into::into),
        known: schemes().iter().map(|s| s.name).collect::<Vec<_>>().join(", "),
    })
}

/// Builds scheme `name` with missing parameters at their defaults.
///
/// # Errors
/// If the scheme or a parameter is unknown, or a value is outside its bounds.
pub fn build(name: &str, config: &Config) -> Result<Box<dyn Controller>, BuildError> {
    check_requirement(config)?;
    let scheme = find(name)?;
    let mut full = config.clone();
    full.params = complete_params(scheme, &config.params)?;
    check_weight(scheme, config.weight)?;
    Ok((scheme.build)(&full))
}
