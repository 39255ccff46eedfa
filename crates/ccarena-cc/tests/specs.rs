//! Specs of learned schemes: what is refused and how, what is kept, and what any of them promises at run time.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use ccarena_cc::learned::actuators::{ACTUATORS, ActuatorEntry};
use ccarena_cc::learned::bases::BASES;
use ccarena_cc::learned::clocks::CLOCKS;
use ccarena_cc::learned::{Spec, shipped, signals};
use ccarena_cc::{Config, FlowSetting, Param, Rate};
use common::{Flow, operation};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn small() -> Value {
    json!({
        "learned": 1,
        "name": "small",
        "params": {"delta": {"default": 0.1, "min": 0.0, "max": 0.5}, "goal": {"default": 5, "min": 1, "max": 9, "runtime": true}},
        "inputs": {"taste": {"default": 0.5, "min": 0, "max": 1, "doc": "what it likes"}},
        "clock": {"kind": "rtt", "rtts": 2},
        "observe": {"history": 3, "signals": [
            "throughput_ratio",
            {"signal": "delivered_bytes", "over_ms": 100, "history": 1, "scale": 1.5e-5, "clip": [0, 4], "as": "recent"},
            {"signal": "input", "name": "taste", "history": 1}, {"signal": "input", "name": "goal", "history": 1},
        ]},
        "act": {"kind": "rate_factor", "bounds": [-1, 1], "delta": "$delta"},
        "base": "none",
        "report": ["throughput_mbps", {"signal": "rtt_quantile_ms", "q": 0.5, "as": "median_ms"}],
    })
}

fn read(value: &Value) -> Result<Spec, String> {
    Spec::parse(&value.to_string()).map_err(|e| e.to_string())
}

/// `small` with the value at `path` replaced, or removed if it is null.
fn with(path: &str, value: Value) -> Value {
    let mut spec = small();
    let (parent, key) = path.rsplit_once('/').unwrap();
    let parent = spec.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(fields), Value::Null) => {
            fields.remove(key);
        }
        (Value::Object(fields), value) => {
            fields.insert(key.into(), value);
        }
        (Value::Array(items), value) => items[key.parse::<usize>().unwrap()] = value,
        _ => unreachable!("a path leads to an object or a list"),
    }
    spec
}

#[test]
fn a_spec_says_what_it_observes_reports_and_takes() {
    let spec = read(&small()).unwrap();
    let interface = spec.interface();
    assert_eq!(interface.labels(), ["throughput_ratio[3]", "recent", "taste", "goal"]);
    assert_eq!((interface.observation_len, interface.bounds), (6, (-1.0, 1.0)));
    assert_eq!(interface.report, ["throughput_mbps", "median_ms"]);
    let taste = &interface.observation[2];
    assert_eq!((taste.low, taste.high, taste.clip), (0.0, 1.0, (0.0, 1.0)));
    assert_eq!(interface.observation[1].clip, (0.0, 4.0));
    let config = Config { params: [("taste".to_string(), 0.25)].into(), ..Config::default() };
    let mut controller = spec.controller(&config).unwrap();
    let mut observation = [f32::NAN; 6];
    controller.learned().unwrap().observe(&mut observation);
    assert_eq!(
        observation.map(f32::to_bits),
        [0.0, 0.0, 0.0, 0.0, 0.25, 5.0_f32].map(f32::to_bits),
        "inputs from the start"
    );
}

#[test]
fn the_normalised_spec_reads_back_equal() {
    let specs: Vec<Spec> =
        [read(&small()).unwrap()].into_iter().chain(shipped::specs().map(|d| read(&d.to_json()).unwrap())).collect();
    for spec in specs {
        let again = read(&spec.to_json()).unwrap();
        assert_eq!(again, spec);
        assert_eq!((again.canonical(), &again.interface().digest), (spec.canonical(), &spec.interface().digest));
        let canonical: Value = serde_json::from_str(spec.canonical()).unwrap();
        assert_eq!(read(&canonical).unwrap().interface().digest, spec.interface().digest);
        for key in ["summary", "source", "departures"] {
            assert!(canonical.get(key).is_none());
        }
    }
}

#[test]
fn the_digest_is_of_what_matters() {
    let digest = |value: &Value| read(value).unwrap().interface().digest.clone();
    let own = digest(&small());
    assert_eq!(own.len(), 16);
    assert_eq!(digest(&with("/summary", json!("something else"))), own);
    assert_eq!(digest(&with("/inputs/taste/doc", json!("another text"))), own);
    assert_eq!(digest(&with("/clock", json!({"rtts": 2.0, "kind": "rtt"}))), own);
    for (path, value) in [
        ("/clock/rtts", json!(1)),
        ("/params/delta/default", json!(0.2)),
        ("/observe/history", json!(4)),
        ("/observe/signals/1/clip", json!([0, 5])),
        ("/act/bounds", json!([-2, 2])),
        ("/report", json!(["rtt_ms"])),
    ] {
        assert_ne!(digest(&with(path, value)), own, "{path}");
    }
}

