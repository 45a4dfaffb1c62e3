//! Reads a request and writes an answer, each with a timeout. This is the part of HTTP/1.1 that pages need: request bodies are
//! not read, and every connection is closed after its answer.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use http::StatusCode;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Longest head of a request, in bytes.
const MAX_HEAD_BYTES: usize = 8 << 10;

/// Limit on header fields of a request.
const MAX_FIELDS: usize = 64;

/// Limits on discarding what a client still sends after its request. Without this, closing the connection could destroy the
/// answer (RFC 9112, section 9.6).
const MAX_LINGER_BYTES: usize = 64 << 10;
const LINGER_TIME: Duration = Duration::from_millis(500);

/// The used parts of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Request {
    /// Whether the method is HEAD, so that the answer has no body.
    pub(super) is_head: bool,
    /// The path, still encoded.
    pub(super) path: String,
    /// The part after the question mark.
    pub(super) query: String,
    pub(super) host: String,
    pub(super) cookie: String,
    pub(super) authorization: String,
}

/// Why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The request is invalid; the status is the answer.
    Bad(StatusCode),
    /// The client disconnected or did not finish in time.
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
        .with_status(status)
    }

    /// An answer with only a status.
    pub(super) fn status_only(status: StatusCode) -> Self {
        Self::text(status, reason(status))
    }

    pub(super) fn moved(status: StatusCode, to: String) -> Self {
        let mut answer = Self::status_only(status);
        answer.fields.push(("Location", to));
        answer
    }

    pub(super) fn with_status(mut self, status: StatusCode) -> Self {
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

/// The head of an answer, without its length and the final empty line.
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
pub(super) fn read(mut stream: &TcpStream, timeout: Duration) -> Result<Request, ReadError> {
    let deadline = Instant::now() + timeout;
    let mut head = Vec::new();
    let mut piece = [0; 2048];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err(ReadError::Lost);
        }
        match stream.read(&mut piece) {
            Ok(0) => return Err(ReadError::Lost),
            Ok(length) => head.extend_from_slice(&piece[..length]),
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Err(ReadError::Lost),
        }
        if let Some(request) = parse(&head)? {
            return Ok(request);
        }
        if head.len() > MAX_HEAD_BYTES {
            return Err(ReadError::Bad(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
    }
}

/// Parses a request; `None` if its head is incomplete.
fn parse(head: &[u8]) -> Result<Option<Request>, ReadError> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(ReadError::Bad(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
        Err(_) => return Err(ReadError::Bad(StatusCode::BAD_REQUEST)),
    }
    let is_head = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(ReadError::Bad(StatusCode::METHOD_NOT_ALLOWED)),
    };
    let target = parsed.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(ReadError::Bad(StatusCode::BAD_REQUEST));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let field = |name: &str| -> Result<String, ReadError> {
        let mut values = parsed
            .headers
            .iter()
            .filter(|field| field.name.eq_ignore_ascii_case(name));
        let (first, second) = (values.next(), values.next());
        // Two Host fields are invalid (RFC 9112, section 3.2); the other fields must not be repeated either.
        let text = first.map_or(Ok(""), |field| std::str::from_utf8(field.value));
        match (text, second) {
            (Ok(text), None) => Ok(text.trim().to_owned()),
            _ => Err(ReadError::Bad(StatusCode::BAD_REQUEST)),
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

/// Writes an answer.
pub(super) fn write(
    stream: &TcpStream,
    answer: &Answer,
    is_head: bool,
    timeout: Duration,
) -> io::Result<()> {
    let mut bytes = answer.head().into_bytes();
    if !is_head {
        bytes.extend_from_slice(&answer.body);
    }
    write_all(stream, &bytes, timeout)
}

/// Writes all bytes within `timeout` in total, so that a client that reads slowly is disconnected too.
pub(super) fn write_all(
    mut stream: &TcpStream,
    mut bytes: &[u8],
    timeout: Duration,
) -> io::Result<()> {
    let deadline = Instant::now() + timeout;
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

/// Closes a connection so that the client receives the whole answer.
pub(super) fn linger(mut stream: &TcpStream) {
    if stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let deadline = Instant::now() + LINGER_TIME;
    let (mut read, mut piece) = (0, [0; 2048]);
    while read < MAX_LINGER_BYTES {
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

/// Characters to encode in a name. Dots are decoded again, except in names that start with a dot.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Encodes a name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    let encoded = utf8_percent_encode(name, ENCODED).to_string();
    if name.starts_with('.') {
        encoded
    } else {
        encoded.replace("%2E", ".")
    }
}

/// Decodes a part of a path; `None` if it is not valid UTF-8.
pub(super) fn decoded(part: &str) -> Option<String> {
    let name = percent_decode_str(part).decode_utf8();
    name.ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn encoded_names_are_decoded_unchanged() {
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
    fn a_client_that_reads_nothing_times_out() {
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
    fn a_request_is_parsed_as_soon_as_it_is_complete() {
        let complete = b"GET /a?b=c HTTP/1.1\r\nhOST: x\r\n\r\n";
        for length in 0..complete.len() {
            assert_eq!(parse(&complete[..length]), Ok(None), "{length}");
        }
        let request = parse(complete).unwrap().unwrap();
        let parts = (&*request.path, &*request.query, &*request.host);
        assert_eq!((parts, request.is_head), (("/a", "b=c", "x"), false));
    }
}
