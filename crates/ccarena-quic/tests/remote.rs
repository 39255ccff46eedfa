//! A server of runs over a real path, and hostile clients: each is refused with the reason, and the next is served.

#![expect(clippy::unwrap_used, reason = "a test that fails panics; clippy.toml exempts test functions, not helpers")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ccarena_cc::{Dur, Time};
use ccarena_net::Ecn;
use ccarena_quic::clock::Clock;
use ccarena_quic::host::{Host, Link, Peer, Reactor};
use ccarena_quic::remote::Token;
use ccarena_quic::remote::message::{Answer, Ask, TcpFlow, VERSION, line};
use ccarena_quic::steering::Steering;
use ccarena_quic::tls::Identity;
use ccarena_quic::transport::{self, Settings};
use ccarena_quic::udp::{SEND_BUFFER, Udp};
use ccarena_quic::{streams, tls};
use noq_proto::{ConnectionError, Dir, Event, StreamEvent, StreamId};

const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

struct Server(Child, SocketAddr);

impl Server {
    fn start(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("ccarena-remote-{name}-{}", std::process::id()));
        std::fs::write(&file, TOKEN).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_ccarena-quic"))
            .args(["remote", "--listen", "127.0.0.1:0", "--token"])
            .arg(&file)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        out.read_line(&mut first).unwrap();
        std::fs::remove_file(&file).unwrap();
        // A full pipe must not stop it.
        std::thread::spawn(move || out.lines().map_while(Result::ok).for_each(drop));
        let told: serde_json::Value = serde_json::from_str(&first).unwrap();
        Self(child, told["listening"].as_str().unwrap().parse().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A client that says what it is given, and sends zeros on streams of its own if it `floods`.
#[derive(Default)]
struct Client {
    says: Vec<u8>,
    floods: bool,
    stream: Option<StreamId>,
    zeros: Option<StreamId>,
    /// Zeros that the server lets it send before it reads any.
    first_zeros: Option<u64>,
    heard: Vec<u8>,
    closed: Option<ConnectionError>,
}

impl Peer for Client {
    fn on_event(&mut self, link: &mut Link<'_>, event: Event) {
        match event {
            Event::Connected => {
                self.stream = link.stack.streams().open(Dir::Bi).filter(|_| !self.says.is_empty());
                self.zeros = link.stack.streams().open(Dir::Uni).filter(|_| self.floods);
            }
            Event::Stream(StreamEvent::Readable { id }) => {
                streams::read_in_order(link.stack, id, |bytes| self.heard.extend_from_slice(bytes));
            }
            Event::ConnectionLost { reason } => self.closed = Some(reason),
            _ => {}
        }
    }

    fn write(&mut self, link: &mut Link<'_>) {
        if let Some(stream) = self.stream.filter(|_| !self.says.is_empty() && self.closed.is_none()) {
            let count = link.stack.send_stream(stream).write(&self.says).unwrap_or(0);
            self.says.drain(..count);
        }
        if let Some(stream) = self.zeros.filter(|_| self.closed.is_none()) {
            let count = streams::write(link.stack, stream, u64::MAX);
            let first = *self.first_zeros.get_or_insert(count.unwrap_or(0));
            assert!(first <= 64 << 10, "{first} bytes before the first line");
        }
    }
}

/// Returns the server's answers to `says`, and how it closes the connection within `seconds`.
fn talk(server: &Server, says: Vec<u8>, floods: bool, seconds: f64) -> (String, String) {
    talk_while(server, says, floods, seconds, |_| {})
}

/// The same; `act` sees the answers so far again and again.
fn talk_while(
    server: &Server,
    says: Vec<u8>,
    floods: bool,
    seconds: f64,
    mut act: impl FnMut(&str),
) -> (String, String) {
    let clock = Clock::starting();
    let settings = Settings { keep_alive: Some(Dur::from_millis(500)), ..Settings::default() };
    let udp = Udp::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), Ecn::NotEct, SEND_BUFFER).unwrap();
    let mut host = Host::new(udp, clock, None);
    let steering = Steering::of_receiver(clock, settings.mtu, None).unwrap();
    let mut config = tls::client(Some(Identity::of_token(&Token(TOKEN.into())).unwrap().fingerprint)).unwrap();
    config.transport_config(transport::config(&settings, Arc::new(steering.clone())));
    host.connect(config, server.1, steering, Client { says, floods, ..Client::default() }).unwrap();
    let mut reactor = Reactor::new(clock, vec![host]).unwrap();
    let until = Time::from_secs_f64(seconds);
    let (mut heard, mut closed) = (String::new(), None);
    while closed.is_none() && reactor.now() < until {
        reactor.turn(until, &[]).unwrap();
        let mut look = |client: &Client| {
            heard = String::from_utf8_lossy(&client.heard).into_owned();
            closed = client.closed.as_ref().map(ToString::to_string);
        };
        reactor.host(0).take_ended().iter().for_each(|(client, _)| look(client));
        reactor.host(0).each(|_, client, _| look(client));
        act(&heard);
    }
    (heard, closed.unwrap_or_default())
}

