//! Operating a policy on a flow: another scheme beside it, or in its place.
//!
//! - In the *shadow*, the policy observes and decides, and the fallback scheme acts. What both allow is compared.
//! - Under a *guard*, decisions in a row on observations that its training did not see hand the flow to the fallback
//!   scheme, from the window that was in force. A flow that was handed back stays so.
//!
//! The kernel's program does the same (`ccarena-kernel/src/bpf/policy.bpf.c`); both use the words of [`crate::operation`].

use super::{Flow, Host, Refused};
use crate::controller::{Controller, TransportNeeds};
use crate::decider::{Decider, Seen};
use crate::events::AckInfo;
use crate::operation::Role;
use crate::registry;
use crate::scheme::{Carried, Config, Scheme, complete_params};
use crate::types::{Bytes, Dur, Rate, Time};

/// Scheme that runs beside a policy, or in its place.
#[derive(Clone)]
pub struct Fallback {
    scheme: &'static Scheme,
    config: Config,
}

impl std::fmt::Debug for Fallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fallback").field("scheme", &self.scheme.name).finish_non_exhaustive()
    }
}

impl Fallback {
    /// The scheme `name` in the place of a policy whose flows have `config`, on `host`. It has its own default parameters.
    ///
    /// # Errors
    ///
    /// - The scheme is unknown, learned, runs a rule file, or refuses the weight or the requirement.
    /// - The host does not report what it needs.
    pub fn new(name: &str, config: &Config, host: &Host) -> Result<Self, Refused> {
        let config = Config { params: Default::default(), ..config.clone() };
        Flow::of_scheme(name, &config, host)?;
        let scheme = registry::find(name)?;
        let params = complete_params(scheme, &config.params)?;
        Ok(Self { scheme, config: Config { params, feedback: host.marks, ..config } })
    }

    /// Returns the scheme's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.scheme.name
    }

    /// Returns a flow that begins with it.
    #[must_use]
    pub fn flow(&self) -> Flow {
        Flow::of(self.controller(&self.config))
    }

    /// Returns a flow that takes a connection over from `flow`, whose smoothed RTT is `srtt`.
    #[must_use]
    pub fn after(&self, flow: &Flow, srtt: Dur) -> Flow {
        Flow::of(self.controller(&flow.successor(&self.config, srtt)))
    }

    fn controller(&self, config: &Config) -> Box<dyn Controller> {
        (self.scheme.build)(config)
    }
}

/// Counts of a flow's policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Decisions.
    pub decisions: u64,
    /// Decisions on an observation outside the box of the policy's guard, or without one the range of training.
    pub outside: u64,
    /// Decisions with a clipped observation.
    pub clamps: u64,
    /// Decisions in the shadow that were compared with the scheme that acts.
    pub compared: u64,
    /// Number of these in which neither rate was more than a tenth above the other.
    pub agreed: u64,
    /// Sums over them of both rates, in KiB/s.
    pub policy_kib: u64,
    /// See `policy_kib`.
    pub running_kib: u64,
}

/// State of an operated flow.
pub(super) struct Operated {
    fallback: Fallback,
    role: Role,
    guard: u32,
    /// Trips in a row.
    tripped: u32,
    srtt: Dur,
    tally: Tally,
    shadow: Option<Shadow>,
}

/// A policy that does not act.
struct Shadow {
    policy: Box<Flow>,
    /// A decision's window is compared at once, as both would grow alike from there: the base is CUBIC. That of others is
    /// compared before the next decision, when the policy's rules have moved it.
    at_once: bool,
}

/// Window from which a scheme goes on where another one with `window` and `pacing` leaves a flow.
///
/// A scheme that paces may allow a window of several RTTs of its rate. Unpaced, the whole window could leave at once: the
/// next scheme begins with what the rate sends in a smoothed RTT, or `least` if that is more.
fn left(window: Bytes, pacing: Option<Rate>, srtt: Dur, least: Bytes) -> Bytes {
    let sent = pacing.map_or(window, |rate| rate.bytes_in(srtt).max(least));
    window.min(sent)
}

