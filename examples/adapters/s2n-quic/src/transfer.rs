//! A transfer over s2n-quic: `transfer server` receives what `transfer client` sends.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;

use ccarena_s2n_quic::Factory;
use s2n_quic::client::Connect;
use s2n_quic::provider::io::tokio::{Builder, Provider};
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};

#[path = "../../transfer.rs"]
mod transfer;
use transfer::{CHUNK, HEADER_BYTES, MTU, Result, WINDOW, bytes, control, end, receiver, receives};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    end(if receives() { receive().await } else { send().await })
}

async fn receive() -> Result<()> {
    let mut server = Server::builder()
        .with_tls((Path::new("cert.pem"), Path::new("key.pem")))?
        .with_io(udp(receiver()?)?)?
        .with_limits(limits()?)?
        .start()?;
    let mut connection = server.accept().await.ok_or("no connection")?;
    let mut stream = connection.accept_receive_stream().await?.ok_or("no stream")?;
    while stream.receive().await?.is_some() {}
    Ok(())
}

async fn send() -> Result<()> {
    let (source, setting) = control()?;
    let mut client = Client::builder()
        .with_tls(Path::new("cert.pem"))?
        .with_io(udp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?)?
        .with_limits(limits()?)?
        .with_congestion_controller(Factory::new(source, setting)?)?
        .start()?;
    let mut connection = client.connect(Connect::new(receiver()?).with_server_name("stack")).await?;
    let mut stream = connection.open_send_stream().await?;
    let (mut left, zeros) = (bytes()?, vec![0; CHUNK]);
    while left > 0 {
        let part = left.min(CHUNK as u64);
        stream.send(zeros[..part as usize].to_vec().into()).await?;
        left -= part;
    }
    stream.close().await?;
    client.wait_idle().await?;
    Ok(())
}

/// Full packets from the start: a controller counts segments of the size that the connection begins with.
fn udp(address: SocketAddr) -> Result<Provider> {
    let packet = MTU + u16::try_from(HEADER_BYTES)?;
    let builder = Builder::default().with_receive_address(address)?;
    Ok(builder.with_max_mtu(packet)?.with_initial_mtu(packet)?.with_base_mtu(packet)?.build()?)
}

fn limits() -> Result<Limits> {
    let limits = Limits::new().with_data_window(WINDOW.into())?.with_unidirectional_data_window(WINDOW.into())?;
    // RFC 9000's every other packet, not s2n-quic's every fourth: a delay-based controller sees the wait for the others.
    Ok(limits.with_max_send_buffer_size(WINDOW)?.with_ack_elicitation_interval(2)?)
}
