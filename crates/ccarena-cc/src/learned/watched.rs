//! A controller of any scheme that a spec watches: the spec measures the flow at its clock and moves nothing.
//!
//! A scheme reacts to an acknowledgement or a loss at once, a spec at its next decision. The action of a decision is
//! therefore what leads from the window or rate that the actions so far have made to the scheme's at this decision: what
//! the spec does if it follows the scheme from decision to decision. What an action cannot say, because of its bounds or
//! levels, is left to the next ones.

use super::Spec;
use super::bases::base::{Base, Held, Lever, initial_rtt};
use super::composed::Composed;
use super::controller::LearnedController;
use super::spec::BaseSpec;
use crate::build_error::BuildError;
use crate::controller::{
    Adjustable, Controller, Extrapolated, FlowSetting, PacketTracker, RouterAssisted, TransportNeeds,
};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::scheme::Config;
use crate::types::{Bytes, Dur, Rate, Time};

impl Spec {
    /// Returns why the behaviour of another scheme amounts to no action of this spec; none if it does.
    ///
    /// It does if the spec moves a window or a rate that nothing else moves meanwhile.
    #[must_use]
    pub fn unwatchable(&self) -> Option<String> {
        let base = match &self.base {
            BaseSpec::Kind(chosen) => chosen.entry.name,
            BaseSpec::Schemes(_) => "of schemes",
        };
        let moves = |lever| matches!(lever, Lever::Window | Lever::Rate);
        match self.actuators.iter().find(|actuator| !moves(actuator.entry.lever)) {
            Some(other) => Some(format!("its actuator {:?} moves neither the window nor the rate", other.entry.name)),
            None if base != "none" => Some(format!("its base {base} moves the window between its actions")),
            None => None,
        }
    }

    /// Returns `controller`, built for `config`, with this spec watching it; `params` are the spec's.
    ///
    /// # Errors
    /// If a parameter is unknown or outside its bounds.
    pub fn watch(&self, controller: Box<dyn Controller>, config: &Config) -> Result<Box<dyn Controller>, BuildError> {
        let (plan, values) = self.plan(config)?;
        let by_rate = self.moves_rate();
        let mirror = Mirror {
            now: Held::default(),
            decided: Held::default(),
            held: Held::default(),
            by_rate,
            window_rtts: self.base.option("window_rtts", &values).filter(|_| by_rate).unwrap_or(1.0),
            mss: plan.mss,
            srtt: Dur::ZERO,
            threshold: None,
        };
        let mut watched = Watched { controller, watcher: Composed::new(mirror, plan) };
        watched.reflect();
        let mirror = &mut watched.watcher.base;
        (mirror.decided, mirror.held) = (mirror.now, mirror.now);
        Ok(Box::new(watched))
    }
}

/// Base that follows another controller by actions alone.
struct Mirror {
    /// Window and rate of the controller, at present and at the last decision. Whichever it bounds more tightly bounds
    /// both: the window is one smoothed RTT of the rate.
    now: Held,
    decided: Held,
    /// Window and rate as the actions have made them of the first ones; the one that actions move counts.
    held: Held,
    by_rate: bool,
    /// Smoothed RTTs of sending in the window, as the base `none` has them, if actions move the rate; else 1.
    window_rtts: f64,
    mss: f64,
    srtt: Dur,
    threshold: Option<Bytes>,
}

impl Mirror {
    fn show(&mut self, controller: &dyn Controller) {
        let per_rate = self.segments_per_bps();
        let by_window = controller.window().0 as f64 / self.mss / per_rate;
        let rate = controller.pacing_rate().map_or(by_window, |pacing| by_window.min(pacing.0 as f64));
        self.now = Held { segments: rate * per_rate, rate_bps: rate };
        self.threshold = controller.slow_start_threshold();
    }

    /// Segments in one smoothed RTT of sending at 1 bit/s.
    fn segments_per_bps(&self) -> f64 {
        initial_rtt(self.srtt).as_secs_f64() / 8.0 / self.mss
    }
}

impl Base for Mirror {
    fn on_ack(&mut self, _ack: &AckInfo) {}

    fn moved(&self) -> Option<[Held; 2]> {
        Some([self.held, self.decided])
    }

    fn decided(&mut self) {
        self.decided = self.now;
    }

    fn window(&self) -> Bytes {
        Bytes((self.segments() * self.mss) as u64)
    }

    fn segments(&self) -> f64 {
        if self.by_rate { self.held.rate_bps * self.segments_per_bps() * self.window_rtts } else { self.held.segments }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate(self.rate_bps() as u64))
    }

    fn rate_bps(&self) -> f64 {
        if self.by_rate { self.held.rate_bps } else { self.held.segments / self.segments_per_bps() }
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.threshold
    }

    /// The controller's own window is its limit.
    fn scale_window(&mut self, factor: f64, _most: u32) {
        self.held.segments *= factor;
    }

    fn set_rate(&mut self, bps: f64) {
        self.held.rate_bps = bps;
    }
}

/// Reader of what a scheme does, in the terms of a learned spec.
struct Watched {
    controller: Box<dyn Controller>,
    watcher: Composed<Mirror>,
}

impl Watched {
    fn reflect(&mut self) {
        self.watcher.base.show(self.controller.as_ref());
    }
}

