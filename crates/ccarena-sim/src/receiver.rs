//! The receiver: reassembly, selective acknowledgement and delayed acknowledgement as Linux does them, or as QUIC stacks
//! do where the flow asks for that, or as Linux does behind receive offload.
//!
//! Departures: the receive window is followed for what its growth does to acknowledgements, but never limits the sender
//! (auto-tuning keeps it ahead of the congestion window); RTTs, which a Linux receiver takes from echoed timestamps, are
//! what the sender knew when it sent the segment. Constant rates are acknowledged as bulk data is, though Linux acknowledges
//! each of their writes. QUIC's acknowledgements report three ranges at most, as TCP's do, and become rare with the first
//! round trip that begins after the hundredth packet, not with that packet. Receive offload merges what arrives within
//! 50 µs, in order or not at all, as a network card does that holds interrupts back for so long.

use ccarena_cc::{Dur, Feedback, Signal, Time};
use ccarena_net::Ecn;
use ccarena_net::accecn::ReceiverCounters;
use ccarena_net::scenario::QuicAcks;

use crate::packet::{Ack, Block, Blocks, Marks, Packet, SACK_BLOCKS};
use crate::rtt::RoundTrip;

/// Segments acknowledged at once when a connection starts, after a duplicate and after a pause (`TCP_MAX_QUICKACKS`).
const QUICK_ACKS: u32 = 16;
/// The same when a mark arrives (`tcp_data_ecn_check`).
const QUICK_ACKS_ON_MARK: u32 = 2;
/// Marked packets after which AccECN acknowledges at once (RFC 9768 §3.2.2.5.1).
const MARKS_PER_ACK: u32 = 2;
/// Longest delay of an acknowledgement (`TCP_DELACK_MIN`, which its timer starts from).
const DELAYED_ACK: Dur = Dur::from_millis(40);
/// Acknowledgements without progress that are sent at once; further ones are compressed (`TCP_FASTRETRANS_THRESH`).
const UNCOMPRESSED: u32 = 3;
/// Longest delay of a compressed acknowledgement (`tcp_comp_sack_delay_ns`), if 5 % of the RTT are more.
const COMPRESSED: Dur = Dur::from_millis(1);
/// Blocks whose growth needs no acknowledgement of its own (`TCP_SACK_BLOCKS_EXPECTED`).
const BLOCKS_EXPECTED: usize = 2;
/// Most acknowledgements compressed into one (`tcp_comp_sack_nr`).
const COMPRESSED_MOST: u32 = 44;
/// A pause longer than the receiver's own timeout (RTT and this) asks for acknowledgements at once (`TCP_RTO_MIN`).
const PAUSE: Dur = Dur::from_millis(200);
/// Time for which receive offload collects segments before it delivers them as one (a usual setting
/// of network cards).
const MERGED: Dur = Dur::from_micros(50);
/// Number of first packets that QUIC acknowledges often (QUICHE's
/// `kMinReceivedBeforeAckDecimation`), and the interval.
const QUIC_FIRST_PACKETS: u32 = 100;
const QUIC_FIRST_EVERY: u32 = 2;
/// Packets after a new gap that are acknowledged at once (QUICHE's `kMaxPacketsAfterNewMissing`).
const QUIC_AFTER_GAP: u32 = 4;
/// Shortest delay of its acknowledgements (`kAlarmGranularity`).
const QUIC_DELAY_MIN: Dur = Dur::from_millis(1);

/// The receive window and its auto-tuning (`tcp_grow_window`, `tcp_rcv_space_adjust`), in segments.
#[derive(Debug)]
struct Window {
    /// Advertised window, and the limit of its growth (`rcv_ssthresh`, `window_clamp`).
    offered: u32,
    clamp: u32,
    /// Most segments received in a round trip so far (`rcvq_space.space`).
    space: u32,
    round_start: Time,
    round_next: u32,
}

impl Window {
    fn new(mss: u32) -> Self {
        // Half of tcp_rmem[1] = 131072 bytes.
        let initial = 65_535 / mss.max(1);
        Self { offered: initial, clamp: initial, space: 10, round_start: Time::ZERO, round_next: 0 }
    }

    /// Flow control that never lags behind, and tells nothing.
    fn unlimited() -> Self {
        Self { offered: u32::MAX, clamp: u32::MAX, ..Self::new(1) }
    }

