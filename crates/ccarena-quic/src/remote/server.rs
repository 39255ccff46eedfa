//! The end of runs over a real path that serves: it receives flows, or sends them.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use ccarena_cc::{Dur, Time};
use ccarena_link::clock as link_clock;
use ccarena_net::Ecn;
use noq_proto::{ConnectionError, ConnectionId, Dir, Event, StreamEvent, StreamId, VarInt};
use serde_json::json;

use super::load::{self, Load};
use super::message::{Answer, Ask, TcpFlow, line};
use super::report::Report;
use super::stamps::{Seen, Stamp, encode};
use super::state::{FIRST_LINE_WITHIN, LOOK, Limit, Run, Shared, State, locked};
use super::tcp::incoming::Incoming;
use super::{Token, ticket};
use crate::clock::Clock;
use crate::host::{Accept, Host, Link, Peer, Reactor};
use crate::request::Lines;
use crate::run::sender::Sender;
use crate::serve::{DONE, REFUSED, ServeError};
use crate::steering::Steering;
use crate::streams;
use crate::tls::Identity;
use crate::transport::{self, IDLE, Settings, Streams};
use crate::udp::{SEND_BUFFER, Udp};

/// Most entries of a client whose first line is missing.
const MOST_EARLY_ENTRIES: usize = 1024;
/// Data of a flow that may wait to be read.
pub const RECEIVE_WINDOW: u32 = 16 << 20;
/// Data of a connection that has not joined a run, which may wait to be read: the server keeps it for whoever sends.
const EARLY_WINDOW: u64 = 64 << 10;
/// Finite transfers of a flow that may be open at once.
pub const STREAMS: u32 = 1024;

/// Options of a server.
pub struct Options {
    /// Listening address.
    pub listen: SocketAddr,
    /// Secret that clients hold, too.
    pub token: Token,
    /// Longest run.
    pub longest: Dur,
    /// Most bytes of a run.
    pub most_bytes: u64,
}

/// Role of a connection.
enum Kind {
    /// Connection whose first line is missing.
    Unidentified,
    /// Holder of the token.
    Control,
    /// Flow of the run with this name.
    Flow { run: String, flow: usize },
    /// Connection that is refused or closed.
    Over,
}

/// Flow that leaves here.
struct Leaving {
    run: String,
    flow: usize,
    end: Time,
    /// Application of the flow.
    sender: Sender,
    /// Flag that packets leave with the socket's code point.
    is_ecn_capable: bool,
}

/// Request for a run that is to leave here.
struct Requested {
    flows: usize,
    duration_s: f64,
    tcp: Vec<TcpFlow>,
}

/// A client's connection.
struct Client {
    number: u64,
    remote: SocketAddr,
    state: Shared,
    kind: Kind,
    first_line_until: Time,
    look: Time,
    lines: Lines,
    stream: Option<StreamId>,
    /// Bytes that wait to be sent: on the first stream, and packet times on one of their own.
    pending: Vec<u8>,
    times: Option<(StreamId, Bytes)>,
    /// Record from before it joined a run.
    early: Seen,
    /// Sender of a flow that leaves here.
    leaving: Option<Leaving>,
    requested: Option<Requested>,
    /// The end of the run was asked for, and a TCP connection has yet to report.
    finishing: bool,
    /// Stream of a run's load, what has come of it, and the whole load. It may come before the request.
    load_stream: Option<StreamId>,
    load: Vec<u8>,
    loaded: Option<Load>,
}

impl Client {
    fn refuse(&mut self, link: &mut Link<'_>, reason: &str) {
        link.close(REFUSED, reason);
        self.leave(Some(reason));
    }

    /// Ends what it was part of.
    fn leave(&mut self, error: Option<&str>) {
        let kind = std::mem::replace(&mut self.kind, Kind::Over);
        (self.first_line_until, self.look) = (Time::NEVER, Time::NEVER);
        let mut state = locked(&self.state);
        if matches!(kind, Kind::Control) {
            state.run.take_if(|run| run.control == self.number);
        }
        if matches!(kind, Kind::Control | Kind::Unidentified) {
            state.log_lines.push(json!({"peer": self.remote.to_string(), "closed": true, "error": error}));
        }
    }

