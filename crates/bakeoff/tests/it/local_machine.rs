//! The local host as the machine: real servers, and nothing is left of them.
//!
//! Needs root, cgroup2 and nginx; otherwise the tests are reported as skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::{Mutex, PoisonError};

use record::trial::Outcome;
use record::verdict::Judgement;

use crate::compare_command::write_program;
use crate::json_schema::check_line;
use crate::program::{
    all_output, bakeoff, bakeoff_with_new_cache, is_root, refusal, stderr, stdout, wait_for,
};
use crate::real_guests::{run_plan, run_to_end};
use crate::simulated_lab::load_run;

/// A global sysctl: after a kill, only the janitor process can restore it.
const SYSCTL: &str = "/proc/sys/vm/swappiness";

/// Held by each test, because all change the same sysctl.
static HOST: Mutex<()> = Mutex::new(());

/// With this seed, the arm that changes the sysctl runs first.
fn plan(window: &str) -> String {
    format!(
        r#"
title = "this host"
baseline = "plain"
[machine]
kind = "local"
[arm.plain]
[arm.tuned]
sysctl = {{ "vm.swappiness" = 7 }}
env = {{ BAKEOFF_TEST = "yes" }}
config = ["server_tokens off;", "sendfile off;"]
[[workload]]
kind = "web-static"
server = "nginx"
connections = 4
warmup = "100ms"
window = "{window}"
[design]
margin = "2%"
min_blocks = 2
max_blocks = 2
disturbed_blocks = "keep"
seed = 1
"#
    )
}

pub(crate) fn can_run() -> bool {
    let why = if !is_root() {
        "root"
    } else if !Path::new("/usr/sbin/nginx").exists() {
        "nginx (make packages)"
    } else if !fs::read_to_string("/proc/mounts").is_ok_and(|mounts| mounts.contains(" cgroup2 ")) {
        "a cgroup2 file system"
    } else {
        return true;
    };
    base::skip::skip(&format!("no trials on this host: they need {why}"));
    false
}

fn run(dir: &Path, window: &str) -> Child {
    run_plan(dir, &plan(window))
}

fn swappiness() -> String {
    fs::read_to_string(SYSCTL).unwrap().trim().into()
}

fn has_cgroup(pid: u32) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut lines = mounts.lines();
    let mount = lines.find(|line| line.contains(" cgroup2 ")).unwrap();
    let root = mount.split(' ').nth(1).unwrap();
    Path::new(root).join(format!("bakeoff-{pid}")).exists()
}

#[test]
fn a_run_on_this_host_measures_real_servers_and_restores_everything() {
    if !can_run() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let (dir, before) = (tempfile::tempdir().unwrap(), swappiness());
    assert_ne!(
        before, "7",
        "the test needs another value than the host has"
    );
    let child = run(dir.path(), "1s");
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    let text = all_output(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!((swappiness(), has_cgroup(pid)), (before, false));
    assert!(
        !Path::new("/run/bakeoff").exists(),
        "nothing is written to the host's own root"
    );

    let run = load_run(&dir.path().join("runs/plan"));
    let mut seen = BTreeMap::<&str, Vec<&str>>::new();
    for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
        if let (Outcome::Measured(_), Some(facts)) = (&attempt.outcome, facts) {
            let value = &facts.sysctls["vm.swappiness"];
            seen.entry(&attempt.trial.arm).or_default().push(value);
        }
    }
    assert_eq!(seen["tuned"], ["7", "7"], "{text}");
    assert_eq!(seen["plain"], [swappiness(), swappiness()]);
    assert!(is_declared(&judge::judge(&run), "hash:configuration:"));
}

/// Whether the plan declares the difference in a fact whose name starts with this.
fn is_declared(judgement: &Judgement, start: &str) -> bool {
    let mut differences = judgement.differences.iter();
    let difference = differences.find(|difference| difference.fact.starts_with(start));
    difference.unwrap().declared
}

