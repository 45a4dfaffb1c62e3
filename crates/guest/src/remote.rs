//! A trial of a system on the network: the clients are here, the server is what it is.
//!
//! Nothing is started and nothing is set. The clients may be on other hosts (`apart::hosts`); if not, what this host's sampler sees is the clients'; what the system used is what it
//! tells of itself before the window and after it.

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
use record::metric::Figure;
use record::protocol::hosts::HostCommand;
use record::protocol::{CeilingJob, FromAgent, Job};
use record::trial::{JobResult, Measurement, Metered, NOT_KNOWN, Phase, VoidReason};
use workload::Workload;
use workload::ceiling::CeilingLoad;
use workload::context::WorkloadContext;
use workload::figures::Seen;

use crate::apart::hosts::Hosts;
use crate::cpus;
use crate::env::{Failure, Tell};
use crate::evidence;
use crate::evidence::{Reading, Watched};
use crate::facts;
use crate::job::{Far, TrialClients, drive, raise_open_files};
use crate::netns::Netns;
use crate::path::PathWatch;
use crate::sampler::Sampler;

/// Does the job.
pub(crate) fn perform(
    job: &Job,
    (target, hosts, build): (&Target, &[HostCommand], &str),
    stop: &AtomicBool,
    tell: &Tell<'_>,
) -> Result<JobResult, Failure> {
    tell(FromAgent::Phase(Phase::SettingUp));
    raise_open_files().context("raise the limit of open files")?;
    let cpus = cpus::own()?;
    let own = Netns::own();
    let context = WorkloadContext {
        one_fewer: job.one_fewer && hosts.is_empty(),
        ..context_of(target, (cpus.count, job.seed))
    };
    let (hosts, job) = &shared_out(job, hosts);
    let mut hosts = match hosts {
        [] => None,
        commands => Some(Hosts::start(commands)?),
    };
    let workload = load_of(job, &context).map_err(|why| unknown(&why))?;
    let source = target.evidence.as_ref();
    // So that what is wrong with it is known before the load.
    let first = source
        .map(evidence::read)
        .transpose()
        .map_err(|why| unknown(&why))?;
    let is_led = hosts.is_some();
    let sampler = open_sampler(&own, !is_led)?;
    let readings = Mutex::new(None);
    let timing = workload.timing();
    let clients = TrialClients {
        workload: &*workload,
        context: &context,
        netns: &own,
        far: hosts.as_mut().map(|hosts| Far::Hosts { hosts, job, build }),
        begins: &|| {
            let source = source.cloned();
            let thread =
                source.map(|source| thread::spawn(move || evidence::watch(&source, timing)));
            *readings.lock().expect(UNPOISONED) = thread;
        },
    };
    let told = |message: FromAgent| match message {
        // This host is only the one that hosts of the clients are led from.
        FromAgent::Sample(_) if is_led => {}
        message => tell(message),
    };
    let (driven, watched, _) = drive(clients, (sampler, None), stop, &told)?;
    tell(FromAgent::Phase(Phase::Collecting));
    let thread = readings.into_inner().expect(UNPOISONED);
    let readings = thread.map(|thread| thread.join().expect("reading does not panic"));
    let readings = readings.transpose().map_err(|why| unknown(&why))?;
    let seen = Seen {
        driven: &driven,
        meter: &watched.meter,
        samples: &watched.samples,
        ns_per_instruction: None,
    };
    let mut figures = workload.figures(&seen).map_err(check_failed)?;
    figures.extend(used(&seen, first.as_ref(), readings.as_ref()).map_err(check_failed)?);
    let mut values = known(target);
    let server = evidence::look(&target.url, &mut values).map_err(|why| unknown(&why))?;
    values.extend(driven.facts);
    let measurement = Measurement {
        figures,
        curves: driven.curves,
        load: driven.load,
        path: driven.path,
        kernel: kernel(first),
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

/// What a system calls itself.
fn kernel(reading: Option<Reading>) -> String {
    let system = reading.and_then(|own| own.system);
    system.unwrap_or_else(|| NOT_KNOWN.into())
}

/// The context of clients of a system on the network, on so many CPUs.
pub(crate) fn context_of(target: &Target, (cpus, seed): (u32, u64)) -> WorkloadContext {
    WorkloadContext {
        target: Some(target.url.clone()),
        addresses: target.addresses.clone(),
        ..WorkloadContext::without_server(PathBuf::new(), cpus, seed)
    }
}

/// The hosts that have the clients, and what they are told. With one client fewer the last host is left out; where there is one
/// host it does with a thread less.
pub(crate) fn shared_out<'h>(job: &Job, hosts: &'h [HostCommand]) -> (&'h [HostCommand], Job) {
    let mut job = job.clone();
    match hosts {
        [left @ .., _] if job.one_fewer && !left.is_empty() => {
            job.one_fewer = false;
            (left, job)
        }
        all => (all, job),
    }
}

/// What is known of a system on the network and of its clients' host before anything is read from it.
fn known(target: &Target) -> BTreeMap<String, String> {
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
    // The clients are the only ones whose hardware can be looked at.
    facts::collect_hardware(fact::HOST_HARDWARE, &mut values);
    values
}

fn check_failed(detail: String) -> Failure {
    Failure {
        reason: VoidReason::CheckFailed,
        detail,
    }
}

/// Figures of what the system says that it has used; none where it says nothing.
fn used(
    seen: &Seen<'_>,
    first: Option<&Reading>,
    watched: Option<&Watched>,
) -> Result<Vec<Figure>, String> {
    let (Some(first), Some(watched)) = (first, watched) else {
        return Ok(Vec::new());
    };
    let used = evidence::used(first, watched)?;
    Ok(workload::figures::remote(seen, &used))
}

/// Looks at this host, and at its end of the network where it has the clients.
fn open_sampler(own: &Netns, has_clients: bool) -> Result<Sampler> {
    let ends = [(Side::Clients, own)];
    let path = has_clients.then(|| PathWatch::open(&ends)).transpose()?;
    Ok(Sampler::open(own, &[], cpus::own()?)?.with_path(path))
}

/// What is not known of a system, or of a null server.
fn unknown(why: &anyhow::Error) -> Failure {
    Failure {
        reason: VoidReason::ServiceFailed,
        detail: format!("{why:#}"),
    }
}

/// The job's workload, or its ceiling.
pub(crate) fn load_of(job: &Job, context: &WorkloadContext) -> Result<Box<dyn Workload>> {
    let workload = workload::from_options(&job.workload)?;
    match &job.ceiling {
        Some(CeilingJob::At(url)) => Ok(Box::new(CeilingLoad::of(&*workload, context, url)?)),
        Some(CeilingJob::Own) | None => Ok(workload),
    }
}

const UNPOISONED: &str = "who holds the lock does not panic";
