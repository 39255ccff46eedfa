//! Models of links whose rate, delay and loss vary together: satellite, 5G, Wi-Fi and cable.
//!
//! A model draws a conditions trace. At any moment the link is in one of a few states (clear or obstructed; in line of
//! sight or blocked), which follow each other as a semi-Markov process with log-normal stays. The state has a mean
//! rate, and the rate in it is
//!
//! `mean * trace's factor * (1 + cv * x)`, at least `floor * mean` and at most the cap,
//!
//! where `x` has mean zero and variance one: a sum of Ornstein–Uhlenbeck processes with several memories, and of a
//! level that is drawn anew at every reallocation if the link has such (Starlink: every 15 s). The delay is one base
//! per trace, and above it a level per reallocation (half-normal), what the state adds, and the jitter of the medium's
//! grants. Traces of one seed reallocate at the same times, so that two models can be the directions of one path. A trace
//! is written in ticks: what varies faster than a tick is no part of it.
//!
//! `ccarena traces compare` prints how far a model is from a measured table.

use ccarena_cc::elementary::{exp, ln, ln_1p};
use ccarena_cc::registry::nearest;
use ccarena_cc::types::Dur;
use serde_json::{Value, json};

use crate::noise::{Reverting, normals};
use crate::rng::{Purpose, Stream};

mod table;

pub use table::MODELS;

/// Range of the mean rate that a trace can be scaled to, in Mbit/s.
pub const MEAN_MBPS: (f64, f64) = (0.01, 10_000.0);

/// Model of a link.
#[derive(Clone, Debug)]
pub struct LinkModel {
    /// Name in scenarios and on the command line.
    pub name: &'static str,
    /// Kind of link: satellite, 5g, wifi or cable.
    pub family: &'static str,
    /// One line: what it imitates.
    pub summary: &'static str,
    /// Origin of the parameters.
    pub source: &'static str,
    /// Table that parameters were fitted to; empty if none was.
    pub fitted: &'static str,
    /// Time between two rows of a trace.
    pub tick_ms: u32,
    /// States; a trace starts in one of them as often as the link is in it.
    pub states: &'static [State],
    /// Coefficient of variation of the factor that is drawn once per trace.
    pub trace_cv: f64,
    /// Shares of the variance within a state, each with the time constant of its memory in seconds.
    pub memory: &'static [(f64, f64)],
    /// Reallocations; their level has the variance that `memory` leaves.
    pub reallocation: Option<Reallocation>,
    /// Least rate in a state, as a share of its mean.
    pub floor: f64,
    /// Greatest rate in Mbit/s.
    pub cap_mbps: f64,
    /// One-way delay.
    pub delay: Delay,
}

/// State of a link.
#[derive(Clone, Copy, Debug)]
pub struct State {
    /// Mean rate in Mbit/s; zero is an outage.
    pub rate_mbps: f64,
    /// Coefficient of variation of the rate within the state.
    pub cv: f64,
    /// Mean length of a stay in seconds (log-normal).
    pub stay_s: f64,
    /// Standard deviation of the logarithm of a stay.
    pub stay_sigma: f64,
    /// Weights of the states that follow.
    pub next: &'static [f64],
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Delay on top of the link's in ms.
    pub added_ms: f64,
}

/// Reallocation of the link's resources at fixed times.
#[derive(Clone, Copy, Debug)]
pub struct Reallocation {
    /// Time between two of them in seconds; the first is anywhere in the first period.
    pub every_s: f64,
    /// Scale of the delay's level in ms: the standard deviation of the normal number whose size it is.
    pub delay_ms: f64,
    /// Mean length of the gap at a reallocation in seconds (log-normal, sigma 0.5).
    pub gap_s: f64,
    /// Share of the rate that is left during the gap.
    pub gap_rate: f64,
    /// Greatest probability of loss during the gap; each draws its own below it, uniformly.
    pub gap_loss: f64,
}

/// One-way delay of a link.
#[derive(Clone, Copy, Debug)]
pub struct Delay {
    /// Range of a trace's base in ms, drawn log-uniformly.
    pub base_ms: (f64, f64),
    /// Mean of the exponential jitter per tick in ms.
    pub jitter_ms: f64,
    /// Range of the wait for a grant in ms, drawn uniformly per tick.
    pub grant_ms: (f64, f64),
}

/// Conditions from a time on, until the next row's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Milliseconds from the start.
    pub time_ms: u32,
    /// Rate in Mbit/s, to 1 kbit/s.
    pub rate_mbps: f64,
    /// One-way delay in ms, to 1 µs.
    pub delay_ms: f64,
    /// Probability of loss, to 1e-6.
    pub loss: f64,
}

