//! Schemes of the registry as a base: one, or several of which an action chooses the one that runs.
//!
//! The lever on the window is a factor on what the scheme says: on its window, its slow-start threshold and its pacing
//! rate, as a rate-based scheme bounds sending by the rate. The factor stays until the next action, within 1/64 to 64.
//!
//! A change of schemes keeps what Linux keeps when a socket changes its congestion control, and begins the new scheme
//! afresh (`tcp_set_congestion_control`, `tcp_reinit_congestion_control`): the window in force, the slow-start threshold
//! and, in the transport, the smoothed and the smallest RTT stay; the old scheme's private state (`icsk_ca_priv`) goes.
//!
//! Departures from Linux:
//! - A scheme that has no threshold leaves its window as the threshold, so that the next one does not begin in slow
//!   start. Linux's BBR writes a threshold when it leaves STARTUP (`bbr_check_drain`).
//! - A transport asks for the schemes' needs once. If one of them steers the window through recovery itself, the
//!   transport does proportional rate reduction for none.

use super::{Base, over};
use crate::controller::{Controller, FlowSetting, PacketTracker, RouterAssisted, TransportNeeds};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::learned::plan::Plan;
use crate::scheme::{Carried, Config, Scheme};
use crate::types::{Bytes, Dur, Rate, Time};

/// Bounds of the factor on a scheme's window.
const FACTORS: (f64, f64) = (1.0 / 64.0, 64.0);
/// No factor lifts the window beyond so many segments (`snd_cwnd_clamp`).
const LARGEST_WINDOW: f64 = (1 << 24) as f64;

/// A scheme with its configuration for the flow; the parameters are complete and within bounds.
pub struct Member {
    /// The scheme.
    pub scheme: &'static Scheme,
    /// Configuration of its controllers.
    pub config: Config,
}

/// The controller over `first`, which actions may exchange for one of `others`.
#[must_use]
pub fn build(first: Member, others: Vec<Member>, plan: Plan) -> Box<dyn Controller> {
    over(Schemes::new(first, others), plan)
}

impl Member {
    fn build(&self) -> Box<dyn Controller> {
        (self.scheme.build)(&self.config)
    }
}

struct Schemes {
    members: Vec<Member>,
    chosen: usize,
    running: Box<dyn Controller>,
    needs: TransportNeeds,
    has_tracker: bool,
    factor: f64,
    /// The connection's first window, in segments.
    initial: u32,
    mss: u64,
    srtt: Dur,
}

impl Schemes {
    fn new(first: Member, others: Vec<Member>) -> Self {
        let mut running = first.build();
        let (mut needs, mut has_tracker) = (running.transport(), running.packet_tracker().is_some());
        for mut other in others.iter().map(Member::build) {
            needs = needs.or(other.transport());
            has_tracker |= other.packet_tracker().is_some();
        }
        let (initial, mss) = (first.config.initial_window.max(1), u64::from(first.config.mss.max(1)));
        let members = std::iter::once(first).chain(others).collect();
        Self { members, chosen: 0, running, needs, has_tracker, factor: 1.0, initial, mss, srtt: Dur::ZERO }
    }

    /// `bytes` of the scheme, scaled.
    fn scaled(&self, bytes: Bytes) -> Bytes {
        if self.factor.total_cmp(&1.0).is_eq() {
            return bytes;
        }
        let most = (LARGEST_WINDOW * self.mss as f64).max(bytes.0 as f64);
        Bytes(((bytes.0 as f64 * self.factor).min(most) as u64).max(self.mss))
    }

    /// State of the connection for the next scheme; none before the first acknowledgement.
    fn carried(&self) -> Option<Carried> {
        let threshold = self.slow_start_threshold().unwrap_or_else(|| self.window());
        let threshold = u32::try_from(threshold.0 / self.mss).unwrap_or(u32::MAX);
        (self.srtt > Dur::ZERO).then_some(Carried { threshold, restart_window: self.initial })
    }
}

impl Base for Schemes {
    fn on_ack(&mut self, ack: &AckInfo) {
        self.running.on_ack(ack);
        self.srtt = ack.srtt;
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.running.on_loss(loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.running.on_timeout(loss);
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        self.running.on_sent(sent);
    }

    fn transport(&self) -> TransportNeeds {
        self.needs
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.running.on_spurious_loss(now);
    }

    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        self.running.on_idle_restart(now, idle, rto);
    }

    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.running.on_recovery_end(now, in_flight);
    }

    fn on_timer(&mut self, now: Time) {
        self.running.on_timer(now);
    }

    fn next_timer(&self) -> Time {
        self.running.next_timer()
    }

    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        if self.has_tracker { Some(self) } else { None }
    }

    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        self.running.router_assisted()
    }

    fn set(&mut self, setting: FlowSetting) {
        for Member { config, .. } in &mut self.members {
            match setting {
                FlowSetting::DesiredRate(rate) => config.desired_rate = rate,
                FlowSetting::Weight(weight) => config.weight = weight,
                FlowSetting::Requirement(requirement) => config.requirement = requirement,
            }
        }
        setting.apply(self.running.as_mut());
    }

    fn window(&self) -> Bytes {
        self.scaled(self.running.window())
    }

    fn segments(&self) -> f64 {
        self.window().0 as f64 / self.mss as f64
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let rate = self.running.pacing_rate()?;
        Some(if self.factor.total_cmp(&1.0).is_eq() {
            rate
        } else {
            Rate((rate.0 as f64 * self.factor) as u64).max(Rate(1))
        })
    }

    fn rate_bps(&self) -> f64 {
        let windows = || super::per_rtt(self.segments(), self.mss as f64, self.srtt);
        self.pacing_rate().map_or_else(windows, |rate| rate.0 as f64)
    }

    fn min_burst_segments(&self) -> u32 {
        self.running.min_burst_segments()
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.running.slow_start_threshold().map(|threshold| self.scaled(threshold))
    }

    fn scale_window(&mut self, factor: f64, most: u32) {
        let before = self.segments();
        let after = (before * factor).min(f64::from(most).max(before));
        self.factor = (self.factor * after / before.max(1.0)).clamp(FACTORS.0, FACTORS.1);
    }

    fn choose(&mut self, index: usize) {
        let Some(next) = self.members.get(index).filter(|_| index != self.chosen) else { return };
        let carried = self.carried();
        let mut next = Member { scheme: next.scheme, config: next.config.clone() };
        if carried.is_some() {
            next.config.initial_window = u32::try_from(self.window().0 / self.mss).unwrap_or(u32::MAX).max(1);
            next.config.carried = carried;
        }
        self.running = next.build();
        self.chosen = index;
        self.factor = 1.0;
    }
}

/// A scheme gets numbers that it does not know, of packets that were under way when it began.
impl PacketTracker for Schemes {
    fn on_packet_acked(&mut self, number: u64) {
        if let Some(packets) = self.running.packet_tracker() {
            packets.on_packet_acked(number);
        }
    }

    fn on_packet_lost(&mut self, number: u64) {
        if let Some(packets) = self.running.packet_tracker() {
            packets.on_packet_lost(number);
        }
    }
}