impl Controller for Watched {
    /// The watcher needs what its signals are measured by, and sends nothing.
    fn transport(&self) -> TransportNeeds {
        let (own, watcher) = (self.controller.transport(), self.watcher.transport());
        TransportNeeds {
            every_segment: own.every_segment || watcher.every_segment,
            rate_samples: own.rate_samples || watcher.rate_samples,
            ..own
        }
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        self.controller.on_sent(sent);
        self.reflect();
        self.watcher.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &AckInfo) {
        self.controller.on_ack(ack);
        self.watcher.base.srtt = ack.srtt;
        self.reflect();
        self.watcher.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.controller.on_loss(loss);
        self.reflect();
        self.watcher.on_loss(loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.controller.on_timeout(loss);
        self.reflect();
        self.watcher.on_timeout(loss);
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.controller.on_spurious_loss(now);
    }

    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.controller.on_recovery_end(now, in_flight);
    }

    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        self.controller.on_idle_restart(now, idle, rto);
    }

    fn on_timer(&mut self, now: Time) {
        if self.controller.next_timer() <= now {
            self.controller.on_timer(now);
        }
        self.reflect();
        self.watcher.on_timer(now);
    }

    fn next_timer(&self) -> Time {
        self.controller.next_timer().min(self.watcher.next_timer())
    }

    fn window(&self) -> Bytes {
        self.controller.window()
    }

    fn failure(&self) -> Option<&str> {
        self.controller.failure()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.controller.pacing_rate()
    }

    fn min_burst_segments(&self) -> u32 {
        self.controller.min_burst_segments()
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.controller.slow_start_threshold()
    }

    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        self.controller.packet_tracker()
    }

    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        self.controller.router_assisted()
    }

    fn adjustable(&mut self) -> Option<&mut dyn Adjustable> {
        Some(self)
    }

    fn extrapolated(&mut self) -> Option<&mut dyn Extrapolated> {
        self.controller.extrapolated()
    }

    fn learned(&mut self) -> Option<&mut dyn LearnedController> {
        self.controller.learned()
    }

    fn watcher(&mut self) -> Option<&mut dyn LearnedController> {
        Some(&mut self.watcher)
    }
}

impl Adjustable for Watched {
    fn set(&mut self, setting: FlowSetting) {
        setting.apply(self.controller.as_mut());
        self.watcher.set(setting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::actuators::{ACTUATORS, Op, Parts};
    use crate::learned::monitor::{Horizon, Monitor};

    /// A base that follows every action.
    struct Plain(f64, f64);

    impl Base for Plain {
        fn on_ack(&mut self, _: &AckInfo) {}
        fn window(&self) -> Bytes {
            Bytes((self.0 * 1448.0) as u64)
        }
        fn segments(&self) -> f64 {
            self.0
        }
        fn pacing_rate(&self) -> Option<Rate> {
            None
        }
        fn rate_bps(&self) -> f64 {
            self.1
        }
        fn scale_window(&mut self, factor: f64, _: u32) {
            self.0 *= factor;
        }
        fn set_rate(&mut self, bps: f64) {
            self.1 = bps;
        }
    }

    #[test]
    fn an_action_is_implied_by_what_it_does() {
        let monitor =
            Monitor::new(crate::learned::monitor::Parts::NONE, Horizon::default(), Rate(1), [Vec::new(), Vec::new()]);
        let ops = [Op::Multiply(0.5), Op::Add(-10.0), Op::Add(0.0), Op::Add(10.0), Op::Multiply(2.0)];
        let mut tried = 0;
        for entry in ACTUATORS.iter().filter(|entry| matches!(entry.lever, Lever::Window | Lever::Rate)) {
            let options: Vec<f64> = entry.options.iter().map(|option| option.default).collect();
            let (low, high) = if entry.name == "window_ops" { (0.0, 4.0) } else { entry.bounds };
            let bounds = (low as f32, high as f32);
            let actuator = (entry.build)(&Parts { options: &options, bounds, ops: &ops, mss: 1448.0 });
            for step in 0..=4_u8 {
                // Large enough for whole segments to say a.
                let a = (low + (high - low) * f64::from(step) / 4.0) as f32;
                let mut base = Plain(1e6, 1e9);
                let before = Held { segments: base.0, rate_bps: base.1 };
                actuator.apply(a, &mut base, &monitor);
                let after = Held { segments: base.0, rate_bps: base.1 };
                let implied = actuator.implied(before, after).unwrap_or(f32::NAN);
                assert!((implied - a).abs() < 1e-3 * a.abs().max(1.0), "{}: {a} is seen as {implied}", entry.name);
                tried += 1;
            }
        }
        assert!(tried >= 30, "{tried}");
        for entry in ACTUATORS.iter().filter(|entry| !matches!(entry.lever, Lever::Window | Lever::Rate)) {
            let options: Vec<f64> = entry.options.iter().map(|option| option.default).collect();
            let actuator = (entry.build)(&Parts { options: &options, bounds: (1.0, 2.0), ops: &[], mss: 1448.0 });
            let held = Held { segments: 10.0, rate_bps: 1e6 };
            assert_eq!(actuator.implied(held, held), None, "{}", entry.name);
        }
    }

    #[test]
    fn a_spec_over_a_base_that_moves_watches_nobody() {
        for (name, why) in [("acct", "alpha"), ("orca", "base cubic"), ("hyvar", "base cubic")] {
            let reason = crate::learned::shipped::find(name).and_then(Spec::unwatchable).unwrap_or_default();
            assert!(reason.contains(why), "{name}: {reason}");
        }
        assert_eq!(crate::learned::shipped::find("aurora").and_then(Spec::unwatchable), None);
    }
}
