//! Resources that a scenario needs, estimated before anything is allocated for it: a document of a
//! few hundred bytes can describe a run that no machine could hold.
//!
//! Estimates are upper bounds within small factors of the actual need. They count what grows with
//! the document's numbers, and leave out the rest. There is one limit, [`Limits`], with a factor
//! that the user may set.

use std::fmt;

use ccarena_cc::bounded::MODULE_MEMORY_BYTES;
use ccarena_cc::types::{Dur, Time};

use crate::cellular;
use crate::conditions::ConditionsSpec;
use crate::link::{Carried, Delivered, Link};
use crate::reshape::Reshape;
use crate::scenario::{self, Flow, Own, Scenario};
use crate::series::{FlowBin, LinkBin};
use crate::service::ServiceSpec;
use crate::trace::OPPORTUNITY_BYTES;
use crate::transmissions::{Heard, Transmission};

/// The environment variable by which a user allows more: how many times the default limits.
pub const VARIABLE: &str = "CCARENA_LIMITS";
/// Largest factor.
const MOST: f64 = 1e6;

/// A flow and its controller, a link and its queue, without what they hold.
const FLOW_BYTES: f64 = 8192.0;
const LINK_BYTES: f64 = 2048.0;
/// One of the queues of a discipline that keeps flows apart.
const HASHED_QUEUE_BYTES: f64 = 96.0;
/// A packet in a queue or on a wire, its entry in the sender's scoreboard and its acknowledgement.
const IN_FLIGHT_BYTES: f64 = 192.0;
/// Arrays of the result are made of bins and logs while these still stand.
const COPIES: f64 = 2.0;
/// Packets that flows send for each that the links carry.
const LOST: f64 = 2.0;
/// A learned scheme decides at most so often, and a report has so many columns of four bytes.
const DECISION_MS: f64 = 1.0;
const REPORT_BYTES: f64 = 4.0 * 48.0;
/// Most values of a trajectory besides observation and report: time, action, privileged state.
const TRAJECTORY_VALUES: usize = 32;

/// Limits of a scenario.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory_bytes: f64,
    /// Packets, counted at every link that they cross: the unit of a simulation's work.
    pub packets: f64,
}

impl Default for Limits {
    /// 4 GB, and packets for some minutes of one core.
    fn default() -> Self {
        Self { memory_bytes: 4e9, packets: 1e9 }
    }
}

impl Limits {
    /// The default limits times what `setting`, the value of [`VARIABLE`], says.
    ///
    /// # Errors
    /// If it is no number from 0.001 to a million.
    pub fn from_setting(setting: Option<&str>) -> Result<Self, ResourceError> {
        let Some(text) = setting else { return Ok(Self::default()) };
        match text.trim().parse::<f64>() {
            Ok(factor) if (0.001..=MOST).contains(&factor) => Ok(Self::default().times(factor)),
            _ => Err(ResourceError::FlowSetting { value: text.chars().take(60).collect() }),
        }
    }

    /// Segments that each of `flows` may have in flight where nothing else bounds it, however its window grows: what
    /// all together fill the memory, and never less than any run of this size needs.
    #[must_use]
    pub fn window_packets(&self, flows: usize) -> u32 {
        const FEWEST: f64 = 4096.0;
        (self.memory_bytes / IN_FLIGHT_BYTES / flows.max(1) as f64).max(FEWEST) as u32
    }

    /// All of them times `factor`.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { memory_bytes: self.memory_bytes * factor, packets: self.packets * factor }
    }
}

/// A scenario that asks for more than the limit, or a limit that is none.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ResourceError {
    /// More than the limit.
    #[error(
        "{path}: the run asks for about {asked}, {what}, and the limit is {limit}; {advice}, or set {VARIABLE}={factor} to \
         allow {factor} times the default"
    )]
    TooMuch {
        /// The field that matters most.
        path: String,
        /// Requested amount.
        asked: Amount,
        /// Field that requests it.
        what: String,
        /// The limit.
        limit: Amount,
        /// Advice on what to change.
        advice: &'static str,
        /// Value of the variable that would allow it.
        factor: f64,
    },
    /// The variable is no factor.
    #[error("{VARIABLE}: got {value:?}; expected a number from 0.001 to {MOST}: how many times the default limits")]
    FlowSetting {
        /// Value of the variable.
        value: String,
    },
}

