//! A controller of the registry behind the stack's congestion-control interface.
//!
//! The stack tells of packets one by one, acknowledgements first and losses after them; a controller wants an
//! acknowledgement as a whole, losses first. So what the stack tells is collected, and handed over when the host says
//! that a datagram or a timer has been dealt with ([`Steering::settle`]). The recovery period is RFC 9002's (§7.3.2):
//! losses of packets that were sent before it began belong to it.
//!
//! The controller's window is the stack's; its pacing rate is kept by a [`Pacer`] of our own, whose "not yet" the stack
//! sees as a full window, so that acknowledgements still leave. A controller that does not pace is not paced, as in Linux and
//! in the simulator: acknowledgements clock what it sends. The stack would pace it at 1.25 windows per smoothed RTT (RFC 9002
//! §7.7), which is unfair at a full drop-tail queue: windows of a few packets leave by the timer, large ones still by the
//! clock of acknowledgements, for which the queue has room (Aggarwal, Savage, Anderson: Understanding the performance of TCP
//! pacing, INFOCOM 2000).
//!
//! Departures: bytes are those of whole QUIC packets, as in RFC 9002, of which a full one counts as a segment; there are
//! no retransmissions, since QUIC sends lost data in new packets; a probe timeout is not told, and persistent congestion
//! (§7.6) stands for a retransmission timeout.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ccarena_cc::{
    AckInfo, BuildError, Bytes, Config, Controller, Decider, Dur, Flow, FlowSetting, LossInfo, Outside, Rate,
    RecoveryState, SentInfo, Signal, Time, registry,
};
use ccarena_net::tcp_option;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller as StackController, ControllerFactory, ControllerMetrics};

use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::pacer::Pacer;
use crate::packets::{Packet, Packets};
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
}

impl Driver {
    /// Returns the flow of a connection that begins at `now`, and the changes of its settings.
    fn begin(self, now: Time) -> (Flow, Vec<(Time, FlowSetting)>) {
        let mut flow = Flow::new(self.controller, self.decider, now);
        if self.keeps_reports {
            flow.keep_reports();
        }
        (flow, self.settings)
    }
}

/// Counts of a connection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Packets that ask for an acknowledgement, sent after the handshake.
    pub sent_packets: u64,
    /// Number of lost packets among these.
    pub lost_packets: u64,
    /// Times of persistent congestion.
    pub timeouts: u64,
    /// Reductions for ECN echoes.
    pub ecn_reductions: u64,
    /// Congestion events that proved spurious: everything lost at one has arrived.
    pub undone_recoveries: u64,
    /// Smallest RTT.
    pub rtt_min: Option<Dur>,
    /// Sum and number of RTT samples, the peer's delay taken off.
    pub rtt_sum: Dur,
    /// See `rtt_sum`.
    pub rtt_count: u64,
    /// Decisions of a learned scheme.
    pub decisions: u64,
    /// Decisions on what its policy did not see in training.
    pub outside: Outside,
    /// Reports, row by row, if they are kept.
    pub reports: Vec<f32>,
    /// Bytes delivered, in QUIC packets.
    pub delivered_bytes: u64,
    /// Reason why the controller has given up, if it has.
    pub failure: Option<String>,
}

/// The steering of one connection, shared by the stack and the host. Clones steer the same connection.
#[derive(Clone)]
pub struct Steering(Arc<Mutex<State>>);

/// Event of a datagram or a timer that is not yet reported.
#[derive(Debug, Default)]
struct News {
    acked: u64,
    acked_packets: u32,
    newest: Option<(u64, Packet)>,
    numbers: Vec<u64>,
    lost: u64,
    lost_packets: u32,
    lost_numbers: Vec<u64>,
    newest_lost: Option<Time>,
    persistent: bool,
    ecn: bool,
    /// Acknowledgements that count newly marked packets: the stack does not tell how many.
    marked_acks: u32,
    spurious: bool,
    prior_in_flight: Option<u64>,
}

/// Requests to routers of a scheme that uses them, and their answers.
#[derive(Clone, Copy, Debug)]
struct Advertised {
    kbps: u32,
    at: Time,
    heard: Option<Rate>,
}