/// Configuration of a flow that goes on from `window`.
fn carried(config: &Config, window: Bytes, threshold: Option<Bytes>) -> Config {
    let segments = |of: Bytes| u32::try_from(of.0 / u64::from(config.mss.max(1))).unwrap_or(u32::MAX).max(1);
    // A scheme without a threshold does not leave the next one in slow start.
    let threshold = segments(threshold.unwrap_or(window));
    Config {
        initial_window: segments(window),
        carried: Some(Carried { threshold, restart_window: config.initial_window }),
        ..config.clone()
    }
}

fn least(config: &Config) -> Bytes {
    Bytes(u64::from(config.initial_window) * u64::from(config.mss))
}

/// Returns the bytes per second that window and pacing rate allow.
fn allowed(window: Bytes, pacing: Option<Rate>, srtt: Dur) -> u64 {
    let by_window = Rate::of(window.0, srtt).0;
    pacing.map_or(by_window, |rate| rate.0.min(by_window)) / 8
}

impl Flow {
    /// Puts `fallback` in the place of this flow's policy after `guard` decisions in a row that trip: on an observation
    /// outside the box of the policy's [`Guard`](crate::policy::Guard), without one outside the range of training, and if
    /// neither is known on a clipped one. 0 never does.
    #[must_use]
    pub fn guarded(mut self, fallback: Fallback, guard: u32) -> Self {
        let mut next = fallback.controller(&fallback.config);
        // Hosts ask once.
        self.tracks |= next.packet_tracker().is_some();
        self.needs = both(self.needs, next.transport());
        self.operated = Some(Box::new(Operated::new(fallback, Role::Policy, guard, None)));
        self
    }

    /// Runs the policy of this flow in the shadow of `acting`, a flow of the fallback scheme.
    ///
    /// # Errors
    /// If the policy's base cannot start from another scheme's window: then there is nothing to compare.
    pub fn shadowed(mut self, fallback: Fallback, mut acting: Self) -> Result<Self, Refused> {
        let adopts = self.adopt(acting.window());
        if !adopts {
            return Err(Refused::Shadow);
        }
        let at_once = self.controller.extrapolated().is_some_and(|e| e.extrapolation(Time::ZERO).cubic.is_some());
        acting.tracks |= self.tracks;
        acting.needs = both(acting.needs, self.needs);
        let shadow = Shadow { policy: Box::new(self), at_once };
        acting.operated = Some(Box::new(Operated::new(fallback, Role::Shadow, 0, Some(shadow))));
        Ok(acting)
    }

    /// Returns who moves the window of an operated flow; none for others.
    #[must_use]
    pub fn role(&self) -> Option<Role> {
        self.operated.as_ref().map(|operated| operated.role)
    }

