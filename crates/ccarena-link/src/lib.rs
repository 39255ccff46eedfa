//! The real-time link emulator: two network namespaces, a TUN device in each, and between them the links of a scenario.
//!
//! Queues and services are `ccarena-net`'s, the same code as the simulator's, run by the clock ([`emulator`]).

#[cfg(not(target_os = "linux"))]
compile_error!(
    "ccarena-link, and with it ccarena-quic and ccarena-kernel, needs Linux: TUN devices and network namespaces. \
     Elsewhere build the other crates, as `make setup` does."
);

mod checksum;
pub mod clock;
pub mod datagram;
pub mod emulator;
mod error;
pub mod fabric;
pub mod ipv6;
pub mod lateness;
pub mod live;
pub mod machine;
pub mod namespace;
mod netlink;
pub mod network;
mod offload;
mod outlet;
mod pump;
pub mod resources;
pub mod shells;
pub mod tally;
pub mod tcp;
pub mod tun;

pub use datagram::Datagram;
pub use emulator::{Emulator, Outcome, Running};
pub use error::LinkError;
pub use fabric::Observer;
pub use lateness::Lateness;
pub use namespace::Namespace;
pub use network::{End, Network};
pub use tun::Tun;
