//! A JSON value with its path: every way of reading it names that path when it fails. Scenarios and documents of learned
//! schemes are read with it.

mod error;
mod strict;

use serde_json::{Map, Value};

pub use self::error::{DocumentError, Problem, Unwatchable};
use crate::build_error::nearest;
use crate::types::{Dur, Rate, Time};

/// Result of reading: the value, or the first field at fault.
pub type Result<T> = std::result::Result<T, DocumentError>;

/// Parses JSON text in which no object has a key twice.
///
/// # Errors
/// [`Problem::Syntax`], with line and column.
pub fn parse(text: &str) -> Result<Value> {
    strict::parse(text).map_err(|e| DocumentError { path: String::new(), problem: Problem::Syntax(e.to_string()) })
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct At<'a> {
    /// The value.
    pub value: &'a Value,
    /// Path in the document, such as `flows[2].scheme`; empty for the whole document.
    pub path: String,
}

/// An object whose fields are all known.
#[derive(Clone, Debug)]
pub struct Object<'a> {
    map: &'a Map<String, Value>,
    path: String,
}

impl<'a> At<'a> {
    /// The error that this value is not what was expected.
    ///
    /// # Errors
    /// Always.
    pub fn fail<T>(&self, expected: impl Into<String>) -> Result<T> {
        let value = shorten(&self.value.to_string());
        Err(DocumentError { path: self.path.clone(), problem: Problem::Invalid { value, expected: expected.into() } })
    }

    /// The error that this spec, called `spec`, has no actions for what the flow `flow` does under `scheme`: `why`.
    ///
    /// # Errors
    /// Always.
    pub fn fail_to_watch<T>(&self, spec: &str, flow: &str, scheme: &str, why: String) -> Result<T> {
        let (spec, flow, scheme) = (spec.into(), flow.into(), scheme.into());
        let value = shorten(&self.value.to_string());
        let problem = Problem::Unwatchable(Box::new(Unwatchable { value, spec, flow, scheme, why }));
        Err(DocumentError { path: self.path.clone(), problem })
    }

    /// An object with no other fields than `known`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn object(&self, known: &[&str]) -> Result<Object<'a>> {
        let Value::Object(map) = self.value else {
            return self.fail(format!("an object with fields out of {}", known.join(", ")));
        };
        let object = Object { map, path: self.path.clone() };
        match map.keys().find(|k| !known.contains(&k.as_str())) {
            Some(key) => Err(unknown(object.path_of(key), "field", key, known)),
            None => Ok(object),
        }
    }

    /// The object whose field `type` selects one of `kinds`, with the fields that `fields` gives for it besides.
    ///
    /// # Errors
    /// If it is something else.
    pub fn tagged<'k>(
        &self,
        what: &'static str,
        kinds: &[&'k str],
        fields: impl Fn(&str) -> Vec<&'static str>,
    ) -> Result<(&'k str, Object<'a>)> {
        let Value::Object(map) = self.value else {
            return self.fail(format!("an object with a field `type` out of {}", kinds.join(", ")));
        };
        let object = Object { map, path: self.path.clone() };
        let kind = object.require("type", &format!("one of {}", kinds.join(", ")))?.choice(what, kinds)?;
        let mut known = fields(kind);
        known.push("type");
        Ok((kind, self.object(&known)?))
    }

    /// A list's items; `expected` says what of.
    ///
    /// # Errors
    /// If it is something else.
    pub fn list(&self, expected: &str) -> Result<Vec<At<'a>>> {
        let Value::Array(items) = self.value else { return self.fail(expected) };
        Ok(items.iter().enumerate().map(|(i, value)| At { value, path: format!("{}[{i}]", self.path) }).collect())
    }

    /// Printable text of 1 to 4096 bytes.
    ///
    /// # Errors
    /// If it is something else.
    pub fn text(&self, expected: &str) -> Result<&'a str> {
        match self.value {
            Value::String(s) if !s.is_empty() && s.len() <= 4096 && !s.contains(char::is_control) => Ok(s),
            _ => self.fail(expected),
        }
    }

    /// An object's entries by name.
    ///
    /// # Errors
    /// If it is something else.
    pub fn entries(&self, expected: &str) -> Result<Vec<(&'a str, Self)>> {
        let Value::Object(map) = self.value else { return self.fail(expected) };
        let object = Object { map, path: self.path.clone() };
        Ok(map.iter().map(|(name, value)| (name.as_str(), At { value, path: object.path_of(name) })).collect())
    }

    /// One of `known`, each naming a `what`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn choice<'k>(&self, what: &'static str, known: &[&'k str]) -> Result<&'k str> {
        let Value::String(name) = self.value else { return self.fail(format!("one of {}", known.join(", "))) };
        let found = known.iter().find(|k| *k == name);
        found.copied().ok_or_else(|| unknown(self.path.clone(), what, name, known))
    }

    /// True or false.
    ///
    /// # Errors
    /// If it is something else.
    pub fn boolean(&self) -> Result<bool> {
        self.value.as_bool().map_or_else(|| self.fail("true or false"), Ok)
    }

    /// A number within bounds.
    ///
    /// # Errors
    /// If it is something else.
    pub fn number(&self, min: f64, max: f64) -> Result<f64> {
        match self.value.as_f64() {
            Some(x) if (min..=max).contains(&x) => Ok(x),
            _ => self.fail(format!("a number from {min} to {max}")),
        }
    }

    /// A whole number; 1.0 counts as one.
    ///
    /// # Errors
    /// If it is something else.
    pub fn whole(&self, min: u64, max: u64) -> Result<u64> {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let float = || self.value.as_f64().filter(|x| x.fract() == 0.0 && (0.0..=EXACT).contains(x)).map(|x| x as u64);
        match self.value.as_u64().or_else(float) {
            Some(n) if (min..=max).contains(&n) => Ok(n),
            _ => self.fail(format!("a whole number from {min} to {max}")),
        }
    }

    /// A [`whole`](Self::whole) number that fits in 32 bits.
    ///
    /// # Errors
    /// If it is something else.
    pub fn small(&self, min: u32, max: u32) -> Result<u32> {
        Ok(self.whole(min.into(), max.into())? as u32)
    }

    /// A rate in Mbit/s, from `min` on.
    ///
    /// # Errors
    /// If it is something else.
    pub fn mbps(&self, min: f64) -> Result<Rate> {
        Ok(Rate::from_mbps(self.number(min, MAX_MBPS)?))
    }

    /// Seconds, from `min` on.
    ///
    /// # Errors
    /// If it is something else.
    pub fn seconds(&self, min: f64) -> Result<Dur> {
        Ok(Dur::from_secs_f64(self.number(min, MAX_S)?))
    }

    /// Milliseconds within bounds.
    ///
    /// # Errors
    /// If it is something else.
    pub fn millis(&self, min: f64, max: f64) -> Result<Dur> {
        Ok(Dur((self.number(min, max)? * 1e6).round() as u64))
    }

    /// Rates by time: a list of objects with `at_s` and the rate as field `rate`, the first at 0 s, times increasing.
    ///
    /// # Errors
    /// If it is something else.
    pub fn steps(&self, rate: &'static str) -> Result<Vec<(Time, Rate)>> {
        self.stepped(rate, "a rate in Mbit/s", |at| at.mbps(0.0))
    }

    /// Values by time: a list of objects with `at_s` and the value as field `name`, which is `what` and is read by `read`;
    /// the first at 0 s, times increasing.
    ///
    /// # Errors
    /// If it is something else.
    pub fn stepped<V>(
        &self,
        name: &'static str,
        what: &str,
        read: impl Fn(&At<'a>) -> Result<V>,
    ) -> Result<Vec<(Time, V)>> {
        let expected = format!("a list of {{at_s, {name}}}, the first at 0 s, times increasing");
        let mut steps: Vec<(Time, V)> = Vec::new();
        for item in self.list(&expected)? {
            let step = item.object(&["at_s", name])?;
            let at = step.require("at_s", "seconds since the start")?;
            let time = Time::ZERO + at.seconds(0.0)?;
            match steps.last() {
                None if time > Time::ZERO => return at.fail("0, the time of the first step"),
                Some(before) if time <= before.0 => {
                    return at.fail(format!("more than {}, the time of the step before", before.0.as_secs_f64()));
                }
                _ => steps.push((time, read(&step.require(name, what)?)?)),
            }
        }
        if steps.is_empty() { self.fail(expected) } else { Ok(steps) }
    }
}

