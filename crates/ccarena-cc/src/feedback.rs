//! Feedback of congestion marks (ECN, RFC 3168) from a receiver to its sender.

/// Feedback of marks that a connection has, or that a scheme needs; each kind tells more than those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feedback {
    /// No marks: packets leave as Not-ECT, and routers drop them instead.
    #[default]
    None,
    /// One echo per window of data (ECE and CWR, RFC 3168 §6.1.3).
    Classic,
    /// An echo of every change between marked and unmarked packets, in the same bit (DCTCP's receiver, RFC 8257 §3.2).
    Changes,
    /// Counts of marked packets (AccECN, RFC 9768; QUIC, RFC 9000 §13.4).
    Accurate,
}

impl Feedback {
    /// The name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Classic => "classic",
            Self::Changes => "dctcp",
            Self::Accurate => "accurate",
        }
    }
}
