//! Levers that every base has: a pacing rate in windows per smoothed RTT, and an upper bound of the window.
//!
//! A spec without such an actuator runs its base as it is: this one stands between only where it is needed.

use super::base::Base;
use super::paced;
use crate::controller::{Extrapolation, FlowSetting, PacketTracker, RouterAssisted, TransportNeeds};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::learned::monitor::Measured;
use crate::types::{Bytes, Dur, Rate, Time};

/// Fewest segments of a cap: below two, delayed acknowledgements stall the flow (RFC 5681's floor).
const SMALLEST_CAP: f64 = 2.0;

/// Base `B` with these levers.
pub(super) struct Levered<B> {
    base: B,
    /// Pacing rate in windows per smoothed RTT; the base's own until an action sets one.
    gain: Option<f64>,
    /// Most segments in the window.
    cap: f64,
    srtt: Dur,
    mss: f64,
}

impl<B: Base> Levered<B> {
    pub(super) fn new(base: B, mss: f64) -> Self {
        Self { base, gain: None, cap: f64::INFINITY, srtt: Dur::ZERO, mss }
    }
}

impl<B: Base> Base for Levered<B> {
    fn on_ack(&mut self, ack: &AckInfo) {
        self.base.on_ack(ack);
        self.srtt = ack.srtt;
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.base.on_loss(loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.base.on_timeout(loss);
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        self.base.on_sent(sent);
    }

    fn transport(&self) -> TransportNeeds {
        self.base.transport()
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.base.on_spurious_loss(now);
    }

    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        self.base.on_idle_restart(now, idle, rto);
    }

    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.base.on_recovery_end(now, in_flight);
    }

    fn on_timer(&mut self, now: Time) {
        self.base.on_timer(now);
    }

    fn next_timer(&self) -> Time {
        self.base.next_timer()
    }

    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        self.base.packet_tracker()
    }

    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        self.base.router_assisted()
    }

    fn set(&mut self, setting: FlowSetting) {
        self.base.set(setting);
    }

    fn on_period(&mut self, now: Time, ended: &Measured, target: f64) {
        self.base.on_period(now, ended, target);
    }

    fn window(&self) -> Bytes {
        let window = self.base.window();
        let cap = self.cap.floor() * self.mss;
        if window.0 as f64 > cap { Bytes(cap as u64) } else { window }
    }

    fn segments(&self) -> f64 {
        self.base.segments().min(self.cap)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        match self.gain {
            Some(windows) => paced(windows, self.segments().max(1.0), self.mss, self.srtt),
            None => self.base.pacing_rate(),
        }
    }

    fn rate_bps(&self) -> f64 {
        self.pacing_rate().map_or_else(|| self.base.rate_bps(), |rate| rate.0 as f64)
    }

    fn min_burst_segments(&self) -> u32 {
        self.base.min_burst_segments()
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.base.slow_start_threshold()
    }

    /// A datapath that moves the window itself knows neither lever.
    fn extrapolation(&self, _left: Dur, _per_window: bool) -> Extrapolation {
        Extrapolation::HOLD
    }

    fn adopt_window(&mut self, window: Bytes) -> bool {
        self.base.adopt_window(window)
    }

    /// Multiplies the window in force, which may be the cap.
    fn scale_window(&mut self, factor: f64, most: u32) {
        let held = self.segments() / self.base.segments().max(1.0);
        self.base.scale_window(factor * held, most);
    }

    fn set_rate(&mut self, bps: f64) {
        self.base.set_rate(bps);
    }

    fn set_alpha(&mut self, alpha: f32) {
        self.base.set_alpha(alpha);
    }

    fn set_pacing_gain(&mut self, windows: f64) {
        self.gain = Some(windows);
    }

    fn set_cap(&mut self, segments: f64) {
        self.cap = segments.max(SMALLEST_CAP);
    }

    fn choose(&mut self, index: usize) {
        self.base.choose(index);
    }
}