    fn read(&mut self, link: &mut Link<'_>) {
        let Some(stream) = self.stream else { return };
        let mut pieces = Vec::new();
        streams::read_in_order(link.stack, stream, |bytes| pieces.push(bytes.to_vec()));
        for piece in pieces {
            let taken = self
                .lines
                .take(&piece)
                .map_err(|e| e.to_string())
                .and_then(|lines| lines.into_iter().try_for_each(|line| self.take(link, &line)));
            if let Err(reason) = taken {
                return self.refuse(link, &reason);
            }
        }
    }

    /// Takes a line of the client's.
    fn take(&mut self, link: &mut Link<'_>, text: &[u8]) -> Result<(), String> {
        match (&self.kind, Ask::parse(text).map_err(|e| e.to_string())?) {
            (Kind::Unidentified, Ask::Hello { token, .. }) => self.greet(link, &token),
            (Kind::Unidentified, Ask::Join { run, flow }) => self.join(link, run, flow),
            (Kind::Control, Ask::Clock { number }) => {
                let now = link.now.0;
                self.pending.extend(line(&Answer::Clock { number, received_ns: now, sent_ns: now }));
                Ok(())
            }
            (Kind::Control, Ask::Run { flows, duration_s, reverse, tcp }) => {
                let requested = Requested { flows, duration_s, tcp };
                if reverse {
                    self.requested = Some(requested);
                    return Ok(());
                }
                self.start(link.now, requested, None)
            }
            (Kind::Control, Ask::Finish {}) => {
                self.finishing = true;
                self.finish(link)
            }
            (Kind::Over, _) => Ok(()),
            (_, Ask::Hello { .. } | Ask::Join { .. }) => Err("a connection begins once".into()),
            _ => Err("a connection begins with the token, or with the run that it is part of".into()),
        }
    }

    fn greet(&mut self, link: &mut Link<'_>, token: &Token) -> Result<(), String> {
        if token.digest() != locked(&self.state).token {
            return Err("wrong token: use the file that `ccarena remote serve --token FILE` names there".into());
        }
        (self.kind, self.first_line_until) = (Kind::Control, Time::NEVER);
        link.stack.set_receive_window(VarInt::from_u32(RECEIVE_WINDOW));
        self.pending.extend(line(&Answer::Welcome {}));
        Ok(())
    }

    fn join(&mut self, link: &mut Link<'_>, id: String, flow: usize) -> Result<(), String> {
        let mut state = locked(&self.state);
        let most_bytes = state.most_bytes;
        let run = state.run.as_mut().filter(|run| run.id == id).ok_or("no such run goes on")?;
        let is_tcp = run.is_tcp(flow);
        match run.joined.get_mut(flow) {
            Some(joined @ false) if !is_tcp => *joined = true,
            _ => return Err(format!("flow: got {flow}; expected the number of a flow over QUIC that has not joined")),
        }
        let is_of_it = |leaving: &Leaving| leaving.run == run.id && leaving.flow == flow;
        if run.load.is_some() && !self.leaving.as_ref().is_some_and(is_of_it) {
            return Err(
                "the flow's connection was opened with another first connection ID than that of the flow".into()
            );
        }
        let bytes = self.early.packets.iter().map(|packet| u64::from(packet.bytes)).sum();
        run.add(flow, bytes, most_bytes, |arrived| arrived.append(&mut self.early))
            .map_err(|limit| limit.to_string())?;
        drop(state);
        link.stack.set_receive_window(VarInt::from_u32(RECEIVE_WINDOW));
        (self.kind, self.first_line_until) = (Kind::Flow { run: id, flow }, Time::NEVER);
        if let Some(leaving) = &mut self.leaving {
            leaving.sender.on_event(link, Event::Connected);
        }
        Ok(())
    }

