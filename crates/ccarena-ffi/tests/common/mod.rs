//! A host in Rust on the functions of the header.
#![allow(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "calls the functions as C does, on values of its own"
)]
#![allow(dead_code, reason = "each test file uses its part")]
#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use ccarena::abi::*;

/// Everything that a host can report.
pub const REPORTS: u32 = CCARENA_EVERY_PACKET
    | CCARENA_RATE_SAMPLES
    | CCARENA_PACKET_NUMBERS
    | CCARENA_MARKS
    | CCARENA_ROUTER_RATES
    | CCARENA_L4S;

/// The bytes of an event, aligned as C aligns them.
#[repr(align(8))]
pub struct Aligned<const N: usize>(pub [u8; N]);

/// Bytes of a shipped policy.
pub fn shipped(name: &str) -> Vec<u8> {
    std::fs::read(policy_path(name)).unwrap()
}

/// File of a shipped policy.
pub fn policy_path(name: &str) -> String {
    let scheme = name.split('-').next().unwrap();
    format!("{}/../../ccarena/{scheme}/policies/{name}.safetensors", env!("CARGO_MANIFEST_DIR"))
}

pub fn facts() -> ccarena_facts {
    ccarena_facts {
        abi: CCARENA_ABI,
        mss_bytes: 1448,
        initial_window_packets: 10,
        header_bytes: 52,
        reports: REPORTS,
        flags: 0,
        now_ns: 0,
        seed: 0,
        weight: 1.0,
        desired_bps: 0.0,
        required_min_bps: 0.0,
        required_max_bps: 0.0,
        reserved: [0; 4],
    }
}

/// A handle, or the code and the reason of a failure.
pub type Made<T> = Result<*mut T, (i32, String)>;

fn made<T>(call: impl FnOnce(*mut *mut T, *mut c_char, usize) -> i32) -> Made<T> {
    let (mut out, mut why) = (ptr::null_mut(), [0 as c_char; 400]);
    let code = call(&mut out, why.as_mut_ptr(), why.len());
    assert_eq!(code == CCARENA_OK, !out.is_null());
    if code == CCARENA_OK {
        return Ok(out);
    }
    Err((code, unsafe { CStr::from_ptr(why.as_ptr()) }.to_str().unwrap().to_owned()))
}

pub fn create(scheme: &str, values: &[(&str, f64)], facts: &ccarena_facts) -> Made<ccarena_flow> {
    let names: Vec<CString> = values.iter().map(|(name, _)| CString::new(*name).unwrap()).collect();
    let values: Vec<ccarena_value> = names
        .iter()
        .zip(values)
        .map(|(name, (_, value))| ccarena_value { name: name.as_ptr(), value: *value })
        .collect();
    let scheme = CString::new(scheme).unwrap();
    made(|out, why, size| unsafe {
        ccarena_create(scheme.as_ptr(), values.as_ptr(), values.len(), facts, out, why, size)
    })
}

pub fn read_policy(bytes: &[u8]) -> Made<ccarena_policy> {
    made(|out, why, size| unsafe { ccarena_policy_read(bytes.as_ptr(), bytes.len(), out, why, size) })
}

pub fn create_policy(policy: *const ccarena_policy, facts: &ccarena_facts) -> Made<ccarena_flow> {
    made(|out, why, size| unsafe { ccarena_create_policy(policy, ptr::null(), 0, facts, out, why, size) })
}

/// A flow for which a shipped policy decides.
pub fn decided_by(policy: &str, facts: &ccarena_facts) -> Made<ccarena_flow> {
    let policy = read_policy(&shipped(policy))?;
    let flow = create_policy(policy, facts);
    assert_eq!(unsafe { ccarena_policy_free(policy) }, CCARENA_OK);
    flow
}

/// A flow on which an operator runs a shipped policy.
pub fn operated(policy: &str, fallback: &str, shadow: u32, guard: u32) -> Made<ccarena_flow> {
    let (policy, fallback) = (read_policy(&shipped(policy))?, CString::new(fallback).unwrap());
    let (facts, name) = (facts(), fallback.as_ptr());
    let flow = made(|out, why, size| unsafe {
        ccarena_create_operated(policy, ptr::null(), 0, &facts, name, shadow, guard, out, why, size)
    });
    assert_eq!(unsafe { ccarena_policy_free(policy) }, CCARENA_OK);
    flow
}

/// Why the last call on `flow` failed.
pub fn why(flow: *mut ccarena_flow) -> String {
    let mut why = [0 as c_char; 400];
    assert_eq!(unsafe { ccarena_why(flow, why.as_mut_ptr(), why.len()) }, CCARENA_OK);
    unsafe { CStr::from_ptr(why.as_ptr()) }.to_str().unwrap().to_owned()
}
