//! Schemes of the registry as bases of specs: alone, under every lever, and one of several by choice.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use ccarena_cc::schemes::ALL;
use ccarena_cc::{Action, Bytes, Config, Controller, FlowSetting, Scheme, Spec, Time, build};
use common::{Flow, MSS, Operation, operation};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The schemes that a spec may run; remy needs a rule file.
fn bases() -> impl Iterator<Item = &'static Scheme> {
    ALL.iter().filter(|scheme| !scheme.rules)
}

fn spec(base: &Value, act: &Value) -> Spec {
    let document = json!({
        "learned": 1, "name": "over", "clock": {"kind": "timer", "period_ms": 30}, "base": base, "act": act,
        "observe": {"signals": ["rtt_ms", "cwnd_packets", "rate_mbps"]}, "report": ["throughput_mbps", "interval_ms"],
    });
    Spec::parse(&document.to_string()).unwrap()
}

fn over(base: &Value, act: &Value, config: &Config) -> Flow {
    Flow::new(spec(base, act).controller(config).unwrap())
}

/// The schemes that may stand in a choice: packets keep one header.
fn choosable() -> Vec<&'static str> {
    let asks = |scheme: &&Scheme| build(scheme.name, &Config::default()).unwrap().router_assisted().is_some();
    bases().filter(|scheme| !asks(scheme)).map(|scheme| scheme.name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_base_without_actions_does_what_the_scheme_does(
        operations in prop::collection::vec(operation(), 1..250), slow_start: bool, initial_window in 1_u32..200,
    ) {
        let config = Config { slow_start, initial_window, seed: 7, ..Config::default() };
        for scheme in bases() {
            let mut alone = Flow::new(build(scheme.name, &config).unwrap());
            let mut based = over(&json!({"scheme": scheme.name}), &json!("window_exp2"), &config);
            for operation in operations.iter().filter(|o| !matches!(o, Operation::Decide { .. })) {
                alone.apply(operation);
                based.apply(operation);
                let (window, pacing, threshold, timer, rate) = alone.check()?;
                let (own, paced, below, due, asked) = based.check()?;
                prop_assert_eq!((window, pacing, threshold, rate), (own, paced, below, asked), "{}", scheme.name);
                prop_assert!(due <= timer, "{}: its own timer", scheme.name);
                let (needs, own) = (alone.controller.transport(), based.controller.transport());
                prop_assert_eq!(needs.or(own), own, "{}", scheme.name);
            }
        }
    }

    #[test]
    fn any_scheme_keeps_its_promises_under_every_lever(
        operations in prop::collection::vec(operation(), 1..250), slow_start: bool, initial_window in 1_u32..200,
    ) {
        let config = Config { slow_start, initial_window, ..Config::default() };
        let levers = json!([{"kind": "window_exp2", "max": 16}, {"kind": "pacing_gain", "bounds": [0.01, 100]}, "cap"]);
        for scheme in bases() {
            let mut flow = over(&json!({"scheme": scheme.name}), &levers, &config);
            for operation in &operations {
                flow.apply(operation);
                flow.check().map_err(|e| TestCaseError::fail(format!("{}: {e}", scheme.name)))?;
            }
        }
    }

    #[test]
    fn any_choice_keeps_its_promises(
        operations in prop::collection::vec(operation(), 1..400), slow_start: bool, initial_window in 1_u32..200,
    ) {
        let config = Config { slow_start, initial_window, ..Config::default() };
        let act = json!([{"kind": "choice"}, {"kind": "window_ops", "ops": ["/2", "+0", "*2"]}]);
        for schemes in choosable().chunks(15) {
            let mut flow = over(&json!({"schemes": schemes}), &act, &config);
            let mut twin = over(&json!({"schemes": schemes}), &act, &config);
            for operation in &operations {
                flow.apply(operation);
                twin.apply(operation);
                prop_assert_eq!(flow.check()?, twin.check()?, "does not repeat");
            }
        }
    }
}

fn ack(packets: u32) -> Operation {
    let signal = ccarena_cc::Signal::None;
    Operation::Ack { packets, rtt_us: Some(40_000), limited: true, sample: true, app_limited: false, signal }
}

fn send_and_ack(flow: &mut Flow, packets: u32) {
    for _ in 0..packets {
        flow.apply(&Operation::Send { app_limited: false, idle: false });
    }
    flow.apply(&Operation::Wait { us: 40_000 });
    flow.apply(&ack(packets));
}

fn act(controller: &mut dyn Controller, action: Action) {
    controller.learned().unwrap().act(action, Time::ZERO).unwrap();
}

