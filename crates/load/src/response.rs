//! Reading HTTP/1.1 responses as their bytes arrive, in whatever pieces.
//!
//! ```text
//! Head -> Counted --------------> whole
//!      -> ChunkSize -> ChunkData -> ChunkEnd -+
//!         ^                                   |
//!         +-----------------------------------+
//!         ChunkSize (0) -> Trailer --> whole
//!      -> Unbounded -- close ---> whole
//! ```
//! Nothing is allocated while responses arrive whole in their heads; a head that comes in pieces is
//! collected in a buffer that the connection keeps.

use std::mem::MaybeUninit;

use record::load::Fault;

use crate::expect::{Check, Expect};
use crate::script::CookieJar;

/// Longest head: status line and fields. Servers refuse to send more than 8 KiB of their own.
const HEAD_LIMIT: usize = 64 << 10;
/// Most fields of a head.
const FIELDS_LIMIT: usize = 96;
/// Longest head that is remembered word by word.
const KNOWN_LIMIT: usize = 1 << 10;
/// Longest line of a chunk's size, extensions included.
const LINE_LIMIT: u32 = 4 << 10;

/// How far a response has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More bytes must come.
    More,
    /// The response is whole and took this many of the bytes.
    Whole(usize),
    /// This is not HTTP.
    Malformed,
}

/// One response under way.
#[derive(Debug)]
pub(crate) struct ResponseReader {
    stage: Stage,
    partial_head: Vec<u8>,
    head: Head,
    check: Check,
    is_bodiless: bool,
    /// Where cookies go, if anybody wants them.
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

/// What a head says.
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

/// The last head that answered a request, word by word.
///
/// A server's head differs from the one before once a second, in its date. Comparing the bytes
/// costs a twentieth of parsing them and cannot be wrong.
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

    /// Cookies are kept from now on.
    pub(crate) fn keep_cookies(&mut self) {
        self.cookies = Some(Box::default());
    }

    /// The cookies, if they are kept.
    pub(crate) fn cookies(&mut self) -> Option<&mut CookieJar> {
        self.cookies.as_deref_mut()
    }

    /// Starts on the next response. A bodiless one ends with its head, whatever that says: `HEAD`.
    pub(crate) fn restart(&mut self, expect: &Expect, is_bodiless: bool) {
        self.is_bodiless = is_bodiless;
        self.stage = Stage::Head;
        self.partial_head.clear();
        self.check.restart(expect);
    }

