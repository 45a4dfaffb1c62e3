//! The server before the load: whether it is there, and one question at a time.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use load::http2;
use load::tls::Tls;
use load::traffic::Protocol;

use super::trust;
use super::url::Url;

/// Longest time to wait for anything.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A server that answers.
pub(super) struct Site {
    pub(super) server: SocketAddr,
    /// Value of the `Host` header.
    pub(super) host: String,
    pub(super) tls: Option<Tls>,
    pub(super) protocol: Protocol,
}

/// A connection, encrypted or not.
pub(super) trait Line: Read + Write {}
impl<T: Read + Write> Line for T {}

impl Site {
    /// The first address of the URL's host that takes a connection, and where it is to be encrypted
    /// one that can be trusted.
    pub(super) fn reach(url: &Url, tls: Option<Tls>, protocol: Protocol) -> Result<Self> {
        let places = (&*url.host, url.port).to_socket_addrs();
        let places = places.with_context(|| {
            format!(
                "unknown host: {} (write it as its name server knows it, or its address)",
                url.host
            )
        })?;
        let mut last = anyhow!("host without an address: {} (write an address)", url.host);
        for server in places {
            match TcpStream::connect_timeout(&server, PATIENCE) {
                Ok(_) => {
                    let site = Self {
                        server,
                        host: url.host_field(),
                        tls,
                        protocol,
                    };
                    match protocol {
                        Protocol::Http1 => drop(site.open()?),
                        Protocol::Http2 { .. } => http2::ask::reach(site.http2(0))?,
                    }
                    return Ok(site);
                }
                Err(why) => {
                    let remedy = "is the server running, and on this port?";
                    last = anyhow!("server not reachable: {server}: {why} ({remedy})");
                }
            }
        }
        Err(last)
    }

    /// The site as HTTP/2 asks it, for answers of so many bytes.
    pub(super) fn http2(&self, limit_bytes: usize) -> http2::ask::Site<'_> {
        http2::ask::Site {
            server: self.server,
            host: &self.host,
            tls: self.tls.as_ref(),
            patience: PATIENCE,
            limit_bytes,
        }
    }

    /// A new connection, its handshake done.
    pub(super) fn open(&self) -> Result<Box<dyn Line>> {
        let stream = TcpStream::connect_timeout(&self.server, PATIENCE)
            .with_context(|| format!("server not reachable: {}", self.server))?;
        stream
            .set_read_timeout(Some(PATIENCE))
            .context("cannot limit the time to wait")?;
        stream
            .set_write_timeout(Some(PATIENCE))
            .context("cannot limit the time to wait")?;
        match &self.tls {
            None => Ok(Box::new(stream)),
            Some(tls) => trust::secure(stream, tls),
        }
    }
}
