//! `vivace-hercules`: Vivace as the Hercules authors benchmarked it: [`hercules`](super::hercules)' sender without
//! requirements, deviation or the significance test of gradients, with three pairs of probes of which two decide.
//!
//! It is not [`vivace`](super::vivace): latency weighs a 36th, and decreases are spared it.

use super::hercules::{INITIAL_RATE_MBPS, interval_factor};
use super::pcc::{Gate, HERCULES, Limits, Pcc, Settings, Terms};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "vivace-hercules",
    summary: "PCC Vivace as modified and benchmarked by the Hercules authors",
    params: &[
        Param {
            name: "initial_rate_mbps",
            default: INITIAL_RATE_MBPS,
            min: 0.005,
            max: 10_000.0,
            doc: "first rate in Mbit/s",
        },
        Param {
            name: "gamma",
            default: 25.0,
            min: 0.0,
            max: 10_000.0,
            doc: "coefficient of the RTT gradient, per Mbit/s (Vivace: 900)",
        },
        Param { name: "beta", default: 11.35, min: 0.0, max: 1000.0, doc: "coefficient of the loss, per Mbit/s" },
        Param {
            name: "votes_down",
            default: 2.0,
            min: 2.0,
            max: 3.0,
            doc: "pairs of probes, of three, that have to agree on a decrease (PCC-Uspace: 3)",
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
        variant: HERCULES,
        limits: Limits {
            initial_bps: config.param("initial_rate_mbps") * 1e6,
            start_cap_bps: None,
            ceiling_bps: None,
            pairs: 3,
            votes_up: 2,
            votes_down: if config.param("votes_down") >= 2.5 { 3 } else { 2 },
        },
        terms: Terms {
            loss: config.param("beta"),
            latency: config.param("gamma"),
            deviation_per_us: 0.0,
            gate: Gate::Open,
            gradient_threshold: 0.02,
            deviation_threshold_us: 0.0,
            spares_decreases: true,
            measured_rate: false,
            requirement: None,
            requirement_scales_loss: false,
            requirement_at_nominal_rate: false,
        },
        interval_factor: interval_factor(config.requirement),
    }
}
