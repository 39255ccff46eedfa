//! ABC's router (Goyal et al., "ABC: A Simple Explicit Congestion Controller for Wireless Networks", NSDI 2020, section
//! 3.1): marks each packet that leaves "accelerate" or "brake", so that its flow arrives at the target rate one round trip
//! later. The sender is the scheme `abc`.
//!
//! - Target rate (equation 1): tr = η μ - μ/δ (x - d_t)⁺, with capacity μ and queueing delay x.
//! - Share of accelerates (equation 2): f = min(½ tr/cr, 1), with cr the rate at which packets leave. An accelerate lets
//!   out two packets a round trip later and a brake none, so that a share f makes the flow 2 f times as fast.
//! - Algorithm 1 meets f packet by packet with a bucket of tokens. A packet that comes with "brake" keeps it, so that of
//!   several such routers the slowest rules.
//!
//! Defaults are those of the authors' experiments on cellular traces (script and queue in their repository,
//! prateshg/ABC-NSDI2020): η = 0.98, δ = 100 ms / 0.75, d_t = 50 ms at a round trip of 100 ms, a window of 20 ms, five
//! tokens. δ has to exceed 2/3 of the round trip for the loop to be stable (theorem 3.1).
//!
//! Departures:
//! - One queue: packets of other schemes are let through unmarked and count in cr. The paper keeps two queues and divides
//!   the link between them (section 4.2).
//! - x is what waits over μ, as in the authors' queue; the paper says "the observed queuing delay".

use std::collections::VecDeque;

use ccarena_cc::Signal;
use ccarena_cc::types::{Dur, Rate, Time};

use super::{Description, Header, Param, Params, Router, Sight};

/// Registry entry.
pub const ROUTER: Description = Description {
    name: "abc",
    summary: "marks packets of `abc` \"accelerate\" or \"brake\" towards a target rate (NSDI 2020)",
    params: &[
        Param { name: "eta", default: 0.98, min: 0.1, max: 1.0, doc: "η: share of the capacity that is aimed at" },
        Param {
            name: "delta_ms",
            default: 400.0 / 3.0,
            min: 1.0,
            max: 10_000.0,
            doc: "δ in ms: time in which a queue beyond the threshold is to drain; stable above 2/3 of the round trip",
        },
        Param {
            name: "threshold_ms",
            default: 50.0,
            min: 0.0,
            max: 10_000.0,
            doc: "d_t in ms: queueing delay that costs nothing",
        },
        Param { name: "window_ms", default: 20.0, min: 1.0, max: 1000.0, doc: "T in ms: what rates are measured over" },
        Param { name: "tokens", default: 5.0, min: 1.0, max: 1000.0, doc: "most tokens that the bucket holds" },
    ],
    on_the_wire: false,
};

/// The marking router.
#[derive(Debug)]
pub struct Marker {
    eta: f64,
    delta_s: f64,
    threshold_s: f64,
    window: Dur,
    most_tokens: f64,
    tokens: f64,
    /// Packets that left within the window, and their bytes.
    left: VecDeque<(Time, u32)>,
    left_bytes: u64,
}

impl Marker {
    pub(super) fn of(params: &Params) -> Self {
        Self {
            eta: params.get("eta"),
            delta_s: params.millis("delta_ms").as_secs_f64(),
            threshold_s: params.millis("threshold_ms").as_secs_f64(),
            window: params.millis("window_ms").max(Dur(1)),
            most_tokens: params.get("tokens"),
            tokens: 0.0,
            left: VecDeque::new(),
            left_bytes: 0,
        }
    }

    /// Books a packet that leaves at `now`; returns cr.
    fn leaves(&mut self, now: Time, bytes: u32) -> Rate {
        self.left.push_back((now, bytes));
        self.left_bytes += u64::from(bytes);
        while let Some(&(at, bytes)) = self.left.front().filter(|(at, _)| now.since(*at) >= self.window) {
            debug_assert!(at <= now);
            self.left.pop_front();
            self.left_bytes -= u64::from(bytes);
        }
        Rate::of(self.left_bytes, self.window)
    }

    /// f(t), equations 1 and 2.
    fn share(&self, capacity: Rate, current: Rate, backlog_bytes: u64) -> f64 {
        let capacity = capacity.0 as f64;
        if capacity <= 0.0 || current.0 == 0 {
            return 0.0;
        }
        let waits_s = backlog_bytes as f64 * 8.0 / capacity;
        let target = self.eta * capacity - capacity / self.delta_s * (waits_s - self.threshold_s).max(0.0);
        (0.5 * target / current.0 as f64).clamp(0.0, 1.0)
    }
}

impl Router for Marker {
    fn on_arrival(&mut self, _packet: &Header<'_>, _now: Time, _backlog_bytes: u64) {}

    fn on_departure(&mut self, packet: &mut Header<'_>, sight: &mut Sight<'_>) {
        let current = self.leaves(sight.now, packet.bytes);
        // The window ends with this instant's opportunity, which carries the packet.
        let until = sight.now + Dur(1);
        let since = Time(until.0.saturating_sub(self.window.0));
        let capacity = Rate::of(sight.service.capacity_bytes(since, until), self.window);
        let share = self.share(capacity, current, sight.backlog_bytes);
        let Signal::Marks { accelerate, brake } = &mut *packet.signal else { return };
        // Algorithm 1.
        self.tokens = (self.tokens + share).min(self.most_tokens);
        if *accelerate > 0 {
            if self.tokens > 1.0 {
                self.tokens -= 1.0;
            } else {
                (*accelerate, *brake) = (0, 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, RouterSpec};
    use super::*;

    fn marker() -> Marker {
        Marker::of(&RouterSpec::new(Kind::Marker, &Default::default()).params)
    }

    #[test]
    fn the_share_is_the_papers() {
        let (marker, link) = (marker(), Rate::from_mbps(12.0));
        let share = |current, waits_ms: f64| marker.share(link, Rate::from_mbps(current), (waits_ms * 1500.0) as u64);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} {b}");
        close(share(12.0, 0.0), 0.49);
        close(share(12.0, 50.0), 0.49);
        close(share(12.0, 50.0 + 400.0 / 3.0 * 0.98), 0.0);
        close(share(12.0, 1000.0), 0.0);
        close(share(6.0, 0.0), 0.98);
        close(share(3.0, 0.0), 1.0);
        close(marker.share(Rate(0), Rate(5), 0), 0.0);
    }

    #[test]
    fn what_left_is_forgotten_after_the_window() {
        let mut marker = marker();
        let ms = |t: u64| Time(t * 1_000_000);
        assert_eq!(marker.leaves(ms(100), 1500), Rate::from_mbps(0.6));
        assert_eq!(marker.leaves(ms(119), 1500), Rate::from_mbps(1.2));
        assert_eq!(marker.leaves(ms(120), 1500), Rate::from_mbps(1.2));
        assert_eq!(marker.leaves(ms(500), 500), Rate::from_mbps(0.2));
    }
}
