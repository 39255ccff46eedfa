//! Interface of a learned scheme: its observation, report and actions.

use std::borrow::Cow;

use crate::action::{Action, ActionError, MOST_NUMBERS, Numbers};

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
    /// The discrete actions' names, such as `bbr` of a choice or `0.5, 1.2` of two actuators.
    pub action_names: Vec<String>,
    /// Bounds of each number of a continuous action; of discrete ones the least and the greatest value.
    pub bounds: Vec<(f32, f32)>,
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

    /// Numbers that one action has: an index, or a value for each actuator.
    #[must_use]
    pub fn width(&self) -> usize {
        self.bounds.len()
    }

    /// Bounds of continuous actions; none of discrete ones.
    #[must_use]
    pub fn continuous(&self) -> Option<&[(f32, f32)]> {
        self.actions.is_empty().then_some(&self.bounds[..])
    }

    /// The action that `numbers` stand for: an index into discrete actions, or continuous values.
    ///
    /// # Errors
    /// If one is not finite, no index of an action, or outside its bounds, or if there are not as many as actuators.
    pub fn action(&self, numbers: &[f64]) -> Result<Action, ActionError> {
        if numbers.len() != self.width() {
            return Err(ActionError::Count { got: numbers.len(), expected: self.width() });
        }
        if let Some(value) = numbers.iter().find(|value| !value.is_finite()) {
            return Err(ActionError::NotFinite(*value as f32));
        }
        let Some(bounds) = self.continuous() else {
            let value = numbers[0];
            if value < 0.0 || value.fract() != 0.0 || value >= self.actions.len() as f64 {
                return Err(out_of_range(value, self.indices()));
            }
            return Ok(Action::Discrete(value as u32));
        };
        for (&value, &(low, high)) in numbers.iter().zip(bounds) {
            if !(low..=high).contains(&(value as f32)) {
                return Err(out_of_range(value, format!("a number from {low} to {high}")));
            }
        }
        let mut values = [0.0; MOST_NUMBERS];
        values.iter_mut().zip(numbers).for_each(|(to, from)| *to = *from as f32);
        Ok(Action::Continuous(Numbers::of(&values[..numbers.len()])))
    }

    /// The values that `action` moves the actuators by: of a discrete one its own alone.
    ///
    /// # Errors
    /// If it is of the wrong kind, not finite or outside the action space.
    pub fn value(&self, action: Action) -> Result<Numbers, ActionError> {
        match (action, self.continuous()) {
            (Action::Discrete(_), Some(_)) => Err(ActionError::WrongKind { expected: "continuous" }),
            (Action::Continuous(_), None) => Err(ActionError::WrongKind { expected: "discrete" }),
            (Action::Discrete(index), None) => {
                let value = self.actions.get(index as usize).copied();
                value.map(Into::into).ok_or_else(|| out_of_range(index, self.indices()))
            }
            (Action::Continuous(values), Some(bounds)) => {
                if values.len() != bounds.len() {
                    return Err(ActionError::Count { got: values.len(), expected: bounds.len() });
                }
                if let Some(value) = values.iter().find(|value| !value.is_finite()) {
                    return Err(ActionError::NotFinite(*value));
                }
                let outside = values.iter().zip(bounds).find(|(a, (low, high))| !(*low..=*high).contains(*a));
                match outside {
                    Some((a, (low, high))) => Err(out_of_range(a, format!("a number from {low} to {high}"))),
                    None => Ok(values),
                }
            }
        }
    }

    /// Returns the action of one actuator that is nearest to `value`, as the action space has it and as its value.
    pub(super) fn nearest(&self, value: f32) -> (f32, f32) {
        if let Some(&[(low, high)]) = self.continuous() {
            return (value.clamp(low, high), value.clamp(low, high));
        }
        let distance = |of: &f32| (of - value).abs();
        let nearest = self.actions.iter().enumerate().min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
        nearest.map_or((0.0, 0.0), |(index, value)| (index as f32, *value))
    }

    fn indices(&self) -> String {
        format!("an index from 0 to {}", self.actions.len().saturating_sub(1))
    }
}

fn out_of_range(got: impl ToString, expected: String) -> ActionError {
    ActionError::OutOfRange { got: got.to_string(), expected }
}
