//! The first response: what all others must look like. Asked before the load, one connection each.

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

/// Largest response that is learnt.
const LIMIT_BYTES: usize = 1 << 30;

/// What the user expects of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// HTTP status.
    pub status: u16,
    /// Length of the body in bytes.
    pub length: Option<u64>,
    /// SHA-256 of the body.
    pub sha256: Option<[u8; 32]>,
    /// Whether the content is checked at all.
    pub content: bool,
    /// How he says so.
    pub spelling: Spelling,
}

/// What the user writes to say what he expects; remedies name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spelling {
    /// Before a status.
    pub status: &'static str,
    /// The length's option.
    pub length: &'static str,
    /// The hash's option.
    pub sha256: &'static str,
    /// That the status alone is checked.
    pub status_alone: &'static str,
}

/// What successful responses to an exchange look like, and how that is known in words. The server
/// is asked only for what the user did not say.
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
        let words = format!(
            "status {status}, {length} bytes, SHA-256 {}, as given",
            short(&sha256)
        );
        let expect = Expect {
            status,
            content: Content::Hash { length, sha256 },
        };
        return Ok((expect, words));
    }
    let name = format!("{} {}", exchange.method, exchange.path);
    let (response, head) =
        ask(server, exchange).with_context(|| format!("no first response to {name}"))?;
    if let Some(location) = head.location.filter(|_| !(300..400).contains(&status)) {
        bail!(
            "{name} is redirected: {} to {location} (ask for that)",
            response.status
        );
    }
    let hash =
        check(&response, expected).with_context(|| format!("wrong first response to {name}"))?;
    // Asking again is harmless only for what is not supposed to change anything.
    if exchange.method == "GET" {
        let (again, _) =
            ask(server, exchange).with_context(|| format!("no second response to {name}"))?;
        ensure!(
            again == response,
            "responses differ from one another: {name} (check its status alone with {})",
            expected.spelling.status_alone
        );
    }
    let (length, hash) = (response.body.len(), short(&hash));
    let words =
        format!("status {status}, {length} bytes, SHA-256 {hash}, learnt from a first response");
    Ok((
        Expect {
            status,
            content: Content::Bytes(response.body.into()),
        },
        words,
    ))
}

/// Compares a first response with what the user knows; its SHA-256.
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

/// Enough of a hash to recognise it.
fn short(hash: &[u8; 32]) -> String {
    format!("{}...", hex(&hash[..6]))
}

/// What a response says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// What the server calls itself.
    pub server: Option<String>,
    /// Where a redirection leads.
    pub location: Option<String>,
}

/// Asks once. Over HTTP/2 nothing is known of the head.
pub fn ask(server: &Server, exchange: &Exchange) -> Result<(Response, Head)> {
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
            // Some servers close encrypted connections without a word of goodbye.
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
            return Ok(told_apart(response));
        }
        ensure!(
            count > 0,
            "response not whole: {seen_bytes} bytes before the end"
        );
    }
}

/// What the load would call malformed, for a reader who can do something about it.
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

/// A response, and what it says of itself.
fn told_apart(response: KeptResponse) -> (Response, Head) {
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

    /// Reads `text` in pieces of this size; nothing where more must come.
    fn read(text: &str, ended: bool, size: usize) -> Result<Option<(Response, Head)>, NotHttp> {
        let mut response = KeptResponse::new(false);
        let mut is_whole = false;
        for piece in text.as_bytes().chunks(size) {
            is_whole = response.read(piece)?;
        }
        let is_whole = is_whole || ended && response.is_whole_at_close();
        Ok(is_whole.then(|| told_apart(response)))
    }

    /// The same for pieces of all sizes, which must agree.
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
    fn an_answer_ends_by_length_by_chunks_or_by_the_connection() {
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
    fn interim_heads_are_passed_over() {
        let early = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let text = format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
        assert_eq!(body(&text, false).as_deref(), Some("200 hello"));
        for end in 0..text.len() {
            assert_eq!(body(&text[..end], false), None, "{:?}", &text[..end]);
        }
        assert_eq!(body(&early.repeat(2000), false), None);
    }

    #[test]
    fn a_redirection_is_seen() {
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
    fn what_is_not_http_is_shown() {
        let text = "SSH-2.0-server\r\n";
        let why = read(text, false, 4096).unwrap_err();
        let wrong = not_http(text.as_bytes(), why).to_string();
        assert!(wrong.starts_with("not HTTP: \"SSH-2.0-server"), "{wrong}");
    }

    /// What is said of a head with so many lines of so many bytes, if it is refused.
    fn refused(lines: usize, line_bytes: usize) -> Option<String> {
        let line = format!("X: {}\r\n", "y".repeat(line_bytes.saturating_sub(5)));
        let fields = line.repeat(lines);
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n{fields}\r\nhi");
        let first = read(&text, false, 64 << 10).map(|response| response.is_some());
        // The clients of a load agree, in whatever pieces it comes.
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
    fn the_first_look_takes_what_the_load_takes_and_names_the_limit() {
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
    fn what_the_load_calls_malformed_the_first_look_does_too() {
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
    fn a_first_answer_must_be_what_the_user_knows() {
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
        let said = |expected: &Expected| check(&response, expected).unwrap_err().to_string();
        assert_eq!(
            said(&Expected {
                length: Some(6),
                ..expected.clone()
            }),
            "length is not 6 bytes: 5 (look at --expect-length)"
        );
        assert_eq!(
            said(&Expected {
                status: 302,
                ..expected.clone()
            }),
            "status is not 302: 200 (if that is right, say --expect-status 200)"
        );
        assert!(
            said(&Expected {
                sha256: Some([0; 32]),
                ..expected
            })
            .starts_with("SHA-256 is not 0000")
        );
    }
}
