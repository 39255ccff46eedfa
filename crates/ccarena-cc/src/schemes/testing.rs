//! A flow for tests of schemes: makes up consistent events.

use crate::controller::{AckInfo, Controller, LossInfo, RecoveryState, SentInfo};
use crate::registry::{Config, build};
use crate::types::{Bytes, Dur, Time};

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

    /// In congestion avoidance from a window of `segments`.
    pub(crate) fn avoiding(scheme: &str, segments: u32) -> Self {
        Self::new(scheme, &Config { initial_window: segments, slow_start: false, ..Config::default() })
    }

    pub(crate) fn window(&self) -> u64 {
        assert_eq!(self.controller.window().0 % MSS, 0);
        self.controller.window().0 / MSS
    }

    pub(crate) fn threshold(&self) -> u64 {
        self.controller.slow_start_threshold().unwrap().0 / MSS
    }

    /// One acknowledgement of `packets` after `gap`.
    pub(crate) fn ack(&mut self, packets: u32, gap: Dur, rtt: Dur) {
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
