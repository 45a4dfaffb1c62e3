//! A connection that is opened when needed, and reopened after it has ended.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;

use anyhow::Result;
use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Reason, RecvStream};
use record::load::Fault;
use rustls::AlertDescription;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio_rustls::TlsConnector;

use super::request::PreparedRequest;
use crate::clock::now_ns;
use crate::counters::{Counters, InFlight, Success};
use crate::expect::Check;
use crate::sys;
use crate::target::Target;
use crate::tls::{self, Tls};

/// Flow-control windows of a stream and of a connection. They are as large as in browsers, so that
/// they do not limit the server.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// Most tries of a request if the server closes each connection without a response.
const MAX_TRIES: u32 = 3;

/// Most refusals of a request that are answered with another try.
const MAX_REFUSALS: u32 = 16;

/// Phase of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Awaiting,
    Reading,
}

impl Phase {
    /// The fault if the deadline passes in this phase.
    pub(super) fn time_out(self) -> Fault {
        match self {
            Self::Connecting => Fault::ConnectTimeout,
            Self::Awaiting => Fault::FirstByteTimeout,
            Self::Reading => Fault::WholeTimeout,
        }
    }
}

/// Opens connections.
pub(super) struct Connector {
    target: Target,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    pub(super) fn new(target: Target, tls: Option<&Tls>) -> Result<Self> {
        let configured = tls.map(|tls| tls::configure(tls, b"h2")).transpose()?;
        let tls = configured.map(|(config, name)| (TlsConnector::from(config), name));
        Ok(Self { target, tls })
    }

    /// Opens connection number `number`.
    pub(super) async fn open(&self, number: u32) -> Result<OpenConnection, ConnectError> {
        let stream = self.connect(number).await.map_err(ConnectError::Connect)?;
        let Some((connector, name)) = &self.tls else {
            return start(stream).await;
        };
        let stream = connector.connect(name.clone(), stream).await;
        let stream = stream.map_err(ConnectError::from_tls)?;
        // A server that only speaks HTTP/1.1 either rejects ALPN or ignores it.
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => start(stream).await,
            Some(_) | None => Err(ConnectError::Refused),
        }
    }

    async fn connect(&self, number: u32) -> io::Result<TcpStream> {
        let server = self.target.server(number);
        let socket = sys::socket(server, self.target.source(number))?;
        sys::connect(&socket, server)?;
        socket.set_nodelay(true)?;
        let stream = TcpStream::from_std(socket)?;
        stream.writable().await?;
        match stream.take_error()? {
            Some(why) => Err(why),
            None => Ok(stream),
        }
    }
}

async fn start<S>(stream: S) -> Result<OpenConnection, ConnectError>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let handshake = client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake(stream)
        .await;
    let (sender, connection) = handshake.map_err(ConnectError::Http2)?;
    let close_reason = Rc::new(Cell::new(None));
    let reason = Rc::clone(&close_reason);
    let driver = tokio::task::spawn_local(async move {
        reason.set(Some(match connection.await {
            Ok(()) => CloseReason::Silent,
            Err(why) if why.is_io() => CloseReason::Silent,
            Err(why) => CloseReason::Failed(fault(&why)),
        }));
    });
    Ok(OpenConnection {
        sender,
        close_reason,
        has_served: Rc::new(Cell::new(false)),
        _driver: Rc::new(DriverTask(driver)),
    })
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum ConnectError {
    Connect(io::Error),
    Tls(io::Error),
    /// The server offers no HTTP/2 over TLS.
    Refused,
    Http2(h2::Error),
}

impl ConnectError {
    fn from_tls(why: io::Error) -> Self {
        const NO_HTTP2: rustls::Error =
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol);
        let inner = why.get_ref().and_then(|inner| inner.downcast_ref());
        if inner == Some(&NO_HTTP2) {
            Self::Refused
        } else {
            Self::Tls(why)
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Connect(why) => sys::connect_fault(why),
            Self::Tls(_) | Self::Refused => Fault::ConnectFailed,
            Self::Http2(why) => fault(why),
        }
    }
}

/// Why a connection cannot be used for new requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseReason {
    /// It ended without an error code.
    Silent,
    /// It ended with a protocol error.
    Failed(Fault),
    /// The client no longer uses it.
    Forgotten,
}

/// A connection that is open as far as known.
#[derive(Clone)]
pub(super) struct OpenConnection {
    pub(super) sender: SendRequest<Bytes>,
    close_reason: Rc<Cell<Option<CloseReason>>>,
    has_served: Rc<Cell<bool>>,
    _driver: Rc<DriverTask>,
}

/// Ends the connection when the last clone is dropped.
struct DriverTask(tokio::task::JoinHandle<()>);

impl Drop for DriverTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection with many requests under way, reopened as needed.
pub(super) struct Connection {
    number: u32,
    connector: Rc<Connector>,
    open: Mutex<Option<OpenConnection>>,
}

/// Why a try failed.
struct Failure {
    fault: Fault,
    remedy: Remedy,
}

/// Whether and how a failed request is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// On the same connection. The server has not processed the request, so any method may be sent
    /// again (RFC 9113, section 8.7).
    Retry,
    /// On a new connection. The server has not processed the request, and takes no more requests on
    /// this connection.
    RetryElsewhere,
    /// On a new connection. A reused one was closed without an error code, and the request may have
    /// been processed.
    Reconnect,
    None,
}

impl Connection {
    pub(super) fn new(number: u32, connector: Rc<Connector>) -> Self {
        Self {
            number,
            connector,
            open: Mutex::new(None),
        }
    }

