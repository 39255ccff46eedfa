//! The event loop: one scenario in virtual time.
//!
//! A packet's way: sender → queue of its first link → propagation → … → receiver → acknowledgement (a pure delay, or a
//! queue on each link of the return path) → sender. Of what happens at one time, links come before flows, so that a
//! delivery opportunity is used before the arrivals of the same instant, and of two links or flows the first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use ccarena_cc::{Action, ActionError, Decider, Dur, LearnedController, LearnedSpec, Signal, Time};
use ccarena_net::scenario::Want;
use ccarena_net::series::{FlowBin, Series};

use crate::arrivals::Arrivals;
use crate::packet::{Ack, Ecn, Link, Packet};
use crate::receiver::Receiver;
use crate::rtt::RoundTrip;
use crate::schedule::{Schedule, Turn};
use crate::sender::{Emission, Sender};

/// Why [`Sim::run_until`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The time is reached.
    Time,
    /// This flow's decision interval has ended: an action is due.
    Decision(usize),
}

/// A flow and what is on its way outside links.
pub struct Flow {
    /// Its sender.
    pub sender: Sender,
    /// Its receiver.
    pub receiver: Receiver,
    pub(crate) path: Vec<u32>,
    pub(crate) return_path: Vec<u32>,
    /// Total two-way propagation delay.
    pub(crate) base_rtt: Dur,
    /// From the receiver to the sender, or to the first link of the return path.
    pub(crate) return_delay: Dur,
    pub(crate) header_bytes: u32,
    pub(crate) ack_bytes: u32,
    /// When the application starts and stops.
    pub(crate) start: Time,
    pub(crate) stop: Time,
    started: bool,
    /// Which of the [`Arrivals`] its acknowledgements take.
    way: usize,
    /// Acknowledgements that the arrivals have not taken, in order.
    late_acks: VecDeque<(Time, Ack)>,
    /// When the last acknowledgement reached, or will reach, the sender.
    last_ack: Time,
    /// Acknowledgements on the return path's links, in order; their packets carry numbers from `first_ack` on.
    acks_returning: VecDeque<Ack>,
    first_ack: u32,
    /// Acknowledgements on their way to the first link of the return path.
    returning: VecDeque<(Time, Packet)>,
    /// Changes of what the application wants, the next one last.
    pub(crate) wants: Vec<(Time, Want)>,

    pub(crate) decider: Option<Decider>,
    /// Decisions made so far.
    pub decisions: u64,
    /// One row per decision, if recorded.
    pub reports: Option<Vec<f32>>,
    /// IP bytes that reached the receiver.
    pub wire_bytes: u64,
    /// What reached the receiver per bin, if that is kept.
    pub series: Option<Series<FlowBin>>,
    /// When the last data segment reached, or will reach, the receiver.
    last_arrival: Time,
}

impl Flow {
    /// A flow that has not started; everything else is set by the builder.
    pub(crate) fn new(sender: Sender, receiver: Receiver) -> Self {
        Self {
            sender,
            receiver,
            path: Vec::new(),
            return_path: Vec::new(),
            base_rtt: Dur::ZERO,
            return_delay: Dur::ZERO,
            header_bytes: 52,
            ack_bytes: 52,
            start: Time::ZERO,
            stop: Time::NEVER,
            started: false,
            way: 0,
            late_acks: VecDeque::new(),
            last_ack: Time::ZERO,
            acks_returning: VecDeque::new(),
            first_ack: 0,
            returning: VecDeque::new(),
            wants: Vec::new(),
            decider: None,
            decisions: 0,
            reports: None,
            wire_bytes: 0,
            series: None,
            last_arrival: Time::ZERO,
        }
    }

    /// The links that packets like `packet` cross.
    #[inline]
    fn links_of(&self, packet: &Packet) -> &[u32] {
        if packet.is_ack { &self.return_path } else { &self.path }
    }

    /// A packet has left `link` at `now`: on to the next link, the sender or the receiver. True if it was that.
    #[inline]
    fn forward(&mut self, mut packet: Packet, link: &mut Link, now: Time, end: Time, arrivals: &mut Arrivals) -> bool {
        packet.hop += 1;
        if usize::from(packet.hop) < self.links_of(&packet).len() {
            let previous = link.pipe.back().map(|p| p.0);
            let at = link.arrival(now, || previous);
            link.pipe.push_back((at, packet));
            return false;
        }
        if packet.is_ack {
            let at = link.arrival(now, || Some(self.last_ack));
            // Those before it were dropped on the way.
            let skipped = packet.seq.wrapping_sub(self.first_ack) as usize;
            self.acks_returning.drain(..skipped.min(self.acks_returning.len()));
            self.first_ack = packet.seq.wrapping_add(1);
            if let Some(ack) = self.acks_returning.pop_front() {
                self.await_ack(packet.flow, at, ack, arrivals);
            }
            return false;
        }
        let at = link.arrival(now, || Some(self.last_arrival));
        self.receive(&packet, at, end, arrivals);
        true
    }

