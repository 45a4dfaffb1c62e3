//! The real lab on a fake machine with a known truth, in simulated time.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bakeoff::lab;
use bakeoff::lab::{Finish, Lab, LabEvent, extend};
use guest::hardware_counters::{CounterSource, Counting, GroupReading, Scope};
use machine::fake::{Behaviour, EJECTED, FakeArm, FakeClock, FakeMachine};
use plan::{Checks, Plan};
use record::hardware_counters::{HardwareCounters, NoCounters};
use record::hash;
use record::journal;
use record::journal::CloseReason;
use record::journal::{Ending, Entry, Event, Opening};
use record::machine::MachineDescription;
use record::protocol::{Greeting, PROTOCOL};
use record::rundir;
use record::rundir::{Run, RunDir};
use record::trial::{Outcome, VoidReason};
use record::verdict::{Conclusion, Judgement, Verdict};
use serde_json::Value;

use crate::program::bakeoff;

pub(crate) const PLAN: &str = r#"
title = "a simulated comparison"
baseline = "old"
[machine]
boot_timeout = "60s"
silence = "30s"
[image]
recipe = "web"
[arm.old]
kernel = "debian:bookworm/6.1"
[arm.new]
kernel = "debian:trixie-backports/7.2"
[[workload]]
kind = "web-static"
server = "apache"
connections = 4
warmup = "1s"
window = "1s"
[design]
margin = "2%"
min_blocks = 6
max_blocks = 8
seed = 11
"#;

/// A plan and a fake machine to run it on.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) machine: FakeMachine,
    /// Number of trials at the same time.
    pub(crate) jobs: usize,
    /// The option `--more-blocks`.
    pub(crate) more_blocks: Option<u32>,
    /// Reported failed checks: the number of blocks, and the ids of the checks.
    failed_checks: Mutex<Vec<(u32, Vec<String>)>>,
}

impl World {
    /// Arm `new` serves `ratio` times the requests of `old`, and its boots behave like `boots`, one
    /// after the other.
    pub(crate) fn new(ratio: f64, noise: f64, boots: &[Behaviour]) -> Self {
        let greeting = Greeting {
            protocol: PROTOCOL,
            build: "test".into(),
        };
        let arm = |rate_per_s, boots: &[Behaviour]| FakeArm {
            rate_per_s,
            noise,
            one_fewer: 1.0,
            boots: boots.into(),
        };
        let arms = BTreeMap::from([
            ("old".to_string(), arm(1000.0, &[])),
            ("new".to_string(), arm(1000.0 * ratio, boots)),
        ]);
        let machine = FakeMachine {
            robbed: BTreeSet::new(),
            counters: BTreeMap::new(),
            soaks: BTreeMap::new(),
            arms,
            clock: FakeClock::default(),
            greeting,
            seed: 3,
            booted: Mutex::default(),
        };
        Self {
            plan: read_plan(PLAN),
            machine,
            jobs: 1,
            more_blocks: None,
            failed_checks: Mutex::default(),
        }
    }

    /// Makes an arm keep only this share of its rate with one client fewer.
    pub(crate) fn depend_on_clients(&mut self, arm: &str, left: f64) {
        self.machine.arms.get_mut(arm).unwrap().one_fewer = left;
    }

    pub(crate) fn opening(plan: &str) -> Opening {
        Opening {
            version: journal::VERSION,
            bakeoff: "test".into(),
            inputs: BTreeMap::from([("plan".into(), hash::sha256(plan.as_bytes()))]),
            machine: MachineDescription::Fake,
            ns_per_instruction: None,
            host_cpus: None,
            string_price: None,
            clients: None,
        }
    }

    /// Sets the behaviour of the boots of an arm, one after the other.
    pub(crate) fn set_boots(&mut self, arm: &str, boots: &[Behaviour]) {
        self.machine.arms.get_mut(arm).unwrap().boots = boots.into();
    }

    /// Runs in `dir`. After each journal entry, `interrupt` decides whether to stop; its argument
    /// is the number of entries.
    pub(crate) fn run(
        &self,
        dir: &Path,
        interrupt: impl Fn(u32) -> bool,
    ) -> anyhow::Result<Finish> {
        self.run_text(dir, PLAN, interrupt)
    }

    /// Like `run`, with another text of the plan.
    pub(crate) fn run_text(
        &self,
        dir: &Path,
        text: &str,
        interrupt: impl Fn(u32) -> bool,
    ) -> anyhow::Result<Finish> {
        let interrupted = AtomicBool::new(false);
        let entries = Cell::new(0);
        let show = |event: LabEvent<'_>| {
            if let LabEvent::FailedChecks { blocks, checks, .. } = event {
                let ids = checks.iter().map(|check| check.id.clone()).collect();
                self.failed_checks.lock().unwrap().push((blocks, ids));
            }
            let new_entries = match event {
                LabEvent::Before(entries) => entries.len() as u32,
                LabEvent::Entry(_) => 1,
                LabEvent::Record(_) | LabEvent::Activity(..) | LabEvent::FailedChecks { .. } => 0,
            };
            for _ in 0..new_entries {
                entries.set(entries.get() + 1);
                interrupted.fetch_or(interrupt(entries.get()), Ordering::Relaxed);
            }
        };
        let dir = RunDir::open(dir, text)?;
        let extend = |more| {
            let run = rundir::load(dir.path(), &workload::check)?;
            extend::extend(&run, &judge::judge(&run), more)
        };
        let lab = Lab {
            plan: &self.plan,
            dir: &dir,
            machine: &self.machine,
            clock: &self.machine.clock,
            greeting: &self.machine.greeting,
            interrupted: &interrupted,
            jobs: self.jobs,
            extension: self.more_blocks.map(extend).transpose()?,
            remeasures_ceilings: false,
            show: &show,
        };
        lab::run(&lab, Self::opening(text))
    }
}

