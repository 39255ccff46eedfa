//! One flow over s2n-quic: `s2n-quic server` receives what `s2n-quic client` sends.

use std::env;
use std::error::Error;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::limits::Limits;
use s2n_quic::{Client, Server};

/// Flow-control windows, which are to bound nothing.
const WINDOW: u64 = 64 << 20;
const CHUNK: usize = 64 << 10;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    if env::args().nth(1).as_deref() == Some("server") { receive().await } else { send().await }
}

async fn receive() -> Result<()> {
    let mut server = Server::builder()
        .with_tls((Path::new("cert.pem"), Path::new("key.pem")))?
        .with_io(SocketAddr::new(variable("RECEIVER")?.parse()?, port()?))?
        .with_limits(limits()?)?
        .start()?;
    let mut connection = server.accept().await.ok_or("no connection")?;
    let mut stream = connection.accept_receive_stream().await?.ok_or("no stream")?;
    let counted = env::var_os("CCARENA_RECEIVED").map(File::create).transpose()?;
    let mut bytes = 0;
    while let Some(chunk) = stream.receive().await? {
        bytes += chunk.len() as u64;
        if let Some(file) = &counted {
            file.set_len(bytes)?;
        }
    }
    Ok(())
}

async fn send() -> Result<()> {
    let builder = Client::builder()
        .with_tls(Path::new("cert.pem"))?
        .with_io(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?
        .with_limits(limits()?)?;
    let mut client = match variable("CONTROL")?.as_str() {
        "cubic" => builder.with_congestion_controller(Cubic::default())?.start()?,
        "bbr" => builder.with_congestion_controller(Bbr::default())?.start()?,
        other => return Err(format!("unknown congestion control {other}").into()),
    };
    let to = SocketAddr::new(variable("RECEIVER")?.parse()?, port()?);
    let mut connection = client.connect(Connect::new(to).with_server_name("stack")).await?;
    let mut stream = connection.open_send_stream().await?;
    let mut left: u64 = variable("BYTES").map_or(Ok(u64::MAX), |bytes| bytes.parse())?;
    let zeros = vec![0; CHUNK];
    while left > 0 {
        let part = left.min(CHUNK as u64);
        stream.send(zeros[..part as usize].to_vec().into()).await?;
        left -= part;
    }
    stream.close().await?;
    client.wait_idle().await?;
    Ok(())
}

fn limits() -> Result<Limits> {
    let limits = Limits::new().with_data_window(WINDOW)?.with_unidirectional_data_window(WINDOW)?;
    Ok(limits.with_max_send_buffer_size(u32::try_from(WINDOW)?)?)
}

fn variable(name: &str) -> Result<String> {
    let name = format!("CCARENA_{name}");
    env::var(&name).map_err(|error| format!("{name}: {error}").into())
}

fn port() -> Result<u16> {
    Ok(variable("PORT")?.parse()?)
}
