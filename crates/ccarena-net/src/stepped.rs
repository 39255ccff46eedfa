//! Quantities that are constant between steps, once or in a loop.

use std::sync::Arc;

use ccarena_cc::types::{Dur, Time};

/// Values by time, each from its time on.
#[derive(Clone, Debug, PartialEq)]
pub struct Stepped<V> {
    /// Times from the beginning, increasing, the first at zero.
    rows: Arc<[(Dur, V)]>,
    /// Time after which it begins again; never if none.
    period: Option<Dur>,
    /// Time from the beginning at which a run starts.
    offset: Dur,
}

/// A value, and when it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step<V> {
    /// Number of the step.
    pub index: u64,
    /// Value.
    pub value: V,
    /// First time at which it holds, in times of the run.
    pub from: Time,
    /// First time at which it no longer holds.
    pub until: Time,
}

impl<V: Copy> Stepped<V> {
    /// Returns the values of `rows`, whose times increase from zero. With a `period` above the last time they begin again
    /// after it, and a run starts at `offset`.
    #[must_use]
    pub fn new(rows: impl Into<Arc<[(Dur, V)]>>, period: Option<Dur>, offset: Dur) -> Self {
        Self { rows: rows.into(), period: period.filter(|p| *p > Dur::ZERO), offset }
    }

    /// Returns the same values for a run that starts at `offset`; what never repeats stays at its beginning.
    #[must_use]
    pub fn starting_at(&self, offset: Dur) -> Self {
        Self {
            rows: Arc::clone(&self.rows),
            period: self.period,
            offset: Dur(offset.0 % self.period.unwrap_or(Dur(1)).0),
        }
    }

    /// Returns the time after which the values repeat; none if they do not.
    #[must_use]
    pub fn period(&self) -> Option<Dur> {
        self.period
    }

    /// Returns the number of values of one pass.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Returns all values of one pass, and the times from its beginning from which they hold.
    pub fn rows(&self) -> impl Iterator<Item = (Dur, V)> {
        self.rows.iter().copied()
    }

    /// Returns all values of one pass.
    pub fn values(&self) -> impl Iterator<Item = V> {
        self.rows().map(|row| row.1)
    }

    /// Returns the same values before `at`, a time of the run, and `value` from then on. Of values that repeat, one pass is
    /// kept.
    #[must_use]
    pub fn followed_by(&self, at: Time, value: V) -> Self {
        let at = Dur(at.0) + self.offset;
        let before = self.rows.iter().copied().filter(|row| row.0 < at);
        Self { rows: before.chain([(at, value)]).collect(), period: None, offset: self.offset }
    }

    /// Returns the number of the step in force at `now`.
    #[must_use]
    pub fn index(&self, now: Time) -> u64 {
        let at = Dur(now.0) + self.offset;
        let (pass, rest) = self.period.map_or((0, at), |p| (at.0 / p.0, Dur(at.0 % p.0)));
        let within = self.rows.partition_point(|row| row.0 <= rest).saturating_sub(1);
        pass * self.count() + within as u64
    }

    /// Returns step number `index`; none after the last one.
    #[must_use]
    pub fn step(&self, index: u64) -> Option<Step<V>> {
        let (_, value) = self.row(index)?;
        let until = self.start(index + 1).unwrap_or(Time::NEVER);
        Some(Step { index, value, from: self.start(index)?, until })
    }

    fn row(&self, index: u64) -> Option<(u64, V)> {
        let count = self.count();
        let pass = index.checked_div(count)?;
        let (from, value) = self.rows.get((index % count) as usize).copied()?;
        match self.period {
            None if pass > 0 => None,
            period => Some((pass.checked_mul(period.map_or(0, |p| p.0))?.checked_add(from.0)?, value)),
        }
    }

    /// Returns when a step begins, in times of the run.
    fn start(&self, index: u64) -> Option<Time> {
        self.row(index).map(|(at, _)| Time(at.saturating_sub(self.offset.0)))
    }
}

/// Reader of a [`Stepped`] quantity at times that do not go back.
#[derive(Clone, Debug)]
pub struct Cursor<V> {
    stepped: Stepped<V>,
    step: Option<Step<V>>,
}

