//! `abc`: Accel-Brake Control (Goyal et al., "ABC: A Simple Explicit Congestion Controller for Wireless Networks", NSDI
//! 2020), the sender. The router that marks its packets is `router: abc` of a link.
//!
//! A packet that comes with "accelerate" lets the window grow by one and a packet with "brake" shrinks it by one.
//! Within a round trip a router can therefore do anything from stopping a flow to doubling it. Each also adds 1/w,
//! which makes flows equal that get the same marks (equation 3). CUBIC's window runs in parallel, for bottlenecks that
//! do not mark. The smaller window counts, and neither is more than twice what is in flight (section 4.1).
//!
//! Departures:
//! - Marks come as counts in the acknowledgement ([`Signal::Marks`]); the paper's receiver echoes one bit and
//!   acknowledges at once when it changes.
//! - CUBIC leaves slow start by loss, not by HyStart, which takes the standing queue that ABC's router aims at for
//!   congestion.
//! - The window is two segments at least; the paper names no bound, the authors' code holds five.

use std::collections::BTreeMap;

use super::cubic::Cubic;
use crate::controller::{Controller, RouterAssisted, TransportNeeds};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::feedback::Feedback;
use crate::scheme::{Config, Scheme};
use crate::signal::Signal;
use crate::types::{Bytes, Dur, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "abc",
    summary: "Accel-Brake Control: routers mark packets \"accelerate\" or \"brake\" (NSDI 2020); needs links with `router: abc`",
    params: &[],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Abc::new(config)),
};

/// No window leaves these bounds, in segments.
const LEAST: f64 = 2.0;
const MOST: f64 = (1 << 24) as f64;

struct Abc {
    /// w_abc in segments.
    window: f64,
    /// w_nonabc.
    cubic: Cubic,
    /// Marks that the last acknowledgement counted.
    accelerate: u32,
    brake: u32,
    initial: f64,
    mss: u64,
}

impl Abc {
    fn new(config: &Config) -> Self {
        let options = [("hystart", 0.0), ("fast_convergence", 1.0), ("reno_friendly", 1.0)];
        let params: BTreeMap<String, f64> = options.into_iter().map(|(name, value)| (name.into(), value)).collect();
        let initial = f64::from(config.initial_window).clamp(LEAST, MOST);
        Self {
            window: initial,
            cubic: Cubic::new(&Config { params, ..config.clone() }),
            accelerate: 0,
            brake: 0,
            initial,
            mss: u64::from(config.mss.max(1)),
        }
    }
}

impl Controller for Abc {
    fn on_ack(&mut self, ack: &AckInfo) {
        self.cubic.on_ack(ack);
        if let Signal::Marks { accelerate, brake } = ack.signal {
            let up = f64::from(accelerate.wrapping_sub(std::mem::replace(&mut self.accelerate, accelerate)));
            let down = f64::from(brake.wrapping_sub(std::mem::replace(&mut self.brake, brake)));
            // Equation 3, all marks of one acknowledgement at once.
            self.window = (self.window + up - down + (up + down) / self.window).clamp(LEAST, MOST);
        }
        // Section 4.1: the window that is not the limit must not run away from the other.
        let most = (2.0 * ack.prior_in_flight.0 as f64 / self.mss as f64).max(self.initial);
        self.window = self.window.min(most);
        if f64::from(self.cubic.segments()) > most {
            self.cubic.set_window(Bytes(most as u64 * self.mss));
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.cubic.on_loss(loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.cubic.on_timeout(loss);
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        self.cubic.on_sent(sent);
    }

    fn transport(&self) -> TransportNeeds {
        self.cubic.transport()
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.cubic.on_spurious_loss(now);
    }

    /// Marks from before a silence say nothing about now: both windows begin anew, as RFC 5681 section 4.1 has it.
    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        self.cubic.on_idle_restart(now, idle, rto);
        self.window = self.window.min(self.initial);
    }

    fn window(&self) -> Bytes {
        Bytes(self.window as u64 * self.mss).min(self.cubic.window())
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.cubic.slow_start_threshold()
    }

    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        Some(self)
    }
}

impl RouterAssisted for Abc {
    /// Every packet leaves with "accelerate", which routers may turn into "brake" and none turns back (section 3.1.2).
    fn request(&self) -> Signal {
        Signal::Marks { accelerate: 1, brake: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::build;

    const MSS: u64 = 1448;

    /// Applies an acknowledgement of `packets`; all marks so far are `accelerate` and `brake`.
    fn hear(abc: &mut dyn Controller, packets: u32, accelerate: u32, brake: u32, in_flight: u64) -> u64 {
        abc.on_ack(&AckInfo {
            now: Time::from_secs_f64(1.0),
            acked_packets: packets,
            prior_in_flight: Bytes(in_flight * MSS),
            snd_una: u64::from(accelerate + brake) * MSS,
            cwnd_limited: true,
            signal: Signal::Marks { accelerate, brake },
            ..AckInfo::default()
        });
        abc.window().0 / MSS
    }

    fn started(window: u32) -> Box<dyn Controller> {
        build("abc", &Config { initial_window: window, ..Config::default() }).unwrap()
    }

    #[test]
    fn marks_double_the_window_or_stop_the_flow_within_a_round_trip() {
        let mut abc = Abc::new(&Config { initial_window: 100, ..Config::default() });
        hear(&mut abc, 100, 100, 0, 200);
        assert!((abc.window - 201.0).abs() < 1e-9, "doubled, and one more: {}", abc.window);
        hear(&mut abc, 200, 100, 200, 200);
        assert!((abc.window - LEAST).abs() < 1e-9, "{}", abc.window);
    }

    #[test]
    fn as_many_of_either_let_it_grow_by_one_per_round_trip() {
        let mut abc = Abc::new(&Config { initial_window: 100, ..Config::default() });
        hear(&mut abc, 100, 50, 50, 100);
        assert!((abc.window - 101.0).abs() < 1e-9);
    }

    #[test]
    fn a_lost_acknowledgement_takes_no_mark_with_it() {
        let (mut one, mut other) = (started(50), started(50));
        for k in 1..=10 {
            hear(one.as_mut(), 1, k, 0, 100);
        }
        assert_eq!(hear(one.as_mut(), 1, 10, 1, 100), hear(other.as_mut(), 11, 10, 1, 100));
    }

    #[test]
    fn neither_window_leaves_twice_the_flight_behind() {
        let mut abc = started(10);
        for k in 1..=1000 {
            hear(abc.as_mut(), 1, k, 0, 20);
        }
        assert_eq!(abc.window(), Bytes(40 * MSS));
    }

    #[test]
    fn a_loss_at_a_bottleneck_that_does_not_mark_lowers_the_smaller_window() {
        let mut abc = started(100);
        abc.on_loss(&LossInfo { new_episode: true, ..LossInfo::default() });
        assert_eq!(abc.window(), Bytes(70 * MSS), "CUBIC's beta");
        assert_eq!(abc.router_assisted().unwrap().request(), Signal::Marks { accelerate: 1, brake: 0 });
    }
}
