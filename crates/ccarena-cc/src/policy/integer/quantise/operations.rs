//! Each operation of the graph as steps.

use super::super::super::error::PolicyError;
use super::super::super::graph::{Constant, Function, Node, Op as Operation, count};
use super::super::super::plan::{expanded, repeated, transposed};
use super::super::tables::{Curve, curve};
use super::super::{LAYER_NORM_BITS, Op, Step, fixed, power};
use super::{Builder, Placed};

/// Operations with an integer form, for messages.
const NAMES: &str = "one that has an integer form: linear, conv1d, gru, lstm, layer_norm, concat, slice, reshape, \
                     transpose, relu, leaky_relu, elu, silu, gelu, sigmoid, tanh, softplus, clip, mean, add, mul or \
                     affine; or run the policy in float32";
/// Segments of a table: 2 to the power of this.
const SEGMENTS: u32 = 10;
/// Longest row of a layer normalisation: 2 to the power of this.
const LAYER_NORM_ROW: usize = 1 << (60 - 2 * LAYER_NORM_BITS);

impl Builder<'_> {
    pub(super) fn operation(&mut self, node: &Node) -> Result<Placed, PolicyError> {
        let graph = self.graph;
        let input = self.placed[node.inputs[0]];
        let shape = graph.shape(node.inputs[0]);
        let length = count(shape);
        let tensor = |id: usize| &graph.tensors[id];
        match &node.op {
            Operation::Linear { weight, bias } => {
                let outputs = tensor(*weight).shape[0];
                let weights = (self.graph.tensors[*weight].data.as_slice(), bias.map(|id| &tensor(id).data[..]));
                let rows = count(&shape[..shape.len() - 1]);
                self.linear(input, rows, weights, outputs)
            }
            Operation::Conv1d { weight, bias, stride, padding, dilation } => {
                let (filters, kernel) = (tensor(*weight).shape[0], tensor(*weight).shape[2]);
                let steps = graph.shape(node.output)[1];
                let (channels, row) = (shape[0], shape[1]);
                let at = |step: usize, channel: usize, k: usize| {
                    let at = (step * stride + k * dilation).checked_sub(*padding).filter(|at| *at < row);
                    at.map(|at| input.place + channel * row + at)
                };
                let places = (0..steps).flat_map(|s| (0..channels * kernel).map(move |i| (s, i / kernel, i % kernel)));
                let windows = self.gather(places.map(|(s, c, k)| at(s, c, k)).collect(), input.bits, 0)?;
                let weights = (&tensor(*weight).data[..], bias.map(|id| &tensor(id).data[..]));
                let y = self.linear(windows, steps, weights, filters)?;
                self.pick(y, &transposed(&[steps, filters], &[1, 0]))
            }
            Operation::Gru(cell) => self.gru(cell, node, shape),
            Operation::Lstm(cell) => self.lstm(cell, node, shape),
            Operation::LayerNorm { weight, bias, eps } => {
                let width = shape[shape.len() - 1];
                let y = self.normalised(input, length / width, width, *eps)?;
                if weight.is_none() && bias.is_none() {
                    return Ok(y);
                }
                let all = |id: &Option<usize>, neutral: f32| {
                    id.map_or_else(|| vec![neutral; length], |id| tensor(id).data.repeat(length / width))
                };
                self.affine(y, &all(weight, 1.0), &all(bias, 0.0))
            }
            Operation::Concat { axis } => {
                let parts: Vec<(Placed, usize)> =
                    node.inputs.iter().map(|&i| (self.placed[i], count(&graph.shape(i)[*axis..]))).collect();
                self.concat(&parts, count(&shape[..*axis]))
            }
            Operation::Slice { axis, start, stop } => {
                let inner = count(&shape[axis + 1..]);
                let (row, outer) = (shape[*axis] * inner, count(&shape[..*axis]));
                if outer == 1 {
                    return Ok(Placed { place: input.place + start * inner, bits: input.bits });
                }
                let taken = (0..outer).flat_map(|o| (start * inner..stop * inner).map(move |i| o * row + i));
                self.gather(taken.map(|i| Some(input.place + i)).collect(), input.bits, 0)
            }
            Operation::Reshape => Ok(input),
            Operation::Transpose { axes } => self.pick(input, &transposed(shape, axes)),
            Operation::Map(function) => self.map(*function, input, length),
            Operation::Mean { axis } => {
                let (mean_of, inner) = (shape[*axis], count(&shape[axis + 1..]));
                let mut axes: Vec<usize> = (0..shape.len()).filter(|k| k != axis).collect();
                axes.push(*axis);
                let x = if inner == 1 { input } else { self.pick(input, &transposed(shape, &axes))? };
                let weight = vec![1.0 / mean_of as f32; mean_of];
                self.linear(x, length / mean_of, (&weight, None), 1)
            }
            Operation::Add | Operation::Mul => {
                let (a, b) = (shape, graph.shape(node.inputs[1]));
                let to = graph.shape(node.output);
                let (mut x, mut z) = (input, self.placed[node.inputs[1]]);
                if a != b {
                    x = self.pick(x, &repeated(a, to))?;
                    z = self.pick(z, &repeated(b, to))?;
                }
                if node.op == Operation::Add { self.add(x, z, count(to), 1) } else { self.mul(x, z, count(to)) }
            }
            Operation::Affine { scale, shift } => {
                let all = |constant: &Option<Constant>, neutral: f32| match constant {
                    None => vec![neutral; length],
                    Some(Constant::Number(number)) => vec![*number; length],
                    Some(Constant::Tensor(id)) => expanded(tensor(*id), shape),
                };
                self.affine(input, &all(scale, 1.0), &all(shift, 0.0))
            }
            Operation::Div => Err(self.refused("operation div", NAMES)),
            Operation::Embedding { .. } => Err(self.refused("operation embedding", NAMES)),
            Operation::Softmax { .. } => Err(self.refused("operation softmax", NAMES)),
        }
    }

    /// The values of x at these indices.
    fn pick(&mut self, x: Placed, indices: &[u32]) -> Result<Placed, PolicyError> {
        if indices.iter().enumerate().all(|(i, index)| *index as usize == i) {
            return Ok(x);
        }
        self.gather(indices.iter().map(|i| Some(x.place + *i as usize)).collect(), x.bits, 0)
    }

    /// `outer` times a row of each part, with the binary point of the part that has the fewest bits after it.
    pub(super) fn concat(&mut self, parts: &[(Placed, usize)], outer: usize) -> Result<Placed, PolicyError> {
        let bits = parts.iter().map(|(part, _)| part.bits).min().unwrap_or(0);
        let mut scaled = Vec::with_capacity(parts.len());
        for (part, row) in parts {
            scaled.push((self.rescale(*part, row * outer, bits)?, *row));
        }
        let rows = (0..outer).flat_map(|o| scaled.iter().map(move |(part, row)| (part.place + o * row, *row)));
        self.gather(rows.flat_map(|(start, row)| (start..start + row).map(Some)).collect(), bits, 0)
    }

    pub(super) fn map(&mut self, function: Function, x: Placed, length: usize) -> Result<Placed, PolicyError> {
        let unit = |bound: f32| fixed(f64::from(bound), x.bits, i32::MAX.into());
        match function {
            Function::Relu => self.clip(x, length, 0, i64::MAX),
            Function::Clip(low, high) => self.clip(x, length, unit(low), unit(high)),
            Function::LeakyRelu(slope) => {
                let above = self.clip(x, length, 0, i64::MAX)?;
                let below = self.clip(x, length, i64::MIN, 0)?;
                let below = self.affine(below, &vec![slope; length], &vec![0.0; length])?;
                self.add(above, below, length, 1)
            }
            function => match curve(function) {
                Some(curve) => self.table(&curve, x, length),
                None => Err(self.refused("operation exp", NAMES)),
            },
        }
    }

    fn table(&mut self, curve: &Curve, x: Placed, length: usize) -> Result<Placed, PolicyError> {
        // No wider than what comes in.
        let needed = (0..curve.log2_reach).find(|k| self.reach(x, length) <= 1 << (k + x.bits));
        let reach = needed.unwrap_or(curve.log2_reach);
        let whole = reach + x.bits + 1;
        let shift = whole.saturating_sub(SEGMENTS);
        let segments = 1_usize << (whole - shift);
        let start = -(1_i64 << (reach + x.bits));
        let at = |k: usize| f64::from((curve.of)(((start + ((k as i64) << shift)) as f64 / power(x.bits)) as f32));
        let beyond = f64::from((curve.of)(self.real(x, length) as f32));
        let highest = (0..=segments).fold(beyond.abs(), |reach, k| reach.max(at(k).abs()));
        // Room for the last segment's slope, which rounding makes steeper.
        let bits = self.point(highest * 1.01, super::POINT)?;
        let knots = (0..=segments).map(|k| fixed(at(k), bits, i32::MAX.into()));
        let constants: Vec<i64> = std::iter::once(start).chain(knots).collect();
        let constants = self.constants(constants);
        let high = if curve.flat_above { -start } else { i32::MAX.into() };
        let bound = |x: i64| x.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let step = Step::new(Op::Table, x.place, 0, length);
        let step = Step { inputs: segments, constants, shift, low: bound(start), high: bound(high), ..step };
        self.push(step, bits)
    }

    fn normalised(&mut self, x: Placed, rows: usize, width: usize, eps: f32) -> Result<Placed, PolicyError> {
        let n = width as f64;
        let eps = n * n * n * f64::from(eps) * power(2 * x.bits);
        if width > LAYER_NORM_ROW || eps >= power(60) {
            let expected = format!("at most {LAYER_NORM_ROW}, and a smaller eps");
            return Err(self.refused(format!("layer_norm of {width} numbers"), expected));
        }
        let bits = self.point(2.0 * n.sqrt(), super::POINT)?;
        let constants = self.constants([fixed(n.sqrt(), bits, 1 << 40), eps as i64]);
        let step = Step::new(Op::LayerNorm, x.place, 0, width);
        self.push(Step { rows, inputs: width, constants, ..step }, bits)
    }
}
