//! The operations on numbers. Every sum is taken in the order of its inputs, hence has the same bits everywhere.

use std::ops::Range;

use super::graph::Function;
use super::math::{exp, gelu, gelu_tanh, sigmoid, softplus, tanh};

/// Runs one operation of [`super::graph::Op`].
#[derive(Clone, Debug)]
pub(super) enum Kernel {
    Linear(Linear),
    Conv(Conv),
    Gru(Cell),
    Lstm(Cell),
    LayerNorm(LayerNorm),
    Embedding {
        width: usize,
        rows: Vec<f32>,
    },
    Concat(Vec<Pieces>),
    Slice(Pieces),
    /// Indices into the input.
    Gather(Vec<u32>),
    Map(Function),
    /// Softmax, with the sizes before the axis, along it and after it.
    Softmax((usize, usize, usize)),
    Mean((usize, usize, usize)),
    /// Indices into both inputs where they differ in shape.
    Add(Option<(Vec<u32>, Vec<u32>)>),
    Mul(Option<(Vec<u32>, Vec<u32>)>),
    Div(Option<(Vec<u32>, Vec<u32>)>),
    Affine(Affine),
}

impl Kernel {
    /// Computes `out` from the values at `inputs` in `values`, with working memory `work`.
    pub(super) fn run(&self, values: &[f32], inputs: &[Range<usize>], out: &mut [f32], work: &mut [f32]) {
        let x = &values[inputs[0].clone()];
        let second = inputs.get(1).map(|place| &values[place.clone()]);
        match self {
            Self::Linear(linear) => linear.rows(x, out),
            Self::Conv(conv) => conv.run(x, out, work),
            Self::Gru(cell) => cell.gru(x, second, out, work),
            Self::Lstm(cell) => cell.lstm(x, second, out, work),
            Self::LayerNorm(norm) => norm.run(x, out),
            Self::Embedding { width, rows } => {
                let last = rows.len() / width - 1;
                for (x, y) in x.iter().zip(out.chunks_exact_mut(*width)) {
                    // A cast from float to integer saturates, and takes NaN to 0.
                    let row = (*x as usize).min(last);
                    y.copy_from_slice(&rows[row * width..(row + 1) * width]);
                }
            }
            Self::Concat(pieces) => {
                for (piece, place) in pieces.iter().zip(inputs) {
                    piece.copy(&values[place.clone()], out);
                }
            }
            Self::Slice(piece) => piece.copy(x, out),
            Self::Gather(indices) => indices.iter().zip(out).for_each(|(i, y)| *y = x[*i as usize]),
            Self::Map(function) => map(*function, x, out),
            Self::Softmax(axes) => along(*axes, |at| softmax(x, out, at)),
            Self::Mean((outer, length, inner)) => {
                for o in 0..*outer {
                    for i in 0..*inner {
                        let sum = (0..*length).fold(0.0_f32, |sum, k| sum + x[(o * length + k) * inner + i]);
                        out[o * inner + i] = sum / *length as f32;
                    }
                }
            }
            Self::Add(indices) => pairs(x, second, indices.as_ref(), out, |a, b| a + b),
            Self::Mul(indices) => pairs(x, second, indices.as_ref(), out, |a, b| a * b),
            Self::Div(indices) => {
                pairs(x, second, indices.as_ref(), out, |a, b| if b == 0.0 { 0.0 } else { a / b });
            }
            Self::Affine(affine) => affine.run(x, out),
        }
    }
}

/// y = W x + b, with W by columns: the inner loop then runs over independent outputs and vectorises without changing
/// the order of any sum.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    inputs: usize,
    columns: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// Builds a layer from `weight` `[outputs, inputs]` by rows and `bias` `[outputs]`.
    pub(super) fn new(weight: &[f32], bias: Vec<f32>, inputs: usize) -> Self {
        let outputs = bias.len();
        let columns = (0..inputs).flat_map(|i| (0..outputs).map(move |o| weight[o * inputs + i])).collect();
        Self { inputs, columns, bias }
    }

    fn forward(&self, x: &[f32], y: &mut [f32]) {
        y.copy_from_slice(&self.bias);
        // Four inputs at a time, so that y is read and written a fourth as often; each sum keeps its order.
        let (mut group, mut filled): ([(f32, &[f32]); GROUP], usize) = ([(0.0, &[]); GROUP], 0);
        for (x, column) in x.iter().zip(self.columns.chunks_exact(self.bias.len())) {
            // About half of what a rectifier passes on.
            if *x == 0.0 {
                continue;
            }
            group[filled] = (*x, column);
            filled += 1;
            if filled == GROUP {
                accumulate_group(&group, y);
                filled = 0;
            }
        }
        for (x, column) in &group[..filled] {
            accumulate(*x, column, y);
        }
    }

    /// Row by row.
    fn rows(&self, x: &[f32], out: &mut [f32]) {
        for (x, y) in x.chunks_exact(self.inputs).zip(out.chunks_exact_mut(self.bias.len())) {
            self.forward(x, y);
        }
    }
}

