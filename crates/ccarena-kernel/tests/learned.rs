//! A learned controller in integers (`bpf/learned.h`, compiled natively) and in Rust: one sequence of acknowledgements and
//! losses, the same observations, cases and windows up to rounding.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use ccarena_cc::policy::Policy;
use ccarena_cc::policy::kernel::{self, ImageOptions};
use ccarena_cc::{AckInfo, Action, Bytes, Config, Dur, LossInfo, Rate, SentInfo, Time};

const MSS: u64 = 1448;
const RAW: f64 = (1_u64 << 20) as f64;

/// A decision: the observation, and the window in segments after it.
#[derive(Debug)]
struct Decision {
    observation: Vec<f64>,
    window: f64,
}

fn shipped(name: &str) -> Policy {
    let scheme = name.split('-').next().unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ccarena").join(scheme).join("policies");
    Policy::from_bytes(&std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap()).unwrap()
}

/// The C side, compiled once.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("learned");
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
    let image = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.image", params.len()));
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
        let numbers: Vec<f64> = line.split(' ').map(|x| x.parse::<f64>().unwrap() / RAW).collect();
        Decision { observation: numbers[1..numbers.len() - 1].to_vec(), window: numbers[numbers.len() - 1] }
    };
    lines.lines().map(decision).collect()
}

/// Some thousand acknowledgements of a path whose RTT swings, with losses now and then; drives Rust and writes the script.
fn in_rust(policy: &Policy, params: &BTreeMap<String, f64>, seed: u64) -> (Vec<Decision>, String) {
    let trained = policy.trained();
    let params = trained.params.iter().chain(params).map(|(name, value)| (name.clone(), *value)).collect();
    let config = Config { desired_rate: Rate::from_mbps(50.0), params, ..Config::default() };
    let mut controller = trained.spec.controller(&config).unwrap();
    let mut random = seed;
    let mut draw = |most: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % most
    };
    let (mut decisions, mut script) = (Vec::new(), String::new());
    let (mut now, mut una, mut least, mut srtt) = (0_u64, 0_u64, u64::MAX, 20_000_u64);
    controller.on_sent(&SentInfo { now: Time(0), bytes: Bytes(MSS), ..SentInfo::default() });
    for step in 0..4000_u64 {
        now += 100_000 + draw(2_000_000);
        let before = controller.window().0 / MSS;
        if draw(200) == 0 {
            let lost = 1 + draw(3);
            writeln!(script, "{now} 0 0 0 0 0 0 {lost} 0 0 0").unwrap();
            controller.on_loss(&LossInfo {
                now: Time(now),
                lost: Bytes(lost * MSS),
                lost_packets: lost as u32,
                new_episode: true,
                ..LossInfo::default()
            });
            continue;
        }
        let acked = 1 + draw(4);
        una += acked * MSS;
        let (nxt, swing) = (una + before.max(1) * MSS, (step / 400) % 3);
        let rtt_us = if draw(10) == 0 { 0 } else { 20_000 + swing * 3_000 + draw(2_000) };
        if rtt_us > 0 {
            least = least.min(rtt_us);
            srtt = (7 * srtt + rtt_us) / 8;
        }
        controller.on_ack(&AckInfo {
            now: Time(now),
            acked: Bytes(acked * MSS),
            acked_packets: acked as u32,
            rtt: (rtt_us > 0).then_some(Dur(rtt_us * 1000)),
            min_rtt: if least == u64::MAX { Dur::MAX } else { Dur(least * 1000) },
            srtt: Dur(srtt * 1000),
            snd_una: una,
            snd_nxt: nxt,
            cwnd_limited: true,
            ..AckInfo::default()
        });
        let window = controller.window().0 / MSS;
        let learned = controller.learned().unwrap();
        let mut value = 0.0;
        if learned.take_decision() {
            let mut seen = vec![0.0; trained.observation_len];
            learned.observe(&mut seen);
            let action = if trained.actions.is_empty() {
                value = draw(4001) as f32 / 1000.0 - 2.0;
                Action::Continuous(value.into())
            } else {
                let index = draw(trained.actions.len() as u64) as u32;
                value = trained.actions[index as usize];
                Action::Discrete(index)
            };
            learned.act(action, Time(now)).unwrap();
            let observation = seen.iter().map(|x| f64::from(*x)).collect();
            decisions.push(Decision { observation, window: controller.window().0 as f64 / MSS as f64 });
        }
        let value = (f64::from(value) * RAW).round() as i64;
        writeln!(script, "{now} {} {acked} {rtt_us} {srtt} {una} {nxt} 0 {window} 1 {value}", acked * MSS).unwrap();
    }
    (decisions, script)
}

fn check(name: &str, params: &BTreeMap<String, f64>, least: usize) {
    let policy = shipped(name);
    for seed in 1..5 {
        let (rust, script) = in_rust(&policy, params, seed);
        let c = in_c(&policy, name, params, &script);
        assert!(rust.len() >= least, "{name}: {} decisions", rust.len());
        assert_eq!(rust.len(), c.len(), "{name}");
        for (number, (rust, c)) in rust.iter().zip(&c).enumerate() {
            for (entry, (x, y)) in rust.observation.iter().zip(&c.observation).enumerate() {
                assert!((x - y).abs() <= 1e-4 + 2e-3 * x.abs(), "{name}, {number}, entry {entry}: {x} and {y}");
            }
            assert!((rust.window - c.window).abs() <= 1.0 + 2e-3 * rust.window, "{name}, {number}: {rust:?} {c:?}");
        }
    }
}

#[test]
fn acct_thinks_the_same() {
    check("acct", &BTreeMap::new(), 50);
}

#[test]
fn acct_gives_up_the_queue_of_a_silent_bottleneck_in_the_same_way() {
    let policy = shipped("acct");
    let params = BTreeMap::from([("silent_at".to_string(), 1.0)]);
    let mean = |params: &BTreeMap<String, f64>| {
        let decisions = in_rust(&policy, params, 1).0;
        decisions.iter().map(|d| d.window).sum::<f64>() / decisions.len() as f64
    };
    assert!(mean(&params) < mean(&BTreeMap::new()));
    check("acct", &params, 50);
}

#[test]
fn hyvar_thinks_the_same() {
    check("hyvar", &BTreeMap::new(), 20);
}

#[test]
fn hyvar_counts_the_packets_of_a_queue_in_the_same_way() {
    let policy = shipped("hyvar");
    let params = BTreeMap::from([("queue_packets".to_string(), 10.0)]);
    let asked = |params: &BTreeMap<String, f64>| in_rust(&policy, params, 1).0.len();
    assert!(asked(&params) < asked(&BTreeMap::new()));
    check("hyvar", &params, 20);
}
