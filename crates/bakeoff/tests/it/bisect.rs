//! Bisections on fake machines with a known truth, and mistakes of users.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use bakeoff::bisect;
use bakeoff::bisect::{Bisect, Measured};
use bakeoff::lab::Finish;
use judge::topics::bisect::find::{OfRun, of_run, series};
use machine::fake::{Behaviour, FakeArm};
use plan::{Design, KernelArm, KernelComparison, comparing_kernels};
use record::bisect::{Bisection, Conclusion, JOURNAL, KernelConfig, Opened, VERSION, Version};
use record::rundir;
use record::trial::Outcome;
use workload::metric_names;

use crate::golden::golden;
use crate::program::bakeoff_with_new_cache as bakeoff;
use crate::program::{refusal, stderr};
use crate::simulated_lab::{PLAN, World, load_run, read_plan};

const DESIGN: Design = Design {
    margin: 0.02,
    error_rate: 0.01,
    max_blocks: 60,
    seed: 11,
    ..Design::DEFAULTS
};

fn name(place: usize) -> String {
    format!("6.{place}")
}

/// A world with these versions as arms. A version with rate zero does not boot.
fn world(text: &str, places: &[usize], rates_per_s: &[f64], seed: u64) -> World {
    let mut world = World::new(1.0, 0.003, &[]);
    world.plan = read_plan(text);
    world.machine.seed = seed;
    world.machine.arms.clear();
    for place in places {
        let arm = FakeArm {
            rate_per_s: rates_per_s[*place].max(1.0),
            noise: 0.003,
            one_fewer: 1.0,
            boots: if rates_per_s[*place] > 0.0 {
                Vec::new()
            } else {
                vec![Behaviour::Panics; 8]
            },
        };
        world.machine.arms.insert(name(*place), arm);
    }
    world
}

fn arms(places: &[usize]) -> Vec<KernelArm> {
    let arm = |place: &usize| KernelArm {
        name: name(*place),
        kernel: "debian:bookworm/6.1".into(),
        modules: None,
    };
    places.iter().map(arm).collect()
}

/// Measures one block with the real lab.
fn measure(dir: &Path, rates_per_s: &[f64], number: u32, candidate: usize) -> Result<Measured> {
    let last = rates_per_s.len() - 1;
    let places = [0, candidate, last];
    let kernels = KernelComparison {
        arms: &arms(&places),
        blocks: 1,
        seed: i64::from(number),
        error_rate: None,
        why: false,
    };
    let text = comparing_kernels(PLAN, kernels)?;
    let block_dir = dir.join(format!("blocks/{number:03}"));
    let world = world(&text, &places, rates_per_s, u64::from(number));
    world.run_text(&block_dir, &text, |_| false)?;
    let run = rundir::load(&block_dir, &workload::check)?;
    let [from, middle, to] = places.map(name);
    Ok(
        match of_run(&run, (&from, (&middle, candidate), &to), None) {
            OfRun::Measured(spec, block) => Measured::Block(spec, block),
            OfRun::Lacks(lacks) if lacks == [middle.clone()] => {
                Measured::NoCandidate("panic".into())
            }
            OfRun::Lacks(lacks) => Measured::NoEnd(lacks.join(", ")),
            OfRun::NoSuchMetric(known) => bail!("{known:?}"),
        },
    )
}

fn run_bisection(
    dir: &Path,
    versions: usize,
    measure: &dyn Fn(u32, usize) -> Result<Measured>,
) -> Result<(Bisection, Finish)> {
    run_bisection_with(dir, versions, None, measure)
}

fn run_bisection_with(
    dir: &Path,
    versions: usize,
    config: Option<&KernelConfig>,
    measure: &dyn Fn(u32, usize) -> Result<Measured>,
) -> Result<(Bisection, Finish)> {
    let version = |place| Version {
        name: name(place),
        about: String::new(),
        source: name(place),
        files: Vec::new(),
    };
    bisect::run(&Bisect {
        dir,
        title: "simulated",
        opened: Opened {
            version: VERSION,
            bakeoff: "test".into(),
            plan: "plan".into(),
            metric: None,
            config: config.cloned(),
            versions: (0..versions).map(version).collect(),
        },
        design: &DESIGN,
        first_cost: 1.2,
        measure,
        show: &|_| {},
    })
}

