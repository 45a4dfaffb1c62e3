//! Workloads whose clients visit the site of `Web`: each says only where it departs from `web-static`.

use std::sync::atomic::AtomicBool;

use anyhow::Result;
use load::traffic::Traffic;
use record::metric::Figure;

use super::{Web, drive};
use crate::context::WorkloadContext;
use crate::figures::{self, Seen};
use crate::service::Service;
use crate::{Driven, Programs, Timing, Watcher, Workload, ceiling};

/// A web server with the site, and clients for it.
///
/// Without a method of its own beyond the first two, it is a closed loop without pauses, judged by throughput.
pub(crate) trait SiteWorkload: Send + Sync {
    fn web(&self) -> &Web;

    /// Connections at once, at the most.
    fn connections(&self) -> u32;

    /// Steps of its ramp, each with a warm-up and a window.
    fn steps(&self) -> usize {
        1
    }

    /// Whether one load is sent from the beginning to the end.
    fn has_one_load(&self) -> bool {
        false
    }

    /// Requests per second that are sent whether or not the server keeps up; `None` where each waits for the answer before it.
    fn rate_per_s(&self) -> Option<u32> {
        None
    }

    /// Whether hosts can share its load: one load, and all that it yields is in what clients saw.
    fn can_be_shared(&self) -> bool {
        false
    }

    /// Lines for the server's configuration.
    fn extra(&self) -> &'static str {
        ""
    }

    /// Changes the traffic as the workload needs it, and sends it.
    fn send(
        &self,
        traffic: Traffic,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        drive(&traffic, stop, watcher)
    }

    /// The figures of a trial, from those that every web workload has.
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
        self.web().timing_of(self.steps())
    }

    fn prepare(&self, context: &WorkloadContext) -> Result<Vec<Service>> {
        let extra = self.extra().into();
        let service = self.web().service(context, self.connections(), extra)?;
        Ok(vec![service])
    }

    fn drive(
        &self,
        context: &WorkloadContext,
        stop: &AtomicBool,
        watcher: &mut dyn Watcher,
    ) -> Result<Driven> {
        let traffic = self.web().traffic(context, self.connections());
        self.send(traffic, stop, watcher)
    }

    fn ceiling(&self, context: &WorkloadContext, null_server: &str) -> Result<Option<Traffic>> {
        let traffic = self.web().traffic(context, self.connections());
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
