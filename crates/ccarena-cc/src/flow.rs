//! A controller and its decider for one connection of any host.
//!
//! A host is whatever carries packets: a QUIC or TCP stack, a tunnel, a test. It builds a [`Flow`] per connection, reports
//! events, and sends what [`Flow::window`] and [`Flow::pacing_rate`] allow. A flow asks its decider whenever a decision is
//! due. It reads no clock, keeps nothing outside of itself, and allocates nothing per event unless reports are kept.
//!
//! Order of calls: book an acknowledgement, then call [`Flow::on_packet_acked`] and [`Flow::on_packet_lost`] if the
//! controller [tracks packets](Flow::tracks_packets), [`Flow::on_loss`] if packets were marked lost, and
//! [`Flow::on_ack`] last. Window and pacing rate are then new. They also change after [`Flow::on_timer`], which is due at
//! [`Flow::next_timer`], and, if the controller tracks packets, after [`Flow::on_sent`].

mod host;
#[cfg(feature = "policies")]
mod learner;
#[cfg(feature = "policies")]
mod operated;
#[cfg(test)]
#[cfg(feature = "policies")]
mod tests;

pub use self::host::{Host, Lacking, Need};
#[cfg(feature = "policies")]
pub use self::operated::{Fallback, Tally};
use crate::build_error::BuildError;
use crate::controller::{Controller, FlowSetting, TransportNeeds};
use crate::events::{AckInfo, LossInfo, SentInfo};
use crate::registry;
use crate::scheme::Config;
use crate::signal::Signal;
use crate::types::{Bytes, Dur, MOST_WEIGHT, Rate, Time};

/// Source of a flow's controller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Source<'a> {
    /// A scheme of the [registry], by name.
    Scheme(&'a str),
    /// The bytes of a policy artifact, which names the learned scheme that it was trained for.
    #[cfg(feature = "policies")]
    Artifact(&'a [u8]),
    /// A policy that has been read. Flows share its weights.
    #[cfg(feature = "policies")]
    Policy(std::sync::Arc<crate::policy::Policy>),
}

/// Error of a flow that cannot be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The scheme, a parameter, the weight or the requirement.
    #[error(transparent)]
    Scheme(#[from] BuildError),
    /// A field of the configuration that no connection has.
    #[error("Config::{field} is {found}; expected {expected}")]
    Config {
        /// The field.
        field: &'static str,
        /// Given value.
        found: f64,
        /// Expected values.
        expected: &'static str,
    },
    /// A learned scheme by its name alone.
    #[error("scheme {scheme:?} is learned and decides nothing by itself: give the bytes of a policy artifact instead")]
    Learned {
        /// The scheme.
        scheme: String,
    },
    /// A scheme that runs a rule file, without one.
    #[error("scheme {scheme:?} runs a rule file: put its rules into `Config::rules`")]
    Rules {
        /// The scheme.
        scheme: String,
    },
    /// Bytes that are no policy artifact, or not one that can be used.
    #[cfg(feature = "policies")]
    #[error("artifact: {0}")]
    Artifact(#[from] crate::policy::PolicyError),
    /// A policy that does not fit the connection.
    #[cfg(feature = "policies")]
    #[error(transparent)]
    Policy(#[from] crate::decider::BindError),
    /// A host that does not report what the controller needs.
    #[error(transparent)]
    Lacking(#[from] Lacking),
    /// A policy whose base has no window that it could take over from the scheme that acts.
    #[cfg(feature = "policies")]
    #[error(
        "the policy's base cannot start from another scheme's window, so that a shadow has nothing to compare: give the \
         policy a small share of connections instead"
    )]
    Shadow,
}

/// A controller and its decider. It can be sent to another thread, and one thread at a time uses it.
pub struct Flow {
    controller: Box<dyn Controller>,
    needs: TransportNeeds,
    tracks: bool,
    #[cfg(feature = "policies")]
    learner: learner::Learner,
    #[cfg(feature = "policies")]
    operated: Option<Box<operated::Operated>>,
}

impl std::fmt::Debug for Flow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (window, pacing_rate) = (self.window(), self.pacing_rate());
        f.debug_struct("Flow").field("window", &window).field("pacing_rate", &pacing_rate).finish_non_exhaustive()
    }
}

