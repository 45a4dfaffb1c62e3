//! Parses HTTP/1.1 responses as their bytes arrive, in pieces of any size.
//!
//! ```text
//! Head -> Counted --------------> whole
//!      -> ChunkSize -> ChunkData -> ChunkEnd -+
//!         ^                                   |
//!         +-----------------------------------+
//!         ChunkSize (0) -> Trailer --> whole
//!      -> Unbounded -- close ---> whole
//! ```
//! Nothing is allocated unless a head arrives in pieces, which are collected in a buffer that the
//! connection keeps.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::mem::MaybeUninit;

use base::input::units::show_bytes;
use record::load::Fault;

use crate::expect::{Check, Expect};
use crate::script::CookieJar;

/// Longest head: status line and fields.
const HEAD_LIMIT: usize = 256 << 10;
/// Most fields of a head.
const FIELDS_LIMIT: usize = 256;
/// Longest head that is remembered.
const KNOWN_LIMIT: usize = 1 << 10;
/// Longest line of a chunk's size, including extensions.
const LINE_LIMIT: u32 = 4 << 10;

/// Status of a switch to the protocol of an `Upgrade` field.
const SWITCHING_PROTOCOLS: u16 = 101;

/// State of a response after some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More bytes are needed.
    More,
    /// The response is complete and took this many of the bytes.
    Whole(usize),
    /// The bytes are not HTTP.
    Malformed,
}

/// Reads one response after the other.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    stage: Stage,
    partial_head: Vec<u8>,
    head: Head,
    check: Check,
    is_bodiless: bool,
    /// Cookies, if they are kept.
    cookies: Option<Box<CookieJar>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Counted {
        left: u64,
    },
    ChunkSize {
        value: u64,
        digits: u32,
        line: u32,
        named: bool,
    },
    ChunkData {
        left: u64,
    },
    ChunkEnd,
    Trailer {
        line: u32,
    },
    Unbounded,
}

/// The relevant parts of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    status: u16,
    framing: Framing,
    keep_alive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Counted(u64),
    Chunked,
    UntilClose,
}

/// The last head that was received for a request.
///
/// Heads of a server usually change once per second, in the date. Comparing the bytes costs a
/// twentieth of parsing them.
#[derive(Debug)]
pub(crate) struct KnownHead {
    bytes: Vec<u8>,
    head: Head,
}

impl KnownHead {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::with_capacity(KNOWN_LIMIT),
            head: Head::NONE,
        }
    }

    fn recall(&self, bytes: &[u8]) -> Option<(Head, usize)> {
        let known = !self.bytes.is_empty() && bytes.starts_with(&self.bytes);
        known.then_some((self.head, self.bytes.len()))
    }

    fn learn(&mut self, head: Head, bytes: &[u8]) {
        self.bytes.clear();
        if bytes.len() <= KNOWN_LIMIT {
            self.bytes.extend_from_slice(bytes);
            self.head = head;
        }
    }
}

impl ResponseReader {
    pub(crate) fn new() -> Self {
        Self {
            stage: Stage::Head,
            partial_head: Vec::new(),
            head: Head::NONE,
            check: Check::new(),
            is_bodiless: false,
            cookies: None,
        }
    }

    /// Keeps cookies from now on.
    pub(crate) fn keep_cookies(&mut self) {
        self.cookies = Some(Box::default());
    }

    /// The cookies, if they are kept.
    pub(crate) fn cookies(&mut self) -> Option<&mut CookieJar> {
        self.cookies.as_deref_mut()
    }

    /// Starts with the next response. A bodiless one, as after `HEAD`, ends with its head.
    pub(crate) fn restart(&mut self, expect: &Expect, is_bodiless: bool) {
        self.is_bodiless = is_bodiless;
        self.stage = Stage::Head;
        self.partial_head.clear();
        self.check.restart(expect);
    }

