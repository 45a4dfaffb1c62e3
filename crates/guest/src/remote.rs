//! A trial of a system on the network: the clients run here, the server is used as it is.
//!
//! Nothing is started or set. The clients may run on other hosts (`apart::hosts`); if not, this host's sampler
//! watches them. What the system used comes from its own monitoring, read before the window and after it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;

use anyhow::{Context, Result};
use plan::Target;
use record::evidence::Facts;
use record::fact;
use record::load_path::Side;
use record::protocol::hosts::HostCommand;
use record::protocol::{CeilingJob, FromAgent, Job};
use record::trial::{JobResult, Measurement, Metered, NOT_KNOWN, Phase, VoidReason};
use workload::Workload;
use workload::ceiling::CeilingLoad;
use workload::context::WorkloadContext;
use workload::figures::Seen;

use crate::UNPOISONED;
use crate::apart::hosts::Hosts;
use crate::cpus;
use crate::env::{Failure, Report};
use crate::evidence;
use crate::facts;
use crate::job::{RemoteClients, TrialClients, drive, raise_open_files};
use crate::netns::Netns;
use crate::path::PathWatch;
use crate::sampler::Sampler;

/// Does the job.
pub(crate) fn perform(
    job: &Job,
    target: &Target,
    hosts: &[HostCommand],
    build: &str,
    stop: &AtomicBool,
    report: &Report<'_>,
) -> Result<JobResult, Failure> {
    report(FromAgent::Phase(Phase::SettingUp));
    raise_open_files().context("raise the limit of open files")?;
    let cpus = cpus::allowed()?;
    let netns = Netns::current();
    let context = WorkloadContext {
        one_fewer: job.one_fewer && hosts.is_empty(),
        ..context_of(target, cpus.count, job.seed)
    };
    let (hosts, job) = &hosts_and_job(job, hosts);
    let mut hosts = match hosts {
        [] => None,
        commands => Some(Hosts::start(commands)?),
    };
    let workload = load_of(job, &context).map_err(|why| target_failed(&why))?;
    let source = target.evidence.as_ref();
    // Finds problems with the source before the load.
    let first = source
        .map(evidence::read)
        .transpose()
        .map_err(|why| target_failed(&why))?;
    let is_led = hosts.is_some();
    let ends = [(Side::Clients, &netns)];
    let path = (!is_led).then(|| PathWatch::open(&ends)).transpose()?;
    let sampler = Sampler::open(&netns, &[], cpus)?.with_path(path);
    let readings = Mutex::new(None);
    let timing = workload.timing();
    let clients = TrialClients {
        workload: &*workload,
        context: &context,
        netns: &netns,
        remote: hosts
            .as_mut()
            .map(|hosts| RemoteClients::Hosts { hosts, job, build }),
        begins: &|| {
            let source = source.cloned();
            let thread =
                source.map(|source| thread::spawn(move || evidence::watch(&source, timing)));
            *readings.lock().expect(UNPOISONED) = thread;
        },
    };
    let report_all = |message: FromAgent| match message {
        // Samples of this host say nothing of clients on other hosts.
        FromAgent::Sample(_) if is_led => {}
        message => report(message),
    };
    let (driven, watched, _) = drive(clients, sampler, None, stop, &report_all)?;
    report(FromAgent::Phase(Phase::Collecting));
    let thread = readings.into_inner().expect(UNPOISONED);
    let readings = thread.map(|thread| thread.join().expect("reading does not panic"));
    let readings = readings.transpose().map_err(|why| target_failed(&why))?;
    let seen = Seen {
        driven: &driven,
        meter: &watched.meter,
        samples: &watched.samples,
        ns_per_instruction: None,
    };
    let check_failed = |why| Failure::new(VoidReason::CheckFailed, why);
    let mut figures = workload.figures(&seen).map_err(check_failed)?;
    if let Some((first, readings)) = first.as_ref().zip(readings.as_ref()) {
        let used = evidence::used(first, readings).map_err(check_failed)?;
        figures.extend(workload::figures::remote(&seen, &used));
    }
    let mut values = target_facts(target);
    let server = evidence::describe(&target.url, &mut values).map_err(|why| target_failed(&why))?;
    values.extend(driven.facts);
    let system = first.and_then(|reading| reading.system);
    let measurement = Measurement {
        figures,
        curves: driven.curves,
        load: driven.load,
        path: driven.path,
        kernel: system.unwrap_or_else(|| NOT_KNOWN.into()),
        server,
        ..Measurement::default()
    };
    Ok(JobResult {
        measurement,
        metered: Metered::default(),
        facts: Facts {
            version: facts::VERSION,
            values,
            ..Facts::default()
        },
    })
}

/// The context of clients of a system on the network; `cpus` is the number of the clients' CPUs.
pub(crate) fn context_of(target: &Target, cpus: u32, seed: u64) -> WorkloadContext {
    WorkloadContext {
        target: Some(target.url.clone()),
        addresses: target.addresses.clone(),
        ..WorkloadContext::without_server(PathBuf::new(), cpus, seed)
    }
}

/// The hosts that share the clients, and their job. A job with one client fewer leaves out the last host; a
/// single host uses one thread fewer instead.
pub(crate) fn hosts_and_job<'h>(job: &Job, hosts: &'h [HostCommand]) -> (&'h [HostCommand], Job) {
    let mut job = job.clone();
    match hosts {
        [left @ .., _] if job.one_fewer && !left.is_empty() => {
            job.one_fewer = false;
            (left, job)
        }
        all => (all, job),
    }
}

/// Facts of the target as the plan names it, and of the hardware of this host, which has the clients.
fn target_facts(target: &Target) -> BTreeMap<String, String> {
    let mut values = BTreeMap::new();
    values.insert(fact::REMOTE_URL.into(), target.url.clone());
    if !target.addresses.is_empty() {
        let addresses = target.addresses.iter().map(ToString::to_string);
        let addresses: Vec<_> = addresses.collect();
        values.insert(fact::REMOTE_ADDRESSES.into(), addresses.join(" "));
    }
    values.insert(
        fact::REMOTE_EVIDENCE.into(),
        evidence::name(target.evidence.as_ref()),
    );
    facts::collect_hardware(fact::HOST_HARDWARE, &mut values);
    values
}

/// The target, or a null server in its place, does not answer as expected.
fn target_failed(why: &anyhow::Error) -> Failure {
    Failure::new(VoidReason::ServiceFailed, format!("{why:#}"))
}

/// The job's workload, or its ceiling.
pub(crate) fn load_of(job: &Job, context: &WorkloadContext) -> Result<Box<dyn Workload>> {
    let workload = workload::from_options(&job.workload)?;
    match &job.ceiling {
        Some(CeilingJob::At(url)) => Ok(Box::new(CeilingLoad::new(&*workload, context, url)?)),
        Some(CeilingJob::Own) | None => Ok(workload),
    }
}