/// Checks what no scheme checks, as none could run with it.
fn check(config: &Config) -> Result<(), Refused> {
    let least = "at least 1";
    let weighs = config.weight > 0.0 && config.weight <= MOST_WEIGHT;
    let checks = [
        ("mss", f64::from(config.mss), config.mss > 0, least),
        ("initial_window", f64::from(config.initial_window), config.initial_window > 0, least),
        ("weight", config.weight, weighs, "more than 0, at most 1000"),
    ];
    for (field, found, fits, expected) in checks {
        if !fits {
            return Err(Refused::Config { field, found, expected });
        }
    }
    Ok(())
}

impl Flow {
    /// Builds the flow of a connection that begins at `now` on `host`. A policy makes its first decision at once.
    ///
    /// A policy's flow has the parameters of its training. `config` may repeat them, and may give other values to
    /// parameters that the spec marks `runtime`.
    ///
    /// # Errors
    ///
    /// - The segment, the initial window or the weight is none.
    /// - The scheme is unknown, or refuses a parameter, the weight or the requirement.
    /// - The artifact cannot be used, or was trained with other parameters.
    /// - The host does not report what the controller needs.
    #[cfg_attr(not(feature = "policies"), expect(unused_variables, reason = "only policies decide at the start"))]
    pub fn build(source: &Source<'_>, config: &Config, host: &Host, now: Time) -> Result<Self, Refused> {
        check(config)?;
        match source {
            Source::Scheme(name) => Self::of_scheme(name, config, host),
            #[cfg(feature = "policies")]
            Source::Artifact(bytes) => {
                learner::flow(crate::policy::Policy::from_bytes(bytes)?.into(), config, host, now)
            }
            #[cfg(feature = "policies")]
            Source::Policy(policy) => learner::flow(std::sync::Arc::clone(policy), config, host, now),
        }
    }

    /// A flow of `controller`, which decides for itself.
    #[must_use]
    pub fn of(mut controller: Box<dyn Controller>) -> Self {
        let (needs, tracks) = (controller.transport(), controller.packet_tracker().is_some());
        Self {
            controller,
            needs,
            tracks,
            #[cfg(feature = "policies")]
            learner: learner::Learner::default(),
            #[cfg(feature = "policies")]
            operated: None,
        }
    }

    fn of_scheme(name: &str, config: &Config, host: &Host) -> Result<Self, Refused> {
        let scheme = registry::find(name)?;
        #[cfg(feature = "policies")]
        if scheme.rules && config.rules.is_none() {
            return Err(Refused::Rules { scheme: name.into() });
        }
        if scheme.learned {
            return Err(Refused::Learned { scheme: name.into() });
        }
        let config = Config { feedback: host.marks, ..config.clone() };
        let mut controller = registry::build(name, &config)?;
        host.check(name, controller.as_mut(), scheme.feedback, |_| None)?;
        Ok(Self::of(controller))
    }

    /// Runs `event` for the controller, and for the policy in its shadow.
    #[inline]
    fn each(&mut self, event: impl Fn(&mut dyn Controller)) {
        event(self.controller.as_mut());
        #[cfg(feature = "policies")]
        self.in_shadow(|policy| event(policy.controller.as_mut()));
    }

    /// A packet leaves. Report every packet if the controller [needs](Self::needs) it or
    /// [tracks packets](Self::tracks_packets), else at least the first one after silence.
    pub fn on_sent(&mut self, sent: &SentInfo) {
        self.each(|controller| controller.on_sent(sent));
    }

    /// An acknowledgement has been booked.
    pub fn on_ack(&mut self, ack: &AckInfo) {
        #[cfg(feature = "policies")]
        if self.operated.is_some() {
            return self.on_operated_ack(ack);
        }
        self.controller.on_ack(ack);
        #[cfg(feature = "policies")]
        self.learner.ask(self.controller.as_mut(), ack.now);
    }

