//! Linux TCP under our controllers.
//!
//! [`datapath`] loads the BPF programs (`bpf/`): a congestion control that measures, reports and does what user space
//! answers, the WCC family inside the kernel, and ACCT's TCP option. [`attach`] makes them outlive the process.

pub mod attach;
pub mod checks;
pub mod cost;
pub mod daemon;
pub mod datapath;
pub mod error;
pub mod intf;
mod maps;
mod objects;
pub mod pilot;
mod pins;
pub mod policies;
pub mod run;
pub mod sampled;
pub mod serve;
pub mod tcp_option;
pub mod traffic;
pub mod wire;

pub use datapath::{Datapath, Key};
pub use error::KernelError;
pub use intf::{Answer, Event};
pub use objects::Options;
pub use tcp_option::TcpOption;
