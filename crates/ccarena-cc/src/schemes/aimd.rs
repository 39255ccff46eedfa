//! NewReno with other steps: what the WCC family (Zheng et al., "Revisiting Weighted AIMD-based Congestion Control",
//! §II-III) is made of. Per acknowledged segment in congestion avoidance the window grows by AI/window, per loss episode
//! it falls by MD·window; NewReno itself ([`reno`](super::reno)) is AI = 1 and MD = 1/2, and everything else is its.
//!
//! All arithmetic is in whole thousandths of a weight, so that the kernel can do the same without floating point.

use super::cwnd::Cwnd;
use crate::controller::{Adjustable, Controller, Extrapolated, Extrapolation, FlowSetting};
use crate::events::{AckInfo, LossInfo};
use crate::param::Param;
use crate::scheme::Config;
use crate::types::Time;

/// Weights and steps count in thousandths.
const ONE: u64 = 1000;

/// AI in thousandths of a segment per window, and the divisor of MD = 1/(2·divisor) in thousandths, of a weight in
/// thousandths.
pub(crate) type Steps = fn(u64) -> (u64, u64);

/// AI = 1, MD = 1/2: NewReno, which knows no weight. RFC 5681 equation (4), from the window (`tcp_reno_ssthresh`).
pub(crate) const NEWRENO: Steps = |_| (ONE, ONE);
/// AI = a, MD = 1/2.
pub(crate) const INCREASE: Steps = |a| (a, ONE);
/// AI = a², MD = 1/2.
pub(crate) const SQUARED_INCREASE: Steps = |a| ((a * a / ONE).max(1), ONE);
/// AI = 1, MD = 1/(2a).
pub(crate) const DECREASE: Steps = |a| (ONE, a);
/// AI = a, MD = 1/(2a).
pub(crate) const BOTH: Steps = |a| (a, a);

/// Parameter of Alternative Backoff with ECN (RFC 8511).
pub(crate) const ABE: Param = Param {
    name: "abe",
    default: 0.0,
    min: 0.0,
    max: 1.0,
    doc: "1: a mark takes less of the window than a loss (Alternative Backoff with ECN, RFC 8511)",
};
/// Part of the window that a mark leaves with it (RFC 8511 §3.1).
const ABE_LEAVES: (u64, u64) = (4, 5);

/// Additive increase, multiplicative decrease.
pub(crate) struct Aimd {
    cwnd: Cwnd,
    steps: Steps,
    increase: u64,
    divisor: u64,
    abe: bool,
}

impl Aimd {
    pub(crate) fn new(config: &Config, steps: Steps) -> Self {
        let mut aimd =
            Self { cwnd: Cwnd::new(config), steps, increase: ONE, divisor: ONE, abe: config.param(ABE.name) >= 0.5 };
        aimd.weigh(config.weight);
        aimd
    }

    fn weigh(&mut self, weight: f64) {
        let thousandths = ((weight * ONE as f64).round() as u64).max(1);
        (self.increase, self.divisor) = (self.steps)(thousandths);
        // A loss takes no more than the whole window.
        self.divisor = self.divisor.max(ONE / 2);
    }

    /// window - MD·window, rounded down as NewReno's half is.
    fn reduced(&self) -> u32 {
        let left = u64::from(self.cwnd.segments()) * (2 * self.divisor - ONE) / (2 * self.divisor);
        left as u32
    }
}

impl Controller for Aimd {
    fn on_ack(&mut self, ack: &AckInfo) {
        if self.cwnd.may_grow(ack) {
            self.cwnd.grow_by(ack.acked_packets, self.increase, ONE);
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            let marked = u64::from(self.cwnd.segments()) * ABE_LEAVES.0 / ABE_LEAVES.1;
            // RFC 8511 is about congestion avoidance.
            let gentle = self.abe && loss.ecn && !self.cwnd.in_slow_start();
            self.cwnd.reduce(if gentle { marked as u32 } else { self.reduced() });
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        let threshold = loss.new_episode.then(|| self.reduced());
        self.cwnd.collapse(loss, threshold);
    }

    fn adjustable(&mut self) -> Option<&mut dyn Adjustable> {
        Some(self)
    }

    fn extrapolated(&mut self) -> Option<&mut dyn Extrapolated> {
        Some(self)
    }

    linux_window!();
}

impl Adjustable for Aimd {
    fn set(&mut self, setting: FlowSetting) {
        if let FlowSetting::Weight(weight) = setting {
            self.weigh(weight);
        }
    }
}

impl Extrapolated for Aimd {
    fn extrapolation(&self, _now: Time) -> Extrapolation {
        let one = ONE as f64;
        let increase =
            if self.cwnd.in_slow_start() { f64::from(self.cwnd.segments()) } else { self.increase as f64 / one };
        Extrapolation { increase, decrease: 1.0 - one / (2.0 * self.divisor as f64), ..Extrapolation::HOLD }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Flow, MSS};
    use crate::controller::FlowSetting;
    use crate::registry::build;
    use crate::scheme::Config;
    use crate::types::{Bytes, Dur};

    const RTT: Dur = Dur::from_millis(50);

