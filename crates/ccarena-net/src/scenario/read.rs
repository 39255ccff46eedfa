//! Reads and checks the document.

mod links;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use ccarena_cc::reader::{At, MIN_MBPS, Object, Result, unknown};
use ccarena_cc::registry;
use ccarena_cc::types::{Dur, Rate, Requirement, Time};
use ccarena_cc::{Feedback, MOST_WEIGHT, PolicySpec, Spec};
use serde_json::Value;

use super::{
    AckPolicy, Change, Flow, Foreign, Link, Outages, QuicAcks, Record, Scenario, VERSION, foreign, own, trajectories,
    write,
};
use crate::apps::arrivals::{Arrivals, Context};
use crate::apps::{self, App, Read};
use crate::cellular;
use crate::conditions::ConditionsSpec;
use crate::delays::MAX_DELAY_MS;
use crate::queues::{self, Kind, LIMITS, Limit, LimitRule, QueueSpec};
use crate::reshape::{self, Reshape};
use crate::rng::{self, Purpose};
use crate::routers::{self, RouterSpec};
use crate::service::{ServiceSpec, access};

/// No scenario has more links, nor more flows.
const MAX_COUNT: usize = 100_000;
/// No scenario's flows have more values in the normalised document, in which copies and default paths are spelled out.
const MAX_VALUES: usize = 500_000;
/// No controller of a user has more parameters, nor a parameter of it a greater value.
const MAX_ARGUMENTS: usize = 256;
const ANY: f64 = 1e15;
/// No name of a link or a flow is longer, in bytes.
const MAX_NAME: usize = 100;
/// Flows whose ends are programs of others: each is two processes at least.
const MAX_PROGRAMS: u32 = 64;
const MAX_MIN_RTO_MS: f64 = 60_000.0;
/// Largest offloaded packet.
const MAX_BURST_BYTES: u32 = 65_536;

pub fn scenario(document: &Value) -> Result<Scenario> {
    let root = At { value: document, path: String::new() };
    let o = root.object(&["version", "duration_s", "seed", "links", "flows", "record"])?;
    let version = o.or("version", VERSION, |at| at.whole(0, u64::MAX))?;
    if version != VERSION {
        return o.require("version", "")?.fail(format!("{VERSION}, the version that this program reads"));
    }
    let default = Scenario::default();
    let links = links(&o.require("links", "a list of links")?)?;
    let duration = o.or("duration_s", default.duration, |at| at.seconds(0.001))?;
    let seed = o.or("seed", default.seed, |at| at.whole(0, u64::MAX))?;
    let flows = flows(&o.require("flows", "a list of flows")?, &links, duration, seed)?;
    let record = o.or("record", default.record, |at| record(at, &flows))?;
    Ok(Scenario { duration, seed, links, flows, record })
}

fn links(at: &At<'_>) -> Result<Vec<Link>> {
    let expected = format!("a list of 1 to {MAX_COUNT} links");
    let items = at.list(&expected)?;
    if items.is_empty() || items.len() > MAX_COUNT {
        return at.fail(expected);
    }
    let mut names = HashSet::new();
    let mut links = Vec::with_capacity(items.len());
    for (i, item) in items.iter().enumerate() {
        let link = link(item, i)?;
        if !names.insert(link.name.clone()) {
            return item.fail(format!("a name that no other link has, not {:?} again", link.name));
        }
        links.push(link);
    }
    Ok(links)
}

pub fn link(at: &At<'_>, index: usize) -> Result<Link> {
    let own =
        ["name", "conditions", "service", "queue", "delay_ms", "jitter_ms", "wakes_ms", "loss", "outages", "router"];
    let o = at.object(&[&own[..], links::IMPAIRMENTS].concat())?;
    let default = Link::default();
    let conditions = o.maybe("conditions", ConditionsSpec::read)?;
    let base = conditions.as_ref().and_then(ConditionsSpec::base_delay);
    let (delay, varies) = o.or("delay_ms", (base.unwrap_or(default.delay), None), links::delay)?;
    Ok(Link {
        name: o.or("name", format!("link{index}"), name)?,
        service: service_of(&o, conditions.is_some())?,
        conditions,
        queue: o.or("queue", default.queue, queue)?,
        delay,
        varies,
        jitter: o.or("jitter_ms", default.jitter, |at| at.millis(0.0, MAX_DELAY_MS))?,
        wakes: o.or("wakes_ms", default.wakes, |at| at.millis(0.0, MAX_DELAY_MS))?,
        loss: o.or("loss", default.loss, links::loss)?,
        policer: o.maybe("policer", links::policer)?,
        shaper: o.maybe("shaper", links::shaper)?,
        impairments: links::impairments(&o)?,
        outages: o.maybe("outages", outages)?,
        router: o.or("router", default.router, router)?,
    })
}

