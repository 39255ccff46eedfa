//! Step size: in proportion to the utility's gradient, faster the longer the direction holds, within bounds that widen
//! while they bind (Vivace §4).

use crate::elementary;

use super::variant::Variant;

/// Megabit in the code bases, 2^20: used in converting the gradient, and in converting the step back.
const MEGABIT: f64 = 1_048_576.0;
/// Mbit/s per unit of gradient (θ).
const GAIN: f64 = 1.0;
const MOMENTUM_EXPONENT: f64 = 1.2;
/// Largest change, as a fraction of the rate, and what each binding in a row adds.
const BOUND: f64 = 0.05;
const BOUND_INCREMENT: f64 = 0.05;

/// A utility gradient: differences of utility and of rate in bit/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slope {
    pub(super) utility: f64,
    pub(super) rate: f64,
}

/// Remembers how often the change has been bounded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Steps {
    bounded: u32,
}

impl Steps {
    pub(super) fn reset(&mut self) {
        self.bounded = 0;
    }

    /// The step in bit/s from `rate`, where `tried` was the rate of the (first) result; `rounds` of moving in one
    /// direction, zero for the first move.
    pub(super) fn size(&mut self, slope: Slope, rate: f64, tried: f64, rounds: u32, variant: &Variant) -> f64 {
        let gradient = if slope.rate > 0.0 { slope.utility * MEGABIT / slope.rate } else { 0.0 };
        let momentum =
            if rounds == 0 { 1.0 } else { elementary::powf(f64::from(rounds.div_ceil(2)), MOMENTUM_EXPONENT) };
        let mut step = gradient * MEGABIT * GAIN * momentum;
        let bound = rate * (BOUND + BOUND_INCREMENT * f64::from(self.bounded));
        if step > bound {
            step = bound;
            self.bounded = self.bounded.saturating_add(1);
        } else {
            self.bounded = self.bounded.saturating_sub(1);
        }
        step.max(variant.min_step_fraction * tried).max(variant.min_step_bps)
    }
}

#[cfg(test)]
mod tests {
    use super::super::variant::{HERCULES, USPACE};
    use super::*;

    /// Slope between probes at ±5 % without penalties.
    fn free_slope(rate: f64) -> Slope {
        let utility = |x: f64| (x / 1e6).powf(0.9);
        Slope { utility: utility(1.05 * rate) - utility(0.95 * rate), rate: 0.1 * rate }
    }

    fn first(rate: f64, variant: &Variant) -> f64 {
        Steps::default().size(free_slope(rate), rate, rate, 0, variant)
    }

    #[test]
    fn small_flows_are_bound_from_above_and_large_ones_from_below() {
        let close = |value: f64, expected: f64| assert!((value / expected - 1.0).abs() < 2e-3, "{value}");
        // The gradient's own step, 1.0995 times the slope 0.9·x^-0.1, is 0.62 Mbit/s here: less than 1 %.
        close(first(100e6, &HERCULES), 1e6);
        close(first(100e6, &USPACE), 0.6244e6);
        close(first(20e6, &HERCULES), 0.7334e6);
        // 0.79 Mbit/s are more than 5 %.
        close(first(10e6, &HERCULES), 0.5e6);
        close(first(10e3, &HERCULES), 1e3);
        close(first(1e6, &USPACE), 0.5e6);
    }

    #[test]
    fn the_bound_widens_while_it_binds() {
        let mut steps = Steps::default();
        let steep = Slope { utility: 10.0, rate: 1e4 };
        for bound in [0.05, 0.10, 0.15] {
            assert!((steps.size(steep, 1e6, 1e6, 0, &HERCULES) - bound * 1e6).abs() < 1.0);
        }
        steps.size(Slope { utility: 0.0, rate: 1e4 }, 1e6, 1e6, 0, &HERCULES);
        assert!((steps.size(steep, 1e6, 1e6, 0, &HERCULES) - 0.15e6).abs() < 1.0);
        steps.reset();
        assert!((steps.size(steep, 1e6, 1e6, 0, &HERCULES) - 0.05e6).abs() < 1.0);
    }

    #[test]
    fn momentum_grows_every_other_round() {
        let step = |rounds| Steps::default().size(free_slope(1e9), 1e9, 1e7, rounds, &HERCULES);
        let base = step(0);
        for (rounds, factor) in [(1, 1.0), (2, 1.0), (3, 2.297), (4, 2.297), (5, 3.737), (7, 5.278), (9, 6.899)] {
            assert!((step(rounds) / base - factor).abs() < 1e-3, "{rounds}: {}", step(rounds) / base);
        }
    }

    #[test]
    fn equal_rates_give_the_smallest_step() {
        let step = Steps::default().size(Slope { utility: 5.0, rate: 0.0 }, 1e6, 1e6, 3, &HERCULES);
        assert!((step - 1e4).abs() < 1e-6);
    }
}