const GROUP: usize = 4;

fn accumulate_group(group: &[(f32, &[f32]); GROUP], y: &mut [f32]) {
    let [(a, u), (b, v), (c, w), (d, z)] = *group;
    for ((((y, u), v), w), z) in y.iter_mut().zip(u).zip(v).zip(w).zip(z) {
        *y = (((*y + a * u) + b * v) + c * w) + d * z;
    }
}

fn accumulate(x: f32, column: &[f32], y: &mut [f32]) {
    for (y, w) in y.iter_mut().zip(column) {
        *y += x * w;
    }
}

/// A convolution as a matrix product at each place of its kernel.
#[derive(Clone, Debug)]
pub(super) struct Conv {
    pub(super) linear: Linear,
    pub(super) channels: usize,
    pub(super) kernel: usize,
    pub(super) stride: usize,
    pub(super) padding: usize,
    pub(super) dilation: usize,
}

impl Conv {
    fn run(&self, x: &[f32], out: &mut [f32], y: &mut [f32]) {
        let (length, filters) = (x.len() / self.channels, y.len());
        let steps = out.len() / filters;
        for step in 0..steps {
            y.copy_from_slice(&self.linear.bias);
            let columns = self.linear.columns.chunks_exact(filters);
            for (index, column) in columns.enumerate() {
                let (channel, k) = (index / self.kernel, index % self.kernel);
                let at = (step * self.stride + k * self.dilation).wrapping_sub(self.padding);
                if at < length {
                    accumulate(x[channel * length + at], column, y);
                }
            }
            for (filter, y) in y.iter().enumerate() {
                out[filter * steps + step] = *y;
            }
        }
    }
}

/// The weights of a recurrent cell.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) input: Linear,
    pub(super) state: Linear,
}

impl Cell {
    /// Numbers that it works with: the gates of input and state, and a state of zeros to start from.
    pub(super) fn work(&self) -> usize {
        2 * self.input.bias.len() + 2 * self.state.inputs
    }

    /// Runs `step(gates of the input, gates of the state, state before, state after)` for each row of x.
    fn steps(
        &self,
        x: &[f32],
        start: Option<&[f32]>,
        out: &mut [f32],
        (width, work): (usize, &mut [f32]),
        step: impl Fn(&[f32], &[f32], &[f32], &mut [f32]),
    ) {
        let gates = self.input.bias.len();
        let (of_input, rest) = work.split_at_mut(gates);
        let (of_state, zeros) = rest.split_at_mut(gates);
        zeros.fill(0.0);
        let (mut before, mut out) = (start.unwrap_or(&zeros[..width]), out);
        for x in x.chunks_exact(self.input.inputs) {
            let (after, rest) = out.split_at_mut(width);
            self.input.forward(x, of_input);
            self.state.forward(&before[..self.state.inputs], of_state);
            step(of_input, of_state, before, after);
            (before, out) = (after, rest);
        }
    }

    /// Computes h' = (1 - z) n + z h with r = σ(a + b), z = σ(a + b), n = tanh(a + r b). For each gate, a is the
    /// input's part and b the state's.
    fn gru(&self, x: &[f32], start: Option<&[f32]>, out: &mut [f32], work: &mut [f32]) {
        let n = self.state.inputs;
        self.steps(x, start, out, (n, work), |a, b, before, after| {
            for i in 0..n {
                let r = sigmoid(a[i] + b[i]);
                let z = sigmoid(a[n + i] + b[n + i]);
                let new = tanh(a[2 * n + i] + r * b[2 * n + i]);
                after[i] = (1.0 - z) * new + z * before[i];
            }
        });
    }

    /// c' = f c + i g, h' = o tanh c' with i, f, o = σ(a + b), g = tanh(a + b).
    fn lstm(&self, x: &[f32], start: Option<&[f32]>, out: &mut [f32], work: &mut [f32]) {
        let n = self.state.inputs;
        self.steps(x, start, out, (2 * n, work), |a, b, before, after| {
            for i in 0..n {
                let gate = |k: usize| a[k * n + i] + b[k * n + i];
                let cell = sigmoid(gate(1)) * before[n + i] + sigmoid(gate(0)) * tanh(gate(2));
                after[i] = sigmoid(gate(3)) * tanh(cell);
                after[n + i] = cell;
            }
        });
    }
}

/// Normalises rows.
#[derive(Clone, Debug)]
pub(super) struct LayerNorm {
    pub(super) width: usize,
    pub(super) weight: Option<Vec<f32>>,
    pub(super) bias: Option<Vec<f32>>,
    pub(super) eps: f64,
}