pub(crate) fn read_plan(text: &str) -> Plan {
    let checks = Checks::of_the_past(&workload::check);
    plan::read("plan.toml", text, Path::new(""), checks).unwrap()
}

pub(crate) fn load_run(dir: &Path) -> Run {
    rundir::load(dir, &workload::check).unwrap()
}

pub(crate) fn judged(dir: &Path) -> Judgement {
    judge::judge(&load_run(dir))
}

/// Verdict and ratio of the primary metric.
fn primary(dir: &Path) -> (Verdict, f64) {
    let judgement = judged(dir);
    let first = &judgement.comparisons[0];
    assert_eq!(first.spec.name, "throughput");
    (first.verdict, first.ratio.unwrap())
}

fn voids(dir: &Path) -> Vec<VoidReason> {
    let mut reasons = Vec::new();
    for attempt in load_run(dir).attempts {
        if let Outcome::Void(void) = attempt.outcome {
            reasons.push(void.reason);
        }
    }
    reasons
}

fn check(ratio: f64, noise: f64, want: Verdict) {
    let dir = tempfile::tempdir().unwrap();
    let finish = World::new(ratio, noise, &[])
        .run(dir.path(), |_| false)
        .unwrap();
    assert_eq!(finish, Finish::Complete);
    let (verdict, measured) = primary(dir.path());
    assert_eq!(verdict, want, "measured ratio {measured}");
    assert!(
        (measured / ratio - 1.0).abs() < 3.0 * noise + 1e-6,
        "measured {measured}, true {ratio}"
    );
}

#[test]
fn the_same_arm_twice_is_equivalent() {
    check(1.0, 0.001, Verdict::Equivalent);
}

#[test]
fn a_gain_is_found() {
    check(1.10, 0.002, Verdict::Better);
}

#[test]
fn a_loss_is_found() {
    check(0.90, 0.002, Verdict::Worse);
}

/// Counters with known values; each reading is one second after the previous one.
#[derive(Debug)]
struct KnownCounters {
    seconds: u64,
    /// Events per second by scope: instructions, cycles, branch misses, misses of the last-level
    /// cache.
    events: [(Scope, [u64; 4]); 2],
}

impl CounterSource for KnownCounters {
    fn read(&mut self) -> io::Result<Vec<GroupReading>> {
        self.seconds += 1;
        let group = |(scope, events): &(Scope, [u64; 4])| GroupReading {
            scope: scope.clone(),
            enabled_ns: self.seconds * 1_000_000_000,
            running_ns: self.seconds * 1_000_000_000,
            counts: events.map(|count| Some(count * self.seconds)),
        };
        Ok(self.events.iter().map(group).collect())
    }
}

/// The counters of a second in which a server answers 1000 requests with these instructions and
/// cycles each. The clients execute as much.
fn counters(instructions: u64, cycles: u64) -> HardwareCounters {
    let events = [
        instructions,
        cycles,
        instructions / 100,
        instructions / 1000,
    ];
    let server = events.map(|count| count * 1000);
    let source = KnownCounters {
        seconds: 0,
        events: [
            (Scope::System, server.map(|count| count * 2)),
            (Scope::Service("nginx".into()), server),
        ],
    };
    let mut counting = Counting::new(Ok(Box::new(source)));
    counting.begins();
    counting.ends();
    counting.finish()
}

/// Runs a plan with these counters of both arms.
fn run_counted(old: HardwareCounters, new: HardwareCounters) -> (Run, Judgement) {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(1.10, 0.001, &[]);
    world.machine.counters = [("old".to_string(), old), ("new".to_string(), new)].into();
    world.run(dir.path(), |_| false).unwrap();
    let run = load_run(dir.path());
    let judgement = judge::judge(&run);
    (run, judgement)
}

#[test]
fn instructions_and_cpi_come_from_the_counters_to_verdict_and_page() {
    let (run, judgement) = run_counted(counters(40_000, 60_000), counters(30_000, 57_000));
    let comparison = |metric: &str| judgement.comparison("web-static", "new", metric).unwrap();
    for (metric, verdict, ratio) in [
        ("server-instructions", Verdict::Better, 0.75),
        ("server-cpi", Verdict::Worse, 1.9 / 1.5),
        ("server-branch-misses", Verdict::Equivalent, 1.0),
        ("server-llc-misses", Verdict::Equivalent, 1.0),
        ("instructions", Verdict::Better, 0.75),
        ("cpi", Verdict::Worse, 1.9 / 1.5),
    ] {
        assert_eq!(comparison(metric).verdict, verdict, "{metric}");
        let measured = comparison(metric).ratio.unwrap();
        assert!((measured - ratio).abs() < 1e-9, "{metric}: {measured}");
    }
    // Figures of the server and of the whole system in the first block.
    let first = |metric: &str| comparison(metric).pairs[0].baseline;
    assert!((first("server-instructions") - 40_000.0).abs() < 1e-6);
    assert!((first("instructions") - 80_000.0).abs() < 1e-6);
    assert!((first("server-cpi") - 1.5).abs() < 1e-9);
    assert!((first("server-branch-misses") - 10.0).abs() < 1e-9);
    // More cycles per instruction with fewer instructions are not a trade-off.
    assert_eq!(judgement.headlines[0].conclusion, Conclusion::Better);
    for warning in judge::report::warnings(&judgement) {
        assert!(!warning.contains("not counted"), "{warning}");
    }
    let page = judge::report::html(&run, &judgement, &[]);
    let terminal = judge::report::terminal(&run, &judgement, &[], 100);
    for text in [page, terminal] {
        for metric in ["server-instructions", "server-cpi", "server-llc-misses"] {
            assert!(text.contains(metric), "{metric}");
        }
    }
}

