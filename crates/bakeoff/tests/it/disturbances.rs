//! Disturbances of a plan: in a simulated lab with a known recovery, and all kinds of them in a real guest.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bakeoff::lab::Finish;
use base::input::tree::Tree;
use machine::fake::soak::Soak;
use plan::{Checks, Plan};
use record::defect::Kind;
use record::disturbances::{BegunDisturbance, DisturbanceRecord, Effect, read_begun};
use record::rundir;
use record::rundir::Run;
use record::trial::{Measurement, Outcome};
use record::verdict::fairness::violations;

use crate::real_guests::{can_boot, run_to_end, wall_clock_lane};
use crate::simulated_lab::{World, judged};

/// A window of two minutes, in which the link goes twice and packets are lost once.
const SIMULATED: &str = r#"
title = "a simulated soak with disturbances"
baseline = "old"
[image]
recipe = "web"
[arm.old]
kernel = "debian:bookworm/6.1"
[arm.new]
kernel = "debian:trixie-backports/7.2"
[[workload]]
kind = "web-soak"
server = "apache"
connections = 4
warmup = "1s"
window = "2m"
[[disturb]]
kind = "link-down"
at = ["20s", "60s"]
for = "5s"
[[disturb]]
kind = "loss"
share = "1%"
at = "90s"
for = "10s"
[design]
min_blocks = 2
max_blocks = 3
seed = 11
"#;

fn read(text: &str) -> Plan {
    let checks = Checks::of_the_past(&workload::check);
    plan::read("plan.toml", text, Path::new(""), checks).unwrap()
}

/// What was measured, of each arm at least once. An attempt that the machine spoilt (an emulator may abort) was tried again.
fn measurements(run: &Run) -> Vec<(&str, &Measurement)> {
    let measured = run
        .attempts
        .iter()
        .filter_map(|record| match &record.outcome {
            Outcome::Measured(measurement) => Some((record.trial.arm.as_str(), &**measurement)),
            Outcome::Void(_) => None,
            other @ Outcome::Skipped(_) => panic!("{}: {other:?}", record.trial),
        });
    let measurements: Vec<_> = measured.collect();
    for arm in &run.plan.arms {
        let has_any = measurements.iter().any(|(name, _)| *name == arm.name);
        assert!(has_any, "{}: {:?}", arm.name, run.attempts);
    }
    measurements
}

/// Runs the simulated soak; guests of `old` recover after two seconds, those of `new` after so many.
fn simulated(dir: &Path, new_recovers_after_s: u64) {
    let window = Duration::from_secs(120);
    let soak = |seconds| Soak {
        recovers_after: Some(Duration::from_secs(seconds)),
        ..Soak::calm(window)
    };
    let mut world = World::new(1.0, 0.0, &[]);
    world.plan = read(SIMULATED);
    world.machine.soaks = BTreeMap::from([
        ("old".to_string(), soak(2)),
        ("new".to_string(), soak(new_recovers_after_s)),
    ]);
    let finish = world.run_text(dir, SIMULATED, |_| false).unwrap();
    assert_eq!(finish, Finish::Complete);
}

#[test]
fn a_recovery_that_is_known_is_found() {
    let dir = tempfile::tempdir().unwrap();
    simulated(dir.path(), 8);
    let run = rundir::load(dir.path(), &workload::check).unwrap();
    let judgement = judged(dir.path());
    for one in &judgement.planned {
        let recovery = one.recovery_s.unwrap();
        let (wanted, failed) = match one.arm.as_str() {
            "old" => (2.0, 5 + 2),
            _ => (8.0, 5 + 8),
        };
        assert_eq!((recovery.lowest, recovery.highest), (wanted, wanted));
        let (before, during) = (one.before_per_s.unwrap(), one.during_per_s.unwrap());
        assert_eq!((before.typical, during.typical), (1000.0, 250.0));
        assert_eq!((one.took, one.not_recovered), (one.times, 0));
        // Each second of the disturbance has five failures, each second after it one.
        let seconds = if one.name == "loss" { 10 } else { 5 };
        let each = 5 * seconds + failed - 5;
        assert_eq!(one.failed, each * u64::from(one.times), "{one:?}");
    }
    assert_eq!(judgement.planned.len(), 4);
    // What was planned is no violation, and no surprise.
    for (_, measurement) in measurements(&run) {
        assert_eq!(measurement.unplanned_failures(), 0);
    }
    let violated: Vec<_> = violations(&judgement.fairness)
        .map(|one| &*one.id)
        .collect();
    assert!(!violated.contains(&"failed-requests"), "{violated:?}");
    assert!(!violated.contains(&"planned-disturbances"), "{violated:?}");
    let recovery = judgement.comparison("web-soak", "new", "loss-recovery");
    assert_eq!(recovery.unwrap().ratio, Some(4.0));
    let text = judge::report::terminal(&run, &judgement, &[], 200);
    assert!(text.contains("Disturbances of the plan"), "{text}");
    assert!(!text.contains("failed requests on arm"), "{text}");
}

