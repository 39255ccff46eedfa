//! The simulator for web pages: a scenario's text in, a run in steps, series, packets and the result out.
//!
//! [`document`] reads scenarios as the command `ccarena` does, and [`run::Run`] runs one. In a build for WebAssembly,
//! `exports` passes both through the module's memory to `page/src/engine.ts`. The crate opens no file and reads no clock.

#![doc = include_str!("../README.md")]

pub mod document;
#[cfg(target_arch = "wasm32")]
mod exports;
pub mod picture;
mod problem;
pub mod run;
pub mod yaml;

pub use problem::Problem;
pub use run::{Options, Run};
