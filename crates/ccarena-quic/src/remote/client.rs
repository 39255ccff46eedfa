//! The end of a run over a real path that asks for it.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ccarena_cc::{Backend, Dur, Policies, Time};
use ccarena_link::clock as link_clock;
use ccarena_link::live::{self, Frames, Inbox};
use ccarena_net::{Ecn, Scenario};
use noq_proto::{ConnectionError, Dir, Event, StreamEvent, StreamId};

use super::message::{Answer, Ask, TcpFlow, VERSION, line};
use super::offset::{Exchange, Offset};
use super::outcome::{Flow, Path, outcome};
use super::report::Report;
use super::server::{RECEIVE_WINDOW, STREAMS};
use super::stamps::{Seen, Stamp, decode};
use super::tcp::outgoing::{Ended, Outgoing};
use super::tcp::ticket::Ticket;
use super::{Token, load, tcp, ticket};
use crate::clock::Clock;
use crate::host::{Host, Link, Peer, Reactor};
use crate::request::Lines;
use crate::run::sender::Sender;
use crate::run::senders::{Opening, Senders};
use crate::run::{Plan, Remote, Request, RunError};
use crate::serve::DONE;
use crate::steering::Steering;
use crate::tls::{self, Identity};
use crate::transport::{self, Settings, Streams};
use crate::udp::{SEND_BUFFER, Udp};
use crate::{get, streams};

/// Exchanges of times before a run and after it.
const EXCHANGES: u32 = 20;
/// Pause between two of them.
const PAUSE: Dur = Dur::from_millis(10);
/// More exchanges after a run, while its queue drains.
const MOST_EXCHANGES: u32 = 200;
/// Silence after which the client gives the server up.
const SILENCE: Dur = Dur::from_millis(5_000);
/// Interval of keep-alive packets of an idle flow.
const KEEP_ALIVE: Dur = Dur::from_millis(10_000);
/// Longest packet times that are taken, in bytes.
const LONGEST_TIMES: usize = 1 << 28;

/// Runs the scenario of `request` between this machine and `remote`, and writes what becomes of it. The path between them
/// takes the place of the scenario's one link.
///
/// # Errors
/// If it cannot be run here, the server refuses or is gone, or it is stopped.
pub fn run<W: Write>(
    request: &Request,
    remote: &Remote,
    inbox: &mut Inbox,
    frames: &mut Frames<W>,
) -> Result<(), RunError> {
    let scenario = &request.scenario;
    let policies = Policies::on(Backend::Quic);
    let load = remote.reverse.then(|| load::write(&request.document, scenario)).transpose()?;
    let plans = load::plans(scenario, &policies)?;
    if !remote.reverse {
        tcp::check_here(scenario)?;
    }
    let mut talk = Talk::open(remote, inbox)?;
    talk.greet(&remote.token)?;
    let before = talk.compare_clocks(None)?;
    let tcp_flows = load::tcp_flows(scenario);
    let (run, there, tickets) = talk.start(scenario, &tcp_flows, load)?;
    // Time zero is the sender's.
    let zero = if remote.reverse { Offset::new(before, before).here(there) } else { talk.reactor.now() };
    let fingerprint = Identity::of_token(&remote.token)?.fingerprint;
    let clock = talk.clock.from(zero);
    let opener = Opener { scenario, plans: &plans, run, clock, remote: talk.remote, fingerprint };
    let controls =
        scenario.flows.iter().zip(&plans).map(|(flow, plan)| (flow.scheme.as_str(), plan.learned.as_deref()));
    let started = live::started(scenario, controls, link_clock::now_ns());
    frames.start(&started).map_err(|_| RunError::Stopped)?;
    let outgoing = Outgoing::new(scenario, &tcp_flows, tickets, talk.remote, remote.reverse)?;
    let outgoing = (!tcp_flows.is_empty()).then_some(outgoing);
    let (flows, after) = if remote.reverse {
        receive(&mut talk, &opener, outgoing, zero, before)?
    } else {
        send(&mut talk, &opener, &policies, outgoing, zero, before)?
    };
    let path = Path { offset: Offset::new(before, after), zero, remote: talk.remote, reverse: remote.reverse };
    frames.result(outcome(scenario, &plans, flows, &path)).map_err(|_| RunError::Stopped)
}

