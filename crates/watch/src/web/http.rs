//! One request and its answer, each within its time. HTTP/1.1 as far as a page needs it: no body is read, and every connection is
//! closed after its answer.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

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
    Bad(Status),
    /// The client left, or never finished.
    Lost,
}

/// How a request went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    Fine,
    SeeOther,
    Permanently,
    BadRequest,
    Unauthorized,
    NotFound,
    NotAllowed,
    TooLong,
    Misdirected,
    Busy,
}

impl Status {
    fn code(self) -> u16 {
        match self {
            Self::Fine => 200,
            Self::SeeOther => 303,
            Self::Permanently => 308,
            Self::BadRequest => 400,
            Self::Unauthorized => 401,
            Self::NotFound => 404,
            Self::NotAllowed => 405,
            Self::Misdirected => 421,
            Self::TooLong => 431,
            Self::Busy => 503,
        }
    }

    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::Fine => "OK",
            Self::SeeOther => "See Other",
            Self::Permanently => "Permanent Redirect",
            Self::BadRequest => "Bad Request",
            Self::Unauthorized => "Unauthorized",
            Self::NotFound => "Not Found",
            Self::NotAllowed => "Method Not Allowed",
            Self::Misdirected => "Misdirected Request",
            Self::TooLong => "Request Header Fields Too Large",
            Self::Busy => "Service Unavailable",
        }
    }
}

/// An answer.
pub(super) struct Answer {
    status: Status,
    kind: &'static str,
    policy: String,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    pub(super) fn page(page: String) -> Self {
        Self::new(
            "text/html; charset=utf-8",
            report::live::policy(),
            page.into_bytes(),
        )
    }

    pub(super) fn report(report: Vec<u8>) -> Self {
        Self::new(
            "text/html; charset=utf-8",
            report::live::REPORT_POLICY.into(),
            report,
        )
    }

    pub(super) fn text(status: Status, text: &str) -> Self {
        let body = format!("{text}\n").into_bytes();
        Self::new(
            "text/plain; charset=utf-8",
            "default-src 'none'".into(),
            body,
        )
        .with(status)
    }

    pub(super) fn moved(status: Status, to: String) -> Self {
        let mut answer = Self::text(status, status.reason());
        answer.fields.push(("Location", to));
        answer
    }

    pub(super) fn with(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    pub(super) fn cookie(mut self, cookie: String) -> Self {
        self.fields.push(("Set-Cookie", cookie));
        self
    }

    fn new(kind: &'static str, policy: String, body: Vec<u8>) -> Self {
        Self {
            status: Status::Fine,
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
            Status::NotAllowed => head.push_str("Allow: GET, HEAD\r\n"),
            Status::Unauthorized => head.push_str("WWW-Authenticate: Bearer\r\n"),
            _ => {}
        }
        for (name, value) in &self.fields {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head + "\r\n"
    }
}

/// The head of an answer, but for its length and its end.
pub(super) fn head(status: Status, kind: &str, policy: &str) -> String {
    format!(
        "HTTP/1.1 {} {}\r\nContent-Type: {kind}\r\nContent-Security-Policy: {policy}\r\nX-Content-Type-Options: nosniff\r\n\
         Referrer-Policy: no-referrer\r\nCross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
         Cache-Control: no-store\r\nConnection: close\r\n",
        status.code(),
        status.reason()
    )
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
            return Err(Unread::Bad(Status::TooLong));
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
        Err(httparse::Error::TooManyHeaders) => return Err(Unread::Bad(Status::TooLong)),
        Err(_) => return Err(Unread::Bad(Status::BadRequest)),
    }
    let is_head = match parsed.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Unread::Bad(Status::NotAllowed)),
    };
    let target = parsed.path.unwrap_or_default();
    if !target.starts_with('/') {
        return Err(Unread::Bad(Status::BadRequest));
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let field = |name: &str| -> Result<String, Unread> {
        let mut its = parsed
            .headers
            .iter()
            .filter(|one| one.name.eq_ignore_ascii_case(name));
        let (first, second) = (its.next(), its.next());
        // Two hosts are none (RFC 9112, section 3.2), and two of another kind are nobody's either.
        let text = first.map_or(Ok(""), |one| std::str::from_utf8(one.value));
        match (text, second) {
            (Ok(text), None) => Ok(text.trim().to_owned()),
            _ => Err(Unread::Bad(Status::BadRequest)),
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

/// A name as a part of a path.
pub(super) fn encoded(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric()
            || b"-_~".contains(&byte)
            || (byte == b'.' && !name.starts_with('.'))
        {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// The name that a part of a path stands for; `None` where it is none.
pub(super) fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
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
        for part in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(decoded(part), None, "{part}");
        }
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