/// Reads the service of the link `o`. Rates of a conditions trace need no key of their own.
fn service_of(o: &Object<'_>, conditions: bool) -> Result<ServiceSpec> {
    match o.get("service") {
        None if conditions => Ok(ServiceSpec::Conditions),
        None => service(&o.require("service", "the link's service, such as {type: constant, rate_mbps: 48}")?),
        Some(at) => match service(&at)? {
            given if given.replays_conditions() && !conditions => {
                at.fail("`conditions: {file: ...}` on the link, whose rates these are")
            }
            given => Ok(given),
        },
    }
}

fn outages(at: &At<'_>) -> Result<Outages> {
    let o = at.object(&["on_s", "off_s"])?;
    Ok(Outages {
        on: o.require("on_s", "seconds that the link works on average")?.seconds(0.001)?,
        off: o.require("off_s", "seconds that it does not")?.seconds(0.001)?,
    })
}

fn name(at: &At<'_>) -> Result<String> {
    let expected = format!("a name: text of at most {MAX_NAME} bytes without control characters");
    match at.text(&expected)? {
        text if text.len() > MAX_NAME => at.fail(expected),
        text => Ok(text.into()),
    }
}

const SERVICES: &[&str] = &["constant", "steps", "random_steps", "trace", "cellular", "conditions"];

fn service(at: &At<'_>) -> Result<ServiceSpec> {
    let fields = |kind: &str| match kind {
        "constant" => vec!["rate_mbps"],
        "steps" => vec!["steps"],
        "random_steps" => vec!["min_mbps", "max_mbps", "period_s"],
        "trace" => vec!["file", "offset_ms", "reshape"],
        "conditions" => vec![],
        "cellular" => vec!["preset", "seed", "offset_ms"],
        name => links::access_fields(name),
    };
    let kinds: Vec<&str> = SERVICES.iter().copied().chain(access::all().map(|d| d.name)).collect();
    let (kind, o) = at.tagged("service", &kinds, fields)?;
    let offset = |o: &Object<'_>| o.or("offset_ms", Dur::ZERO, |at| at.millis(0.0, 1e10));
    Ok(match kind {
        "constant" => ServiceSpec::Constant(o.require("rate_mbps", "a rate in Mbit/s")?.mbps(MIN_MBPS)?),
        "steps" => ServiceSpec::Steps(o.require("steps", "a list of {at_s, rate_mbps}")?.steps("rate_mbps")?),
        "random_steps" => {
            let min = o.require("min_mbps", "the lowest rate in Mbit/s")?.mbps(MIN_MBPS)?;
            let highest = o.require("max_mbps", "the highest rate in Mbit/s")?;
            let max = highest.mbps(MIN_MBPS)?;
            if max < min {
                return highest.fail(format!("at least min_mbps, which is {}", min.as_mbps()));
            }
            let period = o.require("period_s", "seconds that a rate holds")?.seconds(0.001)?;
            ServiceSpec::RandomSteps { min, max, period }
        }
        "conditions" => ServiceSpec::Conditions,
        "trace" => ServiceSpec::Trace {
            file: o.require("file", "the path of a mahimahi trace")?.text("the path of a mahimahi trace")?.into(),
            offset: offset(&o)?,
            reshape: o.maybe("reshape", reshape)?,
        },
        "cellular" => {
            let presets: Vec<&str> = cellular::PRESETS.iter().map(|p| p.name).collect();
            ServiceSpec::Cellular {
                preset: o.require("preset", "the name of a cellular preset")?.choice("preset", &presets)?.into(),
                seed: o.maybe("seed", |at| at.whole(0, u64::MAX))?,
                offset: offset(&o)?,
            }
        }
        name => ServiceSpec::Access(links::access(at, name, &o)?),
    })
}

