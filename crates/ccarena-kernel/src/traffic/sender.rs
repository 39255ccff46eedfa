//! The sending end: one thread that runs all applications and fills their sockets.

use std::io::{self, ErrorKind};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ccarena_cc::{Dur, Rate, Time};
use ccarena_link::{End, clock};
use ccarena_net::Scenario;
use ccarena_net::apps::{self, Offer, Outcome, Source, View};
use ccarena_net::scenario::{Flow, Foreign};

use super::socket::{Poller, Socket, TcpInfo};
use super::{Over, PORT, TrafficError};

/// Results of a flow at its sender.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// The kernel's counters of the connection.
    pub info: Option<TcpInfo>,
    /// Mean of the smoothed RTT, looked at every [`SAMPLE`].
    pub rtt_mean: Option<Dur>,
    /// Results of its application.
    pub app: Outcome,
    /// Reason why the connection ended early.
    pub error: Option<String>,
}

/// Interval at which the kernel's RTT is read.
pub const SAMPLE: Dur = Dur::from_millis(20);
/// Written at once.
static ZEROS: [u8; 1 << 18] = [0; 1 << 18];
/// The timestamps option in each segment.
const TIMESTAMP_BYTES: u32 = 12;

/// A flow's sender.
struct Sender {
    index: usize,
    socket: Option<Socket>,
    app: Source,
    start: Time,
    stop: Time,
    started: bool,
    /// The kernel takes bytes, as far as known.
    writable: bool,
    written: u64,
    /// Time of the next call to the application.
    next: Time,
    rtt_sum_us: u64,
    rtt_count: u64,
    sent: Sent,
}

/// All senders.
pub struct Senders {
    poller: Poller,
    flows: Vec<Sender>,
    /// `SO_COOKIE` of each flow's socket.
    pub cookies: Vec<u64>,
    /// The number of their network namespace.
    pub namespace_cookie: u64,
    /// Flows that are to end.
    pub over: Over,
}

impl Senders {
    /// Senders for the flows of `scenario`, in the calling thread's network namespace, flow i under the congestion
    /// control `names[i]`.
    ///
    /// # Errors
    /// If the kernel refuses a socket or a congestion control.
    pub fn new(scenario: &Scenario, names: &[String]) -> Result<Self, TrafficError> {
        let poller = Poller::new().map_err(TrafficError::of("cannot make an epoll"))?;
        let (mut flows, mut cookies, mut namespace_cookie) = (Vec::new(), Vec::new(), 0);
        for (index, (flow, name)) in scenario.flows.iter().zip(names).enumerate() {
            if matches!(flow.foreign, Some(Foreign::Programs(_))) {
                // The cookie of no socket.
                cookies.push(0);
                flows.push(Sender::absent(index, scenario));
                continue;
            }
            let socket = open(index, flow, name)?;
            let fail = TrafficError::of(format!("flows[{index}]: cannot set up a socket"));
            cookies.push(socket.cookie().map_err(&fail)?);
            // Without one the option's namespaces cannot be told apart, which only matters where it is used.
            namespace_cookie = socket.namespace_cookie().unwrap_or(0);
            poller.add(socket.fd(), libc::EPOLLOUT | libc::EPOLLET, index as u64).map_err(&fail)?;
            flows.push(Sender { socket: Some(socket), next: flow.start, ..Sender::absent(index, scenario) });
        }
        let over = flows.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { poller, flows, cookies, namespace_cookie, over })
    }

    /// Sends until `end`, or until `stop` polls readable; time zero is `zero_ns`.
    #[must_use]
    pub fn run(mut self, zero_ns: u64, end: Time, stop: RawFd) -> Vec<Sent> {
        clock::precise_timers();
        let time = || Time(clock::now_ns().saturating_sub(zero_ns));
        let mut sample = Time::ZERO + SAMPLE;
        loop {
            let now = time();
            if now >= end || super::is_readable(stop) {
                break;
            }
            if now >= sample {
                self.flows.iter_mut().for_each(Sender::sample);
                for (flow, over) in self.flows.iter_mut().zip(&*self.over) {
                    if over.load(Ordering::Relaxed) {
                        flow.stop = flow.stop.min(now);
                        flow.next = flow.next.min(now);
                    }
                }
                sample = now + SAMPLE;
            }
            for flow in self.flows.iter_mut().filter(|f| f.next <= now) {
                flow.run(now);
            }
            let next = self.flows.iter().map(|f| f.next).min().unwrap_or(Time::NEVER).min(sample).min(end);
            let wait = next.since(time()).0;
            if wait > 0 {
                clock::wait(&[self.poller.fd(), stop], Some(wait));
            }
            let (now, flows) = (time(), &mut self.flows);
            self.poller.ready(|events, token| {
                if let Some(flow) = flows.get_mut(token as usize) {
                    flow.on_ready(events, now);
                }
            });
        }
        self.flows.into_iter().map(Sender::finish).collect()
    }
}

