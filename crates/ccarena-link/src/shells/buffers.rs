//! Buffers of TCP sockets, which bound a flow's window: as large as the links need, in the namespaces that we make.
//!
//! Linux grows a socket's buffers up to the last values of `tcp_rmem` and `tcp_wmem` (tcp(7)). They count the memory of
//! packets with all that belongs to it, about twice their payload. A new namespace has the machine's values, which hold a
//! gigabit over a few milliseconds.

use ccarena_cc::types::{Dur, Rate};
use ccarena_net::Scenario;
use ccarena_net::scenario::{Flow, Link as LinkSpec};

use super::ends::Ends;
use super::enlarged::{Enlarged, KEYS, enlarge, values};
use crate::emulator::Extremes;
use crate::network::{End, Network};

/// Rate for which buffers are made where the links have none.
const UNKNOWN: Rate = Rate(1_000_000_000);

/// Rates from which on a link serves at once.
const AT_ONCE: Rate = Rate(1_000_000_000_000);

/// Largest buffer that we ask for.
const MOST_BYTES: u64 = 1 << 30;

/// Setting of the kernel, a direction, and memory per byte.
type Setting = (&'static str, &'static str, f64);

/// Settings of the kernel, the direction of the data of a machine that they bound, and the memory that a byte of payload
/// takes: of receivers (`tcp_adv_win_scale` of 1), and of senders (as measured).
const SETTINGS: [Setting; 2] = [(KEYS[0], "to", 2.0), (KEYS[1], "from", 1.5)];

/// Memory of a window that we ask for, per byte: enough for both.
const OVERHEAD: u64 = 2;

/// Window that fills the links in both directions, and what it comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// Rate of the links; none of a delay alone.
    rate: Option<Rate>,
    rtt: Dur,
    /// Twice the bandwidth-delay product, since a lost packet is repeated a round trip later, and the queue.
    window_bytes: u64,
}

impl Need {
    /// Returns the need of the hungriest flow of `scenario`, in either direction; `extremes` are its links'. `before` is the
    /// delay of both ways before the first link.
    pub fn of(scenario: &Scenario, extremes: &[Extremes], before: Dur) -> Option<Self> {
        let longer = |links: &[usize]| {
            let beyond = |&l: &usize| extremes[l].delay - scenario.links[l].delay;
            links.iter().map(beyond).fold(Dur::ZERO, |sum, d| sum + d)
        };
        let mut needs = Vec::new();
        for flow in &scenario.flows {
            let rtt = scenario.base_rtt(flow) + longer(&flow.path) + longer(&flow.return_path) + before;
            let ways = [&flow.path, &flow.return_path];
            // Behind a delay alone, a flow crosses no link.
            let crosses = ways.iter().any(|path| !path.is_empty());
            let crossed = ways.into_iter().filter(|path| !crosses || !path.is_empty());
            needs.extend(crossed.map(|path| Self::of_path(path, &scenario.links, extremes, rtt)));
        }
        needs.into_iter().max_by_key(|need| need.window_bytes)
    }

    fn of_path(path: &[usize], links: &[LinkSpec], extremes: &[Extremes], rtt: Dur) -> Self {
        let rate = path.iter().map(|&l| extremes[l].rate).filter(|rate| *rate < AT_ONCE).min();
        let bdp = rate.unwrap_or(UNKNOWN).bytes_in(rtt).0;
        let queue = |&l: &usize| links[l].queue.limit.map_or(0, |limit| limit.bytes(bdp));
        let queued = path.iter().map(queue).fold(0, u64::saturating_add);
        Self { rate, rtt, window_bytes: bdp.saturating_mul(2).saturating_add(queued) }
    }

    /// Returns the buffer that holds the window.
    fn buffer_bytes(self) -> u64 {
        self.window_bytes.saturating_mul(OVERHEAD).min(MOST_BYTES)
    }

    /// Enlarges the buffers of both ends of `network`, which is ours.
    pub fn enlarge_network(self, network: &Network) {
        for end in [End::Senders, End::Receivers] {
            enlarge(network.namespace(end), self.buffer_bytes());
        }
    }

    /// Enlarges the buffers at the `ends` that a shell made. The settings of an end that is the machine's own change only
    /// if `machine` asks for it, until what is returned goes; else there is a complaint if they are too small.
    pub fn enlarge_ends(self, ends: &Ends, machine: bool) -> (Option<Enlarged>, Option<String>) {
        let most = || ends.outer.run(|| SETTINGS.map(|(key, ..)| values(key).map_or(u64::MAX, |v| v[2])));
        let Ok(outside) = most() else { return (None, None) };
        // A command in this shell crosses the links of the enclosing ones, too, and needs their buffers.
        let around = if ends.nested { outside.into_iter().min().unwrap_or(0) } else { 0 };
        enlarge(&ends.inner, self.buffer_bytes().max(around));
        if ends.private || ends.nested {
            enlarge(&ends.outer, self.buffer_bytes());
            return (None, None);
        }
        let (enlarged, instead) = match machine.then(|| Enlarged::new(&ends.outer, self.buffer_bytes())).transpose() {
            Ok(None) => (None, "Add --enlarge-buffers, or".to_owned()),
            Ok(enlarged) => (enlarged, "They cannot be enlarged from here".to_owned()),
            Err(e) => (None, format!("They cannot be enlarged from here ({e})")),
        };
        (enlarged, self.complaint(most().unwrap_or(outside), &instead))
    }

