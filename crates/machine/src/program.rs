//! Runs other programs so that none of them survives bakeoff.
//!
//! A program is bound to the thread that starts it (`base::process::bind`). Its descendants end when a
//! pipe closes, when their PID namespace ends (`enclosed`), or with their process group (`run_group`).

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::MemfdFlags;
use rustix::process::geteuid;

use crate::task::Task;

/// How often a running program is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Directories of system programs, which an ordinary user's `PATH` may lack.
const SYSTEM_DIRECTORIES: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

/// Finds a program in `PATH` or among system programs.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_DIRECTORIES.map(PathBuf::from))
        .map(|dir| dir.join(name))
        .find(|file| file.is_file())
}

/// A command of a required program; `package` is the Debian package that contains it.
///
/// # Errors
/// It is not installed; the error names the package.
pub fn command(name: &str, package: &str) -> Result<Command> {
    match find(name) {
        Some(path) => Ok(Command::new(path)),
        None => bail!("program not found: {name} (install the Debian package {package})"),
    }
}

/// A command in PID and mount namespaces, which end with it, so that its descendants and mounts do too.
///
/// For an ordinary user it also gets a user namespace in which it is root and has that user's subordinate ids. This
/// needs `newuidmap` and a line in `/etc/subuid`.
pub(crate) fn enclosed(program: &OsStr) -> Result<Command> {
    let mut enclosure = command("unshare", "util-linux")?;
    if !geteuid().is_root() {
        if find("newuidmap").is_none() {
            bail!(
                "program not found: newuidmap (install the Debian package uidmap, or run as root)"
            );
        }
        enclosure.args(["--user", "--map-root-user", "--map-auto"]);
    }
    enclosure.args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    enclosure.arg("--").arg(program);
    Ok(enclosure)
}

/// Runs a program to its end and returns its output; an error has the last lines of its standard error.
pub(crate) fn run(command: &mut Command, task: Task<'_>) -> Result<String> {
    run_with(command, task, &mut |_| {})
}

/// Like `run`, but fails if the program has not ended within `limit`.
pub(crate) fn run_within(limit: Duration, command: &mut Command, task: Task<'_>) -> Result<String> {
    run_to(Some(limit), command, Stdio::null(), task, &mut |_| {})
}

/// Like `run_within`, for a program that reads `input`.
pub(crate) fn run_fed(
    limit: Duration,
    command: &mut Command,
    input: File,
    task: Task<'_>,
) -> Result<String> {
    run_to(Some(limit), command, input.into(), task, &mut |_| {})
}

/// Like `run`; calls `on_poll` again and again with the program's standard error so far.
pub(crate) fn run_with(
    command: &mut Command,
    task: Task<'_>,
    on_poll: &mut dyn FnMut(&str),
) -> Result<String> {
    run_to(None, command, Stdio::null(), task, on_poll)
}

/// Runs a program under its name.
fn run_to(
    limit: Option<Duration>,
    command: &mut Command,
    input: Stdio,
    task: Task<'_>,
    on_poll: &mut dyn FnMut(&str),
) -> Result<String> {
    let name = name_of(command);
    run_named(&name, limit, command, input, task, on_poll)
}

/// A guard in a program's process group: ends the group at the end of its input, which comes when bakeoff is gone.
const GUARD: &str = r#"
exec 3<&0 < /dev/null
(read -r _ <&3; kill -KILL 0) &
exec 3<&-
exec "$@"
"#;

/// Like `run_with`, for a program such as make, whose children would survive if it were killed alone. All of them hold
/// `lock` until they end.
pub(crate) fn run_group(
    command: &Command,
    lock: &File,
    task: Task<'_>,
    on_poll: &mut dyn FnMut(&str),
) -> Result<String> {
    let (input, open_end) = std::io::pipe().context("cannot make a pipe")?;
    let mut guarded = Command::new("/bin/sh");
    guarded.args(["-c", GUARD, "sh"]);
    guarded.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(name, value),
            None => guarded.env_remove(name),
        };
    }
    base::process::inherit(&mut guarded, lock.try_clone()?.into());
    let name = name_of(command);
    let output = run_named(&name, None, &mut guarded, input.into(), task, on_poll);
    // Ends the guard, and with it what the program may have left.
    drop(open_end);
    output
}

fn run_named(
    name: &str,
    limit: Option<Duration>,
    command: &mut Command,
    input: Stdio,
    task: Task<'_>,
    on_poll: &mut dyn FnMut(&str),
) -> Result<String> {
    let began = Instant::now();
    let mut out = Scratch::new()?;
    let mut err = Scratch::new()?;
    base::process::bind(command);
    command
        .stdin(input)
        .stdout(out.stdio()?)
        .stderr(err.stdio()?);
    let child = command
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let mut child = Running(child);
    let status = loop {
        if let Some(status) = child.0.try_wait()? {
            break status;
        }
        task.go_on()?;
        if let Some(limit) = limit.filter(|limit| began.elapsed() > *limit) {
            bail!("{name} did not end within {} s", limit.as_secs());
        }
        on_poll(&err.text()?);
        thread::sleep(POLL_INTERVAL);
    };
    if !status.success() {
        bail!("{name} failed: {}", last_lines(&err.text()?, status));
    }
    out.text()
}

