//! A guest that is a process of this host: QEMU, or an agent in separate namespaces.
//!
//! The channel to the agent is a socket pair, so no path can be too long and no file is left behind. A thread starts the
//! process, reads the channel, and lives until the guest is dropped, because the kernel kills the process when that
//! thread ends (see `base::process::bind`).
//!
//! ```text
//! start --> running --Said*--> Exited
//!              +--> Panicked ---^        (QEMU ends by itself: -no-reboot, panic=-1)
//!              +--> Refused              (no message, or too much of anything)
//! ```
//! Whatever the guest does, memory is bounded: a few messages, the ends of its output, and a limited console.

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
use crate::program::{Scratch, last_lines};

/// How often console and process are checked while no message comes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Received messages that may wait; then the channel blocks, and the guest with it.
const QUEUE_LENGTH: usize = 4;

/// Most bytes that the program may write to its standard output and error, which are kept in memory.
const STDERR_BYTES: u64 = 16 << 20;

/// Limit of files for a program that writes none: for the kernel, its standard error is a file.
pub(crate) const ERROR_BYTES: u64 = 1 << 20;

/// A guest's limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Most bytes that its agent may send.
    pub(crate) allowance_bytes: u64,
    /// The longest file that its program may write; the kernel ends it there.
    pub(crate) file_bytes: Option<u64>,
}

/// What is received from the channel.
enum Received {
    Message(Box<FromAgent>),
    /// An invalid message, or too many bytes.
    Invalid(String),
    Closed,
}

/// A process with an agent at the other end of its standard input.
pub(crate) struct ProcessGuest {
    /// Its name in messages.
    name: &'static str,
    child: Child,
    channel: UnixStream,
    received: Receiver<Received>,
    // Dropping the sender lets the thread end.
    keeper: Option<(Sender<()>, JoinHandle<()>)>,
    console: Console,
    stderr: Scratch,
    exited: Option<String>,
    closed: bool,
    /// The output of its profiler, or why it has none.
    profile: Result<File, String>,
    /// The output of its counter, if it has one.
    counts: Option<File>,
    /// The state of its host, if that is recorded.
    on_host: Option<TrialOnHost>,
    /// The host's hardware, if that is recorded.
    hardware: BTreeMap<String, String>,
}

impl ProcessGuest {
    /// Starts the program, whose console is a file.
    pub(crate) fn start(
        name: &'static str,
        program: Command,
        console: PathBuf,
        limits: Limits,
    ) -> Result<Self> {
        Self::start_with(name, program, console, limits, None)
    }

