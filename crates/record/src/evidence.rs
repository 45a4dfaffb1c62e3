//! What the agent saw of the system: one sample a second, and the facts that do not change.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use serde::{Deserialize, Serialize};

/// CPU time by kind over an interval, in milliseconds, all CPUs together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// Programs, niced ones included.
    pub user_ms: u64,
    /// The kernel, on behalf of programs.
    pub system_ms: u64,
    /// Hardware interrupts.
    pub irq_ms: u64,
    /// Soft interrupts.
    pub softirq_ms: u64,
    /// Nothing to do, but I/O under way.
    pub iowait_ms: u64,
    /// Nothing to do.
    pub idle_ms: u64,
    /// Taken by the hypervisor.
    pub steal_ms: u64,
}

/// Memory at an instant, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Usable by the kernel.
    pub total_bytes: u64,
    /// Not used for anything.
    pub free_bytes: u64,
    /// What a new program could get without swapping.
    pub available_bytes: u64,
    /// Page cache.
    pub cached_bytes: u64,
    /// Anonymous pages of programs.
    pub anon_bytes: u64,
    /// Kernel slab.
    pub slab_bytes: u64,
    /// Waiting to be written.
    pub dirty_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
}

/// Pressure stall time over an interval, in microseconds; `None` where the kernel has no PSI.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    /// Some task waited for a CPU.
    pub cpu_some_us: u64,
    /// Some task waited for I/O.
    pub io_some_us: u64,
    /// All tasks waited for I/O.
    pub io_full_us: u64,
    /// Some task waited for memory.
    pub memory_some_us: u64,
    /// All tasks waited for memory.
    pub memory_full_us: u64,
}

/// Block devices over an interval, all of them together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// Reads completed.
    pub reads: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Time with I/O under way, in milliseconds.
    pub busy_ms: u64,
}

/// The processes of one service over an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceUse {
    /// Name of the service: `apache2`, `nginx`; the load generator is `clients`.
    pub service: String,
    /// Processes alive at the end of the interval.
    pub processes: u32,
    /// Threads alive at the end of the interval.
    pub threads: u32,
    /// CPU time in programs, in milliseconds.
    pub user_ms: u64,
    /// CPU time in the kernel, in milliseconds.
    pub system_ms: u64,
    /// Resident memory at the end of the interval, pages shared between processes counted in each.
    pub rss_bytes: u64,
}

/// One second of the system under test. Counters are differences over the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// End of the interval, in milliseconds since the window opened; negative in warm-up.
    pub at_ms: i64,
    /// Length of the interval in milliseconds.
    pub interval_ms: u64,
    /// CPU time by kind.
    pub cpu: Cpu,
    /// Memory at the end of the interval.
    pub memory: Memory,
    /// Context switches.
    pub context_switches: u64,
    /// Interrupts served.
    pub interrupts: u64,
    /// Processes and threads created.
    pub forks: u64,
    /// Runnable tasks at the end of the interval.
    pub runnable: u64,
    /// Tasks blocked on I/O at the end of the interval.
    pub blocked: u64,
    /// Soft interrupts by kind: `NET_RX`, `TIMER`, ...
    pub softirqs: BTreeMap<String, u64>,
    /// Pressure stall time.
    pub pressure: Option<Pressure>,
    /// TCP counters of the server's side that changed, by their names in `/proc/net`.
    pub tcp: BTreeMap<String, u64>,
    /// Block devices.
    pub disk: Disk,
    /// Services, the clients among them.
    pub services: Vec<ServiceUse>,
    /// What taking this sample cost, in microseconds of CPU time.
    pub cost_us: u64,
}