    /// A segment has arrived; true if the window grows for it.
    #[inline]
    fn grow(&mut self) -> bool {
        if self.offered >= self.clamp {
            return false;
        }
        self.offered = (self.offered + 2).min(self.clamp);
        true
    }

    /// Once per round trip: room for twice what arrived, and for a sender that doubles (`tcp_rcvbuf_grow`).
    #[inline]
    fn end_round(&mut self, now: Time, next: u32, beyond: u32) {
        let received = next - self.round_next;
        if received > self.space {
            let growth = u64::from(received) * u64::from(received - self.space) * 4 / u64::from(self.space);
            let wanted = u64::from(2 * received + beyond) + growth;
            self.clamp = self.clamp.max(u32::try_from(wanted).unwrap_or(u32::MAX));
            self.space = received;
        }
        self.round_start = now;
        self.round_next = next;
    }
}

/// Receiver state. Sequence numbers count segments.
#[derive(Debug)]
pub struct Receiver {
    next: u32,
    /// The next segment expected as the last acknowledgement says it (`rcv_wup`).
    acknowledged: u32,
    /// Blocks received beyond `next`, in order, disjoint and not adjacent.
    beyond: Vec<Block>,
    /// A segment of each recently changed block, the latest first.
    recent: Vec<u32>,
    sack: bool,
    delayed: bool,
    /// Segments that an acknowledgement is for, and how long it waits for them.
    every: u32,
    delay: Dur,
    /// Time for which receive offload collects segments; zero without.
    merged: Dur,
    /// QUIC's policy, if it is in force.
    quic: Option<QuicAcks>,
    /// Acknowledgements that leave at once, and how many a pause or a duplicate asks for.
    quick: u32,
    quick_most: u32,
    unacknowledged: u32,
    /// Acknowledgements since `next` last moved, and those of them held back.
    repeated: u32,
    compressed: u32,
    /// The last segment that had been received before, if no acknowledgement has said so (`rx_opt.duplicate_sack`).
    duplicate: Option<u32>,
    window: Window,
    last_arrival: Time,
    /// Timestamp to echo: of the segment that last advanced the left edge of the acknowledged window.
    echo: Time,
    signal: Signal,
    /// Packets for which routers speak [later](Signal::Later), and those that the last acknowledgement stands for.
    later: u32,
    later_said: u32,
    /// Feedback of marks of the connection, and what the next acknowledgement tells of them: classic marks are echoed until
    /// the sender says that it has reduced (`TCP_ECN_DEMAND_CWR`). It has said so now.
    feedback: Feedback,
    marks: Marks,
    reduction_heard: bool,
    /// The last data packet was marked; marked packets since the last acknowledgement; counters of AccECN.
    was_marked: bool,
    newly_marked: u32,
    received: ReceiverCounters,
    /// Options of the last acknowledgement that had some.
    pub blocks: Blocks,
    /// Time at which a delayed acknowledgement is due.
    pub ack_due: Time,
    /// Payload bytes received for the first time.
    pub goodput_bytes: u64,
    /// Segments that had been received before, of those to be counted.
    pub duplicates: u64,
}

impl Receiver {
    /// A receiver of segments of `mss` bytes that acknowledges selectively and with delay if asked to.
    #[must_use]
    pub fn new(mss: u32, sack: bool, delayed: bool) -> Self {
        Self {
            next: 0,
            acknowledged: 0,
            beyond: Vec::new(),
            recent: Vec::new(),
            sack,
            delayed,
            every: 2,
            delay: DELAYED_ACK,
            merged: Dur::ZERO,
            quic: None,
            quick: QUICK_ACKS,
            quick_most: QUICK_ACKS,
            unacknowledged: 0,
            repeated: 0,
            compressed: 0,
            duplicate: None,
            window: Window::new(mss),
            last_arrival: Time::NEVER,
            echo: Time::ZERO,
            signal: Signal::None,
            later: 0,
            later_said: 0,
            feedback: Feedback::Classic,
            marks: Marks::NONE,
            reduction_heard: false,
            was_marked: false,
            newly_marked: 0,
            received: ReceiverCounters::default(),
            blocks: Blocks::default(),
            ack_due: Time::NEVER,
            goodput_bytes: 0,
            duplicates: 0,
        }
    }

