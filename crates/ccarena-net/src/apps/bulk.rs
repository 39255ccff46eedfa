//! Bulk data, as much as the controller allows.

use ccarena_cc::reader::{Object, Result};
use serde_json::{Value, json};

use super::{Application, Running, Start};

/// Bulk data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bulk;

impl Application for Bulk {
    const NAME: &'static str = "bulk";
    const FIELDS: &'static [&'static str] = &[];

    fn read(_: &Object<'_>) -> Result<Self> {
        Ok(Self)
    }

    fn write(&self) -> Value {
        json!({})
    }

    fn packets(&self, _: f64, _: f64) -> f64 {
        f64::INFINITY
    }

    fn start(&self, _: &Start) -> Option<Box<dyn Running>> {
        None
    }
}
