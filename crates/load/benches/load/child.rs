//! Runs a client process and measures its cost.

use std::cell::Cell;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::peers;

/// CPUs of server and client.
pub(crate) const SERVER_CPU: &str = "0";
pub(crate) const CLIENT_CPU: &str = "1";

/// Interval of memory samples, long enough not to disturb the server on its CPU.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// Runs clients one at a time, and ends them when the user ends the bench.
pub(crate) struct Runner {
    ended: Arc<AtomicBool>,
    used: Cell<Duration>,
}

/// Output and cost of a client process.
#[derive(Debug)]
pub(crate) struct Usage {
    pub(crate) stdout: String,
    /// CPU time of the process and its threads, user and system.
    pub(crate) cpu: Duration,
    /// CPU time in the kernel.
    pub(crate) kernel: Duration,
    /// Resident memory of each sample, in KiB.
    pub(crate) resident_kib: Vec<u64>,
    pub(crate) peak_kib: u64,
}

impl Runner {
    pub(crate) fn new() -> Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&ended))
                .context("cannot take a signal")?;
        }
        let used = Cell::default();
        Ok(Self { ended, used })
    }

    /// CPU time of all clients so far.
    pub(crate) fn used(&self) -> Duration {
        self.used.get()
    }

    /// Runs a client on its CPU until it exits.
    pub(crate) fn run(&self, words: &[String]) -> Result<Usage> {
        self.run_on(CLIENT_CPU, words, &mut || {})
    }

    /// Like `run` on other CPUs; `meanwhile` is called once, right after the start.
    pub(crate) fn run_on(
        &self,
        cpus: &str,
        words: &[String],
        meanwhile: &mut dyn FnMut(),
    ) -> Result<Usage> {
        let before = children_cpu()?;
        let mut child = bound(cpus, words)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", words[0]))?;
        let mut pipe = child.stdout.take().expect("the output is piped");
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes)
                .map(|_| String::from_utf8_lossy(&bytes).into_owned())
        });
        meanwhile();
        let (resident_kib, peak_kib) = self.attend(&mut child, &words[0])?;
        let stdout = reader.join().expect("reading a pipe does not panic")?;
        let after = children_cpu()?;
        let (cpu, kernel) = (
            after.0.saturating_sub(before.0),
            after.1.saturating_sub(before.1),
        );
        self.used.set(self.used.get() + cpu);
        Ok(Usage {
            stdout,
            cpu,
            kernel,
            resident_kib,
            peak_kib,
        })
    }

    fn attend(&self, child: &mut Child, name: &str) -> Result<(Vec<u64>, u64)> {
        let (mut resident_kib, mut peak_kib) = (Vec::new(), 0);
        let end = loop {
            if let Some(end) = child.try_wait()? {
                break end;
            }
            if self.ended.load(Ordering::Relaxed) {
                let _ = child.kill();
                child.wait()?;
                bail!("ended by a signal");
            }
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
            let status = status.unwrap_or_default();
            // A process that has just ended has no memory.
            if let Ok(kib) = peers::after::<u64>(&status, "VmHWM:") {
                peak_kib = kib;
                resident_kib.extend(peers::after::<u64>(&status, "VmRSS:").ok());
            }
            thread::sleep(SAMPLE_INTERVAL);
        };
        ensure!(end.success(), "client failed: {name}: {end}");
        Ok((resident_kib, peak_kib))
    }
}

/// A command that runs on `cpus` only, and is killed if the bench ends.
pub(crate) fn bound(cpus: &str, words: &[String]) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL", "taskset", "-c", cpus])
        .args(words);
    command
}

/// CPU time of all children that have ended, and the part of it in the kernel.
fn children_cpu() -> Result<(Duration, Duration)> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("cannot read the use of CPU")?;
    let time =
        |time: TimeVal| Duration::from_micros(u64::try_from(time.num_microseconds()).unwrap_or(0));
    let kernel = time(usage.system_time());
    Ok((time(usage.user_time()) + kernel, kernel))
}
