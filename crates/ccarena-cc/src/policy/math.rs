//! The functions of the networks, from additions, multiplications and divisions alone: a platform's own differ from
//! another's in the last bit, and a policy must do the same on every machine.

use std::f64::consts::LN_2;

/// e^x; x is held to -700..700.
pub(super) fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    // e^x = 2^k e^r with |r| <= ln(2)/2, for which the series below ends within 1e-16.
    let k = (x / LN_2).round();
    let r = x - k * LN_2;
    let series = (1..=13).rev().fold(1.0, |sum, n| 1.0 + sum * r / f64::from(n));
    series * f64::from_bits(((k as i64 + 1023) as u64) << 52)
}

/// tanh x, within 1e-7 of it.
pub(super) fn tanh(x: f32) -> f32 {
    // Beyond 20 it is 1 in float32.
    let e = exp(f64::from(x.clamp(-20.0, 20.0)) * 2.0);
    ((e - 1.0) / (e + 1.0)) as f32
}

/// 1 / (1 + e^-x).
pub(super) fn sigmoid(x: f32) -> f32 {
    (1.0 / (1.0 + exp(-f64::from(x)))) as f32
}

/// ln(1 + e^x).
pub(super) fn softplus(x: f32) -> f32 {
    let x = f64::from(x);
    let t = exp(-x.abs());
    // ln(1 + t) = 2 artanh(s) with s = t / (2 + t) <= 1/3, by the series of artanh.
    let s = t / (2.0 + t);
    let squared = s * s;
    let series = (0..18).rev().fold(0.0, |sum, n| sum * squared + 1.0 / f64::from(2 * n + 1));
    (x.max(0.0) + 2.0 * s * series) as f32
}

/// x Φ(x), with the normal distribution's Φ.
pub(super) fn gelu(x: f32) -> f32 {
    let x = f64::from(x);
    (0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2))) as f32
}

/// The approximation of `gelu` by tanh (Hendrycks and Gimpel 2016, §2).
pub(super) fn gelu_tanh(x: f32) -> f32 {
    let x = f64::from(x);
    let inner = (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).clamp(-40.0, 40.0);
    let e = exp(2.0 * inner);
    (0.5 * x * (1.0 + (e - 1.0) / (e + 1.0))) as f32
}

/// Abramowitz and Stegun 7.1.6: erf x = 2/√π e^(-x²) Σ 2^n x^(2n+1) / (2n+1)!!, whose terms all have one sign.
fn erf(x: f64) -> f64 {
    if x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, squared) = (x, x, x * x);
    for n in 1..=160 {
        term *= 2.0 * squared / f64::from(2 * n + 1);
        sum += term;
    }
    std::f64::consts::FRAC_2_SQRT_PI * exp(-squared) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(name: &str, ours: fn(f32) -> f32, theirs: impl Fn(f64) -> f64) {
        for i in -40_000..=40_000_i32 {
            let x = i as f32 / 1000.0;
            let (found, expected) = (f64::from(ours(x)), theirs(f64::from(x)));
            // Half a unit of float32's last place, and as much for the double's own rounding.
            assert!(
                (found - expected).abs() <= 1.2e-7 * expected.abs().max(1e-30),
                "{name}({x}) = {found}; {expected}"
            );
        }
    }

    #[test]
    fn functions_are_within_rounding_of_the_platforms() {
        close("tanh", tanh, f64::tanh);
        close("sigmoid", sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
        close("softplus", softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p());
        close("exp", |x| exp(f64::from(x)) as f32, f64::exp);
        assert!((tanh(f32::MAX) - 1.0).abs() < 1e-9 && (tanh(f32::MIN) + 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_error_function_is_that_of_the_tables() {
        // Abramowitz and Stegun, table 7.1.
        for (x, expected) in
            [(0.5, 0.520_499_877_8), (1.0, 0.842_700_792_9), (2.0, 0.995_322_265_0), (3.0, 0.999_977_909_5)]
        {
            assert!((erf(x) - expected).abs() < 1e-10 && (erf(-x) + expected).abs() < 1e-10, "erf({x}) = {}", erf(x));
        }
        assert!((gelu(1.0) - 0.841_344_8).abs() < 1e-6 && (gelu_tanh(1.0) - 0.841_192).abs() < 1e-6);
        for x in [-1e30, -50.0, 50.0, 1e30_f32] {
            assert!((gelu(x) - x.max(0.0)).abs() <= 0.0 && (gelu_tanh(x) - x.max(0.0)).abs() <= 0.0, "{x}");
        }
    }
}
