//! Checks whether a request comes from one of this server's pages, and from a user with access.
//!
//! Any web page can make a browser send requests to any address. With DNS rebinding it could even read the answers, by
//! resolving its own name to that address. So only names are accepted that an attacker cannot point to an address. For clients
//! on other hosts a token is required: first in the address, then as a cookie, so that links do not contain it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anyhow::Result;
use base::secret::Secret;

use super::http::Request;

/// The conditions that a request must meet.
pub struct Guard {
    /// Host names of the server, in lower case; addresses are always accepted.
    hosts: Vec<String>,
    access: Option<Access>,
}

/// The credentials that give access from other hosts.
struct Access {
    token: Secret,
    cookie: String,
    /// Value of the cookie. It is not the token, because browsers send cookies to all ports of a host.
    session: String,
    proof: Secret,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The request names another host.
    Host(String),
    /// The request has no token, or a wrong one.
    Token,
    /// The address has the token: the client gets a cookie, and is redirected to the address without it.
    Welcome {
        /// The new path.
        to: String,
        /// The cookie, with its attributes.
        cookie: String,
    },
}

impl Guard {
    /// A guard that requires the token, if there is one; `hosts` are the server's host names.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn new(token: Option<&str>, hosts: &[String]) -> Result<Self> {
        let access = |token: &str| -> Result<Access> {
            let session = base::secret::fresh()?;
            Ok(Access {
                token: Secret::of(token),
                cookie: format!("bakeoff-{}", &base::secret::nonce()?[..8]),
                proof: Secret::of(&session),
                session,
            })
        };
        Ok(Self {
            hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            access: token.map(access).transpose()?,
        })
    }

    /// Whether an address can only be reached from this host.
    pub fn is_private(address: SocketAddr) -> bool {
        address.ip().is_loopback()
    }

    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        if !self.is_own_host(&request.host) {
            return Err(Refusal::Host(request.host.clone()));
        }
        let Some(access) = &self.access else {
            return Ok(());
        };
        if let Some(token) = value(&request.query, '&', "token") {
            if !access.token.is(token) {
                return Err(Refusal::Token);
            }
            return Err(Refusal::Welcome {
                to: local_path(&request.path),
                cookie: format!(
                    "{}={}; Path=/; HttpOnly; SameSite=Strict",
                    access.cookie, access.session
                ),
            });
        }
        let cookie = value(&request.cookie, ';', &access.cookie);
        let bearer = request.authorization.strip_prefix("Bearer ");
        let is_known = cookie.is_some_and(|session| access.proof.is(session));
        if is_known || bearer.is_some_and(|token| access.token.is(token.trim())) {
            return Ok(());
        }
        Err(Refusal::Token)
    }

    /// Whether a host is this server: an address, `localhost`, or a configured name. The port may be that of a tunnel, so it is
    /// ignored.
    fn is_own_host(&self, host: &str) -> bool {
        let name = host_name(host).to_ascii_lowercase();
        let is_address = name.parse::<IpAddr>().is_ok()
            || name
                .strip_prefix('[')
                .and_then(|name| name.strip_suffix(']'))
                .is_some_and(|name| name.parse::<Ipv6Addr>().is_ok());
        is_address || name == "localhost" || self.hosts.contains(&name)
    }
}

/// A path on this server. To a browser, a path that begins with two slashes, or a slash and a backslash, names another host.
fn local_path(path: &str) -> String {
    format!("/{}", path.trim_start_matches(['/', '\\']))
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port))
            if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() =>
        {
            if name.contains(':') && !name.starts_with('[') {
                host
            } else {
                name
            }
        }
        _ => host,
    }
}

/// The value of a name in a list of `name=value`.
fn value<'t>(list: &'t str, separator: char, name: &str) -> Option<&'t str> {
    let mut pairs = list
        .split(separator)
        .filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "a token of twenty letters";

    fn request(host: &str) -> Request {
        Request {
            path: "/run/a/".into(),
            host: host.into(),
            ..Request::default()
        }
    }

    #[test]
    fn host_names_that_are_not_configured_are_refused() {
        let guard = Guard::new(None, &["Box.Example".into()]).unwrap();
        for host in [
            "127.0.0.1",
            "127.0.0.1:8990",
            "localhost:1",
            "LOCALHOST",
            "[::1]:8990",
            "[::1]",
            "10.0.0.7:80",
            "box.example:8990",
        ] {
            assert_eq!(guard.check(&request(host)), Ok(()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8990",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[evil]",
            ":8990",
            "::1:8990x",
        ] {
            assert_eq!(
                guard.check(&request(host)),
                Err(Refusal::Host(host.into())),
                "{host}"
            );
        }
    }

    #[test]
    fn a_client_with_the_token_is_redirected_within_this_server() {
        let guard = Guard::new(Some(TOKEN), &[]).unwrap();
        for (path, want) in [
            ("/run/a/", "/run/a/"),
            ("//evil.example/", "/evil.example/"),
            ("/\\/evil.example", "/evil.example"),
            ("//", "/"),
        ] {
            let request = Request {
                path: path.into(),
                query: format!("token={TOKEN}"),
                ..request("10.0.0.7")
            };
            let Err(Refusal::Welcome { to, .. }) = guard.check(&request) else {
                panic!("the token is right");
            };
            assert_eq!(to, want);
        }
    }

    #[test]
    fn the_token_is_sent_once_and_then_a_cookie() {
        let guard = Guard::new(Some(TOKEN), &[]).unwrap();
        let mut first = request("10.0.0.7");
        assert_eq!(guard.check(&first), Err(Refusal::Token));
        first.query = format!("a=b&token={TOKEN}");
        let Err(Refusal::Welcome { to, cookie }) = guard.check(&first) else {
            panic!("the token is right");
        };
        assert_eq!(to, "/run/a/");
        assert!(!cookie.contains(TOKEN) && cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"));
        let mut second = request("10.0.0.7");
        second.cookie = format!("other=1; {}", cookie.split(';').next().unwrap());
        assert_eq!(guard.check(&second), Ok(()));
        second.cookie.pop();
        assert_eq!(guard.check(&second), Err(Refusal::Token));
    }

    #[test]
    fn a_program_sends_the_token_as_a_header() {
        let guard = Guard::new(Some(TOKEN), &[]).unwrap();
        for (authorization, is_right) in [(TOKEN, true), ("x", false), ("", false)] {
            let mut request = request("10.0.0.7");
            request.authorization = format!("Bearer {authorization}");
            assert_eq!(guard.check(&request).is_ok(), is_right, "{authorization}");
        }
        let mut wrong = request("10.0.0.7");
        wrong.query = "token=".into();
        assert_eq!(guard.check(&wrong), Err(Refusal::Token));
    }
}
