use super::*;
use proptest::prelude::*;

fn ms(t: u64) -> Time {
    Time::ZERO + Dur::from_millis(t)
}

fn mbps(r: f64) -> Rate {
    Rate::from_mbps(r)
}

fn trace(opportunities_ms: &[u32]) -> Trace {
    Trace::from_ms(opportunities_ms, "test").unwrap()
}

#[test]
fn a_constant_rate_serves_by_the_byte() {
    let mut s = Service::constant(mbps(12.0));
    assert_eq!(s.departure(ms(5), 1500, false, || ms(0)), ms(6));
    assert_eq!(s.departure(ms(6), 750, true, || ms(0)), Time(6_500_000));
    assert_eq!(s.rate(ms(9)), mbps(12.0));
    assert_eq!(s.capacity_bytes(ms(0), ms(10)), 15_000);
    assert_eq!(s.serialisation(ms(0), 1500), Dur::from_millis(1));
    assert_eq!(s.mean_rate(Dur::from_millis(1)), mbps(12.0));
    assert_eq!(Service::constant(Rate(0)).departure(ms(5), 1500, false, || ms(0)), Time::NEVER);
}

#[test]
fn a_packet_in_service_feels_every_step() {
    let steps = [(ms(0), mbps(12.0)), (ms(10), mbps(0.0)), (ms(20), mbps(24.0)), (ms(30), mbps(12.0))];
    let mut s = Service::steps(&steps);
    assert_eq!(s.departure(ms(9), 1500, false, || ms(0)), ms(10));
    assert_eq!(
        s.departure(Time(9_500_000), 1500, false, || ms(0)),
        Time(20_250_000),
        "half before the outage, half after it"
    );
    assert_eq!(s.departure(ms(29), 6000, true, || ms(0)), ms(32));
    assert_eq!(s.rate(ms(9)), mbps(12.0));
    assert_eq!(s.rate(ms(10)), mbps(0.0));
    assert_eq!(s.rate(ms(1_000_000)), mbps(12.0));
    assert_eq!(s.capacity_bytes(ms(0), ms(40)), 15_000 + 30_000 + 15_000);
    assert_eq!(s.mean_rate(Dur::from_millis(40)), mbps(12.0));
    assert_eq!(s.serialisation(ms(25), 1500), Dur(500_000));
    assert_eq!(s.serialisation(ms(15), 1500), Dur::ZERO);
    let mut outage = Service::steps(&[(ms(0), mbps(12.0)), (ms(10), mbps(0.0))]);
    assert_eq!(outage.departure(ms(10), 1, false, || ms(0)), Time::NEVER);
    assert_eq!(Service::steps(&[]).departure(ms(10), 1, false, || ms(0)), Time::NEVER);
}

#[test]
fn random_steps_hang_on_the_seed_alone() {
    let build = |seed| Service::random_steps(mbps(5.0), mbps(100.0), Dur::from_millis(4000), seed);
    let rates = |seed| -> Vec<Rate> {
        let mut s = build(seed);
        (0..1000).map(|k| s.rate(ms(4000 * k + 3999))).collect()
    };
    assert_eq!(rates(1), rates(1));
    assert_ne!(rates(1), rates(2));
    let sample = rates(3);
    assert!(sample.iter().all(|r| (mbps(5.0)..=mbps(100.0)).contains(r)));
    let mean = sample.iter().map(|r| r.as_mbps()).sum::<f64>() / 1000.0;
    assert!((mean - 52.5).abs() < 3.0, "{mean}");
    assert_eq!(build(1).mean_rate(Dur::MAX), mbps(52.5));
    let mut one = build(3);
    assert_eq!(one.rate(ms(0)), sample[0]);
    assert_eq!(one.rate(ms(3999)), sample[0]);
    assert_eq!(one.rate(ms(4000)), sample[1]);
    assert_eq!(Service::random_steps(mbps(7.0), mbps(7.0), Dur(0), 1).rate(ms(1)), mbps(7.0));
}

