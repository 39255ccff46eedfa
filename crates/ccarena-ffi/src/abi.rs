//! The functions of `ccarena_host.h`. `tests/header.rs` writes the header from this file.
#![allow(unsafe_code, reason = "functions that a host calls with pointers")]
#![allow(non_camel_case_types, reason = "names in C")]

use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ccarena_cc::flow::{Fallback, Refused};
use ccarena_cc::policy::Policy;
use ccarena_cc::{BuildError, Config, Flow, Host, Source, Time, registry};
use ccarena_wasm::abi::{ACK_BYTES, CONTROL_BYTES, LOSS_BYTES, SENT_BYTES};

use crate::checked::Checked;
pub use crate::code::*;
pub use crate::facts::*;
use crate::handle::{Handle, Kind};
use crate::text;

/// Value of a scheme's parameter.
#[repr(C)]
pub struct ccarena_value {
    /// Name of the parameter.
    pub name: *const c_char,
    /// Value of the parameter.
    pub value: f64,
}

/// `cc_ack` of ccarena.h.
#[repr(C)]
pub struct cc_ack([u64; ACK_BYTES / 8]);
/// `cc_loss` of ccarena.h.
#[repr(C)]
pub struct cc_loss([u64; LOSS_BYTES / 8]);
/// `cc_sent` of ccarena.h.
#[repr(C)]
pub struct cc_sent([u64; SENT_BYTES / 8]);
/// `cc_control` of ccarena.h.
#[repr(C)]
pub struct cc_control([u64; CONTROL_BYTES / 8]);

/// The controller of one connection. One thread at a time may use it; it may change threads.
pub struct ccarena_flow(());
/// A policy that has been read. Any number of threads may create flows from it.
pub struct ccarena_policy(());

impl Kind for Checked {
    const MARK: u64 = 0x6363_6172_666c_6f77;
}

impl Kind for Arc<Policy> {
    const MARK: u64 = 0x6363_6172_706f_6c69;
}

/// Error of a call that creates something.
enum Error {
    Code(i32, &'static str),
    Wrong(Wrong),
    Refused(Refused),
}

impl From<Wrong> for Error {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl Error {
    fn parts(&self) -> (i32, &dyn Display) {
        match self {
            Self::Code(code, reason) => (*code, reason),
            Self::Wrong(wrong) => (wrong.code(), wrong),
            Self::Refused(Refused::Rules { .. }) => (
                CCARENA_SCHEME,
                &"the scheme runs a rule file, which this interface does not take: choose another scheme",
            ),
            Self::Refused(refused) => {
                let code = match refused {
                    Refused::Artifact(_) | Refused::Policy(_) => CCARENA_ARTIFACT,
                    Refused::Lacking(_) => CCARENA_LACKING,
                    _ => CCARENA_SCHEME,
                };
                (code, refused)
            }
        }
    }
}

/// Runs `make`. Writes the handle to `out`, or null to `out` and the reason to `why`.
///
/// # Safety
/// `out` may be written unless it is null; `why` as in [`text::write`].
unsafe fn create<T>(
    out: *mut *mut T,
    why: *mut c_char,
    why_bytes: usize,
    make: impl FnOnce() -> Result<*mut T, Error>,
) -> i32 {
    if out.is_null() || !out.is_aligned() {
        return CCARENA_NULL;
    }
    let made = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|payload| {
        std::mem::forget(payload);
        Err(Wrong::Panicked.into())
    });
    let (code, at) = match &made {
        Ok(at) => (CCARENA_OK, *at),
        Err(error) => {
            let (code, reason) = error.parts();
            // SAFETY: the caller's promise.
            unsafe { text::write(reason, why, why_bytes) };
            (code, std::ptr::null_mut())
        }
    };
    // SAFETY: the caller's promise, and it is neither null nor unaligned.
    unsafe { out.write(at) };
    code
}

/// Returns what is at `at`.
///
/// # Safety
/// `at` is null, or may be read.
#[inline(always)]
unsafe fn at<'a, T>(at: *const T) -> Result<&'a T, i32> {
    if at.is_null() || !at.is_aligned() {
        return Err(CCARENA_NULL);
    }
    // SAFETY: the caller's promise, and it is neither null nor unaligned.
    Ok(unsafe { &*at })
}

/// Returns the version of the library, as text that is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn ccarena_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Returns a sentence about a code, as text that is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn ccarena_text(code: i32) -> *const c_char {
    let text: &'static str = match code {
        CCARENA_OK => "done\0",
        CCARENA_NULL => "a required pointer is null, or a pointer is not aligned\0",
        CCARENA_HANDLE => "the pointer is not a live handle of this kind\0",
        CCARENA_BUSY => "another call on the same flow has not returned yet\0",
        CCARENA_TIME => "the event is earlier than the previous event\0",
        CCARENA_ORDER => "the call contradicts earlier calls\0",
        CCARENA_RANGE => "a number is outside of its bounds, a reserved field is not zero, or a text is not UTF-8\0",
        CCARENA_SCHEME => "the scheme or a parameter of it is refused\0",
        CCARENA_ARTIFACT => "the policy cannot be used\0",
        CCARENA_LACKING => "the host does not report what the controller needs\0",
        CCARENA_FAILED => "the flow has ended\0",
        _ => "unknown code\0",
    };
    text.as_ptr().cast()
}

