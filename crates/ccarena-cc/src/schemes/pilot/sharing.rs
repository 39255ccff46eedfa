//! Behaviour of the law beside other flows: base probes, the test for competitors, and competing with them.
//!
//! A **drain** leaves less than a window without its queue for two round trips. It shows the smallest RTT again, to all
//! flows that drain at the same time, and the flow's own share of the queue. If the share is small and the delay stays,
//! a **push** follows: it tests whether three times the window brings more of the link while the delay stays. Then
//! another flow fills the queue.
//!
//! A few packets leave nothing to drain. If they meet a long queue, a packet train gives the same evidence by the speed
//! of its return. A flow that has found others **competes** as CUBIC would (RFC 9438), until drains of half of the
//! queue show that it is its own. While it competes no smallest RTT is forgotten, since the queue is never empty.

use super::estimates::Estimates;
use super::numbers::Numbers;
use super::trial::Trial;
use crate::elementary;
use crate::types::{Dur, Time};

/// C and β of CUBIC (RFC 9438 section 5); β is an option here.
const CUBIC_C: f64 = 0.4;
/// Part of a full queue that has to be back after a loss before a drain can tell whose it is.
const BACK: f64 = 0.7;
/// Queues up to this part of the smallest RTT are not held up by anybody.
const NO_QUEUE: f64 = 0.3;
/// A drain in which the RTT rises by this part of the queue says nothing.
const RISEN: f64 = 0.25;
/// Most packets in the window as long as trains alone have shown others: enough to be drained.
const UNPROVED: f64 = 50.0;
/// Queueing delay in seconds that a few flows of one kind with a few packets each make on a slow link.
const SHORT_S: f64 = 0.06;
/// Queueing delay in seconds that is long for any path: a flow that has come to a full queue takes the queue for the path.
const LONG_S: f64 = 0.1;
/// A flow has just come for so many seconds.
const EARLY_S: f64 = 10.0;
/// Least time to the next drain of a flow that suspects others, in smoothed RTTs: a drain and a push take most of it.
const AGAIN_RTTS: f64 = 7.0;
/// Successes that a drain takes back if it finds no other flow.
const FADES: f64 = 0.5;
/// A queue that a drain leaves is nobody else's if it is no longer than so many packet times, and than so many seconds: to a flow
/// with a small share of a link packets look slow, too.
const ONE_PACKET: f64 = 1.2;
const SLOW_PACKET_S: f64 = 0.015;
/// Number of packets that leave nothing to drain.
const FEW: f64 = 5.0;

/// Phase of the flow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// The law alone.
    Law,
    /// The window is held down.
    Drain(Trial),
    /// The window is held up.
    Push(Trial),
    /// The window of before is back; what is measured still comes from the trial.
    Settle { until: Time },
}

/// CUBIC's window over time since a loss.
#[derive(Clone, Copy, Debug)]
struct Competing {
    window: f64,
    highest: f64,
    epoch: Time,
    /// Drains that found the queue to be the flow's own, in a row.
    alone: f64,
    /// Time at which the last drain ended.
    drained: Time,
    /// A loss has come since, and when.
    loss: Option<Time>,
    /// RTT in seconds at the last loss: that of a full queue.
    full: f64,
    /// A drain has found others.
    confirmed: bool,
    /// Packet trains have.
    by_trains: bool,
    /// A loss has come: the queue has an end.
    lost: bool,
}

/// The state of all that.
#[derive(Clone, Debug)]
pub struct Sharing {
    phase: Phase,
    successes: f64,
    competing: Option<Competing>,
    /// Time at which the queue was last drained.
    drained: Time,
    /// Time at which a packet train was last sent, and the number in a row without evidence of others.
    train_sent: Time,
    failures: f64,
}

impl Default for Sharing {
    fn default() -> Self {
        Self {
            phase: Phase::Law,
            successes: 0.0,
            competing: None,
            drained: Time::ZERO,
            train_sent: Time::ZERO,
            failures: 0.0,
        }
    }
}

impl Sharing {
    /// Returns whether current measurements are not the effect of the law's window.
    pub fn frozen(&self) -> bool {
        self.phase != Phase::Law
    }

    /// A few packets go out at once.
    pub fn sends_train(&self) -> bool {
        matches!(self.phase, Phase::Push(trial) if trial.train.is_some())
    }

    /// Others hold the queue up, as far as the flow knows.
    #[inline]
    pub fn competes(&self) -> bool {
        self.competing.is_some()
    }

