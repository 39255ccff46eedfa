//! Event loop: one scenario in virtual time.
//!
//! A packet's way: sender → queue of its first link → propagation → … → receiver → acknowledgement
//! (a pure delay, or a queue on each link of the return path) → sender. Among events at one time,
//! links come before flows, so that a delivery opportunity is used before the arrivals of the same
//! instant. Of two links or flows, the first comes first.
//!
//! Most links keep a timetable ([`Link::keep_timetable`]): a packet goes to its receiver at once,
//! with the time of its arrival, and causes no later event at the link. The sender looks up a
//! router's signal when the acknowledgement arrives. Results are the same as without.

use std::collections::BTreeMap;
use std::sync::Arc;

use ccarena_cc::{Action, ActionError, Decider, Dur, FlowSetting, Interface, LearnedController, Outside, Signal, Time};
use ccarena_net::Ecn;
use ccarena_net::result::Rows;
use ccarena_net::series::{FlowBin, Series};
use ccarena_net::transmissions::{self, ECN_CAPABLE, Fate, Heard, LOW_LATENCY, REDUCED, Transmission, TransmissionLog};

use crate::arrivals::Arrivals;
use crate::far_end::{FarEnd, OVERTAKEN};
use crate::packet::{Ack, Block, Link, Marks, Packet};
use crate::receiver::Receiver;
use crate::schedule::{Schedule, Turn};
use crate::sender::{Emission, Leaving, Sender};

/// Reason for the return of [`Sim::run_until`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The time is reached.
    Time,
    /// End of a flow's decision interval: an action is due.
    Decision(usize),
}

/// Recorder of a flow in the terms of a spec.
pub(crate) trait Follow: Send + Sync {
    /// Adds a row if a period of the spec has ended. If flow `index` runs the spec itself, one has (`ended`) or not.
    fn follow(&mut self, sim: &mut Sim, index: usize, ended: bool);

    /// Returns its rows.
    fn finish(self: Box<Self>) -> Rows;
}

/// A flow.
pub struct Flow {
    /// Sender of the flow.
    pub sender: Sender,
    pub(crate) far_end: FarEnd,
    pub(crate) path: Vec<u32>,
    /// Total two-way propagation delay.
    pub(crate) base_rtt: Dur,
    /// Times at which the application starts and stops.
    pub(crate) start: Time,
    pub(crate) stop: Time,
    started: bool,
    /// Changes of the flow's settings, the next one last.
    pub(crate) settings: Vec<(Time, FlowSetting)>,

    pub(crate) decider: Option<Decider>,
    /// Decisions made so far.
    pub decisions: u64,
    /// Decisions on what its policy did not see in training.
    pub outside: Outside,
    /// Packets at the ends of the flow, if recorded.
    pub(crate) log: Option<Box<TransmissionLog>>,
    /// One row per decision, if recorded.
    pub reports: Option<Vec<f32>>,
    /// Trajectory in the terms of a spec, if recorded.
    pub(crate) trajectory: Option<Box<dyn Follow>>,
}

impl Flow {
    /// A flow that has not started; everything else is set by the builder.
    pub(crate) fn new(sender: Sender, receiver: Receiver) -> Self {
        Self {
            sender,
            far_end: FarEnd::new(receiver),
            path: Vec::new(),
            base_rtt: Dur::ZERO,
            start: Time::ZERO,
            stop: Time::NEVER,
            started: false,
            settings: Vec::new(),
            decider: None,
            decisions: 0,
            outside: Outside::default(),
            log: None,
            reports: None,
            trajectory: None,
        }
    }

    /// Returns its receiver, which may have taken packets that leave its last link later.
    #[must_use]
    pub fn receiver(&self) -> &Receiver {
        &self.far_end.receiver
    }

    /// Returns the series of what reached the receiver per bin, if it is kept.
    #[must_use]
    pub fn series(&self) -> Option<&Series<FlowBin>> {
        self.far_end.recorder.as_ref().and_then(|recorder| recorder.series.as_ref())
    }

    /// The links that packets like `packet` cross.
    #[inline]
    fn links_of(&self, packet: &Packet) -> &[u32] {
        if packet.is_ack { &self.far_end.return_path } else { &self.path }
    }

