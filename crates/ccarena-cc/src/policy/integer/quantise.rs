//! Conversion of a network in float32 into an integer policy, step by step, with the range of every value.

mod cells;
mod operations;

use super::super::error::PolicyError;
use super::super::graph::{Graph, count};
use super::super::{Normalisation, Policy};
use super::ranges::{self, Overflow, Range};
use super::{OBSERVATION_BITS, OBSERVATION_LIMIT, Op, PER_ENTRY, Program, Step, fixed, power};

/// Largest number of values that the arrays of a kernel or of a small machine hold.
const MAX_VALUES: usize = 1 << 15;
const MAX_STEPS: usize = 1 << 10;
const MAX_WEIGHTS: usize = 1 << 20;
const MAX_CONSTANTS: usize = 1 << 17;
/// Most bits after a value's binary point, and bits that its range may take.
const POINT: u32 = 18;
const WIDTH: u32 = 30;
/// A recurrent state that no smaller bound holds is held to ±2 to the power of this.
const STATE: u32 = 7;
/// Largest 16-bit weight.
const WEIGHT: f64 = 32767.0;

impl Program {
    /// The integer form of `policy`.
    ///
    /// # Errors
    /// [`PolicyError::Graph`] with the place in the graph: an operation without an integer form, weights or values too
    /// large, a sum that could overflow, or a network that is too large altogether.
    pub fn of(policy: &Policy) -> Result<Self, PolicyError> {
        let graph = policy.graph();
        let mut reach = vec![0; graph.states.len()];
        loop {
            let (builder, larger) = attempt(policy, graph, &reach)?;
            if larger.is_empty() {
                return Ok(builder.program);
            }
            for state in larger {
                reach[state] += 1;
            }
        }
    }
}

/// The program if each state is held to ±2^`reach`, and the states for which a larger bound would change less.
fn attempt<'g>(policy: &Policy, graph: &'g Graph, reach: &[u32]) -> Result<(Builder<'g>, Vec<usize>), PolicyError> {
    let program = Program {
        observation: graph.shape(0)[0],
        state: graph.state_len(),
        next: vec![],
        steps: vec![],
        weights: vec![],
        constants: vec![],
        values: 0,
        output: (0, 0),
        output_bits: 0,
        bounds: None,
    };
    let mut builder =
        Builder { graph, program, ranges: vec![], placed: vec![], node: "integer form of the observation".into() };
    builder.observe(&policy.normalisation)?;
    for (state, reach) in graph.states.iter().zip(reach) {
        let bits = POINT.min(WIDTH - reach);
        let place = builder.ranges.len();
        let bound = 1_i64 << (bits + reach);
        builder.ranges.extend(vec![(-bound, bound); count(graph.shape(state.value))]);
        builder.placed.push(Placed { place, bits });
    }
    for node in &graph.nodes {
        builder.node = format!("integer form of graph node {:?}", graph.values[node.output].name);
        let placed = builder.operation(node)?;
        builder.placed.push(placed);
    }
    let mut larger = vec![];
    for (index, (state, reach)) in graph.states.iter().zip(reach).enumerate() {
        builder.node = format!("integer form of state {:?}", graph.values[state.value].name);
        let (next, length) = (builder.placed[state.next], count(graph.shape(state.next)));
        let bound = 1_i64 << (next.bits + reach);
        if builder.reach(next, length) > bound && *reach < STATE {
            larger.push(index);
        }
        let held = builder.clip(next, length, -bound, bound)?;
        let next = builder.rescale(held, length, builder.placed[state.value].bits)?;
        builder.program.next.push((next.place, length));
    }
    let output = builder.placed[graph.output];
    builder.program.output = (output.place, policy.outputs());
    builder.program.output_bits = output.bits;
    builder.program.values = builder.ranges.len();
    if policy.trained().actions.is_empty() {
        let &[(low, high)] = &policy.trained().bounds[..] else {
            let found = "a continuous action of several numbers";
            return Err(builder.refused(found, "one number, or discrete actions (`levels`)"));
        };
        // Inwards; a cast saturates.
        let unit = |x: f32| f64::from(x) * power(output.bits);
        let (low, high) = (unit(low).ceil() as i32, unit(high).floor() as i32);
        if low > high {
            let expected = "bounds that are further apart, or smaller weights";
            return Err(builder.refused("an action whose bounds have nothing between them", expected));
        }
        builder.program.bounds = Some((low, high));
    }
    Ok((builder, larger))
}

