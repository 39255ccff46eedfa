//! Numbers of the scheme `pilot` for its program in the kernel: `struct pilot_force` of `bpf/pilot_numbers.h`.

use std::collections::BTreeMap;

use ccarena_cc::policy::kernel::sha256;
use ccarena_cc::schemes::pilot::{SCHEME, numbers};
use ccarena_cc::{BuildError, Config, scheme};

/// The scheme, and the plain name of its congestion control.
pub const NAME: &str = "pilot";
const RAW: f64 = (1_u64 << 20) as f64;
/// Room of the label, and the place of the numbers behind it.
const LABEL_BYTES: usize = 64;
const LABEL_AT: usize = 8;
const NUMBERS_AT: usize = LABEL_AT + LABEL_BYTES;

/// Parameters of `pilot` that are checked and complete, as the program takes them: in units of 2^-20.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    label: String,
    bytes: Vec<u8>,
}

impl Numbers {
    /// Returns the numbers for `given` parameters; others have their defaults.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds.
    pub fn new(given: &BTreeMap<String, f64>) -> Result<Self, BuildError> {
        let config = Config { params: scheme::complete_params(&SCHEME, given)?, ..Config::default() };
        let bytes = numbers(&config).into_iter().flat_map(|x| ((x * RAW).round() as i64).to_ne_bytes()).collect();
        let given: Vec<String> = given.iter().map(|(name, x)| format!("{name}={x}")).collect();
        let label = if given.is_empty() { NAME.into() } else { format!("{NAME}@{}", given.join(",")) };
        Ok(Self { label, bytes })
    }

    /// `struct pilot_force`, without a generation.
    pub(crate) fn force(&self) -> Vec<u8> {
        let mut bytes = vec![0; NUMBERS_AT];
        // A terminating zero stays.
        for (to, from) in bytes[LABEL_AT..NUMBERS_AT - 1].iter_mut().zip(self.label.bytes()) {
            *to = from;
        }
        bytes.extend(&self.bytes);
        bytes
    }
}

/// The number of `force` under its name.
pub(crate) fn generation_of(force: &[u8]) -> u64 {
    force.first_chunk().map_or(0, |b| u64::from_ne_bytes(*b))
}

/// The scheme with the parameters that were given.
pub(crate) fn label_of(force: &[u8]) -> String {
    let label = force.get(LABEL_AT..NUMBERS_AT).unwrap_or_default();
    String::from_utf8_lossy(label.split(|&byte| byte == 0).next().unwrap_or_default()).into_owned()
}

/// SHA-256 of the numbers, in hexadecimal digits.
pub(crate) fn digest_of(force: &[u8]) -> String {
    sha256(force.get(NUMBERS_AT..).unwrap_or_default())
}
