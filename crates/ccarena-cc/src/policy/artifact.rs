//! The policy artifact: a safetensors file with `ccarena_format` 1.
//!
//! Tensors, all float32, with N entries in the observation: `normalisation.{offset,scale,low,high}[N]`, and
//! - `acct-conv`, with F filters, H hidden units, A actions: `{actor,critic}.conv.SERIES.{weight[F,C,8],bias[F]}`, `{actor,critic}.hidden.{weight[H,F*series+scalars],bias[H]}`,
//!   `actor.out.{weight[A,H],bias[A]}`, `critic.out.{weight[1,H],bias[1]}`;
//! - `mlp`, with hidden layers of H0, H1, ... units: `actor.K.{weight[HK,inputs],bias[HK]}`, `actor.out.{weight[1,H],bias[1]}`.
//!
//! Metadata, all text: `ccarena_format`, `architecture`, `observation`, `actions` (discrete ones; of continuous ones
//! `[low,high]`) and more that inference does not read.

use std::collections::HashMap;
use std::sync::Arc;

use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::Value;

use super::network::{Actor, Linear, Mlp, Tower};
use super::{Normalisation, Policy};
use crate::learned::{LearnedSpec, shipped};

/// The format that this reads.
const FORMAT: &str = "1";
/// Largest sizes that are taken for a policy.
const MAX_FILTERS: u64 = 1024;
const MAX_HIDDEN: u64 = 4096;
const MAX_LAYERS: usize = 8;

/// An observation that `acct-conv` takes: its series (name in the tensors, channels), each `HISTORY` long, then scalars.
struct Layout {
    series: &'static [(&'static str, usize)],
    scalars: usize,
}

const HISTORY: usize = 8;
const ACCT: Layout = Layout { series: &[("throughput", 1), ("delay", 1), ("zone", 4), ("window", 1)], scalars: 2 };

/// What can be observed: its name in artifacts, the shipped document that gives it, and the architecture of who does.
const OBSERVATIONS: &[(&str, &str, &str)] =
    &[("acct-1", "acct", "acct-conv"), ("hyvar-1", "hyvar", "mlp"), ("aurora-1", "aurora", "mlp")];

/// The name in artifacts of what `spec` observes; its digest if no artifact can.
#[must_use]
pub fn observation(spec: &LearnedSpec) -> String {
    let same = |name: &str| {
        shipped::find(name).is_some_and(|d| {
            let other = d.spec();
            (&other.observation, &other.actions, other.bounds) == (&spec.observation, &spec.actions, spec.bounds)
        })
    };
    let known = OBSERVATIONS.iter().find(|(_, document, _)| same(document));
    known.map_or_else(|| spec.digest.clone(), |(id, _, _)| (*id).to_string())
}

/// An artifact that cannot be used, or an observation that does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// Not a safetensors file, or a truncated one.
    #[error("not a policy artifact: truncated or no safetensors file ({reason}); expected a file that ccarena saved")]
    NotSafetensors {
        /// What the reader says.
        reason: String,
    },
    /// An entry of the metadata is missing or unusable.
    #[error("metadata `{key}` is {found}; expected {expected}")]
    Metadata {
        /// Its name.
        key: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// Another version of the format.
    #[error("format version {found:?}; expected \"{FORMAT}\": use the ccarena that wrote the file")]
    Version {
        /// What was found.
        found: String,
    },
    /// A tensor is missing.
    #[error("tensor {name:?} is missing; expected shape {expected:?}")]
    MissingTensor {
        /// Its name.
        name: String,
        /// Its shape.
        expected: Vec<usize>,
    },
    /// A tensor that no policy of this architecture has.
    #[error("unknown tensor {name:?}; a policy of this architecture has none of that name")]
    UnknownTensor {
        /// Its name.
        name: String,
    },
    /// A tensor of another shape than the architecture says.
    #[error("tensor {name:?} has shape {found:?}; expected {expected:?}")]
    Shape {
        /// Its name.
        name: String,
        /// What was found.
        found: Vec<usize>,
        /// What was expected.
        expected: Vec<usize>,
    },
    /// A tensor that is not float32.
    #[error("tensor {name:?} is {found}; expected F32")]
    Dtype {
        /// Its name.
        name: String,
        /// What was found.
        found: String,
    },
    /// A weight that is NaN or infinite.
    #[error("tensor {name:?} is {value} at index {index}; expected finite numbers")]
    NotFinite {
        /// Its name.
        name: String,
        /// Where, by rows.
        index: usize,
        /// What was found.
        value: f32,
    },
    /// A clipping range with nothing in it.
    #[error("normalisation of observation[{index}] clips to {low}..{high}; expected low <= high")]
    EmptyRange {
        /// The entry.
        index: usize,
        /// Its lower bound.
        low: f32,
        /// Its upper bound.
        high: f32,
    },
    /// An observation of another length.
    #[error("observation has {found} values; expected {expected}")]
    ObservationLength {
        /// What was given.
        found: usize,
        /// What the policy takes.
        expected: usize,
    },
    /// An observation that is NaN or infinite.
    #[error("observation[{index}] is {value}; expected a finite number")]
    ObservationNotFinite {
        /// The entry.
        index: usize,
        /// What was given.
        value: f32,
    },
    /// A value is asked of a policy that has an actor alone.
    #[error("the policy has no critic; expected one with discrete actions")]
    NoCritic,
    /// A batch whose buffers do not fit.
    #[error("{observations} observation values and room for {logits} logits; expected n x {width} and n x {actions}")]
    BatchLength {
        /// Length of the observations.
        observations: usize,
        /// Length of the buffer for logits.
        logits: usize,
        /// Values per observation.
        width: usize,
        /// Logits per observation.
        actions: usize,
    },
}

