//! Bounds of every value of an integer policy, whatever is observed: the proof that nothing overflows.

use super::{LAYER_NORM_BITS, Op, Step, interpolate, round_shift};

/// Lower and upper bound of one value.
pub(super) type Range = (i64, i64);

/// Sums and products stay below this, so that adding half a unit before a shift stays within 64 bits too.
const LIMIT: i128 = 1 << 62;

/// A sum that could leave 64 bits, or a value that could leave 32.
#[derive(Debug)]
pub(super) struct Overflow {
    /// Largest possible magnitude.
    pub(super) reach: i128,
    /// Largest allowed magnitude.
    pub(super) limit: i128,
}

/// The ranges of what `step` gives, from those of the `values` before it.
///
/// # Errors
/// If something could overflow.
pub(super) fn of(step: &Step, weights: &[u16], constants: &[i64], values: &[Range]) -> Result<Vec<Range>, Overflow> {
    let constants = &constants[step.constants..];
    let (x, z) = (&values[step.input..], &values[step.second..]);
    let each = |f: &dyn Fn(usize, Range) -> Result<Range, Overflow>| -> Result<Vec<Range>, Overflow> {
        (0..step.rows * step.outputs).map(|i| f(i, x[i])).collect()
    };
    match step.op {
        Op::Gather => constants[..step.outputs]
            .iter()
            .map(|index| usize::try_from(*index).map_or(Ok((0, 0)), |k| shifted(wide(x[k]), step.shift)))
            .collect(),
        Op::Linear => {
            let rows = weights[step.weights..].chunks_exact(step.inputs);
            x.chunks_exact(step.inputs)
                .take(step.rows)
                .flat_map(|x| {
                    rows.clone()
                        .zip(constants.chunks_exact(2))
                        .take(step.outputs)
                        .map(|(row, c)| shifted(sum(row, x, c[0])?, c[1] as u32))
                })
                .collect()
        }
        Op::Clip => each(&|_, (a, b)| {
            let (low, high) = (i64::from(step.low), i64::from(step.high));
            Ok((a.clamp(low, high), b.clamp(low, high)))
        }),
        Op::Table => each(&|_, x| table(step, constants, x)),
        Op::Add => each(&|i, x| {
            let ((a, b), (c, d)) = (times(x, constants[0]), times(z[i], constants[1]));
            shifted((a + c, b + d), step.shift)
        }),
        Op::Mul => each(&|i, (a, b)| {
            let (c, d) = z[i];
            let products = [a * c, a * d, b * c, b * d].map(i128::from);
            shifted(bounds(&products), step.shift)
        }),
        Op::Affine => each(&|i, x| {
            let (a, b) = times(x, constants[2 * i]);
            let shift = i128::from(constants[2 * i + 1]);
            shifted((a + shift, b + shift), step.shift)
        }),
        Op::LayerNorm => {
            let n = step.inputs as i128;
            let reach = x[..step.rows * step.inputs].iter().map(|(a, b)| i128::from(b - a)).max().unwrap_or(0);
            let squares = n << (2 * LAYER_NORM_BITS);
            fits(n * n * reach.max(1))?;
            fits(squares + i128::from(constants[1]))?;
            fits(i128::from(constants[0]) << LAYER_NORM_BITS)?;
            // With the root rounded down, a deviation is less than twice it.
            let range = shifted((-2 * i128::from(constants[0]), 2 * i128::from(constants[0])), 0)?;
            Ok(vec![range; step.rows * step.inputs])
        }
    }
}

/// The range of an entry of the normalised observation; `c` are its constants.
pub(super) fn entry(c: &[i64]) -> Result<Range, Overflow> {
    let (low, high) = times((c[0] - c[2], c[1] - c[2]), c[3]);
    fits(low.abs().max(high.abs()))?;
    let scaled = (round_shift(low as i64, c[4] as u32), round_shift(high as i64, c[4] as u32));
    shifted((i128::from(scaled.0.clamp(c[5], c[6])), i128::from(scaled.1.clamp(c[5], c[6]))), 0)
}

/// The range of Σ w x + bias. Every partial sum counts, in the order of the inputs and without the bias, and so do those
/// with weights of which 32768 is still to be subtracted.
pub(super) fn sum(row: &[u16], x: &[Range], bias: i64) -> Result<(i128, i128), Overflow> {
    let (mut low, mut high, mut reach) = (0, 0, 0);
    for (w, x) in row.iter().zip(x) {
        let (a, b) = times(*x, i64::from(*w) - 32768);
        (low, high) = (low + a, high + b);
        reach += i128::from(x.0.abs().max(x.1.abs())) << 16;
    }
    fits(reach + i128::from(bias).abs())?;
    Ok((low + i128::from(bias), high + i128::from(bias)))
}

fn table(step: &Step, constants: &[i64], (a, b): Range) -> Result<Range, Overflow> {
    let (low, high) = (a.clamp(step.low.into(), step.high.into()), b.clamp(step.low.into(), step.high.into()));
    let knots = &constants[1..step.inputs + 2];
    let place = |k: usize| constants[0] + ((k as i64) << step.shift);
    let steepest = knots.windows(2).map(|k| i128::from(k[1] - k[0]).abs()).max().unwrap_or(0);
    fits(steepest * i128::from((high - constants[0]).abs().max((low - constants[0]).abs())))?;
    // Straight between the knots, hence extreme at them or at the ends.
    let between = (0..knots.len()).filter(|k| (low..=high).contains(&place(*k))).map(|k| knots[k]);
    let ends = [low, high].map(|x| interpolate(step, constants, x as i32));
    let all: Vec<i128> = between.chain(ends).map(i128::from).collect();
    shifted(bounds(&all), 0)
}

fn shifted((low, high): (i128, i128), shift: u32) -> Result<Range, Overflow> {
    fits(low.abs().max(high.abs()))?;
    let range = (round_shift(low as i64, shift), round_shift(high as i64, shift));
    let reach = i128::from(range.0.abs().max(range.1.abs()));
    let limit = i128::from(i32::MAX);
    if reach > limit { Err(Overflow { reach, limit }) } else { Ok(range) }
}

fn fits(reach: i128) -> Result<(), Overflow> {
    if reach >= LIMIT { Err(Overflow { reach, limit: LIMIT }) } else { Ok(()) }
}

fn times((a, b): Range, factor: i64) -> (i128, i128) {
    let (a, b) = (i128::from(a) * i128::from(factor), i128::from(b) * i128::from(factor));
    (a.min(b), a.max(b))
}

fn wide((a, b): Range) -> (i128, i128) {
    (a.into(), b.into())
}

fn bounds(values: &[i128]) -> (i128, i128) {
    (values.iter().copied().min().unwrap_or(0), values.iter().copied().max().unwrap_or(0))
}
