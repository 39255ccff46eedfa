//! Services whose rate is constant between steps.

use ccarena_cc::types::{Dur, Rate, Time};

use crate::rng::{Stream, unit};

/// Source of a piecewise constant rate.
pub trait Source {
    /// Number of the level in force at `now`.
    fn index(&self, now: Time) -> u64;
    /// Level number `index`.
    fn level(&self, index: u64) -> Level;
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

/// Listed rates.
#[derive(Clone, Debug)]
pub struct Steps(Vec<(Time, Rate)>);

impl Steps {
    pub fn new(steps: &[(Time, Rate)]) -> Self {
        let mut steps = steps.to_vec();
        if steps.first().is_none_or(|s| s.0 > Time::ZERO) {
            steps.insert(0, (Time::ZERO, Rate(0)));
        }
        Self(steps)
    }
}

impl Source for Steps {
    fn index(&self, now: Time) -> u64 {
        self.0.partition_point(|s| s.0 <= now).saturating_sub(1) as u64
    }
    fn level(&self, index: u64) -> Level {
        let at = |i: u64| self.0.get(i as usize).copied();
        let (from, rate) = at(index).unwrap_or((Time::NEVER, Rate(0)));
        Level { index, rate, from, until: at(index + 1).map_or(Time::NEVER, |s| s.0) }
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
        let level = source.level(0);
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
        }
    }

    #[inline]
    pub fn rate(&mut self, now: Time) -> Rate {
        if now >= self.seen.until {
            self.seen = self.source.level(self.source.index(now));
        }
        self.seen.rate
    }

    /// Whole bytes of each level are counted from its start, so that intervals add up to the byte.
    pub fn capacity_bytes(&self, from: Time, to: Time) -> u64 {
        let mut level = self.source.level(self.source.index(from));
        let mut sum = 0_u64;
        let mut at = from;
        while at < to {
            let end = level.until.min(to);
            let upto = |t: Time| level.rate.bytes_in(t.since(level.from)).0;
            sum = sum.saturating_add(upto(end) - upto(at));
            if level.until >= to {
                break;
            }
            at = end;
            level = self.source.level(level.index + 1);
        }
        sum
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
