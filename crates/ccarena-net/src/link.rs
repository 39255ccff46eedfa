//! A link: loss, a queue, a service, perhaps a router that signals to senders, and a pipe of packets in propagation.

mod changes;
mod conditions;
mod deferred;
mod timetable;
mod wire;

use std::collections::VecDeque;

use ccarena_cc::Signal;
use ccarena_cc::types::{Dur, Time};

use crate::conditions::Recordings;
use crate::impairments::{Befalls, Impaired, ImpairedStats};
use crate::losses::{self, AnyProcess, Losses, Outages};
use crate::policer::Policer;
use crate::queues::{self, AnyQueue, Item, Marks, Part, Queue, Setting};
use crate::rng::{Purpose, Stream, derive};
use crate::routers::{self, AnyRouter, Header, Router, Sight};
use crate::scenario::Scenario;
use crate::series::{LinkBin, Series};
use crate::service::{Service, ServiceError};
use crate::transmissions::Fate;
use deferred::Deferred;
use timetable::{Left, Stay, Timetable};
pub use wire::Flight;
use wire::Wire;

/// Packet that a link carries.
pub trait Carried: Item {
    /// The flow it counts for: a small number.
    fn flow_number(&self) -> u32;

    /// Returns the time of arrival at the current queue.
    fn arrival(&self) -> Time;

    /// Records the arrival at a queue at `now`.
    fn arrive(&mut self, now: Time);

    /// Returns the request to routers, as changed by the routers so far.
    fn signal(&self) -> Signal;

    /// Replaces the request to routers by `signal`.
    fn set_signal(&mut self, signal: Signal);
}

/// One delivered packet, for the packet log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Time of arrival at the queue.
    pub arrival: Time,
    /// Time at which it had left the link.
    pub departure: Time,
    /// Time of its own transmission (zero on a trace).
    pub serialisation: Dur,
    /// Flow of the packet.
    pub flow: u32,
    /// IP bytes.
    pub bytes: u32,
}

/// Everything a link recorded packet by packet.
#[derive(Clone, Debug, Default)]
pub struct PacketLog {
    /// Delivered packets, in the order of departure.
    pub delivered: Vec<Delivered>,
    /// Packets that the queue dropped: when and whose.
    pub dropped: Vec<(Time, u32)>,
    /// Packets lost at random or in an outage, before the queue: when and whose.
    pub lost: Vec<(Time, u32)>,
    /// Packets that the policer dropped: when and whose.
    pub policed: Vec<(Time, u32)>,
    /// Packets that something befell on the wire, in the order of departure.
    pub impaired: Vec<Impaired>,
}

/// Counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that reached it.
    pub arrived_packets: u64,
    /// Packets that left it.
    pub delivered_packets: u64,
    /// IP bytes that left it.
    pub delivered_bytes: u64,
    /// Packets dropped by the queue.
    pub dropped_packets: u64,
    /// IP bytes dropped by the queue.
    pub dropped_bytes: u64,
    /// Packets lost at random or in an outage.
    pub lost_packets: u64,
}

/// A packet in a timetable that something befalls on the wire.
#[derive(Clone, Copy, Debug)]
struct Befallen {
    departs: Time,
    befalls: Befalls,
    flow: u32,
    bytes: u32,
    /// The packet arrives in time to be counted.
    counts: bool,
}

/// A link and what is on it.
pub struct Link<T> {
    queue: AnyQueue<T>,
    service: Service,
    /// Propagation after the queue.
    wire: Wire,
    /// Losses before the queue; none on most links.
    losses: Option<Box<Losses>>,
    router: Option<AnyRouter>,
    /// Packets that the queue drops when others leave are in the packet log (in mahimahi's they are not).
    pub logs_late_drops: bool,
    /// A trace takes a packet from the queue when its opportunity comes; a transmitter when it begins with it.
    serves_from_queue: bool,
    /// A packet is in transmission from when its service starts until it has left.
    transmits_at_once: bool,