#[test]
fn missing_counters_are_reported_once_and_change_nothing_else() {
    let none = || HardwareCounters::Missing(NoCounters::NoUnit);
    let (_, judgement) = run_counted(none(), none());
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[]);
    world.run(dir.path(), |_| false).unwrap();
    let usual = judged(dir.path());
    assert_eq!(judgement.comparisons, usual.comparisons);
    let mut warnings = judge::report::warnings(&judgement);
    assert_eq!(warnings.len(), judge::report::warnings(&usual).len() + 1);
    warnings.retain(|warning| warning.contains("were not counted"));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[test]
fn an_arm_without_counters_is_not_compared_by_them_and_reported_once() {
    let none = HardwareCounters::Missing(NoCounters::NoUnit);
    let (run, judgement) = run_counted(counters(40_000, 60_000), none);
    for metric in ["server-instructions", "server-cpi", "cpi"] {
        let comparison = judgement.comparison("web-static", "new", metric).unwrap();
        assert_eq!(
            (comparison.verdict, comparison.ratio),
            (Verdict::Undecided, None)
        );
    }
    assert_eq!(judgement.headlines[0].conclusion, Conclusion::Better);
    let mut warnings = judge::report::warnings(&judgement);
    warnings.retain(|text| text.contains("not counted") || text.contains("not compared"));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("arm new"), "{warnings:?}");
    assert!(judge::report::html(&run, &judgement, &[]).contains("performance monitoring unit"));
}

#[test]
fn noise_above_the_difference_is_undecided() {
    check(1.02, 0.20, Verdict::Undecided);
}

#[test]
fn every_failed_boot_is_void_with_its_reason_and_repeated_once() {
    let cases = [
        (Behaviour::StartFails, VoidReason::StartFailed),
        (Behaviour::NeverSpeaks, VoidReason::BootTimeout),
        (Behaviour::Panics, VoidReason::Panic),
        (Behaviour::FallsSilent, VoidReason::Silent),
        (Behaviour::Exits, VoidReason::MachineExit),
        (Behaviour::ServiceFails, VoidReason::ServiceFailed),
        (Behaviour::EjectsScheduler, VoidReason::SchedulerFailed),
        (Behaviour::Garbles, VoidReason::AgentFailed),
        (Behaviour::Foreign, VoidReason::AgentFailed),
        (Behaviour::Lies, VoidReason::AgentFailed),
    ];
    for (behaviour, reason) in cases {
        let dir = tempfile::tempdir().unwrap();
        let world = World::new(1.10, 0.001, &[behaviour]);
        assert_eq!(
            world.run(dir.path(), |_| false).unwrap(),
            Finish::Complete,
            "{behaviour:?}"
        );
        assert_eq!(voids(dir.path()), [reason], "{behaviour:?}");
        assert_eq!(primary(dir.path()).0, Verdict::Better, "{behaviour:?}");
        assert_eq!(second_attempts(dir.path()), 1, "{behaviour:?}");
    }
}

#[test]
fn a_setting_that_the_kernel_refuses_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::RefusesSetting; 2]);
    world.run(dir.path(), |_| false).unwrap();
    assert_eq!(voids(dir.path()), [VoidReason::SettingRefused; 2]);
    assert_eq!(second_attempts(dir.path()), 0);
}

/// The number of directories of second attempts, such as `007.2`.
fn second_attempts(dir: &Path) -> usize {
    let trials = dir.join("trials").read_dir().unwrap().flatten();
    let again = trials.filter(|entry| entry.path().extension().is_some());
    again.count()
}

#[test]
fn a_lost_machine_ends_the_run_without_a_void_trial_and_the_run_resumes() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::Measures, Behaviour::IsLost]);
    let why = world.run(dir.path(), |_| false).unwrap_err();
    assert_eq!(why.to_string(), "the fake machine is lost");
    assert!(voids(dir.path()).is_empty());
    // The machine works again.
    assert_eq!(world.run(dir.path(), |_| false).unwrap(), Finish::Complete);
    assert!(voids(dir.path()).is_empty());
    assert_eq!(primary(dir.path()).0, Verdict::Better);
}

#[test]
fn a_guest_that_waits_for_a_busy_host_is_not_silent() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::Starves]);
    world.run(dir.path(), |_| false).unwrap();
    assert_eq!(voids(dir.path()), []);
    assert_eq!(primary(dir.path()).0, Verdict::Better);
}

#[test]
fn a_guest_that_dies_under_load_keeps_its_samples() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::Exits]);
    world.run(dir.path(), |_| false).unwrap();
    let trials = dir.path().join("trials").read_dir().unwrap().flatten();
    let read = |entry: &DirEntry, name| fs::read_to_string(entry.path().join(name)).unwrap();
    let died: Vec<_> = trials
        .filter(|entry| read(entry, "trial.json").contains("machine-exit"))
        .collect();
    let [died] = &died[..] else {
        panic!("one guest died: {died:?}");
    };
    assert_eq!(read(died, "samples.jsonl").lines().count(), 1);
}

