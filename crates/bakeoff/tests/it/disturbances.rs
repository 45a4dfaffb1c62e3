//! Planned disturbances: in a simulated lab with a known recovery, and of every kind in real
//! guests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use bakeoff::lab::Finish;
use base::input::tree::Tree;
use machine::fake::soak::Soak;
use record::defect::Kind;
use record::disturbances::{BegunDisturbance, DisturbanceRecord, Effect, read_begun};
use record::rundir;
use record::rundir::Run;
use record::trial::{Measurement, Outcome};
use record::verdict::Judgement;
use record::verdict::fairness::failed;

use crate::real_guests::{can_boot, run_to_end, wall_clock_lane};
use crate::simulated_lab::{World, load_run, read_plan};

/// A window of two minutes, in which the link goes down twice and packets are lost once.
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

/// The measurements with their arms, at least one of each arm. An attempt that failed, because an
/// emulator may abort, was repeated.
fn measurements(run: &Run) -> Vec<(&str, &Measurement)> {
    let mut measurements = Vec::new();
    for record in &run.attempts {
        match &record.outcome {
            Outcome::Measured(measurement) => {
                measurements.push((record.trial.arm.as_str(), &**measurement));
            }
            Outcome::Void(_) => {}
            Outcome::Skipped(_) => panic!("{}: {:?}", record.trial, record.outcome),
        }
    }
    for arm in &run.plan.arms {
        let has_any = measurements.iter().any(|(name, _)| *name == arm.name);
        assert!(has_any, "{}: {:?}", arm.name, run.attempts);
    }
    measurements
}

/// The failed fairness checks.
fn failed_checks(judgement: &Judgement) -> Vec<&str> {
    failed(&judgement.fairness)
        .map(|result| &*result.id)
        .collect()
}

/// Runs the simulated soak. Guests of `old` recover after two seconds, guests of `new` after
/// `new_recovers_after_s`.
fn simulated(dir: &Path, new_recovers_after_s: u64) {
    let window = Duration::from_secs(120);
    let soak = |seconds| Soak {
        recovers_after: Some(Duration::from_secs(seconds)),
        ..Soak::calm(window)
    };
    let mut world = World::new(1.0, 0.0, &[]);
    world.plan = read_plan(SIMULATED);
    world.machine.soaks = BTreeMap::from([
        ("old".to_string(), soak(2)),
        ("new".to_string(), soak(new_recovers_after_s)),
    ]);
    let finish = world.run_text(dir, SIMULATED, |_| false).unwrap();
    assert_eq!(finish, Finish::Complete);
}

#[test]
fn a_known_recovery_is_found() {
    let dir = tempfile::tempdir().unwrap();
    simulated(dir.path(), 8);
    let run = load_run(dir.path());
    let judgement = judge::judge(&run);
    for planned in &judgement.planned {
        let recovery = planned.recovery_s.unwrap();
        let recovery_s: u32 = if planned.arm == "old" { 2 } else { 8 };
        let expected = f64::from(recovery_s);
        assert_eq!((recovery.lowest, recovery.highest), (expected, expected));
        let before = planned.before_per_s.unwrap().typical;
        let during = planned.during_per_s.unwrap().typical;
        assert_eq!((before, during), (1000.0, 250.0));
        assert_eq!((planned.took, planned.not_recovered), (planned.times, 0));
        // Each second of the disturbance has five failed requests, each second of the recovery one.
        let seconds = if planned.name == "loss" { 10 } else { 5 };
        let failed = (5 * seconds + recovery_s) * planned.times;
        assert_eq!(planned.failed, u64::from(failed), "{planned:?}");
    }
    assert_eq!(judgement.planned.len(), 4);
    // Planned failures are neither failed checks nor unplanned failures.
    for (_, measurement) in measurements(&run) {
        assert_eq!(measurement.unplanned_failures(), 0);
    }
    let failed_checks = failed_checks(&judgement);
    assert!(
        !failed_checks.contains(&"failed-requests"),
        "{failed_checks:?}"
    );
    assert!(
        !failed_checks.contains(&"planned-disturbances"),
        "{failed_checks:?}"
    );
    let recovery = judgement.comparison("web-soak", "new", "loss-recovery");
    assert_eq!(recovery.unwrap().ratio, Some(4.0));
    let text = judge::report::terminal(&run, &judgement, &[], 200);
    assert!(text.contains("Disturbances of the plan"), "{text}");
    assert!(!text.contains("failed requests on arm"), "{text}");
}

/// Runs one block of five minutes. No guest responds for `outage_length_s` from `outage_at_s` on, and the
/// guest of `new` falls silent at `silent_from_s`.
fn silent(dir: &Path, outage_at_s: u64, outage_length_s: u64, silent_from_s: Option<u64>) -> Run {
    let text = SIMULATED.replace("\"2m\"", "\"5m\"");
    let text = text.replace("min_blocks = 2\nmax_blocks = 3", "max_blocks = 1");
    let second = Duration::from_secs;
    let soak = Soak {
        outage: Some((second(outage_at_s), second(outage_length_s))),
        ..Soak::calm(second(300))
    };
    let falls_silent = Soak {
        silent_from: silent_from_s.map(second),
        ..soak.clone()
    };
    let mut world = World::new(1.0, 0.0, &[]);
    world.plan = read_plan(&text);
    world.machine.soaks =
        BTreeMap::from([("old".to_string(), soak), ("new".to_string(), falls_silent)]);
    world.run_text(dir, &text, |_| false).unwrap();
    load_run(dir)
}

