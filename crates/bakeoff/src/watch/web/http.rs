//! One request and its answer, each within its time. HTTP/1.1 as far as a page needs it: no body is read, and every connection is
//! closed after its answer.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Longest head of a request, in bytes.
const HEAD_BYTES: usize = 8 << 10;

/// Most header fields of a request.
const FIELDS: usize = 64;

/// What a client still sends after its request is thrown away, up to this many bytes and for this long: else closing would take the
/// answer from it (RFC 9112, section 9.6).
const LINGER_BYTES: usize = 64 << 10;
const LINGER: Duration = Duration::from_millis(500);

/// A request, as far as anybody asks.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Whether the answer goes without its body.
    pub(super) is_head: bool,
    /// The path, still encoded.
    pub(super) path: String,
    /// What stands behind the question mark.
    pub(super) query: String,
    pub(super) host: String,
    pub(super) cookie: String,
    pub(super) authorization: String,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is none that is answered.
    Bad(StatusCode),
    /// The client left, or never finished.
    Lost,
}

/// An answer.
pub(super) struct Answer {
    status: StatusCode,
    kind: &'static str,
    policy: String,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn page(page: String) -> Self {
        Self::new(
            "text/html; charset=utf-8",
            judge::topics::live::document::policy(),
            page.into_bytes(),
        )
    }

    pub(super) fn report(report: Vec<u8>) -> Self {
        Self::new(
            "text/html; charset=utf-8",
            judge::topics::live::document::REPORT_POLICY.into(),
            report,
        )
    }

    pub(super) fn text(status: StatusCode, text: &str) -> Self {
        let body = format!("{text}\n").into_bytes();
        Self::new(
            "text/plain; charset=utf-8",
            "default-src 'none'".into(),
            body,
        )
        .with(status)
    }

    /// The status alone.
    pub(super) fn of(status: StatusCode) -> Self {
        Self::text(status, reason(status))
    }

    pub(super) fn moved(status: StatusCode, to: String) -> Self {
        let mut answer = Self::of(status);
        answer.fields.push(("Location", to));
        answer
    }

    pub(super) fn with(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    pub(super) fn cookie(mut self, cookie: String) -> Self {
        self.fields.push(("Set-Cookie", cookie));
        self
    }

    fn new(kind: &'static str, policy: String, body: Vec<u8>) -> Self {
        Self {
            status: StatusCode::OK,
            kind,
            policy,
            fields: Vec::new(),
            body,
        }
    }

    fn head(&self) -> String {
        let mut head = head(self.status, self.kind, &self.policy);
        // Writing to a string cannot fail.
        let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
        match self.status {
            StatusCode::METHOD_NOT_ALLOWED => head.push_str("Allow: GET, HEAD\r\n"),
            StatusCode::UNAUTHORIZED => head.push_str("WWW-Authenticate: Bearer\r\n"),
            _ => {}
        }
        for (name, value) in &self.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head + "\r\n"
    }
}

/// The head of an answer, but for its length and its end.
pub(super) fn head(status: StatusCode, kind: &str, policy: &str) -> String {
    format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {kind}\r\nContent-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n",
        status.as_u16(),
        reason(status)
    )
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or_default()
}

/// Reads a request's head.
pub(super) fn read(mut stream: &TcpStream, patience: Duration) -> Result<Request, Unread> {
    let deadline = Instant::now() + patience;
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(Unread::Lost);
        }
        match stream.read(&mut piece) {
            Ok(0) => return Err(Unread::Lost),
            Ok(length) => head.extend_from_slice(&piece[..length]),
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Err(Unread::Lost),
        }
        if let Some(request) = parse(&head)? {
            return Ok(request);
        }
        if head.len() > HEAD_BYTES {
            return Err(Unread::Bad(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
    }
}

/// The request, as soon as its head is whole.
fn parse(head: &[u8]) -> Result<Option<Request>, Unread> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Unread::Bad(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        Err(_) => return Err(Unread::Bad(StatusCode::BAD_REQUEST)),
    }
    let is_head = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Unread::Bad(StatusCode::METHOD_NOT_ALLOWED)),
    };
    let target = parsed.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(Unread::Bad(StatusCode::BAD_REQUEST));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let field = |name: &str| -> Result<String, Unread> {
        let mut values = parsed
            .headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case(name));
        let (first, second) = (values.next(), values.next());
        // Two hosts are none (RFC 9112, section 3.2), and two of another kind are nobody's either.
        let text = first.map_or(Ok(""), |field| std::str::from_utf8(field.value));
        match (text, second) {
            (Ok(text), None) => Ok(text.trim().to_owned()),
            _ => Err(Unread::Bad(StatusCode::BAD_REQUEST)),
        }
    };
    Ok(Some(Request {
        is_head,
        path: path.into(),
        query: query.into(),
        host: field("host")?,
        cookie: field("cookie")?,
        authorization: field("authorization")?,
    }))
}

/// Writes an answer within its time.
pub(super) fn write(
    stream: &TcpStream,
    answer: &Answer,
    is_head: bool,
    patience: Duration,
) -> io::Result<()> {
    let mut bytes = answer.head().into_bytes();
    if !is_head {
        bytes.extend_from_slice(&answer.body);
    }
    write_all(stream, &bytes, patience)
}

/// Writes all of it within `patience`, or fails: who takes a byte at a time is cut off as well.
pub(super) fn write_all(
    mut stream: &TcpStream,
    mut bytes: &[u8],
    patience: Duration,
) -> io::Result<()> {
    let deadline = Instant::now() + patience;
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(length) => bytes = &bytes[length..],
            Err(why) if why.kind() == ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    Ok(())
}

/// Closes a connection so that its client gets all of the answer.
pub(super) fn linger(mut stream: &TcpStream) {
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let deadline = Instant::now() + LINGER;
    let (mut read, mut piece) = (0, [0; 2048]);
    while read < LINGER_BYTES {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(length) => read += length,
        }
    }
}

/// What a name keeps in a path, but for dots at its start, which lead elsewhere.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    let encoded = utf8_percent_encode(name, ENCODED).to_string();
    if name.starts_with('.') {
        encoded
    } else {
        encoded.replace("%2E", ".")
    }
}

/// The name that a part of a path stands for; `None` where it is no text.
pub(super) fn decoded(part: &str) -> Option<String> {
    let name = percent_decode_str(part).decode_utf8();
    name.ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn names_come_back_from_paths() {
        for name in ["web-static", "..", ".", "a b", "<b>&\"'%41", "ä/ö", "007.2"] {
            let part = encoded(name);
            assert!(
                !part.contains(['/', ' ', '<', '"']) && part != "..",
                "{part}"
            );
            assert_eq!(decoded(&part).as_deref(), Some(name));
        }
        assert_eq!(decoded("%ff"), None);
    }

    #[test]
    fn who_takes_nothing_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _never_reads = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        let more_than_sockets_hold = vec![0; 64 << 20];
        let sent = write_all(&stream, &more_than_sockets_hold, Duration::from_millis(100));
        let why = sent.unwrap_err().kind();
        assert!(
            matches!(why, ErrorKind::TimedOut | ErrorKind::WouldBlock),
            "{why}"
        );
    }

    #[test]
    fn a_request_is_read_as_soon_as_it_is_whole() {
        let whole = b"GET /a?b=c HTTP/1.1\r\nhOST: x\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(parse(&whole[..length]), Ok(None), "{length}");
        }
        let request = parse(whole).unwrap().unwrap();
        let parts = (&*request.path, &*request.query, &*request.host);
        assert_eq!((parts, request.is_head), (("/a", "b=c", "x"), false));
    }
}
