mod streaming;

use ccarena_cc::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::Scenario;
use crate::rng::Stream;

const MS: fn(u64) -> Dur = Dur::from_millis;

fn scenario(app: &Value) -> std::result::Result<Scenario, String> {
    let link = json!({"service": {"type": "constant", "rate_mbps": 10}});
    let flow = json!({"scheme": "cubic", "app": app, "mss_bytes": 1000});
    let document = json!({"duration_s": 10, "links": [link], "flows": [flow]});
    Scenario::from_json(&document).map_err(|e| e.to_string())
}

fn source(app: &Value) -> Source {
    let scenario = scenario(app).unwrap();
    Source::new(&scenario.flows[0].app, &scenario.start(0))
}

fn at(elapsed: Dur) -> View {
    View { elapsed, ..View::default() }
}

/// Runs `app` over a link that delivers `rate` bytes per second, acknowledged at once; the last view and offers.
pub fn drive(app: &mut Source, rate: f64, seconds: f64) -> Vec<(Dur, Offer)> {
    let (mut acknowledged, mut now, mut offers) = (0.0_f64, Dur::ZERO, Vec::new());
    let step = MS(1);
    while now < Dur::from_secs_f64(seconds) {
        let rate_now = Some(Rate((rate * 8.0) as u64));
        let offer = app.advance(&View { elapsed: now, sent: 0, acknowledged: acknowledged as u64, rate: rate_now });
        acknowledged = (acknowledged + rate * step.as_secs_f64()).min(offer.allowed as f64);
        offers.push((now, offer));
        now += step;
    }
    offers
}

#[test]
fn constant_rate_keeps_its_rate() {
    let mut app = source(&json!({"type": "cbr", "rate_mbps": 8}));
    let mut now = Dur::ZERO;
    for k in 0..500 {
        let offer = app.advance(&at(now));
        assert_eq!(offer, Offer { allowed: k * 1000, next: MS(k + 1) });
        now = offer.next;
    }
}

#[test]
fn on_off_sends_in_its_on_time_only() {
    let mut app = source(&json!({"type": "onoff", "rate_mbps": 8, "on_s": 0.02, "off_s": 0.08}));
    let (mut now, mut before) = (Dur::ZERO, 0);
    while now < MS(1000) {
        let offer = app.advance(&at(now));
        assert!(offer.allowed == before || now.0 % MS(100).0 <= MS(20).0, "{now}");
        (now, before) = (offer.next, offer.allowed);
    }
    assert_eq!(before, 200_000);
}

#[test]
fn a_slot_allows_its_quota_and_no_more() {
    let mut app = source(&json!({"type": "capped", "rate_mbps": 0.24}));
    assert_eq!(app.advance(&at(MS(0))), Offer { allowed: 3000, next: MS(100) });
    assert_eq!(app.advance(&View { sent: 1000, ..at(MS(50)) }), Offer { allowed: 3000, next: MS(100) });
    let offer = app.advance(&View { sent: 1000, ..at(MS(100)) });
    assert_eq!(offer, Offer { allowed: 4000, next: MS(200) }, "two thirds of the first slot are gone");
}

#[test]
fn transfers_follow_one_another() {
    let mut app = source(&json!({"type": "transfers", "sizes_bytes": [2500, 1000], "gap_s": 0.01}));
    let view = |ms, acknowledged| View { acknowledged, ..at(MS(ms)) };
    assert_eq!(app.advance(&view(1, 0)), Offer { allowed: 2500, next: Dur::MAX });
    assert_eq!(app.advance(&view(2, 2499)), Offer { allowed: 2500, next: Dur::MAX });
    assert_eq!(app.advance(&view(5, 2500)), Offer { allowed: 2500, next: MS(10) });
    assert_eq!(app.outcome().completion, [MS(4)]);
    assert_eq!(app.advance(&view(10, 2500)), Offer { allowed: 3500, next: Dur::MAX });
    app.advance(&view(30, 3500));
    assert_eq!(app.outcome().completion, [MS(4), MS(20)]);
}

#[test]
fn a_client_thinks_between_responses() {
    let mut app = source(&json!({"type": "request_response", "sizes": 10_000, "think_s": 0.05}));
    drive(&mut app, 1e6, 60.0);
    let outcome = app.outcome();
    // 10 ms for a response and 50 ms to think, in steps of 1 ms.
    let count = outcome.completion.len() as f64;
    assert!((850.0..1150.0).contains(&count), "{count}");
    assert!(outcome.completion.iter().all(|&d| (MS(10)..=MS(12)).contains(&d)));
    assert!(outcome.columns[0].1.iter().all(|&bytes| (bytes - 10_000.0).abs() < 0.5));
}

