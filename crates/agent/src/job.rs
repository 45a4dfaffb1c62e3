//! One job from its sysctls to its yield. Nothing in here knows what machine it is on.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use load::Tick;
use record::plan::Tuning;
use record::trial::VoidReason;
use record::wire::{FromAgent, Job, Phase, Yield};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use workload::figures::Seen;
use workload::stage::Stage;
use workload::{Driven, Timing, Watcher, Workload};

use crate::cells::{CLIENTS, Cells};
use crate::facts;
use crate::sampler::Sampler;
use crate::services::{self, Running};
use crate::settle;
use crate::sysctl;
use crate::thief::Thief;
use crate::watch::{self, Watch, Watched};
use crate::wire::{CLIENT, SERVER, Wire};

/// Where a job is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ground {
    /// Empty directory for the workload's data, in memory.
    pub dir: PathBuf,
    /// Directory of a cgroup2 file system that may be made.
    pub cgroup: PathBuf,
    /// The kernel's configuration, where the ground knows better than `/proc/config.gz`.
    pub kernel_config: Option<String>,
    /// Longest wait for the system to become quiet.
    pub settling: Duration,
}

/// Why a job gave no figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub reason: VoidReason,
    /// What happened, with the last lines of a log where there is one.
    pub detail: String,
}

impl From<anyhow::Error> for Failure {
    fn from(why: anyhow::Error) -> Self {
        Self {
            reason: VoidReason::AgentFailed,
            detail: format!("{why:#}"),
        }
    }
}

impl Failure {
    fn of(reason: VoidReason, detail: String) -> Self {
        Self { reason, detail }
    }
}

/// How the job tells what it does; messages go out in the order of the calls.
pub type Tell<'t> = dyn Fn(FromAgent) + Sync + 't;

/// Descriptors that a process may open: clients and servers hold one for each connection.
const OPEN_FILES: u64 = 1 << 20;

/// Does a job. `stop` ends it early, with a failure.
pub fn perform(
    job: &Job,
    ground: &Ground,
    stop: &AtomicBool,
    tell: &Tell<'_>,
) -> Result<Yield, Failure> {
    tell(FromAgent::Phase(Phase::SettingUp));
    let workload = workload::revive(&job.workload)?;
    raise_open_files().context("raise the limit of open files")?;
    let cells = Cells::make(&ground.cgroup)?;
    let clients = cells.cell(CLIENTS)?;
    let _joined = clients.join()?;
    let wire = Wire::lay()?;
    sysctl::set(&job.sysctl, &wire)?;
    let stage = stage(job, ground)?;

    tell(FromAgent::Phase(Phase::Starting));
    let play = Play {
        workload: &*workload,
        stage: &stage,
        wire: &wire,
        tuning: &job.tuning,
    };
    let mut services = start_all(&play, &cells, stop)?;
    let mut counted = vec![&clients];
    counted.extend(services.iter().map(|running| &running.cell));
    let sampler = Sampler::open(&wire.server, &counted, stage.cpus)?;

    tell(FromAgent::Phase(Phase::Settling));
    let settled = settle::wait(stage.cpus, ground.settling, stop)?;
    let thief = (job.tuning.plant > 0.0).then(|| Thief::begin(job.tuning.plant));
    let thief = thief.transpose()?;
    let (driven, watched) = load(&play, sampler, stop, tell)?;
    drop(thief);

    tell(FromAgent::Phase(Phase::Collecting));
    for running in &mut services {
        running
            .check_alive()
            .map_err(|why| Failure::of(VoidReason::ServiceFailed, why))?;
    }
    let seen = Seen {
        driven: &driven,
        meter: &watched.meter,
        ns_per_instruction: job.ns_per_instruction,
    };
    let figures = workload.figures(&seen);
    let figures = figures.map_err(|why| Failure::of(VoidReason::CheckFailed, why))?;
    let mut facts = facts::collect(&wire, &services, ground.kernel_config.as_deref());
    facts
        .values
        .insert("agent:settled".into(), settled.to_string());
    Ok(Yield {
        figures,
        load: driven.load,
        samples: watched.samples,
        facts,
        kernel: kernel(),
        server: server(&services),
    })
}

fn raise_open_files() -> Result<()> {
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

fn stage(job: &Job, ground: &Ground) -> Result<Stage> {
    fs::create_dir_all(&ground.dir).with_context(|| format!("make {}", ground.dir.display()))?;
    let cpus = thread::available_parallelism()
        .context("count the CPUs")?
        .get();
    Ok(Stage {
        dir: ground.dir.clone(),
        server: SERVER,
        client: CLIENT,
        cpus: u32::try_from(cpus)?,
        seed: job.seed,
        config: job.tuning.config.clone(),
    })
}

/// What is played, and where.
struct Play<'p> {
    workload: &'p dyn Workload,
    stage: &'p Stage,
    wire: &'p Wire,
    tuning: &'p Tuning,
}