/// The same over five minutes and one block, in which no guest answers for some seconds; from some second on that of `new` falls silent.
fn silent(dir: &Path, outage_s: (u64, u64), silent_from_s: Option<u64>) -> Run {
    let text = SIMULATED.replace("\"2m\"", "\"5m\"");
    let text = text.replace("min_blocks = 2\nmax_blocks = 3", "max_blocks = 1");
    let second = Duration::from_secs;
    let soak = Soak {
        outage: Some((second(outage_s.0), second(outage_s.1))),
        ..Soak::calm(second(300))
    };
    let falls_silent = Soak {
        silent_from: silent_from_s.map(second),
        ..soak.clone()
    };
    let mut world = World::new(1.0, 0.0, &[]);
    world.plan = read(&text);
    world.machine.soaks =
        BTreeMap::from([("old".to_string(), soak), ("new".to_string(), falls_silent)]);
    world.run_text(dir, &text, |_| false).unwrap();
    rundir::load(dir, &workload::check).unwrap()
}

#[test]
fn an_outage_that_a_disturbance_makes_trips_no_gate() {
    // The link is down from 60 s on for five seconds, and service is back after two more.
    for (outage_s, is_planned) in [((60, 7), true), ((150, 7), false)] {
        let dir = tempfile::tempdir().unwrap();
        let run = silent(dir.path(), outage_s, None);
        let judgement = judge::judge(&run);
        let [soak] = &judgement.soaks[..] else {
            panic!("{:?}", judgement.soaks);
        };
        assert_eq!(judge::report::failures(soak, "old").is_empty(), is_planned);
        for arm in &soak.arms {
            let unplanned = arm.outage.map(|one| (one.at_ms, one.length_ms));
            let planned = arm.planned_outage.as_ref();
            let planned = planned.map(|one| (&*one.name, one.at_ms, one.length_ms));
            if is_planned {
                assert_eq!(
                    (unplanned, planned),
                    (None, Some(("link-down", 60_000, 7000)))
                );
            } else {
                assert_eq!((unplanned, planned), (Some((150_000, 7000)), None));
            }
        }
        let text = judge::report::terminal(&run, &judgement, &[], 200);
        let said =
            "no right answer for 7s while disturbed as planned (link-down), from 1m of trial";
        assert_eq!(text.contains(said), is_planned, "{text}");
        // One block: no advice that no block follows, and no plural of one.
        for wrong in ["write another seed", "1 blocks", "1 trials"] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
        assert!(
            text.contains("one block: the arm cannot be told from its place in it"),
            "{text}"
        );
    }
}

#[test]
fn a_trial_that_is_cut_off_keeps_what_had_been_done_to_it() {
    let begun = |begin_s: u64, end_s: Option<u64>| BegunDisturbance {
        name: "link-down".into(),
        begin_ms: begin_s * 1000,
        end_ms: end_s.map(|end| end * 1000),
    };
    let known = [begun(20, Some(25)), begun(60, None)];
    let dir = tempfile::tempdir().unwrap();
    let run = silent(dir.path(), (0, 0), Some(63));
    let mut ended_early = 0;
    for record in &run.attempts {
        let trial = Tree::at(dir.path())
            .below("trials")
            .below(record.attempt_name());
        // The record of a trial that came to its end has them.
        let is_void = matches!(record.outcome, Outcome::Void(_));
        assert_eq!(trial.has(rundir::DISTURBANCES), is_void, "{}", record.trial);
        if is_void {
            assert_eq!(record.trial.arm, "new");
            assert_eq!(read_begun(&trial, rundir::DISTURBANCES).unwrap(), known);
            let mut long = run.long.iter();
            let long = long.find(|one| one.trial == record.trial).unwrap();
            assert_eq!(long.disturbances, known);
            ended_early += 1;
        }
    }
    assert!(ended_early > 0);
}