/// State that Linux keeps when a socket changes its congestion control; the new one begins afresh.
#[test]
fn a_change_of_schemes_keeps_window_and_threshold() {
    let mut flow = over(&json!({"schemes": ["cubic", "reno"]}), &json!("choice"), &Config::default());
    send_and_ack(&mut flow, 10);
    flow.apply(&Operation::Loss { packets: 1, new_episode: true });
    flow.apply(&Operation::RecoveryEnd);
    for _ in 0..3 {
        send_and_ack(&mut flow, 8);
    }
    let before = (flow.controller.window(), flow.controller.slow_start_threshold());
    assert!(before.1.unwrap() < Bytes(100 * MSS), "the loss has left a threshold: {before:?}");
    act(flow.controller.as_mut(), Action::Discrete(1));
    assert_eq!((flow.controller.window(), flow.controller.slow_start_threshold()), before);
    // Reno's window grows by a segment per window, where CUBIC's would take its cubic.
    let window = flow.controller.window().0 / MSS;
    for _ in 0..window {
        send_and_ack(&mut flow, 1);
    }
    assert_eq!(flow.controller.window().0 / MSS, window + 1);
    // The same choice again changes nothing.
    let now = flow.controller.window();
    act(flow.controller.as_mut(), Action::Discrete(1));
    assert_eq!(flow.controller.window(), now);
}

#[test]
fn a_scheme_without_a_threshold_leaves_its_window_as_one() {
    let mut flow = over(&json!({"schemes": ["copa", "cubic"]}), &json!("choice"), &Config::default());
    for _ in 0..4 {
        send_and_ack(&mut flow, 10);
    }
    let window = flow.controller.window();
    act(flow.controller.as_mut(), Action::Discrete(1));
    let whole = Bytes(window.0 / MSS * MSS);
    assert_eq!((flow.controller.window(), flow.controller.slow_start_threshold()), (whole, Some(whole)));
}

#[test]
fn a_choice_before_the_first_packet_is_that_scheme_from_its_start() {
    let config = Config { initial_window: 20, ..Config::default() };
    let mut flow = over(&json!({"schemes": ["bbr", "cubic"]}), &json!("choice"), &config);
    let mut alone = Flow::new(build("cubic", &config).unwrap());
    act(flow.controller.as_mut(), Action::Discrete(1));
    for flow in [&mut flow, &mut alone] {
        send_and_ack(flow, 10);
    }
    assert_eq!(flow.controller.window(), alone.controller.window());
    assert_eq!(flow.controller.slow_start_threshold(), alone.controller.slow_start_threshold());
}

#[test]
fn a_factor_stays_on_the_schemes_window_until_the_next_action() {
    let (base, act_) = (json!({"scheme": "bbr"}), json!({"kind": "window", "bounds": [2, 1000]}));
    let mut flow = over(&base, &act_, &Config::default());
    let mut alone = Flow::new(build("bbr", &Config::default()).unwrap());
    act(flow.controller.as_mut(), Action::Continuous(5.0.into()));
    for _ in 0..5 {
        for flow in [&mut flow, &mut alone] {
            send_and_ack(flow, 8);
        }
    }
    let (own, whole) = (flow.controller.window().0, alone.controller.window().0);
    assert_eq!(own, whole / 2, "half of BBR's window, as 5 of 10 segments were at the action");
    let rates = (flow.controller.pacing_rate().unwrap().0, alone.controller.pacing_rate().unwrap().0);
    assert!(rates.0.abs_diff(rates.1 / 2) <= 1, "{rates:?}");
}

#[test]
fn the_pacing_gain_paces_and_the_cap_bounds_any_base() {
    for base in [json!({"scheme": "cubic"}), json!("cubic"), json!("none"), json!("acct")] {
        let act_ = json!([{"kind": "pacing_gain"}, {"kind": "cap", "bounds": [0.1, 4]}]);
        let mut flow = over(&base, &act_, &Config::default());
        for _ in 0..4 {
            send_and_ack(&mut flow, 10);
        }
        let numbers = ccarena_cc::action::Numbers::of(&[1.5, 0.5]);
        act(flow.controller.as_mut(), Action::Continuous(numbers));
        let window = flow.controller.window().0;
        // 10 segments per 40 ms are the highest throughput, so that half of a bandwidth-delay product is at most 5.
        assert!((2 * MSS..=5 * MSS).contains(&window), "{base}: {window}");
        let rate = flow.controller.pacing_rate().unwrap().0 as f64;
        let least = window as f64 * 8.0 * 1.5 / 0.040;
        assert!((0.999..1.5).contains(&(rate / least)), "{base}: {rate} against {least}");
    }
}

#[test]
fn settings_reach_the_scheme() {
    let config = Config { weight: 4.0, ..Config::default() };
    let spec = spec(&json!({"schemes": ["cubic", "multcp"]}), &json!("choice"));
    assert!(spec.weight_above().is_some());
    let mut flow = Flow::new(spec.controller(&config).unwrap());
    let mut alone = Flow::new(build("multcp", &config).unwrap());
    act(flow.controller.as_mut(), Action::Discrete(1));
    for flow in [&mut flow, &mut alone] {
        FlowSetting::Weight(8.0).apply(flow.controller.as_mut());
        send_and_ack(flow, 10);
        flow.apply(&Operation::Loss { packets: 1, new_episode: true });
    }
    assert_eq!(flow.controller.window(), alone.controller.window());
    let refused = spec.controller(&Config { weight: 0.0, ..Config::default() });
    assert!(refused.err().unwrap().to_string().starts_with("weight 0 does not suit scheme \"multcp\""));
}
