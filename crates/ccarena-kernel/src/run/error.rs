//! Errors of a run, and their kinds.

use ccarena_link::LinkError;
use ccarena_link::live::InboxError;
use ccarena_net::ServiceError;

use crate::error::KernelError;
use crate::traffic::TrafficError;
use crate::wire::RequestError;

/// Error of a scenario that cannot be run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The request or its scenario is refused.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// Request of more than this machine may give.
    #[error(transparent)]
    Resources(#[from] ccarena_net::ResourceError),
    /// A field says what real TCP cannot do.
    #[error("{path}: {problem}")]
    Unsupported {
        /// The field.
        path: String,
        /// Fault and remedy.
        problem: String,
    },
    /// A flow's scheme or its parameters.
    #[error("flows[{flow}].scheme: {source}")]
    Scheme {
        /// The flow.
        flow: usize,
        /// Cause.
        source: ccarena_cc::BuildError,
    },
    /// A flow's policy.
    #[error("flows[{flow}].policy: {source}")]
    Policy {
        /// The flow.
        flow: usize,
        /// Cause.
        source: ccarena_cc::BindError,
    },
    /// A flow's policy cannot think in the kernel.
    #[error("flows[{flow}].policy: {source}")]
    Image {
        /// The flow.
        flow: usize,
        /// Cause.
        source: ccarena_cc::policy::kernel::ImageError,
    },
    /// An action that cannot be taken.
    #[error("flow {flow}: {message}")]
    Action {
        /// The flow.
        flow: u32,
        /// Cause.
        message: String,
    },
    /// BPF.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Namespaces and links.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Senders and receivers.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// Signals, pipes.
    #[error("{what}: {source}")]
    System {
        /// Attempted operation.
        what: &'static str,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// Standard input ended, or a signal came.
    #[error("the run was stopped before its end")]
    Stopped,
}

impl From<InboxError> for RunError {
    fn from(error: InboxError) -> Self {
        match error {
            InboxError::System { what, source } => Self::System { what, source },
            InboxError::Stopped => Self::Stopped,
        }
    }
}

impl RunError {
    /// Returns the kind for the caller: `scenario`, `trace`, `policy`, `machine` or `internal`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Link(LinkError::Service { source: ServiceError::Trace(_), .. }) => "trace",
            Self::Request(_)
            | Self::Resources(_)
            | Self::Unsupported { .. }
            | Self::Scheme { .. }
            | Self::Action { .. } => "scenario",
            Self::Link(LinkError::Service { .. } | LinkError::Flows { .. }) => "scenario",
            Self::Policy { .. } | Self::Image { .. } => "policy",
            Self::Link(LinkError::Panicked) | Self::Traffic(TrafficError::Panicked) => "internal",
            Self::Kernel(_) | Self::Link(_) | Self::Traffic(_) | Self::System { .. } | Self::Stopped => "machine",
        }
    }
}
