//! `wcc-md`: WCC that weighs the decrease (Zheng et al., §III-A, "WCC-MD").
//!
//! AI = 1, MD = 1/(2a), so that a > 1/2. With a deep buffer the shares are equal whatever the weights (Observation 2).

use super::aimd::{Aimd, DECREASE};
use crate::feedback::Feedback;
use crate::scheme::Scheme;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "wcc-md",
    summary: "weighted AIMD: a loss takes 1/(2 weight) of the window (WCC §III)",
    params: &[],
    learned: false,
    rules: false,
    weight_above: Some(0.5),
    requirement: false,
    alias_of: Some("reno"),
    feedback: Feedback::None,
    build: |config| Box::new(Aimd::new(config, DECREASE)),
};
