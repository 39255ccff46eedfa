//! A server of data: each client says how much it wants, and which congestion control is to send it.

use std::convert::Infallible;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccarena_cc::flow::Tally;
use ccarena_cc::operation::{Ending, Role};
use ccarena_cc::{Config, Dur, Flow, Time};
use ccarena_link::clock as link_clock;
use ccarena_net::Ecn;
use noq_proto::{Dir, Event, StreamEvent, StreamId};
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::control::{Command, Control};
use crate::host::{Accept, Host, Link, Peer, Reactor};
use crate::metrics::Metrics;
use crate::offer::{Offer, OfferError};
use crate::operate::{Asking, Ends, Part, Version, hash_of};
use crate::qlog::Qlog;
use crate::request::{Change, LONGEST, Lines, Request, RequestError};
use crate::steering::{Steering, Totals};
use crate::streams;
use crate::tls::{Identity, TlsError};
use crate::transport::{self, Settings, Streams};
use crate::udp::{SEND_BUFFER, Udp};

/// The client has what it asked for.
pub const DONE: u32 = 0;
/// Error code for a wrong request; the reason says what is wrong.
pub const REFUSED: u32 = 1;

/// A client that has asked for nothing so long after its first packet is sent away.
const ASKS_WITHIN: Dur = Dur::from_millis(10_000);
/// The bytes that a client may send beyond what was read: two lines.
const RECEIVE_WINDOW: u64 = 2 * LONGEST as u64;

/// Options of a server.
pub struct Options {
    /// Listening address.
    pub listen: SocketAddr,
    /// Offer to clients.
    pub offer: Offer,
    /// Settings of its connections.
    pub settings: Settings,
    /// A line about each connection so often; none without end.
    pub interval: Option<Dur>,
    /// A log of each connection's congestion control goes here.
    pub qlog: Option<PathBuf>,
    /// Socket that takes an operator's commands.
    pub control: Option<PathBuf>,
}

/// Error of a server that cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The socket, or the loop.
    #[error("{what}: {source}")]
    System {
        /// Attempted operation.
        what: String,
        /// Error of the kernel.
        source: io::Error,
    },
    /// Secure connections.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Error in the default of connections.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// Error of a missing controller for the beginning of a connection.
    #[error(transparent)]
    Scheme(#[from] ccarena_cc::BuildError),
}

impl ServeError {
    /// Returns a function that makes errors of the kernel during the operation `what`.
    pub fn of(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::System { what, source }
    }
}

