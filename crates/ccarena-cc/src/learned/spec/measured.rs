//! The check that a backend measures a spec's signals.
//!
//! Every signal means the same in each backend that measures it; `tests/privileged/test_signals.py` compares them.

use super::{Item, Source, Spec};
use crate::backends::{Backend, Unmeasured};
use crate::feedback::Feedback;
use crate::learned::monitor::Parts;

impl Spec {
    /// Refuses the spec if `backend` does not measure a signal that it observes or reports.
    ///
    /// # Errors
    /// The first such signal.
    pub fn check_signals(&self, backend: Backend) -> Result<(), Unmeasured> {
        self.check_observed_signals(backend)?;
        self.report.iter().try_for_each(|item| check(item, backend, true))
    }

    /// Checks the signals that the decider sees alone, as [`check_signals`](Self::check_signals) does.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn check_observed_signals(&self, backend: Backend) -> Result<(), Unmeasured> {
        self.observe.iter().try_for_each(|item| check(item, backend, false))
    }

    /// The first signal of the observation, else of the report, that needs `parts` to be measured.
    pub(crate) fn signal_with(&self, parts: Parts) -> Option<&'static str> {
        let mut signals = self.items(true).flat_map(Item::signals);
        signals.find(|signal| signal.parts.has(parts)).map(|signal| signal.name)
    }

    /// Feedback of marks that its signals, its queue and its base need.
    pub(crate) fn feedback(&self) -> Feedback {
        let own = self.signal_with(Parts::MARKS).map_or(Feedback::None, |_| Feedback::Accurate);
        own.max(self.needed_feedback())
    }
}

fn check(item: &Item, backend: Backend, reported: bool) -> Result<(), Unmeasured> {
    let label = || item.name.clone();
    let signals = item.signals();
    if let Some(signal) = signals.iter().find(|signal| !signal.is_measured(backend)) {
        return Err(Unmeasured { signal: signal.name, label: label(), backend, measured: signal.backends().collect() });
    }
    match &item.source {
        // A program in the kernel derives what the decider sees, and keeps no list of values.
        Source::Derived(expr) if backend == Backend::Kernel && (reported || expr.has_stretch()) => {
            let elsewhere = |b: &Backend| *b != Backend::Kernel && signals.iter().all(|signal| signal.is_measured(*b));
            let measured = Backend::ALL.into_iter().filter(elsewhere).collect();
            Err(Unmeasured { signal: expr.form(), label: label(), backend, measured })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(signal: &str) -> Spec {
        let text = format!(
            r#"{{"learned": 1, "name": "d", "clock": "window", "base": "none", "act": {{"kind": "window", "bounds": [2, 100]}},
                "observe": {{"signals": [{{"signal": "{signal}", "as": "own"}}]}}, "report": ["rtt_ms"]}}"#
        );
        Spec::parse(&text).unwrap()
    }

    #[test]
    fn a_signal_that_is_not_measured_is_refused_by_name() {
        let dispersion = spec("ack_dispersion");
        assert_eq!(dispersion.check_signals(Backend::Quic), Ok(()));
        let error = dispersion.check_signals(Backend::Bridge).unwrap_err().to_string();
        assert_eq!(
            error,
            "signal \"ack_dispersion\" (own) is not measured by kernel TCP with the controller in user space (the bridge); \
             leave it out of the spec, or run the flow on the simulator, or on QUIC"
        );
        for backend in Backend::ALL {
            assert_eq!(spec("rtt_ms").check_signals(backend), Ok(()));
        }
        assert!(spec("rttvar_ms").check_observed_signals(Backend::Kernel).is_err());
    }

    #[test]
    fn the_kernel_derives_what_is_observed_of_the_whole_flow() {
        let spec = |over: &str, report: &str| {
            let text = format!(
                r#"{{"learned": 1, "name": "d", "clock": "window", "base": "none", "act": {{"kind": "window", "bounds": [2, 100]}},
                    "observe": {{"signals": [{{"max": "rtt_ms"{over}, "as": "most"}}]}}, "report": [{report}]}}"#
            );
            Spec::parse(&text).unwrap().check_signals(Backend::Kernel)
        };
        assert_eq!(spec("", "\"rtt_ms\""), Ok(()));
        for refused in [spec(", \"over_ms\": 50", "\"rtt_ms\""), spec("", r#"{"max": "rtt_ms", "as": "told"}"#)] {
            assert!(refused.unwrap_err().to_string().starts_with("signal \"max\" ("));
        }
    }

    #[test]
    fn every_signal_is_measured_somewhere() {
        assert!(crate::learned::signals::all().all(|signal| signal.is_measured(Backend::Simulator)));
    }
}
