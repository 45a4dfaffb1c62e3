//! One job from its sysctls to its result. Nothing in here knows what machine it is on.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use plan::Tuning;
use profiler::format;
use profiler::profile::Profile;
use record::disturbances;
use record::evidence::Facts;
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
use workload::{Timing, Watcher, Workload, Wrong};

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
use crate::env::{Environment, Failure, Tell};
use crate::facts;
use crate::hardware_counters::{CounterSource, Counting, EVENTS, KernelCounters};
use crate::injected_cost;
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
use crate::watch::{Edge, Ready, Taken, Watch, Watched, Window};
use crate::{debugfs, sysctl};

/// Descriptors that a process may open: clients and servers hold one for each connection.
const OPEN_FILES: u64 = 1 << 20;

/// Does a job. `stop` ends it early, with a failure; `defects` learns what runs when.
pub fn perform(
    job: &Job,
    environment: &Environment,
    (stop, defects): (&AtomicBool, &DefectWatch),
    tell: &Tell<'_>,
) -> Result<JobResult, Failure> {
    tell(FromAgent::Phase(Phase::SettingUp));
    let mut far = open_far(job, environment)?;
    let workload = workload::from_options(&job.workload)?;
    let cgroups = Cgroups::make(&environment.cgroup)?;
    let clients = cgroups.child(CLIENTS)?;
    let _membership = clients.join()?;
    let netns = set_up(job, environment)?;
    let cpus = cpus::own()?;
    let workload_context = workload_context(job, environment, &cpus)?;
    let mut scheduled = Scheduled::begin(&job.tuning, (&cpus, environment), stop)?;

    tell(FromAgent::Phase(Phase::Starting));
    let context = TrialContext {
        workload: &*workload,
        workload_context: &workload_context,
        netns: &netns,
        tuning: &job.tuning,
    };
    let mut services = start_all(&context, &cgroups, stop)?;
    let scheduled_as_one = job.schedules_as_one
        && job.part == Part::Whole
        && !services.is_empty()
        && cgroups.schedule_as_one()?;
    preload::mapped_by(
        services
            .iter()
            .flat_map(|running| running.cgroup.processes()),
    );
    defects.watch_services(&services);
    let mut counted = vec![&clients];
    counted.extend(services.iter().map(|running| &running.cgroup));
    let sampler = open_sampler(&netns, &counted, &cpus, environment)?.counted_by(open_counters(
        job,
        &cgroups,
        &counted[1..],
    )?);

    tell(FromAgent::Phase(Phase::Settling));
    let idle = wait_idle::wait_idle(&cpus, idle_patience(job, environment), stop)?;
    scheduled.load_begins()?;
    let injected = inject(&job.tuning)?;
    let (recorder, obstacle) = open_recorder(job, environment);
    let warmup = workload.timing().warmup;
    let disturber = Disturber::of(job, environment, (&netns, &services, defects), warmup)?;
    let begins = || {
        defects.load_begins(warmup);
        disturber.begin();
    };
    let clients = context.clients(far.as_mut().map(Far::Agent), &begins);
    let disk_watch = DiskWatch::begin(job, environment);
    let loaded = drive_disturbed(&disturber, clients, (sampler, recorder), stop, tell);
    let disturbances = disturber.end();
    defects.load_ends();
    defects.leave_services();
    let of_scheduler = scheduled.load_ended()?;
    let (driven, watched, recorder) = loaded.map_err(|failure| explain(failure, &mut services))?;
    drop(injected);
    let disk_facts = disk_watch.map_or_else(BTreeMap::new, DiskWatch::end);

    tell(FromAgent::Phase(Phase::Collecting));
    check_alive(&mut services)?;
    let seen = Seen {
        driven: &driven,
        meter: &watched.meter,
        samples: &watched.samples,
        ns_per_instruction: job.ns_per_instruction,
    };
    let mut figures = figures_of(&*workload, &seen)?;
    let recorder = obstacle.map_or(recorder.context("nothing was recorded"), Err);
    figures.extend(disturbances::figures(&disturbances));
    figures.extend(tell_profiles(job, &seen, recorder, &cpus, tell));
    let metered = Metered {
        window_ns: watched.meter.window.as_nanos() as u64,
        busy_ns: watched.meter.busy.as_nanos() as u64,
    };
    let path = match far {
        None => driven.path.map(|path| shared(path, &watched.meter)),
        Some(_) => driven.path,
    };
    let mut settled = BTreeMap::from([(fact::SETTLED.into(), idle.to_string())]);
    if scheduled_as_one {
        settled.insert(fact::ONE_CPU_GROUP.into(), "yes".into());
    }
    let told = [settled, driven.facts, of_scheduler, disk_facts];
    let facts = facts_with(told, &netns, &services, environment);
    let measurement = Measurement {
        figures,
        curves: driven.curves,
        hardware_counters: watched.hardware_counters,
        load: driven.load,
        path,
        disturbances,
        kernel: kernel(),
        server: server(&services),
        ..Measurement::default()
    };
    Ok(JobResult {
        measurement,
        metered,
        facts,
    })
}