/// A complete configuration of Apache, as a user would write it.
const APACHE: &str = "\
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
PidFile {dir}/apache2.pid
DefaultRuntimeDir {dir}
ErrorLog {dir}/error.log
ServerName whole
User www-data
Group www-data
Listen {address}
KeepAlive On
DocumentRoot {root}
<Directory {root}>
    Require all granted
</Directory>
";

#[test]
fn apache_accepts_directives_that_replace_bakeoffs_and_a_whole_file() {
    if !can_run() {
        return;
    }
    if !Path::new("/usr/sbin/apache2").exists() {
        base::skip::skip("program not installed: apache2");
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("whole.conf"), APACHE).unwrap();
    let text = plan("1s");
    let (head, rest) = text.split_once("[arm.plain]").unwrap();
    let (_, rest) = rest.split_once("[[workload]]").unwrap();
    let rest = rest.replace("nginx", "apache");
    // If bakeoff kept its own line beside the arm's, the second `Listen` for the address would end
    // Apache.
    let arms = "[arm.plain]\n[arm.changed]\n\
                config = { apache2 = [\"Listen {address}\", \"MaxRequestWorkers 50\", \"KeepAliveTimeout 5\"] }\n\
                [arm.whole]\nconfig_file = \"whole.conf\"\nconfig = \"KeepAlive Off\"\n";
    let text = format!("{head}{arms}[[workload]]{rest}");
    let run = run_to_end(dir.path(), &text);
    let mut connects = BTreeMap::<&str, Vec<f64>>::new();
    for attempt in &run.attempts {
        if let Outcome::Measured(measurement) = &attempt.outcome {
            let load = measurement.load.as_ref().unwrap();
            assert!(load.ok > 0 && load.fault_count() == 0, "{:?}", load.faults);
            let share = load.connections_opened as f64 / load.ok as f64;
            connects.entry(&attempt.trial.arm).or_default().push(share);
        }
    }
    assert_eq!(
        connects.values().map(Vec::len).collect::<Vec<_>>(),
        [2, 2, 2]
    );
    // The arm's line `KeepAlive Off` replaces `KeepAlive On` of its file.
    assert!(
        connects["whole"].iter().all(|share| *share > 0.9),
        "{connects:?}"
    );
    assert!(
        connects["changed"].iter().all(|share| *share < 0.1),
        "{connects:?}"
    );
    let inputs = &run.opening.inputs;
    assert!(inputs.contains_key("whole.conf of arm whole"), "{inputs:?}");
}

#[test]
fn an_arm_is_limited_to_its_cpus_and_too_many_are_refused() {
    if !can_run() {
        return;
    }
    let cpus = machine::host::cpus().unwrap();
    if cpus.len() < 2 {
        base::skip::skip("this host has one CPU");
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let with_arms = |arms: &str| {
        let text = plan("1s");
        let (head, rest) = text.split_once("[arm.plain]").unwrap();
        let (_, rest) = rest.split_once("[[workload]]").unwrap();
        format!("{head}{arms}\n[[workload]]{rest}")
    };
    let too_many = format!("[arm.plain]\n[arm.more]\ncpus = {}", cpus.len() + 1);
    if cpus.len() < 255 {
        let output = run_plan(dir.path(), &with_arms(&too_many)).wait_with_output();
        let error = refusal(&output.unwrap());
        let want = format!(
            "more CPUs than bakeoff may use on this host ({}): arm more, cpus = {} (lower it)",
            cpus.len(),
            cpus.len() + 1
        );
        assert!(error.contains(&want), "{error}");
        fs::remove_dir_all(dir.path().join("runs")).unwrap();
    }
    let text = with_arms("[arm.plain]\ncpus = 1\n[arm.two]\ncpus = 2");
    let run = run_to_end(dir.path(), &text);
    let mut seen = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
        if let (Outcome::Measured(_), Some(facts)) = (&attempt.outcome, facts) {
            let list = &facts.values["cpus"];
            seen.entry(&attempt.trial.arm).or_default().insert(list);
        }
    }
    let first = cpus[0].to_string();
    let both = format!("{first},{}", cpus[1]);
    assert_eq!(seen["plain"], BTreeSet::from([first.as_str()]));
    assert_eq!(seen["two"], BTreeSet::from([both.as_str()]));
    let judgement = judge::judge(&run);
    let steps: Vec<u32> = judgement.scaling[0]
        .steps
        .iter()
        .map(|step| step.cpus)
        .collect();
    assert_eq!(steps, [1, 2]);
    // nginx starts one worker for each CPU, so its configuration differs.
    assert!(is_declared(&judgement, "cpus") && is_declared(&judgement, "hash:configuration:"));
}

