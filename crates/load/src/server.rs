//! The server before the load: whether it is there, and one question at a time.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use rustls::{ClientConnection, StreamOwned};

use crate::http2;
use crate::tls::{Tls, Trust, configure};
use crate::traffic::Protocol;
use crate::url::{Scheme, Url};

/// Longest time to wait for anything.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Where requests go, and how.
pub struct Server {
    /// The first of its addresses that took a connection.
    pub address: SocketAddr,
    /// Value of the `Host` header.
    pub host: String,
    /// How connections are encrypted, if they are.
    pub tls: Option<Tls>,
    /// What is spoken.
    pub protocol: Protocol,
}

/// A connection, encrypted or not.
pub trait ByteStream: Read + Write {}
impl<T: Read + Write> ByteStream for T {}

impl Server {
    /// The first address of the URL's host that takes a connection, and where it is to be encrypted
    /// one that can be trusted.
    pub fn reach(url: &Url, tls: Option<Tls>, protocol: Protocol) -> Result<Self> {
        let places = (&*url.lookup_name(), url.port).to_socket_addrs();
        let places = places.with_context(|| {
            format!(
                "unknown host: {} (write it as its name server knows it, or its address)",
                url.lookup_name()
            )
        })?;
        let mut last = anyhow!("host without an address: {} (write an address)", url.host);
        for server in places {
            match TcpStream::connect_timeout(&server, PATIENCE) {
                Ok(_) => {
                    let server = Self {
                        address: server,
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
                    last = anyhow!("server not reachable: {server}: {why} ({remedy})");
                }
            }
        }
        Err(last)
    }

    /// Another address of the same server, once it has taken a connection.
    ///
    /// # Errors
    /// Says which address took none.
    pub fn beside(&self, address: IpAddr) -> Result<Self> {
        let server = Self {
            address: SocketAddr::new(address, self.address.port()),
            host: self.host.clone(),
            tls: self.tls.clone(),
            protocol: self.protocol,
        };
        let remedy = "is it an address of this system, and does its server listen there? else take it out of addresses";
        let opened = server.open();
        drop(
            opened.with_context(|| {
                format!("address that takes no connection: {address} ({remedy})")
            })?,
        );
        Ok(server)
    }

    /// The same of a URL as it was typed, over HTTP/1.1; whom to trust is asked where it is https.
    pub fn of(url: &str, trust: impl FnOnce() -> Result<Trust>) -> Result<Self> {
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

    /// The server as HTTP/2 asks it, for responses of so many bytes.
    pub fn http2(&self, limit_bytes: usize) -> http2::probe::Server<'_> {
        http2::probe::Server {
            server: self.address,
            host: &self.host,
            tls: self.tls.as_ref(),
            patience: PATIENCE,
            limit_bytes,
        }
    }

    /// A new connection, its handshake done.
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

/// Encrypts a new connection, or says why the server is not to be trusted.
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
