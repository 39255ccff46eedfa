//! The far end of a flow: its receiver, and the acknowledgements on their way back.

use std::collections::VecDeque;

use ccarena_cc::{Dur, Signal, Time};
use ccarena_net::Ecn;
use ccarena_net::link::Flight;
use ccarena_net::series::{FlowBin, Series};

use crate::arrivals::Arrivals;
use crate::packet::{Ack, Blocks, Packet};
use crate::receiver::Receiver;
use crate::rtt::RoundTrip;

/// Acknowledgements that are kept where others may overtake them; older ones tell their sender nothing.
pub const OVERTAKEN: usize = 1 << 14;

/// A receiver acts on arrivals and on its own timer alone. So it takes a packet as soon as it is known when that arrives,
/// in its future, and may be ahead of the clock.
pub struct FarEnd {
    /// The receiver.
    pub receiver: Receiver,
    pub(crate) return_path: Vec<u32>,
    /// Delay from the receiver to the sender, or to the first link of the return path.
    pub(crate) return_delay: Dur,
    pub(crate) header_bytes: u32,
    pub(crate) ack_bytes: u32,
    /// Index of the [`Arrivals`] that its acknowledgements take.
    pub(crate) way: usize,
    /// Acknowledgements that the arrivals have not taken, in order.
    pub(crate) late_acks: VecDeque<(Time, Ack, Blocks)>,
    /// Time at which the newest acknowledgement reached, or will reach, the sender.
    pub(crate) last_ack: Time,
    /// Acknowledgements on the return path's links, in order; their packets carry numbers from `first_ack` on.
    acks_returning: VecDeque<(Ack, Blocks)>,
    first_ack: u32,
    /// Number of acknowledgements that are kept after later ones have arrived: none where they keep their order.
    pub(crate) overtaken: usize,
    /// Acknowledgements on their way to the first link of the return path.
    pub(crate) returning: VecDeque<(Time, Packet)>,
    /// Packets on their way to the receiver that others may overtake, sorted by arrival.
    held: VecDeque<(Time, Packet)>,
    /// IP bytes of what the receiver has taken, if that arrives before the run's end.
    pub(crate) wire_bytes: u64,
    /// Recordings of what reached the receiver; most runs keep none.
    pub(crate) recorder: Option<Box<Recorder>>,
    /// Time at which the last data segment reached, or will reach, the receiver.
    pub(crate) last_arrival: Time,
}

/// Recordings at a receiver.
#[derive(Default)]
pub struct Recorder {
    /// Series of what reached it per bin, if it is kept.
    pub(crate) series: Option<Series<FlowBin>>,
    /// Times by which it had all segments before a number, if the application needs arrivals.
    pub(crate) progress: Option<Vec<(Time, u64)>>,
}

impl Recorder {
    /// Records that `gained` arrived at `at`, and that the receiver then had all segments before `next`.
    #[inline(never)]
    fn receive(&mut self, at: Time, gained: FlowBin, next: Option<u64>) {
        if let Some(bin) = self.series.as_mut().and_then(|series| series.at(at)) {
            bin.wire_bytes += gained.wire_bytes;
            bin.payload_bytes += gained.payload_bytes;
        }
        if let (Some(progress), Some(next)) = (&mut self.progress, next) {
            if progress.last().is_none_or(|last| last.1 < next) {
                progress.push((at, next));
            }
        }
    }
}

impl FarEnd {
    /// Returns the state of a flow that has not started; the builder sets everything else.
    pub(crate) fn new(receiver: Receiver) -> Self {
        Self {
            receiver,
            return_path: Vec::new(),
            return_delay: Dur::ZERO,
            header_bytes: 52,
            ack_bytes: 52,
            way: 0,
            late_acks: VecDeque::new(),
            last_ack: Time::ZERO,
            acks_returning: VecDeque::new(),
            first_ack: 0,
            overtaken: 0,
            returning: VecDeque::new(),
            held: VecDeque::new(),
            wire_bytes: 0,
            recorder: None,
            last_arrival: Time::ZERO,
        }
    }