/// Place of a value, and its binary point: its numbers are multiples of 2^-bits.
#[derive(Clone, Copy)]
struct Placed {
    place: usize,
    bits: u32,
}

struct Builder<'g> {
    graph: &'g Graph,
    program: Program,
    ranges: Vec<Range>,
    /// Places by value of the graph.
    placed: Vec<Placed>,
    /// Node being converted, for messages.
    node: String,
}

impl Builder<'_> {
    fn refused(&self, found: impl Into<String>, expected: impl Into<String>) -> PolicyError {
        PolicyError::Graph { place: self.node.clone(), found: found.into(), expected: expected.into() }
    }

    fn overflow(&self, Overflow { reach, limit }: &Overflow) -> PolicyError {
        let found = format!("a sum or value that could reach {reach} for an admitted observation");
        self.refused(found, format!("less than {limit}: train with smaller weights, or with a penalty on them"))
    }

    /// Appends a step, whose result lies after all other values.
    fn push(&mut self, mut step: Step, bits: u32) -> Result<Placed, PolicyError> {
        step.output = self.ranges.len();
        let ranges = ranges::of(&step, &self.program.weights, &self.program.constants, &self.ranges);
        self.ranges.extend(ranges.map_err(|e| self.overflow(&e))?);
        let place = step.output;
        self.program.steps.push(step);
        let Program { steps, weights, constants, .. } = &self.program;
        for (what, found, most) in [
            ("values", self.ranges.len(), MAX_VALUES),
            ("steps", steps.len(), MAX_STEPS),
            ("weights", weights.len(), MAX_WEIGHTS),
            ("constants", constants.len(), MAX_CONSTANTS),
        ] {
            if found > most {
                let expected = format!("at most {most}: train a smaller network");
                return Err(self.refused(format!("{found} {what} so far"), expected));
            }
        }
        Ok(Placed { place, bits })
    }

    fn constants(&mut self, new: impl IntoIterator<Item = i64>) -> usize {
        let start = self.program.constants.len();
        self.program.constants.extend(new);
        start
    }

    /// Returns the largest magnitude of `length` numbers.
    fn reach(&self, x: Placed, length: usize) -> i64 {
        self.ranges[x.place..x.place + length].iter().map(|(a, b)| a.abs().max(b.abs())).max().unwrap_or(0)
    }

    /// The same, in the unit of the network.
    fn real(&self, x: Placed, length: usize) -> f64 {
        self.reach(x, length) as f64 / power(x.bits)
    }

    /// The binary point for numbers up to `reach`, at most `most`.
    fn point(&self, reach: f64, most: u32) -> Result<u32, PolicyError> {
        let fits = |bits: &u32| reach * power(*bits) <= power(WIDTH);
        (0..=POINT.min(most)).rev().find(fits).ok_or_else(|| {
            let found = format!("values that could reach {reach:.3e} for an admitted observation");
            self.refused(found, format!("at most {:.3e}: train with smaller weights", power(WIDTH)))
        })
    }

    /// The observation's normalisation.
    fn observe(&mut self, normalisation: &Normalisation) -> Result<(), PolicyError> {
        let Normalisation { offset, scale, low, high } = normalisation;
        let reach = low.iter().chain(high).fold(0.0_f64, |reach, x| reach.max(f64::from(x.abs())));
        let bits = self.point(reach, POINT)?;
        for i in 0..offset.len() {
            let (offset, scale, low, high) =
                (f64::from(offset[i]), f64::from(scale[i]), f64::from(low[i]), f64::from(high[i]));
            self.node = format!("integer form of the observation's entry {i}");
            // Half a step of the raw observation, in normalised ones.
            if scale.abs() > power(OBSERVATION_BITS - 7) {
                let expected = format!("at most {:?}: observe it in a smaller unit", power(OBSERVATION_BITS - 7));
                return Err(self.refused(format!("a scale of {scale}"), expected));
            }
            let most = OBSERVATION_LIMIT as f64 / power(OBSERVATION_BITS);
            if offset.abs() > most {
                return Err(self.refused(format!("an offset of {offset}"), format!("at most {most:e} either way")));
            }
            // Where the normalised entry is at its bounds, and a little more, for rounding.
            let end = |x: f64| if scale == 0.0 { offset } else { (offset + x / scale).clamp(-most, most) };
            let ends = [end(low), end(high)];
            let margin = |x: f64, sign: f64| x + sign * (1.0 + x.abs() * 1e-6);
            let raw = [margin(ends[0].min(ends[1]), -1.0), margin(ends[0].max(ends[1]), 1.0)]
                .map(|x| fixed(x, OBSERVATION_BITS, OBSERVATION_LIMIT));
            let unit = |x: f64| fixed(x, bits, i32::MAX.into());
            let constants = |precision: u32| {
                let factor = (scale * power(precision) + 0.5).floor() as i64;
                let shift = i64::from(precision + OBSERVATION_BITS - bits);
                let offset = fixed(offset, OBSERVATION_BITS, OBSERVATION_LIMIT);
                [raw[0], raw[1], offset, factor, shift, unit(low), unit(high)]
            };
            // As precise as 64 bits allow.
            let fitting = (0..=40).rev().map(constants).find(|c| c[3].abs() < 1 << 30 && ranges::entry(c).is_ok());
            let constants = fitting.ok_or_else(|| {
                self.refused(format!("an offset of {offset} and a scale of {scale}"), "numbers that fit 64 bits")
            })?;
            self.ranges.push(ranges::entry(&constants).map_err(|e| self.overflow(&e))?);
            let start = self.constants(constants);
            debug_assert_eq!(start, i * PER_ENTRY);
        }
        self.placed.push(Placed { place: 0, bits });
        Ok(())
    }

    /// W x + b for `rows` rows of x; `weight` by rows.
    fn linear(
        &mut self,
        x: Placed,
        rows: usize,
        (weight, bias): (&[f32], Option<&[f32]>),
        outputs: usize,
    ) -> Result<Placed, PolicyError> {
        let inputs = weight.len() / outputs;
        let (first, constant) = (self.program.weights.len(), self.program.constants.len());
        let (mut points, mut reach) = (vec![], 0.0_f64);
        for (o, row) in weight.chunks_exact(inputs).enumerate() {
            let bias = bias.map_or(0.0, |b| f64::from(b[o]));
            let largest = row.iter().fold(0.0_f64, |m, w| m.max(f64::from(w.abs())));
            let fits = |k: &u32| largest * power(*k) <= WEIGHT && bias.abs() * power(k + x.bits) < power(60);
            let Some(scale) = (0..=40).rev().find(fits) else {
                let found = format!("weights up to {largest:.3e} and a bias of {bias:.3e}");
                return Err(self.refused(found, format!("weights up to {WEIGHT}: train with smaller ones")));
            };
            let row = row.iter().map(|w| (fixed(f64::from(*w), scale, WEIGHT as i64) + 32768) as u16);
            self.program.weights.extend(row);
            let (bias, point) = (fixed(bias, scale + x.bits, 1 << 61), scale + x.bits);
            let row = &self.program.weights[first + o * inputs..];
            for r in 0..rows {
                let given = &self.ranges[x.place + r * inputs..x.place + (r + 1) * inputs];
                let (low, high) = ranges::sum(row, given, bias).map_err(|e| self.overflow(&e))?;
                reach = reach.max(low.abs().max(high.abs()) as f64 / power(point));
            }
            points.push(point);
            self.program.constants.extend([bias, 0]);
        }
        let bits = self.point(reach, points.iter().copied().min().unwrap_or(0))?;
        for (o, point) in points.into_iter().enumerate() {
            self.program.constants[constant + 2 * o + 1] = i64::from(point - bits);
        }
        let step =
            Step { rows, inputs, weights: first, constants: constant, ..Step::new(Op::Linear, x.place, 0, outputs) };
        self.push(step, bits)
    }

    /// The values at these places; zero for none.
    fn gather(&mut self, places: Vec<Option<usize>>, bits: u32, shift: u32) -> Result<Placed, PolicyError> {
        let length = places.len();
        let constants = self.constants(places.into_iter().map(|place| place.map_or(-1, |p| p as i64)));
        self.push(Step { constants, shift, ..Step::new(Op::Gather, 0, 0, length) }, bits - shift)
    }

    fn clip(&mut self, x: Placed, length: usize, low: i64, high: i64) -> Result<Placed, PolicyError> {
        let bound = |x: i64| x.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let step = Step { low: bound(low), high: bound(high), ..Step::new(Op::Clip, x.place, 0, length) };
        self.push(step, x.bits)
    }

    /// The same numbers with another binary point, for which there has to be room.
    fn rescale(&mut self, x: Placed, length: usize, bits: u32) -> Result<Placed, PolicyError> {
        if bits == x.bits {
            return Ok(x);
        }
        if bits < x.bits {
            return self.gather((x.place..x.place + length).map(Some).collect(), x.bits, x.bits - bits);
        }
        let constants = self.constants([1 << (bits - x.bits), 0].repeat(length));
        self.push(Step { constants, ..Step::new(Op::Affine, x.place, 0, length) }, bits)
    }

    /// x + z, or x - z.
    fn add(&mut self, x: Placed, z: Placed, length: usize, sign: i64) -> Result<Placed, PolicyError> {
        let point = x.bits.max(z.bits);
        let bits = self.point(self.real(x, length) + self.real(z, length), point)?;
        let constants = self.constants([1 << (point - x.bits), sign << (point - z.bits)]);
        let step = Step::new(Op::Add, x.place, 0, length);
        self.push(Step { second: z.place, constants, shift: point - bits, ..step }, bits)
    }

    /// x z.
    fn mul(&mut self, x: Placed, z: Placed, length: usize) -> Result<Placed, PolicyError> {
        let point = x.bits + z.bits;
        let bits = self.point(self.real(x, length) * self.real(z, length), point)?;
        let step = Step::new(Op::Mul, x.place, 0, length);
        self.push(Step { second: z.place, shift: point - bits, ..step }, bits)
    }

    /// scale x + shift, by entry.
    fn affine(&mut self, x: Placed, scale: &[f32], shift: &[f32]) -> Result<Placed, PolicyError> {
        let largest = |numbers: &[f32]| numbers.iter().fold(0.0_f64, |m, w| m.max(f64::from(w.abs())));
        let (scale_reach, shift_reach) = (largest(scale), largest(shift));
        let fits = |k: &u32| scale_reach * power(*k) <= power(24) && shift_reach * power(k + x.bits) < power(60);
        let Some(precision) = (0..=40).rev().find(fits) else {
            let found = format!("a scale up to {scale_reach:.3e} and a shift up to {shift_reach:.3e}");
            return Err(self.refused(found, format!("a scale up to {}", power(24))));
        };
        let reach = (0..scale.len()).fold(0.0_f64, |reach, i| {
            let (a, b) = self.ranges[x.place + i];
            let at = |q: i64| (q as f64 / power(x.bits) * f64::from(scale[i]) + f64::from(shift[i])).abs();
            reach.max(at(a)).max(at(b))
        });
        let point = precision + x.bits;
        let bits = self.point(reach, point)?;
        let pairs = scale.iter().zip(shift);
        let constants: Vec<i64> = pairs
            .flat_map(|(scale, shift)| {
                [fixed(f64::from(*scale), precision, 1 << 25), fixed(f64::from(*shift), point, 1 << 61)]
            })
            .collect();
        let constants = self.constants(constants);
        self.push(Step { constants, shift: point - bits, ..Step::new(Op::Affine, x.place, 0, scale.len()) }, bits)
    }
}
