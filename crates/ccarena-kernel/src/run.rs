//! A scenario on real Linux TCP: emulated links, sockets, their controllers, and the result.

mod error;
mod foreign;
mod plan;
mod result;
mod undone;

use std::fs;
use std::io::Write;
use std::time::Duration;

use ccarena_cc::{Backend, Dur, Feedback, FlowSetting, Policies, Time};
use ccarena_link::live::{self, Frames, Inbox, Programs};
use ccarena_link::network::InitialWindows;
use ccarena_link::tcp::Sent;
use ccarena_link::{Emulator, End, Network, clock, namespace};
use ccarena_net::result::{BridgeResult, FlowResult, LinkResult, MachineResult, Quantiles, RunResult};
use ccarena_net::scenario::{Flow, Foreign};
use ccarena_net::{Scenario, trace};
use libbpf_rs::Link;

pub use self::error::RunError;
use self::plan::Runtimes;
pub use self::plan::{Plan, Runtime};

use crate::checks;
use crate::daemon::{Daemon, Driver, Reply};
use crate::datapath::{Datapath, Key};
use crate::intf::{EVENT_CLOSED, Event};
use crate::objects::Options;
use crate::pilot::Numbers;
use crate::policies::{self, Private};
use crate::sampled::Sampled;
use crate::tcp_option::TcpOption;
use crate::traffic::{Received, Running as RunningTraffic, Traffic};
use crate::wire::Request;

/// Largest buffers of sockets: as good as none, as in the simulator.
const BUFFERS: &str = "4096 131072 134217728";
/// Least time that Linux adds to the smoothed RTT by default (`TCP_RTO_MIN`).
const DEFAULT_MIN_RTO: Dur = Dur::from_millis(200);
/// Number of segments from which the receiver's first window has to be enlarged too.
const FIRST_RECEIVE_WINDOW: u32 = 40;
/// The loop looks so often whether all traffic is over before its time ...
const LOOK_NS: u64 = 1_000_000_000;
/// Interval of checks if it ends after its time.
const LATE_LOOK_NS: u64 = 200_000_000;