/// Reads the changes to a trace.
fn reshape(at: &At<'_>) -> Result<Reshape> {
    let o = at.object(&["length_s", "stretch", "mean_mbps", "grid_ms", "outages", "seed"])?;
    let outages = |at: &At<'_>| {
        let o = at.object(&["every_s", "mean_s", "rate_mbps"])?;
        let seconds = |field| o.require(field, "seconds")?.seconds(0.001);
        let rate = Rate::from_mbps(o.or("rate_mbps", 0.0, |at| at.number(0.0, 1000.0))?);
        Ok(reshape::Outages { every: seconds("every_s")?, mean: seconds("mean_s")?, rate })
    };
    Ok(Reshape {
        length: o.maybe("length_s", |at| Ok(Dur::from_secs_f64(at.number(0.1, 600.0)?)))?,
        stretch: o.or("stretch", 1.0, |at| at.number(0.1, 10.0))?,
        mean: o.maybe("mean_mbps", |at| Ok(Rate::from_mbps(at.number(0.01, 1000.0)?)))?,
        grid_ms: o.or("grid_ms", 1, |at| at.small(1, 1000))?,
        outages: o.maybe("outages", outages)?,
        seed: o.or("seed", 0, |at| at.whole(0, u64::MAX))?,
    })
}

/// Reads a queue discipline with its parameters.
///
/// # Errors
/// The first field at fault.
pub fn queue(at: &At<'_>) -> Result<QueueSpec> {
    let names: Vec<&str> = queues::all().map(|d| d.name).collect();
    let kind_of = |name: &str| Kind::ALL.iter().copied().find(|k| k.discipline().name == name);
    let fields = |name: &str| {
        let Some(d) = kind_of(name).map(Kind::discipline) else { return Vec::new() };
        let limits = if d.limit == LimitRule::Unlimited { &[][..] } else { LIMITS };
        let compat = if d.mahimahi { &["compat"][..] } else { &[] };
        limits.iter().chain(d.params).map(|p| p.name).chain(compat.iter().copied()).collect()
    };
    let (name, o) = at.tagged("queue discipline", &names, fields)?;
    let Some(kind) = kind_of(name) else { return at.fail(names.join(", ")) };
    let mut limit = None;
    for p in LIMITS {
        let Some(given) = o.get(p.name) else { continue };
        let read = match p.name {
            "packets" => Limit::Packets(given.small(p.min as u32, p.max as u32)?),
            "bytes" => Limit::Bytes(given.whole(p.min as u64, p.max as u64)?),
            _ => Limit::Bdp(given.number(p.min, p.max)?),
        };
        if limit.replace(read).is_some() {
            return at.fail("exactly one limit: packets, bytes or bdp");
        }
    }
    let mut given = BTreeMap::new();
    for p in kind.discipline().params {
        // An option is true or false as well as 1 or 0.
        let option = (p.min, p.max) == (0.0, 1.0) && p.default.fract() == 0.0;
        let read = |at: &At<'_>| match at.value {
            Value::Bool(on) if option => Ok(f64::from(u8::from(*on))),
            _ => at.number(p.min, p.max),
        };
        if let Some(value) = o.maybe(p.name, read)? {
            given.insert(p.name, value);
        }
    }
    let mahimahi = o.maybe("compat", |at| at.choice("compatibility", &["mahimahi"]))?.is_some();
    QueueSpec::new(kind, limit, &given, mahimahi).or_else(|refusal| match o.get(refusal.param) {
        Some(field) => field.fail(refusal.expected),
        None => at.fail(refusal.expected),
    })
}

/// True is a router for every flow that requests a signal; an object without a type is ACCT's router.
fn router(at: &At<'_>) -> Result<Option<RouterSpec>> {
    let names: Vec<&str> = routers::all().map(|r| r.name).collect();
    let name = match at.value {
        Value::Bool(on) => return Ok(on.then(RouterSpec::default)),
        Value::String(name) => name,
        Value::Object(fields) => match fields.get("type") {
            Some(Value::String(name)) => name,
            Some(_) => return at.fail(format!("a type: {}", names.join(", "))),
            None => "acct",
        },
        _ => return at.fail(format!("true, false, a type ({}) or {{type, its parameters}}", names.join(", "))),
    };
    let Some(&kind) = routers::Kind::ALL.iter().find(|k| k.description().name == name) else {
        return Err(unknown(at.path.clone(), "router", name, &names));
    };
    let params = kind.description().params;
    let mut given = BTreeMap::new();
    if at.value.is_object() {
        // `mode` is from documents written before there were types.
        let known: Vec<&str> = ["type", "mode"].into_iter().chain(params.iter().map(|p| p.name)).collect();
        let o = at.object(&known)?;
        o.maybe("mode", |at| at.choice("mode", &["equal"]))?;
        for p in params {
            if let Some(value) = o.maybe(p.name, |at| at.number(p.min, p.max))? {
                given.insert(p.name, value);
            }
        }
    }
    Ok(Some(RouterSpec::new(kind, &given)))
}

