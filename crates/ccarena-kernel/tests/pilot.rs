//! The scheme `pilot` in integers (`bpf/pilot.h`, compiled natively) in the simulator, beside the Rust one: the same
//! throughput and delay, with a timer and without one.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]
#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "calls into a library of this test's own, with the types that tests/pilot.c declares"
)]

use std::env;
use std::ffi::{CStr, CString, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use ccarena_cc::controller::TransportNeeds;
use ccarena_cc::schemes::pilot::{SCHEME, numbers};
use ccarena_cc::{
    AckInfo, Bytes, Config, Controller, LossInfo, Rate, RecoveryState, SentInfo, Time, elementary, scheme,
};
use ccarena_net::Scenario;
use ccarena_sim::{Files, Sim};
use serde_json::{Value, json};

const RAW: f64 = (1_u64 << 20) as f64;

/// `struct pilot_ack`.
#[repr(C)]
struct Ack {
    now: u64,
    acked: i64,
    rtt: u64,
    srtt: u64,
    in_flight: i64,
    segments: u32,
    limited: u8,
    in_loss: u8,
}

macro_rules! library {
    ($($name:ident: $type:ty;)*) => {
        struct Library { $($name: $type,)* }

        impl Library {
            unsafe fn open(file: &Path) -> Self {
                let path = CString::new(file.as_os_str().as_bytes()).unwrap();
                let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
                assert!(!handle.is_null(), "dlopen {}", file.display());
                let find = |name: &str| {
                    let symbol = unsafe { libc::dlsym(handle, CString::new(name).unwrap().as_ptr()) };
                    assert!(!symbol.is_null(), "{name}");
                    symbol
                };
                Self { $($name: unsafe {
                    std::mem::transmute::<*mut c_void, $type>(find(concat!("ccarena_pilot_", stringify!($name))))
                },)* }
            }
        }
    };
}

library! {
    names: extern "C" fn() -> *const c_char;
    new: extern "C" fn(*const i64, u32, u32) -> *mut c_void;
    free: extern "C" fn(*mut c_void);
    catch_up: extern "C" fn(*mut c_void, u64);
    ends: extern "C" fn(*const c_void) -> u64;
    sent: extern "C" fn(*mut c_void, u64, i64, i64);
    ack: extern "C" fn(*mut c_void, *const Ack);
    loss: extern "C" fn(*mut c_void, u64, u32, i64, u32);
    timeout: extern "C" fn(*mut c_void, u64, u32, i64);
    spurious: extern "C" fn(*mut c_void);
    window: extern "C" fn(*const c_void) -> u32;
    pacing: extern "C" fn(*const c_void) -> i64;
    log2: extern "C" fn(i64) -> i64;
}

/// The C side, compiled once.
fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libpilot.so");
        let status = Command::new(env::var_os("CLANG").unwrap_or_else(|| "clang".into()))
            .args(["-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"])
            .args(["-fsanitize=signed-integer-overflow,shift-exponent", "-fsanitize-trap=all", "-o"])
            .arg(&file)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pilot.c"))
            .status()
            .unwrap();
        assert!(status.success());
        unsafe { Library::open(&file) }
    })
}

/// The law in C as a controller.
struct InIntegers {
    flow: *mut c_void,
    mss: u64,
    /// The simulator's timer ends periods; without it, acknowledgements do, as in the kernel.
    timed: bool,
}

// The library keeps nothing of a thread between two calls, and what reads a flow writes nothing in it.
unsafe impl Send for InIntegers {}
unsafe impl Sync for InIntegers {}

impl Drop for InIntegers {
    fn drop(&mut self) {
        (library().free)(self.flow);
    }
}

impl InIntegers {
    fn new(config: &Config, params: &Value, timed: bool) -> Self {
        let given =
            params.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value.as_f64().unwrap()));
        let params = scheme::complete_params(&SCHEME, &given.collect()).unwrap();
        let raw: Vec<i64> =
            numbers(&Config { params, ..config.clone() }).iter().map(|x| (x * RAW).round() as i64).collect();
        let flow = (library().new)(raw.as_ptr(), config.initial_window, config.slow_start.into());
        Self { flow, mss: config.mss.into(), timed }
    }

    fn packets(&self, bytes: Bytes) -> i64 {
        (bytes.0 as f64 / self.mss as f64 * RAW) as i64
    }
}

impl Controller for InIntegers {
    fn on_sent(&mut self, sent: &SentInfo) {
        if sent.prior_in_flight.0 == 0 {
            (library().catch_up)(self.flow, sent.now.0);
        }
        let in_flight = self.packets(sent.prior_in_flight + sent.bytes);
        (library().sent)(self.flow, sent.now.0, self.packets(sent.prior_in_flight), in_flight);
    }

