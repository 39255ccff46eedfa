//! Runtime of each flow's congestion control, and checks that real TCP can do what a scenario says.

use std::path::Path;
use std::sync::Arc;

use ccarena_cc::policy::kernel::{self, ImageOptions};
use ccarena_cc::{
    Backend, Config, Controller, Decider, Feedback, FlowError, Interface, Policies, PolicySpec, Signal, registry,
};
use ccarena_link::live::programs;
use ccarena_net::Scenario;
use ccarena_net::scenario::{AckPolicy, Flow, Foreign, Own};

use super::RunError;
use crate::traffic::{HEADER_BYTES, OPTION_BYTES};
use crate::wire::Generator;

/// Schemes that the kernel brings, under the same names.
const KERNELS_OWN: [&str; 3] = ["cubic", "bbr", "reno"];
/// Schemes of `wcc.bpf.c`.
const WEIGHTED: [&str; 4] = ["wcc-ai", "wcc-md", "multcp", "ewtcp"];
/// Scheme of `pilot.bpf.c`.
const PILOT: &str = "pilot";
/// Payload of a segment in 1500 bytes, and the least that Linux sends (`TCP_MIN_MSS` less timestamps).
const LARGEST_MSS: u32 = 1448;
const SMALLEST_MSS: u32 = 76;

/// Runtime of a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// Runtime in the kernel: its own congestion control.
    Kernel,
    /// Runtime in the kernel: our BPF program.
    Weighted,
    /// Runtime in the kernel: a policy in BPF.
    Policy,
    /// Runtime in the kernel: the scheme `pilot` in BPF.
    Pilot,
    /// Runtime in this process, over the bridge.
    Bridge,
    /// Runtime of somebody else: programs at the two ends of the link.
    Programs,
}

/// Plan of a flow before it runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Runtime of its congestion control.
    pub runtime: Runtime,
    /// Configuration of its controller.
    pub config: Config,
    /// Observation, report and actions of a learned scheme.
    pub learned: Option<Arc<Interface>>,
    /// Flag that its packets carry ACCT's option.
    pub signals: bool,
}

impl Plan {
    /// A new controller for `flow`, which has this `index`, and who decides for it ([`Policies::build`]).
    ///
    /// # Errors
    /// If the scheme refuses its parameters, or there is no decider.
    pub fn build(
        &self,
        index: usize,
        flow: &Flow,
        policies: &Policies,
        outside: bool,
    ) -> Result<(Box<dyn Controller>, Option<Decider>), RunError> {
        if let Some(own) = &flow.own {
            let Own::Wasm { module } = own else {
                return refuse_own(index, "expected a WebAssembly module: Python classes run in the simulator only");
            };
            let built = ccarena_wasm::controller(Path::new(module), &self.config);
            return built.map(|controller| (controller, None)).or_else(|error| refuse_own(index, &error.to_string()));
        }
        policies.build(&flow.scheme, flow.spec.as_deref(), &self.config, flow.policy.as_ref(), outside).map_err(
            |source| match source {
                FlowError::Scheme(source) => RunError::Scheme { flow: index, source },
                FlowError::Policy(source) => RunError::Policy { flow: index, source },
            },
        )
    }

    /// The image of the flow's policy, if it thinks in the kernel; with `reports` it reports its decisions.
    ///
    /// # Errors
    /// If a part of its spec cannot run there.
    pub fn image(
        &self,
        index: usize,
        flow: &Flow,
        policies: &Policies,
        reports: bool,
    ) -> Result<Option<Vec<u8>>, RunError> {
        let (Runtime::Policy, Some(PolicySpec::Artifact(file) | PolicySpec::Integer(file))) =
            (self.runtime, &flow.policy)
        else {
            return Ok(None);
        };
        let policy = policies.load(Path::new(file)).map_err(|source| RunError::Policy { flow: index, source })?;
        let options = ImageOptions {
            params: self.config.params.clone(),
            desired_rate: self.config.desired_rate,
            header_bytes: self.config.header_bytes,
            label: file.clone(),
            reports,
        };
        kernel::write(&policy, &options).map(Some).map_err(|source| RunError::Image { flow: index, source })
    }
}

