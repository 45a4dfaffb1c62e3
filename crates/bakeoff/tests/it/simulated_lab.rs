//! The real lab on a fake machine with a known truth, in simulated time.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirEntry};
use std::io;
use std::path::Path;
use std::process::Command;
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
use record::rundir::RunDir;
use record::trial::{Outcome, VoidReason};
use record::verdict::{Conclusion, Judgement, Verdict};
use serde_json::Value;

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

/// A world to run the plan in.
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) machine: FakeMachine,
    /// Trials at a time.
    pub(crate) jobs: usize,
    /// More blocks for the run in the directory.
    pub(crate) more_blocks: Option<u32>,
    /// Violations that were told: after how many blocks, and of which checks.
    told: Mutex<Vec<(u32, Vec<String>)>>,
}

impl World {
    /// `new` serves `ratio` times what `old` does; `boots` is what the boots of `new` do.
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
        let booted = Mutex::default();
        let machine = FakeMachine {
            robbed: BTreeSet::new(),
            counters: BTreeMap::new(),
            soaks: BTreeMap::new(),
            arms,
            clock: FakeClock::default(),
            greeting,
            seed: 3,
            booted,
        };
        let plan = plan::read(
            "plan.toml",
            PLAN,
            Path::new(""),
            Checks::of_the_past(&workload::check),
        )
        .unwrap();
        Self {
            plan,
            machine,
            jobs: 1,
            more_blocks: None,
            told: Mutex::default(),
        }
    }

    /// With one client fewer this is left of an arm's figure.
    pub(crate) fn hang_on_clients(&mut self, arm: &str, left: f64) {
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

    /// The boots of one arm end so, one after the other.
    pub(crate) fn fail(&mut self, arm: &str, boots: &[Behaviour]) {
        self.machine.arms.get_mut(arm).unwrap().boots = boots.into();
    }

    /// Runs in `dir`; `interrupt` is asked after each journal entry whether to stop.
    pub(crate) fn run(
        &self,
        dir: &Path,
        interrupt: impl Fn(u32) -> bool,
    ) -> anyhow::Result<Finish> {
        self.run_text(dir, PLAN, interrupt)
    }

    /// The same with another text of the plan.
    pub(crate) fn run_text(
        &self,
        dir: &Path,
        text: &str,
        interrupt: impl Fn(u32) -> bool,
    ) -> anyhow::Result<Finish> {
        let interrupted = AtomicBool::new(false);
        let entries = Cell::new(0);
        let show = |event: LabEvent<'_>| {
            if let LabEvent::Violated((blocks, _), found) = event {
                let ids = found.iter().map(|one| one.id.clone()).collect();
                self.told.lock().unwrap().push((blocks, ids));
            }
            let new = match event {
                LabEvent::Before(entries) => entries.len() as u32,
                LabEvent::Entry(_) => 1,
                LabEvent::Record(_) | LabEvent::Activity(..) | LabEvent::Violated(..) => 0,
            };
            for _ in 0..new {
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

pub(crate) fn judged(dir: &Path) -> Judgement {
    judge::judge(&rundir::load(dir, &workload::check).unwrap())
}

/// The verdict on the primary metric.
fn primary(dir: &Path) -> (Verdict, f64) {
    let judgement = judged(dir);
    let first = &judgement.comparisons[0];
    assert_eq!(first.spec.name, "throughput");
    (first.verdict, first.ratio.unwrap())
}

fn voids(dir: &Path) -> Vec<VoidReason> {
    let run = rundir::load(dir, &workload::check).unwrap();
    let reason = |outcome: &Outcome| match outcome {
        Outcome::Void(void) => Some(void.reason),
        Outcome::Measured(_) | Outcome::Skipped(_) => None,
    };
    run.attempts
        .iter()
        .filter_map(|attempt| reason(&attempt.outcome))
        .collect()
}

fn check(ratio: f64, noise: f64, want: Verdict) {
    let dir = tempfile::tempdir().unwrap();
    let finish = World::new(ratio, noise, &[])
        .run(dir.path(), |_| false)
        .unwrap();
    assert_eq!(finish, Finish::Complete);
    let (verdict, found) = primary(dir.path());
    assert_eq!(verdict, want, "found ratio {found}");
    assert!(
        (found / ratio - 1.0).abs() < 3.0 * noise + 1e-6,
        "found {found}, planted {ratio}"
    );
}

#[test]
fn the_same_arm_twice_is_equivalent() {
    check(1.0, 0.001, Verdict::Equivalent);
}

#[test]
fn a_planted_gain_is_found() {
    check(1.10, 0.002, Verdict::Better);
}

#[test]
fn a_planted_loss_is_found() {
    check(0.90, 0.002, Verdict::Worse);
}

/// Counters with a known truth: each reading is a second after the one before it.
#[derive(Debug)]
struct KnownCounters {
    seconds: u64,
    /// Events of a second by scope: instructions, cycles, branch misses, misses of the last-level cache.
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

/// What an agent tells of a second in which a server answers 1000 requests, and clients beside it execute as much as it does.
fn counters(instructions: u64, cycles: u64) -> HardwareCounters {
    let events = [
        instructions,
        cycles,
        instructions / 100,
        instructions / 1000,
    ];
    let server = events.map(|each| each * 1000);
    let source = KnownCounters {
        seconds: 0,
        events: [
            (Scope::System, server.map(|each| each * 2)),
            (Scope::Service("nginx".into()), server),
        ],
    };
    let mut counting = Counting::new(Ok(Box::new(source)));
    counting.begins();
    counting.ends();
    counting.finish()
}

/// Runs a plan in which the counters of both arms say this.
fn run_counted(old: HardwareCounters, new: HardwareCounters) -> (rundir::Run, Judgement) {
    let dir = tempfile::tempdir().unwrap();
    let mut world = World::new(1.10, 0.001, &[]);
    world.machine.counters = [("old".to_string(), old), ("new".to_string(), new)].into();
    world.run(dir.path(), |_| false).unwrap();
    let run = rundir::load(dir.path(), &workload::check).unwrap();
    let judgement = judge::judge(&run);
    (run, judgement)
}

#[test]
fn path_length_and_cpi_come_from_the_counters_to_verdict_and_page() {
    let (run, judgement) = run_counted(counters(40_000, 60_000), counters(30_000, 57_000));
    let of = |metric: &str| judgement.comparison("web-static", "new", metric).unwrap();
    for (metric, verdict, ratio) in [
        ("server-instructions", Verdict::Better, 0.75),
        ("server-cpi", Verdict::Worse, 1.9 / 1.5),
        ("server-branch-misses", Verdict::Equivalent, 1.0),
        ("server-llc-misses", Verdict::Equivalent, 1.0),
        ("instructions", Verdict::Better, 0.75),
        ("cpi", Verdict::Worse, 1.9 / 1.5),
    ] {
        let comparison = of(metric);
        assert_eq!(comparison.verdict, verdict, "{metric}");
        let found = comparison.ratio.unwrap();
        assert!((found - ratio).abs() < 1e-9, "{metric}: {found}");
    }
    // By server and by system, of the first block.
    let first = |metric: &str| of(metric).pairs[0].baseline;
    assert!((first("server-instructions") - 40_000.0).abs() < 1e-6);
    assert!((first("instructions") - 80_000.0).abs() < 1e-6);
    assert!((first("server-cpi") - 1.5).abs() < 1e-9);
    assert!((first("server-branch-misses") - 10.0).abs() < 1e-9);
    // More cycles for each of fewer instructions are no trade-off.
    assert_eq!(judgement.headlines[0].conclusion, Conclusion::Better);
    let told = judge::report::warnings(&judgement);
    assert!(
        told.iter().all(|one| !one.contains("not counted")),
        "{told:?}"
    );
    let page = judge::report::html(&run, &judgement, &[]);
    let terminal = judge::report::terminal(&run, &judgement, &[], 100);
    for shown in [page, terminal] {
        for metric in ["server-instructions", "server-cpi", "server-llc-misses"] {
            assert!(shown.contains(metric), "{metric}");
        }
    }
}

#[test]
fn why_nothing_was_counted_is_told_once_a_run_and_changes_nothing_else() {
    let none = || HardwareCounters::Missing(NoCounters::NoUnit);
    let (_, judgement) = run_counted(none(), none());
    let (_, usual) = {
        let dir = tempfile::tempdir().unwrap();
        World::new(1.10, 0.001, &[])
            .run(dir.path(), |_| false)
            .unwrap();
        let run = rundir::load(dir.path(), &workload::check).unwrap();
        let judgement = judge::judge(&run);
        (run, judgement)
    };
    assert_eq!(judgement.comparisons, usual.comparisons);
    let counts = |one: &&String| one.contains("were not counted");
    let told = judge::report::warnings(&judgement);
    assert_eq!(told.iter().filter(counts).count(), 1, "{told:?}");
    assert_eq!(told.len(), judge::report::warnings(&usual).len() + 1);
}

#[test]
fn an_arm_without_counters_is_not_compared_by_them_and_that_is_told_once() {
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
    let told = judge::report::warnings(&judgement);
    let of_counters = |one: &&String| one.contains("not counted") || one.contains("not compared");
    let told: Vec<_> = told.iter().filter(of_counters).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("arm new"), "{told:?}");
    assert!(judge::report::html(&run, &judgement, &[]).contains("performance monitoring unit"));
}

#[test]
fn noise_above_the_difference_is_undecided() {
    check(1.02, 0.20, Verdict::Undecided);
}

#[test]
fn every_failed_boot_is_void_with_its_reason_and_tried_once_more() {
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
        let retried = dir.path().join("trials").read_dir().unwrap().flatten();
        let retried = retried
            .filter(|entry| entry.path().extension().is_some())
            .count();
        assert_eq!(retried, 1, "{behaviour:?}: one second attempt");
    }
}

#[test]
fn a_setting_that_the_kernel_refuses_is_not_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::RefusesSetting; 2]);
    world.run(dir.path(), |_| false).unwrap();
    assert_eq!(voids(dir.path()), [VoidReason::SettingRefused; 2]);
    let trials = dir.path().join("trials").read_dir().unwrap().flatten();
    let again = trials.filter(|entry| entry.path().extension().is_some());
    assert_eq!(again.count(), 0);
}

