//! Scenarios over a real path: a client that sends, and a server on another machine that receives.
//!
//! One UDP port carries everything: a connection for control, and one per flow. Both ends keep the time of every
//! datagram; the client matches them, and turns the server's times into its own.

pub mod client;
pub mod message;
pub mod offset;
mod outcome;
pub mod server;
pub mod stamps;

use std::fmt;

use ring::digest;
use serde::{Deserialize, Serialize};

/// Secret that both ends hold. Its text is not part of what `Debug` prints.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Returns the digest, by which two tokens are compared: the time that takes says nothing about them.
    fn digest(&self) -> Vec<u8> {
        digest::digest(&digest::SHA256, self.0.as_bytes()).as_ref().to_vec()
    }
}