#[test]
fn an_opportunity_serves_what_waits() {
    let mut s = Service::trace(&trace(&[0, 5, 5, 8]), Dur::ZERO);
    assert_eq!(s.departure(ms(0), 1500, false, || ms(0)), ms(5), "the opportunity at 0 comes before the arrival at 0");
    assert_eq!(s.departure(ms(5), 1500, true, || ms(0)), ms(5), "a second opportunity in the same millisecond");
    assert_eq!(s.departure(ms(5), 600, true, || ms(0)), ms(8));
    assert_eq!(s.departure(ms(8), 600, true, || ms(0)), ms(8), "the rest of the opportunity");
    assert_eq!(
        s.departure(ms(8), 1500, true, || ms(0)),
        ms(8),
        "partly by the rest of 296, the whole by the repeated trace's 0"
    );
    assert_eq!(s.departure(ms(8), 100, false, || ms(0)), ms(13), "an idle link keeps no rest");
    assert_eq!(s.departure(ms(1_000_000), 1500, false, || ms(0)), ms(1_000_005));
    assert_eq!(s.departure(Time::NEVER, 1500, false, || ms(0)), Time::NEVER);
}

#[test]
fn a_large_packet_takes_several_opportunities() {
    let mut s = Service::trace(&trace(&[10, 20, 30, 40]), Dur::ZERO);
    assert_eq!(s.departure(ms(1), 1500, false, || ms(0)), ms(10));
    assert_eq!(s.departure(ms(10), 3000, true, || ms(0)), ms(30), "3004 = 1504 + 1500");
    assert_eq!(s.departure(ms(30), 1, true, || ms(0)), ms(40), "4 bytes are left, 5 are needed");
}

#[test]
fn an_offset_shifts_the_trace() {
    let t = trace(&[10, 20, 30, 40]);
    let mut s = Service::trace(&t, Dur::from_millis(25));
    assert_eq!(s.departure(ms(0), 1500, false, || ms(0)), ms(5));
    assert_eq!(s.departure(ms(5), 1500, true, || ms(0)), ms(15));
    assert_eq!(s.departure(ms(15), 1500, true, || ms(0)), ms(25));
    assert_eq!(s.capacity_bytes(ms(0), ms(26)), 3 * 1504);
    let mut wrapped = Service::trace(&t, Dur::from_millis(25 + 40 * 7));
    assert_eq!(wrapped.departure(ms(0), 1500, false, || ms(0)), ms(5));
}

#[test]
fn a_trace_advertises_its_last_100_ms() {
    let opportunity = Rate::of(1504, Dur::from_millis(100));
    let mut s = Service::trace(&trace(&[100, 150, 150, 400]), Dur::ZERO);
    assert_eq!(s.rate(ms(0)), opportunity, "the last pass's end");
    assert_eq!(s.rate(ms(99)), opportunity);
    assert_eq!(s.rate(ms(100)), opportunity);
    assert_eq!(s.rate(ms(150)), opportunity * 3);
    assert_eq!(s.rate(ms(249)), opportunity * 2);
    assert_eq!(s.rate(ms(250)), Rate(0));
    assert_eq!(s.rate(ms(400_000_000 + 420)), opportunity, "after a long silence");
    assert_eq!(s.rate(ms(400_000_000 + 560)), opportunity * 2 + opportunity);
}

#[test]
fn specs_build() {
    let load = |path: &Path| {
        assert_eq!(path, Path::new("x.down"));
        Ok(trace(&[1]))
    };
    let build = |spec: ServiceSpec| Service::new(&spec, 1, Dur::from_millis(2000), load);
    let spec = ServiceSpec::Trace { file: "x.down".into(), offset: Dur::ZERO, reshape: None };
    assert_eq!(build(spec).unwrap().mean_rate(Dur::ZERO), Rate(12_032_000));
    let missing = ServiceSpec::Cellular { preset: "none".into(), seed: None, offset: Dur::ZERO };
    assert!(matches!(build(missing), Err(ServiceError::Preset(_))));
    let preset = cellular::PRESETS[0].name;
    let cellular = |seed| ServiceSpec::Cellular { preset: preset.into(), seed, offset: Dur::ZERO };
    let capacity = |seed| build(cellular(seed)).unwrap().capacity_bytes(ms(0), ms(2000));
    assert!(capacity(None) > 0);
    assert_ne!(capacity(Some(1)), capacity(Some(2)));
}