/// Limits, the network and the mechanisms that the arm names, before anything of the trial runs.
fn set_up(job: &Job, environment: &Environment) -> Result<NetnsPair> {
    raise_open_files().context("raise the limit of open files")?;
    let netns = make_network(job, environment)?;
    debugfs::set(&job.tuning.debugfs)?;
    disk_queue::set(environment.disk.as_deref(), &job.tuning)?;
    Ok(netns)
}

/// The system's facts, and what else there is to tell.
fn facts_with(
    told: [BTreeMap<String, String>; 4],
    netns: &NetnsPair,
    services: &[Running],
    environment: &Environment,
) -> Facts {
    let mut facts = facts::collect(netns, services, environment.kernel_config.as_deref());
    facts.values.extend(told.into_iter().flatten());
    facts
}

fn figures_of(workload: &dyn Workload, seen: &Seen<'_>) -> Result<Vec<Figure>, Failure> {
    let figures = workload.figures(seen);
    figures.map_err(|why| Failure::of(VoidReason::CheckFailed, why))
}

/// A sampler of the server's side, which reads the path of the load and what may grow too.
fn open_sampler(
    netns: &NetnsPair,
    counted: &[&Cgroup],
    cpus: &Cpus,
    environment: &Environment,
) -> Result<Sampler> {
    let sampler = Sampler::open(&netns.server, counted, cpus.clone())?;
    sampler
        .with_path(path_of(netns, environment)?)
        .with_counters(&netns.server)
}

/// What counts events of the CPUs over the window. Not where the clock counts instructions, which are exact, and not beside samples, which
/// need the same counters.
fn open_counters(job: &Job, cgroups: &Cgroups, services: &[&Cgroup]) -> Result<Option<Counting>> {
    if job.ns_per_instruction.is_some() || job.profiling != Profiling::None {
        return Ok(None);
    }
    let opened = KernelCounters::open((cgroups, services), &cpus::numbers()?, EVENTS);
    let source = opened.map(|counters| Box::new(counters) as Box<dyn CounterSource>);
    Ok(Some(Counting::by(source)))
}

fn check_alive(services: &mut [Running]) -> Result<(), Failure> {
    for running in services {
        let alive = running.check_alive();
        alive.map_err(|why| Failure::of(VoidReason::ServiceFailed, why))?;
    }
    Ok(())
}

/// How long the system is waited for until it is idle, beyond the second that tells.
fn idle_patience(job: &Job, environment: &Environment) -> Duration {
    if job.accepts_busy_host {
        Duration::ZERO
    } else {
        environment.max_idle_wait
    }
}