    /// The same behind receive offload, which merges up to `burst` segments into one.
    #[must_use]
    pub fn merging(mss: u32, sack: bool, delayed: bool, burst: u32) -> Self {
        Self { every: burst, merged: MERGED, ..Self::new(mss, sack, delayed) }
    }

    /// A receiver of packets of `mss` bytes that acknowledges as QUIC stacks do.
    #[must_use]
    pub fn quic(mss: u32, acks: QuicAcks) -> Self {
        Self {
            every: QUIC_FIRST_EVERY.min(acks.packets),
            delay: acks.max_delay,
            quic: Some(acks),
            quick: 0,
            quick_most: 0,
            window: Window::unlimited(),
            ..Self::new(mss, true, true)
        }
    }

    /// The same on a connection with this feedback of marks.
    #[must_use]
    pub fn with_feedback(self, feedback: Feedback) -> Self {
        let marks = if feedback == Feedback::Accurate { self.count_of_marks() } else { Marks::NONE };
        Self { feedback, marks, ..self }
    }

    /// The count of marks, as acknowledgements carry it.
    fn count_of_marks(&self) -> Marks {
        Marks::count(if self.quic.is_some() { self.received.quic() } else { self.received.ace() })
    }

    /// A data segment with `payload` bytes arrives, whose ECN field was [taken](Self::on_ecn) before. Returns whether it is to
    /// be [acknowledged](Self::acknowledge) now.
    #[inline(always)]
    pub fn on_data(&mut self, packet: &Packet, payload: u32, now: Time) -> bool {
        match packet.signal {
            Signal::None => {}
            Signal::Later { packets, .. } => self.later = self.later.wrapping_add(packets),
            signal => self.signal.accumulate(signal),
        }
        if self.window.grow() {
            self.quick |= 1;
        }
        // `tcp_event_data_recv`
        if now.since(self.last_arrival) > PAUSE {
            self.on_pause(now, packet.rtt.smoothed);
        }
        self.last_arrival = now;
        if packet.seq != self.next || !self.beyond.is_empty() {
            return self.on_out_of_order(packet.seq, packet.sent, packet.rtt, payload, now);
        }
        self.goodput_bytes += u64::from(payload);
        if self.next == self.acknowledged {
            self.echo = packet.sent;
        }
        self.next += 1;
        self.unacknowledged += 1;
        if now.since(self.window.round_start) >= packet.rtt.smoothed {
            self.end_round(now, 0, packet.rtt);
        }
        // A reader that has all of a message acknowledges it (`tcp_measure_rcv_mss`, `tcp_cleanup_rbuf`).
        if packet.pushed() && self.quic.is_none() {
            return true;
        }
        let mut delay = self.delay;
        if self.unacknowledged >= self.every || !self.delayed || self.quick > 0 || self.reduction_heard {
            if self.merged == Dur::ZERO || self.unacknowledged >= self.every {
                return true;
            }
            delay = self.merged;
        } else if self.unacknowledged > 1 && self.merged > Dur::ZERO {
            // Two segments merged ask for an acknowledgement as they would by themselves.
            delay = self.merged;
        }
        self.ack_due = self.ack_due.min(now + delay);
        false
    }

    /// Nothing has arrived for longer than [`PAUSE`].
    #[cold]
    fn on_pause(&mut self, now: Time, smoothed: Dur) {
        if now.since(self.last_arrival) > PAUSE + smoothed {
            self.quick = self.quick_most;
        }
    }

    /// The delayed acknowledgement, when it is due.
    pub fn on_timer(&mut self) -> Ack {
        let held = self.ack_due.since(self.last_arrival);
        let mut ack = self.acknowledge();
        if self.quic.is_some() {
            ack.delay = held;
        }
        ack
    }

    /// A round trip has ended, with `beyond` segments from the next expected to the last received.
    fn end_round(&mut self, now: Time, beyond: u32, rtt: RoundTrip) {
        self.window.end_round(now, self.next, beyond);
        if let Some(acks) = self.quic.filter(|_| self.next >= QUIC_FIRST_PACKETS) {
            self.every = acks.packets;
            let share = Dur::from_secs_f64(rtt.min.as_secs_f64() * acks.rtt_fraction);
            self.delay = acks.max_delay.min(share).max(QUIC_DELAY_MIN);
        }
    }

