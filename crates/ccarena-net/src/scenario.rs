//! The scenario: links, queues, flows, applications and seeds as one typed document, validated once for every backend.
//!
//! [`Scenario::from_json`] refuses what it does not know, naming the path, the value, what was expected and the nearest
//! right name; [`Scenario::to_json`] writes the normalised document, every default spelled out, which reads back equal.

mod changes;
pub mod foreign;
pub mod own;
mod read;
mod trajectories;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use ccarena_cc::learned::shipped;
use ccarena_cc::reader;
use ccarena_cc::types::{Dur, Rate, Requirement, Time};
use ccarena_cc::{Config, Feedback, FlowSetting, PolicySpec, Spec, registry};
use serde_json::Value;

use crate::accecn;
use crate::apps::Start;
use crate::conditions::ConditionsSpec;
use crate::delays::DelaySpec;
use crate::impairments::ImpairmentsSpec;
use crate::losses::LossSpec;
use crate::policer::PolicerSpec;
use crate::queues::QueueSpec;
use crate::rng::{Purpose, derive};
use crate::routers::RouterSpec;
use crate::service::{ServiceSpec, ShaperSpec};

pub use self::changes::{ChangeRequest, LinkChange};
pub use self::foreign::Foreign;
pub use self::own::Own;
pub use self::read::queue as read_queue;
pub use crate::apps::App;
pub use ccarena_cc::reader::{DocumentError as ScenarioError, Problem};

/// The version of the document that this crate reads and writes.
pub const VERSION: u64 = 1;

/// A run: what is on the way, who sends, for how long, with what seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Length of the run.
    pub duration: Dur,
    /// Seed of every random stream of the run.
    pub seed: u64,
    /// The links, at least one.
    pub links: Vec<Link>,
    /// The flows, at least one.
    pub flows: Vec<Flow>,
    /// Recordings beyond summaries.
    pub record: Record,
}

/// A queue, a server behind it, and a wire behind that.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Unique name.
    pub name: String,
    /// Service of the link.
    pub service: ServiceSpec,
    /// Queue of the link.
    pub queue: QueueSpec,
    /// Least one-way propagation delay, after the queue. Base RTTs, and all that is measured against them, are of it.
    pub delay: Dur,
    /// Trace of the conditions that the other fields leave to it. `delay` is the least of its delays.
    pub conditions: Option<ConditionsSpec>,
    /// Variation of the delay, if it varies.
    pub varies: Option<DelaySpec>,
    /// Mean of what each packet is late beyond `delay`, exponentially distributed and in order; with `wakes`, of what
    /// each wake is late.
    pub jitter: Dur,
    /// The other end takes packets only when its host wakes, which sleeps so long each time, in a random phase: an
    /// emulator that sleeps in whole milliseconds. Zero is at once.
    pub wakes: Dur,
    /// Process by which packets are lost before the queue.
    pub loss: LossSpec,
    /// Policer before the queue.
    pub policer: Option<PolicerSpec>,
    /// Shaper between the queue and the service.
    pub shaper: Option<ShaperSpec>,
    /// Packets that come out of order, twice or damaged.
    pub impairments: ImpairmentsSpec,
    /// Times at which every packet that arrives is lost.
    pub outages: Option<Outages>,
    /// Router of the link, which signals to the flows that cross it; none for most links.
    pub router: Option<RouterSpec>,
}

/// A link that is in turns on and off, for exponentially distributed times (mahimahi's `mm-onoff`); it begins on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outages {
    /// Mean time on.
    pub on: Dur,
    /// Mean time off.
    pub off: Dur,
}

