//! `http`: requests to a remote system.
//!
//! Before the load each path is requested twice. All later responses must be the same, so error
//! pages and shortened pages of an overloaded server do not count as successes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use load::exchange::Exchange;
use load::expect::Expect;
use load::probe::{self, Expected, Spelling};
use load::server::Server;
use load::tls::Trust;
use load::traffic::{End, Mix, Traffic};
use plan::Traits;
use plan::fields::Fields;
use record::metric::Figure;
use serde::{Deserialize, Serialize};

use crate::context::WorkloadContext;
use crate::figures::{self, Seen};
use crate::overview::{Key, Overview, RATE, WARMUP};
use crate::web::{self, CONNECTIONS};
use crate::{Control, Driven, FromPlan, Kind, Timing, Workload, Wrong, ceiling, options};

pub(crate) const KIND: Kind = Kind::of::<Options>(
    "http",
    |options| Traits {
        accepts_any_content: options["content"] == false,
        ..Traits::default()
    },
    Overview {
        summary: "requests to systems on the network, as they are (machine of kind \"url\")",
        primary: "throughput",
        machine: &[Key::new("kind", &["\"url\""], "arms are addresses")],
        keys: &[
            Key::new("paths", &["[\"/\"]"], "what is asked for, in turn"),
            Key::new(
                "connections",
                &["16"],
                "clients, each with one request under way",
            ),
            RATE,
            WARMUP,
            Key::new("window", &["\"10s\""], "load that is counted"),
        ],
    },
);

/// Keys of a plan that set expectations.
const SPELLING: Spelling = Spelling {
    status: "status =",
    length: "the server",
    sha256: "the server",
    status_alone: "content = false",
};

/// Debian's CA bundle.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Options {
    paths: Vec<String>,
    connections: u32,
    keep_alive: bool,
    /// Client threads; `None` for one per CPU.
    threads: Option<u32>,
    /// Rate of an open loop in requests per second; `None` for a closed loop.
    rate_per_s: Option<u32>,
    /// Value of the `Host` field, if it is not that of the URL.
    host: Option<String>,
    status: u16,
    /// Whether bodies are checked.
    content: bool,
    /// Whether any certificate is accepted.
    insecure: bool,
    #[serde(flatten)]
    timing: Timing,
    deadline_ns: u64,
}

impl FromPlan for Options {
    fn read(fields: &Fields<'_>) -> Option<Self> {
        let paths = if fields.takes("paths") {
            options::paths(fields, "paths")
        } else {
            Some(vec!["/".into()])
        };
        let connections = options::required_count(fields, "connections", 1..=CONNECTIONS, "16");
        let keep_alive = options::flag(fields, "keep_alive", true);
        let threads = fields.count("threads", 1..=64);
        let rate_per_s = options::rate(fields);
        let host = read_host(fields);
        let status = options::count(fields, "status", 100..=599, 200);
        let content = options::flag(fields, "content", true);
        let insecure = options::flag(fields, "insecure", false);
        let timing = options::timing(fields);
        let deadline = options::deadline(fields);
        Some(Self {
            paths: paths?,
            connections: connections? as u32,
            keep_alive: keep_alive?,
            threads: threads.map(|threads| threads as u32),
            rate_per_s,
            host,
            status: status? as u16,
            content: content?,
            insecure: insecure?,
            timing: timing?,
            deadline_ns: deadline?.as_nanos() as u64,
        })
    }
}

/// Value of the `Host` field. Control characters and blanks could end the field or the head.
fn read_host(fields: &Fields<'_>) -> Option<String> {
    let host = fields.text("host")?;
    if host.is_empty() || !host.chars().all(|c| c.is_ascii_graphic()) {
        let what = format!("not a host: {host:?}");
        let remedy = "write a name in ASCII, such as host = \"www.example.org\"";
        fields.wrong("host", what, remedy);
        return None;
    }
    Some(host.into())
}

impl Options {
    /// Certificates to trust.
    fn trust(&self) -> Result<Trust> {
        if self.insecure {
            Ok(Trust::Any)
        } else {
            Trust::from_pem(Path::new(AUTHORITIES))
        }
    }

    /// Reaches the server.
    fn reach(&self, context: &WorkloadContext) -> Result<Server> {
        let target = context.target.as_deref();
        let target = target.context("workload http without a system on the network")?;
        let mut server = Server::from_url(target, || self.trust())?;
        if let Some(host) = &self.host {
            server.host.clone_from(host);
        }
        Ok(server)
    }

    /// The server at all configured addresses, or at its default address.
    fn servers(&self, context: &WorkloadContext) -> Result<Vec<Server>> {
        let server = self.reach(context)?;
        if context.addresses.is_empty() {
            return Ok(vec![server]);
        }
        let addresses = context.addresses.iter();
        addresses
            .map(|address| server.at_address(*address))
            .collect()
    }

    /// The exchanges, whose responses must be the same at all addresses.
    fn learn_all(&self, servers: &[Server]) -> Result<(Vec<Exchange>, BTreeMap<String, String>)> {
        let (first, others) = servers.split_first().expect("a server has an address");
        let (exchanges, facts) = self.learn(first)?;
        for other in others {
            let (theirs, _) = self.learn(other)?;
            ensure!(
                theirs == exchanges,
                "addresses that do not serve the same: {} and {} (all must be of one system; take out the one that is not)",
                first.address.ip(),
                other.address.ip()
            );
        }
        Ok((exchanges, facts))
    }

