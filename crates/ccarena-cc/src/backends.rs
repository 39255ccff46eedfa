//! The backends that run flows.

/// A backend that runs flows, as far as signals are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The simulator.
    #[default]
    Simulator,
    /// QUIC.
    Quic,
    /// Kernel TCP, with the controller in user space: it gets sums of intervals.
    Bridge,
    /// Kernel TCP, with the policy in a BPF program: it has integers and the sums of a period.
    Kernel,
}

impl Backend {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Simulator, Self::Quic, Self::Bridge, Self::Kernel];

    /// The name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Simulator => "sim",
            Self::Quic => "quic",
            Self::Bridge => "bridge",
            Self::Kernel => "kernel",
        }
    }

    /// The name in messages.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Simulator => "the simulator",
            Self::Quic => "QUIC",
            Self::Bridge => "kernel TCP with the controller in user space (the bridge)",
            Self::Kernel => "kernel TCP with the policy in the kernel",
        }
    }
}

/// A signal that a backend does not measure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("signal {signal:?}{} is not measured by {}; leave it out of the spec, or run the flow on {}", called(.label, .signal), .backend.title(), elsewhere(.measured))]
pub struct Unmeasured {
    /// Name in the registry.
    pub signal: &'static str,
    /// The spec's name for it.
    pub label: String,
    /// The backend that does not measure it.
    pub backend: Backend,
    /// The backends that measure it.
    pub measured: Vec<Backend>,
}

fn called(label: &str, signal: &str) -> String {
    if label == signal { String::new() } else { format!(" ({label})") }
}

fn elsewhere(measured: &[Backend]) -> String {
    measured.iter().map(|backend| backend.title()).collect::<Vec<_>>().join(", or on ")
}
