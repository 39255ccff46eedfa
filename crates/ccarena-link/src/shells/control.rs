//! A local socket through which the links of a running emulation are changed (`--control`).
//!
//! Each line of a client is a JSON object ([`ChangeRequest`]), and each gets a line in answer: the values in force, or an
//! error. Changes are written down in the scenario, so that the run can be run again.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ccarena_cc::types::Time;
use ccarena_net::Scenario;
use ccarena_net::scenario::{ChangeRequest, LinkChange};
use serde_json::{Value, json};

use super::ShellError;
use crate::emulator::Remote;
use crate::error::LinkError;

/// Longest line of a client, in bytes.
const LONGEST: u64 = 4096;
/// Clients at one time.
const MOST_CLIENTS: usize = 16;
/// Changes of a run: all of them stand in its scenario.
const MOST_CHANGES: usize = 20_000;

/// The socket; its file goes with it.
#[derive(Debug)]
pub struct Door {
    path: PathBuf,
    listener: UnixListener,
}

impl Door {
    /// Opens the socket at `path`, to this user alone. A socket that nobody listens at any more is replaced. To be called
    /// before any thread is started.
    ///
    /// # Errors
    /// If the path is taken, or cannot be made.
    pub fn open(path: &Path) -> Result<Self, ShellError> {
        let fail = |problem: String| ShellError::Control { path: path.into(), problem };
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                return Err(fail("it exists and is no socket; expected a path that is free".into()));
            }
            Ok(_) => match UnixStream::connect(path) {
                Ok(_) => return Err(fail("another emulation listens there; expected a path that is free".into())),
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(|e| fail(format!("cannot remove the old socket: {e}")))?;
                }
                Err(e) => return Err(fail(format!("cannot see whether somebody listens there: {e}"))),
            },
            Err(_) => {}
        }
        let listener =
            privately(|| UnixListener::bind(path)).map_err(|e| fail(format!("cannot make the socket: {e}")))?;
        Ok(Self { path: path.into(), listener })
    }

    /// Lets clients change the links of `scenario`, whose run `remote` reaches.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn serve(self, scenario: Scenario, remote: Remote) -> Result<Control, ShellError> {
        let control = Arc::new(Mutex::new(State { scenario, remote, made: Vec::new(), over: false }));
        let fail = |e| ShellError::Link(LinkError::of("cannot start a thread", e));
        let listener = self.listener.try_clone().map_err(fail)?;
        let state = Arc::clone(&control);
        thread::Builder::new().name("control".into()).spawn(move || welcome(&listener, &state)).map_err(fail)?;
        Ok(Control { door: self, state: control })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes what `make` makes for this user alone.
fn privately<T>(make: impl FnOnce() -> T) -> T {
    #[allow(unsafe_code, reason = "the standard library binds sockets with the mode that the umask leaves")]
    // SAFETY: umask takes and returns a number and cannot fail; no other thread runs yet that could make a file.
    unsafe {
        let before = libc::umask(0o177);
        let made = make();
        libc::umask(before);
        made
    }
}

/// Clients' access to a run.
pub struct Control {
    door: Door,
    state: Arc<Mutex<State>>,
}

impl Control {
    /// Closes the door. Returns the changes that were made, and the scenario with them.
    pub fn close(self) -> (Vec<Value>, Value) {
        drop(self.door);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.over = true;
        (state.made.clone(), state.scenario.to_json())
    }
}

/// The run as clients see it.
struct State {
    scenario: Scenario,
    remote: Remote,
    made: Vec<Value>,
    /// The result is written: no more changes are made.
    over: bool,
}

impl State {
    /// Answers one line of a client.
    fn answer(&mut self, line: &[u8]) -> Value {
        self.obey(line).unwrap_or_else(|problem| json!({"error": problem}))
    }

    fn obey(&mut self, line: &[u8]) -> Result<Value, String> {
        let request = ChangeRequest::parse(line).map_err(|error| error.to_string())?;
        let link = self.link(request.link.as_deref())?;
        if request.change == LinkChange::default() {
            return Ok(self.in_force(link, self.remote.now()));
        }
        let link = link.ok_or_else(|| format!("link: expected a name, one of {}", self.names().join(", ")))?;
        if let Some(refusal) = self.scenario.refusal(link, &request.change) {
            return Err(refusal);
        }
        if self.made.len() == MOST_CHANGES {
            return Err(format!("{MOST_CHANGES} changes are made, and a run records no more"));
        }
        let changed = if self.over { None } else { self.remote.change(link, request.change) };
        let at = changed.ok_or("the run is over")?;
        self.scenario.change(link, at, &request.change);
        let mut made = request.change.to_json();
        (made["at_s"], made["link"]) = (json!(at.as_secs_f64()), json!(self.scenario.links[link].name));
        self.made.push(made);
        Ok(self.in_force(Some(link), at))
    }

    /// Returns the number of the link called `name`, or of the only one; none if there are several and none is named.
    fn link(&self, name: Option<&str>) -> Result<Option<usize>, String> {
        let Some(name) = name else { return Ok((self.scenario.links.len() == 1).then_some(0)) };
        let found = self.scenario.links.iter().position(|link| link.name == name);
        found.map(Some).ok_or_else(|| format!("link is {name:?}; expected one of {}", self.names().join(", ")))
    }

    fn names(&self) -> Vec<&str> {
        self.scenario.links.iter().map(|link| link.name.as_str()).collect()
    }

    /// The values in force at `now` of one link, or of all.
    fn in_force(&self, link: Option<usize>, now: Time) -> Value {
        let links = self.scenario.links.iter().enumerate().filter(|(i, _)| link.is_none_or(|link| link == *i));
        let values = links.map(|(_, link)| {
            let mut values = link.in_force(now).to_json();
            values["name"] = json!(link.name);
            values
        });
        json!({"at_s": now.as_secs_f64(), "links": values.collect::<Vec<_>>()})
    }
}

/// Serves all who come, each in a thread of its own.
fn welcome(listener: &UnixListener, state: &Arc<Mutex<State>>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for client in listener.incoming() {
        // The process has too many descriptors, or the client has gone already: others may come.
        let Ok(client) = client else { continue };
        if clients.fetch_add(1, Ordering::Relaxed) >= MOST_CLIENTS {
            clients.fetch_sub(1, Ordering::Relaxed);
            let _ = say(&client, &json!({"error": format!("{MOST_CLIENTS} clients are connected; close one")}));
            continue;
        }
        let (state, leaving) = (Arc::clone(state), Arc::clone(&clients));
        let started = thread::Builder::new().spawn(move || {
            let _ = serve(&client, &state);
            leaving.fetch_sub(1, Ordering::Relaxed);
        });
        if started.is_err() {
            clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Answers a client until it goes or sends a line without an end.
fn serve(client: &UnixStream, state: &Mutex<State>) -> io::Result<()> {
    let mut lines = BufReader::new(client);
    loop {
        let mut line = Vec::new();
        let length = (&mut lines).take(LONGEST).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(());
        }
        if length as u64 == LONGEST && line.last() != Some(&b'\n') {
            return say(client, &json!({"error": format!("the line is longer than {LONGEST} bytes")}));
        }
        let answer = state.lock().unwrap_or_else(PoisonError::into_inner).answer(&line);
        say(client, &answer)?;
    }
}

fn say(mut client: &UnixStream, answer: &Value) -> io::Result<()> {
    client.write_all(format!("{answer}\n").as_bytes())
}