/// Sends the flows; what both ends saw, and the exchange of times after it.
fn send(
    talk: &mut Talk<'_>,
    opener: &Opener<'_>,
    policies: &Policies,
    outgoing: Option<Outgoing>,
    zero: Time,
    before: Exchange,
) -> Result<(Vec<Flow>, Exchange), RunError> {
    let duration = opener.scenario.duration;
    let traffic = Traffic::start(opener.senders(policies)?, outgoing, opener.clock, Time(duration.0))?;
    talk.during(&traffic, zero + duration)?;
    let (left, ended) = traffic.stop()?;
    let after = talk.compare_clocks(Some(before))?;
    let arrived = talk.finish(opener.scenario.flows.len())?;
    let flows = left.into_iter().zip(arrived).map(|(left, arrived)| {
        let (report, departed) = left.map_or_else(Default::default, |(joining, steering)| {
            (
                Report::new(joining.sender.finish(), steering.totals()),
                Seen { packets: joining.stamps, ..Seen::default() },
            )
        });
        Flow { report, departed, arrived }
    });
    let mut flows: Vec<Flow> = flows.collect();
    for Ended { flow, report, seen, .. } in ended {
        flows[flow].departed = seen;
        flows[flow].report = report.unwrap_or_default();
    }
    Ok((flows, after))
}

/// Receives the flows; what both ends saw, and the exchange of times after it.
fn receive(
    talk: &mut Talk<'_>,
    opener: &Opener<'_>,
    outgoing: Option<Outgoing>,
    zero: Time,
    before: Exchange,
) -> Result<(Vec<Flow>, Exchange), RunError> {
    let traffic = Traffic::start(opener.receivers()?, outgoing, opener.clock, Time::NEVER)?;
    talk.during(&traffic, zero + opener.scenario.duration)?;
    // Packets still on the path arrive meanwhile.
    let after = talk.compare_clocks(Some(before))?;
    let (came, ended) = traffic.stop()?;
    let departed = talk.finish(opener.scenario.flows.len())?;
    let flows = came.into_iter().zip(departed).enumerate().map(|(index, (came, departed))| {
        let arrived = came.map_or_else(Default::default, |(taking, _)| taking.seen);
        let wrong =
            |e| RunError::Remote(format!("{}: flows[{index}]: a report that cannot be read: {e}", talk.address));
        Ok(Flow { report: Report::read(&departed.report).map_err(wrong)?, departed, arrived })
    });
    let mut flows = flows.collect::<Result<Vec<_>, RunError>>()?;
    for Ended { flow, seen, error, .. } in ended {
        let flow = &mut flows[flow];
        flow.arrived = seen;
        if let Some(error) = error {
            flow.report = std::mem::take(&mut flow.report).failed(error);
        }
    }
    Ok((flows, after))
}

/// Opens the connections of a run, which all go from this machine to the server.
struct Opener<'a> {
    scenario: &'a Scenario,
    plans: &'a [Plan],
    /// Secret name of the run.
    run: String,
    /// Clock of the run.
    clock: Clock,
    remote: SocketAddr,
    fingerprint: String,
}

