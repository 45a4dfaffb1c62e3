//! Description of the machine, and its other load.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Ticks of `/proc/stat` in a second (`USER_HZ`, fixed on x86).
const TICKS_PER_S: f64 = 100.0;

/// CPUs, their model, and the kernel version; nothing that identifies the machine.
pub(crate) fn describe() -> Result<String> {
    let info = read("/proc/cpuinfo")?;
    let field = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name))?;
        line.split_once(": ").map(|(_, value)| value.to_owned())
    };
    let model = field("model name").unwrap_or_else(|| "unknown model".into());
    let cpus = info
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    let is_guest =
        field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let kind = if is_guest {
        "virtual machine"
    } else {
        "bare metal"
    };
    let release = read("/proc/sys/kernel/osrelease")?;
    let version = release
        .split(|each: char| !each.is_ascii_digit() && each != '.')
        .next();
    Ok(format!(
        "{cpus} CPUs, {model}, {kind}, Linux {}",
        version.unwrap_or_default()
    ))
}

/// Cost of a trivial system call, in nanoseconds; the minimum of several tries.
pub(crate) fn call_ns() -> f64 {
    const CALLS: u32 = 100_000;
    let once = || {
        let since = Instant::now();
        for _ in 0..CALLS {
            let _ = nix::unistd::getppid();
        }
        since.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
    };
    (0..10).map(|_| once()).fold(f64::INFINITY, f64::min)
}

/// CPU times of the machine at an instant.
pub(crate) struct HostUsage {
    /// Load average of the last minute.
    pub(crate) load: f64,
    at: Instant,
    busy_s: f64,
    stolen_s: f64,
    servers_s: f64,
}

/// CPU time that was neither the servers' nor a client's, as shares of all CPUs' time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Others {
    /// Taken by other processes of this machine.
    pub(crate) taken: f64,
    /// Taken by other machines of the same hypervisor.
    pub(crate) stolen: f64,
}

impl HostUsage {
    pub(crate) fn take(servers: [u32; 3]) -> Result<Self> {
        let stat = read("/proc/stat")?;
        let line = stat.lines().next().context("/proc/stat is empty")?;
        let ticks: Vec<f64> = line
            .split_whitespace()
            .skip(1)
            .filter_map(|word| word.parse().ok())
            .collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = ticks[..] else {
            anyhow::bail!("/proc/stat has an unknown form: {line:?}");
        };
        let load = read("/proc/loadavg")?;
        let load = load.split(' ').next().and_then(|word| word.parse().ok());
        Ok(Self {
            load: load.context("/proc/loadavg has an unknown form")?,
            at: Instant::now(),
            busy_s: (user + nice + system + irq + softirq) / TICKS_PER_S,
            stolen_s: stolen / TICKS_PER_S,
            servers_s: process_s(servers[0])? + process_s(servers[1])?,
        })
    }

    /// CPU time of others since `before`; `used` is that of the clients.
    pub(crate) fn others_since(&self, before: &Self, used: Duration) -> Others {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let all_s = (self.at - before.at).as_secs_f64() * cpus as f64;
        let known_s = self.servers_s - before.servers_s + used.as_secs_f64();
        Others {
            taken: ((self.busy_s - before.busy_s - known_s) / all_s).max(0.0),
            stolen: (self.stolen_s - before.stolen_s) / all_s,
        }
    }
}

/// CPU time of a process, in seconds: fields 14 and 15 of proc(5)'s stat, after the name in
/// parentheses.
fn process_s(pid: u32) -> Result<f64> {
    let stat = read(&format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("a process has no name")?;
    let ticks = fields
        .split(' ')
        .skip(11)
        .take(2)
        .filter_map(|word| word.parse::<f64>().ok());
    Ok(ticks.sum::<f64>() / TICKS_PER_S)
}

fn read(place: &str) -> Result<String> {
    fs::read_to_string(place).with_context(|| format!("cannot read {place}"))
}