fn flows(at: &At<'_>, links: &[Link], duration: Dur, seed: u64) -> Result<Vec<Flow>> {
    let expected = format!("a list of 1 to {MAX_COUNT} flows, copies and arrivals included");
    let by_name: BTreeMap<&str, usize> = links.iter().enumerate().map(|(i, l)| (l.name.as_str(), i)).collect();
    let (mut names, mut flows, mut values, mut programs) = (HashSet::new(), Vec::new(), 0, 0);
    for (i, item) in at.list(&expected)?.iter().enumerate() {
        let (flow, count, arrivals) = flow(item, i, links, &by_name)?;
        let length = flow.stop.unwrap_or(Time(duration.0)).since(flow.start);
        for copy in 0..count {
            let random = rng::Stream::new(seed, Purpose::Arrivals, (i as u64) << 32 | copy as u64);
            let members = match &arrivals {
                None => vec![(Dur::ZERO, flow.app.clone())],
                Some((app, arrivals)) => {
                    arrivals.expand(Context { at: app, length, rate: slowest(&flow, links), random })?
                }
            };
            // All copies if they are alike, so that too many are refused before they are made.
            let alike = if arrivals.is_none() { count - copy } else { members.len() };
            if flows.len() + alike > MAX_COUNT {
                return at.fail(expected);
            }
            // Counts values of the flow as it is written out, so that an accepted scenario can be read again.
            if let Some((_, app)) = members.first() {
                let sample = Flow { app: app.clone(), ..flow.clone() };
                let each = values_in(&write::flow(&sample, links, flow.base_rtt.unwrap_or_default()));
                if values + alike * each > MAX_VALUES {
                    return item.fail(format!(
                        "flows of at most {MAX_VALUES} values with all copies and paths spelled out, and up to here \
                         there are {}: have fewer flows or links, or shorter lists",
                        values + alike * each
                    ));
                }
                values += members.len() * each;
            }
            let base = if count == 1 { flow.name.clone() } else { format!("{}-{copy}", flow.name) };
            for (number, (after, app)) in members.into_iter().enumerate() {
                let name = if arrivals.is_none() { base.clone() } else { format!("{base}-{number}") };
                if name.len() > MAX_NAME {
                    return item.fail(format!("a name of at most {MAX_NAME} bytes, with the numbers of copies"));
                }
                if !names.insert(name.clone()) {
                    return item.fail(format!("a name that no other flow has, not {name:?} again"));
                }
                programs += u32::from(matches!(flow.foreign, Some(Foreign::Programs(_))));
                if programs > MAX_PROGRAMS {
                    return item.fail(format!("at most {MAX_PROGRAMS} flows whose ends are programs"));
                }
                flows.push(Flow { name, app, start: flow.start + after, ..flow.clone() });
            }
        }
    }
    if flows.is_empty() { at.fail(expected) } else { Ok(flows) }
}

/// The least rate of the links on the path of `flow`; none if one of them varies.
fn slowest(flow: &Flow, links: &[Link]) -> Option<Rate> {
    let rate = |&l: &usize| match links[l].service {
        ServiceSpec::Constant(rate) => Some(rate),
        _ => None,
    };
    flow.path.iter().map(rate).collect::<Option<Vec<_>>>()?.into_iter().min()
}

/// Values in `value`, a long text counting as several.
fn values_in(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(values_in).sum(),
        Value::Object(fields) => fields.values().map(values_in).sum(),
        Value::String(text) => text.len() / 128,
        _ => 0,
    }
}

#[rustfmt::skip]
const FLOW_FIELDS: &[&str] = &[
    "name", "scheme", "foreign", "controller", "params", "start_s", "stop_s", "path", "return_path", "base_rtt_ms", "app", "policy",
    "rules", "requirement", "weight", "changes", "desired_mbps", "sack", "ecn", "peer_ecn", "l4s", "slow_start", "delayed_ack", "ack_policy",
    "min_rto_ms", "burst_bytes", "initial_window", "receive_window_packets", "mss_bytes", "header_bytes",
    "ack_bytes", "count",
];

