//! Options that change what a link does to packets, in the words of a scenario's link (docs/scenario.md).
//!
//! Each option is one key of the link's document, which the scenario's reader checks. A value is a list of fields, in
//! order or by name: `--gilbert 0.01,0.3` or `--gilbert p=0.01,r=0.3`.

use std::ffi::OsStr;
use std::path::PathBuf;

use ccarena_cc::types::{Dur, Rate};
use ccarena_net::scenario::Link;
use ccarena_net::{QueueSpec, ServiceSpec};
use serde_json::{Map, Value, json};

use super::line::{Line, Spec};

/// Returns a link that serves at once and delays nothing: what it does else is up to the options.
pub fn at_once() -> Link {
    let service = ServiceSpec::Constant(Rate(1_000_000_000_000));
    Link { service, queue: QueueSpec::infinite(), delay: Dur::ZERO, ..Link::default() }
}

/// Link as options leave it, and the conditions traces that it follows.
#[derive(Clone, Debug, PartialEq)]
pub struct Wire {
    /// Link.
    pub link: Link,
    /// Traces that give it what it does not say.
    pub traces: Traces,
}

/// Files of conditions traces (docs/traces.md), of which one column each counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traces {
    /// Trace with the one-way delays.
    pub delays: Option<PathBuf>,
    /// Trace with the probabilities of loss.
    pub losses: Option<PathBuf>,
}

/// Option of a link.
struct Condition {
    name: &'static str,
    /// Key of the link's document.
    key: &'static str,
    /// Type of the key's value, if it has types.
    kind: Option<&'static str>,
    /// Fields of the key's value, in the order of the option's; none if the value is the name of a file.
    fields: &'static [&'static str],
}

macro_rules! conditions {
    ($($name:literal: $key:literal, $kind:expr, [$($field:literal),*], $about:literal;)*) => {
        const ALL: &[Condition] = &[$(Condition { name: $name, key: $key, kind: $kind, fields: &[$($field),*] }),*];

        /// Options that hold for all directions of a shell.
        pub const OF_ALL: &[Spec] = &[$(($name, true, $about)),*];

        /// Options of one direction each.
        pub const OF_ONE: &[Spec] = &[
            $((concat!("uplink-", $name), true, ""), (concat!("downlink-", $name), true, ""),)*
        ];
    };
}

conditions! {
    "delay-trace": "delay_ms", None, [], "FILE with one-way delays by time: the column delay_ms of a conditions trace";
    "loss-trace": "loss", None, [], "FILE with probabilities of loss by time: its column loss";
    "gilbert": "loss", Some("gilbert_elliott"), ["p", "r", "loss_bad", "loss_good"],
        "P,R[,LOSS_BAD[,LOSS_GOOD]]: loss in bursts, by the channel of Gilbert and Elliott";
    "slots": "loss", Some("slots"), ["slot_ms", "probability", "loss"],
        "MS,P[,LOSS]: all packets (or the share LOSS) of a time slot of MS are lost with probability P";
    "shaper": "shaper", None, ["rate_mbps", "burst_bytes", "peak_mbps"],
        "MBPS,BYTES[,PEAK]: delay what exceeds the rate and the burst, which leaves at PEAK";
    "policer": "policer", None, ["rate_mbps", "burst_bytes", "action"],
        "MBPS,BYTES[,mark]: drop (or mark) what exceeds the rate and the burst";
    "reorder": "reorder", None, ["probability", "late_ms", "correlation"],
        "P,MS[,CORRELATION]: packets stay behind for MS with probability P";
    "duplicate": "duplicate", None, ["probability", "correlation"], "P[,CORRELATION]: packets come twice";
    "corrupt": "corrupt", None, ["probability", "correlation"],
        "P[,CORRELATION]: packets cross the link and are discarded as damaged";
}

impl Condition {
    /// Returns the value of the key that `text` gives.
    fn value(&self, text: &str) -> Result<Value, String> {
        let mut fields: Map<String, Value> = self.kind.map(|kind| ("type".into(), json!(kind))).into_iter().collect();
        let mut in_order = self.fields.iter();
        for item in text.split(',').map(str::trim) {
            let (field, value) = match item.split_once('=') {
                Some((field, value)) => (field.trim(), value.trim()),
                None => (in_order.next().copied().ok_or_else(|| format!("{item:?} is one value too many"))?, item),
            };
            if value.is_empty() {
                return Err(format!("{field} has no value"));
            }
            let value = match value.parse::<f64>() {
                Ok(given) if !given.is_finite() => return Err(format!("{field} is {value}; expected a finite number")),
                Ok(given) => number(given),
                Err(_) => json!(value),
            };
            if fields.insert(field.into(), value).is_some() {
                return Err(format!("{field} is given twice"));
            }
        }
        Ok(fields.into())
    }
}

/// Returns `value` as JSON has it: whole if it is whole.
fn number(value: f64) -> Value {
    const WHOLE: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && (0.0..WHOLE).contains(&value) { json!(value as u64) } else { json!(value) }
}

/// Returns the link of the direction `way` (uplink or downlink): at once and without a queue, but for what the options of
/// `line` say.
///
/// # Errors
/// A sentence, if options are wrong.
pub fn wire(line: &Line, way: &str) -> Result<Wire, String> {
    // The service is overwritten, but no link is read without one.
    let mut document = json!({"service": {"type": "constant", "rate_mbps": 1}, "delay_ms": 0});
    let mut wire = Wire::at_once();
    let mut given: Vec<(&str, String)> = Vec::new();
    for condition in ALL {
        for name in [format!("--{}", condition.name), format!("--{way}-{}", condition.name)] {
            let Some(text) = line.get(&name[2..]).map(OsStr::to_string_lossy) else { continue };
            if let Some((_, before)) = given.iter().find(|(key, _)| *key == condition.key) {
                return Err(format!("{before} and {name} both give the {} of the {way}; leave one out", condition.key));
            }
            given.push((condition.key, name.clone()));
            if condition.fields.is_empty() {
                let file = if condition.key == "loss" { &mut wire.traces.losses } else { &mut wire.traces.delays };
                *file = Some(line.path(&name[2..]).ok_or_else(|| format!("{name} is empty; expected a file"))?);
                continue;
            }
            let wrong = |problem| format!("{name} is {text:?}: {problem}; expected {}", condition.fields.join(","));
            document[condition.key] = condition.value(&text).map_err(wrong)?;
            let read = Link::from_json(&document).map_err(|error| format!("{name} is {text:?}: {error}"))?;
            wire.link = Link { service: wire.link.service, queue: wire.link.queue, ..read };
        }
    }
    Ok(wire)
}

impl Wire {
    /// Returns a link that serves at once and delays nothing.
    pub fn at_once() -> Self {
        Self { link: at_once(), traces: Traces::default() }
    }

    /// Returns whether chance decides on a packet before or behind the link's queue.
    pub fn is_random(&self) -> bool {
        let certain = |probability: f64| probability <= 0.0 || probability >= 1.0;
        let loses = !self.link.loss.as_independent().is_some_and(certain) || self.traces.losses.is_some();
        loses || !self.link.impairments.is_none()
    }
}
