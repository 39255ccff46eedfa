//! Actions of a decider, and reasons why a scheme refuses one.

/// Action of a decider at the end of a decision interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Index into the scheme's list of actions.
    Discrete(u32),
    /// A value within the scheme's bounds.
    Continuous(f32),
}

/// An action that the scheme cannot take. The action in force stays.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ActionError {
    /// The action is outside the action space.
    #[error("action {got} is outside the action space: expected {expected}")]
    OutOfRange {
        /// Given action.
        got: String,
        /// Actions that the scheme takes.
        expected: String,
    },
    /// NaN or infinite.
    #[error("action {0} is not a finite number")]
    NotFinite(f32),
    /// Discrete where continuous is expected, or the other way round.
    #[error("the scheme takes {expected} actions")]
    WrongKind {
        /// "discrete" or "continuous".
        expected: &'static str,
    },
}
