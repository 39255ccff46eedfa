//! One socket under a controller.

use std::collections::VecDeque;

use ccarena_cc::learned::clocks::{DatapathClock, ReasonerOptions};
use ccarena_cc::policy::kernel::raw;
use ccarena_cc::{ActionError, Bytes, Controller, Decider, Dur, Extrapolation, Outside, Rate, Time};

use super::feed::Feed;
use super::{Driver, DueDecision};
use crate::intf::{
    ANSWER_OWNS_RECOVERY, Answer, BASE_CUBIC, BASE_HOLD, CA_CWR, CA_RECOVERY, Event, FLAG_ECN, FLAG_SPURIOUS,
    FLAG_TIMEOUT, INTERVAL_WINDOW, RATE_UNLIMITED, REASONER_OPTIONS,
};

/// Sums of the reports of a flow's sockets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Totals {
    /// Segments marked lost.
    pub lost_packets: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Window reductions for ECN echoes.
    pub ecn_reductions: u64,
    /// Recoveries undone.
    pub undone_recoveries: u64,
    /// Sum of RTT samples, and their number.
    pub rtt_sum: Dur,
    /// See `rtt_sum`.
    pub rtt_count: u64,
    /// Decisions made.
    pub decisions: u64,
    /// Decisions on what its policy did not see in training.
    pub outside: Outside,
    /// The learned scheme's reports, row by row, if they are kept.
    pub reports: Vec<f32>,
    /// Reason why a controller has given up, if one has.
    pub failure: Option<String>,
}

/// One socket.
pub struct Socket {
    driver: Driver,
    feed: Feed,
    /// Time at which the socket became ours; 0 if that was before its first event.
    pub(super) since_ns: u64,
    /// Answers so far, and the last event that they take into account.
    sequence: u64,
    last_event: u64,
    /// Packets that have arrived.
    delivered: u64,
    /// The smoothed RTT.
    srtt_us: u32,
    /// The window that the datapath has or has been sent, if it runs CUBIC.
    known: Bytes,
    /// The last answers: their number and when the event was that they answer.
    answered: VecDeque<(u64, u64)>,
    observation: Vec<f32>,
    report: Vec<f32>,
}

/// Number of packets up to which every ACK reports. So it does in windows below [`BURSTY_WINDOW`]. At the start of a flow
/// and in small windows ACKs come in bursts. An interval that ends within a burst would hear of the rest only with the
/// next report, up to a round trip later.
const BURSTY_PACKETS: u64 = 2000;
const BURSTY_WINDOW: u32 = 64;
/// An interval that every ACK ends.
const EVERY_ACK_US: u32 = 1;
/// One that keeps reports to 10,000 per second. A window of [`BURSTY_WINDOW`] packets does so by itself if a round trip takes
/// as many times as long.
const SPACED_US: u32 = 100;
/// The longest that a datapath with its own CUBIC is left alone.
const LONGEST_US: u32 = 10_000_000;

/// Request for a decision: its decider, and the kept state.
struct Asking<'a> {
    decider: &'a mut Option<Decider>,
    flow: usize,
    keeps_reports: bool,
    observation: &'a mut [f32],
    report: &'a mut [f32],
    totals: &'a mut Totals,
    on_due: &'a mut dyn FnMut(DueDecision<'_>),
}

impl Asking<'_> {
    /// Asks for a decision if one is due.
    fn ask(&mut self, controller: &mut dyn Controller, now: Time) {
        let Some(learned) = controller.learned() else { return };
        if !learned.take_decision() {
            return;
        }
        self.totals.decisions += 1;
        learned.report(self.report);
        if self.keeps_reports {
            self.totals.reports.extend_from_slice(self.report);
        }
        if let Some(decider) = self.decider {
            if decider.decide(learned, now) {
                self.totals.outside.count(decider);
            } else {
                learned.observe(self.observation);
                (self.on_due)(DueDecision { flow: self.flow, now, observation: self.observation, report: self.report });
            }
        }
    }
}

/// Answers that are remembered until a report says that they are in force.
const REMEMBERED: usize = 16;