    /// A packet has left `link` at `now`: on to the next link, the sender or the receiver. True if it was that.
    #[inline]
    fn forward(&mut self, mut packet: Packet, link: &mut Link, now: Time, end: Time, arrivals: &mut Arrivals) -> bool {
        self.leave(&mut packet, link);
        if link.is_impaired() {
            return self.launch(packet, link, now, end, arrivals);
        }
        if usize::from(packet.hop) < self.links_of(&packet).len() {
            let previous = link.pipe.back().map(|p| p.0);
            let at = link.arrival(now, || previous);
            link.pipe.push_back((at, packet));
            return false;
        }
        let far_end = &self.far_end;
        let previous = if packet.is_ack { far_end.last_ack } else { far_end.last_arrival };
        let at = link.arrival(now, || Some(previous));
        self.arrive(&packet, at, end, arrivals)
    }

    /// A packet has left `link`.
    #[inline]
    fn leave(&mut self, packet: &mut Packet, link: &Link) {
        packet.hop += 1;
        if self.log.is_some() && !packet.is_ack {
            self.log_departure(packet, link);
        }
    }

    /// The same over the impaired wire of `link`. Packets in propagation to a further link are sorted by arrival.
    #[cold]
    fn launch(&mut self, packet: Packet, link: &mut Link, now: Time, end: Time, arrivals: &mut Arrivals) -> bool {
        let flight = link.launch(&packet, now);
        let is_last = usize::from(packet.hop) == self.links_of(&packet).len();
        if flight.befalls.corrupted {
            link.discard(packet);
        } else if !is_last {
            let behind = link.pipe.partition_point(|flying| flying.0 <= flight.at);
            for _ in 0..flight.befalls.copies() {
                link.pipe.insert(behind, (flight.at, packet));
            }
        } else if packet.is_ack {
            self.far_end.returned(&packet, flight.at, flight.befalls.copies(), arrivals);
        } else {
            if self.log.is_some() && flight.at < end {
                self.log_arrival(&packet, flight.at);
            }
            self.far_end.land(&packet, flight, end, arrivals);
        }
        is_last && !packet.is_ack
    }

    /// A packet reaches the end of its path at `at`. Returns whether the receiver is there.
    #[inline]
    fn arrive(&mut self, packet: &Packet, at: Time, end: Time, arrivals: &mut Arrivals) -> bool {
        if packet.is_ack {
            self.far_end.returned(packet, at, 1, arrivals);
            return false;
        }
        if self.log.is_some() && at < end {
            self.log_arrival(packet, at);
        }
        self.far_end.receive(packet, at, end, arrivals);
        true
    }

    /// Writes down how long a packet that has just left `link` was queued there.
    #[cold]
    fn log_departure(&mut self, packet: &Packet, link: &Link) {
        let left = link.log.as_ref().and_then(|log| log.delivered.last());
        let row = self.log.as_mut().and_then(|log| log.find(packet.sent, packet.seq));
        if let (Some(left), Some(row)) = (left, row) {
            row.queueing += left.departure.since(left.arrival) - left.serialisation;
        }
    }

    #[cold]
    fn log_arrival(&mut self, packet: &Packet, at: Time) {
        let row = self.log.as_mut().and_then(|log| log.find(packet.sent, packet.seq));
        // A second copy changes nothing.
        if let Some(row) = row.filter(|row| row.arrived == Time::ZERO) {
            row.arrived = at;
            row.fate = fate(packet);
        }
    }

    #[cold]
    fn log_ack(&mut self, ack: &Ack, blocks: &[Block], now: Time) {
        if let Some(log) = &mut self.log {
            let flags = if ack.marks == Marks::ECHO { transmissions::ECHO } else { 0 };
            let Ack { echo, cumulative, sacked, .. } = *ack;
            log.acks.push(Heard { time: now, echo, cumulative, sacked, flags });
            log.blocks.extend(blocks.iter().take(usize::from(sacked)));
        }
    }

    /// Passes the next acknowledgement that has arrived by `now` to the sender. False if there is none.
    #[inline]
    fn hear(&mut self, index: u32, now: Time, arrivals: &mut Arrivals, links: &mut [Link]) -> bool {
        let way = self.far_end.way;
        if let Some((ack, blocks)) = arrivals.front(way, index, now) {
            self.take(index, ack, blocks, now, links);
            arrivals.take(way);
            return true;
        }
        !self.far_end.late_acks.is_empty() && self.hear_late(index, now, links)
    }

