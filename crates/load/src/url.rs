//! URLs and paths as people type them.

use std::fmt::Write as _;

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// `http` or `https`.
    pub scheme: Scheme,
    /// Host name or address; an IPv6 address without brackets.
    pub host: String,
    /// Zone of a link-local IPv6 address: name or number of a network interface.
    pub zone: Option<String>,
    /// Port; defaults to that of the scheme.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

/// Scheme of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http://`
    Http,
    /// `https://`
    Https,
}

impl Url {
    /// Parses a URL. The error is a message with a remedy.
    pub fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!(
                "no scheme in the URL: {text} (write http://{text})"
            ));
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => {
                return Err(format!(
                    "unknown scheme: {scheme} (write http:// or https://)"
                ));
            }
        };
        let (site, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (site, zone) = split_zone(site)?;
        let (host, port) = scheme.split_site(&site, text)?;
        // The path is only escaped, not normalised: /a/../b may be intended.
        let path = path.split('#').next().unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path = encode(&format!("{slash}{path}"))?;
        Ok(Self {
            scheme,
            host,
            zone,
            port,
            path,
        })
    }

    /// The host for name resolution, with its zone.
    pub fn lookup_name(&self) -> String {
        match &self.zone {
            Some(zone) => format!("{}%{zone}", self.host),
            None => self.host.clone(),
        }
    }

    /// Whether another URL has the same scheme, host and port.
    pub fn is_same_site(&self, other: &Self) -> bool {
        let site = |url: &Self| (url.scheme, url.lookup_name(), url.port);
        site(self) == site(other)
    }

    /// Value of the `Host` field, without zone.
    pub fn host_field(&self) -> String {
        let is_ipv6 = self.host.contains(':');
        let host = if is_ipv6 {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == self.scheme.default_port() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    /// Parses host and port, between the scheme and the path.
    fn split_site(self, site: &str, text: &str) -> Result<(String, u16), String> {
        if site.contains('@') {
            let remedy = "send it with -H \"Authorization: ...\"";
            return Err(format!("name and password in the URL: {text} ({remedy})"));
        }
        if site.is_empty() || site.starts_with(':') {
            return Err(format!(
                "no host in the URL: {text} (write http://HOST/PATH)"
            ));
        }
        let not_a_host = || format!("not a host and port: {site:?} (write HOST or HOST:PORT)");
        let scheme = match self {
            Self::Http => "http",
            Self::Https => "https",
        };
        let parsed = url::Url::parse(&format!("{scheme}://{site}"));
        let url = match parsed {
            Ok(url) if url.path() == "/" => url,
            Err(url::ParseError::InvalidPort) => {
                return Err(format!("not a port: {site} (1 to 65535)"));
            }
            Ok(_) | Err(_) => return Err(not_a_host()),
        };
        let host = match url.host().ok_or_else(not_a_host)? {
            url::Host::Ipv6(address) => address.to_string(),
            url::Host::Ipv4(address) => address.to_string(),
            url::Host::Domain(name) => name.into(),
        };
        match url.port_or_known_default() {
            Some(port) if port > 0 => Ok((host, port)),
            Some(_) | None => Err(format!("not a port: {site} (1 to 65535)")),
        }
    }
}

/// Removes the zone from an IPv6 address in brackets: `[fe80::1%25eth0]` (RFC 6874), or with a bare
/// `%`, which most programs accept.
fn split_zone(site: &str) -> Result<(String, Option<String>), String> {
    let parts = site.split_once('%').and_then(|(address, rest)| {
        let (zone, port) = rest.split_once(']')?;
        address.starts_with('[').then_some((address, zone, port))
    });
    let Some((address, zone, port)) = parts else {
        return Ok((site.into(), None));
    };
    let zone = match zone.strip_prefix("25") {
        Some(escaped) if !escaped.is_empty() => escaped,
        Some(_) | None => zone,
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@:".contains(&byte);
    if zone.is_empty() || !zone.bytes().all(is_name) {
        return Err(format!(
            "not a zone: {site} (write an interface, like [fe80::1%25eth0])"
        ));
    }
    Ok((format!("{address}]{port}"), Some(zone.into())))
}

/// Percent-encodes all characters of path and query that are not visible ASCII (RFC 3986, section
/// 2.1). Existing escapes are kept. A control character is an error.
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

/// A line of a list or script without its comment, which starts with `#` at the beginning of the
/// line or after a blank.
pub fn without_comment(line: &str) -> &str {
    let mut after_blank = true;
    for (at, letter) in line.char_indices() {
        if letter == '#' && after_blank {
            return &line[..at];
        }
        after_blank = letter.is_whitespace();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        match Url::read(text) {
            Ok(url) => {
                let host = url.host_field();
                format!("{:?} {host} {} {}", url.scheme, url.port, url.path)
            }
            Err(why) => why,
        }
    }

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        for (text, expected) in [
            ("http://a.org", "Http a.org 80 /"),
            ("HTTPS://a.org?x=1#y", "Https a.org 443 /?x=1"),
            ("http://a.org:81/b/c", "Http a.org:81 81 /b/c"),
            ("http://[::1]:81/", "Http [::1]:81 81 /"),
            ("https://[::1]/", "Https [::1] 443 /"),
            // Blanks around a URL are not part of it.
            (" http://a.org/b \t", "Http a.org 80 /b"),
            ("http://a.org/b c ", "Http a.org 80 /b%20c"),
            (
                "http://a.org/ü b?c=%20 d",
                "Http a.org 80 /%C3%BC%20b?c=%20%20d",
            ),
            (
                "http://bücher.example:80/a/../b",
                "Http xn--bcher-kva.example 80 /a/../b",
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn a_zone_is_resolved_and_not_sent() {
        let shown = |text: &str| {
            let url = Url::read(text).unwrap();
            format!("{} {} {}", url.lookup_name(), url.port, url.host_field())
        };
        for (text, expected) in [
            ("http://[fe80::1%25eth0]/", "fe80::1%eth0 80 [fe80::1]"),
            (
                "http://[fe80::1%25eth0]:81/a",
                "fe80::1%eth0 81 [fe80::1]:81",
            ),
            ("http://[fe80::1%eth0.7]", "fe80::1%eth0.7 80 [fe80::1]"),
            ("https://[fe80::1%252]/", "fe80::1%2 443 [fe80::1]"),
            ("http://[fe80::1%25]/", "fe80::1%25 80 [fe80::1]"),
            ("http://[::1]/", "::1 80 [::1]"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
        for wrong in ["http://[fe80::1%]/", "http://[fe80::1%25a b]/"] {
            assert!(read(wrong).starts_with("not a zone: "), "{wrong}");
        }
        for wrong in ["http://a%25eth0/", "http://[a%25eth0]/"] {
            let why = Url::read(wrong).map(|url| url.lookup_name());
            assert!(why.is_err(), "{why:?}");
        }
    }

    #[test]
    fn a_wrong_url_is_refused_with_its_remedy() {
        for (text, expected) in [
            (
                "a.org/x",
                "no scheme in the URL: a.org/x (write http://a.org/x)",
            ),
            (
                "ftp://a.org/",
                "unknown scheme: ftp (write http:// or https://)",
            ),
            (
                "http:///x",
                "no host in the URL: http:///x (write http://HOST/PATH)",
            ),
            ("http://a.org:0/", "not a port: a.org:0 (1 to 65535)"),
            ("http://a.org:http/", "not a port: a.org:http (1 to 65535)"),
            (
                "http://a.org/a\nb",
                "control character in the path: \"/a\\nb\" (remove it)",
            ),
            (
                "http://a b/",
                "not a host and port: \"a b\" (write HOST or HOST:PORT)",
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
        for (text, expected) in [
            ("http://[::1/", "not a host and port"),
            ("http://a\\b/", "not a host and port"),
            ("http://me:pw@a.org/", "name and password in the URL"),
        ] {
            let why = read(text);
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
