//! Utility of a monitor interval: U = x^0.9 - loss·L·x - H·latency·g·x - H·deviation·σ·x. x is the rate in Mbit/s, L
//! the fraction lost, g the RTT gradient, σ the RTT's standard deviation in microseconds.
//!
//! Where the Hercules paper prints the bracket with penalties of either sign, all are subtracted, as in its code. Numbers
//! are of double precision; the code bases' are of single.

use crate::elementary;

use super::interval::Statistics;
use super::requirement::RequirementPenalty;
use super::trend::Trend;

/// Exponent of the rate (Vivace §3.2).
const EXPONENT: f64 = 0.9;
/// Deviation needs this many samples.
const DEVIATION_SAMPLES: u64 = 3;
/// Weight of an interval in the average rate of acknowledgement.
const ACK_RATE_GAIN: f64 = 0.25;

/// Gate for RTT gradients that count as congestion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// All.
    Open,
    /// Gradients above the error of their regression.
    Significant,
    /// Gradients above the error, and any while RTTs trend upwards across intervals.
    SignificantOrTrending,
}

/// The terms of a utility.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Coefficient of the fraction lost.
    pub(crate) loss: f64,
    /// Coefficient of the RTT gradient.
    pub(crate) latency: f64,
    /// Coefficient of the RTT deviation, per microsecond.
    pub(crate) deviation_per_us: f64,
    pub(crate) gate: Gate,
    /// Smaller gradients are none.
    pub(crate) gradient_threshold: f64,
    /// Smaller deviations are none.
    pub(crate) deviation_threshold_us: f64,
    /// Flag that only intervals that try a higher rate pay for latency.
    pub(crate) spares_decreases: bool,
    /// The rate is what was sent, rather than what was to be.
    pub(crate) measured_rate: bool,
    /// Hercules' H; none is H = 1.
    pub(crate) requirement: Option<RequirementPenalty>,
    /// H multiplies the loss as well, as in the paper.
    pub(crate) requirement_scales_loss: bool,
    /// H is taken at the rate of the interval rather than at that of acknowledgements.
    pub(crate) requirement_at_nominal_rate: bool,
}

/// Evaluates intervals, in order: it remembers RTTs and rates of acknowledgement.
#[derive(Clone, Debug)]
pub(super) struct Utility {
    terms: Terms,
    trend: Trend,
    /// Average rate of acknowledgement in Mbit/s.
    ack_rate_mbps: Option<f64>,
}

impl Utility {
    pub(super) fn set_terms(&mut self, terms: Terms) {
        self.terms = terms;
    }

    pub(super) fn new(terms: Terms) -> Self {
        Self { terms, trend: Trend::default(), ack_rate_mbps: None }
    }

    /// The utility of an interval.
    pub(super) fn of(&mut self, s: &Statistics) -> f64 {
        self.evaluate(s, s.increase || !self.terms.spares_decreases, 0.0)
    }

    /// The same with latency charged in any case, where half the RTT's fall over the interval is allowed as deviation: what
    /// a further decrease is compared with.
    pub(super) fn with_latency(&mut self, s: &Statistics) -> f64 {
        self.evaluate(s, true, s.deflation_us / 2.0)
    }

    fn evaluate(&mut self, s: &Statistics, charged: bool, allowance_us: f64) -> f64 {
        let t = self.terms;
        if let Some(rate) = s.ack_rate {
            let average = self.ack_rate_mbps.get_or_insert(rate / 1e6);
            *average += ACK_RATE_GAIN * (rate / 1e6 - *average);
        }
        let gradient = self.gradient(s);
        let enough = s.samples >= DEVIATION_SAMPLES && s.deviation_us >= t.deviation_threshold_us + allowance_us;
        let deviation_us = if enough { s.deviation_us } else { 0.0 };
        let latency = if charged { t.latency * gradient + t.deviation_per_us * deviation_us } else { 0.0 };

        let h = self.requirement_penalty(s.rate / 1e6);
        let loss = if t.requirement_scales_loss { h * t.loss * s.loss } else { t.loss * s.loss };
        let x = if t.measured_rate { s.sent_rate } else { s.rate } / 1e6;
        elementary::powf(x, EXPONENT) - (loss + h * latency) * x
    }

    /// The gradient that is charged for.
    fn gradient(&mut self, s: &Statistics) -> f64 {
        let significant = s.gradient_error < s.gradient.abs();
        let counts = match self.terms.gate {
            Gate::Open => true,
            Gate::Significant => significant,
            // The trend is kept by intervals that could have one.
            Gate::SignificantOrTrending => (s.samples >= 2 && self.trend.rises(s.mean_rtt_us)) || significant,
        };
        if counts && s.gradient >= self.terms.gradient_threshold.max(0.0) { s.gradient } else { 0.0 }
    }