fn start_all(play: &Play<'_>, cells: &Cells, stop: &AtomicBool) -> Result<Vec<Running>, Failure> {
    let Play {
        workload,
        stage,
        wire,
        tuning,
    } = play;
    let mut services = Vec::new();
    for mut service in workload.prepare(stage)? {
        services::exchange(&mut service, &tuning.programs);
        let started = services::start(service, &tuning.env, (wire, cells), &stage.dir);
        let failed = |why: String| Failure::of(VoidReason::ServiceFailed, why);
        let mut running = started.map_err(|why| failed(format!("{why:#}")))?;
        running.wait_until_it_answers(wire, stop).map_err(failed)?;
        services.push(running);
    }
    Ok(services)
}

/// Drives the load from the clients' side while the sampler watches.
fn load(
    play: &Play<'_>,
    sampler: Sampler,
    stop: &AtomicBool,
    tell: &Tell<'_>,
) -> Result<(Driven, Watched), Failure> {
    let mut gallery = Gallery {
        timing: play.workload.timing(),
        tell,
        sampler: Some(sampler),
        watch: None,
        measuring: false,
    };
    let driven = play
        .wire
        .client
        .within(|| play.workload.drive(play.stage, stop, &mut gallery))?;
    let watched = gallery.watch.map(Watch::end);
    if stop.load(Ordering::Relaxed) {
        return Err(anyhow::anyhow!("stopped by the host").into());
    }
    let driven = driven.context("drive the load")?;
    Ok((
        driven,
        watched.expect("a drive that succeeds says when it begins"),
    ))
}

/// Watches the drive: has the sampler begin with it, and tells the host.
struct Gallery<'g> {
    timing: Timing,
    tell: &'g Tell<'g>,
    sampler: Option<Sampler>,
    watch: Option<Watch>,
    measuring: bool,
}

impl Watcher for Gallery<'_> {
    fn begins(&mut self) {
        let sampler = self.sampler.take().expect("a drive begins once");
        self.watch = Some(watch::begin(sampler, self.timing));
        (self.tell)(FromAgent::Phase(Phase::WarmingUp));
    }

    fn ticks(&mut self, tick: Tick) {
        if tick.counting && !self.measuring {
            self.measuring = true;
            (self.tell)(FromAgent::Phase(Phase::Measuring));
        }
        let Tick {
            second, ok, faults, ..
        } = tick;
        (self.tell)(FromAgent::Progress { second, ok, faults });
    }
}

