//! A guest that is a process of this host: QEMU, or an agent in namespaces of its own.
//!
//! The line to the agent is a socket pair, so there is no path to be too long and no file to be left behind. A
//! thread of its own starts the process, reads the line, and stays until the guest is dropped, because the kernel
//! kills the process when that thread ends (see `base::process::bind`).
//!
//! ```text
//! start --> running --Said*--> Exited
//!              +--> Panicked ---^        (QEMU ends by itself: -no-reboot, panic=-1)
//!              +--> Refused              (no message, or too much of anything)
//! ```
//! Whatever the guest does, this side holds a few messages of it, ends of its texts, and a console that has a limit.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use base::input::text;
use base::input::units::show_bytes;
use profiler::counter::{self, Counted};
use record::defect::FoundDefect;
use record::protocol::{FromAgent, Inbox, ToAgent};

use crate::console;
use crate::console::Console;
use crate::guest::{Guest, GuestEvent};
use crate::kvm_host::TrialOnHost;
use crate::profiling;
use crate::program;
use crate::program::{Scratch, last_words};

/// How often console and process are looked at while nothing is said.
const GLANCE: Duration = Duration::from_millis(100);

/// Messages that wait to be heard; then the line waits, and the guest with it.
const WAITING: usize = 4;

/// Most that the program itself may write to its outputs, in bytes: they are kept in memory.
const STDERR_BYTES: u64 = 16 << 20;

/// The longest file that a program may write which writes none: its words on standard error are one to the kernel.
pub(crate) const ERROR_BYTES: u64 = 1 << 20;

/// What a guest may have of the host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// What its agent may say in all.
    pub(crate) allowance_bytes: u64,
    /// The longest file that its program may write: the kernel ends it there.
    pub(crate) file_bytes: Option<u64>,
}

/// What the line brings.
enum Line {
    Said(Box<FromAgent>),
    Garbled(String),
    Closed,
}

/// A process with an agent at the other end of its standard input.
pub(crate) struct ProcessGuest {
    /// What it is called in messages.
    name: &'static str,
    child: Child,
    line: UnixStream,
    lines: Receiver<Line>,
    // Dropping it lets the thread end.
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
    console: Console,
    stderr: Scratch,
    exited: Option<String>,
    closed: bool,
    /// What its profiler writes, or why it has none.
    profile: Result<File, String>,
    /// What its counter writes, if it has one.
    counts: Option<File>,
    /// The host that it runs on, where that is looked at.
    on_host: Option<TrialOnHost>,
    /// The host's hardware, where that is looked at.
    hardware: BTreeMap<String, String>,
}

impl ProcessGuest {
    /// Starts the program; its console, or what stands for it, is a file.
    pub(crate) fn start(
        name: &'static str,
        program: Command,
        console: PathBuf,
        limits: Limits,
    ) -> Result<Self> {
        Self::start_with(name, program, console, limits, None)
    }

