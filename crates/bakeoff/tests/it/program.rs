//! Helpers for all tests: the program under test, its output, and other processes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy host.
const WAIT_LIMIT: Duration = Duration::from_secs(600);

/// A command that runs the program under test in a directory.
pub(crate) fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bakeoff"));
    command.args(args).current_dir(dir);
    command
}

/// Runs the program under test in a directory.
pub(crate) fn bakeoff(dir: &Path, args: &[&str]) -> Output {
    let output = command(dir, args).output();
    output.expect("the binary under test runs")
}

/// Like `bakeoff`, with a cache in `dir` that is empty at first.
pub(crate) fn bakeoff_with_new_cache(dir: &Path, args: &[&str]) -> Output {
    let mut command = command(dir, args);
    command.env("XDG_CACHE_HOME", dir.join("cache"));
    command.output().expect("the binary under test runs")
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Standard output, then standard error.
pub(crate) fn all_output(output: &Output) -> String {
    stdout(output) + &stderr(output)
}

/// Standard error of a command that must end with status 2.
#[track_caller]
pub(crate) fn refusal(output: &Output) -> String {
    let stderr = stderr(output);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    stderr
}

/// Sends a signal, by its name without SIG.
pub(crate) fn signal(name: &str, process: u32) {
    let kill = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(kill.unwrap().success());
}

pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < WAIT_LIMIT, "waited for {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
}

/// Whether all programs exist; if one is missing, reports that the test is skipped.
pub(crate) fn are_installed(programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !Path::new(program).exists());
    if let Some(missing) = missing {
        base::skip::skip(&format!("program not installed: {missing}"));
    }
    missing.is_none()
}

/// Writes an executable script. Another process writes it: a program that another test starts meanwhile would inherit our open
/// file, and a file that is open for writing cannot be executed.
pub(crate) fn write_script(path: &Path, text: &str) {
    let status = Command::new("/bin/sh")
        .args(["-c", r#"printf %s "$1" > "$0" && chmod 755 "$0""#])
        .arg(path)
        .arg(text)
        .status();
    assert!(status.unwrap().success());
}

/// A process that is killed when this is dropped.
pub(crate) struct KillOnDrop(pub(crate) Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that gets SIGTERM when this is dropped, so that it can end its children.
pub(crate) struct TerminateOnDrop(pub(crate) Child);

impl Drop for TerminateOnDrop {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// The design of plans that run two blocks, whatever they find.
pub(crate) const TWO_BLOCKS: &str = r#"[design]
error_rate = 0.2
min_blocks = 2
max_blocks = 2
disturbed_blocks = "keep"
seed = 1
"#;

/// Starts a load and waits for the line of its first second. The lines must live as long as the load, which writes more.
pub(crate) fn load_after_a_second(
    load: &mut Command,
) -> (Child, std::io::Lines<BufReader<ChildStderr>>) {
    load.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = load.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("  1 s"), "{first}");
    (child, lines)
}
