//! The ceiling: the most that a workload's clients could measure of any server. A null server replaces the
//! workload's services; namespaces, sysctls, CPUs and clients are those of a trial.

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
use crate::env::{Environment, Failure, Report};
use crate::job::{
    RemoteClients, TrialClients, drive, kernel, load_path, make_network, open_remote_clients,
    path_of, raise_open_files, workload_context,
};
use crate::sampler::Sampler;

/// The port of servers of web workloads.
pub(crate) const PORT: u16 = 80;

/// The server's name in records.
const NAME: &str = "bakeoff null server";

/// Measures the ceiling with a null server on this system.
pub(crate) fn perform(
    job: &Job,
    environment: &Environment,
    stop: &AtomicBool,
    report: &Report<'_>,
) -> Result<JobResult, Failure> {
    report(FromAgent::Phase(Phase::SettingUp));
    let mut remote_clients = open_remote_clients(job, environment)?;
    let workload = workload::from_options(&job.workload)?;
    raise_open_files().context("raise the limit of open files")?;
    let cgroups = Cgroups::make(&environment.cgroup)?;
    let clients = cgroups.child(CLIENTS)?;
    let _membership = clients.join()?;
    let netns = make_network(job, environment)?;
    let cpus = cpus::allowed()?;
    let context = workload_context(job, environment, &cpus)?;

    report(FromAgent::Phase(Phase::Starting));
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
        .within(|| CeilingLoad::new(&*workload, &context, &url))??;
    let sampler = Sampler::open(&netns.server, &[&clients], cpus)?;
    let sampler = sampler.with_path(path_of(&netns, environment)?);
    let trial = TrialClients {
        workload: &load,
        context: &context,
        netns: &netns.client,
        remote: remote_clients.as_mut().map(RemoteClients::Agent),
        begins: &|| {},
    };
    let (driven, watched, _) = drive(trial, sampler, None, stop, report)?;
    drop(null_server);

    report(FromAgent::Phase(Phase::Collecting));
    let seen = Seen {
        driven: &driven,
        meter: &watched.meter,
        samples: &watched.samples,
        ns_per_instruction: None,
    };
    let figures = load.figures(&seen);
    let figures = figures.map_err(|why| Failure::new(VoidReason::CheckFailed, why))?;
    let measurement = Measurement {
        figures,
        path: load_path(remote_clients.as_ref(), driven.path, &watched.meter),
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
