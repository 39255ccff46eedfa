//! Distributions of transfers' sizes.

use ccarena_cc::elementary;
use ccarena_cc::reader::{At, Object, Result};
use serde_json::{Value, json};

use crate::rng::Stream;

/// Largest transfer.
pub const MAX_BYTES: u64 = 1_000_000_000_000;
const MAX_POINTS: usize = 10_000;
const EXPECTED: &str = "a number of bytes, web_search, data_mining, hadoop, {table: [[bytes, share], ...]} or \
                        {pareto: {mean_bytes, shape}}";

/// Web search (Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, figure 4), at the points by which pFabric
/// (SIGCOMM 2013) and later studies read it.
const WEB_SEARCH: &[(f64, f64)] = &[
    (0.0, 0.0),
    (10e3, 0.15),
    (20e3, 0.2),
    (30e3, 0.3),
    (50e3, 0.4),
    (80e3, 0.53),
    (200e3, 0.6),
    (1e6, 0.7),
    (2e6, 0.8),
    (5e6, 0.9),
    (10e6, 0.97),
    (30e6, 1.0),
];

/// Data mining (Greenberg et al., "VL2", SIGCOMM 2009, figure 2), at pFabric's points, which are packets of 1460 bytes.
const DATA_MINING: &[(f64, f64)] = &[
    (1460.0, 0.0),
    (1460.0, 0.5),
    (2.0 * 1460.0, 0.6),
    (3.0 * 1460.0, 0.7),
    (7.0 * 1460.0, 0.8),
    (267.0 * 1460.0, 0.9),
    (2107.0 * 1460.0, 0.95),
    (66_667.0 * 1460.0, 0.99),
    (666_667.0 * 1460.0, 1.0),
];

/// Hadoop (Roy et al., "Inside the Social Network's (Datacenter) Network", SIGCOMM 2015, figure 6), at the points by
/// which HPCC (SIGCOMM 2019) reads it.
const HADOOP: &[(f64, f64)] = &[
    (0.0, 0.0),
    (100.0, 0.01),
    (200.0, 0.02),
    (300.0, 0.05),
    (350.0, 0.15),
    (400.0, 0.2),
    (500.0, 0.3),
    (600.0, 0.4),
    (700.0, 0.5),
    (1e3, 0.6),
    (2e3, 0.67),
    (7e3, 0.7),
    (30e3, 0.72),
    (50e3, 0.82),
    (80e3, 0.87),
    (120e3, 0.9),
    (300e3, 0.95),
    (1e6, 0.975),
    (2e6, 0.99),
    (10e6, 1.0),
];

const NAMED: &[(&str, &[(f64, f64)])] = &[("web_search", WEB_SEARCH), ("data_mining", DATA_MINING), ("hadoop", HADOOP)];

/// A distribution of sizes.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// Always the same bytes.
    Constant(u64),
    /// One of the literature, by its name.
    Named(&'static str, &'static [(f64, f64)]),
    /// Bytes and the share of transfers with at most as many, both not falling, the last share 1; between points sizes
    /// are uniform.
    Table(Vec<(f64, f64)>),
    /// Pareto's, with finite mean.
    Pareto {
        /// Mean in bytes.
        mean: f64,
        /// Exponent of the tail, above 1.
        shape: f64,
    },
}

