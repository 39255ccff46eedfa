//! Reader of the graph's operations: it reads a node and infers its shape.

use serde_json::Value as Json;

use super::super::error::PolicyError;
use super::{Builder, Cell, Constant, Fields, Function, MAX_VALUES, Op, TensorId, count, short};

/// Every operation, for messages.
const NAMES: &str = "linear, conv1d, gru, lstm, layer_norm, embedding, concat, slice, reshape, transpose, relu, leaky_relu, elu, silu, \
                     gelu, sigmoid, tanh, softplus, exp, clip, softmax, mean, add, mul, div, affine";

/// The operation `name` on inputs of these `shapes`, the shape of its result, and how many multiplications it costs.
pub(super) fn read(
    name: &str,
    fields: &mut Fields,
    shapes: &[Vec<usize>],
    graph: &mut Builder<'_>,
) -> Result<(Op, Vec<usize>, usize), PolicyError> {
    let (least, most) = match name {
        "concat" => (1, usize::MAX),
        "add" | "mul" | "div" => (2, 2),
        "gru" | "lstm" => (1, 2),
        _ => (1, 1),
    };
    if !(least..=most).contains(&shapes.len()) {
        let expected = if least == most { format!("{least}") } else { format!("{least} or more (gru, lstm: 2)") };
        return Err(fields.error(format!("{} inputs", shapes.len()), &expected));
    }
    let x = &shapes[0];
    let same = |op| Ok((op, x.clone(), count(x)));
    let map = |function| same(Op::Map(function));
    match name {
        "linear" => linear(fields, x, graph),
        "conv1d" => conv1d(fields, x, graph),
        "gru" => cell(fields, shapes, graph, 3),
        "lstm" => cell(fields, shapes, graph, 4),
        "layer_norm" => layer_norm(fields, x, graph),
        "embedding" => {
            let weight = needed(fields, "weight", graph)?;
            let &[_, width] = tensor_shape(graph, weight) else {
                return Err(misfit(fields, graph, weight, "[rows, width]"));
            };
            let shape = [&x[..], &[width]].concat();
            let cost = x.iter().product::<usize>().saturating_mul(width);
            Ok((Op::Embedding { weight }, shape, cost))
        }
        "concat" => concat(fields, shapes),
        "slice" => {
            let axis = axis(fields, x)?;
            let stop = fields.size("stop", 1, x[axis], None)?;
            let start = fields.size("start", 0, stop - 1, None)?;
            let mut shape = x.clone();
            shape[axis] = stop - start;
            Ok((Op::Slice { axis, start, stop }, shape, 0))
        }
        "reshape" => {
            let shape = fields.sizes("shape")?;
            let size = shape.iter().try_fold(1_usize, |n, axis| n.checked_mul(*axis));
            if size != Some(count(x)) {
                return Err(fields.error(format!("shape {shape:?}"), &format!("{} numbers, as in {x:?}", count(x))));
            }
            Ok((Op::Reshape, shape, 0))
        }
        "transpose" => {
            let axes = fields.sizes("axes")?;
            let mut sorted = axes.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..x.len()) {
                return Err(fields.error(format!("axes {axes:?}"), &format!("each of 0 to {} once", x.len())));
            }
            let shape = axes.iter().map(|&axis| x[axis]).collect();
            Ok((Op::Transpose { axes }, shape, 0))
        }
        "relu" => map(Function::Relu),
        "leaky_relu" => map(Function::LeakyRelu(fields.number("slope", 0.01)?)),
        "elu" => map(Function::Elu(fields.number("alpha", 1.0)?)),
        "silu" => map(Function::Silu),
        "gelu" => map(gelu(fields)?),
        "sigmoid" => map(Function::Sigmoid),
        "tanh" => map(Function::Tanh),
        "softplus" => map(Function::Softplus),
        "exp" => map(Function::Exp),
        "clip" => {
            let (low, high) = (fields.number("low", f32::MIN)?, fields.number("high", f32::MAX)?);
            if low > high {
                return Err(fields.error(format!("clip to {low}..{high}"), "low <= high"));
            }
            map(Function::Clip(low, high))
        }
        "softmax" => same(Op::Softmax { axis: axis(fields, x)? }),
        "mean" => {
            let axis = axis(fields, x)?;
            let mut shape = x.clone();
            shape.remove(axis);
            Ok((Op::Mean { axis }, shape, count(x)))
        }
        "add" | "mul" | "div" => {
            let op = match name {
                "add" => Op::Add,
                "mul" => Op::Mul,
                _ => Op::Div,
            };
            let shape = broadcast(x, &shapes[1]).ok_or_else(|| {
                fields.error(format!("shapes {x:?} and {:?}", shapes[1]), "axes that are equal or of length 1")
            })?;
            let cost = shape.iter().fold(1_usize, |n, axis| n.saturating_mul(*axis));
            Ok((op, shape, cost))
        }
        "affine" => same(Op::Affine {
            scale: constant(fields, "scale", x, graph)?,
            shift: constant(fields, "shift", x, graph)?,
        }),
        other => Err(fields.error(format!("operation {other:?}"), NAMES)),
    }
}

