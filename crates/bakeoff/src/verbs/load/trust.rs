//! An encrypted connection for the questions before the load, on the same terms as those of the
//! load.

use std::net::TcpStream;
use std::sync::Arc;

use anyhow::{Context, Result};
use load::tls::{Tls, Trust};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    StreamOwned,
};

use super::site::Line;

/// Encrypts a new connection, or says why the server is not to be trusted.
pub(super) fn secure(mut stream: TcpStream, tls: &Tls) -> Result<Box<dyn Line>> {
    let name = ServerName::try_from(tls.name.clone())
        .with_context(|| format!("not a server's name: {:?} (write a host name)", tls.name))?;
    let mut session = ClientConnection::new(Arc::new(config(&tls.trust)?), name)
        .context("cannot begin to encrypt")?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).context(
            "no https with this server (trust its authority with --ca FILE, \
             take any certificate with --insecure, or write http://)",
        )?;
    }
    Ok(Box::new(StreamOwned::new(session, stream)))
}

fn config(trust: &Trust) -> Result<ClientConfig> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .context("cannot offer any version of TLS")?;
    let mut config = match trust {
        Trust::Anything => config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
            .with_no_client_auth(),
        Trust::Roots(roots) => {
            let mut store = RootCertStore::empty();
            store.add_parsable_certificates(roots.iter().cloned().map(CertificateDer::from));
            config.with_root_certificates(store).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Takes any certificate, but asks for proof of its key.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            cert,
            signed,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
