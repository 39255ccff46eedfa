//! A transfer over tquic: `transfer server` receives what `transfer client` sends.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ccarena_tquic::Factory;
use tokio::net::UdpSocket;
use tokio::time::timeout;
use tquic::{Connection, Endpoint, Error, PacketInfo, PacketSendHandler, TlsConfig, TransportHandler};

#[path = "../../transfer.rs"]
mod transfer;
use transfer::{CHUNK, MTU, Result, WINDOW, bytes, control, end, receiver, receives};

/// Longest wait for a datagram without a timer.
const IDLE: Duration = Duration::from_secs(1);
const PROTOCOL: &[u8] = b"transfer";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    end(if receives() { receive().await } else { send().await })
}

async fn receive() -> Result<()> {
    let mut config = config()?;
    config.set_tls_config(TlsConfig::new_server_config("cert.pem", "key.pem", vec![PROTOCOL.to_vec()], false)?);
    let socket = Rc::new(Socket(UdpSocket::bind(receiver()?).await?));
    let closed = Rc::new(Cell::new(false));
    let transfer = Transfer { left: 0, closed: Rc::clone(&closed) };
    let endpoint = Endpoint::new(Box::new(config), true, Box::new(transfer), socket.clone());
    run(endpoint, &socket, &closed).await
}

async fn send() -> Result<()> {
    let (source, setting) = control()?;
    let mut config = config()?;
    config.set_congestion_controller_factory(Arc::new(Factory::new(source, setting)?));
    let mut tls = TlsConfig::new_client_config(vec![PROTOCOL.to_vec()], false)?;
    tls.set_ca_certs("cert.pem")?;
    tls.set_verify(true);
    config.set_tls_config(tls);
    let socket = Rc::new(Socket(UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?));
    // A route gives the socket the address that packets leave from.
    socket.0.connect(receiver()?).await?;
    let closed = Rc::new(Cell::new(false));
    let transfer = Transfer { left: bytes()?, closed: Rc::clone(&closed) };
    let mut endpoint = Endpoint::new(Box::new(config), false, Box::new(transfer), socket.clone());
    endpoint.connect(socket.0.local_addr()?, receiver()?, Some("stack"), None, None, None)?;
    run(endpoint, &socket, &closed).await
}

/// Full packets soon after the start: tquic finds that the path takes them.
fn config() -> Result<tquic::Config> {
    let mut config = tquic::Config::new()?;
    config.set_send_udp_payload_size(MTU.into());
    config.set_recv_udp_payload_size(MTU);
    config.set_max_connection_window(WINDOW.into());
    config.set_max_stream_window(WINDOW.into());
    config.set_initial_max_data(WINDOW.into());
    config.set_initial_max_stream_data_uni(WINDOW.into());
    Ok(config)
}

/// Serves the endpoint until its connection is closed.
async fn run(mut endpoint: Endpoint, socket: &Socket, closed: &Cell<bool>) -> Result<()> {
    let local = socket.0.local_addr()?;
    let mut buffer = vec![0; CHUNK];
    while !closed.get() {
        endpoint.process_connections()?;
        let wait = endpoint.timeout().unwrap_or(IDLE);
        if timeout(wait, socket.0.readable()).await.is_ok() {
            while let Ok((length, source)) = socket.0.try_recv_from(&mut buffer) {
                let info = PacketInfo { src: source, dst: local, time: Instant::now() };
                // A datagram that is none of QUIC's is ignored.
                let _ = endpoint.recv(&mut buffer[..length], &info);
            }
        }
        endpoint.on_timeout(Instant::now());
    }
    Ok(())
}

struct Socket(UdpSocket);

impl PacketSendHandler for Socket {
    fn on_packets_send(&self, packets: &[(Vec<u8>, PacketInfo)]) -> tquic::Result<usize> {
        for (count, (packet, info)) in packets.iter().enumerate() {
            let sent = match self.0.peer_addr() {
                Ok(_) => self.0.try_send(packet),
                Err(_) => self.0.try_send_to(packet, info.dst),
            };
            match sent {
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(count),
                Err(error) => return Err(Error::IoError(error.to_string())),
            }
        }
        Ok(packets.len())
    }
}

/// Sends or receives one stream.
struct Transfer {
    left: u64,
    closed: Rc<Cell<bool>>,
}

impl Transfer {
    fn write(&mut self, connection: &mut Connection, stream: u64) {
        while self.left > 0 {
            let part = self.left.min(CHUNK as u64);
            let bytes = Bytes::from(vec![0; part as usize]);
            match connection.stream_write(stream, bytes, part == self.left) {
                Ok(count) if count > 0 => self.left -= count as u64,
                _ => break,
            }
        }
        let _ = connection.stream_want_write(stream, self.left > 0);
    }
}

impl TransportHandler for Transfer {
    fn on_conn_created(&mut self, _: &mut Connection) {}

    fn on_conn_established(&mut self, connection: &mut Connection) {
        if self.left > 0
            && let Ok(stream) = connection.stream_uni_new(0, false)
        {
            self.write(connection, stream);
        }
    }

    fn on_conn_closed(&mut self, _: &mut Connection) {
        self.closed.set(true);
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        let mut buffer = [0; CHUNK];
        while let Ok((_, ended)) = connection.stream_read(stream, &mut buffer) {
            if ended {
                let _ = connection.close(true, 0, b"");
                return;
            }
        }
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        self.write(connection, stream);
    }

    fn on_stream_closed(&mut self, _: &mut Connection, _: u64) {}

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}
