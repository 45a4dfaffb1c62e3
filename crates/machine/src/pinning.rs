//! Pins virtual CPUs to dedicated host CPUs.
//!
//! QEMU starts on the CPUs for other threads, which its threads inherit, with its guest stopped (`-S`). bakeoff's
//! thread that listens to the guest stays on these CPUs too. QEMU's monitor (QMP) then reports the thread of each virtual
//! CPU; each is moved to its CPU, and the guest begins. So no instruction of a guest runs, and no page of its memory is
//! touched, anywhere else.
//!
//! ```text
//! start -S --greeting--> qmp_capabilities -> query-cpus-fast -> sched_setaffinity each -> cont
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde_json::Value;

use crate::host;
use crate::topology;
use crate::topology::Placement;

/// Longest wait for an answer: QEMU may allocate memory before the guest begins, on a busy host.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);

/// Longest answer of QEMU.
const ANSWER_BYTES: usize = 1 << 20;

/// A connection to QEMU's monitor.
pub(crate) struct Monitor(BufReader<UnixStream>);

impl Monitor {
    /// Adds the monitor to QEMU's command line; its guest waits for `pin`. Moves the calling thread, which must start QEMU,
    /// to the CPUs for other threads.
    pub(crate) fn attach(qemu: &mut Command, placement: &Placement) -> Result<Self> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket pair")?;
        ours.set_read_timeout(Some(ANSWER_LIMIT))?;
        let theirs = OwnedFd::from(theirs);
        let socket = format!("socket,id=monitor,fd={}", theirs.as_raw_fd());
        qemu.args(["-S", "-chardev", &socket]);
        qemu.args(["-mon", "chardev=monitor,mode=control"]);
        base::process::inherit(qemu, theirs);
        if !placement.others.is_empty() {
            host::keep_thread_to(&placement.others)?;
        }
        Ok(Self(BufReader::new(ours)))
    }

    /// Pins the virtual CPUs of process `qemu` and lets the guest begin. Returns where all threads may run, as the kernel
    /// reports it; `None` if QEMU has ended, which its guest will report.
    pub(crate) fn pin(mut self, qemu: u32, placement: &Placement) -> Result<Option<String>> {
        // The first line is a greeting.
        if self.line()?.is_none() || self.ask("qmp_capabilities")?.is_none() {
            return Ok(None);
        }
        let Some(cpus) = self.ask("query-cpus-fast")? else {
            return Ok(None);
        };
        let threads = threads(&cpus)?;
        let pinned = match pin_all(&threads, placement) {
            Ok(()) => read_back(qemu, &threads),
            Err(why) => format!("none: {why:#}"),
        };
        Ok(self.ask("cont")?.map(|_| pinned))
    }

    /// QEMU's answer to a command; `None` if it has ended.
    fn ask(&mut self, command: &str) -> Result<Option<Value>> {
        let request = format!("{{\"execute\":\"{command}\"}}\n");
        if self.0.get_mut().write_all(request.as_bytes()).is_err() {
            return Ok(None);
        }
        loop {
            let Some(answer) = self.line()? else {
                return Ok(None);
            };
            if let Some(error) = answer.get("error") {
                bail!("QEMU's monitor refuses {command}: {error}");
            }
            // Other lines report events.
            if let Some(value) = answer.get("return") {
                return Ok(Some(value.clone()));
            }
        }
    }

    fn line(&mut self) -> Result<Option<Value>> {
        let mut line = String::new();
        let mut limited = std::io::Read::take(&mut self.0, ANSWER_BYTES as u64);
        match limited.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) => serde_json::from_str(&line)
                .map(Some)
                .context("what QEMU's monitor says is no JSON"),
            Err(why) if why.kind() == std::io::ErrorKind::ConnectionReset => Ok(None),
            Err(why) => Err(why).context("QEMU's monitor says nothing"),
        }
    }
}

/// Thread of each virtual CPU, by its number.
fn threads(answer: &Value) -> Result<BTreeMap<usize, Pid>> {
    let cpus = answer
        .as_array()
        .context("no list of CPUs from QEMU's monitor")?;
    let thread = |cpu: &Value| {
        let thread = i32::try_from(cpu["thread-id"].as_i64()?).ok()?;
        Some((cpu["cpu-index"].as_u64()? as usize, Pid::from_raw(thread)?))
    };
    let threads: Option<_> = cpus.iter().map(thread).collect();
    threads.context("a virtual CPU without a thread")
}

fn pin_all(threads: &BTreeMap<usize, Pid>, placement: &Placement) -> Result<()> {
    for (vcpu, thread) in threads {
        let cpu = placement.vcpus.get(*vcpu);
        let cpu = cpu.with_context(|| format!("no host CPU for virtual CPU {vcpu}"))?;
        sched_setaffinity(Some(*thread), &host::set_of(&[*cpu]))
            .with_context(|| format!("virtual CPU {vcpu} cannot be moved to host CPU {cpu}"))?;
    }
    Ok(())
}

