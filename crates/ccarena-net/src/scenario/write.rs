//! Writes the normalised document.

use std::collections::BTreeMap;

use ccarena_cc::types::{Dur, Rate, Requirement, Time};
use ccarena_cc::{Feedback, PolicySpec};
use serde_json::{Map, Value, json};

use super::{AckPolicy, Flow, Link, Scenario, VERSION, foreign, own, trajectories};
use crate::delays::DelaySpec;
use crate::impairments::{Chance, ImpairmentsSpec};
use crate::losses::LossSpec;
use crate::policer::PolicerSpec;
use crate::queues::{Limit, Params, QueueSpec};
use crate::reshape::{self, Reshape};
use crate::routers::RouterSpec;
use crate::service::access::AccessSpec;
use crate::service::{ServiceSpec, ShaperSpec};

pub fn scenario(s: &Scenario) -> Value {
    let mut document = json!({
        "version": VERSION,
        "duration_s": s.duration.as_secs_f64(),
        "seed": s.seed,
        "links": s.links.iter().map(link).collect::<Vec<_>>(),
        "flows": s.flows.iter().map(|f| flow(f, &s.links, s.base_rtt(f))).collect::<Vec<_>>(),
        "record": {
            "packets": s.record.packets,
            "transmissions": s.record.transmissions,
            "series": s.record.series,
            "reports": s.record.reports,
            "bin_ms": s.record.bin.as_millis_f64(),
        },
    });
    if let Some(trajectories) = &s.record.trajectories {
        document["record"]["trajectories"] = trajectories::write(trajectories, &s.flows);
    }
    document
}

fn link(l: &Link) -> Value {
    let mut document = json!({
        "name": l.name,
        "service": service(&l.service),
        "queue": queue(&l.queue),
        "delay_ms": l.varies.as_ref().map_or_else(|| json!(l.delay.as_millis_f64()), DelaySpec::write),
        "jitter_ms": l.jitter.as_millis_f64(),
        "wakes_ms": l.wakes.as_millis_f64(),
        "loss": loss(&l.loss),
        "outages": l.outages.map(|o| json!({"on_s": o.on.as_secs_f64(), "off_s": o.off.as_secs_f64()})),
        "router": l.router.as_ref().map_or(Value::Bool(false), router),
    });
    // Documents of links that have none stay as they were, and with them the digests of stored results.
    if let Value::Object(fields) = &mut document {
        impairments(&l.impairments, fields);
        fields.extend(l.conditions.as_ref().map(|c| ("conditions".into(), c.write())));
        fields.extend(l.policer.map(|p| ("policer".into(), policer(p))));
        fields.extend(l.shaper.map(|s| ("shaper".into(), shaper(s))));
    }
    document
}

fn policer(p: PolicerSpec) -> Value {
    json!({"rate_mbps": p.rate.as_mbps(), "burst_bytes": p.burst_bytes, "action": if p.marks { "mark" } else { "drop" }})
}

fn shaper(s: ShaperSpec) -> Value {
    json!({"rate_mbps": s.rate.as_mbps(), "burst_bytes": s.burst_bytes, "peak_mbps": s.peak.map(Rate::as_mbps)})
}

fn impairments(spec: &ImpairmentsSpec, fields: &mut Map<String, Value>) {
    let chance = |c: Chance| json!({"probability": c.probability, "correlation": c.correlation});
    let reorder = spec.reorder.map(|r| {
        let mut reorder = chance(r.chance);
        reorder["late_ms"] = json!(r.late.as_millis_f64());
        reorder
    });
    let all = [("reorder", reorder), ("duplicate", spec.duplicate.map(chance)), ("corrupt", spec.corrupt.map(chance))];
    fields.extend(all.into_iter().filter_map(|(name, value)| Some((name.into(), value?))));
}

