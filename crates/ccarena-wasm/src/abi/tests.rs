//! Each field of an event lies where `ccarena.h` has it.

use std::collections::BTreeMap;

use ccarena_cc::{AckInfo, Bytes, Config, Dur, LossInfo, RateSample, RecoveryState, SentInfo, Time};

use super::*;

const HEADER: &str = include_str!("../../../../ccarena/controllers/ccarena.h");

/// Offset and size of each field of a struct of the header, and the struct's size.
fn layout(name: &str) -> (BTreeMap<String, (usize, usize)>, usize) {
    let end = HEADER.find(&format!("}} {name};")).unwrap();
    let begin = HEADER[..end].rfind("typedef struct {").unwrap();
    let (mut fields, mut at) = (BTreeMap::new(), 0);
    for line in HEADER[begin..end].lines().skip(1).filter_map(|line| line.trim().split_once(';')) {
        let (kind, field) = line.0.split_once(' ').unwrap();
        let size = match kind {
            "uint64_t" | "double" => 8,
            "uint32_t" => 4,
            other => panic!("{other} in {name}"),
        };
        let (field, count) = field.strip_suffix(']').map_or((field, 1), |field| {
            let (field, count) = field.split_once('[').unwrap();
            (field, count.parse().unwrap())
        });
        assert_eq!(at % size, 0, "hidden padding before {name}.{field}");
        fields.insert(field.to_string(), (at, size));
        at += size * count;
    }
    (fields, at)
}

/// The same bytes as words.
fn words<const W: usize>(bytes: &[u8]) -> [u64; W] {
    let mut words = [0; W];
    assert_eq!(bytes.len(), 8 * W);
    words.iter_mut().zip(bytes.chunks_exact(8)).for_each(|(word, b)| *word = u64::from_le_bytes(b.try_into().unwrap()));
    words
}

fn check(name: &str, bytes: &[u8], expected: &[(&str, u64)]) {
    let (mut fields, size) = layout(name);
    assert_eq!(bytes.len(), size, "size of {name}");
    for (field, value) in expected {
        let (at, size) = fields.remove(*field).unwrap_or_else(|| panic!("{name} has no {field}"));
        let mut word = [0; 8];
        word[..size].copy_from_slice(&bytes[at..at + size]);
        assert_eq!(u64::from_le_bytes(word), *value, "{name}.{field}");
    }
    fields.remove("reserved");
    assert!(fields.is_empty(), "{name}: {fields:?}");
}

#[test]
fn an_acknowledgement_is_laid_out_as_in_the_header() {
    let rate = RateSample { delivered: Bytes(11), interval: Dur(12), prior_delivered: Bytes(13), app_limited: true };
    let info = AckInfo {
        now: Time(1),
        acked: Bytes(2),
        rtt: Some(Dur(3)),
        min_rtt: Dur(4),
        srtt: Dur(5),
        rttvar: Dur(6),
        prior_in_flight: Bytes(7),
        in_flight: Bytes(8),
        delivered: Bytes(9),
        lost: Bytes(10),
        rate: Some(rate),
        snd_una: 14,
        snd_nxt: 15,
        acked_packets: 16,
        retransmitted: 17,
        ecn_ce: 18,
        recovery: RecoveryState::Loss,
        cwnd_limited: true,
        ..AckInfo::default()
    };
    let mut expected = vec![
        ("now_ns", 1),
        ("acked_bytes", 2),
        ("rtt_ns", 3),
        ("min_rtt_ns", 4),
        ("smoothed_rtt_ns", 5),
        ("rtt_var_ns", 6),
        ("in_flight_before_bytes", 7),
        ("in_flight_bytes", 8),
        ("delivered_bytes", 9),
        ("lost_bytes", 10),
        ("rate_bytes", 11),
        ("rate_interval_ns", 12),
        ("rate_prior_bytes", 13),
        ("acked_to", 14),
        ("sent_to", 15),
        ("acked_packets", 16),
        ("retransmitted_packets", 17),
        ("marked_packets", 18),
        ("recovery", 3),
        ("flags", u64::from(flags::WINDOW_LIMITED | flags::APP_LIMITED)),
    ];
    check("cc_ack", &ack(&info), &expected);
    assert_eq!(format!("{:?}", read_ack(&words(&ack(&info))).unwrap()), format!("{info:?}"));
    let mut unknown = words(&ack(&info));
    unknown[16] = pair(18, 4);
    assert!(read_ack(&unknown).is_none(), "no state of recovery");
    expected[2].1 = NEVER;
    for (_, value) in &mut expected[10..13] {
        *value = 0;
    }
    expected[19].1 = 0;
    check("cc_ack", &ack(&AckInfo { rtt: None, rate: None, cwnd_limited: false, ..info }), &expected);
}

