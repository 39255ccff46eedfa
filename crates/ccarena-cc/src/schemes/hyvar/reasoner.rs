//! The state reasoner: which case a period was, how long the next one is, and whether the learner is asked.

use crate::scheme::Config;
use crate::schemes::hybrid::{Selector, Sight, Verdict};
use crate::types::Dur;

/// Cases; none is left for what the printed case 3 does not cover.
const NONE: u8 = 0;
const FALLING: u8 = 1;
const RISING: u8 = 2;
const LOSSY: u8 = 3;
const QUEUED: u8 = 4;

#[derive(Clone, Debug)]
pub(super) struct Reasoner {
    alpha: f64,
    delta: f64,
    steepness: f64,
    as_printed: bool,
    /// By case, of which the first is none.
    learns: [bool; 5],
    least_s: f64,
    most_s: f64,
    mtp_s: f64,
    rtt_ratio: Option<f64>,
}

impl Reasoner {
    pub(super) fn new(config: &Config) -> Self {
        let (seconds, yes) = (|name| config.param(name) / 1e3, |name| config.param(name) >= 0.5);
        let least_s = seconds("mtp_min_ms");
        let most_s = seconds("mtp_max_ms").max(least_s);
        Self {
            alpha: config.param("alpha"),
            delta: config.param("delta"),
            steepness: config.param("steepness"),
            as_printed: yes("case3_as_printed"),
            learns: [false, yes("learn_1"), yes("learn_2"), yes("learn_3"), yes("learn_4")],
            least_s,
            most_s,
            mtp_s: seconds("mtp_ms").clamp(least_s, most_s),
            rtt_ratio: None,
        }
    }

    fn case(&self, sight: Sight, gradient: f64) -> u8 {
        if sight.rtt_ratio > self.alpha {
            QUEUED
        } else if sight.loss_ratio >= self.delta {
            if self.as_printed { NONE } else { LOSSY }
        } else if gradient < 0.0 {
            FALLING
        } else {
            RISING
        }
    }

    /// By what the period grows.
    fn factor(&self, case: u8, rtt_ratio: f64, gradient: f64) -> f64 {
        match case {
            FALLING => (1.0 / (1.0 + (self.steepness * gradient).exp())).exp2(),
            RISING => (-gradient / self.alpha).exp(),
            QUEUED => (-rtt_ratio / self.alpha).exp(),
            _ => 1.0,
        }
    }
}

impl Selector for Reasoner {
    fn first(&self) -> Dur {
        Dur::from_secs_f64(self.mtp_s)
    }

