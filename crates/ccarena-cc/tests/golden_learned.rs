//! Golden runs of the learned schemes, driven call by call: whatever they observe, report and do is held to the bit.
//!
//! `CCARENA_WRITE_GOLDEN=1 cargo test -p ccarena-cc --test golden_learned` records them anew.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;

use ccarena_cc::{Action, Config, Extrapolation, FlowSetting, Rate, Signal, build};
use common::{Flow, Operation};
use serde_json::{Value, json};

/// Scheme and parameters: the defaults, the shipped configurations', and what the suites and the bounds vary.
const CASES: &[(&str, &[(&str, f64)])] = &[
    ("acct", &[]),
    ("acct", &[("reduce_at", 1.0), ("slack", 0.0), ("jitter_slack", 0.0), ("pacing_gain", 0.0), ("min_window", 1.0)]),
    ("acct", &[("budget_ms", 20.0), ("initial_alpha", 30.0), ("jitter_slack", 100.0), ("pacing_gain", 2.5)]),
    ("acct", &[("budget_ms", 0.1), ("reduce_at", 10.0), ("slack", 12.5), ("min_window", 7.5)]),
    ("hyvar", &[]),
    ("hyvar", &[("alpha", 1.1), ("max_action", 1.0), ("mtp_ms", 50.0), ("mtp_min_ms", 50.0)]),
    ("hyvar", &[("case3_as_printed", 1.0)]),
    ("hyvar", &[("timed", 1.0), ("mtp_min_rtts", 1.0)]),
    ("hyvar", &[("learn_1", 1.0), ("learn_2", 1.0), ("steepness", 0.0), ("pacing_gain", 1.25)]),
    ("hyvar", &[("learn_4", 0.0), ("mtp_ms", 30.0), ("mtp_min_ms", 30.0), ("window_limit", 1000.0)]),
    ("hyvar", &[("mtp_min_ms", 300.0), ("mtp_max_ms", 100.0), ("delta", 0.0), ("hystart", 0.0), ("alpha", 10.0)]),
    ("orca", &[]),
    ("orca", &[("max_action", 1.0)]),
    ("orca", &[("mtp_ms", 10.0), ("fast_convergence", 0.0), ("reno_friendly", 0.0)]),
    ("orca", &[("mtp_ms", 200.0), ("pacing_gain", 1.0), ("window_limit", 1.0)]),
    ("aurora", &[]),
    ("aurora", &[("delta", 0.1), ("interval_rtts", 0.5), ("window_rtts", 1.0)]),
    ("aurora", &[("delta", 0.05), ("interval_rtts", 3.3), ("min_mbps", 1000.0), ("max_mbps", 0.1)]),
];

const OPERATIONS: usize = 6000;

/// Xorshift64* (Vigna, 2016): the same numbers everywhere.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// `calm` is a path that a flow might meet; else anything goes, as in the conformance tests.
    fn operation(&mut self, calm: bool) -> Operation {
        match self.below(if calm { 70 } else { 50 }) {
            0..20 | 50.. => Operation::Ack {
                packets: if calm { 1 + self.below(3) } else { self.below(70) } as u32,
                rtt_us: self
                    .chance(if calm { 98 } else { 90 })
                    .then(|| if calm { 20_000 + self.below(20_000) } else { 1 + self.below(3_000_000) }),
                limited: self.chance(80),
                sample: self.chance(90),
                app_limited: self.chance(10),
                signal: match self.chance(30).then(|| self.below(4)) {
                    None => Signal::None,
                    Some(0) => Signal::Rate(Rate(self.next())),
                    Some(1) => Signal::Rate(Rate(u64::from(u32::MAX))),
                    Some(_) => Signal::Rate(Rate(self.below(100_000_000))),
                },
            },
            20 if !calm || self.chance(10) => {
                Operation::Loss { packets: 1 + self.below(29) as u32, new_episode: self.chance(50) }
            }
            21 => Operation::Echo,
            22 if !calm || self.chance(3) => Operation::Timeout { new_episode: self.chance(50) },
            23 => Operation::IdleRestart { idle_us: self.below(100_000_000), rto_us: self.below(60_000_000) },
            24 => Operation::SpuriousLoss,
            25 | 26 => Operation::RecoveryEnd,
            27..30 => Operation::Decide { action: self.below(15) as u32 },
            30..36 => Operation::Wait { us: if self.chance(5) { self.below(2_000_000) } else { self.below(5000) } },
            _ => Operation::Send { app_limited: self.chance(10), idle: self.chance(if calm { 1 } else { 50 }) },
        }
    }
}

