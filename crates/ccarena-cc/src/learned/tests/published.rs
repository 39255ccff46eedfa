//! Published controllers: their specs compute from the recorded reports and packets what the authors' code computed.
//!
//! The recordings are no part of this repository. The folder in `CCARENA_PUBLISHED_DIR` has them:
//! `NAME/vectors.safetensors` for each name below.

use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::{Map, Value, json};

use super::{act, due};
use crate::learned::Spec;
use crate::learned::actuators::{self, Actuator};
use crate::learned::bases::Base;
use crate::learned::derived::{Compiler, Program};
use crate::learned::monitor::{Horizon, Measured, Monitor, Parts};
use crate::learned::number::Number;
use crate::learned::plan::Column;
use crate::learned::signals::View;
use crate::schemes::testing::Flow;
use crate::types::{Bytes, Dur, Rate, Time};
use crate::{AckInfo, Action, Config, SentInfo};

const ORCA: &str = include_str!("../../../../../ccarena/policies/published/orca.json");
const ASTRAEA: &str = include_str!("../../../../../ccarena/policies/published/astraea.json");
const INDIGO: &str = include_str!("../../../../../ccarena/policies/published/indigo.json");

fn vectors(name: &str) -> Option<Vec<u8>> {
    let folder = std::env::var_os("CCARENA_PUBLISHED_DIR").map(std::path::PathBuf::from);
    let found = folder.and_then(|folder| std::fs::read(folder.join(name).join("vectors.safetensors")).ok());
    if found.is_none() {
        eprintln!("skipped: CCARENA_PUBLISHED_DIR names no folder with {name}/vectors.safetensors");
    }
    found
}

/// The numbers of a tensor, row by row.
fn rows(file: &SafeTensors<'_>, name: &str) -> Vec<Vec<f64>> {
    let tensor = file.tensor(name).unwrap();
    let bytes = tensor.data();
    let data: Vec<f64> = match tensor.dtype() {
        Dtype::F64 => bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect(),
        Dtype::F32 => bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap()).into()).collect(),
        Dtype::I32 => bytes.chunks_exact(4).map(|b| i32::from_le_bytes(b.try_into().unwrap()).into()).collect(),
        other => panic!("{name} is {other:?}"),
    };
    let columns = tensor.shape().get(1).copied().unwrap_or(1);
    data.chunks_exact(columns).map(<[f64]>::to_vec).collect()
}

/// A base of some window.
struct Window(f64);

impl Base for Window {
    fn on_ack(&mut self, _ack: &AckInfo) {}

    fn window(&self) -> Bytes {
        Bytes(0)
    }

    fn segments(&self) -> f64 {
        self.0
    }

    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    fn rate_bps(&self) -> f64 {
        0.0
    }

    fn scale_window(&mut self, factor: f64, _most: u32) {
        self.0 *= factor;
    }
}

/// Spec `text` with an input in place of each signal of `names`, so that a test gives their values.
fn with_inputs(text: &str, names: &[&str]) -> Spec {
    fn replace(value: &mut Value, names: &[&str]) {
        match value {
            Value::String(name) if names.contains(&name.as_str()) => *value = json!({"signal": "input", "name": name}),
            Value::Object(fields) if fields.get("signal").is_some_and(|s| names.iter().any(|n| s == n)) => {
                let name = fields.insert("signal".into(), json!("input")).unwrap();
                fields.insert("name".into(), name);
            }
            Value::Object(fields) => fields.iter_mut().for_each(|(_, value)| replace(value, names)),
            Value::Array(items) => items.iter_mut().for_each(|value| replace(value, names)),
            _ => {}
        }
    }
    let mut spec: Value = serde_json::from_str(text).unwrap();
    replace(&mut spec["observe"]["signals"], names);
    let input = |name: &&str| (name.to_string(), json!({"default": 0, "min": 0, "max": 1e12}));
    spec["inputs"] = Value::Object(names.iter().map(input).collect::<Map<_, _>>());
    spec["observe"]["history"] = json!(1);
    Spec::parse(&spec.to_string()).unwrap()
}

/// The observation of `spec` compiled, for one flow.
fn compiled(spec: &Spec) -> (Vec<Column>, Program) {
    let (mut parts, mut horizon, mut columns, mut at) = (Parts::NONE, Horizon::default(), Vec::new(), 0);
    let resolve = |options: &[Number]| options.iter().map(|n| n.resolve(&[])).collect::<Vec<f64>>();
    let mut compiler = Compiler::new(false, &mut parts, &mut horizon, &resolve);
    spec.items(false).for_each(|item| item.compile(&mut compiler, &mut columns, &mut at));
    (columns, compiler.program)
}

