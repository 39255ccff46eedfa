//! A scenario over QUIC: emulated links, a client that sends and a server that receives for each flow, and the result.
//!
//! A thread runs all senders and one all receivers. As on kernel TCP, a connection opens when its flow starts, so that the
//! first data leaves a round trip later than in the simulator, which has no handshake.

mod error;
mod plan;
pub(crate) mod receiver;
pub(crate) mod sender;
pub(crate) mod senders;

use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ccarena_cc::{Backend, Policies, Time};
use ccarena_link::live::{self, Frames, Inbox, Programs};
use ccarena_link::{Emulator, End, Network, clock as link_clock, namespace};
use ccarena_net::apps;
use ccarena_net::result::{FlowResult, LinkResult, Rows, RunResult};
use ccarena_net::{Ecn, Scenario, trace};

pub use self::error::RunError;
pub use self::plan::{Plan, Remote, Request, plan, plan_flow};

use self::receiver::{Received, Receiver};
use self::sender::{Sender, Sent};
use self::senders::{Opening, Senders};
use crate::clock::Clock;
use crate::host::{Host, Reactor};
use crate::steering::{Steering, Totals};
use crate::tls::{self, Identity};
use crate::transport::{self, Settings, Streams};
use crate::udp::Udp;

/// Port of receivers.
const PORT: u16 = 4433;
/// Interval between checks for the end of the run.
const LOOK_NS: u64 = 20_000_000;
/// Send buffer of a socket: more data then waits in its device's queue, which takes 500 packets (ccarena-link).
const SEND_BUFFER: usize = 256 << 10;
/// Finite transfers of a flow that may be open at once.
const STREAMS: u32 = 1024;
/// Headers of IPv4 and UDP.
pub const HEADER_BYTES: u32 = 28;

/// Runs a request over the emulator to its end and writes what becomes of it.
///
/// # Errors
/// If it cannot be run here, or is stopped.
pub fn run<W: Write>(request: &Request, inbox: &mut Inbox, frames: &mut Frames<W>) -> Result<(), RunError> {
    let scenario = &request.scenario;
    ccarena_link::resources::check(scenario)?;
    let policies = Policies::on(Backend::Quic);
    let plans = plan(scenario, &policies)?;
    namespace::become_root_in_user_namespace()?;
    let network = Network::new(scenario.flows.len())?;
    let programs = Programs::new(scenario, &network)?;
    let emulator = Emulator::default().start(scenario, trace::load, &network)?;
    let zero_ns = emulator.zero();
    let clock = Clock::new(zero_ns);
    let identity = Identity::generate()?;
    let (receivers, senders) = (
        receivers(scenario, &plans, &network, clock, &identity)?,
        senders(scenario, &plans, &network, clock, &policies)?,
    );
    let flows = scenario.flows.iter().zip(&plans).map(|(flow, plan)| (flow.scheme.as_str(), plan.learned.as_deref()));
    frames.start(&live::started(scenario, flows, zero_ns)).map_err(|_| RunError::Stopped)?;
    let programs = programs.start(zero_ns)?;
    let running = Traffic::start(Time(scenario.duration.0), senders, receivers)?;
    while !running.is_finished() {
        // Nobody decides outside of the run, so that all that may come is its end.
        if inbox.wait(-1, LOOK_NS).1 {
            inbox.take()?;
        }
    }
    let (sent, received) = running.stop()?;
    let problems = programs.stop()?;
    let overruns = network.all_overruns()?;
    let mut outcome = emulator.stop()?;
    let machine = live::machine(&outcome, request.lateness_bound, overruns);
    let ends = sent.into_iter().zip(received).enumerate();
    let mut flows: Vec<FlowResult> =
        ends.map(|(index, (sent, received))| record(scenario, index, &plans[index], sent, received)).collect();
    for (index, problem) in problems {
        let seen = outcome.seen.get_mut(index).and_then(Option::take);
        flows[index] = live::programs::result(scenario, index, seen, problem);
    }
    let mut links = outcome.links;
    let links = links.iter_mut().enumerate().map(|(index, link)| LinkResult::new(scenario, index, link)).collect();
    let record = RunResult { machine: Some(machine), ..RunResult::new(scenario, flows, links) };
    frames.result(record).map_err(|_| RunError::Stopped)
}