    fn judge(&mut self, sight: Sight) -> Verdict {
        let gradient = self.rtt_ratio.replace(sight.rtt_ratio).map_or(0.0, |before| sight.rtt_ratio - before);
        let case = self.case(sight, gradient);
        self.mtp_s = (self.mtp_s * self.factor(case, sight.rtt_ratio, gradient)).clamp(self.least_s, self.most_s);
        // As printed, case 3 covers cases 1 and 2, which then set the period, and the learner acts in both.
        let printed = self.as_printed && self.learns[usize::from(LOSSY)] && matches!(case, FALLING | RISING);
        let ask = printed || self.learns[usize::from(case)];
        Verdict { case, ask, mtp: self.first() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::complete_params;
    use crate::schemes::hyvar::SCHEME;

    fn reasoner(params: &[(&str, f64)]) -> Reasoner {
        let given = params.iter().map(|&(name, value)| (name.to_string(), value)).collect();
        Reasoner::new(&Config { params: complete_params(&SCHEME, &given).unwrap(), ..Config::default() })
    }

    fn sight(rtt_ratio: f64, loss_ratio: f64) -> Sight {
        Sight { rtt_ratio, loss_ratio }
    }

    /// The period after ratios `before` and `after` from one of 100 ms, with the case and whether the learner is asked.
    fn judge(params: &[(&str, f64)], before: f64, after: f64, loss_ratio: f64) -> (u8, bool, f64) {
        let mut reasoner = reasoner(params);
        reasoner.judge(sight(before, 0.0));
        reasoner.mtp_s = 0.1;
        let verdict = reasoner.judge(sight(after, loss_ratio));
        (verdict.case, verdict.ask, verdict.mtp.as_millis_f64())
    }

    fn assert_judged(found: (u8, bool, f64), expected: (u8, bool, f64)) {
        assert_eq!((found.0, found.1), (expected.0, expected.1));
        assert!((found.2 - expected.2).abs() < 1e-3, "{} ms; expected {} ms", found.2, expected.2);
    }

    #[test]
    fn each_case_sets_the_period_as_the_slides_say() {
        // 2^S(0.1), S(0.1) = 0.524979; e^(-0.1/1.25); e^(-2/1.25).
        assert_judged(judge(&[], 1.2, 1.1, 0.0), (1, false, 100.0 * 2_f64.powf(0.524_979_187)));
        assert_judged(judge(&[], 1.1, 1.2, 0.0), (2, false, 100.0 * (-0.08_f64).exp()));
        assert_judged(judge(&[], 1.1, 1.1, 0.009), (2, false, 100.0));
        assert_judged(judge(&[], 1.2, 1.1, 0.01), (3, true, 100.0));
        assert_judged(judge(&[], 1.2, 2.0, 0.0), (4, true, 100.0 * (-1.6_f64).exp()));
        assert_judged(judge(&[], 1.2, 2.0, 0.5), (4, true, 100.0 * (-1.6_f64).exp()));
    }

    #[test]
    fn the_first_period_has_no_gradient() {
        let verdict = reasoner(&[]).judge(sight(1.2, 0.0));
        assert_eq!(verdict, Verdict { case: 2, ask: false, mtp: Dur::from_millis(20) });
    }

    #[test]
    fn periods_stay_within_their_bounds() {
        let mut reasoner = reasoner(&[("mtp_min_ms", 15.0), ("mtp_max_ms", 150.0)]);
        assert_eq!(reasoner.first(), Dur::from_millis(20));
        let mut ratio = 1.2;
        for _ in 0..20 {
            ratio -= 0.001;
            reasoner.judge(sight(ratio, 0.0));
        }
        assert_eq!(reasoner.first(), Dur::from_millis(150));
        reasoner.judge(sight(100.0, 0.0));
        assert_eq!(reasoner.first(), Dur::from_millis(15));
    }

    #[test]
    fn the_printed_case_3_asks_without_loss_and_not_with_it() {
        let printed = [("case3_as_printed", 1.0)];
        assert_judged(judge(&printed, 1.1, 1.2, 0.0), (2, true, 100.0 * (-0.08_f64).exp()));
        assert!(judge(&printed, 1.2, 1.1, 0.0).1);
        assert_judged(judge(&printed, 1.2, 1.1, 0.5), (0, false, 100.0));
        assert!(judge(&printed, 1.2, 2.0, 0.0).1);
    }

    #[test]
    fn who_acts_is_settable_by_case() {
        for case in 1..=4_u8 {
            let (before, after, loss) =
                [(1.2, 1.1, 0.0), (1.1, 1.2, 0.0), (1.1, 1.1, 0.1), (1.1, 2.0, 0.0)][case as usize - 1];
            let flags = |value| [("learn_1", value), ("learn_2", value), ("learn_3", value), ("learn_4", value)];
            assert!(judge(&flags(1.0), before, after, loss).1, "case {case}");
            assert!(!judge(&flags(0.0), before, after, loss).1, "case {case}");
        }
    }

    #[test]
    fn without_steepness_growth_is_the_root_of_two() {
        assert_judged(judge(&[("steepness", 0.0)], 1.2, 1.0, 0.0), (1, false, 100.0 * std::f64::consts::SQRT_2));
    }
}
