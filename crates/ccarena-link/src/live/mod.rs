//! Shared parts of runners of scenarios in real time: applications, programs of others, and messages to their caller.

pub mod confined;
pub mod frames;
pub mod inbox;
pub mod programs;
pub mod results;

pub use frames::{Act, Acts, Frames};
pub use inbox::{Inbox, InboxError};
pub use programs::{Programs, RunningPrograms};
pub use results::{machine, started};
