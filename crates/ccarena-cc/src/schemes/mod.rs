//! One file per scheme.

pub mod acct;
pub(crate) mod aimd;
pub mod bbr;
pub mod cubic;
pub(crate) mod cwnd;
pub mod ewtcp;
pub mod fixed;
pub mod multcp;
pub mod reno;
#[cfg(test)]
pub(crate) mod testing;
pub mod wcc_ai;
pub mod wcc_md;