#[test]
fn a_shaper_delays_where_a_policer_drops() {
    let spec = |peak| ShaperSpec { rate: mbps(12.0), burst_bytes: 3000, peak };
    let mut shaped = Service::constant(mbps(120.0)).shaped(spec(None));
    let serve = |service: &mut Service| -> Vec<u64> {
        let mut newest = Time::ZERO;
        (0..4)
            .map(|_| {
                newest = service.departure(newest, 1500, newest > Time::ZERO, || ms(0));
                newest.0 / 1000
            })
            .collect()
    };
    assert_eq!(serve(&mut shaped), [100, 200, 1100, 2100], "two at once, then one per ms, and 100 µs each");
    assert_eq!(serve(&mut Service::constant(mbps(120.0)).shaped(spec(Some(mbps(24.0))))), [100, 600, 1100, 2100]);
    assert_eq!((shaped.rate(ms(0)), shaped.mean_rate(Dur::from_millis(9))), (mbps(12.0), mbps(12.0)));
    assert_eq!(shaped.capacity_bytes(ms(0), ms(1000)), 1_500_000);
    let mut jumbo = Service::constant(mbps(1e6)).shaped(ShaperSpec { burst_bytes: 1500, ..spec(None) });
    assert_eq!(jumbo.departure(ms(0), 4500, false, || ms(0)).0 / 1_000_000, 0, "a full bucket lets it pass");
    assert_eq!(jumbo.departure(ms(0), 1500, true, || ms(0)).0 / 1_000_000, 3, "and has 3000 bytes of debt");
    // A link may take of a trace what a burst allows of an opportunity's time, and no more than the rate in 100 ms.
    let thin =
        Service::trace(&trace(&[1]), Dur::ZERO).shaped(ShaperSpec { rate: mbps(1.0), burst_bytes: 3000, peak: None });
    assert_eq!(thin.capacity_bytes(ms(0), ms(1000)), 125_000);
    assert!(thin.is_trace() && !thin.transmits_at_once());
}

fn service() -> impl Strategy<Value = Service> {
    let steps = prop::collection::vec((1_u64..50_000_000, 0_u64..200_000_000), 1..8).prop_map(|list| {
        let mut now = Time::ZERO;
        let mut steps = Vec::new();
        for (wait, rate) in list {
            steps.push((now, Rate(rate)));
            now = now + Dur(wait);
        }
        steps.push((now, Rate(1_000_000)));
        Service::steps(&steps)
    });
    let random = (1_000_u64..100_000_000, 0_u64..100_000_000, 1_000_000_u64..50_000_000, any::<u64>())
        .prop_map(|(min, span, period, seed)| Service::random_steps(Rate(min), Rate(min + span), Dur(period), seed));
    let by_trace = (prop::collection::vec(0_u32..40, 1..60), 0_u64..10_000_000_000).prop_map(|(gaps, offset)| {
        let mut now = 0;
        let mut times: Vec<u32> = gaps
            .into_iter()
            .map(|g| {
                now += g / 4;
                now
            })
            .collect();
        times.push(now + 1);
        Service::trace(&trace(&times), Dur(offset))
    });
    prop_oneof![(1_u64..1_000_000_000).prop_map(|r| Service::constant(Rate(r))), steps, random, by_trace]
}

