//! `--uplink-queue` and its arguments: mahimahi's names for queues and their parameters, and ours.
//!
//! `codel` and `pie` are mahimahi's, errors included, since its command lines ask for them; `rfc=1` among the arguments
//! asks for those of RFC 8289 and RFC 8033. `red` and `fq_codel`, which mahimahi does not have, are ours.

use std::collections::BTreeMap;

use ccarena_cc::registry::nearest;
use ccarena_net::queues::{self, Kind, LIMITS, Limit, LimitRule, QueueSpec};

/// Mahimahi's names of what we call otherwise, its units being milliseconds too.
const ALIASES: &[(&str, &str, &str)] = &[
    ("codel", "target", "target_ms"),
    ("codel", "interval", "interval_ms"),
    ("fq_codel", "target", "target_ms"),
    ("fq_codel", "interval", "interval_ms"),
    ("pie", "qdelay_ref", "target_ms"),
    ("pie", "max_burst", "burst_ms"),
];

/// The argument that asks for a queue as its RFC has it.
const RFC: &str = "rfc";

/// The queue of type `kind` with arguments `"NAME=NUMBER[, NAME=NUMBER...]"`.
///
/// # Errors
/// What is wrong with them, as a sentence.
pub fn read(kind: &str, args: &str) -> Result<QueueSpec, String> {
    let find = |k: &&Kind| k.discipline().name == kind;
    let Some(kind) = Kind::ALL.iter().find(find).copied() else {
        let names: Vec<&str> = queues::all().map(|d| d.name).collect();
        let hint = nearest(kind, names.iter().copied()).map_or_else(String::new, |n| format!("; did you mean {n:?}?"));
        return Err(format!("unknown queue type {kind:?}{hint}; expected one of {}", names.join(", ")));
    };
    let discipline = kind.discipline();
    let (mut limit, mut given, mut rfc) = (None, BTreeMap::new(), false);
    for arg in args.split(',').map(str::trim).filter(|a| !a.is_empty()) {
        let (name, text) = arg.split_once('=').map(|(n, v)| (n.trim(), v.trim())).ok_or_else(|| {
            format!("could not parse queue arguments: {arg:?}; expected NAME=NUMBER, separated by commas")
        })?;
        let value = text.parse().ok().filter(|v: &f64| v.is_finite());
        let value = value.ok_or_else(|| format!("queue argument {name} is {text:?}; expected a number"))?;
        let ours = ALIASES.iter().find(|a| a.0 == discipline.name && a.1 == name).map_or(name, |a| a.2);
        let takes_limit = discipline.limit != LimitRule::Unlimited;
        if ours == RFC && discipline.mahimahi {
            rfc = value != 0.0;
        } else if let Some(p) = LIMITS.iter().find(|p| p.name == ours && takes_limit && p.name != "bdp") {
            in_range(name, value, p.min, p.max)?;
            let read = if p.name == "packets" { Limit::Packets(value as u32) } else { Limit::Bytes(value as u64) };
            if limit.replace(read).is_some() {
                return Err("queue arguments give two limits; expected packets or bytes, not both".into());
            }
        } else if let Some(p) = discipline.params.iter().find(|p| p.name == ours) {
            in_range(name, value, p.min, p.max)?;
            given.insert(p.name, value);
        } else {
            return Err(unknown(discipline, name));
        }
    }
    if discipline.limit == LimitRule::Required && limit.is_none() {
        return Err(format!(
            "queue type {:?} needs a limit: packets=NUMBER or bytes=NUMBER among its arguments",
            discipline.name
        ));
    }
    QueueSpec::new(kind, limit, &given, discipline.mahimahi && !rfc)
        .map_err(|refusal| format!("queue argument {}: expected {}", refusal.param, refusal.expected))
}

/// Returns the name in a log's header, as `AbstractPacketQueue::to_string` does.
#[must_use]
pub fn label(spec: &QueueSpec) -> String {
    let name = spec.discipline().name;
    match spec.limit {
        None => name.into(),
        Some(limit) => {
            let (param, amount) = limit.param();
            format!("{name} [{}={amount}]", param.name)
        }
    }
}

fn in_range(name: &str, value: f64, min: f64, max: f64) -> Result<(), String> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(format!("queue argument {name} is {value}; expected a number from {min} to {max}"))
}

fn unknown(discipline: &queues::Discipline, name: &str) -> String {
    let limits = LIMITS.iter().filter(|p| discipline.limit != LimitRule::Unlimited && p.name != "bdp");
    let aliases = ALIASES.iter().filter(|a| a.0 == discipline.name);
    let mut known: Vec<&str> = limits.map(|p| p.name).chain(aliases.map(|a| a.1)).collect();
    known.extend(discipline.params.iter().map(|p| p.name));
    known.extend(discipline.mahimahi.then_some(RFC));
    let expected = if known.is_empty() { "none".into() } else { known.join(", ") };
    let hint = nearest(name, known).map_or_else(String::new, |n| format!("; did you mean {n:?}?"));
    format!("queue type {:?} has no argument {name:?}{hint}; expected {expected}", discipline.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mahimahis_arguments_are_read() {
        let droptail = read("droptail", "packets=100").unwrap();
        assert_eq!(droptail, QueueSpec::droptail(Limit::Packets(100)));
        assert_eq!(label(&droptail), "droptail [packets=100]");
        assert_eq!(label(&read("infinite", "").unwrap()), "infinite");
        let codel = read("codel", "packets=100, target=50, interval=200").unwrap();
        assert!(codel.mahimahi);
        assert_eq!((codel.params.get("target_ms"), codel.params.get("interval_ms")), (50.0, 200.0));
        let pie = read("pie", "packets=100,qdelay_ref=20,max_burst=75").unwrap();
        assert_eq!((pie.params.get("target_ms"), pie.params.get("burst_ms")), (20.0, 75.0));
        assert!(!read("codel", "rfc=1").unwrap().mahimahi);
        assert_eq!(read("fq_codel", "bytes=3e4").unwrap().limit, Some(Limit::Bytes(30_000)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = |kind, args| read(kind, args).unwrap_err();
        assert!(error("dropptail", "").contains("did you mean \"droptail\"?"));
        assert!(error("droptail", "").contains("needs a limit"));
        assert!(error("droptail", "packets").contains("could not parse"));
        assert!(error("droptail", "packets=x").contains("expected a number"));
        assert!(error("droptail", "packets=0").contains("from 1"));
        assert!(error("droptail", "packets=1,bytes=2").contains("not both"));
        assert!(error("codel", "tarket=5").contains("did you mean \"target\"?"));
        assert!(error("infinite", "packets=5").contains("expected none"));
    }
}
