//! A probe asks a server a real question and checks the answer, so that load never meets a server
//! that is up but wrong.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use crate::tool;

/// A question that only a working server answers rightly.
#[derive(Debug, Clone)]
pub enum Probe {
    /// A page with a known content.
    Http {
        /// The server.
        server: SocketAddr,
        /// Path and query.
        path: String,
        /// The right body; its status is 200.
        body: Arc<[u8]>,
    },
    /// A program that ends with status 0 if the server serves, such as `pg_isready`.
    Program {
        /// Program and arguments; the program is an absolute path.
        command: Vec<String>,
    },
    /// A question in a protocol of the workload's own.
    Own {
        /// The server.
        server: SocketAddr,
        /// Asks once; says what was wrong with the answer.
        ask: fn(SocketAddr) -> Result<(), String>,
    },
}

/// Longest time for one question.
const PATIENCE: Duration = Duration::from_secs(5);

/// Most that an answer may hold beyond what was expected: status line and headers.
const HEAD_LIMIT: u64 = 64 << 10;

impl Probe {
    /// Asks once; says what was wrong with the answer.
    pub fn ask(&self) -> Result<(), String> {
        match self {
            Self::Http { server, path, body } => {
                let answer = get(*server, path, body.len() as u64);
                let answer = answer.map_err(|why| why.to_string());
                answer
                    .and_then(|answer| check(body_of(&answer)?, body))
                    .map_err(|why| format!("GET http://{server}{path}: {why}"))
            }
            Self::Program { command } => tool::ask(command, PATIENCE),
            Self::Own { server, ask } => ask(*server),
        }
    }
}

/// A short page that only the server knows.
pub(crate) fn page(server: SocketAddr, path: &str) -> Result<String, String> {
    let answer = get(server, path, 0).map_err(|why| why.to_string());
    let text = answer.and_then(|answer| Ok(String::from_utf8_lossy(body_of(&answer)?).into()));
    text.map_err(|why| format!("GET http://{server}{path}: {why}"))
}

/// One request with one connection; the answer ends where the server closes.
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

/// The body of an answer whose status is 200.
fn body_of(answer: &[u8]) -> Result<&[u8], String> {
    let gap = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = match gap {
        Some(gap) => (&answer[..gap], &answer[gap + 4..]),
        None => return Err(format!("answer without a head of {} bytes", answer.len())),
    };
    let status = String::from_utf8_lossy(head);
    let status = status.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("status is not 200: {status}"));
    }
    Ok(body)
}

fn check(body: &[u8], right: &[u8]) -> Result<(), String> {
    if body.len() != right.len() {
        return Err(format!("length is not {}: {}", right.len(), body.len()));
    }
    if body != right {
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
    fn an_answer_is_checked_by_status_length_and_content() {
        assert_eq!(
            verdict("HTTP/1.1 200 OK\r\nServer: x\r\n\r\nhello"),
            "right"
        );
        assert_eq!(
            verdict("HTTP/1.1 404 Not Found\r\n\r\nhello"),
            "status is not 200: HTTP/1.1 404 Not Found"
        );
        assert_eq!(verdict("HTTP/1.1 200 OK\r\n\r\nhell"), "length is not 5: 4");
        assert_eq!(
            verdict("HTTP/1.1 200 OK\r\n\r\nhallo"),
            "wrong content of 5 bytes"
        );
        assert_eq!(verdict("hello"), "answer without a head of 5 bytes");
    }
}
