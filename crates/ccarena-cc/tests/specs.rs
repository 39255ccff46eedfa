//! Specs of learned schemes: what is refused and how, what is kept, and what any of them promises at run time.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use ccarena_cc::backends::Backend;
use ccarena_cc::learned::actuators::{ACTUATORS, ActuatorEntry, Takes};
use ccarena_cc::learned::bases::{BASES, Lever};
use ccarena_cc::learned::clocks::CLOCKS;
use ccarena_cc::learned::monitor::Parts;
use ccarena_cc::learned::{Spec, shipped, signals};
use ccarena_cc::schemes::ALL;
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
    assert_eq!((interface.observation_len, &interface.bounds[..]), (6, &[(-1.0, 1.0)][..]));
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
    let specs: Vec<Spec> = [small(), derived()]
        .map(|spec| read(&spec).unwrap())
        .into_iter()
        .chain(shipped::specs().map(|d| read(&d.to_json()).unwrap()))
        .collect();
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
            "clock: missing; expected an object whose `kind` is one of fixed, reasoner, rtt, ticks, timer, window",
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

/// `small` with derived signals: of the period, of each acknowledgement, and of both.
fn derived() -> Value {
    let mut spec = with("/clock", json!({"kind": "fixed", "period_ms": 20}));
    spec["observe"] = json!({"history": 2, "signals": [
        {"quotient": ["rtt_min_ms", "srtt_ms"], "default": 1, "as": "share"},
        {"difference": ["rtt_ms", 5], "as": "less"},
        {"max": "throughput_mbps", "as": "best"},
        {"mean": {"signal": "delivered_bytes", "over_ms": 50}, "over_periods": 4, "as": "lately"},
        {"ewma": "cwnd_packets", "gain": 0.5, "bounds": [0, 50], "as": "slow"},
        {"ewma": {"difference": [{"signal": "ack_rtt_ms", "tick_ms": 1}, {"min": {"signal": "ack_rtt_ms", "tick_ms": 1}}]},
         "gain": 0.125, "reset": "period", "as": "delay", "scale": 0.01, "clip": [0, 4]},
        {"quotient": ["throughput_mbps", {"max": "delivery_rate_mbps", "over_ms": 500, "each": "ack"}], "as": "of_best"},
    ]});
    spec["report"] = json!(["rtt_ms", {"quotient": [1, {"quotient": ["rtt_min_ms", "rtt_ms"]}], "as": "ratio"}]);
    spec
}

#[test]
fn derived_signals_have_bounds_units_and_a_description() {
    let spec = read(&derived()).unwrap();
    let found: Vec<(&str, f64, f64, String, String)> = spec
        .interface()
        .observation
        .iter()
        .map(|e| (e.name.as_str(), e.low, e.high, e.unit.to_string(), e.doc.to_string()))
        .collect();
    let expected = [
        ("share", 0.0, 1e6, "1", "(rtt_min_ms / srtt_ms, or 1)"),
        ("less", -5.0, 1e15 - 5.0, "ms", "(rtt_ms - 5)"),
        ("best", 0.0, 1e15, "Mbit/s", "max of throughput_mbps so far"),
        ("lately", 0.0, 1e15, "bytes", "mean of delivered_bytes of 4 periods"),
        ("slow", 0.0, 50.0, "segments", "average of cwnd_packets with gain 0.5"),
        (
            "delay",
            -1e15,
            1e15,
            "ms",
            "average of (ack_rtt_ms - min of ack_rtt_ms so far, by acknowledgement) with gain 0.125, anew each period, by \
             acknowledgement",
        ),
        ("of_best", 0.0, 1e6, "1", "(throughput_mbps / max of delivery_rate_mbps of 500 ms, by acknowledgement, or 0)"),
    ];
    for (found, expected) in found.iter().zip(expected) {
        let (name, low, high, unit, doc) = expected;
        assert_eq!((found.0, &found.3[..], &found.4[..]), (name, unit, doc));
        assert_eq!((found.1.to_bits(), found.2.to_bits()), (f64::to_bits(low), f64::to_bits(high)), "{name}");
    }
    assert_eq!(found.len(), expected.len());
    assert_eq!(spec.interface().observation_len, 14);
    assert_eq!(spec.interface().report, ["rtt_ms", "ratio"]);
}

