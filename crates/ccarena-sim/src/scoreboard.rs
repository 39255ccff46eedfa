//! The sender's scoreboard: one record per segment under way, and the counts that make up "in flight".

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ccarena_cc::{Dur, Time};

use crate::packet::Block;

/// The segment is selectively acknowledged.
const SACKED: u8 = 1;
/// Mark of a lost segment.
const LOST: u8 = 2;
/// Mark of a segment whose retransmission is under way.
const RETRANSMITTED: u8 = 4;
/// Mark of a segment that was retransmitted at least once: RTT samples would be ambiguous (Karn).
const EVER_RETRANSMITTED: u8 = 8;
/// Mark of a segment that was sent while the application was the limit.
const APP_LIMITED: u8 = 16;

/// State of a segment at the sender: its last transmission, and with [`Flight`] the delivery state
/// at that time (Linux's `tcp_skb_cb.tx`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment {
    /// Time of its last transmission.
    pub sent: Time,
    /// Delivered count when it was sent, in segments.
    pub delivered: u32,
    flags: u8,
}

/// Start of a segment's delivery-rate sample.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flight {
    /// Send time of the segment that opened the flight it was sent in.
    pub first_sent: Time,
    /// Time of the last change of the delivered count before it was sent.
    pub delivered_at: Time,
}

impl Segment {
    /// A first transmission.
    #[must_use]
    #[inline]
    pub fn new(sent: Time, delivered: u32, app_limited: bool) -> Self {
        Self { sent, delivered, flags: if app_limited { APP_LIMITED } else { 0 } }
    }

    /// Returns whether it was sent while the application was the limit.
    #[must_use]
    #[inline]
    pub fn app_limited(&self) -> bool {
        self.flags & APP_LIMITED != 0
    }

    /// Returns whether it is selectively acknowledged.
    #[must_use]
    #[inline]
    pub fn is_sacked(&self) -> bool {
        self.flags & SACKED != 0
    }

    /// Returns whether it was retransmitted at least once.
    #[must_use]
    #[inline]
    pub fn ever_retransmitted(&self) -> bool {
        self.flags & EVER_RETRANSMITTED != 0
    }
}

/// Result of a search for losses.
#[derive(Clone, Copy, Debug)]
pub struct Detection {
    /// Segments newly marked lost.
    pub marked: u32,
    /// Retransmissions among them.
    pub retransmissions: u32,
    /// Time at which all segments now in doubt will be decided; never if there are none.
    pub again: Time,
}

impl Detection {
    /// Nothing is lost or in doubt.
    pub const NONE: Self = Self { marked: 0, retransmissions: 0, again: Time::NEVER };
}

/// Segments from `una` (the first unacknowledged) to `nxt` (the next to send).
#[derive(Debug)]
pub struct Scoreboard {
    ring: Vec<Segment>,
    /// Flights of the same segments, if the controller takes delivery-rate samples; else empty.
    flights: Vec<Flight>,
    una: u32,
    nxt: u32,
    sacked: u32,
    lost: u32,
    retransmitted: u32,
    /// Selectively acknowledged blocks in order, disjoint and not adjacent.
    blocks: Vec<Block>,
    /// Segments to retransmit, the first in sequence first; stale entries are skipped.
    to_retransmit: BinaryHeap<Reverse<u32>>,
    /// Retransmissions in the order of sending, for loss detection by time.
    retransmissions: VecDeque<(u32, Time)>,
    /// First transmissions before this segment are resolved: acknowledged or marked lost.
    resolved: u32,
    /// Segments before this one may have been retransmitted, or be the first to arrive after news.
    clean_from: u32,
    /// Segments marked lost since they were last taken, if wanted.
    losses: Option<Vec<u32>>,
}

impl Default for Scoreboard {
    fn default() -> Self {
        Self {
            ring: vec![Segment::default(); 64],
            flights: Vec::new(),
            una: 0,
            nxt: 0,
            sacked: 0,
            lost: 0,
            retransmitted: 0,
            blocks: Vec::new(),
            to_retransmit: BinaryHeap::new(),
            retransmissions: VecDeque::new(),
            resolved: 0,
            clean_from: 0,
            losses: None,
        }
    }
}

