//! A policy in integers, for runtimes without floating point, such as kernels, and for the same bits in every runtime.
//!
//! A [`Program`] is made of a [`Policy`](super::Policy) by [`quantise`](Program::of): weights of 16 bits with a power of
//! two as the scale of each row, values of 32 bits with one binary point per value, sums of 64 bits. While it is made, the
//! [`ranges`] of every value follow from the bounds of the observation, so that no sum can overflow whatever is observed;
//! a network for which that cannot be shown is refused. [`HEADER`] runs the same program in C; `docs/export.md` says
//! which operations of a graph there are.
//!
//! All arithmetic is on integers, and a shift to the right rounds to the nearest, halves upwards: Rust, NumPy
//! (`ccarena.policies.integer`) and C give the same bits.

mod quantise;
mod ranges;
mod tables;

use super::error::PolicyError;
use crate::action::Action;

/// The same inference in C, for native and BPF programs.
pub const HEADER: &str = include_str!("integer/ccarena_policy.h");
/// Raw observations are multiples of 2 to the power of minus this, in the signals' units.
pub const OBSERVATION_BITS: u32 = 20;
/// Raw observations are held to so many units either way.
const OBSERVATION_LIMIT: i64 = 1 << 61;
/// Numbers in `constants` per entry of the observation.
const PER_ENTRY: usize = 7;

/// An integer policy: a list of steps on one buffer of 32-bit values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Length of the observation, which lies at the start of the values. The first constants are, for each entry, the
    /// bounds of the raw observation, offset, factor and shift, and the bounds of the normalised one.
    pub observation: usize,
    /// Place of a flow's states before a decision, one after the other, right after the observation; and their length.
    pub state: usize,
    /// Place of each part of the state after a decision, and its length.
    pub next: Vec<(usize, usize)>,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// 16-bit weights, each stored with 32768 added.
    pub weights: Vec<u16>,
    /// Biases, shifts, factors, indices and tables.
    pub constants: Vec<i64>,
    /// Length of the buffer of values.
    pub values: usize,
    /// Place of the outputs, and their number.
    pub output: (usize, usize),
    /// The binary point of the outputs: they are multiples of 2 to the power of minus this.
    pub output_bits: u32,
    /// Bounds of a continuous action in the output's units, rounded inwards; none if actions are discrete.
    pub bounds: Option<(i32, i32)>,
}

/// Operation of a step on x, the values from `input` on. The results are the values from `output` on. `constants` and
/// `weights` are the places of its own; `>>` rounds to the nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Op {
    /// y_i = x_k >> shift, for k the i-th constant; 0 for a negative one.
    Gather = 0,
    /// Linear layer: for each of `rows` of `inputs` numbers, y_o = (Σ w_oi x_i + c_2o) >> c_2o+1.
    Linear = 1,
    /// y_i = x_i held between `low` and `high`.
    Clip = 2,
    /// Linear interpolation of a table: `inputs` segments of 2^shift, from c_0 on, with the values c_1...; x is held
    /// between `low` and `high` before.
    Table = 3,
    /// y_i = (c_0 x_i + c_1 z_i) >> shift, with z the values from `second` on.
    Add = 4,
    /// y_i = x_i z_i >> shift.
    Mul = 5,
    /// y_i = (c_2i x_i + c_2i+1) >> shift.
    Affine = 6,
    /// Layer norm: y_i = c_0 d_i / √(Σ d² + c_1, shifted likewise), towards zero, for each of `rows` of n = `inputs`
    /// numbers. d_i = n x_i - Σ x, shifted so that it has `LAYER_NORM_BITS`.
    LayerNorm = 7,
}

/// See [`Op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Operation of the step.
    pub op: Op,
    /// First value that it takes.
    pub input: usize,
    /// First value of its second operand.
    pub second: usize,
    /// First value that it gives.
    pub output: usize,
    /// Rows.
    pub rows: usize,
    /// Numbers taken for each row; segments of a table.
    pub inputs: usize,
    /// Numbers given for each row.
    pub outputs: usize,
    /// First weight.
    pub weights: usize,
    /// First constant.
    pub constants: usize,
    /// Shift to the right.
    pub shift: u32,
    /// Lower bound.
    pub low: i32,
    /// Upper bound.
    pub high: i32,
}

