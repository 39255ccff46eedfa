//! Impairments of a wire: packets that come late and out of order, twice, or damaged.
//!
//! Each befalls a packet by chance, in the order of leaving. RFC 4737 defines reordering, RFC 5560 duplication; tc-netem(8)
//! emulates the same on Linux.

use ccarena_cc::types::{Dur, Time};
use serde::Serialize;

use crate::rng::{Purpose, Stream};

/// Share of packets that something befalls, and how often it befalls the next one too.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chance {
    /// Share of packets in the long run.
    pub probability: f64,
    /// Correlation of a packet's fate with the fate of the packet before it, 0 to 1: bursts of it are longer.
    pub correlation: f64,
}

/// Packets that stay behind while others overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// Share of packets that stay behind.
    pub chance: Chance,
    /// Time for which they do.
    pub late: Dur,
}

/// Impairments of a link's wire, as a scenario describes them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImpairmentsSpec {
    /// Packets that stay behind.
    pub reorder: Option<Reorder>,
    /// Packets that arrive twice.
    pub duplicate: Option<Chance>,
    /// Packets that cross the link and are damaged, so that the other end discards them.
    pub corrupt: Option<Chance>,
}

impl ImpairmentsSpec {
    /// Returns whether there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Kind of an impairment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impairment {
    /// The packet stayed behind, or overtook others when the delay fell.
    Reordered,
    /// A second copy arrives.
    Duplicated,
    /// The other end discards it as damaged.
    Corrupted,
}

impl Impairment {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Reordered, Self::Duplicated, Self::Corrupted];

    /// Returns the places of its times and flows among a result's arrays.
    #[must_use]
    pub const fn arrays(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Reordered => (&["reordered", "time_ns"], &["reordered", "flow"]),
            Self::Duplicated => (&["duplicated", "time_ns"], &["duplicated", "flow"]),
            Self::Corrupted => (&["corrupted", "time_ns"], &["corrupted", "flow"]),
        }
    }
}

/// One impaired packet, for the packet log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impaired {
    /// Time at which it left the link.
    pub at: Time,
    /// Flow of the packet.
    pub flow: u32,
    /// Kind of the impairment.
    pub kind: Impairment,
}

/// Counts of impaired packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ImpairedStats {
    /// Packets that stayed behind, or overtook others when the delay fell.
    pub reordered_packets: u64,
    /// Packets that arrive twice.
    pub duplicated_packets: u64,
    /// Packets that the other end discards as damaged.
    pub corrupted_packets: u64,
}

impl ImpairedStats {
    /// Counts a packet that has left.
    pub fn count(&mut self, befalls: Befalls) {
        for kind in befalls.kinds() {
            *match kind {
                Impairment::Reordered => &mut self.reordered_packets,
                Impairment::Duplicated => &mut self.duplicated_packets,
                Impairment::Corrupted => &mut self.corrupted_packets,
            } += 1;
        }
    }
}

/// Draws for each packet whether something befalls it: a Markov chain of two states whose share in the long run and whose
/// correlation between neighbours are exactly those of its [`Chance`]. (The correlated numbers of tc-netem have another
/// share than the one asked for.)
#[derive(Clone, Debug)]
struct Draws {
    chance: Chance,
    last: bool,
    stream: Stream,
}

impl Draws {
    fn new(chance: Chance, stream: Stream) -> Self {
        Self { chance, last: false, stream }
    }

    fn draw(&mut self) -> bool {
        let Chance { probability, correlation } = self.chance;
        let again = if self.last { correlation } else { 0.0 };
        self.last = self.stream.chance(probability * (1.0 - correlation) + again);
        self.last
    }
}

/// Impairments that befall one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Befalls {
    /// The packet is damaged; then nothing else matters.
    pub corrupted: bool,
    /// Time for which it stays behind, if it does.
    pub late: Option<Dur>,
    /// The packet arrives twice.
    pub twice: bool,
    /// The packet arrives before one that left earlier, because the delay has fallen.
    pub overtakes: bool,
}

impl Befalls {
    fn is_reordered(self) -> bool {
        self.late.is_some() || self.overtakes
    }

