//! A controller of the registry behind the stack's congestion-control interface.
//!
//! [`PacketFlow`] collects what the stack reports, and hands it over when the host says that a datagram or a timer has been
//! dealt with ([`Steering::settle`]).
//!
//! The controller's window is the stack's. Its pacing rate is kept by the flow's own pacer, which is finer than the stack's:
//! that one sends ten packets at once at rates where they take up to 10 ms. The stack sees a full window while the pacer is
//! closed, so that acknowledgements still leave. A controller that does not pace is not paced, as in Linux and
//! in the simulator: acknowledgements clock what it sends. The stack would pace it at 1.25 windows per smoothed RTT (RFC 9002
//! §7.7), which is unfair at a full drop-tail queue: windows of a few packets leave by the timer, large ones still by the
//! clock of acknowledgements, for which the queue has room (Aggarwal, Savage, Anderson: Understanding the performance of TCP
//! pacing, INFOCOM 2000).

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ccarena_cc::flow::Tally;
use ccarena_cc::operation::Role;
use ccarena_cc::packet_flow::{Counts, PacketFlow};
use ccarena_cc::{BuildError, Config, Controller, Decider, Dur, Flow, FlowSetting, Outside, Signal, Time, registry};
use ccarena_net::tcp_option;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller as StackController, ControllerFactory, ControllerMetrics};

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::qlog::Qlog;

/// Advertisements to routers per smoothed RTT, and the least time between two.
const ADVERTISEMENTS: u64 = 4;
const SHORTEST_PAUSE: Dur = Dur::from_millis(1);
/// The stack's own pacer is kept from interfering: it may send so much faster than ours.
const STACK_MARGIN: f64 = 1.25;
/// No pacing at all, in bytes per second.
const UNPACED: u64 = 1 << 40;

/// Driver of one connection.
pub struct Driver {
    /// The scheme.
    pub controller: Box<dyn Controller>,
    /// Decider of a learned connection.
    pub decider: Option<Decider>,
    /// Changes of the flow's settings, the next one last.
    pub settings: Vec<(Time, FlowSetting)>,
    /// Keep the learned scheme's reports.
    pub keeps_reports: bool,
    /// Time from which the controller counts.
    pub from: Time,
}

/// Counts of a connection, and what its controller says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Counts of packets and RTTs.
    pub counts: Counts,
    /// Decisions of a learned scheme.
    pub decisions: u64,
    /// Decisions on what its policy did not see in training.
    pub outside: Outside,
    /// Counts of a policy that an operator runs.
    pub tally: Tally,
    /// Time with packets in flight.
    pub busy: Dur,
    /// Reports, row by row, if they are kept.
    pub reports: Vec<f32>,
    /// Reason why the controller has given up, if it has.
    pub failure: Option<String>,
}

impl Driver {
    /// The same for a connection whose time zero is at `zero` of the host's clock.
    #[must_use]
    pub fn after(mut self, zero: Time) -> Self {
        self.from = zero;
        self.settings.iter_mut().for_each(|change| change.0 = zero + Dur(change.0.0));
        self
    }

    /// Returns the flow of a connection, and the changes of its settings.
    fn begin(self) -> (Flow, Vec<(Time, FlowSetting)>) {
        let mut flow = Flow::new(self.controller, self.decider, self.from);
        if self.keeps_reports {
            flow.keep_reports();
        }
        (flow, self.settings)
    }
}

/// The steering of one connection, shared by the stack and the host. Clones steer the same connection.
#[derive(Clone)]
pub struct Steering(Arc<Mutex<State>>);

/// Request to routers of a scheme that uses them.
#[derive(Clone, Copy, Debug)]
struct Advertised {
    kbps: u32,
    at: Time,
}

struct State {
    flow: PacketFlow,
    /// Changes of the flow's settings, the next one last.
    settings: Vec<(Time, FlowSetting)>,
    clock: Clock,
    now: Time,
    /// The handshake is over; before, packets are not the controller's.
    began: bool,
    /// Flag that the stack last took the window for full because of the pacer.
    waits: bool,
    /// The most bytes on the way, whatever the controller's window.
    most: u64,
    advertised: Option<Advertised>,
    qlog: Option<Qlog>,
    /// Packets that the log has not heard of yet.
    acked: Vec<u64>,
    lost: Vec<u64>,
}

impl Steering {
    /// Steers a connection by `driver`, in packets of `mtu` bytes of UDP payload.
    #[must_use]
    pub fn new(driver: Driver, clock: Clock, mtu: u16, qlog: Option<Qlog>) -> Self {
        let from = driver.from;
        let (flow, settings) = driver.begin();
        Self(Arc::new(Mutex::new(State {
            flow: PacketFlow::new(flow, mtu),
            settings,
            clock,
            now: from,
            began: false,
            waits: false,
            most: u64::MAX,
            advertised: None,
            qlog,
            acked: Vec::new(),
            lost: Vec::new(),
        })))
    }