    /// Takes a piece of a run's load.
    fn take_load(&mut self, link: &mut Link<'_>, stream: StreamId) -> Result<(), String> {
        let load = &mut self.load;
        let (_, ended) = streams::read_in_order(link.stack, stream, |bytes| {
            // Bytes beyond the limit are read and forgotten, until the load is refused.
            load.extend_from_slice(&bytes[..bytes.len().min((load::LARGEST + 1).saturating_sub(load.len()))]);
        });
        if self.load.len() > load::LARGEST {
            return Err(format!("a load of more than {} bytes", load::LARGEST));
        }
        if !ended {
            return Ok(());
        }
        self.load_stream = None;
        self.loaded = Some(Load::read(&std::mem::take(&mut self.load)).map_err(|e| e.to_string())?);
        Ok(())
    }

    /// Starts the requested run once its load is there. Reading the load takes time, which is no part of the run.
    fn start_loaded(&mut self, now: Time) -> Result<(), String> {
        if self.requested.is_none() || self.loaded.is_none() {
            return Ok(());
        }
        let (Some(requested), Some(load)) = (self.requested.take(), self.loaded.take()) else { return Ok(()) };
        let Requested { flows, duration_s, tcp } = &requested;
        let length = Dur::from_secs_f64(*duration_s);
        if load.scenario.flows.len() != *flows || load.scenario.duration != length || load.tcp() != *tcp {
            return Err("a load of another run than the requested one".into());
        }
        self.start(now, requested, Some(Arc::new(load)))
    }

    fn start(&mut self, now: Time, requested: Requested, load: Option<Arc<Load>>) -> Result<(), String> {
        let Requested { flows, duration_s, tcp } = requested;
        let reverse = load.is_some();
        let mut state = locked(&self.state);
        let (length, longest) = (Dur::from_secs_f64(duration_s), state.longest);
        if length > longest {
            let most_s = longest.as_secs_f64();
            return Err(format!(
                "duration_s: got {duration_s}; expected at most {most_s}, the limit of this server (`--most-s` there)"
            ));
        }
        if state.run.is_some() {
            return Err("another run goes on here; wait until it has ended".into());
        }
        if let (Some(why), false) = (&state.no_tcp, tcp.is_empty()) {
            return Err(why.clone());
        }
        let run = Run::new(self.number, now, length, flows, &tcp, load)?;
        let tickets = run.tickets.iter().map(|given| given.ticket.clone()).collect();
        let answer = Answer::Started { run: run.id.clone(), zero_ns: now.0, tickets };
        state.run = Some(run);
        state.log_lines.push(
            json!({"peer": self.remote.to_string(), "flows": flows, "duration_s": duration_s, "reverse": reverse}),
        );
        drop(state);
        self.look = now;
        self.pending.extend(line(&answer));
        Ok(())
    }

    /// Ends the sender of a flow that leaves here, and keeps its report with the run.
    fn report(&mut self, link: &mut Link<'_>) {
        let Some(Leaving { run: id, flow, sender, .. }) = self.leaving.take() else { return };
        let report = Report::new(sender.finish(), link.steering.totals()).write();
        let mut state = locked(&self.state);
        if let Some(run) = state.run.as_mut().filter(|run| run.id == id && run.joined[flow]) {
            run.flows[flow].report = report;
        }
    }

    /// Sends the record of the run, and ends it, once it is asked to and every TCP connection has reported.
    fn finish(&mut self, link: &mut Link<'_>) -> Result<(), String> {
        let mut state = locked(&self.state);
        let mine = state.run.as_ref().filter(|run| run.control == self.number).ok_or("no run goes on")?;
        if mine.sending > 0 && link.now < mine.until {
            return Ok(());
        }
        let Some(run) = state.run.take() else { return Ok(()) };
        drop(state);
        (self.look, self.finishing) = (Time::NEVER, false);
        let stream = link.stack.streams().open(Dir::Uni).ok_or("a stream for packet times is missing")?;
        self.times = Some((stream, encode(&run.flows).into()));
        Ok(())
    }

