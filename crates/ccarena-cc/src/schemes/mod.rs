//! One file per scheme.

/// Defines the methods that Linux's TCP shares between schemes whose window is a [`cwnd::Cwnd`].
macro_rules! linux_window {
    () => {
        fn transport(&self) -> $crate::controller::TransportNeeds {
            $crate::controller::TransportNeeds::WINDOW
        }

        fn on_spurious_loss(&mut self, _now: $crate::types::Time) {
            self.cwnd.undo();
        }

        fn on_idle_restart(&mut self, _now: $crate::types::Time, idle: $crate::types::Dur, rto: $crate::types::Dur) {
            self.cwnd.restart(idle, rto);
        }

        fn window(&self) -> $crate::types::Bytes {
            self.cwnd.bytes()
        }

        fn slow_start_threshold(&self) -> Option<$crate::types::Bytes> {
            Some(self.cwnd.threshold_bytes())
        }
    };
}

pub mod abc;
pub(crate) mod aimd;
pub mod bbr;
pub mod bbr3;
pub mod copa;
pub mod cubic;
pub(crate) mod cwnd;
pub mod dctcp;
pub mod ewtcp;
pub mod fixed;
pub mod gcc;
pub mod hercules;
pub mod illinois;
pub mod ledbat;
pub mod multcp;
pub(crate) mod pcc;
pub mod pilot;
pub mod prague;
#[cfg(feature = "policies")]
pub mod remy;
pub mod reno;
pub mod split_mix;
#[cfg(test)]
pub(crate) mod testing;
pub mod vegas;
pub mod vivace;
pub mod vivace_hercules;
pub mod wcc_ai;
pub mod wcc_md;
pub mod xcp;

/// Schemes that are no specs, by name.
pub const ALL: &[crate::scheme::Scheme] = &[
    abc::SCHEME,
    bbr::SCHEME,
    bbr3::SCHEME,
    copa::SCHEME,
    cubic::SCHEME,
    dctcp::SCHEME,
    ewtcp::SCHEME,
    fixed::SCHEME,
    gcc::SCHEME,
    hercules::SCHEME,
    illinois::SCHEME,
    ledbat::SCHEME,
    multcp::SCHEME,
    pilot::SCHEME,
    prague::SCHEME,
    #[cfg(feature = "policies")]
    remy::SCHEME,
    reno::SCHEME,
    vegas::SCHEME,
    vivace::SCHEME,
    vivace_hercules::SCHEME,
    wcc_ai::SCHEME,
    wcc_md::SCHEME,
    xcp::SCHEME,
];