    /// Returns whether QUIC acknowledges packet `seq`, beyond a gap or filling one, at once
    /// (QUICHE's `MaybeUpdateAckTimeout`).
    fn quic_at_once(&mut self, seq: u32, now: Time) -> bool {
        self.unacknowledged += 1;
        let after_gap = self.beyond.last().is_some_and(|b| b.1 == seq + 1 && b.1 - b.0 <= QUIC_AFTER_GAP);
        let at_once = after_gap || self.unacknowledged >= self.every || self.quick > 0;
        if !at_once {
            self.ack_due = self.ack_due.min(now + self.delay);
        }
        at_once
    }

    /// Takes a segment that is out of order, fills a gap or had arrived before (`tcp_data_queue`,
    /// `tcp_data_queue_ofo`).
    #[cold]
    fn on_out_of_order(&mut self, seq: u32, sent: Time, rtt: RoundTrip, payload: u32, now: Time) -> bool {
        let at = self.beyond.partition_point(|b| b.1 <= seq);
        let known = self.beyond.get(at).is_some_and(|b| b.0 <= seq);
        if seq < self.next || known {
            self.duplicates += u64::from(payload > 0);
            self.duplicate = self.sack.then_some(seq);
            if seq < self.next || self.quic.is_some() {
                self.quick = self.quick.max(self.quick_most);
                return true;
            }
        } else {
            self.goodput_bytes += u64::from(payload);
        }
        let mut older = false;
        if known {
            older = self.renew(self.beyond[at], seq);
        } else if seq == self.next {
            if self.next == self.acknowledged {
                self.echo = sent;
            }
            self.next += 1;
            self.repeated = 0;
            if self.beyond.first().is_some_and(|b| b.0 == self.next) {
                self.next = self.beyond.remove(0).1;
            }
            self.recent.retain(|&s| s >= self.next);
            let beyond = self.beyond.last().map_or(0, |b| b.1 - self.next);
            if now.since(self.window.round_start) >= rtt.smoothed {
                self.end_round(now, beyond, rtt);
            }
        } else {
            older = self.insert(at, seq);
        }
        if self.quic.is_some() {
            return self.quic_at_once(seq, now);
        }
        // RFC 5681 §4.2: at once if the last gap is filled; `__tcp_ack_snd_check` else.
        let at_once = self.beyond.is_empty()
            || !self.sack
            || !self.delayed
            || self.quick > 0
            || self.repeated < UNCOMPRESSED
            || (older && self.compressed > 0)
            || self.compressed >= COMPRESSED_MOST;
        if at_once {
            self.repeated += 1;
            return true;
        }
        self.compressed += 1;
        if self.ack_due == Time::NEVER {
            self.ack_due = now + COMPRESSED.min(rtt.smoothed / 20);
        }
        false
    }

    /// Returns whether to acknowledge what has arrived before taking a packet with this ECN field: DCTCP's receiver has held
    /// an acknowledgement back, and marks begin or end with the packet (RFC 8257 §3.2, `dctcp_ece_ack_update`).
    #[must_use]
    pub fn tells_before(&self, ecn: Ecn) -> bool {
        let changes = self.was_marked != (ecn == Ecn::Ce);
        self.feedback == Feedback::Changes && changes && self.ack_due != Time::NEVER
    }

    /// Takes the ECN field of a data segment of `payload` bytes that is ECN-capable or tells that the sender has `reduced`.
    pub fn on_ecn(&mut self, ecn: Ecn, reduced: bool, payload: u32) {
        let marked = ecn == Ecn::Ce;
        match self.feedback {
            Feedback::None | Feedback::Classic => self.on_classic_ecn(reduced, marked),
            Feedback::Changes => {
                if marked != self.was_marked {
                    self.quick = self.quick.max(1);
                }
                self.reduction_heard |= reduced;
                self.marks = if marked { Marks::ECHO } else { Marks::NONE };
            }
            Feedback::Accurate => {
                self.received.add(ecn, payload);
                self.marks = self.count_of_marks();
                self.newly_marked += u32::from(marked);
                if marked && (!self.was_marked || self.newly_marked >= MARKS_PER_ACK) {
                    self.quick = self.quick.max(1);
                }
            }
        }
        self.was_marked = marked;
    }

    /// `tcp_ecn_accept_cwr`, `tcp_data_ecn_check`: a sender whose window has become small waits for acknowledgements.
    fn on_classic_ecn(&mut self, reduced: bool, marked: bool) {
        if reduced {
            self.marks = Marks::NONE;
            self.reduction_heard = true;
        }
        if marked && self.marks != Marks::ECHO {
            self.marks = Marks::ECHO;
            self.quick = self.quick.max(QUICK_ACKS_ON_MARK);
        }
    }

