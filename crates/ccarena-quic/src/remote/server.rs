//! The receiving end of runs over a real path.

use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ccarena_cc::{Dur, Time};
use ccarena_link::clock as link_clock;
use ccarena_net::Ecn;
use noq_proto::{ConnectionError, Dir, Event, StreamEvent, StreamId};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use super::message::{Answer, Ask, line};
use super::stamps::{Arrived, Stamp, encode};
use crate::clock::Clock;
use crate::host::{Accept, Host, Link, Peer, Reactor};
use crate::request::Lines;
use crate::serve::{DONE, REFUSED, ServeError};
use crate::steering::Steering;
use crate::streams;
use crate::tls::Identity;
use crate::transport::{self, IDLE, Settings, Streams};
use crate::udp::{SEND_BUFFER, Udp};

/// A client that has said nothing so long after its first packet is sent away.
const SPEAKS_WITHIN: Dur = Dur::from_millis(5_000);
/// Entries that a client may cause before it has said who it is.
const BEFORE_WORD: usize = 1024;
/// A run may take so long beyond its own length, to begin and to end.
const GRACE: Dur = Dur::from_millis(30_000);
/// Most entries of a run: each takes 24 bytes.
const MOST_ENTRIES: usize = 8 << 20;
/// A control looks at its run so often.
const LOOK: Dur = Dur::from_millis(100);
/// Data of a flow that may wait to be read.
const RECEIVE_WINDOW: u64 = 16 << 20;
/// Finite transfers of a flow that may be open at once.
const STREAMS: u32 = 1024;

/// Options of a server.
pub struct Options {
    /// Listening address.
    pub listen: SocketAddr,
    /// Secret that clients hold, too.
    pub token: String,
    /// Longest run.
    pub longest: Dur,
    /// Most bytes of a run.
    pub most_bytes: u64,
}

/// State that the server's connections share.
struct Desk {
    token: Vec<u8>,
    longest: Dur,
    most_bytes: u64,
    run: Option<Run>,
    /// Facts for the log.
    told: Vec<Value>,
}

/// The run that goes on. There is one at a time, so that none disturbs another.
struct Run {
    id: String,
    /// Number of the connection that is its control.
    control: u64,
    until: Time,
    flows: Vec<Arrived>,
    joined: Vec<bool>,
    bytes: u64,
    entries: usize,
}

type Shared = Arc<Mutex<Desk>>;

fn at(desk: &Shared) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Role of a connection.
enum Kind {
    /// Nothing has been said on it.
    Stranger,
    /// Holder of the token.
    Control,
    /// Flow of the run with this name.
    Flow { run: String, flow: usize },
    /// Connection that was refused.
    Over,
}

/// A client's connection.
struct Guest {
    number: u64,
    remote: SocketAddr,
    desk: Shared,
    kind: Kind,
    speaks_until: Time,
    look: Time,
    lines: Lines,
    stream: Option<StreamId>,
    /// Bytes that wait to be sent: on the first stream, and packet times on one of their own.
    pending: Vec<u8>,
    times: Option<(StreamId, Vec<u8>)>,
    /// Data that arrived before it joined a run.
    early: Arrived,
}

impl Guest {
    fn refuse(&mut self, link: &mut Link<'_>, reason: &str) {
        link.close(REFUSED, reason);
        self.leave(Some(reason));
    }

    /// Ends what it was part of.
    fn leave(&mut self, error: Option<&str>) {
        let kind = std::mem::replace(&mut self.kind, Kind::Over);
        (self.speaks_until, self.look) = (Time::NEVER, Time::NEVER);
        let mut desk = at(&self.desk);
        if matches!(kind, Kind::Control) {
            desk.run.take_if(|run| run.control == self.number);
        }
        if matches!(kind, Kind::Control | Kind::Stranger) {
            desk.told.push(json!({"peer": self.remote.to_string(), "closed": true, "error": error}));
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
            (Kind::Stranger, Ask::Hello { token, .. }) => self.greet(&token),
            (Kind::Stranger, Ask::Join { run, flow }) => self.join(run, flow),
            (Kind::Control, Ask::Clock { number }) => {
                let now = link.now.0;
                self.pending.extend(line(&Answer::Clock { number, received_ns: now, sent_ns: now }));
                Ok(())
            }
            (Kind::Control, Ask::Run { flows, duration_s }) => self.start(link.now, flows, duration_s),
            (Kind::Control, Ask::Finish {}) => self.finish(link),
            (Kind::Over, _) => Ok(()),
            (_, Ask::Hello { .. } | Ask::Join { .. }) => Err("a connection begins once".into()),
            _ => Err("a connection begins with the token, or with the run that it is part of".into()),
        }
    }