impl Scoreboard {
    /// An empty scoreboard. Keeps what it marks lost, if `log`, for [`take_losses`](Self::take_losses), and if `flights`
    /// those of segments.
    #[must_use]
    pub fn new(log: bool, flights: bool) -> Self {
        let board = Self { losses: log.then(Vec::new), ..Self::default() };
        let flights = if flights { vec![Flight::default(); board.ring.len()] } else { Vec::new() };
        Self { flights, ..board }
    }

    /// Segments marked lost since this was last called.
    pub fn take_losses(&mut self) -> Vec<u32> {
        self.losses.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// First unacknowledged segment.
    #[must_use]
    #[inline]
    pub fn una(&self) -> u32 {
        self.una
    }

    /// Next segment to send for the first time.
    #[must_use]
    #[inline]
    pub fn nxt(&self) -> u32 {
        self.nxt
    }

    /// Segments sent and not cumulatively acknowledged (`packets_out`).
    #[must_use]
    #[inline]
    pub fn outstanding(&self) -> u32 {
        self.nxt - self.una
    }

    /// Segments selectively acknowledged (`sacked_out`).
    #[must_use]
    #[inline]
    pub fn sacked(&self) -> u32 {
        self.sacked
    }

    /// The segment after the last selectively acknowledged one; the first unacknowledged if there is none
    /// (`tcp_highest_sack_seq`).
    #[must_use]
    #[inline]
    pub fn highest_sacked(&self) -> u32 {
        self.blocks.last().map_or(self.una, |b| b.1)
    }

    /// Segments marked lost (`lost_out`).
    #[must_use]
    #[inline]
    pub fn lost(&self) -> u32 {
        self.lost
    }

    /// `tcp_packets_in_flight`: outstanding − sacked − lost + retransmitted.
    #[must_use]
    #[inline]
    pub fn in_flight(&self) -> u32 {
        (self.outstanding() + self.retransmitted).saturating_sub(self.sacked + self.lost)
    }

    /// Retransmitted segments in flight (`retrans_out`).
    #[inline]
    pub fn retransmitted(&self) -> u32 {
        self.retransmitted
    }

    /// Nothing sacked, lost or retransmitted before `cumulative`: its acknowledgement needs no look at each segment.
    #[must_use]
    #[inline]
    pub fn clean(&self) -> bool {
        self.sacked | self.lost | self.retransmitted == 0 && self.una >= self.clean_from
    }

    /// The acknowledgement of what is outstanding now needs a closer look.
    pub fn expect_news(&mut self) {
        self.clean_from = self.clean_from.max(self.nxt);
    }

    /// Segment `seq`, which is outstanding.
    #[must_use]
    #[inline]
    pub fn get(&self, seq: u32) -> Segment {
        self.ring[seq as usize & (self.ring.len() - 1)]
    }

    /// The flight of segment `seq`, which is outstanding or has just been acknowledged, if flights are kept.
    #[must_use]
    #[inline]
    pub fn flight(&self, seq: u32) -> Option<Flight> {
        self.flights.get(seq as usize & (self.ring.len() - 1)).copied()
    }

    #[inline]
    fn set_flight(&mut self, seq: u32, flight: Flight) {
        let mask = self.ring.len() - 1;
        if let Some(slot) = self.flights.get_mut(seq as usize & mask) {
            *slot = flight;
        }
    }

    #[inline]
    fn at(&mut self, seq: u32) -> &mut Segment {
        let mask = self.ring.len() - 1;
        &mut self.ring[seq as usize & mask]
    }

    /// Books a first transmission of segment `nxt`.
    #[inline]
    pub fn push(&mut self, segment: Segment, flight: Flight) {
        if self.outstanding() as usize == self.ring.len() {
            self.grow();
        }
        let seq = self.nxt;
        *self.at(seq) = segment;
        self.set_flight(seq, flight);
        self.nxt += 1;
    }

    #[cold]
    fn grow(&mut self) {
        let size = self.ring.len() * 2;
        let mut ring = vec![Segment::default(); size];
        let mut flights = vec![Flight::default(); if self.flights.is_empty() { 0 } else { size }];
        for seq in self.una..self.nxt {
            let at = seq as usize & (size - 1);
            ring[at] = self.get(seq);
            if let Some(flight) = self.flight(seq) {
                flights[at] = flight;
            }
        }
        (self.ring, self.flights) = (ring, flights);
    }

    /// Advances `una` without a look at the segments; only if [`clean`](Self::clean).
    #[inline]
    pub fn acknowledge_clean(&mut self, cumulative: u32) {
        self.una = cumulative;
    }

    /// Advances `una` and hands every segment that was not delivered before to `delivered`.
    pub fn acknowledge(&mut self, cumulative: u32, mut delivered: impl FnMut(u32, &Segment)) {
        for seq in self.una..cumulative {
            let segment = self.get(seq);
            if segment.flags & SACKED != 0 {
                self.sacked -= 1;
            } else {
                self.forget_loss(seq);
                delivered(seq, &segment);
            }
        }
        self.una = cumulative;
        let keep = self.blocks.partition_point(|b| b.1 <= cumulative);
        self.blocks.drain(..keep);
        if let Some(first) = self.blocks.first_mut() {
            first.0 = first.0.max(cumulative);
        }
        self.resolved = self.resolved.max(cumulative);
    }

    fn forget_loss(&mut self, seq: u32) {
        let segment = self.at(seq);
        let flags = segment.flags;
        segment.flags &= !(LOST | RETRANSMITTED);
        self.lost -= u32::from(flags & LOST != 0);
        self.retransmitted -= u32::from(flags & RETRANSMITTED != 0);
    }

    /// Books a selectively acknowledged block and hands the newly delivered segments to `delivered`.
    pub fn sack(&mut self, block: Block, mut delivered: impl FnMut(u32, &Segment)) {
        let (start, end) = (block.0.max(self.una), block.1.min(self.nxt));
        if start >= end {
            return;
        }
        // Known blocks that the new one touches are merged; only the gaps between them are news.
        let first = self.blocks.partition_point(|b| b.1 < start);
        let last = self.blocks.partition_point(|b| b.0 <= end);
        let (mut low, mut high, mut from) = (start, end, start);
        for i in first..last {
            let known = self.blocks[i];
            for seq in from..known.0.min(end) {
                self.deliver(seq, &mut delivered);
            }
            from = from.max(known.1);
            low = low.min(known.0);
            high = high.max(known.1);
        }
        for seq in from..end {
            self.deliver(seq, &mut delivered);
        }
        self.blocks.splice(first..last, [(low, high)]);
    }

    fn deliver(&mut self, seq: u32, delivered: &mut impl FnMut(u32, &Segment)) {
        let segment = self.get(seq);
        self.forget_loss(seq);
        self.at(seq).flags |= SACKED;
        self.sacked += 1;
        delivered(seq, &segment);
    }

    /// A duplicate acknowledgement of a receiver without SACK: some later segment has arrived (`tcp_add_reno_sack`). False
    /// if there are more than such segments.
    pub fn count_duplicate(&mut self) -> bool {
        self.sacked += 1;
        !self.limit_duplicates()
    }

    /// Counts no more duplicates than segments that may have arrived (`tcp_limit_reno_sacked`); true if there were more.
    pub fn limit_duplicates(&mut self) -> bool {
        let most = self.outstanding() - self.lost.max(1).min(self.outstanding());
        let more = self.sacked > most;
        self.sacked = self.sacked.min(most);
        more
    }

    /// Acknowledges without SACK: of `acked` segments, all but the first were counted as duplicates
    /// before (`tcp_remove_reno_sacks`).
    pub fn acknowledge_without_sack(&mut self, cumulative: u32, mut delivered: impl FnMut(u32, &Segment)) {
        let acked = cumulative - self.una;
        for seq in self.una..cumulative {
            let segment = self.get(seq);
            self.forget_loss(seq);
            delivered(seq, &segment);
        }
        self.una = cumulative;
        self.sacked = self.sacked.saturating_sub(acked.saturating_sub(1));
        self.resolved = self.resolved.max(cumulative);
    }

    /// Forgets the duplicates that are counted without SACK.
    pub fn reset_duplicates(&mut self) {
        self.sacked = 0;
    }

    /// Marks `seq` lost, also if it was a retransmission (`tcp_mark_skb_lost`). Returns whether anything changed.
    pub fn mark_lost(&mut self, seq: u32) -> bool {
        let segment = self.at(seq);
        let flags = segment.flags;
        if flags & SACKED != 0 || flags & (LOST | RETRANSMITTED) == LOST {
            return false;
        }
        segment.flags = (flags | LOST) & !RETRANSMITTED;
        self.lost += u32::from(flags & LOST == 0);
        self.retransmitted -= u32::from(flags & RETRANSMITTED != 0);
        self.to_retransmit.push(Reverse(seq));
        if let Some(losses) = &mut self.losses {
            losses.push(seq);
        }
        true
    }

    /// The next segment to retransmit.
    #[inline]
    pub fn next_retransmission(&mut self) -> Option<u32> {
        if self.lost == 0 {
            return None;
        }
        while let Some(&Reverse(seq)) = self.to_retransmit.peek() {
            if seq >= self.una && self.get(seq).flags & (SACKED | LOST | RETRANSMITTED) == LOST {
                return Some(seq);
            }
            self.to_retransmit.pop();
        }
        None
    }

    /// Books the retransmission of `seq`.
    pub fn retransmit(&mut self, seq: u32, transmission: Segment, flight: Flight) {
        let flags = self.get(seq).flags;
        let counted = flags & RETRANSMITTED == 0;
        *self.at(seq) = Segment {
            flags: (flags & !APP_LIMITED) | transmission.flags | RETRANSMITTED | EVER_RETRANSMITTED,
            ..transmission
        };
        self.set_flight(seq, flight);
        self.retransmitted += u32::from(counted);
        self.expect_news();
        self.retransmissions.push_back((seq, transmission.sent));
    }

    /// RACK (RFC 8985 §6.2, `tcp_rack_detect_loss`): marks lost what was sent before `newest` (the latest delivered
    /// transmission) and longer than `window` ago.
    pub fn detect_losses(&mut self, newest: (Time, u32), window: Dur, now: Time) -> Detection {
        let mut found = Detection::NONE;
        self.resolved = self.resolved.max(self.una);
        while self.resolved < self.nxt {
            let segment = self.get(self.resolved);
            if segment.flags & (SACKED | LOST | EVER_RETRANSMITTED) == 0 {
                if (segment.sent, self.resolved) >= newest {
                    break;
                }
                if segment.sent + window > now {
                    found.again = self.last_in_doubt(newest).sent + window;
                    break;
                }
                found.marked += u32::from(self.mark_lost(self.resolved));
            }
            self.resolved += 1;
        }
        while let Some(&(seq, sent)) = self.retransmissions.front() {
            if self.is_under_way(seq, sent) {
                if (sent, seq) >= newest {
                    break;
                }
                if sent + window > now {
                    let due = self.last_retransmission_in_doubt(newest, sent) + window;
                    found.again = if found.again == Time::NEVER { due } else { found.again.max(due) };
                    break;
                }
                found.marked += u32::from(self.mark_lost(seq));
                found.retransmissions += 1;
            }
            self.retransmissions.pop_front();
        }
        found
    }

    /// The last segment that was sent once and before `newest` and has not arrived; the first is `resolved`.
    fn last_in_doubt(&self, newest: (Time, u32)) -> Segment {
        let sent_before = |seq: u32| (self.get(seq).sent, seq) < newest;
        let in_doubt = |seq: u32| self.get(seq).flags & (SACKED | LOST | EVER_RETRANSMITTED) == 0 && sent_before(seq);
        let mut end = self.nxt;
        for block in self.blocks.iter().rev().copied().chain([(self.resolved, self.resolved)]) {
            // Gaps from the last one back; what was sent once was sent in this order.
            let gap = block.1.max(self.resolved)..end;
            if gap.start < gap.end && sent_before(gap.start) {
                if let Some(last) = gap.rev().find(|&seq| in_doubt(seq)) {
                    return self.get(last);
                }
            }
            end = block.0;
        }
        self.get(self.resolved)
    }

    /// Send time of the last retransmission before `newest` that is under way; the first was sent at `first`.
    fn last_retransmission_in_doubt(&self, newest: (Time, u32), first: Time) -> Time {
        let before = self.retransmissions.partition_point(|&(seq, sent)| (sent, seq) < newest);
        let mut those = self.retransmissions.range(..before).rev();
        those.find(|&&(seq, sent)| self.is_under_way(seq, sent)).map_or(first, |&(_, sent)| sent)
    }

    /// The retransmission of `seq` that was sent at `sent` has neither arrived nor been taken for lost.
    fn is_under_way(&self, seq: u32, sent: Time) -> bool {
        seq >= self.una && {
            let segment = self.get(seq);
            segment.flags & (SACKED | RETRANSMITTED) == RETRANSMITTED && segment.sent == sent
        }
    }

    /// Marks everything outstanding and older than `recent` as lost after a timeout
    /// (`tcp_timeout_mark_lost`).
    pub fn mark_all_lost(&mut self, recent: Time) -> u32 {
        let mut marked = 0;
        self.to_retransmit.clear();
        for seq in self.una..self.nxt {
            let segment = self.get(seq);
            if segment.flags & SACKED != 0 {
                continue;
            }
            if segment.flags & (LOST | RETRANSMITTED) == LOST {
                self.to_retransmit.push(Reverse(seq));
            } else if seq == self.una || segment.sent <= recent {
                marked += u32::from(self.mark_lost(seq));
            }
        }
        marked
    }

    /// Counts equal what the flags say.
    #[cfg(test)]
    pub fn check(&self) {
        let all = self.una..self.nxt;
        let count = |mask: u8| all.clone().filter(|&s| self.get(s).flags & mask != 0).count() as u32;
        assert_eq!((self.lost, self.retransmitted), (count(LOST), count(RETRANSMITTED)));
        assert!(
            all.clone().all(|s| self.get(s).flags & SACKED == 0 || self.get(s).flags & (LOST | RETRANSMITTED) == 0)
        );
        assert!(self.blocks.windows(2).all(|w| w[0].1 < w[1].0));
        let blocked = self.blocks.iter().map(|b| b.1 - b.0).sum::<u32>();
        assert_eq!(blocked, count(SACKED));
        assert!(
            self.blocks.is_empty() || self.sacked == blocked,
            "without blocks these are duplicate acknowledgements"
        );
        assert!(self.in_flight() <= self.outstanding() + self.retransmitted);
        assert!(self.sacked + self.lost <= self.outstanding(), "no segment has both arrived and been lost");
    }

    /// The losses were spurious: nothing is marked any more (`tcp_undo_cwnd_reduction` with `unmark_loss`).
    pub fn unmark_losses(&mut self) {
        for seq in self.una..self.nxt {
            self.at(seq).flags &= !LOST;
        }
        self.lost = 0;
        self.to_retransmit.clear();
        self.resolved = self.una;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Op {
        Send(u32),
        Acknowledge(u32),
        Sack(u32, u32),
        Detect(u32),
        Retransmit,
        Timeout,
        Unmark,
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        prop::collection::vec(
            prop_oneof![
                (1u32..40).prop_map(Op::Send),
                (0u32..30).prop_map(Op::Acknowledge),
                (0u32..60, 1u32..20).prop_map(|(a, n)| Op::Sack(a, n)),
                (0u32..60).prop_map(Op::Detect),
                Just(Op::Retransmit),
                Just(Op::Timeout),
                Just(Op::Unmark),
            ],
            1..120,
        )
    }

    proptest! {
        /// Counts equal what the flags say, and every segment is delivered exactly once.
        #[test]
        fn counts_agree_with_flags(ops in ops()) {
            let mut board = Scoreboard::default();
            let mut delivered = std::collections::BTreeSet::new();
            let mut now = Time(0);
            for op in ops {
                now = now + Dur(1000);
                let fresh = |board: &Scoreboard| Segment::new(now, board.nxt(), false);
                match op {
                    Op::Send(n) => for _ in 0..n { board.push(fresh(&board), Flight::default()); },
                    Op::Acknowledge(n) => {
                        let to = (board.una() + n).min(board.nxt());
                        board.acknowledge(to, |seq, _| assert!(delivered.insert(seq)));
                    }
                    Op::Sack(a, n) => {
                        let start = board.una() + 1 + a;
                        board.sack((start, start + n), |seq, _| assert!(delivered.insert(seq)));
                    }
                    Op::Detect(a) => {
                        let seq = (board.una() + a).min(board.nxt());
                        board.detect_losses((now, seq), Dur(1500), now);
                    }
                    Op::Retransmit => if let Some(seq) = board.next_retransmission() {
                        board.retransmit(seq, fresh(&board), Flight::default());
                    },
                    Op::Timeout => { board.mark_all_lost(now); }
                    Op::Unmark => board.unmark_losses(),
                }
                board.check();
                prop_assert_eq!(delivered.len() as u32, board.una + board.sacked);
            }
        }
    }
}
