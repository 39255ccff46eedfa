//! Any scheme, whatever events it is told and in whatever order: no panic, at least a segment of window, no pace of zero.
#![no_main]

use ccarena_cc::{AckInfo, Action, Bytes, Config, Dur, LossInfo, Rate, RateSample, RecoveryState, Requirement, SentInfo, Signal, Time, all_schemes, build};
use ccarena_cc::action::Numbers;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

const MSS: u64 = 1448;

#[derive(Arbitrary, Debug)]
struct Input {
    scheme: u8,
    slow_start: bool,
    initial_window: u16,
    weight_thousandths: u32,
    requirement: Option<(u32, u32)>,
    events: Vec<(u32, Event)>,
}

/// Signals that routers may write.
#[derive(Arbitrary, Debug)]
enum Heard {
    Nothing,
    Rate(u64),
    Marks(u32, u32),
    Window(f32, u32, f32),
}

impl From<Heard> for Signal {
    fn from(heard: Heard) -> Self {
        match heard {
            Heard::Nothing => Self::None,
            Heard::Rate(rate) => Self::Rate(Rate(rate)),
            Heard::Marks(accelerate, brake) => Self::Marks { accelerate, brake },
            Heard::Window(window_bytes, rtt_us, feedback_bytes) => {
                Self::Window { window_bytes, rtt_us, feedback_bytes }
            }
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Event {
    Ack { packets: u8, marked: u8, rtt_us: Option<u32>, limited: bool, rate_us: Option<u32>, state: u8, signal: Heard },
    PacketAcked(u64),
    PacketLost(u64),
    Loss { packets: u8, new_episode: bool, ecn: bool },
    Timeout { new_episode: bool },
    Sent { app_limited: bool },
    Idle { idle_us: u32, rto_us: u32 },
    Spurious,
    RecoveryEnd,
    Act(u32),
}

fuzz_target!(|input: Input| {
    let schemes = all_schemes();
    let scheme = &schemes[usize::from(input.scheme) % schemes.len()];
    let requirement = input.requirement.map(|(min, max)| Requirement { min: Rate(min.into()), max: Rate(max.into()) });
    let config = Config {
        slow_start: input.slow_start,
        initial_window: input.initial_window.max(1).into(),
        weight: f64::from(input.weight_thousandths) / 1e3,
        requirement,
        feedback: scheme.feedback,
        ..Config::default()
    };
    let Ok(mut controller) = build(scheme.name, &config) else { return };
    let (mut now, mut una, mut in_flight, mut number, mut min_rtt) = (Time::ZERO, 0, Bytes(0), 0, Dur::MAX);
    for (gap_us, event) in input.events {
        now = now + Dur::from_micros(gap_us.into());
        let loss = |packets: u64, new_episode, ecn| LossInfo {
            now,
            lost: Bytes(packets * MSS).min(in_flight),
            lost_packets: packets as u32,
            in_flight,
            new_episode,
            ecn,
            delivered: Bytes(una),
            snd_nxt: una + in_flight.0,
        };
        match event {
            Event::Ack { packets, marked, rtt_us, limited, rate_us, state, signal } => {
                let acked = Bytes(u64::from(packets) * MSS);
                let rtt = rtt_us.map(|us| Dur::from_micros(u64::from(us) + 1));
                min_rtt = min_rtt.min(rtt.unwrap_or(Dur::MAX));
                let prior_in_flight = in_flight;
                in_flight -= acked;
                una += acked.0;
                let interval = rate_us.map(|us| Dur::from_micros(us.into()));
                let states =
                    [RecoveryState::Open, RecoveryState::Reduction, RecoveryState::Recovery, RecoveryState::Loss];
                controller.on_ack(&AckInfo {
                    now,
                    acked,
                    acked_packets: packets.into(),
                    rtt,
                    min_rtt,
                    srtt: rtt.unwrap_or_default(),
                    prior_in_flight,
                    in_flight,
                    delivered: Bytes(una),
                    rate: interval.map(|interval| RateSample { delivered: acked, interval, ..RateSample::default() }),
                    snd_una: una,
                    snd_nxt: una + in_flight.0,
                    cwnd_limited: limited,
                    recovery: states[usize::from(state) % states.len()],
                    ecn_ce: marked.into(),
                    signal: signal.into(),
                    ..AckInfo::default()
                });
            }
            Event::PacketAcked(number) => {
                if let Some(packets) = controller.packet_tracker() {
                    packets.on_packet_acked(number);
                }
            }
            Event::PacketLost(number) => {
                if let Some(packets) = controller.packet_tracker() {
                    packets.on_packet_lost(number);
                }
            }
            Event::Loss { packets, new_episode, ecn } => {
                controller.on_loss(&loss(if ecn { 0 } else { packets.into() }, new_episode, ecn));
            }
            Event::Timeout { new_episode } => controller.on_timeout(&loss(in_flight.0 / MSS, new_episode, false)),
            Event::Sent { app_limited } => {
                let (bytes, prior_in_flight, snd_nxt) = (Bytes(MSS), in_flight, una + in_flight.0);
                let retransmission = false;
                controller.on_sent(&SentInfo {
                    now,
                    bytes,
                    prior_in_flight,
                    snd_nxt,
                    app_limited,
                    last_sent: Time::ZERO,
                    retransmission,
                    number,
                    ..SentInfo::default()
                });
                number += 1;
                in_flight += Bytes(MSS);
            }
            Event::Idle { idle_us, rto_us } => {
                controller.on_idle_restart(now, Dur::from_micros(idle_us.into()), Dur::from_micros(rto_us.into()));
            }
            Event::Spurious => controller.on_spurious_loss(now),
            Event::RecoveryEnd => controller.on_recovery_end(now, in_flight),
            Event::Act(action) => {
                if let Some(learned) = controller.learned() {
                    learned.take_decision();
                    // Refused or taken.
                    let part = (action % 20) as f32 / 16.0;
                    let numbers: Vec<f32> =
                        learned.interface().bounds.iter().map(|(low, high)| low + (high - low) * part).collect();
                    let _ = learned.act(Action::Discrete(action % 20), now);
                    let _ = learned.act(Action::Continuous(Numbers::of(&numbers)), now);
                }
            }
        }
        for _ in 0..100 {
            if controller.next_timer() > now {
                break;
            }
            controller.on_timer(now);
        }
        assert!(controller.next_timer() > now, "{}: its timer stays due", scheme.name);
        let window = controller.window();
        assert!(window >= Bytes(MSS) && window <= Bytes(((1 << 24) + 1) * MSS), "{}: {window:?}", scheme.name);
        assert!(controller.pacing_rate() != Some(Rate(0)), "{}", scheme.name);
    }
});
