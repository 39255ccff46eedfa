//! Loss before a link's queue. One file holds each process; adding one costs that file and a line in `processes!`.

mod outages;

use std::collections::BTreeMap;

use ccarena_cc::types::{Dur, Time};

pub use self::outages::Outages;
use crate::policer::Policer;
pub use crate::queues::{Param, Params};
use crate::rng::Stream;

/// A registered loss process, for listings and for the scenario's checks.
#[derive(Clone, Copy, Debug)]
pub struct Description {
    /// Name in a scenario.
    pub name: &'static str,
    /// One line: which packets it loses, and its source.
    pub summary: &'static str,
    /// Parameters of the process.
    pub params: &'static [Param],
    /// Names of the parameters that have no default.
    pub required: &'static [&'static str],
    /// Flag that it takes a list `steps` of probabilities by time.
    pub by_time: bool,
}

/// Choice of the packets that are lost.
pub trait Process {
    /// Returns whether the packet that arrives at `now` is lost. Times do not go back.
    fn loses(&mut self, now: Time) -> bool;
}

/// A kind of loss process with its parameters, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct LossSpec {
    /// Kind of process.
    pub kind: Kind,
    /// Parameters, complete.
    pub params: Params,
    /// Probabilities by time, of a process that takes them.
    pub steps: Vec<(Dur, f64)>,
}

impl LossSpec {
    /// A process of `kind`; parameters that are not `given` have their defaults.
    #[must_use]
    pub fn new(kind: Kind, given: &BTreeMap<&str, f64>) -> Self {
        Self { kind, params: Params::new(kind.description().params, given), steps: Vec::new() }
    }

    /// Loss of each packet with `probability`, independent of others.
    #[must_use]
    pub fn independent(probability: f64) -> Self {
        Self::new(Kind::Independent, &BTreeMap::from([(independent::PROBABILITY, probability)]))
    }

    /// Loss with each probability from its time on; the first at time zero.
    #[must_use]
    pub fn by_time(steps: Vec<(Dur, f64)>) -> Self {
        Self { steps, ..Self::new(Kind::Steps, &BTreeMap::new()) }
    }

    /// Returns the process, which draws from `stream`; none if it loses nothing.
    #[must_use]
    pub fn process(&self, stream: Stream) -> Option<AnyProcess> {
        (self.as_independent() != Some(0.0)).then(|| AnyProcess::new(self, stream))
    }

    /// Returns the probability if each packet is lost independently of others.
    #[must_use]
    pub fn as_independent(&self) -> Option<f64> {
        (self.kind == Kind::Independent).then(|| self.params.get(independent::PROBABILITY))
    }
}

impl Default for LossSpec {
    /// No loss.
    fn default() -> Self {
        Self::independent(0.0)
    }
}

/// `file: Type` for each process, by name.
macro_rules! processes {
    ($($file:ident: $process:ident),* $(,)?) => {
        $(mod $file; pub use $file::$process;)*

        /// Kind of loss process.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $(#[doc = concat!("[`", stringify!($process), "`].")] $process,)*
        }

        impl Kind {
            /// All of them, by name.
            pub const ALL: &[Self] = &[$(Self::$process),*];

            /// Returns its registry entry.
            #[must_use]
            pub const fn description(self) -> &'static Description {
                match self {
                    $(Self::$process => &$file::PROCESS,)*
                }
            }
        }

        /// A loss process of any kind.
        #[derive(Clone, Debug)]
        pub enum AnyProcess {
            $(#[doc = concat!("[`", stringify!($process), "`].")] $process($process),)*
        }

        impl AnyProcess {
            /// Builds the process that `spec` describes; it draws from `stream`.
            #[must_use]
            pub fn new(spec: &LossSpec, stream: Stream) -> Self {
                match spec.kind {
                    $(Kind::$process => Self::$process($process::new(spec, stream)),)*
                }
            }
        }

        impl Process for AnyProcess {
            #[inline(always)]
            fn loses(&mut self, now: Time) -> bool {
                match self {
                    $(Self::$process(process) => process.loses(now),)*
                }
            }
        }
    };
}

processes! {
    gilbert_elliott: GilbertElliott,
    independent: Independent,
    slots: Slots,
    steps: Steps,
}

/// All processes, by name.
pub fn all() -> impl Iterator<Item = &'static Description> {
    Kind::ALL.iter().map(|kind| kind.description())
}

/// Losses of a link before its queue: a process, outages and a policer.
#[derive(Clone, Debug)]
pub struct Losses {
    outages: Option<Outages>,
    process: Option<AnyProcess>,
    /// Policer of what is not lost.
    pub policer: Option<Policer>,
}

impl Losses {
    /// Returns the losses, if the link can lose anything before its queue.
    #[must_use]
    pub fn new(process: Option<AnyProcess>, outages: Option<Outages>, policer: Option<Policer>) -> Option<Self> {
        let any = process.is_some() || outages.is_some() || policer.is_some();
        any.then_some(Self { outages, process, policer })
    }

    /// Changes the probability of loss that is given by time to `probability` from `now` on.
    pub fn set_probability(&mut self, now: Time, probability: f64) {
        if let Some(AnyProcess::Steps(steps)) = &mut self.process {
            steps.follow(now, probability);
        }
    }

