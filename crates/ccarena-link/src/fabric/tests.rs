use std::sync::{Arc, Mutex};

use ccarena_cc::types::Rate;
use ccarena_net::rng::{Purpose, Stream};
use ccarena_net::{Carried, Item, Scenario, trace};
use proptest::prelude::*;

use super::*;

/// Two links with everything that makes packets late or lost, one of them following a trace.
fn links() -> Vec<Link<Datagram>> {
    let document = r#"{"seed": 3, "flows": [{"scheme": "cubic", "path": ["a", "b"]}], "links": [
        {"name": "a", "service": {"type": "constant", "rate_mbps": 12}, "queue": {"type": "droptail", "packets": 5},
         "delay_ms": 3, "jitter_ms": 2},
        {"name": "b", "service": {"type": "cellular", "preset": "lte-driving"}, "queue": {"type": "codel", "packets": 9},
         "delay_ms": 1, "loss": 0.1}]}"#;
    let scenario = Scenario::parse(document).unwrap();
    (0..2).map(|i| Link::of(&scenario, i, &trace::load).unwrap()).collect()
}

fn routes() -> Vec<Route> {
    let route = |delay, path: &[usize]| Route { delay: Dur::from_micros(delay), path: path.to_vec() };
    vec![route(0, &[0, 1]), route(0, &[1]), route(700, &[1, 0]), route(4_000, &[]), route(0, &[])]
}

/// A packet that says its number.
pub fn packet(number: usize, bytes: usize) -> Datagram {
    let mut text = vec![0; bytes.max(8)];
    text[..8].copy_from_slice(&number.to_ne_bytes());
    Datagram::copy_of(&text)
}

pub fn number(packet: &Datagram) -> usize {
    usize::from_ne_bytes(packet.packet()[..8].try_into().unwrap())
}

/// Sends packets (gap in µs, bytes, route) and lets time pass in steps of at most `step`; (number, due) of what came out.
fn run(fabric: &mut Fabric, sends: &[(u64, usize, usize)], step: Dur) -> Vec<(usize, Time)> {
    let (mut now, mut out) = (Time::ZERO, Vec::new());
    let pass = |fabric: &mut Fabric, now: &mut Time, until: Time, out: &mut Vec<(usize, Time)>| {
        while *now < until {
            *now = until.min(*now + step);
            fabric.advance(*now, |p, due| {
                assert!(due <= *now, "nothing leaves early");
                out.push((number(&p), due));
            });
            assert!(fabric.next_time() > *now, "all that is due has happened");
        }
    };
    for (i, &(gap, bytes, route)) in sends.iter().enumerate() {
        let at = now + Dur::from_micros(gap);
        pass(fabric, &mut now, at, &mut out);
        fabric.send(packet(i, bytes), route as u32, now);
    }
    let end = now + Dur::from_millis(20_000);
    pass(fabric, &mut now, end, &mut out);
    out
}

fn sends() -> impl Strategy<Value = Vec<(u64, usize, usize)>> {
    prop::collection::vec((0_u64..3_000, 8_usize..1500, 0..routes().len()), 0..200)
}

#[derive(Default)]
struct Seen {
    arrived: [u64; 2],
    left: [u64; 2],
    dropped: [(u64, u64); 2],
    newest: Time,
}

struct Watch(Arc<Mutex<Seen>>);

impl Observer for Watch {
    fn arrival(&mut self, link: usize, at: Time, _: &Datagram) {
        let mut seen = self.0.lock().unwrap();
        seen.arrived[link] += 1;
        assert!(at >= seen.newest);
        seen.newest = at;
    }

    fn departure(&mut self, link: usize, at: Time, packet: &Datagram) {
        let mut seen = self.0.lock().unwrap();
        seen.left[link] += 1;
        assert!(at >= seen.newest && packet.arrival() <= at);
        seen.newest = at;
    }

    fn dropped(&mut self, link: usize, _: Time, packets: u64, bytes: u64, _: bool) {
        let dropped = &mut self.0.lock().unwrap().dropped[link];
        *dropped = (dropped.0 + packets, dropped.1 + bytes);
    }
}

proptest! {
    /// Late or in time, in one step or in many: what is delivered and when it was due does not change.
    #[test]
    fn schedules_do_not_depend_on_when_they_are_kept(sends in sends(), step in 1_u64..50_000) {
        let mut fine = Fabric::new(links(), routes(), None);
        let mut coarse = Fabric::new(links(), routes(), None);
        let fine = run(&mut fine, &sends, Dur::from_micros(step));
        let coarse = run(&mut coarse, &sends, Dur::MAX);
        prop_assert_eq!(&fine, &coarse);
        prop_assert!(fine.is_sorted_by_key(|&(_, due)| due));
    }

    #[test]
    fn packets_are_conserved_and_keep_their_order(sends in sends()) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let mut fabric = Fabric::new(links(), routes(), Some(Box::new(Watch(Arc::clone(&seen)))));
        let out = run(&mut fabric, &sends, Dur::from_micros(100));
        let routes = routes();
        for (index, route) in routes.iter().enumerate() {
            let of_route: Vec<usize> = out.iter().map(|&(i, _)| i).filter(|&i| sends[i].2 == index).collect();
            prop_assert!(of_route.is_sorted_by(|a, b| a < b), "each once, in order");
            if route.path.is_empty() {
                prop_assert_eq!(of_route.len(), sends.iter().filter(|s| s.2 == index).count());
            }
        }
        let seen = seen.lock().unwrap();
        let mut missing = 0;
        for (i, link) in fabric.links.iter().enumerate() {
            let s = link.stats;
            prop_assert_eq!((s.arrived_packets, s.delivered_packets), (seen.arrived[i], seen.left[i]));
            prop_assert_eq!((s.dropped_packets, s.dropped_bytes), seen.dropped[i]);
            prop_assert_eq!(s.arrived_packets, s.delivered_packets + s.dropped_packets + s.lost_packets + link.backlog_packets() as u64);
            missing += s.dropped_packets + s.lost_packets + link.backlog_packets() as u64;
        }
        prop_assert_eq!(sends.len() as u64, out.len() as u64 + missing);
    }
}

#[test]
fn a_lone_packet_takes_what_its_route_takes() {
    let link = |rate, delay| {
        let queue = ccarena_net::queues::QueueSpec::default();
        let setting = ccarena_net::queues::Setting {
            bdp_bytes: 100_000,
            rate: Rate(rate),
            stream: Stream::new(1, Purpose::Queue, 0),
        };
        let queue = ccarena_net::queues::build(&queue, &setting);
        let service = ccarena_net::Service::constant(Rate(rate));
        Link::new(queue, service, Dur::from_millis(delay), None)
    };
    let route = Route { delay: Dur::from_millis(2), path: vec![1, 0] };
    let mut fabric = Fabric::new(vec![link(12_000_000, 10), link(24_000_000, 5)], vec![route], None);
    let out = run(&mut fabric, &[(1_000, 1500, 0)], Dur::from_micros(10));
    // 1 ms until it sets out, 2 ms before the first link, 0.5 + 5 ms over it, 1 + 10 ms over the second.
    assert_eq!(out, [(0, Time(19_500_000))]);
    let stats = |i: usize| fabric.links[i].stats.delivered_bytes;
    assert_eq!((stats(0), stats(1)), (1500, u64::from(packet(0, 1500).bytes())));
}
