//! Request of `ccarena-kernel run`: one line of JSON. [`ccarena_link::live`] has the messages that follow.

use ccarena_cc::Dur;
use ccarena_net::{Scenario, ScenarioError};
use serde_json::{Map, Value};

/// Program that sends and receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generator {
    /// Ours: `ccarena-kernel` itself.
    #[default]
    Own,
    /// One iperf3 client and server per flow.
    Iperf3,
}

/// Request of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The scenario.
    pub scenario: Scenario,
    /// Flag that the caller decides for learned flows without a policy.
    pub environment: bool,
    /// Program that sends and receives.
    pub traffic: Generator,
    /// The kernel's own schemes are replaced by the controllers of the registry.
    pub bridge: bool,
    /// Learned flows with a policy think in the kernel, not in user space.
    pub in_kernel: bool,
    /// The run is valid while the p99 of the emulator's lateness is within this.
    pub lateness_bound: Dur,
}

/// A request that cannot be taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// Input that is not one JSON object with the right fields.
    #[error("request: {0}")]
    Malformed(String),
    /// The scenario is refused.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
}

impl Request {
    /// Reads a request from its line.
    ///
    /// # Errors
    /// If it is no request, or its scenario is refused.
    pub fn parse(line: &str) -> Result<Self, RequestError> {
        let malformed = |message: String| RequestError::Malformed(message);
        let document: Map<String, Value> =
            serde_json::from_str(line).map_err(|e| malformed(format!("{e}; expected one JSON object on one line")))?;
        let known = ["scenario", "environment", "traffic", "bridge", "in_kernel", "lateness_bound_ms"];
        if let Some(name) = document.keys().find(|k| !known.contains(&k.as_str())) {
            return Err(malformed(format!("unknown field {name:?}; expected {}", known.join(", "))));
        }
        let get = |name: &str| document.get(name).filter(|v| !v.is_null());
        let flag = |name: &str| match get(name) {
            None => Ok(false),
            Some(value) => value.as_bool().ok_or_else(|| malformed(format!("{name}: got {value}; expected a boolean"))),
        };
        let traffic = match get("traffic").map(|v| v.as_str().unwrap_or_default()) {
            None | Some("own") => Generator::Own,
            Some("iperf3") => Generator::Iperf3,
            Some(other) => return Err(malformed(format!("traffic: got {other:?}; expected \"own\" or \"iperf3\""))),
        };
        let bound_ms = get("lateness_bound_ms").map_or(Some(1.0), Value::as_f64).filter(|ms| *ms > 0.0);
        let bound_ms = bound_ms.ok_or_else(|| malformed("lateness_bound_ms: expected a number above zero".into()))?;
        let scenario = get("scenario").ok_or_else(|| malformed("scenario: missing; expected a scenario".into()))?;
        Ok(Self {
            scenario: Scenario::from_json(scenario)?,
            environment: flag("environment")?,
            traffic,
            bridge: flag("bridge")?,
            in_kernel: flag("in_kernel")?,
            lateness_bound: Dur::from_secs_f64(bound_ms / 1e3),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_and_a_wrong_one_named() {
        let scenario =
            r#"{"links": [{"service": {"type": "constant", "rate_mbps": 12}}], "flows": [{"scheme": "reno"}]}"#;
        let request = Request::parse(&format!(r#"{{"scenario": {scenario}, "bridge": true}}"#)).unwrap();
        assert!(request.bridge && !request.environment);
        assert_eq!((request.traffic, request.lateness_bound), (Generator::Own, Dur::from_millis(1)));
        let error = |text: &str| Request::parse(text).unwrap_err().to_string();
        assert!(error("{").starts_with("request: "));
        assert!(error("{}").contains("scenario: missing"));
        assert!(error(r#"{"traffic": "udp", "scenario": {}}"#).contains("expected \"own\" or \"iperf3\""));
        assert!(error(r#"{"scenaria": {}}"#).contains("unknown field \"scenaria\""));
        assert!(error(r#"{"bridge": 1, "scenario": {}}"#).contains("flows") || error(r#"{"bridge": 1, "scenario": {"links": [{"service": {"type": "constant", "rate_mbps": 12}}], "flows": [{"scheme": "reno"}]}}"#).contains("bridge: got 1"));
        assert!(
            error(&format!(r#"{{"scenario": {}}}"#, scenario.replace("reno", "renu")))
                .contains("did you mean \"reno\"?")
        );
    }
}