    /// The same; `stdout` is its standard output, where that is not for words.
    pub(crate) fn start_with(
        name: &'static str,
        mut program: Command,
        console: PathBuf,
        limits: Limits,
        stdout: Option<OwnedFd>,
    ) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
        let reading = ours.try_clone().context("cannot share a socket")?;
        let stderr = Scratch::new()?;
        base::process::bind(&mut program);
        if let Some(bytes) = limits.file_bytes {
            base::process::limit_files(&mut program, bytes);
        }
        program
            .stdin(OwnedFd::from(theirs))
            .stdout(match stdout {
                Some(stdout) => stdout.into(),
                None => stderr.stdio()?,
            })
            .stderr(stderr.stdio()?);
        let (say, lines) = sync_channel(WAITING);
        let (started, child) = channel();
        let (release, released) = channel::<()>();
        let keeper = thread::Builder::new()
            .name("guest line".into())
            .spawn(move || {
                let spawned = program.spawn();
                // Our copy of the program's end goes with the command, so that the line closes with it.
                drop(program);
                let up = spawned.is_ok();
                if started.send(spawned).is_ok() && up {
                    read_line(Inbox::new(reading, limits.allowance_bytes), &say);
                    // Ends with an error when the guest is dropped: nothing is ever sent.
                    let _ = released.recv();
                }
            })?;
        let child = child
            .recv()
            .map_err(|_| anyhow!("the guest's thread has ended"))??;
        Ok(Self {
            name,
            child,
            line: ours,
            lines,
            keeper: Some((release, keeper)),
            console: Console::new(console),
            stderr,
            exited: None,
            closed: false,
            profile: Err("the guest was not profiled".into()),
            counts: None,
            on_host: None,
            hardware: BTreeMap::new(),
        })
    }

    /// Number of its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Writes what is for the program itself, before anything is said to the agent.
    pub(crate) fn hand_over(&mut self, text: &str) -> Result<()> {
        let told = self.line.write_all(text.as_bytes());
        told.with_context(|| format!("cannot speak to {}", self.name))
    }

    /// Has its host's facts noted.
    pub(crate) fn set_host(&mut self, on_host: TrialOnHost) {
        self.on_host = Some(on_host);
    }

    /// Has facts of its host's hardware noted.
    pub(crate) fn set_hardware(&mut self, facts: BTreeMap<String, String>) {
        self.hardware = facts;
    }

    /// Has a counter, or not.
    pub(crate) fn set_counts(&mut self, counts: Option<File>) {
        self.counts = counts;
    }

    /// Has a profiler, or not, and why.
    pub(crate) fn set_profile(&mut self, profile: Result<File, String>) {
        self.profile = profile;
    }

    /// Whether there is more of something than any guest has to say.
    fn flood(&self) -> Option<GuestEvent> {
        let what = if self.console.is_flooded() {
            format!("console longer than {}", show_bytes(console::LIMIT_BYTES))
        } else if self.stderr.bytes().unwrap_or(0) > STDERR_BYTES {
            let limit = show_bytes(STDERR_BYTES);
            format!("error output of {} longer than {limit}", self.name)
        } else {
            return None;
        };
        Some(GuestEvent::Refused(what))
    }

    fn hear(&mut self, line: Line) -> Option<GuestEvent> {
        self.closed = !matches!(line, Line::Said(_));
        match line {
            Line::Said(message) => Some(GuestEvent::Said(message)),
            Line::Garbled(why) => Some(GuestEvent::Refused(why)),
            Line::Closed => None,
        }
    }

    /// What was said before the end, then a panic, then the end itself.
    fn last_event(&mut self) -> Option<GuestEvent> {
        // The kernel ends who writes on and on, maybe before anybody looked.
        if let Some(flood) = self.flood() {
            return Some(flood);
        }
        // The thread may still be reading what lies in the socket.
        if !self.closed
            && let Ok(line) = self.lines.recv_timeout(GLANCE * 10)
            && let Some(happening) = self.hear(line)
        {
            return Some(happening);
        }
        if let Some(panic) = self.console.panic() {
            return Some(GuestEvent::Panicked(panic));
        }
        self.exited.clone().map(GuestEvent::Exited)
    }

    fn note_exit(&mut self) {
        if self.exited.is_some() {
            return;
        }
        let status = match self.child.try_wait() {
            Ok(None) => return,
            Ok(Some(status)) => status,
            Err(why) => {
                self.exited = Some(format!("{} cannot be waited for: {why}", self.name));
                return;
            }
        };
        let said = self.stderr_text();
        self.exited = Some(match said.as_str() {
            "" => format!("{} ended: {status}", self.name),
            said => format!(
                "{} ended: {status}: {}",
                self.name,
                last_words(said, status)
            ),
        });
    }

    /// The program's own words, without QEMU's warnings: emulation always lacks some CPU feature or other.
    fn stderr_text(&mut self) -> String {
        let said = text::clean(&self.stderr.ends().unwrap_or_default());
        let told: Vec<_> = said
            .lines()
            .filter(|line| !line.contains("warning:"))
            .collect();
        told.join("\n")
    }
}

impl Guest for ProcessGuest {
    fn send(&mut self, message: &ToAgent) -> Result<()> {
        record::protocol::send(&mut self.line, message).context("cannot speak to the agent")
    }

