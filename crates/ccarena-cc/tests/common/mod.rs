//! What tests of controllers share: a flow that tells a controller of random, yet consistent events.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::VecDeque;

use ccarena_cc::action::Numbers;
use ccarena_cc::{
    AckInfo, Action, Bytes, Controller, Dur, Extrapolation, FlowSetting, LossInfo, Rate, RateSample, RecoveryState,
    Requirement, RouterAssisted, SentInfo, Signal, Time,
};
use proptest::prelude::*;

pub const MSS: u64 = 1448;
/// No window is larger: 2^24 segments and one.
pub const LARGEST_WINDOW: Bytes = Bytes(((1 << 24) + 1) * MSS);

#[derive(Clone, Debug)]
pub enum Operation {
    Ack { packets: u32, rtt_us: Option<u64>, limited: bool, sample: bool, app_limited: bool, signal: Signal },
    Loss { packets: u32, new_episode: bool },
    Echo,
    Timeout { new_episode: bool },
    Send { app_limited: bool, idle: bool },
    IdleRestart { idle_us: u64, rto_us: u64 },
    SpuriousLoss,
    RecoveryEnd,
    Decide { action: u32 },
    Set { weight: f64, min_mbps: Option<f64> },
    Wait { us: u64 },
}

/// Signals that routers may write, and some that no router would.
fn signal() -> impl Strategy<Value = Signal> {
    let rate = prop_oneof![any::<u64>(), 0_u64..100_000_000, Just(u64::from(u32::MAX))];
    let feedback =
        prop_oneof![-1e5_f32..1e5, any::<f32>(), Just(f32::INFINITY), Just(f32::NEG_INFINITY), Just(f32::NAN)];
    prop_oneof![
        4 => Just(Signal::None),
        2 => rate.prop_map(|rate| Signal::Rate(Rate(rate))),
        2 => (0_u32..100, 0_u32..100).prop_map(|(accelerate, brake)| Signal::Marks { accelerate, brake }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(accelerate, brake)| Signal::Marks { accelerate, brake }),
        2 => (any::<f32>(), any::<u32>(), feedback)
            .prop_map(|(window_bytes, rtt_us, feedback_bytes)| Signal::Window { window_bytes, rtt_us, feedback_bytes }),
    ]
}

pub fn operation() -> impl Strategy<Value = Operation> {
    let ack = (
        0_u32..70,
        prop::option::weighted(0.9, 1_u64..3_000_000),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
        signal(),
    )
        .prop_map(|(packets, rtt_us, limited, sample, app_limited, signal)| Operation::Ack {
            packets,
            rtt_us,
            limited,
            sample,
            app_limited,
            signal,
        });
    prop_oneof![
        20 => ack,
        2 => (1_u32..30, any::<bool>()).prop_map(|(packets, new_episode)| Operation::Loss { packets, new_episode }),
        1 => Just(Operation::Echo),
        1 => any::<bool>().prop_map(|new_episode| Operation::Timeout { new_episode }),
        10 => (any::<bool>(), any::<bool>()).prop_map(|(app_limited, idle)| Operation::Send { app_limited, idle }),
        1 => (0_u64..100_000_000, 0_u64..60_000_000)
            .prop_map(|(idle_us, rto_us)| Operation::IdleRestart { idle_us, rto_us }),
        1 => Just(Operation::SpuriousLoss),
        2 => Just(Operation::RecoveryEnd),
        2 => (0_u32..15).prop_map(|action| Operation::Decide { action }),
        1 => (0.501..50.0_f64, prop::option::of(0.0..1000.0_f64))
            .prop_map(|(weight, min_mbps)| Operation::Set { weight, min_mbps }),
        10 => prop_oneof![9 => 0_u64..50_000, 1 => 0_u64..100_000_000].prop_map(|us| Operation::Wait { us }),
    ]
}

