//! The bridge daemon: controllers in user space for sockets in the kernel.
//!
//! The controller's window and rate count. The datapath reports the sums of a decision interval, [`Feed`] makes the controller's
//! calls of them, and what the controller then says is the answer; until the next one the datapath extrapolates as the
//! controller's [`Extrapolation`](ccarena_cc::Extrapolation) tells it.

mod feed;
mod socket;
#[cfg(test)]
pub(crate) mod testing;

use std::collections::{HashMap, HashSet};

use ccarena_cc::{ActionError, Controller, Decider, FlowSetting, Time};

pub use self::feed::Feed;
pub use self::socket::{Socket, Totals};
use crate::intf::{Answer, EVENT_CLOSED, EVENT_OPENED, Event, FLAG_FALLBACK, FLAG_QUIET};
use crate::sampled::Sampled;

/// A decision is due, and a program outside of the run makes it.
#[derive(Clone, Copy, Debug)]
pub struct DueDecision<'a> {
    /// The flow.
    pub flow: usize,
    /// End of its interval.
    pub now: Time,
    /// Observation.
    pub observation: &'a [f32],
    /// Report of the interval.
    pub report: &'a [f32],
}

/// Driver of a socket, from its opening on.
pub struct Driver {
    /// The flow that it belongs to: an index into [`Daemon::flows`].
    pub flow: usize,
    /// Controller of the socket, new.
    pub controller: Box<dyn Controller>,
    /// Payload of a segment that the controller was built for.
    pub mss: u32,
    /// Decider, if the controller is learned.
    pub decider: Option<Decider>,
    /// All changes of the flow's settings, the next one last.
    pub settings: Vec<(Time, FlowSetting)>,
    /// Rows of reports are kept.
    pub keeps_reports: bool,
}

/// Gives a driver to a socket that shows up, or none if it is not ours.
pub type Open<'a> = Box<dyn FnMut(&Event) -> Option<Driver> + 'a>;

/// Answer for the datapath with the socket's cookie.
pub type Reply = (u64, Answer);

/// All sockets.
pub struct Daemon<'a> {
    open: Open<'a>,
    zero_ns: u64,
    sockets: HashMap<u64, Socket>,
    /// Sockets that are not ours.
    refused: HashSet<u64>,
    /// The newest socket of each flow.
    newest: HashMap<usize, u64>,
    /// Totals of each flow.
    pub flows: Vec<Totals>,
    /// Reports so far.
    pub reports: u64,
    /// Number of these under the kernel's fallback.
    pub fallbacks: u64,
    /// Events that the ring buffer had no room for.
    pub dropped: u64,
    /// Time from each report to the moment that its answer was in force, in microseconds.
    pub enforced_us: Sampled,
}

impl<'a> Daemon<'a> {
    /// A daemon whose time zero is `zero_ns`, for `flows` flows.
    #[must_use]
    pub fn new(zero_ns: u64, flows: usize, open: Open<'a>) -> Self {
        Self {
            open,
            zero_ns,
            sockets: HashMap::new(),
            refused: HashSet::new(),
            newest: HashMap::new(),
            flows: vec![Totals::default(); flows],
            reports: 0,
            fallbacks: 0,
            dropped: 0,
            enforced_us: Sampled::default(),
        }
    }

