//! Requests of a client to a server: lines of JSON on the connection's first stream, on which the data comes back.
//!
//! The first line is a [`Request`]; every further one a [`Change`].

use std::collections::BTreeMap;

use ccarena_cc::{FlowSetting, MOST_WEIGHT, Rate, Requirement};
use serde::{Deserialize, Serialize};

/// No line is longer.
pub const LONGEST: usize = 4096;
/// More than any link carries.
const LARGEST_MBPS: f64 = 1e6;

/// A range of rates in Mbit/s, as `[min, max]`.
pub type Range = [f64; 2];

/// The data that a client wants, and the congestion control that is to send it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Request {
    /// Bytes; none is without end.
    pub bytes: Option<u64>,
    /// A scheme of the registry; none leaves it to the policy, or to the server.
    pub scheme: Option<String>,
    /// Parameters of the scheme.
    pub params: BTreeMap<String, f64>,
    /// The name of a policy that the server offers.
    pub policy: Option<String>,
    /// Requirement for Hercules.
    pub requirement: Option<Range>,
    /// Weight in the WCC family.
    pub weight: Option<f64>,
    /// The rate that the application wants.
    pub desired_mbps: Option<f64>,
}

/// Change that a client requests; fields that are none stay.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Change {
    /// Requirement for Hercules.
    pub requirement: Option<Range>,
    /// Weight in the WCC family.
    pub weight: Option<f64>,
    /// The rate that the application wants.
    pub desired_mbps: Option<f64>,
}

/// A line that cannot be taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// Input that is not one JSON object with the right fields.
    #[error("{0}; expected one JSON object on one line")]
    Malformed(String),
    /// A line without end.
    #[error("a line of more than {LONGEST} bytes; expected one JSON object on one line")]
    Long,
    /// A value outside of its bounds.
    #[error("{field}: got {got}; expected {expected}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Given value.
        got: String,
        /// Accepted values.
        expected: &'static str,
    },
}

impl Request {
    /// Reads a request from its line.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(line: &[u8]) -> Result<Self, RequestError> {
        let request: Self = serde_json::from_slice(line).map_err(|e| RequestError::Malformed(e.to_string()))?;
        request.change().check()?;
        Ok(request)
    }

    /// Returns the fields that may change later.
    #[must_use]
    pub fn change(&self) -> Change {
        Change { requirement: self.requirement, weight: self.weight, desired_mbps: self.desired_mbps }
    }
}

impl Change {
    /// Reads a change from its line.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(line: &[u8]) -> Result<Self, RequestError> {
        let change: Self = serde_json::from_slice(line).map_err(|e| RequestError::Malformed(e.to_string()))?;
        change.check()?;
        Ok(change)
    }

    fn check(&self) -> Result<(), RequestError> {
        let fault = |field, got: String, expected| Err(RequestError::Value { field, got, expected });
        let rate = |mbps: f64| mbps > 0.0 && mbps <= LARGEST_MBPS;
        if let Some([min, max]) = self.requirement {
            if !(rate(min) && rate(max) && min < max) {
                return fault(
                    "requirement",
                    format!("[{min}, {max}]"),
                    "two rates in Mbit/s, the first one the smaller",
                );
            }
        }
        if let Some(mbps) = self.desired_mbps.filter(|&mbps| !rate(mbps)) {
            return fault("desired_mbps", mbps.to_string(), "a rate above zero and at most 1000000");
        }
        if let Some(weight) = self.weight.filter(|w| !(*w > 0.0 && *w <= MOST_WEIGHT)) {
            return fault("weight", weight.to_string(), "a number above zero and at most 1000");
        }
        Ok(())
    }

    /// Returns the settings for a controller.
    #[must_use]
    pub fn settings(&self) -> Vec<FlowSetting> {
        let mut settings = Vec::new();
        settings.extend(self.requirement.map(|range| FlowSetting::Requirement(Some(requirement(range)))));
        settings.extend(self.weight.map(FlowSetting::Weight));
        settings.extend(self.desired_mbps.map(|mbps| FlowSetting::DesiredRate(Rate::from_mbps(mbps))));
        settings
    }
}

/// A range as a controller takes it.
#[must_use]
pub fn requirement([min, max]: Range) -> Requirement {
    Requirement { min: Rate::from_mbps(min), max: Rate::from_mbps(max) }
}

/// Lines out of what arrives in pieces of any length.
#[derive(Debug, Default)]
pub struct Lines {
    pending: Vec<u8>,
}

impl Lines {
    /// Takes a piece and gives the lines that it completes, without their ends.
    ///
    /// # Errors
    /// [`RequestError::Long`] at a line without end.
    pub fn take(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, RequestError> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive(|&b| b == b'\n') {
            if self.pending.len() + part.len() > LONGEST {
                return Err(RequestError::Long);
            }
            self.pending.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.pending.pop();
                lines.push(std::mem::take(&mut self.pending));
            }
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_is_read_and_a_wrong_one_named() {
        let request = Request::parse(br#"{"scheme": "hercules", "requirement": [10, 15], "bytes": 1000}"#).unwrap();
        assert_eq!(request.requirement, Some([10.0, 15.0]));
        let line = serde_json::to_vec(&request).unwrap();
        assert_eq!(Request::parse(&line).unwrap(), request);
        let error = |text: &str| Request::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error(r#"{"skeme": "bbr"}"#).contains("unknown field `skeme`"));
        assert!(error(r#"{"requirement": [15, 10]}"#).starts_with("requirement: got [15, 10]; expected two rates"));
        assert!(error(r#"{"requirement": [0, 1e300]}"#).starts_with("requirement"));
        assert!(error(r#"{"weight": -1}"#).starts_with("weight: got -1"));
        assert!(error("[").contains("expected one JSON object"));
        assert_eq!(Change::parse(br#"{"weight": 2}"#).unwrap().settings(), [FlowSetting::Weight(2.0)]);
    }

    proptest! {
        #[test]
        fn lines_arrive_in_pieces_of_any_length(
            lines in prop::collection::vec("[a-z]{0,50}", 0..20),
            cuts in prop::collection::vec(1_usize..60, 1..60),
        ) {
            let bytes: Vec<u8> = lines.iter().flat_map(|line| format!("{line}\n").into_bytes()).collect();
            let (mut stream, mut got, mut rest) = (Lines::default(), Vec::new(), &bytes[..]);
            for cut in cuts.iter().cycle() {
                let (piece, left) = rest.split_at((*cut).min(rest.len()));
                got.extend(stream.take(piece).unwrap().into_iter().map(|l| String::from_utf8(l).unwrap()));
                rest = left;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(got, lines);
        }

        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::parse(&bytes);
            let _ = Change::parse(&bytes);
            let _ = Lines::default().take(&bytes);
        }
    }
}
