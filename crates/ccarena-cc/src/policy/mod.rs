//! Inference for policy artifacts in float32: observation in, logits and the best action out.
//!
//! A [`Policy`] is read from a safetensors file's bytes ([`artifact`]), checked once and immutable afterwards. Results
//! equal PyTorch's but for the order of summation; on one machine and on any other they are the same bits, because every
//! sum is taken in the order of its inputs.

pub mod artifact;
mod network;

use std::sync::Arc;

pub use self::artifact::PolicyError;
use self::network::{Actor, Tower};
use crate::controller::Action;
use crate::learned::LearnedSpec;

/// A trained policy: fixed normalisation, an actor and, with discrete actions, a critic.
#[derive(Clone, Debug)]
pub struct Policy {
    spec: Arc<LearnedSpec>,
    normalisation: Normalisation,
    actor: Actor,
    critic: Option<Tower>,
    metadata: std::collections::HashMap<String, String>,
}

/// Working memory of one caller, so that acting allocates nothing ([`Policy::scratch`]).
#[derive(Clone, Debug, Default)]
pub struct Scratch {
    input: Vec<f32>,
    features: Vec<f32>,
    hidden: Vec<f32>,
    output: Vec<f32>,
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

    /// What it observes and how it acts.
    #[must_use]
    pub fn spec(&self) -> &Arc<LearnedSpec> {
        &self.spec
    }

    /// The artifact's metadata by name, as text (`training`, `seed`, `versions`, `evaluation`...).
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Working memory of the right size.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        let mut scratch = Scratch::default();
        // Every buffer then has the size that it needs. Zeros fit any policy.
        let _ = self.act(&vec![0.0; self.spec.observation_len], &mut scratch);
        scratch
    }

    /// Outputs per observation: a logit for each action, or a continuous action itself.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.spec.actions.len().max(1)
    }

    /// What it does.
    ///
    /// # Errors
    /// As [`act`](Self::act).
    pub fn action(&self, observation: &[f32], scratch: &mut Scratch) -> Result<Action, PolicyError> {
        let (best, outputs) = self.act(observation, scratch)?;
        Ok(if self.spec.actions.is_empty() { Action::Continuous(outputs[0]) } else { Action::Discrete(best) })
    }

    /// The index of the largest output (of equal ones the first), and all outputs, `[outputs]`.
    ///
    /// # Errors
    /// If `observation` is not of the policy's length or has a value that is not finite.
    pub fn act<'s>(&self, observation: &[f32], scratch: &'s mut Scratch) -> Result<(u32, &'s [f32]), PolicyError> {
        self.normalisation.apply(observation, &mut scratch.input)?;
        let Scratch { input, features, hidden, output } = scratch;
        self.actor.forward(input, features, hidden, output);
        Ok((argmax(output), output))
    }

    /// Outputs `[n, outputs]` of `observations` `[n, observation_len]`, both row by row.
    ///
    /// # Errors
    /// If the lengths do not fit each other and the policy, or an observation is not finite; `out` is then unspecified.
    pub fn logits(&self, observations: &[f32], out: &mut [f32], scratch: &mut Scratch) -> Result<(), PolicyError> {
        let (width, actions) = (self.spec.observation_len, self.outputs());
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

    /// The critic's estimate of the return from `observation` on, in scaled rewards.
    ///
    /// # Errors
    /// As [`act`](Self::act), or if it has no critic.
    pub fn value(&self, observation: &[f32], scratch: &mut Scratch) -> Result<f32, PolicyError> {
        let critic = self.critic.as_ref().ok_or(PolicyError::NoCritic)?;
        self.normalisation.apply(observation, &mut scratch.input)?;
        critic.forward(&scratch.input, &mut scratch.features, &mut scratch.hidden, &mut scratch.output);
        Ok(scratch.output[0])
    }
}

impl Normalisation {
    fn apply(&self, observation: &[f32], out: &mut Vec<f32>) -> Result<(), PolicyError> {
        if observation.len() != self.offset.len() {
            return Err(PolicyError::ObservationLength { found: observation.len(), expected: self.offset.len() });
        }
        if let Some(index) = observation.iter().position(|x| !x.is_finite()) {
            return Err(PolicyError::ObservationNotFinite { index, value: observation[index] });
        }
        let ranges = self.low.iter().zip(&self.high);
        let scaled = observation.iter().zip(&self.offset).zip(&self.scale).map(|((x, offset), s)| (x - offset) * s);
        out.clear();
        out.extend(scaled.zip(ranges).map(|(x, (&low, &high))| x.max(low).min(high)));
        Ok(())
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
