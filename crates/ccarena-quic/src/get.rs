//! A client of data: connections with wishes of their own in one process.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

use ccarena_cc::{Dur, Time};
use ccarena_link::clock as link_clock;
use ccarena_net::Ecn;
use noq_proto::{ConnectionError, Dir, Event, StreamEvent, StreamId, WriteError};
use serde_json::json;

use crate::clock::Clock;
use crate::host::{Host, Link, Peer, Reactor};
use crate::request::{Change, Lines, Request};
use crate::serve::{DONE, ServeError};
use crate::steering::Steering;
use crate::transport::{self, IDLE, Settings};
use crate::udp::{SEND_BUFFER, Udp};
use crate::{streams, tls};

/// The default time for a server's answer: to a new connection, and when the client wants to end.
pub const PATIENCE: Dur = Dur::from_millis(5_000);
/// A server that sends data without end and has been silent for so long may be gone.
const QUIET: Dur = Dur::from_millis(1_000);

/// Options of a client.
pub struct Options {
    /// The server.
    pub remote: SocketAddr,
    /// A connection for each.
    pub requests: Vec<Request>,
    /// Later changes of connections: time since the start, connection (none: all), change.
    pub changes: Vec<(Time, Option<usize>, Change)>,
    /// Ends transfers without end after so long.
    pub duration: Option<Dur>,
    /// A line about each connection so often; none without end.
    pub interval: Option<Dur>,
    /// The server must have this key.
    pub fingerprint: Option<String>,
    /// A server that is silent for so long is given up; none: [`PATIENCE`], and [`IDLE`] in the middle of a transfer.
    pub patience: Option<Dur>,
    /// Settings of its connections.
    pub settings: Settings,
}

/// A connection.
struct Getting {
    number: usize,
    remote: SocketAddr,
    patience: Dur,
    idle: Dur,
    stream: Option<StreamId>,
    /// Lines that wait to be sent.
    pending: Vec<u8>,
    wanted: Option<u64>,
    received: u64,
    began: Time,
    /// The time of the last arrival.
    heard: Time,
    /// The server has to answer until then; never, if no answer is waited for.
    give_up: Time,
    /// Flag that its time is over: it ends when the server answers again.
    leaves: bool,
    ended: Option<Time>,
    error: Option<String>,
    last: (Time, u64),
}

impl Getting {
    fn ask(&mut self, line: &impl serde::Serialize) {
        self.pending.extend(serde_json::to_vec(line).unwrap_or_default());
        self.pending.push(b'\n');
    }

    /// Ends it: its time is over. If the server is silent, `waits` lets it wait for a sign of life, as data without end that
    /// has ended is no result.
    fn leave(&mut self, link: &mut Link<'_>, waits: bool) {
        if self.ended.is_some() {
            return;
        }
        if self.stream.is_none() {
            self.fail(link);
        } else if waits && link.now.since(self.heard) > QUIET {
            self.leaves = true;
            self.give_up = self.heard + self.patience;
        } else {
            self.error = self.wanted.map(|_| "stopped before its end".into());
            self.end(link);
        }
    }

    fn end(&mut self, link: &mut Link<'_>) {
        self.ended = Some(link.now);
        link.close(DONE, "");
    }

    /// The server does not answer.
    fn fail(&mut self, link: &mut Link<'_>) {
        let Self { remote, began, heard, .. } = *self;
        self.error = Some(if self.stream.is_none() {
            let seconds = link.now.since(began).as_secs_f64();
            format!("no connection to {remote} within {seconds:.1} s; is a server there (`ccarena quic serve`)?")
        } else {
            silent(remote, link.now.since(heard))
        });
        self.end(link);
    }

    fn report(&mut self, now: Time) -> serde_json::Value {
        let (then, before) = std::mem::replace(&mut self.last, (now, self.received));
        let seconds = now.since(then).as_secs_f64().max(1e-9);
        json!({
            "time_s": now.as_secs_f64(),
            "connection": self.number,
            "received_bytes": self.received,
            "goodput_mbps": (self.received - before) as f64 * 8.0 / seconds / 1e6,
        })
    }

