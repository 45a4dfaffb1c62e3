//! A request and the response that it should have.

use anyhow::{Result, ensure};

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
    /// Body; no `Content-Length` is sent for an empty one.
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

    /// The request as it goes on the wire.
    pub(crate) fn bytes(&self, host: &str, keep_alive: bool) -> Vec<u8> {
        let Self {
            method, path, body, ..
        } = self;
        let length = body.len().to_string();
        let own = [
            ("Host", host),
            ("User-Agent", "bakeoff"),
            ("Accept", "*/*"),
            ("Connection", if keep_alive { "" } else { "close" }),
            ("Content-Length", if body.is_empty() { "" } else { &length }),
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
        Ok(())
    }
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
}