    /// A data packet has left the last link and will arrive at `at`. A receiver acts on arrivals and on its own timer
    /// alone, so it takes the packet now, in its future; what arrives after the run's `end` is not in the results.
    #[inline]
    fn receive(&mut self, packet: &Packet, at: Time, end: Time, arrivals: &mut Arrivals) {
        self.acknowledge_late(packet.flow, at, arrivals);
        let mut payload = packet.bytes - self.header_bytes;
        if at < end {
            self.wire_bytes += u64::from(packet.bytes);
        } else {
            payload = 0;
        }
        self.last_arrival = at;
        let before = self.receiver.goodput_bytes;
        if let Some(ack) = self.receiver.on_data(packet, payload, at) {
            self.send_ack(packet.flow, ack, at, arrivals);
        }
        if let Some(bin) = self.series.as_mut().and_then(|s| s.at(at)) {
            bin.wire_bytes += u64::from(packet.bytes);
            bin.payload_bytes += self.receiver.goodput_bytes - before;
        }
    }

    /// A delayed acknowledgement leaves if it is due by `now`.
    #[inline]
    fn acknowledge_late(&mut self, index: u32, now: Time, arrivals: &mut Arrivals) {
        if self.receiver.ack_due <= now {
            self.acknowledge_due(index, arrivals);
        }
    }

    #[cold]
    fn acknowledge_due(&mut self, index: u32, arrivals: &mut Arrivals) {
        let due = self.receiver.ack_due;
        let ack = self.receiver.on_timer();
        self.send_ack(index, ack, due, arrivals);
    }

    /// The receiver's acknowledgement starts its way back.
    #[inline(always)]
    fn send_ack(&mut self, index: u32, ack: Ack, now: Time, arrivals: &mut Arrivals) {
        let at = now + self.return_delay;
        if self.return_path.is_empty() {
            self.await_ack(index, at, ack, arrivals);
        } else {
            self.return_ack(index, ack, now, at);
        }
    }

    /// The acknowledgement will reach the first link of the return path at `at`.
    #[inline(never)]
    fn return_ack(&mut self, index: u32, ack: Ack, now: Time, at: Time) {
        let slot = self.first_ack.wrapping_add(self.acks_returning.len() as u32);
        self.acks_returning.push_back(ack);
        // 8 bytes per selectively acknowledged block and 4 for the option's head (RFC 2018 §3).
        let blocks = u32::from(ack.sacked);
        let bytes = self.ack_bytes + if blocks > 0 { 4 + 8 * blocks } else { 0 };
        let packet = Packet {
            arrival: now,
            sent: now,
            rtt: RoundTrip::UNKNOWN,
            signal: Signal::None,
            flow: index,
            seq: slot,
            bytes,
            hop: 0,
            is_ack: true,
            ecn: Ecn::NotCapable,
            reduced: false,
        };
        self.returning.push_back((at, packet));
    }

    /// The acknowledgement will reach the sender at `at`.
    #[inline(always)]
    fn await_ack(&mut self, index: u32, at: Time, ack: Ack, arrivals: &mut Arrivals) {
        self.last_ack = at;
        if !arrivals.push(self.way, index, at, ack) {
            self.late_acks.push_back((at, ack));
        }
    }

    /// The sender hears the next acknowledgement that has reached it by `now`. False if there is none.
    #[inline]
    fn hear(&mut self, index: u32, now: Time, arrivals: &mut Arrivals) -> bool {
        if let Some(ack) = arrivals.front(self.way, index, now) {
            self.sender.on_ack(ack, now);
            arrivals.take(self.way);
            return true;
        }
        !self.late_acks.is_empty() && self.hear_late(now)
    }

    #[cold]
    fn hear_late(&mut self, now: Time) -> bool {
        let due = self.late_acks.front().is_some_and(|late| late.0 <= now);
        if due {
            if let Some((_, ack)) = self.late_acks.pop_front() {
                self.sender.on_ack(&ack, now);
            }
        }
        due
    }

    /// When the next acknowledgement leaves the receiver or is due that is not among the [`Arrivals`].
    #[inline]
    fn next_answer(&self) -> Time {
        let mut next = self.receiver.ack_due;
        if let Some(late) = self.late_acks.front() {
            next = next.min(late.0);
        }
        if let Some(returning) = self.returning.front() {
            next = next.min(returning.0);
        }
        next
    }