    fn requirement_penalty(&self, rate_mbps: f64) -> f64 {
        let Some(requirement) = self.terms.requirement else { return 1.0 };
        match self.ack_rate_mbps {
            Some(acked) if !self.terms.requirement_at_nominal_rate => requirement.at(acked.min(rate_mbps)),
            _ => requirement.at(rate_mbps),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Rate, Requirement};

    const TERMS: Terms = Terms {
        loss: 11.35,
        latency: 25.0,
        deviation_per_us: 7.5e-5,
        gate: Gate::Significant,
        gradient_threshold: 0.02,
        deviation_threshold_us: 500.0,
        spares_decreases: true,
        measured_rate: false,
        requirement: None,
        requirement_scales_loss: false,
        requirement_at_nominal_rate: false,
    };

    fn statistics() -> Statistics {
        Statistics { rate: 100e6, sent_rate: 90e6, increase: true, samples: 50, ..Statistics::default() }
    }

    fn utility(terms: Terms, s: Statistics) -> f64 {
        Utility::new(terms).of(&s)
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9 * expected.abs().max(1.0), "{value}, not {expected}");
    }

    #[test]
    fn penalties_are_subtracted() {
        let gain = 100_f64.powf(0.9);
        close(utility(TERMS, statistics()), gain);
        close(utility(TERMS, Statistics { loss: 0.02, ..statistics() }), gain - 22.7);
        close(utility(TERMS, Statistics { gradient: 0.03, ..statistics() }), gain - 75.0);
        close(utility(TERMS, Statistics { deviation_us: 2000.0, ..statistics() }), gain - 15.0);
        close(utility(Terms { measured_rate: true, ..TERMS }, statistics()), 90_f64.powf(0.9));
    }

    #[test]
    fn small_or_insignificant_latency_is_free() {
        let gain = 100_f64.powf(0.9);
        close(utility(TERMS, Statistics { gradient: 0.0199, ..statistics() }), gain);
        close(utility(TERMS, Statistics { gradient: -0.5, ..statistics() }), gain);
        close(utility(TERMS, Statistics { gradient: 0.03, gradient_error: 0.03, ..statistics() }), gain);
        close(utility(TERMS, Statistics { deviation_us: 499.0, ..statistics() }), gain);
        let noisy = Statistics { gradient: 0.03, gradient_error: 0.03, ..statistics() };
        close(utility(Terms { gate: Gate::Open, ..TERMS }, noisy), gain - 75.0);
    }

    #[test]
    fn a_decrease_is_spared_until_it_is_compared_with() {
        let decrease = Statistics { increase: false, gradient: 0.03, deviation_us: 2000.0, ..statistics() };
        let gain = 100_f64.powf(0.9);
        close(utility(TERMS, decrease), gain);
        close(utility(Terms { spares_decreases: false, ..TERMS }, decrease), gain - 90.0);
        close(Utility::new(TERMS).with_latency(&decrease), gain - 90.0);
        // A fall of the RTT by 3.1 ms allows 1.55 ms of deviation beyond the threshold.
        let falling = Statistics { deflation_us: 3100.0, ..decrease };
        close(Utility::new(TERMS).with_latency(&falling), gain - 75.0);
    }

    #[test]
    fn the_requirement_scales_latency_and_if_asked_loss() {
        let requirement = Requirement { min: Rate::from_mbps(100.0), max: Rate::from_mbps(150.0) };
        let terms = Terms { requirement: RequirementPenalty::new(requirement, 1.5, 2.0), ..TERMS };
        let gain = 100_f64.powf(0.9);
        let s = Statistics { gradient: 0.03, loss: 0.02, ..statistics() };
        close(utility(terms, s), gain - 22.7 - 0.25 * 75.0);
        close(utility(Terms { requirement_scales_loss: true, ..terms }, s), gain - 0.25 * (22.7 + 75.0));
        // Acknowledgements tell what the flow gets: half the requirement.
        let starved = Statistics { ack_rate: Some(50e6), ..s };
        let h = (-3.0_f64).atan() / std::f64::consts::PI + 0.5;
        close(utility(terms, starved), gain - 22.7 - h * 75.0);
        close(utility(Terms { requirement_at_nominal_rate: true, ..terms }, starved), gain - 22.7 - 0.25 * 75.0);
    }

    #[test]
    fn the_rate_of_acknowledgement_is_averaged() {
        let mut utility = Utility::new(TERMS);
        for (rate, average) in [(80e6, 80.0), (40e6, 70.0), (70e6, 70.0)] {
            utility.of(&Statistics { ack_rate: Some(rate), ..statistics() });
            close(utility.ack_rate_mbps.unwrap(), average);
        }
    }
}