/// Refuses the controller of flow number `index`.
fn refuse_own<T>(index: usize, problem: &str) -> Result<T, RunError> {
    Err(RunError::Unsupported { path: format!("flows[{index}].controller"), problem: problem.into() })
}

/// Chosen runtimes of flows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runtimes {
    /// The kernel's own and those of the WCC family run over the bridge, too.
    pub bridge: bool,
    /// Learned flows with a policy, and those of `pilot`, run in the kernel.
    pub in_kernel: bool,
}

/// Plans every flow of `scenario`; `available` are the congestion controls that the kernel has.
///
/// # Errors
/// The first field that cannot be had.
pub fn plan(
    scenario: &Scenario,
    runtimes: Runtimes,
    traffic: Generator,
    outside: bool,
    available: &[&str],
) -> Result<Vec<Plan>, RunError> {
    for (index, link) in scenario.links.iter().enumerate() {
        if let Some(router) = link.router.as_ref().map(|a| a.kind.description()).filter(|r| !r.on_the_wire) {
            let problem = format!(
                "got {}; expected acct, any, true or false: signals of {} routers have no place in packets of real TCP. The \
                 simulator has them",
                router.name, router.name
            );
            return Err(RunError::Unsupported { path: format!("links[{index}].router"), problem });
        }
    }
    let (bridge, kernel) = (Policies::on(Backend::Bridge), Policies::default());
    let mut plans = Vec::with_capacity(scenario.flows.len());
    for (index, flow) in scenario.flows.iter().enumerate() {
        if let Some(foreign) = &flow.foreign {
            let plan = plan_foreign(scenario, index, foreign);
            check_foreign(scenario, index, &plan, traffic)?;
            plans.push(plan);
            continue;
        }
        let plan = plan_flow(scenario, index, runtimes, available)?;
        // The image of a policy in the kernel says what it does not measure.
        let policies = if plan.runtime == Runtime::Policy { &kernel } else { &bridge };
        plan.build(index, flow, policies, outside)?;
        check(scenario, index, &plan, traffic)?;
        plans.push(plan);
    }
    let signalled = |plan: &&Plan| plan.signals && plan.runtime == Runtime::Policy;
    if plans.iter().any(|p| signalled(&p)) && plans.iter().filter(|p| p.signals).count() > 1 {
        let problem = "expected one flow whose packets carry ACCT's option where that flow's policy thinks in the kernel: \
                       programs would write the option twice. Leave `in_kernel` out";
        return Err(RunError::Unsupported { path: "flows".into(), problem: problem.into() });
    }
    Ok(plans)
}

/// The plan of a congestion control of somebody else, which has no controller here.
fn plan_foreign(scenario: &Scenario, index: usize, foreign: &Foreign) -> Plan {
    let runtime = match foreign {
        Foreign::Kernel { .. } | Foreign::Bpf { .. } => Runtime::Kernel,
        Foreign::Programs(_) => Runtime::Programs,
    };
    let config = scenario.controller(index, scenario.flows[index].mss_bytes);
    Plan { runtime, config, learned: None, signals: false }
}

fn check_foreign(scenario: &Scenario, index: usize, plan: &Plan, traffic: Generator) -> Result<(), RunError> {
    let flow = &scenario.flows[index];
    let refuse = |field: &str, problem: &str| {
        Err(RunError::Unsupported { path: format!("flows[{index}].{field}"), problem: problem.into() })
    };
    if plan.runtime == Runtime::Kernel {
        return check(scenario, index, plan, traffic);
    }
    if traffic == Generator::Iperf3 {
        return refuse("foreign", "expected traffic \"own\": these programs are the flow's sender and receiver");
    }
    programs::refusal(flow).map_or(Ok(()), |(field, problem)| refuse(field, problem))
}

