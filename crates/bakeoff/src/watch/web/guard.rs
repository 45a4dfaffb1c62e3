//! Checks whether a request comes from one of this server's pages, and from a user with access.
//!
//! Any web page can make a browser send requests to any address. With DNS rebinding it could even read the answers, by
//! resolving its own name to that address. So only names are accepted that an attacker cannot point to an address. For clients
//! on other hosts a token is required: first in the address, then as a cookie, so that links do not contain it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anyhow::Result;
use base::secret::Secret;
use hyper::header::{AUTHORIZATION, COOKIE, HOST};
use hyper::http::request::Parts;

use super::answer::field;

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

    pub(super) fn check(&self, request: &Parts) -> Result<(), Refusal> {
        let host = field(request, HOST);
        if !self.is_own_host(host) {
            return Err(Refusal::Host(host.into()));
        }
        let Some(access) = &self.access else {
            return Ok(());
        };
        if let Some(token) = value(request.uri.query().unwrap_or_default(), '&', "token") {
            if !access.token.is(token) {
                return Err(Refusal::Token);
            }
            return Err(Refusal::Welcome {
                to: local_path(request.uri.path()),
                cookie: format!(
                    "{}={}; Path=/; HttpOnly; SameSite=Strict",
                    access.cookie, access.session
                ),
            });
        }
        let cookie = value(field(request, COOKIE), ';', &access.cookie);
        let bearer = field(request, AUTHORIZATION).strip_prefix("Bearer ");
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
    use hyper::header::{ACCEPT, HeaderName};

    use super::*;

    const TOKEN: &str = "a-token-of-twenty-letters";

    /// A request with a header field beside its host.
    fn request(host: &str, target: &str, name: HeaderName, value: &str) -> Parts {
        let request = hyper::Request::get(target).header(HOST, host);
        let request = request.header(name, value).body(()).unwrap();
        request.into_parts().0
    }

    /// A request without more fields.
    fn plain(host: &str, target: &str) -> Parts {
        request(host, target, ACCEPT, "*/*")
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
            assert_eq!(guard.check(&plain(host, "/run/a/")), Ok(()), "{host}");
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
                guard.check(&plain(host, "/run/a/")),
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
            let target = format!("{path}?token={TOKEN}");
            let request = plain("10.0.0.7", &target);
            let Err(Refusal::Welcome { to, .. }) = guard.check(&request) else {
                panic!("the token is right");
            };
            assert_eq!(to, want);
        }
    }

    #[test]
    fn the_token_is_sent_once_and_then_a_cookie() {
        let guard = Guard::new(Some(TOKEN), &[]).unwrap();
        let host = "10.0.0.7";
        assert_eq!(guard.check(&plain(host, "/run/a/")), Err(Refusal::Token));
        let target = format!("/run/a/?a=b&token={TOKEN}");
        let Err(Refusal::Welcome { to, cookie }) = guard.check(&plain(host, &target)) else {
            panic!("the token is right");
        };
        assert_eq!(to, "/run/a/");
        assert!(!cookie.contains(TOKEN) && cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"));
        let mut cookies = format!("other=1; {}", cookie.split(';').next().unwrap());
        let second = request(host, "/run/a/", COOKIE, &cookies);
        assert_eq!(guard.check(&second), Ok(()));
        cookies.pop();
        let third = request(host, "/run/a/", COOKIE, &cookies);
        assert_eq!(guard.check(&third), Err(Refusal::Token));
    }

    #[test]
    fn a_program_sends_the_token_as_a_header() {
        let guard = Guard::new(Some(TOKEN), &[]).unwrap();
        for (authorization, is_right) in [(TOKEN, true), ("x", false), ("", false)] {
            let authorization = format!("Bearer {authorization}");
            let request = request("10.0.0.7", "/run/a/", AUTHORIZATION, &authorization);
            assert_eq!(guard.check(&request).is_ok(), is_right, "{authorization}");
        }
        let wrong = plain("10.0.0.7", "/run/a/?token=");
        assert_eq!(guard.check(&wrong), Err(Refusal::Token));
    }
}