#[test]
fn a_run_ends_early_if_its_arm_never_boots() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.0, 0.001, &[Behaviour::Panics; 100]);
    assert_eq!(world.run(dir.path(), |_| false).unwrap(), Finish::Complete);
    assert_eq!(
        voids(dir.path()),
        [VoidReason::Panic; 6],
        "three trials of two attempts"
    );
    let entries = journal::read(dir.path()).unwrap();
    let Some(Event::Closed { reason }) = entries.last().map(|entry| &entry.event) else {
        panic!("the run did not close");
    };
    assert_eq!(*reason, CloseReason::NoArm { trials: 3 });
    for comparison in judged(dir.path()).comparisons {
        assert_eq!(comparison.verdict, Verdict::Undecided);
    }
}

/// Each trial with that scheduler is void, its record has the kernel's reason, and the arm has no
/// verdict.
#[test]
fn an_arm_whose_scheduler_is_ejected_ends_the_run_with_the_kernels_reason() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::EjectsScheduler; 100]);
    assert_eq!(world.run(dir.path(), |_| false).unwrap(), Finish::Complete);
    assert_eq!(voids(dir.path()), [VoidReason::SchedulerFailed; 6]);
    for attempt in load_run(dir.path()).attempts {
        if let Outcome::Void(void) = attempt.outcome {
            assert_eq!(void.to_string(), format!("scheduler failed: {EJECTED}"));
        }
    }
    for comparison in judged(dir.path()).comparisons {
        assert_eq!(comparison.verdict, Verdict::Undecided);
    }
}

/// A world that is undecided after 8 blocks, with a finished run in `dir`: the least of some levels
/// of noise that hides the difference.
pub(crate) fn undecided(dir: &Path) -> World {
    for noise in [0.06, 0.09, 0.13, 0.2] {
        let (mut world, run) = (World::new(1.05, noise, &[]), dir.join("run"));
        assert_eq!(world.run(&run, |_| false).unwrap(), Finish::Complete);
        if primary(&run).0 == Verdict::Undecided {
            for name in ["plan.toml", "journal.jsonl", "trials", "lock"] {
                fs::rename(run.join(name), dir.join(name)).unwrap();
            }
            fs::remove_dir_all(&run).unwrap();
            world.more_blocks = Some(12);
            return world;
        }
        fs::remove_dir_all(&run).unwrap();
    }
    panic!("all levels of noise were too low");
}

#[test]
fn an_undecided_run_continues_with_more_blocks_and_reports_the_price() {
    let dir = tempfile::tempdir().unwrap();
    let world = undecided(dir.path());
    let before = judged(dir.path());
    let reason = judge::report::reason(&before.comparisons[0]);
    assert!(
        reason.contains("bakeoff run PLAN --more-blocks "),
        "{reason}"
    );
    assert_eq!(world.run(dir.path(), |_| false).unwrap(), Finish::Complete);
    let run = load_run(dir.path());
    let extension = run.entries.iter().find_map(|entry| match &entry.event {
        Event::Extended {
            from,
            to,
            undecided,
            error_rate,
            ..
        } => Some((*from, *to, undecided.clone(), (error_rate * 1e6).round())),
        _ => None,
    });
    // 0.05 (2 - 8 / 20)
    let want = (8, 20, vec!["web-static".to_string()], 80_000.0);
    assert_eq!(extension, Some(want));
    let after = judge::judge(&run);
    let (short, long) = (&before.comparisons[0], &after.comparisons[0]);
    assert!(
        8 < long.blocks && long.decided_at.is_none_or(|block| 8 < block),
        "{long:?}"
    );
    let end = match long.decided_at {
        Some(blocks) => CloseReason::Decided { blocks },
        None => CloseReason::BlocksGiven { blocks: 20 },
    };
    assert_eq!(run.closed(), Some(&end));
    assert_eq!(long.pairs[..8], short.pairs, "measured pairs stay");
    let price =
        "20 where the plan has 8 (a wrong verdict has a probability of at most 8.0 %, where";
    let warnings = judge::report::warnings(&after).join("\n");
    assert!(warnings.contains(price), "{warnings}");
    assert!((after.any_false - 0.08).abs() < 1e-6);
}

#[test]
fn interrupted_more_blocks_resume_without_the_option() {
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    undecided(whole.path())
        .run(whole.path(), |_| false)
        .unwrap();
    let mut world = undecided(broken.path());
    let before = journal::read(broken.path()).unwrap().len() as u32;
    let finish = world
        .run(broken.path(), |entries| entries == before + 8)
        .unwrap();
    assert_eq!(finish, Finish::Interrupted);
    let why = world.run(broken.path(), |_| false).unwrap_err().to_string();
    assert!(why.contains("not finished (leave it out"), "{why}");
    world.more_blocks = None;
    assert_eq!(
        world.run(broken.path(), |_| false).unwrap(),
        Finish::Complete
    );
    assert_eq!(primary(broken.path()), primary(whole.path()));
    assert_eq!(judged(broken.path()), judged(whole.path()));
}

#[test]
fn more_blocks_are_refused_if_they_are_not_needed() {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(1.10, 0.002, &[]);
    world.run(dir.path(), |_| false).unwrap();
    world.more_blocks = Some(4);
    let why = world.run(dir.path(), |_| false).unwrap_err().to_string();
    assert_eq!(
        why,
        "--more-blocks for a run that is decided: 7 blocks (nothing is left to find out)"
    );
    let dir = tempfile::tempdir().unwrap();
    let mut world = undecided(dir.path());
    world.more_blocks = Some(499);
    let why = world.run(dir.path(), |_| false).unwrap_err().to_string();
    assert!(
        why.starts_with("more than 500 blocks in all: 508 (at the most --more-blocks 492)"),
        "{why}"
    );
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(1.0, 0.001, &[Behaviour::Panics; 100]);
    world.run(dir.path(), |_| false).unwrap();
    world.more_blocks = Some(4);
    let why = world.run(dir.path(), |_| false).unwrap_err().to_string();
    assert!(
        why.contains("did not end for want of blocks: no arm but the baseline"),
        "{why}"
    );
}

