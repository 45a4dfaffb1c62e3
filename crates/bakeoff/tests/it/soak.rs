//! Days of load on a fake machine, with the real session, lab, journal, record and report. Stored
//! data does not grow with time, and is on disk whenever the program ends.

use std::cell::Cell;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bakeoff::lab;
use bakeoff::lab::{Activity, Finish, Lab, LabEvent};
use base::input::tree::Tree;
use base::input::units::{show_bytes, show_duration};
use base::skip::limits::peak_bytes;
use machine::fake::soak::Soak;
use record::defect::{DefectSource, FoundDefect, Kind, Severity, When};
use record::evidence::{EvidenceFile, Sample};
use record::journal::{Entry, Event};
use record::load::{Second, Tick};
use record::rundir::{DEFECTS, Run, RunDir, SECONDS};
use record::streamed;
use record::thinned::{MOST_POINTS, Point as _};
use record::trial::{Outcome, VoidReason};
use record::verdict::defects::Side;
use record::verdict::soak::{GrowthPlace, Quality};

use crate::simulated_lab::{World, load_run, read_plan};

const DAY: Duration = Duration::from_secs(86_400);

/// Requests in each second.
const RATE: u64 = 40;

/// A plan with this window.
fn plan(window: Duration) -> String {
    format!(
        "title = \"a simulated soak\"\nbaseline = \"old\"\n[machine]\ntrial_limit = \"{}\"\n[image]\nrecipe = \"web\"\n\
         [arm.old]\nkernel = \"debian:bookworm/6.1\"\n[arm.new]\nkernel = \"debian:trixie-backports/7.2\"\n\
         [[workload]]\nkind = \"web-soak\"\nserver = \"apache\"\nconnections = 4\nwarmup = \"1s\"\nwindow = \"{}\"\n\
         [design]\nmin_blocks = 2\nmax_blocks = 2\nseed = 11\n",
        show_duration(window + DAY),
        show_duration(window),
    )
}

/// When to interrupt a run.
enum Stop {
    /// After this many trials.
    Trials(u32),
    /// When this many seconds of load were reported.
    Seconds(u32),
}

/// Runs a soak in `dir`. Calls `on_second` for each reported second of load.
fn run(dir: &Path, soaks: [Soak; 2], stop: &Stop, on_second: &dyn Fn(u32)) -> Finish {
    let [old, new] = soaks;
    let text = plan(old.window);
    let mut world = World::new(1.0, 0.0, &[]);
    for arm in world.machine.arms.values_mut() {
        arm.rate_per_s = RATE as f64;
    }
    world.machine.soaks = [("old".to_string(), old), ("new".to_string(), new)].into();
    let plan = read_plan(&text);
    let (interrupted, ended) = (AtomicBool::new(false), Cell::new(0));
    let show = |event: LabEvent<'_>| {
        let is_over = match event {
            LabEvent::Before(entries) => {
                let is_end = |entry: &&Entry| matches!(entry.event, Event::Ended { .. });
                ended.set(entries.iter().filter(is_end).count() as u32);
                false
            }
            LabEvent::Entry(entry) => {
                let is_end = matches!(entry.event, Event::Ended { .. });
                ended.set(ended.get() + u32::from(is_end));
                is_end && matches!(stop, Stop::Trials(most) if *most <= ended.get())
            }
            LabEvent::Activity(_, Activity::Tick(Tick { second, .. })) => {
                on_second(*second);
                matches!(stop, Stop::Seconds(most) if most <= second)
            }
            LabEvent::Activity(..) | LabEvent::Record(_) | LabEvent::FailedChecks { .. } => false,
        };
        interrupted.fetch_or(is_over, Ordering::Relaxed);
    };
    let dir = RunDir::open(dir, &text).unwrap();
    let lab = Lab {
        plan: &plan,
        dir: &dir,
        machine: &world.machine,
        clock: &world.machine.clock,
        greeting: &world.machine.greeting,
        interrupted: &interrupted,
        jobs: 1,
        extension: None,
        remeasures_ceilings: false,
        show: &show,
    };
    lab::run(&lab, World::opening(&text)).unwrap()
}

fn calm(window: Duration) -> [Soak; 2] {
    [Soak::calm(window), Soak::calm(window)]
}

/// The path of a file of an attempt.
fn trial_file(dir: &Path, attempt: &str, file: &str) -> PathBuf {
    dir.join("trials").join(attempt).join(file)
}

fn trial(dir: &Path, attempt: &str) -> Tree {
    Tree::at(dir).below("trials").below(attempt)
}

