//! PCC family: rates chosen by trying them. A flow sends for a monitor interval at some rate and computes a utility
//! from the outcome. It then moves to where utility grows (Dong et al., "PCC Vivace", NSDI 2018).
//!
//! [`vivace`](super::vivace), [`vivace_hercules`](super::vivace_hercules) and [`hercules`](super::hercules) are settings
//! of this engine. `monitor` and `interval` gather statistics (`samples`, `reliability`), `utility` evaluates them
//! (`requirement`, `trend`), `rate_control` decides (`step`), `variant` has what two code bases do differently.
//!
//! Internal rates count packets as the code bases count QUIC packets: without IP and UDP headers, but with what is
//! between those and the payload. The transport paces payload, so the pacing rate is scaled to it. Losses and marks
//! have no effect of their own: losses enter utilities.
//!
//! Departures from both code bases, besides those that the files list:
//! - An acknowledgement without an RTT sample (of retransmissions alone, RFC 6298 §3) counts with the RTT before it. There,
//!   every packet gives a sample. Where most packets are lost, an interval would otherwise never have its samples, and the
//!   rate would stay.
//! - Without slow start the flow begins with probing.
//! - The window is two segments at least, so that a delayed acknowledgement does not hold up the only one.

mod interval;
mod monitor;
mod rate_control;
mod reliability;
mod requirement;
mod samples;
mod step;
mod trend;
mod utility;
mod variant;

use self::interval::{Interval, Purpose};
use self::monitor::{Monitor, Outcome};
pub(crate) use self::rate_control::Limits;
use self::rate_control::RateControl;
use self::reliability::Event;
pub(crate) use self::requirement::RequirementPenalty;
use self::utility::Utility;
pub(crate) use self::utility::{Gate, Terms};
use self::variant::WindowRtt;
pub(crate) use self::variant::{HERCULES, USPACE, Variant};
use crate::controller::{Adjustable, Controller, FlowSetting, PacketTracker, TransportNeeds};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::scheme::Config;
use crate::types::{Bytes, Dur, Rate, Time};

/// RTT before there is a sample.
const INITIAL_RTT: Dur = Dur::from_millis(100);
/// Headers of a packet that rates do not count.
const IP_AND_UDP_BYTES: u64 = 28;
/// Fewest and most segments in the window.
const SMALLEST_WINDOW: f64 = 2.0;
const LARGEST_WINDOW: f64 = (1 << 24) as f64;
/// Packets leave in pairs above this rate (lumpy pacing).
const PAIRED_ABOVE_BPS: f64 = 2.5e6;
/// Gains of smoothed RTT and RTT deviation.
const SRTT_GAIN: f64 = 1.0 / 8.0;
const DEVIATION_GAIN: f64 = 1.0 / 4.0;

/// Settings that define a scheme of the family.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) variant: Variant,
    pub(crate) limits: Limits,
    pub(crate) terms: Terms,
    /// Length of a monitor interval in minimum RTTs.
    pub(crate) interval_factor: f64,
}

/// A controller of the family.
pub(crate) struct Pcc {
    /// Configuration, and the values derived from it.
    config: Config,
    settings: fn(&Config) -> Settings,
    monitor: Monitor,
    control: RateControl,
    utility: Utility,
    rtt: Rtt,
    /// Rate of the newest interval in bit/s, and what follows from it.
    rate: f64,
    pacing: Rate,
    window: Bytes,
    variant: Variant,
    interval_factor: f64,
    mss: u64,
    packet_bits: f64,
}

/// The controller's own RTT statistics.
#[derive(Clone, Copy, Debug)]
struct Rtt {
    latest_us: f64,
    smoothed_us: f64,
    deviation_us: f64,
    min: Option<Dur>,
    /// Time of the last acknowledgement.
    at: Time,
}

impl Default for Rtt {
    fn default() -> Self {
        let initial_us = INITIAL_RTT.0 as f64 / 1e3;
        Self { latest_us: initial_us, smoothed_us: initial_us, deviation_us: 0.0, min: None, at: Time::ZERO }
    }
}

impl Rtt {
    /// Returns the time since the acknowledgement before, from the first sample on.
    fn interval(&mut self, now: Time) -> Option<Dur> {
        let before = std::mem::replace(&mut self.at, now);
        self.min.map(|_| now.since(before))
    }

    fn sample(&mut self, rtt: Dur) {
        let us = rtt.0 as f64 / 1e3;
        self.latest_us = us;
        match self.min {
            Some(min) => {
                self.deviation_us += DEVIATION_GAIN * ((self.smoothed_us - us).abs() - self.deviation_us);
                self.smoothed_us += SRTT_GAIN * (us - self.smoothed_us);
                self.min = Some(min.min(rtt));
            }
            None => (self.smoothed_us, self.deviation_us, self.min) = (us, us / 2.0, Some(rtt)),
        }
    }
}