/// The offer, which the operator changes while connections live, and lines of connections that wait to be written.
#[derive(Clone, Default)]
struct Shared {
    offer: Arc<Mutex<Offer>>,
    told: Arc<Mutex<Vec<Value>>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Offer> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, line: Value) {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    fn told(&self) -> Vec<Value> {
        std::mem::take(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A client's connection.
pub struct Serving {
    number: u64,
    remote: SocketAddr,
    local: SocketAddr,
    offer: Shared,
    asking: Asking,
    request: Request,
    /// Record under the present role and policy, if it asked for one.
    part: Option<Part>,
    mtu: u16,
    lines: Lines,
    /// The time until which it has to have asked for something.
    asks_until: Time,
    stream: Option<StreamId>,
    scheme: Option<String>,
    /// Bytes that are left to write; none before they are known.
    left: Option<u64>,
    finished: bool,
    error: Option<String>,
    last: (Time, Totals),
}

impl Serving {
    fn read(&mut self, link: &mut Link<'_>) {
        let Some(stream) = self.stream else { return };
        let mut pieces = Vec::new();
        streams::read_in_order(link.stack, stream, |bytes| pieces.push(bytes.to_vec()));
        for piece in pieces {
            let done = self
                .lines
                .take(&piece)
                .map_err(|e| e.to_string())
                .and_then(|lines| lines.into_iter().try_for_each(|line| self.take(link, &line)));
            if let Err(reason) = done {
                self.refuse(link, reason);
                return;
            }
        }
    }

    fn refuse(&mut self, link: &mut Link<'_>, reason: String) {
        link.close(REFUSED, &reason);
        self.asks_until = Time::NEVER;
        self.error = Some(reason);
    }

    /// Takes a line of the client's.
    fn take(&mut self, link: &mut Link<'_>, line: &[u8]) -> Result<(), String> {
        let text = |e: RequestError| e.to_string();
        if self.scheme.is_some() {
            let change = Change::parse(line).map_err(text)?;
            change.settings().into_iter().for_each(|setting| link.steering.set(setting));
            // For a flow that takes over later.
            let Request { requirement, weight, desired_mbps, .. } = &mut self.request;
            *requirement = change.requirement.or(*requirement);
            *weight = change.weight.or(*weight);
            *desired_mbps = change.desired_mbps.or(*desired_mbps);
            return Ok(());
        }
        let request = Request::parse(line).map_err(text)?;
        let mut offer = self.offer.lock();
        let chosen = offer.choose(&request, self.mtu, self.number, self.asking, link.now).map_err(|e| e.to_string())?;
        drop(offer);
        let Ok(()) = link.steering.pass::<Infallible>(|_, _, _| Ok(chosen.flow));
        self.scheme = Some(chosen.scheme);
        self.part = chosen.part;
        self.asks_until = Time::NEVER;
        self.left = Some(request.bytes.unwrap_or(u64::MAX));
        self.request = request;
        Ok(())
    }

    /// Ends the present record for `ending`, with `totals` and `metrics` at its end.
    fn end_part(&mut self, totals: &Totals, metrics: &Metrics, now: Time, ending: Ending) {
        let Some(part) = &mut self.part else { return };
        let ends = Ends { now, local: self.local, remote: self.remote, metrics, mtu: self.mtu };
        if let Ok(offered) = self.offer.lock().of(&part.name.clone()) {
            offered.end(part, totals, &ends, ending);
        }
    }

    /// Goes on in `role`, the present record having ended for `ending`.
    fn begin_part(&mut self, role: Role, now: Time, ending: Ending) {
        let Some(part) = &mut self.part else { return };
        part.role = role;
        self.offer.tell(json!({
            "time_s": now.as_secs_f64(),
            "connection": self.number,
            "peer": self.remote.to_string(),
            "policy": part.name,
            "role": role.name(),
            "after": ending.name(),
            "generation": part.generation,
            "sha256": part.sha256,
        }));
    }

    /// The guard may have taken the connection from its policy.
    fn look_at_guard(&mut self, link: &Link<'_>) {
        if self.part.as_ref().is_some_and(|part| part.was_handed_back(link.steering)) {
            self.end_part(&link.steering.totals(), &link.steering.metrics(), link.now, Ending::Guard);
            self.begin_part(Role::HandedBack, link.now, Ending::Guard);
        }
    }

    /// The operator has changed something.
    fn follow(&mut self, link: &Link<'_>) {
        self.look_at_guard(link);
        let Some(part) = &self.part else { return };
        let offer = self.offer.lock();
        let Some(offered) = offer.offered().get(&part.name) else { return };
        let (role, replaced) = (part.next_role(offered), part.generation != offered.generation);
        if role == part.role && !replaced {
            return;
        }
        let (totals, metrics) = (link.steering.totals(), link.steering.metrics());
        // A connection that the fallback scheme runs goes on as it is.
        let passes = role.decides() || part.role.decides();
        if passes {
            let next = |flow: &Flow, srtt, now| offer.next(part, role, &self.request, self.mtu, (flow, srtt), now);
            if let Err(error) = link.steering.pass(next) {
                // `load` has checked the policy for connections without parameters of their own. This one goes on as it is.
                self.offer.tell(json!({
                    "time_s": link.now.as_secs_f64(),
                    "connection": self.number,
                    "kept": part.sha256,
                    "reason": error.to_string(),
                }));
                return;
            }
        }
        drop(offer);
        let ending = if role == part.role { Ending::Replaced } else { Ending::Moved };
        self.end_part(&totals, &metrics, link.now, ending);
        if passes {
            self.part.iter_mut().for_each(Part::count_from_zero);
        }
        self.begin_part(role, link.now, ending);
    }

    /// The record under the present role and policy.
    fn record(&self, link: &Link<'_>) -> Option<(&Part, Value)> {
        let (part, metrics) = (self.part.as_ref()?, link.steering.metrics());
        let ends = Ends { now: link.now, local: self.local, remote: self.remote, metrics: &metrics, mtu: self.mtu };
        Some((part, part.record(&link.steering.totals(), &ends, None, 0)))
    }

    /// A line about what the connection has done since the last one.
    fn report(&mut self, link: &Link<'_>, out: &mut dyn Write) -> io::Result<()> {
        let (totals, metrics) = (link.steering.totals(), link.steering.metrics());
        let (then, before) = std::mem::replace(&mut self.last, (link.now, totals.clone()));
        let seconds = link.now.since(then).as_secs_f64().max(1e-9);
        let line = json!({
            "time_s": link.now.as_secs_f64(),
            "connection": self.number,
            "peer": self.remote.to_string(),
            "scheme": self.scheme,
            "delivered_bytes": totals.counts.delivered_bytes,
            "throughput_mbps": (totals.counts.delivered_bytes - before.counts.delivered_bytes) as f64 * 8.0 / seconds / 1e6,
            "rtt_ms": metrics.rtt_latest.as_millis_f64(),
            "min_rtt_ms": metrics.rtt_min.as_millis_f64(),
            "window_bytes": metrics.window,
            "in_flight_bytes": metrics.in_flight,
            "pacing_mbps": metrics.pacing.map(ccarena_cc::Rate::as_mbps),
            "sent_packets": totals.counts.sent_packets - before.counts.sent_packets,
            "lost_packets": totals.counts.lost_packets - before.counts.lost_packets,
            "decisions": totals.tally.decisions.saturating_sub(before.tally.decisions),
            "role": self.part.as_ref().map(|part| part.role.name()),
            "sha256": self.part.as_ref().map(|part| &part.sha256),
        });
        writeln!(out, "{line}")
    }

    /// A line about the connection that is over.
    fn last_words(&self, steering: &Steering, now: Time, out: &mut dyn Write) -> io::Result<()> {
        let totals = steering.totals();
        let line = json!({
            "time_s": now.as_secs_f64(),
            "connection": self.number,
            "peer": self.remote.to_string(),
            "scheme": self.scheme,
            "closed": true,
            "error": self.error,
            "delivered_bytes": totals.counts.delivered_bytes,
            "sent_packets": totals.counts.sent_packets,
            "lost_packets": totals.counts.lost_packets,
            "decisions": totals.tally.decisions,
            "role": self.part.as_ref().map(|part| part.role.name()),
            "sha256": self.part.as_ref().map(|part| &part.sha256),
        });
        writeln!(out, "{line}")
    }
}

impl Peer for Serving {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        match event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) if self.stream.is_none() => {
                self.stream = link.stack.streams().accept(Dir::Bi);
                self.read(link);
            }
            Event::Stream(StreamEvent::Readable { id }) if self.stream == Some(id) => self.read(link),
            Event::ConnectionLost { reason } => {
                let closed = matches!(
                    &reason,
                    noq_proto::ConnectionError::ApplicationClosed(close) if close.error_code == DONE.into()
                );
                self.error = (!closed).then(|| reason.to_string());
                self.finished = true;
                self.asks_until = Time::NEVER;
            }
            _ => {}
        }
    }

    fn next(&self) -> Time {
        self.asks_until
    }

    fn write(&mut self, link: &mut Link<'_>) {
        self.look_at_guard(link);
        if link.now >= self.asks_until {
            self.refuse(link, format!("no request within {} s", ASKS_WITHIN.as_secs_f64()));
        }
        let (Some(stream), Some(left)) = (self.stream, self.left) else { return };
        let mut left = left;
        while left > 0 && !self.finished {
            let Some(count) = streams::write(link.stack, stream, left) else { break };
            left -= if left == u64::MAX { 0 } else { count };
        }
        self.left = Some(left);
        if left == 0 && !self.finished {
            self.finished = true;
            // If the client wants no more, there is nothing to end.
            let _ = link.stack.send_stream(stream).finish();
        }
    }
}