    /// Returns the counts of the flow's policy.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let own = || Tally { decisions: self.decisions(), outside: self.outside().outside, ..Tally::default() };
        self.operated.as_ref().map_or_else(own, |operated| operated.tally)
    }

    /// Returns `config` for a flow that takes the connection over from this one, whose smoothed RTT is `srtt`: from its
    /// window, but with no more than its pacing rate sends in an RTT, or an initial window if that is more.
    #[must_use]
    pub fn successor(&self, config: &Config, srtt: Dur) -> Config {
        let window = left(self.window(), self.pacing_rate(), srtt, least(config));
        carried(config, window, self.slow_start_threshold())
    }

    /// The policy's window is `window` from now on. Returns false if its base cannot start from there.
    fn adopt(&mut self, window: Bytes) -> bool {
        self.controller.extrapolated().is_some_and(|extrapolated| extrapolated.adopt_window(window))
    }

    /// Runs `event` for the policy in the shadow, if there is one.
    pub(super) fn in_shadow(&mut self, event: impl FnOnce(&mut Self)) {
        if let Some(Shadow { policy, .. }) = self.operated.as_mut().and_then(|operated| operated.shadow.as_mut()) {
            event(policy);
        }
    }

    /// Returns the policy in the shadow.
    pub(super) fn shadow(&self) -> Option<&Self> {
        let shadow = self.operated.as_ref()?.shadow.as_ref()?;
        Some(&shadow.policy)
    }

    /// An acknowledgement has been booked.
    pub(super) fn on_operated_ack(&mut self, ack: &AckInfo) {
        let before = self.window();
        self.controller.on_ack(ack);
        self.ask_operated(ack.now, Some(ack), before);
    }

    /// Lets the policy decide if a decision is due after the controller has taken the event of `now`. The window was
    /// `before` until then: another scheme gets no more, whatever the policy's rules have made of it.
    pub(super) fn ask_operated(&mut self, now: Time, ack: Option<&AckInfo>, before: Bytes) {
        let (window, pacing) = (self.window(), self.pacing_rate());
        let Some(operated) = &mut self.operated else { return };
        if let Some(ack) = ack {
            operated.srtt = ack.srtt;
        }
        match operated.role {
            Role::Shadow => operated.observe(now, ack, window, pacing),
            Role::Policy => {
                let threshold = self.controller.slow_start_threshold();
                if !self.learner.ask(self.controller.as_mut(), now) {
                    return;
                }
                if operated.count(self.learner.decider().map(Decider::seen).unwrap_or_default()) {
                    let Operated { fallback, srtt, .. } = operated.as_ref();
                    let window = left(window.min(before), pacing, *srtt, least(&fallback.config));
                    self.controller = fallback.controller(&carried(&fallback.config, window, threshold));
                    self.learner.leave();
                    operated.role = Role::HandedBack;
                }
            }
            _ => {}
        }
    }
}

/// The needs of two schemes, one of which acts at a time: its packets are those of `acting`.
fn both(acting: TransportNeeds, other: TransportNeeds) -> TransportNeeds {
    let TransportNeeds { every_segment, rate_samples, paces_each, .. } = acting.or(other);
    TransportNeeds { every_segment, rate_samples, paces_each, ..acting }
}

impl Operated {
    fn new(fallback: Fallback, role: Role, guard: u32, shadow: Option<Shadow>) -> Self {
        Self { fallback, role, guard, tripped: 0, srtt: Dur::ZERO, tally: Tally::default(), shadow }
    }

    /// Counts a decision, and returns whether the guard hands the flow back.
    fn count(&mut self, seen: Seen) -> bool {
        self.tally.decisions += 1;
        self.tally.outside += u64::from(seen.outside);
        self.tally.clamps += u64::from(seen.clamped);
        self.tripped = if seen.trips { self.tripped + 1 } else { 0 };
        self.guard > 0 && self.tripped >= self.guard
    }

    /// An acknowledgement or a timer in the shadow, while `window` and `pacing` are in force.
    fn observe(&mut self, now: Time, ack: Option<&AckInfo>, window: Bytes, pacing: Option<Rate>) {
        let Some(Shadow { policy, at_once }) = &mut self.shadow else { return };
        let at_once = *at_once;
        if let Some(ack) = ack {
            if at_once {
                policy.adopt(window);
            }
            policy.controller.on_ack(ack);
        }
        if !policy.controller.learned().is_some_and(|learned| learned.take_decision()) {
            return;
        }
        let (srtt, first) = (self.srtt, self.tally.decisions == 0);
        let running = allowed(window, pacing, srtt);
        let wish = |policy: &Flow| allowed(policy.window(), policy.pacing_rate(), srtt);
        let before = (!at_once && !first).then(|| wish(policy));
        policy.adopt(window);
        policy.learner.decide(policy.controller.as_mut(), now);
        let compared = if at_once { Some(wish(policy)) } else { before };
        let seen = policy.learner.decider().map(Decider::seen).unwrap_or_default();
        self.count(seen);
        if let Some(wish) = compared {
            self.tally.compared += 1;
            self.tally.agreed += u64::from(wish * 10 <= running * 11 && running * 10 <= wish * 11);
            self.tally.policy_kib += wish >> 10;
            self.tally.running_kib += running >> 10;
        }
    }
}
