//! A Slurm cluster of two nodes on this host: runs on it survive faults of clusters, and two kernels are compared on it.
//!
//! ```text
//! as_submitter --sbatch--> slurmctld --> slurmd n1, n2 --> as_job: one block of a fake machine with a known truth
//! bakeoff run --slurm --sbatch--> ...                   --> bakeoff run --block: one block of real guests
//! ```
//! Node n2 is twice as fast as n1, and its clock is seven minutes ahead. Submitter and jobs of the fake machine are roles of this
//! test binary. The tests need root. `each_machine` has a short test.

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
use record::verdict::Verdict;

use self::cluster::Cluster;
use crate::program::{all_output, command, stderr};
use crate::simulated_lab::judged;

/// Longer than anything here takes on a busy host.
const WAIT_LIMIT: Duration = Duration::from_secs(240);

#[test]
#[ignore = "boots 4 guests: make test-all"]
fn a_fleet_survives_faults_of_a_cluster_and_compares_kernels() {
    if !Cluster::can_start() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().canonicalize().unwrap();
    let begin = Instant::now();
    let print_time = |what: &str| println!("after {} s: {what}", begin.elapsed().as_secs());
    let mut cluster = Cluster::start(&dir);
    check_refusals(&cluster, &dir);
    print_time("refusals");
    check_faults(&mut cluster, &dir.join("faults"));
    print_time("faults");
    check_other_builds(&cluster, &dir.join("builds"));
    print_time("other builds");
    check_full_disk(&cluster, &dir.join("full"));
    print_time("a full disk");
    check_guests(&cluster, &dir, 2);
    print_time("real guests");
    assert_eq!(cluster.queue(), "", "jobs are left in the queue");
}

/// A night of two plans, whose blocks are in the queue at the same time, and one with a third plan
/// that is refused.
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
    let (status, text) = bakeoff(&cluster, &dir, &refused);
    assert_eq!((status, cluster.queue().as_str()), (Some(2), ""), "{text}");
    let begin = Instant::now();
    let (status, text) = bakeoff(&cluster, &dir, &plans);
    println!("{text}");
    println!("a night of two plans took {} s", begin.elapsed().as_secs());
    assert_eq!(status, Some(0), "{text}");
    // The blocks of both runs are submitted before a block of either has ended.
    let place = |part: &str| {
        text.find(part)
            .unwrap_or_else(|| panic!("{part} is not in {text}"))
    };
    let submitted = [
        "one  blocks 1 to 2 submitted",
        "two  blocks 1 to 2 submitted",
    ]
    .map(place);
    let ended = ["one  block 1 ran on", "two  block 1 ran on"].map(place);
    assert!(submitted.iter().max() < ended.iter().min(), "{text}");
    for run in ["night/one", "night/two"] {
        assert_eq!(judged(&dir.join(run)).comparisons[0].blocks, 2);
    }
    assert!(text.contains("2 plans, 2 comparisons"), "{text}");
    assert_eq!(cluster.queue(), "", "jobs are left in the queue");
}

/// A command that submits the fake machine's blocks. Jobs on the nodes in `other_build` have
/// another build.
pub(crate) fn submitter(cluster: &Cluster, run: &Path, other_build: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--ignored", "--exact", "--nocapture"])
        .arg("slurm_cluster::roles::as_submitter")
        .env("SLURM_CONF", &cluster.conf)
        .env("FAKE_RUN", run)
        .env("FAKE_OTHER_BUILD", other_build);
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
    // It ends with a test that fails.
    base::process::bind(&mut command);
    command.stderr(log).spawn().unwrap()
}

/// Waits until a condition holds; after too long, panics with the log.
pub(crate) fn wait_for(what: &str, log: &Path, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(
            begin.elapsed() < WAIT_LIMIT,
            "waited for {what}:\n{}",
            read(log)
        );
        thread::sleep(Duration::from_millis(100));
    }
}

pub(crate) fn has_ended(run: &Path, block: u32) -> bool {
    matches!(fleet::ended(run, block), Ok(Some(_)))
}

fn check_faults(cluster: &mut Cluster, run: &Path) {
    let log = run.with_extension("log");
    let begin = Instant::now();
    let note = |what: &str| println!("{:4} s  {what}", begin.elapsed().as_secs());
    let mut first = start(submitter(cluster, run, ""), &log);
    wait_for("block 2", &log, || has_ended(run, 2));
    note("the submitter is killed");
    first.kill().unwrap();
    first.wait().unwrap();
    wait_for("a block without a submitter", &log, || has_ended(run, 4));
    note("it is started again, and a second one too");
    let mut submitter_again = start(submitter(cluster, run, ""), &log);
    thread::sleep(Duration::from_secs(3));
    let second = submitter(cluster, run, "").output().unwrap();
    let error = stderr(&second);
    assert!(
        !second.status.success() && error.contains("another bakeoff is at work on this run"),
        "{error}"
    );
    let reached = |cluster: &Cluster, block: u32, nodes: &str| {
        wait_for(&format!("block {block}"), &log, || has_ended(run, block));
        wait_for("a job under way", &log, || cluster.is_at_work(nodes));
    };
    reached(cluster, 6, "n1,n2");
    note("a user cancels all jobs");
    cluster.run("scancel", &["--user=root"]);
    reached(cluster, 11, "n1");
    note("node n1 is drained");
    cluster.run(
        "scontrol",
        &["update", "nodename=n1", "state=drain", "reason=test"],
    );
    wait_for("block 13", &log, || has_ended(run, 13));
    cluster.resume("n1");
    reached(cluster, 13, "n2");
    note("slurmd of n2 is killed");
    cluster.kill_slurmd("n2");
    wait_for("block 15", &log, || has_ended(run, 15));
    note("it is started again, and slurmctld is killed");
    cluster.start_slurmd("n2");
    wait_for("a job under way", &log, || cluster.is_at_work("n1,n2"));
    cluster.kill_slurmctld();
    thread::sleep(Duration::from_secs(5));
    cluster.start_slurmctld();
    wait_for("the end", &log, || read(&log).contains("FINISH Complete"));
    assert!(submitter_again.wait().unwrap().success());
    note("the run is over");
    println!("{}", read(&log));
    check_verdict(run);
}

