//! A simulation that would take more than the limit is refused before it takes anything.
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use ccarena_net::{Limits, Scenario};
use ccarena_sim::{Files, Sim, SimError, Source, Worlds};
use serde_json::{Value, json};

fn new(document: &Value, limits: Limits) -> Result<Sim, SimError> {
    let mut files = Files::default();
    files.limits = Ok(limits);
    Sim::new(&Scenario::from_json(document).unwrap(), &files, false)
}

#[test]
fn what_asks_for_too_much_is_refused_at_once_and_allowed_on_request() {
    let bins = json!({
        "duration_s": 1e6,
        "links": [{"service": {"type": "constant", "rate_mbps": 1}}],
        "flows": [{"scheme": "cubic", "count": 1000}],
        "record": {"series": true, "bin_ms": 0.1},
    });
    let error = new(&bins, Limits::default()).err().unwrap().to_string();
    assert!(error.starts_with("record.bin_ms: the run asks for about 320.8 TB of memory"), "{error}");

    let modules = json!({
        "links": [{"service": {"type": "constant", "rate_mbps": 1}}],
        "flows": [{"scheme": "mine", "controller": {"type": "wasm", "module": "mine.wasm"}, "count": 1000}],
    });
    let error = new(&modules, Limits::default()).err().unwrap().to_string();
    let expected = "flows: the run asks for about 16.8 GB of memory, most of it for modules, and the limit is 4.0 GB";
    assert!(error.starts_with(expected), "{error}");

    // A trace says only when it has been read how much it carries.
    let file = std::env::temp_dir().join(format!("ccarena-limits-{}.trace", std::process::id()));
    std::fs::write(&file, "1\n1\n1\n1\n").unwrap();
    let traced = json!({
        "duration_s": 1000,
        "links": [{"service": {"type": "trace", "file": file}}],
        "flows": [{"scheme": "cubic"}],
    });
    let little = Limits { packets: 1e6, ..Limits::default() };
    let error = new(&traced, little).err().unwrap().to_string();
    assert!(error.starts_with("duration_s: the run asks for about 4.0 million packets"), "{error}");
    assert!(new(&traced, little.times(5.0)).is_ok());
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_window_that_grows_for_ever_ends_at_what_memory_holds() {
    let document = json!({
        "duration_s": 20,
        "links": [{"service": {"type": "constant", "rate_mbps": 1000}, "queue": {"type": "infinite"}}],
        "flows": [{"scheme": "reno"}],
    });
    let mut sim = new(&document, Limits { memory_bytes: 64e6, ..Limits::default() }).unwrap();
    sim.run_until(ccarena_cc::Time::from_secs_f64(20.0));
    let bound = Limits { memory_bytes: 64e6, ..Limits::default() }.window_packets(1);
    assert_eq!(sim.flows()[0].sender.in_flight(), bound, "slow start over an infinite queue loses nothing");
}

#[test]
fn many_worlds_are_counted_together() {
    let document = json!({
        "duration_s": 1000,
        "links": [{"service": {"type": "constant", "rate_mbps": 1}, "router": true}],
        "flows": [{"scheme": "acct"}],
        "record": {"series": true, "bin_ms": 0.1},
    });
    let source = || Source::Scenario(Box::new(Scenario::from_json(&document).unwrap()));
    assert!(Worlds::new(source(), 1, 0, 1, 1).is_ok());
    let error = Worlds::new(source(), 2000, 0, 1, 1).err().unwrap().to_string();
    assert!(error.starts_with("2000 worlds: record.bin_ms: the run asks for about 2.2 TB of memory"), "{error}");
}
