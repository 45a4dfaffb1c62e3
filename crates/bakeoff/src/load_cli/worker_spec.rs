//! A load as it is sent to a worker. It is complete, so a worker needs no files.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use load::exchange::Exchange;
use load::expect::{Content, Expect};
use load::schedule::{Arrivals, Schedule, Think};
use load::script::Script;
use load::tls::{Tls, Trust};
use load::traffic::{Cpus, End, EngineChoice, Mix, Protocol, Traffic};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A worker's part of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WorkerSpec {
    server: SocketAddr,
    host: String,
    /// Streams of HTTP/2; `None` for HTTP/1.1.
    http2_streams: Option<u32>,
    tls: Option<TlsSpec>,
    mix: MixSpec,
    /// `None` for a closed loop.
    rate_per_s: Option<f64>,
    poisson: bool,
    think_ns: (u64, u64),
    connections: u32,
    keep_alive: bool,
    bits_per_s: Vec<u32>,
    threads: u32,
    deadline_ns: u64,
    warmup_ns: u64,
    window_ns: Option<u64>,
    count: Option<u64>,
    seed: u64,
    epoll: bool,
    cpus: CpusSpec,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct TlsSpec {
    name: String,
    /// CA certificates in base 64; `None` accepts any certificate.
    roots: Option<Vec<String>>,
    resumption: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum MixSpec {
    Round(Vec<RequestSpec>),
    Weighted(Vec<(u32, RequestSpec)>),
    Script(String),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct RequestSpec {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    /// Base 64.
    body: String,
    status: u16,
    content: ContentSpec,
}

/// Who else uses a worker's CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum CpusSpec {
    Shared,
    Own,
}

/// The expected body; bytes and hashes are in base 64.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ContentSpec {
    Any,
    Hash { length: u64, sha256: String },
    Bytes(String),
    Begins(String),
}

/// For longer expected bodies, only the hash is sent.
const MAX_INLINE_BODY_BYTES: usize = 1 << 20;

impl WorkerSpec {
    /// A load without its source addresses, which differ by host. `script` is the text of the
    /// script, if there is one.
    pub(crate) fn new(traffic: &Traffic, script: Option<&str>) -> Self {
        let (rate_per_s, poisson, think) = match traffic.schedule {
            Schedule::Closed { think } => (None, false, think),
            Schedule::Open {
                rate_per_s,
                arrivals,
            } => (Some(rate_per_s), arrivals == Arrivals::Poisson, Think::NONE),
        };
        let (window, count) = match traffic.end {
            End::After(window) => (Some(window), None),
            End::Count(count) => (None, Some(count)),
        };
        Self {
            server: traffic.server,
            host: traffic.host.clone(),
            http2_streams: match traffic.protocol {
                Protocol::Http1 => None,
                Protocol::Http2 { streams } => Some(streams),
            },
            tls: traffic.tls.as_ref().map(TlsSpec::new),
            mix: MixSpec::new(&traffic.mix, script),
            rate_per_s,
            poisson,
            think_ns: (think.least.as_nanos() as u64, think.most.as_nanos() as u64),
            connections: traffic.connections,
            keep_alive: traffic.keep_alive,
            bits_per_s: traffic.bits_per_s.clone(),
            threads: traffic.threads,
            deadline_ns: traffic.deadline.as_nanos() as u64,
            warmup_ns: traffic.warmup.as_nanos() as u64,
            window_ns: window.map(|window| window.as_nanos() as u64),
            count,
            seed: traffic.seed,
            epoll: traffic.engine == EngineChoice::Epoll,
            cpus: match traffic.cpus {
                Cpus::Shared => CpusSpec::Shared,
                Cpus::Exclusive => CpusSpec::Own,
            },
        }
    }

    /// Converts the spec back to the load.
    pub(crate) fn traffic(&self) -> Result<Traffic> {
        Ok(Traffic {
            server: self.server,
            more_servers: Vec::new(),
            host: self.host.clone(),
            protocol: match self.http2_streams {
                None => Protocol::Http1,
                Some(streams) => Protocol::Http2 { streams },
            },
            tls: self.tls.as_ref().map(TlsSpec::tls).transpose()?,
            mix: self.mix.mix()?,
            schedule: match (self.rate_per_s, self.poisson) {
                (None, _) => Schedule::Closed {
                    think: Think {
                        least: Duration::from_nanos(self.think_ns.0),
                        most: Duration::from_nanos(self.think_ns.1),
                    },
                },
                (Some(rate_per_s), false) => Schedule::Open {
                    rate_per_s,
                    arrivals: Arrivals::Constant,
                },
                (Some(rate_per_s), true) => Schedule::Open {
                    rate_per_s,
                    arrivals: Arrivals::Poisson,
                },
            },
            connections: self.connections,
            keep_alive: self.keep_alive,
            sources: Vec::new(),
            bits_per_s: self.bits_per_s.clone(),
            threads: self.threads,
            deadline: Duration::from_nanos(self.deadline_ns),
            warmup: Duration::from_nanos(self.warmup_ns),
            end: match (self.count, self.window_ns) {
                (Some(count), _) => End::Count(count),
                (None, window_ns) => End::After(Duration::from_nanos(window_ns.unwrap_or(0))),
            },
            seed: self.seed,
            stamps: true,
            engine: if self.epoll {
                EngineChoice::Epoll
            } else {
                EngineChoice::Fastest
            },
            cpus: match self.cpus {
                CpusSpec::Shared => Cpus::Shared,
                CpusSpec::Own => Cpus::Exclusive,
            },
        })
    }
}

