//! Services whose rate is constant between steps.

use ccarena_cc::types::{Dur, Rate, Time};

use crate::rng::{Stream, unit};
use crate::stepped::Stepped;

/// Source of a piecewise constant rate.
pub trait Source {
    /// Number of the level in force at `now`.
    fn index(&self, now: Time) -> u64;
    /// Level number `index`.
    fn level(&self, index: u64) -> Level;
    /// Number of levels after which they repeat, and their time; none if they do not.
    fn pass(&self) -> Option<(u64, Dur)> {
        None
    }
}

/// One rate and when it holds.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    pub index: u64,
    pub rate: Rate,
    pub from: Time,
    /// The first instant that is no longer at this rate.
    pub until: Time,
}

/// One rate for ever.
#[derive(Clone, Copy, Debug)]
pub struct Constant(pub Rate);

impl Source for Constant {
    #[inline]
    fn index(&self, _now: Time) -> u64 {
        0
    }
    #[inline]
    fn level(&self, index: u64) -> Level {
        Level { index, rate: self.0, from: Time::ZERO, until: Time::NEVER }
    }
}

/// Returns each rate from its time on; before the first time, and if there are none, it is zero.
pub fn listed(steps: &[(Time, Rate)]) -> Stepped<Rate> {
    let late = steps.first().is_none_or(|step| step.0 > Time::ZERO).then_some((Dur::ZERO, Rate(0)));
    let given = steps.iter().map(|&(at, rate)| (at.since(Time::ZERO), rate));
    Stepped::new(late.into_iter().chain(given).collect::<Vec<_>>(), None, Dur::ZERO)
}

impl Source for Stepped<Rate> {
    fn index(&self, now: Time) -> u64 {
        self.index(now)
    }
    fn level(&self, index: u64) -> Level {
        let step = self.step(index);
        step.map_or(Level { index, rate: Rate(0), from: Time::NEVER, until: Time::NEVER }, |step| Level {
            index,
            rate: step.value,
            from: step.from,
            until: step.until,
        })
    }
    fn pass(&self) -> Option<(u64, Dur)> {
        self.period().map(|period| (self.count(), period))
    }
}

/// Rates drawn uniformly, one per period, each from its number alone.
#[derive(Clone, Debug)]
pub struct RandomSteps {
    min: Rate,
    span: f64,
    period: Dur,
    stream: Stream,
}

impl RandomSteps {
    pub fn new(min: Rate, max: Rate, period: Dur, seed: u64) -> Self {
        Self { min, span: (max - min).0 as f64, period: period.max(Dur::from_micros(1)), stream: Stream::keyed(seed) }
    }

    pub fn mean(&self) -> Rate {
        self.min + Rate((self.span / 2.0) as u64)
    }
}

impl Source for RandomSteps {
    #[inline]
    fn index(&self, now: Time) -> u64 {
        now.0 / self.period.0
    }
    #[inline]
    fn level(&self, index: u64) -> Level {
        let from = self.period * index;
        Level {
            index,
            rate: self.min + Rate((unit(self.stream.at(index)) * self.span).round() as u64),
            from: Time::ZERO + from,
            until: Time::ZERO + (from + self.period),
        }
    }
}

/// A source of any kind.
#[derive(Clone, Debug)]
pub enum AnySource {
    Constant(Constant),
    Steps(Stepped<Rate>),
    RandomSteps(RandomSteps),
}

impl Source for AnySource {
    fn index(&self, now: Time) -> u64 {
        match self {
            Self::Constant(s) => s.index(now),
            Self::Steps(s) => Source::index(s, now),
            Self::RandomSteps(s) => s.index(now),
        }
    }
    fn level(&self, index: u64) -> Level {
        match self {
            Self::Constant(s) => s.level(index),
            Self::Steps(s) => s.level(index),
            Self::RandomSteps(s) => s.level(index),
        }
    }
    fn pass(&self) -> Option<(u64, Dur)> {
        match self {
            Self::Steps(s) => s.pass(),
            Self::Constant(_) | Self::RandomSteps(_) => None,
        }
    }
}

/// Returns the bytes in [`from`, `to`), of which each level has `upto(level, t)` by `t`: whole bytes are counted from its
/// start, so that intervals add up to the byte.
pub fn bytes_between(source: &impl Source, from: Time, to: Time, upto: impl Fn(&Level, Time) -> u64) -> u64 {
    let counted = |from, to| counted_between(source, from, to, &upto);
    let period = source.pass().map_or(Dur::MAX, |(_, period)| period);
    let passes = to.since(from).0 / period.0;
    if passes < 2 {
        return counted(from, to);
    }
    // All passes are the same, but the first one may begin within a level.
    let (second, last) = (from + period, from + period * passes);
    let each = counted(second, second + period);
    counted(from, second) + each.saturating_mul(passes - 1) + counted(last, to)
}

