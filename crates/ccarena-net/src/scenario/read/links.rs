//! Reads what happens to packets on a link besides its queue and service.

use ccarena_cc::reader::{At, Object, Result};

use crate::impairments::{Chance, ImpairmentsSpec, Reorder};

/// Fields of a link's impairments.
pub const IMPAIRMENTS: &[&str] = &["reorder", "duplicate", "corrupt"];

/// Longest time for which a packet stays behind: a minute.
const MAX_LATE_MS: f64 = 60_000.0;

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
