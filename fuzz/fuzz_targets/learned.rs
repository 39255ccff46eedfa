//! A document of a learned scheme is refused, or its normalised form reads back equal and a flow of it can be built.
#![no_main]

use ccarena_cc::{Config, Document};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(document) = Document::parse(text) {
        assert_eq!(Document::parse(&document.to_json().to_string()).as_ref(), Ok(&document));
        let mut controller = document.controller(&Config::default()).expect("defaults are within their bounds");
        let learned = controller.learned().expect("it is learned");
        let mut observation = vec![f32::NAN; learned.spec().observation_len];
        learned.observe(&mut observation);
        assert!(observation.iter().all(|x| x.is_finite()));
    }
});