fn hello(token: &str) -> Vec<u8> {
    line(&Ask::Hello { version: VERSION, token: Token(token.into()) })
}

#[test]
fn a_hostile_client_is_refused_and_the_next_client_is_served() {
    let server = Server::start("harm");
    let refused = |says: Vec<u8>| talk(&server, says, false, 5.0).1;
    for (says, reason) in [
        (hello(&TOKEN.replace('0', "1")), "wrong token"),
        (hello(""), "wrong token"),
        (b"{\"type\": \"hello\", \"version\": 1, \"token\": \"\"}\n".to_vec(), "speaks version 1"),
        (b"{\"type\": \"shell\"}\n".to_vec(), "unknown variant"),
        (vec![b'{'; 5000], "a line of more than 4096 bytes"),
        (line(&Ask::Run { flows: 1, duration_s: 1.0, reverse: false, tcp: vec![] }), "begins with the token"),
        (line(&Ask::Finish {}), "begins with the token"),
        (line(&Ask::Join { run: "0".repeat(32), flow: 0 }), "no such run goes on"),
        ([hello(TOKEN), hello(TOKEN)].concat(), "a connection begins once"),
        ([hello(TOKEN), line(&Ask::Finish {})].concat(), "no run goes on"),
        (
            [hello(TOKEN), line(&Ask::Run { flows: 1, duration_s: 1e9, reverse: false, tcp: vec![] })].concat(),
            "expected at most 120",
        ),
        (
            [hello(TOKEN), b"{\"type\": \"run\", \"flows\": 1e9, \"duration_s\": 1, \"reverse\": true}\n".to_vec()]
                .concat(),
            "invalid type",
        ),
    ] {
        let said = refused(says);
        assert!(said.contains(reason), "{said:?}, not {reason:?}");
    }
    // Data that nobody asked for, from somebody who says nothing.
    let said = talk(&server, Vec::new(), true, 8.0).1;
    assert!(said.contains("data came before"), "{said}");
    let welcome = talk(&server, [hello(TOKEN), line(&Ask::Clock { number: 7 })].concat(), false, 0.5);
    assert!(welcome.0.contains("welcome") && welcome.0.contains("\"number\":7"), "{welcome:?}");
}

#[test]
fn a_token_is_64_digits_and_is_not_printed() {
    for wrong in ["", "ab", &TOKEN[1..], &TOKEN.replace('f', "F"), &TOKEN.replace('f', "g")] {
        let error = Identity::of_token(&Token(wrong.into())).err().unwrap().to_string();
        assert!(error.contains("expected 64 hexadecimal digits"), "{error}");
    }
    let ask = Ask::Hello { version: VERSION, token: Token(TOKEN.into()) };
    assert!(!format!("{ask:?}").contains(TOKEN) && String::from_utf8(line(&ask)).unwrap().contains(TOKEN));
}

/// Sends `bytes` over TCP to the server; whether it keeps the connection open for a while.
fn stays_open(server: &Server, bytes: &[u8]) -> bool {
    let mut connection = TcpStream::connect(server.1).unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    // One that is closed already may say so here, or when it is read.
    let _ = connection.write_all(bytes);
    matches!(connection.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn no_tcp_connection_stays_without_a_ticket() {
    let server = Server::start("tickets");
    assert!(!stays_open(&server, b"ccarena\n"), "nobody is expected");
    let tcp = vec![TcpFlow { flow: 1, start_ns: 0 }];
    let run = line(&Ask::Run { flows: 2, duration_s: 9.0, reverse: false, tcp });
    let mut had = false;
    let (heard, closed) = talk_while(&server, [hello(TOKEN), run].concat(), false, 3.0, |heard| {
        let started = heard.lines().filter_map(|text| Answer::parse(text.as_bytes()).ok());
        let Some(tickets) = started
            .filter_map(|answer| match answer {
                Answer::Started { tickets, .. } => Some(tickets),
                _ => None,
            })
            .next()
            .filter(|_| !had)
        else {
            return;
        };
        had = true;
        assert_eq!(tickets.len(), 1);
        let preamble = tickets[0].preamble();
        let mut wrong = preamble.clone();
        wrong[20] ^= 1;
        assert!(!stays_open(&server, b"GET / HTTP/1.1\r\n\r\n") && !stays_open(&server, &wrong));
        // The server holds silent connections for a while, but only so many: the oldest make room.
        let silent: Vec<TcpStream> = (0..80).map(|_| TcpStream::connect(server.1).unwrap()).collect();
        assert!(stays_open(&server, &preamble), "the right one is let in");
        let is_closed = |connection: &TcpStream| {
            connection.set_nonblocking(true).unwrap();
            !matches!(connection.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
        };
        assert!(is_closed(&silent[0]) && !stays_open(&server, &preamble), "a ticket is good once");
    });
    assert!(had && closed.is_empty(), "{heard} {closed}");
}

#[test]
fn silence_is_not_waited_for() {
    let server = Server::start("silence");
    assert!(talk(&server, Vec::new(), false, 8.0).1.contains("no first line within 5 s"));
}