/// Process of arrivals of a flow, and where it stands.
type Arriving<'a> = Option<(At<'a>, Box<dyn Arrivals>)>;

fn flow<'a>(
    at: &At<'a>,
    index: usize,
    links: &[Link],
    by_name: &BTreeMap<&str, usize>,
) -> Result<(Flow, usize, Arriving<'a>)> {
    let o = at.object(FLOW_FIELDS)?;
    let default = Flow::default();
    let foreign = o.maybe("foreign", foreign::read)?;
    let own = o.maybe("controller", own::read)?;
    let scheme = match (&foreign, &own) {
        (Some(_), Some(_)) => return at.fail("either `foreign` or `controller`"),
        (Some(_), None) => named(&o, params(&o, &[])?)?,
        (None, Some(_)) => named(&o, arguments(&o)?)?,
        (None, None) => scheme(&o)?,
    };
    let start = o.or("start_s", default.start, |at| Ok(Time::ZERO + at.seconds(0.0)?))?;
    let stop = o.maybe("stop_s", |at| match Time::ZERO + at.seconds(0.0)? {
        stop if stop <= start => at.fail(format!("more than start_s, which is {}", start.as_secs_f64())),
        stop => Ok(stop),
    })?;
    let path = o.or("path", (0..links.len()).collect(), |at| match path_of(at, by_name)? {
        path if path.is_empty() => at.fail("at least one link"),
        path => Ok(path),
    })?;
    let (policy, rules) = (o.maybe("policy", |at| policy(at, &scheme))?, o.maybe("rules", |at| rules(at, &scheme))?);
    let policy = policy.or(rules);
    let (app, arrivals) = match o.maybe("app", |at| Ok((at.clone(), apps::read(at)?)))? {
        None => (App::default(), None),
        Some((_, Read::One(app))) => (app, None),
        Some((at, Read::Many(arrivals))) => (App::default(), Some((at, arrivals))),
    };
    let mut flow = Flow {
        name: o.or("name", format!("flow{index}"), name)?,
        scheme: scheme.name.clone(),
        foreign,
        own,
        spec: scheme.spec.clone(),
        params: scheme.params(policy.as_ref()),
        start,
        stop,
        path,
        return_path: o.or("return_path", Vec::new(), |at| path_of(at, by_name))?,
        base_rtt: None,
        app,
        policy,
        requirement: o.maybe("requirement", requirement)?,
        weight: o.or("weight", default.weight, |at| weight(at, &scheme))?,
        changes: o.or("changes", Vec::new(), |at| changes(at, &scheme))?,
        desired: o.or("desired_mbps", default.desired, desired)?,
        sack: o.or("sack", default.sack, At::boolean)?,
        ecn: default.ecn,
        peer_ecn: o.or("peer_ecn", default.peer_ecn, feedback)?,
        l4s: o.or("l4s", default.l4s, At::boolean)?,
        slow_start: o.or("slow_start", default.slow_start, At::boolean)?,
        delayed_ack: o.or("delayed_ack", default.delayed_ack, At::boolean)?,
        ack_policy: o.or("ack_policy", default.ack_policy, ack_policy)?,
        min_rto: o.or("min_rto_ms", default.min_rto, |at| at.millis(1.0, MAX_MIN_RTO_MS))?,
        burst_bytes: o.maybe("burst_bytes", |at| at.small(1, MAX_BURST_BYTES))?,
        initial_window: o.or("initial_window", default.initial_window, |at| at.small(1, 100_000))?,
        receive_window: o.maybe("receive_window_packets", |at| at.small(1, 1_000_000_000))?,
        mss_bytes: o.or("mss_bytes", default.mss_bytes, |at| at.small(1, 65_000))?,
        header_bytes: o.or("header_bytes", default.header_bytes, |at| at.small(0, 500))?,
        ack_bytes: o.or("ack_bytes", default.ack_bytes, |at| at.small(1, 65_000))?,
    };
    flow.ecn = o.or("ecn", flow.asked_feedback(), feedback)?;
    check_quic(&o, &flow)?;
    check_l4s(&o, &flow)?;
    flow.base_rtt = Some(base_rtt(&o, &flow, links)?);
    let count = o.or("count", 1, |at| at.whole(1, MAX_COUNT as u64))?;
    Ok((flow, count as usize, arrivals))
}

