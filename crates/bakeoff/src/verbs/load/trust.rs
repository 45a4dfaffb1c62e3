//! An encrypted connection for the questions before the load, on the same terms as those of the load.

use std::net::TcpStream;

use anyhow::{Context, Result};
use load::tls::{self, Tls};
use rustls::{ClientConnection, StreamOwned};

use super::site::Line;

/// Encrypts a new connection, or says why the server is not to be trusted.
pub(super) fn secure(mut stream: TcpStream, tls: &Tls) -> Result<Box<dyn Line>> {
    let (config, name) = tls::configure(tls, b"http/1.1")?;
    let mut session = ClientConnection::new(config, name).context("cannot begin to encrypt")?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).context(
            "no https with this server (trust its authority with --ca FILE, \
             take any certificate with --insecure, or write http://)",
        )?;
    }
    Ok(Box::new(StreamOwned::new(session, stream)))
}
