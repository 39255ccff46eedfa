//! The sending end of runs over a real path.

use std::collections::VecDeque;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use ccarena_cc::{Backend, Dur, Policies, Time};
use ccarena_link::clock as link_clock;
use ccarena_link::live::{self, Frames, Inbox};
use ccarena_net::{Ecn, Scenario};
use noq_proto::{ConnectionError, Dir, Event, StreamEvent, StreamId};

use super::Token;
use super::message::{Answer, Ask, MOST_FLOWS, VERSION, line};
use super::offset::{Exchange, Offset};
use super::outcome::{Flow, outcome};
use super::stamps::{Arrived, Stamp, decode};
use crate::clock::Clock;
use crate::host::{Host, Link, Peer, Reactor};
use crate::request::Lines;
use crate::run::sender::Sender;
use crate::run::senders::{Opening, Senders};
use crate::run::{Plan, Remote, RunError, plan};
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

/// Runs `scenario` from this machine to `remote` and writes what becomes of it. The path between them takes the place of
/// the scenario's one link.
///
/// # Errors
/// If it cannot be run here, the server refuses or is gone, or it is stopped.
pub fn run<W: Write>(
    scenario: &Scenario,
    remote: &Remote,
    inbox: &mut Inbox,
    frames: &mut Frames<W>,
) -> Result<(), RunError> {
    let policies = Policies::on(Backend::Quic);
    let plans = plan(scenario, &policies)?;
    check(scenario, &plans)?;
    let mut talk = Talk::open(remote, inbox)?;
    talk.greet(&remote.token)?;
    let before = talk.compare_clocks(None)?;
    let run = talk.start(scenario)?;
    let clock = Clock::starting();
    let zero = talk.reactor.now();
    let senders = senders(scenario, &plans, &policies, (clock, talk.remote), &run, &remote.token)?;
    let controls =
        scenario.flows.iter().zip(&plans).map(|(flow, plan)| (flow.scheme.as_str(), plan.learned.as_deref()));
    frames.start(&live::started(scenario, controls, link_clock::now_ns())).map_err(|_| RunError::Stopped)?;
    let sent = talk.during(senders, Time(scenario.duration.0))?;
    let after = talk.compare_clocks(Some(before))?;
    let arrived = talk.finish(scenario.flows.len())?;
    let flows = sent.into_iter().zip(arrived).map(|(sent, arrived)| {
        let (sender, totals) = sent.map_or_else(Default::default, |(joining, steering)| {
            ((joining.sender.finish(), joining.stamps), steering.totals())
        });
        Flow { sent: sender.0, stamps: sender.1, totals, arrived }
    });
    let record = outcome(scenario, &plans, flows.collect(), (Offset::new(before, after), zero), talk.remote);
    frames.result(record).map_err(|_| RunError::Stopped)
}

/// Refuses what a real path cannot carry.
fn check(scenario: &Scenario, plans: &[Plan]) -> Result<(), RunError> {
    let refuse = |path: String, problem: &str| Err(RunError::Unsupported { path, problem: problem.into() });
    if scenario.flows.len() > MOST_FLOWS {
        return refuse("flows".into(), &format!("got {}; expected at most {MOST_FLOWS}", scenario.flows.len()));
    }
    for (index, (flow, plan)) in scenario.flows.iter().zip(plans).enumerate() {
        if flow.foreign.is_some() {
            return refuse(format!("flows[{index}].foreign"), "expected none: programs of others stay on this machine");
        }
        if plan.ecn == Ecn::Ect1 {
            return refuse(format!("flows[{index}].ecn"), "expected true or false: the server counts marks of ECT(0)");
        }
    }
    Ok(())
}