/// Averages and peaks over the window, as the reports of 2004 printed them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Share of CPU time in programs, 0 to 1.
    pub cpu_user: f64,
    /// Share of CPU time in the kernel, interrupts included, 0 to 1.
    pub cpu_system: f64,
    /// Share of CPU time idle or waiting, 0 to 1.
    pub cpu_idle: f64,
    /// Share of CPU time idle while something waited for a disk, 0 to 1; part of `cpu_idle`.
    #[serde(default)]
    pub cpu_waiting: f64,
    /// Share of CPU time stolen by the hypervisor, 0 to 1.
    pub cpu_steal: f64,
    /// Share of CPU time in programs that are not the trial's, 0 to 1: its agent, and on a live host all others.
    #[serde(default, alias = "cpu_strangers")]
    pub cpu_other: f64,
    /// Mean of memory not available, in bytes.
    pub memory_used_bytes: u64,
    /// Highest swap in use, in bytes.
    pub swap_used_bytes: u64,
    /// Context switches per second.
    pub context_switches_per_s: f64,
    /// Interrupts per second.
    pub interrupts_per_s: f64,
    /// Share of CPU time spent sampling, 0 to 1: the monitor's tax.
    pub sampling: f64,
}

impl Usage {
    /// Sums up the samples of the window; warm-up samples (`at_ms <= 0`) are left out.
    pub fn over(samples: &[Sample]) -> Self {
        let window: Vec<&Sample> = samples.iter().filter(|sample| sample.at_ms > 0).collect();
        // Of 128 bits: a guest says what it likes, and for days.
        let sum = |of: fn(&Sample) -> u64| {
            let each = window.iter().map(|sample| u128::from(of(sample)));
            each.sum::<u128>() as f64
        };
        let user_ms = sum(|s| s.cpu.user_ms);
        let own_ms = sum(|s| s.services.iter().map(|service| service.user_ms).sum());
        let system_ms = sum(|s| s.cpu.system_ms + s.cpu.irq_ms + s.cpu.softirq_ms);
        let waiting_ms = sum(|s| s.cpu.iowait_ms);
        let idle_ms = sum(|s| s.cpu.idle_ms) + waiting_ms;
        let steal_ms = sum(|s| s.cpu.steal_ms);
        // A window without a sample has no shares; dividing by one keeps them at zero.
        let all_ms = (user_ms + system_ms + idle_ms + steal_ms).max(1.0);
        let seconds = (sum(|s| s.interval_ms) / 1e3).max(1e-3);
        let count = window.len().max(1) as f64;
        let used = sum(|s| {
            s.memory
                .total_bytes
                .saturating_sub(s.memory.available_bytes)
        });
        Self {
            cpu_user: user_ms / all_ms,
            cpu_system: system_ms / all_ms,
            cpu_idle: idle_ms / all_ms,
            cpu_waiting: waiting_ms / all_ms,
            cpu_steal: steal_ms / all_ms,
            cpu_other: (user_ms - own_ms).max(0.0) / all_ms,
            memory_used_bytes: (used / count) as u64,
            swap_used_bytes: window
                .iter()
                .map(|s| s.memory.swap_used_bytes)
                .max()
                .unwrap_or(0),
            context_switches_per_s: sum(|s| s.context_switches) / seconds,
            interrupts_per_s: sum(|s| s.interrupts) / seconds,
            sampling: sum(|s| s.cost_us) / 1e3 / all_ms,
        }
    }
}

/// Facts of one trial: what a fairness check may want to compare between arms, now or years later.
///
/// Keys are paths of the sources (`/proc/cmdline`, `/sys/kernel/mm/transparent_hugepage/enabled`)
/// or, for facts that have no file, a group and a name (`hash:userland`, `limit:nofile`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of the collection, raised when keys change their meaning.
    pub version: u32,
    /// Short facts by key.
    pub values: BTreeMap<String, String>,
    /// Every readable sysctl by its dotted name.
    pub sysctls: BTreeMap<String, String>,
    /// Kernel configuration, `CONFIG_` names to values; empty when the kernel does not show it.
    pub kernel_config: BTreeMap<String, String>,
    /// Kernel log of the boot, without time stamps.
    pub boot_log: Vec<String>,
}

/// What facts say of one fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told<'f> {
    /// Its value.
    Value(&'f str),
    /// There is none: the list that it would stand in is complete.
    Absent,
    /// Nothing: the list that it would stand in is not there, or has never had it.
    NotKnown,
}

