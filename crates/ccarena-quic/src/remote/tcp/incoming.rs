//! The server's TCP connections: each has to present a ticket, and then sends or receives.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::RawFd;

use ccarena_cc::{Dur, Time};
use ccarena_link::clock as link_clock;
use ccarena_link::tcp::{Poller, Sender, Socket};
use serde_json::json;

use super::super::report::Report;
use super::super::state::{Admitted, FIRST_LINE_WITHIN, LOOK, Shared, locked};
use super::ticket::{Preamble, Ticket};
use super::{MOST_READ, SAMPLE, control, is_readable};
use crate::clock::Clock;

/// Connections that may wait for their ticket at once; for a further one the oldest is closed.
const MOST_WAITING: usize = 64;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 64;
/// Pause after the kernel could not give a connection.
const PAUSE: Dur = Dur::from_millis(10);
const LISTENER: u64 = 0;

/// The listening socket, and its connections by the numbers of their arrival.
pub struct Incoming {
    state: Shared,
    clock: Clock,
    poller: Poller,
    listener: Socket,
    connections: BTreeMap<u64, Connection>,
    /// Number of the last connection.
    last: u64,
}

struct Connection {
    from: SocketAddr,
    stage: Stage,
}

enum Stage {
    /// Connection whose ticket is missing.
    Waits { socket: Socket, preamble: Preamble, until: Time },
    /// Flow that arrives here.
    Takes { socket: Socket, of: Admitted },
    /// Flow that leaves here.
    Sends { sender: Box<Sender>, of: Admitted },
}