/// Runs the request on `inbox`'s first line to its end and writes what becomes of it.
///
/// # Errors
/// If it cannot be run here, or is stopped.
pub fn run<W: Write>(inbox: &mut Inbox, frames: &mut Frames<W>) -> Result<(), RunError> {
    let request = Request::parse(&inbox.line()?)?;
    let scenario = &request.scenario;
    ccarena_link::resources::check(scenario)?;
    let available = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let available: Vec<&str> = available.split_whitespace().collect();
    let runtimes = Runtimes { bridge: request.bridge, in_kernel: request.in_kernel };
    let plans = plan::plan(scenario, runtimes, request.traffic, request.environment, &available)?;
    let datapath = load(scenario, &plans)?;
    let thinking = load_policies(scenario, &plans)?;
    let pilots = Pilots::attach(scenario, &plans)?;
    // Counting costs something per run of a program, so runs of the kernel's own schemes alone are spared it.
    let bridged = plans.iter().any(|p| p.runtime == Runtime::Bridge);
    let cost = datapath.as_ref().filter(|_| bridged).and_then(Datapath::count_cost);
    let network = network(scenario)?;
    let objects = foreign::Objects::load(scenario)?;
    let mut names = Vec::with_capacity(plans.len());
    for (index, (flow, plan)) in scenario.flows.iter().zip(&plans).enumerate() {
        names.push(match (&flow.foreign, &thinking[index], &datapath) {
            (Some(Foreign::Kernel { name }), ..) => name.clone(),
            (Some(Foreign::Bpf { file }), ..) => objects.name(file).unwrap_or_default().to_owned(),
            (_, Some(policy), _) => policy.name().to_owned(),
            _ if plan.runtime == Runtime::Pilot => pilots.names[index].clone(),
            (None, None, Some(datapath)) if plan.runtime != Runtime::Kernel => {
                datapath.congestion_control(&flow.scheme).to_owned()
            }
            _ => flow.scheme.clone(),
        });
    }
    let traffic = Traffic::new(scenario, &network, &names, request.traffic)?;
    if plans.iter().any(|p| p.signals) {
        for cookie in traffic.namespace_cookies()? {
            datapath.iter().try_for_each(|datapath| datapath.add_namespace(cookie))?;
            thinking.iter().flatten().try_for_each(|policy| policy.add_namespace(cookie))?;
        }
    }
    let programs = Programs::new(scenario, &network)?;
    let emulator = Emulator::default().start(scenario, trace::load, &network)?;
    let zero_ns = emulator.zero();
    let mut control = Control::new(&request, &plans, datapath, thinking, traffic.cookies(), zero_ns)?;
    let told = names.iter().zip(&plans).map(|(name, plan)| (name.as_str(), plan.learned.as_deref()));
    frames.start(&live::started(scenario, told, zero_ns)).map_err(|_| RunError::Stopped)?;
    let programs = programs.start(zero_ns)?;
    let traffic = traffic.start(zero_ns)?;
    control.run(inbox, frames, &traffic)?;
    let undone = network.namespace(End::Senders).run(undone::here)?;
    let (sent, received) = traffic.stop()?;
    let problems = programs.stop()?;
    control.finish()?;
    let datapath_cpu_s = cost.map(|cost| cost.spent().as_secs_f64());
    let overruns = network.all_overruns()?;
    let mut outcome = emulator.stop()?;
    let machine = live::machine(&outcome, request.lateness_bound, overruns);
    let machine = MachineResult { bridge: Some(control.record(datapath_cpu_s)), ..machine };
    let mut links = outcome.links;
    let mut flows = flows(scenario, &plans, sent, received, &mut control);
    if let [flow] = flows.as_mut_slice() {
        flow.undone_recoveries = flow.undone_recoveries.or(undone);
    }
    for (index, problem) in problems {
        let seen = outcome.seen.get_mut(index).and_then(Option::take);
        flows[index] = live::programs::result(scenario, index, seen, problem);
    }
    let links = links.iter_mut().enumerate().map(|(index, link)| LinkResult::new(scenario, index, link)).collect();
    let record = RunResult { machine: Some(machine), ..RunResult::new(scenario, flows, links) };
    frames.result(record).map_err(|_| RunError::Stopped)
}

/// Most policies that think in the kernel in one run, and most programs of `pilot`: each takes the verifier seconds.
const MOST_THINKING: usize = 16;

/// The programs of `pilot`, which flows of the same parameters share.
struct Pilots {
    /// Name of the congestion control, by flow; empty for flows of other schemes.
    names: Vec<String>,
    _links: Vec<Link>,
}

impl Pilots {
    fn attach(scenario: &Scenario, plans: &[Plan]) -> Result<Self, RunError> {
        let (mut names, mut links) = (Vec::with_capacity(plans.len()), Vec::new());
        let mut known: Vec<(Numbers, String)> = Vec::new();
        for (index, (flow, plan)) in scenario.flows.iter().zip(plans).enumerate() {
            if plan.runtime != Runtime::Pilot {
                names.push(String::new());
                continue;
            }
            let numbers = Numbers::new(&flow.params).map_err(|source| RunError::Scheme { flow: index, source })?;
            if let Some((_, name)) = known.iter().find(|(other, _)| *other == numbers) {
                names.push(name.clone());
                continue;
            }
            if known.len() == MOST_THINKING {
                let problem = format!(
                    "got more than {MOST_THINKING} different sets of pilot's parameters in the kernel; expected at most so \
                     many. Leave `in_kernel` out"
                );
                return Err(RunError::Unsupported { path: format!("flows[{index}].params"), problem });
            }
            checks::require(&TcpOption::Off)?;
            let name = format!("cca.l{:x}.{}", known.len(), std::process::id());
            links.extend(policies::attach_pilot(&numbers, &name)?);
            names.push(name.clone());
            known.push((numbers, name));
        }
        Ok(Self { names, _links: links })
    }
}

