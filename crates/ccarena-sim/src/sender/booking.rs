//! Booking of acknowledgements: what they deliver (`tcp_clean_rtx_queue`, `tcp_sacktag_write_queue`), and what they tell of
//! reordering and duplicates.

use ccarena_cc::{Bytes, RateSample, RecoveryState, Time};

use super::Sender;
use crate::delivery::Delivery;
use crate::numbers::Numbers;
use crate::packet::{Ack, Block};
use crate::scoreboard::{Flight, Segment};

impl Sender {
    /// Books an acknowledgement that may carry news of losses.
    #[cold]
    pub(super) fn book(&mut self, ack: &Ack, blocks: &[Block], delivery: &mut Delivery) {
        if self.options.sack { self.book_blocks(ack, blocks, delivery) } else { self.book_without_sack(ack, delivery) }
    }

    #[inline]
    fn book_blocks(&mut self, ack: &Ack, blocks: &[Block], delivery: &mut Delivery) {
        let mut blocks = blocks;
        if ack.duplicate
            && let Some((&duplicate, others)) = blocks.split_first()
        {
            self.book_duplicate(duplicate, delivery);
            blocks = others;
        }
        let highest = self.board.highest_sacked();
        let numbers = &mut self.numbers;
        if ack.cumulative > self.board.una() {
            self.board.acknowledge(ack.cumulative, |seq, s| {
                delivery.acked(seq, s);
                note(numbers, seq);
            });
        }
        // The most recent block comes first; older ones repeat what is known, in case acknowledgements were lost.
        for &block in blocks.iter().rev() {
            self.board.sack(block, |seq, s| {
                delivery.sacked(seq, s);
                note(numbers, seq);
            });
        }
        // Segments that were sent once and have arrived behind others.
        let now_highest = self.board.highest_sacked();
        if delivery.lowest_sacked < highest && (self.recovery != RecoveryState::Loss || self.undo.possible()) {
            self.reordering.on_behind(delivery.lowest_sacked, now_highest);
        }
        if delivery.lowest_acked < highest {
            self.reordering.on_behind(delivery.lowest_acked, now_highest);
        }
    }

    /// The receiver had a segment before (D-SACK, `tcp_check_dsack`).
    fn book_duplicate(&mut self, block: Block, delivery: &mut Delivery) {
        let probe = self.probe_high.is_some_and(|(high, _)| high == block.1);
        if !self.reordering.on_duplicate(probe, self.stats.retransmitted) {
            return;
        }
        // A needless retransmission is delivered, too.
        self.delivered += 1;
        self.delivered_at = delivery.now;
        delivery.duplicates += 1;
        delivery.probe_duplicate = probe;
        // The next acknowledgement that delivers something widens RACK's window.
        self.board.expect_news();
        let seq = block.0;
        if seq < self.board.una() {
            self.undo.on_duplicate(seq);
        } else if seq < self.board.nxt() && self.board.get(seq).ever_retransmitted() {
            self.undo.on_duplicate(seq);
            if self.board.get(seq).is_sacked() {
                delivery.lowest_sacked = delivery.lowest_sacked.min(seq);
            }
        }
    }

    fn book_without_sack(&mut self, ack: &Ack, delivery: &mut Delivery) {
        if ack.cumulative > self.board.una() {
            let (before, acked) = (self.board.sacked(), ack.cumulative - self.board.una());
            let numbers = &mut self.numbers;
            self.board.acknowledge_without_sack(ack.cumulative, |seq, s| {
                delivery.acked(seq, s);
                note(numbers, seq);
            });
            delivery.packets -= delivery.packets.saturating_sub(1).min(before);
            // A retransmission may be what made the progress (`tcp_clean_rtx_queue`).
            delivery.original &= !delivery.retransmitted_acked;
            if self.board.limit_duplicates() {
                self.reordering.on_too_many_duplicates(self.board.outstanding() + acked);
            }
            if matches!(self.recovery, RecoveryState::Open | RecoveryState::Loss) {
                self.board.reset_duplicates();
            }
        } else if self.board.outstanding() > 0
            // `tcp_process_loss`: a duplicate is of data sent after the timeout.
            && (self.recovery != RecoveryState::Loss || self.board.nxt() > self.high)
        {
            if self.board.count_duplicate() {
                delivery.packets += 1;
            } else {
                self.reordering.on_too_many_duplicates(self.board.outstanding());
            }
        }
    }

    /// `packets` are newly delivered, `newest` the one of them that was sent last, `latest` the transmission that has
    /// surely arrived: moves the RACK clock and takes a delivery-rate sample (`tcp_rate_gen`).
    #[inline]
    pub(super) fn sample_rate(
        &mut self,
        now: Time,
        packets: u32,
        newest: (Segment, u32),
        latest: Option<(Time, u32)>,
    ) -> Option<RateSample> {
        self.delivered += packets;
        self.delivered_at = now;
        if self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        self.advance_rack(latest, now);
        let Flight { first_sent, delivered_at } = self.board.flight(newest.1)?;
        let newest = newest.0;
        self.first_sent = newest.sent;
        let interval = newest.sent.since(first_sent).max(now.since(delivered_at));
        if interval < self.rtt.min() || interval.0 == 0 {
            return None;
        }
        let mss = u64::from(self.options.mss);
        Some(RateSample {
            delivered: Bytes(u64::from(self.delivered - newest.delivered) * mss),
            interval,
            prior_delivered: Bytes(u64::from(newest.delivered) * mss),
            app_limited: newest.app_limited(),
        })
    }

    /// The transmission of a segment at a time has surely arrived (`tcp_rack_advance`).
    #[inline]
    pub(super) fn advance_rack(&mut self, latest: Option<(Time, u32)>, now: Time) {
        if let Some((sent, seq)) = latest
            && (sent, seq + 1) > self.rack
        {
            self.rack = (sent, seq + 1);
            self.rack_rtt = now.since(sent);
            self.rack_advanced = true;
        }
    }
}

/// Remembers that `seq` is newly delivered.
#[inline]
fn note(numbers: &mut Option<Numbers>, seq: u32) {
    if let Some(numbers) = numbers {
        numbers.acked(seq..seq + 1);
    }
}