#[test]
fn each_error_of_a_derived_signal_names_its_place() {
    let items = |item: Value| {
        let mut spec = derived();
        spec["observe"]["signals"] = json!([item]);
        spec
    };
    let nested = (0..5).fold(json!({"max": "rtt_ms"}), |inner, _| json!({"max": inner}));
    let place = "observe.signals[0]";
    for (item, expected) in [
        (
            json!({"quotient": ["rtt_ms", "srtt_ms"]}),
            ".as: missing; expected a name: a derived signal has none of its own",
        ),
        (json!({"quotient": ["rtt_ms"], "as": "x"}), ".quotient: got [\"rtt_ms\"]; expected two signals, [a, b]"),
        (
            json!({"quotient": ["rtt_ms", "srt_ms"], "as": "x"}),
            ".quotient[1]: unknown signal \"srt_ms\"; did you mean \"srtt_ms\"?",
        ),
        (
            json!({"quotient": ["rtt_ms", "zone"], "as": "x"}),
            ".quotient[1]: got \"zone\"; expected a signal that is one number",
        ),
        (
            json!({"quotient": ["rtt_ms", 5], "defalt": 1, "as": "x"}),
            ".defalt: unknown field \"defalt\"; did you mean \"default\"?",
        ),
        (
            json!({"difference": ["rtt_ms", {"maxx": "rtt_ms"}], "as": "x"}),
            ".difference[1].maxx: unknown field \"maxx\"; did you mean \"max\"?",
        ),
        (
            json!({"quotent": ["rtt_ms", 5], "as": "x"}),
            ".quotent: unknown field \"quotent\"; did you mean \"quotient\"?",
        ),
        (json!({"difference": ["rtt_ms", true], "as": "x"}), ".difference[1]: got true; expected the name of a signal"),
        (
            json!({"ewma": "rtt_ms", "as": "x"}),
            ".gain: missing; expected the weight of the newest value, above 0 and up to 1",
        ),
        (
            json!({"ewma": "rtt_ms", "gain": 0, "as": "x"}),
            ".gain: got 0; expected the weight of the newest value, above 0 and up to 1",
        ),
        (
            json!({"ewma": "rtt_ms", "gain": 0.5, "reset": "perid", "as": "x"}),
            ".reset: unknown time of reset \"perid\"; did you mean \"period\"?",
        ),
        (
            json!({"ewma": "rtt_ms", "gain": 0.5, "reset": "period", "each": "period", "as": "x"}),
            ".each: got \"period\"; expected \"ack\": with `reset: period` a period has an average of its own",
        ),
        (
            json!({"ewma": {"max": "rtt_ms", "each": "period"}, "gain": 0.5, "each": "ack", "as": "x"}),
            ".ewma.each: got \"period\"; expected \"ack\", as what it is part of",
        ),
        (
            json!({"max": "cwnd_packets", "each": "ack", "as": "x"}),
            ".max: got \"cwnd_packets\"; expected a signal with a value at each acknowledgement: ",
        ),
        (
            json!({"max": "rtt_ms", "over_ms": 5, "over_periods": 2, "as": "x"}),
            ".over_periods: got 2; expected over_ms or over_periods, not both",
        ),
        (json!({"max": "rtt_ms", "over_ms": 0, "as": "x"}), ".over_ms: got 0; expected a number from 1 to 600000"),
        (
            json!({"max": "rtt_ms", "over_periods": 1.5, "as": "x"}),
            ".over_periods: got 1.5; expected a whole number from 1 to 65536",
        ),
        (
            json!({"max": "rtt_ms", "bounds": [2, 1], "as": "x"}),
            ".bounds: got [2,1]; expected [low, high], the first not above the second",
        ),
        (
            json!({"max": nested, "as": "x"}),
            ".max.max.max.max.max.max: got {\"max\":\"rtt_ms\"}; expected a signal: derived signals nest 6 deep at most",
        ),
    ] {
        let error = read(&items(item.clone())).unwrap_err();
        assert!(error.starts_with(&format!("{place}{expected}")), "{item}: {error}\nexpected {place}{expected}");
    }
}