/// The verdict is right, no block counts twice, and judging the same blocks at once gives the same
/// result.
fn check_verdict(run: &Path) {
    let judgement = judged(run);
    let primary = &judgement.comparisons[0];
    assert_eq!(primary.verdict, Verdict::Better, "{:?}", primary.reason);
    let ratio = primary.ratio.unwrap();
    assert!((ratio - 1.05).abs() < 0.01, "{ratio}");
    let means: Vec<(&str, f64)> = judgement
        .nodes
        .iter()
        .map(|row| (row.node.name.as_str(), row.means[0].baseline))
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
    let json = |dir: &Path| serde_json::to_string_pretty(&judged(dir)).unwrap();
    assert_eq!(json(&merge_at_once(run)), json(run));
}

/// Makes a run directory with the same blocks, which were merged without interruption.
fn merge_at_once(run: &Path) -> PathBuf {
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
    roles::merge_all(&copy);
    copy
}

/// If node n1 has another build, it is refused and gets no more jobs. If both nodes have, the run
/// is refused.
fn check_other_builds(cluster: &Cluster, run: &Path) {
    let log = run.with_extension("log");
    // A node that still runs another job would get none of these.
    cluster.settle();
    let mut child = start(submitter(cluster, run, "n1"), &log);
    assert!(child.wait().unwrap().success(), "{}", read(&log));
    let text = read(&log);
    println!("{text}");
    let refusal = "failed on n1: node n1 has another bakeoff: other, the run needs test (install that build there";
    assert!(text.contains(refusal), "{text}");
    assert!(text.contains("node n1 gets no more jobs"), "{text}");
    let nodes = judged(run).nodes;
    let names: Vec<&str> = nodes.iter().map(|row| row.node.name.as_str()).collect();
    assert_eq!(names, ["n2"]);
    let (run, log) = (run.with_extension("both"), run.with_extension("both.log"));
    let mut child = start(submitter(cluster, &run, "n1,n2"), &log);
    assert!(!child.wait().unwrap().success());
    let text = read(&log);
    assert!(text.contains("no node can run this: node n"), "{text}");
}

/// The first jobs of a block fail because its disk is full.
fn check_full_disk(cluster: &Cluster, run: &Path) {
    let log = run.with_extension("log");
    let block_dir = block_dir(run, 2);
    fs::create_dir_all(&block_dir).unwrap();
    // The run already has a lock file when the block directory exists.
    fs::write(run.join("lock"), "").unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=4k,mode=755", "full"])
        .arg(&block_dir)
        .status();
    assert!(mounted.unwrap().success());
    let mut child = start(submitter(cluster, run, ""), &log);
    wait_for("a failure", &log, || !fleet::failures(run, 2).is_empty());
    let unmounted = Command::new("umount").arg("-l").arg(&block_dir).status();
    assert!(unmounted.unwrap().success());
    assert!(child.wait().unwrap().success(), "{}", read(&log));
    let text = read(&log);
    println!("{text}");
    assert!(
        text.contains("block  2  failed on n") && text.contains("No space left on device"),
        "{text}"
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
    let output = command(dir, args)
        .env("SLURM_CONF", &cluster.conf)
        .output()
        .unwrap();
    (output.status.code(), all_output(&output))
}

/// Refusals before anything is fetched or submitted.
pub(crate) fn check_refusals(cluster: &Cluster, dir: &Path) {
    fs::write(dir.join("guests.toml"), GUESTS).unwrap();
    let refused = |args: &[&str], want: &str| {
        let (status, text) = bakeoff(cluster, dir, &[&["run", "guests.toml"], args].concat());
        println!("{text}");
        assert_eq!(status, Some(2), "{text}");
        assert!(text.contains(want), "{text}");
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

/// Compares two kernels with the program that users run.
pub(crate) fn check_guests(cluster: &Cluster, dir: &Path, blocks: u32) {
    let begin = Instant::now();
    let plan = GUESTS.replace("_blocks = 2", &format!("_blocks = {blocks}"));
    fs::write(dir.join("guests.toml"), plan).unwrap();
    let (status, text) = bakeoff(
        cluster,
        dir,
        &["run", "guests.toml", "--slurm", "--jobs", "1"],
    );
    println!("{text}");
    println!("real guests took {} s", begin.elapsed().as_secs());
    assert_eq!(status, Some(0), "{text}");
    let judgement = judged(&dir.join("runs/guests"));
    assert_eq!(judgement.comparisons[0].blocks, blocks);
    assert!(judgement.comparisons[0].ratio.is_some());
    let on_nodes: u32 = judgement.nodes.iter().map(|row| row.blocks).sum();
    assert_eq!(on_nodes, blocks);
    assert!(text.contains("What each node measured"), "{text}");
}
