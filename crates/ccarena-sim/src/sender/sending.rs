//! Transmission of a sender's segments.

use ccarena_cc::{Bytes, Dur, Rate, RecoveryState, SentInfo, Time};
use ccarena_net::Ecn;

use super::{Emission, Sender, Timer};
use crate::pacer::Pacer;
use crate::scoreboard::{Flight, Segment};

/// A segment that is about to leave.
#[derive(Clone, Copy)]
pub struct Leaving {
    seq: u32,
    ecn: Ecn,
    reduced: bool,
}

/// Segments that leave in one burst.
#[derive(Default)]
struct Burst {
    new_data_first: bool,
    /// New data waits until more of it can leave together.
    deferred: bool,
    /// Something has been sent.
    sent: bool,
    /// The window ends it.
    limited: bool,
    /// Segments that [need no look at each](Sender::plain_segments), and leave first.
    plain: u32,
    /// Segments that the pacer has not counted yet, and that it still lets go.
    uncounted: u32,
    left: u32,
}

impl Sender {
    /// Sends `first`, and then what window, pacing and application allow (`tcp_write_xmit`, `tcp_xmit_retransmit_queue`).
    ///
    /// Emissions are made at one place, so that what becomes of them is inlined there: written to memory field by field
    /// and copied from it as a whole, each would wait for its own writing.
    #[inline]
    pub fn send(&mut self, now: Time, first: Option<Leaving>, mut emit: impl FnMut(Emission)) {
        if self.board.outstanding() == 0 && self.last_sent != Time::NEVER && self.may_send_new() {
            self.end_silence(now);
        }
        let nxt = self.board.nxt();
        let mut burst = Burst {
            new_data_first: std::mem::take(&mut self.new_data_first),
            deferred: self.options.burst > 1 && self.defers_burst(),
            ..Burst::default()
        };
        self.pace_timer = Time::NEVER;
        if self.signals {
            self.read_request();
        }
        let mut first = first;
        if first.is_none() && !burst.deferred && !burst.new_data_first {
            (burst.plain, burst.limited) = self.plain_segments();
            if burst.plain > 0 {
                burst.sent = true;
                self.last_sent = now;
                self.stats.sent += u64::from(burst.plain);
            }
        }
        loop {
            let emission = if burst.plain > 0 {
                burst.plain -= 1;
                self.plain_emission(now)
            } else if burst.limited {
                break;
            } else if let Some(leaving) = first.take().or_else(|| self.next_to_leave(now, &mut burst)) {
                self.emission(leaving, now)
            } else {
                break;
            };
            emit(emission);
        }
        let Burst { sent, limited, uncounted, .. } = burst;
        if let Some(rate) = self.pacing {
            self.count_burst(now, rate, uncounted);
        }
        if sent || limited {
            self.validate_window(limited);
        }
        if !limited && !self.may_send_new() && self.board.lost() == 0 {
            // `tcp_rate_check_app_limited`
            self.app_limited_until = (self.delivered + self.board.in_flight()).max(1);
        }
        if self.board.nxt() > nxt {
            self.on_new_data(now);
        }
    }

    /// Number of whole segments of new data that the window lets go at once, while nothing needs a look at each: nothing is
    /// paced, lost or being repaired, no message ends, and the controller asks for no single segment. And whether the window
    /// ends there.
    #[inline]
    fn plain_segments(&self) -> (u32, bool) {
        let (board, in_flight) = (&self.board, self.board.in_flight());
        let watched = self.every_segment || self.tell_reduction || !self.app.is_plain();
        if self.pacing.is_some()
            || self.recovery != RecoveryState::Open
            || watched
            || board.lost() > 0
            || in_flight == 0
        {
            return (0, false);
        }
        let room = self.window.saturating_sub(in_flight);
        let receiver = self.options.receive_window.saturating_sub(board.outstanding());
        let plain = room.min(self.app.available().saturating_sub(board.nxt())).min(receiver);
        (plain, plain == room)
    }

    /// Sends the next of the [`plain_segments`](Self::plain_segments).
    #[inline(always)]
    fn plain_emission(&mut self, now: Time) -> Emission {
        let seq = self.board.nxt();
        let stamp = self.stamp(now);
        self.board.push(Segment::new(stamp, self.delivered, self.app_limited_until > 0), self.flight());
        let (payload, rtt, ecn) = (self.options.mss, self.rtt.known(), self.options.ecn);
        Emission { seq, payload, rtt, signal: self.request, ecn, reduced: false, pushed: false }
    }

    /// The next segment that may leave now.
    #[inline(always)]
    fn next_to_leave(&mut self, now: Time, burst: &mut Burst) -> Option<Leaving> {
        if self.board.in_flight() >= self.window() {
            burst.limited = true;
            return None;
        }
        let lost = if self.board.lost() == 0 || burst.new_data_first { None } else { self.board.next_retransmission() };
        if lost.is_none() && !self.may_send_new() {
            return None;
        }
        if burst.deferred && lost.is_none() {
            burst.limited = true;
            return None;
        }
        if let Some(rate) = self.pacing {
            if burst.left == 0 {
                self.count_burst(now, rate, std::mem::take(&mut burst.uncounted));
                let next = if self.paces_each { self.pacer.next_at(rate) } else { self.pacer.next() };
                if now < next {
                    self.pace_timer = next;
                    return None;
                }
                let least = self.controller.min_burst_segments();
                burst.left = if self.paces_each { 1 } else { Pacer::burst(rate, self.options.mss, least) };
            }
            burst.left -= 1;
            burst.uncounted += 1;
        }
        burst.sent = true;
        Some(match lost {
            Some(seq) => self.retransmit_lost(seq, now),
            None => self.transmit_new(now),
        })
    }