/// A world in which the hypervisor steals CPU time from these trials.
pub(crate) fn disturbed_world(trials: &[u32]) -> World {
    let mut world = World::new(0.95, 0.002, &[]);
    world.machine.robbed = trials.iter().map(|number| format!("{number:03}")).collect();
    world
}

/// The invalidated blocks with their reasons.
fn invalidated(dir: &Path) -> Vec<(u32, String)> {
    let mut blocks = Vec::new();
    for entry in journal::read(dir).unwrap() {
        if let Event::Invalidated {
            block, disturbance, ..
        } = entry.event
        {
            blocks.push((block, judge::report::disturbance(&disturbance)));
        }
    }
    blocks
}

#[test]
fn a_block_with_stolen_cpu_time_runs_again_and_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        disturbed_world(&[4]).run(dir.path(), |_| false).unwrap(),
        Finish::Complete
    );
    let want = "the hypervisor took 45.0 % of the CPU time of trial 004, 0.0 % is usual here";
    assert_eq!(invalidated(dir.path()), [(2, want.to_string())]);
    let judgement = judged(dir.path());
    let comparison = &judgement.comparisons[0];
    let blocks: Vec<u32> = comparison.pairs.iter().map(|pair| pair.block).collect();
    let expected: Vec<u32> = (1..=comparison.blocks).collect();
    assert_eq!(blocks, expected, "each block counts once");
    for pair in &comparison.pairs {
        for figure in [pair.baseline, pair.arm] {
            assert!((940.0..1010.0).contains(&figure), "{pair:?}");
        }
    }
    let setbacks = judge::report::setbacks(&judgement);
    let setback = setbacks
        .iter()
        .find(|setback| setback.contains("disturbed"));
    assert_eq!(
        setback.unwrap(),
        &format!(
            "web-static: blocks that something outside disturbed, run again: 1: block 2: {want} (their first figures \
             do not count)"
        )
    );
}

#[test]
fn a_plan_may_keep_disturbed_blocks_which_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{PLAN}disturbed_blocks = \"keep\"\n");
    let mut world = disturbed_world(&[4]);
    world.plan = read_plan(&text);
    world.run_text(dir.path(), &text, |_| false).unwrap();
    assert_eq!(invalidated(dir.path()), []);
    let judgement = judged(dir.path());
    let pairs = &judgement.comparisons[0].pairs;
    // A disturbed trial has a lower figure, and its block counts nevertheless.
    let (new, old) = (pairs[1].arm, pairs[1].baseline);
    assert!(new.min(old) < 700.0, "{:?}", pairs[1]);
    let run = load_run(dir.path());
    let page = judge::report::html(&run, &judgement, &[]);
    let sentence = "the plan keeps disturbed blocks and runs none of them again";
    assert!(page.contains(sentence));
    let terminal = judge::report::terminal(&run, &judgement, &[], 100);
    assert!(terminal.contains("disturbed-blocks"), "{terminal}");
}

#[test]
fn a_block_that_is_always_disturbed_runs_again_only_three_times() {
    let dir = tempfile::tempdir().unwrap();
    // After two trials of block 1, each of four attempts at block 2 has a disturbed trial.
    let finish = disturbed_world(&[3, 5, 7, 9])
        .run(dir.path(), |_| false)
        .unwrap();
    assert_eq!(finish, Finish::Complete);
    let blocks = invalidated(dir.path()).into_iter().map(|(block, _)| block);
    assert_eq!(blocks.collect::<Vec<_>>(), [2, 2, 2]);
    let run = load_run(dir.path());
    let second: Vec<u32> = run
        .attempts
        .iter()
        .filter(|record| record.trial.block == 2)
        .map(|record| record.trial.number)
        .collect();
    assert_eq!((second, run.invalidated.len()), (vec![9, 10], 6));
}

#[test]
fn the_verdict_does_not_depend_on_which_arm_was_disturbed() {
    // Trials 3 and 4 are the arms of block 2. Once the one is disturbed, once the other.
    let ends = [3, 4].map(|trial| {
        let dir = tempfile::tempdir().unwrap();
        disturbed_world(&[trial])
            .run(dir.path(), |_| false)
            .unwrap();
        assert_eq!(invalidated(dir.path()).len(), 1);
        judged(dir.path()).comparisons
    });
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0][0].verdict, Verdict::Worse);
}

#[test]
fn an_interrupted_disturbed_run_resumes_with_the_same_result() {
    check_disturbed_interruptions(7);
}

#[test]
#[ignore = "a run for each entry near a disturbance: make test-all"]
fn a_disturbed_run_that_is_interrupted_anywhere_resumes_with_the_same_result() {
    check_disturbed_interruptions(1);
}

