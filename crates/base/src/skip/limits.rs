//! Readers of what others have written, each in a process whose memory and CPU time are limited: a busy machine makes no difference.

use std::any::type_name_of_val;
use std::cell::Cell;
use std::env;
use std::fmt::Display;
use std::panic::resume_unwind;
use std::process::{Command, Output};

use rustix::process::{Resource, Rlimit, setrlimit};

/// What a reader may take beyond what its process had at the start, in bytes.
const MEMORY_BYTES: u64 = 300 << 20;

/// CPU time of a reader, in seconds.
const CPU_S: u64 = 2;

/// What a program of ours has at its start: its code, stacks and arenas, in bytes.
const START_BYTES: u64 = 96 << 20;

/// Names the test whose reader runs in this process.
const CHILD: &str = "BAKEOFF_READS_WITHIN_LIMITS";

/// Begins the line that tells what came of it.
const MARK: &str = "READER: ";

thread_local! {
    /// Whether this thread's test has asked.
    static ASKED: Cell<bool> = const { Cell::new(false) };
}

/// Why a reader refuses what it is given. `read` runs in a process of its own, in which the calling test is run anew up to here: so a test
/// asks once.
///
/// # Panics
/// The reader takes it, needs more memory or time than it may, or ends its process; or the test has asked before.
pub fn refusal<T, E: Display>(read: impl FnOnce() -> Result<T, E>) -> String {
    assert!(!ASKED.replace(true), "a test asks once");
    // A closure's name is that of its test, behind its crate.
    let name = type_name_of_val(&read);
    let test = name.split_once("::").map_or(name, |(_, test)| test);
    let test = test.trim_end_matches("::{{closure}}");
    if env::var(CHILD).is_ok_and(|child| child == test) {
        limit();
        match read() {
            Ok(_) => println!("\n{MARK}nothing is refused"),
            Err(why) => println!("\n{MARK}{why:#}"),
        }
        // What the test has made is cleared away.
        resume_unwind(Box::new("the reader has ended"));
    }
    let program = env::current_exe().expect("a test knows its program");
    let mut child = Command::new(program);
    child
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, test);
    let output = child.output().expect("a test can be run anew");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = printed.lines().find_map(|line| line.strip_prefix(MARK));
    let Some(told) = told else {
        let error = String::from_utf8_lossy(&output.stderr);
        panic!(
            "the reader ended without a word: {} {printed} {error}",
            output.status
        );
    };
    told.into()
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
    set(Resource::Cpu, CPU_S);
}

fn set(what: Resource, most: u64) {
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(what, limit).expect("a process may limit itself");
}

/// The most memory that a process has had, in bytes; `None` when it has ended. `self` is this one.
pub fn peak_bytes(process: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib << 10)
}

/// What a program of ours says, run within these limits.
///
/// # Panics
/// No shell can be started.
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
