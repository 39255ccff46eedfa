//! One file per scheme.

pub mod acct;
pub(crate) mod aimd;
pub mod bbr;
pub mod copa;
pub mod cubic;
pub(crate) mod cwnd;
pub mod ewtcp;
pub mod fixed;
pub mod hercules;
pub mod illinois;
pub mod ledbat;
pub mod multcp;
pub(crate) mod pcc;
pub mod reno;
pub(crate) mod split_mix;
#[cfg(test)]
pub(crate) mod testing;
pub mod vegas;
pub mod vivace;
pub mod vivace_hercules;
pub mod wcc_ai;
pub mod wcc_md;
