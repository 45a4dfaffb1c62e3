//! Bisections: on fake machines with a known truth, and what a user can get wrong.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};
use bakeoff::bisect;
use bakeoff::bisect::{Bisect, Measured};
use bakeoff::lab::Finish;
use judge::topics::bisect::find::{OfRun, of_run, walk};
use machine::fake::{Behaviour, FakeArm};
use plan::{Checks, Design, KernelArm, OfKernels, of_kernels};
use record::bisect::{Bisection, Conclusion, JOURNAL, KernelConfig, Opened, VERSION, Version};
use record::rundir;
use record::trial::Outcome;
use workload::metric_names;

use crate::program::bakeoff_with_new_cache as bakeoff;
use crate::simulated_lab::{PLAN, World};

const DESIGN: Design = Design {
    margin: 0.02,
    error_rate: 0.01,
    min_blocks: 4,
    max_blocks: 60,
    more_blocks: 0,
    seed: 11,
    arms: 0,
};

fn name(place: usize) -> String {
    format!("6.{place}")
}

/// A world with these versions; one that serves nothing does not boot.
fn world(text: &str, places: &[usize], rates_per_s: &[f64], seed: u64) -> World {
    let mut world = World::new(1.0, 0.003, &[]);
    let checks = Checks::of_the_past(&workload::check);
    world.plan = plan::read("plan.toml", text, Path::new(""), checks).unwrap();
    world.machine.seed = seed;
    let arm = |place: &usize| {
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
        (name(*place), arm)
    };
    world.machine.arms = places.iter().map(arm).collect();
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

/// One block on the real lab.
fn measure(dir: &Path, rates_per_s: &[f64], number: u32, candidate: usize) -> Result<Measured> {
    let last = rates_per_s.len() - 1;
    let places = [0, candidate, last];
    let asked = OfKernels {
        arms: &arms(&places),
        blocks: 1,
        seed: i64::from(number),
        error_rate: None,
        why: false,
    };
    let text = of_kernels(PLAN, asked)?;
    let place = dir.join(format!("blocks/{number:03}"));
    let world = world(&text, &places, rates_per_s, u64::from(number));
    world.run_text(&place, &text, |_| false)?;
    let run = rundir::load(&place, &workload::check)?;
    let [from, own, to] = places.map(name);
    Ok(match of_run(&run, (&from, (&own, candidate), &to), None) {
        OfRun::Measured(spec, block) => Measured::Block(spec, block),
        OfRun::Lacks(lacks) if lacks == [own.clone()] => Measured::NoCandidate("panic".into()),
        OfRun::Lacks(lacks) => Measured::NoEnd(lacks.join(", ")),
        OfRun::NoSuchMetric(known) => bail!("{known:?}"),
    })
}

fn bisected(
    dir: &Path,
    versions: usize,
    measure: &dyn Fn(u32, usize) -> Result<Measured>,
) -> Result<(Bisection, Finish)> {
    bisected_with(dir, versions, None, measure)
}

fn bisected_with(
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
            line: (0..versions).map(version).collect(),
        },
        design: &DESIGN,
        first_cost: 1.2,
        measure,
        show: &|_| {},
    })
}

/// A line of twelve that is slower from the eighth on.
fn rates() -> Vec<f64> {
    let rate = |place| if place < 8 { 1000.0 } else { 950.0 };
    (0..12).map(rate).collect()
}

fn step(found: &Bisection) -> (usize, usize) {
    match found.conclusion {
        Conclusion::Found { before, after, .. } => (before, after),
        _ => panic!("{:?}", found.conclusion),
    }
}

#[test]
fn the_version_that_is_slower_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let rates = rates();
    let ask = |number, candidate| measure(dir.path(), &rates, number, candidate);
    let (found, finish) = bisected(dir.path(), 12, &ask).unwrap();
    assert_eq!((step(&found), finish), ((7, 8), Finish::Complete));
    assert_eq!(found.metric.unwrap().name, "throughput");
    assert!(found.blocks < 30, "{}", found.blocks);
}

#[test]
fn a_version_that_does_not_boot_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut rates = rates();
    rates[7] = 0.0;
    let ask = |number, candidate| measure(dir.path(), &rates, number, candidate);
    let (found, _) = bisected(dir.path(), 12, &ask).unwrap();
    assert_eq!(step(&found), (6, 8));
    let skipped = found.evidence.iter().find(|one| one.candidate == 7);
    assert_eq!(skipped.unwrap().skipped.as_deref(), Some("panic"));
}

