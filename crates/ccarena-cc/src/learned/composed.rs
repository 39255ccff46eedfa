//! The controller that runs a spec.

use std::sync::Arc;

use super::bases::base::{Base, initial_rtt};
use super::clocks::{DatapathClock, Decision, Length};
use super::interface::Interface;
use super::monitor::{Measured, Monitor};
use super::plan::{Column, Plan};
use super::signals::View;
use crate::action::{Action, ActionError, MOST_NUMBERS, Numbers};
use crate::controller::{
    Adjustable, Controller, Extrapolated, Extrapolation, FlowSetting, PacketTracker, RouterAssisted, TransportNeeds,
};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::learned::LearnedController;
use crate::signal::Signal;
use crate::types::{Bytes, Dur, Rate, Time};

/// End of the present period.
#[derive(Clone, Copy, Debug)]
enum Alarm {
    /// The period begins with the first packet.
    Waiting(Length),
    /// The first period begins with the first acknowledgement.
    Unacked(Length),
    /// End with the first acknowledgement at or after this time.
    Acked(Time),
    /// End at this time.
    Timed(Time),
    /// End with the first acknowledgement after this number of smoothed round trips.
    RoundTrips { start: Time, count: f64 },
    /// End when this byte is acknowledged. None is marked yet if it is zero: the first acknowledgement marks it, and what
    /// came before counts for the first period.
    Window { mark: u64 },
    /// A datapath judges periods: with the next acknowledgement, if it has.
    Judged(Option<Decision>),
}

impl Alarm {
    /// A period of `length` begins at `now`; one of a window where it already stands.
    fn begin(self, length: Length, now: Time) -> Self {
        match length {
            _ if matches!(self, Self::Judged(_)) => Self::Judged(None),
            Length::Acked(length) => Self::Acked(now + length),
            Length::Ticks { .. } if matches!(self, Self::Waiting(_)) => Self::Unacked(length),
            // The end of the first tick that is more than the period after the present one.
            Length::Ticks { period, tick } => {
                Self::Acked(Time(now.0 / tick.0 * tick.0 + (period.0 / tick.0 + 1) * tick.0))
            }
            Length::Timed(length) => Self::Timed(now + length.max(Dur(1))),
            Length::RoundTrips(count) => Self::RoundTrips { start: now, count },
            Length::Window if matches!(self, Self::Window { .. }) => self,
            Length::Window => Self::Window { mark: 0 },
        }
    }

    #[inline]
    fn rings(&self, ack: &AckInfo) -> bool {
        match *self {
            Self::Acked(end) => ack.now >= end,
            Self::Window { mark } => ack.snd_una >= mark,
            Self::RoundTrips { start, count } => ack.now >= start + round_trips(ack.srtt, count),
            Self::Judged(decision) => decision.is_some(),
            Self::Unacked(_) => true,
            Self::Waiting(_) | Self::Timed(_) => false,
        }
    }

    /// Returns the rest of the period, for which the clock has chosen `length`.
    fn left(&self, length: Length, now: Time, srtt: Dur) -> Dur {
        match *self {
            Self::Judged(_) => chosen(length),
            Self::Window { .. } | Self::Waiting(Length::Window) => initial_rtt(srtt),
            Self::Waiting(length) | Self::Unacked(length) => chosen(length),
            Self::Acked(end) | Self::Timed(end) => end.since(now),
            Self::RoundTrips { start, count } => (start + round_trips(srtt, count)).since(now),
        }
    }

    /// Returns whether the period, begun or not, ends when a window is acknowledged.
    fn is_per_window(&self) -> bool {
        matches!(self, Self::Window { .. } | Self::Waiting(Length::Window))
    }
}

/// `count` smoothed round trips; 100 ms each before there is a sample.
#[inline]
fn round_trips(srtt: Dur, count: f64) -> Dur {
    Dur::from_secs_f64(initial_rtt(srtt).as_secs_f64() * count).max(Dur(1))
}

/// The length that a clock has chosen; zero if a period has none beforehand.
fn chosen(length: Length) -> Dur {
    match length {
        Length::Acked(length) | Length::Timed(length) | Length::Ticks { period: length, .. } => length,
        Length::RoundTrips(_) | Length::Window => Dur::ZERO,
    }
}