    /// Sockets that are open.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.sockets.len()
    }

    /// Takes a socket over, before its first event if its cookie is known by then; what it is to begin with.
    pub fn take_over(&mut self, cookie: u64, driver: Driver, now_ns: u64) -> Answer {
        self.newest.insert(driver.flow, cookie);
        if driver.flow >= self.flows.len() {
            self.flows.resize(driver.flow + 1, Totals::default());
        }
        let mut socket = Socket::new(driver, self.zero_ns);
        let answer = socket.answer(now_ns);
        note(&socket, &mut self.flows);
        self.sockets.insert(cookie, socket);
        answer
    }

    /// Takes an event in. `on_due` gets decisions that a program outside of the run makes; the reply, if any, is due at once.
    pub fn on_event(&mut self, event: &Event, on_due: &mut dyn FnMut(DueDecision<'_>)) -> Option<Reply> {
        let cookie = event.cookie;
        self.dropped = self.dropped.max(event.dropped);
        if event.kind != EVENT_OPENED {
            self.reports += 1;
            self.fallbacks += u64::from(event.flags & FLAG_FALLBACK != 0);
        }
        if !self.sockets.contains_key(&cookie) {
            return self.meet(event);
        }
        let socket = self.sockets.get_mut(&cookie)?;
        let totals = self.flows.get_mut(socket.flow())?;
        if let Some(late) = socket.enforced_us(event) {
            self.enforced_us.push(late);
        }
        socket.on_event(event, totals, on_due);
        note(socket, &mut self.flows);
        if event.kind == EVENT_CLOSED {
            self.sockets.remove(&cookie);
            return None;
        }
        // Nothing has changed: the decider was not asked.
        (event.flags & FLAG_QUIET == 0).then(|| (cookie, socket.answer(event.now_ns)))
    }

    /// An event of a socket without a driver. It may not be its first: that may have been lost, or another daemon's.
    fn meet(&mut self, event: &Event) -> Option<Reply> {
        let cookie = event.cookie;
        if event.kind == EVENT_CLOSED {
            self.refused.remove(&cookie);
            return None;
        }
        if self.refused.contains(&cookie) {
            return None;
        }
        let Some(driver) = (self.open)(event) else {
            self.refused.insert(cookie);
            return None;
        };
        self.take_over(cookie, driver, event.now_ns);
        let socket = self.sockets.get_mut(&cookie)?;
        socket.join(event);
        Some((cookie, socket.answer(event.now_ns)))
    }

    /// Makes the sockets those that the kernel lists, as of `begun_ns`: takes up those whose events were lost, and gives up
    /// those that have gone unheard. What those taken up are to do.
    pub fn reconcile(&mut self, listed: &[Event], begun_ns: u64) -> Vec<Reply> {
        let living: HashSet<u64> = listed.iter().map(|event| event.cookie).collect();
        self.sockets.retain(|cookie, socket| living.contains(cookie) || socket.since_ns >= begun_ns);
        self.refused.retain(|cookie| living.contains(cookie));
        let unknown = listed.iter().filter(|event| !self.sockets.contains_key(&event.cookie));
        let unknown: Vec<&Event> = unknown.collect();
        unknown.into_iter().filter_map(|event| self.meet(event)).collect()
    }

    /// The cookies of all sockets.
    pub fn cookies(&self) -> impl Iterator<Item = u64> {
        self.sockets.keys().copied()
    }

    /// Returns when [`on_timers`](Self::on_timers) is due, if no event comes before.
    #[must_use]
    pub fn next_timer(&self) -> Time {
        self.sockets.values().map(Socket::next_timer).min().unwrap_or(Time::NEVER)
    }

    /// Runs what is due at `now`: controllers' timers, and changes of settings. `on_due` gets decisions that
    /// a program outside of the run makes.
    pub fn on_timers(&mut self, now: Time, on_due: &mut dyn FnMut(DueDecision<'_>)) -> Vec<Reply> {
        let Self { zero_ns, sockets, flows, .. } = self;
        let mut replies = Vec::new();
        for (&cookie, socket) in sockets.iter_mut().filter(|(_, socket)| socket.next_timer() <= now) {
            if let Some(totals) = flows.get_mut(socket.flow()) {
                socket.on_timers(now, totals, on_due);
                note(socket, flows);
                replies.push((cookie, socket.answer(*zero_ns + now.0)));
            }
        }
        replies
    }

    /// Puts an action from outside in force for `flow` at `now`; no reply if the flow has no socket.
    ///
    /// # Errors
    /// If the scheme refuses the action; the one before stays in force.
    pub fn act(&mut self, flow: usize, action: f64, now: Time) -> Result<Option<Reply>, ActionError> {
        let cookie = self.newest.get(&flow).copied();
        let Some((cookie, socket)) = cookie.and_then(|c| Some((c, self.sockets.get_mut(&c)?))) else { return Ok(None) };
        socket.act(action, now)?;
        Ok(Some((cookie, socket.answer(self.zero_ns + now.0))))
    }
}

/// Notes that the controller of `socket` has given up, if it has.
fn note(socket: &Socket, flows: &mut [Totals]) {
    if let Some((totals, reason)) = flows.get_mut(socket.flow()).zip(socket.failure()) {
        totals.failure.get_or_insert_with(|| reason.into());
    }
}

#[cfg(test)]
mod tests;
