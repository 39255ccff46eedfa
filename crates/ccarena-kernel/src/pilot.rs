//! Numbers of the scheme `pilot` for its program in the kernel (`bpf/pilot.bpf.c`).

use std::collections::BTreeMap;

use ccarena_cc::schemes::pilot::{SCHEME, numbers};
use ccarena_cc::{BuildError, Config, scheme};

const RAW: f64 = (1_u64 << 20) as f64;

/// Parameters of `pilot` that are checked and complete, as the program takes them: in units of 2^-20.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers(pub(crate) Vec<u8>);

impl Numbers {
    /// Returns the numbers for `given` parameters; others have their defaults.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds.
    pub fn new(given: &BTreeMap<String, f64>) -> Result<Self, BuildError> {
        let config = Config { params: scheme::complete_params(&SCHEME, given)?, ..Config::default() };
        Ok(Self(numbers(&config).into_iter().flat_map(|x| ((x * RAW).round() as i64).to_ne_bytes()).collect()))
    }
}
