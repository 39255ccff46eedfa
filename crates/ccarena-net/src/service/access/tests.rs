use ccarena_cc::types::{Dur, Rate, Time};
use proptest::prelude::*;

use super::*;
use crate::service::{Service, ServiceSpec};
use crate::trace::load;

const MS: u64 = 1_000_000;

fn mbps(rate: f64) -> ServiceSpec {
    ServiceSpec::Constant(Rate::from_mbps(rate))
}

fn service(spec: &ServiceSpec, seed: u64) -> Service {
    Service::new(spec, seed, Dur::from_millis(60_000), load).unwrap()
}

fn access(kind: Kind, given: &[(&'static str, f64)], rate: ServiceSpec) -> ServiceSpec {
    ServiceSpec::Access(AccessSpec::new(kind, &given.iter().copied().collect(), rate).unwrap())
}

fn leaves(service: &mut Service, arrival: u64, bytes: u32) -> u64 {
    service.departure(Time(arrival), bytes, false, || Time(arrival)).0
}

/// Any medium, its parameters anywhere within their bounds, and its rate.
fn any() -> impl Strategy<Value = (ServiceSpec, ServiceSpec)> {
    let rate = prop_oneof![
        (1_000_000_u64..1_000_000_000).prop_map(|rate| ServiceSpec::Constant(Rate(rate))),
        (1_u64..100_000_000, 1_u64..100_000_000).prop_map(|(until, rate)| {
            ServiceSpec::Steps(vec![
                (Time::ZERO, Rate(rate)),
                (Time(until), Rate(0)),
                (Time(2 * until), Rate(5_000_000)),
            ])
        }),
        (1_000_000_u64..9_000_000, 0_u64..90_000_000, 1_000_000_u64..50_000_000).prop_map(|(min, span, period)| {
            ServiceSpec::RandomSteps { min: Rate(min), max: Rate(min + span), period: Dur(period) }
        }),
    ];
    (0..Kind::ALL.len(), prop::collection::vec(0.0..=1.0, 16), rate).prop_filter_map(
        "parameters that do not fit one another",
        |(kind, fractions, rate)| {
            let value = |(p, f): (&Param, &f64)| (p.name, p.min + f * f * f * (p.max - p.min));
            let given = Kind::ALL[kind].description().params.iter().zip(&fractions).map(value).collect();
            let spec = AccessSpec::new(Kind::ALL[kind], &given, rate.clone()).ok()?;
            Some((ServiceSpec::Access(spec), rate))
        },
    )
}

proptest! {
    /// Every packet leaves, in order, after it came, and no faster than the medium's rate from when it came.
    #[test]
    fn packets_leave_in_order_and_within_the_mediums_rate(
        (spec, rate) in any(),
        seed: u64,
        packets in prop::collection::vec((prop_oneof![Just(0), 0_u64..20_000_000], 1_u32..9000), 1..60),
    ) {
        let (mut medium, mut again, rate) = (service(&spec, seed), service(&spec, seed), service(&rate, seed));
        let (mut now, mut newest, mut sent) = (0, 0, Vec::<(u64, u64)>::new());
        for (gap, bytes) in packets {
            now += gap;
            let left = leaves(&mut medium, now, bytes);
            prop_assert_eq!(left, leaves(&mut again, now, bytes), "the same seed");
            prop_assert!(left >= newest && left >= now && left != u64::MAX);
            newest = left;
            sent.push((now, bytes.into()));
            let mut sum = 0;
            for &(from, bytes) in sent.iter().rev() {
                sum += bytes;
                // One byte of rounding per level of the rate.
                prop_assert!(sum <= rate.capacity_bytes(Time(from), Time(left)) + 64);
            }
        }
    }

    #[test]
    fn capacity_is_additive(
        (spec, _) in any(),
        times in prop::array::uniform3(0_u64..2_000_000_000),
        shaped in prop::option::of((1_000_000_u64..50_000_000, 1500_u64..100_000)),
    ) {
        let mut medium = service(&spec, 4);
        if let Some((rate, burst_bytes)) = shaped {
            medium = medium.shaped(crate::service::ShaperSpec { rate: Rate(rate), burst_bytes, peak: None });
        }
        let mut t = times.map(Time);
        t.sort_unstable();
        let [a, b, c] = t;
        prop_assert_eq!(medium.capacity_bytes(a, b) + medium.capacity_bytes(b, c), medium.capacity_bytes(a, c));
    }
}

#[test]
fn kinds_are_sorted_and_their_defaults_lie_within_bounds() {
    let names: Vec<_> = all().map(|d| d.name).collect();
    assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
    for description in all() {
        assert!(!description.summary.is_empty() && find(description.name).is_some());
        for p in description.params {
            assert!((p.min..=p.max).contains(&p.default), "{}.{}", description.name, p.name);
        }
    }
}

#[test]
fn capacity_is_what_full_packets_get_that_always_wait() {
    let steps = ServiceSpec::Steps(vec![(Time::ZERO, Rate(50_000_000)), (Time(20_000 * MS), Rate(8_000_000))]);
    let cases = [
        access(Kind::Wifi, &[], mbps(200.0)),
        access(Kind::Wifi, &[("packets", 1.0), ("retry", 0.5)], mbps(60.0)),
        access(Kind::Wifi, &[("airtime_us", 1000.0), ("busy_us", 1000.0), ("retry", 0.3)], mbps(300.0)),
        access(Kind::Wifi, &[("absent_every_s", 2.0), ("absent_ms", 150.0)], mbps(40.0)),
        access(Kind::Wifi, &[], steps.clone()),
        access(Kind::Grants, &[], mbps(20.0)),
        access(Kind::Grants, &[("slot_ms", 2.0), ("grant_bytes", 4000.0), ("retry", 0.1)], mbps(50.0)),
        access(Kind::Grants, &[("proactive_bytes", 500.0)], steps),
    ];
    for spec in cases {
        let mut medium = service(&spec, 7);
        let (end, mut bytes) = (60_000 * MS, 0);
        while leaves(&mut medium, 0, 1500) < end {
            bytes += 1500;
        }
        let capacity = medium.capacity_bytes(Time::ZERO, Time(end)) as f64;
        assert!((f64::from(bytes) / capacity - 1.0).abs() < 0.01, "{bytes} of {capacity}: {spec:?}");
        let mean = medium.mean_rate(Dur(end));
        assert!((mean.bytes_in(Dur(end)).0 as f64 / capacity - 1.0).abs() < 1e-6);
    }
}

#[test]
fn aggregates_hold_what_waits_and_no_more_than_they_may() {
    let given = [("packets", 8.0), ("airtime_us", 500.0), ("overhead_us", 100.0), ("retry", 0.0)];
    // A frame of 1500 bytes takes 120 µs: four within 500 µs.
    let mut wifi = service(&access(Kind::Wifi, &given, mbps(100.0)), 3);
    let times: Vec<u64> = (0..400).map(|_| leaves(&mut wifi, 0, 1500)).collect();
    let gaps: Vec<u64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(gaps.chunks(4).all(|of| of.iter().take(3).all(|&gap| gap == 120_000)));
    let between: Vec<u64> = gaps.iter().skip(3).step_by(4).copied().collect();
    assert!(between.iter().all(|gap| (220_000..=220_000 + 15 * 9000).contains(gap)), "{between:?}");
    assert!(between.iter().any(|&gap| gap != between[0]), "back-off is drawn");

    // Packets that come during a transmission wait for the next one; those that come during contention join it.
    let mut wifi = service(&access(Kind::Wifi, &[("retry", 0.0), ("window", 0.0)], mbps(100.0)), 3);
    assert_eq!(leaves(&mut wifi, 0, 1500), 270_000, "150 µs and a frame");
    assert_eq!(leaves(&mut wifi, 150_000, 1500), 390_000);
    assert_eq!(leaves(&mut wifi, 150_001, 1500), 660_000);
}

#[test]
fn an_idle_station_sends_at_once_unless_it_is_absent() {
    let given = [("retry", 0.0), ("absent_every_s", 1.0), ("absent_ms", 100.0)];
    let mut wifi = service(&access(Kind::Wifi, &given, mbps(100.0)), 5);
    let most = 150_000 + 15 * 9000 + 120_000;
    let waits: Vec<u64> = (0..20_000).map(|k| leaves(&mut wifi, k * MS, 1500) - k * MS).collect();
    let absent = waits.iter().filter(|&&wait| wait > most).count();
    // Whoever comes in an absence waits for its end: 100 of 1000 packets, and the queue behind them.
    assert!((2000..2500).contains(&absent), "{absent}");
    assert!(waits.iter().all(|&wait| wait < 110 * MS));
    let capacity = |seconds: u64| wifi.capacity_bytes(Time::ZERO, Time(seconds * 1000 * MS));
    assert!(capacity(20).abs_diff(capacity(1) * 20) <= 20);
}

#[test]
fn failed_attempts_widen_the_window() {
    let wait = |retry| {
        let mut wifi = service(&access(Kind::Wifi, &[("packets", 1.0), ("retry", retry)], mbps(100.0)), 5);
        (0..100_000).map(|_| leaves(&mut wifi, 0, 1500)).max().unwrap_or(0) as f64 / 100_000.0
    };
    let (none, half) = (wait(0.0), wait(0.5));
    // 150 µs and 7.5 slots against the sum over attempts k of 2^-k (150 µs + 4.5 µs × (16 × 2^k - 1)), k below 8, and at
    // most 1023 slots.
    let of = |k| 150_000.0 + 4500.0 * (16.0 * 2_f64.powi(k) - 1.0).min(1023.0);
    let expected = (0..8).map(|k| 0.5_f64.powi(k) * of(k)).sum::<f64>();
    assert!((none - 337_500.0).abs() < 1000.0, "{none}");
    assert!((half - 120_000.0 - expected / (1.0 - 0.5_f64.powi(8))).abs() < 20_000.0, "{half}");
}

#[test]
fn a_modem_requests_and_sends_when_it_is_granted() {
    let given = [("slot_ms", 1.0), ("request_ms", 0.0), ("grant_ms", 8.0)];
    // A slot holds 1500 bytes.
    let build = |more: &[_]| service(&access(Kind::Grants, &[&given, more].concat(), mbps(12.0)), 1);
    let mut modem = build(&[]);
    assert_eq!(
        leaves(&mut modem, 300_000, 1500),
        10 * MS,
        "reported at 0.3 ms, granted from 8.3 ms: the slot from 9 ms on"
    );
    assert_eq!(leaves(&mut modem, 400_000, 1500), 18 * MS, "reported with the slot of 9 ms");
    assert_eq!(leaves(&mut modem, 9 * MS, 750), 19 * MS, "the same");
    assert_eq!(leaves(&mut modem, 9 * MS, 750), 19 * MS, "two in a slot");
    assert_eq!(leaves(&mut modem, 10 * MS, 1500), 26 * MS, "reported with the slot of 17 ms");
    assert_eq!(leaves(&mut modem, 100 * MS, 2000), 110 * MS, "a packet over two slots");

    let mut proactive = build(&[("proactive_bytes", 1000.0)]);
    assert_eq!(leaves(&mut proactive, 300_000, 1000), 2 * MS, "in the next slot");
    assert_eq!(leaves(&mut proactive, 300_000, 1500), 4 * MS, "in two");
    let full: Vec<u64> = (0..40).map(|_| leaves(&mut proactive, 4 * MS, 1500)).collect();
    assert_eq!(full[39] - full[38], MS, "grants follow once they are requested");

    let mut small = build(&[("grant_bytes", 500.0)]);
    assert_eq!(leaves(&mut small, 0, 1500), 11 * MS, "three grants");
    assert_eq!(small.rate(Time::ZERO), Rate(4_000_000));
}

#[test]
fn requests_wait_for_their_turn_and_bad_slots_are_sent_again() {
    let given = [("slot_ms", 0.1), ("request_ms", 20.0), ("grant_ms", 5.0)];
    let wait = |seed| {
        let mut modem = service(&access(Kind::Grants, &given, mbps(100.0)), seed);
        leaves(&mut modem, 50 * MS, 100) - 50 * MS
    };
    let waits: Vec<u64> = (0..50).map(wait).collect();
    assert!(waits.iter().all(|wait| (5 * MS..26 * MS).contains(wait)), "{waits:?}");
    assert!(waits.iter().max().unwrap() - waits.iter().min().unwrap() > 10 * MS, "the phase is drawn");

    let mut modem = service(&access(Kind::Grants, &[("retry", 0.2), ("retry_ms", 8.0)], mbps(12.0)), 2);
    let times: Vec<u64> = (0..10_000).map(|_| leaves(&mut modem, 0, 1500)).collect();
    // A packet is on time if neither its own slot nor the 7 before it failed once, nor the 8 before those twice, and so on.
    let late: Vec<u64> = times.iter().enumerate().map(|(i, t)| t - i as u64 * MS).collect();
    let share = late.iter().filter(|&late_by| late_by > late.iter().min().unwrap()).count() as f64 / 10_000.0;
    let expected = 1.0 - (1..8).map(|k| (1.0 - 0.2_f64.powi(k)).powi(8)).product::<f64>();
    assert!((share - expected).abs() < 0.02, "{share} for {expected}");
}
