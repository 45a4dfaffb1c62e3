//! What the agent observed of the system: one sample per second, and constant facts.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::check::counts_of;
use crate::thinned::Point;

/// CPU time by kind over an interval, in milliseconds, summed over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// User mode, including niced programs.
    pub user_ms: u64,
    /// Kernel mode, on behalf of programs.
    pub system_ms: u64,
    /// Hardware interrupts.
    pub irq_ms: u64,
    /// Soft interrupts.
    pub softirq_ms: u64,
    /// Idle, with I/O in progress.
    pub iowait_ms: u64,
    /// Idle.
    pub idle_ms: u64,
    /// Stolen by the hypervisor.
    pub steal_ms: u64,
}

/// Memory at an instant, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// Usable by the kernel.
    pub total_bytes: u64,
    /// Not used for anything.
    pub free_bytes: u64,
    /// Available to a new program without swapping.
    pub available_bytes: u64,
    /// Page cache.
    pub cached_bytes: u64,
    /// Anonymous pages of programs.
    pub anon_bytes: u64,
    /// Kernel slab.
    pub slab_bytes: u64,
    /// Waiting to be written back.
    pub dirty_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
}

/// Pressure stall time (PSI) over an interval, in microseconds.
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

/// Block devices over an interval, summed over all of them.
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
    /// Time with I/O in progress, in milliseconds.
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
    /// CPU time in user mode, in milliseconds.
    pub user_ms: u64,
    /// CPU time in kernel mode, in milliseconds.
    pub system_ms: u64,
    /// Resident memory at the end of the interval; pages shared between processes count for each.
    pub rss_bytes: u64,
}

/// One second of the system under test. In a long trial, older samples are joined (`thinned`). Counters are differences over the interval.
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
    /// Pressure stall time; `None` if the kernel has no PSI.
    pub pressure: Option<Pressure>,
    /// TCP counters of the server's side that changed, by their names in `/proc/net`.
    pub tcp: BTreeMap<String, u64>,
    /// What services in Java log of their stops: `collections`, `safepoints`, and the time of each in microseconds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub java: BTreeMap<String, u64>,
    /// Block devices.
    pub disk: Disk,
    /// Services, including the clients.
    pub services: Vec<ServiceUse>,
    /// CPU time spent on this sample, in microseconds.
    pub cost_us: u64,
    /// Extremes of joined samples; absent for a single one. Values at an instant are those of the last sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedSamples>,
}

/// Extremes of joined samples, which their sum does not show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinedSamples {
    /// Number of samples.
    pub samples: u64,
    /// Least available memory.
    pub least_available_bytes: u64,
    /// Most swap in use.
    pub most_swap_used_bytes: u64,
    /// Most kernel slab.
    pub most_slab_bytes: u64,
    /// Most runnable tasks.
    pub most_runnable: u64,
    /// Most tasks blocked on I/O.
    pub most_blocked: u64,
}

impl Sample {
    /// The extremes of its samples, also for a single one.
    pub fn extremes(&self) -> JoinedSamples {
        self.joined.unwrap_or(JoinedSamples {
            samples: 1,
            least_available_bytes: self.memory.available_bytes,
            most_swap_used_bytes: self.memory.swap_used_bytes,
            most_slab_bytes: self.memory.slab_bytes,
            most_runnable: self.runnable,
            most_blocked: self.blocked,
        })
    }
}

impl Point for Sample {
    const HAS_PARTS: bool = false;

    /// Half a second before its end, so that a slightly late sample stays in the minute of its second.
    fn time_ms(&self) -> i64 {
        self.at_ms.saturating_sub(500)
    }

    fn join(group: &[Self]) -> Self {
        let (mut joined, rest) = match group {
            [first, rest @ ..] => (first.clone(), rest),
            [] => return Self::default(),
        };
        for later in rest {
            joined.append(later);
        }
        joined
    }

    fn add(&mut self, part: &Self) {
        self.append(part);
    }
}