/// Normalised observations of `spec` for one row of input values after the other.
fn observed(spec: &Spec, inputs: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let (columns, mut program) = compiled(spec);
    let monitor = Monitor::new(Parts::NONE, Horizon::default(), Rate(1), [vec![], vec![]]);
    let measured = Measured::default();
    let mut out = Vec::new();
    for params in inputs {
        let view = View {
            now: Time::ZERO,
            measured: &measured,
            monitor: &monitor,
            base: &Window(1.0),
            mss: 1448.0,
            wire_bytes: 1500.0,
            action: [0.0; 4],
            action_before: [0.0; 4],
            case: 0,
            next_length: Dur::ZERO,
            weight: 1.0,
            requirement: None,
            params,
            derived: &[],
        };
        let view = program.run(view);
        let entries = &spec.interface().observation;
        let seen = |(column, entry): (&Column, &crate::learned::Entry)| {
            ((f64::from(column.read(&view)) - entry.offset) * entry.scale).clamp(entry.clip.0, entry.clip.1)
        };
        out.push(columns.iter().zip(entries).map(seen).collect());
    }
    out
}

fn assert_near(found: &[f64], expected: &[f64], place: &str) {
    for (k, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            (found - expected).abs() <= 2e-6 * expected.abs().max(1e-3),
            "{place}, {k}: {found}; expected {expected}"
        );
    }
    assert_eq!(found.len(), expected.len());
}

/// Compares the states of all flows: `names` are the signals, and `inputs` their values in a raw report.
fn assert_states(text: &str, name: &str, names: &[&str], inputs: impl Fn(&[f64]) -> Vec<f64>) {
    let Some(bytes) = vectors(name) else { return };
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (raw, flow, state) = (rows(&file, "raw"), rows(&file, "flow"), rows(&file, "state"));
    let spec = with_inputs(text, names);
    let mut at = 0;
    for of_flow in flow.chunk_by(|a, b| a == b) {
        let reports = &raw[at..at + of_flow.len()];
        let found = observed(&spec, &reports.iter().map(|r| inputs(r)).collect::<Vec<_>>());
        for (k, found) in found.iter().enumerate() {
            assert_near(found, &state[at + k], &format!("{name}, report {}", at + k));
        }
        at += of_flow.len();
    }
    assert_eq!(at, 400);
}

/// Mbit/s.
fn mbps(bytes_per_s: f64) -> f64 {
    bytes_per_s * 8.0 / 1e6
}

#[test]
fn orcas_states_are_those_of_its_reports() {
    let names = [
        "delivery_rate_mean_mbps",
        "rate_mbps",
        "loss_mbps",
        "rtt_samples",
        "cwnd_packets",
        "interval_ms",
        "rtt_min_ms",
        "srtt_ms",
    ];
    assert_states(ORCA, "orca", &sorted(names), |r| {
        by_name(&names, &[mbps(r[1]), mbps(r[6]), mbps(r[7]), r[2], r[5], r[3] * 1e3, r[14], r[8]])
    });
}

#[test]
fn astraeas_states_are_those_of_its_reports() {
    let names = [
        "delivery_rate_mean_mbps",
        "rtt_or_zero_ms",
        "rtt_min_ms",
        "srtt_ms",
        "cwnd_packets",
        "loss_mbps",
        "outstanding_packets",
        "rate_mbps",
        "retransmitted_packets",
    ];
    assert_states(ASTRAEA, "astraea", &sorted(names), |r| {
        let ms = 1e-3;
        let values = [mbps(r[0]), r[2] * ms, r[3] * ms, r[4] / 8.0 * ms, r[5], mbps(r[6]), r[7], mbps(r[8]), r[9]];
        by_name(&names, &values)
    });
}

/// Inputs of a spec are in the order of their names.
fn sorted<const N: usize>(mut names: [&str; N]) -> [&str; N] {
    names.sort_unstable();
    names
}

fn by_name(names: &[&str], values: &[f64]) -> Vec<f64> {
    let mut pairs: Vec<_> = names.iter().zip(values).collect();
    pairs.sort_unstable_by_key(|pair| *pair.0);
    pairs.into_iter().map(|pair| *pair.1).collect()
}

/// The actuator of spec `text`, and a monitor for it.
fn actuator(text: &str) -> (Box<dyn Actuator>, Monitor) {
    let spec = Spec::parse(text).unwrap();
    let options: Vec<f64> = spec.actuators[0].options.iter().map(|n| n.resolve(&[])).collect();
    let parts = actuators::Parts { options: &options, bounds: spec.interface().bounds[0], ops: &[], mss: 1448.0 };
    let monitor = Monitor::new(Parts::NONE, Horizon::default(), Rate(1), [vec![], vec![]]);
    ((spec.actuators[0].entry.build)(&parts), monitor)
}