fn name_of(command: &Command) -> String {
    let path = Path::new(command.get_program());
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// The important lines of a standard error, joined; the status if there are none.
pub(crate) fn last_lines(stderr: &str, status: ExitStatus) -> String {
    let lines: Vec<_> = stderr
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    // Debian's tools mark errors with E:, and a dozen notes may follow the error.
    let errors: Vec<_> = lines
        .iter()
        .copied()
        .filter(|l| l.starts_with("E:"))
        .collect();
    let important = if errors.is_empty() { lines } else { errors };
    match important.as_slice() {
        [] => status.to_string(),
        lines => lines[lines.len().saturating_sub(4)..].join("; "),
    }
}

/// A running program; killed with its process group when dropped before its end.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            base::process::end(&mut self.0);
        }
    }
}

/// The longest time that a thread of the process has waited for a CPU; zero if the kernel does not count it.
pub(crate) fn starved(process: u32) -> Duration {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let waits = threads.filter_map(|thread| {
        let schedstat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        run_delay(&schedstat)
    });
    waits.max().unwrap_or_default()
}

/// The second field of a `schedstat`: nanoseconds on a run queue, ready and not running.
fn run_delay(schedstat: &str) -> Option<Duration> {
    let field = schedstat.split_whitespace().nth(1)?;
    field.parse().ok().map(Duration::from_nanos)
}

/// A file in memory; `name` is its name in `/proc`.
pub(crate) fn in_memory(name: &str) -> Result<File> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)
        .context("cannot make a file in memory")?;
    Ok(File::from(fd))
}

/// A file in memory with this content, to be read from its beginning.
///
/// # Errors
/// The kernel has no memory for it.
pub fn in_memory_with(name: &str, body: &[u8]) -> Result<File> {
    let mut file = in_memory(name)?;
    file.write_all(body)?;
    file.rewind()?;
    Ok(file)
}

/// A file in memory for a program's output: unlike a pipe, it cannot fill up.
pub(crate) struct Scratch(File);

impl Scratch {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(in_memory("bakeoff")?))
    }

    /// The program's end.
    pub(crate) fn stdio(&self) -> Result<Stdio> {
        // A duplicate would share the offset, so that reading would move where the program writes.
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.0));
        let file = File::options()
            .append(true)
            .open(path)
            .context("cannot open a file in memory")?;
        Ok(file.into())
    }

    /// Number of bytes written so far.
    pub(crate) fn bytes(&self) -> Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Beginning and end of the output so far; all of it if it is short.
    pub(crate) fn ends(&mut self) -> Result<String> {
        const END_BYTES: u64 = 64 << 10;
        let length = self.bytes()?;
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(0))?;
        (&self.0).take(END_BYTES).read_to_end(&mut bytes)?;
        if length > END_BYTES {
            self.0
                .seek(SeekFrom::Start((length - END_BYTES).max(END_BYTES)))?;
            (&self.0).take(END_BYTES).read_to_end(&mut bytes)?;
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The output so far.
    pub(crate) fn text(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        self.0.seek(SeekFrom::Start(0))?;
        self.0.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    fn shell(script: &str, stop: bool) -> Result<String> {
        let stop = AtomicBool::new(stop);
        let task = Task::silent(&stop);
        run(Command::new("/bin/sh").args(["-c", script]), task)
    }

    #[test]
    fn output_and_errors_are_kept_apart() {
        assert_eq!(shell("echo fine; echo noise >&2", false).unwrap(), "fine\n");
    }

    #[test]
    fn an_error_has_the_last_lines() {
        let failure = shell("echo note >&2; echo 'E: no such thing' >&2; exit 3", false);
        assert_eq!(
            failure.unwrap_err().to_string(),
            "sh failed: E: no such thing"
        );
        let silent = shell("exit 3", false).unwrap_err().to_string();
        assert_eq!(silent, "sh failed: exit status: 3");
    }

    #[test]
    fn an_interrupted_program_is_gone_with_its_children() {
        let began = Instant::now();
        let failure = shell("sleep 600 & sleep 600", true).unwrap_err();
        assert!(failure.to_string().starts_with("interrupted"));
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_program_that_does_not_end_is_ended() {
        let stop = AtomicBool::new(false);
        let task = Task::silent(&stop);
        let mut sleep = Command::new("/bin/sh");
        sleep.args(["-c", "sleep 600"]);
        let why = run_within(Duration::ZERO, &mut sleep, task).unwrap_err();
        assert_eq!(why.to_string(), "sh did not end within 0 s");
    }

    #[test]
    fn the_wait_for_a_cpu_is_told_apart() {
        let account = "1035000000 72000000 4711\n";
        assert_eq!(run_delay(account), Some(Duration::from_millis(72)));
        assert_eq!(run_delay(""), None);
        // A thread cannot have waited for longer than its process exists, and there is no process of this number.
        let began = Instant::now();
        let mut sleep = Command::new("sleep").arg("600").spawn().unwrap();
        let waited = starved(sleep.id());
        sleep.kill().unwrap();
        sleep.wait().unwrap();
        assert!(waited < began.elapsed());
        assert_eq!(starved(u32::MAX), Duration::ZERO);
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let missing = command("no-such-program", "no-such-package").unwrap_err();
        assert_eq!(
            missing.to_string(),
            "program not found: no-such-program (install the Debian package no-such-package)"
        );
    }
}
