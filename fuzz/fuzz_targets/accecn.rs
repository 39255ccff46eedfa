//! Any bytes as an AccECN option, and any acknowledgements in any order: no panic, what is read can be written, and no mark
//! is counted that no packet can have had.
#![no_main]

use ccarena_net::accecn::{AccEcnOption, OPTION_BYTES, SenderCounters};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Acknowledgement<'a> {
    ace: u8,
    option: &'a [u8],
    packets: u16,
    payload: u32,
}

fuzz_target!(|acknowledgements: Vec<Acknowledgement<'_>>| {
    let mut sender = SenderCounters::default();
    for Acknowledgement { ace, option, packets, payload } in acknowledgements {
        let read = AccEcnOption::read(option);
        if let Some(read) = read {
            let mut bytes = [0; OPTION_BYTES];
            let length = read.write(OPTION_BYTES, &mut bytes);
            let first = (length - 2) / 3;
            let again = AccEcnOption::read(&bytes[..length]).expect("a written option is read");
            assert_eq!(again.counters[..first], read.counters[..first]);
        }
        let marked = sender.take(ace & 7, read.as_ref(), packets.into(), payload.into(), 1448);
        assert!(marked <= u32::from(packets));
    }
});
