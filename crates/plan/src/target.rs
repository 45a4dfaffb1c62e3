//! Systems on the network that bakeoff does not start: the arms of a machine of kind "url".

use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZero;

use serde::{Deserialize, Serialize};

use crate::Checks;
use crate::fields::Fields;

/// A server at an address, of any kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Scheme, host and port: `http://192.0.2.10:8080`.
    pub url: String,
    /// Addresses of the system, to which connections go in turn; if empty, the URL's host is resolved.
    pub addresses: Vec<IpAddr>,
    /// Command to run on this host before each trial; empty for none.
    pub before: Vec<String>,
    /// Source of the system's resource usage, if there is one.
    pub evidence: Option<EvidenceSource>,
}

/// Source of a system's resource usage, read before the window and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceSource {
    /// `node_exporter` or `windows_exporter`: the URL of its metrics.
    Exporter(String),
    /// An SNMP agent, version 2c.
    Snmp {
        /// `HOST` or `HOST:PORT`.
        address: String,
        /// Its community string.
        community: String,
    },
}

pub(crate) fn read_target(fields: &Fields<'_>, checks: Checks<'_>) -> Option<Target> {
    if !fields.has("url") {
        fields.missing("url", "\"http://192.0.2.10\"");
    }
    let remedy = "write the path in the workload: paths = [...]";
    let url = read_bare_url(fields, "url", checks, remedy);
    let addresses = read_addresses(fields);
    let before = read_command(fields, "before", "[\"./restart.sh\"]", checks);
    let evidence = read_evidence(fields, checks);
    Some(Target {
        url: url?,
        addresses,
        before,
        evidence,
    })
}

/// Most addresses of a system; no server has more network cards.
const ADDRESSES: usize = 64;

const EXAMPLE: &str = "write addresses = [\"10.1.0.1\", \"10.2.0.1\"]";

/// Reads the addresses of a system with several network cards.
fn read_addresses(fields: &Fields<'_>) -> Vec<IpAddr> {
    let Some(texts) = fields.texts("addresses") else {
        return Vec::new();
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in &texts {
        match text.parse() {
            Ok(address) if addresses.contains(&address) => {
                let what = format!("address twice: {address}");
                fields.wrong(
                    "addresses",
                    what,
                    "write each once: connections go to them in turn",
                );
            }
            Ok(address) => addresses.push(address),
            Err(_) => {
                let what = format!("not an IP address: {text:?}");
                fields.wrong(
                    "addresses",
                    what,
                    format!("{EXAMPLE}: the port is the URL's"),
                );
            }
        }
    }
    if addresses.len() > ADDRESSES {
        let what = format!("more than {ADDRESSES} addresses: {}", addresses.len());
        fields.wrong("addresses", what, "name one for each network card");
    }
    if texts.is_empty() {
        fields.wrong("addresses", "no address", EXAMPLE);
    }
    if addresses
        .iter()
        .any(|address| address.is_ipv4() != addresses[0].is_ipv4())
    {
        let what = "addresses of both families";
        fields.wrong("addresses", what, "write those of one family");
    }
    addresses
}

/// Reads a program with its arguments; empty if the key is absent.
pub(crate) fn read_command(
    fields: &Fields<'_>,
    key: &str,
    example: &str,
    checks: Checks<'_>,
) -> Vec<String> {
    let words = fields.texts(key).unwrap_or_default();
    match words.first() {
        Some(program) if !program.is_empty() => {
            if let Err(why) = (checks.program)(program) {
                fields.wrong(key, why, "");
            }
        }
        _ if fields.has(key) => {
            let what = format!("{key} without a program");
            fields.wrong(key, what, format!("write {key} = {example}"));
        }
        _ => {}
    }
    words.into_iter().map(String::from).collect()
}

/// Reads a URL without a path.
pub(crate) fn read_bare_url(
    fields: &Fields<'_>,
    key: &str,
    checks: Checks<'_>,
    remedy: &str,
) -> Option<String> {
    let url = read_url(fields, key, checks)?;
    let (_, rest) = url.split_once("://").unwrap_or_default();
    if rest.contains(['/', '?', '#']) {
        fields.wrong(key, format!("{key} with a path: {url:?}"), remedy);
        return None;
    }
    Some(url)
}

fn read_url(fields: &Fields<'_>, key: &str, checks: Checks<'_>) -> Option<String> {
    let text = fields.text(key)?;
    let (_, rest) = text.split_once("://").unwrap_or_default();
    let site = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // The message must not contain the URL, whose password could end up in a log.
    if let Some((_, site)) = site.rsplit_once('@') {
        let what = format!("{key} with a name or password before @{site}");
        fields.wrong(key, what, "take it out: clients of a plan do not log in");
        return None;
    }
    match (checks.url)(text) {
        Ok(()) => Some(text.trim_end_matches('/').into()),
        Err(why) => {
            fields.wrong(key, why, "");
            None
        }
    }
}

/// Whether a text is `HOST`, `HOST:PORT` or `[IPV6]:PORT`.
fn is_snmp_address(text: &str) -> bool {
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "161"));
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    let is_host = match host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
    {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && host.chars().all(is_allowed),
    };
    is_host && port.parse::<NonZero<u16>>().is_ok()
}

fn read_evidence(fields: &Fields<'_>, checks: Checks<'_>) -> Option<EvidenceSource> {
    let exporter = read_url(fields, "exporter", checks).map(EvidenceSource::Exporter);
    let community = fields.text("community");
    let address = fields.text("snmp");
    if exporter.is_some() && address.is_some() {
        let what = "snmp beside exporter";
        fields.wrong("snmp", what, "remove one of them");
    }
    if community.is_some() && address.is_none() {
        let what = "community without snmp";
        fields.wrong("community", what, "add snmp = \"HOST\", or remove it");
    }
    if let Some(address) = address.filter(|address| !is_snmp_address(address)) {
        let what = format!("not the address of an SNMP agent: {address:?}");
        let remedy = "write HOST, HOST:PORT or [IPV6]:PORT, like snmp = \"192.0.2.10\"";
        fields.wrong("snmp", what, remedy);
    }
    let snmp = address.map(|address| EvidenceSource::Snmp {
        address: address.into(),
        community: community.unwrap_or("public").into(),
    });
    exporter.or(snmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_snmp_address_is_a_host_and_a_valid_port() {
        for text in ["192.0.2.10", "box.example", "box:1161", "[2001:db8::1]:161"] {
            assert!(is_snmp_address(text), "{text}");
        }
        for text in [
            "",
            "box:0",
            "box:65536",
            "box:",
            ":161",
            "2001:db8::1",
            "[::1]",
            "a b",
            "udp:box:161",
        ] {
            assert!(!is_snmp_address(text), "{text}");
        }
    }
}
