//! A least-squares line.

use crate::types::{Dur, Time};

/// Sums for a least-squares line through RTT samples, in seconds, time from the first of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Line {
    first: Time,
    n: f64,
    t: f64,
    tt: f64,
    rtt: f64,
    t_rtt: f64,
}

impl Line {
    /// Takes a sample.
    #[inline]
    pub fn add(&mut self, now: Time, rtt: Dur) {
        if self.n == 0.0 {
            self.first = now;
        }
        let (t, rtt) = (now.since(self.first).as_secs_f64(), rtt.as_secs_f64());
        self.n += 1.0;
        self.t += t;
        self.tt += t * t;
        self.rtt += rtt;
        self.t_rtt += t * rtt;
    }

    /// Takes the samples of a later line.
    pub fn add_line(&mut self, later: &Self) {
        if self.n == 0.0 {
            *self = *later;
        } else if later.n > 0.0 {
            let d = later.first.since(self.first).as_secs_f64();
            self.n += later.n;
            self.t += later.t + later.n * d;
            self.tt += later.tt + 2.0 * d * later.t + later.n * d * d;
            self.rtt += later.rtt;
            self.t_rtt += later.t_rtt + d * later.rtt;
        }
    }

    /// Mean RTT, if there is a sample.
    pub fn mean(&self) -> Option<Dur> {
        (self.n > 0.0).then(|| Dur::from_secs_f64(self.rtt / self.n))
    }

    /// Seconds of RTT per second; zero without two samples at different times.
    pub fn slope(&self) -> f64 {
        let spread = self.n * self.tt - self.t * self.t;
        if spread > 1e-12 { (self.n * self.t_rtt - self.t * self.rtt) / spread } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_add_up() {
        let (mut whole, mut first, mut second) = (Line::default(), Line::default(), Line::default());
        for k in 0..20_u64 {
            let (now, rtt) = (Time(1_000_000_000 + k * 7_000_000), Dur::from_millis(40 + k * k % 7));
            whole.add(now, rtt);
            if k < 8 { first.add(now, rtt) } else { second.add(now, rtt) }
        }
        let mut sum = Line::default();
        sum.add_line(&first);
        sum.add_line(&second);
        sum.add_line(&Line::default());
        assert!((sum.slope() - whole.slope()).abs() < 1e-9 && sum.mean() == whole.mean());
    }
}
