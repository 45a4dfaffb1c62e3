//! An encrypted connection for the questions before the load, on the same terms as those of the
//! load.

use std::net::TcpStream;

use anyhow::{Context, Result};
use load::tls::{Tls, configure};
use rustls::{ClientConnection, StreamOwned};

use crate::server::ByteStream;

/// Encrypts a new connection, or says why the server is not to be trusted.
pub(crate) fn encrypt(mut stream: TcpStream, tls: &Tls) -> Result<Box<dyn ByteStream>> {
    let (config, name) = configure(tls, b"http/1.1")?;
    let mut session = ClientConnection::new(config, name).context("cannot begin to encrypt")?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).context(
            "no https with this server (name its CA with --ca FILE, \
             take any certificate with --insecure, or write http://)",
        )?;
    }
    Ok(Box::new(StreamOwned::new(session, stream)))
}
