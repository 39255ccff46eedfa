//! Shared parts of runners of scenarios in real time: applications, and messages to their caller.

pub mod app;
pub mod frames;
pub mod inbox;
pub mod results;

pub use app::App;
pub use frames::{Act, Acts, Frames};
pub use inbox::{Inbox, InboxError};
pub use results::{machine, started};
