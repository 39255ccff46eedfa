//! Identity of a server: a raw public key (RFC 7250), which a client may pin, since no authority issues certificates
//! for experiments.

use std::sync::Arc;

use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use ring::digest;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, PeerIncompatible, SignatureScheme, version};

use crate::remote::Token;

/// Protocol of our endpoints within QUIC.
pub const PROTOCOL: &[u8] = b"ccarena/1";
/// Beginning of an Ed25519 private key in PKCS #8, which its seed of 32 bytes follows (RFC 8410 §7).
const PKCS8_ED25519: &[u8] = &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// Digits of a token.
const TOKEN_DIGITS: usize = 64;

/// Error of a missing secure endpoint.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A key cannot be made or used.
    #[error("cannot make the server's key; this is a bug in ccarena")]
    Key,
    /// Something that the TLS library refuses.
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] rustls::Error),
    /// A secret that is no token.
    #[error("the token is none; expected 64 hexadecimal digits, as `ccarena remote serve --token FILE` writes")]
    Token,
    /// The cryptography library lacks what QUIC begins with.
    #[error("TLS cannot be set up: no cipher suite for QUIC's first packets; this is a bug in ccarena")]
    Suite,
}

/// A server's identity: its key and what clients know it by.
pub struct Identity {
    config: rustls::ServerConfig,
    /// SHA-256 of the public key, in hexadecimal.
    pub fingerprint: String,
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

impl Identity {
    /// A new one.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn generate() -> Result<Self, TlsError> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(|_| TlsError::Key)?;
        Self::of_key(document.as_ref().to_vec())
    }

    /// The identity that belongs to a token: whoever holds the token knows the fingerprint, and can be the server.
    ///
    /// # Errors
    /// If it is no token: the server shows its public key to everybody, so that a short token could be found by trying. If
    /// the library refuses.
    pub fn of_token(token: &Token) -> Result<Self, TlsError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if token.0.len() != TOKEN_DIGITS || !token.0.bytes().all(is_digit) {
            return Err(TlsError::Token);
        }
        let seed = digest::digest(&digest::SHA256, format!("ccarena server key {}", token.0).as_bytes());
        Self::of_key([PKCS8_ED25519, seed.as_ref()].concat())
    }

    /// The identity with a private key in PKCS #8.
    fn of_key(document: Vec<u8>) -> Result<Self, TlsError> {
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(document));
        let key = rustls::crypto::ring::sign::any_supported_type(&key)?;
        let public = key.public_key().ok_or(TlsError::Key)?.into_owned();
        let fingerprint = fingerprint(&public);
        let key = CertifiedKey::new(vec![CertificateDer::from(public.to_vec())], key);
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::new(key))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self { config, fingerprint })
    }

    /// The stack's configuration.
    ///
    /// # Errors
    /// If the library refuses.
    pub fn config(&self) -> Result<noq_proto::ServerConfig, TlsError> {
        let crypto = QuicServerConfig::try_from(self.config.clone()).map_err(|_| TlsError::Suite)?;
        let mut config = noq_proto::ServerConfig::with_crypto(Arc::new(crypto));
        // A connection's controller knows the path that it began on.
        config.migration(false);
        Ok(config)
    }
}

/// The configuration of a client that accepts the server with this `fingerprint`, or any if none is given.
///
/// # Errors
/// If the library refuses.
pub fn client(fingerprint: Option<String>) -> Result<noq_proto::ClientConfig, TlsError> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { fingerprint, algorithms }))
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    let crypto = QuicClientConfig::try_from(config).map_err(|_| TlsError::Suite)?;
    Ok(noq_proto::ClientConfig::new(Arc::new(crypto)))
}

fn fingerprint(key: &[u8]) -> String {
    digest::digest(&digest::SHA256, key).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Accepts a server by its key.
#[derive(Debug)]
struct Pinned {
    fingerprint: Option<String>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.fingerprint {
            Some(expected) if !expected.eq_ignore_ascii_case(&fingerprint(key)) => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // QUIC has no older TLS (RFC 9001 §4.2).
        Err(PeerIncompatible::Tls12NotOffered.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(key.as_ref()),
            signature,
            &self.algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
