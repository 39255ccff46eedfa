//! Signals between senders and routers in the headers of packets, which receivers echo.

use crate::types::Rate;

/// The header that a scheme with router help puts on its packets. Routers on the way change it, the receiver echoes it.
///
/// On kernel TCP only [`Rate`](Self::Rate) travels, in an option of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Signal {
    /// No request and no signal.
    #[default]
    None,
    /// ACCT: the rate that the application wants, which each router lowers to its offer.
    Rate(Rate),
    /// ABC: in a packet, one of the two is 1. In an acknowledgement, both count packets since the flow began, so that a
    /// lost acknowledgement takes nothing with it.
    Marks {
        /// Packets that came with "accelerate".
        accelerate: u32,
        /// Packets that came with "brake".
        brake: u32,
    },
    /// XCP: the congestion header. In an acknowledgement, the feedback of the packets since the one before, added up.
    Window {
        /// The sender's window (H_cwnd).
        window_bytes: f32,
        /// The sender's smoothed RTT (H_rtt); zero before it has one.
        rtt_us: u32,
        /// Growth of the window (H_feedback); infinite until a router writes it.
        feedback_bytes: f32,
    },
    /// Signal that the sender looks up when the acknowledgement arrives: in the simulator, receivers may take packets
    /// before routers have signalled. In a packet, both numbers are 1.
    Later {
        /// Packets that it stands for, since the flow began.
        packets: u32,
        /// Number of those that the previous acknowledgement does not stand for.
        fresh: u32,
    },
}

impl Signal {
    /// Adds the signal of a new packet, at a receiver, to the signals of those before it.
    #[inline]
    pub fn accumulate(&mut self, packet: Self) {
        match (&mut *self, packet) {
            (Self::Marks { accelerate, brake }, Self::Marks { accelerate: a, brake: b }) => {
                *accelerate = accelerate.wrapping_add(a);
                *brake = brake.wrapping_add(b);
            }
            (Self::Window { feedback_bytes, .. }, Self::Window { feedback_bytes: more, .. }) => *feedback_bytes += more,
            (Self::Later { packets, fresh }, Self::Later { packets: p, fresh: f }) => {
                *packets = packets.wrapping_add(p);
                *fresh += f;
            }
            (all, packet) => *all = packet,
        }
    }

    /// Returns the signal of an acknowledgement that leaves a receiver now.
    #[inline]
    pub fn echo(&mut self) -> Self {
        let echoed = *self;
        match self {
            Self::Window { .. } => *self = Self::None,
            Self::Later { fresh, .. } => *fresh = 0,
            _ => {}
        }
        echoed
    }

    /// The rate that routers advertise, if they do.
    #[must_use]
    #[inline]
    pub const fn rate(self) -> Option<Rate> {
        if let Self::Rate(rate) = self { Some(rate) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_add_up_for_ever_and_feedback_from_one_acknowledgement_to_the_next() {
        let mut signal = Signal::None;
        signal.accumulate(Signal::Marks { accelerate: 1, brake: 0 });
        signal.accumulate(Signal::Marks { accelerate: 0, brake: 1 });
        assert_eq!(signal.echo(), Signal::Marks { accelerate: 1, brake: 1 });
        signal.accumulate(Signal::Marks { accelerate: 1, brake: 0 });
        assert_eq!(signal.echo(), Signal::Marks { accelerate: 2, brake: 1 });

        let header = |feedback_bytes| Signal::Window { window_bytes: 9.0, rtt_us: 5, feedback_bytes };
        let mut signal = Signal::None;
        signal.accumulate(header(10.0));
        signal.accumulate(header(-2.5));
        assert_eq!(signal.echo(), header(7.5));
        assert_eq!(signal.echo(), Signal::None, "feedback is echoed once");
        signal.accumulate(header(1.0));
        assert_eq!(signal.echo(), header(1.0));

        let mut signal = Signal::None;
        let one = Signal::Later { packets: 1, fresh: 1 };
        signal.accumulate(one);
        signal.accumulate(one);
        assert_eq!(signal.echo(), Signal::Later { packets: 2, fresh: 2 });
        signal.accumulate(one);
        assert_eq!(signal.echo(), Signal::Later { packets: 3, fresh: 1 });

        let mut signal = Signal::None;
        signal.accumulate(Signal::Rate(Rate(5)));
        signal.accumulate(Signal::Rate(Rate(3)));
        assert_eq!((signal.echo(), signal.echo().rate()), (Signal::Rate(Rate(3)), Some(Rate(3))));
    }
}
