//! Real-time media and adaptive video.

use super::*;

fn column(app: &Source, name: &str) -> Vec<f64> {
    app.outcome().columns.into_iter().find(|column| column.0 == name).unwrap().1
}

fn media(fields: &str) -> Source {
    source(&serde_json::from_str(&format!(r#"{{"type": "media", {fields}}}"#)).unwrap())
}

#[test]
fn frames_follow_the_rate_that_the_controller_allows() {
    // Rate of the controller in Mbit/s, and of the encoder: 0.9 of it between the least and the largest rate.
    for (allowed, expected) in [(1.0, 0.9), (0.1, 0.2), (50.0, 3.0)] {
        let mut app = media(r#""min_mbps": 0.2, "max_mbps": 3, "fps": 25"#);
        drive(&mut app, allowed * 1e6 / 8.0, 60.0);
        let bytes = column(&app, "frame_bytes");
        let made: Vec<f64> = bytes.iter().copied().filter(|&bytes| bytes > 0.0).collect();
        let mean = made.iter().sum::<f64>() / made.len() as f64 * 8.0 * 25.0 / 1e6;
        assert!((mean / expected - 1.0).abs() < 0.02, "{allowed}: {mean}");
        assert_eq!(bytes.len(), 1500);
        assert_eq!(
            made.len() < 1500,
            allowed < 0.2,
            "{allowed}: skips only where the link cannot carry the least rate"
        );
    }
}

#[test]
fn key_frames_are_larger_and_leave_the_mean_as_it_is() {
    let mut app =
        media(r#""fps": 20, "variation": 0, "key_every_s": 2, "key_size": 5, "max_mbps": 1, "start_mbps": 1"#);
    drive(&mut app, 1e6, 20.0);
    let bytes = column(&app, "frame_bytes");
    assert!((bytes.iter().sum::<f64>() * 8.0 / 20.0 / 1e6 - 1.0).abs() < 0.01);
    for (number, &size) in bytes.iter().enumerate() {
        let mean = 1e6 / 8.0 / 20.0 * 40.0 / 44.0;
        let expected = if number % 40 == 0 { 5.0 * mean } else { mean };
        assert!((size - expected).abs() < 1.0, "{number}: {size}");
    }
}

#[test]
fn an_encoder_skips_frames_while_the_oldest_one_waits() {
    let mut app = media(r#""fps": 100, "playout_ms": 100"#);
    let view = |ms: u64, acknowledged| View { acknowledged, ..at(MS(ms)) };
    let first = app.advance(&view(0, 0)).allowed;
    app.advance(&view(5, first));
    // The next frame is never acknowledged: frames follow until it is older than 5 + 100 ms.
    for tick in 1..40 {
        app.advance(&view(10 * tick, first));
    }
    let bytes = column(&app, "frame_bytes");
    assert_eq!(bytes.iter().position(|&bytes| bytes == 0.0), Some(12), "captured at 120 ms, 110 after the second");
    assert!(bytes[12..].iter().all(|&bytes| bytes == 0.0));
    let all = app.advance(&view(400, first)).allowed;
    assert!(app.advance(&view(410, all)).allowed > all, "the encoder goes on");
}

#[test]
fn messages_are_given_their_arrivals() {
    let mut app = media(r#""fps": 10"#);
    let offers: Vec<u64> = (0..3).map(|k| app.advance(&at(MS(100 * k))).allowed).collect();
    let start = Time(1_000_000_000);
    let progress = [(Time(1_050_000_000), offers[0]), (Time(1_300_000_000), offers[1] + 1)];
    let outcome = app.outcome().with_arrivals(start, |_, end| reached(&progress, end));
    assert_eq!(outcome.columns.last().unwrap(), &("arrived_s", vec![0.05, 0.3, -1.0]));
}

/// The client's buffer in s after each chunk.
fn buffers(app: &Source, chunk: f64) -> Vec<f64> {
    let (arrived, stalled) = (column(app, "chunk_arrived_s"), column(app, "stalled_s"));
    let mut stood = 0.0;
    let after = |(number, (at, stalled)): (usize, (&f64, &f64))| {
        stood += stalled;
        (number + 1) as f64 * chunk - (at - arrived[0] - stood)
    };
    arrived.iter().zip(&stalled).enumerate().map(after).collect()
}

#[test]
fn a_client_plays_what_the_link_carries_and_keeps_its_buffer() {
    for abr in ["buffer", "rate"] {
        let app = json!({"type": "video", "ladder_mbps": [1, 2, 4], "chunk_s": 2, "buffer_s": 30, "abr": abr});
        let mut app = source(&app);
        drive(&mut app, 3e6 / 8.0, 600.0);
        let (mbps, stalled) = (column(&app, "chunk_mbps"), column(&app, "stalled_s"));
        let mean = mbps.iter().sum::<f64>() / mbps.len() as f64;
        // All of the link's 3 Mbit/s by the buffer, which passes between 2 and 4; the rung below them by the rate.
        assert!(if abr == "rate" { (1.9..2.0).contains(&mean) } else { (2.3..3.1).contains(&mean) }, "{abr}: {mean}");
        assert!(stalled.iter().all(|&s| s < 1e-9), "{abr}");
        let buffers = buffers(&app, 2.0);
        assert!(buffers.iter().all(|&b| (0.0..=30.01).contains(&b)) && buffers[100] > 9.0, "{abr}: {buffers:?}");
    }
}

#[test]
fn playback_stands_still_where_the_link_is_below_the_ladder() {
    let mut app = source(&json!({"type": "video", "ladder_mbps": [2], "chunk_s": 2, "buffer_s": 10}));
    drive(&mut app, 1e6 / 8.0, 100.0);
    // A chunk of 2 s takes 4.
    let stalled = column(&app, "stalled_s");
    assert!((24..=25).contains(&stalled.len()), "{}", stalled.len());
    assert!(stalled[0] == 0.0 && stalled[1..].iter().all(|&s| (s - 2.0).abs() < 0.01), "{stalled:?}");
}

proptest! {
    #[test]
    fn no_frame_is_lost_or_made_twice(
        steps in prop::collection::vec((1..400_u64, 0.0..1.0_f64, 0..20_000_000_u64), 1..200),
        key_every in 0.0..3.0_f64,
    ) {
        let (fps, most, key_size) = (24.0, 2e6, 6.0);
        let mut app = media(&format!(
            r#""fps": {fps}, "max_mbps": 2, "key_every_s": {key_every}, "key_size": {key_size}, "playout_ms": 80"#
        ));
        let (mut now, mut acknowledged, mut allowed) = (Dur::ZERO, 0, 0);
        for (ms, share, rate) in steps {
            now += MS(ms);
            allowed = app.advance(&View { elapsed: now, sent: allowed, acknowledged, rate: Some(Rate(rate)) }).allowed;
            acknowledged += ((allowed - acknowledged) as f64 * share) as u64;
        }
        let (captured, bytes) = (column(&app, "captured_s"), column(&app, "frame_bytes"));
        prop_assert!(captured.is_sorted_by(|a, b| a < b) && captured.len() == bytes.len());
        prop_assert!(captured.len() as f64 <= now.as_secs_f64() * fps + 1.0);
        let largest = most / 8.0 / fps * 1.2 * key_size;
        prop_assert!(bytes.iter().all(|&b| (0.0..=largest).contains(&b)), "{bytes:?}");
        let mut sum = 0;
        let ends: Vec<u64> = bytes.iter().filter(|&&b| b > 0.0).map(|&b| { sum += b as u64; sum }).collect();
        prop_assert_eq!(sum, allowed);
        prop_assert_eq!(ends, app.outcome().ends);
    }

    #[test]
    fn all_that_arrives_is_played_or_buffered(
        steps in prop::collection::vec((1..3000_u64, 0.0..1.5_f64), 1..300),
        chunk in 0.5..4.0_f64,
        by_rate in prop::bool::ANY,
    ) {
        let abr = if by_rate { "rate" } else { "buffer" };
        let mut app = source(&json!({"type": "video", "chunk_s": chunk, "buffer_s": 12, "abr": abr}));
        let (mut now, mut acknowledged) = (Dur::ZERO, 0_u64);
        for (ms, share) in steps {
            now += MS(ms);
            let allowed = app.advance(&View { elapsed: now, acknowledged, ..View::default() }).allowed;
            acknowledged = allowed.min(acknowledged + ((allowed - acknowledged) as f64 * share) as u64);
        }
        let (mbps, arrived, stalled) = (column(&app, "chunk_mbps"), column(&app, "chunk_arrived_s"), column(&app, "stalled_s"));
        prop_assert!(arrived.is_sorted_by(|a, b| a < b) && arrived.last().is_none_or(|&at| at <= now.as_secs_f64()));
        prop_assert!(stalled.iter().all(|&s| s >= 0.0));
        // Each chunk fits into the buffer when it is asked for.
        prop_assert!(buffers(&app, chunk).iter().all(|&b| (chunk - 1e-6..=12.0 + 1e-6).contains(&b)));
        let bytes: u64 = mbps.iter().map(|mbps| (mbps * 1e6 * chunk / 8.0) as u64).sum();
        prop_assert!(acknowledged + mbps.len() as u64 >= bytes, "{acknowledged} {bytes}");
    }
}