/// The sending hosts, one per flow.
fn senders(
    scenario: &Scenario,
    plans: &[Plan],
    policies: &Policies,
    (clock, remote): (Clock, SocketAddr),
    run: &str,
    token: &Token,
) -> Result<Senders<Joining>, RunError> {
    let (mut hosts, mut openings) = (Vec::new(), Vec::new());
    let fingerprint = Identity::of_token(token)?.fingerprint;
    for (index, (flow, plan)) in scenario.flows.iter().zip(plans).enumerate() {
        let udp = bind(remote, plan.ecn).map_err(|source| RunError::Socket { flow: index, source })?;
        hosts.push(Host::new(udp, clock, None));
        let driver = plan.driver(index, flow, policies, scenario.record.reports)?;
        let steering = Steering::new(driver, clock, plan.settings.mtu, None);
        let settings = Settings { keep_alive: Some(KEEP_ALIVE), ..plan.settings };
        let mut config = tls::client(Some(fingerprint.clone()))?;
        config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
        let line = line(&Ask::Join { run: run.into(), flow: index });
        let peer = Joining { sender: Sender::new(scenario, index), stream: None, line, stamps: Vec::new() };
        openings.push((flow.start, Some(Opening { remote, config, steering, peer })));
    }
    Ok(Senders { reactor: Reactor::new(clock, hosts).map_err(RunError::Reactor)?, openings })
}

fn bind(remote: SocketAddr, ecn: Ecn) -> std::io::Result<Udp> {
    let any: SocketAddr = if remote.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    Udp::bind(any, ecn, SEND_BUFFER)
}

/// A flow's sender, which says first what run it is part of, and keeps the time of each packet.
struct Joining {
    sender: Sender,
    stream: Option<StreamId>,
    /// Rest of its first line.
    line: Vec<u8>,
    stamps: Vec<Stamp>,
}

impl Peer for Joining {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        if matches!(event, Event::Connected) {
            self.stream = link.stack.streams().open(Dir::Bi);
        }
        self.sender.on_event(link, event);
    }

    fn write(&mut self, link: &mut Link<'_>) {
        let Some(stream) = self.stream else { return };
        if !self.line.is_empty() {
            let count = link.stack.send_stream(stream).write(&self.line).unwrap_or(0);
            self.line.drain(..count);
        }
        if self.line.is_empty() {
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

/// The control's connection.
#[derive(Default)]
struct Control {
    stream: Option<StreamId>,
    /// Line that waits to be sent.
    pending: Vec<u8>,
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
        let Some(stream) = self.stream.filter(|_| !self.pending.is_empty()) else { return };
        if let Ok(count) = link.stack.send_stream(stream).write(&self.pending) {
            self.pending.drain(..count);
            self.wrote_at = link.now;
        }
    }
}

/// Control connection to the server.
struct Talk<'a> {
    address: String,
    remote: SocketAddr,
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
        Ok(Self { address, remote: found, reactor, inbox })
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

    fn start(&mut self, scenario: &Scenario) -> Result<String, RunError> {
        let ask = Ask::Run { flows: scenario.flows.len(), duration_s: scenario.duration.as_secs_f64() };
        match self.ask(&ask)?.2 {
            Answer::Started { run } => Ok(run),
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

    /// Lets the senders send until `end` of their clock.
    fn during(&mut self, senders: Senders<Joining>, end: Time) -> Result<Vec<Option<(Joining, Steering)>>, RunError> {
        // Closing it ends the thread.
        let (stop, stopped) = UnixStream::pair().map_err(RunError::Reactor)?;
        let work = move || senders.run(end, stopped.as_raw_fd());
        let thread = thread::Builder::new().name("senders".into()).spawn(work).map_err(RunError::Reactor)?;
        let mut outcome = Ok(());
        while outcome.is_ok() && !thread.is_finished() {
            let until = self.reactor.now() + PAUSE;
            outcome = self.turn(until);
        }
        drop(stop);
        let sent = thread.join().map_err(|_| RunError::Panicked)?.map_err(RunError::Reactor)?;
        outcome.map(|()| sent)
    }

    /// Ends the run; what came of its flows.
    fn finish(&mut self, flows: usize) -> Result<Vec<Arrived>, RunError> {
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
