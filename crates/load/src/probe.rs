//! The first response: what all others must look like. Asked before the load, one connection each.

use std::io::{ErrorKind, Read as _, Write as _};

use crate::exchange::Exchange;
use crate::expect::{Content, Expect};
use crate::http2::{self, probe::Response};
use crate::traffic::Protocol;
use anyhow::{Context, Result, bail, ensure};
use input::text;
use input::units::show_bytes;
use record::rundir::hex;
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
        .write_all(&request(exchange, &server.host))
        .context("request not taken")?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let count = match stream.read(&mut piece) {
            Ok(count) => count,
            // Some servers close encrypted connections without a word of goodbye.
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => 0,
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                bail!("no whole response within {} s", PATIENCE.as_secs())
            }
            Err(why) => return Err(why).context("response not whole"),
        };
        bytes.extend_from_slice(&piece[..count]);
        let limit = show_bytes(LIMIT_BYTES as u64);
        ensure!(
            bytes.len() <= LIMIT_BYTES,
            "response too long to learn: over {limit} (check its status alone)"
        );
        if let Some(response) = whole(&bytes, count == 0)? {
            return Ok(response);
        }
        ensure!(
            count > 0,
            "response not whole: {} bytes before the end",
            bytes.len()
        );
    }
}

/// The request as the load will send it, but for the end of the connection.
fn request(exchange: &Exchange, host: &str) -> Vec<u8> {
    let Exchange {
        method,
        path,
        headers,
        body,
        ..
    } = exchange;
    let length = body.len().to_string();
    let own = [
        ("Host", host),
        ("User-Agent", "bakeoff"),
        ("Accept", "*/*"),
        ("Connection", "close"),
        ("Content-Length", if body.is_empty() { "" } else { &length }),
    ];
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in own {
        let mut given = headers.iter();
        if !value.is_empty() && !given.any(|(each, _)| each.eq_ignore_ascii_case(name)) {
            text.extend([name, ": ", value, "\r\n"]);
        }
    }
    for (name, value) in headers {
        text.extend([name, ": ", value, "\r\n"]);
    }
    text.push_str("\r\n");
    [text.as_bytes(), body].concat()
}

/// The response, if all of it is there; `ended` says that no more will come.
fn whole(bytes: &[u8], ended: bool) -> Result<Option<(Response, Head)>> {
    let bytes = after_interim(bytes);
    let mut fields = [httparse::EMPTY_HEADER; 128];
    let mut head = httparse::Response::new(&mut fields);
    let start = match head.parse(bytes) {
        Ok(httparse::Status::Complete(start)) => start,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(why) => {
            let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
            bail!("not HTTP: {begin:?} ({why}; is this the right port?)");
        }
    };
    let status = head.code.unwrap_or_default();
    let field = |name: &str| {
        let found = head
            .headers
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name));
        found.and_then(|field| std::str::from_utf8(field.value).ok())
    };
    let location = field("Location").filter(|_| (300..400).contains(&status));
    let head_said = Head {
        server: field("Server").map(text::clean_line),
        location: location.map(text::clean_line),
    };
    let rest = &bytes[start..];
    let body = if matches!(status, 204 | 304) {
        Some(Vec::new())
    } else if field("Transfer-Encoding")
        .is_some_and(|kind| kind.to_ascii_lowercase().ends_with("chunked"))
    {
        join_chunks(rest)?
    } else if let Some(length) = field("Content-Length") {
        let length = length
            .trim()
            .parse()
            .ok()
            .filter(|length| *length <= LIMIT_BYTES);
        let length = length.context("Content-Length is not a length that can be learnt")?;
        rest.get(..length).map(<[u8]>::to_vec)
    } else {
        ended.then(|| rest.to_vec())
    };
    Ok(body.map(|body| (Response { status, body }, head_said)))
}

/// What follows interim heads (100 Continue, 103 Early Hints): the clients of a load pass over them too.
fn after_interim(mut bytes: &[u8]) -> &[u8] {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; 128];
        let mut head = httparse::Response::new(&mut fields);
        match head.parse(bytes) {
            Ok(httparse::Status::Complete(length))
                if head.code.is_some_and(|code| (100..200).contains(&code)) =>
            {
                bytes = &bytes[length..];
            }
            _ => return bytes,
        }
    }
}

/// The body of chunks, if the last one is there.
fn join_chunks(mut rest: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    loop {
        let Ok(size) = httparse::parse_chunk_size(rest) else {
            bail!("not a chunk after {} bytes of the body", body.len());
        };
        let httparse::Status::Complete((start, size)) = size else {
            return Ok(None);
        };
        if size == 0 {
            let end = &rest[start..];
            let ended = end.starts_with(b"\r\n") || end.windows(4).any(|four| four == b"\r\n\r\n");
            return Ok(ended.then_some(body));
        }
        // Two bytes end each chunk.
        let end = start.saturating_add(usize::try_from(size)?);
        let Some(chunk) = rest.get(start..end) else {
            return Ok(None);
        };
        body.extend_from_slice(chunk);
        rest = rest.get(end + 2..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(bytes: &str, ended: bool) -> Option<String> {
        let response = whole(bytes.as_bytes(), ended).unwrap();
        response.map(|(response, _)| {
            format!(
                "{} {}",
                response.status,
                String::from_utf8(response.body).unwrap()
            )
        })
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
        assert_eq!(body(&early.repeat(20_000), false), None);
    }

    #[test]
    fn a_redirection_is_seen() {
        let moved = b"HTTP/1.1 301 Moved\r\nLocation: https://a.org/\r\nContent-Length: 0\r\n\r\n";
        let (response, head) = whole(moved, false).unwrap().unwrap();
        assert_eq!(
            (response.status, head.location.as_deref()),
            (301, Some("https://a.org/"))
        );
        let created = b"HTTP/1.1 201 Made\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(whole(created, false).unwrap().unwrap().1.location, None);
    }

    #[test]
    fn what_is_not_http_is_shown() {
        let wrong = whole(b"SSH-2.0-server\r\n", false).unwrap_err().to_string();
        assert!(wrong.starts_with("not HTTP: \"SSH-2.0-server"), "{wrong}");
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