/// Drives the load; what the clients tell is where disturbances look for how service goes.
fn drive_disturbed(
    disturber: &Disturber<'_>,
    clients: TrialClients<'_>,
    watching: (Sampler, Option<Recorder>),
    stop: &AtomicBool,
    tell: &Tell<'_>,
) -> Result<(Driven, Watched, Option<Recorder>), Failure> {
    let tell_all = |message| {
        disturber.sees(&message);
        let is_second = matches!(message, FromAgent::Tick(_));
        tell(message);
        if is_second {
            disturber.news().into_iter().for_each(tell);
        }
    };
    drive(clients, watching, stop, &tell_all)
}

/// The ends of the network that are here, where they are to be looked at.
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

/// The line to the other agent, where clients are elsewhere.
pub(crate) fn open_far(job: &Job, environment: &Environment) -> Result<Option<Channel>> {
    Ok(match (job.part, &environment.box_network) {
        (Part::Whole, _) => None,
        (Part::Servers, Some(network)) => Some(network.wait_for_clients()?),
        (Part::Servers, None) => Some(Channel::open_port(record::protocol::clients::PORT)?),
        (Part::Clients, _) => bail!("clients are no job for a server"),
    })
}

/// The path of a load whose clients run on the server's CPUs.
pub(crate) fn shared(path: LoadPath, meter: &Meter) -> LoadPath {
    LoadPath {
        is_shared: true,
        cpu_ns: Some(cpu_ns(meter)),
        ..path
    }
}

/// CPU time of all services, the clients among them.
fn cpu_ns(meter: &Meter) -> u64 {
    let all: Duration = meter.services.values().sum();
    u64::try_from(all.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn raise_open_files() -> Result<()> {
    let now = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: Some(OPEN_FILES),
        maximum: now.maximum.map(|most| most.max(OPEN_FILES)),
    };
    // A live host may not allow more than it does; then all that it allows is taken.
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
            [one] => one,
            // Servers listen on all addresses, and answer to this one from here.
            [_, _, ..] => Ipv4Addr::UNSPECIFIED,
        },
        client: CLIENT,
        cpus: cpus.count,
        seed: job.seed,
        disk: environment.disk.clone(),
        config: ArmConfig::of(&job.tuning),
        env: job.tuning.env.clone(),
        file_system: job.tuning.file_system.unwrap_or_default(),
        target: None,
        addresses: Vec::new(),
        one_fewer: false,
    })
}

/// Begins what the arm takes from the system while the load runs; each ends when it is dropped.
fn inject(tuning: &Tuning) -> Result<(Option<CpuHog>, Option<injected_cost::Probe>)> {
    let slowdown = tuning.injected_slowdown;
    let period = tuning.injected_period.unwrap_or(cpu_hog::PERIOD);
    let hog = (slowdown > 0.0).then(|| CpuHog::begin(slowdown, period));
    let cost = tuning.injected_cost.as_ref();
    let cost = cost.map(injected_cost::Probe::begin);
    Ok((hog.transpose()?, cost.transpose()?))
}

/// A workload and where it runs.
struct TrialContext<'p> {
    workload: &'p dyn Workload,
    workload_context: &'p WorkloadContext,
    netns: &'p NetnsPair,
    tuning: &'p Tuning,
}

impl<'p> TrialContext<'p> {
    /// Its clients; those that are elsewhere have a channel.
    fn clients<'c>(&self, far: Option<Far<'c>>, begins: &'c (dyn Fn() + Sync)) -> TrialClients<'c>
    where
        'p: 'c,
    {
        TrialClients {
            far,
            workload: self.workload,
            context: self.workload_context,
            netns: &self.netns.client,
            begins,
        }
    }
}

fn start_all(
    context: &TrialContext<'_>,
    cgroups: &Cgroups,
    stop: &AtomicBool,
) -> Result<Vec<Running>, Failure> {
    let TrialContext {
        workload,
        workload_context,
        netns,
        tuning,
    } = context;
    let failed = |why: String| Failure::of(VoidReason::ServiceFailed, why);
    // What a tool finds wrong while it sets a server up is the server's: nothing has been served yet.
    let prepared = workload.prepare(workload_context).map_err(|why| {
        if why.is::<Wrong>() {
            failed(format!("{why:#}"))
        } else {
            why.into()
        }
    });
    let mut services = Vec::new();
    for mut service in prepared? {
        services::exchange(&mut service, &tuning.programs);
        let started = services::start(service, tuning, (netns, cgroups), &workload_context.dir);
        let mut running = started.map_err(|why| failed(format!("{why:#}")))?;
        running.wait_until_it_answers(netns, stop).map_err(failed)?;
        services.push(running);
    }
    Ok(services)
}