    /// Adds to the record of its flow; an error if that is more than the run may have.
    fn add(&mut self, bytes: usize, add: impl FnOnce(&mut Seen)) -> Result<(), String> {
        let (id, flow) = match &self.kind {
            Kind::Unidentified if self.early.len() < MOST_EARLY_ENTRIES => {
                add(&mut self.early);
                return Ok(());
            }
            Kind::Unidentified => return Err(TOO_EARLY.into()),
            Kind::Flow { run, flow } => (run, *flow),
            Kind::Control | Kind::Over => return Ok(()),
        };
        let mut state = locked(&self.state);
        let most_bytes = state.most_bytes;
        let goes_on = |run: &&mut Run| run.id == *id && run.exceeded.is_none();
        let Some(run) = state.run.as_mut().filter(goes_on) else { return Ok(()) };
        run.add(flow, bytes as u64, most_bytes, add).map_err(|limit| limit.to_string())
    }

    /// Reason why its part of a run is over; none while it goes on.
    fn is_over(&self, now: Time) -> Option<String> {
        let state = locked(&self.state);
        let run = state.run.as_ref();
        match &self.kind {
            Kind::Unidentified if self.early.len() >= MOST_EARLY_ENTRIES => Some(TOO_EARLY.into()),
            Kind::Unidentified if now >= self.first_line_until => {
                Some(format!("no first line within {} s", FIRST_LINE_WITHIN.as_secs_f64()))
            }
            Kind::Control => {
                let run = run.filter(|run| run.control == self.number);
                let limit = run.and_then(|run| run.exceeded.or((now >= run.until).then_some(Limit::Time)));
                limit.map(|limit| limit.to_string())
            }
            Kind::Flow { run: id, .. } if run.is_none_or(|run| run.id != *id) => Some("the run is over".into()),
            _ => None,
        }
    }
}

const TOO_EARLY: &str = "data came before the connection's first line";

