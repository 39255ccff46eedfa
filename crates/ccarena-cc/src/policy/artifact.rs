//! The policy artifact: a safetensors file with `ccarena_format` 2 (`docs/artifact.md`).
//!
//! Tensors, all float32, with N entries in the observation: `normalisation.{offset,scale,low,high}[N]`, and those that the
//! graph names. Metadata, all text: `ccarena_format`, `spec` and its `digest`, `params`, `graph`, `actions` (discrete
//! ones) or `bounds` (of a continuous one), and `weights_sha256`. Optional are `observed` (what training saw) and `guard`.
//! Inference reads no other metadata.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::error::{FORMAT, PolicyError};
use super::graph::{Graph, Tensor, Tensors};
use super::guard::Guard;
use super::observed::Observed;
use super::plan::Plan;
use super::{Normalisation, Policy, Trained};
use crate::learned::Spec;

/// Most actions that a policy chooses from.
const MAX_ACTIONS: usize = 4096;

/// Reads and checks an artifact.
pub(super) fn read(bytes: &[u8]) -> Result<Policy, PolicyError> {
    let not_safetensors =
        |e: safetensors::SafeTensorError| PolicyError::NotSafetensors { bytes: bytes.len(), reason: e.to_string() };
    let (header_len, header) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
    let metadata = Metadata(header.metadata().clone().unwrap_or_default());
    let version = metadata.text("ccarena_format", FORMAT)?;
    if version != FORMAT {
        return Err(PolicyError::Version { found: version.into() });
    }
    let file = File { file: SafeTensors::deserialize(bytes).map_err(not_safetensors)?, used: RefCell::default() };
    metadata.check_weights(bytes.get(8 + header_len..).unwrap_or_default())?;
    let graph = Graph::parse(metadata.text("graph", "the JSON of a graph")?, &file)?;
    let trained = metadata.trained(graph.shape(0)[0])?;
    let (found, outputs) = (graph.shape(graph.output), trained.outputs());
    if found != [outputs] {
        let found = format!("output {:?} of shape {found:?}", graph.values[graph.output].name);
        let expected =
            format!("[{outputs}], one for each of the discrete actions, or for each number of a continuous one");
        return Err(PolicyError::Graph { place: "graph".into(), found, expected });
    }
    let normalisation = file.normalisation(trained.observation_len)?;
    file.refuse_unused()?;
    let observed = metadata.0.get("observed").map(|text| Observed::parse(text, &normalisation)).transpose()?;
    let Trained { observation_len, actions, bounds, .. } = &trained;
    let guard =
        metadata.0.get("guard").map(|text| Guard::parse(text, *observation_len, actions, bounds)).transpose()?;
    Ok(Policy {
        trained,
        normalisation,
        observed,
        guard,
        plan: Plan::new(&graph),
        graph,
        metadata: metadata.0,
        integer: OnceLock::new(),
    })
}

struct Metadata(HashMap<String, String>);

impl Metadata {
    fn text(&self, key: &'static str, expected: &str) -> Result<&str, PolicyError> {
        let missing = || PolicyError::Metadata { key, found: "missing".into(), expected: expected.into() };
        self.0.get(key).map(String::as_str).ok_or_else(missing)
    }

    fn json(&self, key: &'static str, expected: &str) -> Result<Value, PolicyError> {
        let text = self.text(key, expected)?;
        serde_json::from_str(text).map_err(|e| PolicyError::Metadata {
            key,
            found: format!("no JSON ({e})"),
            expected: expected.into(),
        })
    }

    fn numbers(&self, key: &'static str, expected: &str) -> Result<Vec<f32>, PolicyError> {
        let json = self.json(key, expected)?;
        let number = |v: &Value| v.as_f64().map(|x| x as f32).filter(|x| x.is_finite());
        let numbers: Option<Vec<f32>> = json.as_array().and_then(|list| list.iter().map(number).collect());
        let error = || PolicyError::Metadata { key, found: super::graph::short(&json), expected: expected.into() };
        numbers.ok_or_else(error)
    }

    /// Refuses `weights`, all bytes after the header, if they are not those that were saved. An older file does not say.
    fn check_weights(&self, weights: &[u8]) -> Result<(), PolicyError> {
        let Some(expected) = self.0.get("weights_sha256") else { return Ok(()) };
        let found = format!("{:x}", Sha256::digest(weights));
        if found != *expected {
            return Err(PolicyError::Checksum { found, expected: expected.clone() });
        }
        Ok(())
    }

