//! The architectures. `acct-conv`: each series of the observation through a convolution as wide as itself, hence a
//! matrix product, then one hidden layer, with rectifiers between (ACCT §II-C, Fig. 3). `mlp`: hidden layers with
//! rectifiers, and one output, the action.

/// A network that decides.
#[derive(Clone, Debug)]
pub(super) enum Actor {
    Conv(Tower),
    Mlp(Mlp),
}

impl Actor {
    pub(super) fn forward(&self, input: &[f32], features: &mut Vec<f32>, hidden: &mut Vec<f32>, out: &mut Vec<f32>) {
        match self {
            Self::Conv(tower) => tower.forward(input, features, hidden, out),
            Self::Mlp(mlp) => mlp.forward(input, features, hidden, out),
        }
    }
}

/// Fully connected layers.
#[derive(Clone, Debug)]
pub(super) struct Mlp {
    pub(super) hidden: Vec<Linear>,
    /// To one output.
    pub(super) out: Linear,
    /// The output goes through tanh from -1..1 to the bounds; else it is held to them.
    pub(super) squash: bool,
    pub(super) bounds: (f32, f32),
}

impl Mlp {
    fn forward(&self, input: &[f32], before: &mut Vec<f32>, after: &mut Vec<f32>, out: &mut Vec<f32>) {
        before.clear();
        before.extend_from_slice(input);
        for layer in &self.hidden {
            after.clear();
            layer.forward(before, after);
            rectify(after);
            std::mem::swap(before, after);
        }
        out.clear();
        self.out.forward(before, out);
        let (low, high) = self.bounds;
        for x in out {
            *x = if self.squash { low + (high - low) * (0.5 + 0.5 * tanh(*x)) } else { *x }.clamp(low, high);
        }
    }
}

/// tanh by additions and multiplications alone, within 1e-7 of it: a platform's own differs from another's.
fn tanh(x: f32) -> f32 {
    // Beyond this it is 1 in float32.
    let x = f64::from(x.clamp(-20.0, 20.0)) * 2.0;
    // e^x = 2^k e^r with |r| <= ln(2)/2, for which the series below ends within 1e-16.
    let k = (x / std::f64::consts::LN_2).round();
    let r = x - k * std::f64::consts::LN_2;
    let series = (1..=13).rev().fold(1.0, |sum, n| 1.0 + sum * r / f64::from(n));
    let power = f64::from_bits(((k as i64 + 1023) as u64) << 52);
    let e = series * power;
    ((e - 1.0) / (e + 1.0)) as f32
}

/// A network with one trunk: actor or critic.
#[derive(Clone, Debug)]
pub(super) struct Tower {
    /// In the order of the observation, which begins with their series.
    pub(super) convolutions: Vec<Linear>,
    /// Takes the convolutions' outputs and then the observation's scalars.
    pub(super) hidden: Linear,
    pub(super) out: Linear,
}

impl Tower {
    pub(super) fn forward(&self, input: &[f32], features: &mut Vec<f32>, hidden: &mut Vec<f32>, out: &mut Vec<f32>) {
        features.clear();
        let mut rest = input;
        for convolution in &self.convolutions {
            let (series, next) = rest.split_at(convolution.inputs);
            convolution.forward(series, features);
            rest = next;
        }
        rectify(features);
        features.extend_from_slice(rest);
        hidden.clear();
        self.hidden.forward(features, hidden);
        rectify(hidden);
        out.clear();
        self.out.forward(hidden, out);
    }
}

/// y = W x + b, with W by columns: the inner loop then runs over independent outputs and vectorises without changing
/// the order of any sum.
#[derive(Clone, Debug)]
pub(super) struct Linear {
    pub(super) inputs: usize,
    columns: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// From `weight` `[outputs, inputs]` by rows and `bias` `[outputs]`.
    pub(super) fn new(weight: &[f32], bias: Vec<f32>, inputs: usize) -> Self {
        let outputs = bias.len();
        let columns = (0..inputs).flat_map(|i| (0..outputs).map(move |o| weight[o * inputs + i])).collect();
        Self { inputs, columns, bias }
    }

    /// Appends the outputs to `out`.
    fn forward(&self, x: &[f32], out: &mut Vec<f32>) {
        let start = out.len();
        out.extend_from_slice(&self.bias);
        let y = &mut out[start..];
        for (x, column) in x.iter().zip(self.columns.chunks_exact(self.bias.len())) {
            // About half of what a rectifier passes on.
            if *x == 0.0 {
                continue;
            }
            for (y, w) in y.iter_mut().zip(column) {
                *y += x * w;
            }
        }
    }
}

fn rectify(values: &mut [f32]) {
    for x in values {
        *x = x.max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tanh_is_within_rounding_of_the_platforms() {
        for i in -30_000..=30_000 {
            let x = i as f32 / 1000.0;
            assert!((tanh(x) - x.tanh()).abs() <= 1.2e-7, "tanh({x}) = {}; expected {}", tanh(x), x.tanh());
        }
        assert!((tanh(f32::MAX) - 1.0).abs() < 1e-9 && (tanh(f32::MIN) + 1.0).abs() < 1e-9);
    }

    #[test]
    fn an_output_is_squashed_or_held_to_the_bounds() {
        let mlp = |squash| Mlp {
            hidden: vec![Linear::new(&[1.0, -1.0], vec![0.0, 0.0], 1)],
            out: Linear::new(&[3.0, -3.0], vec![0.0], 2),
            squash,
            bounds: (-2.0, 2.0),
        };
        let run = |squash, x: f32| {
            let (mut a, mut b, mut out) = (Vec::new(), Vec::new(), Vec::new());
            mlp(squash).forward(&[x], &mut a, &mut b, &mut out);
            out[0]
        };
        for x in [-5.0, -0.1, 0.0, 0.3, 5.0_f32] {
            assert!((run(true, x) - 2.0 * (3.0 * x).tanh()).abs() < 1e-6);
            assert!((run(false, x) - (3.0 * x).clamp(-2.0, 2.0)).abs() < 1e-6);
        }
    }
}
