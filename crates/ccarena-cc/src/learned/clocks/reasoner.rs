//! Hyvar's state reasoner: the case of a period, the length of the next one, and whether the decider is asked (Qiu et
//! al., "Hybrid Congestion Control with Variable Monitoring Time Period", slides).
//!
//! At the end of a period, with R̂ = sRTT/RTT_min, ∇ its change since the period before and `loss` the lost share of bytes:
//!
//! | case | condition | next period | who acts |
//! |---|---|---|---|
//! | 1 | R̂ ≤ α, ∇ < 0, loss < δ | MTP · 2^S(−∇) | the base alone |
//! | 2 | R̂ ≤ α, ∇ ≥ 0, loss < δ | MTP · e^(−∇/α) | the base alone |
//! | 3 | R̂ ≤ α, loss ≥ δ | the same | the decider, then the base |
//! | 4 | R̂ > α | MTP · e^(−R̂/α) | the decider, then the base |
//!
//! The slides give no number and do not define S. Its name and the rising exponent suggest the logistic function of −∇.
//! They print case 3 with loss < δ, although cases 1 and 2 cover that: see the options.
//!
//! On a slow or irregular link, R̂ is above any α that suits a fast one while only a few packets are queued. With
//! `least_packets`, R̂ counts as α at most while throughput times sRTT − RTT_min is less than this number.
//!
//! If periods end by a timer, some have no acknowledgement. sRTT then lacks news, but the oldest packet in flight has
//! waited for at least the length of the silence: R̂ is not below that over RTT_min. The decider is therefore asked in
//! an outage. It is asked, too, while the application sends nothing.

use super::{Clock, ClockEntry, DatapathClock, Decision, Length};
use crate::elementary::{exp, exp2};
use crate::learned::monitor::Measured;
use crate::param::Param;
use crate::types::Dur;

const fn flag(name: &'static str, default: f64, doc: &'static str) -> Param {
    Param { name, default, min: 0.0, max: 1.0, doc }
}

const fn millis(name: &'static str, default: f64, doc: &'static str) -> Param {
    Param { name, default, min: 1.0, max: 10_000.0, doc }
}

/// Asks when the network's state calls for it.
pub const REASONER: ClockEntry = ClockEntry {
    name: "reasoner",
    doc: "periods whose length follows the network's state, which also says whether the decider is asked",
    source: "Qiu et al., Hyvar (slides)",
    options: &[
        Param { name: "alpha", default: 1.25, min: 1.0, max: 10.0, doc: "α, the largest R̂ of cases 1 to 3" },
        flag("delta", 0.01, "δ, the lost share of bytes from which it is case 3"),
        millis("period_ms", 20.0, "the first period in ms, within the bounds that follow"),
        millis("min_ms", 10.0, "shortest period in ms"),
        millis("max_ms", 200.0, "longest period in ms, where that is not below the shortest"),
        Param { name: "steepness", default: 1.0, min: 0.0, max: 1000.0, doc: "k of S(x) = 1/(1 + e^(-kx)) in case 1" },
        flag("as_printed", 0.0, "1: case 3 as the slides print it, at loss < δ, which covers cases 1 and 2"),
        flag("ask_1", 0.0, "1: the decider is asked in case 1"),
        flag("ask_2", 0.0, "1: the decider is asked in case 2"),
        flag("ask_3", 1.0, "1: the decider is asked in case 3"),
        flag("ask_4", 1.0, "1: the decider is asked in case 4"),
        Param {
            name: "min_rtts",
            default: 0.0,
            min: 0.0,
            max: 10.0,
            doc: "shortest period in smoothed RTTs, within the bounds: before a round trip no action shows",
        },
        Param {
            name: "least_packets",
            default: 0.0,
            min: 0.0,
            max: 1000.0,
            doc: "packets in the queue below which R̂ counts as α at most",
        },
        flag(
            "timed",
            0.0,
            "1: periods end by a timer, whether or not acknowledgements come: the decider is asked in an outage",
        ),
    ],
    kernel: true,
    build: |options| Box::new(Reasoner::new(options)),
};

/// Cases; none is left for what the printed case 3 does not cover.
const NONE: u8 = 0;
const FALLING: u8 = 1;
const RISING: u8 = 2;
const LOSSY: u8 = 3;
const QUEUED: u8 = 4;

/// The options of a reasoner whose periods end with acknowledgements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReasonerOptions {
    /// α, the largest R̂ of cases 1 to 3.
    pub alpha: f64,
    /// δ, the lost share of bytes from which it is case 3.
    pub delta: f64,
    /// The first period in ms.
    pub period_ms: f64,
    /// Shortest period in ms.
    pub min_ms: f64,
    /// Longest period in ms; the shortest if that is longer.
    pub max_ms: f64,
    /// k of S(x) = 1/(1 + e^(-kx)) in case 1.
    pub steepness: f64,
    /// Case 3 as the slides print it.
    pub as_printed: bool,
    /// The decider is asked in case 1, 2, 3, 4.
    pub asks: [bool; 4],
    /// Shortest period in smoothed RTTs.
    pub min_rtts: f64,
    /// Packets in the queue below which R̂ counts as α at most.
    pub least_packets: f64,
}

