//! `xcp`: the eXplicit Control Protocol (Katabi, Handley and Rohrs, "Congestion Control for High Bandwidth-Delay Product
//! Networks", SIGCOMM 2002), the sender. The router that computes the feedback is `router: xcp` of a link.
//!
//! Every packet carries the sender's window and RTT; routers write into it what the window is to change by, and
//! `cwnd = max(cwnd + H_feedback, s)` when the acknowledgement brings that back (section 3.2). Losses are answered as TCP
//! answers them (section 3.2, "like TCP").
//!
//! Departures:
//! - The header does not carry the sender's demand. A sender holds its window to what the application wants
//!   (`desired_mbps`) over the smoothed RTT itself, so that what it leaves is given to others one interval later.
//! - Where no router of the way answers, the window grows as NewReno's; the paper negotiates that when a flow begins
//!   (section 6.1).
//! - Windows are rounded down to whole segments when the transport reads them, not before.

use crate::controller::{Adjustable, Controller, FlowSetting, RouterAssisted, TransportNeeds};
use crate::events::{AckInfo, LossInfo};
use crate::feedback::Feedback;
use crate::scheme::{Config, Scheme};
use crate::signal::Signal;
use crate::types::{Bytes, Dur, Rate, Time};

/// Registry entry.
pub const SCHEME: Scheme = Scheme {
    name: "xcp",
    summary: "XCP: routers write the change of the window into each packet (SIGCOMM 2002); needs links with `router: xcp`",
    params: &[],
    learned: false,
    rules: false,
    weight_above: None,
    requirement: false,
    alias_of: None,
    feedback: Feedback::None,
    build: |config| Box::new(Xcp::new(config)),
};

/// No window is larger, in segments.
const MOST: f64 = (1 << 24) as f64;

struct Xcp {
    /// Window in bytes, from one segment on.
    window: f64,
    /// NewReno's, for ways without an answer.
    threshold: f64,
    srtt: Dur,
    desired: Rate,
    initial: f64,
    mss: f64,
}

impl Xcp {
    fn new(config: &Config) -> Self {
        let mss = f64::from(config.mss.max(1));
        let initial = f64::from(config.initial_window.max(1)).min(MOST) * mss;
        let threshold = if config.slow_start { MOST * mss } else { initial };
        Self { window: initial, threshold, srtt: Dur::ZERO, desired: config.desired_rate, initial, mss }
    }

    fn bounded(&self, window: f64) -> f64 {
        let wanted = self.desired.0 as f64 / 8.0 * self.srtt.as_secs_f64();
        let most = if self.srtt == Dur::ZERO { f64::INFINITY } else { wanted };
        window.min(most).clamp(self.mss, MOST * self.mss)
    }

    /// RFC 5681, by acknowledged segments.
    fn grow_as_reno(&mut self, ack: &AckInfo) {
        if !ack.cwnd_limited || ack.recovery.reducing() {
            return;
        }
        let acked = f64::from(ack.acked_packets) * self.mss;
        let slow = (self.threshold - self.window).clamp(0.0, acked);
        self.window += slow;
        self.window += (acked - slow) * self.mss / self.window;
    }

    fn halve(&mut self) {
        self.threshold = (self.window / 2.0).max(2.0 * self.mss);
    }
}

impl Controller for Xcp {
    fn on_ack(&mut self, ack: &AckInfo) {
        self.srtt = ack.srtt;
        match ack.signal {
            Signal::Window { feedback_bytes, .. } if feedback_bytes.is_finite() => {
                self.window += f64::from(feedback_bytes);
            }
            _ => self.grow_as_reno(ack),
        }
        self.window = self.bounded(self.window);
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.halve();
            self.window = self.bounded(self.threshold.min(self.window));
        }
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.halve();
        }
        self.window = self.mss;
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds::WINDOW
    }

    /// RFC 5681 section 4.1: feedback from before a silence says nothing about now.
    fn on_idle_restart(&mut self, _now: Time, _idle: Dur, _rto: Dur) {
        self.window = self.window.min(self.initial);
    }

    fn window(&self) -> Bytes {
        let segments = (self.window / self.mss) as u64;
        Bytes(segments.max(1) * self.mss as u64)
    }

    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        Some(self)
    }

    fn adjustable(&mut self) -> Option<&mut dyn Adjustable> {
        Some(self)
    }
}

impl Adjustable for Xcp {
    fn set(&mut self, setting: FlowSetting) {
        if let FlowSetting::DesiredRate(rate) = setting {
            self.desired = rate;
        }
    }
}

impl RouterAssisted for Xcp {
    fn request(&self) -> Signal {
        let rtt_us = u32::try_from(self.srtt.as_micros()).unwrap_or(u32::MAX);
        Signal::Window { window_bytes: self.window as f32, rtt_us, feedback_bytes: f32::INFINITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::build;

    const MSS: u64 = 1448;

    fn ack(xcp: &mut dyn Controller, signal: Signal) -> u64 {
        xcp.on_ack(&AckInfo {
            acked_packets: 1,
            srtt: Dur::from_millis(100),
            cwnd_limited: true,
            signal,
            ..AckInfo::default()
        });
        xcp.window().0 / MSS
    }

    fn feedback(feedback_bytes: f32) -> Signal {
        Signal::Window { window_bytes: 1.0, rtt_us: 1, feedback_bytes }
    }

    #[test]
    fn the_window_changes_by_the_feedback_and_stays_a_segment() {
        let mut xcp = build("xcp", &Config::default()).unwrap();
        assert_eq!(ack(xcp.as_mut(), feedback(2896.0)), 12);
        assert_eq!(ack(xcp.as_mut(), feedback(-1000.0)), 11, "fractions are kept");
        assert_eq!(ack(xcp.as_mut(), feedback(1000.0)), 12);
        assert_eq!(ack(xcp.as_mut(), feedback(-1e9)), 1);
    }

    #[test]
    fn without_an_answer_it_is_newreno() {
        let mut xcp = build("xcp", &Config::default()).unwrap();
        assert_eq!(ack(xcp.as_mut(), feedback(f32::INFINITY)), 11, "slow start");
        assert_eq!(ack(xcp.as_mut(), Signal::None), 12);
        xcp.on_loss(&LossInfo { new_episode: true, ..LossInfo::default() });
        assert_eq!(xcp.window(), Bytes(6 * MSS));
        for _ in 0..7 {
            ack(xcp.as_mut(), Signal::None);
        }
        assert_eq!(xcp.window(), Bytes(7 * MSS), "one per window");
    }

    #[test]
    fn no_more_than_the_application_wants() {
        let config = Config { desired_rate: Rate::from_mbps(8.0), ..Config::default() };
        let mut xcp = build("xcp", &config).unwrap();
        // 8 Mbit/s over 100 ms are 100,000 bytes.
        assert_eq!(ack(xcp.as_mut(), feedback(1e6)), 100_000 / MSS);
        FlowSetting::DesiredRate(Rate::from_mbps(4.0)).apply(xcp.as_mut());
        assert_eq!(ack(xcp.as_mut(), feedback(1e6)), 50_000 / MSS);
        assert!(matches!(xcp.router_assisted().unwrap().request(), Signal::Window { rtt_us: 100_000, .. }));
    }
}