/// Interrupts a disturbed run after every nth entry near a disturbance. The results must be the same.
fn check_disturbed_interruptions(every: usize) {
    // The last block of the undisturbed run is disturbed too: its figures must not decide before
    // the check for disturbances.
    let world = || disturbed_world(&[3, 6, 13, 14, 16]);
    let whole = tempfile::tempdir().unwrap();
    world().run(whole.path(), |_| false).unwrap();
    let results = |dir: &Path| {
        let entries = journal::read(dir).unwrap();
        let is_result = |event: &Event| match event {
            Event::Ended { .. }
            | Event::InterimAnalysis { .. }
            | Event::Invalidated { .. }
            | Event::Profiled { .. }
            | Event::Closed { .. }
            | Event::Extended { .. } => true,
            Event::Profiling { .. }
            | Event::Opened(_)
            | Event::Resumed { .. }
            | Event::Ceiling { .. }
            | Event::OneFewer { .. }
            | Event::Merged { .. }
            | Event::Started { .. } => false,
        };
        let events = entries.into_iter().map(|entry| entry.event);
        events.filter(is_result).collect::<Vec<Event>>()
    };
    assert!(
        invalidated(whole.path()).len() >= 3,
        "{:?}",
        invalidated(whole.path())
    );
    let entries = journal::read(whole.path()).unwrap();
    let is_near = |stop: &usize| {
        let near = &entries[stop.saturating_sub(2)..(stop + 2).min(entries.len())];
        let is_invalid = |entry: &Entry| matches!(entry.event, Event::Invalidated { .. });
        near.iter().any(is_invalid) || stop + 4 >= entries.len()
    };
    let judgement = judged(whole.path());
    let stops = (1..entries.len()).filter(is_near).step_by(every);
    for stop in stops.map(|stop| stop as u32) {
        let dir = tempfile::tempdir().unwrap();
        world().run(dir.path(), |entry| entry >= stop).unwrap();
        world().run(dir.path(), |_| false).unwrap();
        assert_eq!(
            results(dir.path()),
            results(whole.path()),
            "stopped after {stop}"
        );
        assert_eq!(judged(dir.path()), judgement, "stopped after {stop}");
    }
}

/// The measured trials, and how often each was measured.
fn measured(dir: &Path) -> BTreeMap<String, u32> {
    let mut counts = BTreeMap::new();
    for entry in journal::read(dir).unwrap() {
        if let Event::Ended {
            trial,
            ending: Ending::Measured,
            ..
        } = entry.event
        {
            *counts.entry(trial.to_string()).or_default() += 1;
        }
    }
    counts
}

#[test]
fn an_interrupted_run_resumes_with_the_same_result() {
    // A block has five entries, so each kind of entry is the last one in some run.
    check_interruptions(7);
}

#[test]
#[ignore = "a run for each entry: make test-all"]
fn a_run_that_is_interrupted_after_any_entry_resumes_with_the_same_result() {
    check_interruptions(1);
}

/// Interrupts runs after every nth entry. The results must be the same.
fn check_interruptions(every: usize) {
    let world = || World::new(1.03, 0.01, &[]);
    let whole = tempfile::tempdir().unwrap();
    world().run(whole.path(), |_| false).unwrap();
    let entries = journal::read(whole.path()).unwrap().len() as u32;
    assert!(
        entries > 12,
        "{entries} entries are too few for this test to mean anything"
    );
    let (figures, judgement) = (measured(whole.path()), judged(whole.path()));
    for stop in (1..entries).step_by(every) {
        let dir = tempfile::tempdir().unwrap();
        let first = world().run(dir.path(), |entry| entry >= stop).unwrap();
        let second = world().run(dir.path(), |_| false).unwrap();
        assert_eq!(
            second,
            Finish::Complete,
            "stopped after {stop}, first ended {first:?}"
        );
        assert_eq!(measured(dir.path()), figures, "stopped after {stop}");
        assert_eq!(judged(dir.path()), judgement, "stopped after {stop}");
    }
}

#[test]
fn a_torn_journal_is_resumed() {
    check_torn_journals(1999);
}

#[test]
#[ignore = "a run for each cut: make test-all"]
fn a_journal_torn_anywhere_is_resumed() {
    check_torn_journals(211);
}

/// Cuts a journal after every nth byte, and resumes its run.
fn check_torn_journals(every: usize) {
    let world = || World::new(1.03, 0.01, &[Behaviour::Panics]);
    let whole = tempfile::tempdir().unwrap();
    world().run(whole.path(), |_| false).unwrap();
    let text = fs::read(whole.path().join("journal.jsonl")).unwrap();
    // The step shares no factor with the length of lines, so cuts fall anywhere in a line. No cut
    // is at 0, because an empty journal beside trials is refused.
    for cut in (1..text.len()).step_by(every) {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("trials")).unwrap();
        copy_trials(whole.path(), dir.path());
        fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
        fs::write(dir.path().join("journal.jsonl"), &text[..cut]).unwrap();
        let resumed = World::new(1.03, 0.01, &[]);
        assert_eq!(
            resumed.run(dir.path(), |_| false).unwrap(),
            Finish::Complete,
            "cut at {cut}"
        );
        let want: Vec<_> = measured(whole.path()).into_keys().collect();
        let got: Vec<_> = measured(dir.path()).into_keys().collect();
        assert_eq!(got, want, "cut at {cut}");
        assert!(
            measured(dir.path()).values().all(|count| *count == 1),
            "cut at {cut}"
        );
    }
}

fn copy_trials(from: &Path, to: &Path) {
    for entry in from.join("trials").read_dir().unwrap().flatten() {
        let dir = to.join("trials").join(entry.file_name());
        fs::create_dir_all(&dir).unwrap();
        for file in entry.path().read_dir().unwrap().flatten() {
            fs::copy(file.path(), dir.join(file.file_name())).unwrap();
        }
    }
}

#[test]
fn a_finished_run_stays_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[]);
    world.run(dir.path(), |_| false).unwrap();
    let before = fs::read(dir.path().join("journal.jsonl")).unwrap();
    assert_eq!(world.run(dir.path(), |_| false).unwrap(), Finish::Complete);
    assert_eq!(fs::read(dir.path().join("journal.jsonl")).unwrap(), before);
}

