//! One flow over quinn: `quinn server` receives what `quinn client` sends.

use std::env;
use std::error::Error;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Flow-control windows, which are to bound nothing.
const WINDOW: u32 = 64 << 20;
const CHUNK: usize = 64 << 10;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    if env::args().nth(1).as_deref() == Some("server") { receive().await } else { send().await }
}

async fn receive() -> Result<()> {
    let certificate = CertificateDer::from_pem_file("cert.pem")?;
    let key = PrivateKeyDer::from_pem_file("key.pem")?;
    let mut config = ServerConfig::with_single_cert(vec![certificate], key)?;
    config.transport_config(transport()?);
    let endpoint = Endpoint::server(config, SocketAddr::new(variable("RECEIVER")?.parse()?, port()?))?;
    let connection = endpoint.accept().await.ok_or("no connection")?.await?;
    let mut stream = connection.accept_uni().await?;
    let counted = env::var_os("CCARENA_RECEIVED").map(File::create).transpose()?;
    let mut bytes = 0;
    while let Some(chunk) = stream.read_chunk(CHUNK, true).await? {
        bytes += chunk.bytes.len() as u64;
        if let Some(file) = &counted {
            file.set_len(bytes)?;
        }
    }
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(())
}

async fn send() -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file("cert.pem")?)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    config.transport_config(transport()?);
    let mut endpoint = Endpoint::client(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
    endpoint.set_default_client_config(config);
    let to = SocketAddr::new(variable("RECEIVER")?.parse()?, port()?);
    let connection = endpoint.connect(to, "stack")?.await?;
    let mut stream = connection.open_uni().await?;
    let mut left: u64 = variable("BYTES").map_or(Ok(u64::MAX), |bytes| bytes.parse())?;
    let zeros = vec![0; CHUNK];
    while left > 0 {
        left -= stream.write(&zeros[..left.min(CHUNK as u64) as usize]).await? as u64;
    }
    stream.finish()?;
    connection.closed().await;
    Ok(())
}

fn transport() -> Result<Arc<TransportConfig>> {
    let control: Arc<dyn ControllerFactory + Send + Sync> = match variable("CONTROL")?.as_str() {
        "cubic" => Arc::new(CubicConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        "newreno" => Arc::new(NewRenoConfig::default()),
        other => return Err(format!("unknown congestion control {other}").into()),
    };
    let mut transport = TransportConfig::default();
    transport.congestion_controller_factory(control).send_window(WINDOW.into());
    transport.receive_window(WINDOW.into()).stream_receive_window(WINDOW.into());
    Ok(Arc::new(transport))
}

fn variable(name: &str) -> Result<String> {
    let name = format!("CCARENA_{name}");
    env::var(&name).map_err(|error| format!("{name}: {error}").into())
}

fn port() -> Result<u16> {
    Ok(variable("PORT")?.parse()?)
}