    /// Steers the receiving end of a connection, which sends next to nothing.
    ///
    /// # Errors
    /// If there is no Reno.
    pub fn of_receiver(clock: Clock, mtu: u16, qlog: Option<Qlog>) -> Result<Self, BuildError> {
        let config = Config { mss: u32::from(mtu), ..Config::default() };
        let controller = registry::build("reno", &config)?;
        Ok(Self::new(
            Driver { controller, decider: None, settings: Vec::new(), keeps_reports: false, from: Time::ZERO },
            clock,
            mtu,
            qlog,
        ))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The flow that `next` makes of the present one, its smoothed RTT and the time takes over.
    ///
    /// # Errors
    /// As `next`: then nothing changes.
    pub fn pass<E>(&self, next: impl FnOnce(&Flow, Dur, Time) -> Result<Flow, E>) -> Result<(), E> {
        let mut state = self.state();
        let now = state.now;
        let flow = next(state.flow.flow(), state.flow.rtt().0, now)?;
        state.settings.clear();
        state.flow.replace(flow, now);
        Ok(())
    }

    /// Returns who moves the window of a connection that an operator runs a policy on; none for others.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        self.state().flow.flow().role()
    }

    /// The handshake is over at `now`: what is sent from now on is the controller's.
    pub fn begin(&self, now: Time) {
        let mut state = self.state();
        state.now = now;
        state.began = true;
    }

    /// Runs what is due at `now`. Call it before asking the stack for packets.
    pub fn advance(&self, now: Time) {
        self.state().advance(now);
    }

    /// The stack has dealt with a datagram or a timer at `now`; its smoothed RTT is `srtt`.
    pub fn settle(&self, now: Time, srtt: Option<Dur>) {
        self.state().settle(now, srtt.unwrap_or(Dur::ZERO));
    }

    /// Packet `number` of `bytes` leaves at `now`.
    pub fn on_sent(&self, now: Time, bytes: u64, number: u64) {
        self.state().send(now, bytes, number);
    }

    /// Packet `number` is acknowledged at `now`, which the controller learns when it is [settled](Self::settle).
    pub fn on_acked(&self, now: Time, number: u64) {
        self.state().on_acked(now, number);
    }

    /// The rate in kbit/s that is to be advertised to routers now, ahead of the packets that leave at `now`
    /// ([`ccarena_net::rate_datagram`]); none if the scheme takes no advertised rate, or it is too soon for another.
    #[must_use]
    pub fn advertise(&self, now: Time) -> Option<u32> {
        let mut state = self.state();
        let kbps = tcp_option::kbps(state.flow.flow().request()?.rate()?);
        let pause = (state.flow.rtt().0 / ADVERTISEMENTS).max(SHORTEST_PAUSE);
        if !state.began || state.advertised.is_some_and(|before| now < before.at + pause) {
            return None;
        }
        state.advertised = Some(Advertised { kbps, at: now });
        Some(kbps)
    }

    /// The receiver returns the rate that arrived there. One above what is asked for is not believed.
    pub fn on_echo(&self, kbps: u32) {
        let mut state = self.state();
        if state.advertised.is_some_and(|advertised| kbps <= advertised.kbps) {
            state.flow.on_signal(tcp_option::rate(kbps).map_or(Signal::None, Signal::Rate));
        }
    }

    /// No more than `bytes` are to be on the way, whatever the controller's window.
    pub fn limit(&self, bytes: u64) {
        self.state().most = bytes;
    }

    /// Bytes on the way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.state().flow.in_flight()
    }

    /// Returns when [`advance`](Self::advance) is due; ask the stack for packets after it.
    #[must_use]
    pub fn next(&self) -> Time {
        let state = self.state();
        let setting_at = state.settings.last().map_or(Time::NEVER, |w| w.0);
        let paced = if state.waits { state.flow.due() } else { Time::NEVER };
        state.flow.next_timer().min(setting_at).min(paced)
    }

    /// Puts a setting of the application in force.
    pub fn set(&self, setting: FlowSetting) {
        let mut state = self.state();
        let now = state.now;
        state.flow.change(now, |flow| flow.set(setting));
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let state = self.state();
        let flow = state.flow.flow();
        Totals {
            counts: state.flow.counts(),
            decisions: flow.decisions(),
            outside: flow.outside(),
            tally: flow.tally(),
            busy: state.flow.busy(state.now),
            reports: flow.reports().to_vec(),
            failure: flow.failure().map(Into::into),
        }
    }

    /// Returns whether the controller has given up.
    #[must_use]
    pub fn gave_up(&self) -> bool {
        self.state().flow.flow().window().0 == 0
    }

    /// The connection's metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.state().metrics()
    }

    /// Ends the log of events, if there is one.
    pub fn close(&self) {
        drop(self.state().qlog.take());
    }
}

