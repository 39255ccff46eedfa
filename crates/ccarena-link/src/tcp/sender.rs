//! The sending end of a flow on a socket of the kernel's TCP. Whoever polls the socket runs it, and passes the time in.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use ccarena_cc::{Dur, Rate, Time};
use ccarena_net::Scenario;
use ccarena_net::apps::{self, Offer, Outcome, Source, View};

use super::socket::{Socket, TcpInfo};

/// Written at once.
static ZEROS: [u8; 1 << 18] = [0; 1 << 18];

/// Writes of one call, before another flow has its turn: a path without a bottleneck may take them without end.
const WRITES: usize = 16;

/// Results of a flow at its sender.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// The kernel's counters of the connection.
    pub info: Option<TcpInfo>,
    /// Mean of the smoothed RTT over all samples.
    pub rtt_mean: Option<Dur>,
    /// Results of its application.
    pub app: Outcome,
    /// Reason why the connection ended early.
    pub error: Option<String>,
}

/// State of a connection at its sender at one moment (`TCP_INFO`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time at this end.
    pub at: Time,
    /// Smoothed RTT in µs.
    pub rtt_us: u32,
    /// Segments retransmitted so far.
    pub retransmitted: u32,
}

/// A flow's sender.
pub struct Sender {
    socket: Option<Socket>,
    /// The receiver; none of a socket that is connected.
    to: Option<SocketAddr>,
    /// Bytes that go before all data.
    greeting: Vec<u8>,
    app: Source,
    start: Time,
    stop: Time,
    started: bool,
    /// The kernel takes bytes, as far as known.
    writable: bool,
    written: u64,
    next: Time,
    rtt_sum_us: u64,
    rtt_count: u64,
    sent: Sent,
}

/// Rate that the kernel's controller allows. The pacing rate of one that does not pace is above its window's.
fn allowed_rate(socket: &Socket) -> Option<Rate> {
    let info = socket.info().ok()?;
    let window = u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss);
    let pacing = Rate(info.tcpi_pacing_rate.saturating_mul(8));
    apps::allowed_rate(window, Dur::from_micros(info.tcpi_rtt.into()), Some(pacing))
}

impl Sender {
    /// A sender of flow number `index` that never begins: somebody else sends.
    #[must_use]
    pub fn absent(index: usize, scenario: &Scenario) -> Self {
        let flow = &scenario.flows[index];
        Self {
            socket: None,
            to: None,
            greeting: Vec::new(),
            app: Source::new(&flow.app, &scenario.start(index)),
            start: flow.start,
            stop: flow.stop.unwrap_or(Time::NEVER),
            started: false,
            writable: false,
            written: 0,
            next: Time::NEVER,
            rtt_sum_us: 0,
            rtt_count: 0,
            sent: Sent::default(),
        }
    }

    /// A sender that connects to `to` when its flow starts, and writes `greeting` before all data.
    #[must_use]
    pub fn connecting(index: usize, scenario: &Scenario, socket: Socket, to: SocketAddr, greeting: Vec<u8>) -> Self {
        let absent = Self::absent(index, scenario);
        Self { socket: Some(socket), to: Some(to), greeting, next: absent.start, ..absent }
    }

    /// A sender on a connection, for a run whose time zero is at `zero`.
    #[must_use]
    pub fn connected(index: usize, scenario: &Scenario, socket: Socket, zero: Time) -> Self {
        let absent = Self::absent(index, scenario);
        let stop = if absent.stop == Time::NEVER { absent.stop } else { absent.stop + Dur(zero.0) };
        let start = absent.start + Dur(zero.0);
        Self { socket: Some(socket), start, stop, started: true, next: start, ..absent }
    }

    /// Time of the next call to [`run`](Self::run).
    #[must_use]
    pub fn next(&self) -> Time {
        self.next
    }

    /// Ends the flow at `now` if it has not ended before.
    pub fn end(&mut self, now: Time) {
        self.stop = self.stop.min(now);
        self.next = self.next.min(now);
    }

    /// Does what is due at `now`.
    pub fn run(&mut self, now: Time) {
        if now >= self.stop {
            self.next = Time::NEVER;
            self.close();
            return;
        }
        if !self.started {
            self.started = true;
            self.next = self.stop;
            if let Some(Err(e)) = self.socket.as_ref().zip(self.to).map(|(socket, to)| socket.connect(to)) {
                self.fail(&e);
            }
            return;
        }
        self.fill(now);
    }

    /// Takes the `events` (of `EPOLL*`) of its socket.
    pub fn on_ready(&mut self, events: u32, now: Time) {
        if !self.started {
            // A socket that is not connected yet polls as hung up.
            return;
        }
        let Some(socket) = &self.socket else { return };
        if events & (libc::EPOLLERR | libc::EPOLLHUP) as u32 != 0 {
            socket.take_acknowledgements();
            if let Err(e) = socket.error() {
                self.fail(&e);
                return;
            }
        }
        self.writable |= events & libc::EPOLLOUT as u32 != 0;
        if now >= self.start {
            self.fill(now);
        }
    }

    /// Asks the application and writes what it gives.
    fn fill(&mut self, now: Time) {
        let Some(socket) = &self.socket else { return };
        while self.writable && !self.greeting.is_empty() {
            match socket.send(&self.greeting) {
                Ok(count) => drop(self.greeting.drain(..count)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return self.fail(&e),
            }
        }
        let needs = self.app.needs();
        let view = View {
            elapsed: now.since(self.start),
            sent: if needs.sent { self.written.saturating_sub(socket.unsent()) } else { 0 },
            acknowledged: if needs.acknowledged { self.written.saturating_sub(socket.unacknowledged()) } else { 0 },
            rate: if needs.rate { allowed_rate(socket) } else { None },
        };
        let Offer { allowed, next } = self.app.advance(&view);
        self.next = (self.start + next).min(self.stop);
        for _ in 0..WRITES {
            if !self.writable || self.written >= allowed {
                return;
            }
            let most = usize::try_from(allowed - self.written).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
            match socket.send(&ZEROS[..most]) {
                Ok(count) => self.written += count as u64,
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return self.fail(&e),
            }
        }
        self.next = self.next.min(now);
    }

    /// Looks at the kernel's RTT; none before it has one.
    pub fn sample(&mut self, now: Time) -> Option<Sample> {
        let info = self.socket.as_ref().filter(|_| self.started)?.info().ok()?;
        if info.tcpi_rtt == 0 || info.tcpi_data_segs_out == 0 {
            return None;
        }
        self.rtt_sum_us += u64::from(info.tcpi_rtt);
        self.rtt_count += 1;
        Some(Sample { at: now, rtt_us: info.tcpi_rtt, retransmitted: info.tcpi_total_retrans })
    }

    fn fail(&mut self, error: &io::Error) {
        self.sent.error = Some(error.to_string());
        self.next = Time::NEVER;
        self.close();
    }

    fn close(&mut self) {
        if let Some(socket) = self.socket.take() {
            self.sent.info = socket.info().ok().filter(|_| self.started);
            socket.abort();
        }
    }

    /// Closes the connection, and returns the results.
    #[must_use]
    pub fn finish(mut self) -> Sent {
        self.close();
        self.sent.rtt_mean = self.rtt_sum_us.checked_div(self.rtt_count).map(Dur::from_micros);
        self.sent.app = self.app.outcome();
        self.sent
    }
}
