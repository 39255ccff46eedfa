//! Congestion controllers and trained policies behind a C ABI: `ccarena_host.h`.
//!
//! A host in C, C++, Go or any other language builds a flow per connection, reports events by the structs of `ccarena.h`,
//! and reads window, pacing rate and timer. docs/library.md shows how. Everything here is per flow: there is no global
//! state, no clock, no thread, and no allocation per event.
//!
//! Build it with `cargo build -p ccarena-ffi --profile extension`, which gives `libccarena.so` and `libccarena.a`.
//!
//! - [`Checked`] is a flow whose every event is checked, in safe Rust.
//! - [`abi`] has the functions of the header: they check pointers, keep panics from the host, and call `Checked`.

#[cfg(target_endian = "big")]
compile_error!("the structs of ccarena.h are read as little-endian words");
#[cfg(panic = "abort")]
compile_error!("a panic must not end the host's process: build with `--profile extension`");

pub mod abi;
mod checked;
mod code;
mod facts;
mod handle;
mod text;

pub use checked::Checked;
pub use code::Wrong;
