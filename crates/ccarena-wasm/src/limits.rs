//! Bounds of a module, so that a stranger's one costs no more than these.

pub use ccarena_cc::bounded::{LARGEST_MODULE_BYTES as MODULE_BYTES, MODULE_MEMORY_BYTES as MEMORY_BYTES};

/// Most elements of its tables together.
pub const TABLE_ELEMENTS: usize = 10_000;
/// Most tables.
pub const TABLES: usize = 4;
/// Most instructions (units of the engine's fuel) of one event: milliseconds at worst.
pub const EVENT_FUEL: u64 = 1_000_000;
/// Most instructions to start a module, to describe it, or to create a controller: a tenth of a second at worst.
pub const CREATE_FUEL: u64 = 50_000_000;
/// Most calls within each other.
pub const CALL_DEPTH: usize = 1_000;
/// Most bytes of the engine's stack.
pub const STACK_BYTES: usize = 1 << 20;
/// Largest window, in bytes: 2^24 packets of 64 KiB.
pub const WINDOW_BYTES: f64 = (1u64 << 40) as f64;
/// Most parameters (`CC_PARAMS_MOST`).
pub const PARAMS: usize = 32;
/// Longest name, unit or help text of a description, in bytes.
pub const TEXT_BYTES: usize = 400;
