//! A [`Flow`] for stacks that report packets one by one, as QUIC stacks do.
//!
//! A controller wants an acknowledgement as a whole, losses first ([`Flow`]). A stack reports acknowledged packets, lost
//! packets and marks one after another. [`PacketFlow`] collects these and hands them over when the stack has dealt with a
//! datagram or a timer ([`PacketFlow::settle`]). It takes delivery-rate samples, keeps the recovery period of RFC 9002
//! (§7.3.2), and paces.
//!
//! Departures: bytes are those of whole QUIC packets, as in RFC 9002, of which a full one counts as a segment; there are
//! no retransmissions, since QUIC sends lost data in new packets; a probe timeout is not reported, and persistent
//! congestion (§7.6) stands for a retransmission timeout.

mod pacer;
mod packets;
#[cfg(test)]
mod tests;

use self::pacer::Pacer;
use self::packets::{Packet, Packets};
use crate::events::{AckInfo, LossInfo, RecoveryState, SentInfo};
use crate::flow::Flow;
use crate::signal::Signal;
use crate::types::{Bytes, Dur, Rate, Time};

/// Counts of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that ask for an acknowledgement, sent after the handshake.
    pub sent_packets: u64,
    /// Number of lost packets among these.
    pub lost_packets: u64,
    /// Bytes of the packets that were sent.
    pub sent_bytes: u64,
    /// Bytes of the packets that were lost.
    pub lost_bytes: u64,
    /// Times of persistent congestion.
    pub timeouts: u64,
    /// Reductions for ECN echoes.
    pub ecn_reductions: u64,
    /// Congestion events that proved spurious: everything lost at one has arrived.
    pub undone_recoveries: u64,
    /// Smallest RTT.
    pub rtt_min: Option<Dur>,
    /// Sum of RTT samples, the peer's delay taken off where the stack does so.
    pub rtt_sum: Dur,
    /// Number of RTT samples.
    pub rtt_count: u64,
    /// Bytes delivered, in QUIC packets.
    pub delivered_bytes: u64,
}

/// Events of a datagram or a timer that are not yet handed over.
#[derive(Debug, Default)]
struct News {
    acked: u64,
    acked_packets: u32,
    newest: Option<Packet>,
    acked_numbers: Vec<u64>,
    lost: u64,
    lost_packets: u32,
    lost_numbers: Vec<u64>,
    newest_lost: Option<Time>,
    persistent: bool,
    marked: u32,
    spurious: bool,
    prior_in_flight: Option<u64>,
}

/// State of the handshake, whose packets a stack may report without saying so.
#[derive(Clone, Copy, Debug)]
enum Handshake {
    /// Nothing has been acknowledged.
    Begun,
    /// The first acknowledgement has come. Packets that left before it were the first flight.
    Answered(Time),
    /// Packets that leave from here on are none of its.
    Over(Time),
}

/// A flow, the packets that it has on their way, and its pacer.
#[derive(Debug)]
pub struct PacketFlow {
    flow: Flow,
    every_packet: bool,
    mss: u64,
    packets: Packets,
    news: News,
    /// Start of the recovery period, and its state.
    recovery: Option<(Time, RecoveryState)>,
    /// Bytes sent when the window last was what limited sending.
    limited_until: u64,
    window: u64,
    pacing: Option<Rate>,
    pacer: Pacer,
    last_sent: Time,
    newest_acked: Option<u64>,
    rtt_min: Dur,
    handshake: Handshake,
    /// The smoothed RTT is that of handshake packets.
    early: bool,
    /// The stack's smoothed RTT, which begins with the handshake.
    smoothed_by_stack: Dur,
    srtt: Dur,
    rtt_latest: Dur,
    signal: Signal,
    counts: Counts,
    /// The flow has not seen a packet leave.
    fresh: bool,
    /// Time with something in flight, and since when something is.
    busy: Dur,
    busy_since: Option<Time>,
}

