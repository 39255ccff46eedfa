//! The loop of an emulator thread: packets from the kernel into the fabric and back when they are due.

use std::io::Read;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use ccarena_cc::types::{Dur, Time};
use ccarena_net::histogram::Histogram;
use ccarena_net::scenario::LinkChange;
use ccarena_net::{Carried, Link};

use crate::clock;
use crate::datagram::{self, Datagram};
use crate::fabric::Fabric;
use crate::network::End;
use crate::offload::{LONGEST_READ, Segments};
use crate::outlet::Outlet;
use crate::tally::{Seen, Tally};
use crate::tun::Tun;

/// Packets read at once before those that are due leave.
const BURST: u64 = 64;

/// Interval between wakes of a thread with many packets: a wake costs as much as several packets. Times of departure do
/// not depend on it; packets are handed over half of it late on average. mahimahi's grain is a millisecond.
const GRAIN: Dur = Dur::from_micros(300);

/// Packets taken and given in `TALLY` from which they are many: about 36 Mbit/s of full-sized ones, or 24 Mbit/s with
/// their acknowledgements on the same thread.
const MANY: u64 = 12;
const TALLY: Dur = Dur::from_millis(2);

/// A device to read, the device that packets leave by, and whose they are.
pub(crate) struct Way {
    input: Option<Tun>,
    output: Outlet,
    owner: Owner,
    /// Route of flow 0, or of all packets; the others' follow.
    pub first_route: u32,
    /// Counts of flows whose ends are not believed.
    pub tally: Option<Tally>,
}

enum Owner {
    /// Packets go by flows, which differ by their addresses at this end.
    Flows(End, u32),
    /// All packets go one way.
    All,
}

impl Way {
    /// `flows` flows from the end `from`, each with its route.
    pub fn of_flows(input: Tun, output: Tun, from: End, flows: u32) -> Self {
        Self {
            input: Some(input),
            output: Outlet::new(output),
            owner: Owner::Flows(from, flows),
            first_route: 0,
            tally: None,
        }
    }

    /// One route for all packets.
    pub fn of_all(input: Tun, output: Tun) -> Self {
        Self { input: Some(input), output: Outlet::new(output), owner: Owner::All, first_route: 0, tally: None }
    }

    /// The route of `packet`, which learns its flow; none if it is of no flow.
    #[inline]
    fn route(&self, packet: &mut Datagram) -> Option<u32> {
        match self.owner {
            Owner::Flows(from, flows) => {
                let (source, destination) = packet.addresses()?;
                let flow = from.flow(source).filter(|&flow| flow < flows as usize)?;
                if from.other().flow(destination) != Some(flow) {
                    return None;
                }
                packet.set_flow(flow as u32);
                Some(self.first_route + flow as u32)
            }
            Owner::All => {
                if packet.is_ipv6_multicast() {
                    return None;
                }
                packet.set_flow_from_headers();
                Some(self.first_route)
            }
        }
    }
}

/// Results of a thread.
pub(crate) struct Pumped {
    pub links: Vec<Link<Datagram>>,
    pub lateness: Histogram,
    pub counts: Counts,
    /// Counts of flows whose ends are not believed, by flow; empty if nothing was counted.
    pub seen: Vec<Option<Seen>>,
}

/// Counts of what crossed the emulator, besides the counters of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets taken from the kernel.
    pub read: u64,
    /// Packets of no flow, which went no further: of other addresses, or IPv6's multicast.
    pub ignored: u64,
    /// Packets handed to the kernel.
    pub written: u64,
    /// Packets that the kernel did not take.
    pub refused: u64,
    /// Packets for which there was no memory ([`Emulator::memory_bytes`](crate::Emulator::memory_bytes)).
    pub overflowed: u64,
    /// CPU time of the threads; what the kernel's TCP does in our calls is part of it.
    pub cpu: Dur,
}

/// Request to a thread of the emulator for a change of one of its links.
pub(crate) struct Ask {
    /// Numbers of the pump, and of the link in it.
    pub link: (usize, usize),
    pub change: LinkChange,
    /// Gets the time at which the change has been made.
    pub answer: Sender<Time>,
}

