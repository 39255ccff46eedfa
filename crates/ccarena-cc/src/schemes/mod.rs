//! One file per scheme.

pub mod acct;
pub mod bbr;
pub mod cubic;
pub(crate) mod cwnd;
pub mod fixed;
pub mod reno;
#[cfg(test)]
pub(crate) mod testing;
