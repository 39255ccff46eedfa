//! Flows that send at the same time, again and again (partition and aggregate; Chen et al., "Understanding TCP Incast
//! Throughput Collapse in Datacenter Networks", WREN 2009).

use ccarena_cc::Dur;
use ccarena_cc::reader::{Object, Result};

use super::{Arrivals, Context, Description, MAX_FLOWS};
use crate::apps::sizes::MAX_BYTES;
use crate::apps::{App, Transfers};

pub const DESCRIPTION: Description =
    Description { name: "incast", fields: &["flows", "size_bytes", "every_s", "times"], read };

/// No flow has more rounds.
const MAX_TIMES: u64 = 10_000;
/// Most transfers of all flows of an entry.
const MAX_TRANSFERS: u64 = 1_000_000;

/// `flows` connections that stay open, each with a transfer of `size` bytes every `every`.
struct Incast {
    flows: usize,
    size: u64,
    every: Dur,
    times: Option<u64>,
}

fn read(o: &Object<'_>) -> Result<Box<dyn Arrivals>> {
    let flows = o.require("flows", "how many flows send at the same time")?.whole(1, MAX_FLOWS as u64)?;
    Ok(Box::new(Incast {
        flows: flows as usize,
        size: o.require("size_bytes", "the bytes of each flow's transfer")?.whole(1, MAX_BYTES)?,
        every: o.or("every_s", Dur::from_millis(1000), |at| at.seconds(0.001))?,
        times: o.maybe("times", |at| at.whole(1, MAX_TIMES))?,
    }))
}

impl Arrivals for Incast {
    fn expand(&self, context: Context<'_>) -> Result<Vec<(Dur, App)>> {
        let rounds = context.length.0.div_ceil(self.every.0.max(1)).max(1);
        let times = self.times.unwrap_or(rounds);
        if times > MAX_TIMES {
            return context.at.fail(format!("at most {MAX_TIMES} times: `times`, a longer `every_s` or a shorter run"));
        }
        if self.flows as u64 * times > MAX_TRANSFERS {
            return context
                .at
                .fail(format!("at most {MAX_TRANSFERS} transfers of all flows: fewer `flows` or `times`"));
        }
        let app = App::Transfers(Transfers { sizes_bytes: vec![self.size; times as usize], gap: self.every });
        Ok(vec![(Dur::ZERO, app); self.flows])
    }
}
