//! A sender and a receiver over a path whose every packet meets the fate that a test gives it.

use std::collections::BTreeMap;

use ccarena_cc::{Config, LossInfo, SentInfo, registry};
use ccarena_net::apps::{App, Source, Start, Transfers};
use proptest::prelude::*;

use super::*;
use crate::packet::{Blocks, Packet};
use crate::receiver::Receiver;

const MSS: u32 = 1448;
/// One-way delay, and the time that the bottleneck takes for a packet.
const DELAY: Dur = Dur::from_millis(20);
const SERVICE: Dur = Dur::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    /// Arrives so many ms late.
    Late(u64),
    Lost,
    /// Arrives twice, the second time so many ms late.
    Twice(u64),
}

const IN_TIME: Fate = Fate::Late(0);

enum Arrival {
    Data(Packet),
    Acknowledgement(Ack, Blocks),
}

/// A controller whose undone reductions give back the window that they took.
struct Restoring {
    inner: Box<dyn Controller>,
    before: Bytes,
}

impl Controller for Restoring {
    fn transport(&self) -> TransportNeeds {
        self.inner.transport()
    }

    fn on_sent(&mut self, sent: &SentInfo) {
        self.inner.on_sent(sent);
    }

    fn on_ack(&mut self, ack: &AckInfo) {
        self.inner.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.before = self.window();
        }
        self.inner.on_loss(loss);
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        if loss.new_episode {
            self.before = self.window();
        }
        self.inner.on_timeout(loss);
    }

    fn on_spurious_loss(&mut self, now: Time) {
        self.inner.on_spurious_loss(now);
        // BBR's returns when the recovery ends.
        assert!(
            self.window() >= self.before || self.transport().owns_recovery,
            "{} < {}",
            self.window().0,
            self.before.0
        );
    }

    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.inner.on_recovery_end(now, in_flight);
    }

    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        self.inner.on_idle_restart(now, idle, rto);
    }

    fn window(&self) -> Bytes {
        self.inner.window()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.inner.pacing_rate()
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.inner.slow_start_threshold()
    }
}

struct Path<F: FnMut(bool, u32) -> Fate> {
    sender: Sender,
    receiver: Receiver,
    now: Time,
    free_at: Time,
    coming: BTreeMap<(Time, u64), Arrival>,
    sent: u64,
    /// Fate of a packet: whether it is data, and the number of its segment or of the acknowledgement.
    fate: F,
    acknowledgements: u32,
    /// Duplicates that acknowledgements have reported to the sender.
    reported: u32,
}

impl<F: FnMut(bool, u32) -> Fate> Path<F> {
    fn new(scheme: &str, segments: u32, sack: bool, fate: F) -> Self {
        let config = Config { mss: MSS, slow_start: false, initial_window: 20, ..Config::default() };
        let app = App::Transfers(Transfers { sizes_bytes: vec![u64::from(segments * MSS)], gap: Dur::ZERO });
        let start = Start { mss: MSS, seed: 1, return_delay: Dur::ZERO };
        let options = SenderOptions {
            mss: MSS,
            sack,
            ecn: Ecn::NotEct,
            counts_marks: false,
            receive_window: 1000,
            ack_delay: false,
            min_rto: Dur::from_millis(200),
            burst: 1,
        };
        let inner = registry::build(scheme, &config).unwrap();
        let controller = Box::new(Restoring { inner, before: Bytes(0) });
        let mut path = Self {
            sender: Sender::new(controller, AppState::new(Source::new(&app, &start), Time::ZERO, MSS), options),
            receiver: Receiver::new(MSS, sack, true),
            now: Time::ZERO,
            free_at: Time::ZERO,
            coming: BTreeMap::new(),
            sent: 0,
            fate,
            acknowledgements: 0,
            reported: 0,
        };
        path.sender.on_app(Time::ZERO);
        path.send(None);
        path
    }

    fn put(&mut self, at: Time, data: bool, number: u32, make: impl Fn() -> Arrival) {
        let ms = Dur::from_millis;
        let times = match (self.fate)(data, number) {
            Fate::Late(late) => vec![at + ms(late)],
            Fate::Lost => vec![],
            Fate::Twice(late) => vec![at, at + ms(late)],
        };
        for time in times {
            self.sent += 1;
            self.coming.insert((time, self.sent), make());
        }
    }

