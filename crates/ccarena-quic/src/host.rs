//! The connections of one socket, and the loop that moves their datagrams.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use ccarena_cc::{Dur, Time};
use ccarena_link::clock;
use ccarena_net::rate_datagram;
use ccarena_net::tcp_option::Experiment;
use mio::unix::SourceFd;
use mio::{Interest, Token};
use noq_proto::{
    ConnectError, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, Event, FourTuple, Incoming,
    PathId, ServerConfig, Transmit, VarInt,
};

use crate::clock::{Clock, nanoseconds};
use crate::steering::Steering;
use crate::udp::{Buffers, Udp};

/// Batches of datagrams that are taken before something is sent.
const BATCHES: usize = 4;
/// Calls that send, before another connection has its turn.
const SENDS: usize = 64;
/// From so many unfinished handshakes on, a client proves its address first (RFC 9000 §8.1.2).
const HANDSHAKES: usize = 64;
/// More connections are refused.
const CONNECTIONS: usize = 16_384;
/// A full socket is tried again after so long.
const STUCK: Dur = Dur::from_micros(200);
/// The loop looks around at least so often.
const AT_LEAST: Dur = Dur::from_millis(200);

/// A connection that its [`Peer`] may use.
pub struct Link<'a> {
    /// The stack's.
    pub stack: &'a mut Connection,
    /// Its steering.
    pub steering: &'a Steering,
    /// It is now.
    pub now: Time,
    instant: Instant,
}

impl Link<'_> {
    /// Closes the connection, telling the other end why.
    pub fn close(&mut self, code: u32, reason: &str) {
        self.stack.close(self.instant, VarInt::from_u32(code), Bytes::copy_from_slice(reason.as_bytes()));
    }
}

/// An application on a connection.
pub trait Peer {
    /// The stack tells of something.
    fn on_event(&mut self, link: &mut Link<'_>, event: Event);

    /// A datagram of `bytes` of UDP payload has arrived.
    fn on_datagram(&mut self, _now: Time, _bytes: usize) {}

    /// Writes what may be written. Called before each packet that the stack is asked for.
    fn write(&mut self, link: &mut Link<'_>);

    /// A datagram has left since the last [`write`](Self::write).
    fn on_sent(&mut self) {}

    /// When [`write`](Self::write) has something new to write by itself.
    fn next(&self) -> Time {
        Time::NEVER
    }
}

/// Decides about a connection that a client asks for: its configuration, steering and application, or nothing.
pub type Accept<P> = Box<dyn FnMut(SocketAddr) -> Option<(Arc<ServerConfig>, Steering, P)> + Send>;

struct Held<P> {
    stack: Connection,
    steering: Steering,
    peer: P,
    handshaking: bool,
    dirty: bool,
}

impl<P: Peer> Held<P> {
    /// Hands on what the stack has to tell; how many handshakes have ended by it.
    fn hear(&mut self, instant: Instant, now: Time) -> usize {
        let Self { stack, steering, peer, handshaking, .. } = self;
        let mut ended = 0;
        while let Some(event) = stack.poll() {
            if matches!(event, Event::Connected | Event::ConnectionLost { .. }) {
                ended += usize::from(std::mem::take(handshaking));
            }
            if matches!(event, Event::Connected) {
                steering.begin(now);
            }
            if matches!(event, Event::DatagramReceived) {
                while let Some(frame) = stack.datagrams().recv() {
                    if let Some(kbps) = rate_datagram::read(Experiment::Echo, &frame) {
                        steering.on_echo(kbps);
                    }
                }
                continue;
            }
            peer.on_event(&mut Link { stack, steering, now, instant }, event);
        }
        ended
    }
}

/// A socket and its connections.
pub struct Host<P> {
    udp: Udp,
    clock: Clock,
    endpoint: Endpoint,
    connections: HashMap<ConnectionHandle, Held<P>>,
    accept: Option<Accept<P>>,
    handshaking: usize,
    /// What the socket did not take.
    stuck: Option<(Transmit, Vec<u8>)>,
    buffer: Vec<u8>,
    readable: bool,
    ended: Vec<(P, Steering)>,
}

impl<P: Peer> Host<P> {
    /// A host at `udp`, which accepts connections if it is told how.
    #[must_use]
    pub fn new(udp: Udp, clock: Clock, server: Option<(Arc<ServerConfig>, Accept<P>)>) -> Self {
        let (config, accept) = server.unzip();
        Self {
            udp,
            clock,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), config, false),
            connections: HashMap::new(),
            accept,
            handshaking: 0,
            stuck: None,
            buffer: Vec::new(),
            readable: true,
            ended: Vec::new(),
        }
    }

    /// Opens a connection to `remote`.
    ///
    /// # Errors
    /// If the stack refuses the address or the configuration.
    pub fn connect(
        &mut self,
        config: noq_proto::ClientConfig,
        remote: SocketAddr,
        steering: Steering,
        peer: P,
    ) -> Result<ConnectionHandle, ConnectError> {
        let (handle, stack) = self.endpoint.connect(self.clock.now(), config, remote, "ccarena")?;
        self.hold(handle, stack, steering, peer);
        Ok(handle)
    }