#[test]
fn losses_and_packets_are_laid_out_as_in_the_header() {
    let lost = LossInfo {
        now: Time(1),
        lost: Bytes(2),
        in_flight: Bytes(3),
        delivered: Bytes(4),
        snd_nxt: 5,
        lost_packets: 6,
        new_episode: true,
        ecn: false,
    };
    let mut expected = [
        ("now_ns", 1),
        ("lost_bytes", 2),
        ("in_flight_bytes", 3),
        ("delivered_bytes", 4),
        ("sent_to", 5),
        ("lost_packets", 6),
        ("flags", u64::from(flags::NEW_EPISODE)),
    ];
    check("cc_loss", &loss(&lost), &expected);
    assert_eq!(format!("{:?}", read_loss(&words(&loss(&lost)))), format!("{lost:?}"));
    expected[6].1 = u64::from(flags::MARKED);
    check("cc_loss", &loss(&LossInfo { new_episode: false, ecn: true, ..lost }), &expected);

    let leaves = SentInfo {
        now: Time(1),
        bytes: Bytes(2),
        prior_in_flight: Bytes(3),
        snd_nxt: 4,
        last_sent: Time(5),
        unreported: Bytes(6),
        unreported_packets: 7,
        app_limited: false,
        retransmission: true,
        number: 99,
    };
    let expected = [
        ("now_ns", 1),
        ("bytes", 2),
        ("in_flight_before_bytes", 3),
        ("sent_to", 4),
        ("last_sent_ns", 5),
        ("unreported_bytes", 6),
        ("unreported_packets", 7),
        ("flags", u64::from(flags::RETRANSMISSION)),
    ];
    check("cc_sent", &sent(&leaves), &expected);
    assert_eq!(format!("{:?}", read_sent(&words(&sent(&leaves)), 99)), format!("{leaves:?}"));
}

#[test]
fn configuration_and_control_are_laid_out_as_in_the_header() {
    let facts =
        Config { mss: 1, initial_window: 2, slow_start: true, weight: 1.5, header_bytes: 52, ..Config::default() };
    let expected = [
        ("mss_bytes", 1),
        ("initial_window_packets", 2),
        ("slow_start", 1),
        ("params_count", 2),
        ("weight", 1.5f64.to_bits()),
        ("header_bytes", 52),
        ("params", 7.25f64.to_bits()),
    ];
    let bytes = config(&facts, &[7.25, 8.0]);
    check("cc_config", &bytes, &expected);
    assert_eq!(bytes[CONFIG_BYTES - 8 * PARAMS + 8..][..8], 8.0f64.to_le_bytes());

    let control = Control { window_bytes: 1.0, pacing_bps: 2.0, threshold_bytes: 3.0, timer_ns: 4 };
    let expected = [
        ("window_bytes", 1.0f64.to_bits()),
        ("pacing_bps", 2.0f64.to_bits()),
        ("threshold_bytes", 3.0f64.to_bits()),
        ("timer_ns", 4),
    ];
    check("cc_control", &control.bytes(), &expected);
    assert_eq!(Control::read(&control.bytes()), control);
}

#[test]
fn constants_are_those_of_the_header() {
    let constants: [(&str, u64); 11] = [
        ("CC_ABI", VERSION.into()),
        ("CC_OWNS_RECOVERY", wants::OWNS_RECOVERY.into()),
        ("CC_EVERY_SEGMENT", wants::EVERY_SEGMENT.into()),
        ("CC_RATE_SAMPLES", wants::RATE_SAMPLES.into()),
        ("CC_PARAMS_MOST", PARAMS as u64),
        ("CC_WINDOW_LIMITED", flags::WINDOW_LIMITED.into()),
        ("CC_APP_LIMITED", flags::APP_LIMITED.into()),
        ("CC_NEW_EPISODE", flags::NEW_EPISODE.into()),
        ("CC_MARKED", flags::MARKED.into()),
        ("CC_RETRANSMISSION", flags::RETRANSMISSION.into()),
        ("CC_SCRATCH_BYTES", SCRATCH_BYTES as u64),
    ];
    for (name, value) in constants {
        assert!(HEADER.contains(&format!("#define {name} {value}u")), "{name} is {value}");
    }
}
