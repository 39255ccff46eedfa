//! Faults of a host's call, as a code and as text.

use std::fmt;

/// Done.
pub const CCARENA_OK: i32 = 0;
/// A required pointer is null, or a pointer is not aligned.
pub const CCARENA_NULL: i32 = 1;
/// The pointer is not a live handle of this kind.
pub const CCARENA_HANDLE: i32 = 2;
/// Another call on the same flow has not returned yet.
pub const CCARENA_BUSY: i32 = 3;
/// The event is earlier than the previous event.
pub const CCARENA_TIME: i32 = 4;
/// The call contradicts earlier calls.
pub const CCARENA_ORDER: i32 = 5;
/// A number is outside of its bounds, a reserved field is not zero, or a text is not UTF-8.
pub const CCARENA_RANGE: i32 = 6;
/// The scheme, or a parameter of it, is unknown or refused.
pub const CCARENA_SCHEME: i32 = 7;
/// The bytes are no policy artifact, or the policy does not fit the connection.
pub const CCARENA_ARTIFACT: i32 = 8;
/// The host does not report what the controller needs.
pub const CCARENA_LACKING: i32 = 9;
/// The controller has given up, or the library has a fault: the flow may send nothing.
pub const CCARENA_FAILED: i32 = 10;

/// Reason why a call has done nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wrong {
    /// The event is earlier than the previous event.
    Time {
        /// Time of the event.
        now_ns: u64,
        /// Time of the one before it.
        before_ns: u64,
    },
    /// A total is smaller than it was before.
    Total {
        /// Name of the field.
        field: &'static str,
        /// Value of the event.
        got: u64,
        /// Least value that is possible.
        least: u64,
    },
    /// The timer is not due.
    Timer {
        /// Time of the call.
        now_ns: u64,
        /// Time at which it is due.
        due_ns: u64,
    },
    /// A pointer that is null or not aligned.
    Pointer {
        /// Name of what it should point to.
        to: &'static str,
    },
    /// A number outside of its bounds, or a reserved field that is not zero.
    Range {
        /// Name of the field.
        field: &'static str,
        /// Expected value.
        expected: &'static str,
    },
    /// A report that the host has not declared.
    Undeclared {
        /// Name of the flag.
        flag: &'static str,
    },
    /// The controller has given up.
    GaveUp,
    /// A fault in the library.
    Panicked,
}

impl Wrong {
    /// Returns the code of the header.
    #[must_use]
    pub const fn code(&self) -> i32 {
        match self {
            Self::Pointer { .. } => CCARENA_NULL,
            Self::Time { .. } => CCARENA_TIME,
            Self::Total { .. } | Self::Timer { .. } | Self::Undeclared { .. } => CCARENA_ORDER,
            Self::Range { .. } => CCARENA_RANGE,
            Self::GaveUp | Self::Panicked => CCARENA_FAILED,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time { now_ns, before_ns } => {
                write!(f, "now_ns is {now_ns}, but the event before was at {before_ns}: report events in their order")
            }
            Self::Total { field, got, least } => {
                write!(f, "{field} is {got}; expected at least {least}: totals of a connection never shrink")
            }
            Self::Timer { now_ns, due_ns } if *due_ns == u64::MAX => {
                write!(f, "the timer is not set, and now_ns is {now_ns}: call ccarena_on_timer at timer_ns, not before")
            }
            Self::Timer { now_ns, due_ns } => {
                write!(
                    f,
                    "the timer is due at {due_ns}, and now_ns is {now_ns}: call ccarena_on_timer then, not before"
                )
            }
            Self::Pointer { to } => write!(f, "the pointer to {to} is null or not aligned"),
            Self::Range { field, expected } => write!(f, "{field} is out of range; expected {expected}"),
            Self::Undeclared { flag } => write!(f, "the host did not declare {flag} in ccarena_facts.reports"),
            Self::GaveUp => write!(f, "the controller has given up: free the flow and create another"),
            Self::Panicked => {
                write!(
                    f,
                    "the library has a fault, and the flow has ended: free it, create another, and report the fault"
                )
            }
        }
    }
}