impl Peer for Client {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        match event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) if self.stream.is_none() => {
                self.stream = link.stack.streams().accept(Dir::Bi);
                self.read(link);
            }
            Event::Stream(StreamEvent::Readable { id }) if self.stream == Some(id) => self.read(link),
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni } | StreamEvent::Readable { .. })
                if matches!(self.kind, Kind::Control) =>
            {
                self.load_stream = self.load_stream.or_else(|| link.stack.streams().accept(Dir::Uni));
                let taken = self.load_stream.map_or(Ok(()), |stream| self.take_load(link, stream));
                if let Err(reason) = taken {
                    self.refuse(link, &reason);
                }
            }
            Event::ConnectionLost { reason } if !matches!(self.kind, Kind::Over) => {
                if let Some(leaving) = &mut self.leaving {
                    leaving.sender.on_event(link, Event::ConnectionLost { reason: reason.clone() });
                }
                self.report(link);
                let closed =
                    matches!(&reason, ConnectionError::ApplicationClosed(close) if close.error_code == DONE.into());
                self.leave((!closed).then(|| reason.to_string()).as_deref());
            }
            event if self.leaving.is_some() => {
                if let (Some(leaving), Kind::Flow { .. }) = (&mut self.leaving, &self.kind) {
                    leaving.sender.on_event(link, event);
                }
            }
            _ => {
                let mut whole = Vec::new();
                let bytes = streams::discard(link.stack, &event, |stream| whole.push((stream.index(), link.now)));
                let now = link.now;
                let added = self.add(0, |arrived| {
                    arrived.add_payload(now, bytes);
                    arrived.whole.append(&mut whole);
                });
                if let Err(reason) = added {
                    self.refuse(link, &reason);
                }
            }
        }
    }

    fn on_datagram(&mut self, now: Time, payload: &[u8]) {
        if self.leaving.is_some() {
            return;
        }
        // A limit that this exceeds ends the connection, or the run's control, when it is written.
        let _ = self.add(payload.len(), |arrived| arrived.packets.push(Stamp::new(now, payload)));
    }

    fn on_sent(&mut self, now: Time, payload: &[u8], size: usize) {
        let Some(leaving) = &mut self.leaving else { return };
        leaving.sender.on_sent(now, payload, size);
        let stamps = payload.chunks(size.max(1)).map(|datagram| Stamp::new(now, datagram));
        let _ = self.add(payload.len(), |seen| seen.packets.extend(stamps));
    }

    fn is_ecn_capable(&self) -> bool {
        self.leaving.as_ref().is_none_or(|leaving| leaving.is_ecn_capable)
    }

    fn next(&self) -> Time {
        let sends = self.leaving.as_ref().map_or(Time::NEVER, |leaving| leaving.sender.next().min(leaving.end));
        self.first_line_until.min(self.look).min(sends)
    }

    fn write(&mut self, link: &mut Link<'_>) {
        if link.now >= self.look {
            self.look = link.now + LOOK;
        }
        if let Some(reason) = self.is_over(link.now) {
            return self.refuse(link, &reason);
        }
        if self.leaving.as_ref().is_some_and(|leaving| link.now >= leaving.end) {
            self.report(link);
            link.close(DONE, "the run is over");
            return self.leave(None);
        }
        if let (Some(leaving), Kind::Flow { .. }) = (&mut self.leaving, &self.kind) {
            leaving.sender.write(link);
            if link.stack.is_closed() {
                self.report(link);
                return self.leave(None);
            }
        }
        let done = self.start_loaded(link.now).and_then(|()| if self.finishing { self.finish(link) } else { Ok(()) });
        if let Err(reason) = done {
            return self.refuse(link, &reason);
        }
        if let Some(stream) = self.stream.filter(|_| !self.pending.is_empty()) {
            if let Ok(count) = link.stack.send_stream(stream).write(&self.pending) {
                self.pending.drain(..count);
            }
        }
        if let Some((stream, bytes)) = &mut self.times {
            // The stack shares the bytes until they are acknowledged.
            while let Ok(count) = link.stack.send_stream(*stream).write_chunks(&mut &mut [bytes.clone()][..]) {
                *bytes = bytes.slice(count..);
                if bytes.is_empty() {
                    let _ = link.stack.send_stream(*stream).finish();
                    self.times = None;
                    return;
                }
            }
        }
    }
}

/// Serves until one of `stop` polls readable. Writes its address to `out`, then the log, in lines of JSON.
///
/// # Errors
/// If it cannot listen, or `out` cannot be written.
pub fn serve(options: Options, out: &mut dyn Write, stop: &[RawFd]) -> Result<(), ServeError> {
    let Options { listen, token, longest, most_bytes } = options;
    let state = State { token: token.digest(), longest, most_bytes, no_tcp: None, run: None, log_lines: Vec::new() };
    let state = Arc::new(Mutex::new(state));
    let clock = Clock::starting();
    let config = Identity::of_token(&token).and_then(|identity| identity.config())?;
    let udp =
        Udp::bind(listen, Ecn::Ect0, SEND_BUFFER).map_err(ServeError::of(format!("cannot listen at {listen}")))?;
    let accept = accept(Arc::clone(&state), clock, config.clone());
    let host = Host::new(udp, clock, Some((Arc::new(config), accept)));
    let address = host.address().map_err(ServeError::of("cannot tell where it listens"))?;
    let mut reactor = Reactor::new(clock, vec![host]).map_err(ServeError::of("cannot wait for datagrams"))?;
    // Closing it ends the thread.
    let (_over, is_over) = UnixStream::pair().map_err(ServeError::of("cannot make a pair of sockets"))?;
    let tcp = Incoming::listen(address, Arc::clone(&state), clock);
    locked(&state).no_tcp = tcp.as_ref().err().map(|error| {
        let port = address.port();
        format!(
            "flows of the kernel's TCP need TCP port {port} beside UDP port {port}, which this server could not open \
             ({error}); start it with a --listen port of which both are free"
        )
    });
    let (has_tcp, version) = (tcp.is_ok(), env!("CARGO_PKG_VERSION"));
    if let Ok(incoming) = tcp {
        let work = move || incoming.run(is_over.as_raw_fd());
        thread::Builder::new().name("tcp".into()).spawn(work).map_err(ServeError::of("cannot start a thread"))?;
    }
    locked(&state).log_lines.push(json!({"listening": address.to_string(), "tcp": has_tcp, "version": version}));
    link_clock::precise_timers();
    loop {
        let lines: String =
            std::mem::take(&mut locked(&state).log_lines).iter().map(|line| format!("{line}\n")).collect();
        if !lines.is_empty() {
            let written = out.write_all(lines.as_bytes()).and_then(|()| out.flush());
            written.map_err(ServeError::of("cannot write standard output"))?;
        }
        if reactor.turn(Time::NEVER, stop).map_err(ServeError::of("cannot wait for datagrams"))? {
            return Ok(());
        }
        reactor.host(0).take_ended();
    }
}