/// No model as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown link model {name:?}; {}", .nearest.as_ref().map_or_else(|| format!("expected one of {}", names().join(", ")), |n| format!("did you mean {n:?}?")))]
pub struct UnknownModel {
    /// Requested name.
    pub name: String,
    /// The nearest model.
    pub nearest: Option<String>,
}

/// Returns the names of all models.
#[must_use]
pub fn names() -> Vec<&'static str> {
    MODELS.iter().map(|model| model.name).collect()
}

/// Returns the model called `name`.
///
/// # Errors
/// [`UnknownModel`] with the nearest name.
pub fn find(name: &str) -> Result<&'static LinkModel, UnknownModel> {
    let unknown = || UnknownModel { name: name.into(), nearest: nearest(name, names()).map(Into::into) };
    MODELS.iter().find(|model| model.name == name).ok_or_else(unknown)
}

impl LinkModel {
    /// Draws a trace of `duration` (rounded up to ticks, at least two): the same model, duration and seed give the same
    /// rows. Rates are scaled so that the mean of all traces is `mean_mbps`, if that is given.
    #[must_use]
    pub fn draw(&self, duration: Dur, seed: u64, mean_mbps: Option<f64>) -> Vec<Row> {
        let tick = u64::from(self.tick_ms);
        let ticks = duration.0.div_ceil(tick * 1_000_000).max(2);
        let scale = mean_mbps.map_or(1.0, |mean| mean / self.mean_mbps());
        let mut process = Process::new(self, seed);
        (0..ticks).map(|k| process.row(u32::try_from(k * tick).unwrap_or(u32::MAX), scale)).collect()
    }

    /// Returns the base delay of the trace of `seed`, below which its delays never fall.
    #[must_use]
    pub fn base_delay(&self, seed: u64) -> Dur {
        Dur::from_secs_f64(Once::draw(self, seed).base_ms / 1e3)
    }

    /// Returns the long-run mean of the states' rates: floor, cap and gaps move that of traces a little.
    #[must_use]
    pub fn mean_mbps(&self) -> f64 {
        self.shares().iter().zip(self.states).map(|(share, state)| share * state.rate_mbps).sum()
    }

    /// Returns the share of time in each state.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let count = self.states.len();
        let mut visits = vec![1.0 / count as f64; count];
        // The mean of two steps converges for periodic chains, too.
        for _ in 0..200 {
            let mut next: Vec<f64> = visits.iter().map(|visit| visit / 2.0).collect();
            for (visit, state) in visits.iter().zip(self.states) {
                let total: f64 = state.next.iter().sum();
                for (to, weight) in next.iter_mut().zip(state.next) {
                    *to += visit * weight / total / 2.0;
                }
            }
            visits = next;
        }
        let time: Vec<f64> = visits.iter().zip(self.states).map(|(visit, state)| visit * state.stay_s).collect();
        let total: f64 = time.iter().sum();
        time.iter().map(|t| t / total).collect()
    }

    /// Returns its description.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "family": self.family,
            "summary": self.summary,
            "source": self.source,
            "fitted": self.fitted,
            "tick_ms": self.tick_ms,
            "mean_mbps": self.mean_mbps(),
            "cap_mbps": self.cap_mbps,
            "base_delay_ms": [self.delay.base_ms.0, self.delay.base_ms.1],
        })
    }
}

/// Values that are drawn once per trace.
struct Once {
    factor: f64,
    base_ms: f64,
}

impl Once {
    fn draw(model: &LinkModel, seed: u64) -> Self {
        let stream = &mut Stream::new(seed, Purpose::LinkModel, 0);
        let variance = ln_1p(model.trace_cv.powi(2));
        let factor = exp(variance.sqrt() * normals(stream).0 - variance / 2.0);
        let (low, high) = model.delay.base_ms;
        Self { factor, base_ms: rounded(exp(stream.uniform(ln(low), ln(high))), 1e3) }
    }
}

/// The state of a model while it draws.
struct Process<'a> {
    model: &'a LinkModel,
    tick_s: f64,
    once: Once,
    levels: Vec<(f64, Reverting)>,
    noise: Stream,
    stays: Stream,
    state: usize,
    left_s: f64,
    slots: Slots,
}