/// A controller over base `B`.
pub struct Composed<B> {
    pub(super) base: B,
    monitor: Monitor,
    alarm: Alarm,
    /// Length of the present period.
    length: Length,
    /// The report is due to be taken; an answer to it is awaited.
    decision_due: bool,
    asked: bool,
    action: [f32; MOST_NUMBERS],
    action_before: [f32; MOST_NUMBERS],
    /// The action in force, as the action space has it.
    acted: Numbers,
    case: u8,
    /// The observation; a value that is read when the decider looks is not in it.
    history: Vec<f32>,
    report: Vec<f32>,
    /// The last period and its end.
    ended: Measured,
    now: Time,
    plan: Plan,
}

impl<B: Base + 'static> Composed<B> {
    /// The controller of `plan` over `base`.
    #[must_use]
    pub fn new(mut base: B, mut plan: Plan) -> Self {
        let length = plan.start.map_or_else(|| plan.clock.first(), |start| Length::Acked(start.every));
        let mut action = [0.0; MOST_NUMBERS];
        for (value, acting) in action.iter_mut().zip(&plan.actuators) {
            *value = acting.actuator.begin(&mut base);
        }
        Self {
            base,
            monitor: Monitor::new(plan.parts, plan.horizon, plan.desired, std::mem::take(&mut plan.taps)),
            alarm: Alarm::Waiting(length),
            length,
            decision_due: false,
            asked: false,
            action,
            action_before: action,
            acted: Numbers::of(&[0.0; MOST_NUMBERS][..plan.interface.width()]),
            case: 0,
            history: vec![0.0; plan.interface.observation_len],
            report: vec![0.0; plan.interface.report.len()],
            ended: Measured::default(),
            now: Time::ZERO,
            plan,
        }
    }

    fn view<'a>(&'a self, measured: &'a Measured) -> View<'a> {
        View {
            now: self.now,
            measured,
            monitor: &self.monitor,
            base: &self.base,
            mss: self.plan.mss,
            wire_bytes: self.plan.wire_bytes,
            action: self.action,
            action_before: self.action_before,
            case: self.case,
            next_length: chosen(self.length),
            weight: self.plan.weight,
            requirement: self.plan.requirement,
            params: &self.plan.params,
            derived: &[],
        }
    }

    /// Appends the period to the history, oldest first.
    fn remember(&mut self, measured: &Measured) {
        let mut history = std::mem::take(&mut self.history);
        let mut program = std::mem::take(&mut self.plan.observed);
        let view = program.run(self.view(measured));
        for column in self.plan.observe.iter().filter(|c| !c.live) {
            let series = &mut history[column.at..column.at + column.length];
            series.copy_within(1.., 0);
            series[column.length - 1] = column.read(&view);
        }
        self.history = history;
        self.plan.observed = program;
        self.monitor.end_taps(false, self.now);
    }

    /// Reports the time since the last report.
    fn write_report(&mut self, ended: &Measured) {
        let span = self.monitor.end_span(ended, self.now);
        let mut report = std::mem::take(&mut self.report);
        let mut program = std::mem::take(&mut self.plan.reported);
        let view = program.run(self.view(&span));
        for (slot, column) in report.iter_mut().zip(&self.plan.report) {
            *slot = column.read(&view);
        }
        self.report = report;
        self.plan.reported = program;
        self.monitor.end_taps(true, self.now);
        self.monitor.forget_span();
    }

    /// Ends the present period at `now`; the next one begins at `next`.
    #[inline(never)]
    fn end_period(&mut self, now: Time, next: Time) {
        let ended = self.monitor.end_period(now, chosen(self.length));
        self.now = now;
        if self.starts(next) {
            return;
        }
        self.imply();
        self.remember(&ended);
        let decision = match self.alarm {
            Alarm::Judged(Some(decision)) => decision,
            _ => self.plan.clock.judge(&ended),
        };
        self.case = decision.case;
        self.length = decision.next;
        self.alarm = self.alarm.begin(decision.next, next);
        if decision.ask {
            self.write_report(&ended);
            self.action_before = self.action;
            self.decision_due = true;
            self.asked = true;
            self.base.decided();
        } else {
            self.monitor.extend_span(ended.length_most);
        }
        self.base.on_period(now, &ended, self.monitor.target(self.plan.wire_bytes));
        self.ended = ended;
    }

    /// Puts in force the action of the last decision, of a base that follows another controller. It has one actuator.
    fn imply(&mut self) {
        let Some([before, after]) = self.base.moved().filter(|_| std::mem::take(&mut self.asked)) else { return };
        let Some(acting) = self.plan.actuators.first() else { return };
        let Some(implied) = acting.actuator.implied(before, after).filter(|value| !value.is_nan()) else { return };
        let (number, value) = self.plan.interface.nearest(implied);
        self.acted = number.into();
        self.action[0] = acting.actuator.apply(value, &mut self.base, &self.monitor);
    }

    /// Grows the window while the base is in the slow start that the spec describes; the next step begins at `next`.
    fn starts(&mut self, next: Time) -> bool {
        let Some(start) = self.plan.start else { return false };
        let window = self.base.window();
        if self.base.slow_start_threshold().is_none_or(|threshold| threshold < window) {
            self.plan.start = None;
            return false;
        }
        let segments = self.base.segments().max(1.0);
        self.base.scale_window((segments * start.factor).floor() / segments, start.most);
        self.alarm = Alarm::Acked(next + start.every);
        true
    }

    /// The alarm rings with `ack`.
    fn ring(&mut self, ack: &AckInfo) {
        if let Alarm::Unacked(length) = self.alarm {
            self.alarm = self.alarm.begin(length, ack.now);
            return;
        }
        let Alarm::Window { mark } = self.alarm else { return self.end_period(ack.now, ack.now) };
        if mark > 0 {
            self.end_period(ack.now, ack.now);
        }
        self.alarm = Alarm::Window { mark: ack.snd_nxt.max(ack.snd_una + 1) };
    }
}

