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
    ConnectError, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, EndpointEvent, Event,
    FourTuple, Incoming, PathId, ServerConfig, Transmit, VarInt,
};

use crate::agenda::Agenda;
use crate::clock::{Clock, nanoseconds};
use crate::steering::Steering;
use crate::udp::{Buffers, Udp};

/// Batches of datagrams that are taken before something is sent.
const BATCHES: usize = 4;
/// Calls that send, before another connection has its turn.
const SENDS: usize = 64;
/// Number of unfinished handshakes from which a client proves its address first (RFC 9000 §8.1.2).
const HANDSHAKES: usize = 64;
/// More connections are refused.
const CONNECTIONS: usize = 4096;
/// The most bytes on the way of all connections of a host, as each packet on the way takes memory; beyond that a
/// connection has no more than its [`FLOOR`] on the way.
const FLIGHT: u64 = 256 << 20;
/// The bytes that a connection may always have on the way.
const FLOOR: u64 = 64 << 10;
/// A full socket is tried again after so long.
const STUCK: Dur = Dur::from_micros(200);
/// The loop looks around at least so often.
const AT_LEAST: Dur = Dur::from_millis(200);

/// A connection that its [`Peer`] may use.
pub struct Link<'a> {
    /// The stack's.
    pub stack: &'a mut Connection,
    /// Steering of the connection.
    pub steering: &'a Steering,
    /// Current time.
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

    /// A datagram with this UDP payload has arrived.
    fn on_datagram(&mut self, _now: Time, _payload: &[u8]) {}

    /// Writes what may be written. Called before each packet that the stack is asked for.
    fn write(&mut self, link: &mut Link<'_>);

    /// Datagrams leave at `now`: one after the other in `payload`, each of `size` bytes but for the last.
    fn on_sent(&mut self, _now: Time, _payload: &[u8], _size: usize) {}

    /// Returns whether its packets leave with the socket's code point; else they leave as Not-ECT.
    fn is_ecn_capable(&self) -> bool {
        true
    }

    /// Returns whether the other end is gone, so that the connection is dropped without a message.
    fn is_gone(&self) -> bool {
        false
    }

    /// Returns the time at which [`write`](Self::write) has something new to write by itself.
    fn next(&self) -> Time {
        Time::NEVER
    }
}

/// Decides about a connection that a client asks for: its configuration, steering and application, or nothing.
pub type Accept<P> = Box<dyn FnMut(&Incoming) -> Option<(Arc<ServerConfig>, Steering, P)> + Send>;

struct Held<P> {
    stack: Connection,
    steering: Steering,
    peer: P,
    handshaking: bool,
    /// The bytes on the way at the last look.
    in_flight: u64,
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
    agenda: Agenda<ConnectionHandle>,
    accept: Option<Accept<P>>,
    handshaking: usize,
    /// The bytes on the way of all connections.
    in_flight: u64,
    /// Data that the socket did not take.
    stuck: Option<(Transmit, Vec<u8>)>,
    buffer: Vec<u8>,
    readable: bool,
    ended: Vec<(P, Steering)>,
}

impl<P: Peer> Host<P> {
    /// Creates a host at `udp`, which accepts connections if it has an acceptor.
    #[must_use]
    pub fn new(udp: Udp, clock: Clock, server: Option<(Arc<ServerConfig>, Accept<P>)>) -> Self {
        let (config, accept) = server.unzip();
        Self {
            udp,
            clock,
            endpoint: Endpoint::new(Arc::new(EndpointConfig::default()), config, false),
            connections: HashMap::new(),
            agenda: Agenda::default(),
            accept,
            handshaking: 0,
            in_flight: 0,
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
        self.connections.insert(handle, Held { stack, steering, peer, handshaking: true, in_flight: 0 });
        self.agenda.call(handle);
    }

    /// Connections that are not over.
    #[must_use]
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns whether there is no connection.
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

    /// Returns its listening address.
    ///
    /// # Errors
    ///
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
            self.agenda.call(*handle);
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
        self.agenda.call_due(self.clock.time(self.clock.now()));
        for _ in 0..self.agenda.waiting() {
            // Whoever waits for room in the socket keeps its place.
            if self.stuck.is_some() {
                break;
            }
            let Some(handle) = self.agenda.pop() else { break };
            self.tend(handle);
        }
        let now = self.clock.time(self.clock.now());
        if self.readable {
            now
        } else if self.stuck.is_some() {
            now + STUCK
        } else {
            self.agenda.next().max(now)
        }
    }

