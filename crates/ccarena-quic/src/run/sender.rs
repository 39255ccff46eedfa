//! The sending end of a flow.

use ccarena_cc::{Dur, Time};
use ccarena_link::live::App;
use ccarena_net::scenario::Flow;
use noq_proto::{Dir, Event, StreamEvent, StreamId};

use crate::host::{Link, Peer};
use crate::streams;

/// Results of a flow at its sender.
#[derive(Clone, Debug, Default)]
pub struct Sent {
    /// Durations of finished transfers.
    pub completion: Vec<Dur>,
    /// Reason why the connection ended early.
    pub error: Option<String>,
}

/// A flow's application on its connection. A transfer is a stream of its own, whose end is acknowledged; everything else
/// is one stream.
pub struct Sender {
    app: App,
    start: Time,
    stop: Time,
    piece: u64,
    open: bool,
    stream: Option<StreamId>,
    written: u64,
    /// Bytes written since a packet last left, for an application that tracks unsent data.
    unsent: u64,
    /// Streams that have ended and are not acknowledged.
    unfinished: u64,
    next: Time,
    sent: Sent,
}

impl Sender {
    /// The application of `flow`, to be opened when it starts.
    #[must_use]
    pub fn new(flow: &Flow) -> Self {
        Self {
            app: App::new(flow),
            start: flow.start,
            stop: flow.stop.unwrap_or(Time::NEVER),
            piece: u64::from(flow.mss_bytes),
            open: false,
            stream: None,
            written: 0,
            unsent: 0,
            unfinished: 0,
            next: flow.stop.unwrap_or(Time::NEVER),
            sent: Sent::default(),
        }
    }

    /// Returns its results.
    #[must_use]
    pub fn finish(mut self) -> Sent {
        self.sent.completion = self.app.completion().to_vec();
        self.sent
    }

    /// Sends nothing more.
    fn end(&mut self, link: &mut Link<'_>, why: &str) {
        (self.stop, self.next, self.open) = (Time::NEVER, Time::NEVER, false);
        link.close(0, why);
    }

    /// Writes up to `allowed` bytes in all.
    fn fill(&mut self, link: &mut Link<'_>, allowed: u64) {
        let paced = matches!(self.app, App::Capped { .. });
        while self.written < allowed && !(paced && self.unsent > 0) {
            if self.stream.is_none() {
                self.stream = link.stack.streams().open(Dir::Uni);
            }
            // Without one there are too many for the peer, which will tell when there is room.
            let Some(stream) = self.stream else { return };
            let most = if paced { self.piece } else { u64::MAX };
            let Some(count) = streams::write(link.stack, stream, (allowed - self.written).min(most)) else { return };
            self.written += count;
            self.unsent += if paced { count } else { 0 };
        }
        if self.written == allowed && self.app.waits_for_acknowledgements() {
            if let Some(stream) = self.stream.take() {
                self.unfinished += u64::from(link.stack.send_stream(stream).finish().is_ok());
            }
        }
    }
}

impl Peer for Sender {
    fn on_event(&mut self, _: &mut Link<'_>, event: Event) {
        match event {
            Event::Connected => self.open = true,
            Event::Stream(StreamEvent::Finished { .. }) => self.unfinished = self.unfinished.saturating_sub(1),
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
        let elapsed = link.now.since(self.start);
        let (allowed, next) = self.app.advance(elapsed, self.written, self.unsent, self.unfinished);
        self.next = (self.start + next).min(self.stop);
        self.fill(link, allowed);
    }

    fn on_sent(&mut self) {
        self.unsent = 0;
    }

    fn next(&self) -> Time {
        self.next
    }
}