/// Rates of a series of twelve versions that are slower from version 8 on.
fn rates() -> Vec<f64> {
    let rate = |place| if place < 8 { 1000.0 } else { 950.0 };
    (0..12).map(rate).collect()
}

fn step(bisection: &Bisection) -> (usize, usize) {
    match bisection.conclusion {
        Conclusion::Found { before, after, .. } => (before, after),
        _ => panic!("{:?}", bisection.conclusion),
    }
}

#[test]
fn the_version_that_is_slower_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let rates = rates();
    let measure_block = |number, candidate| measure(dir.path(), &rates, number, candidate);
    let (bisection, finish) = run_bisection(dir.path(), 12, &measure_block).unwrap();
    assert_eq!((step(&bisection), finish), ((7, 8), Finish::Complete));
    assert_eq!(bisection.metric.unwrap().name, "throughput");
    assert!(bisection.blocks < 30, "{}", bisection.blocks);
}

#[test]
fn a_version_that_does_not_boot_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut rates = rates();
    rates[7] = 0.0;
    let measure_block = |number, candidate| measure(dir.path(), &rates, number, candidate);
    let (bisection, _) = run_bisection(dir.path(), 12, &measure_block).unwrap();
    assert_eq!(step(&bisection), (6, 8));
    let skipped = bisection
        .evidence
        .iter()
        .find(|evidence| evidence.candidate == 7);
    assert_eq!(skipped.unwrap().skipped.as_deref(), Some("panic"));
}

#[test]
fn an_end_of_the_series_that_does_not_boot_ends_the_bisection() {
    let dir = tempfile::tempdir().unwrap();
    let mut rates = rates();
    rates[11] = 0.0;
    let measure_block = |number, candidate| measure(dir.path(), &rates, number, candidate);
    let why = run_bisection(dir.path(), 12, &measure_block)
        .unwrap_err()
        .to_string();
    assert!(why.contains("without a figure of an end: 6.11"), "{why}");
}

/// The bisection is interrupted before each block, and its journal gets a torn last line. The
/// result must be the same.
#[test]
fn an_interrupted_bisection_resumes_with_the_same_result() {
    let (whole, torn) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rates = rates();
    let measure_block = |number, candidate| measure(whole.path(), &rates, number, candidate);
    let (expected, _) = run_bisection(whole.path(), 12, &measure_block).unwrap();
    let bisection = loop {
        let has_measured = Cell::new(false);
        let measure_one_block = |number, candidate| {
            if has_measured.replace(true) {
                return Ok(Measured::Interrupted);
            }
            measure(torn.path(), &rates, number, candidate)
        };
        let (bisection, finish) = run_bisection(torn.path(), 12, &measure_one_block).unwrap();
        if finish == Finish::Complete {
            break bisection;
        }
        let journal = torn.path().join(JOURNAL);
        let mut text = fs::read(&journal).unwrap();
        text.extend(b"{\"measured\": {\"num");
        fs::write(&journal, text).unwrap();
    };
    assert_eq!(bisection.versions, expected.versions);
    assert_eq!(bisection.evidence, expected.evidence);
    assert_eq!(bisection.steps, expected.steps);
}

#[test]
fn another_series_in_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let stop = |_, _| Ok(Measured::Interrupted);
    run_bisection(dir.path(), 12, &stop).unwrap();
    let why = run_bisection(dir.path(), 11, &stop)
        .unwrap_err()
        .to_string();
    assert!(why.contains("the series had 12 versions, has 11"), "{why}");
}

