//! A Slurm cluster of two nodes on this host: runs on it survive all that befalls clusters, and a real comparison runs on it.
//!
//! ```text
//! as_submitter --sbatch--> slurmctld --> slurmd n1, n2 --> as_job: one block of a fake machine with a known truth
//! bakeoff run --slurm --sbatch--> ...                   --> bakeoff run --block: one block of real guests
//! ```
//! Node n2 is twice as fast as n1, and its clock is seven minutes ahead. Submitter and jobs of the fake machine are roles of this test
//! binary. It takes root. `each_machine` has a short test of it.

pub(crate) mod cluster;
mod roles;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use record::fleet;
use record::fleet::block_dir;
use record::journal;
use record::journal::Event;
use record::rundir;
use record::verdict::{Judgement, Verdict};

use self::cluster::Cluster;

/// Longer than anything here takes on a host with other work.
const PATIENCE: Duration = Duration::from_secs(240);

#[test]
#[ignore = "boots 4 guests: make test-all"]
fn a_fleet_survives_what_befalls_clusters_and_compares_kernels() {
    if !Cluster::can_start() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let begin = Instant::now();
    let passed = |what: &str| println!("after {} s: {what}", begin.elapsed().as_secs());
    let mut cluster = Cluster::start(&dir);
    check_refusals(&cluster, &dir);
    passed("refusals");
    check_faults(&mut cluster, &dir.join("faults"));
    passed("faults");
    check_other_builds(&cluster, &dir.join("builds"));
    passed("other builds");
    check_full_disk(&cluster, &dir.join("full"));
    passed("a full disk");
    check_guests(&cluster, &dir, 2);
    passed("real guests");
    assert_eq!(cluster.queue(), "", "jobs are left in the queue");
}

/// A night of two plans and one that cannot be run; the blocks of all are in the queue at once.
#[test]
#[ignore = "boots 8 guests: make test-all"]
fn several_plans_share_a_cluster() {
    if !Cluster::can_start() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let cluster = Cluster::start(&dir);
    let other = GUESTS
        .replace("7.2", "6.1-again")
        .replace("debian:trixie-backports/6.1-again", "debian:bookworm/6.1");
    let broken = GUESTS.replace("debian:trixie-backports/7.2", "file:/none");
    for (name, text) in [("one", GUESTS), ("two", &other), ("broken", &broken)] {
        fs::write(dir.join(name).with_extension("toml"), text).unwrap();
    }
    let plans = [
        "run", "one.toml", "two.toml", "--out", "night", "--slurm", "--jobs", "1",
    ];
    let refused = [
        "run",
        "one.toml",
        "broken.toml",
        "--out",
        "night",
        "--slurm",
    ];
    let (status, said) = bakeoff(&cluster, &dir, &refused);
    assert_eq!((status, cluster.queue().as_str()), (Some(2), ""), "{said}");
    let begin = Instant::now();
    let (status, said) = bakeoff(&cluster, &dir, &plans);
    println!("{said}");
    println!("a night of two plans took {} s", begin.elapsed().as_secs());
    assert_eq!(status, Some(0), "{said}");
    // Both have blocks in the queue before either has ended.
    let place = |what: &str| {
        said.find(what)
            .unwrap_or_else(|| panic!("{what} is not in {said}"))
    };
    let submitted = [
        "one  blocks 1 to 2 submitted",
        "two  blocks 1 to 2 submitted",
    ]
    .map(place);
    let ended = ["one  block 1 ran on", "two  block 1 ran on"].map(place);
    assert!(
        submitted
            .iter()
            .all(|one| ended.iter().all(|other| one < other)),
        "{said}"
    );
    for run in ["night/one", "night/two"] {
        assert_eq!(judged(&dir.join(run)).comparisons[0].blocks, 2);
    }
    assert!(said.contains("2 plans, 2 comparisons"), "{said}");
    assert_eq!(cluster.queue(), "", "jobs are left in the queue");
}

/// A submitter of the fake machine's blocks.
pub(crate) fn submitter(cluster: &Cluster, run: &Path, build_of: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("slurm_cluster::roles::as_submitter")
        .env("SLURM_CONF", &cluster.conf)
        .env("FAKE_RUN", run)
        .env("FAKE_OTHER_BUILD", build_of);
    command
}

pub(crate) fn start(mut command: Command, log: &Path) -> Child {
    let log = fs::File::options()
        .append(true)
        .create(true)
        .open(log)
        .unwrap();
    command
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap());
    command.stderr(log).spawn().unwrap()
}

