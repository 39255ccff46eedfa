//! Errors of the Rust side as the exceptions of `ccarena.errors`.

use ccarena_net::scenario::{Problem, ScenarioError};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;

/// `ccarena.errors.NAME(message)`.
fn raise(name: &str, message: String) -> PyErr {
    Python::attach(|py| {
        py.import("ccarena.errors")
            .and_then(|errors| errors.getattr(name))
            .and_then(|class| class.call1((message,)))
            .map_or_else(|e| e, |exception| PyErr::from_value(exception))
    })
}

/// A scenario that is refused or cannot be simulated.
pub fn scenario(error: impl std::fmt::Display) -> PyErr {
    raise("ScenarioError", error.to_string())
}

/// A scenario document that is refused.
pub fn document(error: ScenarioError) -> PyErr {
    let Problem::Unwatchable(unwatchable) = &error.problem else { return scenario(error) };
    let raised = raise("UnwatchableError", error.to_string());
    Python::attach(|py| raised.value(py).setattr("why", &unwatchable.why)).map_or_else(|failed| failed, |()| raised)
}

/// A document that cannot be read.
pub fn config(error: impl std::fmt::Display) -> PyErr {
    raise("ConfigError", error.to_string())
}

/// A trace that cannot be used.
pub fn trace(error: impl std::fmt::Display) -> PyErr {
    raise("TraceError", error.to_string())
}

/// A policy artifact that cannot be used.
pub fn policy(error: impl std::fmt::Display) -> PyErr {
    raise("PolicyError", error.to_string())
}

/// An action that is refused.
pub fn action(error: impl std::fmt::Display) -> PyErr {
    raise("ActionError", error.to_string())
}

/// Returns the exception for a user's controller that raised one, with that one as its cause. Ctrl-C, which comes up
/// wherever the interpreter is, stays what it is.
pub fn controller(py: Python<'_>, scenario: &ccarena_net::Scenario, failure: crate::own::Failure) -> PyErr {
    let flow = scenario.flows.get(failure.flow);
    let (name, class) = flow.map_or(("", ""), |flow| (flow.name.as_str(), flow.scheme.as_str()));
    let when = failure.at.map_or_else(|| "before the run".into(), |at| format!("at {:.6} s", at.as_secs_f64()));
    let cause = failure.error;
    if cause.is_instance_of::<PyKeyboardInterrupt>(py) {
        return cause;
    }
    let message = format!("{class}.{} of {name} raised {cause} {when} of the simulation", failure.during);
    let error = raise("ControllerError", message);
    error.set_cause(py, Some(cause));
    error
}

/// Returns the exception for a simulation that cannot be built, by its cause.
pub fn sim(error: &ccarena_sim::SimError) -> PyErr {
    use ccarena_net::ServiceError;
    use ccarena_sim::SimError;
    match error {
        SimError::Service { source: ServiceError::Trace(_), .. } => trace(error),
        SimError::Policy { .. } => policy(error),
        _ => scenario(error),
    }
}

/// Returns the exception for worlds that cannot be made or stepped.
pub fn world(error: &ccarena_sim::WorldError) -> PyErr {
    use ccarena_sim::WorldError;
    match error {
        WorldError::Sim(e) => sim(e),
        WorldError::Action { .. } | WorldError::Length { .. } => action(error),
        WorldError::Policy(e) => policy(e),
        WorldError::State(_) => raise("CheckpointError", error.to_string()),
        _ => scenario(error),
    }
}
