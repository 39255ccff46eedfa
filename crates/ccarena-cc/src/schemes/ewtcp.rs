//! `ewtcp`: EWTCP (Honda et al., PFLDNeT 2009), in the form of Zheng et al., §II.
//!
//! AI = a², MD = 1/2: by the square-root law the rate is then as the weight, if round-trip times do not depend on it.

use super::aimd::{Aimd, SQUARED_INCREASE};
use crate::feedback::Feedback;
use crate::scheme::Scheme;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "ewtcp",
    summary: "weighted AIMD: the increase is the squared weight, a loss halves (EWTCP; WCC §II)",
    params: &[],
    learned: false,
    rules: false,
    weight_above: Some(0.0),
    requirement: false,
    alias_of: Some("reno"),
    feedback: Feedback::None,
    build: |config| Box::new(Aimd::new(config, SQUARED_INCREASE)),
};
