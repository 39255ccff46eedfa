//! Tools for tests of schemes: a flow that makes up consistent events, and a path that closes the loop.

use std::collections::VecDeque;

use crate::controller::{Controller, Extrapolation};
use crate::events::{AckInfo, LossInfo, RecoveryState, SentInfo};
use crate::registry::build;
use crate::scheme::Config;
use crate::types::{Bytes, Dur, Rate, Time};

pub(crate) const MSS: u64 = 1448;

pub(crate) struct Flow {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) now: Time,
    pub(crate) snd_una: u64,
    pub(crate) recovery: RecoveryState,
    pub(crate) cwnd_limited: bool,
}

impl Flow {
    pub(crate) fn new(scheme: &str, config: &Config) -> Self {
        Self {
            controller: build(scheme, config).unwrap(),
            now: Time::from_secs_f64(1.0),
            snd_una: 0,
            recovery: RecoveryState::Open,
            cwnd_limited: true,
        }
    }

    /// Returns a flow in congestion avoidance from a window of `segments`.
    pub(crate) fn avoiding(scheme: &str, segments: u32) -> Self {
        Self::new(scheme, &Config { initial_window: segments, slow_start: false, ..Config::default() })
    }

    pub(crate) fn window(&self) -> u64 {
        assert_eq!(self.controller.window().0 % MSS, 0);
        self.controller.window().0 / MSS
    }

    pub(crate) fn extrapolation(&mut self) -> Extrapolation {
        Extrapolation::of(self.controller.as_mut(), self.now)
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.controller.slow_start_threshold().unwrap().0 / MSS
    }

    /// One acknowledgement of `packets` after `gap`.
    pub(crate) fn ack(&mut self, packets: u32, gap: Dur, rtt: Dur) {
        self.ack_marked(packets, 0, gap, rtt);
    }

    /// The same, of which `marked` packets were marked.
    pub(crate) fn ack_marked(&mut self, packets: u32, marked: u32, gap: Dur, rtt: Dur) {
        let window = self.controller.window();
        let acked = Bytes(u64::from(packets) * MSS);
        self.now = self.now + gap;
        self.snd_una += acked.0;
        self.controller.on_ack(&AckInfo {
            now: self.now,
            acked,
            acked_packets: packets,
            rtt: Some(rtt),
            min_rtt: rtt,
            srtt: rtt,
            prior_in_flight: if self.cwnd_limited { window } else { window / 4 },
            in_flight: window - acked,
            delivered: Bytes(self.snd_una),
            snd_una: self.snd_una,
            snd_nxt: self.snd_una + (window - acked).0,
            cwnd_limited: self.cwnd_limited,
            recovery: self.recovery,
            ecn_ce: marked,
            ..AckInfo::default()
        });
    }

    /// One round trip: the whole window acknowledged, `per_ack` packets at a time, spread over `rtt`.
    pub(crate) fn round(&mut self, per_ack: u32, rtt: Dur) {
        let window = self.window();
        let acks = window / u64::from(per_ack);
        for _ in 0..acks {
            self.ack(per_ack, rtt / acks, rtt);
        }
    }

    fn loss_info(&self, new_episode: bool) -> LossInfo {
        LossInfo {
            now: self.now,
            lost: Bytes(MSS),
            lost_packets: 1,
            in_flight: Bytes(0),
            new_episode,
            ecn: false,
            delivered: Bytes(self.snd_una),
            snd_nxt: self.snd_una + self.controller.window().0,
        }
    }

    pub(crate) fn lose(&mut self, new_episode: bool) {
        let loss = self.loss_info(new_episode);
        self.controller.on_loss(&loss);
    }

    /// An ECN echo.
    pub(crate) fn echo(&mut self) {
        let echo = LossInfo { ecn: true, lost: Bytes(0), lost_packets: 0, ..self.loss_info(true) };
        self.controller.on_loss(&echo);
    }

    pub(crate) fn time_out(&mut self, new_episode: bool) {
        let loss = self.loss_info(new_episode);
        self.controller.on_timeout(&loss);
    }

    pub(crate) fn send(&mut self, prior_in_flight: Bytes) {
        self.controller.on_sent(&SentInfo {
            now: self.now,
            bytes: Bytes(MSS),
            prior_in_flight,
            snd_nxt: self.snd_una + prior_in_flight.0,
            ..SentInfo::default()
        });
    }
}

