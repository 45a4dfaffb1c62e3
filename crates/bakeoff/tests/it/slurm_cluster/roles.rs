//! What this binary is when it is started by the test or by Slurm: the submitter of a fake machine's blocks, and a job.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use bakeoff::fleet;
use bakeoff::fleet::{Choice, JobEnd, SlurmFleet, Tell};
use bakeoff::lab;
use bakeoff::lab::fleet::{Scheduler, Waited};
use bakeoff::lab::{Lab, LabEvent};
use machine::clock::{Clock, HostClock};
use plan::Checks;
use record::journal::{Event, Opening};
use record::rundir::RunDir;

use crate::simulated_lab::{PLAN, World};

/// The build of a run's jobs.
const BUILD: &str = "test";

/// What a trial takes, so that faults find some under way.
const TRIAL: Duration = Duration::from_millis(1500);

/// How far ahead the clock of n2 is.
const AHEAD: Duration = Duration::from_secs(7 * 60);

/// Blocks enough for all faults; of one half the noise would be told from the arm's 5 %.
fn text() -> String {
    PLAN.replace("min_blocks = 6", "min_blocks = 20")
        .replace("max_blocks = 8", "max_blocks = 24")
}

/// The builds and the disk need fewer.
fn short_text() -> String {
    PLAN.to_string()
}

fn plan_of(run: &Path) -> String {
    let is_long = run.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        name.starts_with("faults")
    });
    if is_long { text() } else { short_text() }
}

fn world(text: &str, speed: f64) -> World {
    let mut world = World::new(1.05, 0.003, &[]);
    world.plan = plan::read(
        "plan.toml",
        text,
        Path::new(""),
        Checks::of_the_past(&workload::check),
    )
    .unwrap();
    for arm in world.machine.arms.values_mut() {
        arm.rate_per_s *= speed;
    }
    world
}

/// A clock that is wrong by some time.
struct WrongClock<'c> {
    clock: &'c dyn Clock,
    ahead: Duration,
}

impl Clock for WrongClock<'_> {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn stamp(&self) -> String {
        let time = humantime_of(&HostClock::start().stamp()) + self.ahead;
        humantime_text(time)
    }

    fn spin(&self) -> Duration {
        self.clock.spin()
    }
}

fn humantime_of(stamp: &str) -> std::time::SystemTime {
    humantime::parse_rfc3339(stamp).unwrap()
}

fn humantime_text(time: std::time::SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

fn lab_in<'l>(
    world: &'l World,
    (dir, clock): (&'l RunDir, &'l dyn Clock),
    interrupted: &'l AtomicBool,
    show: &'l dyn Fn(LabEvent<'_>),
) -> Lab<'l> {
    Lab {
        plan: &world.plan,
        dir,
        machine: &world.machine,
        clock,
        greeting: &world.machine.greeting,
        interrupted,
        jobs: 1,
        extension: None,
        remeasures_ceilings: false,
        show,
    }
}

fn run_of_role() -> Option<PathBuf> {
    std::env::var_os("FAKE_RUN").map(PathBuf::from)
}

/// A role of this binary, no test: it is ignored, and asks for what only `slurm_cluster` gives.
#[test]
#[ignore = "a role of the test of a Slurm cluster"]
fn as_submitter() {
    let Some(run) = run_of_role() else { return };
    let line = |text: &str| eprintln!("{text}");
    match submit(&run, &line) {
        Ok(finish) => eprintln!("FINISH {finish}"),
        Err(why) => {
            eprintln!("FAILED {why:#}");
            std::process::exit(2);
        }
    }
}

fn submit(run: &Path, line: &dyn Fn(&str)) -> anyhow::Result<String> {
    let text = plan_of(run);
    let world = world(&text, 1.0);
    let dir = RunDir::open(run, &text)?;
    fleet::begin(run, BUILD, &std::env::current_exe()?)?;
    let interrupted = AtomicBool::new(false);
    let tell = Tell {
        line,
        step: &|_| {},
    };
    let script = "FAKE_BLOCK=$1 exec $0 --ignored --exact slurm_cluster::roles::as_job --nocapture";
    let own = std::env::current_exe()?.display().to_string();
    let words = ["sh", "-c", script, &own, "$block"];
    let words = words.map(String::from).to_vec();
    let mut nodes = SlurmFleet::open(run, words, Choice::default(), (&interrupted, tell))?;
    let show = |event: LabEvent<'_>| {
        if let LabEvent::Entry(entry) = event
            && let Event::Merged { block, node, .. } = &entry.event
        {
            line(&format!("block {block} from {} at {}", node.name, entry.at));
        }
    };
    let clock = HostClock::start();
    let lab = lab_in(&world, (&dir, &clock), &interrupted, &show);
    let finish = lab::fleet::run(&lab, &mut nodes);
    nodes.stop()?;
    Ok(format!("{:?}", finish?))
}

/// Likewise.
#[test]
#[ignore = "a role of the test of a Slurm cluster"]
fn as_job() {
    let (Some(run), Ok(block)) = (run_of_role(), std::env::var("FAKE_BLOCK")) else {
        return;
    };
    let node = fleet::this_node();
    let others = std::env::var("FAKE_OTHER_BUILD").unwrap_or_default();
    let is_other = others.split(',').any(|name| name == node.name);
    let build = if is_other { "other" } else { BUILD };
    let is_fast = node.name == "n2";
    let block = block.parse().unwrap();
    let ended = fleet::run_job(&run, block, (&node, build), |dir| {
        let text = plan_of(&run);
        let world = world(&text, if is_fast { 2.0 } else { 1.0 });
        let interrupted = AtomicBool::new(false);
        let pause = if is_fast { TRIAL / 2 } else { TRIAL };
        let show = |event: LabEvent<'_>| {
            if matches!(event, LabEvent::Entry(entry) if matches!(entry.event, Event::Started { .. }))
            {
                thread::sleep(pause);
            }
        };
        let clock = WrongClock {
            clock: &world.machine.clock,
            ahead: if is_fast { AHEAD } else { Duration::ZERO },
        };
        let lab = lab_in(&world, (dir, &clock), &interrupted, &show);
        let wanted = lab::fleet::undecided(&run, &world.plan)?;
        let opening: Opening = World::opening(&text);
        lab::fleet::run_block(&lab, opening, block, wanted)
    });
    eprintln!("block {block} on {}: {ended:?}", node.name);
    std::process::exit(match ended {
        Ok(JobEnd::Done | JobEnd::AtWork) => 0,
        Ok(JobEnd::Failed(_) | JobEnd::Interrupted) => 75,
        Ok(JobEnd::Refused(_)) | Err(_) => 2,
    });
}

/// Takes over blocks that have all ended, without a break; blocks beyond are not asked for.
pub(super) fn take_over_all(run: &Path) {
    struct Ended(PathBuf);
    impl Scheduler for Ended {
        fn wait(&mut self, block: u32, _: u32) -> anyhow::Result<Waited> {
            let ended = record::fleet::ended(&self.0, block)?;
            assert!(
                ended.is_some(),
                "block {block} was looked at and has not ended"
            );
            Ok(Waited::Ended)
        }
    }
    let text = plan_of(run);
    let world = world(&text, 1.0);
    let dir = RunDir::open(run, &text).unwrap();
    let interrupted = AtomicBool::new(false);
    let clock = HostClock::start();
    let lab = lab_in(&world, (&dir, &clock), &interrupted, &|_| {});
    lab::fleet::run(&lab, &mut Ended(run.into())).unwrap();
}