    fn hold(&mut self, handle: ConnectionHandle, stack: Connection, steering: Steering, peer: P) {
        self.handshaking += 1;
        self.connections.insert(handle, Held { stack, steering, peer, handshaking: true, dirty: true });
    }

    /// Connections that are not over.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// There is no connection.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// The connections that have ended since this was last asked.
    pub fn take_ended(&mut self) -> Vec<(P, Steering)> {
        std::mem::take(&mut self.ended)
    }

    /// All connections, those that have ended first.
    #[must_use]
    pub fn into_connections(self) -> Vec<(P, Steering)> {
        let living = self.connections.into_values().map(|held| (held.peer, held.steering));
        self.ended.into_iter().chain(living).collect()
    }

    /// Where it listens.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.udp.address()
    }

    /// Each connection's application, which may use it.
    pub fn each(&mut self, mut visit: impl FnMut(ConnectionHandle, &mut P, &mut Link<'_>)) {
        let instant = self.clock.now();
        let now = self.clock.time(instant);
        for (handle, held) in &mut self.connections {
            let mut link = Link { stack: &mut held.stack, steering: &held.steering, now, instant };
            visit(*handle, &mut held.peer, &mut link);
            held.dirty = true;
        }
    }

    /// Takes what has come, runs what is due and sends what may be sent. When to do so again, if nothing comes before.
    pub fn turn(&mut self, buffers: &mut Buffers) -> Time {
        if let Some((transmit, contents)) = self.stuck.take().filter(|(t, c)| !self.udp.send(t, c)) {
            self.stuck = Some((transmit, contents));
        }
        for _ in 0..BATCHES {
            if !self.readable {
                break;
            }
            self.readable = self.receive(buffers);
        }
        let mut next = Time::NEVER;
        let handles: Vec<ConnectionHandle> = self.connections.keys().copied().collect();
        for handle in handles {
            next = next.min(self.tend(handle));
        }
        if self.readable {
            return self.clock.time(self.clock.now());
        }
        if self.stuck.is_some() { next.min(self.clock.time(self.clock.now()) + STUCK) } else { next }
    }

    fn receive(&mut self, buffers: &mut Buffers) -> bool {
        let instant = self.clock.now();
        let Self { udp, endpoint, connections, clock, buffer, accept, handshaking, .. } = self;
        let (now, mut fresh) = (clock.time(instant), Vec::new());
        let came = udp.receive(buffers, |arrival| {
            if let Some(kbps) = rate_datagram::read(Experiment::Advertisement, arrival.bytes) {
                echo(connections, arrival.from, kbps);
                return;
            }
            let path = FourTuple::new(arrival.from, arrival.to);
            buffer.clear();
            match endpoint.handle(instant, path, arrival.ecn, BytesMut::from(arrival.bytes), buffer) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    let Some(held) = connections.get_mut(&handle) else { return };
                    held.stack.handle_event(event);
                    held.steering.settle(now, held.stack.rtt(PathId::ZERO).map(nanoseconds));
                    held.peer.on_datagram(now, arrival.bytes.len());
                    // At once: the stack bounds the pieces of a stream that wait to be read.
                    *handshaking -= held.hear(instant, now);
                    held.dirty = true;
                }
                Some(DatagramEvent::NewConnection(incoming)) => {
                    let crowded = *handshaking + fresh.len() >= HANDSHAKES;
                    let full = connections.len() + fresh.len() >= CONNECTIONS;
                    if accept.is_none() || full {
                        let transmit = endpoint.refuse(incoming, buffer);
                        udp.send(&transmit, buffer);
                    } else if crowded && incoming.may_retry() {
                        if let Ok(transmit) = endpoint.retry(incoming, buffer) {
                            udp.send(&transmit, buffer);
                        }
                    } else {
                        fresh.push((incoming, arrival.bytes.len()));
                    }
                }
                Some(DatagramEvent::Response(transmit)) => drop(udp.send(&transmit, buffer)),
                None => {}
            }
        });
        for (incoming, bytes) in fresh {
            self.admit(incoming, instant, bytes);
        }
        came
    }

    fn admit(&mut self, incoming: Incoming, instant: Instant, bytes: usize) {
        self.buffer.clear();
        let asked = self.accept.as_mut().and_then(|accept| accept(incoming.remote_address()));
        let Some((config, steering, mut peer)) = asked else {
            let transmit = self.endpoint.refuse(incoming, &mut self.buffer);
            self.udp.send(&transmit, &self.buffer);
            return;
        };
        match self.endpoint.accept(incoming, instant, &mut self.buffer, Some(config)) {
            Ok((handle, stack)) => {
                peer.on_datagram(self.clock.time(instant), bytes);
                self.hold(handle, stack, steering, peer);
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.udp.send(&transmit, &self.buffer);
                }
            }
        }
    }

    /// Runs what is due on a connection, and sends. When it is due again.
    fn tend(&mut self, handle: ConnectionHandle) -> Time {
        let instant = self.clock.now();
        let now = self.clock.time(instant);
        let Some(held) = self.connections.get_mut(&handle) else { return Time::NEVER };
        if held.stack.poll_timeout().is_some_and(|at| at <= instant) {
            held.stack.handle_timeout(instant);
            held.steering.settle(now, held.stack.rtt(PathId::ZERO).map(nanoseconds));
            held.dirty = true;
        }
        if held.dirty || held.steering.next() <= now || held.peer.next() <= now {
            let more = self.drive(handle, instant);
            if let Some(held) = self.connections.get_mut(&handle) {
                held.dirty = more;
            }
        }
        let Some(held) = self.connections.get(&handle) else { return Time::NEVER };
        if held.stack.is_drained() {
            if held.handshaking {
                self.handshaking -= 1;
            }
            if let Some(Held { steering, peer, .. }) = self.connections.remove(&handle) {
                steering.close();
                self.ended.push((peer, steering));
            }
            return Time::NEVER;
        }
        if held.dirty {
            return now;
        }
        let timeout = held.stack.poll_timeout().map_or(Time::NEVER, |at| self.clock.time(at));
        timeout.min(held.steering.next()).min(held.peer.next())
    }

    /// Hands on what the stack has to tell, and sends what it has to send; whether there is more.
    fn drive(&mut self, handle: ConnectionHandle, instant: Instant) -> bool {
        let now = self.clock.time(instant);
        let Self { udp, endpoint, connections, stuck, buffer, handshaking, .. } = self;
        let Some(held) = connections.get_mut(&handle) else { return false };
        held.steering.advance(now);
        let mut more = false;
        while let Some(event) = held.stack.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(handle, event) {
                held.stack.handle_event(event);
            }
        }
        *handshaking -= held.hear(instant, now);
        let Held { stack, steering, peer, .. } = held;
        for turn in 0.. {
            if stuck.is_some() {
                break;
            }
            if turn == SENDS {
                more = true;
                break;
            }
            peer.write(&mut Link { stack, steering, now, instant });
            buffer.clear();
            let Some(transmit) = stack.poll_transmit(instant, udp.most(), buffer) else { break };
            peer.on_sent();
            if let Some(kbps) = steering.advertise(now) {
                let datagram = rate_datagram::write(Experiment::Advertisement, kbps);
                let (size, ecn, segment_size) = (datagram.len(), None, None);
                udp.send(&Transmit { size, ecn, segment_size, ..transmit }, &datagram);
            }
            if !udp.send(&transmit, buffer) {
                *stuck = Some((transmit, buffer.clone()));
            }
        }
        while let Some(event) = stack.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(handle, event) {
                stack.handle_event(event);
                more = true;
            }
        }
        more
    }
}

