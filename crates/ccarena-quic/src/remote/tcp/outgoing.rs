//! The client's TCP connections: each opens when its flow starts, and then sends or receives.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::RawFd;

use ccarena_cc::Time;
use ccarena_link::clock as link_clock;
use ccarena_link::tcp::{Poller, Sample, Sender, Socket};
use ccarena_net::Scenario;

use super::super::message::TcpFlow;
use super::super::report::Report;
use super::super::stamps::Seen;
use super::ticket::Ticket;
use super::{MOST_READ, SAMPLE, control, is_readable};
use crate::clock::Clock;
use crate::run::RunError;

/// The connections of a run.
pub struct Outgoing {
    poller: Poller,
    flows: Vec<Flow>,
}

/// A flow at this end, after the run.
pub struct Ended {
    /// Number of the flow.
    pub flow: usize,
    /// Report of a flow that left here.
    pub report: Option<Report>,
    /// Record of the flow.
    pub seen: Seen,
    /// Fault of a connection at which nothing arrived.
    pub error: Option<String>,
}

struct Flow {
    flow: usize,
    start: Time,
    port: u16,
    end: End,
}

enum End {
    Sends { sender: Box<Sender>, samples: Vec<Sample> },
    Takes(Taker),
}

impl Outgoing {
    /// Connections to `remote` for the flows of `scenario` in `flows`, each with its ticket. They send, or receive if the run
    /// is in `reverse`.
    ///
    /// # Errors
    /// If the kernel refuses a socket or a congestion control.
    pub fn new(
        scenario: &Scenario,
        flows: &[TcpFlow],
        tickets: Vec<Ticket>,
        remote: SocketAddr,
        reverse: bool,
    ) -> Result<Self, RunError> {
        let poller = Poller::new().map_err(RunError::Reactor)?;
        let mut made = Vec::new();
        for (of, ticket) in flows.iter().zip(tickets) {
            let (index, flow) = (of.flow, &scenario.flows[of.flow]);
            let fail = |source| RunError::Socket { flow: index, source };
            let socket = Socket::new(remote.ip()).map_err(fail)?;
            socket.set_up(flow).map_err(fail)?;
            let greeting = ticket.preamble();
            let end = if reverse {
                End::Takes(Taker::new(socket, remote, greeting, flow.start))
            } else {
                socket.set_congestion_control(control(flow).unwrap_or_default()).map_err(fail)?;
                poller.add(socket.fd(), libc::EPOLLOUT | libc::EPOLLET, made.len() as u64).map_err(fail)?;
                let sender = Box::new(Sender::connecting(index, scenario, socket, remote, greeting));
                End::Sends { sender, samples: Vec::new() }
            };
            made.push(Flow { flow: index, start: flow.start, port: remote.port(), end });
        }
        Ok(Self { poller, flows: made })
    }

    /// Runs them until `end` of `clock`, or until `stop` polls readable.
    #[must_use]
    pub fn run(mut self, clock: Clock, end: Time, stop: RawFd) -> Vec<Ended> {
        link_clock::precise_timers();
        // Late readings would measure the machine.
        link_clock::take_precedence();
        let time = || clock.time(clock.now());
        let mut sample = Time::ZERO;
        while !is_readable(stop) {
            let now = time();
            if now >= end {
                break;
            }
            if now >= sample {
                self.flows.iter_mut().for_each(|flow| flow.end.sample(now));
                sample = if self.flows.iter().any(|flow| flow.end.sends()) { now + SAMPLE } else { Time::NEVER };
            }
            for (token, flow) in self.flows.iter_mut().enumerate().filter(|(_, flow)| flow.end.next() <= now) {
                flow.end.run(now, token as u64, &self.poller);
            }
            let next = self.flows.iter().map(|flow| flow.end.next()).fold(sample.min(end), Time::min);
            let wait = next.since(time()).0;
            if wait > 0 {
                link_clock::wait(&[self.poller.fd(), stop], (next != Time::NEVER).then_some(wait));
            }
            let (now, flows, poller) = (time(), &mut self.flows, &self.poller);
            poller.ready(|events, token| {
                if let Some(flow) = flows.get_mut(token as usize) {
                    flow.end.on_ready(events, now, token, poller);
                }
            });
        }
        let now = time();
        self.flows.into_iter().map(|flow| flow.finish(now)).collect()
    }
}