impl ReasonerOptions {
    /// The options among `value`, which gives each by its name in the registry.
    fn new(value: impl Fn(&str) -> f64) -> Self {
        let flag = |name: &str| value(name) >= 0.5;
        Self {
            alpha: value("alpha"),
            delta: value("delta"),
            period_ms: value("period_ms"),
            min_ms: value("min_ms"),
            max_ms: value("max_ms"),
            steepness: value("steepness"),
            as_printed: flag("as_printed"),
            asks: ["ask_1", "ask_2", "ask_3", "ask_4"].map(flag),
            min_rtts: value("min_rtts"),
            least_packets: value("least_packets"),
        }
    }

    /// The decider is asked in `case`; never in the case that is none.
    fn asks(&self, case: u8) -> bool {
        usize::from(case).checked_sub(1).and_then(|k| self.asks.get(k)).copied().unwrap_or(false)
    }
}

#[derive(Clone, Debug)]
struct Reasoner {
    options: ReasonerOptions,
    timed: bool,
    /// Time without an acknowledgement, of whole periods.
    silence: Dur,
    least_s: f64,
    most_s: f64,
    period_s: f64,
    rtt_ratio: Option<f64>,
}

impl Reasoner {
    /// A reasoner with values of the registry's options, in their order.
    fn new(values: &[f64]) -> Self {
        let value = |name: &str| {
            REASONER.options.iter().zip(values).find(|(option, _)| option.name == name).map_or(0.0, |(_, value)| *value)
        };
        let options = ReasonerOptions::new(value);
        let least_s = options.min_ms / 1e3;
        let most_s = (options.max_ms / 1e3).max(least_s);
        Self {
            options,
            timed: value("timed") >= 0.5,
            silence: Dur::ZERO,
            least_s,
            most_s,
            period_s: (options.period_ms / 1e3).clamp(least_s, most_s),
            rtt_ratio: None,
        }
    }

    fn case(&self, rtt_ratio: f64, loss_ratio: f64, gradient: f64) -> u8 {
        if rtt_ratio > self.options.alpha {
            QUEUED
        } else if loss_ratio >= self.options.delta {
            if self.options.as_printed { NONE } else { LOSSY }
        } else if gradient < 0.0 {
            FALLING
        } else {
            RISING
        }
    }

    /// R̂, which is α at most while fewer packets than `least_packets` are queued.
    fn counted(&self, rtt_ratio: f64, ended: &Measured) -> f64 {
        if ended.queued_packets() < self.options.least_packets { rtt_ratio.min(self.options.alpha) } else { rtt_ratio }
    }

    /// Returns the factor on the period.
    fn factor(&self, case: u8, rtt_ratio: f64, gradient: f64) -> f64 {
        match case {
            FALLING => exp2(1.0 / (1.0 + exp(self.options.steepness * gradient))),
            RISING => exp(-gradient / self.options.alpha),
            QUEUED => exp(-rtt_ratio / self.options.alpha),
            _ => 1.0,
        }
    }

    fn judge_ratios(&mut self, rtt_ratio: f64, loss_ratio: f64, srtt: Dur) -> Decision {
        let gradient = self.rtt_ratio.replace(rtt_ratio).map_or(0.0, |before| rtt_ratio - before);
        let case = self.case(rtt_ratio, loss_ratio, gradient);
        let least_s = (self.options.min_rtts * srtt.as_secs_f64()).clamp(self.least_s, self.most_s);
        self.period_s = (self.period_s * self.factor(case, rtt_ratio, gradient)).clamp(least_s, self.most_s);
        // As printed, case 3 covers cases 1 and 2, which then set the period, and the decider acts in both.
        let printed = self.options.as_printed && self.options.asks(LOSSY) && matches!(case, FALLING | RISING);
        let ask = printed || self.options.asks(case);
        Decision { case, ask, next: self.first() }
    }
}

impl Clock for Reasoner {
    fn first(&self) -> Length {
        let period = Dur::from_secs_f64(self.period_s);
        if self.timed { Length::Timed(period) } else { Length::Acked(period) }
    }

    fn judge(&mut self, ended: &Measured) -> Decision {
        let mut rtt_ratio = self.counted(ended.srtt_ratio(), ended);
        if self.timed {
            self.silence = if ended.acked_packets > 0 { Dur::ZERO } else { self.silence + ended.interval };
            rtt_ratio = rtt_ratio.max(ended.of_rtt_min(self.silence));
        }
        self.judge_ratios(rtt_ratio, ended.loss_ratio(), ended.srtt)
    }

