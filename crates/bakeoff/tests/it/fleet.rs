//! A run whose blocks run on nodes, without a cluster. Function calls stand for nodes; blocks end
//! in another order than on one host.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use bakeoff::fleet;
use bakeoff::fleet::JobEnd;
use bakeoff::lab;
use bakeoff::lab::fleet::{Scheduler, Waited};
use bakeoff::lab::{Finish, Lab};
use record::fleet::{BlockLock, Fleet, block_dir, failures};
use record::journal;
use record::journal::{Entry, Event, Opening};
use record::node::Node;
use record::rundir::RunDir;
use record::verdict::Verdict;

use crate::simulated_lab::{PLAN, World, judged, load_run};

/// The build id of all jobs here.
const BUILD: &str = "test";

fn node(block: u32) -> Node {
    let name = format!("n{}", block % 2 + 1);
    Node {
        hostname: name.clone(),
        name,
        cpu_model: Some("a fake CPU".into()),
        cpus: 2,
    }
}

/// Runs a block like a job.
fn run_block(world: &World, run: &Path, block: u32, opening: &Opening) -> anyhow::Result<JobEnd> {
    fleet::run_job(run, block, &node(block), BUILD, |dir| {
        let interrupted = AtomicBool::new(false);
        let lab = lab_in(world, dir, &interrupted);
        let wanted = lab::fleet::undecided(run, &world.plan)?;
        lab::fleet::run_block(&lab, opening.clone(), block, wanted)
    })
}

fn lab_in<'l>(world: &'l World, dir: &'l RunDir, interrupted: &'l AtomicBool) -> Lab<'l> {
    Lab {
        plan: &world.plan,
        dir,
        machine: &world.machine,
        clock: &world.machine.clock,
        greeting: &world.machine.greeting,
        interrupted,
        jobs: world.jobs,
        extension: None,
        remeasures_ceilings: false,
        show: &|_| {},
    }
}

/// Nodes that run later blocks before the block that is waited for.
struct Nodes<'w> {
    world: &'w World,
    run: PathBuf,
    /// The opening that a job writes for a block.
    opening: &'w dyn Fn(u32) -> Opening,
    waited_for: RefCell<Vec<u32>>,
}

impl Scheduler for Nodes<'_> {
    fn wait(&mut self, block: u32, most: u32) -> anyhow::Result<Waited> {
        self.waited_for.borrow_mut().push(block);
        for later in (block..=most.min(block + 3)).rev() {
            let opening = (self.opening)(later);
            let end = run_block(self.world, &self.run, later, &opening)?;
            assert_eq!(end, JobEnd::Done, "block {later}");
        }
        Ok(Waited::Ended)
    }
}

/// Begins a fleet. Any file serves as the program of the jobs.
fn begin(path: &Path) -> anyhow::Result<Fleet> {
    fleet::begin(path, BUILD, &std::env::current_exe()?)
}

/// Runs the world's plan on a fleet.
fn run(world: &World, path: &Path, opening: &dyn Fn(u32) -> Opening) -> anyhow::Result<Finish> {
    let dir = RunDir::open(path, PLAN)?;
    begin(path)?;
    let mut nodes = Nodes {
        world,
        run: path.into(),
        opening,
        waited_for: RefCell::default(),
    };
    let interrupted = AtomicBool::new(false);
    let finish = lab::fleet::run(&lab_in(world, &dir, &interrupted), &mut nodes);
    assert!(nodes.waited_for.borrow().is_sorted());
    finish
}

fn plain(_: u32) -> Opening {
    World::opening(PLAN)
}

fn finished(world: &World) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(run(world, dir.path(), &plain).unwrap(), Finish::Complete);
    dir
}

/// The judgement of a run without its nodes, as JSON.
fn verdict(dir: &Path) -> String {
    let mut judgement = judged(dir);
    judgement.nodes.clear();
    serde_json::to_string(&judgement).unwrap()
}

