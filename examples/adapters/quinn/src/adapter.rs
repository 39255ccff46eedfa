// A controller of ccarena as quinn's congestion control.
//
// quinn reports acknowledged packets by their times of sending, and losses as a sum of bytes, of which the oldest packets
// are taken to be lost. It gives the smoothed RTT of the acknowledgement before, and does not say which packets are the
// handshake's, whose RTT counts as no queue (`PacketFlow::from_handshake`). It has no timer for a controller, whose
// timer therefore runs at the next packet or acknowledgement. quinn paces at 1.25 windows per smoothed RTT, whatever the
// controller says. A controller's pacing rate therefore bounds the window to what this rate sends in a smoothed RTT.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ccarena_cc::flow::Refused;
use ccarena_cc::packet_flow::PacketFlow;
use ccarena_cc::{Config, Dur, Feedback, Flow, Host, Source, Time};
use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

/// Reports of quinn. It calls once for newly marked packets, however many.
pub const HOST: Host = Host {
    every_packet: true,
    packet_numbers: true,
    rate_samples: true,
    marks: Feedback::Classic,
    router_rates: false,
    router_headers: false,
    l4s: false,
};

/// Fewest packets in flight that a pacing rate leaves.
const LEAST_PACKETS: u64 = 2;

/// Builds the controller of each connection.
#[derive(Clone, Debug)]
pub struct Factory {
    source: Source<'static>,
    config: Config,
}

impl Factory {
    /// Takes a scheme by name, or a policy that has been read. Of `config`, quinn sets the size of a segment.
    ///
    /// # Errors
    /// If a flow cannot be built, such as one whose controller needs what quinn does not report.
    pub fn new(source: Source<'static>, config: Config) -> Result<Self, Refused> {
        Flow::build(&source, &config, &HOST, Time::ZERO)?;
        Ok(Self { source, config })
    }
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        let config = Config { mss: mtu.into(), ..self.config.clone() };
        // `new` has built one of the same source and host; the size of a segment refuses none.
        let flow = Flow::build(&self.source, &config, &HOST, Time::ZERO).expect("`new` has built one");
        Box::new(Connection(Arc::new(Mutex::new(State::new(PacketFlow::new(flow, mtu).from_handshake(), now, mtu)))))
    }
}

/// The controller of a connection. quinn reads windows through a shared reference, and clones it when the path changes.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Mutex<State>>);

#[allow(dead_code, reason = "a program that copies this file may not ask")]
impl Connection {
    /// Returns the reason why the controller has given up. The connection then goes on with one packet in flight.
    pub fn failure(&self) -> Option<String> {
        self.state().flow.flow().failure().map(str::to_owned)
    }

    /// Returns the number of a policy's decisions after the first one.
    pub fn decisions(&self) -> u64 {
        self.state().flow.flow().decisions()
    }
}

#[derive(Debug)]
struct State {
    flow: PacketFlow,
    origin: Instant,
    now: Time,
    srtt: Dur,
    /// Size of full packets, and the number of the next one.
    mtu: u16,
    number: u64,
    /// The acknowledgement whose packets were reported is complete.
    complete: bool,
    /// An acknowledgement has come before, so that quinn has an RTT.
    sampled: bool,
}

impl State {
    fn new(flow: PacketFlow, origin: Instant, mtu: u16) -> Self {
        Self { flow, origin, now: Time::ZERO, srtt: Dur::ZERO, mtu, number: 0, complete: false, sampled: false }
    }

    fn time(&self, at: Instant) -> Time {
        Time(nanoseconds(at.saturating_duration_since(self.origin)).0)
    }

    /// Hands over what quinn has reported. It reports losses and marks after the acknowledgement that reveals them, and says
    /// nothing at the end: the event is over when it sends, reads the window or goes on to another acknowledgement.
    fn settle(&mut self) {
        self.sampled |= std::mem::take(&mut self.complete);
        if self.flow.is_unsettled() {
            self.flow.settle(self.now, self.srtt);
        }
        self.flow.on_timer(self.now);
    }

    fn on_sent(&mut self, now: Instant, mut bytes: u64) {
        self.settle();
        self.now = self.time(now);
        // Several packets may leave at once, all but the last one full.
        while bytes > 0 {
            let packet = bytes.min(self.mtu.into());
            self.flow.on_sent(self.now, self.number, packet);
            self.number += 1;
            bytes -= packet;
        }
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, srtt: Dur) {
        if self.complete {
            self.settle();
        }
        self.now = self.time(now);
        // quinn smooths the RTT after this call: this is the one before.
        if self.sampled {
            self.srtt = srtt;
        }
        self.flow.on_acked_at(self.now, self.time(sent));
    }

    fn on_end_acks(&mut self, in_flight: u64, app_limited: bool) {
        self.complete = true;
        self.flow.on_in_flight(in_flight);
        if app_limited {
            self.flow.on_app_limited();
        } else {
            self.flow.on_window_limited();
        }
    }

    fn on_congestion(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        let sent = self.time(sent);
        self.now = self.time(now);
        if lost == 0 {
            self.flow.on_marked(1, Some(sent));
        }
        self.flow.on_lost_to(sent, lost);
        if persistent {
            self.flow.on_persistent_congestion();
        }
    }

    fn window(&mut self) -> u64 {
        self.settle();
        let (srtt, _) = self.flow.rtt();
        let paced = self.flow.pacing_rate().filter(|_| srtt > Dur::ZERO).map(|rate| rate.bytes_in(srtt).0);
        let least = LEAST_PACKETS * u64::from(self.mtu);
        let window = self.flow.window().min(paced.map_or(u64::MAX, |bytes| bytes.max(least)));
        // quinn sends while less than its window is in flight, not as much. Its packets may have outgrown the controller's
        // segments (MTU discovery): one has to fit with nothing in flight, or no acknowledgement ever comes.
        window.max(self.mtu.into()) + 1
    }
}

impl Connection {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Controller for Connection {
    fn on_sent(&mut self, now: Instant, bytes: u64, _: u64) {
        self.state().on_sent(now, bytes);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, _: u64, _: bool, rtt: &RttEstimator) {
        self.state().on_ack(now, sent, nanoseconds(rtt.get()));
    }

    fn on_end_acks(&mut self, _: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.state().on_end_acks(in_flight, app_limited);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.state().on_congestion(now, sent, persistent, lost);
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.state().mtu = mtu;
    }

    fn window(&self) -> u64 {
        self.state().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut state = self.state();
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = state.window();
        metrics.ssthresh = state.flow.flow().slow_start_threshold().map(|bytes| bytes.0);
        metrics.pacing_rate = state.flow.pacing_rate().map(|rate| rate.0);
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

fn nanoseconds(duration: Duration) -> Dur {
    Dur(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}
