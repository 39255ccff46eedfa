//! Domain randomisation: a distribution over scenarios, from which every training episode draws one.
//!
//! Rates, RTTs and buffers are drawn log-uniformly, so that each factor of two is equally common.

mod documents;
mod medium;

use std::collections::BTreeMap;
use std::sync::Arc;

use ccarena_cc::elementary::{exp, ln};
use ccarena_cc::reader::At;
use ccarena_cc::{Dur, Rate, Spec, Time};
use ccarena_net::ServiceSpec;
use ccarena_net::apps::{App, OnOff};
use ccarena_net::conditions::{ConditionsSpec, Offset, Source};
use ccarena_net::losses::LossSpec;
use ccarena_net::queues::{Limit, QueueSpec};
use ccarena_net::reshape::{Outages, Reshape};
use ccarena_net::rng::{Purpose, Stream, derive};
use ccarena_net::routers::{Kind, RouterSpec};
use ccarena_net::scenario::{Flow, Link, Record, Scenario};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

pub use documents::{Competitor, Queue};
pub use medium::Medium;

/// A number or an interval to draw from.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Range {
    /// Always this.
    Fixed(f64),
    /// Linear change from the first to the second.
    Between(f64, f64),
}

impl Range {
    const fn nothing() -> Self {
        Self::Fixed(0.0)
    }

    fn bounds(self) -> (f64, f64) {
        match self {
            Self::Fixed(x) => (x, x),
            Self::Between(low, high) => (low, high.max(low)),
        }
    }

    fn uniform(self, stream: &mut Stream) -> f64 {
        let (low, high) = self.bounds();
        stream.uniform(low, high)
    }

    /// Log-uniform where the bounds are above zero, else uniform.
    fn log_uniform(self, stream: &mut Stream) -> f64 {
        let (low, high) = self.bounds();
        if low > 0.0 { exp(stream.uniform(ln(low), ln(high))) } else { stream.uniform(low, high) }
    }
}

/// Weights of the kinds of capacity.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Kinds {
    /// One rate.
    pub constant: f64,
    /// A new rate every few seconds.
    pub random_steps: f64,
    /// A generated cellular trace.
    pub cellular: f64,
    /// A recorded trace.
    pub trace: f64,
    /// A link model's trace of rate, delay and loss.
    pub model: f64,
    /// A conditions trace.
    pub conditions: f64,
    /// A scenario that an attack has found.
    pub adversarial: f64,
}

/// A scenario that an attack has found; its first flow stands for the learners.
#[derive(Clone, Debug)]
pub struct Found(Arc<Scenario>);

impl<'de> Deserialize<'de> for Found {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let document = Value::deserialize(deserializer)?;
        Scenario::from_json(&document).map(|found| Self(Arc::new(found))).map_err(D::Error::custom)
    }
}

/// A conditions trace and what has to be known of it before it is read.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// File of the trace.
    pub file: String,
    /// Mean rate in Mbit/s; none if the trace has no rates, and the link is of another kind.
    pub mean_mbps: Option<f64>,
    /// Least one-way delay in ms; none if the trace has no delays.
    pub delay_ms: Option<f64>,
    /// Flag that the trace has losses.
    pub loss: bool,
}

/// The bottleneck's distribution.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct LinkDomain {
    /// Kinds of capacity.
    pub kinds: Kinds,
    /// Shared media, each with its weight among these.
    #[serde(default)]
    pub media: Vec<Medium>,
    /// Rates in Mbit/s, for constant and random steps and of media.
    pub rate_mbps: Range,
    /// Seconds from one random step to the next.
    pub step_s: Range,
    /// Names of cellular presets.
    pub presets: Vec<String>,
    /// Trace files.
    pub traces: Vec<String>,
    /// Names of link models.
    #[serde(default)]
    pub models: Vec<String>,
    /// Conditions traces.
    #[serde(default)]
    pub conditions: Vec<Recorded>,
    /// Scenarios that attacks have found.
    #[serde(default)]
    pub adversarial: Vec<Found>,
    /// Changes to a recorded trace.
    #[serde(default)]
    pub augment: Option<Augment>,
    /// Probability that over a recorded trace acknowledgements cross a trace, too.
    #[serde(default)]
    pub uplinks: f64,
    /// Probability that receivers delay acknowledgements.
    #[serde(default = "always")]
    pub delayed_acks: f64,
    /// Base RTT in ms.
    pub rtt_ms: Range,
    /// Queue disciplines, drawn equally often.
    #[serde(default = "droptail")]
    pub queues: Vec<Queue>,
    /// Limit of queues that need one, in bandwidth-delay products of the mean rate.
    pub buffer_bdp: Option<Range>,
    /// The same in packets; takes precedence.
    pub buffer_packets: Option<Range>,
    /// Probability that the queue has no limit.
    #[serde(default)]
    pub unlimited: f64,
    /// Probability of independent packet loss, on links that lose packets at all.
    pub loss: Range,
    /// Probability that a link does.
    #[serde(default = "always")]
    pub lossy: f64,
    /// Probability that the bottleneck has a router.
    pub signal: f64,
    /// Share of capacity that the router offers.
    pub router_headroom: f64,
    /// Faults of the router; none for a perfect one.
    #[serde(default)]
    pub router: Option<Imperfection>,
}

