//! One job from its sysctls to its result, the same on every kind of machine.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plan::Tuning;
use profiler::format;
use record::disturbances;
use record::fact;
use record::load::Tick;
use record::load_path::{LoadPath, Side};
use record::metric::Figure;
use record::protocol::drive::{Driven, tick_in_parts};
use record::protocol::{FromAgent, Job, Part, ProfilePart, Profiling};
use record::trial::{JobResult, Measurement, Metered, Phase, VoidReason};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use workload::config::ArmConfig;
use workload::context::WorkloadContext;
use workload::figures::{Meter, Seen};
use workload::{Control, Timing, Watcher, Workload, Wrong};

use crate::apart::follow::{Follower, follow};
use crate::apart::hosts::Hosts;
use crate::cgroup::{CLIENTS, Cgroup, Cgroups};
use crate::channel::Channel;
use crate::code;
use crate::cpu_hog;
use crate::cpu_hog::CpuHog;
use crate::cpus;
use crate::cpus::Cpus;
use crate::defect_watch::DefectWatch;
use crate::disk_queue;
use crate::disk_watch::DiskWatch;
use crate::disturb::Disturber;
use crate::env::{Environment, Failure, Report};
use crate::facts;
use crate::hardware_counters::{CounterSource, Counting, EVENTS, KernelCounters};
use crate::hung_tasks::Unwatched;
use crate::hystart;
use crate::injected_cost;
use crate::java_log::JavaLog;
use crate::mark;
use crate::netns::{CLIENT, Netns, NetnsPair, SERVER};
use crate::path::{PathSeen, PathWatch};
use crate::preload;
use crate::sampled;
use crate::sampled::Recorder;
use crate::sampler::Sampler;
use crate::scheduler::Scheduled;
use crate::services;
use crate::services::Running;
use crate::wait_idle;
use crate::watch::{Edge, Ready, SamplerReading, Watch, Watched, Window};
use crate::{debugfs, sysctl};

/// Limit of open files: clients and servers hold one descriptor per connection.
const OPEN_FILES: u64 = 1 << 20;

/// How long a job waits for idle CPUs before its load.
fn max_idle_wait(job: &Job, environment: &Environment) -> Duration {
    if job.accepts_busy_host {
        Duration::ZERO
    } else {
        environment.max_idle_wait
    }
}