impl<'a> Process<'a> {
    fn new(model: &'a LinkModel, seed: u64) -> Self {
        let mut noise = Stream::new(seed, Purpose::LinkModel, 1);
        let mut stays = Stream::new(seed, Purpose::LinkModel, 2);
        let tick_s = f64::from(model.tick_ms) / 1000.0;
        let level = |&(share, tau_s): &(f64, f64)| (share.sqrt(), Reverting::new(normals(&mut noise).0, tau_s, tick_s));
        let levels = model.memory.iter().map(level).collect();
        let state = pick(&mut stays, &model.shares());
        // A moment falls into long stays more often: log-normal stays weighted by their length are longer by e^(sigma^2).
        let within = stay(&mut stays, &model.states[state]) * exp(model.states[state].stay_sigma.powi(2));
        let left_s = within * stays.next_f64();
        let slots = Slots::new(model, Stream::new(seed, Purpose::LinkModel, 3));
        let once = Once::draw(model, seed);
        Self { model, tick_s, once, levels, noise, stays, state, left_s, slots }
    }

    fn row(&mut self, time_ms: u32, scale: f64) -> Row {
        let model = self.model;
        self.slots.advance(f64::from(time_ms) / 1000.0);
        let mut x = self.slots.rate_deviation;
        for (deviation, level) in &mut self.levels {
            x += *deviation * level.step(normals(&mut self.noise).0);
        }
        let state = model.states[self.state];
        let in_gap = self.slots.gap_left_s > 0.0;
        let mut rate = state.rate_mbps * self.once.factor * (1.0 + state.cv * x).max(model.floor);
        let mut loss = state.loss;
        if let (true, Some(reallocation)) = (in_gap, model.reallocation) {
            rate *= reallocation.gap_rate;
            loss = loss.max(self.slots.gap_loss);
        }
        let (soon, late) = model.delay.grant_ms;
        let jitter = self.noise.exponential(model.delay.jitter_ms) + self.noise.uniform(soon, late);
        self.slots.gap_left_s -= self.tick_s;
        self.left_s -= self.tick_s;
        while self.left_s <= 0.0 {
            self.state = pick(&mut self.stays, state.next);
            self.left_s += stay(&mut self.stays, &model.states[self.state]).max(self.tick_s);
        }
        Row {
            time_ms,
            rate_mbps: rounded(rate.min(model.cap_mbps) * scale, 1e3),
            delay_ms: rounded(self.once.base_ms + self.slots.delay_ms + state.added_ms + jitter, 1e3),
            loss: rounded(loss, 1e6),
        }
    }
}

/// Levels that are drawn at every reallocation.
struct Slots {
    of: Option<Reallocation>,
    stream: Stream,
    deviation: f64,
    next_s: f64,
    rate_deviation: f64,
    delay_ms: f64,
    gap_left_s: f64,
    gap_loss: f64,
}

impl Slots {
    fn new(model: &LinkModel, mut stream: Stream) -> Self {
        let left = 1.0 - model.memory.iter().map(|(share, _)| share).sum::<f64>();
        let next_s = model.reallocation.map_or(f64::INFINITY, |r| stream.uniform(0.0, r.every_s));
        let mut slots = Self {
            of: model.reallocation,
            stream,
            deviation: left.max(0.0).sqrt(),
            next_s,
            rate_deviation: 0.0,
            delay_ms: 0.0,
            gap_left_s: 0.0,
            gap_loss: 0.0,
        };
        slots.draw();
        slots
    }

    fn draw(&mut self) {
        if let Some(reallocation) = self.of {
            let (rate, delay) = normals(&mut self.stream);
            self.rate_deviation = self.deviation * rate;
            self.delay_ms = reallocation.delay_ms * delay.abs();
        }
    }

    fn advance(&mut self, now_s: f64) {
        while let (true, Some(reallocation)) = (now_s >= self.next_s, self.of) {
            self.draw();
            self.next_s += reallocation.every_s;
            self.gap_left_s = log_normal(&mut self.stream, reallocation.gap_s, 0.5);
            self.gap_loss = self.stream.uniform(0.0, reallocation.gap_loss);
        }
    }
}

fn stay(stream: &mut Stream, state: &State) -> f64 {
    log_normal(stream, state.stay_s, state.stay_sigma)
}

fn log_normal(stream: &mut Stream, mean: f64, sigma: f64) -> f64 {
    mean * exp(sigma * normals(stream).0 - sigma * sigma / 2.0)
}

/// Draws an index with these weights.
fn pick(stream: &mut Stream, weights: &[f64]) -> usize {
    let mut x = stream.next_f64() * weights.iter().sum::<f64>();
    for (index, weight) in weights.iter().enumerate() {
        x -= weight;
        if x < 0.0 {
            return index;
        }
    }
    weights.len().saturating_sub(1)
}

/// Returns `value` to a multiple of 1/`per_one`: libraries of mathematics differ in the last bits, traces do not.
fn rounded(value: f64, per_one: f64) -> f64 {
    (value * per_one).round() / per_one
}

#[cfg(test)]
mod tests;