    /// Takes the bytes that came.
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
                Err(NotHttp) => return Progress::Malformed,
            }
        }
        match self.read_body(&bytes[used..], expect) {
            Ok(Some(length)) => Progress::Whole(used + length),
            Ok(None) => Progress::More,
            Err(NotHttp) => Progress::Malformed,
        }
    }

    /// The server has closed: a response that ends with the connection is whole now.
    pub(crate) fn is_whole_at_close(&self) -> bool {
        self.stage == Stage::Unbounded
    }

    /// Body bytes that are still to come, as far as is known.
    pub(crate) fn left(&self) -> u64 {
        match self.stage {
            Stage::Counted { left } => left,
            _ => u64::MAX,
        }
    }

    /// Whether the connection may serve another request after this response.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.head.keep_alive
    }

    /// Checks a whole response: its body's length in bytes, or what is wrong with it.
    pub(crate) fn verify(&mut self, expect: &Expect) -> Result<u64, Fault> {
        let status = self.head.status;
        self.check.close(expect, status)?;
        Ok(self.check.seen_bytes())
    }

    /// Reads a head, skipping interim ones (1xx); the bytes used once it is whole.
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

    /// As `read_head`, with the bytes that came before.
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
        // An interim head may be whole within the first piece only if the next one has begun there
        // too.
        self.partial_head.drain(..start);
        if self.partial_head.len() >= HEAD_LIMIT {
            return Err(NotHttp);
        }
        Ok(None)
    }

    fn enter(&mut self, head: Head) {
        self.head = head;
        self.stage = match head.framing {
            _ if self.is_bodiless => Stage::Counted { left: 0 },
            Framing::Counted(length) => Stage::Counted { left: length },
            Framing::Chunked => Stage::CHUNK_SIZE,
            Framing::UntilClose => Stage::Unbounded,
        };
    }

    /// Reads as much of the body as came; the bytes used once it is whole.
    fn read_body(&mut self, bytes: &[u8], expect: &Expect) -> Result<Option<usize>, NotHttp> {
        let mut used = 0;
        loop {
            let rest = &bytes[used..];
            match self.stage {
                Stage::Head => unreachable!("a body is read after its head"),
                Stage::Counted { left } => {
                    let (piece, left) = split(rest, left);
                    self.check.feed(expect, piece);
                    self.stage = Stage::Counted { left };
                    return Ok((left == 0).then_some(used + piece.len()));
                }
                Stage::ChunkData { left } => {
                    let (piece, left) = split(rest, left);
                    self.check.feed(expect, piece);
                    used += piece.len();
                    self.stage = Stage::ChunkData { left };
                    if left > 0 {
                        return Ok(None);
                    }
                    self.stage = Stage::ChunkEnd;
                }
                Stage::Unbounded => {
                    self.check.feed(expect, rest);
                    return Ok(None);
                }
                Stage::ChunkSize { .. } | Stage::ChunkEnd | Stage::Trailer { .. } => {
                    let Some(byte) = rest.first() else {
                        return Ok(None);
                    };
                    used += 1;
                    match self.stage.after(*byte)? {
                        Some(stage) => self.stage = stage,
                        None => return Ok(Some(used)),
                    }
                }
            }
        }
    }
}

impl Head {
    const NONE: Self = Self {
        status: 0,
        framing: Framing::UntilClose,
        keep_alive: false,
    };

    fn is_interim(self) -> bool {
        100 <= self.status && self.status < 200
    }
}

impl Stage {
    const CHUNK_SIZE: Self = Self::ChunkSize {
        value: 0,
        digits: 0,
        line: 0,
        named: false,
    };

    /// The stage after one more byte of chunk framing; `None` when the body is whole.
    fn after(self, byte: u8) -> Result<Option<Self>, NotHttp> {
        let stage = match (self, byte) {
            (Self::ChunkSize { digits: 0, .. }, b'\r' | b'\n' | b';') => return Err(NotHttp),
            (Self::ChunkSize { value: 0, .. }, b'\n') => Self::Trailer { line: 0 },
            (Self::ChunkSize { value, .. }, b'\n') => Self::ChunkData { left: value },
            (
                Self::ChunkSize {
                    line: LINE_LIMIT.., ..
                },
                _,
            ) => return Err(NotHttp),
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
            _ => return Err(NotHttp),
        };
        Ok(Some(stage))
    }
}

/// The bytes break the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NotHttp;

fn add_digit(value: u64, byte: u8) -> Result<u64, NotHttp> {
    let digit = (byte as char).to_digit(16).ok_or(NotHttp)?;
    let value = value.checked_mul(16).ok_or(NotHttp)?;
    Ok(value + u64::from(digit))
}

/// The part of `bytes` that belongs to a piece of `left` bytes, and what is left of the piece after
/// it.
fn split(bytes: &[u8], left: u64) -> (&[u8], u64) {
    let length = left.min(bytes.len() as u64);
    (&bytes[..length as usize], left - length)
}

/// Parses a head: what it says and its length; `None` when it is not whole.
fn parse_head(
    bytes: &[u8],
    cookies: Option<&mut CookieJar>,
) -> Result<Option<(Head, usize)>, NotHttp> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS_LIMIT];
    let mut response = httparse::Response::new(&mut []);
    let parsed = httparse::ParserConfig::default().parse_response_with_uninit_headers(
        &mut response,
        bytes,
        &mut fields,
    );
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(NotHttp),
    };
    let head = interpret(&response)?;
    if let Some(cookies) = cookies {
        for field in &*response.headers {
            if field.name.eq_ignore_ascii_case("set-cookie") {
                cookies.set(field.value);
            }
        }
    }
    Ok(Some((head, length)))
}

