//! Roles of this binary when the test or Slurm starts it: the submitter of a fake machine's blocks,
//! and a job.

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
use record::journal::{Event, Opening};
use record::rundir::RunDir;

use crate::simulated_lab::{PLAN, World, read_plan};

/// The build id of jobs.
const BUILD: &str = "test";

/// Duration of a trial, so that faults hit running trials.
const TRIAL: Duration = Duration::from_millis(1500);

/// The clock of n2 is this much ahead.
const AHEAD: Duration = Duration::from_secs(7 * 60);

/// The plan of a run: long enough for all faults in `faults`, short otherwise.
fn plan_text(run: &Path) -> String {
    let name = run.file_name().unwrap().to_string_lossy();
    if name.starts_with("faults") {
        PLAN.replace("min_blocks = 6", "min_blocks = 20")
            .replace("max_blocks = 8", "max_blocks = 24")
    } else {
        PLAN.to_string()
    }
}

fn world(text: &str, speed: f64) -> World {
    let mut world = World::new(1.05, 0.003, &[]);
    world.plan = read_plan(text);
    for arm in world.machine.arms.values_mut() {
        arm.rate_per_s *= speed;
    }
    world
}

/// A clock that is ahead.
struct WrongClock<'c> {
    clock: &'c dyn Clock,
    ahead: Duration,
}

impl Clock for WrongClock<'_> {
    fn now(&self) -> Duration {
        self.clock.now()
    }

    fn stamp(&self) -> String {
        let now = humantime::parse_rfc3339(&HostClock::start().stamp()).unwrap();
        humantime::format_rfc3339_seconds(now + self.ahead).to_string()
    }

    fn spin(&self) -> Duration {
        self.clock.spin()
    }
}

fn lab_in<'l>(
    world: &'l World,
    dir: &'l RunDir,
    clock: &'l dyn Clock,
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

/// Not a test, but a role of this binary. Without the variables that `slurm_cluster` sets, it does
/// nothing.
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
    let text = plan_text(run);
    let world = world(&text, 1.0);
    let dir = RunDir::open(run, &text)?;
    fleet::begin(run, BUILD, &std::env::current_exe()?)?;
    let interrupted = AtomicBool::new(false);
    let tell = Tell {
        line,
        step: &|_| {},
    };
    let script = "FAKE_BLOCK=$1 exec $0 --ignored --exact slurm_cluster::roles::as_job --nocapture";
    let program = std::env::current_exe()?.display().to_string();
    let command = ["sh", "-c", script, &program, "$block"];
    let command = command.map(String::from).to_vec();
    let mut nodes = SlurmFleet::open(run, command, Choice::default(), &interrupted, tell)?;
    let show = |event: LabEvent<'_>| {
        if let LabEvent::Entry(entry) = event
            && let Event::Merged { block, node, .. } = &entry.event
        {
            line(&format!("block {block} from {} at {}", node.name, entry.at));
        }
    };
    let clock = HostClock::start();
    let lab = lab_in(&world, &dir, &clock, &interrupted, &show);
    let finish = lab::fleet::run(&lab, &mut nodes);
    nodes.stop()?;
    Ok(format!("{:?}", finish?))
}

/// Like `as_submitter`.
#[test]
#[ignore = "a role of the test of a Slurm cluster"]
fn as_job() {
    let (Some(run), Ok(block)) = (run_of_role(), std::env::var("FAKE_BLOCK")) else {
        return;
    };
    let node = fleet::this_node();
    let other_build = std::env::var("FAKE_OTHER_BUILD").unwrap_or_default();
    let is_other = other_build.split(',').any(|name| name == node.name);
    let build = if is_other { "other" } else { BUILD };
    let is_fast = node.name == "n2";
    let block = block.parse().unwrap();
    let end = fleet::run_job(&run, block, &node, build, |dir| {
        let text = plan_text(&run);
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
        let lab = lab_in(&world, dir, &clock, &interrupted, &show);
        let wanted = lab::fleet::undecided(&run, &world.plan)?;
        let opening: Opening = World::opening(&text);
        lab::fleet::run_block(&lab, opening, block, wanted)
    });
    eprintln!("block {block} on {}: {end:?}", node.name);
    std::process::exit(match end {
        Ok(JobEnd::Done | JobEnd::AtWork) => 0,
        Ok(JobEnd::Failed(_) | JobEnd::Interrupted) => 75,
        Ok(JobEnd::Refused(_)) | Err(_) => 2,
    });
}

/// Merges blocks that have all ended, without interruption. Further blocks must not be requested.
pub(super) fn merge_all(run: &Path) {
    struct EndedBlocks(PathBuf);
    impl Scheduler for EndedBlocks {
        fn wait(&mut self, block: u32, _: u32) -> anyhow::Result<Waited> {
            let ended = record::fleet::ended(&self.0, block)?;
            assert!(
                ended.is_some(),
                "block {block} was requested and has not ended"
            );
            Ok(Waited::Ended)
        }
    }
    let text = plan_text(run);
    let world = world(&text, 1.0);
    let dir = RunDir::open(run, &text).unwrap();
    let interrupted = AtomicBool::new(false);
    let clock = HostClock::start();
    let lab = lab_in(&world, &dir, &clock, &interrupted, &|_| {});
    lab::fleet::run(&lab, &mut EndedBlocks(run.into())).unwrap();
}
