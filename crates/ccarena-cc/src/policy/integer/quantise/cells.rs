//! Recurrent cells as steps, unrolled over a sequence.

use super::super::super::error::PolicyError;
use super::super::super::graph::{Cell, Function, Node};
use super::{Builder, POINT, Placed};

impl Builder<'_> {
    pub(super) fn gru(&mut self, cell: &Cell, node: &Node, shape: &[usize]) -> Result<Placed, PolicyError> {
        let n = self.graph.tensors[cell.weight_hh].shape[1];
        self.steps(cell, node, shape, n, |b, a, h, before| {
            let gates = b.add(a, h, 2 * n, 1)?;
            let gates = b.map(Function::Sigmoid, gates, 2 * n)?;
            let (reset, keep) = (gates, gates.after(n));
            let new = b.mul(reset, h.after(2 * n), n)?;
            let new = b.add(a.after(2 * n), new, n, 1)?;
            let new = b.map(Function::Tanh, new, n)?;
            // (1 - z) n + z h = n + z (h - n), which lies between n and h.
            let change = b.add(before, new, n, -1)?;
            let change = b.mul(keep, change, n)?;
            let after = b.add(new, change, n, 1)?;
            let bound = b.reach(before, n).max(1 << before.bits);
            let bound = if after.bits < before.bits {
                bound >> (before.bits - after.bits)
            } else {
                bound << (after.bits - before.bits)
            };
            b.clip(after, n, -bound, bound)
        })
    }

    pub(super) fn lstm(&mut self, cell: &Cell, node: &Node, shape: &[usize]) -> Result<Placed, PolicyError> {
        let n = self.graph.tensors[cell.weight_hh].shape[1];
        self.steps(cell, node, shape, 2 * n, |b, a, h, before| {
            let sums = b.add(a, h, 4 * n, 1)?;
            let taken = b.map(Function::Sigmoid, sums, 2 * n)?;
            let given = b.map(Function::Sigmoid, sums.after(3 * n), n)?;
            let new = b.map(Function::Tanh, sums.after(2 * n), n)?;
            let (new, kept) = (b.mul(taken, new, n)?, b.mul(taken.after(n), before.after(n), n)?);
            let c = b.add(kept, new, n, 1)?;
            let shown = b.map(Function::Tanh, c, n)?;
            let h = b.mul(given, shown, n)?;
            b.concat(&[(h, n), (c, n)], 1)
        })
    }

    /// The states, of `width` numbers, after each step of `step(input's gates, state's gates, state before)`.
    fn steps(
        &mut self,
        cell: &Cell,
        node: &Node,
        shape: &[usize],
        width: usize,
        step: impl Fn(&mut Self, Placed, Placed, Placed) -> Result<Placed, PolicyError>,
    ) -> Result<Placed, PolicyError> {
        let graph = self.graph;
        let weights = |id: usize| &graph.tensors[id].data[..];
        let (bias_ih, bias_hh) = cell.biases.map(|(a, b)| (weights(a), weights(b))).unzip();
        let gates = graph.tensors[cell.weight_hh].shape[0];
        let (x, inputs) = (self.placed[node.inputs[0]], shape[shape.len() - 1]);
        let mut before = match node.inputs.get(1) {
            Some(state) => self.placed[*state],
            None => self.gather(vec![None; width], POINT, 0)?,
        };
        let mut states = vec![];
        for row in 0..if shape.len() == 2 { shape[0] } else { 1 } {
            let of_input = self.linear(x.after(row * inputs), 1, (weights(cell.weight_ih), bias_ih), gates)?;
            let of_state = self.linear(before, 1, (weights(cell.weight_hh), bias_hh), gates)?;
            before = step(self, of_input, of_state, before)?;
            states.push((before, width));
        }
        if states.len() == 1 { Ok(before) } else { self.concat(&states, 1) }
    }
}

impl Placed {
    /// Returns the place `numbers` further.
    fn after(self, numbers: usize) -> Self {
        Self { place: self.place + numbers, bits: self.bits }
    }
}
