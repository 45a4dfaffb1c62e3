//! Runs readers of untrusted input in processes with limited memory and CPU time, so that a busy machine makes no difference.

use std::any::type_name_of_val;
use std::cell::Cell;
use std::env;
use std::fmt::Display;
use std::panic::resume_unwind;
use std::process::{Command, Output};

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Memory that a reader may use beyond what its process had at the start, in bytes.
const MEMORY_BYTES: u64 = 300 << 20;

/// CPU time of a reader, in seconds.
const CPU_S: u64 = 2;

/// Memory of one of bakeoff's programs at its start, for code, stacks and arenas, in bytes.
const START_BYTES: u64 = 96 << 20;

/// Names the test whose reader runs in this process.
const CHILD: &str = "BAKEOFF_READS_WITHIN_LIMITS";

/// Marks the line with the reader's result.
const MARK: &str = "READER: ";

thread_local! {
    /// Whether this thread's test has called `refusal`.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// The error with which a reader refuses its input. `read` runs in a separate process, which runs the calling test again up to this
/// call. So a test may call it only once.
///
/// # Panics
/// The reader accepts the input, exceeds a limit, or ends its process; or the test calls this twice.
pub fn refusal<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> String {
    assert!(!ASKED.replace(true), "a test may call this only once");
    // A closure's name contains the name of its test, after the crate.
    let name = type_name_of_val(&read);
    let test = name.split_once("::").map_or(name, |(_, test)| test);
    let test = test.trim_end_matches("::{{closure}}");
    if env::var(CHILD).is_ok_and(|child| child == test) {
        limit();
        match read() {
            Ok(_) => println!("\n{MARK}nothing is refused"),
            Err(why) => println!("\n{MARK}{why:#}"),
        }
        // Unwinding lets the test clean up.
        resume_unwind(Box::new("the reader has ended"));
    }
    let program = env::current_exe().expect("a test knows its program");
    let mut child = Command::new(program);
    child
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, test);
    let output = child.output().expect("a test can be run anew");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let result = printed.lines().find_map(|line| line.strip_prefix(MARK));
    let Some(result) = result else {
        let error = String::from_utf8_lossy(&output.stderr);
        panic!(
            "the reader ended without a word: {} {printed} {error}",
            output.status
        );
    };
    result.into()
}

fn limit() {
    let memory = std::fs::read_to_string("/proc/self/statm").expect("a process knows its memory");
    let pages = memory
        .split(' ')
        .next()
        .and_then(|pages| pages.parse().ok());
    let start: u64 = pages
        .map(|pages: u64| pages * 4096)
        .expect("pages are a number");
    set(Resource::As, start + MEMORY_BYTES);
    // What the test has spent on its input is not the reader's; limits are whole seconds.
    let spent_s = clock_gettime(ClockId::ProcessCPUTime).tv_sec as u64 + 1;
    set(Resource::Cpu, spent_s + CPU_S);
}

fn set(what: Resource, most: u64) {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(what, limit).expect("a process may limit itself");
}

/// Peak memory of a process, in bytes; `None` if it has ended. `self` is this process.
pub fn peak_bytes(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// Runs one of bakeoff's programs within these limits, and returns its output.
///
/// # Panics
/// The shell cannot be started.
pub fn run(program: &Command) -> Output {
    let kib = (START_BYTES + MEMORY_BYTES) >> 10;
    let mut shell = Command::new("sh");
    shell
        .arg("-c")
        .arg(format!(
            "ulimit -v {kib} && ulimit -t {CPU_S} && exec \"$0\" \"$@\""
        ))
        .arg(program.get_program())
        .args(program.get_args());
    if let Some(dir) = program.get_current_dir() {
        shell.current_dir(dir);
    }
    shell.output().expect("there is a shell")
}