/// Reads the `count` bytes of a policy artifact into `policy`. Flows share its weights. The reason of a failure goes to the
/// `why_bytes` bytes at `why`, which may be null.
///
/// # Safety
/// `bytes` may be read for `count` bytes, `policy` may be written, and `why` for `why_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_policy_read(
    bytes: *const u8,
    count: usize,
    policy: *mut *mut ccarena_policy,
    why: *mut c_char,
    why_bytes: usize,
) -> i32 {
    let make = || {
        if bytes.is_null() {
            return Err(Error::Code(CCARENA_NULL, "bytes is null"));
        }
        if isize::try_from(count).is_err() {
            return Err(Wrong::Range { field: "count", expected: "the number of bytes of an artifact" }.into());
        }
        // SAFETY: the caller promises `count` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(bytes, count) };
        let policy = Policy::from_bytes(bytes).map_err(Refused::from)?;
        Ok(Handle::new(Arc::new(policy)).cast())
    };
    // SAFETY: the caller's promise.
    unsafe { create(policy, why, why_bytes, make) }
}

/// Frees a policy. Flows that were created from it live on.
///
/// # Safety
/// `policy` is null or a policy that is not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_policy_free(policy: *mut ccarena_policy) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { Handle::<Arc<Policy>>::free(policy.cast()) }
}

/// Creates the flow of a connection that runs `scheme`. `values` are `count` parameters; others have their defaults. The
/// reason of a failure goes to the `why_bytes` bytes at `why`, which may be null.
///
/// # Safety
/// `scheme` is a string, `values` may be read for `count` values, `facts` may be read, `flow` may be written, and `why`
/// for `why_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_create(
    scheme: *const c_char,
    values: *const ccarena_value,
    count: usize,
    facts: *const ccarena_facts,
    flow: *mut *mut ccarena_flow,
    why: *mut c_char,
    why_bytes: usize,
) -> i32 {
    let make = || {
        // SAFETY: the caller's promise.
        let name = unsafe { text::read(scheme) }.map_err(|code| Error::Code(code, "scheme is null, or not UTF-8"))?;
        let above = registry::find(name).map_err(|e: BuildError| Refused::from(e))?.weight_above;
        // SAFETY: the caller's promise.
        unsafe { build(&Source::Scheme(name), above, values, count, facts) }
    };
    // SAFETY: the caller's promise.
    unsafe { create(flow, why, why_bytes, make) }
}