    /// Parses the next bytes.
    pub(crate) fn read(
        &mut self,
        bytes: &[u8],
        expect: &Expect,
        known: &mut KnownHead,
    ) -> Progress {
        let mut used = 0;
        if self.stage == Stage::Head {
            match self.read_head(bytes, known) {
                Ok(Some(length)) => used = length,
                Ok(None) => return Progress::More,
                Err(_) => return Progress::Malformed,
            }
        }
        let feed = |piece: &[u8]| self.check.feed(expect, piece);
        match self.stage.read(&bytes[used..], feed) {
            Ok(Some(length)) => Progress::Whole(used + length),
            Ok(None) => Progress::More,
            Err(_) => Progress::Malformed,
        }
    }

    /// Whether the response is complete if the server closes the connection now.
    pub(crate) fn is_whole_at_close(&self) -> bool {
        self.stage == Stage::Unbounded
    }

    /// Body bytes still to come; `u64::MAX` if unknown.
    pub(crate) fn left(&self) -> u64 {
        match self.stage {
            Stage::Counted { left } => left,
            _ => u64::MAX,
        }
    }

    /// Whether the connection may serve another request after this response.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.head.keep_alive && self.stage != Stage::Unbounded
    }

    /// Whether the server has switched to another protocol.
    pub(crate) fn switches_protocol(&self) -> bool {
        self.head.status == SWITCHING_PROTOCOLS
    }

    /// Checks a complete response. Returns the length of its body in bytes.
    pub(crate) fn verify(&mut self, expect: &Expect) -> Result<u64, Fault> {
        let status = self.head.status;
        self.check.close(expect, status)?;
        Ok(self.check.seen_bytes())
    }

    /// Reads a head, skipping interim ones (1xx). Returns the bytes used, or `None` if more are
    /// needed.
    fn read_head(&mut self, bytes: &[u8], known: &mut KnownHead) -> Result<Option<usize>, NotHttp> {
        if !self.partial_head.is_empty() {
            return self.read_pieced_head(bytes);
        }
        if self.cookies.is_none()
            && let Some((head, length)) = known.recall(bytes)
        {
            self.enter(head);
            return Ok(Some(length));
        }
        let mut used = 0;
        while let Some((head, length)) = parse_head(&bytes[used..], self.cookies.as_deref_mut())? {
            let whole = &bytes[used..used + length];
            used += length;
            if !head.is_interim() {
                known.learn(head, whole);
                self.enter(head);
                return Ok(Some(used));
            }
        }
        self.partial_head.extend_from_slice(&bytes[used..]);
        Ok(None)
    }

    /// Like `read_head`, if part of the head came before.
    fn read_pieced_head(&mut self, bytes: &[u8]) -> Result<Option<usize>, NotHttp> {
        let before = self.partial_head.len();
        let room = HEAD_LIMIT.saturating_sub(before).min(bytes.len());
        self.partial_head.extend_from_slice(&bytes[..room]);
        let mut start = 0;
        while let Some((head, length)) =
            parse_head(&self.partial_head[start..], self.cookies.as_deref_mut())?
        {
            start += length;
            if !head.is_interim() {
                self.enter(head);
                return Ok(Some(start - before));
            }
        }
        // Complete interim heads are no longer needed.
        self.partial_head.drain(..start);
        Ok(None)
    }

    fn enter(&mut self, head: Head) {
        self.head = head;
        self.stage = head.body(self.is_bodiless);
    }
}

impl Head {
    const NONE: Self = Self {
        status: 0,
        framing: Framing::UntilClose,
        keep_alive: false,
    };

    /// Whether another head follows (RFC 9110, section 15.2). After 101 none does.
    fn is_interim(self) -> bool {
        100 <= self.status && self.status < 200 && self.status != SWITCHING_PROTOCOLS
    }