impl<'de> Deserialize<'de> for LinkDomain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let link = Self::deserialize(deserializer)?;
        link.check().map_err(D::Error::custom)?;
        Ok(link)
    }
}

impl LinkDomain {
    /// Checks that a queue can be drawn, and its limit if it needs one.
    fn check(&self) -> Result<(), &'static str> {
        if self.queues.is_empty() {
            return Err("link.queues is empty; expected at least one queue");
        }
        let has_limits = self.buffer_bdp.is_some() || self.buffer_packets.is_some() || self.unlimited >= 1.0;
        if !has_limits && self.queues.iter().any(|queue| queue.is_sized) {
            return Err("link.buffer_bdp is missing; expected a range, since a queue needs a limit and names none");
        }
        Ok(())
    }
}

/// Distribution of what an ACCT router's measurements lack (`router` of a scenario's link).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Imperfection {
    /// Time between two measurements in ms.
    pub every_ms: Range,
    /// Age of the offered measurement in ms.
    pub late_ms: Range,
    /// Largest relative error.
    pub noise: Range,
    /// Significant bits of the rate, whole numbers.
    pub bits: Range,
    /// Share of measurements that are missing.
    pub missing: Range,
    /// Probability that a router lacks one of these alone, drawn equally often.
    #[serde(default)]
    pub single: f64,
}

impl Imperfection {
    fn draw(&self, stream: &mut Stream) -> [(&'static str, f64); 5] {
        let mut lacks = [
            ("every_ms", self.every_ms.uniform(stream)),
            ("late_ms", self.late_ms.uniform(stream)),
            ("noise", self.noise.uniform(stream)),
            ("bits", self.bits.uniform(stream).round()),
            ("missing", self.missing.uniform(stream)),
        ];
        // Nothing is drawn for a router that always lacks all, so that its episodes stay as they were.
        if self.single > 0.0 && stream.chance(self.single) {
            let ranges = [self.every_ms, self.late_ms, self.noise, self.bits, self.missing];
            let possible = lacks.iter().zip(ranges).filter(|(_, range)| range.bounds().1 > 0.0);
            let names: Vec<_> = possible.map(|((name, _), _)| *name).collect();
            let one = if names.is_empty() { "" } else { names[stream.below(names.len() as u64) as usize] };
            for (name, value) in &mut lacks {
                // What is wrong or missing is a measurement: without `every_ms` there would be one per packet.
                let its_own = *name == one || (*name == "every_ms" && ["noise", "missing"].contains(&one));
                *value = if its_own { *value } else { 0.0 };
            }
        }
        lacks
    }
}

/// Distribution of what is made of a recorded trace ([`Reshape`]).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Augment {
    /// Length of the piece in seconds.
    pub length_s: Range,
    /// Factor on its times.
    pub stretch: Range,
    /// Mean rate that it is brought to in Mbit/s.
    pub mean_mbps: Range,
    /// Grid of its times in ms.
    pub grid_ms: Range,
    /// Probability that outages are put into it.
    pub outages: f64,
    /// Mean time between outages in seconds.
    pub outage_every_s: Range,
    /// Mean length of an outage in seconds.
    pub outage_s: Range,
    /// Capacity during an outage in Mbit/s.
    #[serde(default = "Range::nothing")]
    pub outage_mbps: Range,
}