#[test]
fn a_poisson_process_opens_a_flow_per_transfer_at_its_load_by_its_seed() {
    let app = json!({"type": "poisson", "load": 0.5, "sizes": 5000});
    let s = scenario(&app).unwrap();
    // 5 Mbit/s over 10 s in transfers of 5000 bytes: 1250, give or take four standard deviations.
    let count = s.flows.len() as f64;
    assert!((count - 1250.0).abs() < 4.0 * 1250_f64.sqrt(), "{count}");
    assert!(s.flows.is_sorted_by_key(|f| f.start) && s.flows.iter().all(|f| f.start < Time(10_000_000_000)));
    assert!(s.flows.iter().all(|f| f.app.only_transfer() == Some(5000)));
    // Gaps of a Poisson process have a standard deviation equal to their mean.
    let gaps: Vec<f64> = s.flows.windows(2).map(|w| w[1].start.since(w[0].start).as_secs_f64()).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((0.85..1.15).contains(&(deviation / mean)), "{mean} {deviation}");
    assert_eq!(scenario(&app).unwrap(), s);
    assert_eq!(Scenario::from_json(&s.to_json()).unwrap(), s);
    let mut other = s.to_json();
    other["flows"] = json!([{"scheme": "cubic", "app": app, "mss_bytes": 1000}]);
    other["seed"] = json!(2);
    let other = Scenario::from_json(&other).unwrap();
    assert!(other.flows.iter().zip(&s.flows).any(|(a, b)| a.start != b.start));
}

#[test]
fn incast_sends_at_the_same_time() {
    let s = scenario(&json!({"type": "incast", "flows": 20, "size_bytes": 30_000, "every_s": 2})).unwrap();
    assert_eq!(s.flows.len(), 20);
    for flow in &s.flows {
        let App::Transfers(transfers) = &flow.app else { panic!("{:?}", flow.app) };
        assert_eq!((flow.start, transfers.gap), (Time::ZERO, MS(2000)));
        assert_eq!(transfers.sizes_bytes, [30_000; 5]);
    }
}

#[test]
fn sizes_have_the_mean_that_loads_are_computed_with() {
    let documents = [
        json!("web_search"),
        json!("data_mining"),
        json!("hadoop"),
        json!(700),
        json!({"table": [[100.0, 0.5], [100.0, 0.75], [1000.0, 1.0]]}),
        json!({"pareto": {"mean_bytes": 10_000.0, "shape": 2.5}}),
    ];
    for document in documents {
        let value = json!({"sizes": document});
        let o = At { value: &value, path: String::new() };
        let sizes = sizes::Sizes::required(&o.object(&["sizes"]).unwrap()).unwrap();
        assert_eq!(sizes.write(), json!(document), "{document}");
        let mut random = Stream::keyed(7);
        let drawn: Vec<f64> = (0..400_000).map(|_| sizes.draw(&mut random) as f64).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.05, "{document}: {mean} {}", sizes.mean());
    }
}