    #[cold]
    fn hear_late(&mut self, index: u32, now: Time, links: &mut [Link]) -> bool {
        let due = self.far_end.late_acks.front().is_some_and(|late| late.0 <= now);
        if due {
            if let Some((_, ack, blocks)) = self.far_end.late_acks.pop_front() {
                self.take(index, &ack, &blocks, now, links);
            }
        }
        due
    }

    /// The sender takes an acknowledgement, once the router of a link with a timetable has written its signal.
    #[inline(always)]
    fn take(&mut self, index: u32, ack: &Ack, blocks: &[Block], now: Time, links: &mut [Link]) {
        let signal = match ack.signal {
            Signal::Later { packets, fresh } => {
                links[self.path[0] as usize].deferred_signal(index, packets, fresh, now)
            }
            said => said,
        };
        if self.log.is_some() {
            self.log_ack(ack, blocks, now);
        }
        self.sender.on_ack(ack, blocks, signal, now);
    }

    /// Returns the time of the next event here that is not among the [`Arrivals`].
    #[inline]
    fn next_time(&self) -> Time {
        let own = if self.started { self.sender.next_timer() } else { self.start };
        let mut next = own.min(self.far_end.next_answer());
        if let Some(change) = self.settings.last() {
            next = next.min(change.0);
        }
        next
    }
}

/// A running scenario.
pub struct Sim {
    now: Time,
    link_turns: Schedule,
    /// A flow's turn may come before it has anything to do, but not after: timers move with every acknowledgement, mostly
    /// away, and most never fire.
    flow_turns: Schedule,
    arrivals: Arrivals,
    pub(crate) links: Vec<Link>,
    pub(crate) flows: Vec<Flow>,
    /// Data packets that have left their last links, those with timetables apart.
    forwarded_packets: u64,
    decision: Option<usize>,
    /// A flow that waits for an action before it sends.
    unsent: Option<usize>,
    /// The end of the scenario.
    end: Time,
}

impl Sim {
    pub(crate) fn from_parts(mut links: Vec<Link>, mut flows: Vec<Flow>, end: Time) -> Self {
        let mut flow_turns = Schedule::new(flows.len());
        // Acknowledgements that come from one link and are delayed alike keep their order.
        let mut ways = BTreeMap::new();
        for (i, flow) in flows.iter_mut().enumerate() {
            let FarEnd { return_path, return_delay, .. } = &flow.far_end;
            let (last, delay) =
                if return_path.is_empty() { (&flow.path, *return_delay) } else { (return_path, Dur::ZERO) };
            let next = ways.len();
            flow.far_end.way = *ways.entry((last.last().copied(), delay)).or_insert(next);
            flow_turns.set(i, Turn::new(flow.next_time(), i as u32));
        }
        for flow in &mut flows {
            let FarEnd { return_path, overtaken, .. } = &mut flow.far_end;
            if return_path.iter().any(|&link| links[link as usize].is_impaired()) {
                *overtaken = OVERTAKEN;
            }
        }
        for (index, link) in links.iter_mut().enumerate() {
            // Deferred signals are looked up in the order of acknowledgements.
            let in_order = |flow: &Flow| flow.path[0] as usize != index || flow.far_end.overtaken == 0;
            if leads_nowhere_else(&flows, index as u32) && (!link.is_routed() || flows.iter().all(in_order)) {
                link.keep_timetable();
            }
        }
        Self {
            now: Time::ZERO,
            link_turns: Schedule::new(links.len()),
            flow_turns,
            arrivals: Arrivals::new(ways.len()),
            links,
            flows,
            forwarded_packets: 0,
            decision: None,
            unsent: None,
            end,
        }
    }

    /// Virtual time.
    #[must_use]
    pub fn now(&self) -> Time {
        self.now
    }

    /// The flows.
    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// The links.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// IP bytes of each flow that have left its last link and reach the receiver before the end of the scenario.
    #[must_use]
    pub fn wire_bytes(&self) -> Vec<u64> {
        let mut bytes: Vec<u64> = self.flows.iter().map(|flow| flow.far_end.wire_bytes).collect();
        for (flow, booked) in self.links.iter().flat_map(Link::booked) {
            bytes[flow as usize] -= u64::from(booked);
        }
        bytes
    }

    /// Data packets that have left their last links, for throughput figures of the simulator itself.
    #[must_use]
    pub fn data_packets(&self) -> u64 {
        let booked = self.links.iter().filter(|link| link.keeps_timetable());
        self.forwarded_packets + booked.map(|link| link.stats.delivered_packets).sum::<u64>()
    }