impl Augment {
    /// Returns the capacity during an outage. Nothing is drawn if outages have no capacity.
    fn left(&self, stream: &mut Stream) -> Rate {
        let some = self.outage_mbps.bounds().1 > 0.0;
        if some { Rate::from_mbps(self.outage_mbps.uniform(stream)) } else { Rate(0) }
    }

    fn draw(&self, stream: &mut Stream) -> Reshape {
        let seconds = |x: f64| Dur::from_secs_f64(x);
        Reshape {
            length: Some(seconds(self.length_s.uniform(stream))),
            stretch: self.stretch.log_uniform(stream),
            mean: Some(Rate::from_mbps(self.mean_mbps.log_uniform(stream))),
            grid_ms: self.grid_ms.log_uniform(stream).round().max(1.0) as u32,
            outages: stream.chance(self.outages).then(|| {
                let every = seconds(self.outage_every_s.log_uniform(stream));
                let mean = seconds(self.outage_s.log_uniform(stream));
                Outages { every, mean, rate: self.left(stream) }
            }),
            seed: stream.next_u64(),
        }
    }
}

/// Competing flows.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrossTraffic {
    /// Probability that an episode has some.
    pub probability: f64,
    /// Flows to draw from, equally often.
    pub schemes: Vec<Competitor>,
    /// Number of flows, inclusive.
    pub flows: Option<(u32, u32)>,
    /// Probability that a competitor's application switches on and off.
    #[serde(default = "half")]
    pub on_off: f64,
}

/// Beginning of the names of other competitors.
const CROSS: &str = "cross";

/// A scheme by name, or a learned one as a spec.
#[derive(Clone, Debug)]
pub struct LearnerScheme {
    /// Name of the scheme.
    pub name: String,
    /// Spec of the scheme, if it is given.
    pub spec: Option<Arc<Spec>>,
}

impl<'de> Deserialize<'de> for LearnerScheme {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Value::String(name) = value {
            return Ok(Self { name, spec: None });
        }
        let spec = Spec::read(&At { value: &value, path: "learner.scheme".into() }).map_err(D::Error::custom)?;
        Ok(Self { name: spec.interface().name.clone(), spec: Some(Arc::new(spec)) })
    }
}

/// The flows that learn, or whose parameters are searched.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Learner {
    /// A scheme by name, or a learned one as a spec.
    pub scheme: LearnerScheme,
    /// Parameters of the scheme.
    #[serde(default)]
    pub params: BTreeMap<String, f64>,
    /// Parameters and inputs that every episode draws anew, the same for all learners.
    #[serde(default)]
    pub drawn: BTreeMap<String, Range>,
    /// Number of its flows that share the bottleneck from the start.
    #[serde(default = "one")]
    pub count: u32,
    /// Rate that their applications ask for.
    pub desired_mbps: f64,
}

const fn always() -> f64 {
    1.0
}

const fn half() -> f64 {
    0.5
}

fn droptail() -> Vec<Queue> {
    vec![Queue::droptail()]
}

const fn one() -> u32 {
    1
}

/// A distribution over scenarios.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Domain {
    /// Length of an episode in seconds.
    pub episode_s: Range,
    /// The bottleneck.
    pub link: LinkDomain,
    /// Competitors.
    #[serde(default)]
    pub cross_traffic: CrossTraffic,
    /// The learners; they come first among the flows.
    pub learner: Learner,
}

/// Rate of a link whose mean is not known; it only sizes the buffer.
const TYPICAL: Rate = Rate(10_000_000);

/// Fewest packets of a buffer that is given in bandwidth-delay products.
const LEAST_BUFFER_PACKETS: u64 = 10;

/// Capacity of an episode's link, and the trace that it is from.
struct Capacity {
    service: ServiceSpec,
    /// Mean rate; it only sizes the buffer.
    mean: Rate,
    /// Trace of a model or a recording.
    conditions: Option<ConditionsSpec>,
    /// Least delay of that trace, if it has delays.
    delay: Option<Dur>,
    /// Flag that the trace has losses.
    has_loss: bool,
}

