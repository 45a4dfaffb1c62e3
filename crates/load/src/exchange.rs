//! A request and the response that it should have.

use anyhow::{Result, bail, ensure};

use crate::expect::Expect;

/// A request, and what a successful response to it looks like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header fields beside those that the generator sends: `Host`, `User-Agent`, `Accept`,
    /// `Connection` and `Content-Length`. A field of the same name takes the place of the
    /// generator's.
    pub headers: Vec<(String, String)>,
    /// Body. An empty one has a `Content-Length` where the method is one that sends something.
    pub body: Vec<u8>,
    /// What a successful response looks like.
    pub expect: Expect,
}

impl Exchange {
    /// A plain `GET`.
    pub fn get(path: impl Into<String>, expect: Expect) -> Self {
        Self {
            method: "GET".into(),
            path: path.into(),
            headers: Vec::new(),
            body: Vec::new(),
            expect,
        }
    }

    /// Whether it may be sent twice (RFC 9110, section 9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        let methods = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"];
        methods.contains(&self.method.as_str())
    }

    /// Value of the `Content-Length` that it needs. Servers wait for a body of `POST`, `PUT` and
    /// `PATCH`, so these say that there is none (RFC 9110, section 8.6).
    pub(crate) fn content_length(&self) -> Option<String> {
        let sends = ["POST", "PUT", "PATCH"].contains(&self.method.as_str());
        (sends || !self.body.is_empty()).then(|| self.body.len().to_string())
    }

    /// The request as it goes on the wire.
    pub(crate) fn bytes(&self, host: &str, keep_alive: bool) -> Vec<u8> {
        let Self {
            method, path, body, ..
        } = self;
        let length = self.content_length().unwrap_or_default();
        let own = [
            ("Host", host),
            ("User-Agent", "bakeoff"),
            ("Accept", "*/*"),
            ("Connection", if keep_alive { "" } else { "close" }),
            ("Content-Length", &length),
        ];
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        let given = |name: &str| {
            self.headers
                .iter()
                .any(|(each, _)| each.eq_ignore_ascii_case(name))
        };
        let own = own
            .into_iter()
            .filter(|(name, value)| !value.is_empty() && !given(name));
        let given = self.headers.iter().map(|(name, value)| (&**name, &**value));
        for (name, value) in own.chain(given) {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        [text.as_bytes(), body].concat()
    }

    /// Refuses what is no request.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { method, path, .. } = self;
        check_method(method)?;
        let right = path.starts_with('/') && is_graphic(path);
        ensure!(
            right,
            "not a path: {path:?} (begin it with / and escape blanks as %20)"
        );
        for (name, value) in &self.headers {
            check_field(name, value)?;
        }
        check_framing(&self.headers, self.body.len())
    }
}

/// Refuses header fields that contradict the body, or one another: a server would read another
/// request than is meant.
pub fn check_framing(headers: &[(String, String)], body_bytes: usize) -> Result<()> {
    let values = |wanted: &str| {
        let fields = headers.iter();
        let fields = fields.filter(|(name, _)| name.eq_ignore_ascii_case(wanted));
        fields.map(|(_, value)| value.as_str()).collect::<Vec<_>>()
    };
    if let [value, ..] = values("Transfer-Encoding")[..] {
        bail!(
            "header field Transfer-Encoding for a body that is sent as it is: {value} (leave it out: Content-Length is \
             sent)"
        );
    }
    for name in ["Host", "Content-Length"] {
        let values = values(name);
        ensure!(
            values.len() <= 1,
            "header field {name} more than once: {} (give it once)",
            values.join(" and ")
        );
    }
    if let [value] = values("Content-Length")[..] {
        let is_right = value.parse() == Ok(body_bytes) && !value.starts_with('+');
        ensure!(
            is_right,
            "header field Content-Length that is not the body's: {value} of {body_bytes} bytes (leave it out: the right \
             one is sent)"
        );
    }
    Ok(())
}

/// Refuses what is no method of a request.
pub fn check_method(method: &str) -> Result<()> {
    ensure!(
        is_token(method),
        "not a method: {method:?} (write it like GET or POST)"
    );
    Ok(())
}

