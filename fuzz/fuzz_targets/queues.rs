//! Any queue discipline, whatever is put in and taken out and when: no panic, and in = out + dropped + queued.
#![no_main]

use std::collections::BTreeMap;

use ccarena_cc::{Dur, Rate, Time};
use ccarena_net::Ecn;
use ccarena_net::queues::{Item, Kind, Limit, LimitRule, Queue as _, QueueSpec, Setting, build};
use ccarena_net::rng::{Purpose, Stream};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    kind: u8,
    limit: (u8, u32),
    /// Of each parameter, as a share of its range.
    params: Vec<u16>,
    mahimahi: bool,
    operations: Vec<Operation>,
}

#[derive(Arbitrary, Debug)]
enum Operation {
    Enqueue { bytes: u16, flow: u8, ecn: u8 },
    Dequeue,
    Wait { us: u32 },
}

#[derive(Debug)]
struct Packet {
    bytes: u32,
    flow: u64,
    ecn: Ecn,
}

impl Item for Packet {
    fn bytes(&self) -> u32 {
        self.bytes
    }
    fn flow(&self) -> u64 {
        self.flow
    }
    fn ecn(&self) -> Ecn {
        self.ecn
    }
    fn mark(&mut self) {
        assert!(self.ecn.is_capable(), "only packets that take marks are marked");
        self.ecn = Ecn::Ce;
    }
}

fuzz_target!(|input: Input| {
    let kind = Kind::ALL[usize::from(input.kind) % Kind::ALL.len()];
    let discipline = kind.discipline();
    let limit = match input.limit {
        (_, amount) if discipline.limit == LimitRule::Unlimited || amount == 0 => None,
        (unit, amount) if unit % 3 == 0 => Some(Limit::Packets(amount)),
        (unit, amount) if unit % 3 == 1 => Some(Limit::Bytes(amount.into())),
        (_, amount) => Some(Limit::Bdp(f64::from(amount) / 1e3)),
    };
    let value = |p: &ccarena_cc::Param, share: u16| p.min + f64::from(share) / 65_535.0 * (p.max - p.min);
    let params: BTreeMap<&str, f64> =
        discipline.params.iter().zip(&input.params).map(|(p, &share)| (p.name, value(p, share))).collect();
    let Ok(spec) = QueueSpec::new(kind, limit, &params, input.mahimahi && discipline.mahimahi) else { return };
    let stream = Stream::new(1, Purpose::Queue, 0);
    let mut queue = build::<Packet>(&spec, &Setting { bdp_bytes: 30_000, rate: Rate::from_mbps(12.0), stream });
    let (mut now, mut drops) = (Time::ZERO, Vec::new());
    let (mut entered, mut gone) = ((0, 0), (0, 0));
    for operation in input.operations {
        match operation {
            Operation::Enqueue { bytes, flow, ecn } => {
                entered = (entered.0 + 1, entered.1 + u64::from(bytes));
                queue.enqueue(Packet { bytes: bytes.into(), flow: flow.into(), ecn: Ecn::from_bits(ecn) }, now, &mut drops);
            }
            Operation::Dequeue => {
                assert_eq!(queue.head_bytes().is_none(), queue.len_packets() == 0);
                let out = queue.dequeue(now, &mut drops);
                drops.extend(out);
            }
            Operation::Wait { us } => now = now + Dur::from_micros(us.into()),
        }
        for packet in drops.drain(..) {
            gone = (gone.0 + 1, gone.1 + u64::from(packet.bytes));
        }
        assert_eq!((entered.0, entered.1), (gone.0 + queue.len_packets(), gone.1 + queue.len_bytes()));
    }
});