struct State {
    flow: Flow,
    /// Changes of the flow's settings, the next one last.
    settings: Vec<(Time, FlowSetting)>,
    clock: Clock,
    mtu: u64,
    now: Time,
    /// The handshake is over; before, packets are not the controller's.
    began: bool,
    tracks: bool,
    every_segment: bool,
    packets: Packets,
    news: News,
    /// Start of the recovery period, and its state.
    recovery: Option<(Time, RecoveryState)>,
    /// Bytes sent when the window last was what limited sending.
    limited_until: u64,
    /// Flag that the stack last took the window for full because of the pacer.
    waits: bool,
    /// The most bytes on the way, whatever the controller's window.
    most: u64,
    window: u64,
    /// Flag that the controller has given up.
    gave_up: bool,
    pacing: Option<Rate>,
    pacer: Pacer,
    last_sent: Time,
    largest_acked: Option<u64>,
    rtt_min: Dur,
    srtt: Dur,
    rtt_latest: Dur,
    advertised: Option<Advertised>,
    totals: Totals,
    qlog: Option<Qlog>,
}

impl Steering {
    /// Steers a connection by `driver`, in packets of `mtu` bytes of UDP payload.
    #[must_use]
    pub fn new(driver: Driver, clock: Clock, mtu: u16, qlog: Option<Qlog>) -> Self {
        let (flow, settings) = driver.begin(Time::ZERO);
        let mut state = State {
            flow,
            settings,
            clock,
            mtu: u64::from(mtu),
            now: Time::ZERO,
            began: false,
            tracks: false,
            every_segment: false,
            packets: Packets::default(),
            news: News::default(),
            recovery: None,
            limited_until: 0,
            waits: false,
            most: u64::MAX,
            window: 0,
            gave_up: false,
            pacing: None,
            pacer: Pacer::default(),
            last_sent: Time::ZERO,
            largest_acked: None,
            rtt_min: Dur::MAX,
            srtt: Dur::ZERO,
            rtt_latest: Dur::ZERO,
            advertised: None,
            totals: Totals::default(),
            qlog,
        };
        state.take_over();
        Self(Arc::new(Mutex::new(state)))
    }

    /// Steers the receiving end of a connection, which sends next to nothing.
    ///
    /// # Errors
    /// If there is no Reno.
    pub fn of_receiver(clock: Clock, mtu: u16, qlog: Option<Qlog>) -> Result<Self, BuildError> {
        let config = Config { mss: u32::from(mtu), ..Config::default() };
        let controller = registry::build("reno", &config)?;
        Ok(Self::new(
            Driver { controller, decider: None, settings: Vec::new(), keeps_reports: false },
            clock,
            mtu,
            qlog,
        ))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `driver` takes over, as if the connection began now.
    pub fn replace(&self, driver: Driver) {
        let mut state = self.state();
        (state.flow, state.settings) = driver.begin(state.now);
        state.take_over();
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
        let kbps = tcp_option::kbps(state.flow.request()?.rate()?);
        let pause = (state.srtt / ADVERTISEMENTS).max(SHORTEST_PAUSE);
        if !state.began || state.advertised.is_some_and(|before| now < before.at + pause) {
            return None;
        }
        let heard = state.advertised.and_then(|before| before.heard);
        state.advertised = Some(Advertised { kbps, at: now, heard });
        Some(kbps)
    }

    /// The receiver returns the rate that arrived there. One above what is asked for is not believed.
    pub fn on_echo(&self, kbps: u32) {
        let mut state = self.state();
        if let Some(advertised) = state.advertised.as_mut().filter(|advertised| kbps <= advertised.kbps) {
            advertised.heard = tcp_option::rate(kbps);
        }
    }

    /// No more than `bytes` are to be on the way, whatever the controller's window.
    pub fn limit(&self, bytes: u64) {
        self.state().most = bytes;
    }

    /// Bytes on the way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.state().packets.in_flight
    }

    /// Returns when [`advance`](Self::advance) is due; ask the stack for packets after it.
    #[must_use]
    pub fn next(&self) -> Time {
        let state = self.state();
        let setting_at = state.settings.last().map_or(Time::NEVER, |w| w.0);
        let paced = if state.waits { state.pacer.due() } else { Time::NEVER };
        state.flow.next_timer().min(setting_at).min(paced)
    }