impl End {
    fn sends(&self) -> bool {
        matches!(self, Self::Sends { .. })
    }

    fn sample(&mut self, now: Time) {
        if let Self::Sends { sender, samples } = self {
            samples.extend(sender.sample(now));
        }
    }

    fn next(&self) -> Time {
        match self {
            Self::Sends { sender, .. } => sender.next(),
            Self::Takes(taker) => taker.start,
        }
    }

    fn run(&mut self, now: Time, token: u64, poller: &Poller) {
        match self {
            Self::Sends { sender, samples } => {
                // The flow may end by this.
                samples.extend(sender.sample(now));
                sender.run(now);
            }
            Self::Takes(taker) => taker.connect(token, poller),
        }
    }

    fn on_ready(&mut self, events: u32, now: Time, token: u64, poller: &Poller) {
        match self {
            Self::Sends { sender, .. } => sender.on_ready(events, now),
            Self::Takes(taker) => taker.on_ready(now, token, poller),
        }
    }
}

impl Flow {
    fn finish(mut self, now: Time) -> Ended {
        self.end.sample(now);
        let Self { flow, start, port, end } = self;
        let absent =
            || format!("no TCP connection came about; does TCP port {port} of the server let packets through?");
        match end {
            End::Sends { sender, samples } => {
                let report = Report::of_tcp(sender.finish());
                let report = if samples.is_empty() && now > start { report.failed(absent()) } else { report };
                Ended { flow, report: Some(report), seen: Seen { samples, ..Seen::default() }, error: None }
            }
            End::Takes(Taker { seen, error, .. }) => {
                let error = error.or_else(|| (seen.is_empty() && now > start).then(absent));
                Ended { flow, report: None, seen, error }
            }
        }
    }
}

/// Receiving end of a flow.
struct Taker {
    socket: Option<Socket>,
    to: SocketAddr,
    /// Rest of the preamble.
    greeting: Vec<u8>,
    /// Time at which it opens; never once it has.
    start: Time,
    seen: Seen,
    error: Option<String>,
}

impl Taker {
    fn new(socket: Socket, to: SocketAddr, greeting: Vec<u8>, start: Time) -> Self {
        Self { socket: Some(socket), to, greeting, start, seen: Seen::default(), error: None }
    }

    fn connect(&mut self, token: u64, poller: &Poller) {
        self.start = Time::NEVER;
        let Some(socket) = &self.socket else { return };
        // A socket that does not connect yet would be ready all the time.
        let events = libc::EPOLLOUT | libc::EPOLLIN;
        let done = socket.connect(self.to).and_then(|()| poller.add(socket.fd(), events, token));
        if let Err(error) = done {
            self.fail(&error);
        }
    }

    fn on_ready(&mut self, now: Time, token: u64, poller: &Poller) {
        // Bytes that came before an error are read first, and then the error.
        if let Err(error) = self.greet(token, poller).and_then(|()| self.take(now)) {
            self.fail(&error);
        }
    }

    /// Writes the preamble.
    fn greet(&mut self, token: u64, poller: &Poller) -> io::Result<()> {
        let Some(socket) = self.socket.as_ref().filter(|_| !self.greeting.is_empty()) else { return Ok(()) };
        match socket.send(&self.greeting) {
            Ok(count) => drop(self.greeting.drain(..count)),
            Err(error) if is_patient(&error) => {}
            Err(error) => return Err(error),
        }
        // A socket with room would be ready all the time.
        if self.greeting.is_empty() { poller.change(socket.fd(), libc::EPOLLIN, token) } else { Ok(()) }
    }

    fn take(&mut self, now: Time) -> io::Result<()> {
        let Some(socket) = &self.socket else { return Ok(()) };
        match socket.discard(MOST_READ) {
            // The other end closed it: its flow has stopped.
            Ok(0) => self.socket = None,
            Ok(bytes) => self.seen.add_payload(now, bytes as u64),
            Err(error) if is_patient(&error) => {}
            // A sender that has stopped resets its connection.
            Err(error) if error.kind() == ErrorKind::ConnectionReset && !self.seen.is_empty() => self.socket = None,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        self.error = Some(error.to_string());
        self.socket = None;
    }
}

fn is_patient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected)
}
