//! A server of data: each client says how much it wants, and which congestion control is to send it.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::sync::Arc;

use ccarena_cc::{Dur, Time};
use ccarena_link::clock as link_clock;
use ccarena_net::Ecn;
use noq_proto::{Dir, Event, StreamEvent, StreamId};
use serde_json::json;

use crate::clock::Clock;
use crate::host::{Accept, Host, Link, Peer, Reactor};
use crate::offer::Offer;
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
    Offer(#[from] crate::offer::OfferError),
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

/// A client's connection.
pub struct Serving {
    number: u64,
    remote: SocketAddr,
    offer: Arc<Offer>,
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
            return Ok(());
        }
        let request = Request::parse(line).map_err(text)?;
        let (scheme, driver) = self.offer.driver(&request, self.mtu, self.number).map_err(|e| e.to_string())?;
        link.steering.replace(driver);
        self.scheme = Some(scheme);
        self.asks_until = Time::NEVER;
        self.left = Some(request.bytes.unwrap_or(u64::MAX));
        Ok(())
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
            "decisions": totals.decisions - before.decisions,
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
            "decisions": totals.decisions,
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
    let Options { listen, offer, settings, interval, qlog } = options;
    // What is wrong with the default shows now, not when a client comes.
    offer.driver(&Request::default(), settings.mtu, 0)?;
    if let Some(folder) = &qlog {
        fs::create_dir_all(folder).map_err(ServeError::of(format!("cannot make {}", folder.display())))?;
    }
    let clock = Clock::starting();
    let identity = Identity::generate()?;
    let udp =
        Udp::bind(listen, Ecn::Ect0, SEND_BUFFER).map_err(ServeError::of(format!("cannot listen at {listen}")))?;
    let config = identity.config()?;
    let accept = accept(Arc::new(offer), settings, clock, config.clone(), qlog);
    let host = Host::new(udp, clock, Some((Arc::new(config), accept)));
    let address = host.address().map_err(ServeError::of("cannot tell where it listens"))?;
    let mut reactor = Reactor::new(clock, vec![host]).map_err(ServeError::of("cannot wait for datagrams"))?;
    let told = ServeError::of;
    writeln!(out, "{}", json!({"listening": address.to_string(), "fingerprint": identity.fingerprint}))
        .and_then(|()| out.flush())
        .map_err(told("cannot write standard output"))?;
    link_clock::precise_timers();
    let mut next = interval.map_or(Time::NEVER, |interval| Time::ZERO + interval);
    while !reactor.turn(next, stop).map_err(ServeError::of("cannot wait for datagrams"))? {
        let now = reactor.now();
        let mut lines = Vec::new();
        let host = reactor.host(0);
        for (serving, steering) in host.take_ended() {
            serving.last_words(&steering, now, &mut lines).map_err(told("cannot write"))?;
        }
        if now >= next {
            host.each(|_, serving, link| drop(serving.report(link, &mut lines)));
            next = now + interval.unwrap_or(Dur::MAX);
        }
        if !lines.is_empty() {
            let written = out.write_all(&lines).and_then(|()| out.flush());
            written.map_err(told("cannot write standard output"))?;
        }
    }
    Ok(())
}

/// Accepts every client; its controller begins as Reno, until it has said what it wants.
fn accept(
    offer: Arc<Offer>,
    settings: Settings,
    clock: Clock,
    server: noq_proto::ServerConfig,
    qlog: Option<PathBuf>,
) -> Accept<Serving> {
    let streams = Streams { bidirectional: 1, ..Streams::default() };
    let settings = Settings { receive_window: Some(RECEIVE_WINDOW), streams, ..settings };
    let mut number = 0;
    Box::new(move |remote| {
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
            offer: Arc::clone(&offer),
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