    /// The same; `stdout` is its standard output, if that is not for messages to people.
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
        let (sender, received) = sync_channel(QUEUE_LENGTH);
        let (started, child) = channel();
        let (release, released) = channel::<()>();
        let keeper = thread::Builder::new()
            .name("guest line".into())
            .spawn(move || {
                let spawned = program.spawn();
                // Closes this process's copy of the program's end, so that the channel closes with the program.
                drop(program);
                let is_up = spawned.is_ok();
                if started.send(spawned).is_ok() && is_up {
                    receive_all(Inbox::new(reading, limits.allowance_bytes), &sender);
                    // Waits until the guest is dropped: nothing is ever sent.
                    let _ = released.recv();
                }
            })?;
        let child = child
            .recv()
            .map_err(|_| anyhow!("the guest's thread has ended"))??;
        Ok(Self {
            name,
            child,
            channel: ours,
            received,
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

    /// Its process id.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Writes text for the program itself, before the first message to the agent.
    pub(crate) fn hand_over(&mut self, text: &str) -> Result<()> {
        let written = self.channel.write_all(text.as_bytes());
        written.with_context(|| format!("cannot speak to {}", self.name))
    }

    pub(crate) fn set_host(&mut self, on_host: TrialOnHost) {
        self.on_host = Some(on_host);
    }

    pub(crate) fn set_hardware(&mut self, facts: BTreeMap<String, String>) {
        self.hardware = facts;
    }

    pub(crate) fn set_counts(&mut self, counts: Option<File>) {
        self.counts = counts;
    }

    pub(crate) fn set_profile(&mut self, profile: Result<File, String>) {
        self.profile = profile;
    }

    /// Whether console or output have exceeded their limits.
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

    fn event(&mut self, received: Received) -> Option<GuestEvent> {
        self.closed = !matches!(received, Received::Message(_));
        match received {
            Received::Message(message) => Some(GuestEvent::Said(message)),
            Received::Invalid(why) => Some(GuestEvent::Refused(why)),
            Received::Closed => None,
        }
    }

    /// After the end: first the remaining messages, then a panic, then the end itself.
    fn last_event(&mut self) -> Option<GuestEvent> {
        // The kernel may have ended a program that wrote too much before this noticed it.
        if let Some(flood) = self.flood() {
            return Some(flood);
        }
        // The thread may still be reading the socket.
        if !self.closed
            && let Ok(received) = self.received.recv_timeout(POLL_INTERVAL * 10)
            && let Some(event) = self.event(received)
        {
            return Some(event);
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
        let name = self.name;
        self.exited = Some(match self.stderr_text().as_str() {
            "" => format!("{name} ended: {status}"),
            stderr => format!("{name} ended: {status}: {}", last_lines(stderr, status)),
        });
    }

    /// The program's standard error without QEMU's warnings: emulation always lacks some CPU feature.
    fn stderr_text(&mut self) -> String {
        let text = text::clean(&self.stderr.ends().unwrap_or_default());
        let lines = text.lines().filter(|line| !line.contains("warning:"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

impl Guest for ProcessGuest {
    fn send(&mut self, message: &ToAgent) -> Result<()> {
        record::protocol::send(&mut self.channel, message).context("cannot speak to the agent")
    }

    fn next(&mut self, limit: Duration) -> GuestEvent {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // First, so that an agent that sends all the time cannot hide it.
            if let Some(flood) = self.flood() {
                return flood;
            }
            match self.received.recv_timeout(left.min(POLL_INTERVAL)) {
                Ok(received) => {
                    if let Some(event) = self.event(received) {
                        return event;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The thread lives until this is dropped, unless it panics.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(left.min(POLL_INTERVAL)),
            }
            if let Some(panic) = self.console.panic() {
                return GuestEvent::Panicked(panic);
            }
            self.console.shorten();
            self.note_exit();
            if self.exited.is_some()
                && let Some(event) = self.last_event()
            {
                return event;
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
        let text = self.stderr_text();
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        lines.next().map(String::from)
    }
}

impl Drop for ProcessGuest {
    fn drop(&mut self) {
        base::process::end(&mut self.child);
        // The thread may be blocked on the full queue.
        drop(std::mem::replace(&mut self.received, channel().1));
        if let Some((release, keeper)) = self.keeper.take() {
            drop(release);
            // Ignores a panic of the thread.
            let _ = keeper.join();
        }
    }
}

/// Receives messages until the channel closes or has an invalid one.
fn receive_all(mut inbox: Inbox<UnixStream>, sender: &SyncSender<Received>) {
    loop {
        let received = match inbox.receive() {
            Ok(message) => Received::Message(message),
            Err(why) => match why.kind() {
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => Received::Closed,
                _ => Received::Invalid(format!("the agent's line is garbled: {why}")),
            },
        };
        let is_last = !matches!(received, Received::Message(_));
        if sender.send(received).is_err() || is_last {
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
    fn the_last_messages_come_before_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let console = dir.path().join("console.log");
        // The length, then the message, on standard input.
        let script = r#"printf '\026\0\0\0{"phase":"measuring"}\n' >&0; echo broken >&2; exit 3"#;
        let mut guest = guest(script, &console);
        let first = guest.next(Duration::from_secs(60));
        let message = FromAgent::Phase(record::trial::Phase::Measuring);
        assert_eq!(first, GuestEvent::Said(Box::new(message)));
        let end = GuestEvent::Exited("QEMU ended: exit status: 3: broken".into());
        assert_eq!(guest.next(Duration::from_secs(60)), end);
        assert_eq!(guest.next(Duration::from_secs(60)), end);
    }

    #[test]
    fn a_panic_is_reported_once_and_before_the_exit() {
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
    fn silence_and_garbage_are_different_events() {
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