/// Beginnings of sysctls that only the first network namespace has. Facts before version 2 have those of the servers' alone, so
/// that what they lack of these is not known.
const OF_FIRST_NAMESPACE: [&str; 16] = [
    "net.core.",
    "net.ipv4.cipso_",
    "net.ipv4.fib_sync_mem",
    "net.ipv4.inet_peer_",
    "net.ipv4.ipfrag_secret_interval",
    "net.ipv4.route.",
    "net.ipv4.tcp_available_ulp",
    "net.ipv4.tcp_low_latency",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_mem",
    "net.ipv4.udp_mem",
    "net.ipv6.calipso_",
    "net.ipv6.ip6frag_secret_interval",
    "net.ipv6.mld_",
    "net.netfilter.nf_log_all_netns",
    "net.nf_conntrack_max",
];

impl Facts {
    /// What they say of a fact: `CONFIG_HZ`, `sysctl vm.swappiness`, `/proc/cmdline`.
    pub fn told(&self, fact: &str) -> Told<'_> {
        let (list, name) = match fact.strip_prefix("sysctl ") {
            Some(name) => (&self.sysctls, name),
            None if fact.starts_with("CONFIG_") => (&self.kernel_config, fact),
            None => (&self.values, fact),
        };
        let is_of_first = || {
            let mut beginnings = OF_FIRST_NAMESPACE.iter();
            fact.starts_with("sysctl ") && beginnings.any(|begin| name.starts_with(begin))
        };
        match list.get(name) {
            Some(value) => Told::Value(value),
            None if list.is_empty() || self.version < 2 && is_of_first() => Told::NotKnown,
            None => Told::Absent,
        }
    }
}

/// What lies beside a trial's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceFile {
    /// `facts.json`.
    Facts,
    /// `samples.jsonl`.
    Samples,
}

impl EvidenceFile {
    /// Its name in the directory of an attempt.
    pub fn name(self) -> &'static str {
        match self {
            Self::Facts => "facts.json",
            Self::Samples => "samples.jsonl",
        }
    }
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Damage {
    /// It is not there.
    Lost,
    /// It is cut off, or cannot be read.
    Damaged,
    /// It is not the one that was recorded.
    Changed,
}

impl Damage {
    /// `lost`, `damaged` or `changed since it was recorded`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Damaged => "damaged",
            Self::Changed => "changed since it was recorded",
        }
    }

    pub(crate) fn of(why: &io::Error) -> Self {
        match why.kind() {
            ErrorKind::NotFound => Self::Lost,
            _ => Self::Damaged,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_ms: i64, user_ms: u64, system_ms: u64) -> Sample {
        let cpu = Cpu {
            user_ms,
            system_ms,
            idle_ms: 1000 - user_ms - system_ms,
            ..Cpu::default()
        };
        let memory = Memory {
            total_bytes: 100,
            available_bytes: 60,
            ..Memory::default()
        };
        Sample {
            at_ms,
            interval_ms: 1000,
            cpu,
            memory,
            context_switches: 50,
            ..Sample::default()
        }
    }

    #[test]
    fn usage_leaves_warm_up_out() {
        let usage = Usage::over(&[
            second(0, 1000, 0),
            second(1000, 200, 300),
            second(2000, 400, 100),
        ]);
        assert!((usage.cpu_user - 0.3).abs() < 1e-12);
        assert!((usage.cpu_system - 0.2).abs() < 1e-12);
        assert!((usage.cpu_idle - 0.5).abs() < 1e-12);
        assert!((usage.context_switches_per_s - 50.0).abs() < 1e-9);
        assert_eq!(usage.memory_used_bytes, 40);
    }

    #[test]
    fn what_no_service_used_was_used_by_others() {
        let service = |user_ms| ServiceUse {
            user_ms,
            ..ServiceUse::default()
        };
        let sample = Sample {
            services: vec![service(100), service(50)],
            ..second(1000, 200, 300)
        };
        assert!((Usage::over(&[sample]).cpu_other - 0.05).abs() < 1e-12);
    }

    #[test]
    fn no_samples_give_zeros_not_nan() {
        assert_eq!(Usage::over(&[]), Usage::default());
    }
}