/// The programs of policies that think in the kernel, by flow: each has one of its own, which counts its decisions.
fn load_policies(scenario: &Scenario, plans: &[Plan]) -> Result<Vec<Option<Private>>, RunError> {
    let count = plans.iter().filter(|plan| plan.runtime == Runtime::Policy).count();
    if count > MOST_THINKING {
        let problem = format!(
            "got {count} with policies that think in the kernel; expected at most {MOST_THINKING}. Leave `in_kernel` out"
        );
        return Err(RunError::Unsupported { path: "flows".into(), problem });
    }
    let policies = Policies::default();
    let mut loaded = Vec::with_capacity(plans.len());
    for (index, (flow, plan)) in scenario.flows.iter().zip(plans).enumerate() {
        let name = format!("cca.p{:x}.{}", loaded.iter().flatten().count(), std::process::id());
        let image = plan.image(index, flow, &policies, scenario.record.reports)?;
        loaded.push(image.map(|image| Private::load(&image, name, plan.signals)).transpose()?);
    }
    Ok(loaded)
}

/// Loads BPF programs if some flow needs them; else sees to it that namespaces can be made without root.
fn load(scenario: &Scenario, plans: &[Plan]) -> Result<Option<Datapath>, RunError> {
    let needs_bpf = |(plan, flow): (&Plan, &Flow)| {
        !matches!(plan.runtime, Runtime::Kernel | Runtime::Programs)
            || matches!(flow.foreign, Some(Foreign::Bpf { .. }))
    };
    if !plans.iter().zip(&scenario.flows).any(needs_bpf) {
        namespace::become_root_in_user_namespace()?;
        return Ok(None);
    }
    if !plans.iter().any(|p| matches!(p.runtime, Runtime::Bridge | Runtime::Weighted)) {
        return Ok(None);
    }
    let options = Options {
        option: if plans.iter().any(|p| p.signals && p.runtime == Runtime::Bridge) {
            TcpOption::Namespaces
        } else {
            TcpOption::Off
        },
        // One user has all of the sockets, and all of the machine's attention.
        sockets_per_user: 0,
        changes_per_s: 0,
        wcc: plans.iter().any(|p| p.runtime == Runtime::Weighted),
        ..Options::default()
    };
    Ok(Some(Datapath::load(&options)?))
}

/// The kernel's setting for connections with `feedback` (`tcp_ecn`).
const fn tcp_ecn(feedback: Feedback) -> &'static str {
    match feedback {
        Feedback::None => "0",
        Feedback::Classic | Feedback::Changes => "1",
        Feedback::Accurate => "3",
    }
}