/// Serves until one of `stop` polls readable. What it tells goes to `out`: where it is, then lines of JSON.
///
/// # Errors
/// If it cannot listen, or `out` cannot be written.
pub fn serve(options: Options, out: &mut dyn Write, stop: &[RawFd]) -> Result<(), ServeError> {
    let Options { listen, mut offer, settings, interval, qlog, control } = options;
    let clock = Clock::starting();
    // What is wrong with the default shows now, not when a client comes.
    let nobody = Asking { hash: 0, remote: listen.ip() };
    offer.check(settings.mtu, nobody)?;
    if let Some(folder) = &qlog {
        fs::create_dir_all(folder).map_err(ServeError::of(format!("cannot make {}", folder.display())))?;
    }
    let identity = Identity::generate()?;
    let udp =
        Udp::bind(listen, Ecn::Ect0, SEND_BUFFER).map_err(ServeError::of(format!("cannot listen at {listen}")))?;
    let address = udp.address().map_err(ServeError::of("cannot tell where it listens"))?;
    let listening = |path: &PathBuf| {
        Control::listen(path).map_err(ServeError::of(format!("--control {}: cannot listen", path.display())))
    };
    let mut control = control.as_ref().map(listening).transpose()?;
    let config = identity.config()?;
    let offer = Shared { offer: Arc::new(Mutex::new(offer)), ..Shared::default() };
    let accept = accept(offer.clone(), address, settings, clock, config.clone(), qlog);
    let host = Host::new(udp, clock, Some((Arc::new(config), accept)));
    let mut reactor = Reactor::new(clock, vec![host]).map_err(ServeError::of("cannot wait for datagrams"))?;
    let told = ServeError::of;
    writeln!(out, "{}", json!({"listening": address.to_string(), "fingerprint": identity.fingerprint}))
        .and_then(|()| out.flush())
        .map_err(told("cannot write standard output"))?;
    link_clock::precise_timers();
    let mut next = interval.map_or(Time::NEVER, |interval| Time::ZERO + interval);
    let mut fds = stop.to_vec();
    fds.extend(control.as_ref().map(Control::fd));
    loop {
        let called = reactor.turn(next, &fds).map_err(ServeError::of("cannot wait for datagrams"))?;
        if called && stop.iter().any(|&fd| link_clock::wait(&[fd], Some(0))) {
            return Ok(());
        }
        let now = reactor.now();
        let mut lines = Vec::new();
        let host = reactor.host(0);
        for (mut serving, steering) in host.take_ended() {
            serving.end_part(&steering.totals(), &steering.metrics(), now, Ending::Closed);
            serving.last_words(&steering, now, &mut lines).map_err(told("cannot write"))?;
        }
        for asked in control.iter_mut().filter(|_| called).flat_map(Control::take) {
            asked.answer(obey(&asked.command, asked.version.clone(), &offer, host, now));
        }
        if now >= next {
            host.each(|_, serving, link| drop(serving.report(link, &mut lines)));
            next = now + interval.unwrap_or(Dur::MAX);
        }
        offer.told().iter().try_for_each(|line| writeln!(lines, "{line}")).map_err(told("cannot write"))?;
        if !lines.is_empty() {
            let written = out.write_all(&lines).and_then(|()| out.flush());
            written.map_err(told("cannot write standard output"))?;
        }
    }
}

