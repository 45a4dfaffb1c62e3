//! Programs that a workload runs to completion: benchmarks, set-up tools, probes.
//!
//! A program runs in the namespaces of the calling thread: during a drive, those of the clients.
//! Its output is kept up to a limit. If it fails, the message has the last lines of its output.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base::input::units::show_duration;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Wrong;
use crate::context;

/// Most bytes kept of standard output, and of standard error.
const OUTPUT_BYTES: usize = 4 << 20;

/// Number of lines of output in a message.
const LAST_LINES: usize = 20;

/// How often to check whether a running program must be stopped. Its exit is noticed at once.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A program to run to completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Additional environment variables.
    pub env: Vec<(String, String)>,
    /// Working directory; by default the root.
    pub dir: Option<PathBuf>,
    /// Time limit.
    pub limit: Duration,
}

/// Result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// Exit status.
    pub status: ExitStatus,
    /// Standard output, lossily converted to text.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Time from start to exit.
    pub took: Duration,
}

impl Tool {
    /// A program with arguments and a time limit.
    pub fn new(command: &[&str], limit: Duration) -> Self {
        Self {
            command: command.iter().map(ToString::to_string).collect(),
            env: Vec::new(),
            dir: None,
            limit,
        }
    }

    /// Runs the program. It and its children are killed at `stop`, at the limit, and with the
    /// calling thread. `on_poll` is called regularly.
    ///
    /// # Errors
    /// The program cannot be started or was stopped. Exceeding the limit is `Wrong`.
    pub fn run(&self, stop: &AtomicBool, on_poll: &mut dyn FnMut()) -> Result<ToolOutput> {
        self.run_polling(POLL_INTERVAL, stop, on_poll)
    }

    fn run_polling(
        &self,
        interval: Duration,
        stop: &AtomicBool,
        on_poll: &mut dyn FnMut(),
    ) -> Result<ToolOutput> {
        let began = Instant::now();
        let mut child = self.spawn()?;
        let watched = watch_end(&child);
        let out = drain(child.stdout.take());
        let err = drain(child.stderr.take());
        let end = loop {
            if let Some(status) = child.try_wait().context("wait for a program")? {
                break Ok(status);
            }
            if stop.load(Ordering::Relaxed) {
                break Err(None);
            }
            if began.elapsed() > self.limit {
                break Err(Some(show_duration(self.limit)));
            }
            on_poll();
            pause(watched.as_ref(), interval);
        };
        let took = began.elapsed();
        // Remaining children would disturb later work.
        base::process::end(&mut child);
        let (stdout, stderr) = (text(out), text(err));
        match end {
            Ok(status) => Ok(ToolOutput {
                status,
                stdout,
                stderr,
                took,
            }),
            Err(None) => bail!("stopped by the host"),
            Err(Some(limit)) => {
                let what = format!("{} did not end in {limit}", self.name());
                Err(Wrong(what + &last_lines(&stdout, &stderr)).into())
            }
        }
    }

    /// Like `run`. A status other than 0 is `Wrong`, with the last lines of output.
    pub fn run_successfully(
        &self,
        stop: &AtomicBool,
        on_poll: &mut dyn FnMut(),
    ) -> Result<ToolOutput> {
        let output = self.run(stop, on_poll)?;
        if !output.status.success() {
            let what = format!("{} ended with {}", self.name(), output.status);
            return Err(Wrong(what + &last_lines(&output.stdout, &output.stderr)).into());
        }
        Ok(output)
    }

    /// Runs the program during set-up, when there is no stop.
    pub fn set_up(&self) -> Result<ToolOutput> {
        self.run_successfully(&AtomicBool::new(false), &mut || {})
    }

    /// Name of the program in messages.
    fn name(&self) -> &str {
        let program = self.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program)
    }

    fn spawn(&self) -> Result<Child> {
        let (program, arguments) = self
            .command
            .split_first()
            .context("a tool without a command")?;
        let mut command = context::command(program);
        command
            .args(arguments)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(dir) = &self.dir {
            command.current_dir(dir);
        }
        base::process::bind(&mut command);
        command
            .spawn()
            .with_context(|| format!("start {}", self.command.join(" ")))
    }
}

