//! Disturbs the servers' processes: kills workers, lets file descriptors run out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::{Impact, Ongoing, ServicePlace, Site};
use crate::cgroup;

const KILL_INTERVAL: Duration = Duration::from_secs(1);

struct Kills {
    left: u64,
    last: Instant,
    killed: u64,
}

/// Kills a worker now, and one more each second, up to `most`.
pub(super) fn begin_kill(most: u64, site: &Site) -> Result<Box<dyn Ongoing>> {
    if busiest_worker(site).is_none() {
        bail!("no server has a worker process");
    }
    let mut kills = Kills {
        left: most,
        last: Instant::now(),
        killed: 0,
    };
    kills.kill(site);
    Ok(Box::new(kills))
}

impl Kills {
    fn kill(&mut self, site: &Site) {
        self.left = self.left.saturating_sub(1);
        self.last = Instant::now();
        if let Some(pid) = busiest_worker(site).and_then(Pid::from_raw) {
            site.expected_kills.announce(pid);
            self.killed += u64::from(kill_process(pid, Signal::KILL).is_ok());
        }
    }
}

impl Ongoing for Kills {
    fn tick(&mut self, site: &Site) {
        if self.left > 0 && self.last.elapsed() >= KILL_INTERVAL {
            self.kill(site);
        }
    }

    fn end(&mut self, _site: &Site) -> Result<Impact> {
        Ok(Impact::new("workers-killed", self.killed))
    }
}

/// The process with the most CPU time, of all but the services' first processes.
fn busiest_worker(site: &Site) -> Option<i32> {
    let workers = site.services.iter().flat_map(|service| {
        let all = cgroup::processes(&service.cgroup).into_iter();
        all.filter(|pid| *pid != service.leader)
    });
    workers.max_by_key(|pid| cpu_time(*pid))
}

/// User and system time in clock ticks; 0 if the process has ended.
fn cpu_time(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything. The third field follows it; utime and stime are fields 14 and 15.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = rest.split_ascii_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

struct Descriptors {
    /// The former limit of each process.
    before: BTreeMap<i32, Rlimit>,
    limited: u64,
}

/// Limits the servers' processes to the descriptors that they have.
pub(super) fn begin_descriptors(site: &Site) -> Result<Box<dyn Ongoing>> {
    let (mut before, mut limited) = (BTreeMap::new(), 0);
    for pid in processes(&site.services) {
        let Some(free) = lowest_free(pid) else {
            continue;
        };
        if let Some(former) = limit_descriptors(pid, free) {
            limited += 1;
            before.insert(pid, former);
        }
    }
    if before.is_empty() {
        bail!("no server has a process");
    }
    Ok(Box::new(Descriptors { before, limited }))
}

impl Ongoing for Descriptors {
    fn end(&mut self, site: &Site) -> Result<Impact> {
        // For processes that have started meanwhile.
        let first = self.before.values().next().copied();
        for pid in processes(&site.services) {
            let former = self.before.get(&pid).copied().or(first);
            if let (Some(former), Some(process)) = (former, Pid::from_raw(pid)) {
                // Fails if the process has ended.
                let _ = prlimit(Some(process), Resource::Nofile, former);
            }
        }
        Ok(Impact::new("processes-limited", self.limited))
    }
}

/// The number of a process's next descriptor, not counting files that it only reads: it closes those soon, and
/// the limit applies to the number.
fn lowest_free(pid: i32) -> Option<u64> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let stays = |number: &u64| !is_read_file(pid, *number);
    let numbers: BTreeSet<u64> = open
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(stays)
        .collect();
    (0..=numbers.len() as u64).find(|number| !numbers.contains(number))
}

/// Whether a descriptor is a regular file opened read-only. The last digit of `flags`, which are octal, is the mode
/// (`proc_pid_fdinfo(5)`).
fn is_read_file(pid: i32, number: u64) -> bool {
    let metadata = fs::metadata(format!("/proc/{pid}/fd/{number}"));
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    metadata.is_ok_and(|file| file.is_file()) && flags.is_some_and(|flags| flags.ends_with('0'))
}

fn processes(services: &[ServicePlace]) -> Vec<i32> {
    let all = services.iter();
    all.flat_map(|service| cgroup::processes(&service.cgroup))
        .collect()
}

/// Limits a process's descriptors; its former limit, or `None` if it has ended.
fn limit_descriptors(pid: i32, most: u64) -> Option<Rlimit> {
    let process = Pid::from_raw(pid)?;
    let limit = |maximum| Rlimit {
        current: Some(most),
        maximum,
    };
    // prlimit returns the former limit only as it sets a new one, so this guesses the maximum first.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let former = prlimit(Some(process), Resource::Nofile, limit(maximum)).ok()?;
    if former.maximum != maximum {
        // Fails if the process has ended.
        let _ = prlimit(Some(process), Resource::Nofile, limit(former.maximum));
    }
    Some(former)
}