    /// Returns what to say of a machine whose own sockets buffer up to `most` bytes, if that is too little. `instead` leads to
    /// the command that enlarges them.
    fn complaint(self, most: [u64; 2], instead: &str) -> Option<String> {
        let rate = self.rate?;
        let bdp = rate.bytes_in(self.rtt).0 as f64;
        let short: Vec<_> = SETTINGS.iter().zip(most).filter(|((.., each), most)| bdp * each > *most as f64).collect();
        let ways: Vec<&str> = short.iter().map(|((_, way, _), _)| *way).collect();
        let figure = |((key, _, each), most): &(&Setting, u64)| {
            format!("{:.1} MB, and {key} is {:.1} MB", bdp * each / 1e6, *most as f64 / 1e6)
        };
        let figures: Vec<String> = short.iter().map(figure).collect();
        let remedy = |((key, ..), _): &(&Setting, u64)| format!("{key}=\"4096 131072 {}\"", self.buffer_bytes());
        let remedies: Vec<String> = short.iter().map(remedy).collect();
        (!short.is_empty()).then(|| {
            format!(
                "one TCP flow {} this machine may be slower than the links: {:.0} Mbit/s over {:.0} ms take a buffer of {}. \
                 {instead}: sysctl -w {}",
                ways.join(" or "),
                rate.as_mbps(),
                self.rtt.as_millis_f64(),
                figures.join(", "),
                remedies.join(" "),
            )
        })
    }
}

/// The fastest that links of `scenario` become in each direction: from the near end, and from the far end. None where
/// they serve at once.
pub fn fastest(scenario: &Scenario, extremes: &[Extremes]) -> [Option<Rate>; 2] {
    let slowest = |path: &[usize]| path.iter().map(|&l| extremes[l].rate).min().filter(|rate| *rate < AT_ONCE);
    let of_flows = |path: fn(&Flow) -> &[usize]| scenario.flows.iter().map(|f| slowest(path(f))).max().flatten();
    [of_flows(|flow| &flow.path), of_flows(|flow| &flow.return_path)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(queue: &str, mbps: f64) -> Need {
        let document = format!(
            r#"{{"links": [{{"service": {{"type": "constant", "rate_mbps": {mbps}}}, "queue": {queue}, "delay_ms": 20}}],
                "flows": [{{"scheme": "cubic"}}]}}"#
        );
        let scenario = Scenario::parse(&document).unwrap();
        Need::of(&scenario, &[Extremes { rate: Rate::from_mbps(mbps), delay: Dur::from_millis(30) }], Dur::ZERO)
            .unwrap()
    }

    #[test]
    fn a_window_is_two_bdp_and_the_queue() {
        // 40 ms, and 10 ms more where the delay is longest: 6.25 MB at 1 Gbit/s.
        let need = need(r#"{"type": "droptail", "packets": 100}"#, 1000.0);
        assert_eq!(need.window_bytes, 2 * 6_250_000 + 150_000);
        assert_eq!(need.buffer_bytes(), 2 * need.window_bytes);
        assert_eq!(self::need(r#"{"type": "droptail", "bdp": 1}"#, 1000.0).window_bytes, 3 * 6_250_000);
        assert_eq!(self::need(r#"{"type": "infinite"}"#, 1e6).rate, None, "a link that serves at once has no rate");
        assert_eq!(self::need(r#"{"type": "droptail", "bytes": 900000000000}"#, 100.0).buffer_bytes(), MOST_BYTES);
    }

    #[test]
    fn a_machine_with_small_buffers_is_told_which() {
        let need = need(r#"{"type": "infinite"}"#, 1000.0);
        assert_eq!(need.complaint([12_500_000, 9_375_000], "Or"), None);
        let said = need.complaint([6_291_456, 33_554_432], "Or").unwrap();
        assert!(said.starts_with("one TCP flow to this machine may be slower"), "{said}");
        assert!(
            said.contains("1000 Mbit/s over 50 ms take a buffer of 12.5 MB, and net.ipv4.tcp_rmem is 6.3 MB"),
            "{said}"
        );
        assert!(said.ends_with("Or: sysctl -w net.ipv4.tcp_rmem=\"4096 131072 25000000\""), "{said}");
        assert!(need.complaint([0, 0], "Or").unwrap().contains("to or from this machine"));
        assert_eq!(Need { rate: None, ..need }.complaint([0, 0], "Or"), None);
    }
}