    /// The exchanges with their expected responses, and descriptions of these by path.
    fn learn(&self, server: &Server) -> Result<(Vec<Exchange>, BTreeMap<String, String>)> {
        let expected = Expected {
            status: self.status,
            length: None,
            sha256: None,
            content: self.content,
            spelling: SPELLING,
        };
        let (mut exchanges, mut facts) = (Vec::new(), BTreeMap::new());
        for path in &self.paths {
            let mut exchange = Exchange::get(path.clone(), Expect::status(self.status));
            let (expect, description) = probe::learn(server, &exchange, &expected)?;
            exchange.expect = expect;
            exchanges.push(exchange);
            facts.insert(format!("remote:response {path}"), description);
        }
        Ok((exchanges, facts))
    }

    fn traffic(
        &self,
        context: &WorkloadContext,
        mut servers: Vec<Server>,
        exchanges: Vec<Exchange>,
    ) -> Traffic {
        let more_servers = servers[1..].iter().map(|server| server.address).collect();
        let server = servers.swap_remove(0);
        let Timing { warmup, window } = self.timing();
        Traffic {
            schedule: options::schedule(self.rate_per_s),
            more_servers,
            host: server.host,
            tls: server.tls,
            connections: self.connections,
            keep_alive: self.keep_alive,
            threads: context.client_threads(self.threads, self.connections),
            deadline: Duration::from_nanos(self.deadline_ns),
            warmup,
            end: End::After(window),
            seed: context.seed,
            ..Traffic::plain(server.address, Mix::Round(exchanges))
        }
    }
}

impl Workload for Options {
    fn is_driven_from_outside(&self) -> bool {
        true
    }

    fn is_shareable(&self) -> bool {
        true
    }

    fn timing(&self) -> Timing {
        self.timing
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let learnt = self
            .servers(context)
            .and_then(|servers| Ok((self.learn_all(&servers)?, servers)));
        let ((exchanges, facts), servers) = learnt.map_err(|why| Wrong(format!("{why:#}")))?;
        let traffic = self.traffic(context, servers, exchanges);
        let driven = web::drive(&traffic, control)?;
        Ok(Driven { facts, ..driven })
    }

    fn ceiling(&self, context: &WorkloadContext, null_server: &str) -> Result<Option<Traffic>> {
        let server = self.reach(context)?;
        // The lengths of bodies are needed even if bodies are not checked.
        let known = Self {
            content: true,
            ..self.clone()
        };
        let (exchanges, _) = known.learn(&server)?;
        let traffic = self.traffic(context, vec![server], exchanges);
        let null_server = Server::from_url(null_server, || self.trust())?;
        Ok(ceiling::traffic(traffic, &null_server))
    }

    fn has_ceiling(&self) -> bool {
        true
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let web = figures::web(seen, "")?;
        Ok(figures::at_rate(self.rate_per_s, web))
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check_mistakes, read};

    #[test]
    fn options_are_read_and_checked() {
        let plan = read("kind = \"http\"\nconnections = 8\nwindow = \"2s\"").unwrap();
        expect![[r#"{"connections":8,"content":true,"deadline_ns":10000000000,"host":null,"insecure":false,"keep_alive":true,"paths":["/"],"rate_per_s":null,"status":200,"threads":null,"warmup_ns":2000000000,"window_ns":2000000000}"#]].assert_eq(&plan.options.to_string());
        check_mistakes(
            "kind = \"http\"\npaths = [\"a b\", \"/ok\"]\nconnections = 0\nstatus = 99\nrate = 0\nwindow = \"2s\"",
            &expect![[r#"
                plan.toml:2: path that does not begin with a slash: "a%20b" (write "/a%20b")
                plan.toml:3: connections out of range: 0 (write 1 to 10000)
                plan.toml:4: status out of range: 99 (write 100 to 599)
                plan.toml:5: rate out of range: 0 (write 1 to 1000000)"#]],
        );
        check_mistakes(
            "kind = \"http\"\npaths = []\nconnections = 1\nwindow = \"2s\"",
            &expect![[r#"plan.toml:2: no path (write paths = ["/"])"#]],
        );
    }

    #[test]
    fn hosts_and_paths_cannot_inject_header_fields() {
        let read = |line: &str| {
            let text = format!("kind = \"http\"\n{line}\nconnections = 1\nwindow = \"2s\"");
            crate::testing::read(&text).map(|plan| plan.options["host"].clone())
        };
        let host = "host = \"www.example.org:81\"";
        assert_eq!(read(host).unwrap(), "www.example.org:81");
        for bad in ["a\\r\\nX-Evil: 1", "a\\tb", "a b", "", "bücher.example"] {
            let why = read(&format!("host = \"{bad}\"")).unwrap_err();
            assert!(why.starts_with("plan.toml:2: not a host: "), "{why}");
            assert!(
                why.ends_with("such as host = \"www.example.org\")"),
                "{why}"
            );
        }
        let why = read("paths = [\"/a\\r\\nX-Evil: 1\"]").unwrap_err();
        let want = "plan.toml:2: control character in the path";
        assert!(why.starts_with(want), "{why}");
    }

    #[test]
    fn the_rate_is_optional() {
        let options = |text: &str| Options::deserialize(&read(text).unwrap().options).unwrap();
        let closed = options("kind = \"http\"\nconnections = 8\nwindow = \"2s\"");
        assert_eq!((closed.rate_per_s, closed.paths), (None, vec!["/".into()]));
        let open = options("kind = \"http\"\nconnections = 8\nrate = 100\nwindow = \"2s\"");
        assert_eq!(open.rate_per_s, Some(100));
    }
}
