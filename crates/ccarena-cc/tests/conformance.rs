//! What every registered scheme promises, whatever the transport reports.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

use std::collections::VecDeque;

use ccarena_cc::{
    AckInfo, Action, ActionError, BuildError, Bytes, Config, Controller, Dur, LossInfo, Rate, RateSample,
    RecoveryState, Requirement, Scheme, SentInfo, Time, all_schemes, build,
};
use proptest::prelude::*;

const MSS: u64 = 1448;
/// No window is larger: 2^24 segments and one.
const LARGEST_WINDOW: Bytes = Bytes(((1 << 24) + 1) * MSS);

#[derive(Clone, Debug)]
enum Operation {
    Ack { packets: u32, rtt_us: Option<u64>, limited: bool, sample: bool, app_limited: bool, advertised: Option<u64> },
    Loss { packets: u32, new_episode: bool },
    Echo,
    Timeout { new_episode: bool },
    Send { app_limited: bool, idle: bool },
    IdleRestart { idle_us: u64, rto_us: u64 },
    SpuriousLoss,
    RecoveryEnd,
    Decide { action: u32 },
    Want { weight: f64, min_mbps: Option<f64> },
    Wait { us: u64 },
}

fn operation() -> impl Strategy<Value = Operation> {
    let ack = (
        0_u32..70,
        prop::option::weighted(0.9, 1_u64..3_000_000),
        prop::bool::weighted(0.8),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
        prop::option::weighted(0.3, prop_oneof![any::<u64>(), 0_u64..100_000_000, Just(u64::from(u32::MAX))]),
    )
        .prop_map(|(packets, rtt_us, limited, sample, app_limited, advertised)| Operation::Ack {
            packets,
            rtt_us,
            limited,
            sample,
            app_limited,
            advertised,
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
            .prop_map(|(weight, min_mbps)| Operation::Want { weight, min_mbps }),
        10 => prop_oneof![9 => 0_u64..50_000, 1 => 0_u64..100_000_000].prop_map(|us| Operation::Wait { us }),
    ]
}

/// Any parameters within their bounds, as fractions of them.
fn config(scheme: &Scheme, fractions: &[f64], slow_start: bool, initial_window: u32) -> Config {
    let value = |(p, f): (&ccarena_cc::registry::Param, &f64)| (p.name.to_string(), p.min + f * (p.max - p.min));
    let params = scheme.params.iter().zip(fractions.iter().cycle()).map(value).collect();
    let weight = 0.501 + 20.0 * fractions[0];
    let min = Rate::from_mbps(100.0 * fractions[1]);
    let requirement = (fractions[2] > 0.3).then(|| Requirement { min, max: min + Rate::from_mbps(1.0 + fractions[3]) });
    Config { params, slow_start, initial_window, seed: 5, weight, requirement, ..Config::default() }
}

/// A flow whose counters are consistent, as a transport's are.
struct Flow {
    controller: Box<dyn Controller>,
    now: Time,
    snd_una: u64,
    in_flight: Bytes,
    /// Numbers of the transmissions under way, and the next one.
    outstanding: VecDeque<u64>,
    number: u64,
    min_rtt: Dur,
    recovery: RecoveryState,
}

/// What a transport can see of a controller.
type Outcome = (Bytes, Option<Rate>, Option<Bytes>, Time, Option<Rate>);

impl Flow {
    fn new(controller: Box<dyn Controller>) -> Self {
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

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Ack { packets, rtt_us, limited, sample, app_limited, advertised } => {
                let acked = Bytes(u64::from(packets) * MSS);
                let rtt = rtt_us.map(Dur::from_micros);
                self.min_rtt = self.min_rtt.min(rtt.unwrap_or(Dur::MAX));
                let prior_in_flight = self.in_flight;
                for _ in 0..packets {
                    if let Some(number) = self.outstanding.pop_front() {
                        self.controller.on_packet_acked(number);
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
                    advertised: advertised.map(Rate),
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
                    self.outstanding.drain(..).for_each(|number| self.controller.on_packet_acked(number));
                }
                self.controller.on_sent(&SentInfo {
                    now: self.now,
                    bytes: Bytes(MSS),
                    prior_in_flight: self.in_flight,
                    snd_nxt: self.snd_una + self.in_flight.0,
                    app_limited,
                    retransmission: false,
                    number: self.number,
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
                    let (actions, (low, high)) = (learned.spec().actions.len() as u32, learned.spec().bounds);
                    let action = match actions {
                        0 => Action::Continuous(low + (high - low) * action as f32 / 14.0),
                        n => Action::Discrete(action % n),
                    };
                    learned.act(action, self.now).unwrap();
                }
            }
            Operation::Want { weight, min_mbps } => {
                self.controller.set_weight(weight);
                self.controller.set_requirement(
                    min_mbps
                        .map(|min| Requirement { min: Rate::from_mbps(min), max: Rate::from_mbps(1.5 * min + 1.0) }),
                );
            }
            Operation::Wait { us } => self.now = self.now + Dur::from_micros(us),
        }
        self.run_timers();
    }

    fn loss(&mut self, packets: u64, new_episode: bool) -> LossInfo {
        let lost = Bytes(packets * MSS).min(self.in_flight);
        self.in_flight -= lost;
        for _ in 0..lost.0 / MSS {
            if let Some(number) = self.outstanding.pop_front() {
                self.controller.on_packet_lost(number);
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

    fn check(&self) -> Result<Outcome, TestCaseError> {
        let window = self.controller.window();
        prop_assert!(window >= Bytes(MSS), "window {window:?}");
        prop_assert!(window <= LARGEST_WINDOW, "window {window:?}");
        let pacing_rate = self.controller.pacing_rate();
        prop_assert!(pacing_rate != Some(Rate(0)));
        let threshold = self.controller.slow_start_threshold();
        prop_assert!(threshold.is_none_or(|t| t >= Bytes(MSS)), "threshold {threshold:?}");
        let steps = self.controller.extrapolation(self.now);
        prop_assert!(steps.increase >= 0.0 && steps.increase.is_finite(), "{steps:?}");
        prop_assert!(steps.decrease >= 0.0 && steps.decrease <= 1.0, "{steps:?}");
        prop_assert!(steps.cubic.is_none_or(|period| period <= Dur::from_millis(10_000)), "{steps:?}");
        let desired = self.controller.desired_rate();
        Ok((window, pacing_rate, threshold, self.controller.next_timer(), desired))
    }

    /// Observation and report, if the scheme is learned.
    fn learned(&mut self) -> Vec<f32> {
        let Some(learned) = self.controller.learned() else { return Vec::new() };
        let spec = learned.spec();
        let mut values = vec![f32::NAN; spec.observation_len + spec.report.len()];
        let (observation, report) = values.split_at_mut(spec.observation_len);
        learned.observe(observation);
        learned.report(report);
        let bounds = spec.observation.iter().zip(spec.observation_bounds).flat_map(|(name, b)| vec![*b; length(name)]);
        for (i, (x, (low, high))) in observation.iter().zip(bounds).enumerate() {
            assert!((low..=high).contains(x), "{}: observation {i} is {x}, not within {low} to {high}", spec.id);
        }
        values
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn invariants_hold_after_every_operation_and_results_repeat(
        operations in prop::collection::vec(operation(), 1..400),
        fractions in prop::collection::vec(0.0..=1.0, 4),
        slow_start: bool,
        initial_window in 1_u32..200,
    ) {
        for scheme in all_schemes() {
            let config = config(scheme, &fractions, slow_start, initial_window);
            let mut flow = Flow::new(build(scheme.name, &config).unwrap());
            let mut twin = Flow::new(build(scheme.name, &config).unwrap());
            for operation in &operations {
                flow.apply(operation);
                twin.apply(operation);
                let outcome = flow.check().map_err(|e| TestCaseError::fail(format!("{}: {e}", scheme.name)))?;
                prop_assert_eq!(outcome, twin.check()?, "{} does not repeat", scheme.name);
                let learned = flow.learned();
                prop_assert!(learned.iter().all(|x| x.is_finite()), "{}: {:?}", scheme.name, learned);
                prop_assert_eq!(learned, twin.learned());
            }
        }
    }

    #[test]
    fn a_refused_action_changes_nothing(
        operations in prop::collection::vec(operation(), 1..100),
        index in 15_u32..,
    ) {
        for scheme in all_schemes().iter().filter(|s| s.learned) {
            let mut flow = Flow::new(build(scheme.name, &Config::default()).unwrap());
            let mut twin = Flow::new(build(scheme.name, &Config::default()).unwrap());
            for operation in &operations {
                flow.apply(operation);
                twin.apply(operation);
                refuse_bad_actions(&mut flow, index);
                prop_assert_eq!(flow.check()?, twin.check()?);
                prop_assert_eq!(flow.learned(), twin.learned());
            }
        }
    }
}

fn refuse_bad_actions(flow: &mut Flow, index: u32) {
    let now = flow.now;
    let learned = flow.controller.learned().unwrap();
    let spec = learned.spec();
    let mut act = |action| learned.act(action, now).unwrap_err();
    if spec.actions.is_empty() {
        assert_eq!(act(Action::Discrete(0)), ActionError::WrongKind { expected: "continuous" });
        assert!(matches!(act(Action::Continuous(f32::NAN)), ActionError::NotFinite(_)));
        assert!(matches!(act(Action::Continuous(f32::INFINITY)), ActionError::NotFinite(_)));
        assert!(matches!(act(Action::Continuous(spec.bounds.1 + 1.0)), ActionError::OutOfRange { .. }));
    } else {
        assert_eq!(act(Action::Continuous(f32::NAN)), ActionError::WrongKind { expected: "discrete" });
        let error = act(Action::Discrete(index.max(spec.actions.len() as u32)));
        assert!(matches!(error, ActionError::OutOfRange { .. }), "{error}");
    }
}

#[test]
fn names_are_unique_sorted_and_found() {
    let names: Vec<_> = all_schemes().iter().map(|s| s.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    for scheme in all_schemes() {
        let mut built = build(scheme.name, &Config::default()).unwrap();
        assert_eq!(built.learned().is_some(), scheme.learned, "{}", scheme.name);
        assert!(!scheme.summary.is_empty());
    }
    let error = build("cubik", &Config::default()).err().unwrap();
    assert_eq!(error.to_string(), r#"unknown scheme "cubik"; did you mean "cubic"?"#);
}

/// Values that the entry `name` of an observation stands for.
fn length(name: &str) -> usize {
    name.split_once('[').map_or(1, |(_, n)| n.trim_end_matches(']').parse().unwrap())
}

#[test]
fn learned_schemes_say_what_they_observe() {
    for scheme in all_schemes().iter().filter(|s| s.learned) {
        let mut built = build(scheme.name, &Config::default()).unwrap();
        let spec = built.learned().unwrap().spec();
        let total: usize = spec.observation.iter().map(|name| length(name)).sum();
        assert_eq!(total, spec.observation_len, "{}", scheme.name);
        assert_eq!(spec.observation_bounds.len(), spec.observation.len(), "{}", scheme.name);
        assert!(spec.observation_bounds.iter().all(|(low, high)| low < high), "{}", scheme.name);
        assert!(spec.bounds.0 < spec.bounds.1, "{}", scheme.name);
    }
}

#[test]
fn parameters_that_a_scheme_does_not_take_are_refused() {
    for scheme in all_schemes() {
        let with = |name: &str, value: f64| {
            build(scheme.name, &Config { params: [(name.to_string(), value)].into(), ..Config::default() }).err()
        };
        assert!(matches!(with("no_such_parameter", 1.0), Some(BuildError::UnknownParam { .. })), "{}", scheme.name);
        for p in scheme.params {
            assert!((p.min..=p.max).contains(&p.default), "{}.{}", scheme.name, p.name);
            assert!(!p.doc.is_empty());
            for value in [p.min, p.default, p.max] {
                assert_eq!(with(p.name, value), None);
            }
            for value in [p.min - 1.0, p.max * 2.0 + 1.0, f64::NAN, f64::INFINITY] {
                let error = with(p.name, value);
                assert!(matches!(error, Some(BuildError::OutOfRange { .. })), "{}.{} = {value}", scheme.name, p.name);
            }
        }
    }
}