    /// Books a new segment beyond a gap; the block at `at` is the first after it. As [`renew`](Self::renew).
    fn insert(&mut self, at: usize, seq: u32) -> bool {
        let joins_left = at > 0 && self.beyond[at - 1].1 == seq;
        let joins_right = self.beyond.get(at).is_some_and(|b| b.0 == seq + 1);
        let block = match (joins_left, joins_right) {
            (true, true) => {
                let right = self.beyond.remove(at);
                self.beyond[at - 1].1 = right.1;
                self.beyond[at - 1]
            }
            (true, false) => {
                self.beyond[at - 1].1 = seq + 1;
                self.beyond[at - 1]
            }
            (false, true) => {
                self.beyond[at].0 = seq;
                self.beyond[at]
            }
            (false, false) => {
                self.beyond.insert(at, (seq, seq + 1));
                (seq, seq + 1)
            }
        };
        self.renew(block, seq)
    }

    /// The block of segment `seq` becomes the most recent one. True unless it was one of the [`BLOCKS_EXPECTED`] most
    /// recent: what acknowledgements that are held back say would be forgotten, so that they leave
    /// (`tcp_sack_new_ofo_skb`).
    fn renew(&mut self, block: Block, seq: u32) -> bool {
        let known = self.recent.iter().position(|s| (block.0..block.1).contains(s));
        let position = known.unwrap_or(self.recent.len());
        self.recent.retain(|s| !(block.0..block.1).contains(s));
        self.recent.insert(0, seq);
        self.recent.truncate(SACK_BLOCKS + 1);
        position >= BLOCKS_EXPECTED
    }

    /// The acknowledgement that leaves now; if it has blocks, those are the [`blocks`](Self::blocks).
    pub fn acknowledge(&mut self) -> Ack {
        let has_options = self.has_options();
        let duplicate = self.duplicate.take();
        let signal = self.take_signal();
        let ack = Ack { duplicate: duplicate.is_some(), has_options, ..self.acknowledge_plainly(signal) };
        if has_options { self.with_options(ack, duplicate) } else { ack }
    }

    /// Returns whether the next acknowledgement has options.
    #[inline]
    pub fn has_options(&self) -> bool {
        !self.beyond.is_empty() || self.duplicate.is_some() || self.feedback == Feedback::Accurate
    }

    /// Returns whether routers have signalled nothing that the next acknowledgement repeats.
    #[inline]
    pub fn heard_no_signal(&self) -> bool {
        self.later == 0 && self.signal == Signal::None
    }

    /// Takes the routers' signal for the next acknowledgement.
    #[inline(always)]
    pub fn take_signal(&mut self) -> Signal {
        let before = std::mem::replace(&mut self.later_said, self.later);
        match self.later {
            0 => self.signal.echo(),
            packets => Signal::Later { packets, fresh: packets.wrapping_sub(before) },
        }
    }

    /// The acknowledgement that leaves now with `signal`, without [options](Self::has_options).
    #[inline(always)]
    pub fn acknowledge_plainly(&mut self, signal: Signal) -> Ack {
        self.acknowledged = self.next;
        self.unacknowledged = 0;
        self.compressed = 0;
        self.ack_due = Time::NEVER;
        self.reduction_heard = false;
        self.quick = self.quick.saturating_sub(1);
        Ack {
            cumulative: self.next,
            sacked: 0,
            duplicate: false,
            marks: self.marks,
            has_options: false,
            echo: self.echo,
            signal,
            delay: Dur::ZERO,
        }
    }

    /// Writes the options of `ack`, and how many blocks there are.
    #[cold]
    fn with_options(&mut self, mut ack: Ack, duplicate: Option<u32>) -> Ack {
        if !self.beyond.is_empty() || duplicate.is_some() {
            ack.sacked = self.write_blocks(duplicate);
        }
        if self.feedback == Feedback::Accurate {
            self.newly_marked = 0;
            ack.write_option(&self.received.option(), &mut self.blocks);
        }
        ack.has_options = ack.sacked > 0 || self.feedback == Feedback::Accurate;
        ack
    }

