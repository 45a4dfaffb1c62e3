//! TLS for client connections. Encrypts and decrypts in memory; touches no socket.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// TLS settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Name that the certificate must be valid for: a host name or an address.
    pub name: String,
    /// Certificates to trust.
    pub trust: Trust,
    /// Whether connections resume TLS sessions, as browsers do.
    pub resumption: bool,
}

/// Certificates to trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// Any certificate.
    Any,
    /// Certificates of these authorities, each in DER.
    Roots(Vec<Vec<u8>>),
}

impl Trust {
    /// Reads the authorities of a PEM file, such as `/etc/ssl/certs/ca-certificates.crt`.
    pub fn from_pem(path: &Path) -> Result<Self> {
        let pem = std::fs::read(path)
            .with_context(|| format!("cannot read certificates: {}", path.display()))?;
        let roots: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
        let roots =
            roots.with_context(|| format!("not certificates in PEM: {}", path.display()))?;
        let roots = roots.iter().map(|root| root.to_vec());
        Ok(Self::Roots(roots.collect()))
    }
}

/// TLS configuration of one thread's connections. Threads share no sessions, so they need no lock.
#[derive(Debug, Clone)]
pub(crate) struct ClientTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Builds a configuration, and parses the server's name. `protocol` is the ALPN name, such as `h2`.
///
/// # Errors
/// The name or a certificate is not valid.
pub fn configure(tls: &Tls, protocol: &[u8]) -> Result<(Arc<ClientConfig>, ServerName<'static>)> {
    let name = ServerName::try_from(tls.name.clone());
    let name = name.with_context(|| format!("not a server's name: {:?}", tls.name))?;
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(&tls.trust, &provider)?;
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .context("cannot offer any version of TLS")?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    if !tls.resumption {
        config.resumption = Resumption::disabled();
    }
    Ok((Arc::new(config), name))
}

impl ClientTls {
    pub(crate) fn new(tls: &Tls) -> Result<Self> {
        let (config, name) = configure(tls, b"http/1.1")?;
        Ok(Self { config, name })
    }

    /// Starts a session. Appends the first handshake message to `out`.
    pub(crate) fn connect(&self, out: &mut Vec<u8>) -> Session {
        let session = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut session = session.expect("name and configuration were checked by `configure`");
        session.set_buffer_limit(None);
        let mut session = Session(session);
        session.flush(out);
        session
    }
}

fn verifier(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>> {
    let Trust::Roots(roots) = trust else {
        return Ok(Arc::new(AcceptAny(Arc::clone(provider))));
    };
    let mut store = RootCertStore::empty();
    for root in roots {
        let root = CertificateDer::from(root.clone());
        store
            .add(root)
            .context("not the certificate of an authority")?;
    }
    let provider = Arc::clone(provider);
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
    Ok(verifier.context("no authority to trust (name one, or trust anything)")?)
}

/// The TLS session of one connection.
#[derive(Debug)]
pub(crate) struct Session(ClientConnection);

impl Session {
    /// Whether the handshake is not complete.
    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Encrypts bytes. They are buffered until the handshake is complete.
    pub(crate) fn encrypt(&mut self, plain: &[u8], out: &mut Vec<u8>) {
        self.0
            .writer()
            .write_all(plain)
            .expect("the buffer has no limit");
        self.flush(out);
    }

    /// Decrypts bytes. Returns whether the server has sent a close notification.
    pub(crate) fn decrypt(
        &mut self,
        mut cipher: &[u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<bool, Error> {
        let mut has_closed = false;
        while !cipher.is_empty() {
            let taken = self.0.read_tls(&mut cipher);
            let taken = taken.map_err(|why| Error::General(why.to_string()))?;
            let state = self.0.process_new_packets()?;
            has_closed |= state.peer_has_closed();
            let mut reader = self.0.reader();
            while let Ok(piece) = reader.fill_buf() {
                let length = piece.len();
                if length == 0 {
                    break;
                }
                plain.extend_from_slice(piece);
                reader.consume(length);
            }
            if taken == 0 {
                break;
            }
        }
        self.flush(out);
        Ok(has_closed)
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        while self.0.wants_write() {
            self.0.write_tls(out).expect("a vector takes all");
        }
    }
}

/// Accepts every certificate, but still checks that the server has its key.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
