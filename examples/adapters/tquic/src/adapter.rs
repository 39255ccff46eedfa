// A controller of ccarena as tquic's congestion control.
//
// tquic chooses among its own controllers by an enum. `tquic.patch` makes its trait for controllers public, and adds the
// setter. tquic reports each packet that arrives, and losses as a sum of bytes, of which the oldest packets are taken to
// be lost. It gives the smoothed RTT of the acknowledgement before, and nothing about ECN. It has no timer for a
// controller, whose timer therefore runs at the next packet or acknowledgement. It paces at the controller's rate, in
// bursts of up to ten packets after a pause.

use std::time::Instant;

use ccarena_cc::flow::Refused;
use ccarena_cc::packet_flow::PacketFlow;
use ccarena_cc::{Config, Dur, Feedback, Flow, Host, Source, Time};
use tquic::RecoveryConfig;
use tquic::congestion_control::{
    CongestionController, CongestionControllerFactory, CongestionStats, RttEstimator, SentPacket,
};

/// Reports of tquic, whose packets leave as Not-ECT.
pub const HOST: Host = Host {
    every_packet: true,
    packet_numbers: true,
    rate_samples: true,
    marks: Feedback::None,
    router_rates: false,
    router_headers: false,
    l4s: false,
};

/// Builds the controller of each path.
#[derive(Clone, Debug)]
pub struct Factory {
    source: Source<'static>,
    config: Config,
}

impl Factory {
    /// Takes a scheme by name, or a policy that has been read. Of `config`, tquic sets the size of a segment.
    ///
    /// # Errors
    /// If a flow cannot be built, such as one whose controller needs what tquic does not report.
    pub fn new(source: Source<'static>, config: Config) -> Result<Self, Refused> {
        Flow::build(&source, &config, &HOST, Time::ZERO)?;
        Ok(Self { source, config })
    }
}

impl CongestionControllerFactory for Factory {
    fn build(&self, conf: &RecoveryConfig) -> Box<dyn CongestionController> {
        let mtu = u16::try_from(conf.max_datagram_size).unwrap_or(u16::MAX);
        let config = Config { mss: mtu.into(), ..self.config.clone() };
        // `new` has built one of the same source and host; the size of a segment refuses none.
        let flow = Flow::build(&self.source, &config, &HOST, Time::ZERO).expect("`new` has built one");
        Box::new(State::new(PacketFlow::new(flow, mtu).from_handshake(), Instant::now(), mtu))
    }
}

/// The controller of a path.
#[derive(Debug)]
struct State {
    flow: PacketFlow,
    origin: Instant,
    now: Time,
    srtt: Dur,
    mtu: u16,
    initial_window: u64,
    stats: CongestionStats,
}

impl State {
    fn new(flow: PacketFlow, origin: Instant, mtu: u16) -> Self {
        let initial_window = flow.window();
        Self { flow, origin, now: Time::ZERO, srtt: Dur::ZERO, mtu, initial_window, stats: CongestionStats::default() }
    }

    fn time(&self, at: Instant) -> Time {
        let since = at.saturating_duration_since(self.origin).as_nanos();
        Time(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// Hands over what tquic has reported: at the end of an acknowledgement, or with the next packet for losses that a
    /// timer has revealed.
    fn settle(&mut self) {
        if self.flow.is_unsettled() {
            self.flow.settle(self.now, self.srtt);
        }
        self.flow.on_timer(self.now);
    }
}

impl CongestionController for State {
    fn name(&self) -> &str {
        "CCARENA"
    }

    fn on_sent(&mut self, now: Instant, packet: &mut SentPacket, in_flight: u64) {
        self.now = self.time(now);
        self.settle();
        self.flow.on_sent(self.now, packet.pkt_num, packet.sent_size as u64);
        // tquic sends while less than the window is in flight.
        if in_flight + packet.sent_size as u64 >= self.flow.window() {
            self.flow.on_window_limited();
        }
        self.stats.bytes_in_flight = in_flight;
        self.stats.bytes_sent_in_total += packet.sent_size as u64;
    }

    fn begin_ack(&mut self, now: Instant, in_flight: u64) {
        self.now = self.time(now);
        self.settle();
        // A lost probe of the path's MTU is not reported.
        self.flow.on_in_flight(in_flight);
    }

    fn on_ack(&mut self, packet: &mut SentPacket, now: Instant, _: bool, rtt: &RttEstimator, in_flight: u64) {
        self.now = self.time(now);
        self.flow.on_acked(self.now, packet.pkt_num);
        // tquic smooths the RTT after this call: this is the one before.
        self.srtt = Dur(u64::try_from(rtt.smoothed_rtt().as_nanos()).unwrap_or(u64::MAX));
        self.stats.bytes_in_flight = in_flight;
        self.stats.bytes_acked_in_total += packet.sent_size as u64;
    }

    fn end_ack(&mut self) {
        self.settle();
    }

    fn on_congestion_event(&mut self, now: Instant, newest: &SentPacket, persistent: bool, lost: u64, in_flight: u64) {
        self.now = self.time(now);
        let sent = self.time(newest.time_sent);
        self.flow.on_lost_to(sent, lost);
        if persistent {
            self.flow.on_persistent_congestion();
        }
        self.stats.bytes_in_flight = in_flight;
        self.stats.bytes_lost_in_total += lost;
    }

    fn in_slow_start(&self) -> bool {
        self.flow.flow().slow_start_threshold().is_some_and(|threshold| self.flow.window() < threshold.0)
    }

    fn congestion_window(&self) -> u64 {
        self.flow.window()
    }

    /// Bytes per second.
    fn pacing_rate(&self) -> Option<u64> {
        self.flow.pacing_rate().map(|rate| (rate.0 / 8).max(1))
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn minimal_window(&self) -> u64 {
        self.mtu.into()
    }

    fn stats(&self) -> &CongestionStats {
        &self.stats
    }
}
