//! Waits for the kernel's locks by the function that takes the lock (trace points `lock:contention_begin` and `_end`,
//! Linux 5.19).

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use perf_event::data::Record;
use perf_event::events::Tracepoint;
use perf_event::{Builder, SampleFlag};
use profiler::profile::{Counter, CounterUnit};
use rustix::mount::{MountFlags, mount};

use super::names::Names;
use super::ring::{self, Ring};

const TRACEFS: &str = "/sys/kernel/tracing";

const RING_BYTES: usize = 1 << 20;

/// Number of callers in the profile, those that waited longest.
const MOST_CALLERS: usize = 10;

/// Most begins and ends of waits that are kept.
const MOST_EVENTS: usize = 1 << 20;

/// One trace point on one CPU.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) ring: Ring,
    begins: bool,
}

#[derive(Debug, Default)]
pub(super) struct Contention {
    events: Vec<Event>,
}

/// A wait begins or ends.
#[derive(Debug)]
struct Event {
    time: u64,
    task: u32,
    /// The call path in which a wait begins.
    path: Option<Box<[u64]>>,
}

/// Opens both trace points on each CPU, disabled.
pub(super) fn open(cpus: &[u32]) -> Result<Vec<Lock>> {
    if !Path::new(TRACEFS).join("events").exists() {
        mount("tracefs", TRACEFS, "tracefs", MountFlags::empty(), None)
            .with_context(|| format!("no tracefs at {TRACEFS}"))?;
    }
    let mut locks = Vec::new();
    for (name, begins) in [("contention_begin", true), ("contention_end", false)] {
        let path = format!("{TRACEFS}/events/lock/{name}/id");
        let id = fs::read_to_string(&path)
            .with_context(|| format!("no trace point lock:{name} (Linux 5.19 has it)"))?;
        let id = id.trim().parse().with_context(|| format!("read {path}"))?;
        for cpu in cpus {
            let mut event = Builder::new(Tracepoint::with_id(id));
            event
                .any_pid()
                .one_cpu(*cpu as usize)
                .include_kernel()
                .exclude_callchain_user(true)
                .sample(SampleFlag::TID)
                .sample(SampleFlag::TIME)
                .sample_period(1);
            if begins {
                event.sample(SampleFlag::CALLCHAIN);
            }
            let ring = event
                .build()
                .and_then(|counter| counter.sampled(RING_BYTES));
            let ring = Ring(ring.with_context(|| format!("open lock:{name}"))?);
            locks.push(Lock { ring, begins });
        }
    }
    Ok(locks)
}

impl Contention {
    /// Takes all records of a ring; returns how many of them cannot be read.
    pub(super) fn empty(&mut self, lock: &mut Lock) -> u64 {
        let begins = lock.begins;
        lock.ring.each_record(|record| {
            let Record::Sample(sample) = record else {
                return;
            };
            if let (Some(time), Some(task)) = (sample.time(), sample.tid())
                && self.events.len() < MOST_EVENTS
            {
                let path = || ring::kernel_part(sample.callchain().unwrap_or_default());
                let path = begins.then(path);
                self.events.push(Event { time, task, path });
            }
        })
    }

    /// Number and time of waits, by the function that takes the lock.
    pub(super) fn counted(&self, names: &Names) -> Vec<Counter> {
        let mut events: Vec<_> = self.events.iter().collect();
        events.sort_by_key(|event| (event.time, event.task));
        let mut begun: HashMap<u32, (u64, &[u64])> = HashMap::new();
        let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for Event { time, task, path } in events {
            match path {
                Some(path) => drop(begun.insert(*task, (*time, path))),
                None => {
                    if let Some((since, path)) = begun.remove(task) {
                        let sum = sums.entry(site(names, path)).or_default();
                        *sum = (sum.0 + 1, sum.1 + (time - since));
                    }
                }
            }
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, (_, ns))| std::cmp::Reverse(*ns));
        let callers = sums.into_iter().take(MOST_CALLERS);
        let counters = callers.flat_map(|(site, (count, ns))| {
            let counter = |what: &str, unit, value| Counter {
                name: format!("{what} {site}"),
                unit,
                value,
            };
            [
                counter("lock-waits", CounterUnit::Events, count),
                counter("lock-wait", CounterUnit::Nanoseconds, ns),
            ]
        });
        counters.collect()
    }
}

/// Prefixes of functions that take locks or trace, without leading underscores.
const LOCKING: [&str; 16] = [
    "bpf_trace",
    "down_",
    "mutex_",
    "native_queued_",
    "osq_",
    "perf_",
    "pv_queued_",
    "queued_",
    "raw_read_",
    "raw_spin_",
    "raw_write_",
    "rt_mutex_",
    "rt_spin_",
    "rwsem_",
    "trace",
    "ww_mutex_",
];

/// The innermost function that does not belong to the lock.
fn site(names: &Names, path: &[u64]) -> String {
    let names = path.iter().map(|address| names.at(address - 1).0);
    let is_locking = |name: &str| {
        let bare = name.trim_start_matches('_');
        LOCKING.iter().any(|beginning| bare.starts_with(beginning))
    };
    let mut callers = names.skip_while(|name| name.is_empty() || is_locking(name));
    callers.next().unwrap_or("?").into()
}