/// Worker of one thread of the emulator: one direction or both, each with links of its own.
pub(crate) struct Worker {
    pub pumps: Vec<Pump>,
    pub stop: Arc<AtomicBool>,
    /// Gets a byte with each of `asks`, and ends with the run.
    pub woken: UnixStream,
    pub asks: Receiver<Ask>,
}

impl Worker {
    /// Runs until it is stopped.
    pub fn run(&mut self) {
        clock::precise_timers();
        clock::take_precedence();
        let (mut inputs, mut buffer) = (self.inputs(), vec![0; LONGEST_READ]);
        let (mut tally, mut since, mut many) = (0, self.now(), false);
        while !self.stop.load(Ordering::Relaxed) {
            self.obey();
            let begun = self.now();
            let (mut more, mut handled) = (false, 0);
            for pump in &mut self.pumps {
                let before = pump.counts.read + pump.counts.written;
                more |= pump.take(&mut buffer);
                pump.give();
                handled += pump.counts.read + pump.counts.written - before;
            }
            if many {
                // The packets handed over have provoked others, which are there already. Read after the sleep, they would take
                // the room that the queue made during it, ahead of what a timer sent meanwhile, such as a retransmission.
                for pump in &mut self.pumps {
                    let before = pump.counts.read;
                    more |= pump.take(&mut buffer);
                    handled += pump.counts.read - before;
                }
            }
            tally += handled;
            if begun >= since + TALLY {
                // Over a longer time than that, what was many has become few.
                many = tally >= MANY && begun < since + TALLY * 4;
                (tally, since) = (0, begun);
            }
            if more {
                continue;
            }
            if inputs.len() > 1 + self.tuns().count() {
                inputs = self.inputs();
            }
            if many && handled > 0 {
                self.sleep_until(begun + GRAIN, &inputs[..1]);
            } else {
                let next = self.pumps.iter().map(|pump| pump.fabric.next_time()).min();
                self.sleep_until(next.unwrap_or(Time::NEVER), &inputs);
            }
        }
    }

    /// Changes links as asked.
    fn obey(&mut self) {
        while let Ok(Ask { link: (pump, link), change, answer }) = self.asks.try_recv() {
            // The byte is on its way. If it does not come, the run is over.
            let _ = self.woken.read_exact(&mut [0]);
            let _ = answer.send(self.pumps[pump].change(link, &change));
        }
    }

    /// Returns the results of each pump; the thread's CPU time is in the first one's.
    pub fn finish(self) -> Vec<Pumped> {
        let cpu = clock::thread_cpu();
        let each = self.pumps.into_iter().enumerate();
        each.map(|(i, pump)| {
            let counts = Counts { cpu: if i == 0 { cpu } else { Dur::ZERO }, ..pump.counts };
            let seen = pump.ways.into_iter().find_map(|way| way.tally).map(Tally::into_seen).unwrap_or_default();
            Pumped { links: pump.fabric.links, lateness: pump.lateness, counts, seen }
        })
        .collect()
    }

    fn now(&self) -> Time {
        self.pumps.first().map_or(Time::ZERO, Pump::now)
    }

    fn tuns(&self) -> impl Iterator<Item = &Tun> {
        self.pumps.iter().flat_map(|pump| &pump.ways).filter_map(|way| way.input.as_ref())
    }

    /// Returns the descriptors to wait for: the end of the run first, then packets.
    fn inputs(&self) -> Vec<RawFd> {
        [self.woken.as_raw_fd()].into_iter().chain(self.tuns().map(AsRawFd::as_raw_fd)).collect()
    }

    fn sleep_until(&self, at: Time, fds: &[RawFd]) {
        let now = self.now();
        if at > now {
            clock::wait(fds, (at != Time::NEVER).then(|| at.since(now).0));
        }
    }
}

/// Devices, and the links between them.
pub(crate) struct Pump {
    ways: Vec<Way>,
    fabric: Fabric,
    zero_ns: u64,
    /// Most packets that may wait at once on the thread.
    most: usize,
    lateness: Histogram,
    counts: Counts,
}

