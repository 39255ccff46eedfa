//! Numbers of a spec: given, or the value of a parameter.

use serde_json::{Value, json};

use super::interface::ParamSpec;
use crate::param::Param;
use crate::reader::{At, Result, unknown};

/// A number that may be left to a parameter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// Constant value.
    Value(f64),
    /// The parameter with this index.
    Param(usize),
}

impl Number {
    /// Returns its value, for the parameters' `values`.
    #[must_use]
    pub fn resolve(self, values: &[f64]) -> f64 {
        match self {
            Self::Value(x) => x,
            Self::Param(index) => values.get(index).copied().unwrap_or(0.0),
        }
    }

    /// Reads the value of `option`: a number within its bounds, or `"$NAME"`, whose bounds lie within them.
    ///
    /// # Errors
    /// If it is neither.
    pub fn read(at: &At<'_>, option: &Param, params: &[ParamSpec]) -> Result<Self> {
        let Some(name) = at.value.as_str().and_then(|text| text.strip_prefix('$')) else {
            return at.number(option.min, option.max).map(Self::Value).or_else(|_| {
                at.fail(format!("a number from {} to {}, or \"$NAME\" of a parameter", option.min, option.max))
            });
        };
        let names: Vec<&str> = params.iter().map(|p| p.name.as_str()).collect();
        let Some(index) = names.iter().position(|n| *n == name) else {
            return Err(unknown(at.path.clone(), "parameter", name, &names));
        };
        let param = &params[index];
        if param.min < option.min || param.max > option.max {
            let (own, most) = ((param.min, param.max), (option.min, option.max));
            return at
                .fail(format!("a parameter within {} to {}; {name:?} may be {} to {}", most.0, most.1, own.0, own.1));
        }
        Ok(Self::Param(index))
    }

    /// Returns its form in a spec.
    #[must_use]
    pub fn to_json(self, params: &[ParamSpec]) -> Value {
        match self {
            Self::Value(x) => json!(x),
            Self::Param(index) => json!(format!("${}", params.get(index).map_or("", |p| p.name.as_str()))),
        }
    }
}