    fn avoiding(scheme: &str, weight: f64, segments: u32) -> Flow {
        Flow::new(scheme, &Config { weight, initial_window: segments, slow_start: false, ..Config::default() })
    }

    /// Growth over ten round trips from a window of 1000, and the window after a loss from 1200.
    fn steps(scheme: &str, weight: f64, per_ack: u32) -> (u64, u64) {
        let mut flow = avoiding(scheme, weight, 1000);
        let mut acked = 0;
        while acked < 10_000 {
            flow.ack(per_ack, RTT / 1000, RTT);
            acked += per_ack;
        }
        let growth = flow.window() - 1000;
        let mut flow = avoiding(scheme, weight, 1200);
        flow.lose(true);
        (growth, flow.window())
    }

    #[test]
    fn steps_are_those_of_the_paper() {
        for per_ack in [1, 2, 7] {
            for (scheme, weight, growth, left) in [
                ("wcc-ai", 1.0, 10, 600),
                ("wcc-ai", 2.0, 20, 600),
                ("wcc-ai", 0.5, 5, 600),
                ("wcc-md", 1.0, 10, 600),
                ("wcc-md", 2.0, 10, 900),
                ("wcc-md", 0.6, 10, 200),
                ("multcp", 3.0, 30, 1000),
                ("multcp", 1.0, 10, 600),
                ("ewtcp", 2.0, 40, 600),
                ("ewtcp", 3.0, 90, 600),
            ] {
                let (grown, after) = steps(scheme, weight, per_ack);
                // The window grows meanwhile, so that the last segment may be a round trip away.
                assert!(growth - grown.min(growth) <= growth / 20 + 1, "{scheme} {weight} {per_ack}: {grown}");
                assert_eq!(after, left, "{scheme} {weight}");
            }
        }
    }

    #[test]
    fn a_datapath_takes_the_same_steps() {
        for (scheme, weight, increase, decrease) in
            [("reno", 1.0, 1.0, 0.5), ("wcc-ai", 2.0, 2.0, 0.5), ("ewtcp", 2.0, 4.0, 0.5), ("wcc-md", 2.0, 1.0, 0.75)]
        {
            let steps = avoiding(scheme, weight, 100).extrapolation();
            assert!((steps.increase - increase).abs() < 1e-9 && (steps.decrease - decrease).abs() < 1e-9, "{steps:?}");
            let mut starting = Flow::new(scheme, &Config { weight, initial_window: 16, ..Config::default() });
            assert!((starting.extrapolation().increase - 16.0).abs() < 1e-9, "slow start doubles");
        }
    }

    #[test]
    fn a_weight_may_change() {
        for scheme in ["wcc-ai", "wcc-md", "multcp", "ewtcp"] {
            let mut flow = avoiding(scheme, 1.0, 1200);
            FlowSetting::Weight(3.0).apply(flow.controller.as_mut());
            let mut expected = avoiding(scheme, 3.0, 1200);
            for flow in [&mut flow, &mut expected] {
                flow.ack(100, RTT, RTT);
                flow.lose(true);
            }
            assert_eq!(flow.window(), expected.window(), "{scheme}");
        }
    }

    #[test]
    fn weight_one_is_newreno() {
        for scheme in ["wcc-ai", "wcc-md", "multcp", "ewtcp"] {
            let (mut weighted, mut reno) =
                (Flow::new(scheme, &Config::default()), Flow::new("reno", &Config::default()));
            for k in 0..5000_u32 {
                for flow in [&mut weighted, &mut reno] {
                    flow.ack(1 + k % 3, RTT / 20, RTT);
                    if k % 700 == 699 {
                        flow.lose(true);
                    }
                    if k % 2100 == 2099 {
                        flow.time_out(true);
                    }
                }
                assert_eq!(weighted.controller.window(), reno.controller.window(), "{scheme} at {k}");
            }
        }
    }

    #[test]
    fn weights_that_a_scheme_cannot_share_by_are_refused() {
        for (scheme, weight, works) in [
            ("wcc-md", 0.5, false),
            ("wcc-md", 0.501, true),
            ("wcc-ai", 0.0, false),
            ("wcc-ai", -1.0, false),
            ("ewtcp", f64::NAN, false),
            ("multcp", f64::INFINITY, false),
            ("multcp", 0.2, false),
            ("reno", 0.0, true),
        ] {
            let built = build(scheme, &Config { weight, ..Config::default() });
            assert_eq!(built.is_ok(), works, "{scheme} {weight}");
        }
        let error = build("wcc-md", &Config { weight: 0.5, ..Config::default() }).err().map(|e| e.to_string());
        assert_eq!(
            error.as_deref(),
            Some(r#"weight 0.5 does not suit scheme "wcc-md"; expected more than 0.5, at most 1000"#)
        );
    }

    #[test]
    fn a_large_weight_at_a_small_window_neither_overflows_nor_stalls() {
        let mut flow = avoiding("ewtcp", 1000.0, 2);
        for _ in 0..100 {
            flow.ack(1, RTT, RTT);
        }
        assert!(flow.controller.window() <= Bytes((1 << 24) * MSS));
        assert!(flow.window() > 1000);
    }
}