/// Accepts every client, whose first line says what it is.
fn accept(state: Shared, clock: Clock, server: noq_proto::ServerConfig) -> Accept<Client> {
    let streams = Streams { bidirectional: 1, unidirectional: STREAMS };
    let settings = Settings {
        receive_window: Some(RECEIVE_WINDOW.into()),
        early_window: Some(EARLY_WINDOW),
        streams,
        idle: Some(IDLE),
        ..Settings::default()
    };
    let mut number = 0;
    Box::new(move |incoming| {
        let remote = incoming.remote_address();
        let own = leaving(&state, &incoming.orig_dst_cid());
        let (mut settings, mut steering, mut leaving) = (settings, None, None);
        if let Some((run, flow, load, zero, end)) = own {
            let (plan, about) = (&load.plans[flow], &load.scenario.flows[flow]);
            // It was built once already, when it was planned.
            let driver = plan.driver(flow, about, &load.policies, load.scenario.record.reports).ok()?.after(zero);
            steering = Some(Steering::new(driver, clock, plan.settings.mtu, None));
            settings = Settings { mtu: plan.settings.mtu, acks: plan.settings.acks, ..settings };
            let sender = Sender::new(&load.scenario, flow).after(zero);
            leaving = Some(Leaving { run, flow, end, sender, is_ecn_capable: plan.ecn != Ecn::NotEct });
        }
        let steering = steering.or_else(|| Steering::of_receiver(clock, settings.mtu, None).ok())?;
        let mut config = server.clone();
        config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
        number += 1;
        let client = Client {
            number,
            remote,
            state: Arc::clone(&state),
            kind: Kind::Unidentified,
            first_line_until: clock.time(clock.now()) + FIRST_LINE_WITHIN,
            look: Time::NEVER,
            lines: Lines::default(),
            stream: None,
            pending: Vec::new(),
            times: None,
            early: Seen::default(),
            leaving,
            requested: None,
            finishing: false,
            load_stream: None,
            load: Vec::new(),
            loaded: None,
        };
        Some((Arc::new(config), steering, client))
    })
}

/// The flow that leaves here for the client who opens a connection with this ID: its run and number, the run's load, and
/// the run's beginning and end.
fn leaving(state: &Shared, id: &ConnectionId) -> Option<(String, usize, Arc<Load>, Time, Time)> {
    let state = locked(state);
    let run = state.run.as_ref()?;
    let load = run.load.as_ref()?;
    let flow = (0..run.flows.len()).find(|&flow| !run.joined[flow] && ticket(&run.id, flow) == *id)?;
    Some((run.id.clone(), flow, Arc::clone(load), run.zero, run.end))
}