impl Sample {
    /// Adds the sample that follows it.
    fn append(&mut self, later: &Self) {
        // All fields by name, so that a new one is not forgotten.
        let Self {
            at_ms,
            interval_ms,
            cpu,
            memory,
            context_switches,
            interrupts,
            forks,
            runnable,
            blocked,
            softirqs,
            pressure,
            tcp,
            java,
            disk,
            services,
            cost_us,
            joined: _,
        } = later;
        self.joined = Some(self.extremes().with(later.extremes()));
        self.at_ms = self.at_ms.max(*at_ms);
        self.memory = *memory;
        self.runnable = *runnable;
        self.blocked = *blocked;
        for (sum, more) in [
            (&mut self.interval_ms, *interval_ms),
            (&mut self.context_switches, *context_switches),
            (&mut self.interrupts, *interrupts),
            (&mut self.forks, *forks),
            (&mut self.cost_us, *cost_us),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.cpu.append(cpu);
        self.disk.append(disk);
        match (&mut self.pressure, pressure) {
            (Some(sum), Some(more)) => sum.append(more),
            (sum, more) => *sum = sum.or(*more),
        }
        append_counters(&mut self.softirqs, softirqs);
        append_counters(&mut self.tcp, tcp);
        append_counters(&mut self.java, java);
        append_services(&mut self.services, services);
    }
}

impl JoinedSamples {
    fn with(self, other: Self) -> Self {
        Self {
            samples: self.samples.saturating_add(other.samples),
            least_available_bytes: self.least_available_bytes.min(other.least_available_bytes),
            most_swap_used_bytes: self.most_swap_used_bytes.max(other.most_swap_used_bytes),
            most_slab_bytes: self.most_slab_bytes.max(other.most_slab_bytes),
            most_runnable: self.most_runnable.max(other.most_runnable),
            most_blocked: self.most_blocked.max(other.most_blocked),
        }
    }
}

counts_of!(sum Cpu: user_ms system_ms irq_ms softirq_ms iowait_ms idle_ms steal_ms);
counts_of!(sum Disk: reads writes read_bytes written_bytes busy_ms);
counts_of!(sum Pressure: cpu_some_us io_some_us io_full_us memory_some_us memory_full_us);
counts_of!(Memory: total_bytes free_bytes available_bytes cached_bytes anon_bytes slab_bytes dirty_bytes swap_used_bytes);
counts_of!(JoinedSamples: samples least_available_bytes most_swap_used_bytes most_slab_bytes most_runnable most_blocked);

fn append_counters(sums: &mut BTreeMap<String, u64>, later: &BTreeMap<String, u64>) {
    for (name, more) in later {
        match sums.get_mut(name) {
            Some(sum) => *sum = sum.saturating_add(*more),
            None => drop(sums.insert(name.clone(), *more)),
        }
    }
}

/// Adds up services by name, including those that only one of the samples has.
fn append_services(sums: &mut Vec<ServiceUse>, later: &[ServiceUse]) {
    for more in later {
        let Some(sum) = sums.iter_mut().find(|sum| sum.service == more.service) else {
            sums.push(more.clone());
            continue;
        };
        sum.user_ms = sum.user_ms.saturating_add(more.user_ms);
        sum.system_ms = sum.system_ms.saturating_add(more.system_ms);
        sum.processes = more.processes;
        sum.threads = more.threads;
        sum.rss_bytes = more.rss_bytes;
    }
}

/// Averages and peaks over the window.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Share of CPU time in user mode, 0 to 1.
    pub cpu_user: f64,
    /// Share of CPU time in kernel mode, interrupts included, 0 to 1.
    pub cpu_system: f64,
    /// Share of CPU time idle, also while waiting for I/O, 0 to 1.
    pub cpu_idle: f64,
    /// Share of CPU time idle while a task waited for a disk, 0 to 1; part of `cpu_idle`.
    pub cpu_waiting: f64,
    /// Share of CPU time stolen by the hypervisor, 0 to 1.
    pub cpu_steal: f64,
    /// Share of CPU time in programs outside the trial, 0 to 1: the agent, and on a live host all other programs.
    pub cpu_other: f64,
    /// Mean of memory not available, in bytes.
    pub memory_used_bytes: u64,
    /// Highest swap in use, in bytes.
    pub swap_used_bytes: u64,
    /// Context switches per second.
    pub context_switches_per_s: f64,
    /// Interrupts per second.
    pub interrupts_per_s: f64,
    /// Share of CPU time spent on sampling, 0 to 1.
    pub sampling: f64,
}