impl State {
    fn metrics(&self) -> Metrics {
        let (srtt, rtt_latest) = self.flow.rtt();
        Metrics {
            window: self.flow.window(),
            pacing: self.flow.pacing_rate(),
            threshold: self.flow.flow().slow_start_threshold().map(|b| b.0),
            in_flight: self.flow.in_flight(),
            srtt,
            rtt_min: self.flow.counts().rtt_min.unwrap_or_default(),
            rtt_latest,
        }
    }

    fn advance(&mut self, now: Time) {
        self.now = now;
        while let Some((_, setting)) = self.settings.pop_if(|change| change.0 <= now) {
            self.flow.change(now, |flow| flow.set(setting));
        }
        self.flow.on_timer(now);
        self.waits = false;
    }

    fn settle(&mut self, now: Time, srtt: Dur) {
        self.now = now;
        if self.flow.settle(now, srtt) && self.qlog.is_some() {
            let metrics = self.metrics();
            if let Some(qlog) = &mut self.qlog {
                qlog.heard(now, &self.acked, &self.lost);
                qlog.metrics(now, &metrics);
            }
        }
        self.acked.clear();
        self.lost.clear();
    }

    fn on_acked(&mut self, now: Time, number: u64) {
        if self.flow.on_acked(now, number) && self.qlog.is_some() {
            self.acked.push(number);
        }
    }

    fn on_lost(&mut self, number: u64) {
        if self.flow.on_lost(number) && self.qlog.is_some() {
            self.lost.push(number);
        }
    }

    /// Congestion was noticed, the newest packet that tells of it having been sent at `sent`. The stack does not say how many
    /// packets are newly marked: it calls once for an acknowledgement.
    fn on_congestion(&mut self, sent: Time, persistent: bool, ecn: bool) {
        if ecn {
            self.flow.on_marked(1, Some(sent));
        }
        if persistent {
            self.flow.on_persistent_congestion();
        }
    }

    fn send(&mut self, now: Time, bytes: u64, number: u64) {
        if !self.began || !self.flow.on_sent(now, number, bytes) {
            return;
        }
        if let Some(qlog) = &mut self.qlog {
            qlog.sent(now, number, bytes);
        }
    }
}

impl ControllerFactory for Steering {
    fn build(self: Arc<Self>, _: Instant, _: u16) -> Box<dyn StackController> {
        Box::new(Hook(Self::clone(&self)))
    }
}

/// Handle that the stack holds.
struct Hook(Steering);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Hook({:?})", self.0.metrics())
    }
}

