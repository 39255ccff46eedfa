//! Signals of a router on a link where no event marks a packet's departure.
//!
//! A router's signal in a packet may depend on everything that arrives at the link until the packet leaves. No one needs
//! the signal before an acknowledgement takes it to the sender. So the router writes its signals in between, one departure
//! after the other, as it would have at their times.

use std::collections::VecDeque;

use ccarena_cc::Signal;

use crate::routers::{AnyRouter, Header, Router, Sight};

/// Deferred signals of a router to each flow, by number.
#[derive(Debug)]
pub struct Deferred(Vec<FlowSignals>);

/// Deferred signals to one flow.
#[derive(Debug)]
struct FlowSignals {
    /// Signals in packets without an acknowledgement so far: the router's in the first `left`, the sender's requests in
    /// the others.
    packets: VecDeque<Signal>,
    left: usize,
    /// Packets that acknowledgements stand for.
    acknowledged: u32,
    /// The receiver's echo of those.
    echo: Signal,
}

impl FlowSignals {
    const fn new() -> Self {
        Self { packets: VecDeque::new(), left: 0, acknowledged: 0, echo: Signal::None }
    }

    /// Accumulates the signals of packets up to number `packets`.
    #[inline]
    fn acknowledge(&mut self, packets: u32) {
        let more = packets.wrapping_sub(self.acknowledged);
        for _ in 0..more {
            let Some(signal) = self.packets.pop_front() else { break };
            self.echo.accumulate(signal);
        }
        self.acknowledged = packets;
        self.left -= more as usize;
    }
}

impl Deferred {
    /// No signals.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Queues a packet of `flow` with the request `signal`. Returns the signal that the packet carries meanwhile.
    #[inline]
    pub fn defer(&mut self, flow: u32, signal: Signal) -> Signal {
        if flow as usize >= self.0.len() {
            self.0.resize_with(flow as usize + 1, FlowSignals::new);
        }
        self.0[flow as usize].packets.push_back(signal);
        if signal == Signal::None { signal } else { Signal::Later { packets: 1, fresh: 1 } }
    }

    /// Has `router` write its signal into the next packet of `flow`, of `bytes`, as it leaves.
    #[inline]
    pub fn leave(&mut self, flow: u32, bytes: u32, router: &mut AnyRouter, mut sight: Sight<'_>) {
        let signals = &mut self.0[flow as usize];
        let signal = &mut signals.packets[signals.left];
        router.on_departure(&mut Header { flow, bytes, signal }, &mut sight);
        if *signal == Signal::None {
            signals.packets.remove(signals.left);
        } else {
            signals.left += 1;
        }
    }

    /// Returns the signal in an acknowledgement to `flow` that stands for its first `packets`, `fresh` of them since the
    /// last acknowledgement.
    #[inline]
    pub fn take(&mut self, flow: u32, packets: u32, fresh: u32) -> Signal {
        let signals = &mut self.0[flow as usize];
        let before = packets.wrapping_sub(fresh);
        if signals.acknowledged != before {
            // Acknowledgements were dropped on their way; their signals are not repeated.
            signals.acknowledge(before);
            signals.echo.echo();
        }
        let more = packets.wrapping_sub(signals.acknowledged) as usize;
        if let Some(&Signal::Rate(rate)) = more.checked_sub(1).and_then(|newest| signals.packets.get(newest)) {
            // Of rates the newest counts. It is returned as it was read: to read what has just been written takes longer.
            signals.packets.drain(..more);
            (signals.acknowledged, signals.left, signals.echo) = (packets, signals.left - more, Signal::Rate(rate));
            return Signal::Rate(rate);
        }
        signals.acknowledge(packets);
        signals.echo.echo()
    }
}
