//! Links and the routes over them, as a pure function of time: what the emulator runs by the clock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ccarena_cc::types::{Dur, Time};
use ccarena_net::Link;

use crate::datagram::Datagram;

/// Receives what happens at links, in times of the run. For logs while the run goes on.
pub trait Observer: Send {
    /// `packet` reaches link number `link`.
    fn arrival(&mut self, link: usize, at: Time, packet: &Datagram) {
        let _ = (link, at, packet);
    }

    /// `packet` has left the link; its [`arrival`](ccarena_net::Carried::arrival) is when it reached the link's queue.
    fn departure(&mut self, link: usize, at: Time, packet: &Datagram) {
        let _ = (link, at, packet);
    }

    /// The link's queue has dropped packets: when one arrived, or (`late`) as others left.
    fn dropped(&mut self, link: usize, at: Time, packets: u64, bytes: u64, late: bool) {
        let _ = (link, at, packets, bytes, late);
    }
}

/// A way through the links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Route {
    /// Delay before the first link.
    pub delay: Dur,
    /// Links in order; none is pure delay.
    pub path: Vec<usize>,
}

/// A packet in propagation.
struct Flying {
    at: Time,
    /// Packets of one time keep their order.
    sequence: u64,
    packet: Datagram,
}

/// Links, routes and the packets on them.
///
/// Times given to [`send`](Self::send) and [`advance`](Self::advance) do not go back, and before a packet is sent at some
/// time, everything up to that time has been advanced over.
pub(crate) struct Fabric {
    pub links: Vec<Link<Datagram>>,
    routes: Vec<Route>,
    /// Packets in propagation that arrive no earlier than those before them, as most do, and the others.
    orderly: VecDeque<Flying>,
    overtaking: BinaryHeap<Reverse<Flying>>,
    sequence: u64,
    /// Time at which the newest packet reaches the end of each route, and the next link after each link.
    newest_of_route: Vec<Time>,
    newest_of_link: Vec<Time>,
    observer: Option<Box<dyn Observer>>,
}

impl Fabric {
    pub fn new(links: Vec<Link<Datagram>>, routes: Vec<Route>, observer: Option<Box<dyn Observer>>) -> Self {
        let (newest_of_route, newest_of_link) = (vec![Time::ZERO; routes.len()], vec![Time::ZERO; links.len()]);
        Self {
            links,
            routes,
            orderly: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            sequence: 0,
            newest_of_route,
            newest_of_link,
            observer,
        }
    }

    /// A packet sets out on `route` at `now`.
    #[inline]
    pub fn send(&mut self, mut packet: Datagram, route: u32, now: Time) {
        packet.route = route;
        packet.hop = 0;
        match &self.routes[route as usize] {
            Route { delay: Dur::ZERO, path } if !path.is_empty() => self.enter(packet, now),
            Route { delay, .. } => {
                let at = now + *delay;
                self.fly(packet, at);
            }
        }
    }

    /// Returns the time of the next event.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.links.iter().fold(self.lands(), |next, link| next.min(link.departs()))
    }

    /// Everything up to `now` happens, each at its own time. `deliver` gets the packets that reach the ends of their
    /// routes and when they were to.
    #[inline]
    pub fn advance(&mut self, now: Time, mut deliver: impl FnMut(Datagram, Time)) {
        loop {
            let flying = self.lands();
            let departures = self.links.iter().enumerate().map(|(i, link)| (link.departs(), i));
            // At one time, what leaves makes room for what arrives.
            match departures.min().filter(|&(at, _)| at <= flying) {
                Some((at, link)) if at <= now && at != Time::NEVER => self.leave(link, at),
                _ if flying <= now => {
                    let Some(Flying { at, packet, .. }) = self.land() else { return };
                    if usize::from(packet.hop) < self.routes[packet.route as usize].path.len() {
                        self.enter(packet, at);
                    } else {
                        deliver(packet, at);
                    }
                }
                _ => return,
            }
        }
    }

    fn fly(&mut self, packet: Datagram, at: Time) {
        let flying = Flying { at, sequence: self.sequence, packet };
        self.sequence += 1;
        if self.orderly.back().is_none_or(|last| last.at <= at) {
            self.orderly.push_back(flying);
        } else {
            self.overtaking.push(Reverse(flying));
        }
    }

    /// Returns the arrival of the next packet in propagation.
    #[inline]
    fn lands(&self) -> Time {
        let orderly = self.orderly.front().map_or(Time::NEVER, |f| f.at);
        self.overtaking.peek().map_or(orderly, |f| f.0.at.min(orderly))
    }

    /// Returns that packet.
    fn land(&mut self) -> Option<Flying> {
        match (self.orderly.front(), self.overtaking.peek()) {
            (Some(first), Some(Reverse(other))) if first < other => self.orderly.pop_front(),
            (_, Some(_)) => self.overtaking.pop().map(|f| f.0),
            (_, None) => self.orderly.pop_front(),
        }
    }

    /// A packet reaches the link at its hop.
    fn enter(&mut self, packet: Datagram, now: Time) {
        let index = self.routes[packet.route as usize].path[usize::from(packet.hop)];
        let link = &mut self.links[index];
        let Some(observer) = &mut self.observer else {
            link.arrive(packet, now);
            return;
        };
        let before = link.stats;
        observer.arrival(index, now, &packet);
        link.arrive(packet, now);
        report_drops(observer.as_mut(), index, now, before, link, false);
    }

    /// The packet in service at a link has left it.
    fn leave(&mut self, index: usize, now: Time) {
        let link = &mut self.links[index];
        let before = link.stats;
        let packet = link.depart(now);
        if let Some(observer) = &mut self.observer {
            report_drops(observer.as_mut(), index, now, before, link, true);
            if let Some(packet) = &packet {
                observer.departure(index, now, packet);
            }
        }
        let Some(mut packet) = packet else { return };
        packet.hop += 1;
        if link.is_impaired() {
            return self.launch(index, packet, now);
        }
        let is_last = usize::from(packet.hop) == self.routes[packet.route as usize].path.len();
        let newest =
            if is_last { &mut self.newest_of_route[packet.route as usize] } else { &mut self.newest_of_link[index] };
        *newest = link.arrival(now, || Some(*newest));
        let at = *newest;
        self.fly(packet, at);
    }

    /// A packet sets out over the impaired wire of link `index`.
    #[cold]
    fn launch(&mut self, index: usize, packet: Datagram, now: Time) {
        let flight = self.links[index].launch(&packet, now);
        if flight.befalls.corrupted {
            return self.links[index].discard(packet);
        }
        let copies: Vec<_> = (1..flight.befalls.copies()).map(|_| packet.duplicate()).collect();
        for packet in copies.into_iter().chain([packet]) {
            self.fly(packet, flight.at);
        }
    }
}

fn report_drops(
    observer: &mut dyn Observer,
    index: usize,
    now: Time,
    before: ccarena_net::link::LinkStats,
    link: &Link<Datagram>,
    late: bool,
) {
    let packets = link.stats.dropped_packets - before.dropped_packets;
    if packets > 0 {
        observer.dropped(index, now, packets, link.stats.dropped_bytes - before.dropped_bytes, late);
    }
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Flying {}

impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flying {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[cfg(test)]
mod changes;
#[cfg(test)]
mod parity;
#[cfg(test)]
mod tests;