/// Does a job. `stop` ends it early, with a failure; `defects` is notified as services and the load start
/// and stop.
pub fn perform(
    job: &Job,
    environment: &Environment,
    stop: &AtomicBool,
    defects: &DefectWatch,
    report: &Report<'_>,
) -> Result<JobResult, Failure> {
    report(FromAgent::Phase(Phase::SettingUp));
    let mut remote_clients = open_remote_clients(job, environment)?;
    let workload = workload::from_options(&job.workload)?;
    let cgroups = Cgroups::make(&environment.cgroup)?;
    let clients = cgroups.child(CLIENTS)?;
    let _membership = clients.join()?;
    raise_open_files().context("raise the limit of open files")?;
    let netns = make_network(job, environment)?;
    debugfs::set(&job.tuning.debugfs)?;
    disk_queue::set(environment.disk.as_deref(), &job.tuning)?;
    let cpus = cpus::allowed()?;
    let context = workload_context(job, environment, &cpus)?;
    let mut scheduled = Scheduled::begin(&job.tuning, &cpus, environment.max_idle_wait, stop)?;

    report(FromAgent::Phase(Phase::Starting));
    let mut services = start_all(&*workload, &context, &netns, &job.tuning, &cgroups, stop)?;
    let beside = prepare_clients_beside(job, &services, &cgroups)?;
    {
        let _unwatched = Unwatched::begin(job);
        let services = services.iter();
        preload::mapped_by(services.flat_map(|running| running.cgroup.processes()));
    }
    defects.watch_services(&services);
    let mut counted = vec![&clients];
    counted.extend(services.iter().map(|running| &running.cgroup));
    let sampler = Sampler::open(&netns.server, &counted, cpus.clone())?
        .with_path(path_of(&netns, environment)?)
        .with_counters(&netns.server)?
        .with_java(java_logs(&services))
        .with_hardware_counters(open_counters(job, &cgroups, &counted[1..])?);

    report(FromAgent::Phase(Phase::Settling));
    let idle = wait_idle::wait_idle(&cpus, max_idle_wait(job, environment), stop)?;
    scheduled.load_begins()?;
    let injected = inject(&job.tuning)?;
    let (recorder, obstacle) = open_recorder(job, environment);
    let warmup = workload.timing().warmup;
    let disturber = Disturber::new(job, environment, &netns, &services, defects, warmup)?;
    let begins = || {
        defects.load_begins(warmup);
        disturber.begin();
    };
    let clients = TrialClients {
        workload: &*workload,
        context: &context,
        netns: &netns.client,
        remote: remote_clients.as_mut().map(RemoteClients::Agent),
        begins: &begins,
    };
    let disk_watch = DiskWatch::begin(job, environment);
    let loaded = drive_disturbed(&disturber, clients, sampler, recorder, stop, report);
    let disturbances = disturber.end();
    defects.load_ends();
    defects.leave_services();
    let scheduler_facts = scheduled.load_ended()?;
    let (driven, watched, recorder) = loaded.map_err(|failure| explain(failure, &mut services))?;
    drop(injected);
    let disk_facts = disk_watch.map_or_else(BTreeMap::new, DiskWatch::end);

    report(FromAgent::Phase(Phase::Collecting));
    check_alive(&mut services)?;
    let seen = Seen {
        driven: &driven,
        meter: &watched.meter,
        samples: &watched.samples,
        ns_per_instruction: job.ns_per_instruction,
    };
    let figures = workload.figures(&seen);
    let mut figures = figures.map_err(|why| Failure::new(VoidReason::CheckFailed, why))?;
    let curves = workload.curves(&seen);
    let recorder = obstacle.map_or(recorder.context("nothing was recorded"), Err);
    figures.extend(disturbances::figures(&disturbances));
    figures.extend(report_profiles(job, &seen, recorder, &cpus, report));
    let mut facts = facts::collect(&netns, &services, environment.kernel_config.as_deref());
    facts.values.insert(fact::SETTLED.into(), idle.to_string());
    let beside = beside.into_iter().map(|key| (key.into(), "yes".into()));
    facts.values.extend(beside);
    let others = [driven.facts, scheduler_facts, disk_facts];
    facts.values.extend(others.into_iter().flatten());
    Ok(JobResult {
        measurement: Measurement {
            figures,
            curves,
            hardware_counters: watched.hardware_counters,
            load: driven.load,
            path: load_path(remote_clients.as_ref(), driven.path, &watched.meter),
            disturbances,
            kernel: kernel(),
            server: server(&services),
            ..Measurement::default()
        },
        metered: Metered {
            window_ns: watched.meter.window.as_nanos() as u64,
            busy_ns: watched.meter.busy.as_nanos() as u64,
        },
        facts,
    })
}

/// Makes the changes for clients beside services; returns the facts that hold then.
fn prepare_clients_beside(
    job: &Job,
    services: &[Running],
    cgroups: &Cgroups,
) -> Result<Vec<&'static str>> {
    if job.part != Part::Whole || services.is_empty() {
        return Ok(Vec::new());
    }
    let mut facts = Vec::new();
    if job.clients_beside.schedules_as_one && cgroups.schedule_as_one()? {
        facts.push(fact::ONE_CPU_GROUP);
    }
    if job.clients_beside.disables_hystart && hystart::disable(hystart::SWITCH)? {
        facts.push(fact::NO_HYSTART);
    }
    Ok(facts)
}

/// Opens the CPUs' event counters. Not where the clock counts instructions, which are exact, and not beside
/// samples, which need the same counters.
fn open_counters(job: &Job, cgroups: &Cgroups, services: &[&Cgroup]) -> Result<Option<Counting>> {
    if job.ns_per_instruction.is_some() || job.profiling != Profiling::None {
        return Ok(None);
    }
    let opened = KernelCounters::open(cgroups, services, &cpus::numbers()?, EVENTS);
    let source = opened.map(|counters| Box::new(counters) as Box<dyn CounterSource>);
    Ok(Some(Counting::new(source)))
}

fn check_alive(services: &mut [Running]) -> Result<(), Failure> {
    for running in services {
        let alive = running.check_alive();
        alive.map_err(|why| Failure::new(VoidReason::ServiceFailed, why))?;
    }
    Ok(())
}

/// Drives the load, and reports disturbances each second. Messages of the clients show the disturber how
/// well they are served.
fn drive_disturbed(
    disturber: &Disturber<'_>,
    clients: TrialClients<'_>,
    sampler: Sampler,
    recorder: Option<Recorder>,
    stop: &AtomicBool,
    report: &Report<'_>,
) -> Result<(Driven, Watched, Option<Recorder>), Failure> {
    let report_all = |message| {
        disturber.observe(&message);
        let is_second = matches!(message, FromAgent::Tick(_));
        report(message);
        if is_second {
            disturber.news().into_iter().for_each(report);
        }
    };
    drive(clients, sampler, recorder, stop, &report_all)
}