impl Opener<'_> {
    /// The sending hosts, one per flow.
    fn senders(&self, policies: &Policies) -> Result<Senders<Joining>, RunError> {
        self.open(|index, plan| {
            let flow = &self.scenario.flows[index];
            let driver = plan.driver(index, flow, policies, self.scenario.record.reports)?;
            let steering = Steering::new(driver, self.clock, plan.settings.mtu, None);
            let peer =
                Joining { join: self.join(index), sender: Sender::new(self.scenario, index), stamps: Vec::new() };
            Ok((plan.settings, steering, peer))
        })
    }

    /// The receiving hosts, one per flow.
    fn receivers(&self) -> Result<Senders<Taking>, RunError> {
        self.open(|index, plan| {
            let steering = Steering::of_receiver(self.clock, plan.settings.mtu, None)
                .map_err(|source| RunError::Scheme { flow: index, source })?;
            let streams = Streams { unidirectional: STREAMS, ..Streams::default() };
            let settings =
                Settings { receive_window: Some(RECEIVE_WINDOW.into()), streams, acks: None, ..plan.settings };
            Ok((settings, steering, Taking { join: self.join(index), seen: Seen::default() }))
        })
    }

    fn join(&self, flow: usize) -> Join {
        Join { stream: None, line: line(&Ask::Join { run: self.run.clone(), flow }) }
    }

    fn open<P: Peer>(
        &self,
        make: impl Fn(usize, &Plan) -> Result<(Settings, Steering, P), RunError>,
    ) -> Result<Senders<P>, RunError> {
        let (mut hosts, mut openings) = (Vec::new(), Vec::new());
        for (index, (flow, plan)) in self.scenario.flows.iter().zip(self.plans).enumerate() {
            let udp = bind(self.remote, plan.ecn).map_err(|source| RunError::Socket { flow: index, source })?;
            hosts.push(Host::new(udp, self.clock, None));
            if flow.foreign.is_some() {
                // It has a connection of TCP: this host opens none.
                openings.push((Time::NEVER, None));
                continue;
            }
            let (settings, steering, peer) = make(index, plan)?;
            let settings = Settings { keep_alive: Some(KEEP_ALIVE), ..settings };
            let mut config = tls::client(Some(self.fingerprint.clone()))?;
            config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
            let ticket = ticket(&self.run, index);
            config.initial_dst_cid_provider(Arc::new(move || ticket));
            openings.push((flow.start, Some(Opening { remote: self.remote, config, steering, peer })));
        }
        let reactor = Reactor::new(self.clock, hosts).map_err(RunError::Reactor)?;
        Ok(Senders { reactor, openings })
    }
}

fn bind(remote: SocketAddr, ecn: Ecn) -> std::io::Result<Udp> {
    let any: SocketAddr = if remote.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    Udp::bind(any, ecn, SEND_BUFFER)
}

/// First line of a flow's connection, which says what run it is part of.
struct Join {
    stream: Option<StreamId>,
    /// Rest of the line.
    line: Vec<u8>,
}

impl Join {
    fn on_event(&mut self, link: &mut Link<'_>, event: &Event) {
        if matches!(event, Event::Connected) {
            self.stream = link.stack.streams().open(Dir::Bi);
        }
    }

    /// Writes the line; returns whether all of it is written.
    fn write(&mut self, link: &mut Link<'_>) -> bool {
        let Some(stream) = self.stream else { return false };
        if !self.line.is_empty() {
            let count = link.stack.send_stream(stream).write(&self.line).unwrap_or(0);
            self.line.drain(..count);
        }
        self.line.is_empty()
    }
}

/// A flow's sender, which keeps the time of each packet.
struct Joining {
    join: Join,
    sender: Sender,
    stamps: Vec<Stamp>,
}

impl Peer for Joining {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        self.join.on_event(link, &event);
        self.sender.on_event(link, event);
    }

    fn write(&mut self, link: &mut Link<'_>) {
        if self.join.write(link) {
            self.sender.write(link);
        }
    }

    fn on_sent(&mut self, now: Time, payload: &[u8], size: usize) {
        self.stamps.extend(payload.chunks(size.max(1)).map(|datagram| Stamp::new(now, datagram)));
        self.sender.on_sent(now, payload, size);
    }

    fn next(&self) -> Time {
        self.sender.next()
    }
}

/// A flow's receiver, which keeps the time of each packet.
struct Taking {
    join: Join,
    seen: Seen,
}

impl Peer for Taking {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        self.join.on_event(link, &event);
        let seen = &mut self.seen;
        let bytes = streams::discard(link.stack, &event, |stream| seen.whole.push((stream.index(), link.now)));
        seen.add_payload(link.now, bytes);
    }

    fn on_datagram(&mut self, now: Time, payload: &[u8]) {
        self.seen.packets.push(Stamp::new(now, payload));
    }

    fn write(&mut self, link: &mut Link<'_>) {
        self.join.write(link);
    }
}