    /// The flows for which the caller decides.
    #[must_use]
    pub fn learners(&self) -> Vec<usize> {
        let callers = |f: &Flow| matches!(f.decider, Some(Decider::Outside));
        self.flows.iter().enumerate().filter(|(_, f)| callers(f)).map(|(i, _)| i).collect()
    }

    pub(crate) fn learned(&mut self, flow: usize) -> Option<&mut dyn LearnedController> {
        self.flows.get_mut(flow)?.sender.controller().learned()
    }

    /// Returns the observation, report and actions of a learned flow.
    pub fn interface(&mut self, flow: usize) -> Option<Arc<Interface>> {
        self.learned(flow).map(|l| Arc::clone(l.interface()))
    }

    /// Writes what a learned flow observes.
    pub fn observe(&mut self, flow: usize, out: &mut [f32]) {
        if let Some(learned) = self.learned(flow) {
            learned.observe(out);
        }
    }

    /// Writes a learned flow's last report.
    pub fn report(&mut self, flow: usize, out: &mut [f32]) {
        if let Some(learned) = self.learned(flow) {
            learned.report(out);
        }
    }

    /// Puts an action in force for a learned flow. Takes effect before anything else happens.
    ///
    /// # Errors
    /// If the action is refused; the one before stays in force.
    pub fn act(&mut self, flow: usize, action: Action) -> Result<(), ActionError> {
        let now = self.now;
        self.learned(flow).map_or(Ok(()), |learned| learned.act(action, now))
    }

    /// Ends a learned flow's decision interval with what it has measured so far.
    pub fn end_interval(&mut self, flow: usize) {
        let now = self.now;
        if let Some(learned) = self.learned(flow) {
            learned.end_interval(now);
        }
    }

    /// Takes the packet log of a link, if one was kept.
    pub fn take_log(&mut self, link: usize) -> Option<ccarena_net::link::PacketLog> {
        self.links.get_mut(link)?.log.take()
    }

    /// Runs until `end` (events at `end` itself excluded) or until a decision of the caller is due.
    pub fn run_until(&mut self, end: Time) -> Stop {
        let stop = self.run_events(end);
        let past = match stop {
            Stop::Time => Time(end.0.saturating_sub(1)),
            Stop::Decision(_) => self.now,
        };
        for link in &mut self.links {
            link.catch_up(past);
        }
        stop
    }

    fn run_events(&mut self, end: Time) -> Stop {
        if let Some(flow) = self.unsent.take() {
            self.flows[flow].sender.read_controller();
            self.send(flow);
            self.expect(flow, self.flows[flow].next_time());
        }
        loop {
            let (link, flow, ack) = (self.link_turns.next(), self.flow_turns.next(), self.arrivals.next());
            let at = link.at().min(flow.min(ack).at());
            if at >= end {
                self.now = self.now.max(end);
                return Stop::Time;
            }
            self.now = at;
            if link.at() == at {
                self.run_link(link.actor());
            } else {
                if ack < flow {
                    self.run_ack(ack.actor());
                } else {
                    self.run_flow(flow.actor());
                }
                if let Some(flow) = self.decision.take() {
                    return Stop::Decision(flow);
                }
            }
        }
    }

    /// A flow has something to do at `next`: sets its turn if it has had it or needs it earlier.
    #[inline]
    fn expect(&mut self, index: usize, next: Time) {
        let set = self.flow_turns.get(index).at();
        if next < set || set <= self.now {
            self.flow_turns.set(index, Turn::new(next, index as u32));
        }
    }

    #[inline]
    fn run_link(&mut self, index: usize) {
        let link = &mut self.links[index];
        if link.departs() <= self.now {
            if let Some(packet) = link.depart(self.now) {
                let number = packet.flow;
                let flow = &mut self.flows[number as usize];
                self.forwarded_packets += u64::from(flow.forward(packet, link, self.now, self.end, &mut self.arrivals));
                self.expect_answer(number);
            }
        }
        let link = &self.links[index];
        let mut next = link.departs();
        if !link.pipe.is_empty() {
            self.drain_pipe(index);
            next = self.links[index].next_time();
        }
        self.link_turns.set(index, Turn::new(next, index as u32));
    }

