//! The sampler: reads the system once a second and once at each end of the window.
//!
//! Budget: under 0.5 % of one CPU, so at most 5 ms a second. Files are opened once and read again from their
//! start, in one buffer; a sample allocates little besides its result. Only memory costs time per process, so
//! each sample reads that of at most `RSS_READS` processes, and the others keep their last value.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use record::counters::Counters;
use record::evidence::{Cpu, Disk, Memory, Pressure, Sample, ServiceUse};
use rustix::time::{ClockId, clock_gettime};
use workload::figures::Meter;

use crate::cgroup::{CLIENTS, Cgroup};
use crate::counters::{CounterReader, ServiceNow};
use crate::cpus::Cpus;
use crate::hardware_counters::Counting;
use crate::java_log::JavaLog;
use crate::netns::Netns;
use crate::path::PathWatch;
use crate::proc;
use crate::proc::{CgroupTime, Stat, slurp};

/// Processes of one service whose memory is read in one sample.
const RSS_READS: usize = 32;

/// Open files and the names of their lines.
#[derive(Debug)]
pub struct Sampler {
    stat: File,
    schedstat: Option<File>,
    meminfo: File,
    softirqs: Option<File>,
    pressure: Option<[File; 3]>,
    /// `snmp` and `netstat` of the server's namespace, and which of their TCP values are counters.
    tcp: [(File, Vec<bool>); 2],
    diskstats: Option<File>,
    cgroups: Vec<CgroupFiles>,
    softirq_names: Vec<String>,
    tcp_names: Vec<String>,
    disks: Vec<String>,
    cpus: Cpus,
    tick: Duration,
    page_bytes: u64,
    buffer: Vec<u8>,
    pub(crate) path: Option<PathWatch>,
    counters: Option<CounterReader>,
    pub(crate) counting: Option<Counting>,
    java: Vec<JavaLog>,
}

#[derive(Debug)]
struct CgroupFiles {
    name: String,
    time: File,
    processes: File,
    threads: File,
    /// Resident bytes by process, as last seen.
    resident: HashMap<i32, u64>,
    /// Index of the process that the next sample begins with.
    next: usize,
}

/// The system at an instant; counters since boot.
#[derive(Debug, Clone)]
pub struct Reading {
    pub at: Instant,
    stat: Stat,
    run_time_ns: Option<u64>,
    memory: Memory,
    softirqs: Vec<u64>,
    pressure: Option<Pressure>,
    tcp: Vec<u64>,
    java: BTreeMap<String, u64>,
    disk: Disk,
    cgroups: Vec<CgroupReading>,
    cost: Duration,
}

#[derive(Debug, Clone, Copy)]
struct CgroupReading {
    time: CgroupTime,
    processes: u32,
    threads: u32,
    rss_bytes: u64,
}

impl Sampler {
    /// Opens all files. Samples have the TCP counters of `server`, the services in `cgroups` and the time of
    /// `cpus`.
    pub fn open(server: &Netns, cgroups: &[&Cgroup], cpus: Cpus) -> Result<Self> {
        let mut buffer = vec![0; 64 << 10];
        let softirqs = File::open("/proc/softirqs").ok();
        let text = softirqs.as_ref().map(|file| slurp(file, &mut buffer));
        let softirq_names = proc::softirqs(text.unwrap_or_default());
        let softirq_names = softirq_names.map(|(name, _)| name.to_string()).collect();
        let (snmp, netstat) = server.within(|| (open_tcp("snmp"), open_tcp("netstat")))?;
        let ((snmp, keep_snmp, mut tcp_names), (netstat, keep_netstat, more)) = (snmp?, netstat?);
        tcp_names.extend(more);
        let ticks_per_s = u32::try_from(rustix::param::clock_ticks_per_second());
        Ok(Self {
            stat: open("/proc/stat")?,
            schedstat: File::open("/proc/schedstat").ok(),
            meminfo: open("/proc/meminfo")?,
            softirqs,
            pressure: open_pressure(&mut buffer),
            tcp: [(snmp, keep_snmp), (netstat, keep_netstat)],
            diskstats: File::open("/proc/diskstats").ok(),
            cgroups: cgroups
                .iter()
                .map(|cgroup| CgroupFiles::open(cgroup))
                .collect::<Result<_>>()?,
            softirq_names,
            tcp_names,
            disks: whole_disks(),
            cpus,
            tick: Duration::from_secs(1) / ticks_per_s.unwrap_or(100),
            page_bytes: rustix::param::page_size() as u64,
            buffer,
            path: None,
            counters: None,
            counting: None,
            java: Vec::new(),
        })
    }