    fn last_words(&self, now: Time) -> serde_json::Value {
        let seconds = self.ended.unwrap_or(now).since(self.began).as_secs_f64();
        json!({
            "time_s": now.as_secs_f64(),
            "connection": self.number,
            "closed": true,
            "error": self.error,
            "received_bytes": self.received,
            "seconds": seconds,
            "goodput_mbps": self.received as f64 * 8.0 / seconds.max(1e-9) / 1e6,
        })
    }
}

impl Peer for Getting {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        match event {
            Event::Connected => {
                self.stream = link.stack.streams().open(Dir::Bi);
                self.give_up = Time::NEVER;
            }
            Event::Stream(StreamEvent::Readable { id }) if self.stream == Some(id) => {
                let (bytes, ended) = streams::read(link.stack, id, |_| {});
                self.received += bytes;
                if ended && self.ended.is_none() {
                    let short = self.wanted.is_some_and(|wanted| self.received < wanted);
                    self.error = short.then(|| format!("only {} bytes came", self.received));
                    self.end(link);
                }
            }
            Event::ConnectionLost { reason } if self.ended.is_none() => {
                self.ended = Some(link.now);
                self.error = Some(match reason {
                    ConnectionError::TimedOut => silent(self.remote, self.idle),
                    other => other.to_string(),
                });
            }
            _ => {}
        }
    }

    fn on_datagram(&mut self, now: Time, _: &[u8]) {
        self.heard = now;
    }

    fn write(&mut self, link: &mut Link<'_>) {
        if self.ended.is_some() {
            return;
        }
        if self.leaves && link.now.since(self.heard) <= QUIET {
            self.leave(link, false);
        } else if link.now >= self.give_up {
            self.fail(link);
        }
        let Some(stream) = self.stream.filter(|_| self.ended.is_none() && !self.pending.is_empty()) else { return };
        match link.stack.send_stream(stream).write(&self.pending) {
            Ok(count) => drop(self.pending.drain(..count)),
            Err(WriteError::Blocked) => {}
            // The server wants to hear nothing more, and says why in its last packet.
            Err(_) => self.pending.clear(),
        }
    }

    fn next(&self) -> Time {
        if self.ended.is_some() { Time::NEVER } else { self.give_up }
    }

    fn is_gone(&self) -> bool {
        self.ended.is_some() && self.heard == self.began
    }
}

fn silent(remote: SocketAddr, silence: Dur) -> String {
    format!("the server at {remote} has been silent for {:.1} s", silence.as_secs_f64())
}