/// FNV-1a over the bits of what is seen.
struct Digest(u64);

impl Digest {
    fn take(&mut self, word: u64) {
        for byte in word.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn all(&mut self, values: &[f32]) {
        values.iter().for_each(|x| self.take(u64::from(x.to_bits())));
    }
}

fn run(scheme: &str, params: &[(&str, f64)], calm: bool) -> Value {
    let params: BTreeMap<String, f64> = params.iter().map(|&(name, value)| (name.to_string(), value)).collect();
    let config = Config { params, slow_start: calm, initial_window: if calm { 10 } else { 3 }, ..Config::default() };
    let mut flow = Flow::new(build(scheme, &config).unwrap());
    let (mut numbers, mut digest) = (Numbers(0x1234_5678_9abc_def1 + u64::from(calm)), Digest(0xcbf2_9ce4_8422_2325));
    let (mut decisions, mut sampled) = (0_u64, Vec::new());
    // As with any transport, a packet leaves before anything comes back.
    flow.apply(&Operation::Send { app_limited: false, idle: false });
    for step in 0..OPERATIONS {
        if step % 50 == 49 && numbers.chance(20) {
            let rate = ccarena_cc::Rate(numbers.below(200_000_000));
            FlowSetting::DesiredRate(rate).apply(flow.controller.as_mut());
        }
        if calm && step == OPERATIONS * 3 / 4 {
            flow.controller.extrapolated().unwrap().adopt_window(ccarena_cc::Bytes(40 * common::MSS));
        }
        flow.apply(&numbers.operation(calm));
        let (window, pacing, threshold, timer, desired) = flow.check().unwrap();
        digest.take(window.0);
        digest.take(pacing.map_or(0, |r| r.0));
        digest.take(threshold.map_or(0, |b| b.0));
        digest.take(timer.0);
        digest.take(desired.map_or(0, |r| r.0));
        let steps = Extrapolation::of(flow.controller.as_mut(), flow.now);
        digest.take(steps.increase.to_bits());
        digest.take(steps.decrease.to_bits());
        digest.take(u64::from(steps.per_window));
        digest.take(steps.cubic.map_or(u64::MAX, |d| d.0));
        digest.take(u64::from(flow.controller.min_burst_segments()));
        digest.take(u64::from(flow.controller.transport().owns_recovery));
        let now = flow.now;
        let due = flow.controller.learned().unwrap().take_decision();
        digest.take(u64::from(due));
        let seen = flow.learned();
        digest.all(&seen);
        if due {
            decisions += 1;
            if decisions % 40 == 1 && sampled.len() < 4 {
                let report = flow.controller.learned().unwrap().interface().report.len();
                let rounded = |x: &f32| (f64::from(*x) * 1e3).round() / 1e3;
                sampled.push(seen[seen.len() - report..].iter().map(rounded).collect::<Vec<f64>>());
            }
            // Most decisions are answered, some are not, as when an environment is late.
            if numbers.chance(90) {
                let learned = flow.controller.learned().unwrap();
                let (actions, (low, high)) = (learned.interface().actions.len() as u64, learned.interface().bounds[0]);
                let action = match actions {
                    0 => Action::Continuous((low + (high - low) * numbers.below(1001) as f32 / 1000.0).into()),
                    n => Action::Discrete(numbers.below(n) as u32),
                };
                learned.act(action, now).unwrap();
            }
        } else if numbers.chance(1) && step % 97 == 0 {
            flow.controller.learned().unwrap().end_interval(now);
        }
    }
    json!({"digest": format!("{:016x}", digest.0), "decisions": decisions, "reports": sampled})
}

#[test]
fn learned_schemes_run_as_recorded() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/golden_learned.json");
    let mut found = BTreeMap::new();
    for (scheme, params) in CASES {
        for calm in [true, false] {
            let params_text = params.iter().map(|(n, v)| format!("{n}={v}")).collect::<Vec<_>>().join(",");
            let name = format!("{scheme}({params_text}){}", if calm { " calm" } else { "" });
            found.insert(name, run(scheme, params, calm));
        }
    }
    if std::env::var_os("CCARENA_WRITE_GOLDEN").is_some() {
        std::fs::write(&file, serde_json::to_string_pretty(&found).unwrap() + "\n").unwrap();
    }
    let golden: BTreeMap<String, Value> = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(found.keys().collect::<Vec<_>>(), golden.keys().collect::<Vec<_>>());
    for (name, run) in &found {
        assert_eq!(run, &golden[name], "{name}");
    }
}
