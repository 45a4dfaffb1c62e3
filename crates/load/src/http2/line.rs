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

use super::order::Order;
use crate::clock::now_ns;
use crate::expect::Check;
use crate::sys;
use crate::tally::{Begun, Served, Tally};
use crate::target::Target;
use crate::tls::{self, Tls};

/// What a server may send before it must wait for this side, on one stream and on all of them: as much as
/// browsers allow, so that it is never the window that is measured.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const LINE_WINDOW_BYTES: u32 = 16 << 20;

/// A server that ends every connection before it has answered anything is not asked for ever.
const TRIES: u32 = 3;

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
pub(super) struct Way {
    target: Target,
    secure: Option<(TlsConnector, ServerName<'static>)>,
}

impl Way {
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
    pub(super) async fn open(&self, number: u32) -> Result<Open, Broken> {
        let stream = self.connect(number).await.map_err(Broken::Connect)?;
        let Some((connector, name)) = &self.secure else {
            return start(stream).await;
        };
        let stream = connector.connect(name.clone(), stream).await;
        let stream = stream.map_err(Broken::secure)?;
        // A server that speaks HTTP/1.1 alone either refuses the name of the protocol or passes over it.
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => start(stream).await,
            Some(_) | None => Err(Broken::Refused),
        }
    }

    async fn connect(&self, number: u32) -> io::Result<TcpStream> {
        let Target { server, .. } = self.target;
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

async fn start<S>(stream: S) -> Result<Open, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let shake = client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(LINE_WINDOW_BYTES)
        .handshake(stream)
        .await;
    let (sender, connection) = shake.map_err(Broken::Speak)?;
    let ending = Rc::new(Cell::new(None));
    let place = Rc::clone(&ending);
    let life = tokio::task::spawn_local(async move {
        let how = match connection.await {
            Ok(()) => Ending::Silent,
            Err(why) if why.is_io() => Ending::Silent,
            Err(why) => Ending::Failed(fault(&why)),
        };
        place.set(Some(how));
    });
    Ok(Open {
        sender,
        ending,
        has_served: Rc::new(Cell::new(false)),
        _life: Rc::new(Life(life)),
    })
}

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum Broken {
    Connect(io::Error),
    Secure(io::Error),
    /// The server offers no HTTP/2 over TLS.
    Refused,
    Speak(h2::Error),
}

impl Broken {
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
enum Ending {
    /// Without a word of why.
    Silent,
    /// One of the two sides found fault with the other.
    Failed(Fault),
    /// This side has put it away.
    Forgotten,
}

/// A connection that is open, as far as is known.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) sender: SendRequest<Bytes>,
    ending: Rc<Cell<Option<Ending>>>,
    has_served: Rc<Cell<bool>>,
    _life: Rc<Life>,
}

/// Ends the connection when nobody uses it any more.
struct Life(tokio::task::JoinHandle<()>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A place for one connection, with many requests under way.
pub(super) struct Line {
    number: u32,
    way: Rc<Way>,
    open: Mutex<Option<Open>>,
}

/// Why one try did not give an answer.
struct Failure {
    fault: Fault,
    /// The server has not touched the request.
    is_untouched: bool,
}

impl Line {
    pub(super) fn new(number: u32, way: Rc<Way>) -> Self {
        Self {
            number,
            way,
            open: Mutex::new(None),
        }
    }

    /// Sends a request and checks its answer. A request that the server says it has not touched, or that a kept
    /// connection took with it unanswered, is sent again.
    pub(super) async fn exchange(
        &self,
        order: &Order,
        phase: &Cell<Phase>,
        tally: &RefCell<Tally>,
        begun: Begun,
    ) -> Result<Served, Fault> {
        let mut tries = 1;
        loop {
            phase.set(Phase::Connecting);
            let open = self.open(tally).await?;
            phase.set(Phase::Awaiting);
            let is_first = tries == 1;
            let failure = match open.exchange(order, phase, is_first).await {
                Ok(served) => return Ok(served),
                Err(failure) => failure,
            };
            if !failure.is_untouched || !order.is_repeatable || tries == TRIES {
                return Err(failure.fault);
            }
            tries += 1;
            tally.borrow_mut().repeat(begun);
            self.forget(&open).await;
        }
    }

    /// The connection, opened if need be; all who need it wait for the one who opens it.
    async fn open(&self, tally: &RefCell<Tally>) -> Result<Open, Fault> {
        let mut place = self.open.lock().await;
        if let Some(open) = &*place
            && open.ending.get().is_none()
        {
            return Ok(open.clone());
        }
        if place.take().is_some() {
            tally.borrow_mut().shut();
        }
        let open = self.way.open(self.number).await;
        let open = open.map_err(|why| why.fault())?;
        tally.borrow_mut().open(now_ns());
        *place = Some(open.clone());
        Ok(open)
    }

    /// No new request goes over this connection; those under way may end.
    async fn forget(&self, open: &Open) {
        let place = self.open.lock().await;
        if let Some(each) = &*place
            && Rc::ptr_eq(&each.ending, &open.ending)
            && each.ending.get().is_none()
        {
            each.ending.set(Some(Ending::Forgotten));
        }
    }
}

impl Open {
    async fn exchange(
        &self,
        order: &Order,
        phase: &Cell<Phase>,
        is_first: bool,
    ) -> Result<Served, Failure> {
        let may_be_old = is_first && self.has_served.get();
        let failure = |why: h2::Error| self.failure(&why, phase.get(), may_be_old);
        let mut sender = self.sender.clone().ready().await.map_err(failure)?;
        let is_bodiless = order.body.is_empty();
        let sent = sender.send_request(order.head.clone(), is_bodiless);
        let (answer, mut body) = sent.map_err(failure)?;
        if !is_bodiless {
            body.send_data(order.body.clone(), true).map_err(failure)?;
        }
        let sent_ns = now_ns();
        let answer = answer.await.map_err(failure)?;
        phase.set(Phase::Reading);
        self.has_served.set(true);
        let status = answer.status().as_u16();
        let mut check = Check::new();
        check.restart(&order.expect);
        let take = |piece: &[u8]| check.feed(&order.expect, piece);
        read(answer.into_body(), take).await.map_err(failure)?;
        let checked = check.close(&order.expect, status);
        checked.map_err(|fault| Failure {
            fault,
            is_untouched: false,
        })?;
        Ok(Served {
            body_bytes: check.seen_bytes(),
            served_ns: now_ns().saturating_sub(sent_ns),
        })
    }
}

impl Open {
    /// What an error is called, now that it is known how the connection fares.
    ///
    /// A request is untouched if the server refused it or said goodbye in order, and if a kept connection, one
    /// that `may_be_old`, was closed without a word: a server may do that at any time.
    fn failure(&self, why: &h2::Error, phase: Phase, may_be_old: bool) -> Failure {
        let said_goodbye = why.is_go_away() && why.reason() == Some(Reason::NO_ERROR);
        let refused = why.reason() == Some(Reason::REFUSED_STREAM);
        let (fault, is_silent) = match self.ending.get() {
            Some(Ending::Failed(fault)) if !why.is_reset() => (fault, false),
            Some(Ending::Failed(_)) => (fault(why), false),
            Some(Ending::Silent | Ending::Forgotten) | None => (fault(why), true),
        };
        let is_told = why.is_remote() && (said_goodbye || refused);
        let is_closed = why.is_io() && is_silent && may_be_old;
        Failure {
            fault,
            is_untouched: phase == Phase::Awaiting && (is_told || is_closed),
        }
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
