//! The requirement penalty H of Hercules: how much a flow minds latency, by how well its requirement is met.
//!
//! H = arctan(D·(x̄ - 1/2))/π + 1/2, where x̄ is 0 at the least rate that the application requires and 1 at the largest.

use std::f64::consts::PI;

use crate::elementary;
use crate::types::Requirement;

/// H as a function of the rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequirementPenalty {
    min_mbps: f64,
    span_mbps: f64,
    d: f64,
}

impl RequirementPenalty {
    /// H for a requirement (a, b), b counting as at most `span_cap`·a. None, which stands for H = 1, without a least rate.
    pub(crate) fn new(requirement: Requirement, span_cap: f64, d: f64) -> Option<Self> {
        let (a, b) = (requirement.min.as_mbps(), requirement.max.as_mbps());
        let span_mbps = b.min(span_cap * a) - a;
        (a > 0.0 && span_mbps > 0.0).then_some(Self { min_mbps: a, span_mbps, d })
    }

    /// H at `rate_mbps`: between 0 and 1.
    pub(crate) fn at(&self, rate_mbps: f64) -> f64 {
        let normalised = (rate_mbps - self.min_mbps) / self.span_mbps;
        elementary::atan(self.d * (normalised - 0.5)) / PI + 0.5
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Rate;

    fn penalty(min: f64, max: f64) -> Option<RequirementPenalty> {
        RequirementPenalty::new(Requirement { min: Rate::from_mbps(min), max: Rate::from_mbps(max) }, 1.5, 2.0)
    }

    #[test]
    fn has_the_values_of_the_formula() {
        for max in [15.0, 150.0, 1500.0] {
            let h = penalty(10.0, max).unwrap();
            let table = [
                (0.0, 0.063),
                (0.5, 0.102),
                (0.7, 0.136),
                (0.855, 0.180),
                (1.0, 0.25),
                (1.25, 0.5),
                (1.5, 0.75),
                (2.0, 0.898),
                (3.0, 0.955),
            ];
            for (x, expected) in table {
                let value = h.at(10.0 * x);
                assert!((value - expected).abs() < 6e-4, "H({x} a) = {value}, b = {max}");
            }
        }
    }

    #[test]
    fn a_wide_span_counts_only_if_asked_to() {
        let requirement = Requirement { min: Rate::from_mbps(10.0), max: Rate::from_mbps(150.0) };
        let wide = RequirementPenalty::new(requirement, 1e6, 2.0).unwrap();
        assert!((wide.at(80.0) - 0.5).abs() < 1e-12);
        assert!(penalty(0.0, 150.0).is_none(), "no least rate: H = 1");
    }
}