/// A flow whose counters are consistent, as a transport's are.
pub struct Flow {
    pub controller: Box<dyn Controller>,
    pub now: Time,
    snd_una: u64,
    in_flight: Bytes,
    /// Numbers of the transmissions under way, and the next one.
    outstanding: VecDeque<u64>,
    number: u64,
    min_rtt: Dur,
    recovery: RecoveryState,
}

/// What a transport can see of a controller.
pub type Outcome = (Bytes, Option<Rate>, Option<Bytes>, Time, Option<Rate>);

impl Flow {
    pub fn new(controller: Box<dyn Controller>) -> Self {
        Self {
            controller,
            now: Time::ZERO,
            snd_una: 0,
            in_flight: Bytes(0),
            outstanding: VecDeque::new(),
            number: 0,
            min_rtt: Dur::MAX,
            recovery: RecoveryState::Open,
        }
    }

    pub fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Ack { packets, rtt_us, limited, sample, app_limited, signal } => {
                let acked = Bytes(u64::from(packets) * MSS);
                let rtt = rtt_us.map(Dur::from_micros);
                self.min_rtt = self.min_rtt.min(rtt.unwrap_or(Dur::MAX));
                let prior_in_flight = self.in_flight;
                for _ in 0..packets {
                    if let Some(number) = self.outstanding.pop_front() {
                        self.packet_acked(number);
                    }
                }
                self.in_flight -= acked;
                self.snd_una += acked.0;
                let delivered = Bytes(self.snd_una);
                let prior_delivered = delivered - acked - self.in_flight;
                let rate = sample.then_some(RateSample {
                    delivered: delivered - prior_delivered,
                    interval: rtt.unwrap_or_default(),
                    prior_delivered,
                    app_limited,
                });
                self.controller.on_ack(&AckInfo {
                    now: self.now,
                    acked,
                    acked_packets: packets,
                    rtt,
                    min_rtt: self.min_rtt,
                    srtt: rtt.unwrap_or_default(),
                    prior_in_flight,
                    in_flight: self.in_flight,
                    delivered,
                    rate,
                    snd_una: self.snd_una,
                    snd_nxt: self.snd_una + self.in_flight.0,
                    cwnd_limited: limited,
                    recovery: self.recovery,
                    // Marks come while a reduction for them lasts.
                    ecn_ce: if self.recovery == RecoveryState::Reduction { packets.div_ceil(2) } else { 0 },
                    signal,
                    ..AckInfo::default()
                });
            }
            Operation::Loss { packets, new_episode } => {
                self.recovery = RecoveryState::Recovery;
                let loss = self.loss(u64::from(packets), new_episode);
                self.controller.on_loss(&loss);
            }
            Operation::Echo => {
                self.recovery = RecoveryState::Reduction;
                let echo = LossInfo { ecn: true, ..self.loss(0, true) };
                self.controller.on_loss(&echo);
            }
            Operation::Timeout { new_episode } => {
                self.recovery = RecoveryState::Loss;
                let loss = self.loss(self.in_flight.0 / MSS, new_episode);
                self.controller.on_timeout(&loss);
            }
            Operation::Send { app_limited, idle } => {
                if idle {
                    self.in_flight = Bytes(0);
                    for number in std::mem::take(&mut self.outstanding) {
                        self.packet_acked(number);
                    }
                }
                self.controller.on_sent(&SentInfo {
                    now: self.now,
                    bytes: Bytes(MSS),
                    prior_in_flight: self.in_flight,
                    snd_nxt: self.snd_una + self.in_flight.0,
                    app_limited,
                    last_sent: Time::ZERO,
                    retransmission: false,
                    number: self.number,
                    ..SentInfo::default()
                });
                self.outstanding.push_back(self.number);
                self.number += 1;
                self.in_flight += Bytes(MSS);
            }
            Operation::IdleRestart { idle_us, rto_us } => {
                self.controller.on_idle_restart(self.now, Dur::from_micros(idle_us), Dur::from_micros(rto_us));
            }
            Operation::SpuriousLoss => self.controller.on_spurious_loss(self.now),
            Operation::RecoveryEnd => {
                self.recovery = RecoveryState::Open;
                self.controller.on_recovery_end(self.now, self.in_flight);
            }
            Operation::Decide { action } => {
                if let Some(learned) = self.controller.learned() {
                    learned.take_decision();
                    let interface = learned.interface();
                    let action = match interface.actions.len() as u32 {
                        0 => Action::Continuous(Numbers::of(
                            &interface
                                .bounds
                                .iter()
                                .map(|(low, high)| low + (high - low) * action as f32 / 14.0)
                                .collect::<Vec<_>>(),
                        )),
                        n => Action::Discrete(action % n),
                    };
                    learned.act(action, self.now).unwrap();
                }
            }
            Operation::Set { weight, min_mbps } => {
                FlowSetting::Weight(weight).apply(self.controller.as_mut());
                let requirement = min_mbps
                    .map(|min| Requirement { min: Rate::from_mbps(min), max: Rate::from_mbps(1.5 * min + 1.0) });
                FlowSetting::Requirement(requirement).apply(self.controller.as_mut());
            }
            Operation::Wait { us } => self.now = self.now + Dur::from_micros(us),
        }
        self.run_timers();
    }

    fn packet_acked(&mut self, number: u64) {
        if let Some(packets) = self.controller.packet_tracker() {
            packets.on_packet_acked(number);
        }
    }

    fn loss(&mut self, packets: u64, new_episode: bool) -> LossInfo {
        let lost = Bytes(packets * MSS).min(self.in_flight);
        self.in_flight -= lost;
        for _ in 0..lost.0 / MSS {
            if let Some(number) = self.outstanding.pop_front() {
                if let Some(packets) = self.controller.packet_tracker() {
                    packets.on_packet_lost(number);
                }
            }
        }
        LossInfo {
            now: self.now,
            lost,
            lost_packets: (lost.0 / MSS) as u32,
            in_flight: self.in_flight,
            new_episode,
            ecn: false,
            delivered: Bytes(self.snd_una),
            snd_nxt: self.snd_una + self.in_flight.0,
        }
    }

    fn run_timers(&mut self) {
        for _ in 0..100 {
            if self.controller.next_timer() > self.now {
                return;
            }
            self.controller.on_timer(self.now);
        }
        panic!("next_timer() stays at {} although it is {}", self.controller.next_timer(), self.now);
    }

    pub fn check(&mut self) -> Result<Outcome, TestCaseError> {
        let window = self.controller.window();
        prop_assert!(window >= Bytes(MSS), "window {window:?}");
        prop_assert!(window <= LARGEST_WINDOW, "window {window:?}");
        let pacing_rate = self.controller.pacing_rate();
        prop_assert!(pacing_rate != Some(Rate(0)));
        let threshold = self.controller.slow_start_threshold();
        prop_assert!(threshold.is_none_or(|t| t >= Bytes(MSS)), "threshold {threshold:?}");
        let steps = Extrapolation::of(self.controller.as_mut(), self.now);
        prop_assert!(steps.increase >= 0.0 && steps.increase.is_finite(), "{steps:?}");
        prop_assert!(steps.decrease >= 0.0 && steps.decrease <= 1.0, "{steps:?}");
        prop_assert!(steps.cubic.is_none_or(|period| period <= Extrapolation::LONGEST), "{steps:?}");
        let request = self.controller.router_assisted().map_or(Signal::None, RouterAssisted::request);
        if let Signal::Window { window_bytes, .. } = request {
            prop_assert!(window_bytes.is_finite() && window_bytes >= MSS as f32, "{window_bytes}");
        }
        Ok((window, pacing_rate, threshold, self.controller.next_timer(), request.rate()))
    }

    /// Observation and report, if the scheme is learned.
    pub fn learned(&mut self) -> Vec<f32> {
        let Some(learned) = self.controller.learned() else { return Vec::new() };
        let interface = learned.interface();
        let mut values = vec![f32::NAN; interface.observation_len + interface.report.len()];
        let (observation, report) = values.split_at_mut(interface.observation_len);
        learned.observe(observation);
        learned.report(report);
        values
    }
}
