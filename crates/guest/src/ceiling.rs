//! The ceiling: what a workload's clients get from a null server in the server's place, and so the most that they could
//! measure of any server.
//!
//! Namespaces, sysctls, CPUs and clients are those of a trial; only the services are another.

use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use load::null_server::{NullServer, Settings};
use record::protocol::{FromAgent, Job};
use record::trial::{JobResult, Measurement, Phase, VoidReason};
use workload::Workload as _;
use workload::ceiling::CeilingLoad;
use workload::figures::Seen;

use crate::cgroup::{CLIENTS, Cgroups};
use crate::cpus;
use crate::env::{Environment, Failure, Tell};
use crate::job::{
    Far, TrialClients, drive, kernel, make_network, open_far, path_of, raise_open_files, shared,
    workload_context,
};
use crate::sampler::Sampler;

/// The port that web workloads' servers have.
pub(crate) const PORT: u16 = 80;

/// What it is called in records.
const NAME: &str = "bakeoff null server";

/// Measures the ceiling where the server is here, and the clients are or have a line to here.
pub(crate) fn perform(
    job: &Job,
    environment: &Environment,
    stop: &AtomicBool,
    tell: &Tell<'_>,
) -> Result<JobResult, Failure> {
    tell(FromAgent::Phase(Phase::SettingUp));
    let mut far = open_far(job, environment)?;
    let workload = workload::from_options(&job.workload)?;
    raise_open_files().context("raise the limit of open files")?;
    let cgroups = Cgroups::make(&environment.cgroup)?;
    let clients = cgroups.child(CLIENTS)?;
    let _membership = clients.join()?;
    let netns = make_network(job, environment)?;
    let cpus = cpus::own()?;
    let context = workload_context(job, environment, &cpus)?;

    tell(FromAgent::Phase(Phase::Starting));
    let address = context.at(PORT);
    let settings = Settings {
        threads: cpus.count as usize,
        ..Settings::default()
    };
    let null_server = netns
        .server
        .within(|| NullServer::start(address, &settings))??;
    let url = format!("http://{address}");
    let load = netns
        .client
        .within(|| CeilingLoad::of(&*workload, &context, &url))??;
    let sampler = Sampler::open(&netns.server, &[&clients], cpus)?;
    let sampler = sampler.with_path(path_of(&netns, environment)?);
    let trial = TrialClients {
        workload: &load,
        context: &context,
        netns: &netns.client,
        far: far.as_mut().map(Far::Agent),
        begins: &|| {},
    };
    let (driven, watched, _) = drive(trial, (sampler, None), stop, tell)?;
    drop(null_server);

    tell(FromAgent::Phase(Phase::Collecting));
    let seen = Seen {
        driven: &driven,
        meter: &watched.meter,
        samples: &watched.samples,
        ns_per_instruction: None,
    };
    let figures = load.figures(&seen).map_err(|detail| Failure {
        reason: VoidReason::CheckFailed,
        detail,
    })?;
    let path = match far {
        None => driven.path.map(|path| shared(path, &watched.meter)),
        Some(_) => driven.path,
    };
    let measurement = Measurement {
        figures,
        path,
        load: driven.load,
        kernel: kernel(),
        server: NAME.into(),
        ..Measurement::default()
    };
    Ok(JobResult {
        measurement,
        ..JobResult::default()
    })
}