#[test]
fn applications_that_cannot_be_are_refused_with_their_place() {
    let poisson = |fields: Value| {
        let mut app = json!({"type": "poisson", "sizes": "web_search", "load": 0.5});
        for (key, value) in fields.as_object().unwrap() {
            app[key] = value.clone();
        }
        app
    };
    let cases = [
        (json!({"type": "poison"}), "flows[0].app.type: unknown application \"poison\"; did you mean \"poisson\"?"),
        (
            poisson(json!({"load": 1})),
            "flows[0].app.load: got 1; expected a share of the link's rate above 0 and below 1",
        ),
        (poisson(json!({"load": -0.1})), "flows[0].app.load: got -0.1;"),
        (poisson(json!({"load": null})), "flows[0].app.load: missing;"),
        (poisson(json!({"rate_mbps": 3})), "flows[0].app.load: got 0.5; expected either `load` or `rate_mbps`"),
        (poisson(json!({"load": null, "rate_mbps": -3})), "flows[0].app.rate_mbps: got -3;"),
        (poisson(json!({"sizes": "web"})), "flows[0].app.sizes: unknown distribution of sizes \"web\""),
        (poisson(json!({"sizes": 0})), "flows[0].app.sizes: got 0; expected a whole number from 1"),
        (poisson(json!({"sizes": {"table": []}})), "flows[0].app.sizes.table: got [];"),
        (
            poisson(json!({"sizes": {"table": [[10, 0.5], [20, 0.4], [30, 1]]}})),
            "flows[0].app.sizes.table[1][1]: got 0.4; expected at least 0.5, the share of the point before",
        ),
        (poisson(json!({"sizes": {"table": [[10, 0.5], [5, 1]]}})), "flows[0].app.sizes.table[1][0]: got 5;"),
        (poisson(json!({"sizes": {"table": [[10, 0.5]]}})), "flows[0].app.sizes.table[0]: got [10,0.5]; expected 1 as"),
        (
            poisson(json!({"sizes": {"pareto": {"mean_bytes": 9, "shape": 1}}})),
            "flows[0].app.sizes.pareto.shape: got 1;",
        ),
        (poisson(json!({"sizes": 1, "load": 0.9})), "flows[0].app: got "),
        (json!({"type": "incast", "flows": 0, "size_bytes": 1}), "flows[0].app.flows: got 0;"),
        (json!({"type": "incast", "flows": 2, "size_bytes": 1, "every_s": 0}), "flows[0].app.every_s: got 0;"),
        (json!({"type": "request_response", "sizes": 5}), "flows[0].app.think_s: missing;"),
        (json!({"type": "request_response", "sizes": 5, "think_s": -1}), "flows[0].app.think_s: got -1;"),
        (json!({"type": "media", "fps": 0}), "flows[0].app.fps: got 0; expected a number from 1 to 240"),
        (
            json!({"type": "media", "max_mbps": 0.1}),
            "flows[0].app.max_mbps: got 0.1; expected at least min_mbps, which is 0.15",
        ),
        (
            json!({"type": "media", "min_mbps": 3}),
            "flows[0].app.min_mbps: got 3; expected at most max_mbps, which is 2.5",
        ),
        (
            json!({"type": "media", "start_mbps": 9}),
            "flows[0].app.start_mbps: got 9; expected from min_mbps, which is 0.15,",
        ),
        (json!({"type": "media", "variation": 1}), "flows[0].app.variation: got 1;"),
        (json!({"type": "media", "playout_ms": 0}), "flows[0].app.playout_ms: got 0;"),
        (json!({"type": "media", "key_every_s": -1}), "flows[0].app.key_every_s: got -1;"),
        (json!({"type": "media", "bitrate": 1}), "flows[0].app.bitrate: unknown"),
        (
            json!({"type": "video", "ladder_mbps": []}),
            "flows[0].app.ladder_mbps: got []; expected a list of 1 to 100 bit rates",
        ),
        (json!({"type": "video", "ladder_mbps": [2, 1]}), "flows[0].app.ladder_mbps[1]: got 1; expected more than 2,"),
        (json!({"type": "video", "chunk_s": 0}), "flows[0].app.chunk_s: got 0;"),
        (
            json!({"type": "video", "chunk_s": 5, "buffer_s": 4}),
            "flows[0].app.buffer_s: got 4; expected at least chunk_s, which is 5",
        ),
        (json!({"type": "video", "abr": "mpc"}), "flows[0].app.abr: unknown choice of bit rates \"mpc\""),
    ];
    for (app, expected) in cases {
        let got = scenario(&app).unwrap_err();
        assert!(got.starts_with(expected), "{got}\nis not\n{expected}");
    }
    let mut varies = json!({"links": [{"service": {"type": "steps", "steps": [{"at_s": 0, "rate_mbps": 5}]}}]});
    varies["flows"] = json!([{"scheme": "cubic", "app": poisson(json!({}))}]);
    let got = Scenario::from_json(&varies).unwrap_err().to_string();
    assert!(got.contains("`rate_mbps` instead of `load`"), "{got}");
}

proptest! {
    #[test]
    fn offers_never_shrink_and_always_name_a_later_time(
        steps in prop::collection::vec((1..200_u64, 0.0..1.0_f64, 0..50_000_000_u64), 1..100),
        kind in 0..APPS.len(),
    ) {
        let mut app = source(&serde_json::from_str(APPS[kind]).unwrap());
        let (mut now, mut before, mut acknowledged) = (Dur::ZERO, 0_u64, 0_u64);
        for (ms, share, rate) in steps {
            now += MS(ms);
            let offer = app.advance(&View { elapsed: now, sent: acknowledged, acknowledged, rate: Some(Rate(rate)) });
            prop_assert!(offer.allowed >= before && offer.next > now, "{offer:?} at {now} after {before}");
            before = offer.allowed;
            acknowledged += ((before - acknowledged) as f64 * share) as u64;
        }
    }
}

/// One of each application that is not bulk.
const APPS: &[&str] = &[
    r#"{"type": "cbr", "rate_mbps": 3}"#,
    r#"{"type": "onoff", "rate_mbps": 3, "on_s": 0.1, "off_s": 0.1}"#,
    r#"{"type": "capped", "rate_mbps": 3}"#,
    r#"{"type": "transfers", "sizes_bytes": [1, 50000, 1448], "gap_s": 0.1}"#,
    r#"{"type": "request_response", "sizes": "hadoop", "think_s": 0.1}"#,
    r#"{"type": "media", "key_every_s": 1}"#,
    r#"{"type": "video", "abr": "rate"}"#,
];