fn plan_flow(scenario: &Scenario, index: usize, runtimes: Runtimes, available: &[&str]) -> Result<Plan, RunError> {
    let flow = &scenario.flows[index];
    if flow.own.is_some() {
        let config = scenario.controller(index, flow.mss_bytes);
        return Ok(Plan { runtime: Runtime::Bridge, config, learned: None, signals: false });
    }
    // A spec runs over the bridge, whatever its name.
    let defaults = flow.spec.is_none()
        && registry::find(&flow.scheme)
            .map_err(|source| RunError::Scheme { flow: index, source })?
            .params
            .iter()
            .all(|p| flow.params.get(p.name).is_none_or(|v| v.total_cmp(&p.default).is_eq()));
    let is = |names: &[&str]| names.contains(&flow.scheme.as_str());
    let Runtimes { bridge, in_kernel } = runtimes;
    let runtime = if !bridge && defaults && is(&KERNELS_OWN) && is(available) {
        Runtime::Kernel
    } else if !bridge && flow.spec.is_none() && is(&WEIGHTED) {
        Runtime::Weighted
    } else if in_kernel && flow.spec.is_none() && flow.scheme == PILOT {
        Runtime::Pilot
    } else {
        Runtime::Bridge
    };
    let mut plan = Plan { runtime, config: scenario.controller(index, flow.mss_bytes), learned: None, signals: false };
    let built = match &flow.spec {
        Some(spec) => spec.controller(&plan.config),
        None => registry::build(&flow.scheme, &plan.config),
    };
    let mut controller = built.map_err(|source| RunError::Scheme { flow: index, source })?;
    plan.learned = controller.learned().map(|l| Arc::clone(l.interface()));
    let request = controller.router_assisted().map_or(Signal::None, |routers| routers.request());
    plan.signals = request.rate().is_some();
    let has_policy = matches!(flow.policy, Some(PolicySpec::Artifact(_) | PolicySpec::Integer(_)));
    if in_kernel && has_policy && plan.learned.is_some() {
        plan.runtime = Runtime::Policy;
    }
    if !matches!(request, Signal::None | Signal::Rate(_)) {
        let problem = format!(
            "got {:?}; expected another: signals of its routers have no place in packets of real TCP. The simulator has them",
            flow.scheme
        );
        return Err(RunError::Unsupported { path: format!("flows[{index}].scheme"), problem });
    }
    if plan.signals {
        plan.config.mss = flow.mss_bytes.min(LARGEST_MSS - OPTION_BYTES);
        plan.config.header_bytes = HEADER_BYTES as u32 + OPTION_BYTES;
    }
    Ok(plan)
}

/// Feedback of marks as a scenario has it.
fn feedback(feedback: Feedback) -> String {
    match feedback {
        Feedback::None => "false".into(),
        Feedback::Classic | Feedback::Changes => "true".into(),
        Feedback::Accurate => format!("{:?}", feedback.name()),
    }
}

