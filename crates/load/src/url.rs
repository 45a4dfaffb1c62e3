//! URLs and paths as people type them: where the server is, and what is asked for.

use std::fmt::Write as _;

/// A URL in its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// Encrypted or not.
    pub scheme: Scheme,
    /// Name or address, an IPv6 address without its brackets.
    pub host: String,
    /// The network interface by which an IPv6 address of a link is reached, by name or number.
    pub zone: Option<String>,
    /// Its port; the scheme's own where none is written.
    pub port: u16,
    /// Path and query.
    pub path: String,
}

/// How the server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// `http://`
    Http,
    /// `https://`
    Https,
}

impl Url {
    /// Reads a URL; what is wrong with it, if something is.
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
        // The path is left as it was typed but for what cannot be sent: who asks for /a/../b means
        // it.
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

    /// The host as the system looks it up: with the zone, which no server is told of.
    pub fn lookup_name(&self) -> String {
        match &self.zone {
            Some(zone) => format!("{}%{zone}", self.host),
            None => self.host.clone(),
        }
    }

    /// Whether another URL is of the same server.
    pub fn is_same_site(&self, other: &Self) -> bool {
        let site = |url: &Self| (url.scheme, url.lookup_name(), url.port);
        site(self) == site(other)
    }

    /// Value of the `Host` header.
    pub fn host_field(&self) -> String {
        let v6 = self.host.contains(':');
        let host = if v6 {
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

    /// Host and port of what stands between the scheme and the path.
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

/// Takes the zone out of an IPv6 address in brackets: `[fe80::1%25eth0]` (RFC 6874), or with a bare
/// `%`, as most programs take it too.
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

/// A path and query as they go on the wire: what is no visible ASCII character is written as `%XX`,
/// byte by byte (RFC 3986, section 2.1). What is escaped already stays as it is; a control
/// character is a mistake.
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

/// A line of a list or a script without its comment: `#` begins one at the beginning of the line and
/// after a blank.
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
            Ok(url) => format!(
                "{:?} {} port {} asks {}",
                url.scheme,
                url.host_field(),
                url.port,
                url.path
            ),
            Err(why) => why,
        }
    }

    #[test]
    fn a_url_has_a_host_a_port_and_a_path() {
        assert_eq!(read("http://a.org"), "Http a.org port 80 asks /");
        assert_eq!(
            read("HTTPS://a.org?x=1#y"),
            "Https a.org port 443 asks /?x=1"
        );
        assert_eq!(
            read("http://a.org:81/b/c"),
            "Http a.org:81 port 81 asks /b/c"
        );
        assert_eq!(
            read("http://a.org/ü b?c=%20 d"),
            "Http a.org port 80 asks /%C3%BC%20b?c=%20%20d"
        );
        assert_eq!(read("http://[::1]:81/"), "Http [::1]:81 port 81 asks /");
        assert_eq!(read("https://[::1]/"), "Https [::1] port 443 asks /");
        assert_eq!(
            read("http://bücher.example:80/a/../b"),
            "Http xn--bcher-kva.example port 80 asks /a/../b"
        );
    }

    #[test]
    fn a_zone_is_looked_up_and_not_sent() {
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
    fn blanks_around_a_url_are_not_part_of_it() {
        assert_eq!(read(" http://a.org/b \t"), "Http a.org port 80 asks /b");
        assert_eq!(read("http://a.org/b c "), "Http a.org port 80 asks /b%20c");
    }

    #[test]
    fn a_wrong_url_is_refused_with_its_remedy() {
        assert_eq!(
            read("a.org/x"),
            "no scheme in the URL: a.org/x (write http://a.org/x)"
        );
        assert_eq!(
            read("ftp://a.org/"),
            "unknown scheme: ftp (write http:// or https://)"
        );
        assert_eq!(
            read("http:///x"),
            "no host in the URL: http:///x (write http://HOST/PATH)"
        );
        assert_eq!(read("http://a.org:0/"), "not a port: a.org:0 (1 to 65535)");
        assert_eq!(
            read("http://a.org:http/"),
            "not a port: a.org:http (1 to 65535)"
        );
        assert_eq!(
            read("http://a.org/a\nb"),
            "control character in the path: \"/a\\nb\" (remove it)"
        );
        assert_eq!(
            read("http://a b/"),
            "not a host and port: \"a b\" (write HOST or HOST:PORT)"
        );
        assert!(read("http://[::1/").starts_with("not a host and port"));
        assert!(read("http://a\\b/").starts_with("not a host and port"));
        assert!(read("http://me:pw@a.org/").starts_with("name and password in the URL"));
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
}
