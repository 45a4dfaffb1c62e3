//! Learns the expected responses of a server before the load. Each request uses a new connection.

use std::io::{ErrorKind, Read as _, Write as _};

use crate::exchange::Exchange;
use crate::expect::{Content, Expect};
use crate::http2::{self, probe::Response};
use crate::response::{KeptResponse, NotHttp};
use crate::traffic::Protocol;
use anyhow::{Context, Result, anyhow, bail, ensure};
use base::input::text;
use base::input::units::show_bytes;
use record::hash::hex;
use sha2::{Digest as _, Sha256};

use crate::server::{PATIENCE, Server};

/// Largest response to learn.
const LIMIT_BYTES: usize = 1 << 30;

/// The user's expectations of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// HTTP status.
    pub status: u16,
    /// Length of the body in bytes.
    pub length: Option<u64>,
    /// SHA-256 of the body.
    pub sha256: Option<[u8; 32]>,
    /// Whether the body is checked at all.
    pub content: bool,
    /// Names of the options for remedies.
    pub spelling: Spelling,
}

/// The options that set expectations, as the user writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelling {
    /// Prefix of a status.
    pub status: &'static str,
    /// Option for the length.
    pub length: &'static str,
    /// Option for the hash.
    pub sha256: &'static str,
    /// Option to check only the status.
    pub status_alone: &'static str,
}

/// The expected response to an exchange, and a description of it. The server is asked only if the
/// user's expectations are incomplete.
///
/// # Errors
/// The server does not answer, its response is not as expected, or responses differ.
pub fn learn(
    server: &Server,
    exchange: &Exchange,
    expected: &Expected,
) -> Result<(Expect, String)> {
    let status = expected.status;
    if !expected.content || exchange.method == "HEAD" {
        return Ok((Expect::status(status), format!("status {status} alone")));
    }
    if let (Some(length), Some(sha256)) = (expected.length, expected.sha256) {
        let hash = short(&sha256);
        let description = format!("status {status}, {length} bytes, SHA-256 {hash}, as given");
        let expect = Expect {
            status,
            content: Content::Hash { length, sha256 },
        };
        return Ok((expect, description));
    }
    let name = format!("{} {}", exchange.method, exchange.path);
    let (response, head) =
        request(server, exchange).with_context(|| format!("no first response to {name}"))?;
    if let Some(location) = head.location.filter(|_| !(300..400).contains(&status)) {
        bail!(
            "{name} is redirected: {} to {location} (ask for that)",
            response.status
        );
    }
    let hash =
        check(&response, expected).with_context(|| format!("wrong first response to {name}"))?;
    // Other methods may change the server's state.
    if exchange.method == "GET" {
        let (again, _) =
            request(server, exchange).with_context(|| format!("no second response to {name}"))?;
        ensure!(
            again == response,
            "responses differ from one another: {name} (check its status alone with {})",
            expected.spelling.status_alone
        );
    }
    let (length, hash) = (response.body.len(), short(&hash));
    let description =
        format!("status {status}, {length} bytes, SHA-256 {hash}, learnt from a first response");
    let expect = Expect {
        status,
        content: Content::Bytes(response.body.into()),
    };
    Ok((expect, description))
}

/// Compares a response with the user's expectations. Returns its SHA-256.
fn check(response: &Response, expected: &Expected) -> Result<[u8; 32]> {
    let (status, length) = (response.status, response.body.len() as u64);
    let spelling = expected.spelling;
    ensure!(
        status == expected.status,
        "status is not {}: {status} (if that is right, say {} {status})",
        expected.status,
        spelling.status
    );
    let wanted = expected.length.unwrap_or(length);
    ensure!(
        length == wanted,
        "length is not {wanted} bytes: {length} (look at {})",
        spelling.length
    );
    let hash: [u8; 32] = Sha256::digest(&response.body).into();
    let wanted = expected.sha256.unwrap_or(hash);
    ensure!(
        hash == wanted,
        "SHA-256 is not {}: {} (look at {})",
        hex(&wanted),
        hex(&hash),
        spelling.sha256
    );
    Ok(hash)
}

/// The beginning of a hash.
fn short(hash: &[u8; 32]) -> String {
    format!("{}...", hex(&hash[..6]))
}

/// Relevant header fields of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// The `Server` field.
    pub server: Option<String>,
    /// The target of a redirection.
    pub location: Option<String>,
}

