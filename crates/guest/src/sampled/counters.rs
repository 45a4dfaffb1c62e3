//! Counters over the window: the kernel's for the trial's tasks, and sums over samples of the system.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use perf_event::events::Software;
use profiler::profile::{Counter, CounterUnit};
use record::evidence::Sample;

use crate::perf_open::on_cpu;

/// Open counters.
#[derive(Debug)]
pub(super) struct Counters {
    software: Vec<(&'static str, Vec<perf_event::Counter>)>,
    /// Waits at the begin and at the end of the window; `None` if the kernel does not count them.
    waits: Option<[Waits; 2]>,
}

/// Name of each task, and nanoseconds that it has waited for a CPU since it began, by its number.
type Waits = BTreeMap<u32, (String, u64)>;

impl Counters {
    /// Opens those of a cgroup, or else of the system, disabled; adds to `lacks` what is not available.
    pub(super) fn open(cgroup: Option<&Path>, cpus: &[u32], lacks: &mut Vec<String>) -> Self {
        let wanted = [
            ("context-switches", Software::CONTEXT_SWITCHES),
            ("cpu-migrations", Software::CPU_MIGRATIONS),
            ("page-faults-minor", Software::PAGE_FAULTS_MIN),
            ("page-faults-major", Software::PAGE_FAULTS_MAJ),
        ];
        let mut software = Vec::new();
        for (name, event) in wanted {
            match on_cpus(cgroup, cpus, event) {
                Ok(counters) => software.push((name, counters)),
                Err(why) => lacks.push(format!("{name}: {why}")),
            }
        }
        let waits = fs::read_to_string("/proc/self/schedstat").is_ok();
        if !waits {
            lacks.push("run-queue waits: no /proc/PID/schedstat (CONFIG_SCHED_INFO)".into());
        }
        Self {
            software,
            waits: waits.then(Default::default),
        }
    }

    pub(super) fn begin(&mut self) {
        if let Some(waits) = &mut self.waits {
            waits[0] = read_waits();
        }
        for counter in self.software.iter_mut().flat_map(|(_, all)| all) {
            // A counter that stays disabled counts 0.
            let _ = counter.enable();
        }
    }

    pub(super) fn end(&mut self) {
        for counter in self.software.iter_mut().flat_map(|(_, all)| all) {
            let _ = counter.disable();
        }
        if let Some(waits) = &mut self.waits {
            waits[1] = read_waits();
        }
    }

    /// The counts; adds to `lacks` what cannot be read.
    pub(super) fn counted(self, lacks: &mut Vec<String>) -> Vec<Counter> {
        let mut counted = Vec::new();
        for (name, counters) in self.software {
            let each = counters.into_iter().map(|mut counter| counter.read());
            match each.sum::<io::Result<u64>>() {
                Ok(value) => counted.push(events(name, value)),
                Err(why) => lacks.push(format!("{name}: {why}")),
            }
        }
        let waits = self.waits.map(|[begin, end]| waited(&begin, &end));
        counted.extend(waits.into_iter().flatten());
        counted
    }
}

fn on_cpus(
    cgroup: Option<&Path>,
    cpus: &[u32],
    event: Software,
) -> io::Result<Vec<perf_event::Counter>> {
    // Fails with ENOENT unless some cgroup controller was enabled once, which is not so in a guest.
    let dir = cgroup.map(File::open).transpose()?;
    let open = |cpu: &u32| on_cpu(event, dir.as_ref(), *cpu).include_hv().build();
    cpus.iter().map(open).collect()
}

fn events(name: &str, value: u64) -> Counter {
    Counter {
        name: name.into(),
        unit: CounterUnit::Events,
        value,
    }
}

/// Waits of all visible tasks.
fn read_waits() -> Waits {
    let mut waits = Waits::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let tasks = fs::read_dir(process.path().join("task"));
        for task in tasks.into_iter().flatten().flatten() {
            let text = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            // Time on the CPU, time waiting for it, number of runs (Documentation/scheduler/sched-stats.rst).
            let waited = text.split_ascii_whitespace().nth(1);
            let waited = waited.and_then(|word| word.parse().ok());
            let number = task.file_name().to_string_lossy().parse();
            if let (Ok(number), Some(waited)) = (number, waited) {
                waits.insert(number, (name.trim_end().into(), waited));
            }
        }
    }
    waits
}

