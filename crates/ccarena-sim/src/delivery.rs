//! Delivery by one acknowledgement (`struct tcp_sacktag_state` and the walk of
//! `tcp_clean_rtx_queue`).

use ccarena_cc::{Dur, Time};

use crate::scoreboard::Segment;

/// Ticks of the timestamp option in nanoseconds (`TCP_TS_HZ`).
const TICK_NS: u64 = 1_000_000;

/// The timestamp `echo` is older than `sent` (`tcp_tsopt_ecr_before`).
#[inline]
pub fn older(echo: Time, sent: Time) -> bool {
    echo.0 / TICK_NS < sent.0 / TICK_NS
}

/// Delivery by one acknowledgement, gathered over its segments.
#[derive(Clone, Copy, Debug)]
pub struct Delivery {
    pub now: Time,
    pub packets: u32,
    /// Send times of the first and the last never-retransmitted segment it covers cumulatively.
    pub first_acked: Time,
    pub last_acked: Time,
    /// The same for selectively covered ones.
    pub first_sacked: Time,
    pub last_sacked: Time,
    /// Some segment is newly covered selectively (`FLAG_DATA_SACKED`).
    pub sacked: bool,
    pub retransmitted_acked: bool,
    /// First never-retransmitted segments that it covers cumulatively and selectively.
    pub lowest_acked: u32,
    pub lowest_sacked: u32,
    /// Segments that the receiver reports as duplicates, and whether the last tail-loss probe is one (`FLAG_DSACK_TLP`).
    pub duplicates: u32,
    pub probe_duplicate: bool,
    /// A never-retransmitted segment before `high` is covered (`FLAG_ORIG_SACK_ACKED`).
    pub original: bool,
    high: u32,
    /// The echoed timestamp and the smallest RTT, which tell whether a segment or its repetition has arrived.
    echo: Time,
    min_rtt: Dur,
    /// The latest transmission that has surely arrived (`tcp_rack_advance`).
    pub latest: Option<(Time, u32)>,
    /// The most recently sent segment it covers (`tcp_rate_skb_delivered`).
    pub newest: Option<(Segment, u32)>,
}

impl Delivery {
    /// Nothing yet, at an acknowledgement that echoes the time `echo`; an episode of recovery ends at segment `high`.
    #[inline]
    pub fn new(now: Time, echo: Time, high: u32, min_rtt: Dur) -> Self {
        Self {
            now,
            packets: 0,
            first_acked: Time::NEVER,
            last_acked: Time::NEVER,
            first_sacked: Time::NEVER,
            last_sacked: Time::NEVER,
            sacked: false,
            retransmitted_acked: false,
            lowest_acked: u32::MAX,
            lowest_sacked: u32::MAX,
            duplicates: 0,
            probe_duplicate: false,
            original: false,
            high,
            echo,
            min_rtt,
            latest: None,
            newest: None,
        }
    }

    #[inline]
    fn book(&mut self, seq: u32, segment: &Segment) {
        self.packets += 1;
        self.original |= seq < self.high && !segment.ever_retransmitted();
        if self.newest.is_none_or(|(n, s)| (segment.sent, seq) > (n.sent, s)) {
            self.newest = Some((*segment, seq));
        }
    }

    /// Segments delivered, needless retransmissions among them.
    #[inline]
    pub fn delivered(&self) -> u32 {
        self.packets + self.duplicates
    }

    fn advance(&mut self, seq: u32, segment: &Segment) {
        let implausible = segment.ever_retransmitted() && self.now.since(segment.sent) < self.min_rtt;
        if !implausible {
            self.latest = self.latest.max(Some((segment.sent, seq)));
        }
    }

    /// A segment that was not delivered before is acknowledged cumulatively.
    #[inline]
    pub fn acked(&mut self, seq: u32, segment: &Segment) {
        self.book(seq, segment);
        // The original has arrived, and not its repetition (`tcp_skb_spurious_retrans`).
        let spurious = segment.ever_retransmitted() && older(self.echo, segment.sent);
        if !spurious {
            self.advance(seq, segment);
        }
        if segment.ever_retransmitted() {
            self.retransmitted_acked = true;
        } else {
            self.last_acked = segment.sent;
            self.lowest_acked = self.lowest_acked.min(seq);
            if self.first_acked == Time::NEVER {
                self.first_acked = segment.sent;
            }
        }
    }

    /// A segment is selectively acknowledged for the first time.
    pub fn sacked(&mut self, seq: u32, segment: &Segment) {
        self.book(seq, segment);
        self.advance(seq, segment);
        self.sacked = true;
        if !segment.ever_retransmitted() {
            self.last_sacked = segment.sent;
            self.lowest_sacked = self.lowest_sacked.min(seq);
            if self.first_sacked == Time::NEVER {
                self.first_sacked = segment.sent;
            }
        }
    }

    /// RTT for the timeout and RTT for congestion control (`tcp_clean_rtx_queue`, `tcp_ack_update_rtt`).
    #[inline]
    pub fn rtt(&self, advanced: bool) -> Option<(Dur, Dur)> {
        let since = |t: Time| (t != Time::NEVER).then(|| self.now.since(t));
        let sequence = if self.retransmitted_acked { None } else { since(self.first_acked) };
        let last = if self.retransmitted_acked { None } else { since(self.last_acked) };
        let congestion = since(self.last_sacked).or(last);
        match (sequence.or(since(self.first_sacked)), congestion) {
            (Some(s), Some(c)) => Some((s, c)),
            // Only retransmitted segments: the echoed timestamp tells which transmission was heard (RFC 7323 §4.1).
            _ if advanced && self.echo > Time::ZERO => {
                let rtt = self.now.since(self.echo);
                Some((rtt, rtt))
            }
            _ => None,
        }
    }
}