/// Returns the policy behind a handle of a call.
///
/// # Safety
/// `policy` is null or a policy that is not freed.
unsafe fn policy_at(policy: *const ccarena_policy) -> Result<Arc<Policy>, Error> {
    // SAFETY: the caller's promise.
    let found = unsafe { Handle::<Arc<Policy>>::share(policy.cast()) };
    found.map(Arc::clone).map_err(|code| Error::Code(code, "policy is no policy"))
}

/// Creates the flow of a connection for which `policy` decides. The rest is as for ccarena_create; `values` may set the
/// parameters that the policy's spec lets a host set.
///
/// # Safety
/// As `ccarena_create`; `policy` is null or a policy that is not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_create_policy(
    policy: *const ccarena_policy,
    values: *const ccarena_value,
    count: usize,
    facts: *const ccarena_facts,
    flow: *mut *mut ccarena_flow,
    why: *mut c_char,
    why_bytes: usize,
) -> i32 {
    let make = || {
        // SAFETY: the caller's promise.
        let policy = unsafe { policy_at(policy) }?;
        let above = policy.trained().spec.weight_above();
        // SAFETY: the caller's promise.
        unsafe { build(&Source::Policy(policy), above, values, count, facts) }
    };
    // SAFETY: the caller's promise.
    unsafe { create(flow, why, why_bytes, make) }
}

/// Creates the flow of a connection for which `policy` decides as an operator wants: with `shadow`, the scheme `fallback` acts
/// and the policy only decides; otherwise `fallback` takes over for good after `guard` decisions in a row on observations that
/// its training did not see, 0 being never. The rest is as for ccarena_create_policy; `values` are the policy's.
///
/// # Safety
/// As `ccarena_create_policy`; `fallback` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_create_operated(
    policy: *const ccarena_policy,
    values: *const ccarena_value,
    count: usize,
    facts: *const ccarena_facts,
    fallback: *const c_char,
    shadow: u32,
    guard: u32,
    flow: *mut *mut ccarena_flow,
    why: *mut c_char,
    why_bytes: usize,
) -> i32 {
    let make = || {
        // SAFETY: the caller's promise.
        let policy = unsafe { policy_at(policy) }?;
        // SAFETY: the caller's promise.
        let name =
            unsafe { text::read(fallback) }.map_err(|code| Error::Code(code, "fallback is null, or not UTF-8"))?;
        // SAFETY: the caller's promise.
        let (config, host, now) = unsafe { configuration(values, count, facts) }?;
        let fallback = Fallback::new(name, &config, &host)?;
        let above = policy.trained().spec.weight_above();
        let own = Flow::build(&Source::Policy(policy), &config, &host, now)?;
        let flow = match shadow {
            0 => own.guarded(fallback, guard),
            1 => own.shadowed(fallback.clone(), fallback.flow())?,
            _ => return Err(Wrong::Range { field: "shadow", expected: "0 or 1" }.into()),
        };
        Ok(Handle::new(Checked::new(flow, host, now, above.unwrap_or(0.0))).cast())
    };
    // SAFETY: the caller's promise.
    unsafe { create(flow, why, why_bytes, make) }
}

/// Builds the flow of `source`.
///
/// # Safety
/// As `ccarena_create`.
unsafe fn build(
    source: &Source<'_>,
    weight_above: Option<f64>,
    values: *const ccarena_value,
    count: usize,
    facts: *const ccarena_facts,
) -> Result<*mut ccarena_flow, Error> {
    // SAFETY: the caller's promise.
    let (config, host, now) = unsafe { configuration(values, count, facts) }?;
    let flow = Flow::build(source, &config, &host, now)?;
    Ok(Handle::new(Checked::new(flow, host, now, weight_above.unwrap_or(0.0))).cast())
}

