//! The complete description of a load.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::exchange::{Exchange, is_graphic};
use crate::schedule::{self, Schedule, Think};
use crate::script::Script;
use crate::tls::Tls;

/// A load run.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// Address of the server.
    pub server: SocketAddr,
    /// Further addresses of the same server. Connections use all addresses in turn. Supported by
    /// the epoll engine only, over HTTP/1.1.
    pub more_servers: Vec<SocketAddr>,
    /// Value of the `Host` header.
    pub host: String,
    /// HTTP version.
    pub protocol: Protocol,
    /// TLS settings, if connections are encrypted.
    pub tls: Option<Tls>,
    /// The requests.
    pub mix: Mix,
    /// When requests are sent.
    pub schedule: Schedule,
    /// Number of connections open at once.
    pub connections: u32,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Source addresses, which connections use in turn; if empty, the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Speeds in bits per second at which connections read, in turn, to simulate slow links; if
    /// empty, speed is not limited.
    pub bits_per_s: Vec<u32>,
    /// Client threads; at most one per connection is used.
    pub threads: u32,
    /// Time limit of a request from its scheduled send time, including connecting.
    pub deadline: Duration,
    /// Length of the warm-up, whose requests do not count.
    pub warmup: Duration,
    /// When the load ends.
    pub end: End,
    /// Seed of all random choices.
    pub seed: u64,
    /// How to wait for sockets.
    pub engine: EngineChoice,
    /// Whether to use receive time stamps, which show for a sample how long the client left
    /// received bytes unread. Stamps slow all sockets of the kernel a little. Supported by the
    /// epoll engine.
    pub stamps: bool,
    /// Whether the client shares its CPUs.
    pub cpus: Cpus,
}

/// Whether the client shares its CPUs. Sleeps end late, so threads busy-wait before a request is
/// due if that takes no CPU time from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpus {
    /// Perhaps with the server. Busy-waiting needs one CPU more than client threads.
    Shared,
    /// With nobody. Busy-waiting needs one CPU per client thread.
    Exclusive,
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After a window of this length. The load continues until all requests that count have ended.
    After(Duration),
    /// After exactly this many counted requests.
    Count(u64),
}

/// HTTP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: one request at a time on a connection.
    Http1,
    /// HTTP/2: several requests at a time on a connection; without TLS by prior knowledge.
    Http2 {
        /// Requests under way on each connection.
        streams: u32,
    },
}

/// How to wait for sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// The fastest engine that works on this system.
    Fastest,
    /// `epoll`, which every kernel has.
    Epoll,
}

/// The requests and their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Mix {
    /// Each connection sends all exchanges in turn. Connections start at different exchanges.
    Round(Vec<Exchange>),
    /// Each request is drawn at random; the number is the weight.
    Weighted(Vec<(u32, Exchange)>),
    /// Each connection simulates visitors, one after the other.
    Sessions(Script),
}

impl Traffic {
    /// One client in a closed loop over HTTP/1.1 for a second, without warm-up. Meant as a base for
    /// struct update syntax.
    pub fn plain(server: SocketAddr, mix: Mix) -> Self {
        Self {
            server,
            more_servers: Vec::new(),
            host: server.to_string(),
            protocol: Protocol::Http1,
            tls: None,
            mix,
            schedule: Schedule::Closed { think: Think::NONE },
            connections: 1,
            keep_alive: true,
            sources: Vec::new(),
            bits_per_s: Vec::new(),
            threads: 1,
            deadline: Duration::from_secs(60),
            warmup: Duration::ZERO,
            end: End::After(Duration::from_secs(1)),
            seed: 0,
            // Arms must not differ in their clients, and every kernel has epoll.
            engine: EngineChoice::Epoll,
            stamps: false,
            cpus: Cpus::Shared,
        }
    }