impl<B: Base + 'static> Controller for Composed<B> {
    fn on_ack(&mut self, ack: &AckInfo) {
        self.base.on_ack(ack);
        self.monitor.on_ack(ack);
        if self.alarm.rings(ack) {
            self.ring(ack);
        }
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        self.monitor.on_loss(loss);
        self.base.on_loss(loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        self.monitor.on_loss(loss);
        self.base.on_timeout(loss);
        if let Alarm::Window { mark } = &mut self.alarm {
            *mark = (*mark).min(loss.snd_nxt);
        }
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        if let Alarm::Waiting(length) = self.alarm {
            self.monitor.start(sent.now);
            self.alarm = self.alarm.begin(length, sent.now);
        }
        if self.monitor.counts_sent {
            self.monitor.on_sent(sent);
        }
        self.base.on_sent(sent);
    }

    /// The first period begins with the first segment, which leaves after silence.
    fn transport(&self) -> TransportNeeds {
        let base = self.base.transport();
        TransportNeeds {
            every_segment: self.monitor.counts_sent || base.every_segment,
            rate_samples: self.monitor.keeps_rate() || base.rate_samples,
            l4s: self.plan.l4s || base.l4s,
            ..base
        }
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
        if self.base.next_timer() <= now {
            self.base.on_timer(now);
        }
        if let (Alarm::Timed(at), Length::Timed(length)) = (self.alarm, self.length) {
            if at <= now {
                // A timer that fires late does not delay the ones after it, unless a whole period has passed.
                self.end_period(now, if at + length > now { at } else { now });
            }
        }
    }

    fn next_timer(&self) -> Time {
        let base = self.base.next_timer();
        match self.alarm {
            Alarm::Timed(at) => at.min(base),
            _ => base,
        }
    }

    fn window(&self) -> Bytes {
        self.base.window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.base.pacing_rate()
    }

    fn min_burst_segments(&self) -> u32 {
        self.base.min_burst_segments()
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.base.slow_start_threshold()
    }

    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        self.base.packet_tracker()
    }

    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        if self.plan.takes_rate { Some(self) } else { self.base.router_assisted() }
    }

    fn adjustable(&mut self) -> Option<&mut dyn Adjustable> {
        Some(self)
    }

    fn extrapolated(&mut self) -> Option<&mut dyn Extrapolated> {
        Some(self)
    }

    fn learned(&mut self) -> Option<&mut dyn LearnedController> {
        Some(self)
    }
}

