//! `hercules`: rate control by application requirements (Hercules, see the docs' list of papers), as its authors' QUIC
//! server does it. A flow below its requirement gives latency less weight, and so takes from flows above theirs.
//!
//! U = x^0.9 - 11.35·L·x - H·25·g·x - H·φ·σ·x, H being between 0 (requirement not met) and 1 (`pcc/requirement.rs`);
//! flows without a requirement have H = 1. An application with requirement (a, b) must itself send no more than b; the
//! controller's own ceiling is 1.06·b.
//!
//! Gradients below 0.02 and deviations below 0.5 ms count as none. Requirements therefore have an effect on paths whose
//! RTTs vary by about a millisecond, as those of hosts and wide-area networks do. On a link without any jitter the
//! effect is much smaller.
//!
//! Defaults are the published code's, with which the paper's figures were made. The paper's own formula is
//! `loss_scaled_by_h: 1, phi: 7.5e-4, asymmetric_rtt_penalty: 0, span_cap: 1e6, h_rate: 1`.

use super::pcc::{Gate, HERCULES, Limits, Pcc, RequirementPenalty, Settings, Terms, Variant};
use crate::feedback::Feedback;
use crate::param::Param;
use crate::scheme::{Config, Scheme};
use crate::types::Requirement;

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "hercules",
    summary: "Hercules: PCC with a utility that minds latency less while a flow's requirement is not met",
    params: &[
        Param {
            name: "initial_rate_mbps",
            default: INITIAL_RATE_MBPS,
            min: 0.005,
            max: 10_000.0,
            doc: "first rate in Mbit/s (32 packets of 1460 bytes per 100 ms); 1.06 times the required rate if that is less",
        },
        Param {
            name: "phi",
            default: 7.5e-5,
            min: 0.0,
            max: 1.0,
            doc: "coefficient of the RTT deviation, per microsecond and Mbit/s (the paper's 750 per second is 7.5e-4)",
        },
        Param {
            name: "gamma",
            default: 25.0,
            min: 0.0,
            max: 10_000.0,
            doc: "coefficient of the RTT gradient, per Mbit/s",
        },
        Param { name: "beta", default: 11.35, min: 0.0, max: 1000.0, doc: "coefficient of the loss, per Mbit/s" },
        Param {
            name: "d",
            default: 2.0,
            min: 0.001,
            max: 1e4,
            doc: "D, the steepness of H between the required rates",
        },
        Param {
            name: "span_cap",
            default: 1.5,
            min: 1.01,
            max: 1e6,
            doc: "within H, b counts as at most this times a (the paper: no cap, which 1e6 is)",
        },
        Param {
            name: "loss_scaled_by_h",
            default: 0.0,
            min: 0.0,
            max: 1.0,
            doc: "1: H multiplies the loss penalty too (the paper)",
        },
        Param {
            name: "h_rate",
            default: 0.0,
            min: 0.0,
            max: 1.0,
            doc: "rate that H is taken at; 0: that of acknowledgements, if it is the lower; 1: that of the interval (the paper)",
        },
        Param {
            name: "asymmetric_rtt_penalty",
            default: 1.0,
            min: 0.0,
            max: 1.0,
            doc: "1: only intervals that try a higher rate pay for latency; 0: all do (the paper)",
        },
        Param {
            name: "gradient_threshold",
            default: 0.02,
            min: 0.0,
            max: 1.0,
            doc: "RTT gradients below this are none (the paper: 0)",
        },
        Param {
            name: "deviation_threshold_us",
            default: 500.0,
            min: 0.0,
            max: 1e6,
            doc: "RTT deviations below this are none, in microseconds (the paper: 0)",
        },
    ],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: true,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Pcc::new(config, settings)),
};