/// Returns what `values` and `facts` say.
///
/// # Safety
/// As `ccarena_create`.
unsafe fn configuration(
    values: *const ccarena_value,
    count: usize,
    facts: *const ccarena_facts,
) -> Result<(Config, Host, Time), Error> {
    /// More than any scheme has.
    const MOST_VALUES: usize = 1000;
    // SAFETY: the caller's promise.
    let facts = unsafe { at(facts) }.map_err(|code| Error::Code(code, "facts is null or not aligned"))?;
    let (mut config, host, now) = crate::facts::configuration(facts)?;
    if count > 0 && (values.is_null() || !values.is_aligned()) {
        return Err(Error::Code(CCARENA_NULL, "values is null or not aligned"));
    }
    if count > MOST_VALUES {
        return Err(Wrong::Range { field: "count", expected: "at most 1000 values" }.into());
    }
    let mut params = BTreeMap::new();
    for index in 0..count {
        // SAFETY: the caller promises `count` values.
        let value = unsafe { &*values.add(index) };
        // SAFETY: the caller promises strings.
        let name = unsafe { text::read(value.name) }
            .map_err(|code| Error::Code(code, "a value's name is null, or not UTF-8"))?;
        params.insert(name.to_owned(), value.value);
    }
    config.params = params;
    Ok((config, host, now))
}

/// Frees a flow.
///
/// # Safety
/// `flow` is null or a flow that is not freed, and no other call uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_free(flow: *mut ccarena_flow) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { Handle::<Checked>::free(flow.cast()) }
}

/// Runs `call` with a flow, and writes the controller's answers to `out` if it is done.
///
/// # Safety
/// `flow` is null, or a flow that is not freed; `out` is null, or may be written.
#[inline(always)]
unsafe fn event(
    flow: *mut ccarena_flow,
    out: *mut cc_control,
    call: impl FnOnce(&mut Checked) -> Result<(), Wrong>,
) -> i32 {
    let call = |checked: &mut Checked| {
        let done = if out.is_aligned() { call(checked) } else { checked.refuse(Wrong::Pointer { to: "cc_control" }) };
        if let Err(wrong) = done {
            return wrong.code();
        }
        if !out.is_null() {
            // SAFETY: the caller's promise; the type's alignment is that of the words.
            unsafe { out.cast::<[u8; CONTROL_BYTES]>().write(checked.control().bytes()) };
        }
        CCARENA_OK
    };
    // SAFETY: the caller's promise.
    unsafe { Handle::with(flow.cast(), call, Checked::panicked) }
}

/// Does what [`event`] does, with what the host says about it at `about`.
///
/// # Safety
/// As [`event`]; `about` is null, or may be read.
#[inline(always)]
unsafe fn event_at<T>(
    flow: *mut ccarena_flow,
    about: *const T,
    out: *mut cc_control,
    call: impl FnOnce(&mut Checked, &T) -> Result<(), Wrong>,
) -> i32 {
    // SAFETY: the caller's promise.
    let about = unsafe { at(about) };
    let call = |checked: &mut Checked| match about {
        Ok(about) => call(checked, about),
        Err(_) => checked.refuse(Wrong::Pointer { to: "the event" }),
    };
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, call) }
}

/// A packet leaves. `number` is new and rises with each packet; without CCARENA_PACKET_NUMBERS it may be zero. `out`, here and
/// below, gets the controller's answers; null takes none.
///
/// # Safety
/// `flow` is null or not freed, `sent` may be read, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_sent(
    flow: *mut ccarena_flow,
    sent: *const cc_sent,
    number: u64,
    out: *mut cc_control,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event_at(flow, sent, out, |checked, sent| checked.on_sent(&sent.0, number)) }
}

/// An acknowledgement has been booked. Report losses that it reveals first.
///
/// # Safety
/// `flow` is null or not freed, `ack` may be read, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_ack(flow: *mut ccarena_flow, ack: *const cc_ack, out: *mut cc_control) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event_at(flow, ack, out, |checked, ack| checked.on_ack(&ack.0)) }
}

/// Packets have been marked lost, or a congestion mark has come.
///
/// # Safety
/// `flow` is null or not freed, `loss` may be read, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_loss(flow: *mut ccarena_flow, loss: *const cc_loss, out: *mut cc_control) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event_at(flow, loss, out, |checked, loss| checked.on_loss(&loss.0)) }
}