/// Scheme of a flow, as its document gives it.
struct Chosen {
    name: String,
    spec: Option<Arc<Spec>>,
    given: BTreeMap<String, f64>,
    defaults: BTreeMap<String, f64>,
    learned: bool,
    rules: bool,
    weight_above: Option<f64>,
}

impl Chosen {
    /// The parameters, completed with the scheme's defaults unless `policy` is a trained one, which brings its own.
    fn params(&self, policy: Option<&PolicySpec>) -> BTreeMap<String, f64> {
        let trained = matches!(policy, Some(PolicySpec::Artifact(_) | PolicySpec::Integer(_)));
        let defaults = if trained { BTreeMap::new() } else { self.defaults.clone() };
        defaults.into_iter().chain(self.given.clone()).collect()
    }
}

/// The name of what is in no registry, and has no policy.
fn named(o: &Object<'_>, given: BTreeMap<String, f64>) -> Result<Chosen> {
    let at = o.require("scheme", "a name for the congestion control")?;
    Ok(Chosen {
        name: name(&at)?,
        spec: None,
        given,
        defaults: BTreeMap::new(),
        learned: false,
        rules: false,
        weight_above: None,
    })
}

/// The scheme called or described in field `scheme`, with its parameters.
fn scheme(o: &Object<'_>) -> Result<Chosen> {
    let names: Vec<&str> = registry::schemes().iter().map(|s| s.name).collect();
    let at = o.require("scheme", &format!("one of {}", names.join(", ")))?;
    if at.value.is_object() {
        let spec = Spec::read(&at)?;
        let interface = Arc::clone(spec.interface());
        let known: Vec<_> = interface.params.iter().map(|p| (p.name.as_str(), p.default, p.min, p.max)).collect();
        return Ok(Chosen {
            name: interface.name.clone(),
            given: params(o, &known)?,
            defaults: defaults(&known),
            learned: true,
            rules: false,
            weight_above: spec.weight_above(),
            spec: Some(Arc::new(spec)),
        });
    }
    let name = at.text("the name of a scheme or the spec of a learned one")?;
    let Some(scheme) = registry::schemes().iter().find(|s| s.name == name) else {
        return Err(unknown(at.path, "scheme", name, &names));
    };
    let known: Vec<_> = scheme.params.iter().map(|p| (p.name, p.default, p.min, p.max)).collect();
    Ok(Chosen {
        name: name.into(),
        spec: None,
        given: params(o, &known)?,
        defaults: defaults(&known),
        learned: scheme.learned,
        rules: scheme.rules,
        weight_above: scheme.weight_above,
    })
}

/// A parameter of a scheme: its name, its default, its smallest and its largest value.
type Known<'a> = (&'a str, f64, f64, f64);

fn defaults(known: &[Known<'_>]) -> BTreeMap<String, f64> {
    known.iter().map(|p| (p.0.to_string(), p.1)).collect()
}

/// Reads the field `params`.
fn params(o: &Object<'_>, known: &[Known<'_>]) -> Result<BTreeMap<String, f64>> {
    let mut params = BTreeMap::new();
    if let Some(at) = o.get("params") {
        let given = at.object(&known.iter().map(|p| p.0).collect::<Vec<_>>())?;
        for &(name, _, min, max) in known {
            if let Some(value) = given.maybe(name, |at| at.number(min, max))? {
                params.insert(name.into(), value);
            }
        }
    }
    Ok(params)
}

/// Reads the field `params` of a controller whose parameters are its own.
fn arguments(o: &Object<'_>) -> Result<BTreeMap<String, f64>> {
    let Some(at) = o.get("params") else { return Ok(BTreeMap::new()) };
    let Value::Object(fields) = at.value else { return at.fail("an object of numbers") };
    if fields.len() > MAX_ARGUMENTS {
        return at.fail(format!("at most {MAX_ARGUMENTS} parameters"));
    }
    let names: Vec<&str> = fields.keys().map(String::as_str).collect();
    let given = at.object(&names)?;
    let value = |name: &&str| Ok(((*name).into(), given.require(name, "a number")?.number(-ANY, ANY)?));
    names.iter().map(value).collect()
}

