//! A workload's traffic against a null server: the ceiling of what its clients can measure.

use std::time::Duration;

use anyhow::{Context, Result};
use load::null_server;
use load::schedule::{Schedule, Think};
use load::server::Server;
use load::tls::Trust;
use load::traffic::{End, Mix, Traffic};
use record::metric::Figure;

use crate::context::WorkloadContext;
use crate::figures::{self, Seen};
use crate::{Control, Driven, Timing, Workload, web};

/// Longest warm-up and window; a null server needs little of either.
const WARMUP: Duration = Duration::from_secs(1);
const WINDOW: Duration = Duration::from_secs(3);

/// Reaches the null server of a workload without TLS.
pub(crate) fn reach(null_server: &str) -> Result<Server> {
    Server::from_url(null_server, || Ok(Trust::Any))
}

/// Traffic that requests as many bytes from a null server as `traffic` from its server, in a closed
/// loop. `None` if the number of bytes is unknown, or if clients follow a script or read slowly.
pub(crate) fn traffic(traffic: Traffic, null_server: &Server) -> Option<Traffic> {
    let mix = match &traffic.mix {
        Mix::Round(exchanges) => {
            let exchanges = exchanges.iter().map(null_server::exchange);
            Mix::Round(exchanges.collect::<Option<_>>()?)
        }
        Mix::Weighted(weighted) => {
            let weighted = weighted.iter();
            let weighted = weighted
                .map(|(weight, exchange)| Some((*weight, null_server::exchange(exchange)?)));
            Mix::Weighted(weighted.collect::<Option<_>>()?)
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

/// Timing of the ceiling of a workload with a single load.
pub fn timing(workload: &dyn Workload) -> Timing {
    let Timing { warmup, window } = workload.timing();
    Timing {
        warmup: warmup.min(WARMUP),
        window: window.min(WINDOW),
    }
}

/// The ceiling of a workload as a workload without services.
pub struct CeilingLoad(Traffic);

impl CeilingLoad {
    /// The ceiling of `workload` against the null server at a URL.
    ///
    /// # Errors
    /// The null server is not reachable, or the workload has no ceiling.
    pub fn new(
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

    fn drive(&self, _context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        web::drive(&self.0, control)
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        figures::web(seen, "")
    }
}
