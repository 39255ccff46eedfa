//! The control socket of a server: an operator's commands as lines of JSON, with an answer each.
//!
//! A thread of its own waits for commands and reads policies, so that no connection waits for an operator. The loop answers.

use std::fs::{self, Permissions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use ccarena_cc::bounded::{self, LARGEST_POLICY_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::operate::Version;

/// No command is longer.
pub const LONGEST: u64 = 65_536;
/// A client of the socket that says nothing for so long is sent away.
const PATIENCE: Duration = Duration::from_secs(5);

/// A command of an operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Tells of the policies, or of one.
    Stats {
        /// Name of the policy; none for all.
        name: Option<String>,
    },
    /// Tells of a policy's connections: open ones, and those ended after a record.
    Connections {
        /// Name of the policy.
        name: String,
        /// Number of the record.
        after: u64,
    },
    /// Puts the policy in a file in force.
    Load {
        /// Name that it is offered under.
        name: String,
        /// The file.
        file: PathBuf,
        /// Origin of the policy.
        label: String,
        /// The policy decides, and the fallback scheme acts.
        shadow: bool,
        /// Trips in a row that hand a connection back; none leaves what is in force.
        guard: Option<u32>,
    },
    /// Gives a policy a share of connections.
    Canary {
        /// Name of the policy.
        name: String,
        /// Share, from 0 to 1.
        share: f64,
        /// Prefix of clients' addresses.
        to: Option<String>,
        /// See `Load`.
        guard: Option<u32>,
    },
    /// Returns to the policy before.
    Rollback {
        /// Name of the policy.
        name: String,
    },
}

impl Command {
    /// Reads a command from its line.
    ///
    /// # Errors
    /// The reason, if it is none.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|e| format!("{e}; expected a command as one JSON object on one line"))
    }
}

/// A command that waits for its answer.
pub struct Asked {
    /// The command.
    pub command: Command,
    /// The policy in the file, if it is to be put in force.
    pub version: Option<Version>,
    answer: Sender<Value>,
}

impl Asked {
    /// Answers with what was asked for, or the reason why it is not to be had.
    pub fn answer(&self, found: Result<Value, String>) {
        // Whoever asked may have gone.
        let _ =
            self.answer.send(found.map_or_else(|error| json!({ "error": error }), |found| json!({ "found": found })));
    }
}

/// The socket, until it is dropped.
pub struct Control {
    path: PathBuf,
    asked: Receiver<Asked>,
    wakes: UnixStream,
}

impl Control {
    /// Listens at `path`, for this user alone.
    ///
    /// # Errors
    /// If it cannot, another server listens there, or a file of another kind is there.
    pub fn listen(path: &Path) -> io::Result<Self> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there"));
        }
        match fs::symlink_metadata(path) {
            // A server that was killed has left its socket.
            Ok(found) if found.file_type().is_socket() => fs::remove_file(path)?,
            Ok(_) => {
                let taken = "a file is there that is no socket; name another place";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, taken));
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        let listener = UnixListener::bind(path)?;
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        let (wakes, waker) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        let (sender, asked) = channel();
        thread::Builder::new().name("control".into()).spawn(move || {
            for client in listener.incoming().flatten() {
                // A client that fails has no one to tell.
                if serve(client, &sender, &waker).is_err_and(|gone| gone.kind() == io::ErrorKind::NotConnected) {
                    return;
                }
            }
        })?;
        Ok(Self { path: path.into(), asked, wakes })
    }

    /// Returns what polls readable when a command has come.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.wakes.as_raw_fd()
    }

    /// Returns the commands that have come.
    pub fn take(&mut self) -> impl Iterator<Item = Asked> {
        let mut bytes = [0; 64];
        while self.wakes.read(&mut bytes).is_ok_and(|count| count > 0) {}
        self.asked.try_iter()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may be another server's by now, or gone.
        let _ = fs::remove_file(&self.path);
    }
}

/// Serves one client: a command a line. [`io::ErrorKind::NotConnected`] if the server has ended.
fn serve(client: UnixStream, sender: &Sender<Asked>, mut waker: &UnixStream) -> io::Result<()> {
    client.set_read_timeout(Some(PATIENCE))?;
    client.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(client.try_clone()?.take(LONGEST));
    let mut out = client;
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        let found = match Command::parse(&line).and_then(read) {
            Err(error) => json!({ "error": error }),
            Ok((command, version)) => {
                let (answer, answered) = channel();
                let gone = |_| io::Error::from(io::ErrorKind::NotConnected);
                sender
                    .send(Asked { command, version, answer })
                    .map_err(|_| io::Error::from(io::ErrorKind::NotConnected))?;
                waker.write_all(&[0])?;
                answered.recv().map_err(gone)?
            }
        };
        writeln!(out, "{found}")?;
        line.clear();
        lines.get_mut().set_limit(LONGEST);
    }
    Ok(())
}

/// Reads the policy that `command` is about, if it needs one.
fn read(command: Command) -> Result<(Command, Option<Version>), String> {
    let Command::Load { file, label, .. } = &command else { return Ok((command, None)) };
    let bytes =
        bounded::read(file, LARGEST_POLICY_BYTES).map_err(|e| format!("{}: cannot be read: {e}", file.display()))?;
    let version = Version::read(&bytes, label).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok((command, Some(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_lines() {
        let line = br#"{"command": "canary", "name": "mine", "share": 0.5, "to": null, "guard": 4}"#;
        let canary = Command::Canary { name: "mine".into(), share: 0.5, to: None, guard: Some(4) };
        assert_eq!(Command::parse(line), Ok(canary.clone()));
        assert_eq!(Command::parse(&serde_json::to_vec(&canary).unwrap()), Ok(canary));
        for wrong in ["", "{}", r#"{"command": "stop"}"#, r#"{"command": "stats", "name": null, "more": 1}"#] {
            let error = Command::parse(wrong.as_bytes()).unwrap_err();
            assert!(error.ends_with("expected a command as one JSON object on one line"), "{error}");
        }
    }

    #[test]
    fn two_servers_do_not_share_a_socket_and_a_dead_ones_is_taken() {
        let path = std::env::temp_dir().join(format!("ccarena-control-{}", std::process::id()));
        drop(UnixListener::bind(&path).unwrap());
        let first = Control::listen(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Control::listen(&path).err().map(|e| e.kind()), Some(io::ErrorKind::AddrInUse));
        drop(first);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert_eq!(Control::listen(&path).err().map(|e| e.kind()), Some(io::ErrorKind::AlreadyExists));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine", "a file of the user's stays");
        fs::remove_file(&path).unwrap();
    }
}