    fn receive(&mut self, buffers: &mut Buffers) -> bool {
        let instant = self.clock.now();
        let Self { udp, endpoint, connections, agenda, clock, buffer, accept, handshaking, .. } = self;
        let (now, mut fresh) = (clock.time(instant), Vec::new());
        // Read once the batch is there: no datagram shall seem to have come before it did.
        let mut came_at = None;
        let came = udp.receive(buffers, |arrival| {
            let came_at = *came_at.get_or_insert_with(|| clock.time(clock.now()));
            if let Some(kbps) = rate_datagram::read(Experiment::Advertisement, arrival.bytes) {
                echo(connections, agenda, arrival.from, kbps);
                return;
            }
            let path = FourTuple::new(arrival.from, arrival.to);
            buffer.clear();
            match endpoint.handle(instant, path, arrival.ecn, BytesMut::from(arrival.bytes), buffer) {
                Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                    let Some(held) = connections.get_mut(&handle) else { return };
                    held.stack.handle_event(event);
                    held.steering.settle(now, held.stack.rtt(PathId::ZERO).map(nanoseconds));
                    held.peer.on_datagram(came_at, arrival.bytes);
                    // At once: the stack bounds the pieces of a stream that wait to be read.
                    *handshaking -= held.hear(instant, now);
                    agenda.call(handle);
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
                        fresh.push((incoming, arrival.bytes.to_vec()));
                    }
                }
                Some(DatagramEvent::Response(transmit)) => drop(udp.send(&transmit, buffer)),
                None => {}
            }
        });
        for (incoming, payload) in fresh {
            self.admit(incoming, instant, &payload);
        }
        came
    }

    fn admit(&mut self, incoming: Incoming, instant: Instant, payload: &[u8]) {
        self.buffer.clear();
        let asked = self.accept.as_mut().and_then(|accept| accept(&incoming));
        let Some((config, steering, mut peer)) = asked else {
            let transmit = self.endpoint.refuse(incoming, &mut self.buffer);
            self.udp.send(&transmit, &self.buffer);
            return;
        };
        match self.endpoint.accept(incoming, instant, &mut self.buffer, Some(config)) {
            Ok((handle, stack)) => {
                peer.on_datagram(self.clock.time(instant), payload);
                self.hold(handle, stack, steering, peer);
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.udp.send(&transmit, &self.buffer);
                }
            }
        }
    }

    /// Runs what is due on a connection, and sends.
    fn tend(&mut self, handle: ConnectionHandle) {
        let instant = self.clock.now();
        let now = self.clock.time(instant);
        let Some(held) = self.connections.get_mut(&handle) else { return };
        if held.stack.poll_timeout().is_some_and(|at| at <= instant) {
            held.stack.handle_timeout(instant);
            held.steering.settle(now, held.stack.rtt(PathId::ZERO).map(nanoseconds));
        }
        held.steering.limit(if self.in_flight < FLIGHT { u64::MAX } else { FLOOR });
        if self.drive(handle, instant) {
            self.agenda.call(handle);
        }
        let Some(held) = self.connections.get_mut(&handle) else { return };
        let before = std::mem::replace(&mut held.in_flight, held.steering.in_flight());
        self.in_flight = self.in_flight + held.in_flight - before;
        let gone = held.peer.is_gone();
        if gone || held.stack.is_drained() {
            if gone {
                self.endpoint.handle_event(handle, EndpointEvent::drained());
            }
            self.agenda.remove(handle);
            if held.handshaking {
                self.handshaking -= 1;
            }
            if let Some(Held { steering, peer, in_flight, .. }) = self.connections.remove(&handle) {
                self.in_flight -= in_flight;
                steering.close();
                self.ended.push((peer, steering));
            }
            return;
        }
        let timeout = held.stack.poll_timeout().map_or(Time::NEVER, |at| self.clock.time(at));
        self.agenda.schedule(handle, timeout.min(held.steering.next()).min(held.peer.next()));
    }

    /// Hands on what the stack has to tell, and sends what it has to send; whether there is more.
    fn drive(&mut self, handle: ConnectionHandle, instant: Instant) -> bool {
        let now = self.clock.time(instant);
        let Self { udp, clock, endpoint, connections, stuck, buffer, handshaking, .. } = self;
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
            if stuck.is_some() || turn == SENDS {
                more = true;
                break;
            }
            peer.write(&mut Link { stack, steering, now, instant });
            buffer.clear();
            let Some(mut transmit) = stack.poll_transmit(instant, udp.most(), buffer) else { break };
            transmit.ecn = transmit.ecn.filter(|_| peer.is_ecn_capable());
            // The loop may have taken a while since `instant`.
            let size = transmit.segment_size.unwrap_or(transmit.size);
            peer.on_sent(clock.time(clock.now()), &buffer[..transmit.size.min(buffer.len())], size);
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
fn echo<P>(
    connections: &mut HashMap<ConnectionHandle, Held<P>>,
    agenda: &mut Agenda<ConnectionHandle>,
    from: SocketAddr,
    kbps: u32,
) {
    let frame = rate_datagram::write(Experiment::Echo, kbps);
    for (handle, held) in connections {
        if held.stack.network_path(PathId::ZERO).is_ok_and(|path| path.remote() == from) {
            // A newer one takes the place of those that have not left; a peer that takes none has not asked.
            let _ = held.stack.datagrams().send(Bytes::copy_from_slice(&frame), true);
            agenda.call(*handle);
        }
    }
}

/// A thread's hosts, and the wait for what comes to them.
pub struct Reactor<P> {
    poll: mio::Poll,
    events: mio::Events,
    buffers: Buffers,
    clock: Clock,
    hosts: Vec<Host<P>>,
    agenda: Agenda<usize>,
}

impl<P: Peer> Reactor<P> {
    /// Runs `hosts`.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn new(clock: Clock, hosts: Vec<Host<P>>) -> io::Result<Self> {
        let poll = mio::Poll::new()?;
        let mut agenda = Agenda::default();
        for (index, host) in hosts.iter().enumerate() {
            let fd = host.udp.as_raw_fd();
            poll.registry().register(&mut SourceFd(&fd), Token(index), Interest::READABLE)?;
            agenda.call(index);
        }
        let events = mio::Events::with_capacity(hosts.len().max(1));
        Ok(Self { poll, events, buffers: Buffers::default(), clock, hosts, agenda })
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.clock.time(self.clock.now())
    }

    /// Host number `index`, to be used: it has a turn soon.
    pub fn host(&mut self, index: usize) -> &mut Host<P> {
        self.agenda.call(index);
        &mut self.hosts[index]
    }

    /// The hosts.
    #[must_use]
    pub fn into_hosts(self) -> Vec<Host<P>> {
        self.hosts
    }

    /// Serves every host with input or due work, then waits for more. The wait lasts until `until`, or until one of
    /// `others` polls readable; returns whether one does.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn turn(&mut self, until: Time, others: &[RawFd]) -> io::Result<bool> {
        self.agenda.call_due(self.now());
        for _ in 0..self.agenda.waiting() {
            let Some(index) = self.agenda.pop() else { break };
            let next = self.hosts[index].turn(&mut self.buffers);
            self.agenda.schedule(index, next);
        }
        let wait = until.min(self.agenda.next()).since(self.now()).min(AT_LEAST);
        let mut fds = vec![self.poll.as_raw_fd()];
        fds.extend_from_slice(others);
        if clock::wait(&fds, Some(wait.0)) {
            // The kernel tells of sockets in the order in which datagrams came to them.
            self.poll.poll(&mut self.events, Some(std::time::Duration::ZERO))?;
            for event in self.events.iter().filter(|event| event.is_readable()) {
                let Token(index) = event.token();
                self.hosts[index].readable = true;
                self.agenda.call(index);
            }
            return Ok(others.iter().any(|&fd| clock::wait(&[fd], Some(0))));
        }
        Ok(false)
    }
}
