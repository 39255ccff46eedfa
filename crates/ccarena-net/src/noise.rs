//! Noise that generated links are made of: normal and exponential numbers, and a process that reverts to its mean.

use std::f64::consts::TAU;

use ccarena_cc::elementary::{exp, ln, sin_cos};

use crate::rng::Stream;

/// An Ornstein–Uhlenbeck process with mean zero and variance one, sampled exactly at every tick.
pub(crate) struct Reverting {
    value: f64,
    decay: f64,
    noise: f64,
}

impl Reverting {
    /// `start` is a standard normal number, as is that of every step.
    pub(crate) fn new(start: f64, tau_s: f64, tick_s: f64) -> Self {
        let decay = exp(-tick_s / tau_s);
        Self { value: start, decay, noise: (1.0 - decay * decay).sqrt() }
    }

    #[inline]
    pub(crate) fn step(&mut self, normal: f64) -> f64 {
        self.value = self.value * self.decay + self.noise * normal;
        self.value
    }
}

/// Exponential with mean 1.
#[inline]
pub(crate) fn exponential(rng: &mut Stream) -> f64 {
    -ln(1.0 - rng.next_f64())
}

/// Two independent standard normal numbers (Box and Muller, 1958).
#[inline]
pub(crate) fn normals(rng: &mut Stream) -> (f64, f64) {
    let radius = (2.0 * exponential(rng)).sqrt();
    let (sin, cos) = sin_cos(TAU * rng.next_f64());
    (radius * cos, radius * sin)
}