#[test]
fn a_planned_outage_trips_no_gate() {
    // The link goes down at 60 s for five seconds, and service returns two seconds later.
    for (outage_at_s, is_planned) in [(60, true), (150, false)] {
        let dir = tempfile::tempdir().unwrap();
        let run = silent(dir.path(), outage_at_s, 7, None);
        let judgement = judge::judge(&run);
        let [soak] = &judgement.soaks[..] else {
            panic!("{:?}", judgement.soaks);
        };
        assert_eq!(judge::report::failures(soak, "old").is_empty(), is_planned);
        for arm in &soak.arms {
            let unplanned = arm.outage.map(|outage| (outage.at_ms, outage.length_ms));
            let planned = arm.planned_outage.as_ref();
            let planned = planned.map(|outage| (&*outage.name, outage.at_ms, outage.length_ms));
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
        let sentence =
            "no right answer for 7s while disturbed as planned (link-down), from 1m of trial";
        assert_eq!(text.contains(sentence), is_planned, "{text}");
        // With one block there is no advice for further blocks, and no plural.
        for wrong in ["write another seed", "1 blocks", "1 trials"] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
        assert!(
            text.contains("one block: the effects of the arm and of its place cannot be separated"),
            "{text}"
        );
    }
}

#[test]
fn a_trial_that_is_cut_short_keeps_its_disturbances() {
    let begun = |begin_s: u64, end_s: Option<u64>| BegunDisturbance {
        name: "link-down".into(),
        begin_ms: begin_s * 1000,
        end_ms: end_s.map(|end| end * 1000),
    };
    let known = [begun(20, Some(25)), begun(60, None)];
    let dir = tempfile::tempdir().unwrap();
    let run = silent(dir.path(), 0, 0, Some(63));
    let mut ended_early = 0;
    for record in &run.attempts {
        let trial = Tree::at(dir.path())
            .below("trials")
            .below(record.attempt_name());
        // For a complete trial, they are in the record instead.
        let is_void = matches!(record.outcome, Outcome::Void(_));
        assert_eq!(trial.has(rundir::DISTURBANCES), is_void, "{}", record.trial);
        if is_void {
            assert_eq!(record.trial.arm, "new");
            assert_eq!(read_begun(&trial, rundir::DISTURBANCES).unwrap(), known);
            let mut long_trials = run.long.iter();
            let long = long_trials.find(|long| long.trial == record.trial);
            assert_eq!(long.unwrap().disturbances, known);
            ended_early += 1;
        }
    }
    assert!(ended_early > 0);
}

/// Every kind of disturbance once, one after the other.
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
    let disturbances = kinds.iter().enumerate().map(|(index, (kind, keys))| {
        let at = 1 + 2 * index;
        format!("[[disturb]]\nkind = \"{kind}\"\n{keys}at = \"{at}s\"\nfor = \"1s\"\n")
    });
    disturbances.collect()
}

/// A plan of two kernels, at a rate that leaves guest and host mostly idle.
fn real(machine: &str, window: &str, disturb: &str) -> String {
    format!(
        "title = \"disturbed\"\nbaseline = \"one\"\n[machine]\nmemory = \"768MiB\"\n{machine}boot_timeout = \"10m\"\nsilence = \"10m\"\n\
         [image]\nrecipe = \"web\"\n[arm.one]\nkernel = \"debian:bookworm/6.1\"\n[arm.other]\nkernel = \"debian:trixie-backports/7.2\"\n\
         [[workload]]\nkind = \"web-soak\"\nserver = \"apache\"\nconnections = 4\nrate = 100\nwarmup = \"300ms\"\nwindow = \"{window}\"\n\
         {disturb}[design]\nmax_blocks = 1\n"
    )
}

fn effect_counts(record: &DisturbanceRecord) -> &BTreeMap<String, u64> {
    match &record.effect {
        Effect::Took { counts } => counts,
        effect => panic!("{}: {effect:?}", record.name),
    }
}

#[test]
#[ignore = "boots 2 guests: make test-all"]
fn every_kind_has_an_effect_in_a_real_guest_and_is_undone() {
    if !can_boot() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let plan = real("clock = \"instructions\"\n", "29s", &all_kinds());
    let run = run_to_end(dir.path(), &plan);
    let planned = run.plan.disturbances.iter();
    let kinds: BTreeSet<_> = planned.map(|disturbance| &*disturbance.name).collect();
    for (arm, measurement) in measurements(&run) {
        let records = &measurement.disturbances;
        let names: BTreeSet<_> = records.iter().map(|record| &*record.name).collect();
        assert_eq!(names, kinds, "{arm}");
        for record in records {
            let counts = effect_counts(record);
            assert!(counts.values().any(|count| *count > 0), "{arm}: {record:?}");
            assert!(record.begin_ms < record.end_ms, "{arm}: {record:?}");
        }
        // All disturbances were undone: the last seconds are like the first.
        let timeline = &measurement.load.as_ref().unwrap().timeline;
        let (first, last) = (&timeline[0], &timeline[28]);
        assert!(last.ok * 2 > first.ok, "{arm}: {first:?} {last:?}");
        assert_eq!(last.faults, 0, "{arm}");
    }
    // A worker that the disturbance killed does not count as a crash.
    for record in &run.attempts {
        let defects = &record.defects.as_ref().unwrap().found;
        let mut crashes = defects
            .iter()
            .filter(|defect| defect.kind == Kind::ServiceCrash);
        assert_eq!(crashes.next(), None);
    }
    let judgement = judge::judge(&run);
    let failed_checks = failed_checks(&judgement);
    assert!(
        !failed_checks.contains(&"planned-disturbances"),
        "{failed_checks:?}"
    );
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
        assert_eq!(effect_counts(record), &[("cpus-off".to_string(), 1)].into());
    }
}