    /// The window that holds in place of the law's, if one does. `window` is the present one, in packets; `packets` were
    /// delivered in this tick of `dt` seconds.
    pub fn tick(
        &mut self,
        now: Time,
        numbers: &Numbers,
        seen: &Estimates,
        window: f64,
        (packets, dt): (f64, f64),
    ) -> Option<f64> {
        let rtt_min = seen.rtt_min()?;
        self.grow(now, numbers, seen, rtt_min);
        let mut restored = None;
        match &mut self.phase {
            Phase::Law => {
                if self.is_starved(now, numbers, seen, window, rtt_min) {
                    let trial = Trial::drain(now, numbers, seen, window, rtt_min);
                    self.phase = self.push(now, numbers, seen, &trial, rtt_min);
                } else if self.is_due(now, numbers, seen, rtt_min) {
                    // The first drain of one that competes has to tell: a rise of capacity looks like a push that succeeds.
                    self.phase = Phase::Drain(if self.competing.is_some_and(|own| own.confirmed) {
                        Trial::half_drain(now, seen, window, rtt_min)
                    } else {
                        Trial::drain(now, numbers, seen, window, rtt_min)
                    });
                }
            }
            Phase::Drain(trial) | Phase::Push(trial) if now < trial.until => trial.see(now, seen, packets, dt),
            Phase::Drain(trial) => {
                let trial = *trial;
                self.judge_drain(now, numbers, seen, rtt_min, trial);
                restored = Some(trial.before);
            }
            Phase::Push(trial) => {
                let trial = *trial;
                self.judge_push(now, numbers, (seen.rtt, rtt_min), trial);
                restored = Some(trial.before);
            }
            Phase::Settle { until } if now >= *until => self.phase = Phase::Law,
            Phase::Settle { .. } => {}
        }
        match (&self.phase, &self.competing) {
            (Phase::Drain(trial) | Phase::Push(trial), _) => Some(trial.window),
            (_, Some(competing)) => Some(competing.window),
            _ => restored,
        }
    }

    fn is_due(&self, now: Time, numbers: &Numbers, seen: &Estimates, rtt_min: f64) -> bool {
        let since = |then: Time| now.since(then).as_secs_f64();
        match &self.competing {
            // Flows of one kind see a loss at the same time, and so drain together; one that sees none drains at last.
            // The first drain comes soon, and the one that has to repeat a verdict.
            Some(own) => {
                let waited = since(own.drained);
                // Right after a loss a short queue is empty, whosever it was.
                let is_back = seen.rtt.as_secs_f64() >= rtt_min + BACK * (own.full - rtt_min);
                let settled = own.loss.is_some_and(|at| since(at) > 2.0 * seen.srtt.as_secs_f64()) && is_back;
                let longest = if own.confirmed && own.alone == 0.0 {
                    1.5 * numbers.leave_s
                } else {
                    4.0 * seen.srtt.as_secs_f64()
                };
                waited > numbers.leave_s && settled || waited > longest
            }
            // Flows of one kind learn by draining at the same time that nobody else is there. So one that suspects others keeps
            // the pace of those that have just come. It drains even where the RTT touches its minimum: suspicion has to fade.
            None if self.successes > 0.0 => {
                since(self.drained) > numbers.probe_early_s.max(AGAIN_RTTS * seen.srtt.as_secs_f64())
            }
            None => {
                let probe_s = if seen.averaged < EARLY_S { numbers.probe_early_s } else { numbers.probe_s };
                since(seen.touched.max(self.drained)) > probe_s.max(numbers.probe_rtts * rtt_min)
            }
        }
    }

    /// A few packets have met a long queue for some round trips, and a packet train may show whose it is.
    fn is_starved(&self, now: Time, numbers: &Numbers, seen: &Estimates, window: f64, rtt_min: f64) -> bool {
        let long = numbers.starved_s.max(numbers.starved_rtts * seen.srtt.as_secs_f64());
        let waited = now.since(seen.touched.max(self.drained)).as_secs_f64();
        self.competing.is_none()
            && (self.successes > 0.0 || waited > long)
            && self.may_send_train(now, numbers, seen, window, rtt_min)
    }

    /// A packet train would tell more than a push. On a slow link it makes a queue, which others of its kind may take for a
    /// competitor's. So some time passes from one to the next, short for a flow that suspects others; each train that does not speak
    /// for them makes it three times as long.
    fn may_send_train(&self, now: Time, numbers: &Numbers, seen: &Estimates, window: f64, rtt_min: f64) -> bool {
        let wait = if self.successes > 0.0 {
            numbers.probe_early_s
        } else {
            numbers.starved_s * elementary::powf(3.0, self.failures)
        };
        window <= FEW
            && seen.standing() > rtt_min.clamp(SHORT_S, LONG_S)
            && now.since(self.train_sent).as_secs_f64() > wait
    }

    fn push(&mut self, now: Time, numbers: &Numbers, seen: &Estimates, drain: &Trial, rtt_min: f64) -> Phase {
        let window = drain.before * numbers.push;
        Phase::Push(if self.may_send_train(now, numbers, seen, drain.before, rtt_min) {
            self.train_sent = now;
            Trial::train(now, seen, (window.max(numbers.train_packets), drain.before), drain.rtt)
        } else {
            Trial::push(now, seen, (window, drain.before), drain.rtt)
        })
    }