/// What samples the trial, where that is asked for, or what keeps it from that.
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

/// Tells the profile that the job asks for, or what it is made of; its figure where it has one.
fn tell_profiles(
    job: &Job,
    seen: &Seen<'_>,
    recorder: Result<Recorder>,
    cpus: &Cpus,
    tell: &Tell<'_>,
) -> Option<Figure> {
    match job.profiling {
        Profiling::None => None,
        Profiling::Counted => {
            tell_code(tell);
            None
        }
        Profiling::Sampled => {
            let used = sampled::cpu_time(seen.meter, cpus);
            let profile = recorder.and_then(|own| own.finish(seen.meter, cpus, seen.samples));
            tell_profile(profile, tell);
            workload::figures::cpu_time(seen, used)
        }
    }
}

/// Tells where code lies. Servers still run: what has ended has no pages any more.
fn tell_code(tell: &Tell<'_>) {
    let parts = code::collect().parts();
    parts.map(Box::new).map(FromAgent::Code).for_each(tell);
}

/// Tells the profile, or why there is none.
fn tell_profile(profile: Result<Profile>, tell: &Tell<'_>) {
    match profile {
        Ok(profile) => {
            let bytes = format::write(&profile);
            ProfilePart::parts(&bytes)
                .map(FromAgent::Profile)
                .for_each(tell);
        }
        Err(why) => tell(FromAgent::Profile(ProfilePart::Missing(format!("{why:#}")))),
    }
}

/// A workload's clients and where they are.
pub(crate) struct TrialClients<'p> {
    pub(crate) workload: &'p dyn Workload,
    pub(crate) context: &'p WorkloadContext,
    pub(crate) netns: &'p Netns,
    /// Those that are elsewhere.
    pub(crate) far: Option<Far<'p>>,
    /// Called as the drive begins.
    pub(crate) begins: &'p (dyn Fn() + Sync),
}

/// Clients that are elsewhere.
pub(crate) enum Far<'p> {
    /// Another agent's, that is told of the job already.
    Agent(&'p mut Channel),
    /// On hosts that share them.
    Hosts {
        hosts: &'p mut Hosts,
        job: &'p Job,
        build: &'p str,
    },
}

impl Far<'_> {
    /// Follows their drive.
    fn follow(
        self,
        timing: Timing,
        stop: &AtomicBool,
        follower: &mut dyn Follower,
    ) -> Result<Driven> {
        match self {
            Self::Agent(channel) => follow(channel, follower),
            Self::Hosts { hosts, job, build } => hosts.lead(job, (build, timing), stop, follower),
        }
    }
}

/// Drives the load from the clients' side while the sampler watches, and the recorder records the window.
pub(crate) fn drive(
    clients: TrialClients<'_>,
    (sampler, recorder): (Sampler, Option<Recorder>),
    stop: &AtomicBool,
    tell: &Tell<'_>,
) -> Result<(Driven, Watched, Option<Recorder>), Failure> {
    let window = match clients.far {
        None => Window::ByClock,
        Some(_) => Window::Told,
    };
    let timing = clients.workload.timing();
    let mut observer = LoadObserver {
        begins: clients.begins,
        tell,
        ready: Some(Ready::to_watch(sampler, timing, window, recorder)),
        watch: None,
        measuring: false,
    };
    let is_far = clients.far.is_some();
    let driven = match clients.far {
        None => {
            let mut drive = || clients.workload.drive(clients.context, stop, &mut observer);
            clients.netns.within(&mut drive)?
        }
        Some(far) => far.follow(timing, stop, &mut observer),
    };
    let watched = observer.watch.map(|watch| {
        let (watched, fresh, recorder) = watch.end();
        tell_taken(tell, fresh);
        (watched, recorder)
    });
    if stop.load(Ordering::Relaxed) {
        return Err(anyhow::anyhow!("stopped by the host").into());
    }
    let mut driven = driven.context("drive the load")?;
    let (mut watched, recorder) = watched.expect("a drive that succeeds says when it begins");
    driven.path = whole_path(driven.path, watched.path.take(), is_far);
    Ok((driven, watched, recorder))
}