/// Sums from which usage is computed, so that samples need not be kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UsageSum {
    // 128 bits, because a guest may send any number, for days.
    user_ms: u128,
    service_user_ms: u128,
    system_ms: u128,
    waiting_ms: u128,
    idle_ms: u128,
    steal_ms: u128,
    interval_ms: u128,
    context_switches: u128,
    interrupts: u128,
    cost_us: u128,
    used_bytes: u128,
    samples: u128,
    swap_used_bytes: u64,
}

impl UsageSum {
    /// Adds a sample; those of the warm-up (`at_ms <= 0`) are left out.
    pub fn add(&mut self, sample: &Sample) {
        if sample.at_ms <= 0 {
            return;
        }
        let Sample {
            cpu,
            memory,
            services,
            ..
        } = sample;
        let JoinedSamples {
            samples,
            most_swap_used_bytes,
            ..
        } = sample.extremes();
        let used_bytes = memory.total_bytes.saturating_sub(memory.available_bytes);
        let service_user_ms = services.iter().map(|service| u128::from(service.user_ms));
        self.user_ms += u128::from(cpu.user_ms);
        self.service_user_ms += service_user_ms.sum::<u128>();
        for ms in [cpu.system_ms, cpu.irq_ms, cpu.softirq_ms] {
            self.system_ms += u128::from(ms);
        }
        self.waiting_ms += u128::from(cpu.iowait_ms);
        self.idle_ms += u128::from(cpu.idle_ms);
        self.steal_ms += u128::from(cpu.steal_ms);
        self.interval_ms += u128::from(sample.interval_ms);
        self.context_switches += u128::from(sample.context_switches);
        self.interrupts += u128::from(sample.interrupts);
        self.cost_us += u128::from(sample.cost_us);
        self.used_bytes += u128::from(used_bytes) * u128::from(samples);
        self.samples += u128::from(samples);
        self.swap_used_bytes = self.swap_used_bytes.max(most_swap_used_bytes);
    }

    /// Averages and peaks of the samples so far.
    pub fn usage(&self) -> Usage {
        let (user_ms, system_ms) = (self.user_ms as f64, self.system_ms as f64);
        let (waiting_ms, steal_ms) = (self.waiting_ms as f64, self.steal_ms as f64);
        let service_user_ms = self.service_user_ms as f64;
        let idle_ms = self.idle_ms as f64 + waiting_ms;
        // Without samples all shares are zero.
        let all_ms = (user_ms + system_ms + idle_ms + steal_ms).max(1.0);
        let seconds = (self.interval_ms as f64 / 1e3).max(1e-3);
        let count = self.samples.max(1) as f64;
        Usage {
            cpu_user: user_ms / all_ms,
            cpu_system: system_ms / all_ms,
            cpu_idle: idle_ms / all_ms,
            cpu_waiting: waiting_ms / all_ms,
            cpu_steal: steal_ms / all_ms,
            cpu_other: (user_ms - service_user_ms).max(0.0) / all_ms,
            memory_used_bytes: (self.used_bytes as f64 / count) as u64,
            swap_used_bytes: self.swap_used_bytes,
            context_switches_per_s: self.context_switches as f64 / seconds,
            interrupts_per_s: self.interrupts as f64 / seconds,
            sampling: self.cost_us as f64 / 1e3 / all_ms,
        }
    }
}

impl Usage {
    /// Usage over the samples of the window; warm-up samples (`at_ms <= 0`) are left out. Joined samples count with the memory use of the
    /// last one.
    pub fn over(samples: &[Sample]) -> Self {
        let mut sum = UsageSum::default();
        for sample in samples {
            sum.add(sample);
        }
        sum.usage()
    }
}

