//! Inference for policy artifacts in float32: observation in, logits and the best action out.
//!
//! A [`Policy`] is read from a safetensors file's bytes ([`artifact`]), checked once and immutable afterwards. It is a
//! [`graph`] of operations; what a recurrent one remembers is in each flow's own [`Scratch`]. Results equal PyTorch's but
//! for rounding; on one machine and on any other they are the same bits, because every sum is taken in the order of its
//! inputs and no function is the platform's.

pub mod artifact;
pub mod error;
pub mod graph;
pub mod guard;
pub mod integer;
pub mod kernel;
mod kernels;
mod math;
pub mod observed;
mod plan;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

pub use self::error::PolicyError;
pub use self::graph::Graph;
pub use self::guard::Guard;
pub use self::observed::Observed;
use self::plan::Plan;
use crate::action::{Action, Numbers};
use crate::learned::Spec;

/// A trained policy: what it is for, a fixed normalisation and a network.
#[derive(Clone, Debug)]
pub struct Policy {
    trained: Trained,
    normalisation: Normalisation,
    observed: Option<Observed>,
    guard: Option<Guard>,
    graph: Graph,
    plan: Plan,
    metadata: std::collections::HashMap<String, String>,
    integer: OnceLock<Result<integer::Program, PolicyError>>,
}

/// Spec that a policy was trained for: it decides for flows of this spec alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// The learned scheme.
    pub spec: Arc<Spec>,
    /// Values of the spec's parameters in training.
    pub params: BTreeMap<String, f64>,
    /// Length of the observation.
    pub observation_len: usize,
    /// The discrete actions' values; empty if the action is continuous.
    pub actions: Vec<f32>,
    /// Bounds of each number of a continuous action; empty if actions are discrete.
    pub bounds: Vec<(f32, f32)>,
}

impl Trained {
    /// Outputs per observation: a logit for each action, or the numbers of a continuous action.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.actions.len().max(self.bounds.len())
    }
}

/// Memory of one flow: what acting works with, so that it allocates nothing, and what a recurrent policy remembers
/// ([`Policy::scratch`]).
#[derive(Clone, Debug)]
pub struct Scratch {
    buffer: Vec<f32>,
    state: Vec<f32>,
}

impl Scratch {
    /// Returns the policy's memory, zeros at first.
    pub fn state(&mut self) -> &mut [f32] {
        &mut self.state
    }
}

/// x' = clip((x - offset) * scale, low, high), by entry.
#[derive(Clone, Debug)]
struct Normalisation {
    offset: Vec<f32>,
    scale: Vec<f32>,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Policy {
    /// Reads and checks an artifact.
    ///
    /// # Errors
    /// [`PolicyError`] says what is wrong, what was expected and what was found.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PolicyError> {
        artifact::read(bytes)
    }

    /// Returns what it was trained for.
    #[must_use]
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// The range of observations that its training saw; none if the artifact does not say.
    #[must_use]
    pub fn observed(&self) -> Option<&Observed> {
        self.observed.as_ref()
    }

    /// The guard of its actions; none if the artifact has none.
    #[must_use]
    pub fn guard(&self) -> Option<&Guard> {
        self.guard.as_ref()
    }

    /// Returns whether an entry of the raw `observation` is clipped, or no number.
    #[must_use]
    pub fn clips(&self, observation: &[f32]) -> bool {
        self.normalisation.clips(observation)
    }

    /// The network, from the normalised observation on.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The artifact's metadata by name, as text (`training`, `seed`, `versions`, `evaluation`...).
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Returns its integer form, made at the first call.
    ///
    /// # Errors
    ///
    /// As [`integer::Program::of`].
    pub fn integer(&self) -> Result<&integer::Program, PolicyError> {
        self.integer.get_or_init(|| integer::Program::of(self)).as_ref().map_err(Clone::clone)
    }

