//! The interface of controllers, as `ccarena.h` has it for C: the same structs, field by field, and the same constants.
//!
//! Times are nanoseconds since the start of the run, amounts are bytes of payload, rates are bit/s.

#![allow(dead_code)]

use std::cell::UnsafeCell;
use std::ffi::{c_char, CStr};

/// Version of this interface.
pub const ABI: u32 = 1;
/// A time that never comes, and a duration that is not known.
pub const NEVER: u64 = u64::MAX;

/// `About`: the window alone says what is sent during recovery, without the reduction of RFC 6937.
pub const OWNS_RECOVERY: u32 = 1;
/// `About`: `cc_on_sent` is called for each packet, not only for the first after silence.
pub const EVERY_SEGMENT: u32 = 2;
/// `About`: `Ack` has delivery-rate samples.
pub const RATE_SAMPLES: u32 = 4;

/// A parameter: a number that users may set.
#[repr(C)]
pub struct Param {
    name: *const c_char,
    unit: *const c_char,
    help: *const c_char,
    initial: f64,
    least: f64,
    most: f64,
}

impl Param {
    /// `name` is an identifier, `unit` empty if there is none, `help` one sentence.
    pub const fn new(
        name: &'static CStr,
        unit: &'static CStr,
        help: &'static CStr,
        initial: f64,
        least: f64,
        most: f64,
    ) -> Self {
        Self {
            name: name.as_ptr(),
            unit: unit.as_ptr(),
            help: help.as_ptr(),
            initial,
            least,
            most,
        }
    }
}

/// Facts about the controller.
#[repr(C)]
pub struct About {
    abi: u32,
    flags: u32,
    name: *const c_char,
    summary: *const c_char,
    params: *const Param,
    params_count: u32,
    reserved: u32,
}

impl About {
    /// `flags` are `OWNS_RECOVERY`, `EVERY_SEGMENT` and `RATE_SAMPLES`, joined by `|`.
    pub const fn new(
        name: &'static CStr,
        summary: &'static CStr,
        params: &'static [Param],
        flags: u32,
    ) -> Self {
        Self {
            abi: ABI,
            flags,
            name: name.as_ptr(),
            summary: summary.as_ptr(),
            params: params.as_ptr(),
            params_count: params.len() as u32,
            reserved: 0,
        }
    }
}

// SAFETY: the pointers are of constants.
unsafe impl Sync for Param {}
// SAFETY: as above.
unsafe impl Sync for About {}

/// Facts about the flow.
#[repr(C)]
pub struct Config {
    /// Payload of a full packet.
    pub mss_bytes: u32,
    /// Packets that may be sent before the first acknowledgement.
    pub initial_window_packets: u32,
    /// 1: the flow begins in slow start.
    pub slow_start: u32,
    pub params_count: u32,
    /// Weight of the flow among others; 1 unless the user sets it.
    pub weight: f64,
    /// Header on the wire per packet.
    pub header_bytes: u32,
    reserved: [u32; 5],
    /// Values of the parameters, in the order of the table.
    pub params: [f64; 32],
}

/// Recovery of the transport after the event: no loss is being repaired.
pub const OPEN: u32 = 0;
/// The window shrinks after a congestion mark (RFC 3168). Growth pauses.
pub const REDUCTION: u32 = 1;
/// Losses found by acknowledgements are repaired. Growth pauses.
pub const RECOVERY: u32 = 2;
/// After a retransmission timeout.
pub const LOSS: u32 = 3;

/// `Ack`: the window limited sending in the last round trip.
pub const WINDOW_LIMITED: u32 = 1;
/// `Ack`: the sampled packet left while the application was the limit. `Sent`: it is now.
pub const APP_LIMITED: u32 = 2;
/// `Loss`: the first loss of an episode, which multiplicative decrease answers.
pub const NEW_EPISODE: u32 = 4;
/// `Loss`: a congestion mark (ECN), and nothing is lost.
pub const MARKED: u32 = 8;
/// `Sent`: the same data was sent before.
pub const RETRANSMISSION: u32 = 16;

