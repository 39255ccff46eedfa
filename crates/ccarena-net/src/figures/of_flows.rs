//! Figures of each flow from the packets that a link delivered, in one pass over them.

use std::iter;

use super::{Signals, nth, percentile_of_spans};

/// Packets that a link delivered, in the order in which they left: equally long columns.
#[derive(Clone, Copy, Debug)]
pub struct Packets<'a> {
    /// Entering the queue.
    pub arrival_ns: &'a [i64],
    /// Last bit sent.
    pub departure_ns: &'a [i64],
    /// Index of the flow; None if the figures are of all packets together, as flow 0.
    pub flow: Option<&'a [u32]>,
    /// IP bytes.
    pub bytes: &'a [u32],
    /// Own transmission time.
    pub sending_ns: &'a [u32],
}

/// One packet of `Packets`.
#[derive(Clone, Copy)]
struct Packet {
    flow: usize,
    arrival_ns: i64,
    departure_ns: i64,
    bytes: u32,
    sending_ns: u32,
}

impl Packet {
    fn whole_ns(self) -> i64 {
        self.departure_ns - self.arrival_ns
    }

    fn queueing_ns(self) -> i64 {
        self.whole_ns() - i64::from(self.sending_ns)
    }
}

/// Times in ns after the first and up to the last.
#[derive(Clone, Copy, Debug)]
pub struct Within(pub i64, pub i64);

impl Within {
    const fn has(self, at_ns: i64) -> bool {
        at_ns > self.0 && at_ns <= self.1
    }
}

impl<'a> Packets<'a> {
    /// Calls `each` for the packets that left within `window`.
    fn for_each(self, window: Within, mut each: impl FnMut(Packet)) {
        let times = self.arrival_ns.iter().zip(self.departure_ns);
        let rows = times.zip(self.bytes.iter().zip(self.sending_ns));
        let packet = |flow: u32, ((&arrival_ns, &departure_ns), (&bytes, &sending_ns)): Row<'a>| Packet {
            flow: flow as usize,
            arrival_ns,
            departure_ns,
            bytes,
            sending_ns,
        };
        let mut counted = |packet: Packet| {
            if window.has(packet.departure_ns) {
                each(packet);
            }
        };
        match self.flow {
            None => rows.for_each(|row| counted(packet(0, row))),
            Some(flows) => rows.zip(flows).for_each(|(row, &flow)| counted(packet(flow, row))),
        }
    }
}

/// Times, and bytes with own transmission time, of one packet.
type Row<'a> = ((&'a i64, &'a i64), (&'a u32, &'a u32));

/// Packets that went at a link in one way, and did not arrive: equally long columns.
#[derive(Clone, Copy, Debug)]
pub struct Gone<'a> {
    /// Time at which each went.
    pub at_ns: &'a [i64],
    /// Index of its flow.
    pub flow: &'a [u32],
}

/// Counts and sums over the packets of one flow, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of packets.
    pub packets: u64,
    /// IP bytes.
    pub bytes: u64,
    /// IP bytes of those that left in the flow's time.
    pub active_bytes: u64,
    /// Departure less arrival less own sending.
    pub queueing_ns: i64,
    /// Departure less arrival.
    pub whole_ns: i64,
    /// Number of packets that went, in each way.
    pub gone: Vec<u64>,
}

impl Sums {
    fn add(&mut self, packet: Packet, there: Within) {
        self.packets += 1;
        self.bytes += u64::from(packet.bytes);
        self.active_bytes += if there.has(packet.departure_ns) { u64::from(packet.bytes) } else { 0 };
        self.queueing_ns += packet.queueing_ns();
        self.whole_ns += packet.whole_ns();
    }
}