fn linear(fields: &mut Fields, x: &[usize], graph: &mut Builder<'_>) -> Result<(Op, Vec<usize>, usize), PolicyError> {
    let weight = needed(fields, "weight", graph)?;
    let (Some(&inputs), &[outputs, columns]) = (x.last(), tensor_shape(graph, weight)) else {
        return Err(misfit(fields, graph, weight, "[out, in] and an input of one axis or more"));
    };
    if columns != inputs {
        return Err(misfit(fields, graph, weight, &format!("[out, {inputs}], as the input is {x:?}")));
    }
    let bias = vector(fields, "bias", outputs, graph)?;
    let mut shape = x.to_vec();
    shape[x.len() - 1] = outputs;
    let cost = count(x).saturating_mul(outputs);
    Ok((Op::Linear { weight, bias }, shape, cost))
}

fn conv1d(fields: &mut Fields, x: &[usize], graph: &mut Builder<'_>) -> Result<(Op, Vec<usize>, usize), PolicyError> {
    let weight = needed(fields, "weight", graph)?;
    let (&[channels, length], &[filters, of, kernel]) = (x, tensor_shape(graph, weight)) else {
        return Err(misfit(
            fields,
            graph,
            weight,
            &format!("[filters, channels, kernel]; input [channels, length] for {x:?}"),
        ));
    };
    if of != channels {
        return Err(misfit(fields, graph, weight, &format!("[filters, {channels}, kernel], as the input is {x:?}")));
    }
    let bias = vector(fields, "bias", filters, graph)?;
    let stride = fields.size("stride", 1, MAX_VALUES, Some(1))?;
    let padding = fields.size("padding", 0, MAX_VALUES, Some(0))?;
    let dilation = fields.size("dilation", 1, MAX_VALUES, Some(1))?;
    let reach = kernel.saturating_sub(1).saturating_mul(dilation) + 1;
    if kernel == 0 || reach > length + 2 * padding {
        let found = format!("a kernel that reaches over {reach} entries");
        return Err(fields.error(found, &format!("at most {} (length and padding)", length + 2 * padding)));
    }
    let steps = (length + 2 * padding - reach) / stride + 1;
    let cost = steps.saturating_mul(filters).saturating_mul(channels * kernel);
    Ok((Op::Conv1d { weight, bias, stride, padding, dilation }, vec![filters, steps], cost))
}

fn cell(
    fields: &mut Fields,
    shapes: &[Vec<usize>],
    graph: &mut Builder<'_>,
    gates: usize,
) -> Result<(Op, Vec<usize>, usize), PolicyError> {
    let x = &shapes[0];
    let (weight_ih, weight_hh) = (needed(fields, "weight_ih", graph)?, needed(fields, "weight_hh", graph)?);
    let (&[rows, hidden], Some(&inputs), 1..=2) = (tensor_shape(graph, weight_hh), x.last(), x.len()) else {
        return Err(misfit(fields, graph, weight_hh, "[gates x hidden, hidden]; input [in] or [steps, in]"));
    };
    if hidden == 0 || rows != gates * hidden {
        return Err(misfit(fields, graph, weight_hh, &format!("[{gates} x hidden, hidden]")));
    }
    if *tensor_shape(graph, weight_ih) != [rows, inputs] {
        return Err(misfit(fields, graph, weight_ih, &format!("[{rows}, {inputs}], as the input is {x:?}")));
    }
    let (bias_ih, bias_hh) = (vector(fields, "bias_ih", rows, graph)?, vector(fields, "bias_hh", rows, graph)?);
    let biases = match (bias_ih, bias_hh) {
        (Some(a), Some(b)) => Some((a, b)),
        (None, None) => None,
        _ => return Err(fields.error("one bias".into(), "both bias_ih and bias_hh, or neither")),
    };
    let state = if gates == 4 { 2 * hidden } else { hidden };
    if shapes.get(1).is_some_and(|shape| *shape != [state]) {
        return Err(fields.error(format!("a state of shape {:?}", shapes[1]), &format!("[{state}]")));
    }
    let steps = if x.len() == 2 { x[0] } else { 1 };
    let mut shape = x[..x.len() - 1].to_vec();
    shape.push(state);
    let cost = steps.saturating_mul(rows).saturating_mul(inputs + hidden);
    let cell = Cell { weight_ih, weight_hh, biases };
    Ok((if gates == 4 { Op::Lstm(cell) } else { Op::Gru(cell) }, shape, cost))
}

