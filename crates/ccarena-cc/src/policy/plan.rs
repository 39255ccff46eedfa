//! A graph made ready to run: every value has its place in one buffer, every operation its kernel with weights laid out
//! for it, so that a decision allocates nothing and looks nothing up by name.

use std::ops::Range;

use super::graph::{Constant, Graph, Op, Tensor, TensorId, ValueId, count};
use super::kernels::{Affine, Cell, Conv, Kernel, LayerNorm, Linear, Pieces};

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    steps: Vec<Step>,
    /// The observation's place is at the start, those of the states follow.
    input: usize,
    states: usize,
    /// Places of the states' next values, in the states' order.
    next: Vec<Range<usize>>,
    output: Range<usize>,
    /// Length of the buffer.
    size: usize,
}

/// One operation. Its inputs lie before its output, its working memory after it.
#[derive(Clone, Debug)]
struct Step {
    kernel: Kernel,
    inputs: Vec<Range<usize>>,
    output: Range<usize>,
    work: usize,
}

impl Plan {
    pub(super) fn new(graph: &Graph) -> Self {
        let mut places = Vec::with_capacity(graph.values.len());
        let mut size = 0;
        for value in &graph.values[..=graph.states.len()] {
            let length = count(&value.shape);
            places.push(size..size + length);
            size += length;
        }
        let (input, states) = (places[0].len(), size - places[0].len());
        let mut steps = Vec::new();
        for node in &graph.nodes {
            let first = &places[node.inputs[0]];
            if let Some(place) = alias(graph, &node.op, node.inputs[0], first) {
                places.push(place);
                continue;
            }
            let length = count(graph.shape(node.output));
            let output = size..size + length;
            let (kernel, work) = kernel(graph, &node.op, &node.inputs, node.output);
            let inputs = node.inputs.iter().map(|&i| places[i].clone()).collect();
            size = output.end + work;
            places.push(output.clone());
            steps.push(Step { kernel, inputs, output, work });
        }
        let next = graph.states.iter().map(|s| places[s.next].clone()).collect();
        Self { steps, input, states, next, output: places[graph.output].clone(), size }
    }

    /// Lengths of the buffer and of the states.
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.size, self.states)
    }

    /// Returns the place of the observation.
    pub(super) fn input(&self) -> Range<usize> {
        0..self.input
    }

    /// Returns the place of the output after `run`.
    pub(super) fn output(&self) -> Range<usize> {
        self.output.clone()
    }

    /// One decision: the observation is in `buffer`; `state` goes to that of the next one.
    pub(super) fn run(&self, buffer: &mut [f32], state: &mut [f32]) {
        buffer[self.input..self.input + self.states].copy_from_slice(state);
        for step in &self.steps {
            let (before, rest) = buffer.split_at_mut(step.output.start);
            let (output, rest) = rest.split_at_mut(step.output.len());
            step.kernel.run(before, &step.inputs, output, &mut rest[..step.work]);
        }
        let mut rest = state;
        for place in &self.next {
            let (part, after) = rest.split_at_mut(place.len());
            part.copy_from_slice(&buffer[place.clone()]);
            rest = after;
        }
    }
}

/// Returns the place of the result if it is an unchanged part of the input.
fn alias(graph: &Graph, op: &Op, input: ValueId, place: &Range<usize>) -> Option<Range<usize>> {
    match *op {
        Op::Reshape => Some(place.clone()),
        Op::Slice { axis, start, stop } if count(&graph.shape(input)[..axis]) == 1 => {
            let row = count(&graph.shape(input)[axis + 1..]);
            Some(place.start + start * row..place.start + stop * row)
        }
        _ => None,
    }
}