/// Watches the local ends of the network, if the environment asks for it.
pub(crate) fn path_of(netns: &NetnsPair, environment: &Environment) -> Result<Option<PathWatch>> {
    let ends = [
        (Side::Clients, &netns.client),
        (Side::Server, &netns.server),
    ];
    let ends = match environment.box_network {
        Some(_) => &ends[1..],
        None => &ends[..],
    };
    let watched = environment.watches_path.then(|| PathWatch::open(ends));
    watched.transpose()
}

/// Opens the channel to the clients' agent, if the clients run elsewhere.
pub(crate) fn open_remote_clients(job: &Job, environment: &Environment) -> Result<Option<Channel>> {
    Ok(match (job.part, &environment.box_network) {
        (Part::Whole, _) => None,
        (Part::Servers, Some(network)) => Some(network.wait_for_clients()?),
        (Part::Servers, None) => Some(Channel::open_port(record::protocol::clients::PORT)?),
        (Part::Clients, _) => bail!("clients are no job for a server"),
    })
}

/// Adds to the path of a load that its clients run on the server's CPUs, unless they run elsewhere.
pub(crate) fn load_path(
    remote_clients: Option<&Channel>,
    path: Option<LoadPath>,
    meter: &Meter,
) -> Option<LoadPath> {
    if remote_clients.is_some() {
        return path;
    }
    // Of all services, including the clients.
    let cpu: Duration = meter.services.values().sum();
    Some(LoadPath {
        is_shared: true,
        cpu_ns: Some(u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX)),
        ..path?
    })
}

pub(crate) fn raise_open_files() -> Result<()> {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: Some(OPEN_FILES),
        maximum: now.maximum.map(|most| most.max(OPEN_FILES)),
    };
    // A live host may have a lower hard limit: then that one.
    let allowed = Rlimit {
        current: now.maximum,
        maximum: now.maximum,
    };
    setrlimit(Resource::Nofile, wanted).or_else(|_| setrlimit(Resource::Nofile, allowed))?;
    Ok(())
}

pub(crate) fn workload_context(
    job: &Job,
    environment: &Environment,
    cpus: &Cpus,
) -> Result<WorkloadContext> {
    fs::create_dir_all(&environment.dir)
        .with_context(|| format!("make {}", environment.dir.display()))?;
    Ok(WorkloadContext {
        dir: environment.dir.clone(),
        server: match job.servers[..] {
            [] => SERVER,
            [address] => address,
            // Servers listen on all addresses, and the probe reaches them at this one.
            [_, _, ..] => Ipv4Addr::UNSPECIFIED,
        },
        client: CLIENT,
        cpus: cpus.count,
        seed: job.seed,
        disk: environment.disk.clone(),
        config: ArmConfig::from_tuning(&job.tuning),
        env: job.tuning.env.clone(),
        file_system: job.tuning.file_system.unwrap_or_default(),
        target: None,
        addresses: Vec::new(),
        one_fewer: false,
    })
}

/// Starts the slowdown and the cost that the arm injects; each ends when dropped.
fn inject(tuning: &Tuning) -> Result<(Option<CpuHog>, Option<injected_cost::Probe>)> {
    let slowdown = tuning.injected_slowdown;
    let period = tuning.injected_period.unwrap_or(cpu_hog::PERIOD);
    let hog = (slowdown > 0.0).then(|| CpuHog::begin(slowdown, period));
    let cost = tuning.injected_cost.as_ref();
    let cost = cost.map(injected_cost::Probe::begin);
    Ok((hog.transpose()?, cost.transpose()?))
}

/// Starts all services of a workload and waits until each one answers.
fn start_all(
    workload: &dyn Workload,
    context: &WorkloadContext,
    netns: &NetnsPair,
    tuning: &Tuning,
    cgroups: &Cgroups,
    stop: &AtomicBool,
) -> Result<Vec<Running>, Failure> {
    let failed = |why: String| Failure::new(VoidReason::ServiceFailed, why);
    // A check that fails during set-up is a failure of the server: nothing has been served yet.
    let prepared = workload.prepare(context).map_err(|why| {
        if why.is::<Wrong>() {
            failed(format!("{why:#}"))
        } else {
            why.into()
        }
    });
    let mut services = Vec::new();
    for mut service in prepared? {
        services::replace_program(&mut service, &tuning.programs);
        let started = services::start(service, tuning, netns, cgroups, &context.dir);
        let mut running = started.map_err(|why| failed(format!("{why:#}")))?;
        running.wait_until_it_answers(netns, stop).map_err(failed)?;
        services.push(running);
    }
    Ok(services)
}