    /// Also watches clients and network.
    #[must_use]
    pub fn with_path(self, path: Option<PathWatch>) -> Self {
        Self { path, ..self }
    }

    /// Also reads counters of what may grow, with the sockets of `server`.
    pub(crate) fn with_counters(self, server: &Netns) -> Result<Self> {
        Ok(Self {
            counters: Some(CounterReader::open(server)?),
            ..self
        })
    }

    /// Also reads the logs of services in Java.
    #[must_use]
    pub(crate) fn with_java(self, java: Vec<JavaLog>) -> Self {
        Self { java, ..self }
    }

    /// Also counts events of the CPUs.
    pub(crate) fn with_hardware_counters(self, counting: Option<Counting>) -> Self {
        Self { counting, ..self }
    }

    /// Counters of what may grow, now; threads and memory of services are those of the last reading. `None`
    /// unless these counters were asked for.
    pub(crate) fn counters(&mut self, reading: &Reading, opened: Instant) -> Option<Counters> {
        let Self {
            counters,
            cgroups,
            buffer,
            ..
        } = self;
        let counters = counters.as_mut()?;
        let services = cgroups.iter().zip(&reading.cgroups);
        let services = services.filter(|(cgroup, _)| cgroup.name != CLIENTS);
        let services: Vec<ServiceNow> = services
            .map(|(cgroup, now)| {
                let processes = slurp(&cgroup.processes, buffer).lines();
                ServiceNow {
                    name: cgroup.name.clone(),
                    processes: processes.filter_map(|line| line.parse().ok()).collect(),
                    threads: now.threads,
                    rss_bytes: now.rss_bytes,
                }
            })
            .collect();
        let (values, limits) = counters.read(&services, buffer);
        Some(Counters {
            at_ms: millis(reading.at, opened),
            values,
            limits,
            joined: None,
        })
    }

    /// Reads the system now.
    pub fn read(&mut self) -> Reading {
        let begun = thread_time();
        let at = Instant::now();
        let buffer = &mut self.buffer;
        // First, so that the reader's work is not in the interval that ends here.
        let run_time_ns = self.schedstat.as_ref().map(|file| slurp(file, buffer));
        let bound = &self.cpus.bound;
        let run_time_ns = run_time_ns.and_then(|text| proc::run_time_ns(text, bound));
        let stat = proc::stat(slurp(&self.stat, buffer), bound);
        let cgroups = self.cgroups.iter_mut();
        let cgroups = cgroups
            .map(|cgroup| cgroup.read(self.page_bytes, buffer))
            .collect();
        let memory = proc::memory(slurp(&self.meminfo, buffer));
        let softirqs = self
            .softirqs
            .as_ref()
            .map_or("", |file| slurp(file, buffer));
        let softirqs = proc::softirqs(softirqs).map(|(_, count)| count).collect();
        let pressure = self
            .pressure
            .as_ref()
            .map(|files| read_pressure(files, buffer));
        let mut tcp = Vec::with_capacity(self.tcp_names.len());
        for (file, keep) in &self.tcp {
            proc::tcp_values(slurp(file, buffer), keep, &mut tcp);
        }
        let mut java = BTreeMap::new();
        for log in &mut self.java {
            for (name, count) in log.read() {
                *java.entry(name.clone()).or_default() += count;
            }
        }
        let disk = self
            .diskstats
            .as_ref()
            .map_or("", |file| slurp(file, buffer));
        let disk = proc::disks(disk, &self.disks);
        Reading {
            at,
            stat,
            run_time_ns,
            memory,
            softirqs,
            pressure,
            tcp,
            java,
            disk,
            cgroups,
            cost: thread_time().saturating_sub(begun),
        }
    }

    /// The sample between two readings; times are relative to `opened`, the start of the window.
    pub fn between(&self, old: &Reading, new: &Reading, opened: Instant) -> Sample {
        let (from_ms, at_ms) = (millis(old.at, opened), millis(new.at, opened));
        let disk = Disk {
            reads: since(old.disk.reads, new.disk.reads),
            writes: since(old.disk.writes, new.disk.writes),
            read_bytes: since(old.disk.read_bytes, new.disk.read_bytes),
            written_bytes: since(old.disk.written_bytes, new.disk.written_bytes),
            busy_ms: since(old.disk.busy_ms, new.disk.busy_ms),
        };
        Sample {
            at_ms,
            interval_ms: at_ms.abs_diff(from_ms),
            cpu: self.cpu(&old.stat, &new.stat),
            memory: new.memory,
            context_switches: since(old.stat.context_switches, new.stat.context_switches),
            interrupts: since(old.stat.interrupts, new.stat.interrupts),
            forks: since(old.stat.forks, new.stat.forks),
            // The reader itself is running.
            runnable: new.stat.runnable.saturating_sub(1),
            blocked: new.stat.blocked,
            softirqs: changed(&self.softirq_names, &old.softirqs, &new.softirqs),
            pressure: old
                .pressure
                .zip(new.pressure)
                .map(|(old, new)| stalled(&old, &new)),
            tcp: changed(&self.tcp_names, &old.tcp, &new.tcp),
            java: grown(&old.java, &new.java),
            disk,
            services: self.services(old, new),
            cost_us: new.cost.as_micros() as u64,
            joined: None,
        }
    }