    /// Puts a setting of the application in force.
    pub fn set(&self, setting: FlowSetting) {
        let mut state = self.state();
        state.flow.set(setting);
        state.read_controller();
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let state = self.state();
        Totals {
            delivered_bytes: state.packets.delivered,
            failure: state.flow.failure().map(Into::into),
            decisions: state.flow.decisions(),
            outside: state.flow.outside(),
            reports: state.flow.reports().to_vec(),
            ..state.totals.clone()
        }
    }

    /// Returns whether the controller has given up.
    #[must_use]
    pub fn gave_up(&self) -> bool {
        self.state().gave_up
    }

    /// The connection's metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let state = self.state();
        Metrics {
            window: state.window,
            pacing: state.pacing,
            threshold: state.flow.slow_start_threshold().map(|b| b.0),
            in_flight: state.packets.in_flight,
            srtt: state.srtt,
            rtt_min: if state.rtt_min == Dur::MAX { Dur::ZERO } else { state.rtt_min },
            rtt_latest: state.rtt_latest,
        }
    }

    /// Ends the log of events, if there is one.
    pub fn close(&self) {
        drop(self.state().qlog.take());
    }
}

impl State {
    fn take_over(&mut self) {
        self.tracks = self.flow.tracks_packets();
        self.every_segment = self.flow.needs().every_segment || self.tracks;
        self.read_controller();
    }

    fn read_controller(&mut self) {
        let window = self.flow.window().0;
        self.gave_up = window == 0;
        self.window = window.max(self.mtu);
        let pacing = self.flow.pacing_rate().map(|rate| Rate(rate.0.max(1)));
        if let Some(rate) = pacing.filter(|_| pacing != self.pacing) {
            self.pacer.on_rate(self.now, self.mtu, rate);
        }
        self.pacing = pacing;
    }

    fn advance(&mut self, now: Time) {
        self.now = now;
        let mut told = false;
        while self.settings.last().is_some_and(|change| change.0 <= now) {
            if let Some((_, setting)) = self.settings.pop() {
                self.flow.set(setting);
                told = true;
            }
        }
        if self.flow.on_timer(now) || told {
            self.read_controller();
        }
        self.waits = false;
    }

    fn settle(&mut self, now: Time, srtt: Dur) {
        self.now = now;
        let before = std::mem::replace(&mut self.srtt, srtt);
        let mut news = std::mem::take(&mut self.news);
        let something = news.acked_packets > 0 || news.lost_packets > 0 || news.ecn || news.spurious;
        if something {
            self.tell(&mut news, now, before);
            self.read_controller();
            if let Some(qlog) = &mut self.qlog {
                qlog.heard(now, &news.numbers, &news.lost_numbers);
            }
            self.log_metrics(now);
        }
        // Keeps the vectors' memory.
        news.numbers.clear();
        news.lost_numbers.clear();
        self.news = News { numbers: news.numbers, lost_numbers: news.lost_numbers, ..News::default() };
    }

    fn log_metrics(&mut self, now: Time) {
        let (threshold, rtt_min) = (self.flow.slow_start_threshold(), self.rtt_min);
        if let Some(qlog) = &mut self.qlog {
            qlog.metrics(
                now,
                &Metrics {
                    window: self.window,
                    pacing: self.pacing,
                    threshold: threshold.map(|b| b.0),
                    in_flight: self.packets.in_flight,
                    srtt: self.srtt,
                    rtt_min: if rtt_min == Dur::MAX { Dur::ZERO } else { rtt_min },
                    rtt_latest: self.rtt_latest,
                },
            );
        }
    }

