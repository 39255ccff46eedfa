//! A server whose clients want it to run out of memory.

#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ccarena_cc::{Dur, Time};
use ccarena_net::Ecn;
use ccarena_quic::clock::Clock;
use ccarena_quic::host::{Host, Link, Peer, Reactor};
use ccarena_quic::steering::Steering;
use ccarena_quic::transport::{self, Settings};
use ccarena_quic::udp::{SEND_BUFFER, Udp};
use ccarena_quic::{streams, tls};
use noq_proto::{Dir, Event, StreamId};

const CONNECTIONS: usize = 1000;
/// The most memory for a connection, whatever its client does.
const PER_CONNECTION: u64 = 128 << 10;
/// The most growth in seconds in which all clients go on.
const GROWTH: u64 = 4 << 20;

struct Server(Child, SocketAddr);

impl Server {
    fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ccarena-quic"));
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        // A full pipe must not stop it.
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(drop));
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        Self(child, told["listening"].as_str().unwrap().parse().unwrap())
    }

    /// Resident memory in bytes (proc_pid_status(5)).
    fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client that means harm, each in its own way.
#[derive(Default)]
struct Hostile {
    number: usize,
    connected: bool,
    refused: bool,
    stream: Option<StreamId>,
    written: u64,
    others: u64,
}

impl Peer for Hostile {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        match event {
            Event::Connected => {
                self.connected = true;
                self.stream = link.stack.streams().open(Dir::Bi);
                // Streams that nobody would read.
                while link.stack.streams().open(Dir::Uni).is_some() || link.stack.streams().open(Dir::Bi).is_some() {
                    self.others += 1;
                }
                let Some(stream) = self.stream.filter(|_| self.number % 4 != 0) else { return };
                let request: &[u8] = match self.number % 4 {
                    // Data without end, which is never read.
                    1 => b"{}\n",
                    // The beginning of a line.
                    2 => b"{\"scheme\": \"",
                    // Changes without end: below.
                    _ => b"{\"bytes\": 1000000}\n",
                };
                let _ = link.stack.send_stream(stream).write(request);
            }
            Event::ConnectionLost { .. } => self.refused = true,
            _ => {}
        }
    }

    fn write(&mut self, link: &mut Link<'_>) {
        let Some(stream) = self.stream.filter(|_| !self.refused) else { return };
        match self.number % 4 {
            // Zeros, as many as it takes, of which none ends a line.
            0 => self.written += streams::write(link.stack, stream, u64::MAX).unwrap_or(0),
            3 => drop(link.stack.send_stream(stream).write(&b"{\"weight\": 2}\n".repeat(100))),
            _ => {}
        }
    }
}

/// Clients at one socket, which read next to nothing.
fn clients(server: SocketAddr) -> Reactor<Hostile> {
    let clock = Clock::starting();
    let settings =
        Settings { receive_window: Some(1 << 20), keep_alive: Some(Dur::from_millis(500)), ..Settings::default() };
    let udp = Udp::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Ecn::NotEct, SEND_BUFFER).unwrap();
    let mut host = Host::new(udp, clock, None);
    for number in 0..CONNECTIONS {
        let steering = Steering::of_receiver(clock, settings.mtu, None).unwrap();
        let mut config = tls::client(None).unwrap();
        config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
        host.connect(config, server, steering, Hostile { number, ..Hostile::default() }).unwrap();
    }
    Reactor::new(clock, vec![host]).unwrap()
}

fn run(reactor: &mut Reactor<Hostile>, until: Time) {
    while reactor.now() < until {
        reactor.turn(until, &[]).unwrap();
    }
}

#[test]
fn a_thousand_hostile_connections_do_not_make_the_server_grow() {
    let server = Server::start();
    std::thread::sleep(Duration::from_millis(100));
    let before = server.resident();
    let mut reactor = clients(server.1);
    let mut connected = 0;
    for second in 1..=30 {
        run(&mut reactor, Time::from_secs_f64(f64::from(second)));
        let (mut count, mut others) = (0, 0);
        reactor
            .host(0)
            .each(|_, hostile, _| (count, others) = (count + usize::from(hostile.connected), others + hostile.others));
        assert_eq!(others, 0, "no stream but the one for the request");
        connected = connected.max(count);
        if count >= CONNECTIONS * 9 / 10 {
            break;
        }
    }
    assert!(connected >= CONNECTIONS * 9 / 10, "{connected} connected");
    // Each client has sent all that it can at this time.
    let later = |reactor: &mut Reactor<Hostile>| {
        let until = reactor.now() + Dur::from_millis(4000);
        run(reactor, until);
        server.resident()
    };
    let full = later(&mut reactor);
    let after = later(&mut reactor);
    let kb = |bytes: u64| bytes >> 10;
    let told = format!("{} kB at first, {} kB with all clients, {} kB later", kb(before), kb(full), kb(after));
    assert!(full.max(after) - before < CONNECTIONS as u64 * PER_CONNECTION, "{told}");
    assert!(after.saturating_sub(full) < GROWTH, "{told}");
}
