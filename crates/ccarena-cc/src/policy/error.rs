//! Errors of an artifact, or of a call to a policy.

use crate::reader::DocumentError;

/// The format that is read.
pub(super) const FORMAT: &str = "2";

/// An artifact that cannot be used, or an observation that does not fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PolicyError {
    /// The file is no safetensors file, or a truncated one.
    #[error(
        "not a policy artifact: truncated or no safetensors file ({reason}; it has {bytes} bytes); copy it anew from where \
         ccarena saved it"
    )]
    NotSafetensors {
        /// Length.
        bytes: usize,
        /// Message of the reader.
        reason: String,
    },
    /// An entry of the metadata is missing or unusable.
    #[error("metadata `{key}` is {found}; expected {expected}")]
    Metadata {
        /// Name of the entry.
        key: &'static str,
        /// Value that was found.
        found: String,
        /// Value that was expected.
        expected: String,
    },
    /// No controller can be built from its spec.
    #[error("metadata `spec`: {source}")]
    Spec {
        /// Fault of the spec.
        source: Box<DocumentError>,
    },
    /// Another version of the format.
    #[error(
        "format version {found:?}; expected \"{FORMAT}\": train the policy again, or use the ccarena that wrote it"
    )]
    Version {
        /// Value that was found.
        found: String,
    },
    /// Weights other than those that were saved.
    #[error(
        "weights of SHA-256 {found:?}; expected {expected:?}, as the metadata says: the file was damaged or edited after \
         it was saved; copy it anew"
    )]
    Checksum {
        /// Digest of the weights.
        found: String,
        /// Digest in the metadata.
        expected: String,
    },
    /// A tensor is missing.
    #[error("tensor {name:?} is missing; the graph uses it")]
    MissingTensor {
        /// Name of the tensor.
        name: String,
    },
    /// The graph is not one, or does not fit the tensors, the observation or the actions.
    #[error("{place}: {found}; expected {expected}")]
    Graph {
        /// The graph, or the node in it.
        place: String,
        /// Value that was found.
        found: String,
        /// Value that was expected.
        expected: String,
    },
    /// A tensor that nothing uses.
    #[error("unknown tensor {name:?}; the graph uses none of that name")]
    UnknownTensor {
        /// Name of the tensor.
        name: String,
    },
    /// A tensor of another shape than its use asks for.
    #[error("tensor {name:?} has shape {found:?}; expected {expected:?}")]
    Shape {
        /// Name of the tensor.
        name: String,
        /// Shape that was found.
        found: Vec<usize>,
        /// Shape that was expected.
        expected: Vec<usize>,
    },
    /// A tensor that is not float32.
    #[error("tensor {name:?} is {found}; expected F32")]
    Dtype {
        /// Name of the tensor.
        name: String,
        /// Value that was found.
        found: String,
    },
    /// A weight that is NaN or infinite.
    #[error("tensor {name:?} is {value} at index {index}; expected finite numbers")]
    NotFinite {
        /// Name of the tensor.
        name: String,
        /// Index of the number, by rows.
        index: usize,
        /// Value that was found.
        value: f32,
    },
    /// A clipping range with nothing in it.
    #[error("normalisation of observation[{index}] clips to {low}..{high}; expected low <= high")]
    EmptyRange {
        /// The entry.
        index: usize,
        /// Lower bound.
        low: f32,
        /// Upper bound.
        high: f32,
    },
    /// An observation of another length.
    #[error("observation has {found} values; expected {expected}")]
    ObservationLength {
        /// Length that was given.
        found: usize,
        /// Length that the policy takes.
        expected: usize,
    },
    /// An observation that is NaN or infinite.
    #[error("observation[{index}] is {value}; expected a finite number")]
    ObservationNotFinite {
        /// The entry.
        index: usize,
        /// Value that was given.
        value: f32,
    },
    /// Weights so large that a sum left float32's range.
    #[error("output {index} is {value} for this observation; expected a finite number: train with smaller weights")]
    OutputNotFinite {
        /// The output.
        index: usize,
        /// Value of the output.
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