    /// The receiver of flow `index` may have something to send.
    #[inline]
    fn expect_answer(&mut self, index: u32) {
        let next = self.flows[index as usize].far_end.next_answer();
        if next < self.flow_turns.get(index as usize).at() {
            self.flow_turns.set(index as usize, Turn::new(next, index));
        }
    }

    /// Passes packets that have propagated from link `index` to further links.
    fn drain_pipe(&mut self, index: usize) {
        while let Some(&(at, packet)) = self.links[index].pipe.front() {
            if at > self.now {
                break;
            }
            self.links[index].pipe.pop_front();
            self.enter(packet);
        }
    }

    /// A packet reaches the queue of the link at its hop.
    #[inline]
    fn enter(&mut self, packet: Packet) {
        let link = self.flows[packet.flow as usize].links_of(&packet)[usize::from(packet.hop)] as usize;
        self.links[link].arrive(packet, self.now);
        self.link_turns.set(link, Turn::new(self.links[link].next_time(), link as u32));
    }

    /// An acknowledgement reaches flow `index`, whose turn for anything else comes later: only the sender's timers change,
    /// and the receiver's, if it takes at once what is sent.
    fn run_ack(&mut self, index: usize) {
        let heard = self.hear(index);
        let flow = &self.flows[index];
        let next = flow.sender.next_timer();
        if heard && next <= self.now {
            // Timers follow whatever else arrives now.
            self.run_flow(index);
        } else {
            let next = next.min(flow.far_end.next_answer());
            self.expect(index, next);
        }
    }

    /// Passes what has arrived to flow `index`, one acknowledgement after the other.
    #[inline(never)]
    fn hear_all(&mut self, index: usize) {
        while self.hear(index) {}
    }

    /// Passes the next arrived acknowledgement to flow `index`, which sends what that allows. False if there is none,
    /// or if an action has to be known before it sends.
    #[inline(always)]
    fn hear(&mut self, index: usize) -> bool {
        let flow = &mut self.flows[index];
        if !flow.hear(index as u32, self.now, &mut self.arrivals, &mut self.links) {
            return false;
        }
        if flow.trajectory.is_some() {
            self.follow(index, false);
        }
        if self.flows[index].decider.is_some() && self.decide(index) {
            // What this acknowledgement allows is sent once the action is known.
            self.unsent = Some(index);
            return false;
        }
        self.send(index);
        true
    }

    fn run_flow(&mut self, index: usize) {
        let now = self.now;
        if !self.flows[index].started && self.flows[index].start <= now {
            self.start(index);
        }
        let flow = &mut self.flows[index];
        while flow.settings.last().is_some_and(|w| w.0 <= now) {
            if let Some((_, setting)) = flow.settings.pop() {
                setting.apply(flow.sender.controller());
            }
        }
        flow.far_end.settle(index as u32, now, self.end, &mut self.arrivals);
        self.hear_all(index);
        if !self.flows[index].far_end.returning.is_empty() {
            self.return_acks(index);
        }
        let mut next = self.flows[index].next_time();
        if next <= now {
            self.run_timers(index);
            next = self.flows[index].next_time();
        }
        self.expect(index, next);
    }

    /// A flow's timers that are due, unless an action has to be known first.
    fn run_timers(&mut self, index: usize) {
        let (now, flow) = (self.now, &mut self.flows[index]);
        if flow.started && flow.sender.next_timer() <= now && self.unsent.is_none() {
            let asks = flow.decider.is_some() && flow.stop > now && flow.sender.on_controller_timer(now);
            if asks && self.decide(index) {
                // Other timers that are due follow once the action is known.
                self.unsent = Some(index);
            } else {
                self.drive(index, true);
            }
            if self.flows[index].trajectory.is_some() {
                self.follow(index, false);
            }
        }
    }

    /// Acknowledgements of flow `index` reach the first link of their return path.
    fn return_acks(&mut self, index: usize) {
        while let Some(&(at, packet)) = self.flows[index].far_end.returning.front() {
            if at > self.now {
                break;
            }
            self.flows[index].far_end.returning.pop_front();
            self.enter(packet);
        }
    }

    fn start(&mut self, index: usize) {
        let now = self.now;
        let flow = &mut self.flows[index];
        flow.started = true;
        flow.sender.on_app(now);
        // The first action precedes the first packet; the caller gives its own before the run begins.
        self.answer(index);
        self.send(index);
    }