/// The retransmission timer has expired; everything in flight counts as lost.
///
/// # Safety
/// `flow` is null or not freed, `loss` may be read, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_timeout(
    flow: *mut ccarena_flow,
    loss: *const cc_loss,
    out: *mut cc_control,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event_at(flow, loss, out, |checked, loss| checked.on_timeout(&loss.0)) }
}

/// The controller's timer, cc_control.timer_ns, is due.
///
/// # Safety
/// `flow` is null or not freed, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_timer(flow: *mut ccarena_flow, now_ns: u64, out: *mut cc_control) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, |checked| checked.on_timer(now_ns)) }
}

/// The last loss was spurious: the packets have arrived.
///
/// # Safety
/// `flow` is null or not freed, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_spurious_loss(flow: *mut ccarena_flow, now_ns: u64, out: *mut cc_control) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, |checked| checked.on_spurious_loss(now_ns)) }
}

/// Recovery, fast or after a timeout, has ended.
///
/// # Safety
/// `flow` is null or not freed, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_recovery_end(
    flow: *mut ccarena_flow,
    now_ns: u64,
    in_flight_bytes: u64,
    out: *mut cc_control,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, |checked| checked.on_recovery_end(now_ns, in_flight_bytes)) }
}

/// Sending restarts after `idle_ns` with nothing in flight; `rto_ns` is the retransmission timeout.
///
/// # Safety
/// `flow` is null or not freed, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_idle_restart(
    flow: *mut ccarena_flow,
    now_ns: u64,
    idle_ns: u64,
    rto_ns: u64,
    out: *mut cc_control,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, |checked| checked.on_idle_restart(now_ns, idle_ns, rto_ns)) }
}

/// Packet `number` has arrived. Call it before the ccarena_on_ack that reports it.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_packet_acked(flow: *mut ccarena_flow, number: u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, std::ptr::null_mut(), |checked| checked.on_packet(number, false)) }
}

/// Packet `number` counts as lost. Call it before the ccarena_on_loss or ccarena_on_timeout that reports it.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_packet_lost(flow: *mut ccarena_flow, number: u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, std::ptr::null_mut(), |checked| checked.on_packet(number, true)) }
}

/// The receiver has returned `bps`, the rate that routers advertise. It counts until the next call.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_on_router_rate(flow: *mut ccarena_flow, bps: f64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, std::ptr::null_mut(), |checked| checked.on_router_rate(bps)) }
}

/// Sets the weight of the connection among others, for schemes that share by weight.
///
/// # Safety
/// `flow` is null or not freed, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_set_weight(flow: *mut ccarena_flow, weight: f64, out: *mut cc_control) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, |checked| checked.set_weight(weight)) }
}

/// Sets the rates between which the application is served; two zeros take them back.
///
/// # Safety
/// `flow` is null or not freed, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_set_requirement(
    flow: *mut ccarena_flow,
    min_bps: f64,
    max_bps: f64,
    out: *mut cc_control,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, |checked| checked.set_requirement(min_bps, max_bps)) }
}

/// Sets the rate that the application wants, for schemes that tell routers.
///
/// # Safety
/// `flow` is null or not freed, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_set_desired_rate(flow: *mut ccarena_flow, bps: f64, out: *mut cc_control) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, |checked| checked.set_desired_rate(bps)) }
}

/// Reads a number from a flow; `none` without one.
///
/// # Safety
/// `flow` is null or not freed.
unsafe fn read<R>(flow: *mut ccarena_flow, none: R, of: impl FnOnce(&Checked) -> R) -> R {
    let mut value = none;
    let call = |checked: &mut Checked| {
        value = of(checked);
        CCARENA_OK
    };
    // SAFETY: the caller's promise.
    unsafe { Handle::with(flow.cast(), call, Checked::panicked) };
    value
}

/// Writes the controller's answers to `out`, as events do.
///
/// # Safety
/// `flow` is null or not freed, `out` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_control(flow: *mut ccarena_flow, out: *mut cc_control) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { event(flow, out, |_| Ok(())) }
}