/// An acknowledgement.
#[repr(C)]
pub struct Ack {
    pub now_ns: u64,
    /// Delivered for the first time.
    pub acked_bytes: u64,
    /// RTT of the newest packet acknowledged; `NEVER` if it was retransmitted.
    pub rtt_ns: u64,
    /// Smallest RTT of the connection; `NEVER` before the first.
    pub min_rtt_ns: u64,
    /// RFC 6298; zero before the first RTT.
    pub smoothed_rtt_ns: u64,
    /// RTTVAR, if the transport reports sums of samples; else zero.
    pub rtt_var_ns: u64,
    pub in_flight_before_bytes: u64,
    pub in_flight_bytes: u64,
    /// Total of the flow, this acknowledgement included.
    pub delivered_bytes: u64,
    /// Newly marked lost.
    pub lost_bytes: u64,
    /// Delivery-rate sample: bytes delivered in `rate_interval_ns`.
    pub rate_bytes: u64,
    /// Zero if there is no sample.
    pub rate_interval_ns: u64,
    /// Total delivered when the sampled packet was sent.
    pub rate_prior_bytes: u64,
    /// First byte that is not yet acknowledged cumulatively.
    pub acked_to: u64,
    /// First byte that is not yet sent.
    pub sent_to: u64,
    pub acked_packets: u32,
    /// Retransmissions in flight.
    pub retransmitted_packets: u32,
    /// Reported as marked by routers (ECN CE).
    pub marked_packets: u32,
    /// `OPEN` to `LOSS`.
    pub recovery: u32,
    pub flags: u32,
    reserved: [u32; 5],
}

/// Packets marked lost, a congestion mark, or an expired retransmission timer.
#[repr(C)]
pub struct Loss {
    pub now_ns: u64,
    pub lost_bytes: u64,
    /// After the marking.
    pub in_flight_bytes: u64,
    pub delivered_bytes: u64,
    pub sent_to: u64,
    pub lost_packets: u32,
    pub flags: u32,
    reserved: [u32; 4],
}

/// A packet that leaves.
#[repr(C)]
pub struct Sent {
    pub now_ns: u64,
    pub bytes: u64,
    pub in_flight_before_bytes: u64,
    /// First byte that was not yet sent before this packet.
    pub sent_to: u64,
    /// Time at which the packet before it left, if the transport does not report every packet; else zero.
    pub last_sent_ns: u64,
    /// Payload that left since the last call without a call of its own.
    pub unreported_bytes: u64,
    pub unreported_packets: u32,
    pub flags: u32,
    reserved: [u32; 4],
}

/// Control of the flow. Between calls it keeps what the controller wrote last.
#[repr(C)]
pub struct Control {
    /// Bytes that may be in flight; below one packet counts as one packet.
    pub window_bytes: f64,
    /// Payload rate at which packets leave, bit/s; zero sends as the window allows.
    pub pacing_bps: f64,
    /// Slow-start threshold, which the reduction of RFC 6937 reads; zero if there is none.
    pub threshold_bytes: f64,
    /// Time at which to call `cc_on_timer`, once; `NEVER` is never.
    pub timer_ns: u64,
    reserved: [u32; 4],
}

#[link(wasm_import_module = "ccarena")]
extern "C" {
    #[link_name = "random"]
    fn cc_random() -> u64;
}

/// Returns 64 random bits, seeded by the run's seed.
pub fn random() -> u64 {
    // SAFETY: the host's function takes and keeps nothing.
    unsafe { cc_random() }
}

/// Room in the module's memory where the host puts events.
#[repr(align(8))]
struct Scratch(UnsafeCell<[u8; 512]>);
// SAFETY: a module has one thread.
unsafe impl Sync for Scratch {}
static SCRATCH: Scratch = Scratch(UnsafeCell::new([0; 512]));

#[no_mangle]
extern "C" fn cc_scratch() -> *mut u8 {
    SCRATCH.0.get().cast()
}