impl Socket {
    /// A socket that `driver` takes over; its policy or constant makes the first decision.
    #[must_use]
    pub fn new(mut driver: Driver, zero_ns: u64) -> Self {
        let feed = Feed::new(driver.controller.as_mut(), driver.mss, zero_ns);
        let (mut observation, mut report) = (Vec::new(), Vec::new());
        if let Some(learned) = driver.controller.learned() {
            observation = vec![0.0; learned.interface().observation_len];
            report = vec![0.0; learned.interface().report.len()];
            if let Some(decider) = &mut driver.decider {
                decider.decide(learned, Time::ZERO);
            }
        }
        let known = driver.controller.window();
        Self {
            driver,
            feed,
            since_ns: 0,
            sequence: 0,
            last_event: 0,
            delivered: 0,
            srtt_us: 0,
            known,
            answered: VecDeque::new(),
            observation,
            report,
        }
    }

    /// Goes on from where `event` found the connection: what was before it is not reported, and the kernel may have the
    /// answers of another daemon.
    pub fn join(&mut self, event: &Event) {
        self.since_ns = event.now_ns;
        self.sequence = event.answer_sequence;
        self.last_event = event.sequence;
        self.delivered = event.delivered_packets;
        self.srtt_us = event.srtt_us;
        self.feed.join(event);
    }

    /// The flow that it belongs to.
    #[must_use]
    pub fn flow(&self) -> usize {
        self.driver.flow
    }

