//! One request alone, outside any load: for what must be known before.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use tokio::task::LocalSet;

use super::alarm::Alarm;
use super::line::{self, Broken, Open, Way};
use super::order::Order;
use super::runtime;
use crate::clock::{self, now_ns};
use crate::target::Target;
use crate::tls::Tls;
use crate::traffic::Exchange;

/// A whole answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// All of the body.
    pub body: Vec<u8>,
}

/// Whom to ask, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct Site<'s> {
    /// The server.
    pub server: SocketAddr,
    /// Name that it is asked for.
    pub host: &'s str,
    /// How the connection is encrypted, if it is.
    pub tls: Option<&'s Tls>,
    /// Longest time to wait for the whole answer.
    pub patience: Duration,
    /// Largest body taken.
    pub limit_bytes: usize,
}

/// Sees whether the server takes a connection and, where that is encrypted, can be trusted and offers HTTP/2.
pub fn reach(site: Site<'_>) -> Result<()> {
    with_line(site, async |_| Ok(()))
}

/// Asks once, over a connection of its own. Errors say what the server did instead of answering.
pub fn ask(site: Site<'_>, exchange: &Exchange) -> Result<Answer> {
    let order = Order::new(exchange, site.host, site.tls.is_some())?;
    with_line(site, async |open| {
        answer(open, &order, site.limit_bytes).await
    })
}

fn with_line<T>(site: Site<'_>, work: impl AsyncFnOnce(Open) -> Result<T>) -> Result<T> {
    let target = Target {
        server: site.server,
        sources: Vec::new(),
        bits_per_s: Vec::new(),
        stamps: false,
        first: 0,
    };
    let way = Way::new(target, site.tls)?;
    let runtime = runtime()?;
    LocalSet::new().block_on(&runtime, async {
        let alarm = Rc::new(Alarm::new()?);
        tokio::task::spawn_local(Rc::clone(&alarm).run());
        let until_ns = now_ns().saturating_add(clock::ns(site.patience));
        let work = async { work(way.open(0).await.map_err(told)?).await };
        let done = alarm.within(until_ns, 0, work).await;
        done.ok_or_else(|| anyhow!("no answer over HTTP/2 within {:?}", site.patience))?
    })
}

/// Why there is no connection, for a reader who can do something about it.
fn told(why: Broken) -> anyhow::Error {
    match why {
        Broken::Connect(why) => anyhow!("server not reachable: {why}"),
        Broken::Secure(why) => anyhow!(
            "no https with this server over HTTP/2: {why} (trust its authority with --ca FILE, or take any \
             certificate with --insecure)"
        ),
        Broken::Refused => {
            anyhow!("server offers no HTTP/2 over TLS (leave --http2 out)")
        }
        Broken::Speak(why) => anyhow!("no HTTP/2: {why} ({REMEDY})"),
    }
}

const REMEDY: &str = "does the server speak it? without --http2 it is asked over HTTP/1.1";

async fn answer(open: Open, order: &Order, limit_bytes: usize) -> Result<Answer> {
    let ready = open.sender.clone().ready().await;
    let mut sender = ready.with_context(|| format!("no HTTP/2 ({REMEDY})"))?;
    let is_bodiless = order.body.is_empty();
    let (head, mut body) = sender.send_request(order.head.clone(), is_bodiless)?;
    if !is_bodiless {
        body.send_data(order.body.clone(), true)?;
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
    line::read(head.into_body(), take)
        .await
        .context("answer not whole")?;
    ensure!(
        length <= limit_bytes,
        "answer too long to learn: {length} bytes (check its status alone with --no-check-content)"
    );
    Ok(Answer { status, body })
}