/// Waits in the window by name. A task that began in the window counts fully, one that ended in it not at all.
fn waited(begin: &Waits, end: &Waits) -> Vec<Counter> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (task, (name, ns)) in end {
        let before = begin.get(task).map_or(0, |(_, ns)| *ns);
        *sums.entry(name).or_default() += ns.saturating_sub(before);
    }
    let counter = |(name, value)| Counter {
        name: format!("run-queue-wait {name}"),
        unit: CounterUnit::Nanoseconds,
        value,
    };
    let waited = sums.into_iter().filter(|(_, ns)| *ns > 0);
    waited.map(counter).collect()
}

/// Sums over the samples of the window: soft interrupts by kind, TCP events, stalls.
pub(super) fn of_samples(samples: &[Sample]) -> Vec<Counter> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut stalls: BTreeMap<&str, u64> = BTreeMap::new();
    // `at_ms` is the end of a sample, from the window's begin on.
    for sample in samples.iter().filter(|sample| sample.at_ms > 0) {
        *sums.entry("interrupts".into()).or_default() += sample.interrupts;
        *sums.entry("forks".into()).or_default() += sample.forks;
        for (name, count) in &sample.softirqs {
            *sums.entry(format!("softirq {name}")).or_default() += count;
        }
        for (name, count) in &sample.tcp {
            *sums.entry(format!("tcp {name}")).or_default() += count;
        }
        if let Some(pressure) = &sample.pressure {
            for (name, us) in [
                ("stalled-cpu", pressure.cpu_some_us),
                ("stalled-memory", pressure.memory_some_us),
                ("stalled-io", pressure.io_some_us),
            ] {
                *stalls.entry(name).or_default() += us * 1000;
            }
        }
    }
    let counted = sums.into_iter().filter(|(_, count)| *count > 0);
    let stalled = stalls.into_iter().map(|(name, value)| Counter {
        name: name.into(),
        unit: CounterUnit::Nanoseconds,
        value,
    });
    let counted = counted.map(|(name, value)| events(&name, value));
    counted.chain(stalled).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_in_the_window_are_summed_by_name() {
        let waits = |all: &[(u32, &str, u64)]| -> Waits {
            let wait = |(task, name, ns): &(u32, &str, u64)| (*task, (name.to_string(), *ns));
            all.iter().map(wait).collect()
        };
        let begin = waits(&[(1, "nginx", 100), (2, "nginx", 50), (3, "ended", 9)]);
        let end = waits(&[
            (1, "nginx", 130),
            (2, "nginx", 55),
            (4, "new", 7),
            (5, "idle", 0),
        ]);
        let waited: Vec<_> = waited(&begin, &end)
            .into_iter()
            .map(|counter| (counter.name, counter.value))
            .collect();
        let expected = [("run-queue-wait new", 7), ("run-queue-wait nginx", 35)];
        assert_eq!(waited, expected.map(|(name, ns)| (name.to_string(), ns)));
    }

    #[test]
    fn what_happened_before_the_window_is_not_counted() {
        let sample = |at_ms, count| Sample {
            at_ms,
            softirqs: [("NET_RX".to_string(), count)].into(),
            ..Sample::default()
        };
        let counted = of_samples(&[
            sample(-1000, 5),
            sample(0, 7),
            sample(1000, 11),
            sample(2000, 13),
        ]);
        assert_eq!(counted, [events("softirq NET_RX", 24)]);
    }
}