    fn on_ack(&mut self, ack: &AckInfo) {
        (library().catch_up)(self.flow, ack.now.0);
        let ack = Ack {
            now: ack.now.0,
            acked: self.packets(ack.acked),
            rtt: ack.rtt.map_or(0, |rtt| rtt.0),
            srtt: ack.srtt.0,
            in_flight: self.packets(ack.in_flight),
            segments: ack.acked_packets,
            limited: ack.cwnd_limited.into(),
            in_loss: (ack.recovery == RecoveryState::Loss).into(),
        };
        (library().ack)(self.flow, &raw const ack);
    }

    fn on_loss(&mut self, loss: &LossInfo) {
        (library().catch_up)(self.flow, loss.now.0);
        let in_flight = self.packets(loss.in_flight);
        (library().loss)(self.flow, loss.now.0, loss.lost_packets, in_flight, loss.new_episode.into());
    }

    fn on_timeout(&mut self, loss: &LossInfo) {
        (library().catch_up)(self.flow, loss.now.0);
        (library().timeout)(self.flow, loss.now.0, loss.lost_packets, self.packets(loss.in_flight));
    }

    fn on_spurious_loss(&mut self, _now: Time) {
        (library().spurious)(self.flow);
    }

    fn on_timer(&mut self, now: Time) {
        (library().catch_up)(self.flow, now.0);
    }

    fn next_timer(&self) -> Time {
        if self.timed { Time((library().ends)(self.flow)) } else { Time::NEVER }
    }

    fn transport(&self) -> TransportNeeds {
        TransportNeeds { rate_samples: false, owns_recovery: true, ..TransportNeeds::default() }
    }

    fn window(&self) -> Bytes {
        Bytes(u64::from((library().window)(self.flow)) * self.mss)
    }

    fn pacing_rate(&self) -> Option<Rate> {
        let packets_per_s = (library().pacing)(self.flow) as f64 / RAW;
        (packets_per_s > 0.0).then_some(Rate((packets_per_s * self.mss as f64 * 8.0) as u64))
    }
}

/// Mbit/s of the first flow, and the mean of its RTT samples in ms.
fn figures(document: &Value, files: &Files) -> (f64, f64) {
    let scenario = Scenario::from_json(document).unwrap();
    let mut sim = Sim::new(&scenario, files, false).unwrap();
    sim.run_until(Time(scenario.duration.0));
    let stats = sim.flows()[0].sender.stats;
    let mbps = sim.wire_bytes()[0] as f64 * 8e-6 / (scenario.duration.0 as f64 / 1e9);
    (mbps, stats.rtt_sum.as_millis_f64() / stats.rtt_count.max(1) as f64)
}

/// Throughput and delay of the first flow in integers over those in Rust.
fn compared(document: &Value, timed: bool) -> (f64, f64) {
    let (mbps, rtt_ms) = figures(document, &Files::default());
    let mut own = document.clone();
    let mut params = Vec::new();
    for flow in own["flows"].as_array_mut().unwrap() {
        params.push(flow["params"].clone());
        if flow["scheme"] == "pilot" {
            let flow = flow.as_object_mut().unwrap();
            flow.remove("params");
            flow.insert("scheme".into(), json!("integers"));
            flow.insert("controller".into(), json!({"type": "python", "class": "integers"}));
        }
    }
    let build = move |flow: usize, _: &str, config: &Config| -> Result<Box<dyn Controller>, String> {
        Ok(Box::new(InIntegers::new(config, &params[flow], timed)))
    };
    let mut files = Files::default();
    files.python = Some(Arc::new(build));
    let own = figures(&own, &files);
    (own.0 / mbps, own.1 / rtt_ms)
}

fn flow(more: &Value) -> Value {
    let mut flow = json!({"scheme": "pilot", "params": {}});
    for (key, value) in more.as_object().into_iter().flatten() {
        flow[key] = value.clone();
    }
    flow
}

fn link(service: &Value, delay_ms: f64, queue: &Value) -> Value {
    json!({"service": service, "delay_ms": delay_ms, "queue": queue})
}

fn constant(mbps: f64, delay_ms: f64, bdp: f64) -> Value {
    link(&json!({"type": "constant", "rate_mbps": mbps}), delay_ms, &json!({"type": "droptail", "bdp": bdp}))
}

fn cellular(preset: &str, seed: u64) -> Value {
    let service = json!({"type": "cellular", "preset": preset, "seed": seed});
    link(&service, 20.0, &json!({"type": "droptail", "packets": 1000}))
}