proptest! {
    #[test]
    fn the_capacity_of_bins_is_that_of_each(service in service(), bin in 1_u64..200_000_000, count in 0_u64..400) {
        let each = |k| service.capacity_bytes(Time(k * bin), Time((k + 1) * bin));
        prop_assert_eq!(service.capacity_of_bins(Dur(bin), count), (0..count).map(each).collect::<Vec<_>>());
    }

    /// Edges that fall on opportunities, and on the seam between two passes.
    #[test]
    fn the_capacity_of_bins_is_exact_at_opportunities(
        gaps in prop::collection::vec(0_u32..4, 1..40), offset in 0_u64..80, bin in 1_u64..9,
    ) {
        let mut times: Vec<u32> = gaps.iter().scan(0, |now, gap| { *now += gap; Some(*now) }).collect();
        times.push(times[times.len() - 1] + 1);
        let (service, bin) = (Service::trace(&trace(&times), Dur::from_millis(offset)), Dur::from_millis(bin));
        let each = |k| service.capacity_bytes(Time(k * bin.0), Time((k + 1) * bin.0));
        prop_assert_eq!(service.capacity_of_bins(bin, 300), (0..300).map(each).collect::<Vec<_>>());
    }

    #[test]
    fn departures_are_in_order_and_within_capacity(
        mut service in service(),
        packets in prop::collection::vec((0_u64..20_000_000, 1_u32..9000), 1..100),
    ) {
        let whole = service.clone();
        let (mut arrival, mut last, mut sent) = (Time::ZERO, Time::ZERO, 0_u64);
        for (wait, bytes) in packets {
            arrival = arrival + Dur(wait);
            let backlogged = arrival < last;
            let start = arrival.max(last);
            let departure = service.departure(start, bytes, backlogged, || arrival);
            prop_assert!(departure >= start, "{departure} before {start}");
            prop_assert!(departure != Time::NEVER);
            last = departure;
            sent += u64::from(bytes);
            // One nanosecond and one byte of rounding; an opportunity at the very end counts.
            prop_assert!(sent <= whole.capacity_bytes(Time::ZERO, last + Dur(1)) + 1);
        }
    }

    /// No more passes than a bucket held and its rate gives, and a packet waits for one of the buckets alone.
    #[test]
    fn a_shaper_holds_back_what_is_beyond_its_rates_and_nothing_else(
        kbps in 100_u64..100_000, burst_bytes in 1500_u64..50_000, peak in prop::option::of(2_u64..10),
        sends in prop::collection::vec((0_u64..2_000_000, 40_u32..=1500), 1..150),
    ) {
        let rate = Rate(kbps * 1000);
        let buckets: Vec<(Rate, u64)> =
            [Some((rate, burst_bytes)), peak.map(|k| (Rate(rate.0 * k), 1500))].into_iter().flatten().collect();
        let spec = ShaperSpec { rate, burst_bytes, peak: buckets.get(1).map(|b| b.0) };
        // Transmission itself takes no time.
        let mut shaped = Service::constant(Rate(u64::MAX)).shaped(spec);
        let (mut now, mut newest, mut passed) = (Time::ZERO, Time::ZERO, Vec::<(Time, u64)>::new());
        for (gap, bytes) in sends {
            now = now + Dur(gap);
            let (arrival, start) = (now, now.max(newest));
            newest = shaped.departure(start, bytes, now < newest, || arrival);
            passed.push((newest, bytes.into()));
            // Tokens that a bucket lacks for all packets from one on: the least over packets, in bits per 10^9 s.
            let spare = |&(rate, burst): &(Rate, u64)| -> i128 {
                let mut sum = 0;
                let of = |(at, bytes): &(Time, u64)| {
                    sum += i128::from(*bytes);
                    let earned = i128::from(rate.0) * i128::from(newest.since(*at).0);
                    (i128::from(burst) - sum) * 8_000_000_000 + earned
                };
                passed.iter().rev().map(of).min().unwrap_or(0)
            };
            let spares: Vec<i128> = buckets.iter().map(spare).collect();
            // A packet takes a nanosecond, and times are whole ones.
            let nanosecond = i128::from(buckets[buckets.len() - 1].0.0) * 2 * passed.len() as i128;
            prop_assert!(spares.iter().all(|spare| *spare >= -nanosecond), "{:?}", spares);
            prop_assert!(newest <= start + Dur(1) || spares.iter().any(|spare| *spare <= nanosecond), "{:?}", spares);
        }
        let sum: u64 = passed.iter().map(|p| p.1).sum();
        prop_assert!(sum <= burst_bytes + shaped.capacity_bytes(Time::ZERO, newest + Dur(1)) + 1);
    }

    #[test]
    fn capacity_is_additive(service in service(), times in prop::array::uniform3(0_u64..2_000_000_000)) {
        let mut t = times.map(|ns| Time(ns / 1000 * 1000));
        t.sort_unstable();
        let [a, b, c] = t;
        prop_assert_eq!(service.capacity_bytes(a, b) + service.capacity_bytes(b, c), service.capacity_bytes(a, c));
    }

    #[test]
    fn a_trace_rate_equals_a_naive_count(
        gaps in prop::collection::vec(0_u32..60, 1..40),
        waits in prop::collection::vec(0_u64..300_000_000, 1..60),
        offset_ms in 0_u64..3000,
    ) {
        let mut now = 0;
        let mut times: Vec<u32> = gaps.into_iter().map(|g| { now += g; now }).collect();
        times.push(now + 1);
        let trace = trace(&times);
        let (period, offset) = (u64::from(trace.duration_ms()), offset_ms % u64::from(trace.duration_ms()));
        let mut service = Service::trace(&trace, Dur::from_millis(offset_ms));
        let mut now = Time::ZERO;
        for wait in waits {
            now = now + Dur(wait);
            // Everything shifted by enough passes that no time is negative.
            let shift = (100 / period + 1) * period;
            let at = now.0 + (offset + shift) * 1_000_000;
            let passes = at / (period * 1_000_000) + 1;
            let inside = (0..passes)
                .flat_map(|k| times.iter().map(move |&ms| (k * period + u64::from(ms)) * 1_000_000))
                .filter(|&t| t <= at && t + 100_000_000 > at)
                .count();
            prop_assert_eq!(service.rate(now), Rate::of(inside as u64 * 1504, Dur::from_millis(100)));
        }
    }
}

