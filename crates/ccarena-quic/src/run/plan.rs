//! Plan of a run, and checks that QUIC can do what a scenario says.

use std::path::Path;
use std::sync::Arc;

use ccarena_cc::{Config, Controller, Decider, Dur, Feedback, Interface, Policies, Signal, Time};
use ccarena_link::live::programs;
use ccarena_net::scenario::{AckPolicy, Flow, Foreign, Own};
use ccarena_net::{Ecn, Scenario};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{HEADER_BYTES, RunError};
use crate::remote::Token;
use crate::steering::Driver;
use crate::transport::{Acks, LARGEST_MTU, SMALLEST_MTU, Settings};

/// The shortest delay of acknowledgements that the stack takes (its timers' granularity).
const SHORTEST_ACK_DELAY: Dur = Dur::from_millis(1);

/// A scenario, and what makes its run a valid one.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The scenario.
    pub scenario: Scenario,
    /// The document that it was read from.
    pub document: Value,
    /// The run is valid while the p99 of the emulator's lateness is within this.
    pub lateness_bound: Dur,
    /// The machine at the other end; none if the emulator carries the run.
    pub remote: Option<Remote>,
}

/// Another machine, on which `ccarena remote serve` runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remote {
    /// `HOST:PORT`.
    pub address: String,
    /// Secret that both ends hold.
    pub token: Token,
    /// Flag that the other machine sends, and this one receives.
    #[serde(default)]
    pub reverse: bool,
}

impl Request {
    /// Reads a request from its line.
    ///
    /// # Errors
    /// If it is no request, or its scenario is refused.
    pub fn parse(line: &str) -> Result<Self, RunError> {
        let fault = |message: String| RunError::Request(message);
        let document: Map<String, Value> =
            serde_json::from_str(line).map_err(|e| fault(format!("{e}; expected one JSON object on one line")))?;
        let known = ["scenario", "lateness_bound_ms", "remote"];
        if let Some(name) = document.keys().find(|k| !known.contains(&k.as_str())) {
            return Err(fault(format!("unknown field {name:?}; expected {}", known.join(", "))));
        }
        let get = |name: &str| document.get(name).filter(|v| !v.is_null());
        let bound_ms = get("lateness_bound_ms").map_or(Some(1.0), Value::as_f64).filter(|ms| *ms > 0.0);
        let bound_ms = bound_ms.ok_or_else(|| fault("lateness_bound_ms: expected a number above zero".into()))?;
        let scenario = get("scenario").ok_or_else(|| fault("scenario: missing; expected a scenario".into()))?;
        let remote = get("remote").map(Remote::deserialize).transpose();
        let remote = remote.map_err(|e| fault(format!("remote: {e}")))?;
        let lateness_bound = Dur::from_secs_f64(bound_ms / 1e3);
        Ok(Self { scenario: Scenario::from_json(scenario)?, document: scenario.clone(), lateness_bound, remote })
    }
}

/// Plan of a flow before it runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Settings of its connection.
    pub settings: Settings,
    /// Configuration of its controller.
    pub config: Config,
    /// Observation, report and actions of a learned scheme.
    pub learned: Option<Arc<Interface>>,
    /// Code point of its packets.
    pub ecn: Ecn,
}

impl Plan {
    /// The plan of flow number `index`, which does not go over this stack.
    #[must_use]
    pub fn absent(scenario: &Scenario, index: usize) -> Self {
        let config = scenario.controller(index, scenario.flows[index].mss_bytes);
        let settings = Settings { mtu: LARGEST_MTU, ..Settings::default() };
        Self { settings, config, learned: None, ecn: Ecn::NotEct }
    }

    /// Returns the driver of `flow`, which has this `index`.
    ///
    /// # Errors
    ///
    /// If the scheme refuses its parameters, or there is no decider.
    pub fn driver(
        &self,
        index: usize,
        flow: &Flow,
        policies: &Policies,
        keeps_reports: bool,
    ) -> Result<Driver, RunError> {
        let (controller, decider) = self.build(index, flow, policies)?;
        Ok(Driver { controller, decider, settings: flow.settings(), keeps_reports, from: Time::ZERO })
    }

