//! A request and its expected response.

use anyhow::{Result, bail, ensure};

use crate::expect::Expect;

/// A request and its expected response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// `GET`, `POST`, ...
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header fields, in addition to `Host`, `User-Agent`, `Accept`, `Connection` and
    /// `Content-Length`. A field with one of these names replaces the generated one.
    pub headers: Vec<(String, String)>,
    /// Body. If it is empty, only methods that normally have a body get a `Content-Length`.
    pub body: Vec<u8>,
    /// The expected response.
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

    /// Value of the `Content-Length` field, if one is needed. `POST`, `PUT` and `PATCH` need one
    /// even without a body (RFC 9110, section 8.6).
    pub(crate) fn content_length(&self) -> Option<String> {
        let expects_body = ["POST", "PUT", "PATCH"].contains(&self.method.as_str());
        (expects_body || !self.body.is_empty()).then(|| self.body.len().to_string())
    }

    /// Value of the given header field with this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.headers.iter();
        let (_, value) = fields.find(|(each, _)| each.eq_ignore_ascii_case(name))?;
        Some(value)
    }

    /// The request in the format of HTTP/1.1.
    pub(crate) fn bytes(&self, host: &str, keep_alive: bool) -> Vec<u8> {
        let length = self.content_length().unwrap_or_default();
        let defaults = [
            ("Host", host),
            ("User-Agent", "bakeoff"),
            ("Accept", "*/*"),
            ("Connection", if keep_alive { "" } else { "close" }),
            ("Content-Length", &length),
        ];
        let mut text = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let defaults = defaults
            .into_iter()
            .filter(|(name, value)| !value.is_empty() && self.header(name).is_none());
        let given = self.headers.iter().map(|(name, value)| (&**name, &**value));
        for (name, value) in defaults.chain(given) {
            text.extend([name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        [text.as_bytes(), &self.body].concat()
    }

    /// Checks method, path and header fields.
    pub(crate) fn check(&self) -> Result<()> {
        check_method(&self.method)?;
        let path = &self.path;
        ensure!(
            path.starts_with('/') && is_graphic(path),
            "not a path: {path:?} (begin it with / and escape blanks as %20)"
        );
        for (name, value) in &self.headers {
            check_field(name, value)?;
        }
        check_framing(&self.headers, self.body.len())
    }
}

/// Checks that header fields contradict neither the body nor each other, because a server would
/// then misread the request.
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
        ensure!(
            value.parse() == Ok(body_bytes) && !value.starts_with('+'),
            "header field Content-Length that is not the body's: {value} of {body_bytes} bytes (leave it out: the right \
             one is sent)"
        );
    }
    Ok(())
}

/// Checks the syntax of a method.
pub fn check_method(method: &str) -> Result<()> {
    ensure!(
        is_token(method),
        "not a method: {method:?} (write it like GET or POST)"
    );
    Ok(())
}

/// Checks the syntax of a header field.
pub fn check_field(name: &str, value: &str) -> Result<()> {
    ensure!(
        is_token(name),
        "not the name of a header field: {name:?} (write it like Accept-Language)"
    );
    let is_control = |byte: u8| (byte < b' ' || byte == 0x7f) && byte != b'\t';
    ensure!(
        !value.bytes().any(is_control),
        "control characters in header field {name}: {value:?} (remove them)"
    );
    Ok(())
}

/// Whether a text is a token of RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_part)
}

/// Whether a text consists of visible ASCII characters.
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
    fn requests_are_written_as_http_1_1() {
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

    fn exchange(method: &str, headers: &[(&str, &str)], body: &str) -> Exchange {
        let owned = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
        Exchange {
            method: method.into(),
            headers: headers.iter().map(owned).collect(),
            body: body.as_bytes().to_vec(),
            ..Exchange::get("/", Expect::status(200))
        }
    }

    /// The lines of a request that state the length of its body.
    fn framing(method: &str, headers: &[(&str, &str)], body: &str) -> String {
        let bytes = exchange(method, headers, body).bytes("example.org", true);
        let text = String::from_utf8(bytes).unwrap();
        let lines = text
            .lines()
            .filter(|line| line.to_ascii_lowercase().starts_with("content-length"));
        lines.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn methods_with_a_body_state_its_length_even_if_it_is_empty() {
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

    /// Why header fields of a request with a body of five bytes are refused, if they are.
    fn refused(headers: &[(&str, &str)]) -> Option<String> {
        let checked = exchange("GET", headers, "hello").check();
        checked.err().map(|why| why.to_string())
    }

    #[test]
    fn fields_that_contradict_the_body_or_each_other_are_refused() {
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
