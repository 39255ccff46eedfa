//! A server and clients over loopback: every scheme, wishes that change, and peers that mean harm.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that fails panics; clippy.toml exempts test functions, not helpers"
)]

#[path = "../../ccarena-link/tests/common/real_time.rs"]
mod real_time;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ccarena_cc::{Dur, Time, registry};
use ccarena_link::clock as link_clock;
use ccarena_quic::get::{self, Options};
use ccarena_quic::offer::Offer;
use ccarena_quic::request::{Change, Request};
use ccarena_quic::serve;
use ccarena_quic::transport::Settings;
use real_time::real_time;
use serde_json::Value;

/// Lines that are written arrive as documents.
struct Lines(Sender<Value>, Vec<u8>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.extend_from_slice(bytes);
        while let Some(end) = self.1.iter().position(|&b| b == b'\n') {
            let line: Vec<u8> = self.1.drain(..=end).collect();
            // The test may have seen enough.
            let _ = self.0.send(serde_json::from_slice(&line).unwrap());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Server {
    address: SocketAddr,
    fingerprint: String,
    told: Receiver<Value>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    fn start() -> Self {
        let (stop, stopped) = UnixStream::pair().unwrap();
        let (sender, told) = channel();
        let thread = thread::spawn(move || {
            let options = serve::Options {
                listen: ([127, 0, 0, 1], 0).into(),
                offer: Offer::default(),
                settings: Settings::default(),
                interval: Some(Dur::from_millis(50)),
                qlog: None,
                control: None,
            };
            serve::serve(options, &mut Lines(sender, Vec::new()), &[stopped.as_raw_fd()]).unwrap();
        });
        let first: Value = told.recv_timeout(Duration::from_secs(5)).unwrap();
        let text = |name: &str| first[name].as_str().unwrap().to_owned();
        Self {
            address: text("listening").parse().unwrap(),
            fingerprint: text("fingerprint"),
            told,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Gets `requests`; whether all came, and what was told of each connection at its end, in order.
    fn get(&self, requests: Vec<Request>, change: impl FnOnce(&mut Options)) -> (bool, Vec<Value>) {
        let mut options = Options {
            remote: self.address,
            requests,
            changes: Vec::new(),
            duration: None,
            interval: None,
            fingerprint: Some(self.fingerprint.clone()),
            patience: None,
            settings: Settings::default(),
        };
        change(&mut options);
        let (sender, told) = channel();
        let (_open, mut input) = UnixStream::pair().unwrap();
        let fd = input.as_raw_fd();
        let mut read = || {
            let mut bytes = [0; 100];
            input.read(&mut bytes).ok().filter(|&n| n > 0).map(|n| bytes[..n].to_vec())
        };
        let failure = get::get(options, &mut read, &mut Lines(sender, Vec::new()), (fd, -1)).unwrap();
        let mut ended: Vec<Value> = told.iter().filter(|line| line["closed"] == true).collect();
        ended.sort_by_key(|line| line["connection"].as_u64());
        (failure.is_none(), ended)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn bytes(bytes: u64) -> Request {
    Request { bytes: Some(bytes), ..Request::default() }
}

#[test]
fn every_scheme_sends_what_is_asked_for() {
    let server = Server::start();
    let own = registry::schemes().iter().filter(|s| !s.learned && !s.rules);
    let requests: Vec<Request> = own
        .map(|s| Request { scheme: Some(s.name.into()), requirement: Some([10.0, 15.0]), ..bytes(100_000) })
        .collect();
    let count = requests.len();
    let (complete, ended) = server.get(requests, |_| {});
    assert!(complete && ended.len() == count, "{ended:?}");
    assert!(ended.iter().all(|line| line["received_bytes"] == 100_000 && line["error"].is_null()), "{ended:?}");
}

#[test]
fn a_wish_that_cannot_be_had_ends_its_own_connection_alone() {
    let server = Server::start();
    let scheme = |name: &str| Request { scheme: Some(name.into()), ..bytes(300_000) };
    let policy = Request { policy: Some("nobody's".into()), ..bytes(300_000) };
    let (complete, ended) = server.get(vec![scheme("cubik"), scheme("cubic"), policy], |_| {});
    assert!(!complete);
    let error = |at: usize| ended[at]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error(0).contains("did you mean \"cubic\"?"), "{ended:?}");
    assert!(error(2).contains("policy: got \"nobody's\""), "{ended:?}");
    assert_eq!((error(1), &ended[1]["received_bytes"]), (String::new(), &Value::from(300_000)));
}

#[test]
fn a_server_with_another_key_is_refused() {
    let server = Server::start();
    let (complete, ended) = server.get(vec![bytes(1000)], |options| options.fingerprint = Some("00".repeat(32)));
    assert!(!complete && ended[0]["received_bytes"] == 0, "{ended:?}");
}

#[test]
fn what_a_connection_wants_changes_while_it_runs() {
    real_time(|| {
        let server = Server::start();
        let hercules =
            |min, max| Request { scheme: Some("hercules".into()), requirement: Some([min, max]), ..Request::default() };
        let change = Change { requirement: Some([20.0, 30.0]), ..Change::default() };
        let (complete, ended) = server.get(vec![hercules(2.0, 3.0), hercules(2.0, 3.0)], |options| {
            options.changes = vec![(Time::from_secs_f64(0.7), Some(1), change)];
            options.duration = Some(Dur::from_millis(2200));
        });
        assert!(complete, "{ended:?}");
        let received = |at: usize| ended[at]["received_bytes"].as_u64().unwrap();
        assert!(received(1) > 2 * received(0), "{ended:?}");
        let lines: Vec<Value> = server.told.try_iter().collect();
        assert!(lines.iter().any(|l| l["scheme"] == "hercules" && l["pacing_mbps"].is_number()), "{lines:?}");
    });
}

/// Runs `ccarena-quic get`; returns its status, its last answer, its errors, and the time that it took.
fn command(remote: SocketAddr, words: &[&str]) -> (Option<i32>, Value, String, Duration) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ccarena-quic"));
    // Its input is not over, as a terminal's is not.
    child
        .args(["get", &remote.to_string()])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let began = link_clock::now_ns();
    let mut child = child.spawn().unwrap();
    let _open = child.stdin.take();
    let done = child.wait_with_output().unwrap();
    let took = Duration::from_nanos(link_clock::now_ns() - began);
    let last = String::from_utf8(done.stdout).unwrap().lines().last().map(|line| serde_json::from_str(line).unwrap());
    (done.status.code(), last.unwrap_or_default(), String::from_utf8(done.stderr).unwrap(), took)
}

#[test]
fn without_a_server_it_fails_within_its_time() {
    // Nobody answers at this port.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = socket.local_addr().unwrap();
    for (words, most) in [
        (vec!["--timeout-s", "0.5", "--bytes", "1000"], 0.5),
        (vec!["--timeout-s", "0.5", "--duration-s", "20"], 0.5),
        // The time is over before anybody has answered.
        (vec!["--duration-s", "0.4"], 0.4),
        (vec!["--timeout-s", "0.5", "--connections", "3"], 0.5),
    ] {
        let (status, last, error, took) = command(remote, &words);
        assert_eq!(status, Some(1), "{words:?}: {error}");
        assert!(error.starts_with(&format!("error: connection 0: no connection to {remote} within")), "{error}");
        assert!(last["error"].as_str().unwrap().starts_with("no connection to"), "{last}");
        assert!(
            took >= Duration::from_secs_f64(most) && took < Duration::from_secs_f64(most + 2.0),
            "{words:?}: {took:?}"
        );
    }
}

#[test]
fn a_server_that_vanishes_is_missed() {
    for words in [vec!["--timeout-s", "1"], vec!["--timeout-s", "2", "--duration-s", "1.7"]] {
        let mut server = Command::new(env!("CARGO_BIN_EXE_ccarena-quic"));
        let mut server = server.args(["serve", "--listen", "127.0.0.1:0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let remote: SocketAddr = told["listening"].as_str().unwrap().parse().unwrap();
        let killer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(500));
            // Without a word to its clients.
            server.kill().unwrap();
            server.wait().unwrap();
        });
        let (status, last, error, took) = command(remote, &words);
        killer.join().unwrap();
        assert_eq!(status, Some(1), "{words:?}: {last}");
        assert!(error.contains("has been silent for"), "{error}");
        assert!(last["received_bytes"].as_u64().unwrap() > 0 && took < Duration::from_secs(6), "{last} {took:?}");
    }
}

/// A datagram that a client of ours begins with.
fn initial() -> Vec<u8> {
    let listener = UdpSocket::bind("127.0.0.1:0").unwrap();
    let remote = listener.local_addr().unwrap();
    let (_open, stop) = UnixStream::pair().unwrap();
    let client = thread::spawn(move || {
        let options = Options {
            remote,
            requests: vec![bytes(1)],
            changes: Vec::new(),
            duration: Some(Dur::from_millis(50)),
            interval: None,
            fingerprint: None,
            patience: None,
            settings: Settings::default(),
        };
        get::get(options, &mut || None, &mut io::sink(), (-1, stop.as_raw_fd())).unwrap()
    });
    let mut datagram = vec![0; 2000];
    let length = listener.recv(&mut datagram).unwrap();
    datagram.truncate(length);
    client.join().unwrap();
    datagram
}

#[test]
fn floods_and_malformed_handshakes_do_not_keep_others_from_being_served() {
    let server = Server::start();
    let (initial, remote) = (initial(), server.address);
    let (stop, stopped) = channel::<()>();
    let hostile = thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut count = 0_u64;
        while stopped.try_recv().is_err() {
            let mut datagram = initial.clone();
            let at = usize::try_from(count * 7919 % 1200).unwrap();
            match count % 5 {
                // Bits flipped where the handshake is encrypted, and in the header.
                0 => datagram[at] ^= 1 << (count % 8),
                // Cut off.
                1 => datagram.truncate(at),
                // A new connection each time.
                2 => datagram[6..14].copy_from_slice(&count.to_le_bytes()),
                // Another version.
                3 => datagram[1..5].copy_from_slice(&u32::try_from(count).unwrap().to_be_bytes()),
                // Nothing at all.
                _ => datagram.iter_mut().for_each(|byte| *byte = byte.wrapping_mul(31).wrapping_add(count as u8)),
            }
            // A full buffer is what a flood is for.
            let _ = socket.send_to(&datagram, remote);
            count += 1;
            if count.is_multiple_of(50) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        count
    });
    let (complete, ended) = server.get((0..4).map(|_| bytes(500_000)).collect(), |_| {});
    stop.send(()).unwrap();
    assert!(hostile.join().unwrap() > 100);
    assert!(complete, "{ended:?}");
}

/// A link before `server` that carries 2000 datagrams a second towards clients, and nothing at all between two times after
/// its first datagram. Returns its address, and at the end how many datagrams the server sent in the second half of that.
fn dead_between(server: SocketAddr, from: Duration, to: Duration, stop: Receiver<()>) -> (SocketAddr, JoinHandle<u64>) {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let address = near.local_addr().unwrap();
    for socket in [&near, &far] {
        socket.set_nonblocking(true).unwrap();
    }
    let link = thread::spawn(move || {
        let (mut client, mut began, mut sent_in_vain, mut bytes) = (None, None, 0, vec![0; 65_536]);
        let mut carried = 0;
        while stop.try_recv().is_err() {
            let now = link_clock::now_ns();
            let age = Duration::from_nanos(now - *began.get_or_insert(now));
            let is_dead = age >= from && age < to;
            while let Ok((length, source)) = near.recv_from(&mut bytes) {
                client = Some(source);
                if !is_dead {
                    // A full buffer loses a datagram, as links do.
                    let _ = far.send_to(&bytes[..length], server);
                }
            }
            let allowed = if is_dead { u64::MAX } else { age.as_millis() as u64 * 2 };
            while carried < allowed
                && let Ok(length) = far.recv(&mut bytes)
            {
                if is_dead {
                    sent_in_vain += u64::from(age >= (from + to) / 2);
                } else if let Some(client) = client {
                    let _ = near.send_to(&bytes[..length], client);
                    carried += 1;
                }
            }
            // A link that was idle does not catch up.
            carried = if is_dead { carried } else { carried.max(allowed.saturating_sub(20)) };
            if client.is_none() {
                began = None;
            }
            thread::sleep(Duration::from_micros(500));
        }
        sent_in_vain
    });
    (address, link)
}

#[test]
fn every_scheme_backs_off_on_a_path_that_is_dead_and_goes_on_when_it_is_not() {
    const DATAGRAMS: u64 = 8;
    let server = Server::start();
    let (stop, stopped) = channel();
    let [from, to] = [700, 2700].map(Duration::from_millis);
    let (address, link) = dead_between(server.address, from, to, stopped);
    let own = registry::schemes().iter().filter(|s| !s.learned && !s.rules);
    let requests: Vec<Request> =
        own.map(|s| Request { scheme: Some(s.name.into()), requirement: Some([2.0, 4.0]), ..bytes(200_000) }).collect();
    let count = requests.len();
    let (complete, ended) = server.get(requests, |options| options.remote = address);
    stop.send(()).unwrap();
    let in_vain = link.join().unwrap();
    assert!(complete && ended.len() == count, "{ended:?}");
    assert!(ended.iter().all(|line| line["received_bytes"] == 200_000 && line["error"].is_null()), "{ended:?}");
    // Exponential back-off probes the path, with two datagrams at most (RFC 9002, section 6.2.4).
    assert!((1..=DATAGRAMS * count as u64).contains(&in_vain), "{in_vain} datagrams of {count} connections");
}
