//! Messages, loads, reports and packet times of runs over a real path: nothing makes their readers panic, and what is taken is
//! written and taken again.
#![no_main]

use ccarena_quic::remote::load::Load;
use ccarena_quic::remote::message::{Answer, Ask, line};
use ccarena_quic::remote::report::Report;
use ccarena_quic::remote::stamps::{decode, encode};
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
    if let Some(found) = decode(bytes, usize::from(flows)) {
        assert_eq!(encode(&found), bytes);
    }
});