fn counted_between(source: &impl Source, from: Time, to: Time, upto: impl Fn(&Level, Time) -> u64) -> u64 {
    let mut level = source.level(source.index(from));
    let mut sum = 0_u64;
    let mut at = from;
    while at < to {
        let end = level.until.min(to);
        sum = sum.saturating_add(upto(&level, end) - upto(&level, at));
        if level.until >= to {
            break;
        }
        at = end;
        level = source.level(level.index + 1);
    }
    sum
}

impl Levels<Stepped<Rate>> {
    /// Changes the rate to `rate` from `now` on; the packet in service began at `start`.
    pub fn follow(&mut self, now: Time, rate: Rate, start: Time) {
        let source = self.source.followed_by(now, rate);
        self.serving = source.level(Source::index(&source, start));
        self.seen = source.level(Source::index(&source, now));
        self.cached = (0, Dur::ZERO);
        self.source = source;
    }
}

/// Serves at the rates of a source.
#[derive(Clone, Debug)]
pub struct Levels<S> {
    pub source: S,
    /// The level in which the last packet's service began or went on; packets come in order, so it only moves forward.
    serving: Level,
    /// The level that [`Self::rate`] saw last. Apart from `serving`, which runs ahead of the clock.
    seen: Level,
    /// Size of the last packet and its time at `serving`'s rate: most packets have one size, and a division saved per
    /// packet shows in the simulator's rate.
    cached: (u32, Dur),
}

impl<S: Source> Levels<S> {
    pub fn new(source: S) -> Self {
        let level = source.level(source.index(Time::ZERO));
        Self { source, serving: level, seen: level, cached: (0, Dur::ZERO) }
    }

    #[inline]
    pub fn departure(&mut self, start: Time, bytes: u32) -> Time {
        if start >= self.serving.until {
            self.enter(self.source.index(start));
        }
        let end = start + self.time_for(bytes);
        if end <= self.serving.until && end != Time::NEVER { end } else { self.departure_over_steps(start, bytes) }
    }

    #[inline]
    fn time_for(&mut self, bytes: u32) -> Dur {
        if bytes != self.cached.0 {
            self.cached = (bytes, self.serving.rate.time_for(u64::from(bytes)));
        }
        self.cached.1
    }

    #[inline]
    fn enter(&mut self, index: u64) {
        self.serving = self.source.level(index);
        self.cached = (0, Dur::ZERO);
    }

    /// The same for a packet that is still in service when the rate changes, exact in bits times nanoseconds.
    #[cold]
    fn departure_over_steps(&mut self, start: Time, bytes: u32) -> Time {
        let mut left = u128::from(bytes) * 8_000_000_000;
        let mut now = start;
        // Level at which a whole pass of rates that repeat begins, and the bits that were left there.
        let mut pass: Option<(u64, u128)> = None;
        loop {
            let Level { index, rate, until, .. } = self.serving;
            let span = until.since(now);
            let carried = u128::from(rate.0) * u128::from(span.0);
            if carried >= left || until == Time::NEVER {
                let time = if rate.0 == 0 { u128::MAX } else { left.div_ceil(u128::from(rate.0)) };
                return now + Dur(u64::try_from(time).unwrap_or(u64::MAX));
            }
            left -= carried;
            now = until;
            self.enter(index + 1);
            let (Some((levels, period)), mark) = (self.source.pass(), *pass.get_or_insert((index + 1, left))) else {
                continue;
            };
            if index + 1 - mark.0 == levels {
                let Some(skip) = (left - 1).checked_div(mark.1 - left) else { return Time::NEVER };
                let Ok(skip) = u64::try_from(skip) else { return Time::NEVER };
                let later = period.0.checked_mul(skip).and_then(|time| time.checked_add(now.0));
                let Some(later) = later else { return Time::NEVER };
                left -= (mark.1 - left) * u128::from(skip);
                now = Time(later);
                self.enter(index + 1 + skip * levels);
            }
        }
    }

    #[inline]
    pub fn rate(&mut self, now: Time) -> Rate {
        if now >= self.seen.until {
            self.seen = self.source.level(self.source.index(now));
        }
        self.seen.rate
    }

    /// Whole bytes of each level.
    pub fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
        bytes_between(&self.source, from, to, |level, t| level.rate.bytes_in(t.since(level.from)).0)
    }

    /// Returns the earliest time from `now` on at which the rate is above zero; none if there is none.
    pub fn next_rate(&self, now: Time) -> Option<Time> {
        let mut level = self.source.level(self.source.index(now));
        let last = self.source.pass().map_or(u64::MAX, |(levels, _)| level.index.saturating_add(levels));
        while level.rate.0 == 0 {
            if level.until == Time::NEVER || level.index >= last {
                return None;
            }
            level = self.source.level(level.index + 1);
        }
        Some(level.from.max(now))
    }

    #[inline]
    pub fn serialisation(&self, now: Time, bytes: u32) -> Dur {
        let rate = if (self.serving.from..self.serving.until).contains(&now) {
            if bytes == self.cached.0 && self.serving.rate.0 > 0 {
                return self.cached.1;
            }
            self.serving.rate
        } else {
            self.source.level(self.source.index(now)).rate
        };
        if rate.0 == 0 { Dur::ZERO } else { rate.time_for(u64::from(bytes)) }
    }
}