/// Returns the sums of each flow, and the sums of all packets, over those that left or went within `window`.
///
/// `active` are the times of the flows, and `all` is the time that counts for all packets.
#[must_use]
pub fn sums(
    packets: Packets<'_>,
    gone: &[Gone<'_>],
    window: Within,
    active: &[Within],
    all: Within,
) -> (Vec<Sums>, Sums) {
    let none = Sums { gone: vec![0; gone.len()], ..Sums::default() };
    let mut flows: Vec<(Within, Sums)> = active.iter().map(|&there| (there, none.clone())).collect();
    let mut total = none;
    packets.for_each(window, |packet| {
        if let Some((there, sums)) = flows.get_mut(packet.flow) {
            sums.add(packet, *there);
        }
        total.add(packet, all);
    });
    for (way, packets) in gone.iter().enumerate() {
        for (_, &flow) in packets.at_ns.iter().zip(packets.flow).filter(|(at_ns, _)| window.has(**at_ns)) {
            let of_flow = flows.get_mut(flow as usize).map(|(_, sums)| sums);
            for count in of_flow.into_iter().chain([&mut total]).filter_map(|sums| sums.gone.get_mut(way)) {
                *count += 1;
            }
        }
    }
    (flows.into_iter().map(|(_, sums)| sums).collect(), total)
}

/// Percentiles over the packets of one flow, in ms.
#[derive(Clone, Debug, PartialEq)]
pub struct Percentiles {
    /// Queueing delays, for each of `Shares::queueing`.
    pub queueing_ms: Vec<f64>,
    /// Departure less arrival.
    pub whole_ms: f64,
    /// Signal delays (`signal_spans`).
    pub signal_ms: f64,
}

/// Shares of the sorted values at which percentiles are taken.
#[derive(Clone, Copy, Debug)]
pub struct Shares<'a> {
    /// Shares for queueing delays.
    pub queueing: &'a [f64],
    /// Share for whole delays and signal delays.
    pub tail: f64,
}

/// Pauses of a flow's application, on which signal delays depend beside its packets.
#[derive(Clone, Debug, Default)]
pub struct Pauses {
    /// Time without a packet after which the application pauses; None if it never does.
    pub after_ns: Option<i64>,
    /// Times at which packets went.
    pub gone_ns: Vec<i64>,
}

/// Returns the percentiles of each flow over packets that left within `window`; NaN of a flow without any, and None of a flow
/// that is None in `of`.
#[must_use]
pub fn percentiles(
    packets: Packets<'_>,
    window: Within,
    of: &[Option<Pauses>],
    shares: Shares<'_>,
) -> Vec<Option<Percentiles>> {
    let mut flows: Vec<Option<Delays<'_>>> = of.iter().map(|pauses| pauses.as_ref().map(Delays::new)).collect();
    let rows = packets.bytes.len() / flows.iter().flatten().count().max(1);
    flows.iter_mut().flatten().for_each(|flow| flow.queueing_ns.reserve(rows));
    packets.for_each(window, |packet| {
        if let Some(Some(flow)) = flows.get_mut(packet.flow) {
            flow.take(packet);
        }
    });
    // If all packets of a flow take as long to send, its whole delays are in the order of its queueing delays.
    if flows.iter().flatten().any(|flow| !flow.same) {
        packets.for_each(window, |packet| match flows.get_mut(packet.flow) {
            Some(Some(flow)) if !flow.same => flow.whole_ns.push(packet.whole_ns()),
            _ => {}
        });
    }
    // Signal delays take packets by arrival, in which order those of one flow nearly always leave.
    for (index, flow) in flows.iter_mut().enumerate() {
        let Some(flow) = flow.as_mut().filter(|flow| !flow.in_order) else { continue };
        let mut mine = Vec::with_capacity(flow.queueing_ns.len());
        packets.for_each(window, |packet| {
            if packet.flow == index {
                mine.push((packet.arrival_ns, packet.departure_ns));
            }
        });
        mine.sort_by_key(|packet| packet.0);
        flow.signals.restart();
        for (arrival, departure) in mine {
            flow.signals.take(arrival, departure);
        }
    }
    flows.into_iter().map(|flow| Some(flow?.percentiles(shares))).collect()
}