#[test]
fn a_machine_that_is_lost_ends_the_run_without_a_void_trial_and_it_goes_on_later() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::Measures, Behaviour::IsLost]);
    let why = world.run(dir.path(), |_| false).unwrap_err();
    assert_eq!(why.to_string(), "the fake machine is lost");
    assert!(voids(dir.path()).is_empty());
    // Somebody has looked after it.
    assert_eq!(world.run(dir.path(), |_| false).unwrap(), Finish::Complete);
    assert!(voids(dir.path()).is_empty());
    assert_eq!(primary(dir.path()).0, Verdict::Better);
}

#[test]
fn a_guest_that_waits_for_a_busy_host_is_not_taken_for_silent() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::Starves]);
    world.run(dir.path(), |_| false).unwrap();
    assert_eq!(voids(dir.path()), []);
    assert_eq!(primary(dir.path()).0, Verdict::Better);
}

#[test]
fn a_guest_that_dies_under_load_leaves_its_samples() {
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
fn an_arm_that_never_boots_is_given_up_and_said_so() {
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
    assert!(
        judged(dir.path())
            .comparisons
            .iter()
            .all(|one| one.verdict == Verdict::Undecided)
    );
}

/// Each trial under it is void, the kernel's reason is in its record, and the arm has no verdict.
#[test]
fn a_scheduler_that_the_kernel_ejects_is_given_up_with_the_kernels_reason() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.10, 0.001, &[Behaviour::EjectsScheduler; 100]);
    assert_eq!(world.run(dir.path(), |_| false).unwrap(), Finish::Complete);
    assert_eq!(voids(dir.path()), [VoidReason::SchedulerFailed; 6]);
    let run = rundir::load(dir.path(), &workload::check).unwrap();
    let told = run.attempts.iter().filter_map(|one| match &one.outcome {
        Outcome::Void(void) => Some(void.to_string()),
        Outcome::Measured(_) | Outcome::Skipped(_) => None,
    });
    assert!(told.clone().count() > 0);
    for told in told {
        assert_eq!(told, format!("scheduler failed: {EJECTED}"));
    }
    let judgement = judged(dir.path());
    let mut verdicts = judgement.comparisons.iter().map(|one| one.verdict);
    assert!(verdicts.all(|verdict| verdict == Verdict::Undecided));
}