impl<V: Copy> Cursor<V> {
    /// Returns a reader at the beginning.
    #[must_use]
    pub fn new(stepped: Stepped<V>) -> Self {
        let step = stepped.step(stepped.index(Time::ZERO));
        Self { stepped, step }
    }

    /// Returns the value at `now`, none if there are no values, and whether the step is another than before.
    #[inline]
    pub fn at(&mut self, now: Time) -> (Option<V>, bool) {
        let moves = self.step.is_some_and(|step| now >= step.until);
        if moves {
            self.step = self.stepped.step(self.stepped.index(now));
        }
        (self.step.map(|step| step.value), moves)
    }

    /// Changes the value to `value` from `at` on, which is now.
    pub fn follow(&mut self, at: Time, value: V) {
        self.stepped = self.stepped.followed_by(at, value);
        self.step = self.stepped.step(self.stepped.index(at));
    }

    /// Returns the steps after the present one.
    pub fn later(&self) -> impl Iterator<Item = Step<V>> {
        let next = self.step.map_or(u64::MAX, |step| step.index + 1);
        (next..).map_while(|index| self.stepped.step(index))
    }

    /// Returns all values of one pass.
    pub fn values(&self) -> impl Iterator<Item = V> {
        self.stepped.values()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn steps_hold_from_their_time_on_and_loop() {
        let rows = [(Dur(0), 'a'), (Dur(10), 'b'), (Dur(15), 'c')];
        let read = |stepped: Stepped<char>, times: &[u64]| {
            let mut cursor = Cursor::new(stepped);
            times.iter().map(|&at| cursor.at(Time(at)).0.unwrap()).collect::<String>()
        };
        assert_eq!(read(Stepped::new(rows, None, Dur(0)), &[0, 9, 10, 14, 15, 1000]), "aabbcc");
        assert_eq!(read(Stepped::new(rows, Some(Dur(20)), Dur(0)), &[0, 10, 19, 20, 30, 35, 45]), "abcabca");
        assert_eq!(read(Stepped::new(rows, Some(Dur(20)), Dur(12)), &[0, 2, 3, 8, 18, 28]), "bbcaba");
    }

    #[test]
    fn a_value_follows_from_its_time_on() {
        let stepped = Stepped::new([(Dur(0), 'a'), (Dur(10), 'b'), (Dur(15), 'c')], None, Dur(0));
        let mut cursor = Cursor::new(stepped);
        assert_eq!(cursor.at(Time(11)).0, Some('b'));
        cursor.follow(Time(12), 'x');
        let read = |cursor: &mut Cursor<char>, at| cursor.at(Time(at)).0.unwrap();
        assert_eq!([12, 20, 1000].map(|at| read(&mut cursor, at)), ['x'; 3]);
        cursor.follow(Time(1000), 'y');
        assert_eq!(read(&mut cursor, 1000), 'y');
        assert_eq!(cursor.values().collect::<String>(), "abxy");
        assert_eq!(
            Stepped::new([(Dur(0), 'a')], None, Dur(0)).followed_by(Time(0), 'b').values().collect::<String>(),
            "b"
        );
    }

    proptest! {
        /// Steps are adjacent, and each holds where its number says so.
        #[test]
        fn steps_cover_time(gaps in prop::collection::vec(1_u64..50, 1..8), looped: bool, offset in 0_u64..300) {
            let mut at = 0;
            let rows: Vec<(Dur, usize)> = gaps.iter().enumerate().map(|(i, gap)| { let row = (Dur(at), i); at += gap; row }).collect();
            let stepped = Stepped::new(rows, looped.then_some(Dur(at)), Dur(offset));
            let mut cursor = Cursor::new(stepped.clone());
            for now in 0..400 {
                let step = stepped.step(stepped.index(Time(now))).unwrap();
                prop_assert!(step.from <= Time(now) && Time(now) < step.until, "{:?} at {}", step, now);
                prop_assert_eq!(cursor.at(Time(now)).0, Some(step.value));
                if let Some(next) = cursor.later().next() {
                    prop_assert_eq!(next.from, step.until);
                }
            }
        }
    }
}
