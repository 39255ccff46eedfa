//! Any bytes as an IP packet: no panic; only an advertised rate and the checksum change, and neither up nor wrong. With the TCP
//! option, and as a datagram beside QUIC.
#![no_main]

use ccarena_cc::Rate;
use ccarena_net::rate_datagram;
use ccarena_net::tcp_option::{advertised, checksum_holds, echoed, kbps, lower};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| {
    let (offer, before) = (Rate(input.0), input.1);
    let mut packet = before.to_vec();
    let (found, echo) = (advertised(before), echoed(before));
    let changed = lower(&mut packet, offer);
    assert_eq!(changed, found.is_some_and(|a| kbps(offer) < a.kbps));
    assert!(packet.iter().zip(before).filter(|(a, b)| a != b).count() <= if changed { 6 } else { 0 });
    assert_eq!(checksum_holds(&packet), checksum_holds(before));
    assert_eq!(echoed(&packet), echo);
    assert_eq!(advertised(&packet).map(|a| a.kbps), found.map(|a| a.kbps.min(kbps(offer))));
    assert!(!lower(&mut packet, offer), "a second time changes nothing");
    let mut packet = before.to_vec();
    let changed = rate_datagram::lower(&mut packet, offer);
    assert!(packet.iter().zip(before).filter(|(a, b)| a != b).count() <= if changed { 6 } else { 0 });
    assert!(!rate_datagram::lower(&mut packet, offer), "a second time changes nothing");
});
