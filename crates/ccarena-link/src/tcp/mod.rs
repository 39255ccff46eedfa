//! Flows of the kernel's TCP: sockets with the options that the standard library lacks, and the sending end of a flow.

pub mod sender;
pub mod socket;

pub use sender::{Sample, Sender, Sent};
pub use socket::{Poller, Socket, TcpInfo, nothing, raise_descriptor_limit};