#[test]
fn rates_repeat_from_an_offset_on() {
    let rows = [(Dur(0), mbps(12.0)), (Dur::from_millis(10), mbps(0.0)), (Dur::from_millis(20), mbps(24.0))];
    let looped = |offset| Service::stepped(Stepped::new(rows, Some(Dur::from_millis(30)), Dur::from_millis(offset)));
    let mut s = looped(0);
    assert_eq!(s.departure(ms(9), 3000, false, || ms(0)), Time(20_500_000));
    assert_eq!(s.departure(ms(21), 30_000, true, || ms(0)), ms(32), "over the seam");
    assert_eq!(s.mean_rate(Dur::from_millis(1)), mbps(12.0), "of a whole pass");
    let mut s = looped(25);
    assert_eq!(s.rate(ms(0)), mbps(24.0));
    assert_eq!(s.departure(ms(0), 15_000, false, || ms(0)), ms(5));
    assert_eq!(s.departure(ms(5), 45_000 * 1000, true, || ms(0)), ms(30 * 1000 + 5), "a thousand passes");
    let mut never = Service::stepped(Stepped::new([(Dur(0), Rate(0)), (Dur(5), Rate(0))], Some(Dur(10)), Dur(0)));
    assert_eq!(never.departure(ms(1), 1, false, || ms(0)), Time::NEVER);
    let slow = Service::stepped(Stepped::new([(Dur(0), Rate(0)), (Dur(1000), Rate(1))], Some(Dur(2000)), Dur(0)));
    assert_eq!(slow.clone().departure(Time(0), 1, false, || ms(0)).0, 16_000_000_000, "8 bits in 8 million passes");
}

proptest! {
    /// Capacity of many passes adds up like that of their parts.
    #[test]
    fn capacity_that_repeats_is_additive(
        steps in prop::collection::vec((1_u64..40, 0_u64..100), 1..6), offset in 0_u64..100, cuts in prop::collection::vec(0_u64..900, 1..20),
    ) {
        let mut at = 0;
        let rows: Vec<(Dur, Rate)> =
            steps.iter().map(|&(gap, rate)| { let row = (Dur(at * 100), Rate(rate * 100_000_000)); at += gap; row }).collect();
        let s = Service::stepped(Stepped::new(rows, Some(Dur(at * 100)), Dur(offset * 100)));
        let mut cuts: Vec<Time> = cuts.into_iter().map(|cut| Time(cut * 37)).collect();
        cuts.sort();
        let parts: u64 = cuts.windows(2).map(|w| s.capacity_bytes(w[0], w[1])).sum();
        prop_assert_eq!(parts, s.capacity_bytes(cuts[0], cuts[cuts.len() - 1]));
    }
}
