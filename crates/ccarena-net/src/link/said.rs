//! What a router says where nothing happens when a packet leaves.
//!
//! What it writes into a packet may depend on all that comes to the link until the packet leaves, and matters to nobody
//! before an acknowledgement brings it to the sender. So it is asked in between, about one departure after the other, as it
//! would have been at their times.

use std::collections::VecDeque;

use ccarena_cc::controller::Signal;

use super::Carried;
use crate::routers::{Router, Sight};

/// What a router has said and has still to say to each flow, by number.
#[derive(Debug)]
pub struct Said<T>(Vec<Told<T>>);

/// What one flow is told.
#[derive(Debug)]
struct Told<T> {
    /// Packets of which its sender has not heard, and how many of them have left.
    packets: VecDeque<T>,
    left: usize,
    /// Packets of which its sender has heard.
    heard: u32,
    /// What its receiver says of those.
    echo: Signal,
}

impl<T: Carried> Told<T> {
    const fn new() -> Self {
        Self { packets: VecDeque::new(), left: 0, heard: 0, echo: Signal::None }
    }

    /// The sender hears of packets up to number `packets`.
    #[inline]
    fn hear(&mut self, packets: u32) {
        let more = packets.wrapping_sub(self.heard);
        for _ in 0..more {
            let Some(packet) = self.packets.pop_front() else { break };
            if let Some(signal) = packet.said() {
                self.echo.heard(signal);
            }
        }
        self.heard = packets;
        self.left -= more as usize;
    }
}

impl<T: Carried> Said<T> {
    /// Nothing.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// `packet` will leave after those before it. What it asks is answered later.
    #[inline]
    pub fn defer(&mut self, packet: &mut T)
    where
        T: Copy,
    {
        let flow = packet.flow_number() as usize;
        if flow >= self.0.len() {
            self.0.resize_with(flow + 1, Told::new);
        }
        self.0[flow].packets.push_back(*packet);
        if let Some(signal) = packet.signal().filter(|signal| **signal != Signal::None) {
            *signal = Signal::Later { packets: 1, fresh: 1 };
        }
    }

    /// The next packet of `flow` leaves: `router` is asked.
    #[inline]
    pub fn leave(&mut self, flow: u32, router: &mut dyn Router, mut sight: Sight<'_>) {
        let told = &mut self.0[flow as usize];
        let packet = &mut told.packets[told.left];
        router.on_departure(packet, &mut sight);
        if packet.said().is_none_or(|signal| signal == Signal::None) {
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
        told.hear(packets);
        told.echo.echo()
    }
}