/// The two ends, set up as the flows want them.
fn network(scenario: &Scenario) -> Result<Network, RunError> {
    let network = Network::new(scenario.flows.len())?;
    let first = scenario.flows.first().cloned().unwrap_or_default();
    for (end, ecn) in [(End::Senders, first.ecn), (End::Receivers, first.ecn.min(first.peer_ecn))] {
        for (key, value) in [
            ("net.ipv4.tcp_rmem", BUFFERS),
            ("net.ipv4.tcp_wmem", BUFFERS),
            ("net.ipv4.tcp_sack", if first.sack { "1" } else { "0" }),
            // A connection knows nothing of one before it to the same address.
            ("net.ipv4.tcp_no_metrics_save", "1"),
        ] {
            network.sysctl(end, key, value)?;
        }
        let set = network.sysctl(end, "net.ipv4.tcp_ecn", tcp_ecn(ecn));
        if set.is_err() && ecn == Feedback::Accurate {
            let problem =
                "got \"accurate\"; expected true: this kernel's setting tcp_ecn does not take 3, which is AccECN";
            return Err(RunError::Unsupported { path: "flows[0].ecn".into(), problem: problem.into() });
        }
        set?;
    }
    let is_dctcp = |flow: &Flow| matches!(&flow.foreign, Some(Foreign::Kernel { name }) if name == "dctcp");
    if scenario.flows.iter().any(is_dctcp) {
        // A receiver tells of each change of marks only under DCTCP (RFC 8257 §3.2, `dctcp_ece_ack_update`).
        network.sysctl(End::Receivers, "net.ipv4.tcp_congestion_control", "dctcp")?;
    }
    let min_rto = scenario.flows.first().map_or(DEFAULT_MIN_RTO, |f| f.min_rto);
    if min_rto != DEFAULT_MIN_RTO {
        // Since Linux 6.11.
        network.sysctl(End::Senders, "net.ipv4.tcp_rto_min_us", &min_rto.as_micros().to_string())?;
    }
    for (index, flow) in scenario.flows.iter().enumerate().filter(|(_, f)| f.initial_window != 10) {
        let window = Some(flow.initial_window);
        let sender = InitialWindows { congestion: window, receive: None };
        network.set_initial_windows(End::Senders, Some(index), sender)?;
    }
    for (index, flow) in scenario.flows.iter().enumerate() {
        let large = Some(flow.initial_window).filter(|&window| window > FIRST_RECEIVE_WINDOW);
        if let Some(window) = flow.receive_window.or(large) {
            let receiver = InitialWindows { congestion: None, receive: Some(window) };
            network.set_initial_windows(End::Receivers, Some(index), receiver)?;
        }
    }
    Ok(network)
}

fn flows(
    scenario: &Scenario,
    plans: &[Plan],
    sent: Vec<Sent>,
    received: Vec<Received>,
    control: &mut Control<'_>,
) -> Vec<FlowResult> {
    let ends = sent.into_iter().zip(received);
    let flows = plans.iter().zip(ends).enumerate();
    flows
        .map(|(index, (plan, (sent, received)))| {
            let totals = control.daemon.flows.get_mut(index).map(std::mem::take).unwrap_or_default();
            result::flow(scenario, index, result::FlowOutcome { plan, sent, received, totals })
        })
        .collect()
}

/// Everything that steers flows during the run.
struct Control<'a> {
    daemon: Daemon<'a>,
    datapath: Option<Datapath>,
    /// The policies in the kernel, by flow.
    thinking: Vec<Option<Private>>,
    zero_ns: u64,
    end: Time,
    cookies: Vec<u64>,
    /// Changes of weights in the kernel: time, flow, weight; the next one last.
    weights: Vec<(Time, usize, f64)>,
    events: Vec<Event>,
    wakeups: u64,
    /// Time from each report to its answer.
    latency_us: Sampled,
    cpu_s: f64,
}

impl<'a> Control<'a> {
    fn new(
        request: &'a Request,
        plans: &'a [Plan],
        datapath: Option<Datapath>,
        thinking: Vec<Option<Private>>,
        cookies: &[u64],
        zero_ns: u64,
    ) -> Result<Self, RunError> {
        let scenario = &request.scenario;
        let policies = Policies::on(Backend::Bridge);
        let driver = move |flow: usize| driver(request, plans, &policies, flow);
        let mut first = Vec::new();
        for (flow, plan) in plans.iter().enumerate() {
            first.push(if plan.runtime == Runtime::Bridge { Some(driver(flow)?) } else { None });
        }
        // Sockets that another program opened are known by their address.
        let open = move |event: &Event| {
            let address = u32::from_be(event.local_address[0]).into();
            let flow = End::Senders.flow(address).filter(|&flow| flow < plans.len())?;
            driver(flow).ok()
        };
        let mut control = Self {
            daemon: Daemon::new(zero_ns, plans.len(), Box::new(open)),
            datapath,
            thinking,
            zero_ns,
            end: Time(scenario.duration.0),
            cookies: cookies.to_vec(),
            weights: Vec::new(),
            events: Vec::new(),
            wakeups: 0,
            latency_us: Sampled::default(),
            cpu_s: 0.0,
        };
        for (flow, driver) in first.into_iter().enumerate() {
            let Some((driver, &cookie)) = driver.zip(cookies.get(flow)) else { continue };
            let answer = control.daemon.take_over(cookie, driver, clock::now_ns());
            control.reply((cookie, answer))?;
        }
        for (index, (flow, plan)) in scenario.flows.iter().zip(plans).enumerate() {
            if plan.runtime == Runtime::Weighted {
                control.weigh(index, flow.weight)?;
                control.weights.extend(flow.settings().into_iter().filter_map(|(at, setting)| match setting {
                    FlowSetting::Weight(weight) => Some((at, index, weight)),
                    FlowSetting::DesiredRate(_) | FlowSetting::Requirement(_) => None,
                }));
            }
        }
        control.weights.sort_by_key(|w| std::cmp::Reverse(w.0));
        Ok(control)
    }