impl Pump {
    pub fn new((ways, fabric): (Vec<Way>, Fabric), zero_ns: u64, memory_bytes: usize) -> Self {
        let most = (memory_bytes / datagram::PACKET_BYTES).max(1);
        Self { ways, fabric, zero_ns, most, lateness: Histogram::new(), counts: Counts::default() }
    }

    #[inline]
    fn now(&self) -> Time {
        Time(clock::now_ns().saturating_sub(self.zero_ns))
    }

    /// Changes a link. Returns the time from which the change holds: after all that is due now.
    fn change(&mut self, link: usize, change: &LinkChange) -> Time {
        let now = self.now();
        self.give_until(now);
        let at = now + Dur(1);
        self.fabric.links[link].change(at, change);
        at
    }

    /// Takes packets from the kernel until none waits, or a burst of them. Whether more may wait.
    fn take(&mut self, buffer: &mut [u8]) -> bool {
        let mut more = false;
        for index in 0..self.ways.len() {
            more |= self.take_from(index, buffer);
        }
        more
    }

    fn take_from(&mut self, index: usize, buffer: &mut [u8]) -> bool {
        let until = self.counts.read + BURST;
        while self.counts.read < until {
            let Some(input) = &self.ways[index].input else { return false };
            match input.read(buffer) {
                Ok(Some(length)) => self.send(index, &buffer[..length]),
                Ok(None) => return false,
                Err(_) => {
                    // The device is gone, with its namespace: nothing will come from there any more.
                    self.ways[index].input = None;
                    return false;
                }
            }
        }
        true
    }

    /// Sends the packets that `read`, from way number `index`, stands for on their routes.
    fn send(&mut self, index: usize, read: &[u8]) {
        let now = self.now();
        self.give_until(now);
        let Some(segments) = Segments::of(read) else {
            (self.counts.read, self.counts.ignored) = (self.counts.read + 1, self.counts.ignored + 1);
            return;
        };
        for mut packet in segments {
            self.counts.read += 1;
            let Some(route) = self.ways[index].route(&mut packet) else {
                self.counts.ignored += 1;
                continue;
            };
            // This packet is one of them.
            if datagram::held() > self.most {
                self.counts.overflowed += 1;
                continue;
            }
            if let Some(tally) = &mut self.ways[index].tally {
                tally.sent(packet.flow_number(), packet.packet());
            }
            // What sends anew at once, in no time, leaves before what is next arrives.
            self.give_until(now);
            self.fabric.send(packet, route, now);
        }
    }

    /// Hands the kernel what is due.
    fn give(&mut self) {
        let now = self.now();
        self.give_until(now);
        let (lateness, counts, zero_ns) = (&mut self.lateness, &mut self.counts, self.zero_ns);
        for way in &mut self.ways {
            way.output.flush(|due, taken| counts.handed(due, taken, lateness, zero_ns));
        }
    }

    #[inline]
    fn give_until(&mut self, now: Time) {
        let (ways, lateness, counts, zero_ns) = (&mut self.ways, &mut self.lateness, &mut self.counts, self.zero_ns);
        self.fabric.advance(now, |packet, due| {
            if let Some(way) = ways.iter_mut().rfind(|way| way.first_route <= packet.route) {
                if let Some(tally) = &mut way.tally {
                    tally.delivered(packet.flow_number(), packet.packet(), due);
                }
                way.output.put(packet, due, |due, taken| counts.handed(due, taken, lateness, zero_ns));
            }
        });
    }
}

impl Counts {
    /// Packets that were due at these times have been handed to the kernel, which took them or did not.
    #[inline]
    fn handed(&mut self, due: &[Time], taken: bool, lateness: &mut Histogram, zero_ns: u64) {
        let packets = due.len() as u64;
        if taken {
            self.written += packets
        } else {
            self.refused += packets
        }
        let now = clock::now_ns();
        for due in due {
            lateness.add(Dur(now.saturating_sub(zero_ns + due.0)));
        }
    }
}