/// Returns the kernel of an operation, and the size of its working memory.
fn kernel(graph: &Graph, op: &Op, inputs: &[ValueId], output: ValueId) -> (Kernel, usize) {
    let data = |id: TensorId| &graph.tensors[id].data[..];
    let optional = |id: &Option<TensorId>| id.map(|id| data(id).to_vec());
    let linear = |weight: TensorId, bias: Option<TensorId>| {
        let weight = &graph.tensors[weight];
        let outputs = weight.shape[0];
        let bias = bias.map_or_else(|| vec![0.0; outputs], |id| data(id).to_vec());
        Linear::new(&weight.data, bias, count(&weight.shape[1..]))
    };
    let cell = |cell: &super::graph::Cell| {
        let (bias_ih, bias_hh) = cell.biases.unzip();
        Cell { input: linear(cell.weight_ih, bias_ih), state: linear(cell.weight_hh, bias_hh) }
    };
    let x = graph.shape(inputs[0]);
    let spread = |axis: usize| (count(&x[..axis]), x[axis], count(&x[axis + 1..]));
    match op {
        Op::Linear { weight, bias } => (Kernel::Linear(linear(*weight, *bias)), 0),
        Op::Conv1d { weight, bias, stride, padding, dilation } => {
            let filters = graph.tensors[*weight].shape[0];
            let (channels, kernel) = (x[0], graph.tensors[*weight].shape[2]);
            let (stride, padding, dilation) = (*stride, *padding, *dilation);
            let linear = linear(*weight, *bias);
            (Kernel::Conv(Conv { linear, channels, kernel, stride, padding, dilation }), filters)
        }
        Op::Gru(weights) => {
            let cell = cell(weights);
            let work = cell.work();
            (Kernel::Gru(cell), work)
        }
        Op::Lstm(weights) => {
            let cell = cell(weights);
            let work = cell.work();
            (Kernel::Lstm(cell), work)
        }
        Op::LayerNorm { weight, bias, eps } => {
            let width = x[x.len() - 1];
            let norm = LayerNorm { width, weight: optional(weight), bias: optional(bias), eps: f64::from(*eps) };
            (Kernel::LayerNorm(norm), 0)
        }
        Op::Embedding { weight } => {
            let width = graph.tensors[*weight].shape[1];
            (Kernel::Embedding { width, rows: data(*weight).to_vec() }, 0)
        }
        Op::Concat { axis } => {
            let whole = count(&graph.shape(output)[*axis..]);
            let mut start = 0;
            let mut piece = |input: &ValueId| {
                let row = count(&graph.shape(*input)[*axis..]);
                start += row;
                Pieces { from: row, skip: 0, row, to: whole, start: start - row }
            };
            (Kernel::Concat(inputs.iter().map(&mut piece).collect()), 0)
        }
        Op::Slice { axis, start, stop } => {
            let inner = count(&x[*axis + 1..]);
            let (from, row) = (x[*axis] * inner, (stop - start) * inner);
            (Kernel::Slice(Pieces { from, skip: start * inner, row, to: row, start: 0 }), 0)
        }
        // Has no kernel: `alias` places it.
        Op::Reshape => (Kernel::Slice(Pieces { from: count(x), skip: 0, row: count(x), to: count(x), start: 0 }), 0),
        Op::Transpose { axes } => (Kernel::Gather(transposed(x, axes)), 0),
        Op::Map(function) => (Kernel::Map(*function), 0),
        Op::Softmax { axis } => (Kernel::Softmax(spread(*axis)), 0),
        Op::Mean { axis } => (Kernel::Mean(spread(*axis)), 0),
        Op::Add | Op::Mul | Op::Div => {
            let (a, b) = (x, graph.shape(inputs[1]));
            let shape = graph.shape(output);
            let indices = (a != b).then(|| (repeated(a, shape), repeated(b, shape)));
            let kernel = match op {
                Op::Add => Kernel::Add,
                Op::Mul => Kernel::Mul,
                _ => Kernel::Div,
            };
            (kernel(indices), 0)
        }
        Op::Affine { scale, shift } => {
            let constant = |given: &Option<Constant>| {
                given.as_ref().map(|constant| match constant {
                    Constant::Number(number) => vec![*number],
                    Constant::Tensor(id) => expanded(&graph.tensors[*id], x),
                })
            };
            (Kernel::Affine(Affine { scale: constant(scale), shift: constant(shift) }), 0)
        }
    }
}

/// Returns the index of the repeated entry for each entry of `shape`, from a value of shape `from`.
pub(super) fn repeated(from: &[usize], shape: &[usize]) -> Vec<u32> {
    let lead = shape.len() - from.len();
    let index = |mut flat: usize| {
        let (mut index, mut step) = (0, 1);
        for k in (0..shape.len()).rev() {
            let at = flat % shape[k];
            flat /= shape[k];
            if k >= lead {
                let axis = from[k - lead];
                index += if axis == 1 { 0 } else { at * step };
                step *= axis;
            }
        }
        index as u32
    };
    (0..count(shape)).map(index).collect()
}

/// Returns the index of each entry in the value of shape `from`, for a value with its `axes` in another order.
pub(super) fn transposed(from: &[usize], axes: &[usize]) -> Vec<u32> {
    let index = |mut flat: usize| {
        let mut index = 0;
        for &axis in axes.iter().rev() {
            index += flat % from[axis] * count(&from[axis + 1..]);
            flat /= from[axis];
        }
        index as u32
    };
    (0..count(from)).map(index).collect()
}

pub(super) fn expanded(tensor: &Tensor, shape: &[usize]) -> Vec<f32> {
    repeated(&tensor.shape, shape).into_iter().map(|i| tensor.data[i as usize]).collect()
}
