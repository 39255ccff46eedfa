// A controller of ccarena as s2n-quic's congestion control.
//
// s2n-quic reports a sum of acknowledged bytes and the newest packet; the others are taken to be those before it. Each lost
// packet is reported by itself, before the acknowledgement that reveals it. s2n-quic asks when the next packet may leave,
// so a controller's pacing rate is kept exactly. It has no timer for a controller, whose timer therefore runs at the next
// packet or acknowledgement.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ccarena_cc::flow::Refused;
use ccarena_cc::packet_flow::PacketFlow;
use ccarena_cc::{Config, Dur, Feedback, Flow, Host, Source, Time};
use s2n_quic::provider::congestion_controller::{
    CongestionController, Endpoint, PathInfo, Publisher, RandomGenerator, RttEstimator, Timestamp,
};

/// Reports of s2n-quic.
pub const HOST: Host = Host {
    every_packet: true,
    packet_numbers: true,
    rate_samples: true,
    marks: Feedback::Accurate,
    router_rates: false,
    router_headers: false,
    l4s: false,
};

/// Builds the controller of each connection.
#[derive(Clone, Debug)]
pub struct Factory {
    source: Source<'static>,
    config: Config,
}

impl Factory {
    /// Takes a scheme by name, or a policy that has been read. Of `config`, s2n-quic sets the size of a segment.
    ///
    /// # Errors
    /// If a flow cannot be built, such as one whose controller needs what s2n-quic does not report.
    pub fn new(source: Source<'static>, config: Config) -> Result<Self, Refused> {
        Flow::build(&source, &config, &HOST, Time::ZERO)?;
        Ok(Self { source, config })
    }
}

impl Endpoint for Factory {
    type CongestionController = Connection;

    fn new_congestion_controller(&mut self, path: PathInfo<'_>) -> Connection {
        let mtu = path.max_datagram_size;
        let config = Config { mss: mtu.into(), ..self.config.clone() };
        // `new` has built one of the same source and host; the size of a segment refuses none.
        let flow = Flow::build(&self.source, &config, &HOST, Time::ZERO).expect("`new` has built one");
        Connection(Arc::new(Mutex::new(State::new(PacketFlow::new(flow, mtu).from_handshake(), mtu))))
    }
}

/// The controller of a connection. s2n-quic reads windows through a shared reference.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Mutex<State>>);

/// State of a connection.
#[derive(Debug)]
pub struct State {
    flow: PacketFlow,
    /// The first packet's time.
    origin: Option<Timestamp>,
    now: Time,
    srtt: Dur,
    mtu: u16,
    number: u64,
}

impl State {
    fn new(flow: PacketFlow, mtu: u16) -> Self {
        Self { flow, origin: None, now: Time::ZERO, srtt: Dur::ZERO, mtu, number: 0 }
    }

    fn time(&mut self, at: Timestamp) -> Time {
        let origin = *self.origin.get_or_insert(at);
        Time(nanoseconds(at.saturating_duration_since(origin)).0)
    }

    /// Hands over what s2n-quic has reported: at once for an acknowledgement, when it reads the window for losses that a timer
    /// has revealed.
    fn settle(&mut self) {
        if self.flow.is_unsettled() {
            self.flow.settle(self.now, self.srtt);
        }
        self.flow.on_timer(self.now);
    }

    fn on_sent(&mut self, now: Time, bytes: u64, app_limited: bool) -> u64 {
        self.now = now;
        self.settle();
        if app_limited {
            self.flow.on_app_limited();
        }
        self.number += 1;
        self.flow.on_sent(self.now, self.number, bytes);
        self.number
    }

    /// Returns the number of a packet that is not in flight: that of the newest one in flight. An acknowledgement whose newest
    /// packet it is covers those before it.
    const fn on_bare(&self) -> u64 {
        self.number
    }

    fn on_ack(&mut self, now: Time, newest: u64, bytes: u64) {
        self.now = now;
        self.flow.on_acked_to(now, newest, bytes);
        self.settle();
    }

    fn on_lost(&mut self, now: Time, number: u64, persistent: bool) {
        self.now = now;
        self.flow.on_lost_among(number);
        if persistent {
            self.flow.on_persistent_congestion();
        }
    }

    fn window(&mut self) -> u64 {
        self.settle();
        self.flow.window()
    }

    fn is_limited(&mut self) -> bool {
        let limited = self.window() < self.flow.in_flight() + u64::from(self.mtu);
        if limited {
            self.flow.on_window_limited();
        }
        limited
    }
}

impl Connection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn discard(&self, bytes: u64) {
        let mut state = self.state();
        let in_flight = state.flow.in_flight().saturating_sub(bytes);
        state.flow.on_in_flight(in_flight);
    }
}

impl CongestionController for Connection {
    /// Number of the newest packet in flight when the packet left: its own, unless it is a bare acknowledgement.
    type PacketInfo = u64;

    fn congestion_window(&self) -> u32 {
        u32::try_from(self.state().window()).unwrap_or(u32::MAX)
    }

    fn bytes_in_flight(&self) -> u32 {
        u32::try_from(self.state().flow.in_flight()).unwrap_or(u32::MAX)
    }

    fn is_congestion_limited(&self) -> bool {
        self.state().is_limited()
    }

    fn requires_fast_retransmission(&self) -> bool {
        false
    }

    fn on_packet_sent<P: Publisher>(
        &mut self,
        now: Timestamp,
        bytes: usize,
        app_limited: Option<bool>,
        _: &RttEstimator,
        _: &mut P,
    ) -> u64 {
        let mut state = self.state();
        if bytes == 0 {
            return state.on_bare();
        }
        let now = state.time(now);
        state.on_sent(now, bytes as u64, app_limited == Some(true))
    }

    fn on_rtt_update<P: Publisher>(&mut self, _: Timestamp, _: Timestamp, rtt: &RttEstimator, _: &mut P) {
        self.state().srtt = nanoseconds(rtt.smoothed_rtt());
    }

    fn on_ack<P: Publisher>(
        &mut self,
        _: Timestamp,
        bytes: usize,
        newest: u64,
        _: &RttEstimator,
        _: &mut dyn RandomGenerator,
        now: Timestamp,
        _: &mut P,
    ) {
        let mut state = self.state();
        let now = state.time(now);
        state.on_ack(now, newest, bytes as u64);
    }

    fn on_packet_lost<P: Publisher>(
        &mut self,
        _: u32,
        number: u64,
        persistent: bool,
        _: bool,
        _: &mut dyn RandomGenerator,
        now: Timestamp,
        _: &mut P,
    ) {
        let mut state = self.state();
        let now = state.time(now);
        state.on_lost(now, number, persistent);
    }

    fn on_explicit_congestion<P: Publisher>(&mut self, marked: u64, _: Timestamp, _: &mut P) {
        self.state().flow.on_marked(u32::try_from(marked).unwrap_or(u32::MAX), None);
    }

    fn on_mtu_update<P: Publisher>(&mut self, mtu: u16, _: &mut P) {
        self.state().mtu = mtu;
    }

    fn on_packet_discarded<P: Publisher>(&mut self, bytes: usize, _: &mut P) {
        self.discard(bytes as u64);
    }

    fn earliest_departure_time(&self) -> Option<Timestamp> {
        let state = self.state();
        state.origin?.checked_add(Duration::from_nanos(state.flow.departure()?.0))
    }
}

fn nanoseconds(duration: Duration) -> Dur {
    Dur(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