impl Recorded {
    /// Returns a link over the trace, from a start that the episode's seed draws; one without rates serves as `others`.
    fn capacity(&self, others: impl FnOnce() -> (ServiceSpec, Rate)) -> Capacity {
        let source = Source::File(self.file.clone());
        let own = self.mean_mbps.map(|mean| (ServiceSpec::Conditions, Rate::from_mbps(mean)));
        let (service, mean) = own.unwrap_or_else(others);
        Capacity {
            service,
            mean,
            conditions: Some(ConditionsSpec { source, offset: Offset::Random, keep_order: true }),
            delay: self.delay_ms.map(|ms| Dur((ms * 1e6).round() as u64)),
            has_loss: self.loss,
        }
    }
}

impl Domain {
    fn router(&self, stream: &mut Stream) -> RouterSpec {
        let lacks = self.link.router.map(|router| router.draw(stream));
        let given = lacks.into_iter().flatten().chain([("headroom", self.link.router_headroom)]);
        RouterSpec::new(Kind::AcctRouter, &given.collect())
    }

    /// The scenario of `episode` in world `world` of a run seeded with `seed`.
    #[must_use]
    pub fn draw(&self, seed: u64, world: u64, episode: u64) -> Scenario {
        let key = derive(derive(seed, Purpose::Domain, world), Purpose::Domain, episode);
        let stream = &mut Stream::keyed(key);
        if let Some(found) = self.found(stream) {
            return self.on(found, stream);
        }
        let duration = Dur::from_secs_f64(self.episode_s.uniform(stream));
        let rtt = Dur::from_secs_f64(self.link.rtt_ms.log_uniform(stream) / 1e3);
        let Capacity { service, mean, conditions, delay, has_loss } = self.capacity(stream);
        let rtt = delay.map_or(rtt, |delay| delay * 2);
        let link = Link {
            service,
            queue: self.queue(stream, mean, rtt),
            delay: rtt / 2,
            loss: LossSpec::independent(if has_loss {
                0.0
            } else if self.link.lossy >= 1.0 || stream.chance(self.link.lossy) {
                self.link.loss.uniform(stream)
            } else {
                0.0
            }),
            router: stream.chance(self.link.signal).then(|| self.router(stream)),
            conditions,
            ..Link::default()
        };
        let mut links = vec![link];
        let traced = matches!(links[0].service, ServiceSpec::Trace { .. });
        let uplink = traced && self.link.uplinks > 0.0 && stream.chance(self.link.uplinks);
        if uplink {
            let (name, service) = ("uplink".into(), self.uplink(stream));
            links.push(Link { name, service, queue: QueueSpec::infinite(), delay: Dur::ZERO, ..Link::default() });
        }
        let delayed_ack = self.link.delayed_acks >= 1.0 || stream.chance(self.link.delayed_acks);
        let mut flows: Vec<Flow> = (0..self.learner.count).map(|i| self.learning(format!("learner{i}"))).collect();
        flows.extend(self.competitors(stream, duration));
        for flow in &mut flows {
            flow.delayed_ack = delayed_ack;
            if uplink {
                (flow.path, flow.return_path, flow.base_rtt) = (vec![0], vec![1], Some(rtt));
            }
        }
        self.drawn(duration, links, flows, stream)
    }

    /// Returns a scenario of an attack, if the episode is one. Nothing is drawn if there are none, so that the episodes of
    /// others stay as they were.
    fn found(&self, stream: &mut Stream) -> Option<&Scenario> {
        let found = &self.link.adversarial;
        let Kinds { constant, random_steps, cellular, trace, model, conditions, adversarial } = self.link.kinds;
        if found.is_empty() || adversarial <= 0.0 {
            return None;
        }
        let media: f64 = self.link.media.iter().map(|medium| medium.weight).sum();
        let others = constant + random_steps + cellular + trace + model + conditions + media;
        let chosen = stream.chance(adversarial / (adversarial + others));
        chosen.then(|| &*found[stream.below(found.len() as u64) as usize].0)
    }

    /// Returns the learners on the links of a scenario that was found, beside its other flows.
    fn on(&self, found: &Scenario, stream: &mut Stream) -> Scenario {
        let learners = (0..self.learner.count).map(|i| self.learning(format!("learner{i}")));
        let others = found.flows.iter().skip(1).enumerate();
        let others = others.map(|(i, flow)| Flow { name: format!("{CROSS}{i}"), ..flow.clone() });
        self.drawn(found.duration, found.links.clone(), learners.chain(others).collect(), stream)
    }