/// An amount in the unit that a reader thinks in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Memory in bytes.
    Bytes(f64),
    /// Work in packets.
    Packets(f64),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(b) if b >= 1e12 => write!(f, "{:.1} TB of memory", b / 1e12),
            Self::Bytes(b) if b >= 1e9 => write!(f, "{:.1} GB of memory", b / 1e9),
            Self::Bytes(b) => write!(f, "{:.1} MB of memory", b / 1e6),
            Self::Packets(p) if p >= 1e9 => write!(f, "{:.1} thousand million packets", p / 1e9),
            Self::Packets(p) => write!(f, "{:.1} million packets", p / 1e6),
        }
    }
}

/// One thing that takes memory.
struct Part {
    path: String,
    what: &'static str,
    bytes: f64,
    advice: &'static str,
}

/// Resources that a scenario needs.
pub struct Demand {
    parts: Vec<Part>,
    packets: f64,
}

impl Demand {
    /// Estimates the resources of `scenario` from its document: packets are counted if the rate of
    /// every link on a way is given.
    #[must_use]
    pub fn of(scenario: &Scenario) -> Self {
        let capacity: Vec<f64> = scenario.links.iter().map(|l| link_bytes(l, scenario.duration)).collect();
        Self::with(scenario, &capacity)
    }

    /// Estimates the resources of `scenario` over `links`, whose capacity is known, traces
    /// included.
    #[must_use]
    pub fn over<T: Carried>(scenario: &Scenario, links: &[Link<T>]) -> Self {
        let end = Time(scenario.duration.0);
        let capacity: Vec<f64> = links.iter().map(|l| l.capacity_bytes(Time::ZERO, end) as f64).collect();
        Self::with(scenario, &capacity)
    }