    fn now(&self) -> Time {
        Time(clock::now_ns().saturating_sub(self.zero_ns))
    }

    fn reply(&self, (cookie, answer): Reply) -> Result<(), RunError> {
        self.datapath.as_ref().map_or(Ok(()), |datapath| datapath.answer(cookie, &answer)).map_err(RunError::from)
    }

    fn weigh(&self, flow: usize, weight: f64) -> Result<(), RunError> {
        let (Some(datapath), Some(&cookie)) = (&self.datapath, self.cookies.get(flow)) else { return Ok(()) };
        datapath.set_weight(Key::Cookie(cookie), Some(weight)).map_err(RunError::from)
    }

    /// Steers until the scenario's end.
    fn run<W: Write>(
        &mut self,
        inbox: &mut Inbox,
        frames: &mut Frames<W>,
        traffic: &RunningTraffic,
    ) -> Result<(), RunError> {
        clock::precise_timers();
        // An answer that comes late is worth less, and takes microseconds.
        clock::take_precedence();
        let before_s = thread_cpu_s();
        let ring = self.datapath.as_ref().map_or(-1, Datapath::ready_fd);
        // What came with the request waits already.
        self.take_acts(inbox)?;
        while !traffic.is_finished() && (self.now() < self.end || traffic.ends_late()) {
            let weigh = self.weights.last().map_or(Time::NEVER, |w| w.0);
            let end = if traffic.ends_late() { Time::NEVER } else { self.end };
            let next = self.daemon.next_timer().min(weigh).min(end);
            let wait = next.since(self.now()).0.min(if traffic.ends_late() { LATE_LOOK_NS } else { LOOK_NS });
            let (events, acts) = inbox.wait(ring, wait);
            if events {
                self.take_events(frames)?;
            }
            if acts {
                self.take_acts(inbox)?;
            }
            self.run_timers(frames)?;
            self.take_reports()?;
            let failed = self.daemon.flows.iter().enumerate().filter(|(_, totals)| totals.failure.is_some());
            failed.for_each(|(flow, _)| traffic.end(flow));
        }
        self.cpu_s = thread_cpu_s() - before_s;
        Ok(())
    }

    fn take_events<W: Write>(&mut self, frames: &mut Frames<W>) -> Result<(), RunError> {
        let Some(datapath) = &mut self.datapath else { return Ok(()) };
        let events = &mut self.events;
        datapath.poll(Duration::ZERO, |event| events.push(*event))?;
        self.wakeups += u64::from(!self.events.is_empty());
        for event in &self.events {
            let mut written = Ok(());
            let reply = self.daemon.on_event(event, &mut |due| {
                if frames.is_writable() {
                    written = frames.decision(due.flow as u32, due.now, due.observation, due.report);
                }
            });
            written.map_err(|_| RunError::Stopped)?;
            if let Some((cookie, answer)) = reply {
                datapath.answer(cookie, &answer)?;
                let late = clock::now_ns().saturating_sub(event.now_ns) / 1000;
                self.latency_us.push(u32::try_from(late).unwrap_or(u32::MAX));
            } else if event.kind == EVENT_CLOSED {
                // An answer to an earlier event of the same batch is in the map again.
                datapath.forget(event.cookie)?;
            }
        }
        self.events.clear();
        Ok(())
    }