impl StackController for Hook {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, number: u64) {
        let mut state = self.0.state();
        let now = state.clock.time(now);
        state.send(now, u64::from(bytes), number);
    }

    fn on_cwnd_limited(&mut self) {
        let mut state = self.0.state();
        if !state.waits {
            state.flow.on_window_limited();
        }
    }

    fn on_ack(&mut self, now: Instant, _: Instant, _: u64, number: u64, _: bool, _: &RttEstimator) {
        let mut state = self.0.state();
        let now = state.clock.time(now);
        state.on_acked(now, number);
    }

    fn on_end_acks(&mut self, _: Instant, _: u64, app_limited: bool, _: Option<u64>) {
        let mut state = self.0.state();
        if app_limited {
            state.flow.on_app_limited();
        }
    }

    fn on_congestion_event(&mut self, _: Instant, sent: Instant, persistent: bool, ecn: bool, _: u64, _: u64) {
        let mut state = self.0.state();
        let sent = state.clock.time(sent);
        state.on_congestion(sent, persistent, ecn);
    }

    fn on_packet_lost(&mut self, _: u16, number: u64, _: Instant) {
        self.0.state().on_lost(number);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.0.state().flow.on_spurious_loss();
    }

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        let mut state = self.0.state();
        if state.began && state.flow.departure().is_some_and(|at| at > state.now) {
            state.waits = true;
            return 0;
        }
        state.flow.window().min(state.most)
    }

    fn metrics(&self) -> ControllerMetrics {
        let state = self.0.state();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = state.flow.window();
        let rate = state.flow.pacing_rate().map(|rate| (rate.0 as f64 / 8.0 * STACK_MARGIN).ceil() as u64);
        metrics.pacing_rate = Some(rate.unwrap_or(UNPACED));
        metrics
    }

    fn clone_box(&self) -> Box<dyn StackController> {
        Box::new(Self(self.0.clone()))
    }

    fn initial_window(&self) -> u64 {
        self.0.state().flow.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccarena_cc::Rate;
    use proptest::prelude::*;

    const MTU: u16 = 1472;

    fn steering(scheme: &str) -> Steering {
        let requirement = Some(ccarena_cc::Requirement { min: Rate::from_mbps(5.0), max: Rate::from_mbps(8.0) });
        let config = Config { mss: u32::from(MTU), requirement, ..Config::default() };
        let controller = registry::build(scheme, &config).unwrap();
        let decider = None;
        let driver = Driver { controller, decider, settings: Vec::new(), keeps_reports: true, from: Time::ZERO };
        Steering::new(driver, Clock::starting(), MTU, None)
    }

    proptest! {
        #[test]
        fn whatever_a_peer_makes_the_stack_tell_the_controller_stays_usable(
            steps in prop::collection::vec((0_u8..8, 0_u64..60, 1_u64..400_000_000), 1..120),
        ) {
            for scheme in registry::schemes() {
                let steering = steering(scheme.name);
                steering.begin(Time(1));
                let (mut now, mut next) = (Time(1), 0);
                for &(what, number, long) in &steps {
                    now = Time(now.0 + long / 100 + 1);
                    steering.advance(now);
                    match what {
                        0..=3 => {
                            next += 1;
                            steering.on_sent(now, u64::from(MTU), next);
                        }
                        4 | 5 => {
                            // Acknowledged once more, never sent, or twice: the stack may not filter it.
                            (0..number).for_each(|n| steering.on_acked(now, next.saturating_sub(n) + n % 2));
                            // A smoothed RTT that an absurd delay of acknowledgements has made.
                            steering.settle(now, Some(Dur(long * number)));
                        }
                        6 => {
                            steering.state().on_lost(next.saturating_sub(number));
                            steering.state().on_congestion(Time(long), number % 7 == 0, number % 5 == 0);
                            steering.settle(now, None);
                        }
                        _ => {
                            steering.state().flow.on_spurious_loss();
                            steering.settle(now, Some(Dur(long)));
                        }
                    }
                    let (metrics, totals) = (steering.metrics(), steering.totals());
                    prop_assert!(metrics.window >= u64::from(MTU), "{}: {metrics:?}", scheme.name);
                    prop_assert!(metrics.pacing.is_none_or(|rate| rate.0 > 0), "{}", scheme.name);
                    prop_assert!(totals.counts.rtt_sum.0 <= now.0 * totals.counts.rtt_count.max(1), "an RTT is no longer than the run");
                }
            }
        }
    }

    #[test]
    fn a_limit_bounds_what_the_stack_may_send() {
        let steering = steering("cubic");
        let hook = Hook(steering.clone());
        let free = hook.window();
        steering.limit(free / 2);
        assert_eq!((hook.window(), steering.metrics().window), (free / 2, free));
        steering.limit(u64::MAX);
        assert_eq!(hook.window(), free);
    }

    #[test]
    fn losses_of_one_round_trip_are_one_episode() {
        let steering = steering("reno");
        steering.begin(Time(1));
        (0..10).for_each(|n| steering.on_sent(Time(1), u64::from(MTU), n));
        let before = steering.metrics().window;
        for lost in [0, 2, 4] {
            let now = Time(50_000_000 + lost);
            steering.state().on_lost(lost);
            steering.state().on_congestion(Time(1), false, false);
            steering.on_acked(now, lost + 1);
            steering.settle(now, Some(Dur::from_millis(50)));
        }
        assert_eq!(steering.metrics().window, before / 2);
        assert_eq!(steering.totals().counts.lost_packets, 3);
    }

    #[test]
    fn the_peers_delay_is_taken_off_an_rtt() {
        let steering = steering("cubic");
        assert_eq!(steering.advertise(Time(2)), None, "no router helps it");
        steering.begin(Time(1));
        let ms = |ms: u64| Time(ms * 1_000_000);
        (0..2).for_each(|n| steering.on_sent(ms(10), u64::from(MTU), n));
        steering.on_acked(ms(30), 0);
        steering.settle(ms(30), Some(Dur::from_millis(20)));
        // 30 ms later, of which the peer waited for 8: the stack smooths 22.
        steering.on_acked(ms(40), 1);
        steering.settle(ms(40), Some(Dur((7 * 20_000_000 + 22_000_000) / 8)));
        let latest = steering.metrics().rtt_latest;
        assert!(latest.0.abs_diff(22_000_000) <= 8, "{latest}");
    }
}
