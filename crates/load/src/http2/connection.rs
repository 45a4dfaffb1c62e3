//! One connection, opened when first needed and again when it has ended.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::Result;
use bytes::Bytes;
use h2::client::{self, SendRequest};
use h2::{Reason, RecvStream};
use record::load::Fault;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, ClientConfig};
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

/// What a server may send before it must wait for this side, on one stream and on all of them: as
/// much as browsers allow, so that it is never the window that is measured.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// A server that ends every connection before it has answered anything is not asked for ever.
const MAX_TRIES: u32 = 3;

/// Nor is one that says of every request that it has not touched it.
const MAX_REFUSALS: u32 = 16;

/// How far a request has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Awaiting,
    Reading,
}

impl Phase {
    /// What a deadline that passes then is called.
    pub(super) fn time_out(self) -> Fault {
        match self {
            Self::Connecting => Fault::ConnectTimeout,
            Self::Awaiting => Fault::FirstByteTimeout,
            Self::Reading => Fault::WholeTimeout,
        }
    }
}

/// How connections are made.
pub(super) struct Connector {
    target: Target,
    secure: Option<(TlsConnector, ServerName<'static>)>,
}

impl Connector {
    pub(super) fn new(target: Target, tls: Option<&Tls>) -> Result<Self> {
        let secure = match tls {
            None => None,
            Some(tls) => {
                let (config, name): (Arc<ClientConfig>, _) = tls::configure(tls, b"h2")?;
                Some((TlsConnector::from(config), name))
            }
        };
        Ok(Self { target, secure })
    }

    /// A new connection for the slot `number`.
    pub(super) async fn open(&self, number: u32) -> Result<OpenConnection, ConnectError> {
        let stream = self.connect(number).await.map_err(ConnectError::Connect)?;
        let Some((connector, name)) = &self.secure else {
            return start(stream).await;
        };
        let stream = connector.connect(name.clone(), stream).await;
        let stream = stream.map_err(ConnectError::secure)?;
        // A server that speaks HTTP/1.1 alone either refuses the name of the protocol or passes
        // over it.
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
    let shake = client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .handshake(stream)
        .await;
    let (sender, connection) = shake.map_err(ConnectError::Speak)?;
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
    Secure(io::Error),
    /// The server offers no HTTP/2 over TLS.
    Refused,
    Speak(h2::Error),
}

impl ConnectError {
    fn secure(why: io::Error) -> Self {
        const NO_HTTP2: rustls::Error =
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol);
        let inner = why.get_ref().and_then(|inner| inner.downcast_ref());
        if inner == Some(&NO_HTTP2) {
            Self::Refused
        } else {
            Self::Secure(why)
        }
    }

    fn fault(&self) -> Fault {
        match self {
            Self::Connect(why) => sys::connect_fault(why),
            Self::Secure(_) | Self::Refused => Fault::ConnectFailed,
            Self::Speak(why) => fault(why),
        }
    }
}

/// How a connection ended, or that it must not be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseReason {
    /// Without a word of why.
    Silent,
    /// One of the two sides found fault with the other.
    Failed(Fault),
    /// This side has put it away.
    Forgotten,
}

/// A connection that is open, as far as is known.
#[derive(Clone)]
pub(super) struct OpenConnection {
    pub(super) sender: SendRequest<Bytes>,
    close_reason: Rc<Cell<Option<CloseReason>>>,
    has_served: Rc<Cell<bool>>,
    _driver: Rc<DriverTask>,
}

/// Ends the connection when nobody uses it any more.
struct DriverTask(tokio::task::JoinHandle<()>);

impl Drop for DriverTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A place for one connection, with many requests under way.
pub(super) struct Connection {
    number: u32,
    connector: Rc<Connector>,
    open: Mutex<Option<OpenConnection>>,
}

/// Why one try did not give a response.
struct Failure {
    fault: Fault,
    remedy: Remedy,
}

/// What can be done about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Remedy {
    /// The server says that it has not touched the request, and keeps the connection: it may be
    /// asked again, whatever the method (RFC 9113, section 8.7).
    AskAgain,
    /// The server says the same, and takes no more requests on this connection.
    AskElsewhere,
    /// A kept connection was closed without a word. Who asks again may be served twice.
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

    /// Sends a request and checks its response. A request that the server says it has not touched,
    /// or that a kept connection took with it unanswered, is sent again.
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
                Remedy::AskAgain | Remedy::AskElsewhere if refusals < MAX_REFUSALS => {
                    refusals += 1;
                    counters.borrow_mut().retry_refused(in_flight);
                }
                Remedy::Reconnect if request.is_repeatable && tries < MAX_TRIES => {
                    tries += 1;
                    counters.borrow_mut().retry(in_flight);
                }
                Remedy::AskAgain | Remedy::AskElsewhere | Remedy::Reconnect | Remedy::None => {
                    return Err(failure.fault);
                }
            }
            if failure.remedy != Remedy::AskAgain {
                self.forget(&open).await;
            }
        }
    }

    /// The connection, opened if need be; all who need it wait for the one who opens it.
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

    /// No new request goes over this connection; those under way may end.
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
        let may_be_old = is_first && self.has_served.get();
        let failure = |why: h2::Error| self.failure(&why, phase.get(), may_be_old);
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
}

impl OpenConnection {
    /// What an error is called, now that it is known how the connection fares.
    ///
    /// A request that a `GOAWAY` ended was above the last one that the server takes, whatever the
    /// reason (RFC 9113, section 6.8). A kept connection, one that `may_be_old`, may be closed
    /// without a word at any time.
    fn failure(&self, why: &h2::Error, phase: Phase, may_be_old: bool) -> Failure {
        let (fault, is_silent) = match self.close_reason.get() {
            Some(CloseReason::Failed(fault)) if !why.is_reset() => (fault, false),
            Some(CloseReason::Failed(_)) => (fault(why), false),
            Some(CloseReason::Silent | CloseReason::Forgotten) | None => (fault(why), true),
        };
        let is_refused = why.reason() == Some(Reason::REFUSED_STREAM);
        let remedy = if phase != Phase::Awaiting {
            Remedy::None
        } else if why.is_remote() && why.is_go_away() {
            Remedy::AskElsewhere
        } else if why.is_remote() && is_refused {
            Remedy::AskAgain
        } else if why.is_io() && is_silent && may_be_old {
            Remedy::Reconnect
        } else {
            Remedy::None
        };
        Failure { fault, remedy }
    }
}

/// Takes a body piece by piece, and lets the server send as much again.
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

/// Which fault an error of the protocol is.
pub(super) fn fault(why: &h2::Error) -> Fault {
    match why.get_io().map(io::Error::kind) {
        Some(io::ErrorKind::ConnectionReset) => Fault::Reset,
        Some(_) => Fault::EarlyClose,
        None if why.is_remote() && why.is_reset() => Fault::Reset,
        None if why.is_remote() => Fault::EarlyClose,
        None => Fault::Malformed,
    }
}