/// What a parsed head means for the body and the connection (RFC 9112, sections 6.3 and 9.3).
fn interpret(response: &httparse::Response<'_, '_>) -> Result<Head, NotHttp> {
    let status = response.code.ok_or(NotHttp)?;
    let mut length = None;
    let mut coded = None;
    let mut keep_alive = response.version == Some(1);
    for field in &*response.headers {
        if field.name.eq_ignore_ascii_case("content-length") {
            let value = parse_length(field.value)?;
            if length.is_some_and(|length| length != value) {
                return Err(NotHttp);
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
        keep_alive: keep_alive && framing != Framing::UntilClose,
    })
}

fn parse_length(value: &[u8]) -> Result<u64, NotHttp> {
    let text = str::from_utf8(value).map_err(|_| NotHttp)?.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits).ok_or(NotHttp)
}

/// Whether a comma-separated field holds the token.
fn has_token(value: &[u8], token: &str) -> bool {
    let mut tokens = value.split(|byte| *byte == b',');
    tokens.any(|each| each.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

/// How bytes read that come in pieces of this size, as `crate::read_answer`.
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

    /// Reads `text` in pieces of every size; all must agree on the outcome.
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
                Progress::More => {}
                Progress::Whole(used) if used == piece.len() => {
                    return response
                        .verify(expect)
                        .map_err(|fault| format!("{fault:?}"));
                }
                Progress::Whole(_) => return Err("more than an answer".into()),
                Progress::Malformed => return Err("malformed".into()),
            }
        }
        if response.is_whole_at_close() {
            return response
                .verify(expect)
                .map_err(|fault| format!("{fault:?}"));
        }
        Err("not whole".into())
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
    fn interim_answers_and_bodiless_ones_are_told_from_the_rest() {
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let text = format!("{early}{early}HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
        assert_eq!(check(&text, "hi"), Ok(2));
        let unchanged = "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(check(unchanged, "hello"), Err("BadStatus".into()));
    }

    #[test]
    fn wrong_and_cut_answers_are_told_apart() {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n";
        assert_eq!(
            check(&format!("{head}\r\nhellO"), "hello"),
            Err("BadContent".into())
        );
        assert_eq!(
            check(&format!("{head}\r\nhell"), "hello"),
            Err("not whole".into())
        );
        assert_eq!(check(head, "hello"), Err("not whole".into()));
        let two = format!("{head}Content-Length: 6\r\n\r\nhello");
        assert_eq!(check(&two, "hello"), Err("malformed".into()));
        assert_eq!(
            check("SSH-2.0-OpenSSH_9.2\r\n", ""),
            Err("malformed".into())
        );
        assert_eq!(
            check("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", ""),
            Err("malformed".into())
        );
    }

    #[test]
    fn connections_stay_open_as_the_head_says() {
        let keeps = |text: &str| {
            let (head, _) = parse_head(text.as_bytes(), None).unwrap().unwrap();
            head.keep_alive
        };
        assert!(keeps("HTTP/1.1 204 No Content\r\n\r\n"));
        assert!(!keeps(
            "HTTP/1.1 204 No Content\r\nConnection: Close\r\n\r\n"
        ));
        assert!(!keeps("HTTP/1.0 204 No Content\r\n\r\n"));
        assert!(keeps(
            "HTTP/1.0 204 No Content\r\nConnection: foo, Keep-Alive\r\n\r\n"
        ));
        assert!(!keeps("HTTP/1.1 200 OK\r\n\r\n"));
    }

    #[test]
    fn a_known_head_is_recognised_and_a_new_one_replaces_it() {
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
    fn an_endless_head_is_given_up() {
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
