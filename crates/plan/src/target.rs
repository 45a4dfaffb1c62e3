//! Systems on the network that bakeoff does not start: the arms of a machine of kind "url".

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Checks;
use crate::fields::Fields;

/// A server that answers at an address, whatever it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Scheme, host and port: `http://192.0.2.10:8080`.
    pub url: String,
    /// Addresses of the system that connections go to, in turn; with none, what the URL's host stands for.
    #[serde(default)]
    pub addresses: Vec<IpAddr>,
    /// A command that is run on this host before each trial; none where it is empty.
    pub before: Vec<String>,
    /// Where the system tells of itself; `None` where it does not.
    pub evidence: Option<EvidenceSource>,
}

/// Where a system tells of itself, before the window and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceSource {
    /// `node_exporter` or `windows_exporter`: the URL of its metrics.
    Exporter(String),
    /// An SNMP agent, version 2c.
    Snmp {
        /// `HOST` or `HOST:PORT`.
        address: String,
        /// What it is asked as.
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

/// Most addresses of a system: more cards than a server has slots for.
const ADDRESSES: usize = 64;

const EXAMPLE: &str = "write addresses = [\"10.1.0.1\", \"10.2.0.1\"]";

/// Addresses of a system that has several network cards.
fn read_addresses(fields: &Fields<'_>) -> Vec<IpAddr> {
    let Some(listed) = fields.texts("addresses") else {
        return Vec::new();
    };
    let mut addresses: Vec<IpAddr> = Vec::new();
    for text in &listed {
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
    if listed.is_empty() {
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

/// A program with its arguments; none where the key is absent.
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

/// The URL of a server as a whole.
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
    // Not the URL itself, whose password would then stand in a log.
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
    if address.is_some_and(str::is_empty) {
        fields.wrong("snmp", "empty snmp", "write snmp = \"192.0.2.10\"");
    }
    let snmp = address.map(|address| EvidenceSource::Snmp {
        address: address.into(),
        community: community.unwrap_or("public").into(),
    });
    exporter.or(snmp)
}