fn service(s: &ServiceSpec) -> Value {
    let ms = |d: &Dur| d.as_millis_f64();
    match s {
        ServiceSpec::Constant(rate) => json!({"type": "constant", "rate_mbps": rate.as_mbps()}),
        ServiceSpec::Steps(list) => json!({"type": "steps", "steps": steps(list, "rate_mbps")}),
        ServiceSpec::RandomSteps { min, max, period } => json!({
            "type": "random_steps",
            "min_mbps": min.as_mbps(),
            "max_mbps": max.as_mbps(),
            "period_s": period.as_secs_f64(),
        }),
        ServiceSpec::Trace { file, offset, reshape: None } => {
            json!({"type": "trace", "file": file, "offset_ms": ms(offset)})
        }
        ServiceSpec::Trace { file, offset, reshape: Some(reshaped) } => {
            json!({"type": "trace", "file": file, "offset_ms": ms(offset), "reshape": self::reshape(reshaped)})
        }
        ServiceSpec::Conditions => json!({"type": "conditions"}),
        ServiceSpec::Cellular { preset, seed, offset } => {
            json!({"type": "cellular", "preset": preset, "seed": seed, "offset_ms": ms(offset)})
        }
        ServiceSpec::Access(a) => access(a),
    }
}

/// A number for a constant rate.
fn access(a: &AccessSpec) -> Value {
    let mut fields = typed(a.kind.description().name, &a.params);
    match *a.rate {
        ServiceSpec::Constant(rate) => fields["rate_mbps"] = json!(rate.as_mbps()),
        ref rate => fields["rate"] = service(rate),
    }
    fields
}

fn reshape(r: &Reshape) -> Value {
    let seconds = |d: Dur| d.as_secs_f64();
    let outages = |o: reshape::Outages| json!({"every_s": seconds(o.every), "mean_s": seconds(o.mean), "rate_mbps": o.rate.as_mbps()});
    json!({
        "length_s": r.length.map(seconds),
        "stretch": r.stretch,
        "mean_mbps": r.mean.map(Rate::as_mbps),
        "grid_ms": r.grid_ms,
        "outages": r.outages.map(outages),
        "seed": r.seed,
    })
}

fn queue(q: &QueueSpec) -> Value {
    let mut fields: Map<String, Value> = q.params.iter().map(|(name, value)| (name.into(), json!(value))).collect();
    fields.insert("type".into(), q.discipline().name.into());
    if let Some((param, amount)) = q.limit.map(Limit::param) {
        let whole = matches!(q.limit, Some(Limit::Packets(_) | Limit::Bytes(_)));
        fields.insert(param.name.into(), if whole { json!(amount as u64) } else { json!(amount) });
    }
    if q.mahimahi {
        fields.insert("compat".into(), "mahimahi".into());
    }
    Value::Object(fields)
}

/// A number for independent loss.
fn loss(l: &LossSpec) -> Value {
    if let Some(probability) = l.as_independent() {
        return json!(probability);
    }
    let mut document = typed(l.kind.description().name, &l.params);
    if l.kind.description().by_time {
        let step = |(from, loss): &(Dur, f64)| json!({"at_s": from.as_secs_f64(), "loss": loss});
        document["steps"] = l.steps.iter().map(step).collect();
    }
    document
}

fn typed(name: &str, params: &Params) -> Value {
    let mut fields: Map<String, Value> = params.iter().map(|(name, value)| (name.into(), json!(value))).collect();
    fields.insert("type".into(), name.into());
    Value::Object(fields)
}

fn router(r: &RouterSpec) -> Value {
    typed(r.kind.description().name, &r.params)
}

fn steps(list: &[(Time, Rate)], rate: &str) -> Value {
    list.iter().map(|(at, r)| json!({"at_s": at.as_secs_f64(), rate: r.as_mbps()})).collect()
}

/// Parameters of schemes that came later than version 1 of the document, whose default is zero. Documents of flows that
/// leave them there stay as they were.
const LATER: [&str; 1] = ["abe"];

fn params(params: &BTreeMap<String, f64>) -> Value {
    let written = params.iter().filter(|(name, value)| **value != 0.0 || !LATER.contains(&name.as_str()));
    written.map(|(name, value)| (name.clone(), json!(value))).collect::<serde_json::Map<_, _>>().into()
}

