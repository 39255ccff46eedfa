//! The conditions trace of a link in a scenario.

use ccarena_cc::reader::{At, Result};
use ccarena_cc::types::{Dur, Rate};
use serde_json::{Value, json};

use crate::link_models::{self, MEAN_MBPS};

/// Start of a run in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offset {
    /// Time in the trace.
    At(Dur),
    /// Share of the trace that is drawn from the run's seed: the same for all links, so that the directions of a path
    /// stay together.
    Random,
}

/// Origin of a conditions trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A file.
    File(String),
    /// A link model ([`crate::link_models`]), which draws a trace as long as the run.
    Model {
        /// Name of the model.
        name: String,
        /// Seed of the trace.
        seed: u64,
        /// Mean rate that the trace is scaled to.
        mean: Option<Rate>,
    },
}

/// A link's conditions trace as a scenario describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionsSpec {
    /// Origin of the trace.
    pub source: Source,
    /// Start of the run in the trace.
    pub offset: Offset,
    /// Packets that leave later do not arrive earlier when the delay falls.
    pub keep_order: bool,
}

impl ConditionsSpec {
    /// Returns the trace that the model called `name` draws from `seed`.
    #[must_use]
    pub fn of_model(name: &str, seed: u64) -> Self {
        let source = Source::Model { name: name.into(), seed, mean: None };
        Self { source, offset: Offset::At(Dur::ZERO), keep_order: true }
    }

    /// Reads an object with `file`, or `model` and perhaps `seed` and `mean_mbps`; and perhaps `offset_ms` and
    /// `keep_order`.
    ///
    /// # Errors
    /// If it is something else.
    pub fn read(at: &At<'_>) -> Result<Self> {
        let o = at.object(&["file", "model", "seed", "mean_mbps", "offset_ms", "keep_order"])?;
        let file = "the path of a conditions trace";
        let source = match (o.get("file"), o.get("model")) {
            (Some(_), Some(_)) => return at.fail("one of `file` and `model`"),
            (None, Some(model)) => Source::Model {
                name: model.choice("model", &link_models::names())?.into(),
                seed: o.or("seed", 1, |at| at.whole(0, u64::MAX))?,
                mean: o.maybe("mean_mbps", |at| Ok(Rate::from_mbps(at.number(MEAN_MBPS.0, MEAN_MBPS.1)?)))?,
            },
            _ => {
                for name in ["seed", "mean_mbps"] {
                    if let Some(at) = o.get(name) {
                        return at.fail("`model` beside it, which draws the trace");
                    }
                }
                Source::File(o.require("file", file)?.text(file)?.into())
            }
        };
        Ok(Self {
            source,
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
        match &self.source {
            Source::File(file) => json!({"file": file, "offset_ms": offset, "keep_order": self.keep_order}),
            Source::Model { name, seed, mean } => json!({
                "model": name,
                "seed": seed,
                "mean_mbps": mean.map(Rate::as_mbps),
                "offset_ms": offset,
                "keep_order": self.keep_order,
            }),
        }
    }

    /// Returns the least delay that a model gives the link; none of a file, which is yet to be read.
    #[must_use]
    pub fn base_delay(&self) -> Option<Dur> {
        match &self.source {
            Source::File(_) => None,
            Source::Model { name, seed, .. } => link_models::find(name).ok().map(|model| model.base_delay(*seed)),
        }
    }

    /// Returns the mean rate, as far as it is known before the trace is.
    #[must_use]
    pub fn stated_rate(&self) -> Option<Rate> {
        match &self.source {
            Source::File(_) => None,
            Source::Model { mean: Some(mean), .. } => Some(*mean),
            Source::Model { name, .. } => link_models::find(name).ok().map(|model| Rate::from_mbps(model.mean_mbps())),
        }
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
