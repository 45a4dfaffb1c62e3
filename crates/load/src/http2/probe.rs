//! Single requests over HTTP/2, for probing a server before the load.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use tokio::task::LocalSet;

use super::connection::{self, ConnectError, Connector, OpenConnection};
use super::request::PreparedRequest;
use super::runtime;
use super::timers::Timers;
use crate::clock::{self, now_ns};
use crate::exchange::Exchange;
use crate::target::Target;
use crate::tls::Tls;

/// A complete response.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Body.
    pub body: Vec<u8>,
}

/// The server of a request, and its limits.
#[derive(Debug, Clone, Copy)]
pub struct Server<'s> {
    /// Address of the server.
    pub server: SocketAddr,
    /// Value of the `Host` field.
    pub host: &'s str,
    /// TLS settings, if the connection is encrypted.
    pub tls: Option<&'s Tls>,
    /// Time limit of the whole exchange.
    pub patience: Duration,
    /// Largest accepted body.
    pub limit_bytes: usize,
}

/// Checks that the server accepts a connection and, over TLS, that its certificate is valid and it
/// offers HTTP/2.
pub fn check_reachable(server: Server<'_>) -> Result<()> {
    with_connection(server, async |_| Ok(()))
}

/// Sends one request over a new connection. Errors describe the server's failure.
pub fn request(server: Server<'_>, exchange: &Exchange) -> Result<Response> {
    let request = PreparedRequest::new(exchange, server.host, server.tls.is_some())?;
    with_connection(server, async |open| {
        receive(open, &request, server.limit_bytes).await
    })
}

fn with_connection<T>(
    server: Server<'_>,
    work: impl AsyncFnOnce(OpenConnection) -> Result<T>,
) -> Result<T> {
    let target = Target {
        servers: vec![server.server],
        sources: Vec::new(),
        bits_per_s: Vec::new(),
        stamps: false,
        first: 0,
    };
    let connector = Connector::new(target, server.tls)?;
    let runtime = runtime()?;
    LocalSet::new().block_on(&runtime, async {
        let timers = Rc::new(Timers::new()?);
        tokio::task::spawn_local(Rc::clone(&timers).run());
        let until_ns = now_ns().saturating_add(clock::ns(server.patience));
        let work = async { work(connector.open(0).await.map_err(explain)?).await };
        let done = timers.within(until_ns, 0, work).await;
        done.ok_or_else(|| anyhow!("no response over HTTP/2 within {:?}", server.patience))?
    })
}

/// Explains why there is no connection.
fn explain(why: ConnectError) -> anyhow::Error {
    match why {
        ConnectError::Connect(why) => anyhow!("server not reachable: {why}"),
        ConnectError::Tls(why) => anyhow!(
            "no https with this server over HTTP/2: {why} (name its CA with --ca FILE, or take any \
             certificate with --insecure)"
        ),
        ConnectError::Refused => {
            anyhow!("server offers no HTTP/2 over TLS (leave --http2 out)")
        }
        ConnectError::Http2(why) => anyhow!("no HTTP/2: {why} ({REMEDY})"),
    }
}

const REMEDY: &str = "does the server speak it? without --http2 it is asked over HTTP/1.1";

async fn receive(
    open: OpenConnection,
    request: &PreparedRequest,
    limit_bytes: usize,
) -> Result<Response> {
    let ready = open.sender.clone().ready().await;
    let mut sender = ready.with_context(|| format!("no HTTP/2 ({REMEDY})"))?;
    let is_bodiless = request.body.is_empty();
    let (head, mut body) = sender.send_request(request.head.clone(), is_bodiless)?;
    if !is_bodiless {
        body.send_data(request.body.clone(), true)?;
    }
    let head = head
        .await
        .with_context(|| format!("no HTTP/2 ({REMEDY})"))?;
    let status = head.status().as_u16();
    let (mut body, mut length) = (Vec::new(), 0);
    let take = |piece: &[u8]| {
        length += piece.len();
        if length <= limit_bytes {
            body.extend_from_slice(piece);
        }
    };
    connection::read(head.into_body(), take)
        .await
        .context("response not whole")?;
    ensure!(
        length <= limit_bytes,
        "response too long to learn: {length} bytes (check its status alone with --no-check-content)"
    );
    Ok(Response { status, body })
}
