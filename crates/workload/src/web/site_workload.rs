//! Workloads with the site of `Web`. Each defines only its differences from `web-static`.

use anyhow::Result;
use load::traffic::Traffic;
use record::metric::Figure;

use super::{Web, drive};
use crate::context::WorkloadContext;
use crate::figures::{self, Seen};
use crate::service::Service;
use crate::{Control, Driven, Programs, Timing, Workload, ceiling};

/// A web server with the site, and clients for it.
///
/// By default a closed loop without think time, judged by throughput.
pub(crate) trait SiteWorkload: Send + Sync {
    fn web(&self) -> &Web;

    /// Number of steps of its ramp.
    fn steps(&self) -> usize {
        1
    }

    /// Whether it sends a single load.
    fn has_one_load(&self) -> bool {
        false
    }

    /// Rate of an open loop in requests per second; `None` for a closed loop.
    fn rate_per_s(&self) -> Option<u32> {
        None
    }

    /// Whether hosts can share its load: a single load whose figures come from the clients only.
    fn can_be_shared(&self) -> bool {
        false
    }

    /// Additional lines of the server's configuration.
    fn extra(&self) -> &'static str {
        ""
    }

    /// Adapts the traffic.
    fn adapt(&self, _traffic: &mut Traffic) -> Result<()> {
        Ok(())
    }

    /// Sends the traffic.
    fn send(&self, traffic: Traffic, control: &mut Control<'_>) -> Result<Driven> {
        drive(&traffic, control)
    }

    /// The figures of a trial, given those of every web workload.
    fn conclude(&self, _seen: &Seen<'_>, web: Vec<Figure>) -> Result<Vec<Figure>, String> {
        Ok(web)
    }
}

impl<S: SiteWorkload> Workload for S {
    fn packages(&self) -> Vec<&str> {
        self.web().packages()
    }

    fn programs(&self) -> Programs {
        Programs::These(self.web().server.programs())
    }

    fn configurable(&self) -> Vec<&'static str> {
        vec![self.web().server.name()]
    }

    fn is_driven_from_outside(&self) -> bool {
        true
    }

    fn can_be_disturbed(&self) -> bool {
        self.has_one_load()
    }

    fn is_shareable(&self) -> bool {
        self.can_be_shared()
    }

    fn takes_addresses(&self) -> bool {
        true
    }

    fn timing(&self) -> Timing {
        self.web().timing.of_steps(self.steps())
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        Ok(vec![self.web().service(context, self.extra())?])
    }

    fn drive(&self, context: &WorkloadContext, control: &mut Control<'_>) -> Result<Driven> {
        let mut traffic = self.web().traffic(context);
        self.adapt(&mut traffic)?;
        self.send(traffic, control)
    }

    fn ceiling(&self, context: &WorkloadContext, null_server: &str) -> Result<Option<Traffic>> {
        let traffic = self.web().traffic(context);
        Ok(ceiling::traffic(traffic, &ceiling::reach(null_server)?))
    }

    fn has_ceiling(&self) -> bool {
        self.has_one_load() && self.rate_per_s().is_none()
    }

    fn figures(&self, seen: &Seen<'_>) -> Result<Vec<Figure>, String> {
        let web = figures::web(seen, self.web().server.name())?;
        self.conclude(seen, web)
    }
}
