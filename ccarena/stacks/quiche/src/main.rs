//! One flow over quiche: `quiche server` receives what `quiche client` sends.
//!
//! quiche leaves sockets and clocks to its user. The sender keeps to the times that quiche's pacing gives to packets.

use std::env;
use std::error::Error;
use std::fs::File;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quiche::{Config, Connection, ConnectionId, RecvInfo};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Flow-control windows, which are to bound nothing.
const WINDOW: u64 = 64 << 20;
const CHUNK: usize = 64 << 10;
const DATAGRAM: usize = 1350;
const ID: [u8; 16] = [7; 16];
/// The first unidirectional stream of a client.
const STREAM: u64 = 2;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    if env::args().nth(1).as_deref() == Some("server") { receive() } else { send() }
}

fn receive() -> Result<()> {
    let mut config = config()?;
    config.load_cert_chain_from_pem_file("cert.pem")?;
    config.load_priv_key_from_pem_file("key.pem")?;
    let socket = UdpSocket::bind(SocketAddr::new(variable("RECEIVER")?.parse()?, port()?))?;
    let (_, peer) = socket.peek_from(&mut [0; 65536])?;
    let connection = quiche::accept(&ConnectionId::from_ref(&ID), None, socket.local_addr()?, peer, &mut config)?;
    let counted = env::var_os("CCARENA_RECEIVED").map(File::create).transpose()?;
    let mut buffer = vec![0; CHUNK];
    let mut bytes = 0;
    run(connection, &socket, |connection| {
        while let Ok((part, last)) = connection.stream_recv(STREAM, &mut buffer) {
            bytes += part as u64;
            if last {
                let _ = connection.close(true, 0, b"");
            }
        }
        counted.as_ref().map_or(Ok(()), |file| file.set_len(bytes))
    })
}

fn send() -> Result<()> {
    let to = SocketAddr::new(variable("RECEIVER")?.parse()?, port()?);
    let socket = UdpSocket::bind(SocketAddr::new(variable("SENDER")?.parse()?, 0))?;
    let connection =
        quiche::connect(None, &ConnectionId::from_ref(&ID), socket.local_addr()?, to, &mut config()?)?;
    let mut left: u64 = variable("BYTES").map_or(Ok(u64::MAX), |bytes| bytes.parse())?;
    let zeros = vec![0; CHUNK];
    run(connection, &socket, |connection| {
        while connection.is_established() && left > 0 {
            let part = left.min(CHUNK as u64);
            match connection.stream_send(STREAM, &zeros[..part as usize], part == left) {
                Ok(sent) if sent > 0 => left -= sent as u64,
                _ => break,
            }
        }
        Ok(())
    })
}

/// Moves packets between `connection` and `socket` until the connection is closed, calling `work` when it may go on.
fn run(
    mut connection: Connection,
    socket: &UdpSocket,
    mut work: impl FnMut(&mut Connection) -> std::io::Result<()>,
) -> Result<()> {
    socket.set_nonblocking(true)?;
    let local = socket.local_addr()?;
    let mut incoming = vec![0; 65536];
    let mut outgoing = [0; DATAGRAM];
    let mut waiting: Option<(usize, Instant, SocketAddr)> = None;
    while !connection.is_closed() {
        loop {
            match socket.recv_from(&mut incoming) {
                // A packet that quiche cannot use is its peer's fault.
                Ok((length, from)) => drop(connection.recv(&mut incoming[..length], RecvInfo { from, to: local })),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error.into()),
            }
        }
        work(&mut connection)?;
        loop {
            if waiting.is_none() {
                waiting = connection.send(&mut outgoing).ok().map(|(length, info)| (length, info.at, info.to));
            }
            let Some((length, at, to)) = waiting else { break };
            if at > Instant::now() {
                break;
            }
            match socket.send_to(&outgoing[..length], to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // As for a lost packet.
                _ => waiting = None,
            }
        }
        let due = waiting.map(|(_, at, _)| at.saturating_duration_since(Instant::now()));
        wait(socket, due.into_iter().chain(connection.timeout()).min().unwrap_or(Duration::from_secs(1)))?;
        connection.on_timeout();
    }
    Ok(())
}

/// Waits until `socket` has a packet, or for this time.
fn wait(socket: &UdpSocket, time: Duration) -> Result<()> {
    let time = Timespec { tv_sec: i64::try_from(time.as_secs())?, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn config() -> Result<Config> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"stack"])?;
    config.verify_peer(false);
    config.set_cc_algorithm_name(&variable("CONTROL")?)?;
    config.set_max_recv_udp_payload_size(65527);
    config.set_max_send_udp_payload_size(DATAGRAM);
    config.set_initial_max_data(WINDOW);
    config.set_initial_max_stream_data_uni(WINDOW);
    config.set_initial_max_streams_uni(1);
    // By default a stream takes one window, which BBR takes for the application's limit.
    config.set_send_capacity_factor(4.0);
    config.set_max_connection_window(WINDOW);
    config.set_max_stream_window(WINDOW);
    Ok(config)
}

fn variable(name: &str) -> Result<String> {
    let name = format!("CCARENA_{name}");
    env::var(&name).map_err(|error| format!("{name}: {error}").into())
}

fn port() -> Result<u16> {
    Ok(variable("PORT")?.parse()?)
}