    /// Tells the controller of an acknowledgement, a loss, or both.
    fn tell(&mut self, news: &mut News, now: Time, before: Dur) {
        if news.spurious {
            self.totals.undone_recoveries += 1;
            self.flow.on_spurious_loss(now);
        }
        if self.tracks {
            news.numbers.iter().for_each(|&n| self.flow.on_packet_acked(n));
            news.lost_numbers.iter().for_each(|&n| self.flow.on_packet_lost(n));
        }
        let rtt = self.rtt(news, now, before);
        if let Some(largest) = self.largest_acked {
            self.packets.forget_strangers(largest);
        }
        let in_flight = Bytes(self.packets.in_flight);
        if news.lost_packets > 0 || news.ecn {
            self.lose(news, now, in_flight);
        }
        let Some((_, newest)) = news.newest else { return };
        if self.recovery.is_some_and(|(began, _)| newest.sent > began) {
            self.recovery = None;
            self.flow.on_recovery_end(now, in_flight);
        }
        let rate = self.packets.sample(&newest, now, self.rtt_min);
        self.flow.on_ack(&AckInfo {
            now,
            acked: Bytes(news.acked),
            acked_packets: news.acked_packets,
            rtt,
            min_rtt: self.rtt_min,
            srtt: self.srtt,
            rttvar: Dur::ZERO,
            prior_in_flight: Bytes(news.prior_in_flight.unwrap_or(self.packets.in_flight)),
            in_flight,
            delivered: Bytes(self.packets.delivered),
            lost: Bytes(news.lost),
            rate,
            snd_una: self.packets.first_outstanding(),
            snd_nxt: self.packets.sent,
            retransmitted: self.packets.retransmitted,
            cwnd_limited: newest.offset < self.limited_until,
            recovery: self.recovery.map_or(RecoveryState::Open, |(_, state)| state),
            ecn_ce: news.marked_acks.min(news.acked_packets),
            signal: self.advertised.as_ref().and_then(|a| a.heard).map_or(Signal::None, Signal::Rate),
        });
    }

    /// The RTT sample that `news` brings. The stack tells its smoothed RTT alone, an eighth of whose change is the sample's
    /// difference from it, the peer's delay taken off (RFC 9002 §5.3).
    fn rtt(&mut self, news: &News, now: Time, before: Dur) -> Option<Dur> {
        let (number, newest) = news.newest?;
        if self.largest_acked.is_some_and(|largest| number <= largest) {
            return None;
        }
        self.largest_acked = Some(number);
        let raw = now.since(newest.sent);
        self.rtt_min = self.rtt_min.min(raw);
        let sample = (8 * self.srtt.0).saturating_sub(7 * before.0);
        let sample = Dur(if before == Dur::ZERO { raw.0 } else { sample.clamp(self.rtt_min.0, raw.0) });
        self.rtt_latest = sample;
        self.totals.rtt_min = Some(self.rtt_min);
        self.totals.rtt_sum += sample;
        self.totals.rtt_count += 1;
        Some(sample)
    }

    fn lose(&mut self, news: &News, now: Time, in_flight: Bytes) {
        let newest_lost = news.newest_lost.unwrap_or(now);
        let new_episode = self.recovery.is_none_or(|(began, _)| newest_lost > began);
        let loss = LossInfo {
            now,
            lost: Bytes(news.lost),
            lost_packets: news.lost_packets,
            in_flight,
            new_episode,
            ecn: news.ecn && news.lost_packets == 0,
            delivered: Bytes(self.packets.delivered),
            snd_nxt: self.packets.sent,
        };
        self.totals.lost_packets += u64::from(news.lost_packets);
        if news.persistent {
            self.totals.timeouts += 1;
            self.recovery = Some((now, RecoveryState::Loss));
            self.flow.on_timeout(&LossInfo { new_episode: true, ..loss });
            return;
        }
        if new_episode {
            self.totals.ecn_reductions += u64::from(loss.ecn);
            let state = if loss.ecn { RecoveryState::Reduction } else { RecoveryState::Recovery };
            self.recovery = Some((now, state));
        } else if loss.ecn {
            return;
        }
        self.flow.on_loss(&loss);
    }

    /// Packet `number` has arrived.
    fn on_acked(&mut self, now: Time, number: u64) {
        let prior = self.packets.in_flight;
        let Some(packet) = self.packets.acknowledge(number, now) else { return };
        let news = &mut self.news;
        news.prior_in_flight.get_or_insert(prior);
        news.acked += packet.bytes;
        news.acked_packets += 1;
        if news.newest.is_none_or(|(newest, _)| number > newest) {
            news.newest = Some((number, packet));
        }
        if self.tracks || self.qlog.is_some() {
            news.numbers.push(number);
        }
    }

