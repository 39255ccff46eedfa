//! Requests to change a running emulation: nothing makes them panic, and a scenario with changes is read again.
#![no_main]

use ccarena_cc::types::Time;
use ccarena_net::Scenario;
use ccarena_net::scenario::ChangeRequest;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let document = r#"{"links": [{"service": {"type": "constant", "rate_mbps": 12}}], "flows": [{"scheme": "cubic"}]}"#;
    let mut scenario = Scenario::parse(document).expect("a scenario");
    scenario.make_changeable().expect("a constant rate");
    for (i, line) in data.split(|byte| *byte == b'\n').enumerate() {
        let Ok(request) = ChangeRequest::parse(line) else { continue };
        assert_eq!(scenario.refusal(0, &request.change), None);
        scenario.change(0, Time(i as u64), &request.change);
        let written = scenario.to_json();
        assert_eq!(Scenario::from_json(&written).map(|read| read.to_json()).ok(), Some(written));
    }
});