/// Where the threads may run, from the kernel: `vCPU 0 on 2, vCPU 1 on 3, others on 0-1`.
fn read_back(qemu: u32, threads: &BTreeMap<usize, Pid>) -> String {
    let cpus_of = |thread: Pid| match sched_getaffinity(Some(thread)) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|cpu| set.is_set(*cpu))
            .collect(),
        Err(_) => Vec::new(),
    };
    let mut places: Vec<String> = threads
        .iter()
        .map(|(vcpu, thread)| format!("vCPU {vcpu} on {}", topology::list(&cpus_of(*thread))))
        .collect();
    let tasks = fs::read_dir(format!("/proc/{qemu}/task"))
        .into_iter()
        .flatten();
    let number = |name: &str| Pid::from_raw(name.parse().ok()?);
    let tasks = tasks
        .flatten()
        .filter_map(|task| number(&task.file_name().to_string_lossy()));
    let mut others: Vec<usize> = tasks
        .filter(|task| !threads.values().any(|thread| thread == task))
        .flat_map(cpus_of)
        .collect();
    others.sort_unstable();
    others.dedup();
    places.push(format!("others on {}", topology::list(&others)));
    places.join(", ")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use record::machine::Locality;

    fn placement() -> Placement {
        Placement {
            vcpus: vec![host::cpus().unwrap()[0]],
            others: Vec::new(),
            locality: Locality::Cache,
            shares_cores: false,
            node: 0,
        }
    }

    /// Pins the calling thread as a virtual CPU, with a monitor that answers each request with the next line.
    fn pin<const N: usize>(lines: [&'static str; N]) -> Result<Option<String>> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let monitor = Monitor(BufReader::new(ours));
        let vcpu = rustix::thread::gettid().as_raw_nonzero().to_string();
        let qemu = thread::spawn(move || {
            let mut theirs = BufReader::new(theirs);
            for line in lines {
                let line = line.replace("THREAD", &vcpu);
                if theirs.get_mut().write_all(line.as_bytes()).is_err() {
                    return;
                }
                let _ = theirs.read_line(&mut String::new());
            }
        });
        let before = sched_getaffinity(None).unwrap();
        let pinned = monitor.pin(std::process::id(), &placement());
        sched_setaffinity(None, &before).unwrap();
        qemu.join().unwrap();
        pinned
    }

    #[test]
    fn the_emulators_other_threads_and_its_starter_stay_on_the_other_cpus() {
        let all = host::cpus().unwrap();
        let left = vec![all[all.len() - 1]];
        let placement = Placement {
            others: left.clone(),
            ..placement()
        };
        // On a new thread, because it stays on these CPUs.
        let (starter, child) = thread::spawn(move || {
            let mut qemu = Command::new("/bin/sh");
            qemu.args(["-c", "grep Cpus_allowed_list /proc/self/status", "sh"]);
            Monitor::attach(&mut qemu, &placement).unwrap();
            let child = qemu.output().unwrap().stdout;
            (host::cpus().unwrap(), String::from_utf8(child).unwrap())
        })
        .join()
        .unwrap();
        assert_eq!(starter, left);
        assert_eq!(
            child.split_whitespace().last(),
            Some(topology::list(&left).as_str())
        );
        assert_eq!(host::cpus().unwrap(), all, "no other thread is moved");
    }

    const GREETING: &str = "{\"QMP\": {}}\n";
    const DONE: &str = "{\"return\": {}}\n";

    #[test]
    fn a_virtual_cpu_is_pinned_and_read_back_from_the_kernel() {
        let cpus =
            "{\"event\": \"RESUME\"}\n{\"return\": [{\"cpu-index\": 0, \"thread-id\": THREAD}]}\n";
        let pinned = pin([GREETING, DONE, cpus, DONE]).unwrap().unwrap();
        let cpu = placement().vcpus[0];
        assert!(
            pinned.starts_with(&format!("vCPU 0 on {cpu}, others on ")),
            "{pinned}"
        );
    }

    #[test]
    fn a_virtual_cpu_too_many_is_reported_and_the_guest_begins() {
        let cpus = "{\"return\": [{\"cpu-index\": 1, \"thread-id\": THREAD}]}\n";
        let pinned = pin([GREETING, DONE, cpus, DONE]).unwrap().unwrap();
        assert_eq!(pinned, "none: no host CPU for virtual CPU 1");
    }

    #[test]
    fn an_emulator_that_ends_or_refuses_is_no_hang() {
        assert_eq!(pin([]).unwrap(), None);
        assert_eq!(pin([GREETING, DONE]).unwrap(), None);
        let why = pin([GREETING, "{\"error\": {\"desc\": \"no\"}}\n"]).unwrap_err();
        assert!(
            why.to_string().contains("refuses qmp_capabilities"),
            "{why}"
        );
        let why = pin(["not JSON\n"]).unwrap_err();
        assert!(why.to_string().contains("no JSON"), "{why}");
    }
}