    /// True if the caller has to decide.
    #[inline]
    fn decide(&mut self, index: usize) -> bool {
        let flow = &mut self.flows[index];
        let due = flow.sender.controller().learned().is_some_and(|l| l.take_decision());
        if !due {
            return false;
        }
        flow.decisions += 1;
        if let Some(rows) = &mut flow.reports {
            if let Some(learned) = flow.sender.controller().learned() {
                let at = rows.len();
                rows.resize(at + learned.interface().report.len(), 0.0);
                learned.report(&mut rows[at..]);
            }
        }
        // The interval's end may have changed the window.
        flow.sender.read_controller();
        if flow.trajectory.is_some() {
            self.follow(index, true);
        }
        if self.answer(index) {
            let Flow { decider, outside, .. } = &mut self.flows[index];
            if let Some(decider) = decider {
                outside.count(decider);
            }
            return false;
        }
        self.decision = Some(index);
        true
    }

    /// Asks the flow's decider. False if it is the caller who decides.
    fn answer(&mut self, index: usize) -> bool {
        let now = self.now;
        let Flow { sender, decider, .. } = &mut self.flows[index];
        let (Some(decider), Some(learned)) = (decider, sender.controller().learned()) else { return true };
        let decided = decider.decide(learned, now);
        if decided {
            sender.read_controller();
        }
        decided
    }

    /// Lets the recorder of flow `index` add a row.
    #[cold]
    fn follow(&mut self, index: usize, ended: bool) {
        let Some(mut recorder) = self.flows[index].trajectory.take() else { return };
        recorder.follow(self, index, ended);
        self.flows[index].trajectory = Some(recorder);
    }

    /// Returns a flow, to be changed.
    pub(crate) fn flow_mut(&mut self, index: usize) -> &mut Flow {
        &mut self.flows[index]
    }

    fn send(&mut self, index: usize) {
        self.drive(index, false);
    }

    /// Lets a sender send, and before that handle its timers if they are due; what it emits enters its first link.
    #[inline]
    fn drive(&mut self, index: usize, timers: bool) {
        let Self { flows, links, link_turns, arrivals, now, end, .. } = self;
        let flow = &mut flows[index];
        if flow.stop <= *now {
            // A stopped flow sends nothing more; what is under way drains.
            flow.sender.stop();
            return;
        }
        let first = flow.path[0] as usize;
        let (link, Flow { sender, far_end, log, .. }) = (&mut links[first], flow);
        let probe = if timers { sender.on_timer(*now) } else { None };
        match (link.keeps_timetable(), link.is_special()) {
            (true, false) => sender.send(*now, probe, booker::<false>(link, index, far_end, *now, *end, arrivals)),
            (true, true) if link.records() => {
                let send = if link.is_routed() { send_recorded::<true> } else { send_recorded::<false> };
                send(sender, probe, log, link, index, far_end, *now, *end, arrivals);
            }
            (true, true) if link.is_routed() => {
                sender.send(*now, probe, booker::<true>(link, index, far_end, *now, *end, arrivals));
            }
            (true, true) => sender.send(*now, probe, launcher(link, index, far_end, *now, *end, arrivals)),
            (false, _) => {
                match log {
                    Some(log) => sender.send(*now, probe, logger(log, link, index, far_end.header_bytes, *now)),
                    None => sender.send(*now, probe, emitter(link, index, far_end.header_bytes, *now)),
                }
                link_turns.set(first, Turn::new(links[first].next_time(), first as u32));
            }
        }
    }
}

/// Nothing that crosses link `index` goes on to another link: it is the whole path of every flow that sends over it, and on
/// no return path. When a packet leaves it then matters to that packet's receiver alone.
fn leads_nowhere_else(flows: &[Flow], index: u32) -> bool {
    let apart = |flow: &Flow| !flow.path.contains(&index) && !flow.far_end.return_path.contains(&index);
    let whole = |flow: &Flow| flow.path == [index] && !flow.far_end.return_path.contains(&index);
    flows.iter().all(|flow| apart(flow) || whole(flow))
}

/// Returns a function that puts the sender's segments into the first link of its path.
#[inline]
fn emitter(link: &mut Link, flow: usize, header_bytes: u32, now: Time) -> impl FnMut(Emission) {
    move |e: Emission| link.arrive(packet(&e, flow, header_bytes, now), now)
}

