//! `multcp`: MulTCP (Crowcroft and Oechslin, CCR 1998), in the form of Zheng et al., §II.
//!
//! AI = a, MD = 1/(2a), so that a > 1/2: one flow behaves like a of them.

use super::aimd::{Aimd, BOTH};
use crate::feedback::Feedback;
use crate::scheme::Scheme;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "multcp",
    summary: "weighted AIMD: like as many NewReno flows as the weight says (MulTCP; WCC §II)",
    params: &[],
    learned: false,
    rules: false,
    weight_above: Some(0.5),
    requirement: false,
    alias_of: Some("reno"),
    feedback: Feedback::None,
    build: |config| Box::new(Aimd::new(config, BOTH)),
};