impl Sizes {
    /// Reads field `sizes`, which must be there.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn required(o: &Object<'_>) -> Result<Self> {
        Self::read(&o.require("sizes", EXPECTED)?)
    }

    fn read(at: &At<'_>) -> Result<Self> {
        match at.value {
            Value::Number(_) => Ok(Self::Constant(at.whole(1, MAX_BYTES)?)),
            Value::String(_) => {
                let names: Vec<&str> = NAMED.iter().map(|n| n.0).collect();
                let chosen = at.choice("distribution of sizes", &names)?;
                match NAMED.iter().find(|n| n.0 == chosen) {
                    Some(&(name, points)) => Ok(Self::Named(name, points)),
                    None => at.fail(EXPECTED),
                }
            }
            Value::Object(_) => {
                let o = at.object(&["table", "pareto"])?;
                match (o.get("table"), o.get("pareto")) {
                    (Some(points), None) => Ok(Self::Table(table(&points)?)),
                    (None, Some(pareto)) => {
                        let o = pareto.object(&["mean_bytes", "shape"])?;
                        let mean = o.require("mean_bytes", "the mean size in bytes")?.number(1.0, MAX_BYTES as f64)?;
                        let shape = o.require("shape", "the exponent of the tail, above 1")?;
                        Ok(Self::Pareto { mean, shape: shape.number(1.01, 100.0)? })
                    }
                    _ => at.fail(EXPECTED),
                }
            }
            _ => at.fail(EXPECTED),
        }
    }

    /// The normalised document.
    #[must_use]
    pub fn write(&self) -> Value {
        match self {
            Self::Constant(bytes) => json!(bytes),
            Self::Named(name, _) => json!(name),
            Self::Table(points) => json!({"table": points}),
            Self::Pareto { mean, shape } => json!({"pareto": {"mean_bytes": mean, "shape": shape}}),
        }
    }

    fn points(&self) -> &[(f64, f64)] {
        match self {
            Self::Named(_, points) => points,
            Self::Table(points) => points,
            Self::Constant(_) | Self::Pareto { .. } => &[],
        }
    }

    /// Mean in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            Self::Constant(bytes) => *bytes as f64,
            Self::Pareto { mean, .. } => *mean,
            Self::Named(..) | Self::Table(_) => {
                let points = self.points();
                let first = points.first().map_or(0.0, |&(bytes, share)| bytes * share);
                let between = |w: &[(f64, f64)]| (w[0].0 + w[1].0) / 2.0 * (w[1].1 - w[0].1);
                (first + points.windows(2).map(between).sum::<f64>()).max(1.0)
            }
        }
    }

    /// Draws a size.
    pub fn draw(&self, random: &mut Stream) -> u64 {
        let share = random.next_f64();
        let bytes = match self {
            Self::Constant(bytes) => return *bytes,
            Self::Pareto { mean, shape } => mean * (shape - 1.0) / shape * elementary::powf(1.0 - share, -1.0 / shape),
            Self::Named(..) | Self::Table(_) => at_share(self.points(), share),
        };
        (bytes.round() as u64).clamp(1, MAX_BYTES)
    }
}

/// The bytes that a `share` of transfers does not exceed.
fn at_share(points: &[(f64, f64)], share: f64) -> f64 {
    let above = points.partition_point(|p| p.1 <= share);
    match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
        (Some(low), Some(high)) => low.0 + (high.0 - low.0) * (share - low.1) / (high.1 - low.1),
        (None, Some(only)) | (Some(only), None) => only.0,
        (None, None) => 1.0,
    }
}

fn table(at: &At<'_>) -> Result<Vec<(f64, f64)>> {
    let expected = format!("a list of 1 to {MAX_POINTS} [bytes, share of transfers with at most as many]");
    let items = at.list(&expected)?;
    if items.is_empty() || items.len() > MAX_POINTS {
        return at.fail(expected);
    }
    let mut points: Vec<(f64, f64)> = Vec::with_capacity(items.len());
    for item in &items {
        let [bytes, share] = &item.list("[bytes, share]")?[..] else { return item.fail("[bytes, share]") };
        let point = (bytes.number(0.0, MAX_BYTES as f64)?, share.number(0.0, 1.0)?);
        if let Some(before) = points.last() {
            if point.0 < before.0 {
                return bytes.fail(format!("at least {}, the bytes of the point before", before.0));
            }
            if point.1 < before.1 {
                return share.fail(format!("at least {}, the share of the point before", before.1));
            }
        }
        points.push(point);
    }
    match points.last() {
        Some(last) if last.1 < 1.0 => items[items.len() - 1].fail("1 as the share of the last point"),
        _ => Ok(points),
    }
}