    /// Writes a duplicate's block (D-SACK, RFC 2883 §4), and then the most recently changed ones; how many in all.
    fn write_blocks(&mut self, duplicate: Option<u32>) -> u8 {
        let mut written = 0;
        if let Some(seq) = duplicate {
            self.blocks[0] = (seq, seq + 1);
            written = 1;
        }
        let room = if self.sack { SACK_BLOCKS - usize::from(written) } else { 0 };
        for &seq in self.recent.iter().take(room) {
            let at = self.beyond.partition_point(|b| b.1 <= seq);
            if let Some(&block) = self.beyond.get(at) {
                self.blocks[usize::from(written)] = block;
                written += 1;
            }
        }
        written
    }

    /// Next segment expected.
    #[must_use]
    pub fn next(&self) -> u32 {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use ccarena_cc::Rate;

    use super::*;

    fn packet(seq: u32) -> Packet {
        Packet {
            arrival: Time::ZERO,
            sent: Time(u64::from(seq)),
            rtt: RoundTrip::UNKNOWN,
            signal: Signal::Rate(Rate(1)),
            flow: 0,
            seq,
            bytes: 1500,
            hop: 0,
            is_ack: false,
            ecn: Ecn::NotEct,
            flags: 0,
        }
    }

    /// The same of a sender whose round trip takes so many milliseconds.
    fn packet_after(seq: u32, rtt_ms: u64) -> Packet {
        let rtt = Dur::from_millis(rtt_ms);
        Packet { rtt: RoundTrip { smoothed: rtt, min: rtt }, ..packet(seq) }
    }

    fn receive(r: &mut Receiver, packet: &Packet, now: Time) -> Option<Ack> {
        r.on_data(packet, 1448, now).then(|| r.acknowledge())
    }

    #[test]
    fn acknowledges_every_second_segment_after_the_quick_ones() {
        let mut r = Receiver::new(1448, true, true);
        let packet = |seq| packet_after(seq, 1000);
        let acks = (0..116).filter(|&s| receive(&mut r, &packet(s), Time(0)).is_some()).count();
        assert_eq!(acks, 16 + 50);
        assert!(receive(&mut r, &packet(116), Time(7)).is_none());
        assert_eq!(r.ack_due, Time(7) + DELAYED_ACK);
        assert_eq!(r.on_timer().cumulative, 117);
    }

    #[test]
    fn acknowledges_every_segment_while_the_window_grows() {
        let mut r = Receiver::new(1448, true, true);
        let packet = |seq| packet_after(seq, 10);
        let mut seq = 0;
        let mut round = |n: u32, at_ms: u64| {
            let now = Time(at_ms * 1_000_000);
            (0..n)
                .filter(|_| {
                    seq += 1;
                    receive(&mut r, &packet(seq - 1), now).is_some()
                })
                .count()
        };
        // Twice as many segments in each round trip, then no more.
        let segments = [10, 20, 40, 80, 80, 80, 80, 80];
        let acks: Vec<usize> = segments.iter().zip(1..).map(|(&n, k)| round(n, 10 * k)).collect();
        assert_eq!((acks[0], acks[1]), (10, 13), "16 quick ones");
        assert!(acks[2] >= 36 && acks[3] >= 68 && acks[4] == 80, "{acks:?}");
        assert_eq!(acks[7], 40, "the window has caught up");
    }

    #[test]
    fn quic_acknowledges_rarely_after_a_hundred_packets() {
        let mut r = Receiver::quic(1448, QuicAcks::default());
        let packet = |seq| packet_after(seq, 40);
        let acks = (0..100).filter(|&s| receive(&mut r, &packet(s), Time(0)).is_some()).count();
        assert_eq!(acks, 50);
        let now = Time(100_000_000);
        let acks = (100..200).filter(|&s| receive(&mut r, &packet(s), now).is_some()).count();
        assert_eq!(acks, 10);
        // A quarter of the RTT at most, which the acknowledgement tells.
        assert!(receive(&mut r, &packet(200), now).is_none());
        assert_eq!(r.ack_due, now + Dur::from_millis(10));
        assert!(receive(&mut r, &packet(201), now + Dur::from_millis(4)).is_none());
        assert_eq!(r.ack_due, now + Dur::from_millis(10));
        let ack = r.on_timer();
        assert_eq!((ack.cumulative, ack.delay), (202, Dur::from_millis(6)));
        // The first four packets behind a gap are acknowledged at once, others with the tenth.
        let later = now + Dur::from_millis(20);
        let at_once = (203..230).filter(|&s| receive(&mut r, &packet(s), later).is_some()).count();
        assert_eq!(at_once, 4 + 2);
        r.on_timer();
        assert_eq!(r.blocks[0], (203, 230));
    }

    #[test]
    fn receive_offload_acknowledges_a_burst_at_once() {
        let mut r = Receiver::merging(1448, true, true, 44);
        let acks = (0..132).filter(|&s| receive(&mut r, &packet(s), Time(9)).is_some()).count();
        assert_eq!(acks, 3);
        // What does not fill one waits for 50 µs, a lone segment as TCP's do.
        r.quick = 0;
        r.window.offered = r.window.clamp;
        assert!(receive(&mut r, &packet(132), Time(9)).is_none());
        assert_eq!(r.ack_due, Time(9) + DELAYED_ACK);
        assert!(receive(&mut r, &packet(133), Time(9)).is_none());
        assert_eq!(r.ack_due, Time(9) + MERGED);
    }

    #[test]
    fn acknowledges_the_end_of_a_message_at_once() {
        let pushed = |seq| Packet { flags: Packet::PUSH, ..packet_after(seq, 1000) };
        let mut r = Receiver::new(1448, true, true);
        for s in 0..60 {
            receive(&mut r, &packet_after(s, 1000), Time(0));
        }
        assert!(receive(&mut r, &packet_after(60, 1000), Time(0)).is_none());
        assert!(receive(&mut r, &packet_after(61, 1000), Time(0)).is_some());
        assert_eq!(receive(&mut r, &pushed(62), Time(0)).map(|ack| ack.cumulative), Some(63));
        // QUIC has no such flag.
        let mut r = Receiver::quic(1448, QuicAcks::default());
        assert!(receive(&mut r, &pushed(0), Time(0)).is_none());
    }

    #[test]
    fn compresses_acknowledgements_without_progress() {
        let mut r = Receiver::new(1448, true, true);
        let packet = |seq| packet_after(seq, 100);
        for s in 0..100 {
            receive(&mut r, &packet(s), Time(0));
        }
        let acks = (101..111).filter(|&s| receive(&mut r, &packet(s), Time(9)).is_some()).count();
        assert_eq!(acks, 3);
        assert_eq!(r.ack_due, Time(9) + COMPRESSED);
        r.on_timer();
        assert_eq!(r.blocks[0], (101, 111));
        // So is a duplicate behind the gap; one before it is acknowledged at once.
        assert!(receive(&mut r, &packet(105), Time(10)).is_none());
        assert_eq!((r.on_timer().duplicate, r.blocks[..2].to_vec()), (true, vec![(105, 106), (101, 111)]));
        let ack = receive(&mut r, &packet(50), Time(11)).expect("a duplicate of what was acknowledged");
        assert_eq!((ack.duplicate, ack.sacked, r.blocks[..2].to_vec()), (true, 2, vec![(50, 51), (101, 111)]));
        assert_eq!(r.duplicates, 2);
    }

    #[test]
    fn holds_nothing_back_that_would_be_forgotten() {
        let mut r = Receiver::new(1448, true, true);
        let packet = |seq| packet_after(seq, 100);
        for s in 0..100 {
            receive(&mut r, &packet(s), Time(0));
        }
        // Every second segment is lost: from the third block on each would push another out of the option.
        let acks = (0..40).filter(|k| receive(&mut r, &packet(101 + 2 * k), Time(9)).is_some()).count();
        assert!(acks >= 20, "{acks} acknowledgements of 40 blocks");
    }

    #[test]
    fn reports_the_latest_blocks_first_and_closes_gaps() {
        let mut r = Receiver::new(1448, true, false);
        let mut last = None;
        for s in [0, 2, 4, 6, 8, 5] {
            last = receive(&mut r, &packet(s), Time(0));
        }
        let ack = last.expect("out of order is acknowledged at once");
        assert_eq!((ack.cumulative, ack.sacked), (1, 3));
        assert_eq!(r.blocks, [(4, 7), (8, 9), (2, 3)]);
        let ack = receive(&mut r, &packet(1), Time(0)).expect("a filled gap is acknowledged at once");
        assert_eq!((ack.cumulative, ack.sacked, r.blocks[0]), (3, 2, (4, 7)));
        assert_eq!(r.goodput_bytes, 7 * 1448);
    }
}