    /// Timetable instead of the queue, if departures are known when packets arrive.
    timetable: Option<Timetable>,
    /// A router, an impaired wire or records, if the link has a timetable.
    special: bool,
    /// The router's signals, if the link has a timetable.
    deferred: Deferred,
    /// Packets in the timetable that something befalls on the wire.
    befallen: VecDeque<Befallen>,
    /// The packet in transmission, if it has been taken from the queue.
    transmitting: Option<T>,
    /// Time at which the packet in service will have left; never if there is none.
    departs: Time,
    serialisation: Dur,
    /// Packets in propagation towards a further link.
    pub pipe: VecDeque<(Time, T)>,
    drops: Vec<T>,
    /// Packets that ended here, if they are kept.
    pub gone: Option<Vec<(T, Fate)>>,

    /// Counters.
    pub stats: LinkStats,
    /// The packet log, if one is kept.
    pub log: Option<PacketLog>,
    /// Amounts per bin, if they are kept.
    pub series: Option<Series<LinkBin>>,
}

impl<T: Carried> Link<T> {
    /// An idle link.
    #[must_use]
    pub fn new(queue: AnyQueue<T>, service: Service, delay: Dur, router: Option<AnyRouter>) -> Self {
        let (serves_from_queue, transmits_at_once) = (service.is_trace(), service.transmits_at_once());
        Self {
            queue,
            service,
            wire: Wire::new(delay),
            losses: None,
            router,
            logs_late_drops: true,
            serves_from_queue,
            transmits_at_once,
            timetable: None,
            special: false,
            deferred: Deferred::new(),
            befallen: VecDeque::new(),
            transmitting: None,
            departs: Time::NEVER,
            serialisation: Dur::ZERO,
            pipe: VecDeque::new(),
            drops: Vec::new(),
            gone: None,
            stats: LinkStats::default(),
            log: None,
            series: None,
        }
    }

    /// Link number `index` of `scenario`. `recordings` finds traces by file name.
    ///
    /// # Errors
    /// If its trace or preset cannot be had.
    pub fn of(scenario: &Scenario, index: usize, recordings: &impl Recordings) -> Result<Self, ServiceError>
    where
        T: Send + Sync + 'static,
    {
        let spec = &scenario.links[index];
        let seed = derive(scenario.seed, Purpose::Service, index as u64);
        let (conditions, keeps_order) = conditions::of_link(scenario, index, recordings)?;
        let mut service = match conditions.rates {
            Some(rates) => Service::replaying(&spec.service, rates, seed),
            None => Service::new(&spec.service, seed, scenario.duration, |file| recordings.trace(file))?,
        };
        if let Some(shaper) = spec.shaper {
            service = service.shaped(shaper);
        }
        let rate = service.mean_rate(scenario.duration);
        let stream = |purpose| Stream::new(scenario.seed, purpose, index as u64);
        let setting = Setting { bdp_bytes: scenario.bdp_bytes(index, rate), rate, stream: stream(Purpose::Queue) };
        let queue = queues::build(&spec.queue, &setting);
        let router = spec.router.as_ref().map(|router| routers::build(router, stream(Purpose::Router)));
        let mut link = Self::new(queue, service, spec.delay, router);
        let mut lateness = stream(Purpose::Jitter);
        link.wire.set_wakes(spec.wakes, Time((lateness.next_f64() * spec.wakes.0 as f64) as u64));
        link.wire.set_jitter(spec.jitter, lateness);
        if let Some(varies) = &spec.varies {
            link.wire.set_delays(varies.process.stepped(), varies.keep_order);
        }
        if let Some(delays) = conditions.delays {
            link.wire.set_delays(delays, keeps_order);
        }
        if !spec.impairments.is_none() {
            link.wire.set_impairments(&spec.impairments, stream);
        }
        link.logs_late_drops = !spec.queue.mahimahi;
        let outages = spec.outages.map(|o| Outages::new(o.on, o.off, stream(Purpose::Outages)));
        let draws = stream(Purpose::Loss);
        let process = match conditions.losses {
            Some(probabilities) => Some(AnyProcess::Steps(losses::Steps::of(probabilities, draws))),
            None => spec.loss.process(draws),
        };
        link.losses = Losses::new(process, outages, spec.policer.map(Policer::new)).map(Box::new);
        link.series = scenario.record.series.then(|| Series::new(scenario.record.bin, scenario.duration));
        link.log = (scenario.record.packets || scenario.record.transmissions).then(PacketLog::default);
        Ok(link)
    }