    /// Returns whether the packet that arrives at `now` is lost. Times do not go back.
    #[inline(always)]
    pub fn loses(&mut self, now: Time) -> bool {
        let out = self.outages.as_mut().is_some_and(|outages| outages.is_off(now));
        out || match &mut self.process {
            // The commonest; a choice among all kinds shows in the simulator's rate.
            Some(AnyProcess::Independent(process)) => process.loses(now),
            Some(process) => process.loses(now),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Purpose;
    use crate::stepped::Stepped;

    /// Fates of `count` packets, one per `gap`.
    pub fn fates(kind: Kind, given: &[(&'static str, f64)], count: usize, gap: Dur) -> Vec<bool> {
        let spec = LossSpec::new(kind, &given.iter().copied().collect());
        let mut process = AnyProcess::new(&spec, Stream::new(11, Purpose::Loss, 0));
        (0..count as u64).map(|i| process.loses(Time::ZERO + gap * i)).collect()
    }

    fn share(fates: &[bool]) -> f64 {
        fates.iter().filter(|&&lost| lost).count() as f64 / fates.len() as f64
    }

    /// Mean length of runs of losses.
    fn burst(fates: &[bool]) -> f64 {
        let begins = fates.windows(2).filter(|w| !w[0] && w[1]).count() + usize::from(fates[0]);
        fates.iter().filter(|&&lost| lost).count() as f64 / begins.max(1) as f64
    }

    #[test]
    fn processes_are_sorted_and_their_defaults_lie_within_bounds() {
        let names: Vec<_> = all().map(|d| d.name).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for description in all() {
            assert!(!description.summary.is_empty());
            for p in description.params {
                assert!((p.min..=p.max).contains(&p.default), "{}.{}", description.name, p.name);
            }
            let known = |name| description.params.iter().any(|p| p.name == name);
            assert!(description.required.iter().all(|name| known(*name)), "{}", description.name);
        }
    }

    #[test]
    fn gilberts_channel_has_the_share_and_the_bursts_of_its_chain() {
        let gap = Dur::from_millis(1);
        for (p, r, bad, good) in [(0.01, 0.25, 1.0, 0.0), (0.05, 0.5, 0.5, 0.01), (0.002, 0.05, 0.8, 0.0)] {
            let given = [("p", p), ("r", r), ("loss_bad", bad), ("loss_good", good)];
            let fates = fates(Kind::GilbertElliott, &given, 1_000_000, gap);
            let in_bad = p / (p + r);
            let expected = in_bad * bad + (1.0 - in_bad) * good;
            assert!((share(&fates) / expected - 1.0).abs() < 0.06, "{} for {expected}", share(&fates));
            if (bad, good) == (1.0, 0.0) {
                assert!((burst(&fates) * r - 1.0).abs() < 0.06, "{} for {}", burst(&fates), 1.0 / r);
            }
        }
        let never = fates(Kind::GilbertElliott, &[("p", 0.0), ("r", 0.0)], 1000, gap);
        assert!(!never.contains(&true));
    }

    #[test]
    fn a_slot_loses_all_its_packets_or_none_and_slots_are_independent() {
        let given = [("slot_ms", 10.0), ("probability", 0.1)];
        let fates = fates(Kind::Slots, &given, 400_000, Dur::from_millis(1));
        assert!(fates.chunks(10).all(|slot| slot.iter().all(|&lost| lost == slot[0])));
        let slots: Vec<bool> = fates.chunks(10).map(|slot| slot[0]).collect();
        assert!((share(&slots) - 0.1).abs() < 0.01, "{}", share(&slots));
        assert!((burst(&slots) - 1.0 / 0.9).abs() < 0.05, "{}", burst(&slots));
        let half = [("slot_ms", 10.0), ("probability", 1.0), ("loss", 0.5)];
        let fates = self::fates(Kind::Slots, &half, 100_000, Dur::from_millis(1));
        assert!((share(&fates) - 0.5).abs() < 0.01 && (burst(&fates) - 2.0).abs() < 0.05);
    }

    #[test]
    fn steps_lose_with_the_probability_in_force_and_loop() {
        let ms = Dur::from_millis;
        let share_of = |mut process: AnyProcess, from: u64, to: u64| {
            share(&(from..to).map(|i| process.loses(Time::ZERO + ms(1) * i)).collect::<Vec<_>>())
        };
        let steps = vec![(ms(0), 0.0), (ms(10_000), 0.2), (ms(40_000), 1.0)];
        let build = || LossSpec::by_time(steps.clone()).process(Stream::new(3, Purpose::Loss, 0)).unwrap();
        assert!(share_of(build(), 0, 10_000) < 1e-9 && share_of(build(), 40_000, 50_000) > 1.0 - 1e-9);
        assert!((share_of(build(), 10_000, 40_000) - 0.2).abs() < 0.01);
        let looped = Stepped::new([(ms(0), 0.0), (ms(10), 1.0)], Some(ms(30)), ms(20));
        let mut process = AnyProcess::Steps(Steps::of(looped, Stream::new(3, Purpose::Loss, 0)));
        let fates: Vec<bool> = (0..90).map(|i| process.loses(Time::ZERO + ms(i))).collect();
        assert!(fates.iter().enumerate().all(|(i, &lost)| lost == ((i + 20) % 30 >= 10)), "{fates:?}");
    }

    #[test]
    fn a_link_without_loss_has_none() {
        let stream = || Stream::new(1, Purpose::Loss, 0);
        assert!(Losses::new(LossSpec::default().process(stream()), None, None).is_none());
        let always = Losses::new(LossSpec::independent(1.0).process(stream()), None, None);
        assert!(always.is_some_and(|mut losses| losses.loses(Time::ZERO)));
    }
}