/// Sends one request. Over HTTP/2 the head is empty.
pub fn request(server: &Server, exchange: &Exchange) -> Result<(Response, Head)> {
    if let Protocol::Http2 { .. } = server.protocol {
        let response = http2::probe::request(server.http2(LIMIT_BYTES), exchange)?;
        return Ok((response, Head::default()));
    }
    let mut stream = server.open()?;
    stream
        .write_all(&exchange.bytes(&server.host, false))
        .context("request not taken")?;
    let mut response = KeptResponse::new(exchange.method == "HEAD");
    let (mut seen_bytes, mut piece) = (0, vec![0; 64 << 10]);
    loop {
        let count = match stream.read(&mut piece) {
            Ok(count) => count,
            // Some servers close TLS connections without a close notification.
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => 0,
            Err(why) if why.kind() == ErrorKind::Interrupted => continue,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("no whole response within {} s", PATIENCE.as_secs())
            }
            Err(why) => return Err(why).context("response not whole"),
        };
        seen_bytes += count;
        let limit = show_bytes(LIMIT_BYTES as u64);
        ensure!(
            seen_bytes <= LIMIT_BYTES,
            "response too long to learn: over {limit} (check its status alone)"
        );
        let piece = &piece[..count];
        let is_whole = match count {
            0 => response.is_whole_at_close(),
            _ => response.read(piece).map_err(|why| not_http(piece, why))?,
        };
        if is_whole {
            return Ok(split_head(response));
        }
        ensure!(
            count > 0,
            "response not whole: {seen_bytes} bytes before the end"
        );
    }
}

/// Explains why a response is malformed.
fn not_http(piece: &[u8], why: NotHttp) -> anyhow::Error {
    match why {
        NotHttp::Syntax => {
            let begin = String::from_utf8_lossy(&piece[..piece.len().min(40)]).into_owned();
            anyhow!("not HTTP: {begin:?} ({why}; is this the right port?)")
        }
        NotHttp::HeadTooLong | NotHttp::TooManyFields => {
            anyhow!("response that no client of the load takes: {why} (have the server send less)")
        }
        NotHttp::Length | NotHttp::Chunk | NotHttp::Excess => {
            anyhow!("response that no client of the load takes: {why} (look at the server)")
        }
    }
}