    /// Memory for a new flow.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        let (buffer, state) = self.plan.sizes();
        Scratch { buffer: vec![0.0; buffer], state: vec![0.0; state] }
    }

    /// See [`Trained::outputs`].
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.trained.outputs()
    }

    /// Returns its action.
    ///
    /// # Errors
    ///
    /// As [`act`](Self::act).
    pub fn action(&self, observation: &[f32], scratch: &mut Scratch) -> Result<Action, PolicyError> {
        let (best, outputs) = self.act(observation, scratch)?;
        Ok(if self.trained.actions.is_empty() {
            Action::Continuous(Numbers::of(outputs))
        } else {
            Action::Discrete(best)
        })
    }

    /// The index of the largest output (of equal ones the first), and all outputs, `[outputs]`.
    ///
    /// # Errors
    /// If `observation` is not of the policy's length or has a value that is not finite, or if an output is not finite;
    /// what a recurrent policy remembers then starts over.
    pub fn act<'s>(&self, observation: &[f32], scratch: &'s mut Scratch) -> Result<(u32, &'s [f32]), PolicyError> {
        let outputs = self.answer(observation, scratch)?;
        for (output, (low, high)) in outputs.iter_mut().zip(&self.trained.bounds) {
            *output = output.clamp(*low, *high);
        }
        Ok((argmax(outputs), outputs))
    }

    /// All outputs, `[outputs]`, as the network gives them: a continuous action may be outside of its bounds.
    ///
    /// # Errors
    /// As [`act`](Self::act).
    pub fn answer<'s>(&self, observation: &[f32], scratch: &'s mut Scratch) -> Result<&'s mut [f32], PolicyError> {
        let Scratch { buffer, state } = scratch;
        self.normalisation.apply(observation, &mut buffer[self.plan.input()])?;
        self.plan.run(buffer, state);
        let outputs = &mut buffer[self.plan.output()];
        if let Some(index) = outputs.iter().chain(&*state).position(|x| !x.is_finite()) {
            let value = *outputs.get(index).unwrap_or(&f32::NAN);
            state.fill(0.0);
            return Err(PolicyError::OutputNotFinite { index, value });
        }
        Ok(outputs)
    }

    /// The same policy with other weights: those of the graph's tensors that `weights` has, by name.
    ///
    /// # Errors
    /// If one has not as many numbers as its tensor, or one that is not finite.
    pub fn with_weights(&self, weights: &BTreeMap<String, Vec<f32>>) -> Result<Self, PolicyError> {
        let mut graph = self.graph.clone();
        for tensor in &mut graph.tensors {
            let Some(data) = weights.get(&tensor.name) else { continue };
            let name = tensor.name.clone();
            if data.len() != tensor.data.len() {
                return Err(PolicyError::Shape { name, found: vec![data.len()], expected: tensor.shape.clone() });
            }
            if let Some(index) = data.iter().position(|x| !x.is_finite()) {
                return Err(PolicyError::NotFinite { name, index, value: data[index] });
            }
            tensor.data.clone_from(data);
        }
        let plan = Plan::new(&graph);
        Ok(Self { graph, plan, integer: OnceLock::new(), ..self.clone() })
    }

    /// Outputs `[n, outputs]` of `observations` `[n, observation_len]`, both row by row.
    ///
    /// # Errors
    /// If the lengths do not fit each other and the policy, or as [`act`](Self::act); `out` is then unspecified.
    pub fn logits(&self, observations: &[f32], out: &mut [f32], scratch: &mut Scratch) -> Result<(), PolicyError> {
        let (width, actions) = (self.trained.observation_len, self.outputs());
        let rows = observations.len() / width;
        if observations.len() % width != 0 || out.len() != rows * actions {
            let (observations, logits) = (observations.len(), out.len());
            return Err(PolicyError::BatchLength { observations, logits, width, actions });
        }
        for (observation, row) in observations.chunks_exact(width).zip(out.chunks_exact_mut(actions)) {
            row.copy_from_slice(self.act(observation, scratch)?.1);
        }
        Ok(())
    }
}

impl Normalisation {
    fn apply(&self, observation: &[f32], out: &mut [f32]) -> Result<(), PolicyError> {
        if observation.len() != self.offset.len() {
            return Err(PolicyError::ObservationLength { found: observation.len(), expected: self.offset.len() });
        }
        if let Some(index) = observation.iter().position(|x| !x.is_finite()) {
            return Err(PolicyError::ObservationNotFinite { index, value: observation[index] });
        }
        let ranges = self.low.iter().zip(&self.high);
        let scaled = observation.iter().zip(&self.offset).zip(&self.scale).map(|((x, offset), s)| (x - offset) * s);
        for ((x, (&low, &high)), out) in scaled.zip(ranges).zip(out) {
            *out = x.max(low).min(high);
        }
        Ok(())
    }
}

impl Normalisation {
    fn clips(&self, observation: &[f32]) -> bool {
        let ranges = self.low.iter().zip(&self.high);
        let scaled = observation.iter().zip(&self.offset).zip(&self.scale).map(|((x, offset), s)| (x - offset) * s);
        !scaled.zip(ranges).all(|(x, (low, high))| x >= *low && x <= *high)
    }
}

fn argmax(values: &[f32]) -> u32 {
    let mut best = 0;
    for (i, x) in values.iter().enumerate() {
        if *x > values[best] {
            best = i;
        }
    }
    best as u32
}
