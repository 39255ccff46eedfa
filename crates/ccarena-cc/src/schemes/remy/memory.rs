//! A RemyCC's memory (`memory.cc` of the authors).

use crate::rules::{AXES, Memory};

/// Share of a new gap in the moving averages, and in the slow one.
const GAIN: f64 = 1.0 / 8.0;
const SLOW_GAIN: f64 = 1.0 / 256.0;

/// Memory of the segments that have arrived. Times are in ms.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    memory: Memory,
    last: Option<Last>,
}

/// The segment that arrived last, and the smallest RTT.
#[derive(Clone, Copy, Debug)]
struct Last {
    sent_ms: f64,
    received_ms: f64,
    min_rtt_ms: f64,
}

impl Remembered {
    /// The numbers that rules go by, in the order of [`AXES`].
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// A segment that left at `sent_ms` has arrived at `received_ms`, `ahead` numbers beyond the highest that was
    /// acknowledged. The first one is only remembered; averages begin at zero.
    pub fn received(&mut self, sent_ms: f64, received_ms: f64, ahead: f64) {
        let rtt = received_ms - sent_ms;
        let Some(last) = self.last else {
            self.last = Some(Last { sent_ms, received_ms, min_rtt_ms: rtt });
            return;
        };
        let [send, rec, ratio, slow, diff, queueing]: &mut [f64; AXES.len()] = &mut self.memory;
        *send = (1.0 - GAIN) * *send + GAIN * (sent_ms - last.sent_ms);
        *rec = (1.0 - GAIN) * *rec + GAIN * (received_ms - last.received_ms);
        *slow = (1.0 - SLOW_GAIN) * *slow + SLOW_GAIN * (received_ms - last.received_ms);
        let min_rtt_ms = last.min_rtt_ms.min(rtt);
        // An RTT of zero is the smallest one, too.
        *ratio = if min_rtt_ms > 0.0 { rtt / min_rtt_ms } else { 1.0 };
        *diff = rtt - min_rtt_ms;
        *queueing = *rec * ahead;
        self.last = Some(Last { sent_ms, received_ms, min_rtt_ms });
    }
}
