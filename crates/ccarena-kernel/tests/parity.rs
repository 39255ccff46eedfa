//! The WCC family in C (`bpf/aimd.h`, compiled natively) and in Rust (`ccarena-cc`): one sequence of operations, the same
//! windows.
#![allow(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use ccarena_cc::{AckInfo, Bytes, Config, Controller, FlowSetting, LossInfo, build};
use proptest::prelude::*;

/// In the order of `enum aimd_scheme`, each with the least weight, in thousandths, that it can share by.
const SCHEMES: [(&str, u32); 4] = [("wcc-ai", 1), ("wcc-md", 501), ("multcp", 501), ("ewtcp", 1)];
const MSS: u64 = 1448;

#[derive(Clone, Copy, Debug)]
enum Operation {
    Ack(u32),
    Loss,
    Timeout { flight: u32, first: bool },
    Undo,
    Weight(u32),
}

/// The C side, compiled once.
fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let binary = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("aimd");
        let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/aimd.c");
        let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
        let arguments = ["-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=integer", "-fsanitize-trap=all", "-o"];
        let status = Command::new(clang).args(arguments).arg(&binary).arg(source).status().unwrap();
        assert!(status.success());
        binary
    })
}

fn in_c(scheme: usize, weight: u32, operations: &[Operation]) -> Vec<u64> {
    let mut script = format!("S {scheme} {weight}\n");
    for operation in operations {
        let (letter, first, second) = match *operation {
            Operation::Ack(n) => ('A', n, 0),
            Operation::Loss => ('L', 0, 0),
            Operation::Timeout { flight, first } => ('T', flight, first.into()),
            Operation::Undo => ('U', 0, 0),
            Operation::Weight(w) => ('W', w, 0),
        };
        writeln!(script, "{letter} {first} {second}").unwrap();
    }
    let mut child = Command::new(program()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    String::from_utf8(output.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect()
}

fn in_rust(scheme: &str, weight: u32, operations: &[Operation]) -> Vec<u64> {
    let config = Config { mss: MSS as u32, weight: f64::from(weight) / 1000.0, ..Config::default() };
    let mut controller = build(scheme, &config).unwrap();
    let mut windows = vec![controller.window().0 / MSS];
    let mut una = 0;
    for operation in operations {
        apply(controller.as_mut(), *operation, &mut una);
        windows.push(controller.window().0 / MSS);
    }
    windows
}

fn apply(controller: &mut dyn Controller, operation: Operation, una: &mut u64) {
    match operation {
        Operation::Ack(acked_packets) => {
            *una += u64::from(acked_packets) * MSS;
            controller.on_ack(&AckInfo { acked_packets, snd_una: *una, cwnd_limited: true, ..AckInfo::default() });
        }
        Operation::Loss => controller.on_loss(&LossInfo { new_episode: true, ..LossInfo::default() }),
        Operation::Timeout { flight, first } => {
            let in_flight = Bytes(u64::from(flight) * MSS);
            controller.on_timeout(&LossInfo { in_flight, new_episode: first, ..LossInfo::default() });
        }
        Operation::Undo => controller.on_spurious_loss(ccarena_cc::Time::ZERO),
        Operation::Weight(weight) => FlowSetting::Weight(f64::from(weight) / 1000.0).apply(controller),
    }
}

fn operations(least: u32) -> impl Strategy<Value = Vec<Operation>> {
    let weight = weights(least);
    let operation = prop_oneof![
        16 => (1_u32..50).prop_map(Operation::Ack),
        4 => (50_u32..20_000).prop_map(Operation::Ack),
        3 => Just(Operation::Loss),
        1 => (0_u32..100, any::<bool>()).prop_map(|(flight, first)| Operation::Timeout { flight, first }),
        1 => Just(Operation::Undo),
        1 => weight.prop_map(Operation::Weight),
    ];
    prop::collection::vec(operation, 1..400)
}

fn weights(least: u32) -> impl Strategy<Value = u32> {
    prop_oneof![Just(1000_u32), 501_u32..5000, least..1_000_001]
}

fn cases() -> impl Strategy<Value = (usize, u32, Vec<Operation>)> {
    (0..SCHEMES.len()).prop_flat_map(|scheme| {
        let least = SCHEMES[scheme].1;
        (Just(scheme), weights(least), operations(least))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn windows_are_the_same((scheme, weight, operations) in cases()) {
        let (c, rust) = (in_c(scheme, weight, &operations), in_rust(SCHEMES[scheme].0, weight, &operations));
        prop_assert_eq!(c, rust, "{} {}", SCHEMES[scheme].0, weight);
    }
}