impl PacketFlow {
    /// Runs `flow` over a stack whose full packets have `mss` bytes.
    #[must_use]
    pub fn new(flow: Flow, mss: u16) -> Self {
        let mut packet_flow = Self {
            flow,
            every_packet: false,
            mss: u64::from(mss),
            packets: Packets::default(),
            news: News::default(),
            recovery: None,
            limited_until: 0,
            window: 0,
            pacing: None,
            pacer: Pacer::default(),
            last_sent: Time::ZERO,
            newest_acked: None,
            rtt_min: Dur::MAX,
            handshake: Handshake::Over(Time::ZERO),
            early: false,
            smoothed_by_stack: Dur::ZERO,
            srtt: Dur::ZERO,
            rtt_latest: Dur::ZERO,
            signal: Signal::None,
            counts: Counts::default(),
            fresh: true,
            busy: Dur::ZERO,
            busy_since: None,
        };
        packet_flow.take_over(Time::ZERO);
        packet_flow
    }

    /// Returns the same for a stack that reports packets of the handshake, too, and does not say which they are.
    ///
    /// The RTT of a handshake has the time of cryptography in it, which a controller would take for a queue. Until the first
    /// acknowledgement of a packet that left after another one, RTT samples therefore bound the least RTT alone: the
    /// controller gets the least RTT in their place, from which its smoothed RTT then begins.
    #[must_use]
    pub fn from_handshake(self) -> Self {
        Self { handshake: Handshake::Begun, ..self }
    }

    /// Hands the connection to `flow` at `now`, as if it began then.
    pub fn replace(&mut self, flow: Flow, now: Time) {
        self.flow = flow;
        self.take_over(now);
    }

    fn take_over(&mut self, now: Time) {
        self.every_packet = self.flow.needs().every_segment || self.flow.tracks_packets();
        self.fresh = true;
        self.read(now);
    }

    /// Reads window and pacing rate.
    fn read(&mut self, now: Time) {
        self.window = self.flow.window().0;
        let pacing = self.flow.pacing_rate().map(|rate| Rate(rate.0.max(1)));
        if let Some(rate) = pacing.filter(|_| pacing != self.pacing) {
            self.pacer.on_rate(now, self.mss, rate);
        }
        self.pacing = pacing;
    }

    /// Reports that packet `number` of `bytes` leaves at `now`. Returns false for a packet that is not tracked: one of the
    /// handshake, whose number is below the newest or more than 1024 above. A second packet in a row above the gap is tracked.
    pub fn on_sent(&mut self, now: Time, number: u64, bytes: u64) -> bool {
        let (prior, snd_nxt) = (self.packets.in_flight, self.packets.sent);
        if !self.packets.send(number, bytes, now) {
            return false;
        }
        self.counts.sent_packets += 1;
        self.counts.sent_bytes += bytes;
        self.busy_since.get_or_insert(now);
        if prior == 0 && self.last_sent > Time::ZERO {
            let rto = self.srtt * 2 + Dur::from_millis(25);
            self.flow.on_idle_restart(now, now.since(self.last_sent), rto);
        }
        // A flow that takes over in the middle begins with a packet, too.
        if std::mem::take(&mut self.fresh) || self.every_packet || prior == 0 {
            self.flow.on_sent(&SentInfo {
                now,
                bytes: Bytes(bytes),
                prior_in_flight: Bytes(prior),
                snd_nxt,
                app_limited: self.packets.is_app_limited(),
                last_sent: self.last_sent,
                retransmission: false,
                number,
                ..SentInfo::default()
            });
        }
        if self.flow.tracks_packets() || prior == 0 {
            self.read(now);
        }
        if let Some(rate) = self.pacing {
            self.pacer.on_sent(now, bytes, rate);
        }
        self.last_sent = now;
        true
    }

    /// Reports at `now` that packet `number` has arrived. Returns false if it was not in flight.
    pub fn on_acked(&mut self, now: Time, number: u64) -> bool {
        let prior = self.packets.in_flight;
        let Some(packet) = self.packets.acknowledge(number, now) else { return false };
        let news = &mut self.news;
        news.prior_in_flight.get_or_insert(prior);
        news.acked += packet.bytes;
        news.acked_packets += 1;
        if news.newest.is_none_or(|newest| number > newest.number) {
            news.newest = Some(packet);
        }
        if self.flow.tracks_packets() {
            news.acked_numbers.push(number);
        }
        true
    }

