//! What a client or an operator asks of a QUIC server, in pieces of any length: nothing makes it panic, and what is taken is taken again.
#![no_main]

use ccarena_cc::Time;
use ccarena_quic::control::Command;
use ccarena_quic::offer::Offer;
use ccarena_quic::operate::{Asking, hash_of};
use ccarena_quic::request::{Change, LONGEST, Lines, Request};
use ccarena_quic::transport::LARGEST_MTU;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let (Some((&cut, bytes)), mut lines) = (data.split_first(), Lines::default()) else { return };
    let mut offer = Offer::default();
    let asking = Asking { hash: hash_of(data), remote: [127, 0, 0, 1].into() };
    for piece in bytes.chunks(usize::from(cut).max(1)) {
        let Ok(whole) = lines.take(piece) else { return };
        for line in whole {
            assert!(line.len() < LONGEST);
            if let Ok(request) = Request::parse(&line) {
                let written = serde_json::to_vec(&request).expect("a request is plain data");
                assert_eq!(Request::parse(&written).map(|read| read.bytes), Ok(request.bytes));
                // The registry refuses what it cannot build.
                let _ = offer.choose(&request, LARGEST_MTU, 1, asking, Time::ZERO);
            }
            if let Ok(command) = Command::parse(&line) {
                let written = serde_json::to_vec(&command).expect("a command is plain data");
                assert!(Command::parse(&written).is_ok());
                if let Command::Canary { name, share, to, guard } = command {
                    assert!(offer.canary(&name, share, to.as_deref(), guard).is_err(), "nothing is offered");
                }
            }
            if let Ok(change) = Change::parse(&line) {
                assert!(change.settings().len() <= 3);
            }
        }
    }
});
