//! The functions of one number that an integer policy takes from a table.

use super::super::graph::Function;
use super::super::math::{exp, gelu, gelu_tanh, sigmoid, softplus, tanh};

/// A function, and where a table of it has to be.
pub(super) struct Curve {
    /// The function.
    pub(super) of: Box<dyn Fn(f32) -> f32>,
    /// The table covers ±2^this.
    pub(super) log2_reach: u32,
    /// Flag of a constant value beyond the table on the right; otherwise a straight line continues.
    pub(super) flat_above: bool,
}

/// The curve of `function`, unless it is done otherwise (`None`: relu, leaky_relu, clip) or cannot be (exp).
pub(super) fn curve(function: Function) -> Option<Curve> {
    let curve = |of: Box<dyn Fn(f32) -> f32>, log2_reach, flat_above| Some(Curve { of, log2_reach, flat_above });
    match function {
        Function::Sigmoid => curve(Box::new(sigmoid), 4, true),
        Function::Tanh => curve(Box::new(tanh), 3, true),
        Function::Elu(alpha) => {
            curve(Box::new(move |x| if x > 0.0 { x } else { alpha * (exp(f64::from(x)) - 1.0) as f32 }), 4, false)
        }
        Function::Silu => curve(Box::new(|x| (f64::from(x) / (1.0 + exp(-f64::from(x)))) as f32), 4, false),
        Function::Gelu => curve(Box::new(gelu), 3, false),
        Function::GeluTanh => curve(Box::new(gelu_tanh), 3, false),
        Function::Softplus => curve(Box::new(softplus), 4, false),
        Function::Relu | Function::LeakyRelu(_) | Function::Exp | Function::Clip(..) => None,
    }
}
