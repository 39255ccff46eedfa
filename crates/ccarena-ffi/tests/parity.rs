//! The simulator runs a flow by its own controller, by [`Flow`], and through the C ABI: all three do the same, and the two
//! latter give the same window, rate and timer after each acknowledgement.
#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "calls the functions as C does, on values of its own"
)]
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

mod common;

use std::sync::{Arc, Mutex};

use ccarena::abi::*;
use ccarena_cc::{
    AckInfo, Bytes, Config, Controller, Dur, Flow, Host, LossInfo, PacketTracker, Rate, RouterAssisted, SentInfo,
    Signal, Source, Time, TransportNeeds,
};
use ccarena_net::Scenario;
use ccarena_sim::{Files, Sim};
use ccarena_wasm::abi as layout;
use common::{Aligned, create, decided_by, facts, policy_path, shipped, why};
use serde_json::{Value, json};

/// Window, rate and timer after each acknowledgement.
type Log = Arc<Mutex<Vec<(Bytes, Option<Rate>, Time)>>>;

/// A flow as a controller of the simulator.
struct Native {
    flow: Flow,
    log: Log,
}

impl Controller for Native {
    fn transport(&self) -> TransportNeeds {
        self.flow.needs()
    }
    fn on_sent(&mut self, sent: &SentInfo) {
        self.flow.on_sent(sent);
    }
    fn on_ack(&mut self, ack: &AckInfo) {
        self.flow.on_ack(ack);
        self.log.lock().unwrap().push((self.window(), self.pacing_rate(), self.next_timer()));
    }
    fn on_loss(&mut self, loss: &LossInfo) {
        self.flow.on_loss(loss);
    }
    fn on_timeout(&mut self, loss: &LossInfo) {
        self.flow.on_timeout(loss);
    }
    fn on_spurious_loss(&mut self, now: Time) {
        self.flow.on_spurious_loss(now);
    }
    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.flow.on_recovery_end(now, in_flight);
    }
    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        self.flow.on_idle_restart(now, idle, rto);
    }
    fn on_timer(&mut self, now: Time) {
        self.flow.on_timer(now);
    }
    fn next_timer(&self) -> Time {
        self.flow.next_timer()
    }
    fn window(&self) -> Bytes {
        self.flow.window()
    }
    fn pacing_rate(&self) -> Option<Rate> {
        self.flow.pacing_rate()
    }
    fn min_burst_segments(&self) -> u32 {
        self.flow.min_burst_segments()
    }
    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.flow.slow_start_threshold()
    }
    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        if self.flow.tracks_packets() { Some(self) } else { None }
    }
    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        self.flow.request().is_some().then_some(self)
    }
}

impl PacketTracker for Native {
    fn on_packet_acked(&mut self, number: u64) {
        self.flow.on_packet_acked(number);
    }
    fn on_packet_lost(&mut self, number: u64) {
        self.flow.on_packet_lost(number);
    }
}

impl RouterAssisted for Native {
    fn request(&self) -> Signal {
        self.flow.request().unwrap_or_default()
    }
}

/// A flow behind the C ABI as a controller of the simulator.
struct Abi {
    flow: *mut ccarena_flow,
    control: layout::Control,
    needs: u32,
    log: Log,
}

// SAFETY: a flow may change threads, and the simulator uses it from one at a time.
unsafe impl Send for Abi {}
// SAFETY: as above; calls at once are refused.
unsafe impl Sync for Abi {}

impl Abi {
    fn new(flow: *mut ccarena_flow, log: Log) -> Self {
        let control = layout::Control { window_bytes: 0.0, pacing_bps: 0.0, threshold_bytes: 0.0, timer_ns: 0 };
        let mut made = Self { flow, control, needs: unsafe { ccarena_needs(flow) }, log };
        made.call(|flow, out| unsafe { ccarena_control(flow, out) });
        made
    }

    fn call(&mut self, function: impl FnOnce(*mut ccarena_flow, *mut cc_control) -> i32) {
        let mut out = [0_u64; layout::CONTROL_BYTES / 8];
        let code = function(self.flow, out.as_mut_ptr().cast());
        assert_eq!(code, CCARENA_OK, "{}", why(self.flow));
        self.control = layout::Control::read(&bytes(&out));
    }

