//! Rewards of the shipped learned schemes, of one interval each. `ccarena/NAME/rewards.py` says what each is and names the
//! columns of the report that it reads, in the order in which they stand here.
//!
//! Columns are float32, and so is what is computed from them alone: a reward is the same number wherever it is computed.

/// A reward, with its coefficients in the order of its function's parameters.
#[derive(Clone, Debug)]
pub enum Reward {
    /// ACCT's (equations 5 to 7 of its paper): `omega`, `zeta`, `beta`, and the scheme's actions.
    Acct([f64; 3], Vec<f64>),
    /// Aurora's (§4.2 of its paper): `throughput`, `latency`, `loss`.
    Aurora([f64; 3]),
    /// Hyvar's: `epsilon`, `inference_ms`.
    Hyvar([f64; 2]),
    /// A scalable sender's: `delay_ms`.
    L4s([f64; 1]),
}

/// Column of one interval that a reward reads, by its number.
#[derive(Clone, Copy, Debug)]
pub enum Column {
    /// Column of the report.
    Report(usize),
    /// Column of the privileged state.
    Privileged(usize),
}

/// A reward, and the columns of a scheme's intervals that it reads.
#[derive(Clone, Debug)]
pub struct ColumnReward {
    reward: Reward,
    columns: Vec<Column>,
}

impl ColumnReward {
    /// Returns `reward` of these columns; none if it reads another number of them.
    #[must_use]
    pub fn new(reward: Reward, columns: Vec<Column>) -> Option<Self> {
        (columns.len() == reward.columns()).then_some(Self { reward, columns })
    }

    /// Columns that it reads, in its order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the reward of an interval of which `value` gives a column.
    #[must_use]
    pub fn of(&self, value: impl Fn(Column) -> f32) -> f32 {
        let mut row = [0.0; MOST_COLUMNS];
        row.iter_mut().zip(&self.columns).for_each(|(to, column)| *to = value(*column));
        self.reward.of(&row[..self.columns.len()])
    }
}

/// Most columns that a reward reads.
const MOST_COLUMNS: usize = 6;

/// ACCT's zones, as reports carry them.
const GREEN: f32 = 0.0;
const BLUE: f32 = 3.0;
/// Bits of a packet of Aurora's throughput: 1500 bytes.
const PACKET_BITS: f64 = 12_000.0;
/// Least rate that a scalable sender's reward divides by, Mbit/s.
const LEAST_MBPS: f32 = 1e-3;

impl Reward {
    /// Returns the reward `name`; none if there is none, or if it has another number of coefficients.
    #[must_use]
    pub fn find(name: &str, coefficients: &[f64], actions: Vec<f64>) -> Option<Self> {
        Some(match name {
            "acct" => Self::Acct(coefficients.try_into().ok()?, actions),
            "aurora" => Self::Aurora(coefficients.try_into().ok()?),
            "hyvar" => Self::Hyvar(coefficients.try_into().ok()?),
            "l4s" => Self::L4s(coefficients.try_into().ok()?),
            _ => return None,
        })
    }

    /// Number of columns that it reads, at most [`MOST_COLUMNS`].
    #[must_use]
    pub fn columns(&self) -> usize {
        match self {
            Self::Acct(..) => 5,
            Self::Aurora(_) | Self::L4s(_) => 3,
            Self::Hyvar(_) => 6,
        }
    }

    /// Returns the reward of an interval with these values of its columns; NaN if there are not as many.
    #[must_use]
    pub fn of(&self, row: &[f32]) -> f32 {
        match (self, row) {
            (Self::Acct(coefficients, actions), &[zone, alpha, previous, delay_ratio, lost]) => {
                let [omega, zeta, beta] = *coefficients;
                let highest = actions.last().copied().unwrap_or(0.0) + 1.0;
                let burstiness = (scaled(actions, alpha) - scaled(actions, previous)).abs();
                let mut hold = f64::from(highest as f32 - alpha) - zeta * burstiness;
                hold -= f64::from(beta as f32 * delay_ratio * f32::from(u8::from(zone == BLUE)));
                let value = if zone == GREEN { f64::from(alpha) } else { hold };
                (value - f64::from(omega as f32 * lost)) as f32
            }
            (Self::Aurora(coefficients), &[throughput_mbps, rtt_ms, loss_ratio]) => {
                let [throughput, latency, loss] = coefficients.map(|x| x as f32);
                let packets_per_s = throughput_mbps * (1e6 / PACKET_BITS) as f32;
                throughput * packets_per_s - latency * rtt_ms / 1e3 - loss * loss_ratio
            }
            (Self::Hyvar([epsilon, inference_ms]), &[throughput, loss, highest, rtt, rtt_min, interval]) => {
                let useful = throughput - *epsilon as f32 * loss;
                let best = highest * rtt;
                let power = useful * rtt_min;
                let reward = if best > 0.0 { power / best } else { 0.0 };
                let price = if *inference_ms > 0.0 { *inference_ms as f32 / at_least(interval, 1.0) } else { 0.0 };
                reward - price
            }
            (Self::L4s([delay_ms]), &[own_mbps, fair_share_mbps, queueing_delay_ms]) => {
                let (rate, share) = (at_least(own_mbps, LEAST_MBPS), at_least(fair_share_mbps, LEAST_MBPS));
                let near = if rate < share { rate / share } else { share / rate };
                let delay = *delay_ms as f32;
                near * delay / (delay + queueing_delay_ms)
            }
            _ => f32::NAN,
        }
    }
}

/// The greater of two numbers; NaN stays NaN.
fn at_least(value: f32, least: f32) -> f32 {
    if value < least { least } else { value }
}

/// ACCT's scaled-down action space, a tenth per action from 1 on; linear between actions, level outside.
fn scaled(actions: &[f64], alpha: f32) -> f64 {
    let alpha = f64::from(alpha);
    let w = |k: usize| 1.0 + 0.1 * k as f64;
    let above = actions.partition_point(|&action| action <= alpha);
    let Some(k) = above.checked_sub(1) else { return w(0) };
    match (actions.get(k), actions.get(above)) {
        (Some(&low), Some(&high)) if low < alpha => (w(above) - w(k)) / (high - low) * (alpha - low) + w(k),
        _ => w(k),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reward_is_found_by_name_and_number_of_coefficients() {
        assert!(Reward::find("acct", &[10.0, 1.0, 10.0], vec![1.0, 2.0]).is_some());
        assert!(Reward::find("acct", &[10.0], vec![]).is_none());
        assert!(Reward::find("else", &[], vec![]).is_none());
        assert!(Reward::find("l4s", &[10.0], vec![]).unwrap().of(&[1.0]).is_nan());
    }

    #[test]
    fn the_scaled_action_space_is_linear_between_actions() {
        let actions = [1.0, 2.0, 10.0];
        let w = [0.0, 1.0, 1.5, 6.0, 10.0, 99.0].map(|alpha| scaled(&actions, alpha));
        assert_eq!(w.map(|x| (x * 100.0).round() as i32), [100, 100, 105, 115, 120, 120]);
    }
}
