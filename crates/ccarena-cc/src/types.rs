//! Instants, durations, amounts and rates as types, so that a millisecond is never added to a byte.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

/// Largest weight of a flow. Products of weights in the schemes' whole numbers stay far below 2^64.
pub const MOST_WEIGHT: f64 = 1000.0;

/// An instant, in nanoseconds since the start of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A length of time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dur(pub u64);

/// An amount of data in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A rate in bit/s (1 Mbit/s = 10^6 bit/s).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(pub u64);

/// Requirement of an application on its rate (Hercules §3): at least `min`, and no use for more than `max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// a: the rate below which the application is not served.
    pub min: Rate,
    /// b > a: the rate above which more is of no use.
    pub max: Rate,
}

impl Time {
    /// The start of the run.
    pub const ZERO: Self = Self(0);
    /// Later than anything that happens: "never".
    pub const NEVER: Self = Self(u64::MAX);

    /// The time that has passed since `earlier`; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub const fn since(self, earlier: Self) -> Dur {
        Dur(self.0.saturating_sub(earlier.0))
    }

    /// The instant `s` seconds after the start; negative and non-finite values give the start.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Self {
        Self(Dur::from_secs_f64(s).0)
    }

    /// Seconds since the start.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Dur {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// Longer than anything: "unknown yet" for minima.
    pub const MAX: Self = Self(u64::MAX);

    /// `ms` milliseconds.
    #[must_use]
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms * 1_000_000)
    }

    /// `us` microseconds.
    #[must_use]
    pub const fn from_micros(us: u64) -> Self {
        Self(us * 1_000)
    }

    /// `s` seconds, rounded to the nanosecond; negative and non-finite values give zero.
    #[must_use]
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9).round() as u64)
    }

    /// Seconds.
    #[must_use]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Milliseconds.
    #[must_use]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Whole microseconds, rounded down.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
}

impl Rate {
    /// No limit to the rate.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// `mbps` Mbit/s, rounded to the bit/s; negative and non-finite values give zero.
    #[must_use]
    pub fn from_mbps(mbps: f64) -> Self {
        Self((mbps * 1e6).round() as u64)
    }

    /// Mbit/s.
    #[must_use]
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The time that `bytes` take at this rate, rounded up; [`Dur::MAX`] at rate zero.
    #[must_use]
    #[inline]
    pub fn time_for(self, bytes: u64) -> Dur {
        if self.0 == 0 {
            return Dur::MAX;
        }
        const EXACT: u64 = u64::MAX / 8_000_000_000;
        if bytes <= EXACT {
            Dur((bytes * 8_000_000_000).div_ceil(self.0))
        } else {
            Dur(u64::try_from((u128::from(bytes) * 8_000_000_000).div_ceil(u128::from(self.0))).unwrap_or(u64::MAX))
        }
    }

    /// The whole bytes that pass in `t` at this rate.
    #[must_use]
    pub fn bytes_in(self, t: Dur) -> Bytes {
        Bytes(u64::try_from(u128::from(self.0) * u128::from(t.0) / 8_000_000_000).unwrap_or(u64::MAX))
    }

    /// `bytes` in `t` as a rate; zero if `t` is zero.
    #[must_use]
    pub fn of(bytes: u64, t: Dur) -> Self {
        if t.0 == 0 {
            return Self(0);
        }
        Self(u64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(t.0)).unwrap_or(u64::MAX))
    }
}

impl Add<Dur> for Time {
    type Output = Self;
    #[inline]
    fn add(self, d: Dur) -> Self {
        Self(self.0.saturating_add(d.0))
    }
}

impl Sub<Dur> for Time {
    type Output = Self;
    #[inline]
    fn sub(self, d: Dur) -> Self {
        Self(self.0.saturating_sub(d.0))
    }
}

macro_rules! amount {
    ($t:ty) => {
        impl Add for $t {
            type Output = Self;
            #[inline]
            fn add(self, o: Self) -> Self {
                Self(self.0.saturating_add(o.0))
            }
        }
        impl Sub for $t {
            type Output = Self;
            /// Saturates at zero.
            #[inline]
            fn sub(self, o: Self) -> Self {
                Self(self.0.saturating_sub(o.0))
            }
        }
        impl AddAssign for $t {
            #[inline]
            fn add_assign(&mut self, o: Self) {
                *self = *self + o;
            }
        }
        impl SubAssign for $t {
            #[inline]
            fn sub_assign(&mut self, o: Self) {
                *self = *self - o;
            }
        }
        impl Mul<u64> for $t {
            type Output = Self;
            #[inline]
            fn mul(self, k: u64) -> Self {
                Self(self.0.saturating_mul(k))
            }
        }
        impl Div<u64> for $t {
            type Output = Self;
            /// Division by zero gives the largest value instead of a panic.
            #[inline]
            fn div(self, k: u64) -> Self {
                Self(self.0.checked_div(k).unwrap_or(u64::MAX))
            }
        }
    };
}
amount!(Dur);
amount!(Bytes);
amount!(Rate);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}

impl fmt::Display for Dur {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.as_millis_f64())
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} Mbit/s", self.as_mbps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_round_so_that_nothing_arrives_early() {
        assert_eq!(Rate::from_mbps(12.0).time_for(1500), Dur::from_millis(1));
        assert_eq!(Rate(3).time_for(1), Dur(2_666_666_667));
        assert_eq!(Rate(0).time_for(1), Dur::MAX);
        assert_eq!(Rate::from_mbps(12.0).bytes_in(Dur::from_millis(1)), Bytes(1500));
        assert_eq!(Rate::of(1500, Dur::from_millis(1)), Rate::from_mbps(12.0));
    }

    #[test]
    fn arithmetic_saturates() {
        assert_eq!(Time(5).since(Time(9)), Dur::ZERO);
        assert_eq!(Time::NEVER + Dur(1), Time::NEVER);
        assert_eq!(Bytes(1) - Bytes(2), Bytes(0));
        assert_eq!(Dur::from_secs_f64(f64::NAN), Dur::ZERO);
    }
}
