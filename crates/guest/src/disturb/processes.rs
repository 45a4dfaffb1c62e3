//! The servers' processes: workers that are killed, descriptors that run out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use super::{Felt, Ongoing, ServicePlace, Site};
use crate::cgroup;

/// Time between two workers.
const SECOND: Duration = Duration::from_secs(1);

struct Kills {
    left: u64,
    last: Instant,
    killed: u64,
}

/// Kills a worker now, and one each second until there were so many.
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
            site.asked.ask(pid);
            self.killed += u64::from(kill_process(pid, Signal::KILL).is_ok());
        }
    }
}

impl Ongoing for Kills {
    fn tick(&mut self, site: &Site) {
        if self.left > 0 && self.last.elapsed() >= SECOND {
            self.kill(site);
        }
    }

    fn end(&mut self, _site: &Site) -> Result<Felt> {
        Ok(Felt::by("workers-killed", self.killed))
    }
}

/// The process that has used most CPU time of all that are no service's first one.
fn busiest_worker(site: &Site) -> Option<i32> {
    let workers = site.services.iter().flat_map(|service| {
        let all = cgroup::processes(&service.cgroup).into_iter();
        all.filter(|pid| *pid != service.leader)
    });
    workers.max_by_key(|pid| cpu_time(*pid))
}

/// User and system time, in clock ticks; 0 of a process that has ended.
fn cpu_time(pid: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name in parentheses may hold anything; utime and stime are fields 14 and 15, the third follows the name.
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let fields = rest.split_ascii_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

struct Descriptors {
    /// What each process was allowed.
    before: BTreeMap<i32, Rlimit>,
    limited: u64,
}

/// Allows the processes of the servers no descriptor more than they have.
pub(super) fn begin_descriptors(site: &Site) -> Result<Box<dyn Ongoing>> {
    let (mut before, mut limited) = (BTreeMap::new(), 0);
    for pid in processes(&site.services) {
        let Some(free) = lowest_free(pid) else {
            continue;
        };
        if let Some(was) = allow(pid, free) {
            limited += 1;
            before.insert(pid, was);
        }
    }
    if before.is_empty() {
        bail!("no server has a process");
    }
    Ok(Box::new(Descriptors { before, limited }))
}

impl Ongoing for Descriptors {
    /// Processes that began meanwhile have the limit of the one that began them.
    fn end(&mut self, site: &Site) -> Result<Felt> {
        let first = self.before.values().next().copied();
        for pid in processes(&site.services) {
            let was = self.before.get(&pid).copied().or(first);
            if let (Some(was), Some(process)) = (was, Pid::from_raw(pid)) {
                let _ended = prlimit(Some(process), Resource::Nofile, was);
            }
        }
        Ok(Felt::by("processes-limited", self.limited))
    }
}

/// The number that a process's next descriptor would have, if it had none of the files that it only reads: it closes those soon,
/// and the limit is on the number.
fn lowest_free(pid: i32) -> Option<u64> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let stays = |number: &u64| !is_read_file(pid, *number);
    let numbers: BTreeSet<u64> = open
        .flatten()
        .filter_map(|one| one.file_name().to_str()?.parse().ok())
        .filter(stays)
        .collect();
    // Of one number more than there are descriptors, one is free.
    (0..=numbers.len() as u64).find(|number| !numbers.contains(number))
}

/// Whether a descriptor is a file on a disk that is only read: `flags` of `proc_pid_fdinfo(5)`, in octal, whose last digit is how it
/// was opened.
fn is_read_file(pid: i32, number: u64) -> bool {
    let about = fs::metadata(format!("/proc/{pid}/fd/{number}"));
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    about.is_ok_and(|about| about.is_file()) && flags.is_some_and(|flags| flags.ends_with('0'))
}

fn processes(services: &[ServicePlace]) -> Vec<i32> {
    let all = services.iter();
    all.flat_map(|service| cgroup::processes(&service.cgroup))
        .collect()
}

/// Sets how many descriptors a process may have; what it was allowed before. `None` where it has ended.
fn allow(pid: i32, most: u64) -> Option<Rlimit> {
    let process = Pid::from_raw(pid)?;
    let limit = |maximum| Rlimit {
        current: Some(most),
        maximum,
    };
    let own = getrlimit(Resource::Nofile).maximum;
    let was = prlimit(Some(process), Resource::Nofile, limit(own)).ok()?;
    if was.maximum != own {
        // prlimit(2) tells what was only with what is to be.
        let _ended = prlimit(Some(process), Resource::Nofile, limit(was.maximum));
    }
    Some(was)
}