    fn build(
        &self,
        index: usize,
        flow: &Flow,
        policies: &Policies,
    ) -> Result<(Box<dyn Controller>, Option<Decider>), RunError> {
        if let Some(own) = &flow.own {
            let Own::Wasm { module } = own else {
                return refuse_own(index, "expected a WebAssembly module: Python classes run in the simulator only");
            };
            let built = ccarena_wasm::controller(Path::new(module), &self.config);
            return built.map(|controller| (controller, None)).or_else(|error| refuse_own(index, &error.to_string()));
        }
        policies
            .build(&flow.scheme, flow.spec.as_deref(), &self.config, flow.policy.as_ref(), false)
            .map_err(|e| RunError::flow(index, e))
    }
}

/// Refuses the controller of flow number `index`.
fn refuse_own<T>(index: usize, problem: &str) -> Result<T, RunError> {
    Err(RunError::Unsupported { path: format!("flows[{index}].controller"), problem: problem.into() })
}

/// Plans every flow of `scenario`.
///
/// # Errors
/// The first field that cannot be had.
pub fn plan(scenario: &Scenario, policies: &Policies) -> Result<Vec<Plan>, RunError> {
    (0..scenario.flows.len()).map(|index| plan_flow(scenario, index, policies)).collect()
}

/// Plans flow number `index` of `scenario`.
///
/// # Errors
/// The first field that cannot be had.
pub fn plan_flow(scenario: &Scenario, index: usize, policies: &Policies) -> Result<Plan, RunError> {
    let flow = &scenario.flows[index];
    if let Some(foreign) = &flow.foreign {
        return plan_foreign(scenario, index, foreign);
    }
    let mtu = check(flow, index)?;
    // As QUIC counts, a full packet is a segment, and headers are those of IPv4 and UDP.
    let config = Config { header_bytes: HEADER_BYTES, ..scenario.controller(index, u32::from(mtu)) };
    // The stack tells whether an acknowledgement counts marks: with one per packet, that is how many.
    let counts = flow.needed_feedback() > Feedback::Classic || flow.ecn == Feedback::Accurate;
    let acks = match flow.ack_policy {
        AckPolicy::Tcp if flow.delayed_ack && flow.feedback() < Feedback::Changes => None,
        AckPolicy::Tcp => Some(Acks { packets: 1, delay: None }),
        AckPolicy::Quic(acks) => {
            let share = Dur::from_secs_f64(scenario.base_rtt(flow).as_secs_f64() * acks.rtt_fraction);
            let delay = acks.max_delay.min(share).max(SHORTEST_ACK_DELAY);
            Some(Acks { packets: if counts { 1 } else { acks.packets }, delay: Some(delay) })
        }
    };
    let settings = Settings { mtu, acks, idle: None, ..Settings::default() };
    let mut plan = Plan { settings, config, learned: None, ecn: Ecn::NotEct };
    let (mut controller, _) = plan.build(index, flow, policies)?;
    plan.learned = controller.learned().map(|l| Arc::clone(l.interface()));
    plan.ecn = match flow.feedback() {
        Feedback::None => Ecn::NotEct,
        Feedback::Accurate if flow.l4s || controller.transport().l4s => Ecn::Ect1,
        _ => Ecn::Ect0,
    };
    let mut routers = flow.path.iter().filter_map(|&link| scenario.links[link].router.as_ref());
    let off_the_wire = routers.any(|router| !router.kind.description().on_the_wire);
    let request = controller.router_assisted().map_or(Signal::None, |routers| routers.request());
    if request != Signal::None && (off_the_wire || !matches!(request, Signal::Rate(_))) {
        let problem = format!(
            "got {:?}, which routers help; expected another scheme: QUIC encrypts what they would have to read, and has a \
             datagram of its own for advertised rates alone",
            flow.scheme
        );
        return Err(RunError::Unsupported { path: format!("flows[{index}].scheme"), problem });
    }
    Ok(plan)
}

/// The plan of two programs of somebody else, which bring their own stack.
fn plan_foreign(scenario: &Scenario, index: usize, foreign: &Foreign) -> Result<Plan, RunError> {
    let flow = &scenario.flows[index];
    let refuse = |field: &str, problem: &str| {
        Err(RunError::Unsupported { path: format!("flows[{index}].{field}"), problem: problem.into() })
    };
    if !matches!(foreign, Foreign::Programs(_)) {
        return refuse(
            "foreign",
            "expected a command: congestion controls of the kernel's TCP run with --backend kernel",
        );
    }
    match programs::refusal(flow) {
        Some((field, problem)) => refuse(field, problem),
        None => Ok(Plan::absent(scenario, index)),
    }
}

