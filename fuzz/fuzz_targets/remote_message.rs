//! Messages, loads, reports, packet times and preambles of runs over a real path: nothing makes their readers panic, and what is
//! taken is written and taken again.
#![no_main]

use ccarena_quic::remote::load::Load;
use ccarena_quic::remote::message::{Answer, Ask, line};
use ccarena_quic::remote::report::Report;
use ccarena_quic::remote::stamps::{decode, encode};
use ccarena_quic::remote::tcp::ticket::Preamble;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&flows, bytes)) = data.split_first() else { return };
    if let Ok(ask) = Ask::parse(bytes) {
        assert_eq!(Ask::parse(&line(&ask)), Ok(ask));
    }
    if let Ok(answer) = Answer::parse(bytes) {
        assert_eq!(Answer::parse(&line(&answer)), Ok(answer));
    }
    if let Ok(report) = Report::read(bytes) {
        assert_eq!(Report::read(&report.write()).ok(), Some(report));
    }
    let _ = Load::read(bytes);
    // A preamble in pieces of any length.
    let (mut preamble, mut rest) = (Preamble::default(), bytes);
    loop {
        let room = preamble.room();
        let count = room.len().min(rest.len()).min(usize::from(flows).max(1));
        room[..count].copy_from_slice(&rest[..count]);
        rest = &rest[count..];
        match preamble.came(count) {
            Ok(Some(ticket)) => {
                assert!(bytes.starts_with(&ticket.preamble()));
                break;
            }
            Ok(None) if count > 0 => {}
            _ => break,
        }
    }
    if let Some(found) = decode(bytes, usize::from(flows)) {
        assert_eq!(encode(&found), bytes);
    }
});
