//! Everything that can be said about a load, as one value.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use crate::exchange::{Exchange, is_graphic};
use crate::schedule::{self, Schedule, Think};
use crate::script::Script;
use crate::tls::Tls;

/// A load run in full.
#[derive(Debug, Clone, PartialEq)]
pub struct Traffic {
    /// The server.
    pub server: SocketAddr,
    /// Further addresses of the same server: connections go to all of them, in turn. The epoll engine knows them, over HTTP/1.1.
    pub more_servers: Vec<SocketAddr>,
    /// Value of the `Host` header.
    pub host: String,
    /// What is spoken.
    pub protocol: Protocol,
    /// How connections are encrypted, if they are.
    pub tls: Option<Tls>,
    /// What is asked for.
    pub mix: Mix,
    /// When it is asked for.
    pub schedule: Schedule,
    /// Connections open at once.
    pub connections: u32,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
    /// Addresses that connections come from, in turn; with none the kernel chooses.
    pub sources: Vec<IpAddr>,
    /// Speeds in bits per second at which connections read, in turn, as if behind a modem; with
    /// none they read as fast as they can.
    pub bits_per_s: Vec<u32>,
    /// Client threads; never more than connections.
    pub threads: u32,
    /// Time that a request may take from its scheduled send time on, connecting included.
    pub deadline: Duration,
    /// Load that is not counted.
    pub warmup: Duration,
    /// When the load ends.
    pub end: End,
    /// Seed of all that is left to chance.
    pub seed: u64,
    /// How sockets are waited for.
    pub engine: EngineChoice,
    /// Whether the kernel stamps what comes, so that a sample tells how long the client let it
    /// wait. Stamps cost every socket of the kernel a little. The epoll engine takes them.
    pub stamps: bool,
    /// Who else uses the CPUs that the client may run on.
    pub cpus: Cpus,
}

/// Who else uses the CPUs that the client may run on. Sleeps end late, so a thread that has an
/// instant to keep watches the clock before it, if that takes nothing from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cpus {
    /// Perhaps the server: one CPU more than client threads is needed to watch the clock.
    Shared,
    /// Nobody, as the caller has seen to: a CPU for each client thread is enough.
    Own,
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// After so much counted time. The load goes on, uncounted, until all that counts has an
    /// outcome.
    After(Duration),
    /// After so many counted requests; not one more is sent.
    Count(u64),
}

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1: one request at a time on a connection.
    Http1,
    /// HTTP/2: several at once. Without TLS the server must know it beforehand.
    Http2 {
        /// Requests under way on each connection.
        streams: u32,
    },
}

/// How sockets are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    /// The fastest that this system allows.
    Fastest,
    /// `epoll`, which every kernel has.
    Epoll,
}

/// What is asked for, and in which order.
#[derive(Debug, Clone, PartialEq)]
pub enum Mix {
    /// Each connection goes round the exchanges, starting at its own place.
    Round(Vec<Exchange>),
    /// Each request is drawn at random; the number is the exchange's weight.
    Weighted(Vec<(u32, Exchange)>),
    /// Each connection plays visitors, one after the other.
    Sessions(Script),
}

impl Traffic {
    /// One client in a closed loop over HTTP/1.1 for a second, without warm-up: for those who
    /// change a few fields.
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
            // The same on every kernel: arms must not differ in their clients.
            engine: EngineChoice::Epoll,
            stamps: false,
            cpus: Cpus::Shared,
        }
    }

    /// Refuses what cannot be run: the first mistake found.
    pub(crate) fn check(&self) -> Result<()> {
        let exchanges: Vec<&Exchange> = self.mix.exchanges().collect();
        ensure!(
            !exchanges.is_empty(),
            "no requests to send (name at least one path)"
        );
        if let Mix::Weighted(weighted) = &self.mix {
            let some = weighted.iter().any(|(weight, _)| *weight > 0);
            ensure!(
                some,
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
        let family = |source: &&IpAddr| {
            let mut servers = self.servers();
            servers.any(|server| server.is_ipv4() != source.is_ipv4())
        };
        if let Some(source) = self.sources.iter().find(family) {
            bail!(
                "source address of another family than server {}: {source}",
                self.server.ip()
            );
        }
        Ok(())
    }

    /// All addresses of the server, in the turn in which connections go to them.
    pub fn servers(&self) -> impl Iterator<Item = SocketAddr> {
        std::iter::once(self.server).chain(self.more_servers.iter().copied())
    }

    /// Begins the turn of addresses at that of the connection of this number.
    pub(crate) fn rotate_servers(&mut self, connection: u64) {
        let mut all: Vec<_> = self.servers().collect();
        let first = connection % all.len() as u64;
        all.rotate_left(first as usize);
        self.more_servers = all.split_off(1);
        self.server = all[0];
    }

    /// Requests that can be under way at once.
    pub fn max_in_flight(&self) -> u32 {
        match self.protocol {
            Protocol::Http1 => self.connections,
            Protocol::Http2 { streams } => self.connections.saturating_mul(streams),
        }
    }

    /// Refuses what HTTP/2 has no part in.
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

/// What comes at the rate of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateUnit {
    /// Single requests.
    Requests,
    /// Visitors that make several requests each.
    Visitors,
}

impl RateUnit {
    /// Its name in messages.
    pub fn per_s(self) -> &'static str {
        match self {
            Self::Requests => "requests/s",
            Self::Visitors => "visitors/s",
        }
    }
}

impl Mix {
    /// What comes at the rate of an open loop.
    pub fn rate_unit(&self) -> RateUnit {
        match self {
            Self::Round(_) | Self::Weighted(_) => RateUnit::Requests,
            Self::Sessions(_) => RateUnit::Visitors,
        }
    }

    /// All exchanges in their order.
    pub(crate) fn exchanges(&self) -> Box<dyn Iterator<Item = &Exchange> + '_> {
        match self {
            Self::Round(exchanges) => Box::new(exchanges.iter()),
            Self::Weighted(weighted) => Box::new(weighted.iter().map(|(_, exchange)| exchange)),
            Self::Sessions(script) => Box::new(script.exchanges().iter()),
        }
    }
}