/// Runs a program. The error describes its failure.
pub(crate) fn check_program(command: &[String], limit: Duration) -> Result<(), String> {
    let tool = Tool {
        command: command.to_vec(),
        env: Vec::new(),
        dir: None,
        limit,
    };
    tool.set_up().map(drop).map_err(|why| format!("{why:#}"))
}

/// The last lines of standard error, or of standard output if that is empty; indented.
pub(crate) fn last_lines(stdout: &str, stderr: &str) -> String {
    let is_silent = stderr.trim().is_empty();
    let text = if is_silent { stdout } else { stderr };
    let lines: Vec<_> = text.lines().collect();
    let first = lines.len().saturating_sub(LAST_LINES);
    lines[first..]
        .iter()
        .fold(String::new(), |text, line| text + "\n  " + line)
}

/// A descriptor that becomes readable when a program exits; kernels before 5.3 have none.
fn watch_end(child: &Child) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Sleeps until a program has exited, at most for `longest`.
///
/// The time of a program is a figure. Polling in steps would round it to a step. Under counted
/// instructions that is the same step in every trial, so arms with smaller differences would seem equal.
fn pause(watched: Option<&OwnedFd>, longest: Duration) {
    let Some(watched) = watched else {
        return thread::sleep(longest);
    };
    let longest = Timespec::try_from(longest).ok();
    // On an error it returns early, and the program is checked again.
    let _ = poll(&mut [PollFd::new(watched, PollFlags::IN)], longest.as_ref());
}

type Drain = Option<JoinHandle<Vec<u8>>>;

/// Reads to the end, so that the program never blocks, and keeps the beginning.
fn drain(pipe: Option<impl Read + Send + 'static>) -> Drain {
    let mut pipe = pipe?;
    Some(thread::spawn(move || {
        let mut kept = Vec::new();
        let mut piece = vec![0; 64 << 10];
        while let Ok(length @ 1..) = pipe.read(&mut piece) {
            let room = OUTPUT_BYTES.saturating_sub(kept.len());
            kept.extend_from_slice(&piece[..length.min(room)]);
        }
        kept
    }))
}

fn text(drain: Drain) -> String {
    let bytes = drain.and_then(|thread| thread.join().ok());
    String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn run(script: &str, limit: Duration) -> Result<ToolOutput, String> {
        let tool = Tool::new(&["/bin/sh", "-c", script], limit);
        tool.set_up().map_err(|why| {
            assert!(why.downcast_ref::<Wrong>().is_some(), "{why:#}");
            why.to_string()
        })
    }

    #[test]
    fn standard_output_and_error_are_separate() {
        let output = run("echo right; echo odd >&2", Duration::from_secs(60)).unwrap();
        assert_eq!(
            (output.stdout.as_str(), output.stderr.as_str()),
            ("right\n", "odd\n")
        );
    }

    #[test]
    fn the_error_of_a_failed_program_has_its_last_lines() {
        let why = run("echo no such table >&2; exit 3", Duration::from_secs(60)).unwrap_err();
        expect![[r#"
            sh ended with exit status: 3
              no such table"#]]
        .assert_eq(&why);
    }

    #[test]
    fn a_program_beyond_its_limit_is_killed_with_its_children() {
        let began = Instant::now();
        let why = run("echo begun; sleep 600 & wait", Duration::from_secs(3)).unwrap_err();
        expect![[r#"
            sh did not end in 3s
              begun"#]]
        .assert_eq(&why);
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn the_exit_of_a_program_is_noticed_between_polls() {
        let tool = Tool::new(&["/bin/sleep", "0.2"], Duration::from_secs(7200));
        let mut polls = 0;
        let output = tool
            .run_polling(
                Duration::from_secs(3600),
                &AtomicBool::new(false),
                &mut || polls += 1,
            )
            .unwrap();
        assert!(output.status.success());
        assert!(output.took < Duration::from_secs(3600), "{:?}", output.took);
        assert!(polls <= 1, "{polls}");
    }

    #[test]
    fn a_program_is_stopped_on_request() {
        let stop = AtomicBool::new(false);
        let tool = Tool::new(&["/bin/sleep", "3600"], Duration::from_secs(7200));
        let ended = tool.run(&stop, &mut || stop.store(true, Ordering::Relaxed));
        assert_eq!(ended.unwrap_err().to_string(), "stopped by the host");
    }
}