    /// The first stage of the body.
    fn body(self, is_bodiless: bool) -> Stage {
        match self.framing {
            _ if is_bodiless => Stage::Counted { left: 0 },
            Framing::Counted(length) => Stage::Counted { left: length },
            Framing::Chunked => Stage::CHUNK_SIZE,
            Framing::UntilClose => Stage::Unbounded,
        }
    }
}

impl Stage {
    const CHUNK_SIZE: Self = Self::ChunkSize {
        value: 0,
        digits: 0,
        line: 0,
        named: false,
    };

    /// Reads the body and passes it to `feed`. Returns the bytes used, or `None` if more are
    /// needed.
    fn read(
        &mut self,
        bytes: &[u8],
        mut feed: impl FnMut(&[u8]),
    ) -> Result<Option<usize>, NotHttp> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match *self {
                Self::Head => unreachable!("a body is read after its head"),
                Self::Counted { left } => {
                    let (piece, left) = split(rest, left);
                    feed(piece);
                    *self = Self::Counted { left };
                    return Ok((left == 0).then_some(used + piece.len()));
                }
                Self::ChunkData { left } => {
                    let (piece, left) = split(rest, left);
                    feed(piece);
                    used += piece.len();
                    *self = Self::ChunkData { left };
                    if left > 0 {
                        return Ok(None);
                    }
                    *self = Self::ChunkEnd;
                }
                Self::Unbounded => {
                    feed(rest);
                    return Ok(None);
                }
                Self::ChunkSize { .. } | Self::ChunkEnd | Self::Trailer { .. } => {
                    let Some(byte) = rest.first() else {
                        return Ok(None);
                    };
                    used += 1;
                    match self.after(*byte)? {
                        Some(stage) => *self = stage,
                        None => return Ok(Some(used)),
                    }
                }
            }
        }
    }

    /// The stage after one more byte of chunk framing; `None` if the body is complete.
    fn after(self, byte: u8) -> Result<Option<Self>, NotHttp> {
        let stage = match (self, byte) {
            (Self::ChunkSize { digits: 0, .. }, b'\r' | b'\n' | b';') => {
                return Err(NotHttp::Chunk);
            }
            (Self::ChunkSize { value: 0, .. }, b'\n') => Self::Trailer { line: 0 },
            (Self::ChunkSize { value, .. }, b'\n') => Self::ChunkData { left: value },
            (
                Self::ChunkSize {
                    line: LINE_LIMIT.., ..
                },
                _,
            ) => return Err(NotHttp::Chunk),
            (
                Self::ChunkSize {
                    value,
                    digits,
                    line,
                    named,
                },
                byte,
            ) => {
                let named = named || matches!(byte, b';' | b'\r' | b' ' | b'\t');
                let (value, digits) = if named {
                    (value, digits)
                } else {
                    (add_digit(value, byte)?, digits + 1)
                };
                Self::ChunkSize {
                    value,
                    digits,
                    line: line + 1,
                    named,
                }
            }
            (Self::ChunkEnd, b'\r') => Self::ChunkEnd,
            (Self::ChunkEnd, b'\n') => Self::CHUNK_SIZE,
            (Self::Trailer { line: 0 }, b'\n') => return Ok(None),
            (Self::Trailer { .. }, b'\n') => Self::Trailer { line: 0 },
            (Self::Trailer { line }, b'\r') => Self::Trailer { line },
            (Self::Trailer { line }, _) if line < LINE_LIMIT => Self::Trailer { line: line + 1 },
            _ => return Err(NotHttp::Chunk),
        };
        Ok(Some(stage))
    }
}

/// How a response violates the protocol, or exceeds a limit of this parser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotHttp {
    Syntax,
    HeadTooLong,
    TooManyFields,
    Length,
    Chunk,
    Excess,
}

