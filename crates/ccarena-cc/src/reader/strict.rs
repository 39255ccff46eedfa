//! JSON text to a value, refusing an object with a key twice. RFC 8259 (section 4) leaves open what such an object means;
//! `serde_json` takes the last value, so that a part of the document would vanish without a word.
//!
//! `serde_json` bounds the depth (127) and refuses `NaN`, infinities and numbers beyond a double's range.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::shorten;

pub(super) fn parse(text: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str::<Strict>(text).map(|strict| strict.0)
}

/// A value of which no object has a key twice.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Self)
    }
}

struct Values;

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            list.push(value);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format_args!("the key {:?} is there twice", shorten(&key))));
            }
            map.insert(key, entries.next_value::<Strict>()?.0);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_twice_is_refused_with_its_place_at_any_depth() {
        let said = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(said("{\"a\": 1,\n \"a\": 2}"), "the key \"a\" is there twice at line 2 column 4");
        assert!(said(r#"[{"b": {"\u0061": 1, "a": 2}}]"#).starts_with("the key \"a\" is there twice at line 1"));
        assert!(said(&"[".repeat(1_000_000)).starts_with("recursion limit exceeded at line 1 column 128"));
        for bad in ["NaN", "[Infinity]", "1e999", "01", "{a: 1}", "[1,]", "1 2", ""] {
            assert!(said(bad).contains("at line 1"), "{bad}");
        }
    }

    #[test]
    fn everything_else_reads_as_serde_json_reads_it() {
        let text = r#"{"a": [null, true, -1, 18446744073709551615, 0.5, 1e30, "\u00e9\n"], "b": {"a": {}}}"#;
        assert_eq!(parse(text).unwrap(), serde_json::from_str::<Value>(text).unwrap());
    }
}