/// Returns the bytes that may be in flight; zero if the controller has given up, or for a wrong handle.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_window(flow: *mut ccarena_flow) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { read(flow, 0, |checked| checked.control().window_bytes as u64) }
}

/// Returns the payload rate to pace at, bit/s; zero sends as the window allows.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_pacing_rate(flow: *mut ccarena_flow) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { read(flow, 0.0, |checked| checked.control().pacing_bps) }
}

/// Returns when ccarena_on_timer is due; CC_NEVER if it is not, or for a wrong handle.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_next_timer(flow: *mut ccarena_flow) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { read(flow, u64::MAX, |checked| checked.control().timer_ns) }
}

/// Returns what the controller needs from its host: CCARENA_OWNS_RECOVERY and so on. It stays the same.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_needs(flow: *mut ccarena_flow) -> u32 {
    let needs = |checked: &Checked| {
        let needs = checked.flow().needs();
        let flags = [
            (needs.owns_recovery, CCARENA_OWNS_RECOVERY),
            (needs.every_segment, CCARENA_EVERY_PACKET),
            (needs.rate_samples, CCARENA_RATE_SAMPLES),
            (checked.flow().tracks_packets(), CCARENA_PACKET_NUMBERS),
            (checked.requested_bps() > 0.0, CCARENA_ROUTER_RATES),
            (needs.paces_each, CCARENA_PACES_EACH),
            (needs.l4s, CCARENA_L4S),
        ];
        flags.into_iter().filter(|(is_needed, _)| *is_needed).fold(0, |all, (_, flag)| all | flag)
    };
    // SAFETY: the caller's promise.
    unsafe { read(flow, 0, needs) }
}

/// Returns the fewest packets that a paced host sends at once, if it sends in bursts.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_least_burst(flow: *mut ccarena_flow) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { read(flow, 1, |checked| checked.flow().min_burst_segments()) }
}

/// Returns the rate that packets ask routers for, bit/s; zero if they ask for none.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_requested_bps(flow: *mut ccarena_flow) -> f64 {
    // SAFETY: the caller's promise.
    unsafe { read(flow, 0.0, Checked::requested_bps) }
}

/// Returns the number of decisions of a policy after its first one.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_decisions(flow: *mut ccarena_flow) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { read(flow, 0, |checked| checked.flow().tally().decisions) }
}

/// Returns who moves the window of a flow of ccarena_create_operated: 0 the policy, 1 the fallback with the policy in its
/// shadow, 4 the fallback after the guard took the flow from the policy. -1 for other flows.
///
/// # Safety
/// `flow` is null or not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_role(flow: *mut ccarena_flow) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { read(flow, -1, |checked| checked.flow().role().map_or(-1, |role| role as i32)) }
}

/// Writes to the `why_bytes` bytes at `why` why the last call that failed on this flow has failed. CCARENA_HANDLE and
/// CCARENA_BUSY leave no reason; ccarena_text has a sentence on each.
///
/// # Safety
/// `flow` is null or not freed, `why` may be written for `why_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ccarena_why(flow: *mut ccarena_flow, why: *mut c_char, why_bytes: usize) -> i32 {
    let call = |checked: &mut Checked| {
        let gave_up = checked.flow().failure().filter(|_| checked.why() == Some(&Wrong::GaveUp));
        match (checked.why(), gave_up) {
            (_, Some(reason)) => {
                // SAFETY: the caller's promise.
                unsafe { text::write(&reason, why, why_bytes) };
            }
            (Some(wrong), None) => {
                // SAFETY: the caller's promise.
                unsafe { text::write(wrong, why, why_bytes) };
            }
            (None, None) => {
                // SAFETY: the caller's promise.
                unsafe { text::write(&"no call has failed", why, why_bytes) };
            }
        }
        CCARENA_OK
    };
    // SAFETY: the caller's promise.
    unsafe { Handle::with(flow.cast(), call, Checked::panicked) }
}