/// A socket for `flow`, bound to its address and set up.
fn open(index: usize, flow: &Flow, name: &str) -> Result<Socket, TrafficError> {
    let fail = TrafficError::of(format!("flows[{index}]: cannot set up a socket"));
    let socket = Socket::new().map_err(&fail)?;
    socket.set_congestion_control(name).map_err(|source| TrafficError::CongestionControl {
        flow: index,
        name: name.into(),
        source,
    })?;
    socket.bind(End::Senders.address(index), 0).map_err(&fail)?;
    // Segments of applications that write little by little are not held back.
    socket.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1).map_err(&fail)?;
    if flow.mss_bytes < Flow::default().mss_bytes {
        let size = flow.mss_bytes + TIMESTAMP_BYTES;
        socket.set(libc::IPPROTO_TCP, libc::TCP_MAXSEG, size as i32).map_err(&fail)?;
    }
    if flow.app.needs().acknowledged {
        socket.tell_acknowledgements().map_err(&fail)?;
    }
    Ok(socket)
}

/// Rate that the kernel's controller allows. The pacing rate of one that does not pace is above its window's.
fn allowed_rate(socket: &Socket) -> Option<Rate> {
    let info = socket.info().ok()?;
    let window = u64::from(info.tcpi_snd_cwnd) * u64::from(info.tcpi_snd_mss);
    let pacing = Rate(info.tcpi_pacing_rate.saturating_mul(8));
    apps::allowed_rate(window, Dur::from_micros(info.tcpi_rtt.into()), Some(pacing))
}

impl Sender {
    /// A sender that never begins: somebody else sends.
    fn absent(index: usize, scenario: &Scenario) -> Self {
        let flow = &scenario.flows[index];
        Self {
            index,
            socket: None,
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

    /// Does what is due at `now`.
    fn run(&mut self, now: Time) {
        if now >= self.stop {
            self.next = Time::NEVER;
            self.close();
            return;
        }
        if !self.started {
            self.started = true;
            self.next = self.stop;
            if let Some(Err(e)) = self.socket.as_ref().map(|s| s.connect(End::Receivers.address(self.index), PORT)) {
                self.fail(&e);
            }
            return;
        }
        self.fill(now);
    }

    fn on_ready(&mut self, events: u32, now: Time) {
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
        self.fill(now);
    }

    /// Asks the application and writes what it gives.
    fn fill(&mut self, now: Time) {
        let Some(socket) = &self.socket else { return };
        let needs = self.app.needs();
        let view = View {
            elapsed: now.since(self.start),
            sent: if needs.sent { self.written.saturating_sub(socket.unsent()) } else { 0 },
            acknowledged: if needs.acknowledged { self.written.saturating_sub(socket.unacknowledged()) } else { 0 },
            rate: if needs.rate { allowed_rate(socket) } else { None },
        };
        let Offer { allowed, next } = self.app.advance(&view);
        self.next = (self.start + next).min(self.stop);
        while self.writable && self.written < allowed {
            let most = usize::try_from(allowed - self.written).map_or(ZEROS.len(), |left| left.min(ZEROS.len()));
            match socket.send(&ZEROS[..most]) {
                Ok(count) => self.written += count as u64,
                Err(e) if e.kind() == ErrorKind::WouldBlock => self.writable = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.fail(&e);
                    return;
                }
            }
        }
    }

    fn sample(&mut self) {
        let info = self.socket.as_ref().filter(|_| self.started).and_then(|s| s.info().ok());
        if let Some(info) = info.filter(|i| i.tcpi_rtt > 0 && i.tcpi_data_segs_out > 0) {
            self.rtt_sum_us += u64::from(info.tcpi_rtt);
            self.rtt_count += 1;
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.sent.error = Some(format!("flows[{}]: the connection failed: {error}", self.index));
        self.next = Time::NEVER;
        self.close();
    }

    fn close(&mut self) {
        if let Some(socket) = self.socket.take() {
            self.sent.info = socket.info().ok().filter(|_| self.started);
            socket.abort();
        }
    }

    fn finish(mut self) -> Sent {
        self.close();
        self.sent.rtt_mean = self.rtt_sum_us.checked_div(self.rtt_count).map(Dur::from_micros);
        self.sent.app = self.app.outcome();
        self.sent
    }
}