    fn judge_drain(&mut self, now: Time, numbers: &Numbers, seen: &Estimates, rtt_min: f64, trial: Trial) {
        self.drained = now;
        let settle = Phase::Settle { until: now + seen.round_trip() };
        let after = if trial.least.is_finite() { trial.least } else { trial.rtt };
        let share = trial.share(after, rtt_min);
        let least = (numbers.competing_ms / 1e3).max((ONE_PACKET / seen.slow.max(1.0)).min(SLOW_PACKET_S));
        self.phase = settle;
        if let Some(own) = &mut self.competing {
            own.drained = now;
            own.loss = None;
            let no_queue = trial.rtt - rtt_min <= least.max(NO_QUEUE * rtt_min);
            let alone = no_queue || share > numbers.leave_share;
            // Where the RTT has risen capacity may have fallen, and the drain says nothing.
            if alone {
                own.alone += 1.0;
            } else if share > -RISEN {
                (own.alone, own.confirmed) = (0.0, true);
            }
            // Capacity that rises during a drain makes the queue look like the flow's own.
            let enough = match (own.confirmed, own.by_trains) {
                (true, true) => 3.0,
                (false, false) if !own.lost => 1.0,
                _ => 2.0,
            };
            if own.alone >= enough {
                // If that was a mistake, one more push shows it.
                self.successes = if own.confirmed { numbers.successes - 1.0 } else { 0.0 };
                self.competing = None;
            }
        } else if after - rtt_min > least && share < numbers.competing_share {
            self.phase = self.push(now, numbers, seen, &trial, rtt_min);
        } else {
            // The queue was the flow's own, or capacity has risen meanwhile: suspicion fades.
            self.successes = (self.successes - FADES).max(0.0);
        }
    }

    fn judge_push(&mut self, now: Time, numbers: &Numbers, (rtt, rtt_min): (Dur, f64), trial: Trial) {
        // A push follows a drain, from which the next one is counted; a packet train takes the place of a drain.
        if trial.train.is_some() {
            self.drained = now;
        }
        let evidence = trial.evidence(numbers, rtt_min);
        self.successes = (self.successes + evidence).max(0.0);
        if evidence > 0.0 {
            self.failures = 0.0;
        } else if trial.train.is_some() {
            self.failures += 1.0;
        }
        if self.successes >= numbers.successes {
            let window = trial.window;
            self.competing = Some(Competing {
                window,
                highest: window,
                epoch: now,
                alone: 0.0,
                drained: now,
                loss: None,
                full: 0.0,
                confirmed: false,
                by_trains: trial.train.is_some(),
                lost: false,
            });
        }
        // The RTT of now: that of before is over where an outage was.
        self.phase = Phase::Settle { until: now + rtt.max(Dur::from_millis(10)) };
    }

    /// CUBIC's window; the growth of Reno with its back-off at least (RFC 9438 sections 4.2 and 4.3).
    fn grow(&mut self, now: Time, numbers: &Numbers, seen: &Estimates, rtt_min: f64) {
        let idle = matches!(self.phase, Phase::Law | Phase::Settle { .. });
        let Some(own) = &mut self.competing else { return };
        if !idle {
            return;
        }
        // As long as neither a loss has shown that the queue has an end nor the last drain, or trains, that others are there.
        let proved = own.lost || own.alone == 0.0 && (own.confirmed || own.by_trains);
        if !proved {
            (own.highest, own.epoch) = (own.window, now);
            return;
        }
        let t = now.since(own.epoch).as_secs_f64();
        let (c, beta) = (CUBIC_C * numbers.growth, numbers.back_off);
        let k = elementary::cbrt(own.highest * (1.0 - beta) / c);
        let reno = own.highest * beta + 3.0 * (1.0 - beta) / (1.0 + beta) * t / seen.srtt.as_secs_f64().max(rtt_min);
        let cubic = c * (t - k).powi(3) + own.highest;
        // No faster than half again what is in flight, and not far before more than trains has shown others.
        let most = if own.lost || own.confirmed { f64::INFINITY } else { UNPROVED.max(own.highest) };
        own.window = cubic.max(reno).min(1.5 * seen.in_flight.max(own.window / 1.5) + 2.0).min(most).max(2.0);
    }

    /// A loss episode has begun.
    pub fn on_loss(&mut self, now: Time, rtt: Dur, numbers: &Numbers) {
        if let Some(own) = &mut self.competing {
            (own.full, own.lost) = (rtt.as_secs_f64(), true);
            // Fast convergence (RFC 9438 section 4.7).
            own.highest =
                if own.window < own.highest { own.window * (1.0 + numbers.back_off) / 2.0 } else { own.window };
            own.window = (own.window * numbers.back_off).max(2.0);
            own.epoch = now;
            own.loss = own.loss.or(Some(now));
        }
    }

    /// The retransmission timer has expired.
    pub fn on_timeout(&mut self, now: Time) {
        self.phase = Phase::Law;
        self.drained = now;
        if let Some(own) = &mut self.competing {
            (own.highest, own.window, own.epoch) = (own.window, 2.0, now);
        }
    }
}