/// The same, and writes each segment down.
fn logger(
    log: &mut TransmissionLog,
    link: &mut Link,
    flow: usize,
    header_bytes: u32,
    now: Time,
) -> impl FnMut(Emission) {
    move |e: Emission| {
        let packet = packet(&e, flow, header_bytes, now);
        log.packets.push(transmission(&e, &packet));
        link.arrive(packet, now);
    }
}

/// Sends into a link with a timetable that writes packets down, and writes each segment into the flow's `log`, if it has
/// one. The timetable tells at once when a packet leaves and arrives: before the `end`, or it is still under way.
///
/// Apart from senders whose packets nobody writes down: with it, their code is slower.
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "the parts of a simulation that are borrowed at once")]
fn send_recorded<const ROUTED: bool>(
    sender: &mut Sender,
    probe: Option<Leaving>,
    log: &mut Option<Box<TransmissionLog>>,
    link: &mut Link,
    flow: usize,
    far_end: &mut FarEnd,
    now: Time,
    end: Time,
    arrivals: &mut Arrivals,
) {
    sender.send(now, probe, |e: Emission| {
        let mut packet = packet(&e, flow, far_end.header_bytes, now);
        let arrives = link.book::<ROUTED, true>(&mut packet, now, far_end.last_arrival, end);
        if let Some(log) = log {
            let mut row = transmission(&e, &packet);
            if let (Some(at), Some((departs, queueing))) = (arrives, link.newest_stay()) {
                row.queueing = if departs < end { queueing } else { Dur::ZERO };
                if at < end {
                    (row.arrived, row.fate) = (at, fate(&packet));
                }
            }
            log.packets.push(row);
        }
        if let Some(at) = arrives {
            far_end.receive_here::<ROUTED>(&packet, at, end, arrivals);
        }
    });
}

/// Returns the row of a segment that is sent.
fn transmission(e: &Emission, packet: &Packet) -> Transmission {
    let (capable, reduced) = (u8::from(e.ecn.is_capable()) * ECN_CAPABLE, u8::from(e.reduced) * REDUCED);
    let low_latency = u8::from(e.ecn == Ecn::Ect1) * LOW_LATENCY;
    Transmission {
        sent: packet.sent,
        arrived: Time::ZERO,
        queueing: Dur::ZERO,
        sequence: packet.seq,
        bytes: packet.bytes,
        fate: Fate::UnderWay,
        flags: capable | reduced | low_latency,
    }
}

/// Returns the fate of a packet that arrives.
fn fate(packet: &Packet) -> Fate {
    if packet.ecn == Ecn::Ce { Fate::Marked } else { Fate::Delivered }
}

/// Returns a function that books the sender's segments on the only link of its path and passes them
/// to the receiver. The link has a router if `ROUTED`.
#[inline]
fn booker<'a, const ROUTED: bool>(
    link: &'a mut Link,
    flow: usize,
    far_end: &'a mut FarEnd,
    now: Time,
    end: Time,
    arrivals: &'a mut Arrivals,
) -> impl FnMut(Emission) + 'a {
    move |e: Emission| {
        let mut packet = packet(&e, flow, far_end.header_bytes, now);
        if let Some(at) = link.book::<ROUTED, false>(&mut packet, now, far_end.last_arrival, end) {
            far_end.receive_here::<ROUTED>(&packet, at, end, arrivals);
        }
    }
}

/// The same for a link with an impaired wire.
#[inline]
fn launcher<'a>(
    link: &'a mut Link,
    flow: usize,
    far_end: &'a mut FarEnd,
    now: Time,
    end: Time,
    arrivals: &'a mut Arrivals,
) -> impl FnMut(Emission) + 'a {
    move |e: Emission| {
        let mut packet = packet(&e, flow, far_end.header_bytes, now);
        if let Some(flight) = link.book_impaired(&mut packet, now, end) {
            far_end.land(&packet, flight, end, arrivals);
        }
    }
}

#[inline(always)]
fn packet(e: &Emission, flow: usize, header_bytes: u32, now: Time) -> Packet {
    Packet {
        arrival: now,
        sent: now,
        rtt: e.rtt,
        signal: e.signal,
        flow: flow as u32,
        seq: e.seq,
        bytes: e.payload + header_bytes,
        hop: 0,
        is_ack: false,
        ecn: e.ecn,
        flags: (u8::from(e.reduced) * Packet::REDUCED) | (u8::from(e.pushed) * Packet::PUSH),
    }
}
