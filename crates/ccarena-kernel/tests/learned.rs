//! A learned controller in integers (`bpf/learned.h`, compiled natively) and in Rust: one sequence of acknowledgements and
//! losses, the same observations, cases and windows up to rounding.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

#[path = "../../ccarena-cc/tests/common/untrained.rs"]
mod common;

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use ccarena_cc::policy::kernel::{self, ImageOptions};
use ccarena_cc::policy::{Policy, Trained};
use ccarena_cc::{AckInfo, Action, Bytes, Config, Controller, Dur, LossInfo, Rate, RateSample, SentInfo, Time};
use common::untrained;
use serde_json::{Value, json};

const MSS: u64 = 1448;
const RAW: f64 = (1_u64 << 20) as f64;

/// A decision: the observation, the window in segments after it, and the pacing rate in bytes/s.
#[derive(Debug)]
struct Decision {
    observation: Vec<f64>,
    window: f64,
    pacing: f64,
}

fn shipped(name: &str) -> Policy {
    let scheme = name.split('-').next().unwrap();
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ccarena").join(scheme).join("policies");
    Policy::from_bytes(&std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap()).unwrap()
}

/// The C side, compiled once.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let binary = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("learned");
        let status = Command::new(env::var_os("CLANG").unwrap_or_else(|| "clang".into()))
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=signed-integer-overflow,shift-exponent"])
            .args(["-fsanitize-trap=all", "-I"])
            .arg(root.join("../ccarena-cc/src/policy/integer"))
            .arg("-I")
            .arg(root.join("../ccarena-cc/src/policy/kernel"))
            .arg("-o")
            .arg(&binary)
            .arg(root.join("tests/learned.c"))
            .status()
            .unwrap();
        assert!(status.success());
        binary
    })
}

