//! A controller that keeps a short queue, and halves its window at a loss. `ccarena` has the interface.

mod ccarena;

use ccarena::{About, Ack, Config, Control, Loss, Param, NEVER, NEW_EPISODE, WINDOW_LIMITED};

/// Smallest window, packets: one packet alone waits for a delayed acknowledgement.
const LEAST: f64 = 2.0;

/// State of one flow.
pub struct MyCc {
    target_ms: f64,
    mss_bytes: f64,
    /// Packets.
    window: f64,
    /// Doubles each round trip until it meets a queue or a loss.
    starting: bool,
    /// First byte that was not yet sent at the last decrease.
    decreased_at: u64,
}

/// Parameters, which users set: my_cc.wasm@target_ms=5.
static PARAMS: [Param; 1] = [Param::new(
    c"target_ms",
    c"ms",
    c"Queueing delay to keep.",
    10.0,
    0.1,
    1000.0,
)];

static ABOUT: About = About::new(
    c"my_cc",
    c"Keeps a short queue, and halves its window at a loss.",
    &PARAMS,
    0,
);

impl MyCc {
    fn set_window(&mut self, packets: f64, out: &mut Control) {
        self.window = packets.max(LEAST);
        out.window_bytes = self.window * self.mss_bytes;
    }
}

#[no_mangle]
pub extern "C" fn cc_describe() -> &'static About {
    &ABOUT
}

#[no_mangle]
pub extern "C" fn cc_create(config: &Config, out: &mut Control) -> Box<MyCc> {
    let mut made = MyCc {
        target_ms: config.params[0],
        mss_bytes: f64::from(config.mss_bytes),
        window: LEAST,
        starting: true,
        decreased_at: 0,
    };
    made.set_window(f64::from(config.initial_window_packets), out);
    Box::new(made)
}

#[no_mangle]
pub extern "C" fn cc_free(_: Box<MyCc>) {}

/// Adds a packet per round trip while the queue is shorter than the target, and else gives part of the window back.
#[no_mangle]
pub extern "C" fn cc_on_ack(cc: &mut MyCc, ack: &Ack, out: &mut Control) {
    if ack.rtt_ns == NEVER {
        return;
    }
    let queue_ms = ack.rtt_ns as f64 / 1e6 - ack.min_rtt_ns as f64 / 1e6;
    if queue_ms < cc.target_ms {
        // A window that the application does not use says nothing about the path (RFC 7661).
        if ack.flags & WINDOW_LIMITED != 0 {
            let acked = f64::from(ack.acked_packets);
            let per_window = if cc.starting { 1.0 } else { cc.window };
            cc.set_window(cc.window + acked / per_window, out);
        }
    } else if ack.acked_to > cc.decreased_at {
        // Once per round trip, the more the longer the queue is, and at most half of the window.
        cc.starting = false;
        let kept = 1.0 - 0.5 * (queue_ms - cc.target_ms) / queue_ms;
        cc.set_window(cc.window * kept, out);
        cc.decreased_at = ack.sent_to;
    }
}

/// Halves the window once per episode.
#[no_mangle]
pub extern "C" fn cc_on_loss(cc: &mut MyCc, loss: &Loss, out: &mut Control) {
    if loss.flags & NEW_EPISODE != 0 {
        cc.starting = false;
        cc.set_window(cc.window / 2.0, out);
    }
}

/// Begins anew.
#[no_mangle]
pub extern "C" fn cc_on_timeout(cc: &mut MyCc, _: &Loss, out: &mut Control) {
    cc.starting = true;
    cc.set_window(LEAST, out);
}
