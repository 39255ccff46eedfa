//! The range of observations that training saw: metadata `observed` of an artifact.

use serde_json::Value;

use super::Normalisation;
use super::error::PolicyError;

/// An observation is outside if an entry, as the network sees it, leaves the range by more than this. Normalised entries
/// are of the order of 1.
pub const TOLERANCE: f32 = 0.05;

/// Bounds of each raw entry of an observation, beyond which it is outside of what training saw. An entry that training saw
/// clipped has no bound on that side: the network sees no difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    bounds: Vec<(f32, f32)>,
}

impl Observed {
    /// Parses the metadata, a JSON object with the least and the greatest value of each entry: `low` and `high`.
    pub(super) fn parse(text: &str, normalisation: &Normalisation) -> Result<Self, PolicyError> {
        let width = normalisation.offset.len();
        let expected = format!("a JSON object with `low` and `high`, {width} finite numbers each, low <= high");
        let error = |found: String| PolicyError::Metadata { key: "observed", found, expected: expected.clone() };
        let value: Value = serde_json::from_str(text).map_err(|e| error(format!("no JSON ({e})")))?;
        let numbers = |key: &str| -> Option<Vec<f32>> {
            let list = value.get(key)?.as_array()?;
            list.iter().map(|x| x.as_f64().map(|x| x as f32).filter(|x| x.is_finite())).collect()
        };
        let ends = numbers("low").zip(numbers("high"));
        let (low, high) = ends.ok_or_else(|| error(super::graph::short(&value)))?;
        if low.len() != width || high.len() != width || low.iter().zip(&high).any(|(low, high)| low > high) {
            return Err(error(super::graph::short(&value)));
        }
        let bounds = low.iter().zip(&high).enumerate();
        Ok(Self { bounds: bounds.map(|(k, (low, high))| normalisation.bounds(k, *low, *high)).collect() })
    }

    /// Returns the least and the greatest raw value within the range for each entry; infinite if any is.
    #[must_use]
    pub fn bounds(&self) -> &[(f32, f32)] {
        &self.bounds
    }

    /// True if an entry of the raw `observation` is outside.
    #[must_use]
    pub fn is_outside(&self, observation: &[f32]) -> bool {
        observation.iter().zip(&self.bounds).any(|(x, (low, high))| x < low || x > high)
    }
}

impl Normalisation {
    /// The bounds of entry `k`, of which training saw `low` to `high`.
    fn bounds(&self, k: usize, low: f32, high: f32) -> (f32, f32) {
        let (offset, scale) = (self.offset[k], self.scale[k]);
        let seen = |x: f32| (x - offset) * scale;
        let margin = TOLERANCE / scale.abs();
        if !margin.is_finite() {
            return (f32::NEG_INFINITY, f32::INFINITY);
        }
        let (least, greatest) = if scale > 0.0 { (self.low[k], self.high[k]) } else { (-self.high[k], -self.low[k]) };
        let (at_low, at_high) = if scale > 0.0 { (seen(low), seen(high)) } else { (-seen(low), -seen(high)) };
        (
            if at_low <= least { f32::NEG_INFINITY } else { low - margin },
            if at_high >= greatest { f32::INFINITY } else { high + margin },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(text: &str) -> Result<Observed, String> {
        let normalisation =
            Normalisation { offset: vec![0.0, 10.0], scale: vec![0.5, 2.0], low: vec![0.0; 2], high: vec![4.0; 2] };
        Observed::parse(text, &normalisation).map_err(|e| e.to_string())
    }

    #[test]
    fn what_the_network_cannot_tell_apart_is_not_outside() {
        // Entry 0 was seen from 1 to 2, entry 1 below and above where it is clipped.
        let observed = observed(r#"{"low": [1.0, 9.0], "high": [2.0, 13.0]}"#).unwrap();
        assert_eq!(observed.bounds(), [(0.9, 2.1), (f32::NEG_INFINITY, f32::INFINITY)]);
        assert!(!observed.is_outside(&[2.05, 1e9]) && !observed.is_outside(&[0.95, -1e9]));
        assert!(observed.is_outside(&[2.2, 11.0]) && observed.is_outside(&[0.8, 11.0]));
    }

    #[test]
    fn a_range_that_does_not_fit_is_refused() {
        for text in ["x", "{}", r#"{"low": [0], "high": [1]}"#, r#"{"low": [2, 0], "high": [1, 0]}"#] {
            let error = observed(text).unwrap_err();
            assert!(error.contains("observed") && error.contains("`low` and `high`, 2 finite numbers"), "{error}");
        }
    }
}
