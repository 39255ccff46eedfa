//! The rate: doubled while that pays (starting), compared a little higher and lower (probing), moved along the utility's
//! gradient (moving).
//!
//! Departures from both code bases:
//! - The centre of probing is kept, where they restore it by dividing by the last probe's factor, and sometimes forget to.
//! - The RTT deviation that starting bears is a millisecond at least, the granularity of timers in RFC 9002 §6.1.2: where
//!   RTTs do not vary at all, microseconds would end it.
//! - A flow that falls to the floor starts anew without a rate to go back to.

use super::interval::Statistics;
use super::step::{Slope, Steps};
use super::utility::Utility;
use super::variant::{Retreat, Tolerance, Variant};
use crate::schemes::split_mix::split_mix;

/// Probes are this fraction above and below the centre (ε).
const PROBE: f64 = 0.05;
/// Smallest deviation of RTTs that counts as one.
const GRANULARITY_US: f64 = 1000.0;
/// No rate is higher, in bit/s: a flow limited by its application may find ever higher ones free.
const LARGEST: f64 = 1e12;

/// Limits that distinguish flows of one variant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// First rate, in bit/s.
    pub(crate) initial_bps: f64,
    /// Starting ends at this rate.
    pub(crate) start_cap_bps: Option<f64>,
    /// Moving ends at this rate.
    pub(crate) ceiling_bps: Option<f64>,
    /// Pairs of probes in a round, and how many have to agree to move up or down.
    pub(crate) pairs: usize,
    pub(crate) votes_up: usize,
    pub(crate) votes_down: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Starting,
    Probing,
    Moving(Direction),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Up,
    Down,
}

impl Direction {
    fn sign(self) -> f64 {
        match self {
            Self::Up => 1.0,
            Self::Down => -1.0,
        }
    }
}

/// A rate and its utility.
#[derive(Clone, Copy, Debug, Default)]
struct Point {
    rate: f64,
    utility: f64,
}

/// The state machine of the rate.
#[derive(Debug)]
pub(super) struct RateControl {
    mode: Mode,
    /// Rate under test; in probing, its centre.
    rate: f64,
    /// Rate to return to.
    previous: Option<f64>,
    last: Point,
    /// Rounds in this mode.
    rounds: u32,
    steps: Steps,
    /// Flag that the upper probe of the present pair comes first.
    up_first: bool,
    draws: u64,
    /// Results of the last probes. Their memory is kept.
    points: Vec<Point>,
    seed: u64,
    limits: Limits,
    variant: Variant,
}

impl RateControl {
    /// Other limits hold from the next decision on.
    pub(super) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    pub(super) fn new(limits: Limits, variant: Variant, starting: bool, seed: u64) -> Self {
        Self {
            mode: if starting { Mode::Starting } else { Mode::Probing },
            rate: limits.initial_bps.clamp(variant.floor_bps, LARGEST),
            previous: None,
            last: Point::default(),
            rounds: 1,
            steps: Steps::default(),
            up_first: false,
            draws: 0,
            points: Vec::new(),
            seed,
            limits,
            variant,
        }
    }

    pub(super) fn is_starting(&self) -> bool {
        self.mode == Mode::Starting
    }

    /// Rate under test; in probing, its centre.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// The first RTT sample is in.
    pub(super) fn on_first_rtt(&mut self, rtt_us: f64) {
        if self.variant.initial_rate_scales && rtt_us < 100e3 {
            self.rate = (self.rate * 100e3 / rtt_us.max(1.0)).min(LARGEST);
        }
    }

    /// Rate of the next interval whose result is wanted, and whether it tries a higher one; none if `waiting` results are
    /// all that can be used.
    pub(super) fn next_trial(&mut self, waiting: usize) -> Option<(f64, bool)> {
        let most = if self.mode == Mode::Probing { 2 * self.limits.pairs } else { 1 };
        if waiting >= most {
            return None;
        }
        Some(match self.mode {
            Mode::Starting => (self.rate, true),
            Mode::Moving(direction) => (self.rate, direction == Direction::Up),
            Mode::Probing => {
                let first_of_pair = waiting % 2 == 0;
                if first_of_pair {
                    self.draws += 1;
                    self.up_first = split_mix(self.seed, self.draws) & 1 == 0;
                }
                let up = self.up_first == first_of_pair;
                (self.rate * if up { 1.0 + PROBE } else { 1.0 - PROBE }, up)
            }
        })
    }

    /// Returns whether the RTT has risen so far that starting has to end. Times in microseconds; `start_rtt` is the
    /// value at the start of the newest interval.
    pub(super) fn inflated(&self, rtt: f64, srtt: f64, deviation: f64, start_rtt: f64) -> bool {
        let tolerance = match self.variant.start_tolerance {
            Tolerance::Fraction(fraction) => fraction,
            Tolerance::Deviations(n) => (n * deviation.max(GRANULARITY_US) / srtt.max(1.0)).min(100.0),
        };
        self.is_starting() && rtt > srtt && (1.0 + tolerance) * start_rtt < srtt
    }

    /// Leaves starting for a rate that was good.
    pub(super) fn end_start(&mut self) {
        let back = match self.variant.retreat {
            Retreat::Previous => self.previous.unwrap_or(self.rate),
            Retreat::Recomputed => self.rate / 2.0,
        };
        self.probe_around(back);
    }

