//! Policies of specs that have none yet: a network of one layer.

use ccarena_cc::learned::Spec;
use ccarena_cc::policy::Policy;
use serde_json::{Map, Value, json};

/// The policy of the spec `text` with weights that `seed` draws, and the metadata `guard` unless it is null.
pub fn untrained(text: &str, seed: u64, guard: &Value) -> Policy {
    let spec = Spec::parse(text).unwrap();
    let interface = spec.interface();
    let inputs = interface.observation_len;
    let outputs = if interface.actions.is_empty() { interface.bounds.len() } else { interface.actions.len() };
    let mut random = seed;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let (mut offset, mut scale, mut low, mut high) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for entry in &interface.observation {
        let length = entry.length;
        offset.extend(vec![entry.offset as f32; length]);
        scale.extend(vec![entry.scale as f32; length]);
        low.extend(vec![entry.clip.0 as f32; length]);
        high.extend(vec![entry.clip.1 as f32; length]);
    }
    let tensors = [
        ("normalisation.offset", vec![inputs], offset),
        ("normalisation.scale", vec![inputs], scale),
        ("normalisation.low", vec![inputs], low),
        ("normalisation.high", vec![inputs], high),
        ("out.weight", vec![outputs, inputs], (0..outputs * inputs).map(|_| draw() / 4.0).collect()),
        ("out.bias", vec![outputs], (0..outputs).map(|_| draw()).collect()),
    ];
    let out =
        json!({"name": "out", "op": "linear", "inputs": ["observation"], "weight": "out.weight", "bias": "out.bias"});
    let bounds = match &interface.bounds[..] {
        _ if !interface.actions.is_empty() => json!([]),
        [(low, high)] => json!([low, high]),
        several => json!(several),
    };
    let text = |value: Value| Value::String(value.to_string());
    let mut metadata = json!({
        "ccarena_format": "2",
        "spec": spec.canonical(),
        "digest": interface.digest,
        "params": text(json!({})),
        "graph": text(json!({"input": inputs, "nodes": [out], "output": "out"})),
        "actions": text(json!(interface.actions)),
        "bounds": text(bounds),
    });
    if !guard.is_null() {
        metadata["guard"] = text(guard.clone());
    }
    let mut header = Map::from_iter([("__metadata__".to_string(), metadata)]);
    let mut data: Vec<u8> = Vec::new();
    for (name, shape, numbers) in &tensors {
        let begin = data.len();
        data.extend(numbers.iter().flat_map(|x| x.to_le_bytes()));
        header.insert((*name).into(), json!({"dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()]}));
    }
    let header = Value::Object(header).to_string();
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data[..]].concat();
    Policy::from_bytes(&bytes).unwrap()
}