impl Step {
    fn new(op: Op, input: usize, output: usize, outputs: usize) -> Self {
        Self {
            op,
            input,
            second: 0,
            output,
            rows: 1,
            inputs: 0,
            outputs,
            weights: 0,
            constants: 0,
            shift: 0,
            low: i32::MIN,
            high: i32::MAX,
        }
    }
}

/// Most bits of a deviation in a layer normalisation.
const LAYER_NORM_BITS: u32 = 23;

/// Memory of one flow.
#[derive(Clone, Debug)]
pub struct Memory {
    values: Vec<i32>,
    state: Vec<i32>,
    raw: Vec<i64>,
}

impl Memory {
    /// Returns the policy's memory, zeros at first.
    pub fn state(&mut self) -> &mut [i32] {
        &mut self.state
    }
}

impl Program {
    /// Memory for a new flow.
    #[must_use]
    pub fn memory(&self) -> Memory {
        Memory { values: vec![0; self.values], state: vec![0; self.state], raw: vec![0; self.observation] }
    }

    /// The index of the largest output (of equal ones the first), and all outputs in units of 2^-output_bits.
    ///
    /// # Errors
    /// If `observation` is not of the policy's length or has a value that is not finite.
    pub fn act<'m>(&self, observation: &[f32], memory: &'m mut Memory) -> Result<(u32, &'m [i32]), PolicyError> {
        if observation.len() != self.observation {
            return Err(PolicyError::ObservationLength { found: observation.len(), expected: self.observation });
        }
        if let Some(index) = observation.iter().position(|x| !x.is_finite()) {
            return Err(PolicyError::ObservationNotFinite { index, value: observation[index] });
        }
        for (raw, x) in memory.raw.iter_mut().zip(observation) {
            *raw = fixed(f64::from(*x), OBSERVATION_BITS, OBSERVATION_LIMIT);
        }
        let Memory { values, state, raw } = memory;
        Ok(self.run(raw, state, values))
    }

    /// Returns the policy's action.
    ///
    /// # Errors
    ///
    /// As [`act`](Self::act).
    pub fn action(&self, observation: &[f32], memory: &mut Memory) -> Result<Action, PolicyError> {
        let (best, outputs) = self.act(observation, memory)?;
        Ok(match self.bounds {
            None => Action::Discrete(best),
            Some(_) => Action::Continuous(((f64::from(outputs[0]) / power(self.output_bits)) as f32).into()),
        })
    }

    fn run<'v>(&self, raw: &[i64], state: &mut [i32], values: &'v mut [i32]) -> (u32, &'v [i32]) {
        for (i, raw) in raw.iter().enumerate() {
            values[i] = normalise(*raw, &self.constants[i * PER_ENTRY..(i + 1) * PER_ENTRY]);
        }
        values[self.observation..self.observation + self.state].copy_from_slice(state);
        for step in &self.steps {
            self.step(step, values);
        }
        let mut rest = state;
        for &(place, length) in &self.next {
            let (part, after) = rest.split_at_mut(length);
            part.copy_from_slice(&values[place..place + length]);
            rest = after;
        }
        let outputs = &mut values[self.output.0..self.output.0 + self.output.1];
        if let Some((low, high)) = self.bounds {
            outputs[0] = outputs[0].clamp(low, high);
        }
        let mut best = 0;
        for (i, x) in outputs.iter().enumerate() {
            if *x > outputs[best] {
                best = i;
            }
        }
        (best as u32, outputs)
    }

    fn step(&self, step: &Step, values: &mut [i32]) {
        let (before, out) = values.split_at_mut(step.output);
        let constants = &self.constants[step.constants..];
        let (x, z) = (&before[step.input..], &before[step.second..]);
        let out = &mut out[..step.rows * step.outputs];
        match step.op {
            Op::Gather => {
                for (y, index) in out.iter_mut().zip(constants) {
                    *y = usize::try_from(*index).map_or(0, |k| narrow(round_shift(i64::from(x[k]), step.shift)));
                }
            }
            Op::Linear => {
                for (x, y) in x.chunks_exact(step.inputs).zip(out.chunks_exact_mut(step.outputs)) {
                    let rows = self.weights[step.weights..].chunks_exact(step.inputs);
                    let offset = x.iter().map(|x| i64::from(*x)).sum::<i64>() << 15;
                    for ((y, row), row_constants) in y.iter_mut().zip(rows).zip(constants.chunks_exact(2)) {
                        let sum: i64 = row.iter().zip(x).map(|(w, x)| i64::from(*w) * i64::from(*x)).sum();
                        *y = narrow(round_shift(sum - offset + row_constants[0], row_constants[1] as u32));
                    }
                }
            }
            Op::Clip => x.iter().zip(out).for_each(|(x, y)| *y = (*x).clamp(step.low, step.high)),
            Op::Table => x.iter().zip(out).for_each(|(x, y)| *y = narrow(interpolate(step, constants, *x))),
            Op::Add => {
                for ((x, z), y) in x.iter().zip(z).zip(out) {
                    *y = narrow(round_shift(constants[0] * i64::from(*x) + constants[1] * i64::from(*z), step.shift));
                }
            }
            Op::Mul => {
                for ((x, z), y) in x.iter().zip(z).zip(out) {
                    *y = narrow(round_shift(i64::from(*x) * i64::from(*z), step.shift));
                }
            }
            Op::Affine => {
                for ((x, c), y) in x.iter().zip(constants.chunks_exact(2)).zip(out) {
                    *y = narrow(round_shift(i64::from(*x) * c[0] + c[1], step.shift));
                }
            }
            Op::LayerNorm => {
                for (x, y) in x.chunks_exact(step.inputs).zip(out.chunks_exact_mut(step.inputs)) {
                    layer_norm(x, y, constants[0], constants[1]);
                }
            }
        }
    }
}

