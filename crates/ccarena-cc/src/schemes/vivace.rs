//! `vivace`: PCC Vivace (Dong et al., NSDI 2018) as its authors' later code, PCC-Uspace, does it.
//!
//! U = y^0.9 - 900·g·y - 11.35·L·y, y being the rate measured in sending. RTT gradients g count when they are above the
//! error of their regression or RTTs trend upwards across monitor intervals; falling RTTs earn nothing.

use super::pcc::{Gate, Limits, Pcc, Settings, Terms, USPACE};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "vivace",
    summary: "PCC Vivace (NSDI 2018), as in PCC-Uspace: rate by the gradient of a utility of rate, latency and loss",
    params: &[
        Param {
            name: "initial_rate_mbps",
            default: 1.12,
            min: 0.5,
            max: 10_000.0,
            doc: "first rate in Mbit/s at an RTT of 100 ms (10 packets of 1400 bytes), more with a shorter one",
        },
        Param {
            name: "latency_coefficient",
            default: 900.0,
            min: 0.0,
            max: 1e5,
            doc: "coefficient of the RTT gradient, per Mbit/s (b in the paper)",
        },
        Param {
            name: "loss_coefficient",
            default: 11.35,
            min: 0.0,
            max: 1000.0,
            doc: "coefficient of the loss, per Mbit/s (c in the paper)",
        },
    ],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Pcc::new(config, settings)),
};

fn settings(config: &Config) -> Settings {
    Settings {
        variant: USPACE,
        limits: Limits {
            initial_bps: config.param("initial_rate_mbps") * 1e6,
            start_cap_bps: None,
            ceiling_bps: None,
            pairs: 3,
            votes_up: 2,
            votes_down: 3,
        },
        terms: Terms {
            loss: config.param("loss_coefficient"),
            latency: config.param("latency_coefficient"),
            deviation_per_us: 0.0,
            gate: Gate::SignificantOrTrending,
            gradient_threshold: 0.0,
            deviation_threshold_us: 0.0,
            spares_decreases: false,
            measured_rate: true,
            requirement: None,
            requirement_scales_loss: false,
            requirement_at_nominal_rate: false,
        },
        interval_factor: 1.0,
    }
}