/// Opens the recorder of samples, if the job asks for one; the error says why that is not possible.
fn open_recorder(
    job: &Job,
    environment: &Environment,
) -> (Option<Recorder>, Option<anyhow::Error>) {
    match job.profiling {
        Profiling::None | Profiling::Counted => (None, None),
        Profiling::Sampled => match Recorder::open(&environment.cgroup) {
            Ok(recorder) => (Some(recorder), None),
            Err(why) => (None, Some(why)),
        },
    }
}

/// Reports the profile that the job asks for, or the raw material of one. Returns the profile's figure, if
/// it has one.
fn report_profiles(
    job: &Job,
    seen: &Seen<'_>,
    recorder: Result<Recorder>,
    cpus: &Cpus,
    report: &Report<'_>,
) -> Option<Figure> {
    match job.profiling {
        Profiling::None => None,
        Profiling::Counted => {
            // While servers run: a process that has ended has no pages any more.
            let parts = code::collect().parts();
            parts.map(Box::new).map(FromAgent::Code).for_each(report);
            None
        }
        Profiling::Sampled => {
            let used = sampled::cpu_time(seen.meter, cpus);
            let finish = |recorder: Recorder| recorder.finish(seen.meter, cpus, seen.samples);
            match recorder.and_then(finish) {
                Ok(profile) => ProfilePart::parts(&format::write(&profile))
                    .map(FromAgent::Profile)
                    .for_each(report),
                Err(why) => {
                    let missing = ProfilePart::Missing(format!("{why:#}"));
                    report(FromAgent::Profile(missing));
                }
            }
            workload::figures::cpu_time(seen, used)
        }
    }
}

/// A workload's clients and where they run.
pub(crate) struct TrialClients<'p> {
    pub(crate) workload: &'p dyn Workload,
    pub(crate) context: &'p WorkloadContext,
    pub(crate) netns: &'p Netns,
    /// How to reach clients that run elsewhere.
    pub(crate) remote: Option<RemoteClients<'p>>,
    /// Called as the drive begins.
    pub(crate) begins: &'p (dyn Fn() + Sync),
}

/// Clients that run elsewhere.
pub(crate) enum RemoteClients<'p> {
    /// Another agent has them, and has received the job already.
    Agent(&'p mut Channel),
    /// Several hosts share them.
    Hosts {
        hosts: &'p mut Hosts,
        job: &'p Job,
        build: &'p str,
    },
}

impl RemoteClients<'_> {
    /// Has them drive the load, and follows the drive to its end.
    fn follow(
        self,
        timing: Timing,
        stop: &AtomicBool,
        follower: &mut dyn Follower,
    ) -> Result<Driven> {
        match self {
            Self::Agent(channel) => follow(channel, follower),
            Self::Hosts { hosts, job, build } => hosts.lead(job, build, timing, stop, follower),
        }
    }
}

/// Drives the load from the clients' side while the sampler watches, and the recorder records the window.
pub(crate) fn drive(
    clients: TrialClients<'_>,
    sampler: Sampler,
    recorder: Option<Recorder>,
    stop: &AtomicBool,
    report: &Report<'_>,
) -> Result<(Driven, Watched, Option<Recorder>), Failure> {
    let window = match clients.remote {
        None => Window::ByClock,
        Some(_) => Window::ByClients,
    };
    let timing = clients.workload.timing();
    let mut observer = LoadObserver {
        begins: clients.begins,
        report,
        ready: Some(Ready::to_watch(sampler, timing, window, recorder)),
        watch: None,
        measuring: false,
    };
    let is_remote = clients.remote.is_some();
    let driven = match clients.remote {
        None => {
            let mut control = Control {
                stop,
                watcher: &mut observer,
            };
            let mut drive = || clients.workload.drive(clients.context, &mut control);
            clients.netns.within(&mut drive)?
        }
        Some(remote) => remote.follow(timing, stop, &mut observer),
    };
    let watched = observer.watch.map(|watch| {
        let (watched, fresh, recorder) = watch.end();
        report_readings(report, fresh);
        (watched, recorder)
    });
    if stop.load(Ordering::Relaxed) {
        return Err(anyhow::anyhow!("stopped by the host").into());
    }
    let mut driven = driven.context("drive the load")?;
    let (mut watched, recorder) = watched.expect("a drive that succeeds says when it begins");
    driven.path = whole_path(driven.path, watched.path.take(), is_remote);
    Ok((driven, watched, recorder))
}