fn path_of(at: &At<'_>, by_name: &BTreeMap<&str, usize>) -> Result<Vec<usize>> {
    let mut path = Vec::new();
    for item in at.list("a list of names of links")? {
        let name = item.text("the name of a link")?;
        let Some(&index) = by_name.get(name) else {
            return Err(unknown(item.path, "link", name, &by_name.keys().copied().collect::<Vec<_>>()));
        };
        if path.contains(&index) {
            return item.fail("each link once");
        }
        path.push(index);
    }
    Ok(path)
}

/// The base RTT as given, at least the delays of the links on the way; otherwise the default.
fn base_rtt(o: &Object<'_>, flow: &Flow, links: &[Link]) -> Result<Dur> {
    let sum = |path: &[usize]| path.iter().fold(Dur::ZERO, |sum, &l| sum + links[l].delay);
    let (forth, back) = (sum(&flow.path), sum(&flow.return_path));
    let default = if flow.return_path.is_empty() { forth * 2 } else { forth + back };
    o.or("base_rtt_ms", default, |at| match at.millis(0.0, 2.0 * MAX_DELAY_MS)? {
        rtt if rtt < forth + back => {
            at.fail(format!("at least {} ms, the delay of the links on its way", (forth + back).as_millis_f64()))
        }
        rtt => Ok(rtt),
    })
}

fn ack_policy(at: &At<'_>) -> Result<AckPolicy> {
    let fields = |kind: &str| if kind == "quic" { vec!["packets", "max_delay_ms", "rtt_fraction"] } else { vec![] };
    let (kind, o) = at.tagged("acknowledgement policy", &["tcp", "quic"], fields)?;
    if kind == "tcp" {
        return Ok(AckPolicy::Tcp);
    }
    let default = QuicAcks::default();
    Ok(AckPolicy::Quic(QuicAcks {
        packets: o.or("packets", default.packets, |at| at.small(1, 1000))?,
        max_delay: o.or("max_delay_ms", default.max_delay, |at| at.millis(1.0, 1000.0))?,
        rtt_fraction: o.or("rtt_fraction", default.rtt_fraction, |at| at.number(0.0, 1.0))?,
    }))
}

/// Reads feedback of marks.
fn feedback(at: &At<'_>) -> Result<Feedback> {
    match at.value {
        Value::Bool(false) => Ok(Feedback::None),
        Value::Bool(true) => Ok(Feedback::Classic),
        Value::String(name) if name == Feedback::Accurate.name() => Ok(Feedback::Accurate),
        _ => at.fail("false, true (RFC 3168) or \"accurate\" (AccECN, RFC 9768)"),
    }
}

/// Refuses ECT(1) for a flow that does not ask for counts of marks.
fn check_l4s(o: &Object<'_>, flow: &Flow) -> Result<()> {
    let quic = flow.ack_policy != AckPolicy::Tcp && flow.ecn == Feedback::Classic;
    match o.get("l4s") {
        Some(at) if flow.l4s && flow.ecn < Feedback::Accurate && !quic => {
            at.fail("false, or ecn \"accurate\": L4S needs counts of marks (RFC 9331 §4.2)")
        }
        _ => Ok(()),
    }
}

/// Refuses options of TCP's acknowledgements that QUIC's do not have.
fn check_quic(o: &Object<'_>, flow: &Flow) -> Result<()> {
    if flow.ack_policy == AckPolicy::Tcp {
        return Ok(());
    }
    let because = "where ack_policy is of type quic";
    let fields = [
        ("sack", flow.sack, format!("true {because}: its acknowledgements are selective")),
        ("delayed_ack", flow.delayed_ack, format!("true {because}; {{type: quic, packets: 1}} delays none")),
        ("burst_bytes", flow.burst_bytes.is_none(), format!("null {because}: receive offload merges TCP's segments")),
    ];
    for (key, fits, expected) in fields {
        if let Some(at) = o.get(key).filter(|_| !fits) {
            return at.fail(expected);
        }
    }
    Ok(())
}

fn rules(at: &At<'_>, scheme: &Chosen) -> Result<PolicySpec> {
    if !scheme.rules {
        return at.fail(format!("null, because scheme {:?} runs no rule file", scheme.name));
    }
    Ok(PolicySpec::Rules(at.text("the path of a rule file")?.into()))
}