    /// Reports that a packet sent at `sent` has arrived, for a stack that gives no number.
    pub fn on_acked_at(&mut self, now: Time, sent: Time) -> bool {
        self.packets.sent_at(sent).is_some_and(|number| self.on_acked(now, number))
    }

    /// Reports that packets of `bytes` in total have arrived, the newest of which is `number`, for a stack that gives a sum.
    /// The others are taken to be those before it.
    pub fn on_acked_to(&mut self, now: Time, number: u64, mut bytes: u64) {
        while bytes > 0 {
            let Some(number) = self.packets.newest_to(number) else { return };
            let before = self.packets.in_flight;
            self.on_acked(now, number);
            bytes = bytes.saturating_sub(before - self.packets.in_flight);
        }
    }

    /// Reports that packet `number` is lost. Returns false if it was not in flight.
    pub fn on_lost(&mut self, number: u64) -> bool {
        let prior = self.packets.in_flight;
        let Some(packet) = self.packets.lose(number) else { return false };
        let news = &mut self.news;
        news.prior_in_flight.get_or_insert(prior);
        news.lost += packet.bytes;
        news.lost_packets += 1;
        news.newest_lost = news.newest_lost.max(Some(packet.sent));
        if self.flow.tracks_packets() {
            news.lost_numbers.push(number);
        }
        true
    }

    /// Reports that packet `number` is lost, for a stack that gives [sums](Self::on_acked_to). If it was taken to have
    /// arrived, the oldest packet stands for it.
    pub fn on_lost_among(&mut self, number: u64) {
        if !self.on_lost(number) {
            if let Some(oldest) = self.packets.oldest_by(Time::NEVER) {
                self.on_lost(oldest);
            }
        }
    }

    /// Reports that packets of `bytes` in total are lost, the newest of which was sent at `sent`, for a stack that gives a
    /// sum. They are taken to be the oldest.
    pub fn on_lost_to(&mut self, sent: Time, mut bytes: u64) {
        while bytes > 0 {
            let Some(number) = self.packets.oldest_by(sent) else { return };
            let before = self.packets.in_flight;
            self.on_lost(number);
            bytes = bytes.saturating_sub(before - self.packets.in_flight);
        }
    }

    /// Reports that everything sent over a longer time has been lost (RFC 9002 §7.6).
    pub fn on_persistent_congestion(&mut self) {
        self.news.persistent = true;
    }

    /// Reports that `count` more packets have been marked (ECN), the newest of which was sent at `sent` if the stack says so.
    pub fn on_marked(&mut self, count: u32, sent: Option<Time>) {
        self.news.marked = self.news.marked.saturating_add(count);
        self.news.newest_lost = self.news.newest_lost.max(sent);
    }

    /// Reports that the last loss was spurious.
    pub fn on_spurious_loss(&mut self) {
        self.news.spurious = true;
    }

    /// Reports that the application has left the window unused.
    pub fn on_app_limited(&mut self) {
        self.packets.on_app_limited();
    }

    /// Reports that the window limits sending.
    pub fn on_window_limited(&mut self) {
        self.limited_until = self.packets.sent;
    }

    /// Reports that the stack has `in_flight` bytes in flight. Packets that it does not count are forgotten.
    pub fn on_in_flight(&mut self, in_flight: u64) {
        self.packets.keep(in_flight);
    }

    /// Reports a signal of routers, which each acknowledgement repeats from now on.
    pub fn on_signal(&mut self, signal: Signal) {
        self.signal = signal;
    }