/// A sender, its path and its application.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Unique name.
    pub name: String,
    /// A scheme in [`ccarena_cc::registry`], or the name of `spec`, of what is `foreign` or of `own`.
    pub scheme: String,
    /// Congestion control of somebody else, which runs on real sockets only.
    pub foreign: Option<Foreign>,
    /// Controller that the user has written.
    pub own: Option<Own>,
    /// A learned scheme that is given by its spec.
    pub spec: Option<Arc<Spec>>,
    /// The scheme's parameters; those that are missing are those of its trained policy, and without one the defaults.
    pub params: BTreeMap<String, f64>,
    /// Start time.
    pub start: Time,
    /// Stop time, if before the end of the run.
    pub stop: Option<Time>,
    /// Indices of the links that its data crosses, in order; at least one.
    pub path: Vec<usize>,
    /// Indices of the links that its acknowledgements cross; none is pure delay.
    pub return_path: Vec<usize>,
    /// Total two-way propagation delay; see [`Scenario::base_rtt`].
    pub base_rtt: Option<Dur>,
    /// Application.
    pub app: App,
    /// Decider for a learned scheme; none leaves it to the environment.
    pub policy: Option<PolicySpec>,
    /// Requirement for Hercules.
    pub requirement: Option<Requirement>,
    /// Weight in the WCC family.
    pub weight: f64,
    /// Changes of weight and requirement during the run, times increasing.
    pub changes: Vec<(Time, Change)>,
    /// The rate that the application asks ACCT's routers for, from each time on; the first at time zero.
    pub desired: Vec<(Time, Rate)>,
    /// Selective acknowledgements; cumulative ones otherwise.
    pub sack: bool,
    /// Feedback of marks that it asks for (ECN, RFC 3168): routers may mark instead of drop.
    pub ecn: Feedback,
    /// Most feedback of marks that its peer can give.
    pub peer_ecn: Feedback,
    /// Packets leave as ECT(1) whatever the scheme is (L4S, RFC 9331), if the peer counts marks.
    pub l4s: bool,
    /// Start in slow start.
    pub slow_start: bool,
    /// Delayed acknowledgements.
    pub delayed_ack: bool,
    /// Acknowledgement policy of its receiver.
    pub ack_policy: AckPolicy,
    /// Least variation that the retransmission timeout adds to the smoothed RTT.
    pub min_rto: Dur,
    /// Bytes that the hosts of a sender without pacing send and take in one go (segmentation and receive offload); none
    /// is a segment at a time.
    pub burst_bytes: Option<u32>,
    /// Initial window in segments.
    pub initial_window: u32,
    /// Segments that the receiver has room for beyond what it has acknowledged; no limit if none.
    pub receive_window: Option<u32>,
    /// Payload of a full segment.
    pub mss_bytes: u32,
    /// IP and transport headers of a data packet.
    pub header_bytes: u32,
    /// IP bytes of an acknowledgement.
    pub ack_bytes: u32,
}

/// Acknowledgement policy of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AckPolicy {
    /// Policy of Linux's TCP: every second segment, all at the start, compressed without progress;
    /// see `delayed_ack`.
    #[default]
    Tcp,
    /// Policy of QUIC stacks (RFC 9000 §13.2; QUICHE's acknowledgement decimation).
    /// Acknowledgements contain their delay, which the sender subtracts from its RTT samples (RFC
    /// 9002 §5.3).
    Quic(QuicAcks),
}

/// QUIC's acknowledgements: every other packet of the first 100, then rarely; at once what is out of order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuicAcks {
    /// Packets per acknowledgement.
    pub packets: u32,
    /// Longest delay of an acknowledgement.
    pub max_delay: Dur,
    /// Largest delay as a share of the smallest RTT.
    pub rtt_fraction: f64,
}

impl Default for QuicAcks {
    /// QUICHE's.
    fn default() -> Self {
        Self { packets: 10, max_delay: Dur::from_millis(25), rtt_fraction: 0.25 }
    }
}

/// Change of a flow; fields that are none stay.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// New weight.
    pub weight: Option<f64>,
    /// New requirement.
    pub requirement: Option<Requirement>,
}

/// Trajectories: flows in the terms of a spec, whatever schemes they run.
#[derive(Clone, Debug, PartialEq)]
pub struct Trajectories {
    /// The spec.
    pub spec: Arc<Spec>,
    /// Values of its parameters, missing ones at their defaults. A flow that runs the spec itself has its own.
    pub params: BTreeMap<String, f64>,
    /// Flows that are recorded.
    pub flows: Vec<usize>,
}

impl Trajectories {
    /// Returns true if `flow` runs the spec itself.
    #[must_use]
    pub fn is_own(&self, flow: &Flow) -> bool {
        let digest = |spec: &Spec| spec.interface().digest.clone();
        let own = match &flow.spec {
            Some(spec) => Some(digest(spec)),
            None if flow.foreign.is_some() || flow.own.is_some() => None,
            None => shipped::find(&flow.scheme).map(digest),
        };
        own.is_some_and(|own| own == self.spec.interface().digest)
    }
}

/// Recordings beyond summaries.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Every packet's arrival and departure at every link.
    pub packets: bool,
    /// Every packet at the ends of its flow, and every acknowledgement, in the simulator; and what `packets` says.
    pub transmissions: bool,
    /// Amounts per bin: what each flow received, what each link delivered, dropped and delayed.
    pub series: bool,
    /// The reports of learned schemes.
    pub reports: bool,
    /// Flows in the terms of a spec, in the simulator.
    pub trajectories: Option<Trajectories>,
    /// Bin width of time series.
    pub bin: Dur,
}