    /// Returns the number of copies that arrive.
    #[must_use]
    pub fn copies(self) -> u32 {
        if self.corrupted { 0 } else { 1 + u32::from(self.twice) }
    }

    /// Returns whether something befalls the packet.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// Returns the kinds of impairments that matter.
    pub fn kinds(self) -> impl Iterator<Item = Impairment> {
        let intact = !self.corrupted;
        let kinds = [
            self.corrupted.then_some(Impairment::Corrupted),
            (intact && self.is_reordered()).then_some(Impairment::Reordered),
            (intact && self.twice).then_some(Impairment::Duplicated),
        ];
        kinds.into_iter().flatten()
    }
}

/// Impairments of a wire, packet by packet.
#[derive(Clone, Debug)]
pub struct Impairments {
    reorder: Option<(Draws, Dur)>,
    duplicate: Option<Draws>,
    corrupt: Option<Draws>,
}

impl Impairments {
    /// Returns what `spec` describes; each impairment draws from a stream of its own.
    #[must_use]
    pub fn new(spec: &ImpairmentsSpec, stream: impl Fn(Purpose) -> Stream) -> Self {
        Self {
            reorder: spec.reorder.map(|r| (Draws::new(r.chance, stream(Purpose::Reordering)), r.late)),
            duplicate: spec.duplicate.map(|chance| Draws::new(chance, stream(Purpose::Duplication))),
            corrupt: spec.corrupt.map(|chance| Draws::new(chance, stream(Purpose::Corruption))),
        }
    }

    /// Returns what befalls the next packet that leaves.
    pub fn draw(&mut self) -> Befalls {
        Befalls {
            corrupted: self.corrupt.as_mut().is_some_and(Draws::draw),
            late: self.reorder.as_mut().and_then(|(draws, late)| draws.draw().then_some(*late)),
            twice: self.duplicate.as_mut().is_some_and(Draws::draw),
            overtakes: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of events, and the correlation of neighbours.
    fn measured(chance: Chance) -> (f64, f64) {
        let mut draws = Draws::new(chance, Stream::new(5, Purpose::Reordering, 0));
        let drawn: Vec<f64> = (0..400_000).map(|_| f64::from(u8::from(draws.draw()))).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let product = drawn.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / drawn.len() as f64;
        (mean, product / (mean * (1.0 - mean)))
    }

    #[test]
    fn shares_and_correlations_are_those_asked_for() {
        for (probability, correlation) in [(0.01, 0.0), (0.3, 0.0), (0.1, 0.5), (0.02, 0.9), (0.9, 0.2)] {
            let (share, found) = measured(Chance { probability, correlation });
            assert!((share - probability).abs() < 0.01 * (1.0 + 2.0 * correlation), "{share} for {probability}");
            assert!((found - correlation).abs() < 0.05, "{found} for {correlation}");
        }
        let always = Chance { probability: 1.0, correlation: 0.5 };
        assert!(measured(always).0 > 0.999_99);
        assert!(measured(Chance { probability: 0.0, correlation: 1.0 }).0 == 0.0);
    }

    #[test]
    fn impairments_do_not_share_random_numbers() {
        let chance = Chance { probability: 0.5, correlation: 0.0 };
        let reorder = Some(Reorder { chance, late: Dur(5) });
        let chance = Some(chance);
        let all = ImpairmentsSpec { reorder, duplicate: chance, corrupt: chance };
        let stream = |purpose| Stream::new(3, purpose, 0);
        let mut all = Impairments::new(&all, stream);
        let mut alone = Impairments::new(&ImpairmentsSpec { duplicate: chance, ..ImpairmentsSpec::default() }, stream);
        let mut seen = [0; 3];
        for _ in 0..1000 {
            let (fate, twice) = (all.draw(), alone.draw());
            assert_eq!(twice, Befalls { twice: fate.twice, ..Befalls::default() }, "others change nothing");
            seen[0] += usize::from(fate.corrupted);
            seen[1] += usize::from(fate.late == Some(Dur(5)));
            seen[2] += usize::from(fate.twice != fate.corrupted);
        }
        assert!(seen.iter().all(|count| (400..600).contains(count)), "{seen:?}");
    }
}