    fn greet(&mut self, token: &str) -> Result<(), String> {
        if super::digest_of(token) != at(&self.desk).token {
            return Err("wrong token: use the file that `ccarena remote serve --token FILE` names there".into());
        }
        (self.kind, self.speaks_until) = (Kind::Control, Time::NEVER);
        self.pending.extend(line(&Answer::Welcome { program: env!("CARGO_PKG_VERSION").into() }));
        Ok(())
    }

    fn join(&mut self, id: String, flow: usize) -> Result<(), String> {
        let mut desk = at(&self.desk);
        let run = desk.run.as_mut().filter(|run| run.id == id).ok_or("no such run goes on")?;
        match run.joined.get_mut(flow) {
            Some(joined @ false) => *joined = true,
            _ => return Err(format!("flow: got {flow}; expected the number of a flow that has not joined")),
        }
        run.flows[flow].append(&mut self.early);
        drop(desk);
        (self.kind, self.speaks_until) = (Kind::Flow { run: id, flow }, Time::NEVER);
        Ok(())
    }

    fn start(&mut self, now: Time, flows: usize, duration_s: f64) -> Result<(), String> {
        let mut random = [0; 16];
        SystemRandom::new().fill(&mut random).map_err(|_| "no random numbers here")?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut desk = at(&self.desk);
        let (length, longest) = (Dur::from_secs_f64(duration_s), desk.longest);
        if length > longest {
            let most_s = longest.as_secs_f64();
            return Err(format!(
                "duration_s: got {duration_s}; expected at most {most_s}, the limit of this server (`--most-s` there)"
            ));
        }
        if desk.run.is_some() {
            return Err("another run goes on here; wait until it has ended".into());
        }
        desk.run = Some(Run {
            id: id.clone(),
            control: self.number,
            until: now + length + GRACE,
            flows: vec![Arrived::default(); flows],
            joined: vec![false; flows],
            bytes: 0,
            entries: 0,
        });
        desk.told.push(json!({"peer": self.remote.to_string(), "flows": flows, "duration_s": duration_s}));
        drop(desk);
        self.look = now;
        self.pending.extend(line(&Answer::Started { run: id }));
        Ok(())
    }

    /// Sends what came of the run, and ends it.
    fn finish(&mut self, link: &mut Link<'_>) -> Result<(), String> {
        let run = at(&self.desk).run.take_if(|run| run.control == self.number).ok_or("no run goes on")?;
        self.look = Time::NEVER;
        let stream = link.stack.streams().open(Dir::Uni).ok_or("a stream for packet times is missing")?;
        self.times = Some((stream, encode(&run.flows)));
        Ok(())
    }

    /// Adds to what came of its flow; an error if that is more than the run may have.
    fn add(&mut self, bytes: usize, add: impl FnOnce(&mut Arrived)) -> Result<(), String> {
        let (id, flow) = match &self.kind {
            Kind::Stranger if self.early.len() < BEFORE_WORD => {
                add(&mut self.early);
                return Ok(());
            }
            Kind::Stranger => return Err("data came before the connection's first line".into()),
            Kind::Flow { run, flow } => (run, *flow),
            Kind::Control | Kind::Over => return Ok(()),
        };
        let mut desk = at(&self.desk);
        let most_bytes = desk.most_bytes;
        let goes_on = |run: &&mut Run| run.id == *id && run.until > Time::ZERO;
        let Some(run) = desk.run.as_mut().filter(goes_on) else { return Ok(()) };
        add(&mut run.flows[flow]);
        run.bytes += bytes as u64;
        run.entries += 1;
        if run.bytes > most_bytes || run.entries > MOST_ENTRIES {
            run.until = Time::ZERO;
            return Err(beyond(most_bytes));
        }
        Ok(())
    }

    /// Reason why its part of a run is over; none while it goes on.
    fn is_over(&self, now: Time) -> Option<String> {
        let desk = at(&self.desk);
        let run = desk.run.as_ref();
        match &self.kind {
            Kind::Stranger if now >= self.speaks_until => Some("nothing was said in time".into()),
            Kind::Control => run.filter(|run| run.control == self.number && now >= run.until).map(|run| {
                if run.until == Time::ZERO { beyond(desk.most_bytes) } else { "the run did not end in time".into() }
            }),
            Kind::Flow { run: id, .. } if run.is_none_or(|run| run.id != *id) => Some("the run is over".into()),
            _ => None,
        }
    }
}

