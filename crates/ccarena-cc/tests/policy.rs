//! Policy artifacts: PyTorch's results reproduced, and every fault refused by name.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::collections::HashMap;

use ccarena_cc::Action;
use ccarena_cc::policy::{Policy, PolicyError};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use sha2::{Digest, Sha256};

/// Written by `data/golden.py` from a seeded random network with 3 filters and 12 hidden units; the results beside it are
/// PyTorch's on the CPU.
const GOLDEN: &[u8] = include_bytes!("data/golden.safetensors");
const RESULTS: &str = include_str!("data/golden.json");

#[derive(Clone)]
struct Tensor {
    dtype: Dtype,
    shape: Vec<usize>,
    data: Vec<u8>,
}

/// The golden artifact taken apart, to be put together with a fault.
struct Parts {
    metadata: HashMap<String, String>,
    tensors: HashMap<String, Tensor>,
}

impl Parts {
    fn golden() -> Self {
        let (_, header) = SafeTensors::read_metadata(GOLDEN).unwrap();
        let file = SafeTensors::deserialize(GOLDEN).unwrap();
        let tensors = file
            .tensors()
            .into_iter()
            .map(|(name, t)| (name, Tensor { dtype: t.dtype(), shape: t.shape().to_vec(), data: t.data().to_vec() }));
        Self { metadata: header.metadata().clone().unwrap(), tensors: tensors.collect() }
    }