    /// The stack has dealt with a datagram or a timer at `now`, and has smoothed the RTT to `srtt`, zero before its first
    /// sample. Hands what it has reported to the controller, and returns whether it was anything.
    ///
    /// The newest sample comes from `srtt`: an eighth of its change is the sample's difference from it, the peer's delay
    /// taken off (RFC 9002 §5.3). The controller's smoothed RTT is that of these samples alone: the RTT of a handshake has the
    /// time of its cryptography in it, which a controller would take for a queue.
    pub fn settle(&mut self, now: Time, srtt: Dur) -> bool {
        let before = std::mem::replace(&mut self.smoothed_by_stack, srtt);
        let latest =
            (before > Dur::ZERO).then(|| Dur(srtt.0.saturating_mul(8).saturating_sub(before.0.saturating_mul(7))));
        if self.packets.in_flight == 0 {
            self.busy = self.busy(now);
            self.busy_since = None;
        }
        let mut news = std::mem::take(&mut self.news);
        let something = news.acked_packets > 0 || news.lost_packets > 0 || news.marked > 0 || news.spurious;
        if something {
            self.hand_over(&mut news, now, latest);
            self.read(now);
        }
        // Keeps the vectors' memory.
        news.acked_numbers.clear();
        news.lost_numbers.clear();
        self.news = News { acked_numbers: news.acked_numbers, lost_numbers: news.lost_numbers, ..News::default() };
        something
    }

    /// Returns whether there are events that wait to be [settled](Self::settle).
    #[must_use]
    pub fn is_unsettled(&self) -> bool {
        self.news.prior_in_flight.is_some() || self.news.marked > 0 || self.news.spurious
    }

    fn hand_over(&mut self, news: &mut News, now: Time, latest: Option<Dur>) {
        if news.spurious {
            self.counts.undone_recoveries += 1;
            self.flow.on_spurious_loss(now);
        }
        news.acked_numbers.iter().for_each(|&number| self.flow.on_packet_acked(number));
        news.lost_numbers.iter().for_each(|&number| self.flow.on_packet_lost(number));
        let sample = self.sample(news, now, latest);
        if let Some(newest) = self.newest_acked {
            self.packets.forget_handshake(newest);
        }
        let in_flight = Bytes(self.packets.in_flight);
        if news.lost_packets > 0 || news.marked > 0 {
            self.lose(news, now, in_flight);
        }
        let Some(newest) = news.newest else { return };
        if self.recovery.is_some_and(|(began, _)| newest.sent > began) {
            self.recovery = None;
            self.flow.on_recovery_end(now, in_flight);
        }
        let rate = self.packets.sample(&newest, now, self.rtt_min);
        self.flow.on_ack(&AckInfo {
            now,
            acked: Bytes(news.acked),
            acked_packets: news.acked_packets,
            rtt: sample,
            min_rtt: self.rtt_min,
            srtt: self.srtt,
            rttvar: Dur::ZERO,
            prior_in_flight: Bytes(news.prior_in_flight.unwrap_or(self.packets.in_flight)),
            in_flight,
            delivered: Bytes(self.packets.delivered),
            lost: Bytes(news.lost),
            rate,
            snd_una: self.packets.first_outstanding(),
            snd_nxt: self.packets.sent,
            retransmitted: self.packets.retransmitted,
            cwnd_limited: newest.offset < self.limited_until,
            recovery: self.recovery.map_or(RecoveryState::Open, |(_, state)| state),
            ecn_ce: news.marked.min(news.acked_packets),
            signal: self.signal,
        });
    }

    /// The RTT sample that `news` brings, if it acknowledges a newer packet than any before.
    fn sample(&mut self, news: &News, now: Time, latest: Option<Dur>) -> Option<Dur> {
        let newest = news.newest?;
        if self.newest_acked.is_some_and(|before| newest.number <= before) {
            return None;
        }
        self.newest_acked = Some(newest.number);
        let raw = now.since(newest.sent);
        self.rtt_min = self.rtt_min.min(raw);
        let early = self.is_of_handshake(now, newest.sent);
        let before = if std::mem::replace(&mut self.early, early) { self.rtt_min } else { self.srtt };
        let measured = latest.map_or(raw, |latest| latest.clamp(self.rtt_min, raw));
        let sample = if early { self.rtt_min } else { measured };
        self.rtt_latest = sample;
        self.srtt = if before == Dur::ZERO { sample } else { before - before / 8 + sample / 8 };
        self.counts.rtt_min = Some(self.rtt_min);
        self.counts.rtt_sum += sample;
        self.counts.rtt_count += 1;
        Some(sample)
    }