/// Connection of each flow, if one was opened.
type Opened<P> = Vec<Option<(P, Steering)>>;

/// Threads that run the flows' connections: those over QUIC, and those of TCP if there are any.
struct Traffic<P> {
    thread: JoinHandle<std::io::Result<Opened<P>>>,
    tcp: Option<JoinHandle<Vec<Ended>>>,
    /// Closing it ends the threads.
    stop: UnixStream,
}

impl<P: Peer + Send + 'static> Traffic<P> {
    /// Runs `hosts` and `outgoing` until `end` of `clock`, or until they are stopped.
    fn start(hosts: Senders<P>, outgoing: Option<Outgoing>, clock: Clock, end: Time) -> Result<Self, RunError> {
        let (stop, stopped) = UnixStream::pair().map_err(RunError::Reactor)?;
        let stopped_too = stopped.try_clone().map_err(RunError::Reactor)?;
        let name = |name: &str| thread::Builder::new().name(name.into());
        let tcp = outgoing.map(|outgoing| {
            let work = move || outgoing.run(clock, end, stopped_too.as_raw_fd());
            name("tcp").spawn(work)
        });
        let tcp = tcp.transpose().map_err(RunError::Reactor)?;
        let work = move || hosts.run(end, stopped.as_raw_fd());
        let thread = name("flows").spawn(work).map_err(RunError::Reactor)?;
        Ok(Self { thread, tcp, stop })
    }

    fn stop(self) -> Result<(Opened<P>, Vec<Ended>), RunError> {
        drop(self.stop);
        let opened = self.thread.join().map_err(|_| RunError::Panicked)?.map_err(RunError::Reactor)?;
        let ended = self.tcp.map(JoinHandle::join).transpose().map_err(|_| RunError::Panicked)?;
        Ok((opened, ended.unwrap_or_default()))
    }
}

/// The control's connection.
#[derive(Default)]
struct Control {
    stream: Option<StreamId>,
    /// Line that waits to be sent.
    pending: Vec<u8>,
    /// Rest of a run's load, and its stream.
    load: Option<Vec<u8>>,
    load_stream: Option<StreamId>,
    wrote_at: Time,
    lines: Lines,
    answers: VecDeque<(Time, Result<Answer, String>)>,
    times: Vec<u8>,
    has_times: bool,
    lost: Option<ConnectionError>,
}

impl Control {
    fn read(&mut self, link: &mut Link<'_>, stream: StreamId) {
        let mut pieces = Vec::new();
        let (_, ended) = streams::read_in_order(link.stack, stream, |bytes| pieces.extend_from_slice(bytes));
        if Some(stream) == self.stream {
            let lines = self.lines.take(&pieces).map_err(|e| e.to_string());
            let parsed = |line: Vec<u8>| Answer::parse(&line).map_err(|e| e.to_string());
            match lines {
                Ok(lines) => self.answers.extend(lines.into_iter().map(|line| (link.now, parsed(line)))),
                Err(error) => self.answers.push_back((link.now, Err(error))),
            }
        } else if self.times.len() + pieces.len() <= LONGEST_TIMES {
            self.times.append(&mut pieces);
            self.has_times |= ended;
        } else {
            self.answers.push_back((link.now, Err("packet times without end".into())));
        }
    }
}

impl Peer for Control {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        match event {
            Event::Connected => self.stream = link.stack.streams().open(Dir::Bi),
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                while let Some(stream) = link.stack.streams().accept(Dir::Uni) {
                    self.read(link, stream);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read(link, id),
            Event::ConnectionLost { reason } => self.lost = Some(reason),
            _ => {}
        }
    }

    fn write(&mut self, link: &mut Link<'_>) {
        if let Some(stream) = self.stream.filter(|_| !self.pending.is_empty()) {
            if let Ok(count) = link.stack.send_stream(stream).write(&self.pending) {
                self.pending.drain(..count);
                self.wrote_at = link.now;
            }
        }
        let Some(load) = &mut self.load else { return };
        self.load_stream = self.load_stream.or_else(|| link.stack.streams().open(Dir::Uni));
        let Some(stream) = self.load_stream else { return };
        if let Ok(count) = link.stack.send_stream(stream).write(load) {
            load.drain(..count);
        }
        if load.is_empty() {
            // A server that wants no more of it has said why.
            let _ = link.stack.send_stream(stream).finish();
            self.load = None;
        }
    }
}