    /// What the system used between the two ends of the window.
    pub fn meter(&self, open: &Reading, close: &Reading) -> Meter {
        let window = close.at - open.at;
        let cgroups = self
            .cgroups
            .iter()
            .zip(open.cgroups.iter().zip(&close.cgroups));
        let services = cgroups.map(|(cgroup, (old, new))| {
            let used_us = since(old.time.usage_us, new.time.usage_us);
            (cgroup.name.clone(), Duration::from_micros(used_us))
        });
        Meter {
            window,
            busy: self.busy(open, close, window),
            services: services.collect(),
        }
    }

    /// Time that the CPUs together were not idle.
    ///
    /// With one CPU, the scheduler's sum of the time that tasks ran: in nanoseconds, and exact now, because the
    /// reader has just displaced whatever ran. With more CPUs that sum lacks the time of a task that still runs
    /// on another one; there, idle time is subtracted from the whole. Idle time is exact too (tickless kernels
    /// measure it) but shown in ticks of 10 ms, 0.1 % of ten seconds.
    fn busy(&self, open: &Reading, close: &Reading, window: Duration) -> Duration {
        if let (1, Some(old), Some(new)) = (self.cpus.count, open.run_time_ns, close.run_time_ns) {
            return Duration::from_nanos(since(old, new)).min(window);
        }
        let idle = |stat: &Stat| stat.idle + stat.iowait + stat.steal;
        let idle_ticks = since(idle(&open.stat), idle(&close.stat));
        let idle = self.tick * u32::try_from(idle_ticks).unwrap_or(u32::MAX);
        (window * self.cpus.count).saturating_sub(idle)
    }

    fn cpu(&self, old: &Stat, new: &Stat) -> Cpu {
        let tick_ms = self.tick.as_millis() as u64;
        let ms = |field: fn(&Stat) -> u64| since(field(old), field(new)) * tick_ms;
        Cpu {
            user_ms: ms(|stat| stat.user),
            system_ms: ms(|stat| stat.system),
            irq_ms: ms(|stat| stat.irq),
            softirq_ms: ms(|stat| stat.softirq),
            iowait_ms: ms(|stat| stat.iowait),
            idle_ms: ms(|stat| stat.idle),
            steal_ms: ms(|stat| stat.steal),
        }
    }

    fn services(&self, old: &Reading, new: &Reading) -> Vec<ServiceUse> {
        let cgroups = self
            .cgroups
            .iter()
            .zip(old.cgroups.iter().zip(&new.cgroups));
        let uses = cgroups.map(|(cgroup, (old, new))| ServiceUse {
            service: cgroup.name.clone(),
            processes: new.processes,
            threads: new.threads,
            user_ms: since(old.time.user_us, new.time.user_us) / 1000,
            system_ms: since(old.time.system_us, new.time.system_us) / 1000,
            rss_bytes: new.rss_bytes,
        });
        uses.collect()
    }
}

impl CgroupFiles {
    fn open(cgroup: &Cgroup) -> Result<Self> {
        let file = |name| open(cgroup.dir.join(name));
        Ok(Self {
            name: cgroup.name.clone(),
            time: file("cpu.stat")?,
            processes: file("cgroup.procs")?,
            threads: file("cgroup.threads")?,
            resident: HashMap::new(),
            next: 0,
        })
    }

    fn read(&mut self, page_bytes: u64, buffer: &mut Vec<u8>) -> CgroupReading {
        let time = proc::cgroup_time(slurp(&self.time, buffer));
        let threads = slurp(&self.threads, buffer).lines().count() as u32;
        let processes = slurp(&self.processes, buffer).lines();
        let processes: Vec<i32> = processes.filter_map(|line| line.parse().ok()).collect();
        self.read_memory(&processes, page_bytes, buffer);
        CgroupReading {
            time,
            processes: processes.len() as u32,
            threads,
            rss_bytes: self.resident.values().sum(),
        }
    }

