//! What is wrong with an artifact, or with what it is asked.

use crate::reader::DocumentError;

/// The format that is read.
pub(super) const FORMAT: &str = "2";

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
    /// Its spec is none that a controller could be built from.
    #[error("metadata `spec`: {source}")]
    Spec {
        /// What is wrong with it.
        source: Box<DocumentError>,
    },
    /// Another version of the format.
    #[error(
        "format version {found:?}; expected \"{FORMAT}\": train the policy again, or use the ccarena that wrote it"
    )]
    Version {
        /// What was found.
        found: String,
    },
    /// Weights other than those that were saved.
    #[error(
        "weights of SHA-256 {found:?}; expected {expected:?}, as the metadata says: the file was damaged or edited after \
         it was saved; copy it anew"
    )]
    Checksum {
        /// Of the weights.
        found: String,
        /// What the metadata says.
        expected: String,
    },
    /// A tensor is missing.
    #[error("tensor {name:?} is missing; the graph uses it")]
    MissingTensor {
        /// Its name.
        name: String,
    },
    /// The graph is not one, or does not fit the tensors, the observation or the actions.
    #[error("{place}: {found}; expected {expected}")]
    Graph {
        /// The graph, or the node in it.
        place: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A tensor that nothing uses.
    #[error("unknown tensor {name:?}; the graph uses none of that name")]
    UnknownTensor {
        /// Its name.
        name: String,
    },
    /// A tensor of another shape than its use asks for.
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
    /// Weights so large that a sum left float32's range.
    #[error("output {index} is {value} for this observation; expected a finite number: train with smaller weights")]
    OutputNotFinite {
        /// The output.
        index: usize,
        /// What it is.
        value: f32,
    },
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