fn entries(dir: &Path) -> Vec<Entry> {
    journal::read(dir).unwrap()
}

fn analyses(dir: &Path) -> Vec<Event> {
    let events = entries(dir).into_iter().map(|entry| entry.event);
    events
        .filter(|event| matches!(event, Event::InterimAnalysis { .. } | Event::Closed { .. }))
        .collect()
}

#[test]
fn nodes_that_end_in_any_order_find_the_same_as_one_host() {
    for (ratio, noise) in [(1.10, 0.002), (1.03, 0.01), (1.0, 0.001), (1.02, 0.2)] {
        let world = World::new(ratio, noise, &[]);
        let alone = tempfile::tempdir().unwrap();
        world.run(alone.path(), |_| false).unwrap();
        let fleet = finished(&World::new(ratio, noise, &[]));
        assert_eq!(verdict(fleet.path()), verdict(alone.path()), "{ratio}");
        assert_eq!(analyses(fleet.path()), analyses(alone.path()), "{ratio}");
        let nodes = judged(fleet.path()).nodes;
        let names: Vec<&str> = nodes.iter().map(|row| row.node.name.as_str()).collect();
        assert_eq!(names, ["n1", "n2"]);
    }
}

#[test]
fn blocks_after_the_decision_are_kept_but_not_judged() {
    let dir = finished(&World::new(1.10, 0.002, &[]));
    let last = analyses(dir.path()).len() as u32 - 1;
    assert!((6..8).contains(&last), "decided after {last} blocks");
    assert!(record::fleet::ended(dir.path(), 8).unwrap().is_some());
    for entry in entries(dir.path()) {
        assert!(!matches!(entry.event, Event::Merged { block: 8, .. }));
    }
}

#[test]
fn a_killed_run_resumes_with_the_same_result() {
    check_kills(7);
}

#[test]
#[ignore = "a run for each entry: make test-all"]
fn a_run_that_is_killed_after_any_entry_resumes_with_the_same_result() {
    check_kills(1);
}

/// Kills runs after every nth entry. The results must be the same.
fn check_kills(every: usize) {
    let whole = finished(&World::new(1.03, 0.01, &[]));
    let text = fs::read_to_string(whole.path().join("journal.jsonl")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // The opening is on disk before the first trial.
    for keep in (1..lines.len()).step_by(every) {
        // As a killed submitter leaves it: complete blocks, and trials at least as far as the
        // journal.
        let mut journal = lines[..keep].join("\n");
        journal.push('\n');
        fs::write(whole.path().join("journal.jsonl"), journal).unwrap();
        let finish = run(&World::new(1.03, 0.01, &[]), whole.path(), &plain).unwrap();
        assert_eq!(finish, Finish::Complete, "cut after {keep}");
        let now: Vec<Event> = entries(whole.path())
            .into_iter()
            .map(|entry| entry.event)
            .filter(|event| !matches!(event, Event::Resumed { .. }))
            .collect();
        let then: Vec<Event> = lines
            .iter()
            .map(|line| serde_json::from_str::<Entry>(line).unwrap().event)
            .collect();
        assert_eq!(now, then, "cut after {keep}");
        load_run(whole.path());
    }
}

#[test]
fn a_block_that_ran_again_shifts_the_numbers_of_later_trials() {
    let mut world = World::new(1.10, 0.002, &[]);
    world.machine.robbed = ["004".to_string()].into();
    let dir = finished(&world);
    let run = load_run(dir.path());
    let invalidated = run.invalidated.iter().map(|attempt| attempt.trial.number);
    assert_eq!(invalidated.collect::<Vec<_>>(), [3, 4]);
    let attempts = run.attempts.iter();
    let numbers: Vec<u32> = attempts.map(|attempt| attempt.trial.number).collect();
    let mut sorted = numbers.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), numbers.len(), "{numbers:?}");
    let mut attempts = run.attempts.iter();
    let of_block_3 = attempts.find(|attempt| attempt.trial.block == 3);
    assert_eq!(of_block_3.unwrap().trial.number, 7);
    assert_eq!(judged(dir.path()).comparisons[0].verdict, Verdict::Better);
}