impl Default for Scenario {
    /// One CUBIC flow over one link for 30 s.
    fn default() -> Self {
        Self {
            duration: Dur::from_millis(30_000),
            seed: 1,
            links: vec![Link::default()],
            flows: vec![Flow::default()],
            record: Record::default(),
        }
    }
}

impl Default for Link {
    /// 48 Mbit/s, 10 ms one way, 1 BDP of drop-tail queue.
    fn default() -> Self {
        Self {
            name: "link0".into(),
            service: ServiceSpec::default(),
            queue: QueueSpec::default(),
            delay: Dur::from_millis(10),
            conditions: None,
            varies: None,
            jitter: Dur::ZERO,
            wakes: Dur::ZERO,
            loss: LossSpec::default(),
            policer: None,
            shaper: None,
            impairments: ImpairmentsSpec::default(),
            outages: None,
            router: None,
        }
    }
}

impl Link {
    /// Reads a link from a JSON document, with defaults for what is missing or null.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn from_json(document: &Value) -> Result<Self, ScenarioError> {
        read::link(&reader::At { value: document, path: String::new() }, 0)
    }
}

impl Default for Flow {
    /// Bulk data by CUBIC over the first link. Sizes are those of TCP over IPv4 on Ethernet with timestamps.
    fn default() -> Self {
        Self {
            name: "flow0".into(),
            scheme: "cubic".into(),
            foreign: None,
            own: None,
            spec: None,
            params: BTreeMap::new(),
            start: Time::ZERO,
            stop: None,
            path: vec![0],
            return_path: Vec::new(),
            base_rtt: None,
            app: App::default(),
            policy: None,
            requirement: None,
            weight: 1.0,
            changes: Vec::new(),
            desired: vec![(Time::ZERO, Rate(10_000_000_000))],
            sack: true,
            ecn: Feedback::None,
            peer_ecn: Feedback::Accurate,
            l4s: false,
            slow_start: true,
            delayed_ack: true,
            ack_policy: AckPolicy::Tcp,
            min_rto: Dur::from_millis(200),
            burst_bytes: None,
            initial_window: 10,
            receive_window: None,
            mss_bytes: 1448,
            header_bytes: 52,
            ack_bytes: 52,
        }
    }
}

impl Default for Record {
    fn default() -> Self {
        Self {
            packets: false,
            transmissions: false,
            series: false,
            reports: false,
            trajectories: None,
            bin: Dur::from_millis(10),
        }
    }
}

impl Flow {
    /// Feedback of marks that its scheme or spec needs.
    #[must_use]
    pub fn needed_feedback(&self) -> Feedback {
        if self.foreign.is_some() || self.own.is_some() {
            return Feedback::None;
        }
        match &self.spec {
            Some(spec) => spec.needed_feedback(),
            None => registry::find(&self.scheme).map_or(Feedback::None, |scheme| scheme.feedback),
        }
    }

    /// Feedback of marks that it asks for if its document does not say: as much as it needs.
    #[must_use]
    pub fn asked_feedback(&self) -> Feedback {
        match self.needed_feedback() {
            _ if self.l4s => Feedback::Accurate,
            Feedback::Changes => Feedback::Classic,
            needed => needed,
        }
    }

    /// Statement for its result of what it runs as, if its ends agreed on less feedback than it needs.
    pub(crate) fn fallback(&self) -> Option<String> {
        let (needed, agreed) = (self.needed_feedback(), self.feedback());
        let on = format!("its ends agreed on {:?}", agreed.name());
        if agreed < needed {
            let scheme = &self.scheme;
            let is_learned = self.spec.is_some() || registry::find(scheme).is_ok_and(|scheme| scheme.learned);
            let ran = if is_learned { "its policy ran on those, without ECT(1)" } else { "it ran as reno" };
            return Some(format!("{scheme} needs feedback of marks {:?}, and {on}: {ran}", needed.name()));
        }
        (self.l4s && agreed < Feedback::Accurate).then(|| format!("packets left without ECT(1), as {on}"))
    }

    /// Feedback of marks that its ends agree on. QUIC's acknowledgements count marks always (RFC 9000 §13.4); TCP's ends
    /// agree in the handshake, and a scheme that needs every change of marks has a receiver that tells them.
    #[must_use]
    pub fn feedback(&self) -> Feedback {
        if self.ack_policy != AckPolicy::Tcp {
            return if self.ecn.min(self.peer_ecn) == Feedback::None { Feedback::None } else { Feedback::Accurate };
        }
        match accecn::agreed(self.ecn, self.peer_ecn) {
            Feedback::Classic if self.needed_feedback() == Feedback::Changes => Feedback::Changes,
            agreed => agreed,
        }
    }