fn layer_norm(
    fields: &mut Fields,
    x: &[usize],
    graph: &mut Builder<'_>,
) -> Result<(Op, Vec<usize>, usize), PolicyError> {
    let Some(&width) = x.last() else { return Err(fields.error("an input without axes".into(), "one axis or more")) };
    let (weight, bias) = (vector(fields, "weight", width, graph)?, vector(fields, "bias", width, graph)?);
    let eps = fields.number("eps", 1e-5)?;
    if eps <= 0.0 {
        return Err(fields.error(format!("eps {eps}"), "a number above 0"));
    }
    Ok((Op::LayerNorm { weight, bias, eps }, x.to_vec(), 2 * count(x)))
}

fn concat(fields: &mut Fields, shapes: &[Vec<usize>]) -> Result<(Op, Vec<usize>, usize), PolicyError> {
    let axis = axis(fields, &shapes[0])?;
    let mut shape = shapes[0].clone();
    for other in &shapes[1..] {
        let fits = other.len() == shape.len() && (0..shape.len()).all(|k| k == axis || other[k] == shape[k]);
        if !fits {
            let found = format!("shapes {:?} and {other:?}", shapes[0]);
            return Err(fields.error(found, &format!("equal shapes but for axis {axis}")));
        }
        shape[axis] = shape[axis].saturating_add(other[axis]);
    }
    let size = shape.iter().fold(1_usize, |n, axis| n.saturating_mul(*axis));
    Ok((Op::Concat { axis }, shape, size))
}

fn gelu(fields: &mut Fields) -> Result<Function, PolicyError> {
    match fields.take("approximate") {
        None => Ok(Function::Gelu),
        Some(Json::String(text)) if text == "none" => Ok(Function::Gelu),
        Some(Json::String(text)) if text == "tanh" => Ok(Function::GeluTanh),
        Some(other) => Err(fields.error(format!("approximate {}", short(&other)), "\"none\" or \"tanh\"")),
    }
}

fn constant(
    fields: &mut Fields,
    key: &str,
    x: &[usize],
    graph: &mut Builder<'_>,
) -> Result<Option<Constant>, PolicyError> {
    match fields.take(key) {
        None => Ok(None),
        Some(Json::String(name)) => {
            let id = graph.tensor_named(&name)?;
            if broadcast(x, tensor_shape(graph, id)).is_none_or(|shape| shape != x) {
                return Err(misfit(fields, graph, id, &format!("one that repeats to the input's, {x:?}")));
            }
            Ok(Some(Constant::Tensor(id)))
        }
        Some(value) => {
            let number = value.as_f64().map(|x| x as f32).filter(|x| x.is_finite());
            let expected = "a finite number or the name of a tensor";
            number
                .map(|x| Some(Constant::Number(x)))
                .ok_or_else(|| fields.error(format!("{key} {}", short(&value)), expected))
        }
    }
}

fn needed(fields: &mut Fields, key: &str, graph: &mut Builder<'_>) -> Result<TensorId, PolicyError> {
    graph.tensor(fields, key)?.ok_or_else(|| fields.error(format!("no {key:?}"), "the name of a tensor"))
}

/// An optional tensor of shape `[length]`.
fn vector(
    fields: &mut Fields,
    key: &str,
    length: usize,
    graph: &mut Builder<'_>,
) -> Result<Option<TensorId>, PolicyError> {
    let id = graph.tensor(fields, key)?;
    match id {
        Some(id) if *tensor_shape(graph, id) != [length] => Err(misfit(fields, graph, id, &format!("[{length}]"))),
        id => Ok(id),
    }
}

fn tensor_shape<'a>(graph: &'a Builder<'_>, id: TensorId) -> &'a [usize] {
    &graph.named(id).shape
}

fn misfit(fields: &Fields, graph: &Builder<'_>, id: TensorId, expected: &str) -> PolicyError {
    let tensor = graph.named(id);
    fields.error(format!("tensor {:?} of shape {:?}", tensor.name, tensor.shape), expected)
}

fn axis(fields: &mut Fields, x: &[usize]) -> Result<usize, PolicyError> {
    if x.is_empty() {
        return Err(fields.error("an input without axes".into(), "one axis or more"));
    }
    fields.size("axis", 0, x.len() - 1, None)
}

/// The shape that both repeat to, if any: axes are matched from the last, and one of length 1 repeats.
pub(super) fn broadcast(a: &[usize], b: &[usize]) -> Option<Vec<usize>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[usize], k: usize| (k + shape.len()).checked_sub(rank).map_or(1, |k| shape[k]);
    (0..rank)
        .map(|k| match (at(a, k), at(b, k)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect()
}