/// Also if that bisection is complete: its result would be about kernels that were never built.
#[test]
fn another_configuration_in_the_same_directory_is_refused() {
    let config = |name: Option<&str>, sha256: &str| KernelConfig {
        name: name.map(String::from),
        sha256: sha256.into(),
    };
    let mine = config(Some("mine.config"), "11112222333344");
    let edited = config(Some("mine.config"), "5555");
    let moved = config(Some("moved"), &mine.sha256);
    let bakeoffs = config(None, "7777");
    let dir = tempfile::tempdir().unwrap();
    let rates = rates();
    let measure_block = |number, candidate| measure(dir.path(), &rates, number, candidate);
    let refused = |config: &KernelConfig| {
        let why = run_bisection_with(dir.path(), 12, Some(config), &measure_block);
        why.unwrap_err().to_string()
    };
    let (expected, _) = run_bisection_with(dir.path(), 12, Some(&mine), &measure_block).unwrap();
    let why = refused(&edited);
    assert!(
        why.contains("the configuration was mine.config (111122223333), is mine.config (5555)"),
        "{why}"
    );
    assert!(refused(&bakeoffs).contains("is bakeoff's own (7777)"));
    let (bisection, _) = run_bisection_with(dir.path(), 12, Some(&moved), &measure_block).unwrap();
    assert_eq!(bisection, expected);
}

#[test]
fn a_run_of_all_versions_finds_all_steps_of_a_series() {
    let dir = tempfile::tempdir().unwrap();
    let rates = [1000.0, 1000.0, 1060.0, 1060.0, 1000.0, 1100.0];
    let places: Vec<usize> = (0..rates.len()).collect();
    let kernels = KernelComparison {
        arms: &arms(&places),
        blocks: series::fewest_blocks(rates.len() - 1, 0.05),
        seed: 0,
        error_rate: Some(0.05),
        why: false,
    };
    let text = comparing_kernels(PLAN, kernels).unwrap();
    let world = world(&text, &places, &rates, 5);
    world.run_text(dir.path(), &text, |_| false).unwrap();
    let run = load_run(dir.path());
    let names: Vec<String> = places.iter().map(|place| name(*place)).collect();
    let series = series::evaluate(&run, &names);
    let steps = series.metrics[0].steps.iter();
    let significant: Vec<usize> = steps
        .filter(|step| step.verdict.word() == "better" || step.verdict.word() == "worse")
        .map(|step| step.after)
        .collect();
    assert_eq!(significant, [2, 4, 5]);
    assert_eq!(series.metrics[0].shape, record::bisect::Shape::Mixed);
}

