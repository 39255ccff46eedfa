//! A policy in the shadow of another scheme, or under a guard: what the flow does is the other scheme's, once and for all.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

#[path = "common/untrained.rs"]
mod made;

use std::sync::Arc;

use ccarena_cc::flow::{Fallback, Source};
use ccarena_cc::operation::Role;
use ccarena_cc::policy::Policy;
use ccarena_cc::{AckInfo, Bytes, Config, Dur, Flow, Host, LossInfo, RecoveryState, SentInfo, Spec, Time};
use made::untrained;
use proptest::prelude::*;
use serde_json::{Value, json};

const MSS: u64 = 1448;

/// A policy of a shipped spec, whose guard has this box for all entries of an observation.
fn guarded_within(name: &str, low: Value, high: Value) -> Arc<Policy> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ccarena");
    let spec = std::fs::read_to_string(format!("{root}/{name}/spec.json")).unwrap();
    let interface = Spec::parse(&spec).unwrap();
    let entries = interface.interface().observation_len;
    let action = json!({"low": [-1e6], "high": [1e6]});
    let guard = json!({"observation": {"low": vec![low; entries], "high": vec![high; entries]}, "action": action});
    Arc::new(untrained(&spec, 7, &guard))
}

/// One whose every observation is outside.
fn elsewhere(name: &str) -> Arc<Policy> {
    guarded_within(name, json!(1e-9), json!(2e-9))
}

/// One whose every observation is inside.
fn everywhere(name: &str) -> Arc<Policy> {
    guarded_within(name, Value::Null, Value::Null)
}

fn flow(policy: &Arc<Policy>) -> Flow {
    Flow::build(&Source::Policy(Arc::clone(policy)), &Config::default(), &Host::ALL, Time::ZERO).unwrap()
}

fn cubic() -> Fallback {
    Fallback::new("cubic", &Config::default(), &Host::ALL).unwrap()
}

/// A connection that reports what `steps` draw: kind, count and time of each.
struct Connection {
    now: Time,
    sent: u64,
    acked: u64,
    recovery: RecoveryState,
}

impl Connection {
    fn new() -> Self {
        Self { now: Time(1), sent: 0, acked: 0, recovery: RecoveryState::Open }
    }

    fn in_flight(&self) -> Bytes {
        Bytes((self.sent - self.acked) * MSS)
    }

