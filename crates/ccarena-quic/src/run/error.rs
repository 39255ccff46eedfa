//! Errors of a run, and their kinds.

use ccarena_cc::FlowError;
use ccarena_link::LinkError;
use ccarena_link::live::InboxError;
use ccarena_net::{ScenarioError, ServiceError};

use crate::tls::TlsError;

/// Error of a scenario that cannot be run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Input that is not one JSON object with the right fields.
    #[error("request: {0}")]
    Request(String),
    /// The scenario is refused.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Request of more than this machine may give.
    #[error(transparent)]
    Resources(#[from] ccarena_net::ResourceError),
    /// A field says what QUIC does not do.
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
    /// Namespaces and links.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A socket of a flow.
    #[error("flows[{flow}]: cannot set up a socket: {source}")]
    Socket {
        /// The flow.
        flow: usize,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// The loop that moves datagrams.
    #[error("cannot move datagrams: {0}")]
    Reactor(std::io::Error),
    /// Secure connections.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Signals, pipes.
    #[error("{what}: {source}")]
    System {
        /// Attempted operation.
        what: &'static str,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// The other machine.
    #[error("{0}")]
    Remote(String),
    /// A thread ended by a bug.
    #[error("a thread panicked; this is a bug")]
    Panicked,
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
    /// Returns the error for flow number `flow` without a controller.
    #[must_use]
    pub fn flow(flow: usize, error: FlowError) -> Self {
        match error {
            FlowError::Scheme(source) => Self::Scheme { flow, source },
            FlowError::Policy(source) => Self::Policy { flow, source },
        }
    }

    /// Returns the kind for the caller: `scenario`, `trace`, `policy`, `machine` or `internal`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Link(LinkError::Service { source: ServiceError::Trace(_), .. }) => "trace",
            Self::Request(_)
            | Self::Scenario(_)
            | Self::Resources(_)
            | Self::Unsupported { .. }
            | Self::Tls(TlsError::Token)
            | Self::Scheme { .. } => "scenario",
            Self::Link(LinkError::Service { .. } | LinkError::Flows { .. }) => "scenario",
            Self::Policy { .. } => "policy",
            Self::Link(LinkError::Panicked) | Self::Panicked | Self::Tls(_) => "internal",
            Self::Remote(_)
            | Self::Link(_)
            | Self::Socket { .. }
            | Self::Reactor(_)
            | Self::System { .. }
            | Self::Stopped => "machine",
        }
    }
}