/// An action: a number, or a list of them for several actuators.
fn numbers(at: &At<'_>) -> Result<Vec<f64>> {
    if !at.value.is_array() {
        return Ok(vec![at.number(-1e9, 1e9)?]);
    }
    let list = at.list("a number, or a list of one for each actuator")?;
    list.iter().map(|number| number.number(-1e9, 1e9)).collect()
}

fn policy(at: &At<'_>, scheme: &Chosen) -> Result<PolicySpec> {
    if !scheme.learned {
        return at.fail(format!("null, because scheme {:?} takes no policy", scheme.name));
    }
    if at.value.is_object() {
        let o = at.object(&["constant", "integer", "by", "actions"])?;
        if let Some(file) = o.get("integer") {
            if o.get("constant").is_some() || o.get("by").is_some() {
                return at.fail("one of `integer`, `constant` and `by`");
            }
            return Ok(PolicySpec::Integer(file.text("the path of a policy artifact")?.into()));
        }
        if let Some(by) = o.get("by") {
            let actions = o.require("actions", "an action for each category")?.list("a list of actions")?;
            let actions = actions.iter().map(numbers).collect::<Result<_>>()?;
            return Ok(PolicySpec::Table { by: by.text("a column of the report")?.into(), actions });
        }
        let action = o.require("constant", "an action, or `integer: FILE`")?;
        return Ok(PolicySpec::Constant(numbers(&action)?));
    }
    let expected = "the path of a policy artifact, {integer: FILE} to infer it in integers, {constant: ACTION}, \
                    {by: COLUMN, actions: [ACTION, ...]} or \"none\"";
    Ok(match at.text(expected)? {
        "none" => PolicySpec::Nobody,
        file => PolicySpec::Artifact(file.into()),
    })
}

fn weight(at: &At<'_>, scheme: &Chosen) -> Result<f64> {
    let weight = at.number(0.001, MOST_WEIGHT)?;
    match scheme.weight_above.filter(|&above| weight <= above) {
        Some(above) => {
            at.fail(format!("a number above {above}, as scheme {:?} needs, up to {MOST_WEIGHT}", scheme.name))
        }
        None => Ok(weight),
    }
}

fn changes(at: &At<'_>, scheme: &Chosen) -> Result<Vec<(Time, Change)>> {
    let mut changes: Vec<(Time, Change)> = Vec::new();
    for item in at.list("a list of {at_s, weight, requirement}, times increasing")? {
        let o = item.object(&["at_s", "weight", "requirement"])?;
        let when = o.require("at_s", "seconds since the start")?;
        let time = Time::ZERO + when.seconds(0.0)?;
        if let Some((before, _)) = changes.last().filter(|(before, _)| time <= *before) {
            return when.fail(format!("more than {}, the time of the change before", before.as_secs_f64()));
        }
        let change = Change {
            weight: o.maybe("weight", |at| weight(at, scheme))?,
            requirement: o.maybe("requirement", requirement)?,
        };
        if change == Change::default() {
            return item.fail("a weight or a requirement that begins then");
        }
        changes.push((time, change));
    }
    Ok(changes)
}

fn requirement(at: &At<'_>) -> Result<Requirement> {
    let o = at.object(&["min_mbps", "max_mbps"])?;
    let min = o.require("min_mbps", "a rate in Mbit/s")?.mbps(0.0)?;
    let highest = o.require("max_mbps", "a rate in Mbit/s")?;
    match highest.mbps(0.0)? {
        max if max <= min => highest.fail(format!("more than min_mbps, which is {}", min.as_mbps())),
        max => Ok(Requirement { min, max }),
    }
}

fn desired(at: &At<'_>) -> Result<Vec<(Time, Rate)>> {
    if at.value.is_array() { at.steps("mbps") } else { Ok(vec![(Time::ZERO, at.mbps(0.0)?)]) }
}

fn record(at: &At<'_>, flows: &[Flow]) -> Result<Record> {
    let o = at.object(&["packets", "transmissions", "series", "reports", "trajectories", "bin_ms"])?;
    let default = Record::default();
    Ok(Record {
        packets: o.or("packets", default.packets, At::boolean)?,
        transmissions: o.or("transmissions", default.transmissions, At::boolean)?,
        series: o.or("series", default.series, At::boolean)?,
        reports: o.or("reports", default.reports, At::boolean)?,
        trajectories: o.get("trajectories").map(|at| trajectories::read(&at, flows)).transpose()?,
        bin: o.or("bin_ms", default.bin, |at| at.millis(0.1, 1e6))?,
    })
}