    /// All changes of the flow's settings, the next one last.
    #[must_use]
    pub fn settings(&self) -> Vec<(Time, FlowSetting)> {
        let mut settings: Vec<(Time, FlowSetting)> =
            self.desired.iter().skip(1).map(|&(at, rate)| (at, FlowSetting::DesiredRate(rate))).collect();
        for &(at, change) in &self.changes {
            settings.extend(change.weight.map(|weight| (at, FlowSetting::Weight(weight))));
            settings.extend(change.requirement.map(|requirement| (at, FlowSetting::Requirement(Some(requirement)))));
        }
        settings.sort_by_key(|s| std::cmp::Reverse(s.0));
        settings
    }
}

impl Scenario {
    /// Returns the error in the result of flow number `index`, whose controller has given up.
    #[must_use]
    pub fn gave_up(&self, index: usize, reason: &str) -> String {
        format!("flows[{index}] ({}): {reason}", self.flows[index].scheme)
    }

    /// Returns the configuration of the controller of flow number `index`, for segments of `mss`
    /// bytes.
    #[must_use]
    pub fn controller(&self, index: usize, mss: u32) -> Config {
        let flow = &self.flows[index];
        Config {
            mss,
            initial_window: flow.initial_window,
            slow_start: flow.slow_start,
            carried: None,
            seed: derive(self.seed, Purpose::Controller, index as u64),
            desired_rate: flow.desired.first().map_or(Config::default().desired_rate, |d| d.1),
            header_bytes: flow.header_bytes,
            weight: flow.weight,
            requirement: flow.requirement,
            feedback: flow.feedback(),
            params: flow.params.clone(),
            // They are read when the controller is built.
            rules: None,
        }
    }

    /// Returns the facts that the application of flow number `index` starts on.
    #[must_use]
    pub fn start(&self, index: usize) -> Start {
        let flow = &self.flows[index];
        let seed = derive(self.seed, Purpose::Application, index as u64);
        Start { mss: flow.mss_bytes, seed, return_delay: self.return_delay(flow) + self.delay(&flow.return_path) }
    }

    /// Reads a scenario from JSON text.
    ///
    /// # Errors
    /// If the text is not JSON or the document is not a scenario.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        Self::from_json(&reader::parse(text)?)
    }

    /// Reads a scenario from a JSON document, with defaults for what is missing or null. `count` replicates a flow, and
    /// base RTTs and parameters of schemes are filled in.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn from_json(document: &Value) -> Result<Self, ScenarioError> {
        read::scenario(document)
    }

    /// The normalised document: every field, defaults included.
    #[must_use]
    pub fn to_json(&self) -> Value {
        write::scenario(self)
    }

    /// `flow`'s total two-way propagation delay: as given, else that of its path and return path, a pure-delay return
    /// taking as long as the path.
    #[must_use]
    pub fn base_rtt(&self, flow: &Flow) -> Dur {
        let forth = self.delay(&flow.path);
        let back = if flow.return_path.is_empty() { forth } else { self.delay(&flow.return_path) };
        flow.base_rtt.unwrap_or(forth + back)
    }

    /// Returns the delay of `flow`'s acknowledgements beyond the links of its return path, which
    /// gives its base RTT.
    #[must_use]
    pub fn return_delay(&self, flow: &Flow) -> Dur {
        self.base_rtt(flow) - self.delay(&flow.path) - self.delay(&flow.return_path)
    }

    /// The bandwidth-delay product that a queue limit of link number `link` multiplies: `mean` (from
    /// [`Service::mean_rate`](crate::Service::mean_rate)) times the largest base RTT of the flows that cross the link.
    #[must_use]
    pub fn bdp_bytes(&self, link: usize, mean: Rate) -> u64 {
        let crosses = |f: &&Flow| f.path.contains(&link) || f.return_path.contains(&link);
        let rtt = self.flows.iter().filter(crosses).map(|f| self.base_rtt(f)).max();
        let own = || self.links.get(link).map_or(Dur::ZERO, |l| l.delay * 2);
        mean.bytes_in(rtt.unwrap_or_else(own)).0
    }

    fn delay(&self, path: &[usize]) -> Dur {
        path.iter().filter_map(|&l| self.links.get(l)).fold(Dur::ZERO, |sum, l| sum + l.delay)
    }
}

#[cfg(test)]
mod tests;