impl Pcc {
    pub(crate) fn new(config: &Config, settings: fn(&Config) -> Settings) -> Self {
        let Settings { variant, limits, terms, interval_factor } = settings(config);
        let mss = u64::from(config.mss.max(1));
        let header = u64::from(config.header_bytes).saturating_sub(IP_AND_UDP_BYTES);
        let packet_bits = (mss + header) as f64 * 8.0;
        let control = RateControl::new(limits, variant, config.slow_start, config.seed);
        let mut pcc = Self {
            config: config.clone(),
            settings,
            monitor: Monitor::new(variant, packet_bits),
            utility: Utility::new(terms),
            rtt: Rtt::default(),
            rate: control.rate(),
            control,
            pacing: Rate(1),
            window: Bytes(mss),
            variant,
            interval_factor,
            mss,
            packet_bits,
        };
        pcc.apply();
        pcc
    }

    /// Opens the interval that is due.
    fn open(&mut self) {
        let waiting = self.monitor.useful();
        let trial = self.rtt.min.and_then(|_| self.control.next_trial(waiting));
        let interval = match trial {
            Some((rate, increase)) => {
                let min_rtt = self.rtt.min.unwrap_or(INITIAL_RTT);
                let duration = monitor::duration(&self.variant, self.interval_factor, min_rtt);
                Interval::new(rate, Purpose::Useful { increase }, self.rtt.smoothed_us, duration)
            }
            None => Interval::filler(self.control.rate(), self.rtt.smoothed_us),
        };
        self.rate = interval.rate;
        self.monitor.open(interval);
        self.apply();
    }

    /// Derives pacing rate and window.
    fn apply(&mut self) {
        let payload = self.rate * (self.mss * 8) as f64 / self.packet_bits;
        self.pacing = Rate((payload.round() as u64).max(1));
        let rtt_s = match (self.rtt.min, self.variant.window_rtt) {
            (None, _) => INITIAL_RTT.as_secs_f64(),
            (Some(min), WindowRtt::Min) => min.as_secs_f64(),
            (Some(_), WindowRtt::Smoothed) => self.rtt.smoothed_us / 1e6,
        };
        // Sending goes on while less than this is in flight: a part of a packet counts.
        let packets = (self.variant.window_gain * self.rate * rtt_s / self.packet_bits).ceil();
        self.window = Bytes(packets.clamp(SMALLEST_WINDOW, LARGEST_WINDOW) as u64 * self.mss);
    }
}

impl Controller for Pcc {
    fn on_ack(&mut self, ack: &AckInfo) {
        if ack.rtt.is_none() && ack.acked_packets == 0 {
            return;
        }
        let interval = self.rtt.interval(ack.now);
        if let Some(rtt) = ack.rtt {
            let before = self.rtt.min;
            self.rtt.sample(rtt);
            if before.is_none() {
                self.control.on_first_rtt(self.rtt.latest_us);
            }
            if self.variant.window_rtt == WindowRtt::Smoothed || self.rtt.min != before {
                self.apply();
            }
        }
        let event = Event { now: ack.now, interval, rtt_us: self.rtt.latest_us, srtt_us: self.rtt.smoothed_us };
        match self.monitor.on_event(event) {
            Outcome::Results => self.control.decide(self.monitor.results(), &mut self.utility),
            Outcome::Wait | Outcome::Nothing => {}
        }
        if self.control.is_starting() {
            let start_rtt_us = self.monitor.newest().map_or(f64::MAX, |newest| newest.start_rtt_us);
            let Rtt { latest_us, smoothed_us, deviation_us, .. } = self.rtt;
            if self.control.inflated(latest_us, smoothed_us, deviation_us, start_rtt_us) {
                self.monitor.forget_all();
                self.control.end_start();
            }
        }
    }

    /// Does nothing: losses are booked by packet.
    fn on_loss(&mut self, _loss: &LossInfo) {}

    fn on_timeout(&mut self, _loss: &LossInfo) {}

    #[inline]
    fn on_sent(&mut self, sent: &SentInfo) {
        if self.monitor.wants_interval(sent.now, self.rtt.min.is_some()) {
            if !self.variant.owns_opening_packet {
                self.open();
                return;
            }
            self.open();
        }
        self.monitor.on_sent(sent.number, sent.now);
    }

    fn window(&self) -> Bytes {
        self.window
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing)
    }

    fn min_burst_segments(&self) -> u32 {
        if self.rate > PAIRED_ABOVE_BPS { 2 } else { 1 }
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { owns_recovery: true, ..TransportNeeds::default() }
    }

    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        Some(self)
    }

    fn adjustable(&mut self) -> Option<&mut dyn Adjustable> {
        Some(self)
    }
}

impl PacketTracker for Pcc {
    #[inline]
    fn on_packet_acked(&mut self, number: u64) {
        self.monitor.on_packet_acked(number);
    }

    fn on_packet_lost(&mut self, number: u64) {
        self.monitor.on_packet_lost(number);
    }
}

impl Adjustable for Pcc {
    fn set(&mut self, setting: FlowSetting) {
        let FlowSetting::Requirement(requirement) = setting else { return };
        self.config.requirement = requirement;
        let Settings { limits, terms, interval_factor, .. } = (self.settings)(&self.config);
        self.control.set_limits(limits);
        self.utility.set_terms(terms);
        self.interval_factor = interval_factor;
    }
}

#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod tests;