    /// A data packet will arrive at `at`; what arrives from the run's `end` on is not in the results.
    #[inline(never)]
    pub(crate) fn receive(&mut self, packet: &Packet, at: Time, end: Time, arrivals: &mut Arrivals) {
        self.receive_here::<true>(packet, at, end, arrivals);
    }

    /// The same, inlined where a packet is made, so that it stays in registers: nothing that is called from here takes the
    /// packet itself. Of flows that routers do not signal to (not `ROUTED`) most acknowledgements are the same but for
    /// their numbers.
    #[inline(always)]
    pub(crate) fn receive_here<const ROUTED: bool>(
        &mut self,
        packet: &Packet,
        at: Time,
        end: Time,
        arrivals: &mut Arrivals,
    ) {
        self.acknowledge_late(packet.flow, at, arrivals);
        let mut payload = packet.bytes - self.header_bytes;
        if at < end {
            self.wire_bytes += u64::from(packet.bytes);
        } else {
            payload = 0;
        }
        self.last_arrival = at;
        if packet.ecn.is_capable() || packet.reduced() {
            self.hear_ecn(packet.flow, packet.ecn, packet.reduced(), payload, at, arrivals);
        }
        let before = self.receiver.goodput_bytes;
        if self.receiver.on_data(packet, payload, at) {
            let plain = self.return_path.is_empty() && !self.receiver.has_options();
            if plain && (ROUTED || self.receiver.heard_no_signal()) {
                let signal = if ROUTED { self.receiver.take_signal() } else { Signal::None };
                let ack = self.receiver.acknowledge_plainly(signal);
                self.await_ack(packet.flow, at + self.return_delay, ack, None, arrivals);
            } else {
                let ack = self.receiver.acknowledge();
                self.answer(packet.flow, &ack, at, arrivals);
            }
        }
        if let Some(recorder) = &mut self.recorder {
            let payload_bytes = self.receiver.goodput_bytes - before;
            let next = (at < end).then(|| self.receiver.next().into());
            recorder.receive(at, FlowBin { wire_bytes: packet.bytes.into(), payload_bytes }, next);
        }
    }

    /// The receiver takes the ECN field of a data packet, before which an acknowledgement may have to leave.
    #[cold]
    fn hear_ecn(&mut self, flow: u32, ecn: Ecn, reduced: bool, payload: u32, at: Time, arrivals: &mut Arrivals) {
        if self.receiver.tells_before(ecn) {
            let ack = self.receiver.acknowledge();
            self.answer(flow, &ack, at, arrivals);
        }
        self.receiver.on_ecn(ecn, reduced, payload);
    }

    /// `packet` flies to the receiver; packets that leave later may overtake it.
    pub(crate) fn land(&mut self, packet: &Packet, flight: Flight, end: Time, arrivals: &mut Arrivals) {
        let Flight { at, overtaken, befalls } = flight;
        if !overtaken {
            self.take_held(at, end, arrivals);
        }
        for _ in 0..befalls.copies() {
            if overtaken {
                // Counted as those that the receiver takes at once.
                self.wire_bytes += if at < end { u64::from(packet.bytes) } else { 0 };
                let behind = self.held.partition_point(|held| held.0 <= at);
                self.held.insert(behind, (at, *packet));
            } else {
                self.receive(packet, at, end, arrivals);
            }
        }
    }

    /// The receiver takes packets that were held back and arrive by `now`.
    fn take_held(&mut self, now: Time, end: Time, arrivals: &mut Arrivals) {
        while let Some(&(at, packet)) = self.held.front().filter(|held| held.0 <= now) {
            self.held.pop_front();
            self.wire_bytes -= if at < end { u64::from(packet.bytes) } else { 0 };
            self.receive(&packet, at, end, arrivals);
        }
    }

    /// The receiver does what is due by `now`.
    #[inline]
    pub(crate) fn settle(&mut self, index: u32, now: Time, end: Time, arrivals: &mut Arrivals) {
        if !self.held.is_empty() {
            self.take_held(now, end, arrivals);
        }
        self.acknowledge_late(index, now, arrivals);
    }