/// Adds what was seen here to the path of a load. Remote clients have watched their side themselves; local
/// ones are judged only if their CPUs and network were watched.
fn whole_path(path: Option<LoadPath>, seen: Option<PathSeen>, is_remote: bool) -> Option<LoadPath> {
    if !is_remote {
        return Some(seen?.added_to(path?));
    }
    let mut path = path?;
    path.ends
        .extend(seen.map(|seen| seen.ends).unwrap_or_default());
    Some(path)
}

/// If a server has ended, its end explains the failure of the drive, and its log says more.
fn explain(failure: Failure, services: &mut [Running]) -> Failure {
    let ended = services
        .iter_mut()
        .find_map(|running| running.check_alive().err());
    match ended {
        Some(why) => Failure::new(
            VoidReason::ServiceFailed,
            format!("{why}\n{}", failure.detail),
        ),
        None => failure,
    }
}

/// Starts the sampler as the drive begins, and reports progress to the host.
struct LoadObserver<'g> {
    begins: &'g (dyn Fn() + Sync),
    report: &'g Report<'g>,
    ready: Option<Ready>,
    watch: Option<Watch>,
    measuring: bool,
}

impl Watcher for LoadObserver<'_> {
    fn begins(&mut self) {
        (self.begins)();
        let ready = self.ready.take().expect("a drive begins once");
        self.watch = Some(ready.begin());
        (self.report)(FromAgent::Phase(Phase::WarmingUp));
    }

    fn steps(&mut self) {
        mark::step_begins();
    }

    fn ticks(&mut self, tick: Tick) {
        if tick.counting && !self.measuring {
            self.measuring = true;
            (self.report)(FromAgent::Phase(Phase::Measuring));
        }
        for part in tick_in_parts(tick) {
            (self.report)(FromAgent::Tick(part));
        }
        if let Some(watch) = &self.watch {
            report_readings(self.report, watch.fresh());
        }
    }
}

impl LoadObserver<'_> {
    fn edge(&self, edge: Edge) {
        if let Some(watch) = &self.watch {
            watch.edge(edge);
        }
    }
}

impl Follower for LoadObserver<'_> {
    fn opens(&mut self) {
        self.edge(Edge::Opens);
    }

    fn closes(&mut self) {
        self.edge(Edge::Closes);
    }
}

fn report_readings(report: &Report<'_>, readings: impl IntoIterator<Item = SamplerReading>) {
    for reading in readings {
        report(match reading {
            SamplerReading::Sample(sample) => FromAgent::Sample(sample),
            SamplerReading::Counters(counters) => FromAgent::Counters(counters),
        });
    }
}

/// The logs of services in Java.
fn java_logs(services: &[Running]) -> Vec<JavaLog> {
    let services = services
        .iter()
        .filter_map(|running| running.service.java.as_ref());
    services
        .filter_map(|java| JavaLog::open(&java.log))
        .collect()
}

/// Makes namespaces with a job's sysctls. Those that new devices inherit are set before there are devices.
pub(crate) fn make_network(job: &Job, environment: &Environment) -> Result<NetnsPair> {
    let sysctls = &job.sysctl;
    sysctl::set_for_devices(sysctls);
    let netns = match (job.part, &environment.box_network) {
        (Part::Whole, _) => NetnsPair::create()?,
        (Part::Servers | Part::Clients, None) => NetnsPair::for_servers()?,
        (Part::Servers | Part::Clients, Some(network)) => {
            if sysctl::names_qdisc(sysctls) {
                network.renew_queues()?;
            }
            NetnsPair::current()
        }
    };
    sysctl::set(sysctls, &netns)?;
    Ok(netns)
}

/// `uname -r` and `-v`.
pub(crate) fn kernel() -> String {
    let uname = rustix::system::uname();
    let (release, version) = (
        uname.release().to_string_lossy(),
        uname.version().to_string_lossy(),
    );
    format!("{release} {version}")
}

/// Versions of all servers, in the order of their start.
fn server(services: &[Running]) -> String {
    let versions = services
        .iter()
        .map(|running| facts::version(&running.service));
    versions
        .filter(|version| !version.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