fn seconds(dir: &Path, attempt: &str) -> Vec<Second> {
    streamed::read(&trial(dir, attempt), SECONDS).unwrap()
}

fn samples(dir: &Path, attempt: &str) -> Vec<Sample> {
    let file = EvidenceFile::Samples.name();
    streamed::read(&trial(dir, attempt), file).unwrap()
}

/// Checks that these are the first `count` seconds of a run, each once, even if thinned.
fn check_first_seconds(seconds: &[Second], count: u64) {
    let sum = |value: fn(&Second) -> u64| seconds.iter().map(value).sum::<u64>();
    assert_eq!(sum(Second::length_ms), count * 1000);
    assert_eq!(sum(|second| second.ok), count * RATE);
    assert_eq!(sum(|second| second.latency.unpack().count()), count * RATE);
    assert!(seconds.is_sorted_by_key(|second| second.at_ms));
}

fn length_s(seconds: &[Second]) -> u64 {
    seconds.iter().map(Second::length_ms).sum::<u64>() / 1000
}

fn bytes_below(dir: &Path) -> u64 {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        bytes += if metadata.is_dir() {
            bytes_below(&entry.path())
        } else {
            metadata.len()
        };
    }
    bytes
}

/// Checks the record of a soak with this window.
fn check_record(dir: &Path, window: Duration) {
    let run = load_run(dir);
    assert_eq!((run.attempts.len(), run.missing.as_slice()), (2, &[][..]));
    for (record, attempt) in run.attempts.iter().zip(["001", "002"]) {
        let Outcome::Measured(measurement) = &record.outcome else {
            panic!("{:?}", record.outcome);
        };
        let timeline = &measurement.load.as_ref().unwrap().timeline;
        check_first_seconds(timeline, window.as_secs());
        assert!(timeline.len() < MOST_POINTS / 2, "{}", timeline.len());
        // The seconds are in the record instead.
        assert!(!trial_file(dir, attempt, SECONDS).exists());
        let samples = samples(dir, attempt);
        assert!(samples.len() < MOST_POINTS / 2, "{}", samples.len());
        let length_ms: u64 = samples.iter().map(|sample| sample.interval_ms).sum();
        assert_eq!(u128::from(length_ms), window.as_millis());
    }
    // Each of two trials keeps some 5,000 points of samples and of seconds.
    let bytes = bytes_below(dir);
    assert!(bytes < 40 << 20, "{}", show_bytes(bytes));
}

#[test]
#[ignore = "a day of seconds, 36 s of CPU time: make test-all"]
fn a_day_of_load_is_stored_in_a_limited_size() {
    check_size(DAY);
}

fn check_size(window: Duration) {
    let dir = tempfile::tempdir().unwrap();
    let mut soaks = calm(window);
    soaks[0].has_line = true;
    let finish = run(dir.path(), soaks, &Stop::Trials(2), &|_| {});
    assert_eq!(finish, Finish::Interrupted);
    check_record(dir.path(), window);
}

#[test]
fn a_trial_that_falls_silent_keeps_its_data() {
    let dir = tempfile::tempdir().unwrap();
    let mut soaks = calm(DAY);
    for soak in &mut soaks {
        soak.silent_from = Some(Duration::from_secs(5000));
    }
    run(dir.path(), soaks, &Stop::Trials(1), &|_| {});
    let run = load_run(dir.path());
    let Outcome::Void(void) = &run.attempts[0].outcome else {
        panic!("{:?}", run.attempts[0].outcome);
    };
    assert_eq!(void.reason, VoidReason::Silent);
    check_first_seconds(&seconds(dir.path(), "001"), 5000);
    let soak = judge::judge(&run).soaks.remove(0);
    let arm = soak.arms.iter().find(|arm| arm.trials > 0).unwrap();
    assert_eq!(arm.cut_short[0].at_ms, 5_000_000);
    assert_eq!(arm.requests, 5000 * RATE);
    let samples = samples(dir.path(), "001");
    assert_eq!(samples.last().unwrap().at_ms, 5_000_000);
    // The oldest samples are thinned to minutes by now.
    assert!(samples.len() < 4000, "{}", samples.len());
}