#[test]
fn a_derived_signal_is_refused_where_one_of_its_signals_is_not_measured() {
    let of = |item: Value| {
        let mut spec = derived();
        spec["observe"]["signals"] = json!([item]);
        spec["report"] = json!(["rtt_ms"]);
        read(&spec).unwrap()
    };
    let gaps = of(json!({"quotient": ["ack_dispersion", "rtt_ms"], "as": "jitter"}));
    let error = gaps.check_signals(Backend::Bridge).unwrap_err().to_string();
    assert!(error.starts_with("signal \"ack_dispersion\" (jitter) is not measured by"), "{error}");
    let plain = of(json!({"quotient": ["rtt_ms", "srtt_ms"], "as": "ratio"}));
    assert_eq!(plain.check_signals(Backend::Bridge), Ok(()));
    assert_eq!(plain.check_signals(Backend::Kernel), Ok(()));
    let recent = of(json!({"max": "rtt_ms", "over_ms": 50, "as": "most"}));
    let error = recent.check_signals(Backend::Kernel).unwrap_err().to_string();
    let expected = "signal \"max\" (most) is not measured by kernel TCP with the policy in the kernel; leave it out of \
                    the spec, or run the flow on the simulator, or on QUIC, or on kernel TCP with the controller in user space";
    assert!(error.starts_with(expected), "{error}");
}