/// Returns an advertised rate that has arrived `from` there. Connections that share addresses and ports are one flow to
/// routers.
fn echo<P>(connections: &mut HashMap<ConnectionHandle, Held<P>>, from: SocketAddr, kbps: u32) {
    let frame = rate_datagram::write(Experiment::Echo, kbps);
    for held in connections.values_mut() {
        if held.stack.network_path(PathId::ZERO).is_ok_and(|path| path.remote() == from) {
            // A newer one takes the place of those that have not left; a peer that takes none has not asked.
            let _ = held.stack.datagrams().send(Bytes::copy_from_slice(&frame), true);
            held.dirty = true;
        }
    }
}

/// A thread's hosts, and the wait for what comes to them.
pub struct Reactor<P> {
    poll: mio::Poll,
    events: mio::Events,
    buffers: Buffers,
    clock: Clock,
    /// The hosts.
    pub hosts: Vec<Host<P>>,
}

impl<P: Peer> Reactor<P> {
    /// Runs `hosts`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(clock: Clock, hosts: Vec<Host<P>>) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        for (index, host) in hosts.iter().enumerate() {
            let fd = host.udp.as_raw_fd();
            poll.registry().register(&mut SourceFd(&fd), Token(index), Interest::READABLE)?;
        }
        Ok(Self { poll, events: mio::Events::with_capacity(256), buffers: Buffers::default(), clock, hosts })
    }

    /// It is now.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.time(self.clock.now())
    }

    /// A turn of every host, and then a wait until something comes or is due, at `until` at the latest, or until one of
    /// `others` polls readable; whether one does.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn turn(&mut self, until: Time, others: &[RawFd]) -> io::Result<bool> {
        let mut next = until;
        for host in &mut self.hosts {
            next = next.min(host.turn(&mut self.buffers));
        }
        let wait = next.since(self.now()).min(AT_LEAST);
        let mut fds = vec![self.poll.as_raw_fd()];
        fds.extend_from_slice(others);
        if clock::wait(&fds, Some(wait.0)) {
            self.poll.poll(&mut self.events, Some(std::time::Duration::ZERO))?;
            for event in &self.events {
                if let Some(host) = self.hosts.get_mut(event.token().0).filter(|_| event.is_readable()) {
                    host.readable = true;
                }
            }
            return Ok(others.iter().any(|&fd| clock::wait(&[fd], Some(0))));
        }
        Ok(false)
    }
}