    /// Returns what the policy was trained for.
    fn trained(&self, observation_len: usize) -> Result<Trained, PolicyError> {
        let spec = Spec::parse(self.text("spec", "the spec of a learned scheme")?)
            .map_err(|source| PolicyError::Spec { source: Box::new(source) })?;
        let digest = self.text("digest", "the spec's digest")?;
        if digest != spec.interface().digest {
            let expected = format!(
                "{:?}, the digest of the spec in it: the file was edited, or its spec means something else in this \
                 version of ccarena, for which the policy has to be trained again",
                spec.interface().digest
            );
            return Err(PolicyError::Metadata { key: "digest", found: format!("{digest:?}"), expected });
        }
        let expected = "a JSON object of numbers";
        let params = self.json("params", expected)?;
        let number = |(name, value): (&String, &Value)| Some((name.clone(), value.as_f64()?));
        let params = params.as_object().and_then(|map| map.iter().map(number).collect()).ok_or_else(|| {
            PolicyError::Metadata { key: "params", found: super::graph::short(&params), expected: expected.into() }
        })?;
        let expected = format!("a JSON list of at most {MAX_ACTIONS} finite numbers, empty for a continuous action");
        let actions = self.numbers("actions", &expected)?;
        if actions.len() > MAX_ACTIONS {
            return Err(PolicyError::Metadata {
                key: "actions",
                found: format!("{} numbers", actions.len()),
                expected,
            });
        }
        let bounds = self.bounds(spec.interface().width(), actions.is_empty())?;
        Ok(Trained { spec: Arc::new(spec), params, observation_len, actions, bounds })
    }
}

impl Metadata {
    /// Bounds of a continuous action of `width` numbers; none of discrete ones.
    fn bounds(&self, width: usize, is_continuous: bool) -> Result<Vec<(f32, f32)>, PolicyError> {
        let key = "bounds";
        let expected = match width {
            1 => "[low, high] with low < high; [] for discrete actions".into(),
            _ => format!("a list of {width} times [low, high] with low < high; [] for discrete actions"),
        };
        let json = self.json(key, &expected)?;
        let pair = |value: &Value| {
            let [low, high] = &value.as_array()?[..] else { return None };
            let (low, high) = (low.as_f64()? as f32, high.as_f64()? as f32);
            (low.is_finite() && high.is_finite() && low < high).then_some((low, high))
        };
        let items = json.as_array().map_or(&[][..], |items| &items[..]);
        let bounds = match (is_continuous, width) {
            (false, _) if json.is_array() && items.is_empty() => Some(Vec::new()),
            (true, 1) => pair(&json).map(|pair| vec![pair]),
            (true, _) if items.len() == width => items.iter().map(pair).collect(),
            _ => None,
        };
        bounds.ok_or_else(|| PolicyError::Metadata { key, found: super::graph::short(&json), expected })
    }
}

struct File<'a> {
    file: SafeTensors<'a>,
    used: RefCell<HashSet<String>>,
}

impl Tensors for File<'_> {
    fn read(&self, name: &str) -> Result<Tensor, PolicyError> {
        let name = name.to_string();
        let Ok(tensor) = self.file.tensor(&name) else { return Err(PolicyError::MissingTensor { name }) };
        if tensor.dtype() != Dtype::F32 {
            return Err(PolicyError::Dtype { name, found: format!("{:?}", tensor.dtype()) });
        }
        let words = tensor.data().chunks_exact(4);
        let data: Vec<f32> = words.map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        if let Some(index) = data.iter().position(|x| !x.is_finite()) {
            return Err(PolicyError::NotFinite { name, index, value: data[index] });
        }
        self.used.borrow_mut().insert(name.clone());
        Ok(Tensor { name, shape: tensor.shape().to_vec(), data })
    }
}

impl File<'_> {
    fn normalisation(&self, width: usize) -> Result<Normalisation, PolicyError> {
        let take = |name: &str| {
            let Tensor { name, shape, data } = self.read(&format!("normalisation.{name}"))?;
            if shape != [width] {
                return Err(PolicyError::Shape { name, found: shape, expected: vec![width] });
            }
            Ok(data)
        };
        let normalisation =
            Normalisation { offset: take("offset")?, scale: take("scale")?, low: take("low")?, high: take("high")? };
        let mut ranges = normalisation.low.iter().zip(&normalisation.high);
        if let Some(index) = ranges.position(|(low, high)| low > high) {
            let (low, high) = (normalisation.low[index], normalisation.high[index]);
            return Err(PolicyError::EmptyRange { index, low, high });
        }
        Ok(normalisation)
    }

    fn refuse_unused(&self) -> Result<(), PolicyError> {
        let used = self.used.borrow();
        let unknown = self.file.names().into_iter().filter(|name| !used.contains(*name)).min();
        unknown.map_or(Ok(()), |name| Err(PolicyError::UnknownTensor { name: name.to_string() }))
    }
}