#[test]
fn the_start_of_a_flow_is_part_of_the_digest_where_it_is_given() {
    let mut spec = with("/act", json!("window_factor"));
    spec["base"] = json!("cubic");
    spec["params"].as_object_mut().unwrap().remove("delta");
    let plain = read(&spec).unwrap();
    spec["start"] = json!({"every_ms": 2, "factor": 1.1});
    let started = read(&spec).unwrap();
    assert_ne!(started.interface().digest, plain.interface().digest);
    assert_eq!(read(&started.to_json()).unwrap(), started);
    assert!(!plain.canonical().contains("\"start\""));
    for (start, expected) in [
        (json!({"every_ms": 2}), "start.factor: missing; expected the growth of a step"),
        (json!({"every_ms": 2, "factor": 9}), "start.factor: got 9; expected a number from 1 to 2"),
        (json!({"evry_ms": 2}), "start.evry_ms: unknown field \"evry_ms\"; did you mean \"every_ms\"?"),
    ] {
        spec["start"] = start;
        let error = read(&spec).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
    let error = read(&with("/start", json!({"every_ms": 2, "factor": 1.1}))).unwrap_err();
    assert!(error.contains("expected null: \"rate_factor\" does not move the window"), "{error}");
}

#[test]
fn several_actuators_and_schemes_are_checked() {
    let pair = json!([{"kind": "window_exp2"}, {"kind": "pacing_gain"}]);
    let over = |base: Value, act: Value| {
        let mut spec = with("/base", base);
        spec["act"] = act;
        spec["params"].as_object_mut().unwrap().remove("delta");
        spec
    };
    let discrete = json!([
        {"kind": "window_ops", "ops": ["/2", "+0", "*2"]},
        {"kind": "cap", "levels": [1, 2]},
        {"kind": "choice"},
    ]);
    let schemes = json!({"schemes": ["cubic", {"scheme": "copa", "delta": 0.1}]});
    let spec = read(&over(schemes.clone(), discrete.clone())).unwrap();
    let interface = spec.interface();
    assert_eq!((interface.actions.len(), &interface.bounds[..]), (12, &[(0.0, 11.0)][..]));
    assert_eq!(interface.action_names[..3], ["/2, 1, cubic", "/2, 1, copa@delta=0.1", "/2, 2, cubic"]);
    assert_eq!(read(&spec.to_json()).unwrap().interface().digest, interface.digest);
    let spec = read(&over(json!({"scheme": "bbr"}), pair.clone())).unwrap();
    assert_eq!(spec.interface().bounds, [(-2.0, 2.0), (0.5, 2.0)]);
    let mut standard = over(json!({"scheme": "bbr"}), pair.clone());
    standard.as_object_mut().unwrap().remove("report");
    let standard = read(&standard).unwrap();
    assert_eq!(standard.interface().report[..2], ["last_window_exp2", "last_pacing_gain"]);

    let mut unnamed = over(json!({"scheme": "bbr"}), pair.clone());
    unnamed["observe"]["signals"][0] = json!("last_action");
    let mut asking = over(json!({"scheme": "xcp"}), json!("window_exp2"));
    asking["observe"]["signals"][0] = json!("twnd_packets");
    for (document, expected) in [
        (
            over(json!("none"), json!([{"kind": "window"}])),
            "act: got [{\"kind\":\"window\"}]; expected an actuator, or a list of 2 to 4",
        ),
        (
            over(json!("none"), json!(["window", "window_exp2"])),
            "act[1]: got \"window_exp2\"; expected an actuator beside \"window\"; \"window_exp2\" moves what that one moves",
        ),
        (
            over(json!("none"), json!(["rate", "pacing_gain"])),
            "act[1]: got \"pacing_gain\"; expected an actuator beside \"rate\"",
        ),
        (
            over(schemes.clone(), json!(["choice", "cap"])),
            "act[1]: got \"cap\"; expected discrete actions as \"choice\" has: the actions of a list are all",
        ),
        (
            over(schemes.clone(), json!([{"kind": "cap", "levels": (1..200).collect::<Vec<_>>()}, "choice"])),
            "act: got [",
        ),
        (over(schemes.clone(), json!({"kind": "choice", "levels": [1, 2]})), "act.levels: got [1,2]; expected null"),
        (
            over(json!({"scheme": "bbr"}), json!("choice")),
            "base: got {\"scheme\":\"bbr\"}; expected a base of which \"choice\" moves something: {\"schemes\": [NAME",
        ),
        (over(json!({"scheme": "bbrr"}), pair.clone()), "base.scheme: unknown scheme \"bbrr\"; did you mean \"bbr\"?"),
        (
            over(json!({"scheme": "orca"}), pair.clone()),
            "base.scheme: unknown scheme \"orca\"; expected one of abc, bbr",
        ),
        (
            over(json!({"scheme": "remy"}), pair.clone()),
            "base.scheme: got \"remy\"; expected a scheme without a rule file",
        ),
        (over(json!({"scheme": "copa", "delt": 1}), pair.clone()), "base.delt: unknown field \"delt\""),
        (over(json!({"scheme": "copa", "delta": -1}), pair.clone()), "base.delta: got -1; expected a number from"),
        (over(json!({"schemes": ["bbr"]}), json!("choice")), "base.schemes: got [\"bbr\"]; expected a list of 2 to 16"),
        (
            over(json!({"schemes": ["bbr", "xcp"]}), json!("choice")),
            "base.schemes[1]: got \"xcp\"; expected a scheme that asks routers for nothing",
        ),
        (
            over(json!({"schemes": ["bbr", "bbr"]}), json!("choice")),
            "base.schemes[1]: got \"bbr\"; expected another scheme than those before",
        ),
        (
            unnamed,
            "observe.signals[0].action: missing; expected the actuator whose action it is: window_exp2, pacing_gain",
        ),
        (asking, "base: got {\"scheme\":\"xcp\"}; expected a scheme that asks routers for nothing"),
    ] {
        let error = read(&document).unwrap_err();
        assert!(error.starts_with(expected), "{error}\nexpected {expected}");
    }
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
    several: bool,
    options: Vec<f64>,
    signals: Vec<(usize, usize, u8)>,
}

fn choice() -> impl Strategy<Value = Choice> {
    (
        (any::<u16>(), any::<u16>(), any::<u16>(), any::<bool>(), any::<bool>()),
        prop::collection::vec(0.0..=1.0, 12),
        prop::collection::vec((any::<u16>(), 1..6_usize, any::<u8>()), 1..12),
    )
        .prop_map(|((clock, actuator, base, levels, several), options, signals)| Choice {
            clock: clock.into(),
            actuator: actuator.into(),
            base: base.into(),
            levels,
            several,
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

fn actions(actuator: &ActuatorEntry, levels: bool) -> Option<(&'static str, Value)> {
    let (low, high) = actuator.bounds;
    match actuator.takes {
        Takes::Schemes => None,
        Takes::Operations => Some(("ops", json!(["/2", "-10", "+0", "+10", "*2", "*1000000", "-1000000"]))),
        Takes::Numbers if levels => Some(("levels", json!([low, low + (high - low) / 3.0, high]))),
        Takes::Numbers => Some(("bounds", json!([low, high]))),
    }
}

/// A derived signal of `item`, which has a signal of one number.
fn derived_of(item: &Value, signal: &signals::Signal, kind: u8) -> Value {
    let mut of = item.clone();
    let fields = of.as_object_mut().unwrap();
    let (name, history) = (fields.remove("as").unwrap(), fields.remove("history").unwrap());
    let each = if signal.each.is_some() && kind % 2 == 0 { "ack" } else { "period" };
    let mut value = match kind / 5 % 6 {
        0 => json!({"quotient": [{"max": of, "each": each}, "srtt_ms"], "default": 3}),
        1 => json!({"difference": [{"ewma": of, "gain": 0.25, "each": each}, {"quotient": [1, "rtt_min_ms"]}]}),
        2 => json!({"min": of, "over_ms": 100, "each": each}),
        3 => json!({"mean": of, "over_periods": 3, "each": each, "bounds": [-2, 2]}),
        4 => json!({"max": {"quotient": [of, of]}}),
        _ => json!({"mean": {"difference": [{"min": of, "each": each}, of]}, "each": each}),
    };
    (value["as"], value["history"]) = (name, history);
    value
}

/// Names of the schemes that are bases; remy needs a rule file.
fn scheme_names() -> Vec<&'static str> {
    ALL.iter().filter(|scheme| !scheme.rules).map(|scheme| scheme.name).collect()
}

/// A base on which `lever` moves something, with options anywhere in their bounds.
fn random_base(lever: Lever, choice: usize, fractions: &[f64]) -> Value {
    let schemes = scheme_names();
    let one = |k: usize| {
        let entry = ALL.iter().find(|scheme| scheme.name == schemes[k % schemes.len()]).unwrap();
        let mut fields = chosen("", entry.params, fractions);
        fields.remove("kind");
        fields.insert("scheme".into(), json!(entry.name));
        Value::Object(fields)
    };
    let kinds: Vec<_> = BASES.iter().filter(|base| base.has(lever)).collect();
    let choosable: Vec<&str> = schemes.iter().copied().filter(|name| !["abc", "xcp"].contains(name)).collect();
    let several = || {
        let list: Vec<&str> = (0..3).map(|k| choosable[(choice / 7 + k * 5) % choosable.len()]).collect();
        json!({"schemes": list})
    };
    match (lever, choice % 3) {
        (Lever::Choice, _) => several(),
        (Lever::Rate | Lever::Alpha, _) | (_, 0) => {
            let base = kinds[choice / 3 % kinds.len()];
            chosen(base.name, base.options, fractions).into()
        }
        (_, 1) => one(choice / 3),
        _ => several(),
    }
}

/// Actuators that every base takes.
const EXTRA: [&ActuatorEntry; 2] = [&ACTUATORS[1], &ACTUATORS[3]];

/// `value` with the actuator of each action that it observes, if that has to be named.
fn named(value: Value, act: &Value) -> Value {
    let Value::Array(acts) = act else { return value };
    match value {
        Value::Object(fields) => {
            let mut fields: Map<String, Value> = fields.into_iter().map(|(key, x)| (key, named(x, act))).collect();
            if fields.get("signal").is_some_and(|signal| ["last_action", "action_before"].iter().any(|n| signal == n)) {
                fields.insert("action".into(), acts[acts.len() - 1]["kind"].clone());
            }
            Value::Object(fields)
        }
        Value::Array(items) => items.into_iter().map(|item| named(item, act)).collect(),
        other => other,
    }
}

fn random_document(choice: &Choice) -> Value {
    let clock = &CLOCKS[choice.clock % CLOCKS.len()];
    let actuator = &ACTUATORS[choice.actuator % ACTUATORS.len()];
    let base = random_base(actuator.lever, choice.base, &choice.options[3..]);
    // A scheme that asks routers itself gets no advertised rate.
    let asks = ["abc", "xcp"].iter().any(|name| base["scheme"] == json!(name));
    let all: Vec<_> = signals::all().filter(|signal| !asks || !signal.parts.has(Parts::ADVERTISED)).collect();
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
            if kind % 5 == 4 && signal.channels.is_empty() { derived_of(&fields, signal, kind) } else { fields }
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
    let own = actions(actuator, choice.levels);
    let discrete = own.as_ref().is_none_or(|(field, _)| *field != "bounds");
    act.extend(own.map(|(field, value)| (field.to_string(), value)));
    // The levers of every base go with those that are not the rate's.
    let more: Vec<Value> = EXTRA
        .iter()
        .filter(|extra| choice.several && actuator.lever != Lever::Rate && extra.name != actuator.name)
        .map(|extra| {
            let (field, value) = actions(extra, discrete).unwrap();
            json!({"kind": extra.name, field: value})
        })
        .collect();
    let act: Value = match more.is_empty() {
        true => act.into(),
        false => std::iter::once(act.into()).chain(more).collect(),
    };
    let items: Vec<Value> = items.into_iter().map(|item| named(item, &act)).collect();
    let columns: Vec<Value> = columns.into_iter().map(|item| named(item, &act)).collect();
    json!({
        "learned": 1, "name": "random", "inputs": {"taste": {"default": 0.5, "min": 0, "max": 1}},
        "clock": chosen(clock.name, clock.options, &choice.options),
        "act": act,
        "base": base,
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