    /// When something is due here that is not among the [`Arrivals`].
    #[inline]
    fn next_time(&self) -> Time {
        let own = if self.started { self.sender.next_timer() } else { self.start };
        let mut next = own.min(self.next_answer());
        if let Some(change) = self.wants.last() {
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
    /// Data packets that reached their receivers, for throughput figures of the simulator itself.
    pub data_packets: u64,
    decision: Option<usize>,
    /// A flow that waits for an action before it sends.
    unsent: Option<usize>,
    /// The end of the scenario.
    end: Time,
}

impl Sim {
    pub(crate) fn from_parts(links: Vec<Link>, mut flows: Vec<Flow>, end: Time) -> Self {
        let mut flow_turns = Schedule::new(flows.len());
        // Acknowledgements that come from one link and are delayed alike keep their order.
        let mut ways = BTreeMap::new();
        for (i, flow) in flows.iter_mut().enumerate() {
            let last = if flow.return_path.is_empty() { &flow.path } else { &flow.return_path };
            let delay = if flow.return_path.is_empty() { flow.return_delay } else { Dur::ZERO };
            let next = ways.len();
            flow.way = *ways.entry((last.last().copied(), delay)).or_insert(next);
            flow_turns.set(i, Turn::new(flow.next_time(), i as u32));
        }
        Self {
            now: Time::ZERO,
            link_turns: Schedule::new(links.len()),
            flow_turns,
            arrivals: Arrivals::new(ways.len()),
            links,
            flows,
            data_packets: 0,
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

    /// A flow, to read its controller or put an action in force.
    pub fn flow_mut(&mut self, flow: usize) -> Option<&mut Flow> {
        self.flows.get_mut(flow)
    }

    /// The links.
    #[must_use]
    pub fn links(&self) -> &[Link] {
        &self.links
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

    /// What a learned flow observes, reports and takes.
    pub fn spec(&mut self, flow: usize) -> Option<Arc<LearnedSpec>> {
        self.learned(flow).map(|l| Arc::clone(l.spec()))
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
                let index = packet.flow as usize;
                let flow = &mut self.flows[index];
                self.data_packets += u64::from(flow.forward(packet, link, self.now, self.end, &mut self.arrivals));
                let next = flow.next_answer();
                if next < self.flow_turns.get(index).at() {
                    self.flow_turns.set(index, Turn::new(next, packet.flow));
                }
            }
        }
        let mut next = link.departs();
        if !link.pipe.is_empty() {
            self.drain_pipe(index);
            next = self.links[index].next_time();
        }
        self.link_turns.set(index, Turn::new(next, index as u32));
    }

    /// What has propagated from link `index` to further links reaches them.
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

    /// An acknowledgement reaches flow `index`, whose turn for anything else comes later: only the sender's timers change.
    fn run_ack(&mut self, index: usize) {
        let heard = self.hear(index);
        let next = self.flows[index].sender.next_timer();
        if heard && next <= self.now {
            // Timers follow whatever else arrives now.
            self.run_flow(index);
        } else {
            self.expect(index, next);
        }
    }

    /// Flow `index` hears the next acknowledgement that has reached it and sends what that allows. False if there is none,
    /// or if an action has to be known before it sends.
    #[inline]
    fn hear(&mut self, index: usize) -> bool {
        let flow = &mut self.flows[index];
        if !flow.hear(index as u32, self.now, &mut self.arrivals) {
            return false;
        }
        if flow.decider.is_some() && self.decide(index) {
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
        while flow.wants.last().is_some_and(|w| w.0 <= now) {
            if let Some((_, want)) = flow.wants.pop() {
                want.tell(flow.sender.controller());
            }
        }
        flow.acknowledge_late(index as u32, now, &mut self.arrivals);
        while self.hear(index) {}
        if !self.flows[index].returning.is_empty() {
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
        }
    }

    /// Acknowledgements of flow `index` reach the first link of their return path.
    fn return_acks(&mut self, index: usize) {
        while let Some(&(at, packet)) = self.flows[index].returning.front() {
            if at > self.now {
                break;
            }
            self.flows[index].returning.pop_front();
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
                rows.resize(at + learned.spec().report.len(), 0.0);
                learned.report(&mut rows[at..]);
            }
        }
        // The interval's end may have changed the window.
        flow.sender.read_controller();
        if self.answer(index) {
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

    fn send(&mut self, index: usize) {
        self.drive(index, false);
    }

    /// Lets a sender send, and before that handle its timers if they are due; what it emits enters its first link.
    #[inline]
    fn drive(&mut self, index: usize, timers: bool) {
        let Self { flows, links, link_turns, now, .. } = self;
        let flow = &mut flows[index];
        if flow.stop <= *now {
            // A stopped flow sends nothing more; what is under way drains.
            flow.sender.stop();
            return;
        }
        let first = flow.path[0] as usize;
        let emit = emitter(&mut links[first], index, flow.header_bytes, *now);
        if timers {
            flow.sender.on_timer(*now, emit);
        } else {
            flow.sender.send(*now, emit);
        }
        link_turns.set(first, Turn::new(links[first].next_time(), first as u32));
    }
}

/// What a sender emits enters the first link of its path.
#[inline]
fn emitter(link: &mut Link, flow: usize, header_bytes: u32, now: Time) -> impl FnMut(Emission) {
    move |e: Emission| {
        let packet = Packet {
            arrival: now,
            sent: now,
            rtt: e.rtt,
            signal: e.signal,
            flow: flow as u32,
            seq: e.seq,
            bytes: e.payload + header_bytes,
            hop: 0,
            is_ack: false,
            ecn: if e.ecn { Ecn::Capable } else { Ecn::NotCapable },
            reduced: e.reduced,
        };
        link.arrive(packet, now);
    }
}