/// Refuses what real TCP, or this traffic, does not do.
fn check(scenario: &Scenario, index: usize, plan: &Plan, traffic: Generator) -> Result<(), RunError> {
    let (flow, first) = (&scenario.flows[index], &scenario.flows[0]);
    let refuse =
        |field: &str, problem: String| Err(RunError::Unsupported { path: format!("flows[{index}].{field}"), problem });
    let settings = [
        ("sack", flow.sack.to_string(), first.sack.to_string()),
        ("ecn", feedback(flow.ecn), feedback(first.ecn)),
        ("peer_ecn", feedback(flow.peer_ecn), feedback(first.peer_ecn)),
    ];
    for (field, own, others) in settings {
        if own != others {
            return refuse(
                field,
                format!("got {own}; expected {others}, as flows[0]: on real TCP it is a setting of all flows together"),
            );
        }
    }
    let dctcp = |flow: &Flow| matches!(&flow.foreign, Some(Foreign::Kernel { name }) if name == "dctcp");
    if flow.ecn != Feedback::None && dctcp(flow) != dctcp(first) {
        let problem = "got a flow of kernel:dctcp beside another with ecn; expected all or none: receivers echo marks of all \
                       flows as DCTCP's do (RFC 8257 §3.2)";
        return refuse("scheme", problem.into());
    }
    if flow.l4s || flow.needed_feedback() == Feedback::Accurate {
        return refuse(
            if flow.l4s { "l4s" } else { "scheme" },
            format!(
                "got {}: the kernel's TCP sends ECT(0) alone (Linux 6.18). The simulator and QUIC \
                     send ECT(1)",
                if flow.l4s { "true".into() } else { format!("{:?}", flow.scheme) }
            ),
        );
    }
    if flow.feedback() == Feedback::Changes && plan.runtime == Runtime::Bridge {
        let problem = "got true; expected \"accurate\": the kernel's receiver tells of every change of marks only under its \
                       own DCTCP";
        return refuse("ecn", problem.into());
    }
    if flow.min_rto != first.min_rto {
        let (own, others) = (flow.min_rto.as_millis_f64(), first.min_rto.as_millis_f64());
        return refuse(
            "min_rto_ms",
            format!("got {own}; expected {others}, as flows[0]: on real TCP it is a setting of all flows together"),
        );
    }
    if flow.ack_policy != AckPolicy::Tcp {
        let problem = "got type quic; expected type tcp: the kernel's TCP acknowledges by its own rules. The simulator has \
                       QUIC's";
        return refuse("ack_policy", problem.into());
    }
    if let Some(bytes) = flow.burst_bytes {
        let problem = format!("got {bytes}; expected null: the kernel's TCP decides itself what it sends in one go");
        return refuse("burst_bytes", problem);
    }
    if !(SMALLEST_MSS..=LARGEST_MSS).contains(&flow.mss_bytes) {
        return refuse(
            "mss_bytes",
            format!(
                "got {}; expected {SMALLEST_MSS} to {LARGEST_MSS}, which fits packets of 1500 bytes",
                flow.mss_bytes
            ),
        );
    }
    let headers = [HEADER_BYTES as u32, plan.config.header_bytes];
    if plan.config.header_bytes != flow.header_bytes && !headers.contains(&flow.header_bytes)
        || !plan.signals && flow.header_bytes != headers[0]
    {
        let problem =
            format!("got {}; expected {}, as Linux sends over IPv4", flow.header_bytes, headers[1].max(headers[0]));
        return refuse("header_bytes", problem);
    }
    if u64::from(flow.ack_bytes) != HEADER_BYTES {
        return refuse("ack_bytes", format!("got {}; expected {HEADER_BYTES}, as Linux sends", flow.ack_bytes));
    }
    if !flow.slow_start && plan.runtime != Runtime::Bridge {
        return refuse(
            "slow_start",
            format!(
                "got false; expected true: {} in the kernel begins in slow start. `bridge` runs it in user space",
                flow.scheme
            ),
        );
    }
    if plan.runtime == Runtime::Policy && !flow.changes.is_empty() {
        let problem = "expected none for a policy that thinks in the kernel. Leave `in_kernel` out";
        return refuse("changes", problem.into());
    }
    if traffic == Generator::Iperf3 {
        return check_iperf3(flow, plan, &refuse);
    }
    Ok(())
}