impl TlsSpec {
    fn new(tls: &Tls) -> Self {
        let roots = match &tls.trust {
            Trust::Any => None,
            Trust::Roots(roots) => Some(roots.iter().map(|root| encode(root)).collect()),
        };
        Self {
            name: tls.name.clone(),
            roots,
            resumption: tls.resumption,
        }
    }

    fn tls(&self) -> Result<Tls> {
        let trust = match &self.roots {
            None => Trust::Any,
            Some(roots) => Trust::Roots(
                roots
                    .iter()
                    .map(|root| decode(root))
                    .collect::<Result<_>>()?,
            ),
        };
        Ok(Tls {
            name: self.name.clone(),
            trust,
            resumption: self.resumption,
        })
    }
}

impl MixSpec {
    fn new(mix: &Mix, script: Option<&str>) -> Self {
        match mix {
            Mix::Round(exchanges) => Self::Round(exchanges.iter().map(RequestSpec::new).collect()),
            Mix::Weighted(weighted) => {
                let weigh = |(weight, exchange): &(u32, _)| (*weight, RequestSpec::new(exchange));
                Self::Weighted(weighted.iter().map(weigh).collect())
            }
            Mix::Sessions(_) => Self::Script(script.unwrap_or_default().into()),
        }
    }

    fn mix(&self) -> Result<Mix> {
        Ok(match self {
            Self::Round(requests) => {
                let exchanges: Result<_> = requests.iter().map(RequestSpec::exchange).collect();
                Mix::Round(exchanges?)
            }
            Self::Weighted(weighted) => {
                let weigh =
                    |(weight, request): &(u32, RequestSpec)| Ok((*weight, request.exchange()?));
                Mix::Weighted(weighted.iter().map(weigh).collect::<Result<_>>()?)
            }
            Self::Script(text) => Mix::Sessions(Script::read("script", text)?),
        })
    }
}

impl RequestSpec {
    fn new(exchange: &Exchange) -> Self {
        let content = match &exchange.expect.content {
            Content::Any => ContentSpec::Any,
            Content::Hash { length, sha256 } => ContentSpec::Hash {
                length: *length,
                sha256: encode(sha256),
            },
            Content::Bytes(bytes) if bytes.len() <= MAX_INLINE_BODY_BYTES => {
                ContentSpec::Bytes(encode(bytes))
            }
            Content::Bytes(bytes) => ContentSpec::Hash {
                length: bytes.len() as u64,
                sha256: encode(&Sha256::digest(bytes)),
            },
            Content::Begins(bytes) => ContentSpec::Begins(encode(bytes)),
        };
        Self {
            method: exchange.method.clone(),
            path: exchange.path.clone(),
            headers: exchange.headers.clone(),
            body: encode(&exchange.body),
            status: exchange.expect.status,
            content,
        }
    }

    fn exchange(&self) -> Result<Exchange> {
        let content = match &self.content {
            ContentSpec::Any => Content::Any,
            ContentSpec::Hash { length, sha256 } => Content::Hash {
                length: *length,
                sha256: decode(sha256)?
                    .try_into()
                    .map_err(|_| anyhow::anyhow!("not a SHA-256: {sha256}"))?,
            },
            ContentSpec::Bytes(body) => Content::Bytes(decode(body)?.into()),
            ContentSpec::Begins(body) => Content::Begins(decode(body)?.into()),
        };
        Ok(Exchange {
            method: self.method.clone(),
            path: self.path.clone(),
            headers: self.headers.clone(),
            body: decode(&self.body)?,
            expect: Expect {
                status: self.status,
                content,
            },
        })
    }
}

fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD.encode(bytes)
}

fn decode(text: &str) -> Result<Vec<u8>> {
    BASE64_STANDARD.decode(text).context("not base 64")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(traffic: &Traffic, script: Option<&str>) {
        let spec = WorkerSpec::new(traffic, script);
        let text = serde_json::to_string(&spec).unwrap();
        let back: WorkerSpec = serde_json::from_str(&text).unwrap();
        assert_eq!(&back.traffic().unwrap(), traffic);
    }

    #[test]
    fn a_load_is_unchanged_after_encoding_and_decoding() {
        let post = Exchange {
            method: "POST".into(),
            headers: vec![("A".into(), "b".into())],
            body: vec![0, 255],
            ..Exchange::get("/x", Expect::hash(3, [7; 32]))
        };
        let base = Traffic {
            server: ([127, 0, 0, 1], 80).into(),
            more_servers: Vec::new(),
            host: "a.org".into(),
            protocol: Protocol::Http2 { streams: 3 },
            tls: Some(Tls {
                name: "a.org".into(),
                trust: Trust::Roots(vec![vec![1, 2]]),
                resumption: false,
            }),
            mix: Mix::Weighted(vec![
                (2, post),
                (1, Exchange::get("/", Expect::body(*b"hi"))),
            ]),
            schedule: Schedule::Open {
                rate_per_s: 0.3,
                arrivals: Arrivals::Poisson,
            },
            connections: 4,
            keep_alive: true,
            sources: Vec::new(),
            bits_per_s: vec![56_000],
            threads: 2,
            deadline: Duration::from_millis(1500),
            warmup: Duration::from_secs(1),
            end: End::Count(9),
            seed: u64::MAX,
            stamps: true,
            engine: EngineChoice::Fastest,
            cpus: Cpus::Exclusive,
        };
        check(&base, None);
        let script = "visit /\nthink 1s\n";
        let visitors = Traffic {
            protocol: Protocol::Http1,
            tls: None,
            mix: Mix::Sessions(Script::read("script", script).unwrap()),
            schedule: Schedule::Closed {
                think: Think::always(Duration::from_millis(3)),
            },
            end: End::After(Duration::from_secs(9)),
            engine: EngineChoice::Epoll,
            ..base
        };
        check(&visitors, Some(script));
    }
}