    fn take_acts(&mut self, inbox: &mut Inbox) -> Result<(), RunError> {
        for act in inbox.take()? {
            let refused = |e: ccarena_cc::ActionError| RunError::Action { flow: act.flow, message: e.to_string() };
            let now = self.now();
            if let Some(reply) = self.daemon.act(act.flow as usize, act.action, now).map_err(refused)? {
                self.reply(reply)?;
            }
        }
        Ok(())
    }

    fn run_timers<W: Write>(&mut self, frames: &mut Frames<W>) -> Result<(), RunError> {
        let now = self.now();
        if self.daemon.next_timer() <= now {
            let mut written = Ok(());
            let replies = self.daemon.on_timers(now, &mut |due| {
                if frames.is_writable() {
                    written = frames.decision(due.flow as u32, due.now, due.observation, due.report);
                }
            });
            written.map_err(|_| RunError::Stopped)?;
            for reply in replies {
                self.reply(reply)?;
            }
        }
        while let Some(&(at, flow, weight)) = self.weights.last() {
            if at > now {
                break;
            }
            self.weights.pop();
            self.weigh(flow, weight)?;
        }
        Ok(())
    }

    /// Takes what policies in the kernel reported.
    fn take_reports(&mut self) -> Result<(), RunError> {
        for (policy, totals) in self.thinking.iter().zip(&mut self.daemon.flows) {
            if let Some(policy) = policy {
                totals.reports.extend(policy.take_reports()?);
            }
        }
        Ok(())
    }

    /// Takes what sockets reported when they closed, and what policies in the kernel did.
    fn finish(&mut self) -> Result<(), RunError> {
        self.take_events(&mut Frames::new(std::io::sink(), -1))?;
        self.take_reports()?;
        for (policy, totals) in self.thinking.iter().zip(&mut self.daemon.flows) {
            let Some(policy) = policy else { continue };
            let stats = policy.stats()?;
            totals.decisions = stats.decisions;
            totals.outside = policy.outside()?;
            self.daemon.dropped += stats.unreported;
        }
        Ok(())
    }

    /// Returns the bridge's punctuality, if its programs took `datapath_cpu_s`.
    fn record(&mut self, datapath_cpu_s: Option<f64>) -> BridgeResult {
        BridgeResult {
            daemon_cpu_s: self.cpu_s,
            datapath_cpu_s,
            reports: self.daemon.reports,
            wakeups: self.wakeups,
            fallback_reports: self.daemon.fallbacks,
            dropped_reports: self.daemon.dropped,
            answer_latency_us: Quantiles::of(self.latency_us.values()),
            enforced_latency_us: Quantiles::of(self.daemon.enforced_us.values()),
        }
    }
}

/// Returns the driver of a socket of `flow`.
fn driver(request: &Request, plans: &[Plan], policies: &Policies, flow: usize) -> Result<Driver, RunError> {
    let scenario = &request.scenario;
    let (spec, plan) = (&scenario.flows[flow], &plans[flow]);
    let (controller, decider) = plan.build(flow, spec, policies, request.environment)?;
    Ok(Driver {
        flow,
        controller,
        mss: plan.config.mss,
        decider,
        settings: spec.settings(),
        keeps_reports: scenario.record.reports,
    })
}

/// CPU time of the calling thread.
fn thread_cpu_s() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    #[allow(unsafe_code, reason = "the standard library does not tell CPU times")]
    // SAFETY: `t` is a timespec that the call fills.
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t);
    }
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}