#[test]
fn windows_are_those_of_the_recorded_actions() {
    for (name, text, action, before, after) in [
        ("orca", ORCA, "action", "raw", "cwnd_out"),
        ("astraea", ASTRAEA, "action", "raw", "cwnd_out"),
        ("astraea", ASTRAEA, "map_action_in", "map_cwnd_in", "map_cwnd_out"),
    ] {
        let Some(bytes) = vectors(name) else { continue };
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let (actuator, monitor) = actuator(text);
        let before = rows(&file, before);
        for (k, (action, after)) in rows(&file, action).iter().zip(rows(&file, after)).enumerate() {
            let mut base = Window(before[k].get(5).copied().unwrap_or(before[k][0]));
            actuator.apply(action[0] as f32, &mut base, &monitor);
            assert!((base.0 - after[0]).abs() < 1e-6, "{name} {k}: {} after {action:?}; expected {after:?}", base.0);
        }
    }
}

#[test]
fn indigos_states_and_windows_are_those_of_its_packets() {
    let Some(bytes) = vectors("indigo") else { return };
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let column = |name: &str| rows(&file, name).into_iter().map(|row| row[0]).collect::<Vec<f64>>();
    let [flow, kind, t_ms, seq, sent_ms, size, decision] =
        ["flow", "kind", "t_ms", "seq", "send_ts", "size", "decision"].map(|name| column(&format!("ev.{name}")));
    let (state, action) = (rows(&file, "dec.state"), column("dec.action"));
    let spec = Spec::parse(INDIGO).unwrap();
    let at = |ms: f64| Time(ms as u64 * 1_000_000);
    let (mut decisions, mut controller) = (0, spec.controller(&Config::default()).unwrap());
    // Where each datagram begins and ends in the bytes of its flow.
    let mut ends: Vec<u64> = Vec::new();
    let mut una = 0;
    for i in 0..flow.len() {
        if i > 0 && flow[i] > flow[i - 1] {
            (controller, una) = (spec.controller(&Config::default()).unwrap(), 0);
            ends.clear();
        }
        let bytes = Bytes(size[i] as u64);
        if kind[i] < 0.5 {
            let before = ends.last().copied().unwrap_or(0);
            assert_eq!(ends.len(), seq[i] as usize);
            controller.on_sent(&SentInfo { now: at(t_ms[i]), bytes, snd_nxt: before, ..SentInfo::default() });
            ends.push(before + bytes.0);
            continue;
        }
        // The highest acknowledged datagram counts as the last of all before it.
        una = una.max(ends[seq[i] as usize]);
        let rtt = at(t_ms[i]).since(at(sent_ms[i]));
        controller.on_ack(&AckInfo {
            now: at(t_ms[i]),
            acked: bytes,
            acked_packets: 1,
            rtt: Some(rtt),
            min_rtt: rtt,
            srtt: rtt,
            snd_una: una,
            snd_nxt: ends[ends.len() - 1],
            ..AckInfo::default()
        });
        let learned = controller.learned().unwrap();
        assert_eq!(learned.take_decision(), decision[i] >= 0.0, "a decision at event {i}");
        if decision[i] >= 0.0 {
            let place = decision[i] as usize;
            let mut seen = [0.0; 5];
            learned.observe(&mut seen);
            assert_near(&seen.map(f64::from)[..4], &state[place], &format!("decision {place}"));
            learned.act(Action::Discrete(action[place] as u32), at(t_ms[i])).unwrap();
            decisions += 1;
        }
    }
    assert_eq!((flow.len(), decisions), (5785, 450));
}

#[test]
fn orca_starts_with_a_tenth_more_every_2_ms_and_cubic_never_learns_of_actions() {
    let spec = Spec::parse(ORCA).unwrap();
    let mut flow =
        Flow { controller: spec.controller(&Config::default()).unwrap(), ..Flow::new("reno", &Config::default()) };
    assert_eq!(flow.extrapolation().cubic, None, "no datapath runs CUBIC in its place");
    flow.send(Bytes(0));
    let (mut expected, rtt) = (10, Dur::from_millis(40));
    while expected < 1000 {
        // So far apart that HyStart takes them for no train.
        flow.ack(1, Dur::from_millis(3), rtt);
        expected = (f64::from(expected + 1) * 1.1).floor() as u32;
        assert_eq!(flow.window(), u64::from(expected));
        assert!(!due(&mut flow), "no decision in the start");
    }
    flow.lose(true);
    let threshold = flow.threshold();
    // The window has to exceed the threshold; the step that finds it there is the first decision.
    let mut acks = 0;
    while !due(&mut flow) {
        assert!(acks < 2000, "no decision after the start");
        flow.ack(10, Dur::from_micros(500), rtt);
        acks += 1;
    }
    assert!(flow.window() > threshold);
    let before = flow.window();
    act(&mut flow, -1.0);
    assert_eq!((flow.window(), flow.threshold()), (before * 25 / 100, threshold), "the window alone");
    flow.ack(2, Dur::from_millis(1), rtt);
    assert_eq!(flow.window(), before * 25 / 100 + 2, "slow start goes on below the threshold");
}