    /// `copies` of the packet of an acknowledgement reach the sender at `at`.
    #[inline]
    pub(crate) fn returned(&mut self, packet: &Packet, at: Time, copies: u32, arrivals: &mut Arrivals) {
        let place = packet.seq.wrapping_sub(self.first_ack) as usize;
        // More have overtaken it than are kept.
        let Some(&(ack, blocks)) = self.acks_returning.get(place) else { return };
        // Those before it were dropped on the way, or are overtaken.
        let gone = (place + 1).saturating_sub(self.overtaken);
        self.acks_returning.drain(..gone);
        self.first_ack = self.first_ack.wrapping_add(gone as u32);
        for _ in 0..copies {
            self.await_late_ack(packet.flow, at, &ack, blocks, arrivals);
        }
    }

    /// A delayed acknowledgement leaves if it is due by `now`.
    #[inline]
    pub(crate) fn acknowledge_late(&mut self, index: u32, now: Time, arrivals: &mut Arrivals) {
        if self.receiver.ack_due <= now {
            self.acknowledge_due(index, arrivals);
        }
    }

    #[cold]
    fn acknowledge_due(&mut self, index: u32, arrivals: &mut Arrivals) {
        let due = self.receiver.ack_due;
        let ack = self.receiver.on_timer();
        self.answer(index, &ack, due, arrivals);
    }

    /// The receiver's last acknowledgement leaves at `now`.
    #[inline(never)]
    fn answer(&mut self, index: u32, ack: &Ack, now: Time, arrivals: &mut Arrivals) {
        if self.return_path.is_empty() {
            self.await_late_ack(index, now + self.return_delay, ack, self.receiver.blocks, arrivals);
        } else {
            self.return_ack(index, ack, now);
        }
    }

    /// The receiver's last acknowledgement leaves at `now` for the first link of the return path.
    #[inline(never)]
    fn return_ack(&mut self, index: u32, ack: &Ack, now: Time) {
        let slot = self.first_ack.wrapping_add(self.acks_returning.len() as u32);
        self.acks_returning.push_back((*ack, self.receiver.blocks));
        let bytes = self.ack_bytes + ack.options_bytes();
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
            ecn: Ecn::NotEct,
            flags: 0,
        };
        self.returning.push_back((now + self.return_delay, packet));
    }

    /// The acknowledgement will reach the sender at `at`.
    #[inline(always)]
    fn await_ack(&mut self, index: u32, at: Time, ack: Ack, blocks: Option<Blocks>, arrivals: &mut Arrivals) {
        self.last_ack = at;
        if !arrivals.push(self.way, index, at, ack, blocks) {
            self.keep_ack(at, ack, blocks.unwrap_or_default());
        }
    }

    /// The acknowledgement overtakes others, or comes before one of a later flow.
    #[cold]
    fn keep_ack(&mut self, at: Time, ack: Ack, blocks: Blocks) {
        let behind = self.late_acks.partition_point(|late| late.0 <= at);
        self.late_acks.insert(behind, (at, ack, blocks));
    }

    /// The same for one that does not leave as a packet arrives: apart, so that those that do are made where they lie.
    #[inline(never)]
    fn await_late_ack(&mut self, index: u32, at: Time, ack: &Ack, blocks: Blocks, arrivals: &mut Arrivals) {
        self.await_ack(index, at, *ack, ack.has_options.then_some(blocks), arrivals);
    }

    /// Returns the time of the receiver's next acknowledgement that is not yet among the
    /// [`Arrivals`].
    #[inline]
    pub(crate) fn next_answer(&self) -> Time {
        let mut next = self.receiver.ack_due;
        if let Some(late) = self.late_acks.front() {
            next = next.min(late.0);
        }
        if let Some(returning) = self.returning.front() {
            next = next.min(returning.0);
        }
        if let Some(held) = self.held.front() {
            next = next.min(held.0);
        }
        next
    }
}