/// Reads and checks an artifact.
pub(super) fn read(bytes: &[u8]) -> Result<Policy, PolicyError> {
    let not_safetensors = |e: safetensors::SafeTensorError| PolicyError::NotSafetensors { reason: e.to_string() };
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_safetensors)?;
    let metadata = Metadata(header.metadata().clone().unwrap_or_default());
    let (spec, kind) = metadata.observation()?;
    let architecture = metadata.architecture(kind)?;

    let mut tensors = Tensors { file: SafeTensors::deserialize(bytes).map_err(not_safetensors)?, used: Vec::new() };
    let normalisation = tensors.normalisation(spec.observation_len)?;
    let (actor, critic) = if kind == "mlp" {
        (Actor::Mlp(tensors.mlp(&spec, &architecture)?), None)
    } else {
        let (filters, hidden) =
            (size(&architecture, "filters", MAX_FILTERS)?, size(&architecture, "hidden", MAX_HIDDEN)?);
        let actor = tensors.tower("actor", &ACCT, filters, hidden, spec.actions.len())?;
        (Actor::Conv(actor), Some(tensors.tower("critic", &ACCT, filters, hidden, 1)?))
    };
    tensors.refuse_unused()?;
    Ok(Policy { spec, normalisation, actor, critic, metadata: metadata.0 })
}

fn architecture_error(found: &Value, expected: String) -> PolicyError {
    PolicyError::Metadata { key: "architecture", found: found.to_string(), expected }
}

/// Entry `key` of an architecture.
fn size(architecture: &Value, key: &str, most: u64) -> Result<usize, PolicyError> {
    let value = architecture.get(key).and_then(Value::as_u64).filter(|n| (1..=most).contains(n));
    let expected = || format!("{key:?} to be from 1 to {most}");
    value.map(|n| n as usize).ok_or_else(|| architecture_error(architecture, expected()))
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

    /// Checks format, observation and actions; what it observes, and the architecture that goes with that.
    fn observation(&self) -> Result<(Arc<LearnedSpec>, &'static str), PolicyError> {
        let version = self.text("ccarena_format", FORMAT)?;
        if version != FORMAT {
            return Err(PolicyError::Version { found: version.into() });
        }
        let known = OBSERVATIONS.iter().map(|(id, _, _)| format!("{id:?}")).collect::<Vec<_>>().join(" or ");
        let id = self.text("observation", &known)?;
        let found = OBSERVATIONS.iter().find(|(known, _, _)| *known == id);
        let found = found.and_then(|(_, document, kind)| Some((Arc::clone(shipped::find(document)?.spec()), *kind)));
        let (spec, kind) = found.ok_or_else(|| PolicyError::Metadata {
            key: "observation",
            found: format!("{id:?}"),
            expected: known,
        })?;
        let actions = self.json("actions", "a JSON list of numbers")?;
        let bounds = [spec.bounds.0, spec.bounds.1];
        let expected = if spec.actions.is_empty() { &bounds[..] } else { &spec.actions[..] };
        let same = |a: &Vec<Value>| {
            a.len() == expected.len() && a.iter().zip(expected).all(|(a, b)| a.as_f64() == Some(f64::from(*b)))
        };
        if !actions.as_array().is_some_and(same) {
            let expected = format!("{expected:?}");
            return Err(PolicyError::Metadata { key: "actions", found: actions.to_string(), expected });
        }
        Ok((spec, kind))
    }

    fn architecture(&self, kind: &str) -> Result<Value, PolicyError> {
        let architecture = self.json("architecture", "a JSON object")?;
        if architecture.get("kind").and_then(Value::as_str) != Some(kind) {
            return Err(architecture_error(&architecture, format!("one whose \"kind\" is {kind:?}")));
        }
        Ok(architecture)
    }
}