    /// Packet `number` is lost.
    fn on_lost(&mut self, number: u64) {
        let prior = self.packets.in_flight;
        let Some(packet) = self.packets.lose(number) else { return };
        let news = &mut self.news;
        news.prior_in_flight.get_or_insert(prior);
        news.lost += packet.bytes;
        news.lost_packets += 1;
        if self.tracks || self.qlog.is_some() {
            news.lost_numbers.push(number);
        }
    }

    /// Congestion was noticed, the newest packet that tells of it having been sent at `sent`.
    fn on_congestion(&mut self, sent: Time, persistent: bool, ecn: bool) {
        let news = &mut self.news;
        news.newest_lost = news.newest_lost.max(Some(sent));
        news.persistent |= persistent;
        news.ecn |= ecn;
        news.marked_acks += u32::from(ecn);
    }

    fn send(&mut self, now: Time, bytes: u64, number: u64) {
        let (prior, snd_nxt) = (self.packets.in_flight, self.packets.sent);
        if !self.began || !self.packets.send(number, bytes, now) {
            return;
        }
        self.totals.sent_packets += 1;
        if prior == 0 && self.last_sent > Time::ZERO {
            let rto = self.srtt * 2 + Dur::from_millis(25);
            self.flow.on_idle_restart(now, now.since(self.last_sent), rto);
        }
        if self.every_segment || prior == 0 {
            self.flow.on_sent(&SentInfo {
                now,
                bytes: Bytes(bytes),
                prior_in_flight: Bytes(prior),
                snd_nxt,
                app_limited: self.packets.is_app_limited(),
                last_sent: self.last_sent,
                retransmission: false,
                number,
                ..SentInfo::default()
            });
        }
        if self.tracks || prior == 0 {
            self.read_controller();
        }
        if let Some(rate) = self.pacing {
            self.pacer.on_sent(now, bytes, rate);
        }
        self.last_sent = now;
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
            state.limited_until = state.packets.sent;
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
            state.packets.on_app_limited();
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
        self.0.state().news.spurious = true;
    }

    fn on_mtu_update(&mut self, _: u16) {}

    fn window(&self) -> u64 {
        let mut state = self.0.state();
        if state.began && state.pacing.is_some() && !state.pacer.is_open(state.now) {
            state.waits = true;
            return 0;
        }
        state.window.min(state.most)
    }

    fn metrics(&self) -> ControllerMetrics {
        let state = self.0.state();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = state.window;
        let rate = state.pacing.map(|rate| (rate.0 as f64 / 8.0 * STACK_MARGIN).ceil() as u64);
        metrics.pacing_rate = Some(rate.unwrap_or(UNPACED));
        metrics
    }

    fn clone_box(&self) -> Box<dyn StackController> {
        Box::new(Self(self.0.clone()))
    }

    fn initial_window(&self) -> u64 {
        self.0.state().window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MTU: u16 = 1472;

    fn steering(scheme: &str) -> Steering {
        let requirement = Some(ccarena_cc::Requirement { min: Rate::from_mbps(5.0), max: Rate::from_mbps(8.0) });
        let config = Config { mss: u32::from(MTU), requirement, ..Config::default() };
        let controller = registry::build(scheme, &config).unwrap();
        let decider = None;
        let driver = Driver { controller, decider, settings: Vec::new(), keeps_reports: true };
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
                            steering.state().news.spurious = true;
                            steering.settle(now, Some(Dur(long)));
                        }
                    }
                    let (metrics, totals) = (steering.metrics(), steering.totals());
                    prop_assert!(metrics.window >= u64::from(MTU), "{}: {metrics:?}", scheme.name);
                    prop_assert!(metrics.pacing.is_none_or(|rate| rate.0 > 0), "{}", scheme.name);
                    prop_assert!(totals.rtt_sum.0 <= now.0 * totals.rtt_count.max(1), "an RTT is no longer than the run");
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
        assert_eq!(steering.totals().lost_packets, 3);
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
