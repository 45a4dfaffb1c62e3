//! Web addresses as people type them.

use std::fmt::Write as _;
use std::net::{SocketAddr, ToSocketAddrs as _};

use anyhow::{Context as _, Result, bail, ensure};

/// An address such as `https://example.org:8443/a?b=c`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Whether it begins with `https`.
    pub is_secure: bool,
    /// Name or address of the server; an IPv6 address without its brackets.
    pub host: String,
    /// Port, the scheme's own if none is written.
    pub port: u16,
    /// Path and query, `/` if none is written.
    pub path: String,
}

impl Url {
    /// Reads an address; errors say what is wrong and what to write.
    pub fn read(text: &str) -> Result<Self> {
        let (is_secure, rest) = match text.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            Some((scheme, _)) => {
                bail!("unknown scheme: {scheme} (begin the URL with http:// or https://)")
            }
            None => bail!("no scheme in URL: {text} (begin it with http:// or https://)"),
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (server, path) = rest.split_at(end);
        ensure!(
            !server.contains('@'),
            "user name in URL: {text} (send it as a header field instead)"
        );
        let (host, port) = split_port(server);
        ensure!(
            !host.is_empty(),
            "no host in URL: {text} (write it like http://example.org/)"
        );
        let port = match port {
            None => {
                if is_secure {
                    443
                } else {
                    80
                }
            }
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .with_context(|| format!("not a port: {port} (write a number from 1 to 65535)"))?,
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            is_secure,
            host: host.into(),
            port,
            path: format!("{slash}{path}"),
        })
    }

    /// The server's address: the first one that its name stands for.
    pub fn resolve(&self) -> Result<SocketAddr> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let mut found = found.with_context(|| {
            format!(
                "unknown host: {} (check its spelling and the name server)",
                self.host
            )
        })?;
        found
            .next()
            .with_context(|| format!("host without an address: {}", self.host))
    }

    /// Value of the `Host` header.
    pub fn host_field(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match (self.is_secure, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }
}

/// A path and query as they go on the wire: what is no visible ASCII character is written as `%XX`, byte by byte (RFC
/// 3986, section 2.1). What is escaped already stays as it is; a control character is a mistake.
pub fn encode(path: &str) -> Result<String, String> {
    if path.chars().any(char::is_control) {
        return Err(format!(
            "control character in the path: {path:?} (remove it)"
        ));
    }
    let mut text = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_graphic() {
            text.push(byte.into());
        } else {
            _ = write!(text, "%{byte:02X}");
        }
    }
    Ok(text)
}

fn split_port(server: &str) -> (&str, Option<&str>) {
    if let Some(bracketed) = server.strip_prefix('[')
        && let Some((host, rest)) = bracketed.split_once(']')
    {
        return (host, rest.strip_prefix(':'));
    }
    match server.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (server, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect as Snapshot, expect};

    fn check(text: &str, expected: &Snapshot) {
        let seen = match Url::read(text) {
            Ok(url) => format!(
                "{} {} {} {}",
                url.is_secure,
                url.host_field(),
                url.port,
                url.path
            ),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&seen);
    }

    #[test]
    fn addresses_are_read() {
        check("http://a.org", &expect!["false a.org 80 /"]);
        check("https://a.org/b?c=d#e", &expect!["true a.org 443 /b?c=d"]);
        check(
            "http://127.0.0.1:8080?q",
            &expect!["false 127.0.0.1:8080 8080 /?q"],
        );
        check("https://[::1]:443/x", &expect!["true [::1] 443 /x"]);
    }

    #[test]
    fn a_path_goes_out_in_ascii() {
        assert_eq!(encode("/ü b?x=%20&y"), Ok("/%C3%BC%20b?x=%20&y".into()));
        assert!(
            encode("/a\nb")
                .unwrap_err()
                .starts_with("control character")
        );
    }

    #[test]
    fn mistakes_are_told_with_a_remedy() {
        check(
            "a.org",
            &expect!["no scheme in URL: a.org (begin it with http:// or https://)"],
        );
        check(
            "ftp://a.org",
            &expect!["unknown scheme: ftp (begin the URL with http:// or https://)"],
        );
        check(
            "http:///x",
            &expect!["no host in URL: http:///x (write it like http://example.org/)"],
        );
        check(
            "http://a:99999/",
            &expect!["not a port: 99999 (write a number from 1 to 65535)"],
        );
        check(
            "http://me@a/",
            &expect!["user name in URL: http://me@a/ (send it as a header field instead)"],
        );
    }

    #[test]
    fn names_and_addresses_are_resolved() {
        let resolve = |text| Url::read(text).unwrap().resolve();
        assert_eq!(
            resolve("http://127.0.0.1:81/").unwrap(),
            "127.0.0.1:81".parse().unwrap()
        );
        assert_eq!(
            resolve("http://[::1]/").unwrap(),
            "[::1]:80".parse().unwrap()
        );
        let error = resolve("http://no-such-host.invalid/").unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("unknown host: no-such-host.invalid")
        );
    }
}