    fn next(&mut self, patience: Duration) -> GuestEvent {
        let until = Instant::now() + patience;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Looked at first: an agent that never stops talking must not hide it.
            if let Some(flood) = self.flood() {
                return flood;
            }
            match self.lines.recv_timeout(left.min(GLANCE)) {
                Ok(line) => {
                    if let Some(happening) = self.hear(line) {
                        return happening;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The thread stays until we are dropped, so this is a thread that panicked.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(left.min(GLANCE)),
            }
            if let Some(panic) = self.console.panic() {
                return GuestEvent::Panicked(panic);
            }
            self.console.shorten();
            self.note_exit();
            if self.exited.is_some()
                && let Some(happening) = self.last_event()
            {
                return happening;
            }
            if left.is_zero() {
                return GuestEvent::Quiet;
            }
        }
    }

    fn console(&self, lines: usize) -> Vec<String> {
        self.console.tail(lines)
    }

    fn defects(&mut self) -> Vec<FoundDefect> {
        self.console.defects()
    }

    fn starved(&self) -> Duration {
        program::starved(self.child.id())
    }

    fn profiled(&mut self) -> Result<Vec<u8>> {
        match &self.profile {
            Ok(file) => profiling::read(file),
            Err(why) => Err(anyhow!("{why}")),
        }
    }

    fn counted(&mut self) -> Result<Option<Counted>> {
        let counts = self.counts.as_ref();
        counts
            .map(|file| counter::read(&profiling::read(file)?))
            .transpose()
    }

    fn host_facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.hardware.clone();
        facts.extend(
            self.on_host
                .as_ref()
                .map(TrialOnHost::facts)
                .unwrap_or_default(),
        );
        facts
    }

    fn stderr_line(&mut self) -> Option<String> {
        let said = self.stderr_text();
        said.lines()
            .find(|line| !line.trim().is_empty())
            .map(String::from)
    }
}

impl Drop for ProcessGuest {
    fn drop(&mut self) {
        base::process::end(&mut self.child);
        // The thread may wait to hand over a message that nobody wants any more.
        drop(std::mem::replace(&mut self.lines, channel().1));
        if let Some((release, keeper)) = self.keeper.take() {
            drop(release);
            // A thread that panicked has nothing more to tell.
            let _ = keeper.join();
        }
    }
}

fn read_line(mut line: Inbox<UnixStream>, say: &SyncSender<Line>) {
    loop {
        let heard = match line.receive() {
            Ok(message) => Line::Said(message),
            Err(end)
                if matches!(
                    end.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
                ) =>
            {
                Line::Closed
            }
            Err(why) => Line::Garbled(format!("the agent's line is garbled: {why}")),
        };
        let goes_on = matches!(heard, Line::Said(_));
        if say.send(heard).is_err() || !goes_on {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn guest(script: &str, console: &Path) -> ProcessGuest {
        let mut shell = Command::new("/bin/sh");
        fs::write(console, "").unwrap();
        ProcessGuest::start(
            "QEMU",
            {
                shell.args(["-c", script]).env("CONSOLE", console);
                shell
            },
            console.into(),
            Limits {
                allowance_bytes: 1 << 20,
                file_bytes: None,
            },
        )
        .unwrap()
    }

    #[test]
    fn the_last_words_come_before_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("console.log");
        // The length, then the message, on the line that is standard input.
        let script = r#"printf '\026\0\0\0{"phase":"measuring"}\n' >&0; echo broken >&2; exit 3"#;
        let mut guest = guest(script, &console);
        let first = guest.next(Duration::from_secs(60));
        let said = FromAgent::Phase(record::trial::Phase::Measuring);
        assert_eq!(first, GuestEvent::Said(Box::new(said)));
        let end = GuestEvent::Exited("QEMU ended: exit status: 3: broken".into());
        assert_eq!(guest.next(Duration::from_secs(60)), end);
        assert_eq!(guest.next(Duration::from_secs(60)), end);
    }

    #[test]
    fn a_panic_is_told_once_and_before_the_exit() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("console.log");
        let script = r#"echo '[    1.2] Kernel panic - not syncing: no init' > "$CONSOLE"; exit 0"#;
        let mut guest = guest(script, &console);
        let panic = GuestEvent::Panicked("Kernel panic - not syncing: no init".into());
        assert_eq!(guest.next(Duration::from_secs(60)), panic);
        let end = GuestEvent::Exited("QEMU ended: exit status: 0".into());
        assert_eq!(guest.next(Duration::from_secs(60)), end);
        assert_eq!(guest.console(5).len(), 1);
    }

    #[test]
    fn silence_and_garbage_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("console.log");
        let mut silent = guest("sleep 600", &console);
        assert_eq!(silent.next(Duration::from_millis(50)), GuestEvent::Quiet);
        drop(silent);
        let mut noisy = guest(r"printf '\377\377\377\377' >&0; sleep 600", &console);
        assert!(matches!(
            noisy.next(Duration::from_secs(60)),
            GuestEvent::Refused(_)
        ));
    }
}
