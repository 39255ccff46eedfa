//! Burst loss in a channel of two states, packet by packet (Gilbert, "Capacity of a Burst-Noise Channel", Bell System
//! Technical Journal 39, 1960; Elliott, "Estimates of Error Rates for Codes on Burst-Noise Channels", ibid. 42, 1963).
//!
//! As in Linux (`loss_gilb_ell` of `net/sched/sch_netem.c`) a packet is lost by the state that it finds, and the channel
//! then changes its state or not.

use ccarena_cc::types::Time;

use super::{Description, LossSpec, Param, Process};
use crate::rng::Stream;

const fn share(name: &'static str, default: f64, doc: &'static str) -> Param {
    Param { name, default, min: 0.0, max: 1.0, doc }
}

/// Registry entry of this process.
pub const PROCESS: Description = Description {
    name: "gilbert_elliott",
    summary: "loses packets in bursts: a channel of two states (Gilbert 1960, Elliott 1963; tc-netem's gemodel)",
    params: &[
        share("p", 0.0, "probability per packet that a good channel becomes bad"),
        share("r", 1.0, "probability per packet that a bad channel becomes good; a bad state lasts 1/r packets on average"),
        share("loss_bad", 1.0, "probability of loss in the bad state (1-h of tc-netem)"),
        share("loss_good", 0.0, "probability of loss in the good state (1-k of tc-netem)"),
    ],
    required: &["p", "r"],
    by_time: false,
};

/// Channel of two states; it begins in the good one.
#[derive(Clone, Debug)]
pub struct GilbertElliott {
    /// Probabilities of loss, and of a change of state, in the good state and in the bad one.
    loss: [f64; 2],
    change: [f64; 2],
    bad: bool,
    stream: Stream,
}

impl GilbertElliott {
    pub(super) fn new(spec: &LossSpec, stream: Stream) -> Self {
        let get = |good, bad| [spec.params.get(good), spec.params.get(bad)];
        Self { loss: get("loss_good", "loss_bad"), change: get("p", "r"), bad: false, stream }
    }
}

impl Process for GilbertElliott {
    fn loses(&mut self, _: Time) -> bool {
        let state = usize::from(self.bad);
        let lost = self.stream.chance(self.loss[state]);
        self.bad ^= self.stream.chance(self.change[state]);
        lost
    }
}