/// Waits until something is so.
pub(crate) fn wait(what: &str, log: &Path, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        let said = || fs::read_to_string(log).unwrap_or_default();
        assert!(begin.elapsed() < PATIENCE, "waited for {what}:\n{}", said());
        thread::sleep(Duration::from_millis(100));
    }
}

pub(crate) fn has_ended(run: &Path, block: u32) -> bool {
    matches!(fleet::ended(run, block), Ok(Some(_)))
}

pub(crate) fn judged(run: &Path) -> Judgement {
    judge::judge(&rundir::load(run, &workload::check).unwrap())
}

fn check_faults(cluster: &mut Cluster, run: &Path) {
    let log = run.with_extension("log");
    let begin = Instant::now();
    let said = |what: &str| println!("{:4} s  {what}", begin.elapsed().as_secs());
    let mut first = start(submitter(cluster, run, ""), &log);
    wait("block 2", &log, || has_ended(run, 2));
    said("the submitter is killed");
    first.kill().unwrap();
    first.wait().unwrap();
    wait("a block without a submitter", &log, || has_ended(run, 4));
    said("it is started anew, and another beside it");
    let mut submitter_again = start(submitter(cluster, run, ""), &log);
    thread::sleep(Duration::from_secs(3));
    let second = submitter(cluster, run, "").output().unwrap();
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(
        !second.status.success() && words.contains("another bakeoff is at work on this run"),
        "{words}"
    );
    let reached = |cluster: &Cluster, block: u32, nodes: &str| {
        wait(&format!("block {block}"), &log, || has_ended(run, block));
        wait("a job under way", &log, || cluster.is_at_work(nodes));
    };
    reached(cluster, 6, "n1,n2");
    said("somebody cancels all jobs");
    cluster.ask("scancel", &["--user=root"]);
    reached(cluster, 11, "n1");
    said("node n1 is drained");
    cluster.ask(
        "scontrol",
        &["update", "nodename=n1", "state=drain", "reason=test"],
    );
    wait("block 13", &log, || has_ended(run, 13));
    cluster.resume("n1");
    reached(cluster, 13, "n2");
    said("slurmd of n2 is killed");
    cluster.kill_slurmd("n2");
    wait("block 15", &log, || has_ended(run, 15));
    said("it is started anew, and slurmctld is killed");
    cluster.start_slurmd("n2");
    wait("a job under way", &log, || cluster.is_at_work("n1,n2"));
    cluster.kill_slurmctld();
    thread::sleep(Duration::from_secs(5));
    cluster.start_slurmctld();
    wait("the end", &log, || {
        fs::read_to_string(&log)
            .unwrap()
            .contains("FINISH Complete")
    });
    assert!(submitter_again.wait().unwrap().success());
    said("the run is over");
    println!("{}", fs::read_to_string(&log).unwrap());
    check_verdict(run);
}

/// The truth is found, nothing counts twice, and the same blocks judged at once say the same.
fn check_verdict(run: &Path) {
    let judgement = judged(run);
    let primary = &judgement.comparisons[0];
    assert_eq!(primary.verdict, Verdict::Better, "{:?}", primary.reason);
    let ratio = primary.ratio.unwrap();
    assert!((ratio - 1.05).abs() < 0.01, "{ratio}");
    let means: Vec<(&str, f64)> = judgement
        .nodes
        .iter()
        .map(|one| (one.node.name.as_str(), one.means[0].baseline))
        .collect();
    assert_eq!((means[0].0, means[1].0), ("n1", "n2"));
    let faster = means[1].1 / means[0].1;
    assert!((faster - 2.0).abs() < 0.05, "{means:?}");
    let entries = journal::read(run).unwrap();
    journal::check_whole(&entries).unwrap();
    let merged = entries.iter().filter_map(|entry| match &entry.event {
        Event::Merged { block, .. } => Some(*block),
        _ => None,
    });
    let merged: Vec<u32> = merged.collect();
    let last = merged.len() as u32;
    assert_eq!(merged, (1..=last).collect::<Vec<_>>());
    let at_once = at_once(run);
    let text = |dir: &Path| serde_json::to_string_pretty(&judged(dir)).unwrap();
    assert_eq!(text(&at_once), text(run));
}

/// A run directory with the same blocks, taken over without a break.
fn at_once(run: &Path) -> PathBuf {
    let copy = run.with_extension("at-once");
    fs::create_dir(&copy).unwrap();
    for name in ["plan.toml", "fleet.json"] {
        fs::copy(run.join(name), copy.join(name)).unwrap();
    }
    let status = Command::new("cp")
        .args(["-r"])
        .arg(run.join("blocks"))
        .arg(&copy)
        .status();
    assert!(status.unwrap().success());
    roles::take_over_all(&copy);
    copy
}