/// Facts of one trial, which fairness checks compare between arms.
///
/// A key is the path of its source (`/proc/cmdline`, `/sys/kernel/mm/transparent_hugepage/enabled`) or, without such a file, a group and
/// a name (`hash:userland`, `limit:nofile`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// Version of the keys, raised when their meaning changes.
    pub version: u32,
    /// Short facts by key.
    pub values: BTreeMap<String, String>,
    /// All readable sysctls by dotted name.
    pub sysctls: BTreeMap<String, String>,
    /// Kernel configuration, `CONFIG_` names to values; empty if the kernel does not show it.
    pub kernel_config: BTreeMap<String, String>,
    /// Lines of the kernel log of the boot, without time stamps.
    pub boot_log: Vec<String>,
}

/// Result of looking up a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactLookup<'f> {
    /// Its value.
    Value(&'f str),
    /// The system does not have it: its list is complete, without it.
    Absent,
    /// Unknown: its list is missing.
    NotKnown,
}

impl Facts {
    /// Looks up a fact: `CONFIG_HZ`, `sysctl vm.swappiness`, `/proc/cmdline`.
    pub fn look_up(&self, fact: &str) -> FactLookup<'_> {
        let (list, name) = match fact.strip_prefix("sysctl ") {
            Some(name) => (&self.sysctls, name),
            None if fact.starts_with("CONFIG_") => (&self.kernel_config, fact),
            None => (&self.values, fact),
        };
        match list.get(name) {
            Some(value) => FactLookup::Value(value),
            None if list.is_empty() => FactLookup::NotKnown,
            None => FactLookup::Absent,
        }
    }
}

/// An evidence file beside a trial's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceFile {
    /// `facts.json`.
    Facts,
    /// `samples.jsonl`.
    Samples,
    /// `counters.jsonl`.
    Counters,
}

impl EvidenceFile {
    /// Its name in the directory of an attempt.
    pub fn name(self) -> &'static str {
        match self {
            Self::Facts => "facts.json",
            Self::Samples => "samples.jsonl",
            Self::Counters => "counters.jsonl",
        }
    }
}

/// Why a file cannot be used.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Damage {
    /// It does not exist.
    Lost,
    /// It is truncated, or cannot be read.
    Damaged,
    /// Its hash is not the recorded one.
    #[strum(serialize = "changed since it was recorded")]
    Changed,
}

impl Damage {
    /// `lost`, `damaged` or `changed since it was recorded`.
    pub fn word(self) -> &'static str {
        self.into()
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
    fn cpu_time_outside_services_counts_for_other_programs() {
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

    #[test]
    fn joined_samples_add_up() {
        let busy = Sample {
            runnable: 9,
            softirqs: [("NET_RX".to_string(), 5)].into(),
            ..second(1000, 200, 300)
        };
        let mut calm = second(2000, 100, 100);
        calm.memory.available_bytes = 30;
        calm.tcp = [("RetransSegs".to_string(), 1)].into();
        let last = second(3000, 0, 0);
        let joined = Sample::join(&[busy.clone(), calm.clone(), last.clone()]);
        let in_steps = Sample::join(&[busy.clone(), Sample::join(&[calm.clone(), last.clone()])]);
        assert_eq!(joined, in_steps);
        assert_eq!((joined.at_ms, joined.interval_ms), (3000, 3000));
        assert_eq!((joined.cpu.user_ms, joined.cpu.system_ms), (300, 400));
        assert_eq!((joined.memory.available_bytes, joined.runnable), (60, 0));
        let extremes = joined.extremes();
        assert_eq!(
            (
                extremes.samples,
                extremes.least_available_bytes,
                extremes.most_runnable
            ),
            (3, 30, 9)
        );
        assert_eq!(
            (joined.softirqs["NET_RX"], joined.tcp["RetransSegs"]),
            (5, 1)
        );
        let (whole, parts) = (Usage::over(&[joined]), Usage::over(&[busy, calm, last]));
        assert!((whole.cpu_user - parts.cpu_user).abs() < 1e-12);
        assert_eq!(whole.swap_used_bytes, parts.swap_used_bytes);
    }
}