/// Smallest rate of a link that always serves: 1 kbit/s.
pub const MIN_MBPS: f64 = 0.001;
/// Largest rate: 1 Tbit/s.
pub const MAX_MBPS: f64 = 1e6;
/// Longest time: 11 days.
pub const MAX_S: f64 = 1e6;

impl<'a> Object<'a> {
    /// The field called `key`; none if it is missing or null.
    pub fn get(&self, key: &str) -> Option<At<'a>> {
        self.map.get(key).filter(|v| !v.is_null()).map(|value| At { value, path: self.path_of(key) })
    }

    /// The field called `key`, which must be there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn require(&self, key: &str, expected: &str) -> Result<At<'a>> {
        self.get(key).ok_or_else(|| DocumentError {
            path: self.path_of(key),
            problem: Problem::Missing { expected: expected.into() },
        })
    }

    /// Returns the result of `read` on field `key`, or `default`.
    ///
    /// # Errors
    ///
    /// If `read` fails.
    pub fn or<T>(&self, key: &str, default: T, read: impl FnOnce(&At<'a>) -> Result<T>) -> Result<T> {
        self.get(key).map_or(Ok(default), |at| read(&at))
    }

    /// Returns the result of `read` on field `key`, if it is there.
    ///
    /// # Errors
    ///
    /// If `read` fails.
    pub fn maybe<T>(&self, key: &str, read: impl FnOnce(&At<'a>) -> Result<T>) -> Result<Option<T>> {
        self.get(key).map(|at| read(&at)).transpose()
    }

    /// The place of field `key`.
    #[must_use]
    pub fn path_of(&self, key: &str) -> String {
        let key = shorten(key);
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }
}

/// The error that `value` names no `what`.
#[must_use]
pub fn unknown(path: String, what: &'static str, value: &str, known: &[&str]) -> DocumentError {
    let nearest = nearest(value, known.iter().copied()).map(Into::into);
    DocumentError { path, problem: Problem::Unknown { what, value: shorten(value), nearest, known: known.join(", ") } }
}

pub(crate) fn shorten(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}