    /// Checks all fields. The error is the first mistake.
    pub(crate) fn check(&self) -> Result<()> {
        let exchanges: Vec<&Exchange> = self.mix.exchanges().collect();
        ensure!(
            !exchanges.is_empty(),
            "no requests to send (name at least one path)"
        );
        if let Mix::Weighted(weighted) = &self.mix {
            ensure!(
                weighted.iter().any(|(weight, _)| *weight > 0),
                "all weights of the mix are 0 (give one request a weight of 1)"
            );
        }
        for exchange in exchanges {
            exchange.check()?;
        }
        ensure!(
            self.connections > 0,
            "too few connections: 0 (ask for at least 1)"
        );
        ensure!(
            self.threads > 0,
            "too few client threads: 0 (ask for at least 1)"
        );
        ensure!(
            !self.deadline.is_zero(),
            "deadline too short: 0 s (allow at least 1ms)"
        );
        ensure!(
            is_graphic(&self.host),
            "host has blanks or controls: {:?}",
            self.host
        );
        match self.end {
            End::After(Duration::ZERO) => {
                bail!("window too short: 0 s (measure for at least 1ms)")
            }
            End::Count(0) => bail!("too few requests to count: 0 (ask for at least 1)"),
            End::After(_) | End::Count(_) => {}
        }
        self.check_protocol()?;
        if let Schedule::Open { rate_per_s, .. } = self.schedule {
            schedule::check_rate(rate_per_s, self.threads)?;
        }
        if let Some(speed) = self.bits_per_s.iter().find(|speed| **speed < 100) {
            bail!("line too slow: {speed} bit/s (give it at least 100)");
        }
        let differs = |source: &&IpAddr| {
            let mut servers = self.servers();
            servers.any(|server| server.is_ipv4() != source.is_ipv4())
        };
        if let Some(source) = self.sources.iter().find(differs) {
            bail!(
                "source address of another family than server {}: {source}",
                self.server.ip()
            );
        }
        Ok(())
    }

    /// All addresses of the server, in the order in which connections use them.
    pub fn servers(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(self.server).chain(self.more_servers.iter().copied())
    }

    /// Rotates the server addresses so that the first one is that of connection number
    /// `connection`.
    pub(crate) fn rotate_servers(&mut self, connection: u64) {
        let mut all: Vec<_> = self.servers().collect();
        let first = connection % all.len() as u64;
        all.rotate_left(first as usize);
        self.more_servers = all.split_off(1);
        self.server = all[0];
    }

    /// Largest number of requests under way at once.
    pub fn max_in_flight(&self) -> u32 {
        match self.protocol {
            Protocol::Http1 => self.connections,
            Protocol::Http2 { streams } => self.connections.saturating_mul(streams),
        }
    }

    /// Checks that HTTP/2 supports the load.
    fn check_protocol(&self) -> Result<()> {
        let Protocol::Http2 { streams } = self.protocol else {
            return Ok(());
        };
        ensure!(streams > 0, "too few streams: 0 (ask for at least 1)");
        let all = u64::from(streams) * u64::from(self.connections);
        ensure!(
            u32::try_from(all).is_ok(),
            "too many requests at once: {all} (ask for fewer connections or streams)"
        );
        let obstacle = match &self.mix {
            _ if !self.more_servers.is_empty() => "several addresses",
            Mix::Sessions(_) => "sessions",
            Mix::Round(_) | Mix::Weighted(_) if !self.bits_per_s.is_empty() => "slow lines",
            Mix::Round(_) | Mix::Weighted(_) if !self.keep_alive => "a connection per request",
            Mix::Round(_) | Mix::Weighted(_) => return Ok(()),
        };
        bail!("not over HTTP/2: {obstacle} (leave that out, or go over HTTP/1.1)")
    }
}

/// Unit of the rate of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateUnit {
    /// Single requests.
    Requests,
    /// Visitors that make several requests each.
    Visitors,
}

impl RateUnit {
    /// The unit in messages.
    pub fn per_s(self) -> &'static str {
        match self {
            Self::Requests => "requests/s",
            Self::Visitors => "visitors/s",
        }
    }
}

impl Mix {
    /// Unit of the rate of an open loop.
    pub fn rate_unit(&self) -> RateUnit {
        match self {
            Self::Round(_) | Self::Weighted(_) => RateUnit::Requests,
            Self::Sessions(_) => RateUnit::Visitors,
        }
    }

    /// All exchanges in order.
    pub(crate) fn exchanges(&self) -> Box<dyn Iterator<Item = &Exchange> + '_> {
        match self {
            Self::Round(exchanges) => Box::new(exchanges.iter()),
            Self::Weighted(weighted) => Box::new(weighted.iter().map(|(_, exchange)| exchange)),
            Self::Sessions(script) => Box::new(script.exchanges().iter()),
        }
    }
}