    /// Returns the longest propagation delay.
    #[must_use]
    pub fn longest_delay(&self) -> Dur {
        self.wire.longest_delay()
    }

    /// Returns the arrival at the other end of a packet that leaves at `now`; `previous` is the
    /// arrival of the one before it.
    #[inline]
    pub fn arrival(&mut self, now: Time, previous: impl FnOnce() -> Option<Time>) -> Time {
        self.wire.arrival(now, previous)
    }

    /// Returns whether packets may overtake one another on the wire, come twice or come damaged: they go by
    /// [`launch`](Self::launch) instead of [`arrival`](Self::arrival).
    #[inline]
    #[must_use]
    pub fn is_impaired(&self) -> bool {
        self.wire.is_impaired()
    }

    /// Returns the counts of impaired packets.
    #[must_use]
    pub fn impaired(&self) -> ImpairedStats {
        self.wire.stats()
    }

    /// `packet` leaves at `now` over an impaired wire. Returns its flight, of which the [copies](Befalls::copies) arrive.
    pub fn launch(&mut self, packet: &T, now: Time) -> Flight {
        let flight = self.wire.launch(now);
        if flight.befalls.any() {
            self.wire.count(flight.befalls);
            if let Some(log) = &mut self.log {
                let flow = packet.flow_number();
                log.impaired.extend(flight.befalls.kinds().map(|kind| Impaired { at: now, flow, kind }));
            }
        }
        flight
    }

    /// Takes a packet that the other end discards as damaged.
    #[cold]
    pub fn discard(&mut self, packet: T) {
        if let Some(gone) = &mut self.gone {
            gone.push((packet, Fate::Corrupted));
        }
    }

    /// Returns the time of the next event here.
    #[inline]
    #[must_use]
    pub fn next_time(&self) -> Time {
        self.pipe.front().map_or(self.departs, |head| head.0.min(self.departs))
    }

    /// Returns the time at which the packet in service will have left.
    #[inline]
    #[must_use]
    pub fn departs(&self) -> Time {
        self.departs
    }

