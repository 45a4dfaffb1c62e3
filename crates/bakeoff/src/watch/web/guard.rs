//! Whose request it is: one of a page that we sent, by somebody who may.
//!
//! A page of somebody else's can make a browser send requests to any address. By its own name for that address it could even read the
//! answers (DNS rebinding), so names are refused but for those that cannot be given to an address at will. Beyond this host a token is
//! asked for: once in the address, then as a cookie, so that it stands in no link.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use anyhow::Result;
use base::secret::Secret;

use super::http::Request;

/// What a request must have.
pub struct Guard {
    /// Names that the server has beside addresses, in lower case.
    hosts: Vec<String>,
    access: Option<Access>,
}

/// What is asked of who is not on this host.
struct Access {
    token: Secret,
    cookie: String,
    /// What the cookie holds: not the token, because cookies go to all ports of a host.
    session: String,
    proof: Secret,
}

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It asks for a host that is not ours.
    Host(String),
    /// It has no token, or a wrong one.
    Token,
    /// It has the token in its address: it is sent on without, and gets a cookie.
    Welcome {
        /// Where to.
        to: String,
        /// The cookie, with its attributes.
        cookie: String,
    },
}

impl Guard {
    /// A guard that asks for a token, where there is one; `hosts` are names of the server beside addresses.
    ///
    /// # Errors
    /// Where the system has no random numbers.
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

    /// Whether an address can be reached from this host alone.
    pub fn is_private(address: SocketAddr) -> bool {
        address.ip().is_loopback()
    }

    pub(super) fn check(&self, request: &Request) -> Result<(), Refusal> {
        if !self.is_ours(&request.host) {
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
                to: local(&request.path),
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

    /// Addresses and `localhost` are nobody's to give; names only where they were given to us. The port is that of a tunnel, perhaps.
    fn is_ours(&self, host: &str) -> bool {
        let name = host_name(host).to_ascii_lowercase();
        let is_address = name.parse::<IpAddr>().is_ok()
            || name
                .strip_prefix('[')
                .and_then(|name| name.strip_suffix(']'))
                .is_some_and(|name| name.parse::<Ipv6Addr>().is_ok());
        is_address || name == "localhost" || self.hosts.contains(&name)
    }
}

/// A path that stays on this server: one that begins with two slashes, or with one and a backslash, names another host to a browser.
fn local(path: &str) -> String {
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
fn value<'t>(list: &'t str, between: char, name: &str) -> Option<&'t str> {
    let mut pairs = list
        .split(between)
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
    fn names_that_anybody_can_give_to_an_address_are_refused() {
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
    fn who_has_the_token_is_sent_on_within_this_server() {
        let guard = Guard::new(Some(TOKEN), &[]).unwrap();
        for (path, want) in [
            ("/run/a/", "/run/a/"),
            ("//evil.example/", "/evil.example/"),
            ("/\\/evil.example", "/evil.example"),
            ("//", "/"),
        ] {
            let asked = Request {
                path: path.into(),
                query: format!("token={TOKEN}"),
                ..request("10.0.0.7")
            };
            let Err(Refusal::Welcome { to, .. }) = guard.check(&asked) else {
                panic!("the token is right");
            };
            assert_eq!(to, want);
        }
    }

    #[test]
    fn the_token_is_given_once_and_then_a_cookie() {
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
    fn a_program_gives_the_token_as_a_header() {
        let guard = Guard::new(Some(TOKEN), &[]).unwrap();
        for (authorization, is_right) in [(TOKEN, true), ("x", false), ("", false)] {
            let mut one = request("10.0.0.7");
            one.authorization = format!("Bearer {authorization}");
            assert_eq!(guard.check(&one).is_ok(), is_right, "{authorization}");
        }
        let mut wrong = request("10.0.0.7");
        wrong.query = "token=".into();
        assert_eq!(guard.check(&wrong), Err(Refusal::Token));
    }
}