#[test]
fn an_option_that_came_later_is_part_of_the_digest_where_it_is_used() {
    let digest = |base: Value| {
        let mut spec = with("/base", base);
        spec["act"] = json!({"kind": "alpha", "levels": [1, 2]});
        spec["params"].as_object_mut().unwrap().remove("delta");
        read(&spec).unwrap().interface().digest.clone()
    };
    // The digest of this spec before acct had the option.
    assert_eq!(digest(json!("acct")), "15af34a1919836ff");
    assert_eq!(digest(json!({"kind": "acct", "silent_at": 0})), digest(json!("acct")));
    assert_ne!(digest(json!({"kind": "acct", "silent_at": 1})), digest(json!("acct")));
}

#[test]
fn each_error_names_its_place_and_what_was_expected() {
    for (path, value, expected) in [
        ("/learned", json!(2), "learned: got 2; expected 1, the version that this program reads"),
        ("/learned", json!(null), "learned: missing; expected 1, the version of this format"),
        ("/name", json!("two words"), "name: got \"two words\"; expected a name of letters, digits, - and _"),
        ("/observ", json!({}), "observ: unknown field \"observ\"; did you mean \"observe\"?"),
        ("/params/delta", json!({"default": 0.1, "min": 0}), "params.delta.max: missing; expected a number"),
        (
            "/params/delta/default",
            json!(7),
            "params.delta.default: got 7; expected a number from 0 to 0.5, its min and max",
        ),
        ("/params/taste", json!({"default": 1, "min": 0, "max": 1}), "inputs.taste: got {"),
        (
            "/clock",
            json!(null),
            "clock: missing; expected an object whose `kind` is one of fixed, reasoner, rtt, timer, window",
        ),
        ("/clock", json!("zzz"), "clock: unknown clock \"zzz\"; expected one of fixed, reasoner"),
        ("/clock", json!({"kind": "timr"}), "clock.kind: unknown clock \"timr\"; did you mean \"timer\"?"),
        ("/clock", json!({}), "clock.kind: missing; expected one of fixed"),
        ("/clock/rts", json!(1), "clock.rts: unknown field \"rts\"; did you mean \"rtts\"?"),
        ("/clock/rtts", json!(0), "clock.rtts: got 0; expected a number from 0.1 to 10, or \"$NAME\" of a parameter"),
        ("/clock/rtts", json!("$delt"), "clock.rtts: unknown parameter \"delt\"; did you mean \"delta\"?"),
        (
            "/clock/rtts",
            json!("$delta"),
            "clock.rtts: got \"$delta\"; expected a parameter within 0.1 to 10; \"delta\" may be 0 to 0.5",
        ),
        (
            "/observe",
            json!({"history": 0, "signals": ["rtt_ms"]}),
            "observe.history: got 0; expected a whole number from 1 to 1024",
        ),
        ("/observe/signals", json!([]), "observe.signals: got []; expected 1 to 256 signals"),
        (
            "/observe/signals/0",
            json!("throughput_ratoi"),
            "observe.signals[0]: unknown signal \"throughput_ratoi\"; did you mean \"throughput_ratio\"?",
        ),
        ("/observe/signals/0", json!({"as": "x"}), "observe.signals[0].signal: missing; expected the name of a signal"),
        ("/observe/signals/0", json!(7), "observe.signals[0]: got 7; expected the name of a signal"),
        (
            "/observe/signals/0",
            json!({"signal": "rtt_ms", "over_ms": 5}),
            "observe.signals[0].over_ms: unknown field \"over_ms\"",
        ),
        ("/observe/signals/1/over_rtts", json!(2), "observe.signals[1]: got {"),
        (
            "/observe/signals/1/clip",
            json!([4, 0]),
            "observe.signals[1].clip: got [4,0]; expected [low, high], the first not above the second",
        ),
        ("/observe/signals/1/as", json!("throughput_ratio"), "observe.signals[1]: got {"),
        (
            "/observe/signals/2/name",
            json!("delta"),
            "observe.signals[2].name: unknown input \"delta\"; expected one of goal, taste",
        ),
        (
            "/observe/signals/2/name",
            json!(null),
            "observe.signals[2].name: missing; expected the name of an input or run-time parameter",
        ),
        (
            "/act",
            json!({"kind": "rate_factr"}),
            "act.kind: unknown actuator \"rate_factr\"; did you mean \"rate_factor\"?",
        ),
        ("/act/bounds", json!([1, -1]), "act.bounds: got [1,-1]; expected [low, high] within -1000 to 1000"),
        (
            "/act/levels",
            json!([1, 2]),
            "act.levels: got [1,2]; expected bounds of a continuous action or levels of a discrete one, not both",
        ),
        (
            "/act",
            json!({"kind": "rate", "levels": [2, 1]}),
            "act.levels: got [2,1]; expected a list of 2 to 256 numbers from 0.01 to 100000, increasing",
        ),
        ("/act", json!({"kind": "window_ops"}), "act.ops: missing; expected a list of 2 to 256 operations"),
        (
            "/act",
            json!({"kind": "window_ops", "ops": ["+1", "^2"]}),
            "act.ops[1]: got \"^2\"; expected +N, -N, *N or /N",
        ),
        (
            "/act/ops",
            json!(["+1", "-1"]),
            "act.ops: got [\"+1\",\"-1\"]; expected null: \"rate_factor\" takes bounds or levels",
        ),
        (
            "/base",
            json!("cubic"),
            "base: got \"cubic\"; expected a base of which \"rate_factor\" moves something: \"none\"",
        ),
        (
            "/base",
            json!({"kind": "none", "window_rtts": 0}),
            "base.window_rtts: got 0; expected a number from 1 to 100",
        ),
        (
            "/report",
            json!(["rtt_ms", "rtt_ms"]),
            "report[1]: got \"rtt_ms\"; expected another name than \"rtt_ms\", which is taken: give one with `as`",
        ),
        ("/report", json!([{"signal": "rtt_ms", "scale": 2}]), "report[0].scale: unknown field \"scale\""),
    ] {
        let error = read(&with(path, value)).unwrap_err();
        assert!(error.starts_with(expected), "{path}: {error}\nexpected {expected}");
    }
    assert!(read(&json!(7)).unwrap_err().starts_with("document: got 7; expected an object with fields"));
    assert!(Spec::parse("{").unwrap_err().to_string().starts_with("document: not JSON"));
}