impl LayerNorm {
    fn run(&self, x: &[f32], out: &mut [f32]) {
        for (x, y) in x.chunks_exact(self.width).zip(out.chunks_exact_mut(self.width)) {
            let n = self.width as f64;
            let mean = x.iter().fold(0.0, |sum, x| sum + f64::from(*x)) / n;
            let square = |x: &f32| (f64::from(*x) - mean) * (f64::from(*x) - mean);
            let deviation = (x.iter().fold(0.0, |sum, x| sum + square(x)) / n + self.eps).sqrt();
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                *y = ((f64::from(*x) - mean) / deviation) as f32;
                *y *= self.weight.as_ref().map_or(1.0, |w| w[i]);
                *y += self.bias.as_ref().map_or(0.0, |b| b[i]);
            }
        }
    }
}

/// Copies `row` numbers out of each `from`, after `skip`, into each `to`, after `start`.
#[derive(Clone, Debug)]
pub(super) struct Pieces {
    pub(super) from: usize,
    pub(super) skip: usize,
    pub(super) row: usize,
    pub(super) to: usize,
    pub(super) start: usize,
}

impl Pieces {
    pub(super) fn copy(&self, x: &[f32], out: &mut [f32]) {
        for (x, y) in x.chunks_exact(self.from).zip(out.chunks_exact_mut(self.to)) {
            y[self.start..self.start + self.row].copy_from_slice(&x[self.skip..self.skip + self.row]);
        }
    }
}

/// x · scale + shift; one number stands for all.
#[derive(Clone, Debug)]
pub(super) struct Affine {
    pub(super) scale: Option<Vec<f32>>,
    pub(super) shift: Option<Vec<f32>>,
}

impl Affine {
    fn run(&self, x: &[f32], out: &mut [f32]) {
        out.copy_from_slice(x);
        match self.scale.as_deref() {
            Some(&[scale]) => out.iter_mut().for_each(|y| *y *= scale),
            Some(scale) => out.iter_mut().zip(scale).for_each(|(y, scale)| *y *= scale),
            None => {}
        }
        match self.shift.as_deref() {
            Some(&[shift]) => out.iter_mut().for_each(|y| *y += shift),
            Some(shift) => out.iter_mut().zip(shift).for_each(|(y, shift)| *y += shift),
            None => {}
        }
    }
}

fn map(function: Function, x: &[f32], out: &mut [f32]) {
    let mut each = |f: &dyn Fn(f32) -> f32| x.iter().zip(&mut *out).for_each(|(x, y)| *y = f(*x));
    match function {
        // The commonest, hence without the call.
        Function::Relu => x.iter().zip(out).for_each(|(x, y)| *y = x.max(0.0)),
        Function::LeakyRelu(slope) => each(&|x| if x > 0.0 { x } else { slope * x }),
        Function::Elu(alpha) => each(&|x| if x > 0.0 { x } else { alpha * (exp(f64::from(x)) - 1.0) as f32 }),
        Function::Silu => each(&|x| (f64::from(x) / (1.0 + exp(-f64::from(x)))) as f32),
        Function::Gelu => each(&gelu),
        Function::GeluTanh => each(&gelu_tanh),
        Function::Sigmoid => each(&sigmoid),
        Function::Tanh => each(&tanh),
        Function::Softplus => each(&softplus),
        Function::Exp => each(&|x| exp(f64::from(x.min(88.0))) as f32),
        Function::Clip(low, high) => each(&|x| x.max(low).min(high)),
    }
}

/// Indices of the rows along an axis: (first, step, length).
fn along((outer, length, inner): (usize, usize, usize), mut row: impl FnMut((usize, usize, usize))) {
    for o in 0..outer {
        for i in 0..inner {
            row((o * length * inner + i, inner, length));
        }
    }
}

fn softmax(x: &[f32], out: &mut [f32], (first, step, length): (usize, usize, usize)) {
    let at = |k: usize| first + k * step;
    let top = (0..length).fold(f32::MIN, |top, k| top.max(x[at(k)]));
    let power = |k: usize| exp(f64::from(x[at(k)]) - f64::from(top));
    let sum: f64 = (0..length).fold(0.0, |sum, k| sum + power(k));
    for k in 0..length {
        out[at(k)] = (power(k) / sum) as f32;
    }
}

fn pairs(
    a: &[f32],
    b: Option<&[f32]>,
    indices: Option<&(Vec<u32>, Vec<u32>)>,
    out: &mut [f32],
    f: impl Fn(f32, f32) -> f32,
) {
    // The graph was checked: these have two inputs.
    let b = b.unwrap_or(a);
    match indices {
        None => a.iter().zip(b).zip(out).for_each(|((a, b), y)| *y = f(*a, *b)),
        Some((of_a, of_b)) => {
            let pairs = of_a.iter().zip(of_b).map(|(i, j)| f(a[*i as usize], b[*j as usize]));
            pairs.zip(out).for_each(|(value, y)| *y = value);
        }
    }
}