    fn send(&mut self, first: Option<Leaving>) {
        let mut leaving = Vec::new();
        self.sender.send(self.now, first, |emission| leaving.push(emission));
        for Emission { seq, rtt, signal, pushed, .. } in leaving {
            self.free_at = self.free_at.max(self.now) + SERVICE;
            let packet = Packet {
                arrival: Time::ZERO,
                sent: self.now,
                rtt,
                signal,
                flow: 0,
                seq,
                bytes: MSS + 52,
                hop: 0,
                is_ack: false,
                ecn: Ecn::NotEct,
                flags: u8::from(pushed) * Packet::PUSH,
            };
            self.put(self.free_at + DELAY, true, seq, || Arrival::Data(packet));
        }
    }

    fn acknowledge(&mut self, ack: Ack) {
        let blocks = self.receiver.blocks;
        self.acknowledgements += 1;
        self.put(self.now + DELAY, false, self.acknowledgements, || Arrival::Acknowledgement(ack, blocks));
    }

    /// Runs what comes next; false if nothing does.
    fn step(&mut self) -> bool {
        let coming = self.coming.first_key_value().map_or(Time::NEVER, |(key, _)| key.0);
        self.now = coming.min(self.receiver.ack_due).min(self.sender.next_timer());
        if self.now == Time::NEVER {
            return false;
        }
        if coming == self.now {
            match self.coming.pop_first().unwrap().1 {
                Arrival::Data(packet) => {
                    if self.receiver.on_data(&packet, MSS, self.now) {
                        let ack = self.receiver.acknowledge();
                        self.acknowledge(ack);
                    }
                }
                Arrival::Acknowledgement(ack, blocks) => {
                    self.reported += u32::from(ack.duplicate);
                    self.sender.on_ack(&ack, &blocks, Signal::None, self.now);
                    self.send(None);
                }
            }
        } else if self.receiver.ack_due == self.now {
            let ack = self.receiver.on_timer();
            self.acknowledge(ack);
        } else {
            let first = self.sender.on_timer(self.now);
            self.send(first);
        }
        true
    }

    /// Runs until the transfer and the packets under way have ended; `look` sees each step.
    fn finish(&mut self, mut look: impl FnMut(&Self)) {
        while self.sender.app.outcome().completion.is_empty() {
            assert!(
                self.step() && self.now < Time(3_600_000_000_000),
                "the transfer has stalled: {:?}",
                self.sender.stats
            );
            look(self);
        }
        while !self.coming.is_empty() {
            self.step();
            look(self);
        }
    }
}

/// Every hundredth segment comes `late_ms` late the first time, when `late_from` segments have come.
fn now_and_then(late_ms: u64) -> impl FnMut(bool, u32) -> Fate {
    let mut next = 50;
    move |data, seq| {
        if data && seq == next {
            next += 100;
            return Fate::Late(late_ms);
        }
        IN_TIME
    }
}

#[test]
fn the_first_reordering_is_taken_for_loss_and_undone_and_later_ones_are_waited_for() {
    for scheme in ["reno", "cubic"] {
        let mut path = Path::new(scheme, 2000, true, now_and_then(6));
        path.finish(|_| ());
        let (stats, reordering) = (path.sender.stats, path.sender.reordering());
        assert_eq!((stats.retransmitted, stats.timeouts, path.sender.undone()), (1, 0, 1), "{scheme}: {stats:?}");
        assert_eq!((reordering.duplicates(), path.receiver.duplicates), (1, 1), "{scheme}");
        assert!(reordering.seen() >= 19, "{scheme}: {reordering:?}");
        assert!((5..=7).contains(&reordering.threshold()), "{scheme}: {reordering:?}");
    }
}

/// The reordering window begins at a quarter of the least RTT, about 10 ms, and each round trip with needless
/// retransmissions adds as much.
#[test]
fn duplicates_widen_the_reordering_window_until_nothing_is_repeated() {
    let mut path = Path::new("reno", 6000, true, now_and_then(25));
    let mut last = Time::ZERO;
    let mut repeated = 0;
    path.finish(|path| {
        if path.sender.stats.retransmitted > repeated {
            (repeated, last) = (path.sender.stats.retransmitted, path.now);
        }
    });
    assert!((2..=8).contains(&repeated), "{:?} {:?}", path.sender.stats, path.sender.reordering());
    assert_eq!(path.receiver.duplicates, repeated, "all were needless");
    assert!(path.sender.undone() >= 2);
    assert!(last.0 < path.now.0 / 3, "the last at {last:?} of {:?}", path.now);
}