/// 32 packets of 1460 bytes per 100 ms.
pub(super) const INITIAL_RATE_MBPS: f64 = 3.7376;
/// Rates of packets over rates of the application, an allowance for headers.
const HEADER_ALLOWANCE: f64 = 1.06;
/// Starting goes no further beyond the required rate.
const START_CAP: f64 = 1.5;
/// Flows that may become faster than this (100 times 2^20 bit/s) have shorter monitor intervals.
const FAST_BPS: f64 = 104_857_600.0;

/// Length of a monitor interval in minimum RTTs.
pub(super) fn interval_factor(requirement: Option<Requirement>) -> f64 {
    if requirement.is_some_and(|r| HEADER_ALLOWANCE * r.max.0 as f64 > FAST_BPS) { 1.0 } else { 1.5 }
}

/// Rates that a requirement sets.
fn limits(initial_bps: f64, requirement: Option<Requirement>) -> Limits {
    let (a, b) = requirement.map_or((0.0, 0.0), |r| (r.min.0 as f64, r.max.0 as f64));
    let required = Some(HEADER_ALLOWANCE * a).filter(|&rate| rate > 0.0);
    let ceiling_bps = Some(HEADER_ALLOWANCE * b).filter(|&rate| rate > 0.0);
    let most_at_start = required.map_or(f64::INFINITY, |rate| START_CAP * rate);
    Limits {
        initial_bps: initial_bps.min(required.unwrap_or(f64::INFINITY)),
        start_cap_bps: ceiling_bps.map(|ceiling| ceiling.min(most_at_start)),
        ceiling_bps,
        pairs: 2,
        votes_up: 2,
        votes_down: 2,
    }
}

fn settings(config: &Config) -> Settings {
    let on = |name| config.param(name) >= 0.5;
    let requirement = config.requirement;
    let asymmetric = on("asymmetric_rtt_penalty");
    let penalty = |r| RequirementPenalty::new(r, config.param("span_cap"), config.param("d"));
    Settings {
        variant: Variant { asymmetric, ..HERCULES },
        limits: limits(config.param("initial_rate_mbps") * 1e6, requirement),
        terms: Terms {
            loss: config.param("beta"),
            latency: config.param("gamma"),
            deviation_per_us: config.param("phi"),
            gate: Gate::Significant,
            gradient_threshold: config.param("gradient_threshold"),
            deviation_threshold_us: config.param("deviation_threshold_us"),
            spares_decreases: asymmetric,
            measured_rate: false,
            requirement: requirement.and_then(penalty),
            requirement_scales_loss: on("loss_scaled_by_h"),
            requirement_at_nominal_rate: on("h_rate"),
        },
        interval_factor: interval_factor(requirement),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Rate;

    fn mbps(min: f64, max: f64) -> Option<Requirement> {
        Some(Requirement { min: Rate::from_mbps(min), max: Rate::from_mbps(max) })
    }

    #[test]
    fn a_requirement_bounds_the_start() {
        let close = |value: Option<f64>, mbps: f64| assert!((value.unwrap() - mbps * 1e6).abs() < 1e-3, "{value:?}");
        let small = limits(3.7376e6, mbps(1.0, 1.5));
        close(Some(small.initial_bps), 1.06);
        close(small.start_cap_bps, 1.59);
        close(small.ceiling_bps, 1.59);
        let wide = limits(3.7376e6, mbps(10.0, 1500.0));
        close(Some(wide.initial_bps), 3.7376);
        close(wide.start_cap_bps, 15.9);
        close(wide.ceiling_bps, 1590.0);
        let upper_only = limits(3.7376e6, mbps(0.0, 8.0));
        close(Some(upper_only.initial_bps), 3.7376);
        close(upper_only.start_cap_bps, 8.48);
        let none = limits(3.7376e6, None);
        assert!(none.start_cap_bps.is_none() && none.ceiling_bps.is_none());
    }

    #[test]
    fn intervals_are_shorter_for_fast_flows() {
        let factor = |b| interval_factor(mbps(1.0, b));
        assert_eq!((factor(98.9), factor(99.0), interval_factor(None)), (1.5, 1.0, 1.5));
    }
}