#[test]
fn an_end_that_does_not_boot_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut rates = rates();
    rates[11] = 0.0;
    let ask = |number, candidate| measure(dir.path(), &rates, number, candidate);
    let why = bisected(dir.path(), 12, &ask).unwrap_err().to_string();
    assert!(why.contains("without a figure of an end: 6.11"), "{why}");
}

/// Interrupted before each of its blocks, and with a torn last line, it asks the same and finds the same.
#[test]
fn a_bisection_that_is_interrupted_goes_on_as_if_it_had_not_been() {
    let (whole, torn) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rates = rates();
    let ask = |number, candidate| measure(whole.path(), &rates, number, candidate);
    let (expected, _) = bisected(whole.path(), 12, &ask).unwrap();
    let found = loop {
        let asked = Cell::new(false);
        let ask_once = |number, candidate| {
            if asked.replace(true) {
                return Ok(Measured::Interrupted);
            }
            measure(torn.path(), &rates, number, candidate)
        };
        let (found, finish) = bisected(torn.path(), 12, &ask_once).unwrap();
        if finish == Finish::Complete {
            break found;
        }
        let journal = torn.path().join(JOURNAL);
        let mut text = fs::read(&journal).unwrap();
        text.extend(b"{\"measured\": {\"num");
        fs::write(&journal, text).unwrap();
    };
    assert_eq!(found.line, expected.line);
    assert_eq!(found.evidence, expected.evidence);
    assert_eq!(found.steps, expected.steps);
}

#[test]
fn another_line_in_the_same_directory_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let stop = |_, _| Ok(Measured::Interrupted);
    bisected(dir.path(), 12, &stop).unwrap();
    let why = bisected(dir.path(), 11, &stop).unwrap_err().to_string();
    assert!(why.contains("the line had 12 versions, has 11"), "{why}");
}

/// One that has ended too: it would answer for kernels that were never built.
#[test]
fn another_configuration_in_the_same_directory_is_refused() {
    let config = |name: Option<&str>, sha256: &str| KernelConfig {
        name: name.map(String::from),
        sha256: sha256.into(),
    };
    let mine = config(Some("mine.config"), "11112222333344");
    let (edited, moved) = (
        config(Some("mine.config"), "5555"),
        config(Some("moved"), &mine.sha256),
    );
    let own = config(None, "7777");
    let dir = tempfile::tempdir().unwrap();
    let rates = rates();
    let ask = |number, candidate| measure(dir.path(), &rates, number, candidate);
    let refused = |config: &KernelConfig| {
        let why = bisected_with(dir.path(), 12, Some(config), &ask);
        why.unwrap_err().to_string()
    };
    let (expected, _) = bisected_with(dir.path(), 12, Some(&mine), &ask).unwrap();
    let why = refused(&edited);
    assert!(
        why.contains("the configuration was mine.config (111122223333), is mine.config (5555)"),
        "{why}"
    );
    assert!(refused(&own).contains("is bakeoff's own (7777)"));
    let (found, _) = bisected_with(dir.path(), 12, Some(&moved), &ask).unwrap();
    assert_eq!(found, expected);
}

#[test]
fn a_walk_tells_all_steps_of_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let rates = [1000.0, 1000.0, 1060.0, 1060.0, 1000.0, 1100.0];
    let places: Vec<usize> = (0..rates.len()).collect();
    let asked = OfKernels {
        arms: &arms(&places),
        blocks: walk::fewest_blocks(rates.len() - 1, 0.05),
        seed: 0,
        error_rate: Some(0.05),
        why: false,
    };
    let text = of_kernels(PLAN, asked).unwrap();
    let world = world(&text, &places, &rates, 5);
    world.run_text(dir.path(), &text, |_| false).unwrap();
    let run = rundir::load(dir.path(), &workload::check).unwrap();
    let names: Vec<String> = places.iter().map(|place| name(*place)).collect();
    let found = walk::walk(&run, &names);
    let steps = found.metrics[0].steps.iter();
    let significant: Vec<usize> = steps
        .filter(|step| step.verdict.word() == "better" || step.verdict.word() == "worse")
        .map(|step| step.after)
        .collect();
    assert_eq!(significant, [2, 4, 5]);
    assert_eq!(found.metrics[0].shape, record::bisect::Shape::Mixed);
}

#[test]
fn a_metric_that_the_workload_cannot_have_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plan.toml"), PLAN).unwrap();
    let words = ["bisect", "plan.toml", "--from", "6.1", "--to", "7.2"];
    let output = bakeoff(dir.path(), &[&words[..], &["--metric", "nothere"]].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{told}");
    let want = "has no metric \"nothere\" (name one of capacity, throughput, latency-mean,";
    assert!(told.contains(want), "{told}");
    // Not even a list of packages was asked for.
    assert!(!dir.path().join("cache/bakeoff/apt").exists());
    assert!(!dir.path().join("runs").exists());
}

