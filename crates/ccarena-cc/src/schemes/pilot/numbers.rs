//! The law's numbers: each once, with its default, its bounds and what it is.

use crate::elementary::{exp, ln, powf};
use crate::param::Param;

macro_rules! numbers {
    ($($name:ident = $default:literal, $min:literal to $max:literal: $doc:literal;)*) => {
        /// The parameters' values.
        #[derive(Clone, Copy, Debug)]
        pub struct Numbers {
            $(#[doc = $doc] pub $name: f64,)*
        }

        impl Numbers {
            /// The parameters of the registry's entry.
            pub const PARAMS: &'static [Param] =
                &[$(Param { name: stringify!($name), default: $default, min: $min, max: $max, doc: $doc },)*];
            /// All at their defaults.
            #[cfg(test)]
            pub const DEFAULT: Self = Self { $($name: $default,)* };

            /// The parameters' values by name.
            pub fn read(value: impl Fn(&str) -> f64) -> Self {
                Self { $($name: value(stringify!($name)),)* }
            }

            /// Returns the numbers in the order of [`PARAMS`](Self::PARAMS).
            pub fn values(&self) -> [f64; Self::PARAMS.len()] {
                [$(self.$name,)*]
            }
        }
    };
}

numbers! {
    preference = 0.5, 0.0 to 1.0: "what delay is worth: 0 is all for throughput, 1 all for delay";
    period_ms = 10.0, 5.0 to 50.0: "time from one step of the window to the next in ms";
    fast_ms = 11.0, 1.0 to 1000.0: "time constant of the fast average of delivered bytes in ms";
    slow_ms = 16.0, 10.0 to 10000.0: "time constant of the slow average in ms";
    fast_packets = 3.8, 0.0 to 100.0: "packet times of the slow average that are added to it";
    slow_packets = 22.0, 0.0 to 1000.0: "packet times of the slow average that are added to it";
    mix = 0.33, 0.0 to 1.0: "share of the fast average in the rate; the slow one has the rest";
    trend = 0.43, 0.0 to 4.0: "part of fast - slow that is added to the rate where it is positive";
    deviation = 3.7, 0.0 to 4.0: "standard deviations of the rate that are added to it, at preference 1";
    deviation_throughput = 4.5, 0.0 to 8.0: "the same at preference 0";
    grain = 0.55, 0.0 to 4.0: "height of the sawtooth that single packets make of the fast average, in packet times for each packet \
                               of an acknowledgement, where a period has several acknowledgements; its variance is taken off";
    grain_slow = 1.0, 0.0 to 4.0: "the same where acknowledgements are one and a half periods apart or more";
    slack_ms = 4.8, 0.1 to 200.0: "queueing delay d that the window allows for, at preference 1, 40 ms and 100 packets/s";
    slack_throughput_ms = 16.0, 0.1 to 500.0: "the same at preference 0";
    slack_per_rtt = 0.53, 0.0 to 2.0: "d falls with this power of the smallest RTT";
    slack_per_rate = 0.78, 0.0 to 2.0: "d falls with this power of the rate";
    steady = 0.1, 0.001 to 1.0: "relative deviation of the rate from which d is allowed in full; below it d falls in proportion";
    steady_ms = 3.0, 0.0 to 500.0: "least d, in ms, that a steady rate leaves: flows of one kind that share a link come to equal rates \
                                    by their different d";
    feedback = 2.4, 0.0 to 4.0: "the window falls by e^-this per (queueing delay - d) / (smallest RTT + d), at preference 1";
    feedback_throughput = 1.5, 0.0 to 4.0: "the same at preference 0; at 0.5 and above it is as at 1";
    feedback_below = 0.11, 0.0 to 4.0: "feedback where the delay is below d, where the window rises by it";
    extra = 3.7, 0.0 to 8.0: "packets that the window has beyond rate and delay";
    silence = 0.15, 0.0 to 1.0: "part of the time without an acknowledgement that is added to the queueing delay";
    rise = 0.083, 0.01 to 1.0: "part of the way up to its goal that the window moves in 10 ms, at preference 1";
    rise_throughput = 0.25, 0.01 to 1.0: "the same at preference 0";
    fall = 0.056, 0.01 to 1.0: "part of the way down to its goal that the window moves in 10 ms, at preference 1";
    fall_throughput = 0.029, 0.01 to 1.0: "the same at preference 0";
    search = 0.00022, 0.0 to 1.0: "growth of the window in the first RTT without a queue, which doubles with each RTT up to 1";
    pacing = 1.15, 0.0 to 10.0: "windows per smallest RTT at which packets are paced; 0 sends as acknowledgements come";
    pacing_early = 2.0, 1.0 to 10.0: "factor on that at the beginning of a flow, so that short transfers do not wait";
    early_rtts = 5.0, 0.0 to 1000.0: "how long that beginning lasts, in smoothed RTTs";
    trickle_ms = 85.0, 5.0 to 1000.0: "silence after which one packet beyond the window is sent, in ms";
    trickle_packets = 0.73, 0.0 to 20.0: "packet times of the slow average that are added to that silence";
    trickle_rtts = 0.5, 0.0 to 10.0: "the least such silence in newest RTTs: what is sent where a packet now and then gets \
                                      through piles up";
    loss_share = 0.03, 0.001 to 1.0: "share of lost packets up to which losses do not lower the window, but are made up for";
    base_s = 30.0, 1.0 to 600.0: "time in s after which the smallest RTT is forgotten";
    probe_s = 3.4, 0.5 to 60.0: "time in s without a touch of the smallest RTT after which the queue is drained";
    probe_early_s = 1.0, 0.1 to 60.0: "the same in the first ten seconds of a flow, and where the last trials have spoken for \
                                       competitors: flows that start together learn the smallest RTT by draining at the same time; \
                                       then the least time between packet trains, too";
    probe_rtts = 31.0, 0.0 to 1000.0: "the least such time in smallest RTTs";
    drain = 0.5, 0.1 to 1.0: "part of the window without its queue that a drain leaves";
    competing_ms = 5.7, 0.5 to 1000.0: "queueing delay that a drain leaves from which the flow looks for competitors, in ms";
    competing_share = 0.51, 0.0 to 1.0: "share of the queue, judged by a drain, below which it does";
    push = 3.0, 1.1 to 10.0: "factor on the window when it tries whether the rate follows";
    push_follows = 0.35, 0.0 to 1.0: "part of what the window has grown by that the rate has to grow by";
    push_delay = 0.125, 0.0 to 4.0: "part of that by which the RTT may rise meanwhile";
    push_least = 0.5, 0.0 to 1.0: "part of the queueing delay that a push has to leave at all times: where less is, capacity has \
                                     risen, or others drain";
    starved_s = 2.0, 0.0 to 1000.0: "time in s for which five packets at most find a queue as long as the smallest RTT, at least \
                                     60 and at most 100 ms, before the flow sends a packet train";
    starved_rtts = 2.0, 0.0 to 1000.0: "the least such time in smoothed RTTs";
    train_packets = 8.0, 2.0 to 1000.0: "least window for which the packets of such a train are sent";
    train_rate = 4.0, 1.0 to 1000.0: "factor on the flow's rate from which that of a train speaks for competitors";
    train_queue = 12.0, 1.0 to 1000.0: "packets in the queue, at the train's rate, from which it counts in full: a few flows of one \
                                        kind make a shorter queue";
    successes = 3.0, 1.0 to 10.0: "such successes of pushes and trains, less failures, from which the flow competes";
    growth = 3.0, 0.1 to 20.0: "factor on the growth of CUBIC's window where it competes";
    back_off = 0.7, 0.1 to 0.95: "part of the window that a loss then leaves";
    leave_s = 5.0, 0.5 to 120.0: "time in s from one drain to the next where it competes";
    leave_share = 0.8, 0.0 to 1.0: "share of the queue above which it no longer competes, two or three times in a row";
}

impl Numbers {
    /// Returns the numbers at its preference: between their values at 1 and at 0, in equal ratios. The feedback
    /// is weaker below 0.5 alone: above it, flows of one kind share worse for it.
    pub fn at_preference(mut self) -> Self {
        let least = 1e-3;
        let between = |delay: f64, throughput: f64, preference: f64| {
            exp(ln(delay.max(least)) * preference + ln(throughput.max(least)) * (1.0 - preference))
        };
        self.deviation = between(self.deviation, self.deviation_throughput, self.preference);
        self.slack_ms = between(self.slack_ms, self.slack_throughput_ms, self.preference);
        self.rise = between(self.rise, self.rise_throughput, self.preference);
        self.fall = between(self.fall, self.fall_throughput, self.preference);
        self.feedback = between(self.feedback, self.feedback_throughput, (2.0 * self.preference).min(1.0));
        self
    }

    /// d in seconds where capacity varies, for a smallest RTT in seconds and a rate in packets per second.
    pub fn slack(&self, rtt_min: f64, rate: f64) -> f64 {
        let natural = self.slack_ms / 1e3;
        let by_rtt = powf(rtt_min.max(1e-3) / 0.04, -self.slack_per_rtt);
        let by_rate = powf(rate.max(1.0) / 100.0, -self.slack_per_rate);
        (natural * by_rtt * by_rate).min(1.0)
    }

    /// d in seconds, where the rate deviates by `variation` of itself: a link that does not vary is full with less.
    pub fn allowed(&self, rtt_min: f64, rate: f64, variation: f64) -> f64 {
        let slack = self.slack(rtt_min, rate);
        (slack * (variation / self.steady).min(1.0)).max(slack.min(self.steady_ms / 1e3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preference_runs_from_one_set_to_the_other() {
        let at = |preference: f64| {
            let numbers = Numbers { preference, ..Numbers::DEFAULT }.at_preference();
            (numbers.deviation, numbers.slack(0.04, 100.0))
        };
        let (delay, middle, throughput) = (at(1.0), at(0.5), at(0.0));
        assert!(delay.0 < middle.0 && middle.0 < throughput.0 && delay.1 < middle.1 && middle.1 < throughput.1);
        let own = Numbers::DEFAULT;
        let moves = |preference: f64| {
            let numbers = Numbers { preference, ..own }.at_preference();
            [numbers.rise, numbers.fall, numbers.feedback]
        };
        let near = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9);
        assert!(near(moves(1.0), [own.rise, own.fall, own.feedback]));
        assert!(near(moves(0.0), [own.rise_throughput, own.fall_throughput, own.feedback_throughput]));
        assert!((moves(0.5)[2] - own.feedback).abs() < 1e-9, "weaker below a half alone");
        assert!((delay.0 - own.deviation).abs() < 1e-9 && (throughput.1 - own.slack_throughput_ms / 1e3).abs() < 1e-9);
    }

    #[test]
    fn a_steady_link_is_allowed_less_delay_but_not_none() {
        let numbers = Numbers::DEFAULT;
        let slow = |variation: f64| numbers.allowed(0.02, 50.0, variation);
        assert_eq!(slow(0.5).to_bits(), numbers.slack(0.02, 50.0).to_bits());
        assert!(slow(0.0) < slow(0.05) && slow(0.05) < slow(0.1));
        assert!((slow(0.0) - numbers.steady_ms / 1e3).abs() < 1e-9);
        let fast = |variation: f64| numbers.allowed(0.02, 5000.0, variation);
        assert_eq!(fast(0.0).to_bits(), fast(0.5).to_bits(), "less than that anyway");
    }
}