#[test]
fn a_run_that_is_killed_leaves_no_process_cgroup_or_sysctl_behind() {
    if !can_run() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let (dir, before) = (tempfile::tempdir().unwrap(), swappiness());
    let mut child = run(dir.path(), "30m");
    let pid = child.id();
    wait_for("a trial", || has_cgroup(pid));
    wait_for("the sysctl", || swappiness() == "7");
    // A second run must wait; it would take 7 for the host's value and restore that.
    let other_dir = tempfile::tempdir().unwrap();
    let mut other = run(other_dir.path(), "1s");
    let lines = BufReader::new(other.stderr.take().unwrap()).lines();
    let mut lines = lines.map(Result::unwrap);
    let waiting = "waiting for another bakeoff that measures on this host ...";
    assert!(lines.any(|line| line == waiting));
    other.kill().unwrap();
    other.wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // A cgroup can only be removed when no process is left in it.
    wait_for("the janitor", || !has_cgroup(pid) && swappiness() == before);
}

#[test]
fn a_pattern_that_matches_on_no_arm_stops_the_run_after_the_first_block() {
    if !can_run() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let text = plan("1s");
    let (head, rest) = text.split_once("[[workload]]").unwrap();
    let (_, design) = rest.split_once("[design]").unwrap();
    let workload = "[[workload]]\nkind = \"command\"\ncommand = [\"sh\", \"-c\", \"echo first; echo speed 12\"]\n\
                    [[workload.metric]]\nname = \"rate\"\nunit = \"IO/s\"\nbetter = \"higher\"\n\
                    pattern = \"rate: ([0-9.]+)\"\n[design]";
    let lines = head.split_inclusive('\n');
    let head: String = lines
        .filter(|line| !line.starts_with("config = "))
        .collect();
    let text = format!("{head}{workload}{design}");
    let run = || refusal(&run_plan(dir.path(), &text).wait_with_output().unwrap());
    let first = run();
    let (_, last) = first.split_once("bakeoff: ").unwrap();
    expect_test::expect![[r#"
        block 1: no figure on any arm of command, each attempt failed the same way: check failed: drive the load: metric rate: nothing in the output matches rate: ([0-9.]+)
          first
          speed 12
        (mend the plan and begin a new run with --out DIR; or mend the machine, and the same command goes on)
    "#]].assert_eq(last);
    assert!(dir.path().join("runs/plan/report.html").exists());
    // The same command tries again, in case the machine was repaired.
    let second = run();
    assert!(
        second.contains("bakeoff: blocks 1 to 2: no figure on any arm of command"),
        "{second}"
    );
}

/// Runs `bakeoff run plan.toml --json ARGS`; returns the lines of standard output, and standard
/// error.
fn json_lines(dir: &Path, args: &[&str]) -> (Vec<serde_json::Value>, String) {
    let args = [&["run", "plan.toml", "--a-a", "--json"], args].concat();
    let output = bakeoff_with_new_cache(dir, &args);
    let error = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{error}");
    let text = stdout(&output);
    let lines = text.lines().map(serde_json::from_str);
    (lines.collect::<Result<_, _>>().unwrap(), error)
}

#[test]
fn with_json_standard_output_has_only_documented_lines() {
    if !can_run() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plan.toml"), plan("1s")).unwrap();
    let mut seen = BTreeSet::new();
    let mut kinds = |lines: &[serde_json::Value]| -> BTreeSet<String> {
        lines
            .iter()
            .map(|line| check_line(line, &mut seen))
            .collect()
    };
    let (lines, error) = json_lines(dir.path(), &["--timings"]);
    let mut printed = kinds(&lines);
    // Failed checks depend on this machine and its other work.
    printed.remove("failed-checks");
    let always = ["calibration", "event", "timings", "verdict"].map(String::from);
    assert_eq!(printed, BTreeSet::from(always));
    assert!(
        error.contains("  block  1  trial 001  web-static"),
        "{error}"
    );
    assert!(error.contains("after block 2:"), "{error}");

    let (lines, error) = json_lines(dir.path(), &["--more-blocks", "1"]);
    assert!(kinds(&lines).contains("verdict"));
    let extended = lines
        .iter()
        .find(|line| line["event"]["extended"]["to"] == 3);
    assert!(extended.is_some(), "{lines:?}");
    assert!(
        error.contains("1 block more for an undecided run, 3 at the most"),
        "{error}"
    );

    // A run records the machine's earlier A/A runs. The first run had none, and its continuation
    // keeps that.
    let history = |lines: &[serde_json::Value]| {
        let verdict = lines.iter().find(|line| line["kind"] == "verdict").unwrap();
        verdict["judgement"]["details"]["a_a"].clone()
    };
    assert_eq!(history(&lines)["kind"], "none");
    let (lines, _) = json_lines(dir.path(), &["--out", "second"]);
    let a_a = history(&lines);
    assert_eq!((&a_a["kind"], &a_a["runs"]), (&"known".into(), &1.into()));
    assert_eq!(a_a["blocks"], 3);
}

#[test]
fn a_users_program_is_compared_under_two_values_of_a_sysctl() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    write_program(dir.path());
    let run = |args: &str| {
        let output = bakeoff(dir.path(), &args.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    };
    let sysctl = "--sysctl net.core.somaxconn=128,4096";
    run(&format!(
        "compare {sysctl} --max-blocks 2 --plan-only -- ./mine ./input"
    ));
    let name = "runs/compare-somaxconn-128-4096";
    let plan = dir.path().join(format!("{name}.toml"));
    let text = fs::read_to_string(&plan).unwrap();
    let text = text.replace("[design]\n", "[design]\ndisturbed_blocks = \"keep\"\n");
    assert!(text.contains("keep"), "{text}");
    fs::write(&plan, text).unwrap();
    run(&format!("run {name}.toml --out {name}"));
    let run = load_run(&dir.path().join(name));
    let attempts = run.attempts.iter();
    let measured = attempts.filter(|attempt| matches!(attempt.outcome, Outcome::Measured(_)));
    assert_eq!(measured.count(), 4);
    let inputs = &run.opening.inputs;
    assert!(inputs.contains_key("file mine"), "{inputs:?}");
    repeat_from_a_bundle(dir.path(), name);
}

/// Two blocks are too few to tell whether both runs agree. With another program nothing runs.
fn repeat_from_a_bundle(dir: &Path, name: &str) {
    let output = bakeoff(dir, &["bundle", name, "--out", "mine.bakeoff.tar.zst"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rerun = ["rerun", "mine.bakeoff.tar.zst", "--files", "runs"];
    let output = bakeoff(dir, &rerun);
    assert_eq!(output.status.code(), Some(3), "{}", all_output(&output));
    assert!(
        stdout(&output).contains("too few blocks"),
        "{}",
        stdout(&output)
    );
    let again = load_run(&dir.join("runs/mine-rerun"));
    assert_eq!(again.plan_text, load_run(&dir.join(name)).plan_text);
    fs::write(dir.join("mine"), "#!/bin/sh\nexit 0\n").unwrap();
    let elsewhere = [&rerun[..], &["--out", "elsewhere"]].concat();
    let refused = refusal(&bakeoff(dir, &elsewhere));
    assert!(refused.contains("file mine has SHA-256"), "{refused}");
    assert!(!dir.join("elsewhere").exists());
}