    fn needs(&self, flag: u32) -> bool {
        self.needs & flag != 0
    }
}

impl Drop for Abi {
    fn drop(&mut self) {
        assert_eq!(unsafe { ccarena_free(self.flow) }, CCARENA_OK);
    }
}

fn bytes<const N: usize>(words: &[u64]) -> [u8; N] {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.try_into().unwrap()
}

impl Controller for Abi {
    fn transport(&self) -> TransportNeeds {
        TransportNeeds {
            every_segment: self.needs(CCARENA_EVERY_PACKET),
            rate_samples: self.needs(CCARENA_RATE_SAMPLES),
            owns_recovery: self.needs(CCARENA_OWNS_RECOVERY),
            paces_each: self.needs(CCARENA_PACES_EACH),
            l4s: self.needs(CCARENA_L4S),
        }
    }
    fn on_sent(&mut self, sent: &SentInfo) {
        let event = Aligned(layout::sent(sent));
        self.call(|flow, out| unsafe { ccarena_on_sent(flow, event.0.as_ptr().cast(), sent.number, out) });
    }
    fn on_ack(&mut self, ack: &AckInfo) {
        if let Signal::Rate(rate) = ack.signal {
            self.call(|flow, _| unsafe { ccarena_on_router_rate(flow, rate.0 as f64) });
        }
        let event = Aligned(layout::ack(ack));
        self.call(|flow, out| unsafe { ccarena_on_ack(flow, event.0.as_ptr().cast(), out) });
        self.log.lock().unwrap().push((self.window(), self.pacing_rate(), self.next_timer()));
    }
    fn on_loss(&mut self, loss: &LossInfo) {
        let event = Aligned(layout::loss(loss));
        self.call(|flow, out| unsafe { ccarena_on_loss(flow, event.0.as_ptr().cast(), out) });
    }
    fn on_timeout(&mut self, loss: &LossInfo) {
        let event = Aligned(layout::loss(loss));
        self.call(|flow, out| unsafe { ccarena_on_timeout(flow, event.0.as_ptr().cast(), out) });
    }
    fn on_spurious_loss(&mut self, now: Time) {
        self.call(|flow, out| unsafe { ccarena_on_spurious_loss(flow, now.0, out) });
    }
    fn on_recovery_end(&mut self, now: Time, in_flight: Bytes) {
        self.call(|flow, out| unsafe { ccarena_on_recovery_end(flow, now.0, in_flight.0, out) });
    }
    fn on_idle_restart(&mut self, now: Time, idle: Dur, rto: Dur) {
        self.call(|flow, out| unsafe { ccarena_on_idle_restart(flow, now.0, idle.0, rto.0, out) });
    }
    fn on_timer(&mut self, now: Time) {
        self.call(|flow, out| unsafe { ccarena_on_timer(flow, now.0, out) });
    }
    fn next_timer(&self) -> Time {
        Time(self.control.timer_ns)
    }
    fn window(&self) -> Bytes {
        Bytes(self.control.window_bytes as u64)
    }
    fn pacing_rate(&self) -> Option<Rate> {
        (self.control.pacing_bps > 0.0).then_some(Rate(self.control.pacing_bps as u64))
    }
    fn min_burst_segments(&self) -> u32 {
        unsafe { ccarena_least_burst(self.flow) }
    }
    fn slow_start_threshold(&self) -> Option<Bytes> {
        (self.control.threshold_bytes > 0.0).then_some(Bytes(self.control.threshold_bytes as u64))
    }
    fn packet_tracker(&mut self) -> Option<&mut dyn PacketTracker> {
        if self.needs(CCARENA_PACKET_NUMBERS) { Some(self) } else { None }
    }
    fn router_assisted(&self) -> Option<&dyn RouterAssisted> {
        self.needs(CCARENA_ROUTER_RATES).then_some(self)
    }
}

impl PacketTracker for Abi {
    fn on_packet_acked(&mut self, number: u64) {
        assert_eq!(unsafe { ccarena_on_packet_acked(self.flow, number) }, CCARENA_OK);
    }
    fn on_packet_lost(&mut self, number: u64) {
        assert_eq!(unsafe { ccarena_on_packet_lost(self.flow, number) }, CCARENA_OK);
    }
}