/// The path of a load with what was seen of it here. Clients that are elsewhere have seen their side of it themselves; those that are
/// here are judged only where their CPUs and network are watched.
fn whole_path(path: Option<LoadPath>, seen: Option<PathSeen>, is_far: bool) -> Option<LoadPath> {
    if !is_far {
        return Some(seen?.added_to(path?));
    }
    let mut path = path?;
    path.ends
        .extend(seen.map(|seen| seen.ends).unwrap_or_default());
    Some(path)
}

/// A drive that failed because a server had ended is the server's failure, and its log says more.
fn explain(failure: Failure, services: &mut [Running]) -> Failure {
    let ended = services
        .iter_mut()
        .find_map(|running| running.check_alive().err());
    match ended {
        Some(why) => Failure::of(
            VoidReason::ServiceFailed,
            format!("{why}\n{}", failure.detail),
        ),
        None => failure,
    }
}

/// Watches the drive: has the sampler begin with it, and tells the host.
struct LoadObserver<'g> {
    begins: &'g (dyn Fn() + Sync),
    tell: &'g Tell<'g>,
    ready: Option<Ready>,
    watch: Option<Watch>,
    measuring: bool,
}

impl Watcher for LoadObserver<'_> {
    fn begins(&mut self) {
        (self.begins)();
        let ready = self.ready.take().expect("a drive begins once");
        self.watch = Some(ready.begin());
        (self.tell)(FromAgent::Phase(Phase::WarmingUp));
    }

    fn steps(&mut self) {
        mark::step_begins();
    }

    fn ticks(&mut self, tick: Tick) {
        if tick.counting && !self.measuring {
            self.measuring = true;
            (self.tell)(FromAgent::Phase(Phase::Measuring));
        }
        for part in tick_in_parts(tick) {
            (self.tell)(FromAgent::Tick(part));
        }
        if let Some(watch) = &self.watch {
            tell_taken(self.tell, watch.fresh());
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
    fn begins(&mut self) {
        Watcher::begins(self);
    }

    fn steps(&mut self) {
        Watcher::steps(self);
    }

    fn ticks(&mut self, tick: Tick) {
        Watcher::ticks(self, tick);
    }

    fn opens(&mut self) {
        self.edge(Edge::Opens);
    }

    fn closes(&mut self) {
        self.edge(Edge::Closes);
    }
}

fn tell_taken(tell: &Tell<'_>, taken: impl IntoIterator<Item = Taken>) {
    let messages = taken.into_iter().map(|one| match one {
        Taken::Sample(sample) => FromAgent::Sample(sample),
        Taken::Counters(counters) => FromAgent::Counters(counters),
    });
    messages.for_each(tell);
}

/// Namespaces with a job's sysctls; those that devices take over are set before there are any.
pub(crate) fn make_network(job: &Job, environment: &Environment) -> Result<NetnsPair> {
    let sysctls = &job.sysctl;
    sysctl::set_for_devices(sysctls);
    let netns = match (job.part, &environment.box_network) {
        (Part::Whole, _) => NetnsPair::create()?,
        (Part::Servers | Part::Clients, None) => NetnsPair::of_servers()?,
        (Part::Servers | Part::Clients, Some(network)) => {
            if sysctl::names_qdisc(sysctls) {
                network.renew_queues()?;
            }
            NetnsPair::of_box()
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
        .map(|running| facts::version(&running.service.version));
    versions
        .filter(|version| !version.is_empty())
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
