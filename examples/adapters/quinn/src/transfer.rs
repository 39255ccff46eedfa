//! A transfer over quinn: `transfer server` receives what `transfer client` sends.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use ccarena_quinn::Factory;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

#[path = "../../transfer.rs"]
mod transfer;
use transfer::{CHUNK, MTU, Result, WINDOW, bytes, control, end, receiver, receives};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    end(if receives() { receive().await } else { send().await })
}

async fn receive() -> Result<()> {
    let certificate = CertificateDer::from_pem_file("cert.pem")?;
    let key = PrivateKeyDer::from_pem_file("key.pem")?;
    let mut config = ServerConfig::with_single_cert(vec![certificate], key)?;
    config.transport_config(Arc::new(transport()));
    let endpoint = Endpoint::server(config, receiver()?)?;
    let connection = endpoint.accept().await.ok_or("no connection")?.await?;
    let mut stream = connection.accept_uni().await?;
    while stream.read_chunk(CHUNK, true).await?.is_some() {}
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(())
}

async fn send() -> Result<()> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file("cert.pem")?)?;
    let mut config = ClientConfig::with_root_certificates(Arc::new(roots))?;
    let (source, setting) = control()?;
    let mut transport = transport();
    transport.congestion_controller_factory(Arc::new(Factory::new(source, setting)?));
    config.transport_config(Arc::new(transport));
    let mut endpoint = Endpoint::client(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
    endpoint.set_default_client_config(config);
    let connection = endpoint.connect(receiver()?, "stack")?.await?;
    let mut stream = connection.open_uni().await?;
    let (mut left, zeros) = (bytes()?, vec![0; CHUNK]);
    while left > 0 {
        left -= stream.write(&zeros[..left.min(CHUNK as u64) as usize]).await? as u64;
    }
    stream.finish()?;
    connection.closed().await;
    Ok(())
}

/// Full packets from the start: a controller counts segments of the size that the connection begins with.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport.initial_mtu(MTU).min_mtu(MTU).mtu_discovery_config(None).send_window(WINDOW.into());
    transport.receive_window(WINDOW.into()).stream_receive_window(WINDOW.into());
    transport
}