/// Delays of one flow's packets.
struct Delays<'a> {
    queueing_ns: Vec<i64>,
    /// Own transmission time of its first packet.
    own_ns: u32,
    /// All packets have this own transmission time.
    same: bool,
    /// Whole delays, if not.
    whole_ns: Vec<i64>,
    signals: Signals<'a>,
    last_arrival_ns: i64,
    in_order: bool,
}

impl<'a> Delays<'a> {
    fn new(pauses: &'a Pauses) -> Self {
        Delays {
            queueing_ns: Vec::new(),
            own_ns: 0,
            same: true,
            whole_ns: Vec::new(),
            signals: Signals::new(pauses.after_ns, &pauses.gone_ns),
            last_arrival_ns: i64::MIN,
            in_order: true,
        }
    }

    fn take(&mut self, packet: Packet) {
        if self.queueing_ns.is_empty() {
            self.own_ns = packet.sending_ns;
        }
        self.same &= packet.sending_ns == self.own_ns;
        self.queueing_ns.push(packet.queueing_ns());
        self.in_order &= packet.arrival_ns >= self.last_arrival_ns;
        self.last_arrival_ns = packet.arrival_ns;
        self.signals.take(packet.arrival_ns, packet.departure_ns);
    }

    fn percentiles(mut self, shares: Shares<'_>) -> Percentiles {
        let ms = |ns: i64| ns as f64 / 1e6;
        let wanted = [shares.queueing, &[shares.tail]].concat();
        let found = nth(&mut self.queueing_ns, &wanted).unwrap_or_default();
        let (queueing_ns, tail_ns) = found.split_at(found.len().saturating_sub(1));
        let shifted = tail_ns.first().map(|queueing| queueing + i64::from(self.own_ns));
        let mut selected = || nth(&mut self.whole_ns, &[shares.tail])?.first().copied();
        let whole_ns = if self.same { shifted } else { selected() };
        let none = if found.is_empty() { shares.queueing.len() } else { 0 };
        Percentiles {
            queueing_ms: queueing_ns.iter().copied().map(ms).chain(iter::repeat_n(f64::NAN, none)).collect(),
            whole_ms: whole_ns.map_or(f64::NAN, ms),
            signal_ms: percentile_of_spans(&self.signals.spans(), shares.tail).map_or(f64::NAN, |ms| ms as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::figures::{delays_ms, percentiles as of_values, signal_spans};

    /// Packets of up to four flows: arrival, time in the queue and in sending, flow, bytes.
    fn logs() -> impl Strategy<Value = Vec<(i64, i64, u32, u32, u32)>> {
        let sending = prop_oneof![3 => Just(12_000_u32), 1 => 0_u32..50_000];
        let packet = (0_i64..3_000_000, 0_i64..40_000_000, sending, 0_u32..4, 40_u32..1_500);
        prop::collection::vec(packet, 0..300).prop_map(|packets| {
            let mut at = 0;
            let mut log: Vec<_> = packets
                .into_iter()
                .map(|(gap, queued, sending, flow, bytes)| {
                    at += gap;
                    (at, at + queued + i64::from(sending), sending, flow, bytes)
                })
                .collect();
            log.sort_by_key(|packet| packet.1);
            log
        })
    }

    proptest! {
        #[test]
        fn figures_of_flows_are_those_of_their_packets_alone(
            log in logs(),
            window in prop_oneof![Just((i64::MIN, i64::MAX)), (0_i64..90_000_000, 90_000_000_i64..400_000_000)],
            after in prop::option::of(0_i64..9_000_000),
            gone in prop::collection::vec(0_i64..400_000_000, 0..9),
            together in any::<bool>(),
        ) {
            let column = |f: fn(&(i64, i64, u32, u32, u32)) -> i64| log.iter().map(f).collect::<Vec<i64>>();
            let small = |f: fn(&(i64, i64, u32, u32, u32)) -> u32| log.iter().map(f).collect::<Vec<u32>>();
            let (arrival_ns, departure_ns) = (column(|p| p.0), column(|p| p.1));
            let (sending_ns, flow, bytes) = (small(|p| p.2), small(|p| p.3), small(|p| p.4));
            let packets = Packets {
                arrival_ns: &arrival_ns, departure_ns: &departure_ns, flow: (!together).then_some(flow.as_slice()),
                bytes: &bytes, sending_ns: &sending_ns,
            };
            let (window, active) = (Within(window.0, window.1), Within(50_000_000, 200_000_000));
            let shares = Shares { queueing: &[0.5, 0.95, 0.99], tail: 0.95 };
            let pauses = Some(Pauses { after_ns: after, gone_ns: gone.clone() });
            let ways = [Gone { at_ns: &gone, flow: &vec![1; gone.len()] }, Gone { at_ns: &gone, flow: &vec![7; gone.len()] }];
            let (sums, total) = sums(packets, &ways, window, &[active; 5], active);
            let found = percentiles(packets, window, &vec![pauses; 5], shares);
            let went = gone.iter().filter(|&&at_ns| window.has(at_ns)).count() as u64;
            prop_assert_eq!(&total.gone, &vec![went, went]);
            prop_assert_eq!(total.queueing_ns, sums.iter().map(|of| of.queueing_ns).sum::<i64>());
            prop_assert_eq!(total.active_bytes, sums.iter().map(|of| of.active_bytes).sum::<u64>());
            for index in 0..5 {
                let mine: Vec<_> = log
                    .iter()
                    .filter(|p| (if together { 0 } else { p.3 }) == index && window.has(p.1))
                    .collect();
                let (arrival, departure): (Vec<i64>, Vec<i64>) = mine.iter().map(|p| (p.0, p.1)).unzip();
                let sending: Vec<u32> = mine.iter().map(|p| p.2).collect();
                let queueing = delays_ms(&arrival, &departure, Some(&sending), 0.0);
                let whole = delays_ms(&arrival, &departure, None, 0.0);
                let spans = signal_spans(&arrival, &departure, after, &gone);
                let expected = [
                    of_values(&queueing, shares.queueing).unwrap_or(vec![f64::NAN; 3]),
                    of_values(&whole, &[0.95]).unwrap_or(vec![f64::NAN]),
                    vec![percentile_of_spans(&spans, 0.95).map_or(f64::NAN, |ms| ms as f64)],
                ].concat();
                let Percentiles { queueing_ms, whole_ms, signal_ms } = found[index as usize].as_ref().unwrap();
                let seen = [queueing_ms.clone(), vec![*whole_ms, *signal_ms]].concat();
                prop_assert_eq!(seen.map_bits(), expected.map_bits());
                let sums = &sums[index as usize];
                prop_assert_eq!(&sums.gone, &vec![if index == 1 { went } else { 0 }, 0]);
                prop_assert_eq!(sums.packets, mine.len() as u64);
                prop_assert_eq!(sums.bytes, mine.iter().map(|p| u64::from(p.4)).sum::<u64>());
                let there = mine.iter().filter(|p| active.has(p.1));
                prop_assert_eq!(sums.active_bytes, there.map(|p| u64::from(p.4)).sum::<u64>());
                prop_assert_eq!(sums.whole_ns, mine.iter().map(|p| p.1 - p.0).sum::<i64>());
                let own: i64 = mine.iter().map(|p| i64::from(p.2)).sum();
                prop_assert_eq!(sums.queueing_ns, sums.whole_ns - own);
            }
        }
    }

    trait MapBits {
        fn map_bits(&self) -> Vec<u64>;
    }

    impl MapBits for Vec<f64> {
        fn map_bits(&self) -> Vec<u64> {
            self.iter().map(|value| value.to_bits()).collect()
        }
    }
}