/// `value` in units of 2^-bits, rounded to the nearest and held to ±`limit`.
fn fixed(value: f64, bits: u32, limit: i64) -> i64 {
    // A cast from float to integer saturates.
    ((value * power(bits) + 0.5).floor() as i64).clamp(-limit, limit)
}

/// 2^bits.
fn power(bits: u32) -> f64 {
    f64::from_bits(u64::from(1023 + bits) << 52)
}

/// A value whose range was shown to fit.
fn narrow(value: i64) -> i32 {
    debug_assert!(i32::try_from(value).is_ok(), "{value} left its range");
    value as i32
}

fn round_shift(value: i64, shift: u32) -> i64 {
    (value + ((1_i64 << shift) >> 1)) >> shift
}

/// An entry of the observation; `c` are its constants ([`Program::observation`]).
fn normalise(raw: i64, c: &[i64]) -> i32 {
    let scaled = round_shift((raw.clamp(c[0], c[1]) - c[2]) * c[3], c[4] as u32);
    narrow(scaled.clamp(c[5], c[6]))
}

fn interpolate(step: &Step, constants: &[i64], x: i32) -> i64 {
    let x = i64::from(x.clamp(step.low, step.high)) - constants[0];
    let segment = (x >> step.shift).clamp(0, step.inputs as i64 - 1);
    let (from, to) = (constants[1 + segment as usize], constants[2 + segment as usize]);
    from + round_shift((to - from) * (x - (segment << step.shift)), step.shift)
}

fn layer_norm(x: &[i32], out: &mut [i32], factor: i64, eps: i64) {
    let n = x.len() as i64;
    let sum: i64 = x.iter().map(|x| i64::from(*x)).sum();
    let largest = x.iter().map(|x| (n * i64::from(*x) - sum).abs()).max().unwrap_or(0);
    let bits = 64 - largest.leading_zeros();
    let shift = bits.saturating_sub(LAYER_NORM_BITS);
    let deviation = |x: i32| (n * i64::from(x) - sum) >> shift;
    let squares: i64 = x.iter().map(|x| deviation(*x) * deviation(*x)).sum();
    // At least 1, so that equal entries give zeros.
    let root = square_root((squares + (eps >> (2 * shift))) as u64).max(1) as i64;
    for (x, y) in x.iter().zip(out) {
        *y = narrow(deviation(*x) * factor / root);
    }
}

/// ⌊√x⌋, bit by bit.
fn square_root(x: u64) -> u64 {
    let (mut rest, mut root) = (x, 0);
    for place in (0..32).rev() {
        let bit = 1_u64 << (2 * place);
        if rest >= root + bit {
            rest -= root + bit;
            root = (root >> 1) + bit;
        } else {
            root >>= 1;
        }
    }
    root
}

#[cfg(test)]
mod tests;