/// `uname -r` and `-v`.
fn kernel() -> String {
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
mod tests {
    use super::*;
    use expect_test::expect;
    use record::fields::{Fields, Page};
    use record::wire::WorkloadJob;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::{Mutex, PoisonError};
    use workload::probe::Probe;
    use workload::service::Service;

    /// What this host lacks for a real job, if anything.
    fn obstacle() -> Option<&'static str> {
        if !rustix::process::geteuid().is_root() {
            return Some("not root");
        }
        if !Path::new("/usr/sbin/apache2").exists() || !Path::new("/usr/sbin/nginx").exists() {
            return Some("no Apache or no nginx");
        }
        cgroup2().is_none().then_some("no cgroup2 file system")
    }

    fn cgroup2() -> Option<PathBuf> {
        let mounts = fs::read_to_string("/proc/mounts").ok()?;
        let place = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next() == Some("cgroup2")).then(|| place.to_string())
        })?;
        Some(PathBuf::from(place))
    }

    fn job(options: &str) -> Job {
        let text = format!("kind = \"web-static\"\n{options}");
        let page = Page::new("plan.toml", &text);
        let table = page.parse();
        let plan = workload::check(&Fields::top(&page, &table));
        let plan = page
            .close(plan)
            .map_err(|problems| problems.to_string())
            .unwrap();
        Job {
            sysctl: [("net.core.somaxconn".to_string(), "2048".to_string())].into(),
            workload: WorkloadJob {
                kind: plan.kind,
                options: plan.options,
            },
            tuning: Tuning::default(),
            seed: 7,
            ns_per_instruction: None,
        }
    }

    /// One job at a time: they share addresses, a cgroup and this process.
    static HOST: Mutex<()> = Mutex::new(());

    fn try_on_this_host(job: &Job) -> Option<Result<(Yield, Vec<FromAgent>), Failure>> {
        if let Some(why) = obstacle() {
            println!("skipped: a real job on this host: {why}");
            return None;
        }
        let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let ground = Ground {
            dir: dir.path().join("stage"),
            cgroup: cgroup2().unwrap().join("bakeoff-test"),
            kernel_config: None,
            // Other tests keep this host busy.
            settling: Duration::ZERO,
        };
        let told = Mutex::new(Vec::new());
        let tell = |message| told.lock().unwrap().push(message);
        let result = perform(job, &ground, &AtomicBool::new(false), &tell);
        assert!(!ground.cgroup.exists(), "no cgroup is left behind");
        Some(result.map(|result| (result, told.into_inner().unwrap())))
    }

    fn check_server(server: &str, service: &str) {
        let options =
            format!("server = {server}\nconnections = 8\nwarmup = \"500ms\"\nwindow = \"2s\"");
        let Some(result) = try_on_this_host(&job(&options)) else {
            return;
        };
        let (result, told) = result.map_err(|failure| failure.detail).unwrap();
        let load = result.load.unwrap();
        assert!(load.ok > 100 && load.fault_count() == 0, "{load:?}");
        assert!(told.contains(&FromAgent::Phase(Phase::Measuring)));
        let window: Vec<_> = result
            .samples
            .iter()
            .filter(|sample| sample.at_ms > 0)
            .collect();
        let length: u64 = window.iter().map(|sample| sample.interval_ms).sum();
        // The host may be busy with other tests, and a reading late.
        assert!(
            (1900..=2100).contains(&length),
            "samples cover the window: {length} ms"
        );
        let names: Vec<_> = window[0]
            .services
            .iter()
            .map(|each| each.service.as_str())
            .collect();
        assert_eq!(names, [CLIENTS, service]);
        assert!(
            window
                .iter()
                .all(|sample| sample.services[1].rss_bytes > 1 << 20)
        );
        assert!(window[0].tcp["TcpOutSegs"] > 100, "{:?}", window[0].tcp);
        assert_eq!(result.facts.sysctls["net.core.somaxconn"], "2048");
        assert!(!result.server.is_empty());
        let cost_us: Vec<_> = window.iter().map(|sample| sample.cost_us).collect();
        println!(
            "{server}: {} in {length} ms, a sample costs {cost_us:?} us",
            load.ok
        );
    }

    #[test]
    fn apache_serves_a_real_job() {
        check_server("\"apache\"", "apache2");
        check_server(
            "\"apache\"\nmpm = \"prefork\"\nkeep_alive = false",
            "apache2",
        );
        check_server("\"apache\"\nmpm = \"worker\"", "apache2");
    }

    #[test]
    fn nginx_serves_a_real_job() {
        check_server("\"nginx\"", "nginx");
        check_server("\"nginx\"\nkeep_alive = false", "nginx");
    }

    #[test]
    fn a_service_that_ends_is_told_with_its_log() {
        if let Some(why) = obstacle() {
            println!("skipped: a real service on this host: {why}");
            return;
        }
        let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let cells = Cells::make(&cgroup2().unwrap().join("bakeoff-test")).unwrap();
        let wire = Wire::lay().unwrap();
        let command = ["/bin/sh", "-c", "echo no such module >&2; exit 3"];
        let service = Service {
            name: "doomed".into(),
            command: command.map(String::from).into(),
            logs: Vec::new(),
            configuration: Vec::new(),
            probe: Probe::Http {
                server: (SERVER, 80).into(),
                path: "/".into(),
                body: [].into(),
            },
            patience: Duration::from_secs(10),
            version: Vec::new(),
        };
        let mut running =
            services::start(service, &BTreeMap::new(), (&wire, &cells), dir.path()).unwrap();
        let stop = AtomicBool::new(false);
        let why = running.wait_until_it_answers(&wire, &stop).unwrap_err();
        expect![[r#"
            doomed ended with exit status: 3
            doomed.log:
              no such module"#]]
        .assert_eq(&why);
    }

    #[test]
    fn a_job_that_is_stopped_says_so_and_leaves_nothing() {
        if let Some(why) = obstacle() {
            println!("skipped: a real job on this host: {why}");
            return;
        }
        let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let ground = Ground {
            dir: dir.path().join("stage"),
            cgroup: cgroup2().unwrap().join("bakeoff-test"),
            kernel_config: None,
            // Other tests keep this host busy.
            settling: Duration::ZERO,
        };
        let stop = AtomicBool::new(false);
        // The host's word comes in the middle of a window of an hour.
        let tell = |message| {
            if message == FromAgent::Phase(Phase::Measuring) {
                stop.store(true, Ordering::Relaxed);
            }
        };
        let job = job("server = \"nginx\"\nconnections = 2\nwarmup = \"1s\"\nwindow = \"1h\"");
        let failure = perform(&job, &ground, &stop, &tell).unwrap_err();
        assert_eq!(failure.detail, "stopped by the host");
        assert!(!ground.cgroup.exists(), "no cgroup is left behind");
    }

    #[test]
    fn an_unknown_sysctl_fails_the_job_by_name() {
        let mut job = job("server = \"nginx\"\nconnections = 1\nwindow = \"1s\"");
        job.sysctl
            .insert("net.ipv4.no_such_thing".into(), "1".into());
        let Some(result) = try_on_this_host(&job) else {
            return;
        };
        let failure = result.unwrap_err();
        assert_eq!(failure.reason, VoidReason::AgentFailed);
        assert!(
            failure.detail.contains("no sysctl net.ipv4.no_such_thing"),
            "{failure:?}"
        );
    }
}
