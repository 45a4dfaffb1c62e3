//! `bakeoff simulate`: what a plan would find, before a night is spent on it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use expect_test::expect;

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

fn simulate(dir: &Path, plan: &str, words: &[&str]) -> Command {
    std::fs::write(dir.join("plan.toml"), plan).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(["simulate", "plan.toml"]).args(words);
    command.current_dir(dir);
    command
}

#[test]
fn a_plan_says_what_it_would_find_and_says_the_same_again() {
    let dir = tempfile::tempdir().unwrap();
    let once = || {
        let output = simulate(dir.path(), PLAN, &["--runs", "40", "--jobs", "1"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = once();
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

        times are of one trial at a time and of load alone, boots not counted (--from RUN knows them)
    "#]]
    .assert_eq(&said);
    assert_eq!(once(), said);
}

#[test]
fn what_machines_read_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["--noise", "0.5%", "--runs", "20", "--jobs", "1", "--json"];
    let output = simulate(dir.path(), PLAN, &words).output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = said["scenes"][0]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 5);
    for line in lines {
        let share = |key: &str| line[key].as_f64().unwrap();
        let sum = share("better") + share("worse") + share("equivalent") + share("undecided");
        assert!((sum - 1.0).abs() < 1e-9, "{line}");
        assert!(4.0 <= share("blocks") && share("blocks") <= 8.0, "{line}");
        // Three arms, a minute each.
        assert!(
            (share("hours") - share("blocks") * 3.0 / 60.0).abs() < 1e-9,
            "{line}"
        );
    }
    assert_eq!(said["jobs"], 1);
    assert!(lines[4]["worse"].as_f64() > lines[0]["worse"].as_f64());
}

#[test]
fn noise_that_nobody_knows_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let output = simulate(dir.path(), PLAN, &["--noise", "qiet"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("did you mean \"quiet\"?"), "{why}");
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(600),
            "waited until {what}"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether a process has a handler for SIGINT: bit 1 of its mask, as `/proc` shows it.
fn catches_interrupts(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 0b10 != 0
}

#[test]
fn ctrl_c_ends_a_long_simulation_at_once_with_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let plan = PLAN.replace("max_blocks = 8", "max_blocks = 500");
    let mut command = simulate(dir.path(), &plan, &["--noise", "loud"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("it listens to signals", || catches_interrupts(child.id()));
    let pid = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .unwrap()
            .success()
    );
    // The whole simulation would take many minutes: that it ends at all is what is asked of it.
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .contains("each arm is")
    );
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(
        why.contains("interrupted: the table counts what was simulated so far"),
        "{why}"
    );
}

/// `timeout` sends a signal to a program and then to its group.
#[test]
fn a_signal_that_comes_twice_at_once_ends_no_command_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let plan = PLAN.replace("max_blocks = 8", "max_blocks = 500");
    let mut command = simulate(dir.path(), &plan, &["--noise", "loud"]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("it listens to signals", || catches_interrupts(child.id()));
    let pid = child.id().to_string();
    let twice = Command::new("kill").args(["-INT", &pid, &pid]).status();
    assert!(twice.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let why = String::from_utf8(output.stderr).unwrap();
    assert!(why.contains("bakeoff: interrupted"), "{why}");
}