#[test]
fn an_interrupted_trial_is_kept_beside_the_repeated_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = None;
    for stopped in [100, 50] {
        let stop = Stop::Seconds(stopped);
        let finish = run(dir.path(), calm(DAY), &stop, &|_| {});
        assert_eq!(finish, Finish::Interrupted);
        // The attempt runs in a separate thread, and may receive more seconds before it stops.
        let kept = seconds(dir.path(), "001");
        let count = length_s(&kept);
        assert!(u64::from(stopped) <= count, "{count}");
        check_first_seconds(&kept, count);
        if let Some(first) = first.replace(kept) {
            assert_eq!(seconds(dir.path(), "001.interrupted-1"), first);
        }
    }
    // The empty directory of an attempt without data is removed.
    let nothing = trial_file(dir.path(), "001", "");
    fs::remove_dir_all(&nothing).unwrap();
    fs::create_dir(&nothing).unwrap();
    run(dir.path(), calm(DAY), &Stop::Seconds(1), &|_| {});
    let kept = fs::read_dir(dir.path().join("trials")).unwrap().count();
    assert_eq!(kept, 2);
}

/// Set in the process that is killed, to the run's directory.
const KILLED: &str = "BAKEOFF_SOAK_KILLED";

/// How often the soak is killed; `BAKEOFF_SOAK_KILLS` sets another number.
const KILLS: u64 = 4;

#[test]
fn a_kill_at_any_time_loses_at_most_the_last_second() {
    if let Some(dir) = std::env::var_os(KILLED) {
        let print = |second| println!("heard {second}");
        run(Path::new(&dir), calm(DAY), &Stop::Trials(1), &print);
        return;
    }
    let kills = std::env::var("BAKEOFF_SOAK_KILLS");
    let kills = kills.map_or(KILLS, |kills| kills.parse().unwrap());
    let mut random = record::prng::SplitMix64::new(5);
    for _ in 0..kills {
        // After the second in which the files are first rewritten.
        kill_after(100 + random.below(4500) as u32);
    }
}