#[test]
fn a_metric_that_the_workload_cannot_have_is_refused_before_anything_is_fetched() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    let args = ["bisect", "plan.toml", "--from", "6.1", "--to", "7.2"];
    let output = bakeoff(dir.path(), &[&args[..], &["--metric", "nothere"]].concat());
    let error = refusal(&output);
    let want = "has no metric \"nothere\" (name one of capacity, throughput, latency-mean,";
    assert!(error.contains(want), "{error}");
    // Not even a list of packages was fetched.
    assert!(!dir.path().join("cache/bakeoff/apt").exists());
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn metrics_of_stored_runs_are_known_for_their_workloads() {
    let golden = ["workloads", "failed", "real", "worse", "undecided"].map(golden);
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let samples = root.join("../../docs/samples/web-static");
    let mut checked = 0;
    for dir in golden.iter().chain([&samples]) {
        let run = load_run(dir);
        for attempt in &run.attempts {
            let Outcome::Measured(measurement) = &attempt.outcome else {
                continue;
            };
            let mut workloads = run.plan.workloads.iter();
            let workload = workloads.find(|workload| workload.id == attempt.trial.workload);
            for figure in &measurement.figures {
                let name = &figure.spec.name;
                assert!(
                    metric_names::has(workload.unwrap(), name),
                    "{name} in {}",
                    dir.display()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "{checked} figures");
}

fn git(dir: &Path, args: &[&str]) {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir);
    git.args(["-c", "user.name=A", "-c", "user.email=a@example.org"]);
    let output = git.args(args).output().expect("git runs");
    assert!(output.status.success(), "{output:?}");
}

/// Runs a command on a small git repository with a merge, after `change`. The command must end with
/// status 2; returns standard error.
fn refused(args: &[&str], change: impl Fn(&Path)) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    let tree = dir.path().join("tree");
    fs::create_dir(&tree).unwrap();
    git(&tree, &["init", "-q", "-b", "main"]);
    for number in ["1", "2", "3"] {
        fs::write(tree.join("file"), number).unwrap();
        git(&tree, &["add", "file"]);
        git(&tree, &["commit", "-q", "-m", number]);
        git(&tree, &["tag", &format!("v{number}")]);
    }
    git(&tree, &["checkout", "-q", "-b", "side", "v1"]);
    git(&tree, &["commit", "-q", "--allow-empty", "-m", "side"]);
    git(&tree, &["tag", "side-1"]);
    git(&tree, &["checkout", "-q", "main"]);
    git(&tree, &["merge", "-q", "--no-edit", "side"]);
    change(&tree);
    let error = refusal(&bakeoff(dir.path(), args));
    error.replace(&*dir.path().to_string_lossy(), "DIR")
}

fn bisect_args(commits: &str) -> [&str; 6] {
    [
        "bisect",
        "plan.toml",
        "--tree",
        "tree",
        "--commits",
        commits,
    ]
}

fn refused_commits(commits: &str) -> String {
    refused(&bisect_args(commits), |_| {})
}

#[test]
fn invalid_ranges_of_commits_are_refused() {
    let error = refused_commits("v1");
    assert!(
        error.contains("not a range of commits: v1 (write GOOD..BAD"),
        "{error}"
    );
    let error = refused_commits("v1..v9");
    assert!(error.contains("no such commit: v9"), "{error}");
    let error = refused_commits("v3..v1");
    assert!(error.contains("no commit in v3..v1"), "{error}");
    let error = refused_commits("side-1..main");
    assert!(
        error.contains("not on the line of first parents"),
        "{error}"
    );
    let error = refused_commits("v2..v3");
    assert!(error.contains("nothing lies between"), "{error}");
}

#[test]
fn merges_and_changed_files_are_reported() {
    let error = refused(&bisect_args("v1..main"), |tree| {
        fs::write(tree.join("file"), "mine").unwrap();
    });
    assert!(error.contains("note: 1 of 3 commits are merges"), "{error}");
    assert!(
        error.contains("note: a file was changed in tree since its last commit, file: it is in"),
        "{error}"
    );
}

#[test]
fn a_missing_or_changed_configuration_is_refused() {
    let args = bisect_args("v1..main");
    let with_config = [&args[..], &["--config", "mine"]].concat();
    // The bisection begins, and ends because this is not a kernel tree.
    let begin = |tree: &Path| {
        let dir = tree.parent().unwrap();
        let error = stderr(&bakeoff(dir, &args));
        assert!(error.contains("not a kernel tree"), "{error}");
    };
    let error = refused(&with_config, begin);
    assert!(
        error.contains("cannot read configuration mine: "),
        "{error}"
    );
    let error = refused(&with_config, |tree| {
        begin(tree);
        fs::write(tree.with_file_name("mine"), "CONFIG_SMP=y\n").unwrap();
    });
    assert!(
        error.contains("the configuration was bakeoff's own (") && error.contains("is mine ("),
        "{error}"
    );
}

#[test]
fn trees_that_cannot_be_built_are_refused() {
    let dirty = |tree: &Path| fs::write(tree.join("file"), "mine").unwrap();
    let error = refused(&["cache", "kernel", "build", "tree"], dirty);
    assert!(
        error.contains("files were changed since the last commit: file"),
        "{error}"
    );
    let error = refused(&["cache", "kernel", "build", "tree"], |_| {});
    assert!(error.contains("not a kernel tree"), "{error}");
    let error = refused(&["cache", "kernel", "build", "none"], |_| {});
    assert!(error.contains("no such directory: none"), "{error}");
    let args = ["cache", "kernel", "build", "tree", "--config", "plan.toml"];
    let error = refused(&args, |_| {});
    assert!(error.contains("not a kernel configuration"), "{error}");
}
