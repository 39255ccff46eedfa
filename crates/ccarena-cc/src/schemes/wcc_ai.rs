//! `wcc-ai`: WCC that weighs the increase (Zheng et al., §III-A, "WCC-AI").
//!
//! AI = a, MD = 1/2. With a deep buffer the shares are as the weights; with none, as their roots (Observation 1).

use super::aimd::{Aimd, INCREASE};
use crate::feedback::Feedback;
use crate::scheme::Scheme;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "wcc-ai",
    summary: "weighted AIMD: the increase is the weight, a loss halves (WCC §III)",
    params: &[],
    learned: false,
    rules: false,
    weight_above: Some(0.0),
    requirement: false,
    alias_of: Some("reno"),
    feedback: Feedback::None,
    build: |config| Box::new(Aimd::new(config, INCREASE)),
};
