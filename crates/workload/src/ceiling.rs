//! A workload's traffic against a null server: what its clients could measure of a server that costs nothing.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use load::exchange::Exchange;
use load::null_server;
use load::schedule::{Schedule, Think};
use load::server::Server;
use load::tls::Trust;
use load::traffic::{End, Mix, Traffic};
use record::metric::Figure;

use crate::context::WorkloadContext;
use crate::figures::{self, Seen};
use crate::{Driven, Timing, Watcher, Workload, web};

/// Longest warm-up and window: a null server has nothing to warm up, and one rate to find.
const WARMUP: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);

/// The null server of a workload whose own server speaks without TLS.
pub(crate) fn reach(null_server: &str) -> Result<Server> {
    Server::of(null_server, || Ok(Trust::Any))
}

/// Traffic that asks a null server for as many bytes as `traffic` asks its server for, as fast as it answers. `None` where
/// nobody knows how many those are, or where clients follow a script or read slowly by design.
pub(crate) fn traffic(traffic: Traffic, null_server: &Server) -> Option<Traffic> {
    let each = |exchanges: &[Exchange]| -> Option<Vec<Exchange>> {
        exchanges.iter().map(null_server::exchange).collect()
    };
    let mix = match &traffic.mix {
        Mix::Round(exchanges) => Mix::Round(each(exchanges)?),
        Mix::Weighted(weighted) => {
            let own =
                |(weight, one): &(u32, Exchange)| Some((*weight, null_server::exchange(one)?));
            Mix::Weighted(weighted.iter().map(own).collect::<Option<_>>()?)
        }
        Mix::Sessions(_) => return None,
    };
    if !traffic.bits_per_s.is_empty() {
        return None;
    }
    let window = match traffic.end {
        End::After(window) => window.min(WINDOW),
        End::Count(_) => WINDOW,
    };
    Some(Traffic {
        server: null_server.address,
        tls: null_server.tls.clone(),
        mix,
        schedule: Schedule::Closed { think: Think::NONE },
        warmup: traffic.warmup.min(WARMUP),
        end: End::After(window),
        ..traffic
    })
}

/// How long the ceiling of a workload of one load takes, for who does not reach the null server.
pub fn timing(workload: &dyn Workload) -> Timing {
    let Timing { warmup, window } = workload.timing();
    Timing {
        warmup: warmup.min(WARMUP),
        window: window.min(WINDOW),
    }
}

/// The ceiling of a workload, as a workload: no service, no figure but throughput.
pub struct CeilingLoad(Traffic);

impl CeilingLoad {
    /// That of `workload` against the null server at a URL, which must be there.
    ///
    /// # Errors
    /// Says why it has none.
    pub fn of(
        workload: &dyn Workload,
        context: &WorkloadContext,
        null_server: &str,
    ) -> Result<Self> {
        let traffic = workload
            .ceiling(context, null_server)
            .with_context(|| format!("null server at {null_server}"))?;
        let traffic =
            traffic.context("no ceiling for what these clients do (leave it out: ceiling)")?;
        Ok(Self(traffic))
    }
}

impl Workload for CeilingLoad {
    fn timing(&self) -> Timing {
        Timing {
            warmup: self.0.warmup,
            window: match self.0.end {
                End::After(window) => window,
                End::Count(_) => Duration::ZERO,
            },
        }
    }

    fn drive(
        &self,
        _context: &WorkloadContext,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        web::drive(&self.0, stop, watcher)
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        figures::web(seen, "")
    }
}