fn feedback(feedback: Feedback) -> Value {
    match feedback {
        Feedback::None => json!(false),
        Feedback::Classic | Feedback::Changes => json!(true),
        Feedback::Accurate => json!(feedback.name()),
    }
}

/// The flow over these `links`, of which its path names some.
pub fn flow(f: &Flow, links: &[Link], base_rtt: Dur) -> Value {
    let names = |path: &[usize]| -> Value {
        path.iter().filter_map(|&l| links.get(l)).map(|l| Value::from(l.name.as_str())).collect()
    };
    let mut document = json!({
        "name": f.name,
        "scheme": f.spec.as_ref().map_or_else(|| json!(f.scheme), |d| d.to_json()),
        "params": params(&f.params),
        "start_s": f.start.as_secs_f64(),
        "stop_s": f.stop.map(Time::as_secs_f64),
        "path": names(&f.path),
        "return_path": names(&f.return_path),
        "base_rtt_ms": base_rtt.as_millis_f64(),
        "app": f.app.write(),
        "policy": match &f.policy {
            None | Some(PolicySpec::Rules(_)) => Value::Null,
            Some(PolicySpec::Artifact(file)) => json!(file),
            Some(PolicySpec::Integer(file)) => json!({"integer": file}),
            Some(PolicySpec::Constant(action)) => json!({"constant": numbers(action)}),
            Some(PolicySpec::Table { by, actions }) => json!({"by": by, "actions": actions.iter().map(|action| numbers(action)).collect::<Vec<_>>()}),
            Some(PolicySpec::Nobody) => json!("none"),
        },
        "requirement": f.requirement.map(requirement),
        "weight": f.weight,
        "changes": f.changes.iter().map(|&(at, c)| json!({
            "at_s": at.as_secs_f64(), "weight": c.weight, "requirement": c.requirement.map(requirement),
        })).collect::<Vec<_>>(),
        "desired_mbps": match f.desired.as_slice() {
            [(Time::ZERO, rate)] => json!(rate.as_mbps()),
            list => steps(list, "mbps"),
        },
        "sack": f.sack,
        "ecn": feedback(f.ecn),
        "slow_start": f.slow_start,
        "delayed_ack": f.delayed_ack,
        "ack_policy": match f.ack_policy {
            AckPolicy::Tcp => json!({"type": "tcp"}),
            AckPolicy::Quic(q) => json!({"type": "quic", "packets": q.packets,
                "max_delay_ms": q.max_delay.as_millis_f64(), "rtt_fraction": q.rtt_fraction}),
        },
        "min_rto_ms": f.min_rto.as_millis_f64(),
        "burst_bytes": f.burst_bytes,
        "initial_window": f.initial_window,
        "receive_window_packets": f.receive_window,
        "mss_bytes": f.mss_bytes,
        "header_bytes": f.header_bytes,
        "ack_bytes": f.ack_bytes,
        "count": 1,
    });
    // Documents of flows that have none stay as they were, and with them the digests of stored results.
    if let Value::Object(fields) = &mut document {
        if f.peer_ecn != Feedback::Accurate {
            fields.insert("peer_ecn".into(), feedback(f.peer_ecn));
        }
        if f.l4s {
            fields.insert("l4s".into(), json!(true));
        }
    }
    if let (Some(foreign), Value::Object(fields)) = (&f.foreign, &mut document) {
        fields.insert("foreign".into(), foreign::write(foreign));
    }
    if let (Some(own), Value::Object(fields)) = (&f.own, &mut document) {
        fields.insert("controller".into(), own::write(own));
    }
    if let Some(PolicySpec::Rules(file)) = &f.policy {
        document["rules"] = json!(file);
    }
    document
}

fn requirement(r: Requirement) -> Value {
    json!({"min_mbps": r.min.as_mbps(), "max_mbps": r.max.as_mbps()})
}

/// An action: of one actuator a number alone.
fn numbers(action: &[f64]) -> Value {
    match action {
        [number] => json!(number),
        numbers => json!(numbers),
    }
}