fn beyond(most_bytes: u64) -> String {
    format!("the run sent more than {} MB, the limit of this server (`--most-mb` there)", most_bytes / 1_000_000)
}

impl Peer for Guest {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        match event {
            Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) if self.stream.is_none() => {
                self.stream = link.stack.streams().accept(Dir::Bi);
                self.read(link);
            }
            Event::Stream(StreamEvent::Readable { id }) if self.stream == Some(id) => self.read(link),
            Event::ConnectionLost { reason } if !matches!(self.kind, Kind::Over) => {
                let closed =
                    matches!(&reason, ConnectionError::ApplicationClosed(close) if close.error_code == DONE.into());
                self.leave((!closed).then(|| reason.to_string()).as_deref());
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
        // What is too much shows when the connection is written.
        let _ = self.add(payload.len(), |arrived| arrived.packets.push(Stamp::new(now, payload)));
    }

    fn next(&self) -> Time {
        self.speaks_until.min(self.look)
    }

    fn write(&mut self, link: &mut Link<'_>) {
        if link.now >= self.look {
            self.look = link.now + LOOK;
        }
        if let Some(reason) = self.is_over(link.now) {
            return self.refuse(link, &reason);
        }
        if let Some(stream) = self.stream.filter(|_| !self.pending.is_empty()) {
            if let Ok(count) = link.stack.send_stream(stream).write(&self.pending) {
                self.pending.drain(..count);
            }
        }
        if let Some((stream, bytes)) = &mut self.times {
            while let Ok(count) = link.stack.send_stream(*stream).write(bytes) {
                if count == bytes.len() {
                    let _ = link.stack.send_stream(*stream).finish();
                    self.times = None;
                    return;
                }
                bytes.drain(..count);
            }
        }
    }
}

/// Serves until one of `stop` polls readable. What it tells goes to `out`: where it is, then lines of JSON.
///
/// # Errors
/// If it cannot listen, or `out` cannot be written.
pub fn serve(options: Options, out: &mut dyn Write, stop: &[RawFd]) -> Result<(), ServeError> {
    let Options { listen, token, longest, most_bytes } = options;
    let desk = Desk { token: super::digest_of(&token), longest, most_bytes, run: None, told: Vec::new() };
    let desk = Arc::new(Mutex::new(desk));
    let clock = Clock::starting();
    let config = Identity::of_secret(&token).and_then(|identity| identity.config())?;
    let udp =
        Udp::bind(listen, Ecn::Ect0, SEND_BUFFER).map_err(ServeError::of(format!("cannot listen at {listen}")))?;
    let accept = accept(Arc::clone(&desk), clock, config.clone());
    let host = Host::new(udp, clock, Some((Arc::new(config), accept)));
    let address = host.address().map_err(ServeError::of("cannot tell where it listens"))?;
    let mut reactor = Reactor::new(clock, vec![host]).map_err(ServeError::of("cannot wait for datagrams"))?;
    at(&desk).told.push(json!({"listening": address.to_string(), "version": env!("CARGO_PKG_VERSION")}));
    link_clock::precise_timers();
    loop {
        let lines: String = std::mem::take(&mut at(&desk).told).iter().map(|line| format!("{line}\n")).collect();
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
fn accept(desk: Shared, clock: Clock, server: noq_proto::ServerConfig) -> Accept<Guest> {
    let streams = Streams { bidirectional: 1, unidirectional: STREAMS };
    let settings = Settings { receive_window: Some(RECEIVE_WINDOW), streams, idle: Some(IDLE), ..Settings::default() };
    let mut number = 0;
    Box::new(move |remote| {
        let steering = Steering::of_receiver(clock, settings.mtu, None).ok()?;
        let mut config = server.clone();
        config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
        number += 1;
        let guest = Guest {
            number,
            remote,
            desk: Arc::clone(&desk),
            kind: Kind::Stranger,
            speaks_until: clock.time(clock.now()) + SPEAKS_WITHIN,
            look: Time::NEVER,
            lines: Lines::default(),
            stream: None,
            pending: Vec::new(),
            times: None,
            early: Arrived::default(),
        };
        Some((Arc::new(config), steering, guest))
    })
}