/// A window in which every kind of disturbance comes once, none beside another.
fn all_kinds() -> String {
    let kinds = [
        ("loss", "share = \"5%\"\n"),
        ("delay", "delay = \"20ms\"\njitter = \"5ms\"\n"),
        ("reorder", "share = \"25%\"\ndelay = \"5ms\"\n"),
        ("duplicate", "share = \"20%\"\n"),
        ("corrupt", "share = \"5%\"\n"),
        ("link-down", ""),
        ("disk-full", ""),
        ("memory", "size = \"64MiB\"\n"),
        ("clock-step", "step = \"+1h\"\n"),
        ("kill-worker", ""),
        ("syn-flood", "rate = 500\n"),
        ("slow-clients", "connections = 8\n"),
        ("descriptors", ""),
    ];
    let one = |(place, (kind, keys)): (usize, (&str, &str))| {
        let at = 1 + 2 * place;
        format!("[[disturb]]\nkind = \"{kind}\"\n{keys}at = \"{at}s\"\nfor = \"1s\"\n")
    };
    kinds.into_iter().enumerate().map(one).collect()
}

/// A plan of two kernels, at a rate that leaves a guest idle for most of the time, and its host too.
fn real(machine: &str, window: &str, disturb: &str) -> String {
    format!(
        "title = \"disturbed\"\nbaseline = \"one\"\n[machine]\nmemory = \"768MiB\"\n{machine}boot_timeout = \"10m\"\nsilence = \"10m\"\n\
         [image]\nrecipe = \"web\"\n[arm.one]\nkernel = \"debian:bookworm/6.1\"\n[arm.other]\nkernel = \"debian:trixie-backports/7.2\"\n\
         [[workload]]\nkind = \"web-soak\"\nserver = \"apache\"\nconnections = 4\nrate = 100\nwarmup = \"300ms\"\nwindow = \"{window}\"\n\
         {disturb}[design]\nmax_blocks = 1\n"
    )
}

fn felt(record: &DisturbanceRecord) -> &BTreeMap<String, u64> {
    match &record.effect {
        Effect::Took { counts } => counts,
        other => panic!("{}: {other:?}", record.name),
    }
}

#[test]
#[ignore = "boots 2 guests: make test-all"]
fn every_kind_is_felt_in_a_real_guest_and_undone() {
    if !can_boot() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let plan = real("clock = \"instructions\"\n", "29s", &all_kinds());
    let run = run_to_end(dir.path(), &plan);
    let kinds: BTreeSet<_> = run.plan.disturbances.iter().map(|one| &*one.name).collect();
    for (arm, measurement) in measurements(&run) {
        let records = &measurement.disturbances;
        let names: BTreeSet<_> = records.iter().map(|one| &*one.name).collect();
        assert_eq!(names, kinds, "{arm}");
        for record in records {
            let counts = felt(record);
            assert!(counts.values().any(|count| *count > 0), "{arm}: {record:?}");
            assert!(record.begin_ms < record.end_ms, "{arm}: {record:?}");
        }
        // All was undone: the last seconds are as the first.
        let timeline = &measurement.load.as_ref().unwrap().timeline;
        let (first, last) = (&timeline[0], &timeline[28]);
        assert!(last.ok * 2 > first.ok, "{arm}: {first:?} {last:?}");
        assert_eq!(last.faults, 0, "{arm}");
    }
    // A worker that was killed on purpose did not crash.
    for record in &run.attempts {
        let found = &record.defects.as_ref().unwrap().found;
        let mut crashes = found.iter().filter(|one| one.kind == Kind::ServiceCrash);
        assert_eq!(crashes.next(), None);
    }
    let judgement = judge::judge(&run);
    let violated: Vec<_> = violations(&judgement.fairness)
        .map(|one| &*one.id)
        .collect();
    assert!(!violated.contains(&"planned-disturbances"), "{violated:?}");
}

#[test]
#[ignore = "boots 2 guests: make test-all"]
fn a_cpu_goes_and_comes_back_in_a_real_guest() {
    if !can_boot() {
        return;
    }
    let _lane = wall_clock_lane();
    let dir = tempfile::tempdir().unwrap();
    let disturb = "[[disturb]]\nkind = \"cpu-offline\"\nat = \"1s\"\nfor = \"1s\"\n";
    let plan = real("clock = \"wall\"\ncpus = 2\n", "4s", disturb);
    let run = run_to_end(dir.path(), &plan);
    for (_, measurement) in measurements(&run) {
        let [record] = &measurement.disturbances[..] else {
            panic!("{:?}", measurement.disturbances);
        };
        assert_eq!(felt(record), &[("cpus-off".to_string(), 1)].into());
    }
}