/// What it decided.
fn in_c(policy: &Policy, name: &str, params: &BTreeMap<String, f64>, script: &str) -> Vec<Decision> {
    let image = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.image", params.len()));
    let options = ImageOptions {
        params: params.clone(),
        desired_rate: Rate::from_mbps(50.0),
        header_bytes: 52,
        label: name.into(),
        reports: false,
    };
    std::fs::write(&image, kernel::write(policy, &options).unwrap()).unwrap();
    let mut child = Command::new(program()).arg(image).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let script = script.to_owned();
    let writer = std::thread::spawn(move || input.write_all(script.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let lines = String::from_utf8(output.stdout).unwrap();
    let decision = |line: &str| {
        let numbers: Vec<f64> = line.split(' ').map(|x| x.parse::<f64>().unwrap()).collect();
        let (seen, after) = numbers[1..].split_at(numbers.len() - 3);
        Decision { observation: seen.iter().map(|x| x / RAW).collect(), window: after[0] / RAW, pacing: after[1] }
    };
    lines.lines().map(decision).collect()
}

/// A segment in flight.
struct Segment {
    sent_at: u64,
    /// Segments delivered before it left, and when the newest acknowledgement had come.
    delivered: u64,
    acked_at: u64,
}

/// A path that keeps the order. Its RTT swings; segments are lost now and then, and nothing is acknowledged for a while.
struct Path {
    controller: Box<dyn Controller>,
    trained: Trained,
    random: u64,
    now: u64,
    una: u64,
    nxt: u64,
    lost: u64,
    delivered: u64,
    acked_at: u64,
    least: u64,
    srtt: u64,
    flight: VecDeque<Segment>,
    decisions: Vec<Decision>,
    script: String,
}

/// Most segments in flight: a receive window.
const MOST: usize = 2000;

impl Path {
    fn new(policy: &Policy, params: &BTreeMap<String, f64>, seed: u64) -> Self {
        let trained = policy.trained().clone();
        let params = trained.params.iter().chain(params).map(|(name, value)| (name.clone(), *value)).collect();
        let config = Config { desired_rate: Rate::from_mbps(50.0), params, ..Config::default() };
        let controller = trained.spec.controller(&config).unwrap();
        let (now, script, flight, decisions) = (0, String::new(), VecDeque::new(), Vec::new());
        let (una, nxt, lost, delivered, least, srtt) = (0, 0, 0, 0, u64::MAX, 0);
        Self {
            controller,
            trained,
            random: seed,
            now,
            una,
            nxt,
            lost,
            delivered,
            acked_at: now,
            least,
            srtt,
            flight,
            decisions,
            script,
        }
    }

    fn draw(&mut self, most: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % most
    }

    fn in_flight(&self) -> Bytes {
        Bytes(self.flight.len() as u64 * MSS)
    }

    /// Sends as much as the window admits.
    fn send(&mut self) {
        let before = self.flight.len();
        // The application pauses now and then.
        let pauses = before > 4 && self.draw(10) == 0;
        while !pauses && self.flight.len() < ((self.controller.window().0 / MSS) as usize).min(MOST) {
            let now = Time(self.now);
            let sent = SentInfo {
                now,
                bytes: Bytes(MSS),
                prior_in_flight: self.in_flight(),
                snd_nxt: self.nxt,
                ..SentInfo::default()
            };
            self.controller.on_sent(&sent);
            self.nxt += MSS;
            self.flight.push_back(Segment { sent_at: self.now, delivered: self.delivered, acked_at: self.acked_at });
        }
        writeln!(self.script, "S {} {}", self.now, self.flight.len() - before).unwrap();
    }

    fn lose(&mut self) {
        let lost = (1 + self.draw(3)).min(self.flight.len() as u64 - 1);
        self.flight.drain(..lost as usize);
        writeln!(self.script, "L {} {lost}", self.now).unwrap();
        self.controller.on_loss(&LossInfo {
            now: Time(self.now),
            lost: Bytes(lost * MSS),
            lost_packets: lost as u32,
            in_flight: self.in_flight(),
            new_episode: true,
            snd_nxt: self.nxt,
            ..LossInfo::default()
        });
        // The next acknowledgement covers it: what is sent again, the path forgets.
        self.lost += lost;
    }

    /// The decider answers, if it is asked; the action's value.
    fn decide(&mut self) -> f32 {
        let most = self.trained.actions.len() as u64;
        let (low, high) = self.trained.bounds.first().copied().unwrap_or((0.0, 0.0));
        let part = self.draw(4001) as f32 / 4000.0;
        let learned = self.controller.learned().unwrap();
        if !learned.take_decision() {
            return 0.0;
        }
        let mut seen = vec![0.0; self.trained.observation_len];
        learned.observe(&mut seen);
        let (action, value) = if most == 0 {
            let value = low + part * (high - low);
            (Action::Continuous(value.into()), value)
        } else {
            let index = (part * (most - 1) as f32).round() as u32;
            (Action::Discrete(index), self.trained.actions[index as usize])
        };
        learned.act(action, Time(self.now)).unwrap();
        self.decisions.push(Decision {
            observation: seen.iter().map(|x| f64::from(*x)).collect(),
            window: self.controller.window().0 as f64 / MSS as f64,
            pacing: self.controller.pacing_rate().map_or(0.0, |rate| rate.0 as f64 / 8.0),
        });
        value
    }

    fn ack(&mut self, step: u64) {
        let acked = (1 + self.draw(4)).min(self.flight.len() as u64);
        let (swing, jitter, silence) = ((step / 400) % 3, self.draw(2000), self.draw(300) == 0);
        let segment = self.flight.drain(..acked as usize).next_back().unwrap();
        let arrival = segment.sent_at + (20_000 + swing * 3000 + jitter) * 1000;
        self.now = arrival.max(self.now + 1000 * (1 + self.draw(200))) + if silence { 100_000_000 } else { 0 };
        let now = Time(self.now);
        let prior = Bytes(self.in_flight().0 + acked * MSS);
        let outstanding_before = (self.nxt - self.una) / MSS;
        let mut value = None;
        if self.controller.next_timer() <= now {
            self.controller.on_timer(now);
            value = Some(self.decide());
        }
        self.una += (acked + std::mem::take(&mut self.lost)) * MSS;
        self.delivered += acked;
        let rtt_us = if self.draw(10) == 0 { 0 } else { (self.now - segment.sent_at) / 1000 };
        if rtt_us > 0 {
            self.least = self.least.min(rtt_us);
            self.srtt = if self.srtt == 0 { rtt_us } else { (7 * self.srtt + rtt_us) / 8 };
        }
        let (since, limited) = (self.delivered - segment.delivered, self.draw(5) == 0);
        let interval = Dur(self.now - segment.acked_at);
        self.controller.on_ack(&AckInfo {
            now,
            acked: Bytes(acked * MSS),
            acked_packets: acked as u32,
            rtt: (rtt_us > 0).then_some(Dur(rtt_us * 1000)),
            min_rtt: if self.least == u64::MAX { Dur::MAX } else { Dur(self.least * 1000) },
            srtt: Dur(self.srtt * 1000),
            prior_in_flight: prior,
            in_flight: self.in_flight(),
            delivered: Bytes(self.delivered * MSS),
            rate: Some(RateSample {
                delivered: Bytes(since * MSS),
                interval,
                prior_delivered: Bytes(segment.delivered * MSS),
                app_limited: limited,
            }),
            snd_una: self.una,
            snd_nxt: self.nxt,
            retransmitted: (step % 7) as u32,
            cwnd_limited: true,
            ..AckInfo::default()
        });
        self.acked_at = self.now;
        let window = self.controller.window().0 / MSS;
        let decided = self.decide();
        let action = (f64::from(value.unwrap_or(decided)) * RAW).round() as i64;
        let (in_flight, outstanding) = (self.flight.len(), (self.nxt - self.una) / MSS);
        writeln!(
            self.script,
            "A {} {acked} {rtt_us} {} {} {} {window} {} {in_flight} {outstanding_before} {outstanding} {} {since} {} {} {} {} {action}",
            self.now,
            self.srtt,
            self.una,
            self.nxt,
            prior.0 / MSS,
            step % 7,
            segment.acked_at,
            since * MSS,
            interval.0 / 1000,
            u8::from(limited),
        )
        .unwrap();
    }
}

/// Some thousand acknowledgements; drives Rust and writes the script.
fn in_rust(policy: &Policy, params: &BTreeMap<String, f64>, seed: u64) -> (Vec<Decision>, String) {
    let mut path = Path::new(policy, params, seed);
    path.send();
    for step in 0..4000 {
        if path.draw(200) == 0 && path.flight.len() > 1 {
            path.lose();
        }
        path.ack(step);
        path.send();
    }
    (path.decisions, path.script)
}

/// Drives both, and returns the decisions of one seed.
fn compare(policy: &Policy, name: &str, params: &BTreeMap<String, f64>, least: usize) -> Vec<Decision> {
    let mut last = Vec::new();
    for seed in 1..5 {
        let (rust, script) = in_rust(policy, params, seed);
        let c = in_c(policy, name, params, &script);
        assert!(rust.len() >= least, "{name}: {} decisions", rust.len());
        assert_eq!(rust.len(), c.len(), "{name}");
        for (number, (rust, c)) in rust.iter().zip(&c).enumerate() {
            for (entry, (x, y)) in rust.observation.iter().zip(&c.observation).enumerate() {
                assert!((x - y).abs() <= 1e-4 + 2e-3 * x.abs(), "{name} {seed}, {number}, entry {entry}: {x} and {y}");
            }
            assert!(
                (rust.window - c.window).abs() <= 1.0 + 2e-3 * rust.window,
                "{name} {seed}, {number}: {rust:?} {c:?}"
            );
            assert!((rust.pacing - c.pacing).abs() <= 200.0 + 2e-3 * rust.pacing, "{name}, {number}: {rust:?} {c:?}");
        }
        last = rust;
    }
    last
}

fn check(name: &str, params: &BTreeMap<String, f64>, least: usize) {
    compare(&shipped(name), name, params, least);
}

/// Compares the two under the spec `text`, and checks that each entry of the observation and the window moves.
fn check_spec(name: &str, text: &str, least: usize) {
    let decisions = compare(&untrained(text, 7, &Value::Null), name, &BTreeMap::new(), least);
    let moves = |values: &dyn Fn(&Decision) -> f64| {
        let first = values(&decisions[decisions.len() / 2]);
        decisions.iter().any(|decision| (values(decision) - first).abs() > 1e-3)
    };
    for entry in 0..decisions[0].observation.len() {
        assert!(moves(&|decision| decision.observation[entry]), "{name}: entry {entry} is always the same");
    }
    assert!(moves(&|decision| decision.window), "{name}: the window is always the same");
}

#[test]
fn acct_decides_the_same() {
    check("acct", &BTreeMap::new(), 50);
}

#[test]
fn acct_gives_up_the_queue_of_a_silent_bottleneck_in_the_same_way() {
    let policy = shipped("acct");
    let params = BTreeMap::from([("silent_at".to_string(), 1.0)]);
    let mean = |params: &BTreeMap<String, f64>| {
        let decisions: Vec<_> = (1..5).flat_map(|seed| in_rust(&policy, params, seed).0).collect();
        decisions.iter().map(|d| d.window).sum::<f64>() / decisions.len() as f64
    };
    assert!(mean(&params) < mean(&BTreeMap::new()));
    check("acct", &params, 50);
}

#[test]
fn hyvar_decides_the_same() {
    check("hyvar", &BTreeMap::new(), 20);
}

#[test]
fn hyvar_counts_the_packets_of_a_queue_in_the_same_way() {
    let policy = shipped("hyvar");
    let params = BTreeMap::from([("queue_packets".to_string(), 10.0)]);
    let asked = |params: &BTreeMap<String, f64>| in_rust(&policy, params, 1).0.len();
    assert!(asked(&params) < asked(&BTreeMap::new()));
    check("hyvar", &params, 10);
}

/// A spec with clock, signals, actuator and base as given.
fn spec(clock: &Value, history: u32, signals: &Value, act: &Value, base: &Value) -> String {
    json!({
        "learned": 1, "name": "tried", "clock": clock, "observe": {"history": history, "signals": signals},
        "act": act, "base": base, "report": ["rtt_ms"],
    })
    .to_string()
}

/// Every signal that the program knows and that this path moves.
fn all_signals() -> Value {
    let still = ["advertised_mbps", "case", "zone", "zone_index", "twnd_packets", "target_ratio"];
    json!(kernel::SIGNALS.iter().filter(|name| !still.contains(name)).collect::<Vec<_>>())
}

#[test]
fn aurora_moves_its_rate_in_the_same_way() {
    check_spec("aurora", include_str!("../../../ccarena/aurora/spec.json"), 40);
}

#[test]
fn published_controllers_think_the_same() {
    check_spec("astraea", include_str!("../../../ccarena/policies/published/astraea.json"), 100);
    check_spec("indigo", include_str!("../../../ccarena/policies/published/indigo.json"), 40);
}

#[test]
fn every_clock_and_signal_is_the_same_without_a_base() {
    let act = json!({"kind": "window", "bounds": [2, 200]});
    for clock in [
        json!({"kind": "timer", "period_ms": 10}),
        json!({"kind": "ticks", "period_ms": 10, "tick_ms": 3}),
        json!({"kind": "fixed", "period_ms": 20}),
        json!({"kind": "rtt"}),
        json!("window"),
    ] {
        let text = spec(&clock, 2, &all_signals(), &act, &json!("none"));
        check_spec("clock", &text, 50);
    }
}

#[test]
fn every_actuator_moves_the_same() {
    let (clock, signals) = (json!({"kind": "timer"}), json!(["cwnd_packets", "rate_mbps", "last_action", "rtt_ratio"]));
    for (name, act, base) in [
        ("rate", json!({"kind": "rate", "bounds": [0.5, 40]}), json!({"kind": "none", "max_mbps": 30})),
        ("levels", json!({"kind": "rate_factor", "levels": [-2, 0, 1, 2]}), json!("none")),
        ("window", json!({"kind": "window", "bounds": [1, 200]}), json!("none")),
        ("exp2", json!({"kind": "window_exp2", "bounds": [-1, 1], "max": 0.2}), json!("none")),
        ("ops", json!({"kind": "window_ops", "ops": ["/2", "-10", "+0", "+10", "*2", "/3"]}), json!("none")),
        ("factor", json!({"kind": "window_factor", "delta": 0.2}), json!({"kind": "none", "pacing_gain": 0})),
        (
            "orca",
            json!({"kind": "window_factor", "power": 2, "parts": 100, "rounding": 1, "least": 4, "most": 500}),
            json!("none"),
        ),
        ("away", json!({"kind": "window_factor", "delta": 0.05, "rounding": 3}), json!("none")),
        ("up", json!({"kind": "window_factor", "delta": 0.04, "rounding": 2}), json!("acct")),
        ("cap", json!({"kind": "cap", "bounds": [0.05, 1]}), json!("acct")),
    ] {
        check_spec(name, &spec(&clock, 1, &signals, &act, &base), 40);
    }
}

#[test]
fn the_pacing_gain_of_an_action_holds_over_every_base() {
    let (clock, signals) =
        (json!({"kind": "fixed", "period_ms": 20}), json!(["cwnd_packets", "rate_mbps", "last_action", "rtt_ratio"]));
    for base in ["acct", "cubic", "none"] {
        let text = spec(&clock, 1, &signals, &json!({"kind": "pacing_gain", "bounds": [0.5, 2]}), &json!(base));
        let decisions = compare(&untrained(&text, 7, &Value::Null), "gain", &BTreeMap::new(), 40);
        let paced = |d: &Decision| d.pacing / (d.observation[0] * MSS as f64);
        let (least, most) = decisions.iter().skip(5).map(paced).fold((f64::MAX, 0.0), |(a, b), x| (x.min(a), x.max(b)));
        assert!(most > 1.5 * least, "{base}: {least} to {most}");
    }
}

#[test]
fn what_is_derived_is_the_same() {
    let signals = json!([
        {"quotient": ["throughput_mbps", {"max": "throughput_mbps"}], "as": "share", "clip": [0, 100]},
        {"difference": ["rtt_ms", {"min": {"signal": "rtt_ms"}, "each": "ack"}], "as": "delay", "clip": [0, 100]},
        {"ewma": "acked_packets", "gain": 0.125, "as": "slow", "clip": [0, 100]},
        {"mean": {"quotient": ["rtt_ms", "rtt_min_ms"]}, "each": "ack", "as": "mean_by_ack", "clip": [0, 100]},
        {"mean": "send_ratio", "as": "mean_by_period", "clip": [0, 100]},
        {"ewma": {"difference": ["srtt_ms", "rtt_ms"]}, "gain": 0.25, "reset": "period", "as": "anew", "clip": [0, 100]},
        {"quotient": ["lost_packets", {"difference": ["acked_packets", "acked_packets"]}], "default": 0.5, "as": "none", "clip": [0, 100]},
        {"max": {"ewma": "delivery_rate_mbps", "gain": 0.5, "each": "ack"}, "as": "held_twice", "clip": [0, 100]},
    ]);
    let text =
        spec(&json!({"kind": "timer"}), 2, &signals, &json!({"kind": "window", "bounds": [5, 60]}), &json!("none"));
    let decisions = compare(&untrained(&text, 3, &Value::Null), "derived", &BTreeMap::new(), 100);
    let still = |entry: usize| decisions.iter().skip(5).all(|d| (d.observation[entry] - 0.5).abs() < 1e-6);
    assert!((0..16).all(|entry| still(entry) == (12..14).contains(&entry)));
}