/// UDP payload of a full packet of `flow`. Refuses what QUIC does not do.
fn check(flow: &Flow, index: usize) -> Result<u16, RunError> {
    let refuse =
        |field: &str, problem: String| Err(RunError::Unsupported { path: format!("flows[{index}].{field}"), problem });
    if !flow.sack {
        return refuse("sack", "got false; expected true: QUIC always acknowledges selectively".into());
    }
    if let Some(bytes) = flow.burst_bytes {
        return refuse("burst_bytes", format!("got {bytes}; expected null: the stack decides what it sends in one go"));
    }
    let whole = flow.mss_bytes + flow.header_bytes;
    let (least, most) = (u32::from(SMALLEST_MTU) + HEADER_BYTES, u32::from(LARGEST_MTU) + HEADER_BYTES);
    if !(least..=most).contains(&whole) {
        let problem = format!(
            "got {} and headers of {}; expected {least} to {most} together, the sizes of packets that QUIC sends here",
            flow.mss_bytes, flow.header_bytes
        );
        return refuse("mss_bytes", problem);
    }
    Ok(u16::try_from(whole - HEADER_BYTES).unwrap_or(LARGEST_MTU))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccarena_cc::Backend;
    use ccarena_net::routers::{Kind, RouterSpec};
    use ccarena_net::scenario::QuicAcks;

    fn of(change: impl FnOnce(&mut Scenario)) -> Result<Plan, String> {
        let mut scenario = Scenario::default();
        change(&mut scenario);
        plan(&scenario, &Policies::on(Backend::Quic)).map(|mut plans| plans.remove(0)).map_err(|e| e.to_string())
    }

    #[test]
    fn packets_are_as_large_as_the_scenario_says() {
        let plan = of(|_| {}).unwrap();
        assert_eq!((plan.settings.mtu, plan.config.mss, plan.config.header_bytes), (1472, 1472, 28));
        assert_eq!(plan.settings.acks, None, "every other packet, as RFC 9000 says");
    }

    #[test]
    fn the_ack_policy_is_asked_of_the_receiver() {
        let plan = of(|s| s.flows[0].ack_policy = AckPolicy::Quic(QuicAcks::default())).unwrap();
        // A quarter of 20 ms.
        assert_eq!(plan.settings.acks, Some(Acks { packets: 10, delay: Some(Dur::from_millis(5)) }));
    }

    #[test]
    fn what_quic_does_not_do_is_refused_with_its_field() {
        let refused = |change: fn(&mut Scenario), expected: &str| {
            let error = of(change).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        refused(|s| s.flows[0].sack = false, "flows[0].sack: got false; expected true");
        refused(|s| s.flows[0].burst_bytes = Some(9000), "flows[0].burst_bytes: got 9000; expected null");
        refused(|s| s.flows[0].mss_bytes = 8948, "flows[0].mss_bytes: got 8948 and headers of 52");
        refused(|s| s.flows[0].scheme = "acct".into(), "flows[0].policy: missing");
        let acct = |kind: Kind| {
            of(|s| {
                s.flows[0].scheme = "acct".into();
                s.flows[0].policy = Some(ccarena_cc::PolicySpec::Constant(vec![0.0]));
                s.links[0].router = Some(RouterSpec::new(kind, &Default::default()));
            })
        };
        assert!(acct(Kind::AcctRouter).is_ok() && acct(Kind::Any).is_ok());
        let error = acct(Kind::Marker).unwrap_err();
        assert!(error.starts_with("flows[0].scheme: got \"acct\", which routers help"), "{error}");
    }

    #[test]
    fn a_request_is_read_and_a_wrong_one_named() {
        let error = |text: &str| Request::parse(text).unwrap_err().to_string();
        assert!(error("{").starts_with("request: "));
        assert!(error("{}").contains("scenario: missing"));
        assert!(error(r#"{"scenaria": {}}"#).contains("unknown field \"scenaria\""));
    }
}
