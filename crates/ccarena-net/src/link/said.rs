//! What a router says where nothing happens when a packet leaves.
//!
//! What it writes into a packet may depend on all that comes to the link until the packet leaves, and matters to nobody
//! before an acknowledgement brings it to the sender. So it is asked in between, about one departure after the other, as it
//! would have been at their times.

use std::collections::VecDeque;

use ccarena_cc::Signal;

use crate::routers::{AnyRouter, Header, Router, Sight};

/// What a router has said and has still to say to each flow, by number.
#[derive(Debug)]
pub struct Said(Vec<Told>);

/// What one flow is told.
#[derive(Debug)]
struct Told {
    /// Of packets of which its sender has not heard: what they ask, or were told if they are among the `left` first.
    packets: VecDeque<Signal>,
    left: usize,
    /// Packets of which its sender has heard.
    heard: u32,
    /// What its receiver says of those.
    echo: Signal,
}

impl Told {
    const fn new() -> Self {
        Self { packets: VecDeque::new(), left: 0, heard: 0, echo: Signal::None }
    }

    /// The sender hears of packets up to number `packets`.
    #[inline]
    fn hear(&mut self, packets: u32) {
        let more = packets.wrapping_sub(self.heard);
        for _ in 0..more {
            let Some(signal) = self.packets.pop_front() else { break };
            self.echo.heard(signal);
        }
        self.heard = packets;
        self.left -= more as usize;
    }
}

impl Said {
    /// Nothing.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// A packet of `flow` that asks `signal` will leave after those before it. What it says meanwhile.
    #[inline]
    pub fn defer(&mut self, flow: u32, signal: Signal) -> Signal {
        if flow as usize >= self.0.len() {
            self.0.resize_with(flow as usize + 1, Told::new);
        }
        self.0[flow as usize].packets.push_back(signal);
        if signal == Signal::None { signal } else { Signal::Later { packets: 1, fresh: 1 } }
    }

    /// The next packet of `flow` leaves, of `bytes`: `router` is asked.
    #[inline]
    pub fn leave(&mut self, flow: u32, bytes: u32, router: &mut AnyRouter, mut sight: Sight<'_>) {
        let told = &mut self.0[flow as usize];
        let signal = &mut told.packets[told.left];
        router.on_departure(&mut Header { flow, bytes, signal }, &mut sight);
        if *signal == Signal::None {
            told.packets.remove(told.left);
        } else {
            told.left += 1;
        }
    }

    /// What an acknowledgement says to `flow` that stands for its first `packets`, `fresh` of them since the one before.
    #[inline]
    pub fn to(&mut self, flow: u32, packets: u32, fresh: u32) -> Signal {
        let told = &mut self.0[flow as usize];
        let before = packets.wrapping_sub(fresh);
        if told.heard != before {
            // Acknowledgements have been dropped on their way; what they said is not said again.
            told.hear(before);
            told.echo.echo();
        }
        let more = packets.wrapping_sub(told.heard) as usize;
        if let Some(&Signal::Rate(rate)) = more.checked_sub(1).and_then(|newest| told.packets.get(newest)) {
            // Of rates the newest counts. It is returned as it was read: to read what has just been written takes longer.
            told.packets.drain(..more);
            (told.heard, told.left, told.echo) = (packets, told.left - more, Signal::Rate(rate));
            return Signal::Rate(rate);
        }
        told.hear(packets);
        told.echo.echo()
    }
}
