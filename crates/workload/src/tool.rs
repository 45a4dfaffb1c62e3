//! Programs that a workload runs to their end: benchmarks, tools that set data up, probes.
//!
//! A program runs where the calling thread is: in the clients' network namespace during a drive. Its output is kept
//! up to a limit; what it says last stands in the message if it fails.

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

/// Most that is kept of each of a program's two outputs.
const OUTPUT_BYTES: usize = 4 << 20;

/// Lines of output that a message shows.
const LAST_LINES: usize = 20;

/// How often somebody looks whether a program that runs is to be stopped. Its end is seen at once.
const GLANCE: Duration = Duration::from_millis(50);

/// A program to run to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Added to the environment.
    pub env: Vec<(String, String)>,
    /// Where it runs; the root where nothing is said.
    pub dir: Option<PathBuf>,
    /// Time that it may take.
    pub limit: Duration,
}

/// What a program that ended said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output, lossily as text.
    pub out: String,
    /// Its standard error.
    pub err: String,
    /// From its start to its end.
    pub took: Duration,
}

impl Tool {
    /// A program with its arguments that may take so long.
    pub fn new(command: &[&str], limit: Duration) -> Self {
        Self {
            command: command.iter().map(ToString::to_string).collect(),
            env: Vec::new(),
            dir: None,
            limit,
        }
    }

    /// Runs it; it and all that it started are ended at `stop`, at its limit, and with the calling thread.
    ///
    /// Errors are a program that cannot be started and a stop; one that takes too long is `Wrong`.
    pub fn run(&self, stop: &AtomicBool, on_glance: &mut dyn FnMut()) -> Result<Said> {
        self.run_with_glances(GLANCE, stop, on_glance)
    }

    fn run_with_glances(
        &self,
        glance: Duration,
        stop: &AtomicBool,
        on_glance: &mut dyn FnMut(),
    ) -> Result<Said> {
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
            on_glance();
            pause(watched.as_ref(), glance);
        };
        let took = began.elapsed();
        // What it left behind would be part of what comes next.
        base::process::end(&mut child);
        let (out, err) = (text(out), text(err));
        match end {
            Ok(status) => Ok(Said {
                status,
                out,
                err,
                took,
            }),
            Err(None) => bail!("stopped by the host"),
            Err(Some(limit)) => {
                let what = format!("{} did not end in {limit}", self.name());
                Err(Wrong(what + &last_lines(&out, &err)).into())
            }
        }
    }

    /// As `run`; a status other than 0 is `Wrong`, with the last lines of what it said.
    pub fn run_well(&self, stop: &AtomicBool, on_glance: &mut dyn FnMut()) -> Result<Said> {
        let said = self.run(stop, on_glance)?;
        if !said.status.success() {
            let what = format!("{} ended with {}", self.name(), said.status);
            return Err(Wrong(what + &last_lines(&said.out, &said.err)).into());
        }
        Ok(said)
    }

    /// Runs it for its effect, before there is a drive.
    pub fn set_up(&self) -> Result<Said> {
        self.run_well(&AtomicBool::new(false), &mut || {})
    }

    /// What messages call it: the program's name.
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

/// Asks by a program; says how it failed.
pub(crate) fn ask(command: &[String], patience: Duration) -> Result<(), String> {
    let tool = Tool {
        command: command.to_vec(),
        env: Vec::new(),
        dir: None,
        limit: patience,
    };
    match tool.set_up() {
        Ok(_) => Ok(()),
        Err(why) => Err(format!("{why:#}")),
    }
}

/// The last lines that a program said, indented; its errors if there are any.
pub(crate) fn last_lines(out: &str, err: &str) -> String {
    let text = if err.trim().is_empty() { out } else { err };
    let lines: Vec<_> = text.lines().collect();
    let first = lines.len().saturating_sub(LAST_LINES);
    lines[first..]
        .iter()
        .fold(String::new(), |text, line| text + "\n  " + line)
}

/// What becomes readable when a program ends; kernels before 5.3 have no such thing.
fn watch_end(child: &Child) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(child.id()).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Sleeps until a program has ended, for a time at most.
///
/// What a program took is a figure. Whoever looks at it in steps makes the figure one of these steps, and under counted
/// instructions it is the same one in every trial, so that arms that differ by less seem equal.
fn pause(watched: Option<&OwnedFd>, longest: Duration) {
    let Some(watched) = watched else {
        return thread::sleep(longest);
    };
    let longest = Timespec::try_from(longest).ok();
    // Interrupted or out of memory, it comes back early, and the program is looked at once more.
    let _ = poll(&mut [PollFd::new(watched, PollFlags::IN)], longest.as_ref());
}

type Drain = Option<JoinHandle<Vec<u8>>>;

/// Reads to the end, so that the program never waits for a reader, and keeps the beginning.
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

    fn run(script: &str, limit: Duration) -> Result<Said, String> {
        let tool = Tool::new(&["/bin/sh", "-c", script], limit);
        tool.set_up().map_err(|why| {
            assert!(why.downcast_ref::<Wrong>().is_some(), "{why:#}");
            why.to_string()
        })
    }

    #[test]
    fn what_a_program_says_is_kept_apart() {
        let said = run("echo right; echo odd >&2", Duration::from_secs(60)).unwrap();
        assert_eq!((said.out.as_str(), said.err.as_str()), ("right\n", "odd\n"));
    }

    #[test]
    fn a_program_that_fails_is_told_with_its_last_words() {
        let why = run("echo no such table >&2; exit 3", Duration::from_secs(60)).unwrap_err();
        expect![[r#"
            sh ended with exit status: 3
              no such table"#]]
        .assert_eq(&why);
    }

    #[test]
    fn a_program_without_end_is_ended_with_its_children() {
        let began = Instant::now();
        let why = run("echo begun; sleep 600 & wait", Duration::from_secs(3)).unwrap_err();
        expect![[r#"
            sh did not end in 3s
              begun"#]]
        .assert_eq(&why);
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn the_end_of_a_program_is_seen_between_two_glances() {
        let tool = Tool::new(&["/bin/sleep", "0.2"], Duration::from_secs(7200));
        let mut glances = 0;
        let said = tool
            .run_with_glances(
                Duration::from_secs(3600),
                &AtomicBool::new(false),
                &mut || glances += 1,
            )
            .unwrap();
        assert!(said.status.success());
        assert!(said.took < Duration::from_secs(3600), "{:?}", said.took);
        assert!(glances <= 1, "{glances}");
    }

    #[test]
    fn a_program_that_is_to_be_stopped_is_stopped() {
        let stop = AtomicBool::new(false);
        let tool = Tool::new(&["/bin/sleep", "3600"], Duration::from_secs(7200));
        let ended = tool.run(&stop, &mut || stop.store(true, Ordering::Relaxed));
        assert_eq!(ended.unwrap_err().to_string(), "stopped by the host");
    }
}