    /// Packets have been marked lost, or a congestion mark has come.
    pub fn on_loss(&mut self, loss: &LossInfo) {
        self.each(|controller| controller.on_loss(loss));
    }

    /// The retransmission timer has expired; everything in flight counts as lost.
    pub fn on_timeout(&mut self, loss: &LossInfo) {
        self.each(|controller| controller.on_timeout(loss));
    }

    /// The last loss was spurious: the packets have arrived.
    pub fn on_spurious_loss(&mut self, now: Time) {
        self.each(|controller| controller.on_spurious_loss(now));
    }

    /// Recovery, fast or after a timeout, has ended.
    pub fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.each(|controller| controller.on_recovery_end(now, in_flight));
    }

    /// Sending restarts after `idle` with nothing in flight, `rto` being the retransmission timeout.
    pub fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        self.each(|controller| controller.on_idle_restart(now, idle, rto));
    }

    /// Transmission `number` has arrived.
    pub fn on_packet_acked(&mut self, number: u64) {
        self.each(|controller| {
            if let Some(packets) = controller.packet_tracker() {
                packets.on_packet_acked(number);
            }
        });
    }

    /// Transmission `number` counts as lost.
    pub fn on_packet_lost(&mut self, number: u64) {
        self.each(|controller| {
            if let Some(packets) = controller.packet_tracker() {
                packets.on_packet_lost(number);
            }
        });
    }

    /// Runs the timer if it is due at `now`, and returns whether it was.
    pub fn on_timer(&mut self, now: Time) -> bool {
        let due = self.next_timer() <= now;
        if due {
            self.each(|controller| {
                if controller.next_timer() <= now {
                    controller.on_timer(now);
                }
            });
            #[cfg(feature = "policies")]
            if self.operated.is_some() {
                self.ask_operated(now, None, self.window());
            } else {
                self.learner.ask(self.controller.as_mut(), now);
            }
        }
        due
    }

    /// Puts a setting of the application in force.
    pub fn set(&mut self, setting: FlowSetting) {
        self.each(|controller| setting.apply(controller));
    }

    /// Returns when [`on_timer`](Self::on_timer) is due; [`Time::NEVER`] if it is not.
    #[must_use]
    pub fn next_timer(&self) -> Time {
        let next = self.controller.next_timer();
        #[cfg(feature = "policies")]
        let next = self.shadow().map_or(next, |policy| next.min(policy.controller.next_timer()));
        next
    }

    /// Returns the bytes that may be in flight: at least one segment, or zero if the controller has
    /// [given up](Self::failure).
    #[must_use]
    pub fn window(&self) -> Bytes {
        self.controller.window()
    }

    /// Returns the rate to pace at; none sends as the window allows.
    #[must_use]
    pub fn pacing_rate(&self) -> Option<Rate> {
        self.controller.pacing_rate()
    }

    /// Returns the fewest segments that a paced sender sends at once.
    #[must_use]
    pub fn min_burst_segments(&self) -> u32 {
        self.controller.min_burst_segments()
    }

    /// Returns the slow-start threshold, if the scheme has one.
    #[must_use]
    pub fn slow_start_threshold(&self) -> Option<Bytes> {
        self.controller.slow_start_threshold()
    }

    /// Returns the reason why the controller has given up. The host then ends the connection or builds another flow.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.controller.failure()
    }

    /// Returns the header that a packet leaves with for routers to change; none for schemes that ask routers for nothing.
    #[must_use]
    pub fn request(&self) -> Option<Signal> {
        let request = self.controller.router_assisted().map(|routers| routers.request());
        #[cfg(feature = "policies")]
        let request = request.or_else(|| self.shadow().and_then(Self::request));
        request
    }

    /// Returns the controller's needs, which stay the same.
    #[must_use]
    pub fn needs(&self) -> TransportNeeds {
        self.needs
    }

    /// Returns whether the controller follows single transmissions by their numbers.
    #[must_use]
    pub fn tracks_packets(&self) -> bool {
        self.tracks
    }
}