/// Gets what `options` say and writes lines of JSON to `out`; what went wrong first, if not all of it came. Lines on `input`
/// change what connections want; `stop` ends everything when it polls readable.
///
/// # Errors
/// If there is no socket, or `out` cannot be written.
pub fn get(
    options: Options,
    input: &mut dyn FnMut() -> Option<Vec<u8>>,
    out: &mut dyn Write,
    (input_fd, stop): (RawFd, RawFd),
) -> Result<Option<String>, ServeError> {
    let Options { remote, requests, mut changes, duration, interval, fingerprint, patience, settings } = options;
    let (patience, idle) = (patience.unwrap_or(PATIENCE), patience.unwrap_or(IDLE));
    let settings = Settings { idle: Some(idle), keep_alive: Some(QUIET.min(idle / 4)), ..settings };
    let clock = Clock::starting();
    let any: SocketAddr = if remote.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let udp = Udp::bind(any, Ecn::Ect0, SEND_BUFFER).map_err(ServeError::of("cannot open a socket"))?;
    let mut host = Host::new(udp, clock, None);
    let config = tls::client(fingerprint)?;
    for (number, request) in requests.iter().enumerate() {
        let steering = Steering::of_receiver(clock, settings.mtu, None)?;
        let mut config = config.clone();
        config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
        let now = clock.time(clock.now());
        let mut getting = Getting {
            number,
            remote,
            patience,
            idle,
            stream: None,
            pending: Vec::new(),
            wanted: request.bytes,
            received: 0,
            began: now,
            heard: now,
            give_up: now + patience,
            leaves: false,
            ended: None,
            error: None,
            last: (now, 0),
        };
        getting.ask(request);
        let refused = |e| ServeError::of(format!("cannot connect to {remote}"))(std::io::Error::other(e));
        host.connect(config, remote, steering, getting).map_err(refused)?;
    }
    changes.sort_by_key(|change| std::cmp::Reverse(change.0));
    let mut reactor = Reactor::new(clock, vec![host]).map_err(ServeError::of("cannot wait for datagrams"))?;
    link_clock::precise_timers();
    let end = duration.map_or(Time::NEVER, |duration| Time::ZERO + duration);
    let mut next = interval.map_or(Time::NEVER, |interval| Time::ZERO + interval);
    let (mut lines, mut listening, mut failure, mut closing) = (Lines::default(), true, None, false);
    loop {
        let change = changes.last().map_or(Time::NEVER, |change| change.0);
        let fds = [stop, if listening { input_fd } else { -1 }];
        let until = if closing { next.min(change) } else { next.min(change).min(end) };
        let outside = reactor.turn(until, &fds).map_err(ServeError::of("cannot wait for datagrams"))?;
        let (now, mut told) = (reactor.now(), Vec::new());
        let host = reactor.host(0);
        if outside && listening && link_clock::wait(&[input_fd], Some(0)) {
            match input() {
                None => listening = false,
                Some(bytes) => match asked(&mut lines, &bytes) {
                    Ok(asked) => asked.iter().for_each(|(of, change)| ask(host, *of, change)),
                    Err(message) => told.push(json!({"time_s": now.as_secs_f64(), "error": message})),
                },
            }
        }
        while changes.last().is_some_and(|change| change.0 <= now) {
            if let Some((_, of, change)) = changes.pop() {
                ask(host, of, &change);
            }
        }
        let stopped = link_clock::wait(&[stop], Some(0));
        if !closing && (now >= end || stopped) {
            closing = true;
            host.each(|_, getting, link| getting.leave(link, !stopped));
        }
        for (getting, _) in host.take_ended() {
            told.push(getting.last_words(now));
            failure = failure.or(getting.error.map(|error| format!("connection {}: {error}", getting.number)));
        }
        if now >= next {
            host.each(|_, getting, _| told.extend(getting.ended.is_none().then(|| getting.report(now))));
            next = now + interval.unwrap_or(Dur::MAX);
        }
        for line in told {
            writeln!(out, "{line}").map_err(ServeError::of("cannot write standard output"))?;
        }
        out.flush().map_err(ServeError::of("cannot write standard output"))?;
        if host.is_empty() {
            return Ok(failure);
        }
    }
}

/// Tells the server what connection `of`, or each, now wants.
fn ask(host: &mut Host<Getting>, of: Option<usize>, change: &Change) {
    host.each(|_, getting, _| {
        if of.is_none_or(|of| of == getting.number) {
            getting.ask(change);
        }
    });
}

/// Changes in `bytes` of input: as in [`Change`], with the number of the `connection` if it is for one alone.
fn asked(lines: &mut Lines, bytes: &[u8]) -> Result<Vec<(Option<usize>, Change)>, String> {
    let lines = lines.take(bytes).map_err(|e| format!("standard input: {e}"))?;
    lines.iter().filter(|line| !line.is_empty()).map(|line| change(line)).collect()
}

/// A change and whom it is for, from a line of JSON.
///
/// # Errors
/// A message that says what is wrong with it.
pub fn change(line: &[u8]) -> Result<(Option<usize>, Change), String> {
    let malformed = |e: serde_json::Error| format!("standard input: {e}; expected one JSON object on one line");
    let mut document: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line).map_err(malformed)?;
    let of = document.remove("connection").and_then(|number| number.as_u64()).map(|number| number as usize);
    let rest = serde_json::to_vec(&document).map_err(malformed)?;
    Ok((of, Change::parse(&rest).map_err(|e| format!("standard input: {e}"))?))
}
