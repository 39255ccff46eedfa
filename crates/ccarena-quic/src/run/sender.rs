//! The sending end of a flow.

use std::collections::VecDeque;

use ccarena_cc::{Dur, Time};
use ccarena_net::Scenario;
use ccarena_net::apps::{self, Needs, Offer, Outcome, Source, View};
use noq_proto::{Dir, Event, StreamEvent, StreamId};

use crate::host::{Link, Peer};
use crate::streams;

/// Results of a flow at its sender.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Results of its application.
    pub app: Outcome,
    /// Reason why the connection ended early.
    pub error: Option<String>,
}

/// A flow's application on its connection. A message is a stream of its own, whose end is acknowledged, and which goes
/// before those that follow; everything else is one stream.
pub struct Sender {
    app: Source,
    needs: Needs,
    start: Time,
    stop: Time,
    piece: u64,
    open: bool,
    stream: Option<StreamId>,
    written: u64,
    /// Bytes written since a packet last left, for an application that tracks unsent data.
    unsent: u64,
    /// Ends of what the application has offered, the last one of everything.
    offered: VecDeque<u64>,
    /// Messages that were written whole and are not acknowledged with all before them.
    messages: VecDeque<Message>,
    /// Bytes acknowledged, with all before them.
    acknowledged: u64,
    /// Priority of the next message's stream: below those before.
    priority: i32,
    next: Time,
    sent: Sent,
}

struct Message {
    stream: StreamId,
    end: u64,
    acknowledged: bool,
}

impl Sender {
    /// The application of flow number `index`, to be opened when it starts.
    #[must_use]
    pub fn new(scenario: &Scenario, index: usize) -> Self {
        let flow = &scenario.flows[index];
        let stop = flow.stop.unwrap_or(Time::NEVER);
        Self {
            app: Source::new(&flow.app, &scenario.start(index)),
            needs: flow.app.needs(),
            start: flow.start,
            stop,
            piece: u64::from(flow.mss_bytes),
            open: false,
            stream: None,
            written: 0,
            unsent: 0,
            offered: VecDeque::new(),
            messages: VecDeque::new(),
            acknowledged: 0,
            priority: 0,
            next: stop,
            sent: Sent::default(),
        }
    }

    /// The same for a run whose time zero is at `zero` of the host's clock.
    #[must_use]
    pub fn after(mut self, zero: Time) -> Self {
        let later = |time: Time| if time == Time::NEVER { time } else { time + Dur(zero.0) };
        (self.start, self.stop, self.next) = (later(self.start), later(self.stop), later(self.next));
        self
    }

    /// Returns its results.
    #[must_use]
    pub fn finish(mut self) -> Sent {
        self.sent.app = self.app.outcome();
        self.sent
    }

    /// Sends nothing more.
    fn end(&mut self, link: &mut Link<'_>, why: &str) {
        (self.stop, self.next, self.open) = (Time::NEVER, Time::NEVER, false);
        link.close(0, why);
    }

    /// Takes what may be written in all: a message more, or more of the one stream.
    fn offer(&mut self, allowed: u64) {
        if self.needs.acknowledged {
            if allowed > self.offered.back().copied().unwrap_or(self.written) {
                self.offered.push_back(allowed);
            }
        } else {
            self.offered = VecDeque::from([allowed]);
        }
    }

    /// Writes what was offered and has room.
    fn fill(&mut self, link: &mut Link<'_>) {
        while let Some(&end) = self.offered.front() {
            self.write_up_to(link, end);
            if self.written < end || !self.needs.acknowledged {
                return;
            }
            self.offered.pop_front();
            if let Some(stream) = self.stream.take() {
                if link.stack.send_stream(stream).finish().is_ok() {
                    self.messages.push_back(Message { stream, end, acknowledged: false });
                }
            }
        }
    }

    fn write_up_to(&mut self, link: &mut Link<'_>, end: u64) {
        while self.written < end && !(self.needs.sent && self.unsent > 0) {
            if self.stream.is_none() {
                self.stream = link.stack.streams().open(Dir::Uni);
                if let Some(stream) = self.stream.filter(|_| self.needs.acknowledged) {
                    // It was opened just now, and so takes a priority.
                    let _ = link.stack.send_stream(stream).set_priority(self.priority);
                    self.priority = self.priority.saturating_sub(1);
                }
            }
            // Without one there are too many for the peer, which will tell when there is room.
            let Some(stream) = self.stream else { return };
            let most = if self.needs.sent { self.piece } else { u64::MAX };
            let Some(count) = streams::write(link.stack, stream, (end - self.written).min(most)) else { return };
            self.written += count;
            self.unsent += if self.needs.sent { count } else { 0 };
        }
    }

    /// All of `stream` is acknowledged.
    fn on_acknowledged(&mut self, stream: StreamId) {
        if let Some(message) = self.messages.iter_mut().find(|message| message.stream == stream) {
            message.acknowledged = true;
        }
        while let Some(message) = self.messages.front().filter(|message| message.acknowledged) {
            self.acknowledged = message.end;
            self.messages.pop_front();
        }
    }
}

impl Peer for Sender {
    fn on_event(&mut self, _: &mut Link<'_>, event: Event) {
        match event {
            Event::Connected => self.open = true,
            Event::Stream(StreamEvent::Finished { id }) => self.on_acknowledged(id),
            Event::ConnectionLost { reason } if self.sent.error.is_none() => {
                self.sent.error = Some(reason.to_string());
                self.open = false;
                self.next = Time::NEVER;
            }
            _ => {}
        }
    }

    fn write(&mut self, link: &mut Link<'_>) {
        if link.now >= self.stop {
            self.end(link, "the flow's time is over");
        } else if self.open && link.steering.gave_up() {
            self.end(link, "the controller has given up");
        }
        if !self.open {
            return;
        }
        let rate = || {
            let metrics = link.steering.metrics();
            apps::allowed_rate(metrics.window, metrics.srtt, metrics.pacing)
        };
        let view = View {
            elapsed: link.now.since(self.start),
            sent: self.written - self.unsent,
            acknowledged: self.acknowledged,
            rate: if self.needs.rate { rate() } else { None },
        };
        let Offer { allowed, next } = self.app.advance(&view);
        self.next = (self.start + next).min(self.stop);
        self.offer(allowed);
        self.fill(link);
    }

    fn on_sent(&mut self, _: Time, _: &[u8], _: usize) {
        self.unsent = 0;
    }

    fn next(&self) -> Time {
        self.next
    }
}