    fn in_datapath(&self) -> Option<DatapathClock> {
        (!self.timed).then_some(DatapathClock::Reasoner(self.options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasoner(given: &[(&str, f64)]) -> Reasoner {
        let value = |p: &Param| given.iter().find(|(name, _)| *name == p.name).map_or(p.default, |(_, value)| *value);
        Reasoner::new(&REASONER.options.iter().map(value).collect::<Vec<_>>())
    }

    fn millis_of(length: Length) -> f64 {
        match length {
            Length::Acked(length) | Length::Timed(length) => length.as_millis_f64(),
            other => panic!("{other:?}"),
        }
    }

    /// The period after ratios `before` and `after` from one of 100 ms, with the case and whether the decider is asked.
    fn judge(options: &[(&str, f64)], before: f64, after: f64, loss_ratio: f64) -> (u8, bool, f64) {
        let mut reasoner = reasoner(options);
        reasoner.judge_ratios(before, 0.0, Dur::ZERO);
        reasoner.period_s = 0.1;
        let decision = reasoner.judge_ratios(after, loss_ratio, Dur::ZERO);
        (decision.case, decision.ask, millis_of(decision.next))
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
        let decision = reasoner(&[]).judge_ratios(1.2, 0.0, Dur::ZERO);
        assert_eq!(decision, Decision { case: 2, ask: false, next: Length::Acked(Dur::from_millis(20)) });
    }

    #[test]
    fn periods_stay_within_their_bounds() {
        let mut reasoner = reasoner(&[("min_ms", 15.0), ("max_ms", 150.0)]);
        assert!((millis_of(reasoner.first()) - 20.0).abs() < 1e-9);
        let mut ratio = 1.2;
        for _ in 0..20 {
            ratio -= 0.001;
            reasoner.judge_ratios(ratio, 0.0, Dur::ZERO);
        }
        assert!((millis_of(reasoner.first()) - 150.0).abs() < 1e-9);
        reasoner.judge_ratios(100.0, 0.0, Dur::ZERO);
        assert!((millis_of(reasoner.first()) - 15.0).abs() < 1e-9);
    }

    #[test]
    fn the_shortest_period_may_follow_the_rtt() {
        let mut reasoner = reasoner(&[("min_rtts", 1.0)]);
        for (srtt_ms, expected) in [(4, 10.0), (60, 60.0), (400, 200.0)] {
            reasoner.judge_ratios(100.0, 0.0, Dur::from_millis(srtt_ms));
            assert!((millis_of(reasoner.first()) - expected).abs() < 1e-9, "{srtt_ms} ms");
        }
    }

    #[test]
    fn a_queue_of_few_packets_is_none() {
        let ms = Dur::from_millis;
        // 10 ms of queue at a packet per 2 ms are 5 packets.
        let period =
            Measured { interval: ms(100), acked_packets: 50, rtt_min: ms(40), srtt: ms(50), ..Measured::default() };
        for (least, expected) in [(0.0, QUEUED), (4.9, QUEUED), (5.1, RISING)] {
            let mut reasoner = reasoner(&[("alpha", 1.1), ("least_packets", least)]);
            assert_eq!(reasoner.judge(&period).case, expected, "{least} packets");
        }
    }

    #[test]
    fn the_printed_case_3_asks_without_loss_and_not_with_it() {
        let printed = [("as_printed", 1.0)];
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
            let flags = |value| [("ask_1", value), ("ask_2", value), ("ask_3", value), ("ask_4", value)];
            assert!(judge(&flags(1.0), before, after, loss).1, "case {case}");
            assert!(!judge(&flags(0.0), before, after, loss).1, "case {case}");
        }
    }

    #[test]
    fn a_timed_silence_counts_as_a_queue() {
        let ms = Dur::from_millis;
        let period = |acked_packets| Measured {
            interval: ms(20),
            acked_packets,
            rtt_min: ms(50),
            srtt: ms(50),
            ..Measured::default()
        };
        let mut timed = reasoner(&[("timed", 1.0)]);
        assert_eq!(timed.first(), Length::Timed(ms(20)));
        let cases: Vec<u8> = [9, 0, 0, 0, 0, 9].iter().map(|&acked| timed.judge(&period(acked)).case).collect();
        // 80 ms of silence are more than 1.25 smallest RTTs of 50 ms.
        assert_eq!(cases, [RISING, RISING, RISING, RISING, QUEUED, FALLING]);
        let mut acked = reasoner(&[]);
        assert!((0..9).all(|_| acked.judge(&period(0)).case == RISING), "without a timer there is no such period");
        assert_eq!((timed.in_datapath(), acked.in_datapath().is_some()), (None, true), "who can be in its place");
    }

    #[test]
    fn without_steepness_growth_is_the_root_of_two() {
        assert_judged(judge(&[("steepness", 0.0)], 1.2, 1.0, 0.0), (1, false, 100.0 * std::f64::consts::SQRT_2));
    }
}