    /// Reads the memory of the next few processes.
    fn read_memory(&mut self, processes: &[i32], page_bytes: u64, buffer: &mut Vec<u8>) {
        if self.resident.len() > processes.len() {
            self.resident.retain(|pid, _| processes.contains(pid));
        }
        for turn in 0..processes.len().min(RSS_READS) {
            let pid = processes[(self.next + turn) % processes.len()];
            match File::open(format!("/proc/{pid}/statm")) {
                Ok(file) => {
                    let pages = proc::resident_pages(slurp(&file, buffer));
                    self.resident.insert(pid, pages * page_bytes);
                }
                // It has ended since the list was read.
                Err(_) => {
                    self.resident.remove(&pid);
                }
            }
        }
        self.next = (self.next + RSS_READS) % processes.len().max(1);
    }
}

/// Counts that have grown.
fn grown(old: &BTreeMap<String, u64>, new: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let counts = new.iter().map(|(name, now)| {
        let before = old.get(name).copied().unwrap_or_default();
        (name.clone(), since(before, *now))
    });
    counts.filter(|(_, count)| *count > 0).collect()
}

fn open(path: impl AsRef<Path>) -> Result<File> {
    let path = path.as_ref();
    File::open(path).with_context(|| format!("open {}", path.display()))
}

type TcpFile = (File, Vec<bool>, Vec<String>);

/// The file, which of its TCP values are counters, and the names of these. The file remains that of the namespace
/// in which it was opened.
fn open_tcp(name: &str) -> Result<TcpFile> {
    let path = format!("/proc/thread-self/net/{name}");
    let file = open(&path)?;
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let names: Vec<String> = proc::tcp(&text).map(|(name, _)| name).collect();
    let heads = text
        .lines()
        .step_by(2)
        .filter(|line| line.starts_with("Tcp"));
    let keep = heads.flat_map(|line| {
        let group = line.split(':').next().unwrap_or_default();
        let words = line.split_ascii_whitespace().skip(1);
        words.map(move |word| (group, word))
    });
    let keep = keep.map(|(group, word)| names.contains(&format!("{group}{word}")));
    Ok((file, keep.collect(), names))
}

/// The three files, if the kernel has them and they are enabled: only reading shows that.
fn open_pressure(buffer: &mut Vec<u8>) -> Option<[File; 3]> {
    let file = |name| File::open(format!("/proc/pressure/{name}")).ok();
    let files = [file("cpu")?, file("io")?, file("memory")?];
    (!slurp(&files[0], buffer).is_empty()).then_some(files)
}

fn read_pressure(files: &[File; 3], buffer: &mut Vec<u8>) -> Pressure {
    let [cpu, io, memory] = files
        .each_ref()
        .map(|file| proc::pressure(slurp(file, buffer)));
    Pressure {
        cpu_some_us: cpu.0,
        io_some_us: io.0,
        io_full_us: io.1,
        memory_some_us: memory.0,
        memory_full_us: memory.1,
    }
}

fn stalled(old: &Pressure, new: &Pressure) -> Pressure {
    Pressure {
        cpu_some_us: since(old.cpu_some_us, new.cpu_some_us),
        io_some_us: since(old.io_some_us, new.io_some_us),
        io_full_us: since(old.io_full_us, new.io_full_us),
        memory_some_us: since(old.memory_some_us, new.memory_some_us),
        memory_full_us: since(old.memory_full_us, new.memory_full_us),
    }
}

/// Disks that consist neither of other disks nor of memory.
pub(crate) fn whole_disks() -> Vec<String> {
    let virtual_kinds = ["loop", "ram", "zram", "dm-", "md"];
    let entries = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| !virtual_kinds.iter().any(|kind| name.starts_with(kind)))
        .collect()
}

fn changed(names: &[String], old: &[u64], new: &[u64]) -> BTreeMap<String, u64> {
    let values = names.iter().zip(old.iter().zip(new));
    let changes = values.map(|(name, (old, new))| (name, since(*old, *new)));
    changes
        .filter(|(_, change)| *change > 0)
        .map(|(name, change)| (name.clone(), change))
        .collect()
}

/// The difference of two counters, at least 0: some of the kernel's step back by a tick, such as idle time.
fn since(old: u64, new: u64) -> u64 {
    new.saturating_sub(old)
}

fn millis(at: Instant, zero: Instant) -> i64 {
    match at.checked_duration_since(zero) {
        Some(after) => rounded_millis(after),
        None => -rounded_millis(zero - at),
    }
}

fn rounded_millis(time: Duration) -> i64 {
    ((time.as_micros() + 500) / 1000) as i64
}

/// CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
