//! A trial of a system on the network: the clients are here, the server is what it is.
//!
//! Nothing is started and nothing is set. What this host's sampler sees is the clients'; what the system used is what it
//! tells of itself before the window and after it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use plan::{EvidenceSource, Target};
use protocol::{CeilingJob, FromAgent, Job};
use record::evidence::Facts;
use record::load_path::Side;
use record::trial::{JobResult, Phase, VoidReason};
use workload::ceiling::CeilingLoad;
use workload::context::WorkloadContext;
use workload::figures::Seen;
use workload::{Timing, Workload};

use crate::cpus;
use crate::evidence::{self, Reading};
use crate::facts;
use crate::job::{Failure, Tell, TrialClients, drive, load_path, raise_open_files};
use crate::netns::Netns;
use crate::path::PathWatch;
use crate::sampler::Sampler;

/// Does the job.
pub(crate) fn perform(
    job: &Job,
    target: &Target,
    stop: &AtomicBool,
    tell: &Tell<'_>,
) -> Result<JobResult, Failure> {
    tell(FromAgent::Phase(Phase::SettingUp));
    raise_open_files().context("raise the limit of open files")?;
    let cpus = cpus::own()?;
    let own = Netns::own();
    let context = WorkloadContext {
        target: Some(target.url.clone()),
        ..WorkloadContext::without_server(PathBuf::new(), cpus.count, job.seed)
    };
    let workload = load_of(job, &context)?;
    let source = target.evidence.as_ref();
    // So that what is wrong with it is known before the load.
    let first = source
        .map(evidence::read)
        .transpose()
        .map_err(|why| unknown(&why))?;
    let path = PathWatch::open(&[(Side::Clients, &own)])?;
    let sampler = Sampler::open(&own, &[], cpus)?.with_path(Some(path));
    let readings = Mutex::new(None);
    let timing = workload.timing();
    let clients = TrialClients {
        workload: &*workload,
        context: &context,
        netns: &own,
        far: None,
        begins: &|| {
            let source = source.cloned();
            let thread = source.map(|source| thread::spawn(move || watch(&source, timing)));
            *readings.lock().expect(UNPOISONED) = thread;
        },
    };
    let (driven, watched, _) = drive(clients, (sampler, None), stop, tell)?;
    tell(FromAgent::Phase(Phase::Collecting));
    let readings = readings.into_inner().expect(UNPOISONED);
    let readings = readings.map(|thread| thread.join().expect("reading does not panic"));
    let readings = readings.transpose().map_err(|why| unknown(&why))?;
    let seen = Seen {
        driven: &driven,
        meter: &watched.meter,
        samples: &watched.samples,
        ns_per_instruction: None,
    };
    let check_failed = |detail| Failure {
        reason: VoidReason::CheckFailed,
        detail,
    };
    let mut figures = workload.figures(&seen).map_err(check_failed)?;
    let system = first.as_ref().and_then(|own| own.system.clone());
    if let (Some(first), Some((before, after))) = (&first, &readings) {
        // A restart before the window counts too.
        evidence::between(first, after).map_err(check_failed)?;
        let used = evidence::between(before, after).map_err(check_failed)?;
        figures.extend(workload::figures::remote(&seen, &used));
    }
    let mut values = BTreeMap::new();
    values.insert("remote:url".into(), target.url.clone());
    values.insert("remote:evidence".into(), evidence::name(source));
    // The clients are the only ones whose hardware can be looked at.
    facts::collect_hardware("host:hardware", &mut values);
    let path = load_path(&driven, watched.path.clone(), None);
    let server = evidence::look(&target.url, &mut values).map_err(|why| unknown(&why))?;
    values.extend(driven.facts);
    Ok(JobResult {
        figures,
        curves: driven.curves,
        load: driven.load,
        path,
        facts: Facts {
            version: facts::VERSION,
            values,
            ..Facts::default()
        },
        kernel: system.unwrap_or_else(|| "not known".into()),
        server,
    })
}

/// What is not known of a system, or of a null server.
fn unknown(why: &anyhow::Error) -> Failure {
    Failure {
        reason: VoidReason::ServiceFailed,
        detail: format!("{why:#}"),
    }
}

/// The job's workload, or its ceiling.
fn load_of(job: &Job, context: &WorkloadContext) -> Result<Box<dyn Workload>, Failure> {
    let workload = workload::from_options(&job.workload)?;
    match &job.ceiling {
        Some(CeilingJob::At(url)) => {
            let load = CeilingLoad::of(&*workload, context, url).map_err(|why| unknown(&why))?;
            Ok(Box::new(load))
        }
        Some(CeilingJob::Own) | None => Ok(workload),
    }
}

const UNPOISONED: &str = "who holds the lock does not panic";

/// Asks the system as the window opens and as it closes.
fn watch(source: &EvidenceSource, timing: Timing) -> Result<(Reading, Reading)> {
    let begun = Instant::now();
    let Timing { warmup, window } = timing;
    thread::sleep(warmup);
    let before = evidence::read(source)?;
    thread::sleep((warmup + window).saturating_sub(begun.elapsed()));
    Ok((before, evidence::read(source)?))
}