fn kill_after(second: u32) {
    let dir = tempfile::tempdir().unwrap();
    let name = "soak::a_kill_at_any_time_loses_at_most_the_last_second";
    let mut soak = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(KILLED, dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(soak.stdout.take().unwrap()).lines();
    let reported_seconds = lines.map_while(Result::ok).filter_map(|line| {
        let (_, second) = line.rsplit_once("heard ")?;
        second.parse::<u32>().ok()
    });
    let mut last = 0;
    let mut is_killed = false;
    for reported in reported_seconds {
        last = reported;
        if reported >= second && !is_killed {
            is_killed = true;
            soak.kill().unwrap();
        }
    }
    soak.wait().unwrap();
    assert!(is_killed, "the soak ended by itself after {last} s");
    let kept = seconds(dir.path(), "001");
    let count = length_s(&kept);
    assert!(u64::from(last) <= count, "{last} heard, {count} kept");
    check_first_seconds(&kept, count);
    let sampled_ms = samples(dir.path(), "001").last().map(|sample| sample.at_ms);
    assert!(sampled_ms.unwrap() >= i64::from(last) * 1000 - 1000);
}

/// Checks that all faults of arm `new` are found, and nothing else.
fn check_judgement_of_faults(run: &Run) {
    let judgement = judge::judge(run);
    let [soak] = &judgement.soaks[..] else {
        panic!("{:?}", judgement.soaks)
    };
    let growth = soak.growth.iter();
    let mut grown: Vec<&str> = growth.map(|growth| &*growth.counter).collect();
    grown.sort_unstable();
    let expected = [
        "memory:slab-unreclaimable",
        "memory:used",
        "service-files:apache2",
        "slab:skbuff_head_cache",
    ];
    assert_eq!(grown, expected);
    for growth in &soak.growth {
        assert_eq!(growth.against[0].arm, "new");
        assert_eq!(growth.against[0].place, GrowthPlace::ArmOnly, "{growth:?}");
    }
    let [old, new] = &soak.arms[..] else {
        panic!("{:?}", soak.arms)
    };
    assert_eq!((old.outage, &*old.changes), (None, &[][..]));
    let outage = new.outage.unwrap();
    assert_eq!((outage.at_ms, outage.length_ms), (3_600_000, 40_000));
    let mut changes = new.changes.iter();
    let p99 = changes.find(|change| change.quality == Quality::P99);
    let p99 = p99.unwrap();
    assert!(p99.at_ms.abs_diff(7_200_000) <= 450_000, "{p99:?}");
    assert!((1.8..2.2).contains(&(p99.after / p99.before)), "{p99:?}");
    assert!(
        new.changes
            .iter()
            .all(|change| change.quality != Quality::Throughput)
    );
    assert_eq!(judge::report::growth(soak).len(), 1);
    assert_eq!(judge::report::failures(soak, "old").len(), 1);
    let text = judge::report::terminal(run, &judgement, &[], 100);
    for part in [
        "grows in new only: slab cache skbuff_head_cache, ",
        "new: no right answer for 40s, from 1h of trial",
        "new: p99 latency changed about ",
        "no verdict on speed: in these trials new served",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn nothing_is_found_in_a_calm_soak_of_a_limited_size() {
    check_calm_soaks(1);
}

#[test]
#[ignore = "four soaks: make test-all"]
fn nothing_is_found_in_many_calm_soaks() {
    check_calm_soaks(4);
}

/// The seeds are fixed, because the rule may find growth in one of twenty calm soaks.
fn check_calm_soaks(count: u64) {
    let window = Duration::from_secs(2 * 3600);
    for seed in 0..count {
        let dir = tempfile::tempdir().unwrap();
        let mut soaks = calm(window);
        soaks[0].seed = 2 * seed;
        soaks[1].seed = 2 * seed + 1;
        run(dir.path(), soaks, &Stop::Trials(2), &|_| {});
        check_record(dir.path(), window);
        let run = load_run(dir.path());
        let soak = judge::judge(&run).soaks.remove(0);
        assert_eq!(soak.growth, [], "seed {seed}");
        assert!(soak.rule.tested > 200, "{:?}", soak.rule);
        for arm in &soak.arms {
            let findings = (arm.outage, arm.changes.len(), arm.failures);
            assert_eq!(findings, (None, 0, 0), "seed {seed}: {:?}", arm.changes);
        }
        assert!(judge::report::growth(&soak).is_empty());
        assert!(judge::report::failures(&soak, "old").is_empty());
    }
}

#[test]
fn growth_and_slowness_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let window = Duration::from_secs(3 * 3600);
    let mut soaks = calm(window);
    soaks[1].leak_bytes_per_h = 10 << 20;
    soaks[1].descriptors_per_h = 2000;
    soaks[1].slower_from = Some(Duration::from_secs(2 * 3600));
    soaks[1].outage = Some((Duration::from_secs(3600), Duration::from_secs(40)));
    soaks[1].seed = 1;
    run(dir.path(), soaks, &Stop::Trials(2), &|_| {});
    let run = load_run(dir.path());
    check_judgement_of_faults(&run);
    for (record, attempt) in run.attempts.iter().zip(["001", "002"]) {
        let is_planted = record.trial.arm == "new";
        let samples = samples(dir.path(), attempt);
        let slab = |sample: Option<&Sample>| sample.unwrap().memory.slab_bytes >> 20;
        let grown_mib = slab(samples.last()) - slab(samples.first());
        let expected = if is_planted { 29..=31 } else { 0..=0 };
        assert!(expected.contains(&grown_mib), "{attempt}: {grown_mib}");
        let Outcome::Measured(measurement) = &record.outcome else {
            panic!("measured");
        };
        let timeline = &measurement.load.as_ref().unwrap().timeline;
        let (early, late): (Vec<_>, Vec<_>) = timeline
            .iter()
            .cloned()
            .partition(|second| second.at_ms < 7_200_000);
        let p99 =
            |seconds: &[Second]| Second::join(seconds).latency.unpack().quantile_ns(0.99) as f64;
        let slower = p99(&late) / p99(&early);
        let expected = if is_planted { 1.9..2.1 } else { 0.9..1.1 };
        assert!(expected.contains(&slower), "{attempt}: {slower}");
    }
}

/// A defect as a guest reports it.
fn defect(source: DefectSource, kind: Kind, top: &str) -> FoundDefect {
    FoundDefect {
        source,
        kind,
        severity: Severity::Defect,
        top: top.into(),
        count: 1,
        first: When::default(),
        last: When::default(),
        ok_per_s: None,
        lines: vec![format!("{} at {top}", kind.name())],
    }
}

/// An oops, a hung task and a crash of a server, at their times.
fn timed_defects() -> Vec<(Duration, FoundDefect)> {
    let kernel = |kind, top| defect(DefectSource::Kernel, kind, top);
    let crash = defect(
        DefectSource::Service,
        Kind::ServiceCrash,
        "apache2: SIGSEGV",
    );
    [
        (60, kernel(Kind::Oops, "tcp_ack")),
        (300, kernel(Kind::HungTask, "io_schedule")),
        (550, crash),
    ]
    .map(|(at, defect)| (Duration::from_secs(at), defect))
    .into()
}

#[test]
fn defects_are_found_in_their_arm() {
    for planted_in in [0, 1] {
        let dir = tempfile::tempdir().unwrap();
        let mut soaks = calm(Duration::from_secs(560));
        soaks[planted_in].defects = timed_defects();
        soaks[planted_in].has_line = true;
        run(dir.path(), soaks, &Stop::Trials(2), &|_| {});
        let run = load_run(dir.path());
        let judgement = judge::judge(&run);
        let side = [Side::OnlyBaseline, Side::OnlyArm][planted_in];
        let defects = judgement.defects.found.iter();
        let defects: Vec<_> = defects
            .map(|defect| (defect.kind, defect.side, defect.trials.arm))
            .collect();
        let trials = planted_in as u32;
        let expected = [Kind::Oops, Kind::HungTask, Kind::ServiceCrash];
        assert_eq!(defects, expected.map(|kind| (kind, side, trials)));
        let first = &judgement.defects.found[1].first;
        assert_eq!(first.at.window_ms, Some(300_000));
        // Requests served in the second of the defect.
        assert_eq!(first.ok_per_s, Some(RATE));
        let text = judge::report::terminal(&run, &judgement, &[], 200);
        let line = ["only in old: ", "new in new: "][planted_in];
        let line = format!("{line}1 oops (tcp_ack), 1 hung task (io_schedule), 1 service crash (");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn equal_arms_have_no_defects() {
    let dir = tempfile::tempdir().unwrap();
    let soaks = calm(Duration::from_secs(60));
    run(dir.path(), soaks, &Stop::Trials(2), &|_| {});
    let run = load_run(dir.path());
    let judgement = judge::judge(&run);
    assert_eq!(judgement.defects.found, []);
    let text = judge::report::terminal(&run, &judgement, &[], 200);
    assert!(
        text.contains("\nno defect in the kernel's log in 2 trials\n"),
        "{text}"
    );
}

#[test]
fn a_trial_that_is_cut_short_keeps_its_defects() {
    let dir = tempfile::tempdir().unwrap();
    let mut soaks = calm(DAY);
    for soak in &mut soaks {
        soak.defects = timed_defects();
        soak.silent_from = Some(Duration::from_secs(500));
    }
    run(dir.path(), soaks.clone(), &Stop::Trials(1), &|_| {});
    let cut_short = load_run(dir.path());
    assert!(matches!(cut_short.attempts[0].outcome, Outcome::Void(_)));
    let log = cut_short.attempts[0].defects.as_ref().unwrap();
    assert_eq!(log.found.len(), 2);
    assert_eq!(judge::judge(&cut_short).defects.read(), 1);
    let lines = fs::read_to_string(trial_file(dir.path(), "001", DEFECTS)).unwrap();
    assert_eq!(lines.lines().count(), 2, "{lines}");
    // An interrupted trial has no record; its file is kept beside the repeated trial.
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        run(dir.path(), soaks.clone(), &Stop::Seconds(70), &|_| {});
    }
    let lines = trial_file(dir.path(), "001.interrupted-1", DEFECTS);
    assert!(fs::read_to_string(lines).unwrap().contains("tcp_ack"));
}

/// Prints time, memory and sizes for a day of load, or for `SOAK_DAYS` days.
#[test]
#[ignore = "a day of seconds, or more: make test-all"]
fn simulated_soak() {
    let days = std::env::var("SOAK_DAYS").map_or(1, |days| days.parse().expect("a whole number"));
    let window = DAY * days;
    let dir = tempfile::tempdir().unwrap();
    let mut soaks = calm(window);
    let sent_bytes = soaks[0].told_bytes.clone();
    for soak in &mut soaks {
        soak.has_line = true;
        soak.told_bytes = sent_bytes.clone();
    }
    let start = Instant::now();
    run(dir.path(), soaks, &Stop::Trials(2), &|_| {});
    let ran = start.elapsed();
    let lab_peak = peak_bytes("self").unwrap();
    check_record(dir.path(), window);
    let record = bytes_below(dir.path());
    let start = Instant::now();
    let run = load_run(dir.path());
    let judgement = judge::judge(&run);
    let page = judge::report::html(&run, &judgement, &[]);
    let reported = start.elapsed();
    println!("two trials of {days} days, one request generator and one lab in this process");
    println!("time taken           {:.0} s", ran.as_secs_f64());
    println!(
        "sent by the agents   {}",
        show_bytes(sent_bytes.load(Ordering::Relaxed))
    );
    println!("peak memory, lab     {}", show_bytes(lab_peak));
    println!(
        "peak memory, report  {}",
        show_bytes(peak_bytes("self").unwrap())
    );
    println!("record               {} (bar 200 MB)", show_bytes(record));
    println!(
        "report, time         {:.2} s (bar 5 s)",
        reported.as_secs_f64()
    );
    println!("report, size         {}", show_bytes(page.len() as u64));
    assert!(record <= 200_000_000, "{record} bytes");
}
