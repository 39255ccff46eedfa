//! The choice of sockets that carry ACCT's TCP option.

use std::path::PathBuf;

/// Scope in which ACCT's TCP option is written, parsed and echoed. It answers any peer that sends one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TcpOption {
    /// Nowhere.
    #[default]
    Off,
    /// Sockets of this process's cgroup in the namespaces given to
    /// [`Datapath::add_namespace`](crate::Datapath::add_namespace).
    Namespaces,
    /// Sockets of the cgroup in this folder, which has to be of version 2, and of those below it.
    Cgroup(PathBuf),
}