    /// Returns whether a packet that left at `sent`, acknowledged at `now`, may be of the handshake.
    fn is_of_handshake(&mut self, now: Time, sent: Time) -> bool {
        match self.handshake {
            Handshake::Begun => self.handshake = Handshake::Answered(now),
            Handshake::Answered(at) if sent >= at => self.handshake = Handshake::Over(now),
            Handshake::Answered(_) => {}
            Handshake::Over(at) => return sent < at,
        }
        true
    }

    fn lose(&mut self, news: &News, now: Time, in_flight: Bytes) {
        let newest = news.newest.map(|packet| packet.sent);
        let newest_lost = news.newest_lost.or(newest).unwrap_or(now);
        let new_episode = self.recovery.is_none_or(|(began, _)| newest_lost > began);
        let loss = LossInfo {
            now,
            lost: Bytes(news.lost),
            lost_packets: news.lost_packets,
            in_flight,
            new_episode,
            ecn: news.marked > 0 && news.lost_packets == 0,
            delivered: Bytes(self.packets.delivered),
            snd_nxt: self.packets.sent,
        };
        self.counts.lost_packets += u64::from(news.lost_packets);
        self.counts.lost_bytes += news.lost;
        if news.persistent {
            self.counts.timeouts += 1;
            self.recovery = Some((now, RecoveryState::Loss));
            self.flow.on_timeout(&LossInfo { new_episode: true, ..loss });
            return;
        }
        if new_episode {
            self.counts.ecn_reductions += u64::from(loss.ecn);
            let state = if loss.ecn { RecoveryState::Reduction } else { RecoveryState::Recovery };
            self.recovery = Some((now, state));
        } else if loss.ecn {
            return;
        }
        self.flow.on_loss(&loss);
    }

    /// Runs the controller's timer if it is due at `now`, and returns whether it was.
    pub fn on_timer(&mut self, now: Time) -> bool {
        let due = self.flow.on_timer(now);
        if due {
            self.read(now);
        }
        due
    }

    /// Changes the flow from outside by `change`, as a setting of the application does.
    pub fn change(&mut self, now: Time, change: impl FnOnce(&mut Flow)) {
        change(&mut self.flow);
        self.read(now);
    }

    /// Returns when [`on_timer`](Self::on_timer) is due; [`Time::NEVER`] if it is not.
    #[must_use]
    pub fn next_timer(&self) -> Time {
        self.flow.next_timer()
    }

    /// Returns the bytes that may be in flight: at least one packet, even if the controller has
    /// [given up](Flow::failure), whose connection is the stack's to end.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window.max(self.mss)
    }

    /// Returns the rate to pace at; none sends as the window allows.
    #[must_use]
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.pacing
    }

    /// Returns the time from which the next packet may leave, if the controller paces.
    #[must_use]
    pub fn departure(&self) -> Option<Time> {
        self.pacing.map(|_| self.pacer.opens())
    }

    /// Returns the time at which the next packet is due, which is a good time to send all that may leave then.
    #[must_use]
    pub fn due(&self) -> Time {
        self.pacer.due()
    }

    /// Returns the time until `now` in which packets were in flight.
    #[must_use]
    pub fn busy(&self, now: Time) -> Dur {
        self.busy + self.busy_since.map_or(Dur::ZERO, |since| now.since(since))
    }

    /// Returns the bytes on their way.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.packets.in_flight
    }

    /// Returns the smoothed RTT, and the newest sample.
    #[must_use]
    pub fn rtt(&self) -> (Dur, Dur) {
        (self.srtt, self.rtt_latest)
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts { delivered_bytes: self.packets.delivered, ..self.counts }
    }

    /// Returns the flow.
    #[must_use]
    pub fn flow(&self) -> &Flow {
        &self.flow
    }
}