impl<B: Base> RouterAssisted for Composed<B> {
    fn request(&self) -> Signal {
        Signal::Rate(self.monitor.desired)
    }
}

impl<B: Base> Adjustable for Composed<B> {
    fn set(&mut self, setting: FlowSetting) {
        self.base.set(setting);
        match setting {
            FlowSetting::DesiredRate(rate) => self.monitor.set_desired(rate),
            FlowSetting::Weight(weight) => self.plan.weight = weight,
            FlowSetting::Requirement(requirement) => self.plan.requirement = requirement,
        }
    }
}

impl<B: Base> Extrapolated for Composed<B> {
    fn extrapolation(&self, now: Time) -> Extrapolation {
        if self.plan.start.is_some() {
            // A step of the start needs the window and threshold of this controller.
            return Extrapolation::HOLD;
        }
        let left = self.alarm.left(self.length, now, self.monitor.srtt);
        let steps = self.base.extrapolation(left, self.alarm.is_per_window());
        // A timer's decision needs a fresh measurement.
        let timed = matches!(self.alarm, Alarm::Timed(_));
        Extrapolation { report: timed.then(|| chosen(self.length) / 4), ..steps }
    }

    fn adopt_window(&mut self, window: Bytes) -> bool {
        self.base.adopt_window(window)
    }
}

impl<B: Base + 'static> LearnedController for Composed<B> {
    fn interface(&self) -> &Arc<Interface> {
        &self.plan.interface
    }

    fn take_decision(&mut self) -> bool {
        std::mem::take(&mut self.decision_due)
    }

    fn datapath_clock(&self) -> Option<DatapathClock> {
        if self.base.paces() { None } else { self.plan.clock.in_datapath() }
    }

    fn adopt_decision(&mut self, decision: Option<Decision>) {
        // Nothing is measured before the first packet.
        if !matches!(self.alarm, Alarm::Waiting(_)) {
            self.alarm = Alarm::Judged(decision);
        }
    }

    fn end_interval(&mut self, now: Time) {
        let ended = self.monitor.end_period(now, chosen(self.length));
        self.now = now;
        // A period of a stated length that is cut short is not among its like in the history.
        if chosen(self.length) == Dur::ZERO {
            self.remember(&ended);
        }
        if !matches!(self.alarm, Alarm::Waiting(_)) {
            self.alarm = self.alarm.begin(self.length, now);
        }
        self.case = 0;
        self.write_report(&ended);
        self.action_before = self.action;
        self.base.on_period(now, &ended, self.monitor.target(self.plan.wire_bytes));
        self.ended = ended;
        self.decision_due = false;
        self.asked = false;
    }

    fn observe(&self, out: &mut [f32]) {
        let length = out.len().min(self.history.len());
        out[..length].copy_from_slice(&self.history[..length]);
        if self.plan.observe.iter().any(|c| c.live) {
            let view = self.view(&self.ended);
            for column in self.plan.observe.iter().filter(|c: &&Column| c.live && c.at < length) {
                out[column.at] = column.read(&view);
            }
        }
    }

    fn report(&self, out: &mut [f32]) {
        for (slot, x) in out.iter_mut().zip(&self.report) {
            *slot = *x;
        }
    }

    fn acted(&self) -> Numbers {
        self.acted
    }

    fn act(&mut self, action: Action, _now: Time) -> Result<(), ActionError> {
        let values = self.plan.split(self.plan.interface.value(action)?);
        self.acted = match action {
            Action::Discrete(index) => (index as f32).into(),
            Action::Continuous(numbers) => numbers,
        };
        let asked = std::mem::take(&mut self.asked);
        for ((acting, value), action) in self.plan.actuators.iter().zip(values).zip(&mut self.action) {
            if asked || !acting.relative {
                *action = acting.actuator.apply(value, &mut self.base, &self.monitor);
            }
        }
        Ok(())
    }
}
