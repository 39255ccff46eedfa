//! The spec of a learned scheme is refused, or its normalised form reads back equal and a flow of it can be built.
#![no_main]

use ccarena_cc::{Config, Spec};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(spec) = Spec::parse(text) {
        assert_eq!(Spec::parse(&spec.to_json().to_string()).as_ref(), Ok(&spec));
        let mut controller = spec.controller(&Config::default()).expect("defaults are within their bounds");
        let learned = controller.learned().expect("it is learned");
        let mut observation = vec![f32::NAN; learned.interface().observation_len];
        learned.observe(&mut observation);
        assert!(observation.iter().all(|x| x.is_finite()));
    }
});
