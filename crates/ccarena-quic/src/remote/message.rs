//! Messages between the ends of runs over a real path: lines of JSON, on the first stream of each connection.
//!
//! A connection begins with [`Ask::Hello`] and is then the run's control, or with [`Ask::Join`] and is then one of its
//! flows. Packet times come back as [`stamps`](super::stamps) on a stream of their own. If the server is to send, the run's
//! [`load`](super::load) goes there on such a stream, too.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Token;
use super::tcp::ticket::Ticket;

/// Version of the messages; ends of different versions refuse each other.
pub const VERSION: u64 = 3;
/// Most flows of a run.
pub const MOST_FLOWS: usize = 32;

/// A flow of the kernel's TCP, for which the client asks for a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TcpFlow {
    /// Number of the flow.
    pub flow: usize,
    /// Time of the run at which its connection opens, in ns.
    pub start_ns: u64,
}

/// A client's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// Greeting, which opens a control.
    Hello {
        /// [`VERSION`] of the client.
        version: u64,
        /// Secret that both ends hold.
        token: Token,
    },
    /// Question for the server's time.
    Clock {
        /// Number of the question.
        number: u32,
    },
    /// Request for a run.
    Run {
        /// Number of flows.
        flows: usize,
        /// Length in seconds.
        duration_s: f64,
        /// Flag that the server sends; the scenario then comes as a [`load`](super::load).
        reverse: bool,
        /// Flows of the kernel's TCP, in their order.
        tcp: Vec<TcpFlow>,
    },
    /// First line of a flow's connection.
    Join {
        /// Run, as [`Answer::Started`] names it.
        run: String,
        /// Number of the flow.
        flow: usize,
    },
    /// Request for the packet times, which ends the run.
    Finish {},
}

/// A server's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// Answer to a greeting.
    Welcome {},
    /// Answer to a question for the time.
    Clock {
        /// Number of the question.
        number: u32,
        /// Server's time at which the question came, in ns.
        received_ns: u64,
        /// Server's time at which the answer left, in ns.
        sent_ns: u64,
    },
    /// Answer to a request for a run.
    Started {
        /// Secret name of the run, with which flows join it.
        run: String,
        /// Server's time at which the run began, in ns.
        zero_ns: u64,
        /// A ticket for each flow of the kernel's TCP, in their order.
        tickets: Vec<Ticket>,
    },
}

/// Error of a message that cannot be taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MessageError {
    /// Line that is no message.
    #[error("{0}; expected a message of `ccarena remote`, one JSON object on one line")]
    Malformed(String),
    /// Other end of another version.
    #[error(
        "the other end speaks version {0} of `ccarena remote`; this end speaks {VERSION}: install the same ccarena"
    )]
    Version(Value),
    /// Value outside of its bounds.
    #[error("{field}: got {got}; expected {expected}")]
    Value {
        /// Name of the field.
        field: &'static str,
        /// Given value.
        got: String,
        /// Accepted values.
        expected: String,
    },
}

fn malformed(error: &serde_json::Error) -> MessageError {
    MessageError::Malformed(error.to_string())
}