/// Does what the operator wants, and returns what he is told.
fn obey(
    command: &Command,
    version: Option<Version>,
    offer: &Shared,
    host: &mut Host<Serving>,
    now: Time,
) -> Result<Value, String> {
    let text = |e: OfferError| e.to_string();
    let name = match command {
        Command::Stats { name } => return shown(name.as_deref(), offer, host, now),
        Command::Connections { name, after } => {
            let mut found: Vec<Value> = offer.lock().of(name).map_err(text)?.records(*after).cloned().collect();
            host.each(|_, serving, link| {
                let living = serving.record(link).filter(|(part, _)| part.name == *name);
                found.extend(living.map(|(_, record)| record));
            });
            return Ok(found.into());
        }
        Command::Load { name, shadow, guard, .. } => {
            let version = version.ok_or("no policy was read")?;
            offer.lock().load(name, version, *shadow, *guard, now).map_err(text)?;
            name
        }
        Command::Canary { name, share, to, guard } => {
            offer.lock().canary(name, *share, to.as_deref(), *guard).map_err(text)?;
            name
        }
        Command::Rollback { name } => {
            offer.lock().roll_back(name).map_err(text)?;
            name
        }
    };
    host.each(|_, serving, link| serving.follow(link));
    shown(Some(name), offer, host, now).map(|all| all[0].clone())
}