#[test]
fn parameters_are_checked_when_a_flow_is_built() {
    let spec = read(&small()).unwrap();
    let refused = |name: &str, value: f64| {
        let config = Config { params: [(name.to_string(), value)].into(), ..Config::default() };
        spec.controller(&config).err().unwrap().to_string()
    };
    assert_eq!(refused("delt", 0.1), "scheme \"small\" has no parameter \"delt\"; did you mean \"delta\"?");
    assert_eq!(refused("delta", 0.6), "parameter \"delta\" of scheme \"small\" is 0.6; expected 0 to 0.5");
    assert_eq!(refused("taste", f64::NAN), "parameter \"taste\" of scheme \"small\" is NaN; expected 0 to 1");
}

#[test]
fn registries_are_in_order_and_documented() {
    let sorted = |names: Vec<&str>| assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    sorted(CLOCKS.iter().map(|e| e.name).collect());
    sorted(ACTUATORS.iter().map(|e| e.name).collect());
    sorted(BASES.iter().map(|e| e.name).collect());
    let mut names: Vec<&str> = signals::all().map(|s| s.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each name once");
    for signal in signals::all() {
        assert!(signal.low < signal.high && signal.low.is_finite() && signal.high.is_finite(), "{}", signal.name);
        assert!(signal.clip.0 < signal.clip.1 && signal.scale > 0.0, "{}", signal.name);
        assert!(!signal.doc.is_empty() && !signal.unit.is_empty() && !signal.source.is_empty(), "{}", signal.name);
    }
}

/// A choice of everything, as fractions of what there is.
#[derive(Clone, Debug)]
struct Choice {
    clock: usize,
    actuator: usize,
    base: usize,
    levels: bool,
    options: Vec<f64>,
    signals: Vec<(usize, usize, u8)>,
}

fn choice() -> impl Strategy<Value = Choice> {
    (
        (any::<u16>(), any::<u16>(), any::<u16>(), any::<bool>()),
        prop::collection::vec(0.0..=1.0, 12),
        prop::collection::vec((any::<u16>(), 1..6_usize, any::<u8>()), 1..12),
    )
        .prop_map(|((clock, actuator, base, levels), options, signals)| Choice {
            clock: clock.into(),
            actuator: actuator.into(),
            base: base.into(),
            levels,
            options,
            signals: signals.into_iter().map(|(signal, history, kind)| (signal.into(), history, kind)).collect(),
        })
}

/// An entry of a registry with options anywhere in their bounds.
fn chosen(kind: &str, options: &[Param], fractions: &[f64]) -> Map<String, Value> {
    let value = |(p, f): (&Param, &f64)| (p.name.to_string(), json!(p.min + f * (p.max - p.min)));
    let mut fields: Map<String, Value> = options.iter().zip(fractions.iter().cycle()).map(value).collect();
    fields.insert("kind".into(), json!(kind));
    fields
}

fn actions(actuator: &ActuatorEntry, levels: bool) -> (&'static str, Value) {
    let (low, high) = actuator.bounds;
    if actuator.takes_ops {
        ("ops", json!(["/2", "-10", "+0", "+10", "*2", "*1000000", "-1000000"]))
    } else if levels {
        ("levels", json!([low, low + (high - low) / 3.0, high]))
    } else {
        ("bounds", json!([low, high]))
    }
}

fn random_document(choice: &Choice) -> Value {
    let clock = &CLOCKS[choice.clock % CLOCKS.len()];
    let actuator = &ACTUATORS[choice.actuator % ACTUATORS.len()];
    let fitting: Vec<_> = BASES.iter().filter(|b| b.levers.contains(&actuator.lever)).collect();
    let base = fitting[choice.base % fitting.len()];
    let all: Vec<_> = signals::all().collect();
    let items: Vec<Value> = choice
        .signals
        .iter()
        .enumerate()
        .map(|(k, &(signal, history, kind))| {
            let signal = all[signal % all.len()];
            let mut fields = json!({"signal": signal.name, "as": format!("s{k}"), "history": history});
            match kind % 3 {
                0 if signal.is_windowed() => fields["over_ms"] = json!(1 + u32::from(kind) * 10),
                1 if signal.is_windowed() => fields["over_rtts"] = json!(0.1 + f64::from(kind) / 5.0),
                _ => {}
            }
            if signal.name == "input" {
                fields["name"] = json!("taste");
            }
            fields
        })
        .collect();
    let columns: Vec<Value> = items
        .iter()
        .map(|item| {
            let mut column = item.clone();
            column.as_object_mut().unwrap().remove("history");
            column
        })
        .collect();
    let mut act = chosen(actuator.name, actuator.options, &choice.options);
    let (field, value) = actions(actuator, choice.levels);
    act.insert(field.into(), value);
    json!({
        "learned": 1, "name": "random", "inputs": {"taste": {"default": 0.5, "min": 0, "max": 1}},
        "clock": chosen(clock.name, clock.options, &choice.options),
        "act": act,
        "base": chosen(base.name, base.options, &choice.options[3..]),
        "observe": {"signals": items},
        "report": columns,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn any_spec_keeps_its_promises_whatever_happens(
        choice in choice(),
        operations in prop::collection::vec(operation(), 1..250),
        slow_start: bool,
        initial_window in 1_u32..200,
    ) {
        let value = random_document(&choice);
        let spec = read(&value).map_err(TestCaseError::fail)?;
        prop_assert_eq!(&read(&spec.to_json()).map_err(TestCaseError::fail)?, &spec);
        let config = Config { slow_start, initial_window, ..Config::default() };
        let mut flow = Flow::new(spec.controller(&config).unwrap());
        let mut twin = Flow::new(spec.controller(&config).unwrap());
        for (k, operation) in operations.iter().enumerate() {
            if k % 40 == 39 {
                for flow in [&mut flow, &mut twin] {
                    FlowSetting::DesiredRate(Rate(k as u64 * 1_000_000)).apply(flow.controller.as_mut());
                    let now = flow.now;
                    flow.controller.learned().unwrap().end_interval(now);
                }
            }
            flow.apply(operation);
            twin.apply(operation);
            let outcome = flow.check().map_err(|e| TestCaseError::fail(format!("{e}\n{value}")))?;
            prop_assert_eq!(outcome, twin.check()?, "does not repeat: {}", value);
            let seen = flow.learned();
            prop_assert_eq!(&seen, &twin.learned());
            let mut rest = &seen[..];
            for entry in &spec.interface().observation {
                let (series, next) = rest.split_at(entry.length);
                rest = next;
                let within = |x: &f32| *x >= entry.low as f32 && *x <= entry.high as f32;
                prop_assert!(series.iter().all(within), "{}: {series:?} in {entry:?}", value);
            }
            prop_assert!(rest.iter().all(|x| x.is_finite()), "{}: report {rest:?}", value);
        }
    }
}
