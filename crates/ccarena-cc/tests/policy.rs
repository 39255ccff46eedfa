//! Policy artifacts: PyTorch's results reproduced, and every fault refused by name.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::collections::HashMap;

use ccarena_cc::Action;
use ccarena_cc::policy::{Policy, PolicyError};
use proptest::prelude::*;
use safetensors::tensor::{Dtype, SafeTensors, TensorView};

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
        let value = policy.value(observation, &mut scratch).unwrap();
        assert!((f64::from(value) - results["values"][i].as_f64().unwrap()).abs() < 1e-5);
    }
    let mut batch = vec![0.0; logits.len() * 15];
    policy.logits(&observations.concat(), &mut batch, &mut scratch).unwrap();
    for (i, observation) in observations.iter().enumerate() {
        assert_eq!(policy.act(observation, &mut scratch).unwrap().1, &batch[15 * i..15 * (i + 1)]);
    }
    assert_eq!(policy.metadata("seed"), Some("7"));
    assert_eq!(policy.spec().name, "acct");
}

#[test]
fn observations_that_do_not_fit_are_refused() {
    let policy = Policy::from_bytes(GOLDEN).unwrap();
    let mut scratch = policy.scratch();
    let error = policy.act(&[0.0; 57], &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "observation has 57 values; expected 58");
    let mut observation = [0.0; 58];
    observation[3] = f32::NAN;
    let error = policy.act(&observation, &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "observation[3] is NaN; expected a finite number");
    let error = policy.logits(&[0.0; 116], &mut [0.0; 15], &mut scratch).unwrap_err();
    assert_eq!(error.to_string(), "116 observation values and room for 15 logits; expected n x 58 and n x 15");
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
    assert_eq!(parts.error().to_string(), "metadata `ccarena_format` is missing; expected 1");

    let error = Parts::golden().with_metadata("ccarena_format", "2").error();
    assert_eq!(error, PolicyError::Version { found: "2".into() });
    assert!(error.to_string().contains(r#"format version "2"; expected "1""#), "{error}");

    let error = Parts::golden().with_metadata("observation", "acct-9").error();
    assert_eq!(
        error.to_string(),
        r#"metadata `observation` is "acct-9"; expected "acct-1" or "hyvar-1" or "aurora-1""#
    );

    let error = Parts::golden().with_metadata("actions", "[1,2]").error().to_string();
    assert!(error.starts_with("metadata `actions` is [1,2]; expected [1.0, 2.0, 3.0"), "{error}");

    for (architecture, expected) in [
        ("{", "a JSON object"),
        (r#"{"kind":"mlp"}"#, "acct-conv"),
        (r#"{"kind":"acct-conv","hidden":12}"#, "\"filters\" to be from 1 to 1024"),
        (r#"{"kind":"acct-conv","filters":3,"hidden":0}"#, "\"hidden\" to be from 1 to 4096"),
        (r#"{"kind":"acct-conv","filters":3.5,"hidden":12}"#, "\"filters\" to be"),
    ] {
        let error = Parts::golden().with_metadata("architecture", architecture).error().to_string();
        assert!(error.starts_with("metadata `architecture` is ") && error.contains(expected), "{error}");
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let mut parts = Parts::golden();
    parts.tensors.remove("critic.hidden.bias");
    assert_eq!(parts.error().to_string(), r#"tensor "critic.hidden.bias" is missing; expected shape [12]"#);

    let mut parts = Parts::golden();
    let extra = parts.tensor("actor.out.bias").clone();
    parts.tensors.insert("actor.extra".into(), extra);
    assert_eq!(parts.error(), PolicyError::UnknownTensor { name: "actor.extra".into() });

    let mut parts = Parts::golden();
    parts.tensor("actor.conv.zone.weight").shape = vec![3, 8, 4];
    let error = parts.error().to_string();
    assert_eq!(error, r#"tensor "actor.conv.zone.weight" has shape [3, 8, 4]; expected [3, 4, 8]"#);

    let mut parts = Parts::golden();
    parts.tensor("actor.out.bias").dtype = Dtype::I32;
    assert_eq!(parts.error().to_string(), r#"tensor "actor.out.bias" is I32; expected F32"#);

    for (value, text) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let mut parts = Parts::golden();
        parts.set("actor.out.weight", 17, value);
        let expected = format!(r#"tensor "actor.out.weight" is {text} at index 17; expected finite numbers"#);
        assert_eq!(parts.error().to_string(), expected);
    }

    let mut parts = Parts::golden();
    parts.set("normalisation.low", 2, 9.0);
    let error = parts.error().to_string();
    assert_eq!(error, "normalisation of observation[2] clips to 9..4; expected low <= high");
}

proptest! {
    #[test]
    fn damaged_files_are_refused_or_usable(at in 0..GOLDEN.len(), to: u8, observation in prop::array::uniform32(-1e6_f32..1e6)) {
        let mut bytes = GOLDEN.to_vec();
        bytes[at] = to;
        if let Ok(policy) = Policy::from_bytes(&bytes) {
            let observation: Vec<f32> = observation.iter().cycle().take(58).copied().collect();
            let (action, _) = policy.act(&observation, &mut policy.scratch()).unwrap();
            prop_assert!(action < 15);
        }
    }
}

/// A policy for Hyvar: one hidden unit that looks at the newest throughput ratio, then tanh.
fn mlp(architecture: &str) -> Parts {
    let spec = std::sync::Arc::clone(ccarena_cc::learned::shipped::find("hyvar").unwrap().spec());
    let n = spec.observation_len;
    let tensor = |shape: &[usize], values: Vec<f32>| Tensor {
        dtype: Dtype::F32,
        shape: shape.to_vec(),
        data: values.iter().flat_map(|x| x.to_le_bytes()).collect(),
    };
    let mut weight = vec![0.0; n];
    weight[9] = 1.0;
    let tensors = [
        ("actor.0.weight", tensor(&[1, n], weight)),
        ("actor.0.bias", tensor(&[1], vec![0.0])),
        ("actor.out.weight", tensor(&[1, 1], vec![-0.5])),
        ("actor.out.bias", tensor(&[1], vec![0.1])),
        ("normalisation.offset", tensor(&[n], vec![0.0; n])),
        ("normalisation.scale", tensor(&[n], vec![1.0; n])),
        ("normalisation.low", tensor(&[n], vec![0.0; n])),
        ("normalisation.high", tensor(&[n], vec![1.0; n])),
    ];
    let metadata = [
        ("ccarena_format", "1"),
        ("observation", "hyvar-1"),
        ("actions", "[-2.0,2.0]"),
        ("architecture", architecture),
    ];
    Parts {
        metadata: metadata.map(|(k, v)| (k.to_string(), v.to_string())).into(),
        tensors: tensors.map(|(name, tensor)| (name.to_string(), tensor)).into(),
    }
}

const TANH: &str = r#"{"kind":"mlp","hidden":[1],"output":"tanh"}"#;

#[test]
fn a_continuous_policy_acts_within_its_bounds() {
    let policy = Policy::from_bytes(&mlp(TANH).bytes()).unwrap();
    let mut scratch = policy.scratch();
    assert_eq!((policy.spec().name.as_str(), policy.outputs()), ("hyvar", 1));
    for (seen, output) in [(0.0, 0.1), (0.6, -0.2), (1.0, -0.4), (9.0, -0.4), (-1.0, 0.1_f32)] {
        let mut observation = [0.0; 70];
        observation[9] = seen;
        match policy.action(&observation, &mut scratch).unwrap() {
            Action::Continuous(a) => assert!((a - 2.0 * output.tanh()).abs() < 1e-6, "{seen}: {a}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(policy.value(&[0.0; 70], &mut scratch), Err(PolicyError::NoCritic));
}

#[test]
fn a_continuous_policy_that_does_not_fit_is_refused() {
    for (architecture, expected) in [
        (r#"{"kind":"acct-conv","filters":3,"hidden":12}"#, "one whose \"kind\" is \"mlp\""),
        (r#"{"kind":"mlp","hidden":[],"output":"tanh"}"#, "\"hidden\" to be 1 to 8 sizes"),
        (r#"{"kind":"mlp","hidden":[1],"output":"relu"}"#, "\"output\" to be \"tanh\" or \"linear\""),
    ] {
        let error = mlp(architecture).error().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let error = mlp(TANH).with_metadata("actions", "[-1,1]").error().to_string();
    assert_eq!(error, "metadata `actions` is [-1,1]; expected [-2.0, 2.0]");
    let error = mlp(r#"{"kind":"mlp","hidden":[1,2],"output":"tanh"}"#).error().to_string();
    assert_eq!(error, r#"tensor "actor.1.weight" is missing; expected shape [2, 1]"#);
}
