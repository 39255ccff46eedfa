//! `hyvar`: CUBIC with a learner that is asked only when the network's state calls for it, at the end of monitoring time
//! periods (MTP) whose length follows that state (Qiu et al., "Hybrid Congestion Control with Variable Monitoring Time
//! Period", slides). [`hybrid`](super::hybrid) has what it shares with Orca.
//!
//! At the end of a period, with R̂ = sRTT/RTT_min, ∇ its change since the period before and `loss` the lost share of bytes:
//!
//! | case | condition | next period | who acts |
//! |---|---|---|---|
//! | 1 | R̂ ≤ α, ∇ < 0, loss < δ | MTP · 2^S(−∇) | CUBIC alone |
//! | 2 | R̂ ≤ α, ∇ ≥ 0, loss < δ | MTP · e^(−∇/α) | CUBIC alone |
//! | 3 | R̂ ≤ α, loss ≥ δ | the same | the learner, then CUBIC |
//! | 4 | R̂ > α | MTP · e^(−R̂/α) | the learner, then CUBIC |
//!
//! The slides give no number, do not define S, of which the name and the rising exponent suggest the logistic function of
//! −∇, and print case 3 with loss < δ, which cases 1 and 2 exhaust: see the parameters.

mod reasoner;

use self::reasoner::Reasoner;
use super::cubic;
use super::hybrid::{Hybrid, MAX_ACTION_PARAM, PACING_GAIN_PARAM, WINDOW_LIMIT_PARAM};
use crate::scheme::{Param, Scheme};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "hyvar",
    summary: "Hyvar: CUBIC, and a learner that scales its window when delay or loss call for it; variable period",
    params: &[
        Param {
            name: "alpha",
            default: 1.25,
            min: 1.0,
            max: 10.0,
            doc: "α, the ratio of smoothed to smallest RTT above which the learner acts (not in the slides)",
        },
        Param {
            name: "delta",
            default: 0.01,
            min: 0.0,
            max: 1.0,
            doc: "δ, the lost share of bytes from which the learner acts (not in the slides)",
        },
        Param {
            name: "mtp_ms",
            default: 20.0,
            min: 1.0,
            max: 10_000.0,
            doc: "the first period in ms, within the bounds that follow (not in the slides)",
        },
        Param {
            name: "mtp_min_ms",
            default: 10.0,
            min: 1.0,
            max: 10_000.0,
            doc: "shortest period in ms (not in the slides)",
        },
        Param {
            name: "mtp_max_ms",
            default: 200.0,
            min: 1.0,
            max: 10_000.0,
            doc: "longest period in ms, where that is not below the shortest (not in the slides)",
        },
        Param {
            name: "steepness",
            default: 1.0,
            min: 0.0,
            max: 1000.0,
            doc: "k of S(x) = 1/(1 + e^(-kx)) in case 1; 0 makes growth √2 per period (the slides name S alone)",
        },
        Param {
            name: "case3_as_printed",
            default: 0.0,
            min: 0.0,
            max: 1.0,
            doc: "1: the learner acts at loss < δ, so also in cases 1 and 2, and not at loss >= δ below α (the slides)",
        },
        Param { name: "learn_1", default: 0.0, min: 0.0, max: 1.0, doc: "1: the learner acts in case 1 too" },
        Param { name: "learn_2", default: 0.0, min: 0.0, max: 1.0, doc: "1: the learner acts in case 2 too" },
        Param { name: "learn_3", default: 1.0, min: 0.0, max: 1.0, doc: "1: the learner acts in case 3" },
        Param {
            name: "learn_4",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            doc: "1: the learner acts in case 4 (the slides say so of case 3 alone)",
        },
        MAX_ACTION_PARAM,
        WINDOW_LIMIT_PARAM,
        PACING_GAIN_PARAM,
        cubic::SCHEME.params[0],
        cubic::SCHEME.params[1],
        cubic::SCHEME.params[2],
    ],
    learned: true,
    weight_above: None,
    requirement: false,
    build: |config| Box::new(Hybrid::new(config, Reasoner::new(config))),
};