    /// Returns the scenario of links and flows; its seed and the learners' parameters are drawn.
    fn drawn(&self, duration: Dur, links: Vec<Link>, mut flows: Vec<Flow>, stream: &mut Stream) -> Scenario {
        let seed = stream.next_u64();
        // Last, so that what else an episode draws is the same without them.
        for (name, range) in &self.learner.drawn {
            let value = range.log_uniform(stream);
            for flow in flows.iter_mut().filter(|flow| Self::learns(flow)) {
                flow.params.insert(name.clone(), value);
            }
        }
        Scenario {
            duration,
            seed,
            links,
            flows,
            record: Record { packets: false, reports: false, ..Record::default() },
        }
    }

    /// Returns true if a flow of a drawn scenario is a learner; a competitor of the same scheme is none.
    #[must_use]
    pub fn learns(flow: &Flow) -> bool {
        !flow.name.starts_with(CROSS)
    }

    fn learning(&self, name: String) -> Flow {
        let Learner { scheme, params, desired_mbps, .. } = &self.learner;
        let mut flow = Flow {
            name,
            scheme: scheme.name.clone(),
            spec: scheme.spec.clone(),
            params: params.clone(),
            desired: vec![(Time::ZERO, Rate::from_mbps(*desired_mbps))],
            ..Flow::default()
        };
        flow.ecn = flow.asked_feedback();
        flow
    }

    /// Returns the capacity of an episode's link, and what a model or a recording gives besides. Without links of these
    /// kinds nothing is drawn for them, so that the episodes of others stay as they were.
    fn capacity(&self, stream: &mut Stream) -> Capacity {
        let Kinds { constant, random_steps, cellular, trace, model, conditions, .. } = self.link.kinds;
        let media: f64 = self.link.media.iter().map(|medium| medium.weight).sum();
        let others = constant + random_steps + cellular + trace + media;
        let model = if self.link.models.is_empty() { 0.0 } else { model };
        let conditions = if self.link.conditions.is_empty() { 0.0 } else { conditions };
        if conditions > 0.0 && stream.chance(conditions / (conditions + model + others)) {
            let recorded = &self.link.conditions[stream.below(self.link.conditions.len() as u64) as usize];
            return recorded.capacity(|| self.service(stream));
        }
        if model > 0.0 && stream.chance(model / (model + others)) {
            let name = &self.link.models[stream.below(self.link.models.len() as u64) as usize];
            let spec = ConditionsSpec::of_model(name, stream.next_u64());
            let (mean, delay) = (spec.stated_rate().unwrap_or(TYPICAL), spec.base_delay());
            return Capacity { service: ServiceSpec::Conditions, mean, conditions: Some(spec), delay, has_loss: true };
        }
        let (service, mean) = self.service(stream);
        Capacity { service, mean, conditions: None, delay: None, has_loss: false }
    }

    /// A capacity and its mean (of a trace as it is recorded: a typical LTE rate).
    fn service(&self, stream: &mut Stream) -> (ServiceSpec, Rate) {
        let Kinds { constant, random_steps, cellular, trace, .. } = self.link.kinds;
        let cellular = if self.link.presets.is_empty() { 0.0 } else { cellular };
        let trace = if self.link.traces.is_empty() { 0.0 } else { trace };
        let media: f64 = self.link.media.iter().map(|medium| medium.weight).sum();
        let mut x = stream.next_f64() * (constant + random_steps + cellular + trace + media);
        let (low, high) = self.link.rate_mbps.bounds();
        x -= random_steps;
        if x < 0.0 {
            let period = Dur::from_secs_f64(self.link.step_s.uniform(stream));
            let (min, max) = (Rate::from_mbps(low), Rate::from_mbps(high));
            return (ServiceSpec::RandomSteps { min, max, period }, Rate::from_mbps((low + high) / 2.0));
        }
        x -= cellular;
        if x < 0.0 {
            let preset = self.link.presets[stream.below(self.link.presets.len() as u64) as usize].clone();
            return (ServiceSpec::Cellular { preset, seed: Some(stream.next_u64()), offset: Dur::ZERO }, TYPICAL);
        }
        x -= trace;
        if x < 0.0 {
            return self.trace(stream);
        }
        for medium in &self.link.media {
            x -= medium.weight;
            if x < 0.0 {
                let rate = Rate::from_mbps(self.link.rate_mbps.log_uniform(stream));
                return (medium.draw(rate, stream), rate);
            }
        }
        let rate = Rate::from_mbps(self.link.rate_mbps.log_uniform(stream));
        (ServiceSpec::Constant(rate), rate)
    }