impl RouterAssisted for Abi {
    fn request(&self) -> Signal {
        Signal::Rate(Rate(unsafe { ccarena_requested_bps(self.flow) } as u64))
    }
}

/// Runs flow `flow` over a link with losses, router and competitor; what it did.
fn run(flow: &Value, router: bool, files: &Files) -> String {
    let mut link = json!({"service": {"type": "constant", "rate_mbps": 12}, "delay_ms": 20,
        "queue": {"type": "droptail", "packets": 40}, "loss": {"type": "independent", "probability": 0.001}});
    if router {
        link["router"] = json!("acct");
    }
    let competitor = json!({"scheme": "reno", "start_s": 2, "stop_s": 5});
    let document = json!({"duration_s": 8, "links": [link], "flows": [flow, competitor]});
    let scenario = Scenario::parse(&document.to_string()).unwrap();
    let mut sim = Sim::new(&scenario, files, false).unwrap();
    sim.run_until(Time(scenario.duration.0));
    let result = sim.take_result(&scenario);
    assert_eq!(result.flows[0].error, None);
    format!("{:?} {:?}", sim.flows()[0].sender.stats, sim.flows()[1].sender.stats)
}

/// Runs the same flow three times. `policy` is a shipped one, or none for a scheme.
fn compare(scheme: &str, policy: Option<&str>) {
    let router = policy.is_some_and(|policy| policy.starts_with("acct"));
    let plain = match policy {
        Some(policy) => json!({"scheme": scheme, "policy": policy_path(policy)}),
        None => json!({"scheme": scheme}),
    };
    let own = run(&plain, router, &Files::default());
    let (native, abi) = (Log::default(), Log::default());
    let (first, second) = (Arc::clone(&native), Arc::clone(&abi));
    let (name, decides) = (scheme.to_owned(), policy.map(ToOwned::to_owned));
    let build = move |_: usize, class: &str, config: &Config| -> Result<Box<dyn Controller>, String> {
        if class == "native" {
            let bytes = decides.as_deref().map(shipped);
            let source = bytes.as_ref().map_or(Source::Scheme(&name), |bytes| Source::Artifact(bytes));
            let flow = Flow::build(&source, config, &Host::ALL, Time::ZERO).map_err(|e| e.to_string())?;
            return Ok(Box::new(Native { flow, log: Arc::clone(&first) }));
        }
        let facts = ccarena_facts {
            mss_bytes: config.mss,
            initial_window_packets: config.initial_window,
            header_bytes: config.header_bytes,
            seed: config.seed,
            ..facts()
        };
        let flow = decides.as_ref().map_or_else(|| create(&name, &[], &facts), |policy| decided_by(policy, &facts));
        Ok(Box::new(Abi::new(flow.map_err(|(_, reason)| reason)?, Arc::clone(&second))))
    };
    let mut files = Files::default();
    files.python = Some(Arc::new(build));
    let of = |class: &str| json!({"scheme": class, "controller": {"type": "python", "class": class}});
    let entrant = policy.unwrap_or(scheme);
    assert_eq!(run(&of("native"), router, &files), own, "{entrant}: Flow does as the simulator's controller");
    assert_eq!(run(&of("abi"), router, &files), own, "{entrant}: the ABI does as the simulator's controller");
    let (native, abi) = (native.lock().unwrap(), abi.lock().unwrap());
    assert!(native.len() > 100, "{entrant}: {} acknowledgements", native.len());
    assert_eq!(*native, *abi, "{entrant}: the same answers after each acknowledgement");
}

#[test]
fn schemes_send_the_same_packets_through_the_abi() {
    for scheme in ["reno", "cubic", "bbr", "bbr3", "copa", "vivace", "gcc", "ledbat", "pilot"] {
        compare(scheme, None);
    }
}

#[test]
fn policies_send_the_same_packets_through_the_abi() {
    for (scheme, policy) in [("hyvar", "hyvar"), ("acct", "acct"), ("acct", "acct-signals"), ("acct", "acct-table")] {
        compare(scheme, Some(policy));
    }
}
