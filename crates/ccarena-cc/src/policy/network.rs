//! The architecture `acct-conv`: each series of the observation through a convolution as wide as itself, hence a
//! matrix product, then one hidden layer, with rectifiers between (ACCT §II-C, Fig. 3).

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
    /// Length of the hidden layer's input.
    pub(super) fn features(&self) -> usize {
        self.hidden.inputs
    }

    /// Length of the hidden layer's output.
    pub(super) fn hidden(&self) -> usize {
        self.hidden.outputs()
    }

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

    fn outputs(&self) -> usize {
        self.bias.len()
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