#[test]
fn what_the_network_duplicates_reduces_and_undoes_nothing() {
    let mut path =
        Path::new("cubic", 2000, true, |data, seq| if data && seq % 20 == 3 { Fate::Twice(2) } else { IN_TIME });
    path.finish(|path| assert_eq!(path.sender.recovery, RecoveryState::Open));
    let (stats, reordering) = (path.sender.stats, path.sender.reordering());
    assert_eq!((stats.lost, stats.retransmitted, path.sender.undone(), reordering.seen()), (0, 0, 0, 0));
    assert_eq!((path.receiver.duplicates, reordering.duplicates()), (100, 100));
}

/// Real losses are repaired once, though every acknowledgement in three is late and so overtaken.
#[test]
fn losses_are_repaired_once_behind_overtaken_acknowledgements() {
    let mut gone = std::collections::BTreeSet::new();
    let mut path = Path::new("reno", 3000, true, |data, number| match data {
        true if number % 97 == 50 && gone.insert(number) => Fate::Lost,
        false if number % 3 == 0 => Fate::Late(3),
        _ => IN_TIME,
    });
    path.finish(|_| ());
    let stats = path.sender.stats;
    assert_eq!((stats.timeouts, path.receiver.duplicates, path.sender.undone()), (0, 0, 0), "{stats:?}");
    assert_eq!(stats.retransmitted, 31, "{stats:?}");
}

/// A pause of the path longer than the timeout: what arrives after it shows that nothing was lost.
#[test]
fn a_spurious_timeout_is_undone() {
    for (scheme, sack) in [("reno", true), ("cubic", true), ("reno", false)] {
        // The path carries nothing for 0.6 s from segment 200 on.
        let mut since = None;
        let mut path = Path::new(scheme, 1000, sack, |data, seq| {
            if data && seq >= 200 {
                since = Some(since.unwrap_or(0) + 1);
            }
            match since {
                Some(n) if data && n <= 40 => Fate::Late(600),
                _ => IN_TIME,
            }
        });
        path.finish(|_| ());
        let stats = path.sender.stats;
        assert!(stats.timeouts >= 1 && path.sender.undone() >= 1, "{scheme}, SACK {sack}: {stats:?}");
    }
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        6 => Just(IN_TIME),
        2 => (0u64..60).prop_map(Fate::Late),
        1 => Just(Fate::Lost),
        1 => (0u64..30).prop_map(Fate::Twice),
    ];
    prop::collection::vec(fate, 1..200)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    /// Everything arrives once, the scoreboard agrees with its flags after each event, and a recovery that is undone gives
    /// the window back, whatever becomes of packets and acknowledgements.
    #[test]
    fn counts_agree_and_transfers_end_whatever_the_path_does(
        fates in fates(),
        back in fates(),
        scheme in prop::sample::select(vec!["reno", "cubic", "bbr", "bbr3", "vegas", "illinois"]),
        sack in any::<bool>(),
        losses in any::<bool>(),
    ) {
        let (mut data, mut acks) = (0, 0);
        let mut path = Path::new(scheme, 300, sack, |is_data, _| {
            let (list, at) = if is_data { (&fates, &mut data) } else { (&back, &mut acks) };
            *at += 1;
            match list[*at % list.len()] {
                // Few enough, and not for ever: a timeout that no sample resets doubles until it lasts for minutes.
                Fate::Lost if !losses || *at % 4 != 0 || *at > 400 => IN_TIME,
                fate => fate,
            }
        });
        path.finish(|path| {
            let sender = &path.sender;
            sender.board.check();
            let heard = sender.board.una() + if sack { sender.board.sacked() } else { 0 };
            if sack {
                assert!(sender.delivered >= heard && sender.delivered <= heard + path.reported, "each segment counts once");
            }
            assert!(sender.reordering.duplicates() <= path.reported);
        });
        prop_assert_eq!(path.receiver.goodput_bytes, 300 * u64::from(MSS));
        prop_assert!(path.sender.idle());
    }
}
