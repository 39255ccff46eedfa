//! The receiving end: one thread that takes what arrives and counts it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::RawFd;

use ccarena_cc::Time;
use ccarena_link::tcp::{Poller, Socket, TcpInfo};
use ccarena_link::{End, clock};
use ccarena_net::Scenario;
use ccarena_net::series::{FlowBin, Series};

use super::{HEADER_BYTES, PORT, TrafficError};

/// Data of a flow that arrived.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Payload, each byte once.
    pub payload_bytes: u64,
    /// The kernel's counters of the connection.
    pub info: Option<TcpInfo>,
    /// Amounts per bin, if they are kept.
    pub series: Option<Series<FlowBin>>,
    /// Payload by time, if the application needs arrivals.
    pub progress: Vec<(Time, u64)>,
}

/// Read at most so much before looking at the other sockets.
const MOST: usize = 1 << 20;
const LISTENER: u64 = u64::MAX;

/// All receivers.
pub struct Receivers {
    listener: Socket,
    poller: Poller,
    connections: Vec<Option<Socket>>,
    flows: Vec<Received>,
    /// Settings of each flow's receiver: immediate acknowledgements; window in bytes; payload of a segment; arrivals.
    settings: Vec<FlowSetting>,
}

#[derive(Clone, Copy, Debug)]
struct FlowSetting {
    quick: bool,
    window: Option<i32>,
    mss: u64,
    arrivals: bool,
}

impl Receivers {
    /// Receivers for the flows of `scenario`, in the calling thread's network namespace.
    ///
    /// # Errors
    /// If the kernel refuses a socket.
    pub fn new(scenario: &Scenario) -> Result<Self, TrafficError> {
        let fail = TrafficError::of("cannot listen for flows");
        let listener = Socket::new(Ipv4Addr::UNSPECIFIED.into()).map_err(&fail)?;
        listener.bind((Ipv4Addr::UNSPECIFIED, PORT).into()).map_err(&fail)?;
        listener.listen(4096).map_err(&fail)?;
        let poller = Poller::new().map_err(&fail)?;
        poller.add(listener.fd(), libc::EPOLLIN, LISTENER).map_err(&fail)?;
        let series = || scenario.record.series.then(|| Series::new(scenario.record.bin, scenario.duration));
        let flows = scenario.flows.iter().map(|_| Received { series: series(), ..Received::default() }).collect();
        let settings = scenario.flows.iter().map(|flow| FlowSetting {
            quick: !flow.delayed_ack,
            window: flow
                .receive_window
                .map(|segments| i32::try_from(segments.saturating_mul(flow.mss_bytes)).unwrap_or(i32::MAX)),
            mss: u64::from(flow.mss_bytes.max(1)),
            arrivals: flow.app.needs().arrivals,
        });
        let connections = scenario.flows.iter().map(|_| None).collect();
        Ok(Self { listener, poller, connections, flows, settings: settings.collect() })
    }

    /// The number of the receivers' network namespace.
    ///
    /// # Errors
    /// If the kernel has none.
    pub fn namespace_cookie(&self) -> io::Result<u64> {
        self.listener.namespace_cookie()
    }

    /// Receives until `end`, or until `stop` polls readable; time zero is `zero_ns`.
    #[must_use]
    pub fn run(mut self, zero_ns: u64, end: Time, stop: RawFd) -> Vec<Received> {
        let end_ns = zero_ns.saturating_add(end.0);
        loop {
            let now_ns = clock::now_ns();
            if now_ns >= end_ns || super::is_readable(stop) {
                break;
            }
            clock::wait(&[self.poller.fd(), stop], Some(end_ns - now_ns));
            let now = Time(clock::now_ns().saturating_sub(zero_ns));
            let mut ready = Vec::new();
            self.poller.ready(|_, token| ready.push(token));
            for token in ready {
                if token == LISTENER { self.accept() } else { self.receive(token as usize, now) }
            }
        }
        for (flow, connection) in self.flows.iter_mut().zip(&self.connections) {
            flow.info = flow.info.or(connection.as_ref().and_then(|c| c.info().ok()));
        }
        self.flows
    }

    fn accept(&mut self) {
        while let Ok((connection, from)) = self.listener.accept() {
            let SocketAddr::V4(from) = from else { continue };
            let flow = End::Senders.flow(*from.ip()).filter(|&flow| flow < self.flows.len());
            let Some(flow) = flow else { continue };
            if let Some(window) = self.settings[flow].window {
                // A buffer of fixed size, or the kernel's tuning of buffers takes the clamp back (`tcp_rcv_space_adjust`).
                // If this fails, the window is wider than asked for, and the flow still runs.
                let _ = connection.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, window.saturating_mul(4).max(1 << 16));
                let _ = connection.set(libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, window);
            }
            if self.poller.add(connection.fd(), libc::EPOLLIN, flow as u64).is_ok() {
                self.connections[flow] = Some(connection);
            }
        }
    }

    fn receive(&mut self, index: usize, now: Time) {
        let (Some(flow), Some(slot)) = (self.flows.get_mut(index), self.connections.get_mut(index)) else { return };
        let Some(connection) = slot else { return };
        let setting = self.settings[index];
        match connection.discard(MOST) {
            Ok(bytes) if bytes > 0 => {
                let bytes = bytes as u64;
                flow.payload_bytes += bytes;
                if let Some(bin) = flow.series.as_mut().and_then(|s| s.at(now)) {
                    bin.payload_bytes += bytes;
                    bin.wire_bytes += bytes + bytes.div_ceil(setting.mss) * HEADER_BYTES;
                }
                if setting.arrivals {
                    flow.progress.push((now, flow.payload_bytes));
                }
                if let Some(window) = setting.window {
                    // `tcp_measure_rcv_mss` takes it back when segments turn out to need more memory, or less.
                    let _ = connection.set(libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, window);
                }
                if setting.quick {
                    // Lasts for some segments only (tcp(7)).
                    let _ = connection.set(libc::IPPROTO_TCP, libc::TCP_QUICKACK, 1);
                }
            }
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // The stream has ended, or was reset.
            _ => {
                flow.info = connection.info().ok();
                *slot = None;
            }
        }
    }
}