    /// Returns the reason why the controller has given up, if it has.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        self.driver.controller.failure()
    }

    /// Tells the controller of an event, and asks for decisions where they are due.
    pub fn on_event(&mut self, event: &Event, totals: &mut Totals, on_due: &mut dyn FnMut(DueDecision<'_>)) {
        if Extrapolation::of(self.driver.controller.as_mut(), self.feed.at()).cubic.is_some() {
            self.adopt(event);
        }
        totals.lost_packets += u64::from(event.lost_packets);
        totals.timeouts += u64::from(event.flags & FLAG_TIMEOUT != 0);
        totals.ecn_reductions += u64::from(event.flags & FLAG_ECN != 0);
        totals.undone_recoveries += u64::from(event.flags & FLAG_SPURIOUS != 0);
        totals.rtt_sum += Dur::from_micros(event.rtt_sum_us);
        totals.rtt_count += u64::from(event.rtt_count);
        self.last_event = event.sequence;
        self.delivered = event.delivered_packets;
        self.srtt_us = event.srtt_us;
        let Self { driver, feed, observation, report, .. } = self;
        let Driver { controller, decider, flow, keeps_reports, .. } = driver;
        let mut asking =
            Asking { decider, flow: *flow, keeps_reports: *keeps_reports, observation, report, totals, on_due };
        feed.tell(event, controller.as_mut(), |controller, now| asking.ask(controller, now));
    }

    /// The controller goes on from where the datapath's CUBIC is; in recovery, from where that heads.
    fn adopt(&mut self, event: &Event) {
        let reduces = matches!(event.ca_state, CA_CWR | CA_RECOVERY);
        let segments = if reduces { event.ssthresh_packets } else { event.window_packets };
        self.known = Bytes(u64::from(segments.max(1)) * u64::from(self.driver.mss));
        if let Some(extrapolated) = self.driver.controller.extrapolated() {
            extrapolated.adopt_window(self.known);
        }
    }

    /// Returns the time from a report to its answer's coming into force, if `event` is the first to show it.
    pub fn enforced_us(&mut self, event: &Event) -> Option<u32> {
        let position = self.answered.iter().position(|a| a.0 == event.answer_sequence)?;
        let (_, reported_ns) = self.answered.drain(..=position).next_back()?;
        let late = event.enforced_ns.checked_sub(reported_ns)? / 1000;
        Some(u32::try_from(late).unwrap_or(u32::MAX))
    }

    /// Returns when [`on_timers`](Self::on_timers) is due.
    #[must_use]
    pub fn next_timer(&self) -> Time {
        let setting_at = self.driver.settings.last().map_or(Time::NEVER, |w| w.0);
        self.driver.controller.next_timer().min(setting_at)
    }

    /// Runs what is due at `now`, a decision of a controller with a timer of its own included.
    pub fn on_timers(&mut self, now: Time, totals: &mut Totals, on_due: &mut dyn FnMut(DueDecision<'_>)) {
        let Self { driver, observation, report, .. } = self;
        let Driver { controller, settings, decider, flow, keeps_reports, .. } = driver;
        while settings.last().is_some_and(|change| change.0 <= now) {
            if let Some((_, setting)) = settings.pop() {
                setting.apply(controller.as_mut());
            }
        }
        if controller.next_timer() <= now {
            controller.on_timer(now);
            let keeps_reports = *keeps_reports;
            let mut asking = Asking { decider, flow: *flow, keeps_reports, observation, report, totals, on_due };
            asking.ask(controller.as_mut(), now);
        }
    }

    /// Puts an action from outside in force.
    ///
    /// # Errors
    /// If the scheme refuses it.
    pub fn act(&mut self, action: f64, now: Time) -> Result<(), ActionError> {
        let Some(learned) = self.driver.controller.learned() else { return Ok(()) };
        let action = learned.interface().action(&[action])?;
        learned.act(action, now)
    }

    /// Returns the current answer to the socket.
    pub fn answer(&mut self, now_ns: u64) -> Answer {
        self.sequence += 1;
        if self.answered.len() == REMEMBERED {
            self.answered.pop_front();
        }
        self.answered.push_back((self.sequence, now_ns));
        let controller = self.driver.controller.as_mut();
        let mss = u64::from(self.driver.mss.max(1));
        let segments = |bytes: u64| u32::try_from(bytes / mss).unwrap_or(u32::MAX).max(1);
        let thousandths = |x: f64| (x * 1000.0).round() as u32;
        let steps = Extrapolation::of(controller, self.feed.at());
        let clock = controller.learned().filter(|_| steps.cubic.is_some()).and_then(|learned| learned.datapath_clock());
        let window = segments(controller.window().0);
        let interval_us = if let Some(left) = steps.cubic {
            interval(left)
        } else if steps.per_window {
            INTERVAL_WINDOW
        } else if window < BURSTY_WINDOW && self.srtt_us >= BURSTY_WINDOW * SPACED_US {
            EVERY_ACK_US
        } else if window < BURSTY_WINDOW || self.delivered < BURSTY_PACKETS {
            SPACED_US
        } else {
            steps.report.map_or(0, interval)
        };
        let cubic = steps.cubic.is_some();
        let known = std::mem::replace(&mut self.known, controller.window());
        let multiplier = if cubic { self.known.0 as f64 / known.0.max(1) as f64 } else { 1.0 };
        Answer {
            flow: 0,
            sequence: self.sequence,
            report: self.last_event,
            pacing_bytes_per_s: controller.pacing_rate().map_or(0, |rate| (rate.0 / 8).max(1)),
            answered_ns: now_ns,
            reasoner: clock.map_or([0; REASONER_OPTIONS], |DatapathClock::Reasoner(options)| reasoner(&options)),
            window_packets: window,
            ssthresh_packets: if cubic {
                0
            } else {
                controller.slow_start_threshold().map_or(0, |bytes| segments(bytes.0))
            },
            alpha: thousandths(steps.increase),
            beta: thousandths(steps.decrease),
            multiplier: thousandths(multiplier),
            base: if cubic { BASE_CUBIC } else { BASE_HOLD },
            flags: if controller.transport().owns_recovery { ANSWER_OWNS_RECOVERY } else { 0 },
            interval_us,
            desired_kbps: controller.router_assisted().and_then(|routers| routers.request().rate()).map_or(0, kbps),
            min_burst: controller.min_burst_segments(),
        }
    }
}

/// The options of clock `reasoner` in the order of [`Answer::reasoner`].
fn reasoner(options: &ReasonerOptions) -> [i64; REASONER_OPTIONS] {
    let ReasonerOptions {
        alpha,
        delta,
        period_ms,
        min_ms,
        max_ms,
        steepness,
        as_printed,
        asks,
        min_rtts,
        least_packets,
    } = *options;
    let flag = |set: bool| f64::from(u8::from(set));
    let [falling, rising, lossy, queued] = asks.map(flag);
    [
        alpha,
        delta,
        period_ms,
        min_ms,
        max_ms,
        steepness,
        flag(as_printed),
        falling,
        rising,
        lossy,
        queued,
        min_rtts,
        least_packets,
    ]
    .map(raw)
}

/// Returns the length in µs; 0 and the largest numbers have special meanings.
fn interval(length: Dur) -> u32 {
    u32::try_from(length.0 / 1000).unwrap_or(INTERVAL_WINDOW).clamp(SPACED_US, LONGEST_US)
}

/// Returns the rate as in the TCP option: at least 1 kbit/s.
fn kbps(rate: Rate) -> u32 {
    u32::try_from(rate.0 / 1000).unwrap_or(RATE_UNLIMITED).max(1)
}