#[test]
fn a_changed_input_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[]);
    world.run(dir.path(), |entry| entry >= 4).unwrap();
    let journal = dir.path().join("journal.jsonl");
    let plan_sha = hash::sha256(PLAN.as_bytes());
    let text = fs::read_to_string(&journal)
        .unwrap()
        .replacen(&plan_sha, &"0".repeat(64), 1);
    fs::write(&journal, text).unwrap();
    let why = world.run(dir.path(), |_| false).unwrap_err().to_string();
    assert!(why.contains("plan was 000000000000, is"), "{why}");
    assert!(why.contains("--out"), "{why}");
}

#[test]
fn a_run_that_was_refused_before_its_begin_accepts_a_changed_plan() {
    let dir = tempfile::tempdir().unwrap();
    let mended = PLAN.replace("seed", "# mended\nseed");
    let plan = || fs::read_to_string(dir.path().join("plan.toml")).unwrap();
    drop(RunDir::open(dir.path(), PLAN).unwrap());
    drop(RunDir::open(dir.path(), &mended).unwrap());
    assert_eq!(plan(), mended);
    fs::write(dir.path().join("journal.jsonl"), "{").unwrap();
    drop(RunDir::open(dir.path(), PLAN).unwrap());
    assert_eq!(plan(), mended);
}

#[test]
fn a_run_directory_is_used_by_one_bakeoff_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let _held = RunDir::open(dir.path(), PLAN).unwrap();
    let why = RunDir::open(dir.path(), PLAN).unwrap_err().to_string();
    assert!(why.contains("another bakeoff is at work"), "{why}");
}

#[test]
fn each_interim_analysis_reports_the_progress() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.0, 0.05, &[]);
    world.run(dir.path(), |_| false).unwrap();
    let entries = journal::read(dir.path()).unwrap();
    let results: Vec<String> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::InterimAnalysis { results, .. } => Some(
                results
                    .iter()
                    .map(judge::report::interim_analysis)
                    .collect::<String>(),
            ),
            _ => None,
        })
        .collect();
    assert!(results[0].contains("1 block, "), "{results:?}");
    assert!(
        results[0].ends_with(", first test after block 6"),
        "{results:?}"
    );
    assert!(results[5].contains("undecided, 6 blocks, "), "{results:?}");
    assert!(
        results[5].contains(" more (")
            && results[5].ends_with(") for a 2 % margin (the run ends at 8)"),
        "{results:?}"
    );
}

#[test]
fn an_earlier_run_predicts_what_its_plan_would_find() {
    let dir = tempfile::tempdir().unwrap();
    World::new(1.0, 0.004, &[])
        .run(dir.path(), |_| false)
        .unwrap();
    let args = "check --power plan.toml --earlier . --runs 20 --jobs 1 --json";
    let output = bakeoff(dir.path(), &args.split(' ').collect::<Vec<_>>());
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let scene = &report["scenes"][0];
    assert_eq!(scene["noise"], "measured");
    assert_eq!(report["warnings"], serde_json::json!([]));
    let scale = scene["scale"].as_f64().unwrap();
    assert!((0.001..0.02).contains(&scale), "{scale}");
    // Two arms, with six seconds of simulated time for each trial.
    let line = &scene["lines"][0];
    let seconds = line["hours"].as_f64().unwrap() * 3600.0 / line["blocks"].as_f64().unwrap();
    assert!((11.0..13.0).contains(&seconds), "{seconds}");
    let args = [
        "check",
        "plan.toml",
        "--earlier",
        ".",
        "--jobs",
        "2",
        "--json",
    ];
    let report: Value = serde_json::from_slice(&bakeoff(dir.path(), &args).stdout).unwrap();
    let resources = &report["resources"];
    let number = |key: &str, place: usize| resources[key][place].as_f64().unwrap();
    let trial_s = number("trial_s", 0);
    assert!((5.5..6.5).contains(&trial_s), "{resources}");
    // 6 to 8 blocks of two arms, both at a time.
    for (place, blocks) in [(0, 6.0), (1, 8.0)] {
        let run_s = number("run_s", place);
        assert!((run_s / trial_s - blocks).abs() < 1e-6, "{resources}");
    }
    assert!(number("disk_bytes", 0) > 0.0 && number("disk_bytes", 1) > number("disk_bytes", 0));
}

#[test]
fn a_run_of_another_machine_or_workload_predicts_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    World::new(1.0, 0.004, &[])
        .run(dir.path(), |_| false)
        .unwrap();
    let other = PLAN
        .replace(
            "[machine]\n",
            "[machine]\ncpus = 1\nclock = \"instructions\"\n",
        )
        .replace("connections = 4", "connections = 64");
    fs::write(dir.path().join("other.toml"), other).unwrap();
    let args = ["check", "other.toml", "--earlier", ".", "--json"];
    let report: Value = serde_json::from_slice(&bakeoff(dir.path(), &args).stdout).unwrap();
    let mut warnings = report["warnings"].as_array().unwrap().iter();
    let warning = warnings.find(|warning| warning.as_str().unwrap().contains("not hold"));
    expect_test::expect![". is not what this plan asks for: clock was wall, is instructions; workload web-static has other options (its noise and times may not hold)"].assert_eq(warning.unwrap().as_str().unwrap());
}

