//! Which signals a backend measures.
//!
//! Every signal means the same in each backend that measures it; `tests/privileged/test_signals.py` compares them. A
//! document that names another one is refused where its flow is built.

use super::Document;
use super::signals::Signal;

/// A place where flows run, as far as signals are concerned.
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
    /// Its name in the registry.
    pub signal: &'static str,
    /// The document's name for it.
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

impl Signal {
    /// The backends that measure it.
    pub fn backends(&self) -> impl Iterator<Item = Backend> {
        Backend::ALL.into_iter().filter(|backend| self.is_measured(*backend))
    }
}

impl Document {
    /// Refuses the document if `backend` does not measure a signal that it observes or reports.
    ///
    /// # Errors
    /// The first such signal.
    pub fn check_signals(&self, backend: Backend) -> Result<(), Unmeasured> {
        self.named_signals(true).try_for_each(|(signal, label)| check(signal, label, backend))
    }

    /// As [`check_signals`](Self::check_signals), of what the decider sees alone.
    ///
    /// # Errors
    /// As there.
    pub fn check_observed_signals(&self, backend: Backend) -> Result<(), Unmeasured> {
        self.named_signals(false).try_for_each(|(signal, label)| check(signal, label, backend))
    }
}

fn check(signal: &'static Signal, label: &str, backend: Backend) -> Result<(), Unmeasured> {
    if signal.is_measured(backend) {
        return Ok(());
    }
    Err(Unmeasured { signal: signal.name, label: label.into(), backend, measured: signal.backends().collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(signal: &str) -> Document {
        let text = format!(
            r#"{{"learned": 1, "name": "d", "clock": "window", "base": "none", "act": {{"kind": "window", "bounds": [2, 100]}},
                "observe": {{"signals": [{{"signal": "{signal}", "as": "own"}}]}}, "report": ["rtt_ms"]}}"#
        );
        Document::parse(&text).unwrap()
    }

    #[test]
    fn a_signal_that_is_not_measured_is_refused_by_name() {
        let dispersion = document("ack_dispersion");
        assert_eq!(dispersion.check_signals(Backend::Quic), Ok(()));
        let error = dispersion.check_signals(Backend::Bridge).unwrap_err().to_string();
        assert_eq!(
            error,
            "signal \"ack_dispersion\" (own) is not measured by kernel TCP with the controller in user space (the bridge); \
             leave it out of the spec, or run the flow on the simulator, or on QUIC"
        );
        for backend in Backend::ALL {
            assert_eq!(document("rtt_ms").check_signals(backend), Ok(()));
        }
        assert!(document("latency_gradient").check_observed_signals(Backend::Kernel).is_err());
    }

    #[test]
    fn every_signal_is_measured_somewhere() {
        assert!(super::super::signals::all().all(|signal| signal.is_measured(Backend::Simulator)));
    }
}
