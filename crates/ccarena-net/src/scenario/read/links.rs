//! Reads what happens to packets on a link besides its queue and service.

use std::collections::BTreeMap;

use ccarena_cc::reader::{At, MIN_MBPS, Object, Result};
use ccarena_cc::types::{Dur, Time};

use crate::delays::{DelaySpec, MAX_DELAY_MS};
use crate::impairments::{Chance, ImpairmentsSpec, Reorder};
use crate::losses::{self, LossSpec};
use crate::policer::PolicerSpec;
use crate::service::access::{self, AccessSpec};
use crate::service::{ServiceSpec, ShaperSpec};

/// Fields of a link's policer, shaper and impairments.
pub const IMPAIRMENTS: &[&str] = &["policer", "shaper", "reorder", "duplicate", "corrupt"];

/// Bytes that the bucket of a policer or shaper holds: from a packet on Ethernet to a second at 100 Gbit/s.
const MIN_BURST_BYTES: u64 = 1500;
const MAX_BURST_BYTES: u64 = 12_500_000_000;

/// Longest time for which a packet stays behind: a minute.
const MAX_LATE_MS: f64 = 60_000.0;

/// Reads the least delay, and its variation if it is no number.
pub fn delay(at: &At<'_>) -> Result<(Dur, Option<DelaySpec>)> {
    if at.value.is_object() {
        return DelaySpec::read(at).map(|varies| (varies.least(), Some(varies)));
    }
    match at.value.as_f64() {
        Some(ms) if (0.0..=MAX_DELAY_MS).contains(&ms) => Ok((at.millis(0.0, MAX_DELAY_MS)?, None)),
        _ => at.fail(format!("a number from 0 to {MAX_DELAY_MS}, or {{steps: [{{at_s, delay_ms}}, ...]}}")),
    }
}

/// Reads a loss process; a number is the probability of independent loss.
pub fn loss(at: &At<'_>) -> Result<LossSpec> {
    let names: Vec<&str> = losses::all().map(|d| d.name).collect();
    if !at.value.is_object() {
        return match at.value.as_f64() {
            Some(probability) if (0.0..=1.0).contains(&probability) => Ok(LossSpec::independent(probability)),
            _ => at.fail(format!(
                "a number from 0 to 1, or {{type, its parameters}} with a type out of {}",
                names.join(", ")
            )),
        };
    }
    let kind_of = |name: &str| losses::Kind::ALL.iter().copied().find(|kind| kind.description().name == name);
    let params = |kind: losses::Kind| kind.description().params.iter();
    let steps = |kind: losses::Kind| kind.description().by_time.then_some("steps");
    let fields = |name: &str| {
        kind_of(name).into_iter().flat_map(|kind| params(kind).map(|p| p.name).chain(steps(kind))).collect()
    };
    let (name, o) = at.tagged("loss process", &names, fields)?;
    let Some(kind) = kind_of(name) else { return at.fail(names.join(", ")) };
    if kind.description().by_time {
        let steps = o.require("steps", "a list of {at_s, loss}, the first at 0 s")?;
        let steps = steps.stepped("loss", "a probability from 0 to 1", |at| at.number(0.0, 1.0))?;
        return Ok(LossSpec::by_time(steps.into_iter().map(|(at, loss)| (at.since(Time::ZERO), loss)).collect()));
    }
    let mut given = BTreeMap::new();
    for p in params(kind) {
        if kind.description().required.contains(&p.name) {
            o.require(p.name, &format!("the {}", p.doc))?;
        }
        if let Some(value) = o.maybe(p.name, |at| at.number(p.min, p.max))? {
            given.insert(p.name, value);
        }
    }
    Ok(LossSpec::new(kind, &given))
}

/// Reads a policer.
pub fn policer(at: &At<'_>) -> Result<PolicerSpec> {
    let o = at.object(&["rate_mbps", "burst_bytes", "action"])?;
    let burst = o.require("burst_bytes", "bytes that pass at once, at least one packet, such as 30000")?;
    Ok(PolicerSpec {
        rate: o.require("rate_mbps", "the policed rate in Mbit/s")?.mbps(MIN_MBPS)?,
        burst_bytes: burst.whole(MIN_BURST_BYTES, MAX_BURST_BYTES)?,
        marks: o.or("action", false, |at| Ok(at.choice("action", &["drop", "mark"])? == "mark"))?,
    })
}