#[test]
fn metrics_of_stored_runs_are_among_those_that_their_workloads_can_have() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = ["workloads", "failed", "real", "worse", "undecided"]
        .map(|name| root.join("tests/golden").join(name));
    let samples = root.join("../../docs/samples/web-static");
    let mut checked = 0;
    for dir in golden.iter().chain([&samples]) {
        let run = rundir::load(dir, &workload::check).unwrap();
        for attempt in &run.attempts {
            let Outcome::Measured(measurement) = &attempt.outcome else {
                continue;
            };
            let mut workloads = run.plan.workloads.iter();
            let own = workloads.find(|one| one.id == attempt.trial.workload);
            for figure in &measurement.figures {
                let name = &figure.spec.name;
                assert!(
                    metric_names::has(own.unwrap(), name),
                    "{name} in {}",
                    dir.display()
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 100, "{checked} figures");
}

fn git(dir: &Path, words: &[&str]) {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir);
    git.args(["-c", "user.name=A", "-c", "user.email=a@example.org"]);
    let done = git.args(words).output().expect("git runs");
    assert!(done.status.success(), "{done:?}");
}

/// What is said of a bisection over the commits of a small repository that has a merge, and after `change`.
fn refused(words: &[&str], change: impl Fn(&Path)) -> String {
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
    let output = bakeoff(dir.path(), words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    said.replace(&*dir.path().to_string_lossy(), "DIR")
}

const BISECT: [&str; 4] = ["bisect", "plan.toml", "--tree", "tree"];

fn of_commits(commits: &str) -> String {
    let words: Vec<&str> = BISECT.into_iter().chain(["--commits", commits]).collect();
    refused(&words, |_| {})
}

#[test]
fn ranges_that_are_none_are_refused() {
    let said = of_commits("v1");
    assert!(
        said.contains("not a range of commits: v1 (write GOOD..BAD"),
        "{said}"
    );
    let said = of_commits("v1..v9");
    assert!(said.contains("no such commit: v9"), "{said}");
    let said = of_commits("v3..v1");
    assert!(said.contains("no commit in v3..v1"), "{said}");
    let said = of_commits("side-1..main");
    assert!(said.contains("not on the line of first parents"), "{said}");
    let said = of_commits("v2..v3");
    assert!(said.contains("nothing lies between"), "{said}");
}

#[test]
fn merges_and_files_that_were_changed_are_told() {
    let words: Vec<&str> = BISECT
        .into_iter()
        .chain(["--commits", "v1..main"])
        .collect();
    let said = refused(&words, |tree| fs::write(tree.join("file"), "mine").unwrap());
    assert!(said.contains("note: 1 of 3 commits are merges"), "{said}");
    assert!(
        said.contains("note: a file was changed in tree since its last commit, file: it is in"),
        "{said}"
    );
}

#[test]
fn a_configuration_that_is_not_there_or_another_one_is_refused() {
    let words: Vec<&str> = BISECT
        .into_iter()
        .chain(["--commits", "v1..main"])
        .collect();
    let with: Vec<&str> = words.iter().copied().chain(["--config", "mine"]).collect();
    // It begins, and ends because this is no kernel's tree.
    let begin = |tree: &Path| {
        let dir = tree.parent().unwrap();
        let output = bakeoff(dir, &words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("not a kernel tree"), "{said}");
    };
    let said = refused(&with, begin);
    assert!(said.contains("cannot read configuration mine: "), "{said}");
    let said = refused(&with, |tree| {
        begin(tree);
        fs::write(tree.with_file_name("mine"), "CONFIG_SMP=y\n").unwrap();
    });
    assert!(
        said.contains("the configuration was bakeoff's own (") && said.contains("is mine ("),
        "{said}"
    );
}

#[test]
fn trees_that_cannot_be_built_are_refused() {
    let dirty = |tree: &Path| fs::write(tree.join("file"), "mine").unwrap();
    let said = refused(&["kernel", "build", "tree"], dirty);
    assert!(
        said.contains("files were changed since the last commit: file"),
        "{said}"
    );
    let said = refused(&["kernel", "build", "tree"], |_| {});
    assert!(said.contains("not a kernel tree"), "{said}");
    let said = refused(&["kernel", "build", "none"], |_| {});
    assert!(said.contains("no such directory: none"), "{said}");
    let words = ["kernel", "build", "tree", "--config", "plan.toml"];
    let said = refused(&words, |_| {});
    assert!(said.contains("not a kernel configuration"), "{said}");
}
