//! Scenarios over a real path: a client that sends and a server on another machine that receives, or the other way round.
//!
//! One UDP port carries the control connection and one connection per flow. The client opens them all, whoever sends.
//! Both ends keep the time of every datagram; the client matches them, and turns the server's times into its own. Flows of
//! the kernel's [`tcp`] have connections of their own.

pub mod client;
pub mod load;
pub mod message;
pub mod offset;
mod outcome;
pub mod report;
pub mod server;
pub mod stamps;
mod state;
pub mod tcp;

use std::fmt;

use noq_proto::ConnectionId;
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

/// First connection ID with which the client opens flow number `flow` of `run` (RFC 9000 §7.2). By it a server that sends
/// knows the flow's settings before the handshake.
fn ticket(run: &str, flow: usize) -> ConnectionId {
    let digest = digest::digest(&digest::SHA256, format!("ccarena flow {flow} of {run}").as_bytes());
    ConnectionId::new(&digest.as_ref()[..16])
}