    fn step(&mut self, flows: &mut [&mut Flow], (kind, count, us): (u8, u64, u64)) {
        self.now = self.now + Dur::from_micros(us);
        let now = self.now;
        for flow in flows.iter_mut() {
            flow.on_timer(now);
        }
        match kind {
            0..=3 => {
                for _ in 0..count {
                    let sent = SentInfo {
                        now,
                        bytes: Bytes(MSS),
                        prior_in_flight: self.in_flight(),
                        snd_nxt: self.sent * MSS,
                        number: self.sent,
                        ..SentInfo::default()
                    };
                    flows.iter_mut().for_each(|flow| flow.on_sent(&sent));
                    self.sent += 1;
                }
            }
            4..=8 => {
                let (before, acked) = (self.in_flight(), count.min(self.sent - self.acked));
                if acked == 0 {
                    return;
                }
                self.acked += acked;
                if self.recovery != RecoveryState::Open && kind == 8 {
                    self.recovery = RecoveryState::Open;
                    let in_flight = self.in_flight();
                    flows.iter_mut().for_each(|flow| flow.on_recovery_end(now, in_flight));
                }
                let rtt = Dur::from_millis(10 + us % 50);
                let ack = AckInfo {
                    now,
                    acked: Bytes(acked * MSS),
                    acked_packets: acked as u32,
                    rtt: Some(rtt),
                    min_rtt: Dur::from_millis(10),
                    srtt: Dur::from_millis(20),
                    prior_in_flight: before,
                    in_flight: self.in_flight(),
                    delivered: Bytes(self.acked * MSS),
                    snd_una: self.acked * MSS,
                    snd_nxt: self.sent * MSS,
                    cwnd_limited: us % 3 > 0,
                    recovery: self.recovery,
                    ..AckInfo::default()
                };
                flows.iter_mut().for_each(|flow| flow.on_ack(&ack));
            }
            9 | 10 => {
                let new_episode = self.recovery == RecoveryState::Open;
                let timeout = kind == 10;
                self.recovery = if timeout { RecoveryState::Loss } else { RecoveryState::Recovery };
                let loss = LossInfo {
                    now,
                    lost: Bytes(MSS),
                    lost_packets: 1,
                    in_flight: self.in_flight(),
                    new_episode,
                    snd_nxt: self.sent * MSS,
                    ..LossInfo::default()
                };
                for flow in flows.iter_mut() {
                    if timeout { flow.on_timeout(&loss) } else { flow.on_loss(&loss) }
                }
            }
            11 => flows.iter_mut().for_each(|flow| flow.on_spurious_loss(now)),
            // Silence.
            _ => {
                let idle = Dur::from_millis(count * 100);
                self.now = self.now + idle;
                let now = self.now;
                flows.iter_mut().for_each(|flow| flow.on_idle_restart(now, idle, Dur::from_millis(200)));
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<(u8, u64, u64)>> {
    prop::collection::vec((0_u8..13, 1_u64..30, 1_u64..40_000), 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_flow_is_handed_back_once_and_its_window_does_not_jump(
        steps in steps(), guard in 1_u32..6, name in prop::sample::select(vec!["acct", "aurora", "hyvar"]),
    ) {
        let mut flow = flow(&elsewhere(name)).guarded(cubic(), guard);
        let (mut connection, mut role, mut decided) = (Connection::new(), flow.role(), 0);
        for step in steps {
            let before = flow.window();
            connection.step(&mut [&mut flow], step);
            if role == Some(Role::HandedBack) {
                prop_assert_eq!(flow.role(), role, "it stays so");
                prop_assert_eq!(flow.tally().decisions, decided, "nobody decides any more");
            } else if flow.role() == Some(Role::HandedBack) {
                prop_assert!(flow.window() <= before, "{:?} after {before:?}: {name}", flow.window());
                prop_assert!(flow.pacing_rate().is_none() && flow.tally().outside >= u64::from(guard));
            }
            prop_assert!(flow.window() >= Bytes(MSS));
            prop_assert_eq!(flow.tally().outside, flow.tally().decisions);
            prop_assert!(flow.tally().decisions <= u64::from(guard), "the last one hands it back");
            (role, decided) = (flow.role(), flow.tally().decisions);
        }
    }

    #[test]
    fn in_the_shadow_the_fallback_acts_as_if_it_were_alone(
        steps in steps(), name in prop::sample::select(vec!["acct", "aurora", "hyvar"]),
    ) {
        let policy = everywhere(name);
        let mut shadowed = flow(&policy).shadowed(cubic(), cubic().flow()).unwrap();
        let (mut alone, mut connection) = (cubic().flow(), Connection::new());
        for step in steps {
            connection.step(&mut [&mut shadowed, &mut alone], step);
            prop_assert_eq!((shadowed.window(), shadowed.pacing_rate()), (alone.window(), alone.pacing_rate()));
            let tally = shadowed.tally();
            prop_assert!(tally.agreed <= tally.compared && tally.compared <= tally.decisions);
        }
        prop_assert_eq!(shadowed.role(), Some(Role::Shadow));
    }

    #[test]
    fn a_guard_that_nothing_trips_changes_nothing(
        steps in steps(), name in prop::sample::select(vec!["acct", "aurora", "hyvar"]),
    ) {
        let policy = everywhere(name);
        let (mut guarded, mut alone) = (flow(&policy).guarded(cubic(), 1), flow(&policy));
        let mut connection = Connection::new();
        for step in steps {
            connection.step(&mut [&mut guarded, &mut alone], step);
            prop_assert_eq!((guarded.window(), guarded.pacing_rate()), (alone.window(), alone.pacing_rate()));
        }
        prop_assert_eq!((guarded.role(), guarded.tally().decisions), (Some(Role::Policy), alone.decisions()));
    }
}

/// Sends and acknowledges `rounds` times.
fn run(flows: &mut [&mut Flow], rounds: u64) {
    let mut connection = Connection::new();
    for _ in 0..rounds {
        connection.step(flows, (0, 4, 2000));
        connection.step(flows, (4, 4, 2000));
    }
}

#[test]
fn a_rate_based_policy_leaves_what_its_rate_sends_in_an_rtt() {
    let mut flow = flow(&elsewhere("aurora")).guarded(cubic(), 1);
    let mut connection = Connection::new();
    let mut last = (flow.window(), flow.pacing_rate());
    while flow.role() == Some(Role::Policy) {
        last = (flow.window(), flow.pacing_rate());
        connection.step(&mut [&mut flow], (0, 4, 2000));
        connection.step(&mut [&mut flow], (4, 4, 2000));
    }
    let per_rtt = last.1.unwrap().bytes_in(Dur::from_millis(20));
    assert!(last.0 > per_rtt, "its window allows several RTTs");
    assert!(flow.window() <= Bytes(per_rtt.0.max(10 * MSS)), "{:?} of {last:?}", flow.window());
}

#[test]
fn decisions_in_the_shadow_are_compared_with_what_acts() {
    for (name, at_once) in [("hyvar", true), ("acct", false), ("aurora", false)] {
        let policy = elsewhere(name);
        let mut flow = flow(&policy).shadowed(cubic(), cubic().flow()).unwrap();
        run(&mut [&mut flow], 2000);
        let tally = flow.tally();
        assert!(tally.decisions > 20, "{name}: {tally:?}");
        assert_eq!(tally.compared, tally.decisions - u64::from(!at_once), "{name}");
        assert!(tally.running_kib > 0 && tally.policy_kib > 0, "{name}: {tally:?}");
        assert_eq!(tally.outside, tally.decisions, "no guard takes it away");
    }
}

#[test]
fn the_next_scheme_goes_on_from_the_window_in_force() {
    let mut acting = cubic().flow();
    run(&mut [&mut acting], 50);
    let next = cubic().after(&acting, Dur::from_millis(20));
    assert_eq!(next.window(), acting.window());
    assert!(next.window() > Bytes(10 * MSS));
    assert_eq!(next.slow_start_threshold(), acting.slow_start_threshold(), "slow start goes on");
}

#[test]
fn fallbacks_that_cannot_be_are_refused() {
    let refused = |name: &str| Fallback::new(name, &Config::default(), &Host::default()).unwrap_err().to_string();
    assert!(refused("cubik").contains("did you mean \"cubic\"?"));
    assert!(refused("acct").contains("is learned and decides nothing by itself"));
    assert!(refused("bbr").contains("needs a report of each packet that leaves"));
    let prague = r#"{"learned": 1, "name": "p", "clock": "window", "base": "prague", "report": ["rtt_ms"],
        "act": {"kind": "window_exp2", "bounds": [-1, 1]}, "observe": {"signals": ["rtt_ms"]}}"#;
    let spec = Spec::parse(prague).unwrap();
    let over_prague = Flow::of(spec.controller(&Config::default()).unwrap());
    let error = over_prague.shadowed(cubic(), cubic().flow()).unwrap_err().to_string();
    assert!(error.contains("give the policy a small share of connections instead"), "{error}");
}