struct Tensors<'a> {
    file: SafeTensors<'a>,
    used: Vec<String>,
}

impl Tensors<'_> {
    fn take(&mut self, name: String, shape: &[usize]) -> Result<Vec<f32>, PolicyError> {
        let Ok(tensor) = self.file.tensor(&name) else {
            return Err(PolicyError::MissingTensor { name, expected: shape.into() });
        };
        if tensor.dtype() != Dtype::F32 {
            return Err(PolicyError::Dtype { name, found: format!("{:?}", tensor.dtype()) });
        }
        if tensor.shape() != shape {
            return Err(PolicyError::Shape { name, found: tensor.shape().into(), expected: shape.into() });
        }
        let words = tensor.data().chunks_exact(4);
        let values: Vec<f32> = words.map(|w| f32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
        if let Some(index) = values.iter().position(|x| !x.is_finite()) {
            return Err(PolicyError::NotFinite { name, index, value: values[index] });
        }
        self.used.push(name);
        Ok(values)
    }

    fn linear(&mut self, name: &str, shape: &[usize]) -> Result<Linear, PolicyError> {
        let weight = self.take(format!("{name}.weight"), shape)?;
        let bias = self.take(format!("{name}.bias"), &shape[..1])?;
        Ok(Linear::new(&weight, bias, shape[1..].iter().product()))
    }

    fn tower(
        &mut self,
        name: &str,
        layout: &Layout,
        filters: usize,
        hidden: usize,
        outputs: usize,
    ) -> Result<Tower, PolicyError> {
        let mut convolutions = Vec::with_capacity(layout.series.len());
        for (series, channels) in layout.series {
            convolutions.push(self.linear(&format!("{name}.conv.{series}"), &[filters, *channels, HISTORY])?);
        }
        let features = filters * layout.series.len() + layout.scalars;
        Ok(Tower {
            convolutions,
            hidden: self.linear(&format!("{name}.hidden"), &[hidden, features])?,
            out: self.linear(&format!("{name}.out"), &[outputs, hidden])?,
        })
    }

    fn mlp(&mut self, spec: &LearnedSpec, architecture: &Value) -> Result<Mlp, PolicyError> {
        let error = |expected: String| architecture_error(architecture, expected);
        let sizes: Option<Vec<usize>> = architecture.get("hidden").and_then(Value::as_array).and_then(|layers| {
            let size = |n: &Value| n.as_u64().filter(|n| (1..=MAX_HIDDEN).contains(n)).map(|n| n as usize);
            layers.iter().map(size).collect()
        });
        let sizes = sizes.filter(|s| (1..=MAX_LAYERS).contains(&s.len())).ok_or_else(|| {
            error(format!("\"hidden\" to be 1 to {MAX_LAYERS} sizes of layers, each from 1 to {MAX_HIDDEN}"))
        })?;
        let squash = match architecture.get("output").and_then(Value::as_str) {
            Some("tanh") => true,
            Some("linear") => false,
            _ => return Err(error("\"output\" to be \"tanh\" or \"linear\"".into())),
        };
        let mut inputs = spec.observation_len;
        let mut hidden = Vec::with_capacity(sizes.len());
        for (k, units) in sizes.into_iter().enumerate() {
            hidden.push(self.linear(&format!("actor.{k}"), &[units, inputs])?);
            inputs = units;
        }
        Ok(Mlp { hidden, out: self.linear("actor.out", &[1, inputs])?, squash, bounds: spec.bounds })
    }

    fn normalisation(&mut self, width: usize) -> Result<Normalisation, PolicyError> {
        let mut take = |name| self.take(format!("normalisation.{name}"), &[width]);
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
        let mut unknown: Vec<_> = self.file.names().into_iter().filter(|n| !self.used.iter().any(|u| u == n)).collect();
        unknown.sort_unstable();
        unknown.first().map_or(Ok(()), |name| Err(PolicyError::UnknownTensor { name: (*name).to_string() }))
    }
}
