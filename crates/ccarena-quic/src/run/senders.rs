//! The sending ends of all flows: connections that open when their flows start.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;

use ccarena_cc::Time;
use ccarena_link::clock;

use crate::host::{Peer, Reactor};
use crate::steering::Steering;

/// A connection to be opened.
pub struct Opening<P> {
    /// The receiver.
    pub remote: SocketAddr,
    /// Configuration of the connection.
    pub config: noq_proto::ClientConfig,
    /// Steering of the connection.
    pub steering: Steering,
    /// Application on it.
    pub peer: P,
}

/// Hosts with one connection each, and the time at which each opens.
pub struct Senders<P> {
    /// The hosts.
    pub reactor: Reactor<P>,
    /// The connections, in the same order; none of a host that opens none.
    pub openings: Vec<(Time, Option<Opening<P>>)>,
}

impl<P: Peer> Senders<P> {
    /// Runs them until `end`, or until `stop` polls readable; the connection of each host, if it opened one.
    ///
    /// # Errors
    /// If the kernel or the stack refuses.
    pub fn run(mut self, end: Time, stop: RawFd) -> io::Result<Vec<Option<(P, Steering)>>> {
        clock::precise_timers();
        // Late acknowledgements would measure the machine.
        clock::take_precedence();
        loop {
            let now = self.reactor.now();
            let mut until = end;
            for (index, (start, opening)) in self.openings.iter_mut().enumerate() {
                if *start > now {
                    until = until.min(*start);
                } else if let Some(Opening { remote, config, steering, peer }) = opening.take() {
                    let refused = self.reactor.host(index).connect(config, remote, steering, peer);
                    refused.map_err(io::Error::other)?;
                }
            }
            if now >= end || self.reactor.turn(until, &[stop])? {
                break;
            }
        }
        Ok(self.reactor.into_hosts().into_iter().map(|host| host.into_connections().into_iter().next()).collect())
    }
}