/// Splits a response into status and body, and relevant header fields.
fn split_head(response: KeptResponse) -> (Response, Head) {
    let KeptResponse {
        status,
        body,
        fields,
        ..
    } = response;
    let field = |wanted: &str| {
        let mut fields = fields.iter();
        let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
        str::from_utf8(value).ok().map(text::clean_line)
    };
    let head = Head {
        server: field("Server"),
        location: field("Location").filter(|_| (300..400).contains(&status)),
    };
    (Response { status, body }, head)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` in pieces of this size; `None` if more bytes are needed.
    fn read(text: &str, ended: bool, size: usize) -> Result<Option<(Response, Head)>, NotHttp> {
        let mut response = KeptResponse::new(false);
        let mut is_whole = false;
        for piece in text.as_bytes().chunks(size) {
            is_whole = response.read(piece)?;
        }
        let is_whole = is_whole || ended && response.is_whole_at_close();
        Ok(is_whole.then(|| split_head(response)))
    }

    /// Status and body, which must be the same for pieces of all sizes.
    fn body(text: &str, ended: bool) -> Option<String> {
        let read = |size| {
            let response = read(text, ended, size).unwrap();
            response.map(|(response, _)| {
                let body = String::from_utf8(response.body).unwrap();
                format!("{} {body}", response.status)
            })
        };
        let whole = read(text.len().max(1));
        for size in [1, 2, 7, 4096] {
            assert_eq!(read(size), whole, "pieces of {size} bytes of {text:?}");
        }
        whole
    }

    #[test]
    fn a_response_ends_by_length_by_chunks_or_with_the_connection() {
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(body(sized, false).as_deref(), Some("200 hello"));
        let chunked =
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
        assert_eq!(body(chunked, false).as_deref(), Some("200 hello"));
        let closed = "HTTP/1.0 404 No\r\n\r\nhello";
        assert_eq!(body(closed, true).as_deref(), Some("404 hello"));
        assert_eq!(
            body("HTTP/1.1 204 No\r\n\r\n", false).as_deref(),
            Some("204 ")
        );
        for text in [sized, chunked, closed] {
            for end in 0..text.len() {
                assert_eq!(body(&text[..end], false), None, "{:?}", &text[..end]);
            }
        }
    }

    #[test]
    fn interim_heads_are_skipped() {
        let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let text = format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(body(&text, false).as_deref(), Some("200 hello"));
        for end in 0..text.len() {
            assert_eq!(body(&text[..end], false), None, "{:?}", &text[..end]);
        }
        assert_eq!(body(&early.repeat(2000), false), None);
    }

    #[test]
    fn a_redirection_is_recognised() {
        let moved = "HTTP/1.1 301 Moved\r\nLocation: https://a.org/\r\nContent-Length: 0\r\n\r\n";
        let (response, head) = read(moved, false, 4096).unwrap().unwrap();
        assert_eq!(
            (response.status, head.location.as_deref()),
            (301, Some("https://a.org/"))
        );
        let created = "HTTP/1.1 201 Made\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n";
        let (_, head) = read(created, false, 4096).unwrap().unwrap();
        assert_eq!(head.location, None);
    }

    #[test]
    fn bytes_that_are_not_http_are_shown() {
        let text = "SSH-2.0-server\r\n";
        let why = read(text, false, 4096).unwrap_err();
        let wrong = not_http(text.as_bytes(), why).to_string();
        assert!(wrong.starts_with("not HTTP: \"SSH-2.0-server"), "{wrong}");
    }

    /// The message about a head with this many lines of this many bytes, if it is refused.
    fn refused(lines: usize, line_bytes: usize) -> Option<String> {
        let line = format!("X: {}\r\n", "y".repeat(line_bytes.saturating_sub(5)));
        let fields = line.repeat(lines);
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nhi");
        let first = read(&text, false, 64 << 10).map(|response| response.is_some());
        // Clients must agree, for pieces of any size.
        for size in [1 << 10, 64 << 10, text.len()] {
            let load = crate::response::read_in_pieces(text.as_bytes(), size);
            assert_eq!(
                load.is_ok(),
                first.is_ok(),
                "{lines} lines of {line_bytes} bytes"
            );
        }
        let why = first.err()?;
        Some(not_http(text.as_bytes(), why).to_string())
    }

    #[test]
    fn a_probe_has_the_limits_of_clients() {
        for (lines, line_bytes) in [
            (1, 10),
            (97, 10),
            (128, 10),
            (255, 10),
            (25, 8000),
            (1, 200_000),
        ] {
            assert_eq!(refused(lines, line_bytes), None, "{lines} of {line_bytes}");
        }
        for lines in [256, 300, 5000] {
            let expected = "response that no client of the load takes: more than 256 header fields (have the server send less)";
            assert_eq!(refused(lines, 10).as_deref(), Some(expected), "{lines}");
        }
        for (lines, line_bytes) in [(1, 270_000), (100, 3000)] {
            let expected = "response that no client of the load takes: a head of more than 256 KiB (have the server send less)";
            assert_eq!(
                refused(lines, line_bytes).as_deref(),
                Some(expected),
                "{lines}"
            );
        }
    }

    #[test]
    fn a_probe_refuses_what_clients_call_malformed() {
        let head = "HTTP/1.1 200 OK\r\n";
        for (rest, expected) in [
            ("Content-Length: 2\r\n\r\nhi and more", NotHttp::Excess),
            ("Content-Length: -2\r\n\r\nhi", NotHttp::Length),
            (
                "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi",
                NotHttp::Length,
            ),
            ("Transfer-Encoding: chunked\r\n\r\nzz\r\n", NotHttp::Chunk),
            ("No colon\r\n\r\n", NotHttp::Syntax),
        ] {
            let text = format!("{head}{rest}");
            let seen = read(&text, false, 4096).map(|_| ());
            assert_eq!(seen, Err(expected), "{rest:?}");
        }
    }

    #[test]
    fn a_first_response_must_meet_expectations() {
        let response = Response {
            status: 200,
            body: b"hello".to_vec(),
        };
        let expected = Expected {
            status: 200,
            length: Some(5),
            sha256: None,
            content: true,
            spelling: Spelling {
                status: "--expect-status",
                length: "--expect-length",
                sha256: "--expect-sha256",
                status_alone: "--no-check-content",
            },
        };
        check(&response, &expected).unwrap();
        let length = Expected {
            length: Some(6),
            ..expected.clone()
        };
        let status = Expected {
            status: 302,
            ..expected.clone()
        };
        let hash = Expected {
            sha256: Some([0; 32]),
            ..expected
        };
        for (expected, message) in [
            (length, "length is not 6 bytes: 5 (look at --expect-length)"),
            (
                status,
                "status is not 302: 200 (if that is right, say --expect-status 200)",
            ),
        ] {
            let why = check(&response, &expected).unwrap_err().to_string();
            assert_eq!(why, message);
        }
        let why = check(&response, &hash).unwrap_err().to_string();
        assert!(why.starts_with("SHA-256 is not 0000"), "{why}");
    }
}