/// Control connection to the server.
struct Talk<'a> {
    address: String,
    remote: SocketAddr,
    clock: Clock,
    reactor: Reactor<Control>,
    inbox: &'a mut Inbox,
}

impl<'a> Talk<'a> {
    fn open(remote: &Remote, inbox: &'a mut Inbox) -> Result<Self, RunError> {
        let address = remote.address.clone();
        let wrong =
            |why: String| RunError::Remote(format!("{address}: {why}; expected HOST:PORT of the other machine"));
        let found = address.to_socket_addrs().map_err(|e| wrong(e.to_string()))?.next();
        let found = found.ok_or_else(|| wrong("no such host".into()))?;
        let clock = Clock::starting();
        let mut host = Host::new(bind(found, Ecn::NotEct).map_err(RunError::Reactor)?, clock, None);
        let settings = Settings {
            streams: Streams { unidirectional: 1, ..Streams::default() },
            idle: Some(SILENCE),
            keep_alive: Some(SILENCE / 10),
            ..Settings::default()
        };
        let steering =
            Steering::of_receiver(clock, settings.mtu, None).map_err(|source| RunError::Scheme { flow: 0, source })?;
        let mut config = tls::client(Some(Identity::of_token(&remote.token)?.fingerprint))?;
        config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
        host.connect(config, found, steering, Control::default()).map_err(|e| wrong(e.to_string()))?;
        let reactor = Reactor::new(clock, vec![host]).map_err(RunError::Reactor)?;
        Ok(Self { address, remote: found, clock, reactor, inbox })
    }

    /// Serves the connection until `until`; an error if it is lost, or the run is stopped.
    fn turn(&mut self, until: Time) -> Result<(), RunError> {
        if self.reactor.turn(until, &self.inbox.fds()).map_err(RunError::Reactor)? {
            self.inbox.take()?;
        }
        let lost = self.with(|control| control.lost.take());
        let ended = self.reactor.host(0).take_ended().into_iter().find_map(|(control, _)| control.lost);
        match lost.flatten().or(ended) {
            Some(reason) => Err(RunError::Remote(self.why(&reason))),
            None => Ok(()),
        }
    }

    fn why(&self, reason: &ConnectionError) -> String {
        let address = &self.address;
        match reason {
            ConnectionError::ApplicationClosed(close) if close.error_code != DONE.into() => {
                format!("{address}: the server refused: {}", String::from_utf8_lossy(&close.reason))
            }
            ConnectionError::TransportError(error) if error.to_string().contains("certificate") => format!(
                "{address}: the server's key is not that of this token: use the token file of the machine there"
            ),
            other => format!("{address}: the server is gone ({other}); is `ccarena remote serve` running there?"),
        }
    }

    /// Returns the result of `use_it` on the control; none once it has ended.
    fn with<T>(&mut self, use_it: impl FnOnce(&mut Control) -> T) -> Option<T> {
        let (mut once, mut found) = (Some(use_it), None);
        self.reactor.host(0).each(|_, control, _| found = once.take().map(|use_it| use_it(control)));
        found
    }

    fn no_answer(&self) -> RunError {
        RunError::Remote(format!(
            "{}: no answer within {} s; is `ccarena remote serve` running there, and does its UDP port let packets through?",
            self.address,
            get::PATIENCE.as_secs_f64()
        ))
    }

    /// Asks, and waits for the answer: when the question left, when the answer came, and the answer.
    fn ask(&mut self, ask: &Ask) -> Result<(Time, Time, Answer), RunError> {
        let line = line(ask);
        self.with(|control| control.pending.extend(line));
        let give_up = self.reactor.now() + get::PATIENCE;
        loop {
            self.turn(give_up)?;
            if let Some((left, (came, answer))) =
                self.with(|control| control.answers.pop_front().map(|answer| (control.wrote_at, answer))).flatten()
            {
                let wrong = |e| RunError::Remote(format!("{}: {e}", self.address));
                return Ok((left, came, answer.map_err(wrong)?));
            }
            if self.reactor.now() >= give_up {
                return Err(self.no_answer());
            }
        }
    }