fn on(link: &Value, flows: &[Value]) -> Value {
    json!({"duration_s": 30, "seed": 3, "links": [link], "flows": flows})
}

/// Links that `pilot` is for, and others that it meets.
fn scenarios() -> Vec<(String, Value)> {
    let one = [flow(&json!({}))];
    let mut all = Vec::new();
    for (mbps, delay_ms, bdp) in
        [(1.0, 50.0, 2.0), (12.0, 10.0, 1.0), (24.0, 20.0, 2.0), (100.0, 30.0, 0.5), (300.0, 5.0, 2.0)]
    {
        all.push((format!("{mbps} Mbit/s, {delay_ms} ms"), on(&constant(mbps, delay_ms, bdp), &one)));
    }
    for preset in ["lte-driving", "lte-bus", "umts-driving", "sprout"] {
        for seed in 0..6 {
            all.push((format!("{preset} {seed}"), on(&cellular(preset, seed), &one)));
        }
    }
    for preference in [0.0, 1.0] {
        let flow = flow(&json!({"params": {"preference": preference}}));
        for seed in 0..4 {
            all.push((
                format!("preference {preference} {seed}"),
                on(&cellular("lte-bus", seed), std::slice::from_ref(&flow)),
            ));
        }
    }
    let mut lossy = constant(24.0, 20.0, 2.0);
    lossy["loss"] = json!(0.01);
    all.push(("random loss".into(), on(&lossy, &one)));
    let steps = json!([{"at_s": 0, "rate_mbps": 12}, {"at_s": 5, "rate_mbps": 0}, {"at_s": 8, "rate_mbps": 30}, {"at_s": 15, "rate_mbps": 3}]);
    let outage = link(&json!({"type": "steps", "steps": steps}), 20.0, &json!({"type": "droptail", "packets": 300}));
    all.push(("outage".into(), on(&outage, &one)));
    for k in 0..3 {
        let cubic = [flow(&json!({})), json!({"scheme": "cubic", "start_s": 1.0 + f64::from(k)})];
        all.push((format!("beside cubic {k}"), on(&constant(24.0, 20.0, 2.0), &cubic)));
    }
    let three: Vec<Value> = (0..3).map(|i| flow(&json!({"start_s": i}))).collect();
    all.push(("three of a kind".into(), on(&constant(24.0, 20.0, 2.0), &three)));
    all
}

#[test]
fn the_numbers_have_the_same_names() {
    let names = unsafe { CStr::from_ptr((library().names)()) }.to_str().unwrap();
    let ours: Vec<&str> = SCHEME.params.iter().map(|param| param.name).collect();
    assert_eq!(names.split_whitespace().collect::<Vec<_>>(), ours);
}

#[test]
fn logarithms_are_exact_to_a_millionth() {
    for k in 1..2000_u32 {
        let x = 1.5e-6 * 1.02_f64.powi(k.cast_signed());
        let raw = (x * RAW) as i64;
        if raw > 0 && raw < 1 << 61 {
            let expected = elementary::log2(raw as f64 / RAW);
            let found = (library().log2)(raw) as f64 / RAW;
            assert!((found - expected).abs() < 3e-6, "{x}: {found}, {expected}");
        }
    }
}

/// Means over the scenarios of throughput and delay in integers over those in Rust.
fn ratios(timed: bool) -> (f64, f64) {
    let all = scenarios();
    let mut sums = (0.0, 0.0);
    for (name, document) in &all {
        let (throughput, delay) = compared(document, timed);
        println!("{name}: throughput {throughput:.3}, delay {delay:.3}");
        sums = (sums.0 + throughput, sums.1 + delay);
        if name.contains("Mbit/s") {
            assert!((throughput - 1.0).abs() < 0.02 && (delay - 1.0).abs() < 0.02, "{name}: {throughput}, {delay}");
        }
    }
    let count = all.len() as f64;
    (sums.0 / count, sums.1 / count)
}

#[test]
fn the_law_in_integers_fills_links_as_in_floating_point() {
    let (throughput, delay) = ratios(true);
    assert!((throughput - 1.0).abs() < 0.02 && delay < 1.02, "{throughput}, {delay}");
}

/// In the kernel nothing runs in silence: neither are periods that end then seen in time, nor is there a trickle.
#[test]
fn without_a_timer_it_fills_them_as_well() {
    let (throughput, delay) = ratios(false);
    assert!((throughput - 1.0).abs() < 0.02 && delay < 1.02, "{throughput}, {delay}");
}
