//! The server before the load: checks that it is reachable, and opens single connections.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustls::{ClientConnection, StreamOwned};

use crate::http2;
use crate::tls::{Tls, Trust, configure};
use crate::traffic::Protocol;
use crate::url::{Scheme, Url};

/// Longest wait of each operation.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A server that was reached.
pub struct Server {
    /// The first address that accepted a connection.
    pub address: SocketAddr,
    /// Value of the `Host` header.
    pub host: String,
    /// TLS settings, if connections are encrypted.
    pub tls: Option<Tls>,
    /// HTTP version.
    pub protocol: Protocol,
}

/// A connection, encrypted or not.
pub trait ByteStream: Read + Write {}
impl<T: Read + Write> ByteStream for T {}

impl Server {
    /// Connects to the addresses of the URL's host in turn, until one accepts. With `tls`, also
    /// checks its certificate.
    ///
    /// # Errors
    /// The host is unknown, no address accepts a connection, or the certificate is not valid.
    pub fn reach(url: &Url, tls: Option<Tls>, protocol: Protocol) -> Result<Self> {
        let addresses = (&*url.lookup_name(), url.port).to_socket_addrs();
        let addresses = addresses.with_context(|| {
            format!(
                "unknown host: {} (write it as its name server knows it, or its address)",
                url.lookup_name()
            )
        })?;
        let mut last = anyhow!("host without an address: {} (write an address)", url.host);
        for address in addresses {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(_) => {
                    let server = Self {
                        address,
                        host: url.host_field(),
                        tls,
                        protocol,
                    };
                    match protocol {
                        Protocol::Http1 => drop(server.open()?),
                        Protocol::Http2 { .. } => http2::probe::check_reachable(server.http2(0))?,
                    }
                    return Ok(server);
                }
                Err(why) => {
                    let remedy = "is the server running, and on this port?";
                    last = anyhow!("server not reachable: {address}: {why} ({remedy})");
                }
            }
        }
        Err(last)
    }

    /// The same server at another address, on the same port.
    ///
    /// # Errors
    /// The address does not accept a connection.
    pub fn at_address(&self, address: IpAddr) -> Result<Self> {
        let server = Self {
            address: SocketAddr::new(address, self.address.port()),
            host: self.host.clone(),
            tls: self.tls.clone(),
            protocol: self.protocol,
        };
        let opened = server.open().with_context(|| {
            format!(
                "address that takes no connection: {address} (is it an address of this system, and \
                 does its server listen there? else take it out of addresses)"
            )
        });
        drop(opened?);
        Ok(server)
    }

    /// Reaches the server of a URL over HTTP/1.1. `trust` is called only for `https`.
    pub fn from_url(url: &str, trust: impl FnOnce() -> Result<Trust>) -> Result<Self> {
        let url = Url::read(url).map_err(anyhow::Error::msg)?;
        let tls = match url.scheme {
            Scheme::Http => None,
            Scheme::Https => Some(Tls {
                name: url.host.clone(),
                trust: trust()?,
                resumption: true,
            }),
        };
        Self::reach(&url, tls, Protocol::Http1)
    }

    /// The server for single requests over HTTP/2, with bodies of at most `limit_bytes`.
    pub fn http2(&self, limit_bytes: usize) -> http2::probe::Server<'_> {
        http2::probe::Server {
            server: self.address,
            host: &self.host,
            tls: self.tls.as_ref(),
            patience: PATIENCE,
            limit_bytes,
        }
    }

    /// Opens a connection and completes its TLS handshake.
    pub fn open(&self) -> Result<Box<dyn ByteStream>> {
        let stream = TcpStream::connect_timeout(&self.address, PATIENCE)
            .with_context(|| format!("server not reachable: {}", self.address))?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .context("cannot limit the time to wait")?;
        stream
            .set_write_timeout(Some(PATIENCE))
            .context("cannot limit the time to wait")?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(tls) => encrypt(stream, tls),
        }
    }
}

/// Completes the TLS handshake of a new connection.
fn encrypt(mut stream: TcpStream, tls: &Tls) -> Result<Box<dyn ByteStream>> {
    let (config, name) = configure(tls, b"http/1.1")?;
    let mut session = ClientConnection::new(config, name).context("cannot begin to encrypt")?;
    while session.is_handshaking() {
        session.complete_io(&mut stream).context(
            "no https with this server (write http://, or say whom to trust: bakeoff load has --ca FILE and --insecure, \
             a plan insecure = true)",
        )?;
    }
    Ok(Box::new(StreamOwned::new(session, stream)))
}
