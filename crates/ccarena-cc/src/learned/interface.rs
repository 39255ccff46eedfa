//! Interface of a learned scheme: its observation, report and actions.

use std::borrow::Cow;

use crate::action::{Action, ActionError};

/// The interface of a learned scheme to environments and artifacts. There is one per spec; it depends on no parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// The spec's name.
    pub name: String,
    /// The spec's digest: the first 16 hexadecimal digits of the SHA-256 of its canonical form.
    pub digest: String,
    /// The observation's series in order.
    pub observation: Vec<Entry>,
    /// Length of the observation vector.
    pub observation_len: usize,
    /// The discrete actions' values; empty if actions are continuous.
    pub actions: Vec<f32>,
    /// Bounds of a continuous action; of discrete ones the least and the greatest value.
    pub bounds: (f32, f32),
    /// Names of the report's columns, in order.
    pub report: Vec<String>,
    /// Parameters, and inputs that a policy may observe.
    pub params: Vec<ParamSpec>,
}

/// One series of an observation, oldest value first.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Name of the entry.
    pub name: String,
    /// Group: the channels of one signal share its name in the spec.
    pub group: String,
    /// Number of values.
    pub length: usize,
    /// No value is below this.
    pub low: f64,
    /// No value is above this.
    pub high: f64,
    /// A network sees `clip((x - offset) * scale, clip.0, clip.1)`.
    pub offset: f64,
    /// See `offset`.
    pub scale: f64,
    /// See `offset`.
    pub clip: (f64, f64),
    /// Unit of the values.
    pub unit: Cow<'static, str>,
    /// Description.
    pub doc: Cow<'static, str>,
}

impl Entry {
    /// Returns its name, a series as `name[length]`.
    #[must_use]
    pub fn label(&self) -> String {
        if self.length == 1 { self.name.clone() } else { format!("{}[{}]", self.name, self.length) }
    }
}

/// A parameter or an input of a spec.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamSpec {
    /// Name in a scenario's `params`.
    pub name: String,
    /// Default value.
    pub default: f64,
    /// Smallest allowed value.
    pub min: f64,
    /// Largest allowed value.
    pub max: f64,
    /// Description.
    pub doc: String,
    /// A policy may run with another value than it was trained with.
    pub runtime: bool,
    /// Flag that it is only observed: one of `inputs`.
    pub input: bool,
}

impl Interface {
    /// Names of the observation's series in order, a series as `name[length]`.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        self.observation.iter().map(Entry::label).collect()
    }

    /// The action that the number `value` stands for: an index into discrete actions, or a continuous value.
    ///
    /// # Errors
    /// If it is not finite, no index of an action, or outside the bounds.
    pub fn action(&self, value: f64) -> Result<Action, ActionError> {
        if !value.is_finite() {
            return Err(ActionError::NotFinite(value as f32));
        }
        if self.actions.is_empty() {
            let (low, high) = self.bounds;
            if !(low..=high).contains(&(value as f32)) {
                let expected = format!("a number from {low} to {high}");
                return Err(ActionError::OutOfRange { got: value.to_string(), expected });
            }
            return Ok(Action::Continuous(value as f32));
        }
        if value < 0.0 || value.fract() != 0.0 || value >= self.actions.len() as f64 {
            let expected = format!("an index from 0 to {}", self.actions.len() - 1);
            return Err(ActionError::OutOfRange { got: value.to_string(), expected });
        }
        Ok(Action::Discrete(value as u32))
    }

    /// The value that `action` moves the actuator by.
    ///
    /// # Errors
    /// If it is of the wrong kind, not finite or outside the action space.
    pub fn value(&self, action: Action) -> Result<f32, ActionError> {
        let (low, high) = self.bounds;
        match action {
            Action::Discrete(_) if self.actions.is_empty() => Err(ActionError::WrongKind { expected: "continuous" }),
            Action::Continuous(_) if !self.actions.is_empty() => Err(ActionError::WrongKind { expected: "discrete" }),
            Action::Discrete(index) => {
                self.actions.get(index as usize).copied().ok_or_else(|| ActionError::OutOfRange {
                    got: index.to_string(),
                    expected: format!("an index from 0 to {}", self.actions.len() - 1),
                })
            }
            Action::Continuous(a) if !a.is_finite() => Err(ActionError::NotFinite(a)),
            Action::Continuous(a) if !(low..=high).contains(&a) => {
                Err(ActionError::OutOfRange { got: a.to_string(), expected: format!("a number from {low} to {high}") })
            }
            Action::Continuous(a) => Ok(a),
        }
    }
}