    /// Sends a request and checks its response. Tries again as described at `Remedy`.
    pub(super) async fn exchange(
        &self,
        request: &PreparedRequest,
        phase: &Cell<Phase>,
        counters: &RefCell<Counters>,
        in_flight: InFlight,
    ) -> Result<Success, Fault> {
        let (mut tries, mut refusals) = (1, 0);
        loop {
            phase.set(Phase::Connecting);
            let open = self.open(counters).await?;
            phase.set(Phase::Awaiting);
            let is_first = tries == 1;
            let failure = match open.exchange(request, phase, is_first).await {
                Ok(served) => return Ok(served),
                Err(failure) => failure,
            };
            match failure.remedy {
                Remedy::Retry | Remedy::RetryElsewhere if refusals < MAX_REFUSALS => {
                    refusals += 1;
                    counters.borrow_mut().retry_refused(in_flight);
                }
                Remedy::Reconnect if request.is_repeatable && tries < MAX_TRIES => {
                    tries += 1;
                    counters.borrow_mut().retry(in_flight);
                }
                Remedy::Retry | Remedy::RetryElsewhere | Remedy::Reconnect | Remedy::None => {
                    return Err(failure.fault);
                }
            }
            if failure.remedy != Remedy::Retry {
                self.forget(&open).await;
            }
        }
    }

    /// The open connection. If it must be opened, other requests wait meanwhile.
    async fn open(&self, counters: &RefCell<Counters>) -> Result<OpenConnection, Fault> {
        let mut place = self.open.lock().await;
        if let Some(open) = &*place
            && open.close_reason.get().is_none()
        {
            return Ok(open.clone());
        }
        if place.take().is_some() {
            counters.borrow_mut().connection_closed();
        }
        let open = self.connector.open(self.number).await;
        let open = open.map_err(|why| why.fault())?;
        counters.borrow_mut().connection_opened(now_ns());
        *place = Some(open.clone());
        Ok(open)
    }

    /// Stops using this connection for new requests; those under way may end.
    async fn forget(&self, open: &OpenConnection) {
        let place = self.open.lock().await;
        if let Some(each) = &*place
            && Rc::ptr_eq(&each.close_reason, &open.close_reason)
            && each.close_reason.get().is_none()
        {
            each.close_reason.set(Some(CloseReason::Forgotten));
        }
    }
}

impl OpenConnection {
    async fn exchange(
        &self,
        request: &PreparedRequest,
        phase: &Cell<Phase>,
        is_first: bool,
    ) -> Result<Success, Failure> {
        let was_reused = is_first && self.has_served.get();
        let failure = |why: h2::Error| self.failure(&why, phase.get(), was_reused);
        let mut sender = self.sender.clone().ready().await.map_err(failure)?;
        let is_bodiless = request.body.is_empty();
        let sent = sender.send_request(request.head.clone(), is_bodiless);
        let (response, mut body) = sent.map_err(failure)?;
        if !is_bodiless {
            body.send_data(request.body.clone(), true)
                .map_err(failure)?;
        }
        let sent_ns = now_ns();
        let response = response.await.map_err(failure)?;
        phase.set(Phase::Reading);
        self.has_served.set(true);
        let status = response.status().as_u16();
        let mut check = Check::new();
        check.restart(&request.expect);
        let take = |piece: &[u8]| check.feed(&request.expect, piece);
        read(response.into_body(), take).await.map_err(failure)?;
        let checked = check.close(&request.expect, status);
        checked.map_err(|fault| Failure {
            fault,
            remedy: Remedy::None,
        })?;
        Ok(Success {
            body_bytes: check.seen_bytes(),
            service_ns: now_ns().saturating_sub(sent_ns),
        })
    }

    /// Classifies an error.
    ///
    /// A request that is ended by `GOAWAY` was not processed, whatever the error code (RFC 9113,
    /// section 6.8). A connection that `was_reused` may be closed without an error code at any
    /// time.
    fn failure(&self, why: &h2::Error, phase: Phase, was_reused: bool) -> Failure {
        let (fault, is_silent) = match self.close_reason.get() {
            Some(CloseReason::Failed(fault)) if !why.is_reset() => (fault, false),
            Some(CloseReason::Failed(_)) => (fault(why), false),
            Some(CloseReason::Silent | CloseReason::Forgotten) | None => (fault(why), true),
        };
        let is_refused = why.reason() == Some(Reason::REFUSED_STREAM);
        let remedy = if phase != Phase::Awaiting {
            Remedy::None
        } else if why.is_remote() && why.is_go_away() {
            Remedy::RetryElsewhere
        } else if why.is_remote() && is_refused {
            Remedy::Retry
        } else if why.is_io() && is_silent && was_reused {
            Remedy::Reconnect
        } else {
            Remedy::None
        };
        Failure { fault, remedy }
    }
}

/// Reads a body and returns flow-control capacity to the server.
pub(super) async fn read(
    mut body: RecvStream,
    mut take: impl FnMut(&[u8]),
) -> Result<(), h2::Error> {
    while let Some(piece) = body.data().await {
        let piece = piece?;
        take(&piece);
        body.flow_control().release_capacity(piece.len())?;
    }
    Ok(())
}

/// Maps a protocol error to a fault.
pub(super) fn fault(why: &h2::Error) -> Fault {
    match why.get_io().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset) => Fault::Reset,
        Some(_) => Fault::EarlyClose,
        None if why.is_remote() && why.is_reset() => Fault::Reset,
        None if why.is_remote() => Fault::EarlyClose,
        None => Fault::Malformed,
    }
}
