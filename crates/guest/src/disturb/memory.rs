//! Memory pressure: a process in a separate cgroup takes memory. Out of memory, the kernel kills it first.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use workload::context::command;

use super::{Impact, Ongoing, Site};
use crate::cgroup::{Cgroup, Cgroups};

/// Between two checks whether killed processes are gone.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const MOST_POLLS: u32 = 400;

struct MemoryHog {
    shell: Child,
    cgroup: Cgroup,
    most_bytes: u64,
}

/// Starts a `tail` that keeps `bytes` bytes in memory while it waits for the end of its input, which never comes.
#[expect(unsafe_code, reason = "entering a cgroup between fork and exec")]
pub(super) fn begin(bytes: u64, site: &Site) -> Result<Box<dyn Ongoing>> {
    let cgroup = Cgroups::make(&site.cgroup)?.child("disturbance")?;
    let procs = cgroup.procs_file()?;
    let script = format!(
        "echo 1000 >/proc/self/oom_score_adj; (head -c {bytes} /dev/zero; exec sleep infinity) | exec tail -c {bytes}"
    );
    let mut shell = command("/bin/sh");
    shell
        .args(["-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // SAFETY: the closure makes one system call on a descriptor that it owns.
    unsafe {
        shell.pre_exec(move || (&procs).write_all(b"0"));
    }
    base::process::bind(&mut shell);
    let shell = shell.spawn().context("start what takes memory")?;
    Ok(Box::new(MemoryHog {
        shell,
        cgroup,
        most_bytes: 0,
    }))
}

impl Ongoing for MemoryHog {
    fn tick(&mut self, _site: &Site) {
        let processes = self.cgroup.processes().into_iter();
        let bytes = processes.map(resident_bytes).sum();
        self.most_bytes = self.most_bytes.max(bytes);
    }

    fn end(&mut self, site: &Site) -> Result<Impact> {
        self.tick(site);
        for _ in 0..MOST_POLLS {
            let left = self.cgroup.processes();
            if left.is_empty() {
                break;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                // Fails if the process has ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
            let _ = self.shell.try_wait();
            thread::sleep(POLL_INTERVAL);
        }
        let _ = self.shell.wait();
        Ok(Impact::new("resident-mib", self.most_bytes >> 20))
    }
}

/// The line `VmRSS:    1234 kB` of `proc_pid_status(5)`.
fn resident_bytes(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}