/// A world whose first 8 blocks do not suffice: the least noise of some that hides its difference.
pub(crate) fn undecided(dir: &Path) -> World {
    for (place, noise) in [0.06, 0.09, 0.13, 0.2].into_iter().enumerate() {
        let (mut world, trial) = (World::new(1.05, noise, &[]), dir.join(format!("{place}")));
        assert_eq!(world.run(&trial, |_| false).unwrap(), Finish::Complete);
        if primary(&trial).0 == Verdict::Undecided {
            for name in ["plan.toml", "journal.jsonl", "trials", "lock"] {
                fs::rename(trial.join(name), dir.join(name)).unwrap();
            }
            fs::remove_dir_all(&trial).unwrap();
            world.more_blocks = Some(12);
            return world;
        }
        fs::remove_dir_all(&trial).unwrap();
    }
    panic!("each noise was too little");
}

#[test]
fn a_run_that_ended_undecided_goes_on_with_more_blocks_and_says_the_price() {
    let dir = tempfile::tempdir().unwrap();
    let world = undecided(dir.path());
    let before = judged(dir.path());
    let said = judge::report::reason(&before.comparisons[0]);
    assert!(said.contains("bakeoff run PLAN --more-blocks "), "{said}");
    assert_eq!(world.run(dir.path(), |_| false).unwrap(), Finish::Complete);
    let run = rundir::load(dir.path(), &workload::check).unwrap();
    let given = run.entries.iter().find_map(|entry| match &entry.event {
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
    assert_eq!(given, Some(want));
    let after = judge::judge(&run);
    let (first, then) = (&before.comparisons[0], &after.comparisons[0]);
    assert!(
        8 < then.blocks && then.decided_at.is_none_or(|at| 8 < at),
        "{then:?}"
    );
    let end = match then.decided_at {
        Some(blocks) => CloseReason::Decided { blocks },
        None => CloseReason::BlocksGiven { blocks: 20 },
    };
    assert_eq!(run.closed(), Some(&end));
    assert_eq!(then.pairs[..8], first.pairs, "what was measured stays");
    let priced = |one: &String| {
        one.contains(
            "20 where the plan has 8 (a wrong verdict has a probability of at most 8.0 %, where",
        )
    };
    assert!(
        judge::report::warnings(&after).iter().any(priced),
        "{after:?}"
    );
    assert!((after.any_false - 0.08).abs() < 1e-6);
}

#[test]
fn more_blocks_that_were_interrupted_go_on_without_being_asked_for_again() {
    let (whole, broken) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    undecided(whole.path())
        .run(whole.path(), |_| false)
        .unwrap();
    let mut world = undecided(broken.path());
    let told = journal::read(broken.path()).unwrap().len() as u32;
    let finish = world
        .run(broken.path(), |entries| entries == told + 8)
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
fn a_run_that_needs_no_more_blocks_gets_none() {
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

/// A world in which the hypervisor steals from some trials.
pub(crate) fn robbed(trials: &[u32]) -> World {
    let mut world = World::new(0.95, 0.002, &[]);
    world.machine.robbed = trials.iter().map(|number| format!("{number:03}")).collect();
    world
}

/// Each invalidated block with its reason.
fn invalidated(dir: &Path) -> Vec<(u32, String)> {
    let entries = journal::read(dir).unwrap();
    let told = entries.into_iter().filter_map(|entry| match entry.event {
        Event::Invalidated {
            block, disturbance, ..
        } => Some((block, judge::report::disturbance(&disturbance))),
        _ => None,
    });
    told.collect()
}

#[test]
fn a_block_from_which_the_hypervisor_stole_is_run_again_and_said_so() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        robbed(&[4]).run(dir.path(), |_| false).unwrap(),
        Finish::Complete
    );
    let want = "the hypervisor took 45.0 % of the CPU time of trial 004, 0.0 % is usual here";
    assert_eq!(invalidated(dir.path()), [(2, want.to_string())]);
    let judgement = judged(dir.path());
    let comparison = &judgement.comparisons[0];
    let blocks: Vec<u32> = comparison.pairs.iter().map(|pair| pair.block).collect();
    let all: Vec<u32> = (1..=comparison.blocks).collect();
    assert_eq!(blocks, all, "each block counts once");
    let worst = |figure: f64| (940.0..1010.0).contains(&figure);
    assert!(
        comparison
            .pairs
            .iter()
            .all(|pair| worst(pair.baseline) && worst(pair.arm)),
        "{:?}",
        comparison.pairs
    );
    let setbacks = judge::report::setbacks(&judgement);
    let warned = setbacks
        .iter()
        .find(|setback| setback.contains("disturbed"));
    assert_eq!(
        warned.unwrap(),
        &format!(
            "web-static: blocks that something outside disturbed, run again: 1: block 2: {want} (their first figures \
             do not count)"
        )
    );
}

#[test]
fn a_plan_that_keeps_disturbed_blocks_runs_none_again_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{PLAN}disturbed_blocks = \"keep\"\n");
    let mut world = robbed(&[4]);
    let checks = Checks::of_the_past(&workload::check);
    world.plan = plan::read("plan.toml", &text, Path::new(""), checks).unwrap();
    world.run_text(dir.path(), &text, |_| false).unwrap();
    assert_eq!(invalidated(dir.path()), []);
    let judgement = judged(dir.path());
    let pairs = &judgement.comparisons[0].pairs;
    // A robbed trial measures less, and its block counts as it is.
    let (new, old) = (pairs[1].arm, pairs[1].baseline);
    assert!(new.min(old) < 700.0, "{:?}", pairs[1]);
    let run = rundir::load(dir.path(), &workload::check).unwrap();
    let page = judge::report::html(&run, &judgement, &[]);
    let sentence = "the plan keeps blocks that something outside disturbed, and runs none again";
    assert!(page.contains(sentence));
    let terminal = judge::report::terminal(&run, &judgement, &[], 100);
    assert!(terminal.contains("disturbed-blocks"), "{terminal}");
}