fn check_iperf3(
    flow: &Flow,
    plan: &Plan,
    refuse: &dyn Fn(&str, String) -> Result<(), RunError>,
) -> Result<(), RunError> {
    let only = "with iperf3; with traffic \"own\" it may be anything";
    if !flow.app.is_bulk() {
        return refuse("app", format!("got another than bulk, which is all that goes {only}"));
    }
    if flow.receive_window.is_some() {
        return refuse("receive_window_packets", format!("expected null {only}"));
    }
    if plan.signals {
        let why = "iperf3 chooses the congestion control after the handshake, too late for ACCT's option";
        return refuse("scheme", format!("got {:?}, which goes with traffic \"own\" only: {why}", flow.scheme));
    }
    let weighted = flow.weight.total_cmp(&1.0).is_ne() || !flow.changes.is_empty();
    if plan.runtime == Runtime::Weighted && weighted {
        return refuse("weight", format!("got {}; expected 1 in the kernel {only}", flow.weight));
    }
    if !flow.delayed_ack {
        return refuse("delayed_ack", format!("expected true {only}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ccarena_net::apps::{App, Cbr};

    fn flow(scheme: &str) -> Flow {
        Flow { scheme: scheme.into(), ..Flow::default() }
    }

    fn of(flows: Vec<Flow>, bridge: bool, traffic: Generator) -> Result<Vec<Plan>, String> {
        let scenario = Scenario { flows, ..Scenario::default() };
        let runtimes = Runtimes { bridge, ..Runtimes::default() };
        plan(&scenario, runtimes, traffic, true, &["cubic", "reno"]).map_err(|e| e.to_string())
    }

    fn runtimes(flows: Vec<Flow>, bridge: bool) -> Vec<Runtime> {
        of(flows, bridge, Generator::Own).unwrap().iter().map(|p| p.runtime).collect()
    }

    #[test]
    fn each_scheme_runs_where_it_is_at_home() {
        let flows = ["cubic", "bbr", "wcc-ai", "acct", "copa"].map(flow).to_vec();
        use Runtime::{Bridge, Kernel, Weighted};
        assert_eq!(runtimes(flows.clone(), false), [Kernel, Bridge, Weighted, Bridge, Bridge], "no bbr in this kernel");
        assert_eq!(runtimes(flows, true), [Bridge; 5]);
        let other = Flow { params: [("hystart".to_string(), 0.0)].into(), ..flow("cubic") };
        let runtime = of(vec![other], false, Generator::Own).map(|plans| plans[0].runtime);
        assert!(runtime.is_err() || runtime == Ok(Bridge), "the kernel's has no such parameter");
    }

    #[test]
    fn pilot_runs_in_the_kernel_where_asked() {
        let runtime = |flow: Flow, in_kernel| {
            let scenario = Scenario { flows: vec![flow], ..Scenario::default() };
            let runtimes = Runtimes { in_kernel, ..Runtimes::default() };
            plan(&scenario, runtimes, Generator::Own, true, &["cubic"]).map(|plans| plans[0].runtime)
        };
        assert_eq!(runtime(flow("pilot"), false).unwrap(), Runtime::Bridge);
        assert_eq!(runtime(flow("pilot"), true).unwrap(), Runtime::Pilot);
        assert_eq!(runtime(flow("copa"), true).unwrap(), Runtime::Bridge);
        let steady = Flow { slow_start: false, ..flow("pilot") };
        assert!(runtime(steady, true).unwrap_err().to_string().starts_with("flows[0].slow_start"));
    }

    #[test]
    fn segments_of_acct_leave_room_for_its_option() {
        let plans = of(vec![flow("acct")], false, Generator::Own).unwrap();
        assert_eq!((plans[0].config.mss, plans[0].config.header_bytes, plans[0].signals), (1440, 60, true));
        assert_eq!(plans[0].learned.as_ref().map(|l| l.name.as_str()), Some("acct"));
    }

    #[test]
    fn what_real_tcp_cannot_do_is_refused_with_its_field() {
        let refused = |change: fn(&mut Flow), expected: &str| {
            let mut other = flow("cubic");
            change(&mut other);
            let error = of(vec![flow("cubic"), other], false, Generator::Own).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        };
        refused(|f| f.sack = false, "flows[1].sack: got false; expected true");
        refused(|f| f.ecn = Feedback::Classic, "flows[1].ecn: got true");
        refused(
            |f| f.min_rto = ccarena_cc::Dur::from_millis(900),
            "flows[1].min_rto_ms: got 900; expected 200, as flows[0]",
        );
        refused(
            |f| f.ack_policy = AckPolicy::Quic(ccarena_net::scenario::QuicAcks::default()),
            "flows[1].ack_policy: got type quic; expected type tcp",
        );
        refused(|f| f.burst_bytes = Some(65_536), "flows[1].burst_bytes: got 65536; expected null");
        refused(|f| f.mss_bytes = 8948, "flows[1].mss_bytes: got 8948");
        refused(|f| f.header_bytes = 40, "flows[1].header_bytes: got 40");
        refused(|f| f.ack_bytes = 40, "flows[1].ack_bytes: got 40");
        refused(|f| f.slow_start = false, "flows[1].slow_start: got false");
        let cbr = Flow { app: App::Cbr(Cbr { rate: ccarena_cc::Rate::from_mbps(1.0) }), ..flow("cubic") };
        assert!(of(vec![cbr.clone()], false, Generator::Own).is_ok());
        assert!(of(vec![cbr], false, Generator::Iperf3).unwrap_err().starts_with("flows[0].app"));
        assert!(of(vec![Flow { slow_start: false, ..flow("cubic") }], true, Generator::Own).is_ok());
    }
}