impl Display for NotHttp {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => out.write_str("no status line and header fields"),
            Self::HeadTooLong => {
                let limit = show_bytes(HEAD_LIMIT as u64);
                write!(out, "a head of more than {limit}")
            }
            Self::TooManyFields => write!(out, "more than {FIELDS_LIMIT} header fields"),
            Self::Length => out.write_str("a Content-Length that is no length, or two of them"),
            Self::Chunk => out.write_str("a chunk without its size or its end"),
            Self::Excess => out.write_str("more bytes than the response is long"),
        }
    }
}

fn add_digit(value: u64, byte: u8) -> Result<u64, NotHttp> {
    let digit = (byte as char).to_digit(16).ok_or(NotHttp::Chunk)?;
    let value = value.checked_mul(16).ok_or(NotHttp::Chunk)?;
    Ok(value + u64::from(digit))
}

/// Takes up to `left` bytes. Returns them and how many are still left.
fn split(bytes: &[u8], left: u64) -> (&[u8], u64) {
    let length = left.min(bytes.len() as u64);
    (&bytes[..length as usize], left - length)
}

/// Parses a head. Returns it and its length, or `None` if it is not complete.
fn parse_head(
    bytes: &[u8],
    cookies: Option<&mut CookieJar>,
) -> Result<Option<(Head, usize)>, NotHttp> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_LIMIT];
    let mut response = httparse::Response::new(&mut []);
    let Some(length) = parse_fields(bytes, &mut response, &mut fields)? else {
        return Ok(None);
    };
    let head = interpret(&response)?;
    if let Some(cookies) = cookies {
        for field in &*response.headers {
            if field.name.eq_ignore_ascii_case("set-cookie") {
                cookies.set(&unfolded(field.value));
            }
        }
    }
    Ok(Some((head, length)))
}

/// Parses the fields of a head. Returns its length, or `None` if it is not complete.
fn parse_fields<'h, 'b>(
    bytes: &'b [u8],
    response: &mut httparse::Response<'h, 'b>,
    fields: &'h mut [MaybeUninit<httparse::Header<'b>>],
) -> Result<Option<usize>, NotHttp> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let bytes = &bytes[..bytes.len().min(HEAD_LIMIT)];
    // User agents accept folded fields (RFC 9112, section 5.2).
    let parsed = httparse::ParserConfig::default()
        .allow_obsolete_multiline_headers_in_responses(true)
        .parse_response_with_uninit_headers(response, bytes, fields);
    match parsed {
        Ok(httparse::Status::Complete(length)) => Ok(Some(length)),
        Ok(httparse::Status::Partial) if bytes.len() == HEAD_LIMIT => Err(NotHttp::HeadTooLong),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(httparse::Error::TooManyHeaders) => Err(NotHttp::TooManyFields),
        Err(_) => Err(NotHttp::Syntax),
    }
}

/// Unfolds a field's value: replaces each line break and the blanks around it with one blank
/// (RFC 9112, section 5.2).
fn unfolded(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        return Cow::Borrowed(value);
    }
    let lines = value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
    Cow::Owned(lines.join(&b' '))
}

/// Determines body framing and persistence of the connection (RFC 9112, sections 6.3 and 9.3).
fn interpret(response: &httparse::Response<'_, '_>) -> Result<Head, NotHttp> {
    let status = response.code.ok_or(NotHttp::Syntax)?;
    let mut length = None;
    let mut coded = None;
    let mut keep_alive = response.version == Some(1) && status != SWITCHING_PROTOCOLS;
    for field in &*response.headers {
        if field.name.eq_ignore_ascii_case("content-length") {
            let value = parse_length(field.value)?;
            if length.is_some_and(|length| length != value) {
                return Err(NotHttp::Length);
            }
            length = Some(value);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            coded = Some(has_token(field.value, "chunked"));
        } else if field.name.eq_ignore_ascii_case("connection") {
            keep_alive = !has_token(field.value, "close")
                && (keep_alive || has_token(field.value, "keep-alive"));
        }
    }
    let framing = match (status, coded, length) {
        (100..=199 | 204 | 304, _, _) => Framing::Counted(0),
        (_, Some(true), _) => Framing::Chunked,
        (_, None, Some(length)) => Framing::Counted(length),
        (_, Some(false), _) | (_, None, None) => Framing::UntilClose,
    };
    Ok(Head {
        status,
        framing,
        keep_alive,
    })
}

