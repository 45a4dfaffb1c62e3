//! The host itself as a machine: real servers, and nothing left of them.
//!
//! Needs root, cgroup2 and nginx; where one is missing it says that it was skipped.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use record::rundir;
use record::trial::Outcome;

use crate::real_guests::{run_plan, run_to_end};

/// A sysctl of the whole kernel, so that only the janitor can put it back.
const SYSCTL: &str = "/proc/sys/vm/swappiness";

/// The tests change the same sysctl.
static HOST: Mutex<()> = Mutex::new(());

/// The arm that changes the sysctl is the first to run.
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
    let why = if fs::metadata("/proc/self").unwrap().uid() != 0 {
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

fn cgroup(pid: u32) -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let mut places = mounts.lines().filter(|line| line.contains(" cgroup2 "));
    let place = places
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .unwrap();
    Path::new(place).join(format!("bakeoff-{pid}")).exists()
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(
            start.elapsed() < Duration::from_secs(600),
            "waited for {what}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_run_on_this_host_measures_real_servers_and_puts_everything_back() {
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
    let end = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&[&end.stdout[..], &end.stderr].concat()).into_owned();
    assert_eq!(end.status.code(), Some(0), "{said}");
    assert_eq!((swappiness(), cgroup(pid)), (before, false));
    assert!(
        !Path::new("/run/bakeoff").exists(),
        "nothing is written to the host's own root"
    );

    let run = rundir::load(&dir.path().join("runs/plan"), &workload::check).unwrap();
    let seen = |arm: &str| {
        let its = run
            .attempts
            .iter()
            .zip(&run.facts)
            .filter(|(attempt, _)| attempt.trial.arm == arm);
        let measured = its.filter(|(attempt, _)| matches!(attempt.outcome, Outcome::Measured(_)));
        let facts = measured.filter_map(|(_, facts)| facts.as_ref());
        facts
            .map(|facts| facts.sysctls["vm.swappiness"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(seen("tuned"), ["7", "7"], "{said}");
    assert_eq!(seen("plain"), [swappiness(), swappiness()]);
    let judgement = judge::judge(&run);
    let configuration = judgement
        .differences
        .iter()
        .find(|one| one.fact.starts_with("hash:configuration:"));
    assert!(
        configuration.is_some_and(|one| one.declared),
        "{:?}",
        judgement.differences
    );
}

/// Apache's whole configuration, as a user would write it.
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
fn apache_takes_directives_in_place_of_bakeoffs_and_a_whole_file() {
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
    // A second Listen of the same address, or of a module, would end Apache.
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
    // KeepAlive Off of the arm's lines stands where its file said On.
    assert!(
        connects["whole"].iter().all(|share| *share > 0.9),
        "{connects:?}"
    );
    assert!(
        connects["changed"].iter().all(|share| *share < 0.1),
        "{connects:?}"
    );
    let named = run
        .opening
        .inputs
        .keys()
        .any(|name| name == "whole.conf of arm whole");
    assert!(named, "{:?}", run.opening.inputs);
}

#[test]
fn an_arm_of_one_cpu_is_kept_to_it_and_one_of_too_many_is_refused() {
    if !can_run() {
        return;
    }
    let own = machine::host::cpus().unwrap();
    if own.len() < 2 {
        base::skip::skip("this host has one CPU");
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let with = |arms: &str| {
        let text = plan("1s");
        let (head, rest) = text.split_once("[arm.plain]").unwrap();
        let (_, rest) = rest.split_once("[[workload]]").unwrap();
        format!("{head}{arms}\n[[workload]]{rest}")
    };
    let too_many = format!("[arm.plain]\n[arm.more]\ncpus = {}", own.len() + 1);
    if own.len() < 255 {
        let end = run_plan(dir.path(), &with(&too_many)).wait_with_output();
        let end = end.unwrap();
        let said = String::from_utf8_lossy(&end.stderr);
        assert_eq!(end.status.code(), Some(2), "{said}");
        let want = format!(
            "more CPUs than bakeoff may use on this host ({}): arm more, cpus = {} (lower it)",
            own.len(),
            own.len() + 1
        );
        assert!(said.contains(&want), "{said}");
        fs::remove_dir_all(dir.path().join("runs")).unwrap();
    }
    let text = with("[arm.plain]\ncpus = 1\n[arm.two]\ncpus = 2");
    let run = run_to_end(dir.path(), &text);
    let mut seen = BTreeMap::<&str, BTreeSet<&str>>::new();
    for (attempt, facts) in run.attempts.iter().zip(&run.facts) {
        if let (Outcome::Measured(_), Some(facts)) = (&attempt.outcome, facts) {
            let list = &facts.values["cpus"];
            seen.entry(&attempt.trial.arm).or_default().insert(list);
        }
    }
    let one = own[0].to_string();
    let two = format!("{one},{}", own[1]);
    assert_eq!(seen["plain"], BTreeSet::from([one.as_str()]));
    assert_eq!(seen["two"], BTreeSet::from([two.as_str()]));
    let judgement = judge::judge(&run);
    let steps: Vec<u32> = judgement.scaling[0]
        .steps
        .iter()
        .map(|step| step.cpus)
        .collect();
    assert_eq!(steps, [1, 2]);
    let declared = |fact: &str| {
        let its = |one: &&record::verdict::Difference| one.fact.starts_with(fact);
        judgement.differences.iter().find(its).unwrap().declared
    };
    // nginx starts as many workers as it has CPUs.
    assert!(declared("cpus") && declared("hash:configuration:"));
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
    wait_for("a trial", || cgroup(pid));
    wait_for("the sysctl", || swappiness() == "7");
    // Another run would take the 7 for the host's own value, and leave it behind.
    let other_dir = tempfile::tempdir().unwrap();
    let mut other = run(other_dir.path(), "1s");
    let said = BufReader::new(other.stderr.take().unwrap()).lines();
    let mut said = said.map(Result::unwrap);
    let waits =
        said.any(|line| line == "waiting for another bakeoff that measures on this host ...");
    assert!(waits);
    other.kill().unwrap();
    other.wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    // A cgroup can be removed only when no process is left in it.
    wait_for("the janitor", || !cgroup(pid) && swappiness() == before);
}

#[test]
fn a_pattern_that_matches_on_no_arm_stops_the_run_after_its_first_block() {
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
    let of_servers = |line: &&str| !line.starts_with("config = ");
    let head: String = head.split_inclusive('\n').filter(of_servers).collect();
    let text = format!("{head}{workload}{design}");
    let said = || {
        let end = run_plan(dir.path(), &text).wait_with_output().unwrap();
        assert_eq!(end.status.code(), Some(2));
        String::from_utf8(end.stderr).unwrap()
    };
    let first = said();
    let (_, last) = first.split_once("bakeoff: ").unwrap();
    expect_test::expect![[r#"
        block 1: no figure on any arm of command, each attempt failed the same way: check failed: drive the load: metric rate: nothing in the output matches rate: ([0-9.]+)
          first
          speed 12
        (mend the plan and begin a new run with --out DIR; or mend the machine, and the same command goes on)
    "#]].assert_eq(last);
    assert!(dir.path().join("runs/plan/report.html").exists());
    // The same command tries once more, in case the machine was mended.
    let second = said();
    assert!(
        second.contains("bakeoff: blocks 1 to 2: no figure on any arm of command"),
        "{second}"
    );
}

/// What `bakeoff run plan.toml --json` and `words` print: the lines of standard output, and standard error.
fn json_lines(dir: &Path, words: &[&str]) -> (Vec<serde_json::Value>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
        .args(["run", "plan.toml", "--a-a", "--json"])
        .args(words)
        .env("XDG_CACHE_HOME", dir.join("cache"))
        .current_dir(dir)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{error}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(serde_json::from_str);
    (lines.collect::<Result<_, _>>().unwrap(), error)
}

#[test]
fn with_json_standard_output_has_documented_lines_alone_and_progress_is_on_standard_error() {
    if !can_run() {
        return;
    }
    let _alone = HOST.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("plan.toml"), plan("1s")).unwrap();
    let mut seen = BTreeSet::new();
    let mut kinds = |lines: &[serde_json::Value]| -> BTreeSet<String> {
        let kinds = lines.iter();
        kinds
            .map(|line| crate::json_schema::check_line(line, &mut seen))
            .collect()
    };
    let (lines, error) = json_lines(dir.path(), &["--timings"]);
    let mut told = kinds(&lines);
    // Whether a check is violated is up to this machine and what else it does meanwhile.
    told.remove("violations");
    let always = ["calibration", "event", "timings", "verdict"].map(String::from);
    assert_eq!(told, BTreeSet::from(always));
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

    // The next run carries what the machine's A/A runs were before it; the first had none, and keeps that.
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
fn a_program_of_ones_own_is_compared_under_two_values_of_a_sysctl() {
    if !can_run() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    crate::compare_command::own_program(dir.path());
    let bakeoff = |words: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_bakeoff"))
            .args(words.split(' '))
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
    };
    let sysctl = "--sysctl net.core.somaxconn=128,4096";
    bakeoff(&format!(
        "compare {sysctl} --max-blocks 2 --plan-only -- ./mine ./input"
    ));
    let name = "runs/compare-somaxconn-128-4096";
    let plan = dir.path().join(format!("{name}.toml"));
    let text = fs::read_to_string(&plan).unwrap();
    let text = text.replace("[design]\n", "[design]\ndisturbed_blocks = \"keep\"\n");
    assert!(text.contains("keep"), "{text}");
    fs::write(&plan, text).unwrap();
    bakeoff(&format!("run {name}.toml --out {name}"));
    let run = rundir::load(&dir.path().join(name), &workload::check).unwrap();
    let measured = run
        .attempts
        .iter()
        .filter(|one| matches!(one.outcome, Outcome::Measured(_)));
    assert_eq!(measured.count(), 4);
    assert!(
        run.opening.inputs.contains_key("file mine"),
        "{:?}",
        run.opening.inputs
    );
}