/// Refuses what is no header field.
pub fn check_field(name: &str, value: &str) -> Result<()> {
    ensure!(
        is_token(name),
        "not the name of a header field: {name:?} (write it like Accept-Language)"
    );
    let right = value
        .bytes()
        .all(|byte| (byte >= b' ' && byte != 0x7f) || byte == b'\t');
    ensure!(
        right,
        "control characters in header field {name}: {value:?} (remove them)"
    );
    Ok(())
}

/// Letters, digits and a few signs: RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

/// Whether a text has neither blanks nor controls.
pub(crate) fn is_graphic(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect as Snapshot, expect};

    fn check(exchange: &Exchange, keep_alive: bool, expected: &Snapshot) {
        let bytes = exchange.bytes("example.org", keep_alive);
        expected.assert_eq(&String::from_utf8(bytes).unwrap().replace("\r\n", "\n"));
    }

    #[test]
    fn requests_look_as_servers_expect_them() {
        let get = Exchange::get("/a?b=c", Expect::status(200));
        check(
            &get,
            true,
            &expect![[r"
                GET /a?b=c HTTP/1.1
                Host: example.org
                User-Agent: bakeoff
                Accept: */*

            "]],
        );
        let post = Exchange {
            method: "POST".into(),
            headers: vec![("user-agent".into(), "other".into())],
            body: b"x=1".to_vec(),
            ..get
        };
        check(
            &post,
            false,
            &expect![[r"
                POST /a?b=c HTTP/1.1
                Host: example.org
                Accept: */*
                Connection: close
                Content-Length: 3
                user-agent: other

                x=1"]],
        );
    }

    /// The lines of a request's head that tell of its body.
    fn framing(method: &str, headers: &[(&str, &str)], body: &str) -> String {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let exchange = Exchange {
            method: method.into(),
            headers: headers.collect(),
            body: body.as_bytes().to_vec(),
            ..Exchange::get("/", Expect::status(200))
        };
        let text = String::from_utf8(exchange.bytes("example.org", true)).unwrap();
        let lines = text
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("content-length"));
        lines.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_method_that_sends_something_says_how_much_even_if_it_is_nothing() {
        for method in ["POST", "PUT", "PATCH"] {
            assert_eq!(framing(method, &[], ""), "Content-Length: 0", "{method}");
            assert_eq!(framing(method, &[], "abc"), "Content-Length: 3", "{method}");
            let given = [("content-length", "0")];
            assert_eq!(framing(method, &given, ""), "content-length: 0", "{method}");
        }
        for method in ["GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "PROPFIND"] {
            assert_eq!(framing(method, &[], ""), "", "{method}");
        }
        assert_eq!(framing("DELETE", &[], "abc"), "Content-Length: 3");
    }

    /// Why header fields beside a body of five bytes are refused, if they are.
    fn refused(headers: &[(&str, &str)]) -> Option<String> {
        let headers = headers
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        let exchange = Exchange {
            headers: headers.collect(),
            body: b"hello".to_vec(),
            ..Exchange::get("/", Expect::status(200))
        };
        exchange.check().err().map(|why| why.to_string())
    }

    #[test]
    fn fields_that_contradict_the_body_or_one_another_are_refused() {
        assert_eq!(refused(&[("content-length", "5"), ("Host", "a.org")]), None);
        let twice = "header field Host more than once: a.org and b.org (give it once)";
        let hosts = [("Host", "a.org"), ("HOST", "b.org")];
        assert_eq!(refused(&hosts).as_deref(), Some(twice));
        for wrong in ["4", "6", "-5", "+5", "5, 5", "0x5", ""] {
            let why = refused(&[("Content-Length", wrong)]).unwrap();
            let begin = format!("header field Content-Length that is not the body's: {wrong} of 5");
            assert!(why.starts_with(&begin), "{why}");
        }
        let lengths = [("Content-Length", "5"), ("content-length", "5")];
        let why = refused(&lengths).unwrap();
        assert!(
            why.starts_with("header field Content-Length more than once"),
            "{why}"
        );
        for coding in ["chunked", "gzip, chunked", "identity"] {
            let why = refused(&[("transfer-encoding", coding)]).unwrap();
            assert!(why.starts_with("header field Transfer-Encoding"), "{why}");
        }
    }
}