fn bind(network: &Network, end: End, flow: usize, port: u16, ecn: Ecn) -> Result<Udp, RunError> {
    let address = SocketAddr::V4(SocketAddrV4::new(end.address(flow), port));
    network
        .namespace(end)
        .run(|| Udp::bind(address, ecn, SEND_BUFFER))?
        .map_err(|source| RunError::Socket { flow, source })
}

/// A receiver for each flow.
fn receivers(
    scenario: &Scenario,
    plans: &[Plan],
    network: &Network,
    clock: Clock,
    identity: &Identity,
) -> Result<Reactor<Receiver>, RunError> {
    let mut hosts = Vec::new();
    let server = identity.config()?;
    for (index, (flow, plan)) in scenario.flows.iter().zip(plans).enumerate() {
        let udp = bind(network, End::Receivers, index, PORT, plan.ecn)?;
        let settings = Settings {
            receive_window: flow.receive_window.map(|packets| u64::from(packets) * u64::from(flow.mss_bytes)),
            acks: None,
            streams: Streams { unidirectional: STREAMS, ..Streams::default() },
            ..plan.settings
        };
        let steering = Steering::of_receiver(clock, plan.settings.mtu, None)
            .map_err(|source| RunError::Scheme { flow: index, source })?;
        let mut config = server.clone();
        config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
        let config = Arc::new(config);
        let mut once = Some((Arc::clone(&config), steering, Receiver::new(scenario, index)));
        hosts.push(Host::new(udp, clock, Some((config, Box::new(move |_| once.take())))));
    }
    Reactor::new(clock, hosts).map_err(RunError::Reactor)
}

fn senders(
    scenario: &Scenario,
    plans: &[Plan],
    network: &Network,
    clock: Clock,
    policies: &Policies,
) -> Result<Senders<Sender>, RunError> {
    let (mut hosts, mut openings) = (Vec::new(), Vec::new());
    for (index, (flow, plan)) in scenario.flows.iter().zip(plans).enumerate() {
        hosts.push(Host::new(bind(network, End::Senders, index, 0, plan.ecn)?, clock, None));
        if flow.foreign.is_some() {
            // Somebody else sends: this host opens no connection.
            openings.push((Time::NEVER, None));
            continue;
        }
        let driver = plan.driver(index, flow, policies, scenario.record.reports)?;
        let steering = Steering::new(driver, clock, plan.settings.mtu, None);
        let mut config = tls::client(None)?;
        config.transport_config(transport::config(&plan.settings, Arc::new(steering.clone())));
        let remote = SocketAddr::V4(SocketAddrV4::new(End::Receivers.address(index), PORT));
        openings.push((flow.start, Some(Opening { remote, config, steering, peer: Sender::new(scenario, index) })));
    }
    Ok(Senders { reactor: Reactor::new(clock, hosts).map_err(RunError::Reactor)?, openings })
}

/// Runs receivers until `end`, or until `stop` polls readable.
fn receive(mut reactor: Reactor<Receiver>, end: Time, stop: RawFd) -> std::io::Result<Vec<Received>> {
    link_clock::precise_timers();
    link_clock::take_precedence();
    while reactor.now() < end && !reactor.turn(end, &[stop])? {}
    let first = |host: Host<Receiver>| host.into_connections().into_iter().next();
    Ok(reactor.into_hosts().into_iter().map(|host| first(host).map(|(r, _)| r.finish()).unwrap_or_default()).collect())
}

/// Results of each flow at its sender, and the counts of its controller.
type AllSent = Vec<(Sent, Totals)>;

