//! Transfers that arrive by a Poisson process.

use ccarena_cc::reader::{MIN_MBPS, Object, Result};
use ccarena_cc::{Dur, Rate};

use super::{Arrivals, Context, Description, MAX_FLOWS};
use crate::apps::sizes::Sizes;
use crate::apps::{App, Transfers};

pub const DESCRIPTION: Description = Description { name: "poisson", fields: &["load", "rate_mbps", "sizes"], read };

enum Offered {
    /// Share of the path's rate.
    Load(f64),
    Rate(Rate),
}

/// Transfers whose payload is `offered` in the mean, whether or not earlier ones are finished.
struct Poisson {
    offered: Offered,
    sizes: Sizes,
}

fn read(o: &Object<'_>) -> Result<Box<dyn Arrivals>> {
    let sizes = Sizes::required(o)?;
    let offered = match (o.get("load"), o.get("rate_mbps")) {
        (Some(load), Some(_)) => return load.fail("either `load` or `rate_mbps`"),
        (None, Some(rate)) => Offered::Rate(rate.mbps(MIN_MBPS)?),
        (load, None) => {
            let expected = "a share of the link's rate above 0 and below 1; `rate_mbps` may exceed the link";
            let at = load.map_or_else(|| o.require("load", expected), Ok)?;
            match at.number(0.0, 1.0) {
                Ok(share) if share > 0.0 && share < 1.0 => Offered::Load(share),
                _ => return at.fail(expected),
            }
        }
    };
    Ok(Box::new(Poisson { offered, sizes }))
}

impl Arrivals for Poisson {
    fn expand(&self, context: Context<'_>) -> Result<Vec<(Dur, App)>> {
        let Context { at, length, rate, mut random } = context;
        let rate = match (&self.offered, rate) {
            (Offered::Rate(rate), _) => *rate,
            (Offered::Load(share), Some(rate)) => Rate((rate.0 as f64 * share) as u64),
            (Offered::Load(_), None) => {
                return at.fail("`rate_mbps` instead of `load`, because a link on its path has no constant rate");
            }
        };
        let mean_s = self.sizes.mean() * 8.0 / (rate.0 as f64).max(1.0);
        let (mut flows, mut now) = (Vec::new(), random.exponential(mean_s));
        while now < length.as_secs_f64() {
            if flows.len() == MAX_FLOWS {
                return at.fail(format!("at most {MAX_FLOWS} transfers: less load, larger ones or a shorter run"));
            }
            let sizes_bytes = vec![self.sizes.draw(&mut random)];
            flows.push((Dur::from_secs_f64(now), App::Transfers(Transfers { sizes_bytes, gap: Dur::ZERO })));
            now += random.exponential(mean_s);
        }
        Ok(flows)
    }
}