    /// A recorded trace, of which there is one at least, and what is made of it.
    fn trace(&self, stream: &mut Stream) -> (ServiceSpec, Rate) {
        let file = self.link.traces[stream.below(self.link.traces.len() as u64) as usize].clone();
        // Any offset is within the trace: it repeats.
        let offset = Dur::from_secs_f64(stream.uniform(0.0, 1000.0));
        let reshape = self.link.augment.map(|augment| augment.draw(stream));
        let mean = reshape.and_then(|r| r.mean).unwrap_or(TYPICAL);
        (ServiceSpec::Trace { file, offset, reshape }, mean)
    }

    /// A recorded trace at its own rate: what acknowledgements need does not grow and fall with the rate of the data's link.
    fn uplink(&self, stream: &mut Stream) -> ServiceSpec {
        match self.trace(stream).0 {
            ServiceSpec::Trace { file, offset, reshape } => {
                let reshape = reshape.map(|reshape| Reshape { mean: None, ..reshape });
                ServiceSpec::Trace { file, offset, reshape }
            }
            other => other,
        }
    }

    fn queue(&self, stream: &mut Stream, mean: Rate, rtt: Dur) -> QueueSpec {
        if self.link.unlimited > 0.0 && stream.chance(self.link.unlimited) {
            return QueueSpec::infinite();
        }
        // Nothing is drawn for one discipline alone, so that its episodes stay as they were.
        let queue = match &self.link.queues[..] {
            [one] => one,
            several => &several[stream.below(several.len() as u64) as usize],
        };
        queue.limited(queue.is_sized.then(|| self.limit(stream, mean, rtt)).flatten())
    }

    /// Returns the limit of a queue; none if there is no range to draw it from.
    fn limit(&self, stream: &mut Stream, mean: Rate, rtt: Dur) -> Option<Limit> {
        let packets = match (self.link.buffer_packets, self.link.buffer_bdp) {
            (Some(packets), _) => packets.log_uniform(stream).round().max(1.0) as u32,
            (None, Some(bdp)) => {
                let bytes = mean.bytes_in(rtt).0 as f64 * bdp.log_uniform(stream);
                u32::try_from((bytes as u64 / 1500).max(LEAST_BUFFER_PACKETS)).unwrap_or(u32::MAX)
            }
            (None, None) => return None,
        };
        Some(Limit::Packets(packets))
    }

    /// Competitors start somewhere in the first half of the episode, bulk or on and off; those that learn are bulk.
    fn competitors(&self, stream: &mut Stream, duration: Dur) -> Vec<Flow> {
        let CrossTraffic { probability, schemes, flows, on_off } = &self.cross_traffic;
        if schemes.is_empty() || !stream.chance(*probability) {
            return Vec::new();
        }
        let (low, high) = flows.unwrap_or((1, 1));
        let count = u64::from(low) + stream.below(u64::from(high.saturating_sub(low)) + 1);
        (0..count)
            .map(|i| {
                let start = Time::from_secs_f64(stream.uniform(0.0, duration.as_secs_f64() / 2.0));
                let app = if stream.chance(1.0 - on_off) {
                    App::default()
                } else {
                    let seconds = |s: f64| Dur::from_secs_f64(s);
                    App::OnOff(OnOff {
                        rate: Rate::from_mbps(self.link.rate_mbps.log_uniform(stream) / 2.0),
                        on: seconds(stream.uniform(0.5, 3.0)),
                        off: seconds(stream.uniform(0.5, 3.0)),
                    })
                };
                match &schemes[stream.below(schemes.len() as u64) as usize] {
                    Competitor::Own => Flow { start, ..self.learning(format!("own{i}")) },
                    Competitor::Other(flow) => Flow { name: format!("{CROSS}{i}"), start, app, ..(**flow).clone() },
                }
            })
            .collect()
    }
}