/// A bulk flow alone on a bottleneck of constant rate with an unbounded queue; every packet is acknowledged.
pub(crate) struct Path {
    pub(crate) controller: Box<dyn Controller>,
    pub(crate) now: Time,
    /// A delay that others' packets add to the flow's own queueing.
    pub(crate) others: Dur,
    base: Dur,
    per_packet: Dur,
    /// Sending and acknowledgement times of the packets under way.
    under_way: VecDeque<(Time, Time)>,
    /// Time at which the bottleneck is done with all that was sent, and at which pacing releases the next packet.
    busy_until: Time,
    departure: Time,
    acked: u64,
    srtt: Dur,
    min_rtt: Dur,
    /// Start of the figures: queueing of the packets acknowledged, and their number.
    since: Time,
    queueing: Dur,
    measured: u64,
}

impl Path {
    pub(crate) fn new(scheme: &str, config: &Config, mbps: f64, base: Dur) -> Self {
        Self {
            controller: build(scheme, config).unwrap(),
            now: Time::from_secs_f64(1.0),
            others: Dur::ZERO,
            base,
            per_packet: Rate::from_mbps(mbps).time_for(MSS),
            under_way: VecDeque::new(),
            busy_until: Time::ZERO,
            departure: Time::ZERO,
            acked: 0,
            srtt: Dur::ZERO,
            min_rtt: Dur::MAX,
            since: Time::ZERO,
            queueing: Dur::ZERO,
            measured: 0,
        }
    }

    /// Runs for `seconds` and takes the figures below over the second half.
    pub(crate) fn run(&mut self, seconds: f64) {
        let (start, half) = (self.now, Dur::from_secs_f64(seconds / 2.0));
        self.run_until(start + half);
        (self.since, self.queueing, self.measured) = (self.now, Dur::ZERO, 0);
        self.run_until(start + half + half);
    }

    /// Packets that waited before the bottleneck, on average, after [`run`](Self::run) for `seconds`.
    pub(crate) fn mean_queue_packets(&mut self, seconds: f64) -> f64 {
        self.run(seconds);
        self.mean_queueing().as_secs_f64() / self.per_packet.as_secs_f64()
    }

    pub(crate) fn mean_queueing(&self) -> Dur {
        self.queueing / self.measured
    }

    /// The part of the bottleneck's rate that was used.
    pub(crate) fn utilisation(&self) -> f64 {
        (self.per_packet * self.measured).as_secs_f64() / self.now.since(self.since).as_secs_f64()
    }

    /// The window in segments.
    pub(crate) fn window(&self) -> u64 {
        self.controller.window().0 / MSS
    }

    fn in_flight(&self) -> Bytes {
        Bytes(self.under_way.len() as u64 * MSS)
    }

    fn run_until(&mut self, end: Time) {
        loop {
            let open = self.in_flight() + Bytes(MSS) <= self.controller.window();
            let departure = if open { self.departure.max(self.now) } else { Time::NEVER };
            let acked = self.under_way.front().map_or(Time::NEVER, |&(_, acked)| acked);
            self.now = departure.min(acked).min(end);
            if self.now == end {
                return;
            }
            if acked <= departure { self.acknowledge() } else { self.send() }
        }
    }

    fn send(&mut self) {
        self.controller.on_sent(&SentInfo {
            now: self.now,
            bytes: Bytes(MSS),
            prior_in_flight: self.in_flight(),
            snd_nxt: self.acked + self.in_flight().0,
            ..SentInfo::default()
        });
        self.busy_until = self.busy_until.max(self.now) + self.per_packet;
        self.under_way.push_back((self.now, self.busy_until + self.base + self.others));
        let gap = self.controller.pacing_rate().map_or(Dur::ZERO, |rate| rate.time_for(MSS));
        self.departure = self.now + gap;
    }

    fn acknowledge(&mut self) {
        let prior_in_flight = self.in_flight();
        let Some((sent, _)) = self.under_way.pop_front() else { return };
        let rtt = self.now.since(sent);
        self.acked += MSS;
        self.queueing += rtt - self.base - self.per_packet;
        self.measured += 1;
        self.min_rtt = self.min_rtt.min(rtt);
        self.srtt = if self.srtt == Dur::ZERO { rtt } else { (self.srtt * 7 + rtt) / 8 };
        self.controller.on_ack(&AckInfo {
            now: self.now,
            acked: Bytes(MSS),
            acked_packets: 1,
            rtt: Some(rtt),
            min_rtt: self.min_rtt,
            srtt: self.srtt,
            prior_in_flight,
            in_flight: self.in_flight(),
            delivered: Bytes(self.acked),
            snd_una: self.acked,
            snd_nxt: self.acked + self.in_flight().0,
            cwnd_limited: true,
            ..AckInfo::default()
        });
    }
}
