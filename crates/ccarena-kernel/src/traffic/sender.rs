//! The sending end: one thread that runs all applications and fills their sockets.

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};

use ccarena_cc::{Dur, Time};
use ccarena_link::tcp::{Poller, Sender, Sent, Socket};
use ccarena_link::{End, clock};
use ccarena_net::Scenario;
use ccarena_net::scenario::{Flow, Foreign};

use super::{Over, PORT, TrafficError};

/// Interval at which the kernel's RTT is read.
pub const SAMPLE: Dur = Dur::from_millis(20);

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
            let receiver = (End::Receivers.address(index), PORT).into();
            flows.push(Sender::connecting(index, scenario, socket, receiver, Vec::new()));
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
                for flow in &mut self.flows {
                    flow.sample(now);
                }
                for (flow, over) in self.flows.iter_mut().zip(&*self.over) {
                    if over.load(Ordering::Relaxed) {
                        flow.end(now);
                    }
                }
                sample = now + SAMPLE;
            }
            for flow in self.flows.iter_mut().filter(|f| f.next() <= now) {
                flow.run(now);
            }
            let next = self.flows.iter().map(Sender::next).min().unwrap_or(Time::NEVER).min(sample).min(end);
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
        let finish = |(index, flow): (usize, Sender)| {
            let sent = flow.finish();
            let error = sent.error.map(|error| format!("flows[{index}]: the connection failed: {error}"));
            Sent { error, ..sent }
        };
        self.flows.into_iter().enumerate().map(finish).collect()
    }
}

/// A socket for `flow`, bound to its address and set up.
fn open(index: usize, flow: &Flow, name: &str) -> Result<Socket, TrafficError> {
    let fail = TrafficError::of(format!("flows[{index}]: cannot set up a socket"));
    let sender = IpAddr::from(End::Senders.address(index));
    let socket = Socket::new(sender).map_err(&fail)?;
    socket.set_congestion_control(name).map_err(|source| TrafficError::CongestionControl {
        flow: index,
        name: name.into(),
        source,
    })?;
    socket.bind((sender, 0).into()).and_then(|()| socket.set_up(flow)).map_err(&fail)?;
    Ok(socket)
}
