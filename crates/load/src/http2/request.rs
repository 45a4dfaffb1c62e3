//! Requests in the form of HTTP/2.

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Method, Request, Version};

use crate::exchange::Exchange;
use crate::expect::Expect;

/// A request and its expected response.
#[derive(Debug, Clone)]
pub(super) struct PreparedRequest {
    pub(super) head: Request<()>,
    pub(super) body: Bytes,
    pub(super) expect: Expect,
    /// Whether it may be sent twice.
    pub(super) is_repeatable: bool,
}

/// Fields that belong to a connection, or that HTTP/2 replaces (RFC 9113, section 8.2.2).
const NOT_SENT: [&str; 6] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

impl PreparedRequest {
    pub(super) fn new(exchange: &Exchange, host: &str, is_encrypted: bool) -> Result<Self> {
        let Exchange {
            method,
            path,
            headers,
            body,
            expect,
        } = exchange;
        let host = exchange.header("host").unwrap_or(host);
        let scheme = if is_encrypted { "https" } else { "http" };
        let mut head = Request::builder()
            .version(Version::HTTP_2)
            .method(Method::from_bytes(method.as_bytes())?)
            .uri(format!("{scheme}://{host}{path}"));
        let length = exchange.content_length().unwrap_or_default();
        let defaults = [
            ("user-agent", "bakeoff"),
            ("accept", "*/*"),
            ("content-length", &length),
        ];
        for (name, value) in defaults {
            if !value.is_empty() && exchange.header(name).is_none() {
                head = head.header(name, value);
            }
        }
        for (name, value) in headers {
            if !NOT_SENT.contains(&name.to_ascii_lowercase().as_str()) {
                head = head.header(name, value);
            }
        }
        let head = head.body(());
        Ok(Self {
            head: head.with_context(|| format!("not a request: {method} {path}"))?,
            body: body.clone().into(),
            expect: expect.clone(),
            is_repeatable: exchange.is_idempotent(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_connection_are_not_sent() {
        let exchange = Exchange {
            headers: vec![
                ("Host".into(), "b.org".into()),
                ("Connection".into(), "close".into()),
                ("X-One".into(), "1".into()),
            ],
            body: b"ab".to_vec(),
            ..Exchange::get("/x?y", Expect::status(200))
        };
        let request = PreparedRequest::new(&exchange, "a.org", true).unwrap();
        assert_eq!(request.head.uri(), "https://b.org/x?y");
        let mut names: Vec<&str> = request
            .head
            .headers()
            .keys()
            .map(http::HeaderName::as_str)
            .collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "content-length", "user-agent", "x-one"]);
    }

    #[test]
    fn a_post_without_a_body_has_a_length_of_0() {
        for (method, expected) in [("POST", Some("0")), ("PUT", Some("0")), ("DELETE", None)] {
            let exchange = Exchange {
                method: method.into(),
                ..Exchange::get("/", Expect::status(200))
            };
            let request = PreparedRequest::new(&exchange, "a.org", true).unwrap();
            let length = request.head.headers().get("content-length");
            let length = length.and_then(|value| value.to_str().ok());
            assert_eq!(length, expected, "{method}");
        }
    }
}