/// Node n1 has another build: it is refused and gets no more jobs; where both have, the run is.
fn check_other_builds(cluster: &Cluster, run: &Path) {
    let log = run.with_extension("log");
    // A node that still has another job would get none of these.
    cluster.settle();
    let mut child = start(submitter(cluster, run, "n1"), &log);
    assert!(child.wait().unwrap().success(), "{}", read(&log));
    let said = read(&log);
    println!("{said}");
    let refusal = "failed on n1: node n1 has another bakeoff: other, the run needs test (install that build there";
    assert!(said.contains(refusal), "{said}");
    assert!(said.contains("node n1 gets no more jobs"), "{said}");
    let nodes = judged(run).nodes;
    let names: Vec<&str> = nodes.iter().map(|one| one.node.name.as_str()).collect();
    assert_eq!(names, ["n2"]);
    let (run, log) = (run.with_extension("both"), run.with_extension("both.log"));
    let mut child = start(submitter(cluster, &run, "n1,n2"), &log);
    assert!(!child.wait().unwrap().success());
    let said = read(&log);
    assert!(said.contains("no node can run this: node n"), "{said}");
}

/// The first jobs of a block find its disk full.
fn check_full_disk(cluster: &Cluster, run: &Path) {
    let log = run.with_extension("log");
    let place = block_dir(run, 2);
    fs::create_dir_all(&place).unwrap();
    // Beside the run's own files, which come first.
    fs::write(run.join("lock"), "").unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4k", "full"])
        .arg(&place)
        .status();
    assert!(mounted.unwrap().success());
    let mut child = start(submitter(cluster, run, ""), &log);
    wait("a failure", &log, || !fleet::failures(run, 2).is_empty());
    let unmounted = Command::new("umount").arg("-l").arg(&place).status();
    assert!(unmounted.unwrap().success());
    assert!(child.wait().unwrap().success(), "{}", read(&log));
    let said = read(&log);
    println!("{said}");
    assert!(
        said.contains("block  2  failed on n") && said.contains("No space left on device"),
        "{said}"
    );
    assert_eq!(judged(run).comparisons[0].verdict, Verdict::Better);
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

const GUESTS: &str = r#"
title = "Two kernels on two nodes"
baseline = "6.1"
[machine]
memory = "512MiB"
clock = "instructions"
[image]
recipe = "web"
[arm."6.1"]
kernel = "debian:bookworm/6.1"
[arm."7.2"]
kernel = "debian:trixie-backports/7.2"
[[workload]]
kind = "web-static"
server = "nginx"
connections = 4
warmup = "100ms"
window = "1s"
[design]
margin = "2%"
min_blocks = 2
max_blocks = 2
"#;

fn bakeoff(cluster: &Cluster, dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(args)
        .current_dir(dir)
        .env("SLURM_CONF", &cluster.conf)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code(), said)
}

/// What is refused before anything is fetched or submitted.
pub(crate) fn check_refusals(cluster: &Cluster, dir: &Path) {
    fs::write(dir.join("guests.toml"), GUESTS).unwrap();
    let refused = |args: &[&str], words: &str| {
        let (status, said) = bakeoff(cluster, dir, &[&["run", "guests.toml"], args].concat());
        println!("{said}");
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    };
    refused(
        &["--slurm", "--partition", "nope"],
        "no such partition: nope (Slurm has: lab)",
    );
    refused(
        &["--slurm", "--nodes", "n[1-3]"],
        "no such node: n3 (the partition has: n1, n2)",
    );
    assert_eq!(cluster.queue(), "");
}

/// Two kernels, compared by the program that users run.
pub(crate) fn check_guests(cluster: &Cluster, dir: &Path, blocks: u32) {
    let begin = Instant::now();
    let plan = GUESTS.replace("_blocks = 2", &format!("_blocks = {blocks}"));
    fs::write(dir.join("guests.toml"), plan).unwrap();
    let (status, said) = bakeoff(
        cluster,
        dir,
        &["run", "guests.toml", "--slurm", "--jobs", "1"],
    );
    println!("{said}");
    println!("real guests took {} s", begin.elapsed().as_secs());
    assert_eq!(status, Some(0), "{said}");
    let judgement = judged(&dir.join("runs/guests"));
    assert_eq!(judgement.comparisons[0].blocks, blocks);
    assert!(judgement.comparisons[0].ratio.is_some());
    let on_nodes: u32 = judgement.nodes.iter().map(|one| one.blocks).sum();
    assert_eq!(on_nodes, blocks);
    assert!(said.contains("What each node measured"), "{said}");
}
