//! The conditions trace of a link in a scenario.

use ccarena_cc::reader::{At, Result};
use ccarena_cc::types::Dur;
use serde_json::{Value, json};

/// Start of a run in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// Time in the trace.
    At(Dur),
    /// Share of the trace that is drawn from the run's seed: the same for all links, so that the directions of a path
    /// stay together.
    Random,
}

/// A link's conditions trace as a scenario describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionsSpec {
    /// File of the trace.
    pub file: String,
    /// Start of the run in the trace.
    pub offset: Offset,
    /// Packets that leave later do not arrive earlier when the delay falls.
    pub keep_order: bool,
}

impl ConditionsSpec {
    /// Reads an object with `file`, and perhaps `offset_ms` and `keep_order`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(at: &At<'_>) -> Result<Self> {
        let o = at.object(&["file", "offset_ms", "keep_order"])?;
        let file = "the path of a conditions trace";
        Ok(Self {
            file: o.require("file", file)?.text(file)?.into(),
            offset: o.or("offset_ms", Offset::At(Dur::ZERO), offset)?,
            keep_order: o.or("keep_order", true, At::boolean)?,
        })
    }

    /// Writes it.
    #[must_use]
    pub fn write(&self) -> Value {
        let offset = match self.offset {
            Offset::At(offset) => json!(offset.as_millis_f64()),
            Offset::Random => json!("random"),
        };
        json!({"file": self.file, "offset_ms": offset, "keep_order": self.keep_order})
    }
}

fn offset(at: &At<'_>) -> Result<Offset> {
    const MOST_MS: f64 = 1e10;
    match at.value {
        Value::String(text) if text == "random" => Ok(Offset::Random),
        Value::Number(_) => at.millis(0.0, MOST_MS).map(Offset::At),
        _ => at.fail(format!("a number from 0 to {MOST_MS}, or \"random\": drawn from the seed")),
    }
}