fn all_sent(connections: Vec<Option<(Sender, Steering)>>) -> AllSent {
    let of = |(sender, steering): (Sender, Steering)| (sender.finish(), steering.totals());
    connections.into_iter().map(|connection| connection.map(of).unwrap_or_default()).collect()
}

/// The threads of a run.
struct Traffic {
    senders: JoinHandle<std::io::Result<AllSent>>,
    receivers: JoinHandle<std::io::Result<Vec<Received>>>,
    /// Closing it ends the threads.
    stop: UnixStream,
}

impl Traffic {
    fn start(end: Time, senders: Senders<Sender>, receivers: Reactor<Receiver>) -> Result<Self, RunError> {
        let (stop, stopped) = UnixStream::pair().map_err(RunError::Reactor)?;
        let stopped_too = stopped.try_clone().map_err(RunError::Reactor)?;
        let name = |name: &str| thread::Builder::new().name(name.into());
        Ok(Self {
            senders: name("senders")
                .spawn(move || Ok(all_sent(senders.run(end, stopped.as_raw_fd())?)))
                .map_err(RunError::Reactor)?,
            receivers: name("receivers")
                .spawn(move || receive(receivers, end, stopped_too.as_raw_fd()))
                .map_err(RunError::Reactor)?,
            stop,
        })
    }

    fn is_finished(&self) -> bool {
        self.senders.is_finished() && self.receivers.is_finished()
    }

    fn stop(self) -> Result<(AllSent, Vec<Received>), RunError> {
        drop(self.stop);
        let sent = self.senders.join().map_err(|_| RunError::Panicked)?;
        let received = self.receivers.join().map_err(|_| RunError::Panicked)?;
        Ok((sent.map_err(RunError::Reactor)?, received.map_err(RunError::Reactor)?))
    }
}

/// Flow number `index`.
pub(crate) fn record(
    scenario: &Scenario,
    index: usize,
    plan: &Plan,
    (sent, totals): (Sent, Totals),
    received: Received,
) -> FlowResult {
    let mean = (totals.counts.rtt_count > 0).then(|| totals.counts.rtt_sum / totals.counts.rtt_count.max(1));
    FlowResult {
        sent_packets: totals.counts.sent_packets,
        // What was lost goes out again in as many new packets, or nearly.
        retransmitted_packets: totals.counts.lost_packets,
        lost_packets: totals.counts.lost_packets,
        timeouts: totals.counts.timeouts,
        ecn_reductions: Some(totals.counts.ecn_reductions),
        delivered_bytes: received.payload_bytes,
        wire_bytes: received.wire_bytes,
        duplicate_packets: 0,
        // QUIC repeats data in new packets, and the stack does not tell of lost ones that arrive after all.
        reordered: None,
        spurious_retransmits: None,
        undone_recoveries: Some(totals.counts.undone_recoveries),
        rtt_min_ms: totals.counts.rtt_min.map(ccarena_cc::Dur::as_millis_f64),
        rtt_mean_ms: mean.map(ccarena_cc::Dur::as_millis_f64),
        // Over QUIC each message is a stream, in order.
        app: sent
            .app
            .with_arrivals(scenario.flows[index].start, |number, end| match &received.progress {
                Some(progress) => apps::reached(progress, end),
                None => received.whole.as_ref()?.get(&(number as u64)).copied(),
            })
            .into(),
        decisions: totals.decisions,
        observations_outside: totals.outside.share(),
        guard_trips: totals.outside.tripped_share(),
        error: match totals.failure {
            Some(reason) => Some(scenario.gave_up(index, &reason)),
            None => sent.error.map(|error| format!("flows[{index}]: the connection failed: {error}")),
        },
        series: received.series.map(|series| series.bins),
        reports: plan
            .learned
            .as_ref()
            .filter(|_| scenario.record.reports)
            .map(|learned| Rows { values: totals.reports, width: learned.report.len() }),
        ..FlowResult::new(scenario, index)
    }
}