/// All policies, or `only` one, with the counts of their connections.
fn shown(only: Option<&str>, offer: &Shared, host: &mut Host<Serving>, now: Time) -> Result<Value, String> {
    let mut living: Vec<(String, Tally)> = Vec::new();
    host.each(|_, serving, link| {
        serving.look_at_guard(link);
        living.extend(serving.part.as_ref().map(|part| (part.name.clone(), part.tally(&link.steering.totals()))));
    });
    let mut offer = offer.lock();
    if let Some(name) = only {
        offer.of(name).map_err(|e| e.to_string())?;
    }
    let fallback = offer.fallback(&Config::default()).map_err(|e| e.to_string())?;
    let chosen = offer.offered().iter().filter(|(name, _)| only.is_none_or(|only| only == *name));
    let all = chosen.map(|(name, offered)| {
        let own = living.iter().filter(|(of, _)| of == name).map(|(_, tally)| tally);
        offered.shown(name, &fallback, own, now)
    });
    Ok(all.collect())
}

/// Accepts every client; its controller begins as Reno, until it has said what it wants.
fn accept(
    offer: Shared,
    local: SocketAddr,
    settings: Settings,
    clock: Clock,
    server: noq_proto::ServerConfig,
    qlog: Option<PathBuf>,
) -> Accept<Serving> {
    let streams = Streams { bidirectional: 1, ..Streams::default() };
    let settings = Settings { receive_window: Some(RECEIVE_WINDOW), streams, ..settings };
    let mut number = 0;
    Box::new(move |incoming| {
        let remote = incoming.remote_address();
        let asking = Asking { hash: hash_of(&incoming.orig_dst_cid()), remote: remote.ip() };
        let log = qlog.as_ref().and_then(|folder| {
            // A log that cannot be written must not keep a client from being served.
            let file = fs::File::create(folder.join(format!("connection-{number}.sqlog"))).ok()?;
            let zero_ms =
                link_clock::since_1970_ms(link_clock::now_ns()).saturating_sub(clock.time(clock.now()).0 / 1_000_000);
            Qlog::new(Box::new(BufWriter::new(file)), &format!("connection {number} to {remote}"), "server", zero_ms)
                .ok()
        });
        let steering = Steering::of_receiver(clock, settings.mtu, log).ok()?;
        let mut config = server.clone();
        config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
        let serving = Serving {
            number,
            remote,
            local,
            offer: offer.clone(),
            asking,
            request: Request::default(),
            part: None,
            mtu: settings.mtu,
            lines: Lines::default(),
            asks_until: clock.time(clock.now()) + ASKS_WITHIN,
            stream: None,
            scheme: None,
            left: None,
            finished: false,
            error: None,
            last: (clock.time(clock.now()), Totals::default()),
        };
        number += 1;
        Some((Arc::new(config), steering, serving))
    })
}