    /// Returns the resources of `count` that are held at the same time: memory adds up, work is
    /// that of each.
    #[must_use]
    pub fn times(mut self, count: usize) -> Self {
        self.parts.iter_mut().for_each(|part| part.bytes *= count as f64);
        self
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory_bytes(&self) -> f64 {
        self.parts.iter().map(|p| p.bytes).sum()
    }

    /// Packets, counted at every link.
    #[must_use]
    pub fn packets(&self) -> f64 {
        self.packets
    }

    /// Checks that it is within `limits`.
    ///
    /// # Errors
    ///
    /// [`ResourceError::TooMuch`], naming the field that needs most.
    pub fn check(&self, limits: &Limits) -> Result<(), ResourceError> {
        let bytes = self.memory_bytes();
        if bytes > limits.memory_bytes {
            let most = self.parts.iter().max_by(|a, b| a.bytes.total_cmp(&b.bytes));
            let (path, what, advice) = most.map_or_else(Default::default, |p| (p.path.clone(), p.what, p.advice));
            let (asked, limit) = (Amount::Bytes(bytes), Amount::Bytes(limits.memory_bytes));
            let factor = (bytes / Limits::default().memory_bytes).ceil();
            return Err(ResourceError::TooMuch {
                path,
                asked,
                what: format!("most of it {what}"),
                limit,
                advice,
                factor,
            });
        }
        if self.packets > limits.packets {
            return Err(ResourceError::TooMuch {
                path: "duration_s".into(),
                asked: Amount::Packets(self.packets),
                what: "counted at every link, with the changes of links and applications".into(),
                limit: Amount::Packets(limits.packets),
                advice: "shorten it, lower the rates of links and applications, or send larger segments",
                factor: (self.packets / Limits::default().packets).ceil(),
            });
        }
        Ok(())
    }

    /// `capacity` says how many bytes each link could carry; infinite if it is unknown.
    fn with(scenario: &Scenario, capacity: &[f64]) -> Self {
        let seconds = scenario.duration.as_secs_f64();
        let bins = (scenario.duration.0 as f64 / scenario.record.bin.0.max(1) as f64).ceil();
        let (flows, links) = (scenario.flows.len() as f64, scenario.links.len() as f64);
        let size = |bytes: usize| bytes as f64 * COPIES;
        let mut parts = Vec::new();
        let mut part = |path: String, what, bytes, advice| parts.push(Part { path, what, bytes, advice });
        part("flows".into(), "for flows", flows * FLOW_BYTES, "have fewer flows");
        let modules = scenario.flows.iter().filter(|flow| matches!(flow.own, Some(Own::Wasm { .. }))).count();
        let advice = "have fewer flows whose controller is a module";
        part("flows".into(), "for modules", modules as f64 * MODULE_MEMORY_BYTES as f64, advice);
        part("links".into(), "for links", links * LINK_BYTES, "have fewer links");

        let mut per_bin = links * size(size_of::<f64>());
        if scenario.record.series {
            per_bin += flows * size(size_of::<FlowBin>()) + links * size(size_of::<LinkBin>());
        }
        part(
            "record.bin_ms".into(),
            "for time series",
            bins * per_bin,
            "take longer bins, fewer flows or a shorter run",
        );

        // What each flow can bring to its links, and each link can take.
        let mut on_link = vec![0.0; scenario.links.len()];
        let mut smallest = vec![f64::INFINITY; scenario.links.len()];
        let mut window = (0.0, 0);
        let (mut reports, mut wakes, mut ends) = (0.0, 0.0, 0.0);
        for (index, flow) in scenario.flows.iter().enumerate() {
            let wire = f64::from(flow.mss_bytes + flow.header_bytes).max(1.0);
            let way = flow.path.iter().filter_map(|&l| capacity.get(l)).copied().fold(f64::INFINITY, f64::min);
            let written = application_packets(flow, scenario.duration);
            let packets = (way / wire).min(written);
            // An application is woken for each segment, whether the links can carry it or not.
            wakes += if written.is_finite() { written - packets } else { 0.0 };
            for (&link, bytes) in flow
                .path
                .iter()
                .map(|l| (l, wire))
                .chain(flow.return_path.iter().map(|l| (l, f64::from(flow.ack_bytes).max(1.0))))
            {
                if let (Some(sum), Some(least)) = (on_link.get_mut(link), smallest.get_mut(link)) {
                    *sum += if packets.is_finite() { packets } else { 0.0 };
                    *least = f64::min(*least, bytes);
                }
            }
            let given = flow.params.get("window").copied().filter(|_| flow.scheme == "fixed").unwrap_or(0.0);
            let sent = given.max(f64::from(flow.initial_window)).min(flow.receive_window.map_or(f64::MAX, f64::from));
            let sent = sent.min(application_packets(flow, scenario.duration));
            window.0 += sent * IN_FLIGHT_BYTES;
            window.1 = if sent > window_of(scenario, window.1) { index } else { window.1 };
            ends +=
                if packets.is_finite() { packets * size(size_of::<Transmission>() + size_of::<Heard>()) } else { 0.0 };
            if let Some(trajectories) = scenario.record.trajectories.as_ref().filter(|t| t.flows.contains(&index)) {
                let interface = trajectories.spec.interface();
                let values = interface.observation_len + interface.report.len() + TRAJECTORY_VALUES;
                reports += packets.min(seconds * 1e3 / DECISION_MS) * size(values * size_of::<f32>());
            }
            if scenario.record.reports && (flow.spec.is_some() || flow.policy.is_some()) {
                reports += packets.min(seconds * 1e3 / DECISION_MS) * REPORT_BYTES;
            }
        }
        part(format!("flows[{}]", window.1), "for windows that are sent at once", window.0, "send less at once");
        part("record.reports".into(), "for reports", reports, "record no reports, or for a shorter time");

        let (mut packets, mut logged) = (wakes, 0.0);
        let mut hashed = (0.0, 0);
        for (index, link) in scenario.links.iter().enumerate() {
            let carried = on_link[index].min(capacity.get(index).copied().unwrap_or(f64::INFINITY) / smallest[index]);
            packets += carried + changes(link, seconds);
            logged += carried * size(size_of::<Delivered>());
            let what = "for delivery opportunities";
            let bytes = opportunities(&link.service, seconds) * size(size_of::<f64>());
            part(format!("links[{index}].service"), what, bytes, "take a shorter run or a slower link");
            let queues = link.queue.params.get("flows") * HASHED_QUEUE_BYTES;
            hashed = (hashed.0 + queues, if queues > 0.0 { index } else { hashed.1 });
        }
        if scenario.record.transmissions {
            // Each flow alone could fill its links; all together send what these carry, and what is lost on the way.
            let carried = logged / size(size_of::<Delivered>()) * size(size_of::<Transmission>() + size_of::<Heard>());
            let bytes = ends.min(carried * LOST);
            part("record.transmissions".into(), "for transmissions", bytes, "record series instead, or a shorter run");
        }
        let path = format!("links[{}].queue.flows", hashed.1);
        part(path, "for hashed queues", hashed.0, "hash to fewer queues");
        if scenario.record.packets || scenario.record.transmissions {
            let advice = "record series instead of packets, or a shorter run";
            part("record.packets".into(), "for packet logs", logged, advice);
        }
        Self { parts, packets }
    }
}

/// Returns the window that flow `index` sends at once, according to its fields.
fn window_of(scenario: &Scenario, index: usize) -> f64 {
    scenario.flows.get(index).map_or(0.0, |flow| {
        let given = flow.params.get("window").copied().filter(|_| flow.scheme == "fixed").unwrap_or(0.0);
        given.max(f64::from(flow.initial_window))
    })
}

/// Packets that the application of `flow` has to send within `duration`.
fn application_packets(flow: &Flow, duration: Dur) -> f64 {
    let stop = flow.stop.map_or(duration, |stop| stop.since(Time::ZERO).min(duration));
    let seconds = stop.as_secs_f64() - flow.start.as_secs_f64().min(stop.as_secs_f64());
    flow.app.packets(seconds, f64::from(flow.mss_bytes.max(1)))
}

/// Estimates the number of times that a link changes its rate, or is switched on or off.
fn changes(link: &scenario::Link, seconds: f64) -> f64 {
    let times = |period: Dur| seconds / period.as_secs_f64().max(1e-6);
    let of = |service: &ServiceSpec| match service {
        ServiceSpec::RandomSteps { period, .. } => times(*period),
        _ => 0.0,
    };
    let drawn = match &link.service {
        ServiceSpec::Access(access) => of(&access.rate) + access.slot().map_or(0.0, times),
        service => of(service),
    };
    let switched = link.outages.map_or(0.0, |o| 2.0 * seconds / (o.on + o.off).as_secs_f64().max(1e-6));
    drawn + switched
}

/// Bytes that a link carries within `duration`, by its description alone; infinite if that does not say.
fn link_bytes(link: &scenario::Link, duration: Dur) -> f64 {
    match link.conditions.as_ref().and_then(ConditionsSpec::stated_rate) {
        Some(rate) if link.service == ServiceSpec::Conditions => rate.0 as f64 / 8.0 * duration.as_secs_f64(),
        _ => stated_bytes(&link.service, duration),
    }
}

/// Bytes that a service carries within `duration`, by its description alone; infinite if that does not say.
fn stated_bytes(service: &ServiceSpec, duration: Dur) -> f64 {
    let bytes = |mbps: f64| mbps * 1e6 / 8.0 * duration.as_secs_f64();
    match service {
        ServiceSpec::Constant(rate) => bytes(rate.as_mbps()),
        ServiceSpec::RandomSteps { min, max, .. } => bytes(f64::midpoint(min.as_mbps(), max.as_mbps())),
        ServiceSpec::Steps(steps) => {
            let ends = steps.iter().skip(1).map(|s| s.0).chain([Time(duration.0)]);
            let span = |from: Time, to: Time| to.min(Time(duration.0)).since(from).as_secs_f64();
            steps.iter().zip(ends).map(|(&(from, rate), to)| rate.0 as f64 / 8.0 * span(from, to)).sum()
        }
        ServiceSpec::Cellular { preset, .. } => cellular::find_preset(preset).map_or(0.0, |p| bytes(p.mean_mbps())),
        ServiceSpec::Trace { .. } | ServiceSpec::Conditions => f64::INFINITY,
        ServiceSpec::Access(access) => stated_bytes(&access.rate, duration),
    }
}

/// Delivery opportunities that are made for a service before it runs.
fn opportunities(service: &ServiceSpec, seconds: f64) -> f64 {
    let count = |mbps: f64, seconds: f64| mbps * 1e6 / 8.0 * seconds / f64::from(OPPORTUNITY_BYTES);
    match service {
        ServiceSpec::Cellular { preset, .. } => {
            cellular::find_preset(preset).map_or(0.0, |p| count(p.mean_mbps(), seconds))
        }
        ServiceSpec::Trace {
            reshape: Some(Reshape { length: Some(length), stretch, mean: Some(mean), .. }), ..
        } => count(mean.as_mbps(), length.as_secs_f64() * stretch),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn scenario(document: &Value) -> Scenario {
        Scenario::from_json(document).unwrap()
    }

    fn base() -> Value {
        json!({
            "duration_s": 10,
            "links": [{"service": {"type": "constant", "rate_mbps": 12}, "queue": {"type": "infinite"}}],
            "flows": [{"scheme": "cubic"}],
        })
    }

    /// The message with which `change`, a pointer and a value each, is refused.
    fn refused(change: &[(&str, Value)]) -> String {
        let mut document = base();
        for (pointer, value) in change {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            document.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        Demand::of(&scenario(&document)).check(&Limits::default()).unwrap_err().to_string()
    }

    #[test]
    fn what_asks_for_too_much_is_named_with_the_figure_and_the_way_out() {
        let series = json!({"series": true, "bin_ms": 0.1});
        let text = refused(&[("/duration_s", json!(1e5)), ("/record", series.clone())]);
        assert_eq!(
            text,
            "record.bin_ms: the run asks for about 112.0 GB of memory, most of it for time series, and the limit is 4.0 \
             GB of memory; take longer bins, fewer flows or a shorter run, or set CCARENA_LIMITS=29 to allow 29 times \
             the default"
        );
        let many = json!([{"scheme": "cubic", "count": 10_000}]);
        let work = [("/flows", many), ("/record", series), ("/duration_s", json!(100))];
        assert!(refused(&work).starts_with("record.bin_ms: "));
        let random = json!({"type": "random_steps", "min_mbps": 1, "max_mbps": 2, "period_s": 0.001});
        let app = json!([{"scheme": "cubic", "app": {"type": "cbr", "rate_mbps": 1e6}}]);
        let outages = json!({"on_s": 0.001, "off_s": 0.001});
        for (pointer, value) in [("/links/0/service", random), ("/flows", app), ("/links/0/outages", outages)] {
            let said = refused(&[(pointer, value), ("/duration_s", json!(1e6)), ("/record", json!({"bin_ms": 1000}))]);
            assert!(said.starts_with("duration_s: the run asks for about "), "{said}");
        }
        let at_once = json!([{"scheme": "fixed", "params": {"window": 1e7}, "count": 5}]);
        assert!(refused(&[("/flows", at_once)]).starts_with("flows[0]: the run asks for about 9.6 GB"));
        let initial = json!([{"scheme": "cubic"}, {"scheme": "cubic", "initial_window": 100_000, "count": 1000}]);
        assert!(refused(&[("/flows", initial)]).starts_with("flows[1]: "));
        let fast = json!({"type": "constant", "rate_mbps": 1e6});
        let work = refused(&[("/links/0/service", fast.clone()), ("/duration_s", json!(3600))]);
        assert!(work.starts_with("duration_s: the run asks for about 300.0 thousand million packets"), "{work}");
        let logged = [("/links/0/service", fast), ("/record", json!({"packets": true}))];
        assert!(refused(&logged).starts_with("record.packets: "));
        let cellular = json!({"type": "cellular", "preset": "lte-driving"});
        assert!(
            refused(&[("/links/0/service", cellular), ("/duration_s", json!(1e6))]).starts_with("links[0].service: ")
        );
        let links: Vec<Value> = (0..2000)
            .map(|_| json!({"service": {"type": "constant", "rate_mbps": 1}, "queue": {"type": "fq_codel", "flows": 65_536}}))
            .collect();
        assert!(refused(&[("/links", json!(links))]).contains(".queue.flows: "));
    }

    #[test]
    fn a_user_may_allow_more() {
        let mut document = base();
        document["duration_s"] = json!(20_000);
        document["links"][0]["service"]["rate_mbps"] = json!(1000);
        let demand = Demand::of(&scenario(&document));
        assert!((demand.packets() - 20_000.0 * 1e9 / 8.0 / 1500.0).abs() < 1.0);
        assert!(demand.check(&Limits::default()).is_err());
        assert_eq!(demand.check(&Limits::from_setting(Some("2")).unwrap()), Ok(()));
        for (setting, works) in
            [(None, true), (Some("1e6"), true), (Some("0"), false), (Some("-1"), false), (Some("lots"), false)]
        {
            assert_eq!(Limits::from_setting(setting).is_ok(), works, "{setting:?}");
        }
        let text = Limits::from_setting(Some("inf")).unwrap_err().to_string();
        assert!(text.starts_with("CCARENA_LIMITS: got \"inf\"; expected a number from"), "{text}");
    }

    #[test]
    fn an_application_that_sends_little_asks_for_little() {
        let mut document = base();
        document["duration_s"] = json!(1e6);
        document["links"][0]["service"]["rate_mbps"] = json!(1e6);
        document["record"] = json!({"bin_ms": 1000, "packets": true});
        document["flows"][0]["app"] = json!({"type": "transfers", "sizes_bytes": [100_000, 1]});
        assert!((Demand::of(&scenario(&document)).packets() - 71.0).abs() < 1e-9, "70 segments and one");
        document["flows"][0]["app"] = json!({"type": "cbr", "rate_mbps": 0.1});
        assert_eq!(Demand::of(&scenario(&document)).check(&Limits::default()), Ok(()));
    }

    proptest! {
        /// Tests for any numbers that the estimate is a number, grows with each of them, and agrees
        /// with the refusal.
        #[test]
        fn estimates_are_finite_and_grow(
            duration in 0.001_f64..1e6, bin in 0.1_f64..1e6, rate in 0.001_f64..1e6, count in 1_u32..1000,
            window in 1.0_f64..1e7, mss in 1_u32..65_000, packets: bool, series: bool, more in 1.0_f64..1.9,
        ) {
            let document = |k: f64| json!({
                "duration_s": (duration * k).min(1e6),
                "links": [{"service": {"type": "constant", "rate_mbps": (rate * k).min(1e6)}}],
                "flows": [{"scheme": "fixed", "params": {"window": (window * k).min(1e7)}, "mss_bytes": mss, "count": count}],
                "record": {"packets": packets, "series": series, "bin_ms": bin},
            });
            let (one, larger) = (Demand::of(&scenario(&document(1.0))), Demand::of(&scenario(&document(more))));
            prop_assert!(one.memory_bytes().is_finite() && one.packets().is_finite());
            prop_assert!(one.memory_bytes() <= larger.memory_bytes() * 1.000_001);
            prop_assert!(one.packets() <= larger.packets() * 1.000_001);
            let fits = one.memory_bytes() <= 4e9 && one.packets() <= 1e9;
            prop_assert_eq!(one.check(&Limits::default()).is_ok(), fits);
        }
    }
}
