//! Probes send a real request to a server and check the response, so that load starts only on a
//! working server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::tool;

/// A request that only a working server answers correctly.
#[derive(Debug, Clone)]
pub enum Probe {
    /// A page, mostly with known content.
    Http {
        /// Address of the server.
        server: SocketAddr,
        /// Path and query.
        path: String,
        /// Expected body, if it is known; the expected status is 200.
        body: Option<Arc<[u8]>>,
    },
    /// A program that exits with status 0 if the server works, such as `pg_isready`.
    Program {
        /// Program and arguments; the program is an absolute path.
        command: Vec<String>,
    },
    /// A request in another protocol.
    Custom {
        /// Address of the server.
        server: SocketAddr,
        /// Sends one request. The error describes a wrong response.
        ask: fn(SocketAddr) -> Result<(), String>,
    },
}

/// Time limit of a request.
const PATIENCE: Duration = Duration::from_secs(5);

/// Largest head of a response.
const HEAD_LIMIT: u64 = 64 << 10;

impl Probe {
    /// Sends one request. The error describes a wrong response.
    pub fn ask(&self) -> Result<(), String> {
        match self {
            Self::Http { server, path, body } => {
                let length = body.as_ref().map_or(0, |body| body.len());
                let answer = get(*server, path, length as u64);
                let answer = answer.map_err(|why| why.to_string());
                answer
                    .and_then(|answer| match body {
                        Some(body) => check(body_of(&answer)?, body),
                        None => body_of(&answer).map(drop),
                    })
                    .map_err(|why| format!("GET http://{server}{path}: {why}"))
            }
            Self::Program { command } => tool::check_program(command, PATIENCE),
            Self::Custom { server, ask } => ask(*server),
        }
    }
}

/// Fetches a short page whose content is not known in advance.
pub(crate) fn page(server: SocketAddr, path: &str) -> Result<String, String> {
    let answer = get(server, path, 0).map_err(|why| why.to_string());
    let text = answer.and_then(|answer| Ok(String::from_utf8_lossy(body_of(&answer)?).into()));
    text.map_err(|why| format!("GET http://{server}{path}: {why}"))
}

/// Sends a request on a new connection, and reads until the server closes it.
fn get(server: SocketAddr, path: &str, length: u64) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n",
        server.ip()
    )?;
    let mut answer = Vec::new();
    stream.take(length + HEAD_LIMIT).read_to_end(&mut answer)?;
    Ok(answer)
}

/// The body of a response with status 200.
fn body_of(answer: &[u8]) -> Result<&[u8], String> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Err(format!("answer without a head of {} bytes", answer.len()));
    };
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let status = String::from_utf8_lossy(head);
    let status = status.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("status is not 200: {status}"));
    }
    Ok(body)
}

fn check(body: &[u8], expected: &[u8]) -> Result<(), String> {
    if body.len() != expected.len() {
        return Err(format!("length is not {}: {}", expected.len(), body.len()));
    }
    if body != expected {
        return Err(format!("wrong content of {} bytes", body.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(answer: &str) -> String {
        let right = body_of(answer.as_bytes()).and_then(|body| check(body, b"hello"));
        right.map_or_else(|why| why, |()| "right".into())
    }

    #[test]
    fn responses_are_checked_by_status_length_and_content() {
        let ok = "HTTP/1.1 200 OK\r\n";
        for (answer, expected) in [
            (format!("{ok}Server: x\r\n\r\nhello"), "right"),
            (
                "HTTP/1.1 404 No\r\n\r\nhello".into(),
                "status is not 200: HTTP/1.1 404 No",
            ),
            (format!("{ok}\r\nhell"), "length is not 5: 4"),
            (format!("{ok}\r\nhallo"), "wrong content of 5 bytes"),
            ("hello".into(), "answer without a head of 5 bytes"),
        ] {
            assert_eq!(verdict(&answer), expected);
        }
    }
}
