//! bakeoff's client as a separate process, so that its cost is measured like that of other clients.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result};
use load::exchange::Exchange;
use load::expect::Expect;
use load::schedule::{Arrivals, Schedule, Think};
use load::traffic::{Cpus, End, EngineChoice, Mix, Protocol, Traffic};
use serde::{Deserialize, Serialize};

/// First argument of the bench that makes it a client.
pub(crate) const ROLE: &str = "client";

/// Parameters of a client process, passed as its second argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Part {
    pub(crate) server: SocketAddr,
    pub(crate) path: String,
    /// File with the expected body.
    pub(crate) body: PathBuf,
    pub(crate) connections: u32,
    pub(crate) keep_alive: bool,
    pub(crate) engine: Engine,
    /// Rate of an open loop; `None` for a closed loop.
    pub(crate) rate_per_s: Option<f64>,
    /// Speeds of slow lines; empty for fast ones.
    pub(crate) bits_per_s: Vec<u32>,
    /// How many loopback addresses connections come from; 0 lets the kernel choose.
    pub(crate) sources: u8,
    pub(crate) warmup_ms: u64,
    pub(crate) window_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Engine {
    Epoll,
    Uring,
}

/// Runs the part and prints the `LoadResult` as JSON.
pub(crate) fn run(part: &str) -> Result<()> {
    let part: Part = serde_json::from_str(part).context("not a client's part")?;
    let body = std::fs::read(&part.body)
        .with_context(|| format!("cannot read the right body: {}", part.body.display()))?;
    let traffic = part.traffic(body);
    let result = load::run::run(&traffic, &AtomicBool::new(false), &mut |_| {})?;
    println!("{}", serde_json::to_string(&result)?);
    Ok(())
}

impl Part {
    fn traffic(self, body: Vec<u8>) -> Traffic {
        let source = |last: u8| IpAddr::V4(Ipv4Addr::new(127, 0, 1, last));
        Traffic {
            server: self.server,
            more_servers: Vec::new(),
            host: self.server.to_string(),
            protocol: Protocol::Http1,
            tls: None,
            mix: Mix::Round(vec![Exchange::get(self.path, Expect::body(body))]),
            schedule: match self.rate_per_s {
                Some(rate_per_s) => Schedule::Open {
                    rate_per_s,
                    arrivals: Arrivals::Constant,
                },
                None => Schedule::Closed { think: Think::NONE },
            },
            connections: self.connections,
            keep_alive: self.keep_alive,
            sources: (1..=self.sources).map(source).collect(),
            bits_per_s: self.bits_per_s,
            threads: 1,
            deadline: Duration::from_secs(60),
            warmup: Duration::from_millis(self.warmup_ms),
            end: End::After(Duration::from_millis(self.window_ms)),
            seed: 1,
            stamps: false,
            engine: match self.engine {
                Engine::Epoll => EngineChoice::Epoll,
                Engine::Uring => EngineChoice::Fastest,
            },
            // The bench binds the client to its CPUs, and counts them as the client's.
            cpus: Cpus::Exclusive,
        }
    }
}