fn parse_length(value: &[u8]) -> Result<u64, NotHttp> {
    let text = str::from_utf8(value).map_err(|_| NotHttp::Length)?.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(NotHttp::Length)
}

/// Whether a comma-separated field contains the token.
fn has_token(value: &[u8], token: &str) -> bool {
    let mut tokens = value.split(|byte| *byte == b',');
    tokens.any(|each| each.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// A response that is kept in memory, for probing a server. It has the parser and the limits of
/// clients.
pub(crate) struct KeptResponse {
    is_bodiless: bool,
    stage: Stage,
    partial_head: Vec<u8>,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Name and unfolded value of each field.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
}

impl KeptResponse {
    /// An empty response. A bodiless one ends with its head.
    pub(crate) fn new(is_bodiless: bool) -> Self {
        Self {
            is_bodiless,
            stage: Stage::Head,
            partial_head: Vec::new(),
            status: 0,
            body: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Parses the next bytes. Returns whether the response is complete.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<bool, NotHttp> {
        if self.stage != Stage::Head {
            return self.read_body(bytes);
        }
        self.partial_head.extend_from_slice(bytes);
        while self.stage == Stage::Head {
            let Some(length) = self.read_head()? else {
                return Ok(false);
            };
            self.partial_head.drain(..length);
        }
        let rest = std::mem::take(&mut self.partial_head);
        self.read_body(&rest)
    }

    /// Whether the response is complete if the server closes the connection now.
    pub(crate) fn is_whole_at_close(&self) -> bool {
        self.stage == Stage::Unbounded
    }

    /// Reads one head, which may be an interim one. Returns its length, or `None` if it is not
    /// complete.
    fn read_head(&mut self) -> Result<Option<usize>, NotHttp> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_LIMIT];
        let mut response = httparse::Response::new(&mut []);
        let Some(length) = parse_fields(&self.partial_head, &mut response, &mut fields)? else {
            return Ok(None);
        };
        let head = interpret(&response)?;
        if !head.is_interim() {
            let fields = response.headers.iter();
            let field = |field: &httparse::Header<'_>| {
                (field.name.to_owned(), unfolded(field.value).into_owned())
            };
            self.fields = fields.map(field).collect();
            self.status = head.status;
            self.stage = head.body(self.is_bodiless);
        }
        Ok(Some(length))
    }

    fn read_body(&mut self, bytes: &[u8]) -> Result<bool, NotHttp> {
        let feed = |piece: &[u8]| self.body.extend_from_slice(piece);
        match self.stage.read(bytes, feed)? {
            None => Ok(false),
            Some(used) if used == bytes.len() || self.status == SWITCHING_PROTOCOLS => Ok(true),
            Some(_) => Err(NotHttp::Excess),
        }
    }
}

/// See `crate::read_response`.
pub(crate) fn read_in_pieces(bytes: &[u8], piece: usize) -> Result<Option<(u64, usize)>, Fault> {
    let expect = Expect::status(200);
    let (mut response, mut known) = (ResponseReader::new(), KnownHead::new());
    response.restart(&expect, false);
    let mut used = 0;
    for piece in bytes.chunks(piece.max(1)) {
        match response.read(piece, &expect, &mut known) {
            Progress::More => used += piece.len(),
            Progress::Whole(length) => {
                let body_bytes = response.verify(&expect)?;
                return Ok(Some((body_bytes, used + length)));
            }
            Progress::Malformed => return Err(Fault::Malformed),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` in pieces of every size, which must all give the same outcome.
    fn check(text: &str, body: &str) -> Result<u64, String> {
        let expect = Expect::body(body.as_bytes());
        let outcomes: Vec<_> = (1..=text.len())
            .map(|size| read(text, size, &expect))
            .collect();
        for outcome in &outcomes {
            assert_eq!(
                outcome, &outcomes[0],
                "pieces of different sizes disagree: {text:?}"
            );
        }
        outcomes[0].clone()
    }

    fn read(text: &str, size: usize, expect: &Expect) -> Result<u64, String> {
        let (mut response, mut known) = (ResponseReader::new(), KnownHead::new());
        response.restart(expect, false);
        for piece in text.as_bytes().chunks(size) {
            match response.read(piece, expect, &mut known) {
                Progress::More => continue,
                Progress::Whole(used) if used == piece.len() => {}
                Progress::Whole(_) => return Err("too long".into()),
                Progress::Malformed => return Err("malformed".into()),
            }
            let verified = response.verify(expect);
            return verified.map_err(|fault| format!("{fault:?}"));
        }
        if !response.is_whole_at_close() {
            return Err("not whole".into());
        }
        let verified = response.verify(expect);
        verified.map_err(|fault| format!("{fault:?}"))
    }

    #[test]
    fn a_counted_body_is_read() {
        assert_eq!(
            check("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello"),
            Ok(5)
        );
        assert_eq!(
            check("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n\r\n", ""),
            Ok(0)
        );
    }

    #[test]
    fn a_chunked_body_is_read() {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        for chunks in [
            "5\r\nhello\r\n0\r\n\r\n",
            "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
            "005;name=\"x\"\r\nhello\r\n0\r\nDigest: none\r\n\r\n",
        ] {
            assert_eq!(check(&format!("{head}{chunks}"), "hello"), Ok(5));
        }
        for chunks in [
            "x\r\nhello",
            "5\r\nhelloo\r\n0\r\n\r\n",
            "\r\n",
            "fffffffffffffffff\r\n",
        ] {
            assert_eq!(
                check(&format!("{head}{chunks}"), "hello"),
                Err("malformed".into())
            );
        }
    }

    #[test]
    fn a_body_may_end_with_the_connection() {
        assert_eq!(check("HTTP/1.0 200 OK\r\n\r\nhello", "hello"), Ok(5));
        assert_eq!(
            check("HTTP/1.0 200 OK\r\n\r\nhell", "hello"),
            Err("BadLength".into())
        );
    }

    #[test]
    fn interim_and_bodiless_responses_are_recognised() {
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let text = format!("{early}{early}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(check(&text, "hi"), Ok(2));
        let unchanged = "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(check(unchanged, "hello"), Err("BadStatus".into()));
    }

    #[test]
    fn wrong_and_truncated_responses_are_distinguished() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n";
        for (text, expected) in [
            (format!("{head}\r\nhellO"), "BadContent"),
            (format!("{head}\r\nhell"), "not whole"),
            (head.into(), "not whole"),
            (format!("{head}Content-Length: 6\r\n\r\nhello"), "malformed"),
            ("SSH-2.0-OpenSSH_9.2\r\n".into(), "malformed"),
            (head.replace('5', "-5") + "\r\n", "malformed"),
        ] {
            assert_eq!(check(&text, "hello"), Err(expected.into()), "{text:?}");
        }
    }

    /// Whether a connection may serve another request after this response.
    fn keeps(text: &str, is_bodiless: bool) -> bool {
        let expect = Expect::status(200);
        let (mut response, mut known) = (ResponseReader::new(), KnownHead::new());
        response.restart(&expect, is_bodiless);
        response.read(text.as_bytes(), &expect, &mut known);
        response.keeps_alive()
    }

    #[test]
    fn connections_stay_open_as_the_head_says() {
        for (head, is_bodiless, expected) in [
            ("HTTP/1.1 204 No\r\n", false, true),
            ("HTTP/1.1 204 No\r\nConnection: Close\r\n", false, false),
            ("HTTP/1.0 204 No\r\n", false, false),
            (
                "HTTP/1.0 204 No\r\nConnection: a, Keep-Alive\r\n",
                false,
                true,
            ),
            ("HTTP/1.1 200 OK\r\n", false, false),
            // A response to HEAD ends with its head.
            ("HTTP/1.1 200 OK\r\n", true, true),
        ] {
            let kept = keeps(&format!("{head}\r\n"), is_bodiless);
            assert_eq!(kept, expected, "{head:?} {is_bodiless}");
        }
    }

    #[test]
    fn folded_fields_are_unfolded() {
        for head in [
            "Content-Length:\r\n 5\r\n",
            "X-Note: one,\r\n\ttwo\r\n  three\r\nContent-Length: 5\r\n",
            "Content-Length: 5\r\nConnection: foo,\r\n close\r\n",
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{head}\r\nhello");
            assert_eq!(check(&text, "hello"), Ok(5), "{head:?}");
            assert_eq!(keeps(&text, false), !head.contains("close"), "{head:?}");
        }
        let chunked = "Transfer-Encoding: gzip,\r\n chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
        assert_eq!(check(&format!("HTTP/1.1 200 OK\r\n{chunked}"), "hi"), Ok(2));
        let split = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 0\r\n\r\n0123456789";
        assert_eq!(check(split, "0123456789"), Err("malformed".into()));
        assert_eq!(&*unfolded(b"a;\r\n  b\r\n\tc"), b"a; b c");
        assert_eq!(&*unfolded(b" a "), b" a ");
    }

    #[test]
    fn a_folded_cookie_is_unfolded() {
        let mut jar = CookieJar::default();
        let head =
            b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1;\r\n Path=/\r\nSet-Cookie: b=2\r\n 3\r\n\r\n";
        parse_head(head, Some(&mut jar)).unwrap().unwrap();
        let mut sent = Vec::new();
        jar.write(b"GET / HTTP/1.1\r\n\r\n", 18, &mut sent);
        assert_eq!(sent, b"GET / HTTP/1.1\r\nCookie: a=1; b=2 3\r\n\r\n");
    }

    #[test]
    fn a_switch_to_another_protocol_ends_the_connection() {
        let expect = Expect::status(200);
        let head = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
        for rest in ["", "\x01\x02"] {
            let text = format!("{head}{rest}");
            let (mut response, mut known) = (ResponseReader::new(), KnownHead::new());
            response.restart(&expect, false);
            let progress = response.read(text.as_bytes(), &expect, &mut known);
            assert_eq!(progress, Progress::Whole(head.len()));
            assert!(response.switches_protocol() && !response.keeps_alive());
            assert_eq!(response.verify(&expect), Err(Fault::BadStatus));
        }
    }

    #[test]
    fn a_known_head_is_replaced_by_a_new_one() {
        let expect = Expect::body(*b"hi");
        let (mut response, mut known) = (ResponseReader::new(), KnownHead::new());
        for date in ["Mon", "Mon", "Tue", "Tue"] {
            let text = format!("HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length: 2\r\n\r\nhi");
            response.restart(&expect, false);
            let progress = response.read(text.as_bytes(), &expect, &mut known);
            assert_eq!(progress, Progress::Whole(text.len()));
            assert_eq!(response.verify(&expect), Ok(2));
        }
    }

    #[test]
    fn an_endless_head_is_malformed() {
        let expect = Expect::body(*b"");
        let (mut response, mut known) = (ResponseReader::new(), KnownHead::new());
        response.restart(&expect, false);
        let mut progress = response.read(b"HTTP/1.1 200 OK\r\n", &expect, &mut known);
        for _ in 0..HEAD_LIMIT {
            if progress != Progress::More {
                break;
            }
            progress = response.read(b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n", &expect, &mut known);
        }
        assert_eq!(progress, Progress::Malformed);
    }
}