#[test]
fn a_job_of_another_build_is_refused_and_the_refusal_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    drop(RunDir::open(dir.path(), PLAN).unwrap());
    begin(dir.path()).unwrap();
    let end = fleet::run_job(dir.path(), 1, &node(1), "0.1.0-other", |_| {
        panic!("nothing is run")
    });
    let JobEnd::Refused(message) = end.unwrap() else {
        panic!("it is not refused")
    };
    assert!(
        message.starts_with("node n2 has another bakeoff: 0.1.0-other, the run needs test ("),
        "{message}"
    );
    let noted = failures(dir.path(), 1);
    assert_eq!((noted[0].is_refusal, &noted[0].message), (true, &message));
}

#[test]
fn a_run_resumes_only_with_the_program_that_it_began_with() {
    let dir = tempfile::tempdir().unwrap();
    drop(RunDir::open(dir.path(), PLAN).unwrap());
    let program = |name: &str, body: &str| {
        let path = dir.path().join(name);
        fs::write(&path, body).unwrap();
        path
    };
    let first = program("first", "one");
    fleet::begin(dir.path(), BUILD, &first).unwrap();
    let other = program("other", "two");
    let why = fleet::begin(dir.path(), BUILD, &other).unwrap_err();
    let wanted = format!(
        "jobs would run another program than that which the run began with: {}, SHA-256 3fc4ccfe7458, was 7692c3ad3540 (",
        other.display()
    );
    assert!(why.to_string().starts_with(&wanted), "{why}");
    fleet::begin(dir.path(), BUILD, &program("same", "one")).unwrap();
}

#[test]
fn two_jobs_do_not_run_one_block_at_a_time_and_a_complete_block_stays() {
    let world = World::new(1.0, 0.001, &[]);
    let dir = tempfile::tempdir().unwrap();
    drop(RunDir::open(dir.path(), PLAN).unwrap());
    begin(dir.path()).unwrap();
    let lock = BlockLock::take(dir.path(), 2).unwrap().unwrap();
    let job = || run_block(&world, dir.path(), 2, &plain(2)).unwrap();
    assert_eq!(job(), JobEnd::AtWork);
    drop(lock);
    assert_eq!(job(), JobEnd::Done);
    let journal = block_dir(dir.path(), 2).join("journal.jsonl");
    let before = fs::read(&journal).unwrap();
    assert_eq!(job(), JobEnd::Done);
    assert_eq!(fs::read(&journal).unwrap(), before);
}

#[test]
fn a_block_from_another_system_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let changed_opening = |block: u32| {
        let mut opening = plain(block);
        let kernel = if block == 2 { "b" } else { "a" };
        opening
            .inputs
            .insert("kernel of arm new".into(), kernel.repeat(64));
        opening
    };
    let why = run(&World::new(1.0, 0.001, &[]), dir.path(), &changed_opening).unwrap_err();
    let why = why.to_string();
    assert!(
        why.starts_with(
            "block 2 was run on another system than the blocks before, on node n1: kernel of arm new was aaaaaaaaaaaa, is bbbbbbbbbbbb ("
        ),
        "{why}"
    );
}

#[test]
fn the_failure_of_a_job_is_recorded_with_its_node() {
    let dir = tempfile::tempdir().unwrap();
    drop(RunDir::open(dir.path(), PLAN).unwrap());
    begin(dir.path()).unwrap();
    let end = fleet::run_job(dir.path(), 3, &node(3), BUILD, |_| {
        anyhow::bail!("no space left on device")
    });
    assert_eq!(
        end.unwrap(),
        JobEnd::Failed("no space left on device".into())
    );
    let noted = failures(dir.path(), 3);
    assert_eq!((noted[0].is_refusal, &*noted[0].node), (false, "n2"));
}