/// Arms with four numbers of CPUs follow a known scalability law, with noise. The judgement of the
/// run must find the law.
#[test]
fn a_known_scalability_law_is_found_by_a_run() {
    const LAW: [f64; 3] = [1000.0, 0.06, 0.003];
    let counts = [1_u32, 2, 4, 8];
    let arms =
        counts.map(|n| format!("[arm.cpu-{n}]\nkernel = \"debian:bookworm/6.1\"\ncpus = {n}\n"));
    let arms = arms.concat();
    let (head, rest) = PLAN.split_once("[arm.old]").unwrap();
    let (_, rest) = rest.split_once("[[workload]]").unwrap();
    let head = head.replace("baseline = \"old\"", "baseline = \"cpu-1\"");
    let text = format!("{head}{arms}[[workload]]{rest}");
    let mut world = World::new(1.0, 0.0, &[]);
    world.plan = read_plan(&text);
    world.machine.arms.clear();
    for count in counts {
        let n = f64::from(count);
        let cost = 1.0 + LAW[1] * (n - 1.0) + LAW[2] * n * (n - 1.0);
        let arm = FakeArm {
            rate_per_s: LAW[0] * n / cost,
            noise: 0.002,
            one_fewer: 1.0,
            boots: Vec::new(),
        };
        world.machine.arms.insert(format!("cpu-{count}"), arm);
    }
    let dir = tempfile::tempdir().unwrap();
    world.run_text(dir.path(), &text, |_| false).unwrap();
    let judgement = judged(dir.path());
    let [group] = judgement.scaling.as_slice() else {
        panic!("one group: {:?}", judgement.scaling);
    };
    let law = group.law.as_ref().unwrap();
    let (contention, coherence) = (law.contention.typical, law.coherence.typical);
    assert!((contention - LAW[1]).abs() < 0.01, "{contention}");
    assert!((coherence - LAW[2]).abs() < 0.001, "{coherence}");
    assert!(
        (law.line[0].value / LAW[0] - 1.0).abs() < 0.01,
        "{:?}",
        law.line
    );
    assert!(
        (law.peak.unwrap() / (0.94_f64 / 0.003).sqrt() - 1.0).abs() < 0.2,
        "{law:?}"
    );
    let speed_up = group.steps[3].speed_up.unwrap().typical;
    assert!((speed_up / (8.0 / 1.588) - 1.0).abs() < 0.01, "{speed_up}");
}

/// A plan in which only the second arm is tuned and has less memory.
fn unfair_plan() -> String {
    let kernel = "kernel = \"debian:trixie-backports/7.2\"";
    let plan = PLAN.replace(kernel, &format!("{kernel}\ncmdline = \"quiet mem=256M\""));
    assert_ne!(plan, PLAN);
    plan
}

/// Runs that plan; returns the failed checks that were reported during the run.
fn failed_checks_of_unfair_plan(
    dir: &Path,
    boots: &[Behaviour],
    accepted: &str,
) -> Vec<(u32, Vec<String>)> {
    let text = unfair_plan();
    let mut world = World::new(1.0, 0.001, boots);
    world.plan = read_plan(&text);
    if !accepted.is_empty() {
        fs::write(dir.join(rundir::ACCEPTED), accepted).unwrap();
    }
    // A run whose arm always fails stops by itself, with an error.
    let _ = world.run_text(dir, &text, |_| false);
    reported_failed_checks(world)
}

/// The reported failed checks, except that of the simulated server's load, which is random.
fn reported_failed_checks(world: World) -> Vec<(u32, Vec<String>)> {
    let mut failed_checks = world.failed_checks.into_inner().unwrap();
    for (_, ids) in &mut failed_checks {
        ids.retain(|id| id != "server-stressed");
    }
    failed_checks.retain(|(_, ids)| !ids.is_empty());
    failed_checks
}

#[test]
fn failed_checks_are_reported_before_the_first_block_after_it_and_when_new() {
    use Behaviour::{Measures, Panics};

    let dir = || tempfile::tempdir().unwrap();
    let failed_checks = failed_checks_of_unfair_plan(dir().path(), &[], "");
    let owned = |blocks: u32, ids: &[&str]| (blocks, ids.iter().map(|id| (*id).into()).collect());
    // Simulated arms report no memory, so the foreseen failure is not known during the run.
    let foreseen: (u32, Vec<String>) = owned(0, &["memory", "one-sided-tuning"]);
    let measured = owned(1, &["one-sided-tuning"]);
    assert_eq!(failed_checks, [foreseen, measured]);
    let boots = [&[Measures; 2][..], &[Panics; 30]].concat();
    let with_panics = failed_checks_of_unfair_plan(dir().path(), &boots, "");
    assert_eq!(with_panics[..2], failed_checks);
    let ids: Vec<&String> = with_panics[2..].iter().flat_map(|(_, ids)| ids).collect();
    assert_eq!(ids, ["trials-fail-alike"], "{with_panics:?}");
    let accepted = r#"{ "one-sided-tuning": "it is the question", "memory": "so is this" }"#;
    assert_eq!(
        failed_checks_of_unfair_plan(dir().path(), &[], accepted),
        []
    );
}

#[test]
fn a_resumed_run_reports_its_failed_checks_again() {
    let dir = tempfile::tempdir().unwrap();
    let text = unfair_plan();
    let run = |entries: u32| {
        let mut world = World::new(1.0, 0.001, &[]);
        world.plan = read_plan(&text);
        world
            .run_text(dir.path(), &text, |entry| entry >= entries)
            .unwrap();
        let failed_checks = reported_failed_checks(world).into_iter();
        failed_checks.map(|(blocks, _)| blocks).collect::<Vec<_>>()
    };
    assert_eq!(run(9), [0, 1]);
    assert_eq!(run(u32::MAX), [1]);
}
