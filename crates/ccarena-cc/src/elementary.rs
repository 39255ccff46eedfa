//! Exponentials, logarithms, powers and angles for everything that decides a simulation.
//!
//! A platform's own functions differ from another's in the last bit, and a simulation must give the same bytes on every
//! machine and in a web page: all use these, compiled from one source. Square roots, fused multiplications, rounding and
//! remainders are exact by IEEE 754, and `powi` multiplies in the same order everywhere. `clippy.toml` refuses the others.

pub use libm::tanhf as tanh_f32;
pub use libm::{
    atan, cbrt, exp, exp2, expm1 as exp_m1, log as ln, log1p as ln_1p, log2, pow as powf, sincos as sin_cos,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_same_bits_on_every_machine() {
        let mut hash = 0_u64;
        for k in 1..4000 {
            let x = f64::from(k) * 0.003_7;
            let (sin, cos) = sin_cos(x);
            let of_x =
                [exp(-x), exp2(x), exp_m1(-x), ln(x), ln_1p(x), log2(x), powf(x, 0.9), cbrt(x), atan(x), sin, cos];
            for y in of_x.into_iter().chain([f64::from(tanh_f32(x as f32))]) {
                hash = (hash ^ y.to_bits()).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
            }
        }
        assert_eq!(hash, 15_905_798_095_557_515_843);
    }
}