/// Reads a shaper.
pub fn shaper(at: &At<'_>) -> Result<ShaperSpec> {
    let o = at.object(&["rate_mbps", "burst_bytes", "peak_mbps"])?;
    let burst = o.require("burst_bytes", "bytes that pass at once, at least one packet, such as 30000")?;
    let rate = o.require("rate_mbps", "the shaped rate in Mbit/s")?.mbps(MIN_MBPS)?;
    let peak = o.maybe("peak_mbps", |at| match at.mbps(MIN_MBPS)? {
        peak if peak <= rate => at.fail(format!("more than rate_mbps, which is {}", rate.as_mbps())),
        peak => Ok(peak),
    })?;
    Ok(ShaperSpec { rate, burst_bytes: burst.whole(MIN_BURST_BYTES, MAX_BURST_BYTES)?, peak })
}

/// Returns the fields of a service with the access called `name`.
pub fn access_fields(name: &str) -> Vec<&'static str> {
    let params = access::find(name).into_iter().flat_map(|kind| kind.description().params);
    ["rate_mbps", "rate"].into_iter().chain(params.map(|p| p.name)).collect()
}

/// Reads the service `at` with the access called `name` and the fields of `o`.
pub fn access(at: &At<'_>, name: &str, o: &Object<'_>) -> Result<AccessSpec> {
    let Some(kind) = access::find(name) else { return at.fail("a known service") };
    let description = kind.description();
    let rate = match (o.get("rate_mbps"), o.get("rate")) {
        (_, None) => ServiceSpec::Constant(o.require("rate_mbps", description.rate)?.mbps(MIN_MBPS)?),
        (None, Some(rate)) => medium(&rate)?,
        (Some(_), Some(rate)) => return rate.fail("either `rate_mbps` or `rate`"),
    };
    let mut given = BTreeMap::new();
    for p in description.params {
        if let Some(value) = o.maybe(p.name, |at| at.number(p.min, p.max))? {
            given.insert(p.name, value);
        }
    }
    AccessSpec::new(kind, &given, rate).or_else(|refusal| match o.get(refusal.param) {
        Some(field) => field.fail(refusal.expected),
        None => at.fail(format!("{}: {}", refusal.param, refusal.expected)),
    })
}

/// Reads the rate of a medium, which is known for all time.
fn medium(at: &At<'_>) -> Result<ServiceSpec> {
    let spec = super::service(at)?;
    match spec {
        ServiceSpec::Constant(_)
        | ServiceSpec::Steps(_)
        | ServiceSpec::RandomSteps { .. }
        | ServiceSpec::Conditions => Ok(spec),
        _ => at.fail("a service of type constant, steps, random_steps or conditions"),
    }
}

/// Reads the impairments of the link `o`.
pub fn impairments(o: &Object<'_>) -> Result<ImpairmentsSpec> {
    Ok(ImpairmentsSpec {
        reorder: o.maybe("reorder", reorder)?,
        duplicate: o.maybe("duplicate", chance)?,
        corrupt: o.maybe("corrupt", chance)?,
    })
}

fn reorder(at: &At<'_>) -> Result<Reorder> {
    let o = at.object(&["probability", "correlation", "late_ms"])?;
    let late = o.require("late_ms", "milliseconds for which a packet stays behind, such as 5")?;
    Ok(Reorder { chance: chance_of(&o)?, late: late.millis(0.0, MAX_LATE_MS)? })
}

/// Reads a probability, or an object with one.
fn chance(at: &At<'_>) -> Result<Chance> {
    if at.value.is_object() {
        return chance_of(&at.object(&["probability", "correlation"])?);
    }
    match at.value.as_f64() {
        Some(probability) if (0.0..=1.0).contains(&probability) => Ok(Chance { probability, correlation: 0.0 }),
        _ => at.fail("a probability from 0 to 1, or {probability, correlation}"),
    }
}

fn chance_of(o: &Object<'_>) -> Result<Chance> {
    Ok(Chance {
        probability: o.require("probability", "a probability from 0 to 1")?.number(0.0, 1.0)?,
        correlation: o.or("correlation", 0.0, |at| at.number(0.0, 1.0))?,
    })
}