impl Ask {
    /// Reads a message from its line.
    ///
    /// # Errors
    /// If it is none, or its values are outside of their bounds.
    pub fn parse(line: &[u8]) -> Result<Self, MessageError> {
        let value: Value = serde_json::from_slice(line).map_err(|e| malformed(&e))?;
        // The fields of another version's greeting may be others.
        if value["type"] == "hello" && value["version"] != VERSION {
            return Err(MessageError::Version(value["version"].clone()));
        }
        let ask: Self = serde_json::from_value(value).map_err(|e| malformed(&e))?;
        let fault = |field, got: String, expected: String| Err(MessageError::Value { field, got, expected });
        match ask {
            Self::Run { flows, .. } if !(1..=MOST_FLOWS).contains(&flows) => {
                fault("flows", flows.to_string(), format!("1 to {MOST_FLOWS} flows"))
            }
            Self::Run { duration_s, .. } if !(duration_s > 0.0 && duration_s.is_finite()) => {
                fault("duration_s", duration_s.to_string(), "a time above zero, in seconds".into())
            }
            Self::Run { flows, duration_s, ref tcp, .. } => {
                let in_order = tcp.windows(2).all(|pair| pair[0].flow < pair[1].flow);
                let in_time = |of: &TcpFlow| of.start_ns as f64 <= duration_s * 1e9;
                if !in_order || !tcp.iter().all(|of| of.flow < flows && in_time(of)) {
                    let expected = format!("flows below {flows} in their order, which start within the run");
                    return fault("tcp", format!("{tcp:?}"), expected);
                }
                Ok(ask)
            }
            _ => Ok(ask),
        }
    }
}

impl Answer {
    /// Reads a message from its line.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(line: &[u8]) -> Result<Self, MessageError> {
        serde_json::from_slice(line).map_err(|e| malformed(&e))
    }
}

/// The line of a message.
#[must_use]
pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_message_is_read_and_a_wrong_one_named() {
        for ask in [
            Ask::Hello { version: VERSION, token: Token("ab".into()) },
            Ask::Clock { number: 3 },
            Ask::Run { flows: 2, duration_s: 1.5, reverse: true, tcp: vec![TcpFlow { flow: 1, start_ns: 5 }] },
            Ask::Join { run: "ab".into(), flow: 1 },
            Ask::Finish {},
        ] {
            assert_eq!(Ask::parse(line(&ask).trim_ascii_end()), Ok(ask));
        }
        let error = |text: &str| Ask::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error(r#"{"type": "shell", "command": "id"}"#).contains("unknown variant `shell`"));
        assert!(error(r#"{"type": "clock", "number": 1, "path": "/etc"}"#).contains("unknown field `path`"));
        assert!(error(r#"{"type": "hello", "version": 9, "greeting": 1}"#).contains("speaks version 9"));
        assert!(error(r#"{"type": "hello"}"#).contains("speaks version null"));
        assert!(
            error(r#"{"type": "run", "flows": 33, "duration_s": 1, "reverse": false, "tcp": []}"#)
                .starts_with("flows: got 33; expected 1 to 32")
        );
        assert!(
            error(r#"{"type": "run", "flows": 1, "duration_s": -1, "reverse": false, "tcp": []}"#)
                .starts_with("duration_s: got -1")
        );
        let tcp =
            |tcp: &str| error(&format!(r#"{{"type":"run","flows":2,"duration_s":1,"reverse":false,"tcp":{tcp}}}"#));
        for wrong in [
            r#"[{"flow":2,"start_ns":0}]"#,
            r#"[{"flow":1,"start_ns":2000000000}]"#,
            r#"[{"flow":1,"start_ns":0},{"flow":1,"start_ns":0}]"#,
        ] {
            assert!(tcp(wrong).starts_with("tcp: got [") && tcp(wrong).contains("flows below 2 in their order"));
        }
        let started = Answer::Started { run: "a".into(), zero_ns: 1, tickets: vec![Ticket::draw().unwrap()] };
        assert_eq!(Answer::parse(line(&started).trim_ascii_end()), Ok(started));
        let started = Answer::parse(br#"{"type": "started", "run": "a", "zero_ns": 1, "tickets": ["ab"]}"#);
        assert!(started.unwrap_err().to_string().contains("32 hexadecimal digits"));
        assert!(error("[").contains("expected a message"));
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in r#"\{"type": ?"(hello|run|join|clock)"[,:"a-z0-9 .e-]{0,60}\}"#) {
            let _ = (Ask::parse(&bytes), Answer::parse(&bytes));
            let _ = (Ask::parse(text.as_bytes()), Answer::parse(text.as_bytes()));
        }
    }
}