    fn unexpected(&self, answer: &Answer) -> RunError {
        RunError::Remote(format!("{}: unexpected answer {answer:?}", self.address))
    }

    fn greet(&mut self, token: &Token) -> Result<(), RunError> {
        match self.ask(&Ask::Hello { version: VERSION, token: token.clone() })?.2 {
            Answer::Welcome {} => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Begins a run, whose `load` the server sends if there is one: its secret name, when it began there, and a ticket for
    /// each of `tcp`.
    fn start(
        &mut self,
        scenario: &Scenario,
        tcp: &[TcpFlow],
        load: Option<Vec<u8>>,
    ) -> Result<(String, Time, Vec<Ticket>), RunError> {
        let duration_s = scenario.duration.as_secs_f64();
        let ask = Ask::Run { flows: scenario.flows.len(), duration_s, reverse: load.is_some(), tcp: tcp.to_vec() };
        self.with(|control| control.load = load);
        match self.ask(&ask)?.2 {
            Answer::Started { run, zero_ns, tickets } if tickets.len() == tcp.len() => {
                Ok((run, Time(zero_ns), tickets))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// The exchange of times with the least delay; after a run when its queue has drained, as the delay `before` tells.
    fn compare_clocks(&mut self, before: Option<Exchange>) -> Result<Exchange, RunError> {
        let mut best: Option<Exchange> = None;
        for number in 0..MOST_EXCHANGES {
            let exchange = self.exchange(number)?;
            let least = best.filter(|best| best.delay() <= exchange.delay()).unwrap_or(exchange);
            best = Some(least);
            let drained =
                before.is_none_or(|before| least.delay() <= before.delay() + before.delay() / 20 + PAUSE / 20);
            if number + 1 >= EXCHANGES && drained {
                break;
            }
            let until = self.reactor.now() + PAUSE;
            while self.reactor.now() < until {
                self.turn(until)?;
            }
        }
        best.ok_or_else(|| self.no_answer())
    }

    fn exchange(&mut self, number: u32) -> Result<Exchange, RunError> {
        let (sent, back, answer) = self.ask(&Ask::Clock { number })?;
        match answer {
            Answer::Clock { number: of, received_ns, sent_ns } if of == number => {
                Ok(Exchange { sent, received: Time(received_ns), answered: Time(sent_ns), back })
            }
            other => Err(self.unexpected(&other)),
        }
    }

    /// Serves the connection until `end`, or until the flows' thread ends by itself.
    fn during<P>(&mut self, traffic: &Traffic<P>, end: Time) -> Result<(), RunError> {
        while self.reactor.now() < end && !traffic.thread.is_finished() {
            let until = end.min(self.reactor.now() + PAUSE);
            self.turn(until)?;
        }
        Ok(())
    }

    /// Ends the run; what the server saw of its flows.
    fn finish(&mut self, flows: usize) -> Result<Vec<Seen>, RunError> {
        let line = line(&Ask::Finish {});
        self.with(|control| control.pending.extend(line));
        let mut give_up = self.reactor.now() + get::PATIENCE;
        let mut had = 0;
        loop {
            self.turn(give_up)?;
            let (ended, length) = self.with(|control| (control.has_times, control.times.len())).unwrap_or_default();
            if ended {
                break;
            }
            let now = self.reactor.now();
            if length > had {
                (had, give_up) = (length, now + get::PATIENCE);
            } else if now >= give_up {
                return Err(self.no_answer());
            }
        }
        let times = self.with(|control| std::mem::take(&mut control.times)).unwrap_or_default();
        self.reactor.host(0).each(|_, _, link| link.close(DONE, ""));
        // The other end shall know at once that it is over.
        self.reactor.turn(Time::ZERO, &[]).map_err(RunError::Reactor)?;
        let wrong = || RunError::Remote(format!("{}: packet times that cannot be read", self.address));
        decode(&times, flows).ok_or_else(wrong)
    }
}