#[test]
fn a_machine_that_is_always_disturbed_is_not_waited_for_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    // Two trials of block 1, then four times a block 2 of which one trial is robbed.
    let finish = robbed(&[3, 5, 7, 9]).run(dir.path(), |_| false).unwrap();
    assert_eq!(finish, Finish::Complete);
    let blocks: Vec<u32> = invalidated(dir.path()).iter().map(|one| one.0).collect();
    assert_eq!(blocks, [2, 2, 2]);
    let run = rundir::load(dir.path(), &workload::check).unwrap();
    let second: Vec<u32> = run
        .attempts
        .iter()
        .filter(|record| record.trial.block == 2)
        .map(|record| record.trial.number)
        .collect();
    assert_eq!((second, run.struck.len()), (vec![9, 10], 6));
}

#[test]
fn what_is_decided_does_not_hang_on_which_arm_was_disturbed() {
    // Trials 3 and 4 are the arms of block 2: one is disturbed, then the other.
    let ends = [3, 4].map(|trial| {
        let dir = tempfile::tempdir().unwrap();
        robbed(&[trial]).run(dir.path(), |_| false).unwrap();
        assert_eq!(invalidated(dir.path()).len(), 1);
        judged(dir.path()).comparisons
    });
    assert_eq!(ends[0], ends[1]);
    assert_eq!(ends[0][0].verdict, Verdict::Worse);
}