    fn with_metadata(mut self, key: &str, value: &str) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.get_mut(name).unwrap()
    }

    fn set(&mut self, name: &str, index: usize, value: f32) {
        self.tensor(name).data[4 * index..4 * index + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn bytes(&self) -> Vec<u8> {
        let views = self.tensors.iter().map(|(n, t)| (n, TensorView::new(t.dtype, t.shape.clone(), &t.data).unwrap()));
        safetensors::serialize(views, Some(self.metadata.clone())).unwrap()
    }

    fn error(&self) -> PolicyError {
        Policy::from_bytes(&self.bytes()).unwrap_err()
    }
}

fn rows(results: &serde_json::Value, key: &str) -> Vec<Vec<f32>> {
    let row = |r: &serde_json::Value| r.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect();
    results[key].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn results_are_those_of_pytorch() {
    let results: serde_json::Value = serde_json::from_str(RESULTS).unwrap();
    let (observations, logits) = (rows(&results, "observations"), rows(&results, "logits"));
    let policy = Policy::from_bytes(GOLDEN).unwrap();
    let mut scratch = policy.scratch();
    for (i, observation) in observations.iter().enumerate() {
        let (action, found) = policy.act(observation, &mut scratch).unwrap();
        assert_eq!(u64::from(action), results["actions"][i].as_u64().unwrap());
        for (a, b) in found.iter().zip(&logits[i]) {
            assert!((a - b).abs() <= 1e-5 * b.abs().max(1.0), "row {i}: {a} and {b}");
        }
    }
    let mut batch = vec![0.0; logits.len() * 15];
    policy.logits(&observations.concat(), &mut batch, &mut scratch).unwrap();
    for (i, observation) in observations.iter().enumerate() {
        assert_eq!(policy.act(observation, &mut scratch).unwrap().1, &batch[15 * i..15 * (i + 1)]);
    }
    assert_eq!(policy.metadata("seed"), Some("7"));
    assert_eq!(policy.trained().spec.interface().name, "acct");
}

#[test]
fn observations_that_do_not_fit_are_refused() {
    let policy = Policy::from_bytes(GOLDEN).unwrap();
    let mut scratch = policy.scratch();
    let error = policy.act(&[0.0; 65], &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "observation has 65 values; expected 66");
    let mut observation = [0.0; 66];
    observation[3] = f32::NAN;
    let error = policy.act(&observation, &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "observation[3] is NaN; expected a finite number");
    let error = policy.logits(&[0.0; 132], &mut [0.0; 15], &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "132 observation values and room for 15 logits; expected n x 66 and n x 15");
}

#[test]
fn a_truncated_or_foreign_file_is_not_a_policy() {
    for length in 0..GOLDEN.len() {
        let error = Policy::from_bytes(&GOLDEN[..length]).unwrap_err();
        assert!(matches!(error, PolicyError::NotSafetensors { .. }), "{length} bytes: {error}");
    }
    for foreign in [&b"PK\x03\x04 a zip archive"[..], b"name: acct\nseed: 1\n"] {
        assert!(matches!(Policy::from_bytes(foreign), Err(PolicyError::NotSafetensors { .. })));
    }
}

#[test]
fn metadata_that_does_not_fit_is_refused() {
    let mut parts = Parts::golden();
    parts.metadata.clear();
    assert_eq!(parts.error().to_string(), "metadata `ccarena_format` is missing; expected 2");

    let error = Parts::golden().with_metadata("ccarena_format", "1").error();
    assert_eq!(error, PolicyError::Version { found: "1".into() });
    let expected = r#"format version "1"; expected "2": train the policy again, or use the ccarena that wrote it"#;
    assert_eq!(error.to_string(), expected);

    for (key, value, expected) in [
        ("spec", "[]", "metadata `spec`: "),
        ("spec", "{", "metadata `spec`: "),
        ("digest", "0123456789abcdef", "metadata `digest` is \"0123456789abcdef\"; expected \""),
        ("params", r#"{"alpha":"x"}"#, "expected a JSON object of numbers"),
        ("actions", "[1,null]", "metadata `actions` is [1,null]; expected a JSON list of at most 4096 finite numbers"),
        ("actions", "[1,2]", "graph: output \"out\" of shape [15]; expected [2]"),
        ("actions", "[]", "metadata `bounds` is []; expected [low, high] with low < high"),
        ("bounds", "[-1,1]", "metadata `bounds` is [-1,1]; expected [low, high]"),
    ] {
        let error = Parts::golden().with_metadata(key, value).error().to_string();
        assert!(error.contains(expected), "{key} {value}: {error}");
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let mut parts = Parts::golden();
    parts.tensors.remove("hidden.bias");
    assert_eq!(parts.error().to_string(), r#"tensor "hidden.bias" is missing; the graph uses it"#);

    let mut parts = Parts::golden();
    let extra = parts.tensor("out.bias").clone();
    parts.tensors.insert("extra".into(), extra);
    assert_eq!(parts.error(), PolicyError::UnknownTensor { name: "extra".into() });

    let mut parts = Parts::golden();
    parts.tensor("hidden.weight").shape = vec![17, 12];
    let expected = r#"graph node "hidden" (linear): tensor "hidden.weight" of shape [17, 12]; expected [out, 17], as the input is [17]"#;
    assert_eq!(parts.error().to_string(), expected);

    let mut parts = Parts::golden();
    parts.tensor("out.bias").dtype = Dtype::I32;
    assert_eq!(parts.error().to_string(), r#"tensor "out.bias" is I32; expected F32"#);

    for (value, text) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let mut parts = Parts::golden();
        parts.set("out.weight", 17, value);
        let expected = format!(r#"tensor "out.weight" is {text} at index 17; expected finite numbers"#);
        assert_eq!(parts.error().to_string(), expected);
    }

    let mut parts = Parts::golden();
    parts.set("normalisation.low", 2, 9.0);
    let error = parts.error().to_string();
    assert_eq!(error, "normalisation of observation[2] clips to 9..1; expected low <= high");

    let mut parts = Parts::golden();
    let short = Tensor { dtype: Dtype::F32, shape: vec![1], data: vec![0; 4] };
    parts.tensors.insert("normalisation.scale".into(), short);
    assert_eq!(parts.error().to_string(), r#"tensor "normalisation.scale" has shape [1]; expected [66]"#);
}

#[test]
fn a_flipped_bit_of_the_weights_is_refused() {
    let weights_at = |bytes: &[u8]| 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let unchecked = Parts::golden().bytes();
    assert_eq!(Policy::from_bytes(&unchecked).unwrap().metadata("weights_sha256"), None);
    let checksum = format!("{:x}", Sha256::digest(&unchecked[weights_at(&unchecked)..]));
    let saved = Parts::golden().with_metadata("weights_sha256", &checksum).bytes();
    Policy::from_bytes(&saved).unwrap();

    let begin = weights_at(&saved);
    for at in [begin, begin + 1, begin + 1001, (begin + saved.len()) / 2, saved.len() - 4, saved.len() - 1] {
        for bit in [0, 7] {
            let mut damaged = saved.clone();
            damaged[at] ^= 1 << bit;
            let found = format!("{:x}", Sha256::digest(&damaged[begin..]));
            let error = Policy::from_bytes(&damaged).unwrap_err();
            assert_eq!(error, PolicyError::Checksum { found, expected: checksum.clone() }, "byte {at}, bit {bit}");
        }
    }

    let error = Parts::golden().with_metadata("weights_sha256", "0f").error().to_string();
    let expected = format!(
        "weights of SHA-256 \"{checksum}\"; expected \"0f\", as the metadata says: the file was damaged or edited after \
         it was saved; copy it anew"
    );
    assert_eq!(error, expected);
}

#[test]
fn a_spec_of_another_version_says_what_to_do() {
    let error = Parts::golden().with_metadata("digest", "0123456789abcdef").error().to_string();
    assert!(error.ends_with("in this version of ccarena, for which the policy has to be trained again"), "{error}");
}

#[test]
fn two_tensors_of_one_name_or_place_are_refused() {
    let header_len = u64::from_le_bytes(GOLDEN[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&GOLDEN[8..8 + header_len]).unwrap();
    for (from, to) in [("\"out.bias\"", "\"hidden.bias\""), ("\"data_offsets\":[0,", "\"data_offsets\":[4,")] {
        let changed = header.replacen(from, to, 1);
        let mut bytes = (changed.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(changed.as_bytes());
        bytes.extend_from_slice(&GOLDEN[8 + header_len..]);
        assert_ne!(changed, header);
        assert!(Policy::from_bytes(&bytes).is_err(), "{from}");
    }
    // A header that says that it is longer than any file.
    let mut bytes = GOLDEN.to_vec();
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(Policy::from_bytes(&bytes), Err(PolicyError::NotSafetensors { .. })));
}

/// The error of a policy with this graph, `n` observations, and the tensors `w` `[2, 3]`, `b` `[2]` and `k` `[2, 1, 2]`.
fn graph_error(nodes: &str) -> String {
    graph_parts(3, &format!(r#"{{"input":3,"nodes":[{nodes}],"output":"y"}}"#)).error().to_string()
}

fn graph_parts(n: usize, graph: &str) -> Parts {
    let tensor = |shape: &[usize]| Tensor {
        dtype: Dtype::F32,
        shape: shape.to_vec(),
        data: (0..shape.iter().product::<usize>()).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect(),
    };
    let named = [("w", &[2, 3][..]), ("b", &[2]), ("k", &[2, 1, 2]), ("r", &[6, 2])];
    let used = named.into_iter().filter(|(name, _)| graph.contains(&format!("\"{name}\"")));
    let normalisation = ["offset", "scale", "low", "high"].map(|name| (format!("normalisation.{name}"), tensor(&[n])));
    let mut metadata = Parts::golden().metadata;
    metadata.insert("graph".into(), graph.into());
    metadata.insert("actions".into(), "[0,1]".into());
    Parts {
        metadata,
        tensors: used.map(|(name, shape)| (name.to_string(), tensor(shape))).chain(normalisation).collect(),
    }
}

#[test]
fn graphs_that_do_not_fit_are_refused_with_the_node() {
    let x = r#""inputs":["observation"]"#;
    for (nodes, expected) in [
        (
            format!(r#"{{"name":"y","op":"dense",{x}}}"#),
            r#"graph node "y" (dense): operation "dense"; expected linear, "#,
        ),
        (format!(r#"{{"name":"y","op":"linear",{x}}}"#), r#"graph node "y" (linear): no "weight"; expected the name"#),
        (
            format!(r#"{{"name":"y","op":"linear",{x},"weight":"w","bias":"w"}}"#),
            r#"tensor "w" of shape [2, 3]; expected [2]"#,
        ),
        (format!(r#"{{"name":"y","op":"linear",{x},"weight":"w","rate":1}}"#), r#"entry "rate"; expected no entry"#),
        (format!(r#"{{"name":"y","op":"relu",{x},"inputs":["z"]}}"#), r#"input "z", which is no value before it"#),
        (r#"{"name":"y","op":"relu","inputs":["y"]}"#.into(), r#"input "y", which is no value before it"#),
        (r#"{"name":"y","op":"relu","inputs":[]}"#.into(), "0 inputs; expected 1"),
        (r#"{"name":"y","op":"relu","inputs":[7]}"#.into(), "input 7; expected names of values"),
        (format!(r#"{{"name":"observation","op":"relu",{x}}}"#), "a second value of this name; expected unique names"),
        (
            format!(r#"{{"name":"y","op":"slice",{x},"axis":0,"start":2,"stop":9}}"#),
            "stop 9; expected an integer from 1 to 3",
        ),
        (
            format!(r#"{{"name":"y","op":"slice",{x},"axis":1,"start":0,"stop":1}}"#),
            "axis 1; expected an integer from 0 to 0",
        ),
        (format!(r#"{{"name":"y","op":"reshape",{x},"shape":[2,2]}}"#), "shape [2, 2]; expected 3 numbers"),
        (format!(r#"{{"name":"y","op":"reshape",{x},"shape":[4294967296,4294967296]}}"#), "expected a list of sizes"),
        (format!(r#"{{"name":"y","op":"transpose",{x},"axes":[1]}}"#), "axes [1]; expected each of 0 to 1 once"),
        (format!(r#"{{"name":"y","op":"conv1d",{x},"weight":"k"}}"#), "expected [filters, channels, kernel]"),
        (
            format!(r#"{{"name":"y","op":"gru",{x},"weight_ih":"w","weight_hh":"r"}}"#),
            r#"tensor "w" of shape [2, 3]; expected [6, 3]"#,
        ),
        (format!(r#"{{"name":"y","op":"clip",{x},"low":2,"high":1}}"#), "clip to 2..1; expected low <= high"),
        (format!(r#"{{"name":"y","op":"clip",{x},"low":1e300}}"#), "low 1e+300; expected a finite number"),
        (
            format!(r#"{{"name":"y","op":"affine",{x},"scale":"w"}}"#),
            r#"tensor "w" of shape [2, 3]; expected one that repeats"#,
        ),
        (format!(r#"{{"name":"y","op":"relu",{x}}}"#), r#"graph: output "y" of shape [3]; expected [2]"#),
        (r#"7"#.into(), "graph node 0: 7; expected a JSON object"),
        (String::new(), r#"output "y", which is no value before it"#),
    ] {
        let error = graph_error(&nodes);
        assert!(error.contains(expected), "{nodes}: {error}");
    }
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(graph_error(&nested).contains("no JSON"));
}

#[test]
fn a_small_file_cannot_ask_for_much() {
    let mut nodes = String::from(r#"{"name":"n0","op":"concat","inputs":["observation","observation"],"axis":0}"#);
    for k in 1..60 {
        let name = format!("n{}", k - 1);
        nodes += &format!(r#",{{"name":"n{k}","op":"concat","inputs":["{name}","{name}"],"axis":0}}"#);
    }
    assert!(graph_error(&nodes).contains("1048576 numbers in all values"), "{}", graph_error(&nodes));

    let many = vec![r#"{"name":"y","op":"relu","inputs":["observation"]}"#; 1025].join(",");
    assert!(graph_error(&many).contains("1025 nodes; expected at most 1024"));

    let graph = r#"{"input":1000000000000,"nodes":[],"output":"observation"}"#;
    assert!(graph_parts(3, graph).error().to_string().contains("input 1000000000000; expected an integer from 1 to"));
    let graph = r#"{"input":3,"state":[{"name":"h","shape":[9,1048577],"next":"h"}],"nodes":[],"output":"h"}"#;
    assert!(graph_parts(3, graph).error().to_string().contains("expected a list of sizes"));
    let graph = r#"{"input":3,"state":[{"name":"h","shape":[9,1048576],"next":"h"}],"nodes":[],"output":"h"}"#;
    assert!(graph_parts(3, graph).error().to_string().contains("numbers in all values"));

    // 2^19 rows of a product with 512 columns.
    let nodes = r#"{"name":"a","op":"reshape","inputs":["observation"],"shape":[174762,3]},
        {"name":"y","op":"linear","inputs":["a"],"weight":"w"}"#;
    let graph = format!(r#"{{"input":524286,"nodes":[{nodes},{}],"output":"y"}}"#, {
        let x = r#""inputs":["a"],"stride":1,"padding":400000"#;
        format!(
            r#"{{"name":"c","op":"reshape","inputs":["a"],"shape":[1,524286]}},{{"name":"z","op":"conv1d",{},"weight":"k"}}"#,
            x.replace("\"a\"", "\"c\"")
        )
    });
    assert!(graph_parts(524_286, &graph).error().to_string().contains("numbers in all values"));
}

#[test]
fn a_recurrent_policy_remembers_by_flow_until_a_number_is_not_finite() {
    let graph = r#"{"input":3,"state":[{"name":"h","shape":[2],"next":"y"}],"output":"y","nodes":[
        {"name":"a","op":"linear","inputs":["observation"],"weight":"w","bias":"b"},
        {"name":"y","op":"add","inputs":["a","h"]}]}"#;
    let mut parts = graph_parts(3, graph);
    for k in 0..3 {
        parts.set("normalisation.low", k, -3e38);
        parts.set("normalisation.high", k, 3e38);
        parts.set("normalisation.scale", k, 1.0);
        parts.set("normalisation.offset", k, 0.0);
    }
    let policy = Policy::from_bytes(&parts.bytes()).unwrap();
    assert_eq!(policy.graph().state_len(), 2);
    let (mut one, mut other) = (policy.scratch(), policy.scratch());
    let first = policy.act(&[1.0, 1.0, 1.0], &mut one).unwrap().1.to_vec();
    assert_eq!(first, [0.375, 1.625]);
    assert_eq!(policy.act(&[1.0, 1.0, 1.0], &mut one).unwrap().1, [0.75, 3.25]);
    assert_eq!(policy.act(&[1.0, 1.0, 1.0], &mut other).unwrap().1, first);
    let error = policy.act(&[3e38, 3e38, 3e38], &mut one).unwrap_err();
    assert!(matches!(error, PolicyError::OutputNotFinite { .. }), "{error}");
    assert_eq!(policy.act(&[1.0, 1.0, 1.0], &mut one).unwrap().1, first);
}

/// The networks as they were written by hand before there were graphs.
mod by_hand {
    pub fn linear(weight: &[f32], bias: &[f32], x: &[f32]) -> Vec<f32> {
        let row = |o: usize| {
            (0..x.len()).fold(bias[o], |sum, i| if x[i] == 0.0 { sum } else { sum + x[i] * weight[o * x.len() + i] })
        };
        (0..bias.len()).map(row).collect()
    }

    pub fn rectify(x: Vec<f32>) -> Vec<f32> {
        x.into_iter().map(|x| x.max(0.0)).collect()
    }
}

#[test]
fn the_graph_of_accts_network_gives_the_same_bits_as_the_network_by_hand() {
    let parts = Parts::golden();
    let tensor = |name: &str| -> Vec<f32> {
        parts.tensors[name].data.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    let results: serde_json::Value = serde_json::from_str(RESULTS).unwrap();
    let policy = Policy::from_bytes(GOLDEN).unwrap();
    let mut scratch = policy.scratch();
    for observation in rows(&results, "observations") {
        let (offset, scale) = (tensor("normalisation.offset"), tensor("normalisation.scale"));
        let (low, high) = (tensor("normalisation.low"), tensor("normalisation.high"));
        let x: Vec<f32> = (0..66).map(|i| ((observation[i] - offset[i]) * scale[i]).max(low[i]).min(high[i])).collect();
        let mut features = Vec::new();
        for (series, range) in [
            ("throughput_ratio", 0..8),
            ("delay_ratio", 8..16),
            ("rtt_ratio", 16..24),
            ("zone", 24..56),
            ("window_ratio", 56..64),
        ] {
            let (weight, bias) = (tensor(&format!("conv.{series}.weight")), tensor(&format!("conv.{series}.bias")));
            features.extend(by_hand::linear(&weight, &bias, &x[range]));
        }
        let mut features = by_hand::rectify(features);
        features.extend_from_slice(&x[64..]);
        let hidden = by_hand::rectify(by_hand::linear(&tensor("hidden.weight"), &tensor("hidden.bias"), &features));
        let expected = by_hand::linear(&tensor("out.weight"), &tensor("out.bias"), &hidden);
        let found = policy.act(&observation, &mut scratch).unwrap().1;
        let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(found), bits(&expected));
    }
}

proptest! {
    #[test]
    fn damaged_files_are_refused_or_usable(at in 0..GOLDEN.len(), to: u8, observation in prop::array::uniform32(-1e6_f32..1e6)) {
        let mut bytes = GOLDEN.to_vec();
        bytes[at] = to;
        if let Ok(policy) = Policy::from_bytes(&bytes) {
            let observation: Vec<f32> = observation.iter().cycle().take(66).copied().collect();
            match policy.act(&observation, &mut policy.scratch()) {
                Ok((action, _)) => prop_assert!(action < 15),
                // A weight that has become huge.
                Err(error) => prop_assert!(matches!(error, PolicyError::OutputNotFinite { .. }), "{}", error),
            }
        }
    }
}

/// Numbers of any size.
fn any_size() -> impl Strategy<Value = f32> {
    (-1.0_f32..1.0, -40_i32..38).prop_map(|(x, exponent)| x * 10_f32.powi(exponent))
}

proptest! {
    /// Overflow checks and assertions are on in tests: what the range analysis lets through must not overflow.
    #[test]
    fn in_integers_no_weights_and_no_observation_overflow(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any_size()), 0..6),
        observation in prop::collection::vec(any_size(), 66),
    ) {
        let mut parts = Parts::golden();
        let names: Vec<String> = { let mut names: Vec<String> = parts.tensors.keys().cloned().collect(); names.sort(); names };
        for (tensor, index, value) in changes {
            let name = &names[tensor.index(names.len())];
            let length = parts.tensor(name).data.len() / 4;
            parts.set(name, index.index(length), value);
        }
        let Ok(policy) = Policy::from_bytes(&parts.bytes()) else { return Ok(()) };
        match policy.integer() {
            Ok(program) => prop_assert!(program.act(&observation, &mut program.memory()).unwrap().0 < 15),
            Err(error) => prop_assert!(error.to_string().starts_with("integer form of "), "{}", error),
        }
    }
}

#[test]
fn in_integers_the_golden_policy_does_the_same() {
    let results: serde_json::Value = serde_json::from_str(RESULTS).unwrap();
    let policy = Policy::from_bytes(GOLDEN).unwrap();
    let program = policy.integer().unwrap();
    let mut memory = program.memory();
    for (i, observation) in rows(&results, "observations").iter().enumerate() {
        let (action, _) = program.act(observation, &mut memory).unwrap();
        assert_eq!(u64::from(action), results["actions"][i].as_u64().unwrap(), "row {i}");
    }
    let error = program.act(&[0.0; 3], &mut memory).unwrap_err();
    assert_eq!(error, PolicyError::ObservationLength { found: 3, expected: 66 });
    let mut observation = vec![0.0; 66];
    observation[2] = f32::NAN;
    assert!(matches!(program.act(&observation, &mut memory), Err(PolicyError::ObservationNotFinite { index: 2, .. })));
}

/// A policy with a continuous action in -2..2: tanh of a hidden unit that looks at the newest of 70 values.
fn continuous() -> Parts {
    let tensor = |shape: &[usize], values: Vec<f32>| Tensor {
        dtype: Dtype::F32,
        shape: shape.to_vec(),
        data: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    };
    let mut weight = vec![0.0; 70];
    weight[9] = 1.0;
    let tensors = [
        ("0.weight", tensor(&[1, 70], weight)),
        ("0.bias", tensor(&[1], vec![0.0])),
        ("out.weight", tensor(&[1, 1], vec![-0.5])),
        ("out.bias", tensor(&[1], vec![0.1])),
        ("normalisation.offset", tensor(&[70], vec![0.0; 70])),
        ("normalisation.scale", tensor(&[70], vec![1.0; 70])),
        ("normalisation.low", tensor(&[70], vec![0.0; 70])),
        ("normalisation.high", tensor(&[70], vec![1.0; 70])),
    ];
    let graph = r#"{"input":70,"output":"action","nodes":[
        {"name":"h","op":"linear","inputs":["observation"],"weight":"0.weight","bias":"0.bias"},
        {"name":"r","op":"relu","inputs":["h"]},
        {"name":"o","op":"linear","inputs":["r"],"weight":"out.weight","bias":"out.bias"},
        {"name":"t","op":"tanh","inputs":["o"]},
        {"name":"action","op":"affine","inputs":["t"],"scale":3.0}]}"#;
    let metadata = Parts::golden()
        .with_metadata("actions", "[]")
        .with_metadata("bounds", "[-0.5,2.0]")
        .with_metadata("graph", graph)
        .metadata;
    Parts { metadata, tensors: tensors.map(|(name, tensor)| (name.to_string(), tensor)).into() }
}

#[test]
fn a_continuous_policy_acts_within_its_bounds() {
    let policy = Policy::from_bytes(&continuous().bytes()).unwrap();
    let mut scratch = policy.scratch();
    assert_eq!((&policy.trained().bounds[..], policy.outputs()), (&[(-0.5, 2.0)][..], 1));
    for (seen, output) in [(0.0, 0.1), (0.6, -0.2), (1.0, -0.4), (9.0, -0.4), (-1.0, 0.1_f32)] {
        let mut observation = [0.0; 70];
        observation[9] = seen;
        match policy.action(&observation, &mut scratch).unwrap() {
            Action::Continuous(a) => assert!(
                (a[0] - (3.0 * ccarena_cc::elementary::tanh_f32(output)).max(-0.5)).abs() < 1e-6,
                "{seen}: {a:?}"
            ),
            other => panic!("{other:?}"),
        }
    }
}