    fn probe_around(&mut self, rate: f64) {
        self.mode = Mode::Probing;
        self.rate = rate.clamp(self.variant.floor_bps, LARGEST);
        self.rounds = 1;
    }

    /// All results asked for are in.
    pub(super) fn decide(&mut self, results: &[Statistics], utility: &mut Utility) {
        let Some(newest) = results.last() else { return };
        match self.mode {
            Mode::Starting => self.after_start(Point { rate: newest.rate, utility: utility.of(newest) }),
            Mode::Probing => self.after_probes(results, utility),
            Mode::Moving(direction) => self.after_move(direction, newest, utility),
        }
    }

    fn after_start(&mut self, result: Point) {
        let cap = self.limits.start_cap_bps.unwrap_or(LARGEST).min(LARGEST);
        let better = result.utility > self.last.utility;
        if better && self.rate < cap {
            self.previous = Some(self.rate);
            self.rate = (2.0 * self.rate).min(cap);
            self.last = result;
            self.rounds += 1;
        } else if better {
            self.probe_around(cap);
        } else {
            self.end_start();
        }
    }

    fn after_probes(&mut self, results: &[Statistics], utility: &mut Utility) {
        let mut points = std::mem::take(&mut self.points);
        points.clear();
        points.extend(results.iter().map(|s| Point { rate: s.rate, utility: utility.of(s) }));
        match self.vote(&points) {
            Some(direction) => self.after_vote(direction, results, &points, utility),
            None => self.rounds = self.rounds.saturating_add(1),
        }
        self.points = points;
        if (self.rounds > 1 || self.mode != Mode::Probing) && self.rate <= self.variant.floor_bps {
            self.mode = Mode::Starting;
            self.rate = self.variant.floor_bps;
            self.previous = None;
            self.rounds = 1;
            self.steps.reset();
        }
    }

    /// The direction that enough pairs of probes agree on; none, too, if pairs are missing because little was sent.
    fn vote(&self, points: &[Point]) -> Option<Direction> {
        if points.len() < 2 * self.limits.pairs {
            return None;
        }
        let ups = points.chunks_exact(2).filter(|pair| winner(pair) == Direction::Up).count();
        if ups >= self.limits.votes_up {
            Some(Direction::Up)
        } else if self.limits.pairs - ups >= self.limits.votes_down {
            Some(Direction::Down)
        } else {
            None
        }
    }

    fn after_vote(&mut self, direction: Direction, results: &[Statistics], points: &[Point], utility: &mut Utility) {
        let agreeing = points.chunks_exact(2).filter(|pair| winner(pair) == direction);
        let mut difference = 0.0;
        for pair in agreeing {
            difference += (pair[0].utility - pair[1].utility).abs();
            self.last = if pair[0].utility > pair[1].utility { pair[0] } else { pair[1] };
        }
        if direction == Direction::Down && self.variant.asymmetric {
            let low = results.iter().rev().take(2).find(|s| !s.increase);
            self.last.utility = low.map_or(self.last.utility, |s| utility.with_latency(s));
        }
        if let Some(ceiling) = self.limits.ceiling_bps.filter(|&c| direction == Direction::Up && self.rate >= c) {
            self.probe_around(ceiling);
            return;
        }
        let slope =
            Slope { utility: difference / self.limits.pairs as f64, rate: (points[0].rate - points[1].rate).abs() };
        self.mode = Mode::Moving(direction);
        self.rounds = 1;
        self.rate *= 1.0 + direction.sign() * PROBE;
        self.previous = Some(self.rate);
        self.steps.reset();
        let step = self.steps.size(slope, self.rate, points[0].rate, 0, &self.variant);
        self.go(self.rate + direction.sign() * step);
    }

    fn after_move(&mut self, direction: Direction, result: &Statistics, utility: &mut Utility) {
        let point = Point { rate: result.rate, utility: utility.of(result) };
        let (du, dx) = (point.utility - self.last.utility, point.rate - self.last.rate);
        let slope = Slope { utility: du.abs(), rate: dx.abs() };
        let pays = du * dx * direction.sign() > 0.0;
        if pays {
            self.rounds = self.rounds.saturating_add(1);
        }
        let step = self.steps.size(slope, self.rate, point.rate, self.rounds, &self.variant);
        if pays {
            self.last = point;
            if direction == Direction::Down && self.variant.asymmetric {
                self.last.utility = utility.with_latency(result);
            }
            self.previous = Some(self.rate);
            self.go(self.rate + direction.sign() * step);
        } else {
            let back = match self.variant.retreat {
                Retreat::Previous => self.previous.unwrap_or(self.rate),
                Retreat::Recomputed => self.rate - direction.sign() * step,
            };
            self.probe_around(back);
        }
    }

    /// Moves to `rate`; probing begins at the ceiling and at the floor.
    fn go(&mut self, rate: f64) {
        let ceiling = self.limits.ceiling_bps.unwrap_or(LARGEST).min(LARGEST);
        self.rate = rate;
        if rate >= ceiling {
            self.probe_around(ceiling);
        } else if rate < self.variant.floor_bps {
            self.probe_around(self.variant.floor_bps);
        }
    }
}

/// The better rate of a pair of probes; at a tie the second.
fn winner(pair: &[Point]) -> Direction {
    let (first, second) = (pair[0], pair[1]);
    let better = if first.utility > second.utility { first } else { second };
    let other = if first.utility > second.utility { second } else { first };
    if better.rate > other.rate { Direction::Up } else { Direction::Down }
}

#[cfg(test)]
mod tests;