#[test]
fn a_disturbed_run_that_is_interrupted_anywhere_ends_as_if_it_had_not_been() {
    // The last block of the undisturbed run is disturbed too: its figures must not decide before they are looked at.
    let robbed = || robbed(&[3, 6, 13, 14, 16]);
    let whole = tempfile::tempdir().unwrap();
    robbed().run(whole.path(), |_| false).unwrap();
    let lasting = |dir: &Path| {
        let entries = journal::read(dir).unwrap();
        let counts = |event: &Event| match event {
            Event::Ended { .. }
            | Event::Looked { .. }
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
        events.filter(counts).collect::<Vec<Event>>()
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
    for stop in (1..entries.len()).filter(is_near).map(|stop| stop as u32) {
        let dir = tempfile::tempdir().unwrap();
        robbed().run(dir.path(), |entry| entry >= stop).unwrap();
        robbed().run(dir.path(), |_| false).unwrap();
        assert_eq!(
            lasting(dir.path()),
            lasting(whole.path()),
            "stopped after {stop}"
        );
        assert_eq!(judged(dir.path()), judgement, "stopped after {stop}");
    }
}

/// Trials that were measured, and how often.
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
fn a_run_that_was_interrupted_ends_as_if_it_had_not_been() {
    // A block has five entries, so that each kind of entry is the last one somewhere.
    interrupted_runs(3);
}

#[test]
#[ignore = "a run for each entry: make test-all"]
fn a_run_interrupted_after_any_entry_ends_as_if_it_had_not_been() {
    interrupted_runs(1);
}

/// Runs that are interrupted after every so many entries.
fn interrupted_runs(every: usize) {
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
fn a_journal_torn_anywhere_is_taken_up_again() {
    let world = || World::new(1.03, 0.01, &[Behaviour::Panics]);
    let whole = tempfile::tempdir().unwrap();
    world().run(whole.path(), |_| false).unwrap();
    let text = fs::read(whole.path().join("journal.jsonl")).unwrap();
    // Steps that share no factor with a line's length, so that cuts fall anywhere in a line.
    // A journal that is empty beside trials is lost, and refused.
    for cut in (1..text.len()).step_by(211) {
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
fn a_finished_run_does_nothing_more() {
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
fn a_run_that_was_refused_before_it_began_takes_the_mended_plan() {
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
fn a_run_directory_serves_one_bakeoff_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let _held = RunDir::open(dir.path(), PLAN).unwrap();
    let why = RunDir::open(dir.path(), PLAN).unwrap_err().to_string();
    assert!(why.contains("another bakeoff is at work"), "{why}");
}

#[test]
fn each_look_says_how_far_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let world = World::new(1.0, 0.05, &[]);
    world.run(dir.path(), |_| false).unwrap();
    let entries = journal::read(dir.path()).unwrap();
    let looks: Vec<String> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Looked { looks, .. } => {
                Some(looks.iter().map(judge::report::look).collect::<String>())
            }
            _ => None,
        })
        .collect();
    assert!(looks[0].contains("1 block, "), "{looks:?}");
    assert!(
        looks[0].ends_with(", first test after block 6"),
        "{looks:?}"
    );
    assert!(looks[5].contains("undecided, 6 blocks, "), "{looks:?}");
    assert!(
        looks[5].contains(" more (")
            && looks[5].ends_with(") for a 2 % margin (the run ends at 8)"),
        "{looks:?}"
    );
}

#[test]
fn an_earlier_run_foretells_what_its_plan_would_find() {
    let dir = tempfile::tempdir().unwrap();
    World::new(1.0, 0.004, &[])
        .run(dir.path(), |_| false)
        .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    let command = command.current_dir(dir.path()).args([
        "simulate",
        "plan.toml",
        "--from",
        ".",
        "--runs",
        "20",
        "--jobs",
        "1",
        "--json",
    ]);
    let said: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let scene = &said["scenes"][0];
    assert_eq!(scene["noise"], "measured");
    assert_eq!(said["warnings"].as_array().unwrap().len(), 0, "{said}");
    let scale = scene["scale"].as_f64().unwrap();
    assert!((0.001..0.02).contains(&scale), "{scale}");
    // Two arms, and six seconds of simulated time for each trial.
    let line = &scene["lines"][0];
    let seconds = line["hours"].as_f64().unwrap() * 3600.0 / line["blocks"].as_f64().unwrap();
    assert!((11.0..13.0).contains(&seconds), "{seconds}");
}

#[test]
fn a_run_of_another_machine_or_workload_foretells_with_a_warning() {
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    let command =
        command
            .current_dir(dir.path())
            .args(["check", "other.toml", "--from", ".", "--json"]);
    let said: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    let warnings = said["warnings"].as_array().unwrap();
    let warned = warnings
        .iter()
        .find(|warning| warning.as_str().unwrap().contains("not hold"));
    expect_test::expect![". is not what this plan asks for: clock was wall, is instructions; workload web-static has other options (its noise and times may not hold)"].assert_eq(warned.unwrap().as_str().unwrap());
}

/// Four numbers of CPUs under a law that is known, with noise: lab, journal and verdict find it again.
#[test]
fn a_planted_scalability_law_is_found_by_a_whole_run() {
    const LAW: [f64; 3] = [1000.0, 0.06, 0.003];
    let counts = [1_u32, 2, 4, 8];
    let arm = |n: &u32| format!("[arm.cpu-{n}]\nkernel = \"debian:bookworm/6.1\"\ncpus = {n}\n");
    let arms: String = counts.iter().map(arm).collect();
    let (head, rest) = PLAN.split_once("[arm.old]").unwrap();
    let (_, rest) = rest.split_once("[[workload]]").unwrap();
    let head = head.replace("baseline = \"old\"", "baseline = \"cpu-1\"");
    let text = format!("{head}{arms}[[workload]]{rest}");
    let mut world = World::new(1.0, 0.0, &[]);
    let checks = Checks::of_the_past(&workload::check);
    world.plan = plan::read("plan.toml", &text, Path::new(""), checks).unwrap();
    world.machine.arms = counts
        .iter()
        .map(|count| {
            let n = f64::from(*count);
            let cost = 1.0 + LAW[1] * (n - 1.0) + LAW[2] * n * (n - 1.0);
            let arm = FakeArm {
                rate_per_s: LAW[0] * n / cost,
                noise: 0.002,
                one_fewer: 1.0,
                boots: Vec::new(),
            };
            (format!("cpu-{count}"), arm)
        })
        .collect();
    let dir = tempfile::tempdir().unwrap();
    world.run_text(dir.path(), &text, |_| false).unwrap();
    let judgement = judged(dir.path());
    let [group] = judgement.scaling.as_slice() else {
        panic!("one group was planted: {:?}", judgement.scaling);
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
    let up = group.steps[3].speed_up.unwrap().typical;
    assert!((up / (8.0 / 1.588) - 1.0).abs() < 0.01, "{up}");
}

/// A plan whose second arm alone is tuned and lacks memory.
fn unfair_plan() -> String {
    let kernel = "kernel = \"debian:trixie-backports/7.2\"";
    let plan = PLAN.replace(kernel, &format!("{kernel}\ncmdline = \"quiet mem=256M\""));
    assert_ne!(plan, PLAN);
    plan
}

/// Runs that plan; what was told of fairness while it went on.
fn told_of_fairness(dir: &Path, boots: &[Behaviour], accepted: &str) -> Vec<(u32, Vec<String>)> {
    let text = unfair_plan();
    let mut world = World::new(1.0, 0.001, boots);
    let checks = Checks::of_the_past(&workload::check);
    world.plan = plan::read("plan.toml", &text, Path::new(""), checks).unwrap();
    if !accepted.is_empty() {
        fs::write(dir.join(rundir::ACCEPTED), accepted).unwrap();
    }
    // A run whose arm fails again and again stops by itself.
    let _ = world.run_text(dir, &text, |_| false);
    of_the_plan_and_its_trials(world)
}

/// What was told but for how busy the simulated server was, which is drawn.
fn of_the_plan_and_its_trials(world: World) -> Vec<(u32, Vec<String>)> {
    let mut told = world.told.into_inner().unwrap();
    for (_, ids) in &mut told {
        ids.retain(|id| id != "server-stressed");
    }
    told.retain(|(_, ids)| !ids.is_empty());
    told
}

#[test]
fn violations_are_told_before_the_first_block_after_it_and_when_a_new_one_appears() {
    use Behaviour::{Measures, Panics};

    let dir = || tempfile::tempdir().unwrap();
    let told = told_of_fairness(dir().path(), &[], "");
    let owned = |blocks: u32, ids: &[&str]| (blocks, ids.iter().map(|id| (*id).into()).collect());
    // Simulated arms tell no memory: what the plan lets foresee, the run does not know.
    let foreseen: (u32, Vec<String>) = owned(0, &["memory", "one-sided-tuning"]);
    assert_eq!(told, [foreseen.clone(), owned(1, &["one-sided-tuning"])]);
    let boots = [&[Measures; 2][..], &[Panics; 30]].concat();
    let later = told_of_fairness(dir().path(), &boots, "");
    assert_eq!(later[..2], told);
    let ids: Vec<&String> = later[2..].iter().flat_map(|(_, ids)| ids).collect();
    assert_eq!(ids, ["trials-fail-alike"], "{later:?}");
    let accepted = r#"{ "one-sided-tuning": "it is the question", "memory": "so is this" }"#;
    assert_eq!(told_of_fairness(dir().path(), &[], accepted), []);
}

#[test]
fn a_run_that_goes_on_tells_its_violations_again() {
    let dir = tempfile::tempdir().unwrap();
    let text = unfair_plan();
    let told = |entries: u32| {
        let mut world = World::new(1.0, 0.001, &[]);
        let checks = Checks::of_the_past(&workload::check);
        world.plan = plan::read("plan.toml", &text, Path::new(""), checks).unwrap();
        world
            .run_text(dir.path(), &text, |entry| entry >= entries)
            .unwrap();
        let told = of_the_plan_and_its_trials(world);
        told.iter().map(|(blocks, _)| *blocks).collect::<Vec<_>>()
    };
    assert_eq!(told(9), [0, 1]);
    assert_eq!(told(u32::MAX), [1]);
}
