//! XCP's router (Katabi, Handley and Rohrs, "Congestion Control for High Bandwidth-Delay Product Networks", SIGCOMM 2002,
//! section 3.5): once per mean round trip an efficiency controller decides what all flows together have to give or get,
//! and a fairness controller divides that among the packets. The sender is the scheme `xcp`.
//!
//! - Efficiency (equation 1): φ = α d S - β Q, with spare bandwidth S, persistent queue Q and mean round trip d.
//! - Fairness (AIMD, section 3.5.2): what is positive is given to flows alike, what is negative taken in proportion to
//!   their rates; h = max(0, γ y - |φ|) of the traffic y is shuffled so that flows converge where φ is zero (equation 4).
//! - Per packet (equations 6 to 9): H = ξ_p rtt² s / cwnd - ξ_n rtt s. A router writes H where it is less than what a
//!   packet carries.
//!
//! α = 0.4 and β = 0.226 (stable for any delay, theorem 1), γ = 0.1.
//!
//! Departures:
//! - d is the mean over flows: each packet counts with rtt s / cwnd, as in draft-falk-xcp-spec-03 section 4; the paper
//!   averages over packets.
//! - Q is the least backlog that packets of the last interval met on arrival; the paper takes it over the last propagation
//!   delay.
//! - Intervals end with the first packet after their time. What an interval gives and takes in all is held to what it has
//!   to give and take, by the draft's counters of residual feedback.
//! - Packets of other schemes count in y and get nothing.

use ccarena_cc::Signal;
use ccarena_cc::types::{Dur, Time};

use super::{Description, Header, Param, Params, Router, Sight};

/// Registry entry.
pub const ROUTER: Description = Description {
    name: "xcp",
    summary: "writes into packets of `xcp` what their window is to change by (SIGCOMM 2002)",
    params: &[
        Param { name: "alpha", default: 0.4, min: 0.01, max: 1.0, doc: "α: share of the spare bandwidth given per round trip" },
        Param { name: "beta", default: 0.226, min: 0.0, max: 1.0, doc: "β: share of the persistent queue drained per round trip" },
        Param { name: "gamma", default: 0.1, min: 0.0, max: 1.0, doc: "γ: share of the traffic that is shuffled between flows" },
    ],
    on_the_wire: false,
};

/// Least and greatest length of an interval, and its length before any packet has given its round trip.
const SHORTEST: Dur = Dur::from_millis(1);
const LONGEST: Dur = Dur::from_millis(2_000);
const FIRST: Dur = Dur::from_millis(50);

/// The router that computes feedback.
#[derive(Debug)]
pub struct FeedbackRouter {
    alpha: f64,
    beta: f64,
    gamma: f64,
    begun: Time,
    interval: Dur,
    /// Sums of the interval so far: bytes that came, Σ rtt s / cwnd and Σ rtt² s / cwnd (seconds),
    /// Σ s of packets that take feedback, and the least backlog.
    came_bytes: f64,
    weight: f64,
    weighted_rtt: f64,
    taking_bytes: f64,
    least_backlog: u64,
    /// ξ_p and ξ_n, per second, and the bytes of feedback of either sign that this interval has left.
    positive: f64,
    negative: f64,
    to_give: f64,
    to_take: f64,
}

impl FeedbackRouter {
    pub(super) fn of(params: &Params) -> Self {
        Self {
            alpha: params.get("alpha"),
            beta: params.get("beta"),
            gamma: params.get("gamma"),
            begun: Time::ZERO,
            interval: FIRST,
            came_bytes: 0.0,
            weight: 0.0,
            weighted_rtt: 0.0,
            taking_bytes: 0.0,
            least_backlog: u64::MAX,
            positive: 0.0,
            negative: 0.0,
            to_give: 0.0,
            to_take: 0.0,
        }
    }

    /// The interval has ended at `now`: what the next one gives and takes.
    fn end_interval(&mut self, now: Time, capacity_bytes: f64) {
        let seconds = now.since(self.begun).as_secs_f64();
        let queue = if self.least_backlog == u64::MAX { 0.0 } else { self.least_backlog as f64 };
        let mean_rtt = if self.weight > 0.0 { self.weighted_rtt / self.weight } else { 0.0 };
        // What was counted over the interval is scaled to one round trip d. After an outage the two differ by far.
        let scale = if mean_rtt > 0.0 && seconds > 0.0 { mean_rtt / seconds } else { 1.0 };
        let total = self.alpha * (capacity_bytes - self.came_bytes) * scale - self.beta * queue;
        let shuffled = (self.gamma * self.came_bytes * scale - total.abs()).max(0.0);
        let (give, take) = (shuffled + total.max(0.0), shuffled + (-total).max(0.0));
        let per = |amount: f64, sum: f64| if sum > 0.0 && mean_rtt > 0.0 { amount / (mean_rtt * sum * scale) } else { 0.0 };
        self.positive = per(give, self.weight);
        self.negative = per(take, self.taking_bytes);
        let next = if mean_rtt > 0.0 { Dur::from_secs_f64(mean_rtt) } else { self.interval };
        let next = next.clamp(SHORTEST, LONGEST);
        let part = if mean_rtt > 0.0 { next.as_secs_f64() / mean_rtt } else { 1.0 };
        (self.to_give, self.to_take) = (give * part, take * part);
        (self.begun, self.interval) = (now, next);
        (self.came_bytes, self.weight, self.weighted_rtt, self.taking_bytes) = (0.0, 0.0, 0.0, 0.0);
        self.least_backlog = u64::MAX;
    }
}

/// Window in bytes and RTT in seconds of a packet that takes feedback; a sender without an RTT takes none (section 3.2).
fn header(signal: Signal) -> Option<(f64, f64)> {
    match signal {
        Signal::Window { window_bytes, rtt_us, .. } if rtt_us > 0 && window_bytes >= 1.0 => {
            Some((f64::from(window_bytes), f64::from(rtt_us) / 1e6))
        }
        _ => None,
    }
}

impl Router for FeedbackRouter {
    fn on_arrival(&mut self, packet: &Header<'_>, _now: Time, backlog_bytes: u64) {
        let bytes = f64::from(packet.bytes);
        self.came_bytes += bytes;
        self.least_backlog = self.least_backlog.min(backlog_bytes);
        if let Some((window, rtt)) = header(*packet.signal) {
            self.weight += rtt * bytes / window;
            self.weighted_rtt += rtt * rtt * bytes / window;
            self.taking_bytes += bytes;
        }
    }

    fn on_departure(&mut self, packet: &mut Header<'_>, sight: &mut Sight<'_>) {
        if sight.now.since(self.begun) >= self.interval {
            let capacity = sight.service.capacity_bytes(self.begun, sight.now) as f64;
            self.end_interval(sight.now, capacity);
        }
        let bytes = f64::from(packet.bytes);
        let found = header(*packet.signal);
        let Signal::Window { feedback_bytes, .. } = &mut *packet.signal else { return };
        let own = found.map_or(0.0, |(window, rtt)| {
            let give = (self.positive * rtt * rtt * bytes / window).min(self.to_give);
            let take = (self.negative * rtt * bytes).min(self.to_take);
            (self.to_give, self.to_take) = (self.to_give - give, self.to_take - take);
            give - take
        });
        *feedback_bytes = feedback_bytes.min(own as f32);
    }
}
