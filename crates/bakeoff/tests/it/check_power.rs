//! `bakeoff check --power`: what a plan could find, before it runs for hours.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use expect_test::expect;

use crate::program::{command, refusal, stdout, wait_for};

const PLAN: &str = r#"title = "three kernels"
baseline = "old"
[machine]
clock = "instructions"
[image]
recipe = "web"
[arm.old]
kernel = "debian:bookworm/6.1"
[arm.new]
kernel = "debian:trixie-backports/7.2"
[arm.newer]
kernel = "debian:trixie-backports/7.2"
sysctl = { "net.core.somaxconn" = 4096 }
[[workload]]
kind = "web-static"
server = "apache"
connections = 4
warmup = "1s"
window = "59s"
[design]
margin = "1%"
error_rate = 0.05
min_blocks = 4
max_blocks = 8
seed = 7
"#;

fn simulate(dir: &Path, plan: &str, args: &[&str]) -> Command {
    std::fs::write(dir.join("plan.toml"), plan).unwrap();
    command(dir, &[&["check", "--power", "plan.toml"], args].concat())
}

#[test]
fn a_simulation_prints_its_table_and_repeats_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let simulated = || {
        let output = simulate(dir.path(), PLAN, &["--runs", "40", "--jobs", "1"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        stdout(&output)
    };
    let text = simulated();
    expect![[r#"
        three kernels
          plan       3 arms, margin 1.0 %, error rate 0.05, 4 to 8 blocks, seed 7
          simulated  40 runs for each line (shares are right within 16 points)

        web-static: noise counted instructions, 0.28 % from block to block
        each arm is     better   worse  equivalent  undecided   blocks  90 % end by      time
        the same         0.0 %   0.0 %      98.8 %      1.2 %      6.2            7       18m
        -0.50 %          0.0 %  18.8 %      77.5 %      3.8 %      6.8            8       20m
        -0.99 %          0.0 %  95.0 %       5.0 %      0.0 %      7.1            8       21m
        -1.97 %          0.0 % 100.0 %       0.0 %      0.0 %      7.0            7       21m
        -2.94 %          0.0 % 100.0 %       0.0 %      0.0 %      7.0            7       21m

        times are of one trial at a time and of load alone, boots not counted (--earlier RUN knows them)
    "#]]
    .assert_eq(&text);
    assert_eq!(simulated(), text);
}

#[test]
fn json_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["--noise", "0.5%", "--runs", "20", "--jobs", "1", "--json"];
    let output = simulate(dir.path(), PLAN, &args).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = json["scenes"][0]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 5);
    for line in lines {
        let number = |key: &str| line[key].as_f64().unwrap();
        let sum = number("better") + number("worse") + number("equivalent") + number("undecided");
        assert!((sum - 1.0).abs() < 1e-9, "{line}");
        assert!(4.0 <= number("blocks") && number("blocks") <= 8.0, "{line}");
        // Three arms, one minute each.
        assert!(
            (number("hours") - number("blocks") * 3.0 / 60.0).abs() < 1e-9,
            "{line}"
        );
    }
    assert_eq!(json["jobs"], 1);
    assert!(lines[4]["worse"].as_f64() > lines[0]["worse"].as_f64());
}

#[test]
fn unknown_noise_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = simulate(dir.path(), PLAN, &["--noise", "qiet"])
        .output()
        .unwrap();
    let error = refusal(&output);
    assert!(error.contains("did you mean \"quiet\"?"), "{error}");
}

/// Whether a process has a handler for SIGINT, which is bit 1 of its mask in `/proc`.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0
}

/// Interrupts a simulation that would take many minutes, by this many signals at once.
fn interrupted(signals: usize) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let plan = PLAN.replace("max_blocks = 8", "max_blocks = 500");
    let mut command = simulate(dir.path(), &plan, &["--noise", "loud"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = child.id();
    wait_for("a handler of signals", || catches_interrupts(pid));
    let pids = vec![pid.to_string(); signals];
    let kill = Command::new("kill").arg("-INT").args(pids).status();
    assert!(kill.unwrap().success());
    child.wait_with_output().unwrap()
}

#[test]
fn ctrl_c_ends_a_long_simulation_and_prints_the_results_so_far() {
    let output = interrupted(1);
    let error = refusal(&output);
    assert!(stdout(&output).contains("each arm is"));
    assert!(
        error.contains("interrupted: the table counts what was simulated so far"),
        "{error}"
    );
}

/// `timeout` sends a signal to a program and again to its group.
#[test]
fn two_signals_at_once_end_a_command_with_a_message() {
    let error = refusal(&interrupted(2));
    assert!(error.contains("bakeoff: interrupted"), "{error}");
}