    /// Capacity in bytes between two times.
    #[must_use]
    pub fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
        self.service.capacity_bytes(from, to)
    }

    /// Capacity in bytes of each of `count` adjoining intervals of length `bin` from time zero on.
    #[must_use]
    pub fn capacity_of_bins(&self, bin: Dur, count: u64) -> Vec<u64> {
        self.service.capacity_of_bins(bin, count)
    }

    /// Takes the router off, whose signals nobody reads.
    pub fn leave_out_router(&mut self) {
        self.router = None;
    }

    /// Keeps a timetable from now on, if all that happens here follows from the arrivals and may be told later: the queue
    /// drops nothing but arrivals, and nothing befalls packets on the wire that is written down. A router signals later to
    /// packets that leave ([`Self::deferred_signal`]). Returns whether it keeps one.
    pub fn keep_timetable(&mut self) -> bool {
        let records = self.log.is_some() || self.series.is_some();
        // Deferred signals are looked up by the number of packets that have arrived.
        let follows = !self.is_impaired() || (self.router.is_none() && !records);
        if let (AnyQueue::DropTail(queue), true) = (&self.queue, follows) {
            self.timetable = Some(Timetable::new(queue.room(), !self.serves_from_queue, records));
        }
        self.special = self.is_routed() || self.is_impaired() || records;
        self.timetable.is_some()
    }

    /// Returns whether it has a router.
    #[inline]
    #[must_use]
    pub fn is_routed(&self) -> bool {
        self.router.is_some()
    }

    /// Returns whether it has a router or an impaired wire, or writes packets down.
    #[inline]
    #[must_use]
    pub fn is_special(&self) -> bool {
        self.special
    }

    /// Returns whether it keeps a timetable and writes packets down.
    #[inline]
    #[must_use]
    pub fn records(&self) -> bool {
        self.timetable.as_ref().is_some_and(Timetable::records)
    }

    /// Returns whether it keeps a timetable: packets then come by [`book`](Self::book).
    #[inline]
    #[must_use]
    pub fn keeps_timetable(&self) -> bool {
        self.timetable.is_some()
    }

    /// A packet arrives at a link with a timetable. When it will reach the other end, at which the packet before it arrives
    /// at `previous`; none if it is lost, dropped, or never leaves. What arrives from `end` on is counted for no flow.
    ///
    /// `ROUTED` if the link has a router, which signals later ([`deferred_signal`](Self::deferred_signal)). Who calls knows it for all packets:
    /// looking at each shows in the simulator's rate. `RECORDED` if the link [writes packets down](Self::records).
    #[inline]
    pub fn book<const ROUTED: bool, const RECORDED: bool>(
        &mut self,
        packet: &mut T,
        now: Time,
        previous: Time,
        end: Time,
    ) -> Option<Time>
    where
        T: Copy,
    {
        let departs = self.reserve::<ROUTED, RECORDED>(packet, now)?;
        let at = self.arrival(departs, || Some(previous));
        let (bytes, flow) = (packet.bytes(), packet.flow_number());
        if let Some(timetable) = &mut self.timetable {
            timetable.push(departs, bytes, flow, at < end);
        }
        if ROUTED {
            packet.set_signal(self.deferred.defer(flow, packet.signal()));
        }
        Some(at)
    }

    /// The same for a link with a timetable and an impaired wire.
    #[inline]
    pub fn book_impaired(&mut self, packet: &mut T, now: Time, end: Time) -> Option<Flight>
    where
        T: Copy,
    {
        let departs = self.reserve::<false, false>(packet, now)?;
        let flight = self.wire.launch(departs);
        let (bytes, flow) = (packet.bytes(), packet.flow_number());
        let counts = flight.at < end && !flight.befalls.corrupted;
        if flight.befalls.any() {
            self.befallen.push_back(Befallen { departs, befalls: flight.befalls, flow, bytes, counts });
        }
        if let Some(timetable) = &mut self.timetable {
            timetable.push(departs, bytes, flow, counts);
        }
        Some(flight)
    }

    /// Returns when a packet leaves that arrives at a link with a timetable; none if it does not.
    #[inline(always)]
    fn reserve<const ROUTED: bool, const RECORDED: bool>(&mut self, packet: &mut T, now: Time) -> Option<Time>
    where
        T: Copy,
    {
        self.stats.arrived_packets += 1;
        let spare = || self.timetable.as_ref().is_some_and(|timetable| timetable.has_spare_room(packet.bytes()));
        if ROUTED || (RECORDED && !spare()) {
            self.settle(now);
        }
        if ROUTED {
            self.tell_of_arrival(packet, now);
        }
        if let Some(losses) = &mut self.losses {
            if losses.loses(now) {
                self.stats.lost_packets += 1;
                if RECORDED {
                    self.write_loss(*packet, now);
                }
                return None;
            }
            if losses.policer.is_some() {
                // A copy: a packet whose address is known to others is kept in memory throughout.
                let mut policed = *packet;
                if !self.police(&mut policed, now) {
                    if RECORDED {
                        self.write_policed(policed, now);
                    }
                    return None;
                }
                *packet = policed;
            }
        }
        let (bytes, timetable) = (packet.bytes(), self.timetable.as_mut()?);
        if !timetable.fits(bytes, now, &mut self.stats) {
            self.stats.dropped_packets += 1;
            self.stats.dropped_bytes += u64::from(bytes);
            if RECORDED {
                self.write_drop(*packet, now, true);
            }
            return None;
        }
        let before = timetable.last();
        let departs = match before {
            Time::NEVER => before,
            _ => self.service.departure(before.max(now), bytes, before > now, || now),
        };
        if departs == Time::NEVER {
            timetable.push(departs, bytes, packet.flow_number(), false);
            return None;
        }
        if RECORDED {
            let begins = before.max(now);
            let serialisation = Self::serialisation(&self.service, self.transmits_at_once, begins, departs, bytes);
            timetable.keep(Stay { arrival: now, serialisation });
        }
        Some(departs)
    }

    /// Returns when the newest packet of a timetable leaves and how long it is queued, if these are written down.
    pub fn newest_stay(&self) -> Option<(Time, Dur)> {
        let timetable = self.timetable.as_ref()?;
        let (departs, stay) = (timetable.last(), timetable.newest()?);
        Some((departs, departs.since(stay.arrival) - stay.serialisation))
    }

    /// Brings everything that follows from departures by `now` up to date, before code outside reads the link.
    pub fn catch_up(&mut self, now: Time) {
        self.settle(now);
        while let Some(&Befallen { befalls, .. }) = self.befallen.front().filter(|befallen| befallen.departs <= now) {
            self.befallen.pop_front();
            self.wire.count(befalls);
        }
    }

    /// Brings counters, backlog and router of a link with a timetable up to what has happened by `now`.
    #[inline]
    pub fn settle(&mut self, now: Time) {
        if self.timetable.as_ref().is_some_and(|timetable| timetable.next() <= now) {
            self.settle_departures(now);
        }
    }

    /// Apart from the question, whose answer mostly is that nothing has left.
    #[inline(never)]
    fn settle_departures(&mut self, now: Time) {
        let Some(timetable) = &mut self.timetable else { return };
        if self.router.is_none() && !timetable.records() {
            return timetable.settle(now, &mut self.stats);
        }
        while let Some(left) = timetable.leave(now, &mut self.stats) {
            if let Some(router) = &mut self.router {
                let sight = Sight { now: left.at, service: &mut self.service, backlog_bytes: timetable.bytes() };
                self.deferred.leave(left.flow, left.bytes, router, sight);
            }
            if let Left { at: departure, bytes, flow, stay: Some(Stay { arrival, serialisation }) } = left {
                let delivered = Delivered { arrival, departure, serialisation, flow, bytes };
                write_down(delivered, &mut self.log, &mut self.series);
            }
        }
    }

    /// Returns the router's signal in an acknowledgement that reaches `flow`'s sender at `now`, for a link with a timetable.
    /// The acknowledgement carries [`Signal::Later`] with these numbers so far.
    pub fn deferred_signal(&mut self, flow: u32, packets: u32, fresh: u32, now: Time) -> Signal {
        self.settle(now);
        self.deferred.take(flow, packets, fresh)
    }

    /// The packets on a link with a timetable that will arrive in time to be counted, copies too: flow and IP bytes of each.
    pub fn booked(&self) -> impl Iterator<Item = (u32, u32)> {
        let copies = self.befallen.iter().filter(|b| b.counts && b.befalls.copies() > 1).map(|b| (b.flow, b.bytes));
        self.timetable.iter().flat_map(Timetable::counted).chain(copies)
    }

    /// Packets that wait or are in transmission.
    #[must_use]
    pub fn backlog_packets(&self) -> usize {
        if let Some(timetable) = &self.timetable {
            return timetable.packets();
        }
        self.queue.len_packets() + usize::from(self.transmitting().is_some())
    }

    /// IP bytes that wait or are in transmission.
    #[must_use]
    pub fn backlog_bytes(&self) -> u64 {
        if let Some(timetable) = &self.timetable {
            return timetable.bytes();
        }
        self.queue.len_bytes() + u64::from(self.transmitting().unwrap_or(0))
    }

    /// Size of the packet in transmission.
    fn transmitting(&self) -> Option<u32> {
        match &self.queue {
            AnyQueue::DropTail(queue) => queue.serving(),
            AnyQueue::Other(_) => self.transmitting.as_ref().map(Item::bytes),
        }
    }

    /// A packet arrives. Inlined wherever it is made, so that it is written to the queue's ring at once: a copy of fields
    /// that have just been written by themselves waits for all of these writes.
    #[inline(always)]
    pub fn arrive(&mut self, mut packet: T, now: Time) {
        self.stats.arrived_packets += 1;
        if self.router.is_some() {
            packet = self.routed_in(packet, now);
        }
        if let Some(losses) = &mut self.losses {
            if losses.loses(now) {
                self.stats.lost_packets += 1;
                self.write_loss(packet, now);
                return;
            }
            if losses.policer.is_some() && !self.police(&mut packet, now) {
                self.write_policed(packet, now);
                return;
            }
        }
        packet.arrive(now);
        self.queue.enqueue(packet, now, &mut self.drops);
        if !self.drops.is_empty() {
            self.count_drops(now, true);
        }
        if self.departs == Time::NEVER && self.transmitting().is_none() {
            self.begin_idle(now);
        }
    }

    /// Marks a packet beyond the policer's rate, or returns that it is to be dropped.
    #[cold]
    fn police(&mut self, packet: &mut T, now: Time) -> bool {
        let Some(policer) = self.losses.as_mut().and_then(|losses| losses.policer.as_mut()) else { return true };
        if policer.conforms(packet.bytes(), now) || policer.mark(packet) {
            return true;
        }
        policer.policed_packets += 1;
        false
    }

    fn policer(&self) -> Option<&Policer> {
        self.losses.as_ref().and_then(|losses| losses.policer.as_ref())
    }

    /// Returns the number of packets that its policer has dropped.
    #[must_use]
    pub fn policed_packets(&self) -> u64 {
        self.policer().map_or(0, |policer| policer.policed_packets)
    }

    /// Returns the counts of marks, by its queue and by its policer.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.queue.marks() + self.policer().map_or(Marks::default(), |policer| policer.marks)
    }

    /// Returns the queues that its discipline is made of, if it measures them one by one.
    #[must_use]
    pub fn queue_parts(&self) -> &[Part] {
        self.queue.parts()
    }

    #[cold]
    fn write_policed(&mut self, packet: T, now: Time) {
        if let Some(log) = &mut self.log {
            log.policed.push((now, packet.flow_number()));
        }
        if let Some(gone) = &mut self.gone {
            gone.push((packet, Fate::Policed));
        }
    }

    #[cold]
    fn write_loss(&mut self, packet: T, now: Time) {
        if let Some(log) = &mut self.log {
            log.lost.push((now, packet.flow_number()));
        }
        if let Some(gone) = &mut self.gone {
            gone.push((packet, Fate::Lost));
        }
    }

    /// A packet has come to an idle link.
    #[inline(never)]
    fn begin_idle(&mut self, now: Time) {
        self.begin(now, false);
    }

    // The two for routers take and return the packet, so that without a router it stays where the compiler has it.

    #[cold]
    fn routed_in(&mut self, packet: T, now: Time) -> T {
        self.tell_of_arrival(&packet, now);
        packet
    }

    /// Passes an arriving packet to the router.
    #[inline]
    fn tell_of_arrival(&mut self, packet: &T, now: Time) {
        let backlog_bytes = self.backlog_bytes();
        if let Some(router) = &mut self.router {
            let (flow, bytes, signal) = (packet.flow_number(), packet.bytes(), &mut packet.signal());
            router.on_arrival(&Header { flow, bytes, signal }, now, backlog_bytes);
        }
    }

    #[cold]
    fn routed_out(&mut self, mut packet: T, now: Time) -> T {
        let backlog_bytes = self.backlog_bytes();
        if let Some(router) = &mut self.router {
            let mut signal = packet.signal();
            let mut header = Header { flow: packet.flow_number(), bytes: packet.bytes(), signal: &mut signal };
            router.on_departure(&mut header, &mut Sight { now, service: &mut self.service, backlog_bytes });
            packet.set_signal(signal);
        }
        packet
    }

    #[cold]
    fn count_drops(&mut self, now: Time, logged: bool) {
        let mut drops = std::mem::take(&mut self.drops);
        for packet in drops.drain(..) {
            self.stats.dropped_packets += 1;
            self.stats.dropped_bytes += u64::from(packet.bytes());
            self.write_drop(packet, now, logged);
        }
        self.drops = drops;
    }

    /// Writes down that the queue drops a packet, where that is kept.
    fn write_drop(&mut self, packet: T, now: Time, logged: bool) {
        if let Some(log) = self.log.as_mut().filter(|_| logged) {
            log.dropped.push((now, packet.flow_number()));
        }
        if let Some(bin) = self.series.as_mut().and_then(|s| s.at(now)) {
            bin.dropped_packets += 1;
        }
        if let Some(gone) = &mut self.gone {
            gone.push((packet, Fate::Dropped));
        }
    }

    /// Takes the next packet into service.
    #[inline(always)]
    fn begin(&mut self, now: Time, backlogged: bool) {
        let bytes = if self.serves_from_queue {
            self.queue.head_bytes()
        } else if let AnyQueue::DropTail(queue) = &mut self.queue {
            queue.serve()
        } else {
            self.transmitting = self.queue.dequeue(now, &mut self.drops);
            if !self.drops.is_empty() {
                self.count_drops(now, self.logs_late_drops);
            }
            self.transmitting.as_ref().map(Item::bytes)
        };
        (self.departs, self.serialisation) = (Time::NEVER, Dur::ZERO);
        if let Some(bytes) = bytes {
            let head = || match &self.queue {
                AnyQueue::DropTail(queue) => queue.head().map(Carried::arrival),
                AnyQueue::Other(_) => self.transmitting.as_ref().map(Carried::arrival),
            };
            self.departs = self.service.departure(now, bytes, backlogged, || head().unwrap_or(now));
            let at_once = self.transmits_at_once;
            self.serialisation = Self::serialisation(&self.service, at_once, now, self.departs, bytes);
        }
    }

    /// Returns the time of its own transmission of a packet whose service begins at `begins`.
    #[inline(always)]
    fn serialisation(service: &Service, at_once: bool, begins: Time, departs: Time, bytes: u32) -> Dur {
        let time = departs.since(begins);
        if at_once { time } else { service.serialisation(begins, bytes).min(time) }
    }

    /// The packet in service has left; the next one begins. None if the queue dropped what was to leave.
    #[inline]
    pub fn depart(&mut self, now: Time) -> Option<T> {
        let packet = if let AnyQueue::DropTail(queue) = &mut self.queue {
            queue.dequeue(now, &mut self.drops)
        } else if self.serves_from_queue {
            let packet = self.queue.dequeue(now, &mut self.drops);
            if !self.drops.is_empty() {
                self.count_drops(now, self.logs_late_drops);
            }
            packet
        } else {
            self.transmitting.take()
        };
        let serialisation = self.serialisation;
        self.begin(now, true);
        let mut packet = packet?;
        self.stats.delivered_packets += 1;
        self.stats.delivered_bytes += u64::from(packet.bytes());
        if self.router.is_some() {
            packet = self.routed_out(packet, now);
        }
        let delivered = Delivered {
            arrival: packet.arrival(),
            departure: now,
            serialisation,
            flow: packet.flow_number(),
            bytes: packet.bytes(),
        };
        write_down(delivered, &mut self.log, &mut self.series);
        Some(packet)
    }
}

/// Writes down a packet that has left, where that is kept.
#[inline]
fn write_down(packet: Delivered, log: &mut Option<PacketLog>, series: &mut Option<Series<LinkBin>>) {
    if let Some(bin) = series.as_mut().and_then(|series| series.at(packet.departure)) {
        bin.delivered_bytes += u64::from(packet.bytes);
        bin.packets += 1;
        bin.queueing += packet.departure.since(packet.arrival) - packet.serialisation;
    }
    if let Some(log) = log {
        log.delivered.push(packet);
    }
}