    /// Reads the current request to routers. It is rarely changed, and only then written anew.
    fn read_request(&mut self) {
        let Some(routers) = self.controller.router_assisted() else { return };
        let request = routers.request();
        if request != self.request {
            self.request = request;
        }
    }

    /// Sending restarts after silence.
    #[cold]
    fn end_silence(&mut self, now: Time) {
        let idle = now.since(self.last_sent);
        if idle > self.rto() {
            self.controller.on_idle_restart(now, idle, self.rto());
            self.read_controller();
        }
    }

    /// `tcp_tso_should_defer`: new data waits until the window has room for a burst, or a third of the window; the last of
    /// a transfer does not, nor what repairs a loss. While anything is in flight acknowledgements will come.
    #[cold]
    fn defers_burst(&self) -> bool {
        let (window, in_flight) = (self.window(), self.board.in_flight());
        if self.pacing.is_some() || self.repairing() || in_flight == 0 {
            return false;
        }
        let room = window.saturating_sub(in_flight);
        room < self.options.burst.min(window / 3) && self.app.available() - self.board.nxt() > room
    }

    /// `tcp_event_new_data_sent` and the end of `tcp_write_xmit`.
    #[inline(always)]
    fn on_new_data(&mut self, now: Time) {
        let timeout = self.until_timeout(now);
        if !self.schedule_probe(now, timeout) && matches!(self.timer, Timer::Off | Timer::Probe) {
            self.rearm(now);
        }
    }

    #[inline]
    fn count_burst(&mut self, now: Time, rate: Rate, segments: u32) {
        if segments > 0 {
            self.pacer.on_burst(now, rate, self.bytes(segments).0);
        }
    }

    /// `tcp_cwnd_validate`.
    #[inline]
    fn validate_window(&mut self, limited: bool) {
        let outstanding = self.board.outstanding();
        if self.board.una() >= self.usage_mark
            || limited
            || (!self.window_limited && outstanding > self.most_outstanding)
        {
            self.window_limited = limited;
            self.most_outstanding = outstanding;
            self.usage_mark = self.board.nxt();
        }
    }

    #[inline(always)]
    pub(super) fn transmit_new(&mut self, now: Time) -> Leaving {
        let seq = self.board.nxt();
        if self.board.outstanding() == 0 {
            self.first_sent = now;
            self.delivered_at = now;
        }
        self.tell_controller(seq, now, false);
        let limited = self.app_limited_until > 0;
        let stamp = self.stamp(now);
        self.board.push(Segment::new(stamp, self.delivered, limited), self.flight());
        let reduced = std::mem::take(&mut self.tell_reduction);
        Leaving { seq, ecn: self.options.ecn, reduced }
    }

    /// A segment that is marked lost (`tcp_xmit_retransmit_queue`): with the first outstanding one the timer starts anew.
    #[cold]
    fn retransmit_lost(&mut self, seq: u32, now: Time) -> Leaving {
        let leaving = self.retransmit(seq, now);
        self.undo.on_retransmission(now);
        if seq == self.board.una() && self.timer != Timer::Reorder {
            self.start_timer(Timer::Retransmit, now, self.rto());
        }
        leaving
    }

    #[inline]
    fn flight(&self) -> Flight {
        Flight { first_sent: self.first_sent, delivered_at: self.delivered_at }
    }

    /// The time of a transmission: after the one before, so that RACK knows which came first.
    #[inline]
    fn stamp(&mut self, now: Time) -> Time {
        self.last_stamp = now.max(self.last_stamp + Dur(1));
        self.last_stamp
    }

    pub(super) fn retransmit(&mut self, seq: u32, now: Time) -> Leaving {
        self.tell_controller(seq, now, true);
        let limited = self.app_limited_until > 0;
        let stamp = self.stamp(now);
        self.board.retransmit(seq, Segment::new(stamp, self.delivered, limited), self.flight());
        self.stats.retransmitted += 1;
        // TCP's retransmissions are not marked (RFC 3168 §6.1.5); what QUIC repairs leaves in new packets.
        let ecn = if self.options.ack_delay { self.options.ecn } else { Ecn::NotEct };
        Leaving { seq, ecn, reduced: false }
    }

    #[inline]
    fn tell_controller(&mut self, seq: u32, now: Time, retransmission: bool) {
        if self.every_segment || self.board.in_flight() == 0 {
            self.tell_sent(seq, now, retransmission);
        }
    }

    fn tell_sent(&mut self, seq: u32, now: Time, retransmission: bool) {
        let number = self.numbers.as_mut().map_or(0, |numbers| numbers.next(seq));
        self.controller.on_sent(&SentInfo {
            now,
            bytes: Bytes(u64::from(self.options.mss)),
            prior_in_flight: self.bytes(self.board.in_flight()),
            snd_nxt: self.bytes(self.board.nxt()).0,
            app_limited: self.app_limited_until > 0,
            last_sent: if self.last_sent == Time::NEVER { Time::ZERO } else { self.last_sent },
            retransmission,
            number,
            ..SentInfo::default()
        });
        if self.numbers.is_some() {
            self.read_controller();
        }
    }

    #[inline(always)]
    fn emission(&mut self, leaving: Leaving, now: Time) -> Emission {
        let Leaving { seq, ecn, reduced } = leaving;
        self.last_sent = now;
        self.stats.sent += 1;
        if self.recovery.reducing() {
            self.reduction.on_sent();
        }
        let (payload, rtt) = (self.app.segment_bytes(seq), self.rtt.known());
        let pushed = self.app.pushes(seq, payload);
        Emission { seq, payload, rtt, signal: self.request, ecn, reduced, pushed }
    }
}