impl Incoming {
    /// Listens at `address`.
    ///
    /// # Errors
    /// If the kernel refuses: the port may be taken.
    pub fn listen(address: SocketAddr, state: Shared, clock: Clock) -> io::Result<Self> {
        let listener = Socket::new(address.ip())?;
        // Connections of an earlier server that are not forgotten yet do not hold the port.
        listener.set(libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
        listener.bind(address)?;
        listener.listen(BACKLOG)?;
        let poller = Poller::new()?;
        poller.add(listener.fd(), libc::EPOLLIN, LISTENER)?;
        Ok(Self { state, clock, poller, listener, connections: BTreeMap::new(), last: LISTENER })
    }

    fn now(&self) -> Time {
        self.clock.time(self.clock.now())
    }

    /// Serves until `stop` polls readable.
    pub fn run(mut self, stop: RawFd) {
        link_clock::precise_timers();
        // Late readings would measure the machine.
        link_clock::take_precedence();
        let (mut sample, mut look) = (Time::ZERO, Time::ZERO);
        while !is_readable(stop) {
            let now = self.now();
            if now >= look {
                self.close_what_is_over(now);
                look = if self.connections.is_empty() { Time::NEVER } else { now + LOOK };
            }
            let samples = now >= sample;
            let mut next = Time::NEVER;
            for number in self.connections.keys().copied().collect::<Vec<_>>() {
                next = next.min(self.run_sender(number, now, samples));
            }
            if samples {
                sample = now + SAMPLE;
            }
            let until = if next == Time::NEVER { look } else { next.min(sample).min(look) };
            let wait = until.since(self.now()).0;
            if wait > 0 {
                link_clock::wait(&[self.poller.fd(), stop], (until != Time::NEVER).then_some(wait));
            }
            let mut ready = Vec::new();
            self.poller.ready(|events, number| ready.push((events, number)));
            for (events, number) in ready {
                if number == LISTENER { self.accept(stop) } else { self.on_ready(number, events) }
            }
            if look == Time::NEVER && !self.connections.is_empty() {
                look = self.now() + LOOK;
            }
        }
    }

    fn accept(&mut self, stop: RawFd) {
        loop {
            let (socket, from) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Such as too many open files: the connection still waits, and polls as ready.
                    link_clock::wait(&[stop], Some(PAUSE.0));
                    return;
                }
            };
            let now = self.now();
            // Nothing is kept, or said, for strangers while nobody is expected.
            if !locked(&self.state).expects_tickets(now) {
                continue;
            }
            let waiting = self.connections.iter().filter(|(_, held)| matches!(held.stage, Stage::Waits { .. }));
            let (oldest, count) =
                waiting.fold((None, 0), |(oldest, count), (number, _)| (oldest.or(Some(*number)), count + 1));
            if let Some(oldest) = oldest.filter(|_| count >= MOST_WAITING) {
                self.refuse(oldest, "too many connections without a ticket");
            }
            self.last += 1;
            if self.poller.add(socket.fd(), libc::EPOLLIN, self.last).is_ok() {
                let stage = Stage::Waits { socket, preamble: Preamble::default(), until: now + FIRST_LINE_WITHIN };
                self.connections.insert(self.last, Connection { from, stage });
            }
        }
    }

    fn refuse(&mut self, number: u64, why: &str) {
        let Some(Connection { from, .. }) = self.connections.remove(&number) else { return };
        let peer = format!("{from} (TCP)");
        locked(&self.state).log_lines.push(json!({"peer": peer, "closed": true, "error": why}));
    }

    fn on_ready(&mut self, number: u64, events: u32) {
        let now = self.now();
        let Some(Connection { stage, .. }) = self.connections.get_mut(&number) else { return };
        let done = match stage {
            Stage::Sends { sender, .. } => {
                sender.on_ready(events, now);
                return;
            }
            Stage::Takes { socket, of } => match socket.discard(MOST_READ) {
                Ok(bytes) if bytes > 0 => {
                    locked(&self.state).add(of, bytes as u64, |seen| seen.add_payload(now, bytes as u64))
                }
                Err(error) if is_patient(&error) => return,
                // The flow has stopped: by a reset, as its sender closes it.
                _ => Err("the flow is over".into()),
            },
            Stage::Waits { socket, preamble, .. } => match socket.receive(preamble.room()) {
                Ok(0) => return self.refuse(number, "closed before its ticket came"),
                Ok(count) => match preamble.came(count) {
                    Ok(Some(ticket)) => return self.admit(number, &ticket),
                    Ok(None) => return,
                    Err(error) => return self.refuse(number, &error.to_string()),
                },
                Err(error) if is_patient(&error) => return,
                Err(error) => return self.refuse(number, &error.to_string()),
            },
        };
        if done.is_err() {
            // The run's control says what limit it has exceeded.
            self.connections.remove(&number);
        }
    }

    /// Makes a connection with a ticket the flow that the ticket is for.
    fn admit(&mut self, number: u64, ticket: &Ticket) {
        let now = self.now();
        let admitted = locked(&self.state).admit(ticket, now);
        let of = match admitted {
            Ok(of) => of,
            Err(why) => return self.refuse(number, why),
        };
        let Some(Connection { from, stage: Stage::Waits { socket, .. } }) = self.connections.remove(&number) else {
            return;
        };
        let Some(load) = of.load.clone() else {
            self.connections.insert(number, Connection { from, stage: Stage::Takes { socket, of } });
            return;
        };
        let flow = &load.scenario.flows[of.flow];
        let name = control(flow).unwrap_or_default();
        let fd = socket.fd();
        let done = socket.set_congestion_control(name).and_then(|()| socket.set_up(flow));
        let done = done.and_then(|()| self.poller.change(fd, libc::EPOLLOUT | libc::EPOLLET, number));
        if let Err(error) = done {
            let report = Report::default().failed(format!("the server's socket: {error}"));
            return locked(&self.state).report(&of, report.write());
        }
        let sender = Box::new(Sender::connected(of.flow, &load.scenario, socket, of.zero));
        self.connections.insert(number, Connection { from, stage: Stage::Sends { sender, of } });
    }

    /// Does what is due for a connection that sends. Time of the next call.
    fn run_sender(&mut self, number: u64, now: Time, samples: bool) -> Time {
        let Some(Connection { stage: Stage::Sends { sender, of }, .. }) = self.connections.get_mut(&number) else {
            return Time::NEVER;
        };
        let (due, ends) = (sender.next() <= now, now >= of.end);
        if let Some(sample) = if samples || due || ends { sender.sample(now) } else { None } {
            // A sample beyond a limit, or of a run that is over, ends the connection at the next look.
            let _ = locked(&self.state).add(of, 0, |seen| seen.samples.push(sample));
        }
        if ends {
            self.report(number);
            return Time::NEVER;
        }
        if due {
            sender.run(now);
        }
        sender.next().min(of.end)
    }

    /// Closes a connection that sends, and keeps its report.
    fn report(&mut self, number: u64) {
        let Some(Connection { stage: Stage::Sends { sender, of }, .. }) = self.connections.remove(&number) else {
            return;
        };
        let report = Report::of_tcp(sender.finish()).write();
        locked(&self.state).report(&of, report);
    }

    /// Closes connections whose ticket is late or whose run is over.
    fn close_what_is_over(&mut self, now: Time) {
        let (mut late, mut over) = (Vec::new(), Vec::new());
        {
            let state = locked(&self.state);
            let goes_on = |of: &Admitted| {
                state.run.as_ref().is_some_and(|run| run.id == of.run && run.exceeded.is_none() && now < run.until)
            };
            for (number, held) in &self.connections {
                match &held.stage {
                    Stage::Waits { until, .. } if now >= *until => late.push(*number),
                    Stage::Takes { of, .. } | Stage::Sends { of, .. } if !goes_on(of) => over.push(*number),
                    _ => {}
                }
            }
        }
        for number in late {
            self.refuse(number, "no ticket came in time");
        }
        for number in over {
            self.report(number);
            self.connections.remove(&number);
        }
    }
}

fn is_patient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
