//! Counters of what may grow: kernel memory by use, tables, descriptors, services. Read about once a minute, in long
//! windows only.
//!
//! Budget: some milliseconds a minute. The slab caches cost most, a few hundred lines that the kernel computes. States
//! of sockets take one line per socket, so they are skipped above a limit. A file that a kernel lacks is skipped.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::path::Path;

use anyhow::Result;
use record::counters::{MEMORY_TOTAL, MEMORY_USED, MOST, NAME_BYTES, SWAP_USED};

use crate::netns::Netns;
use crate::proc::slurp;

/// Number of counters reserved for others than slab caches.
const OTHERS: usize = 100;

/// With more sockets, their states are not counted.
const MOST_SOCKETS: u64 = 20_000;

/// Most processes of one service whose descriptors are counted.
const MOST_PROCESSES: usize = 64;

/// Free memory below this order is fragmented: too small for an allocation of 64 KiB.
const ORDER: usize = 4;

/// States of TCP sockets as `/proc/net/tcp` numbers them, from 1 on (`include/net/tcp_states.h`).
const STATES: [&str; 12] = [
    "established",
    "syn-sent",
    "syn-recv",
    "fin-wait-1",
    "fin-wait-2",
    "time-wait",
    "close",
    "close-wait",
    "last-ack",
    "listen",
    "closing",
    "new-syn-recv",
];

/// Caches that every kernel can reclaim, for kernels that do not show it.
const RECLAIMABLE: [&str; 4] = ["dentry", "radix_tree_node", "buffer_head", "inode_cache"];

/// Counters and their limits by name.
pub(crate) type Values = BTreeMap<String, u64>;

/// A service at an instant.
#[derive(Debug, Clone)]
pub(crate) struct ServiceNow {
    pub(crate) name: String,
    pub(crate) processes: Vec<u32>,
    pub(crate) threads: u32,
    pub(crate) rss_bytes: u64,
}

/// Open files, and state between two readings.
#[derive(Debug)]
pub(crate) struct CounterReader {
    slabinfo: Option<File>,
    meminfo: Option<File>,
    buddyinfo: Option<File>,
    loadavg: Option<File>,
    file_nr: Option<File>,
    dentry_state: Option<File>,
    inode_nr: Option<File>,
    /// This and the next two are of the servers' namespace.
    sockstat: Option<File>,
    tracked: Option<File>,
    tcp: Vec<File>,
    page_bytes: u64,
    /// Slab caches that were reported, and whether they are reclaimable.
    caches: HashMap<String, bool>,
    /// Counters whose limits were reported.
    reported: BTreeSet<String>,
}

impl CounterReader {
    pub(crate) fn open(server: &Netns) -> Result<Self> {
        let file = |path: &str| File::open(path).ok();
        // A file remains that of the namespace in which it was opened.
        let (sockstat, tracked, tcp) = server.within(|| {
            (
                file("/proc/thread-self/net/sockstat"),
                file("/proc/sys/net/netfilter/nf_conntrack_count"),
                ["tcp", "tcp6"]
                    .into_iter()
                    .filter_map(|name| file(&format!("/proc/thread-self/net/{name}")))
                    .collect(),
            )
        })?;
        Ok(Self {
            slabinfo: file("/proc/slabinfo"),
            meminfo: file("/proc/meminfo"),
            buddyinfo: file("/proc/buddyinfo"),
            loadavg: file("/proc/loadavg"),
            file_nr: file("/proc/sys/fs/file-nr"),
            dentry_state: file("/proc/sys/fs/dentry-state"),
            inode_nr: file("/proc/sys/fs/inode-nr"),
            sockstat,
            tracked,
            tcp,
            page_bytes: rustix::param::page_size() as u64,
            caches: HashMap::new(),
            reported: BTreeSet::new(),
        })
    }

    /// Counters now, and limits that were not reported before.
    pub(crate) fn read(
        &mut self,
        services: &[ServiceNow],
        buffer: &mut Vec<u8>,
    ) -> (Values, Values) {
        let (mut values, mut limits) = (Values::new(), Values::new());
        let mut text = |file: &Option<File>| {
            let text = file.as_ref().map(|file| slurp(file, buffer).to_string());
            text.unwrap_or_default()
        };
        memory(&text(&self.meminfo), &mut values, &mut limits);
        fragmentation(&text(&self.buddyinfo), &mut values);
        let texts = KernelTexts {
            file_nr: &text(&self.file_nr),
            dentry_state: &text(&self.dentry_state),
            inode_nr: &text(&self.inode_nr),
            loadavg: &text(&self.loadavg),
            tracked: &text(&self.tracked),
        };
        kernel(&texts, &mut values, &mut limits);
        let sockets = sockets(&text(&self.sockstat), self.page_bytes, &mut values);
        if sockets <= MOST_SOCKETS {
            for file in &self.tcp {
                states(slurp(file, buffer), &mut values);
            }
        }
        for service in services {
            add_service(service, &mut values, &mut limits);
        }
        if let Some(file) = &self.slabinfo {
            slab(slurp(file, buffer), &mut self.caches, &mut values);
        }
        values.retain(|name, _| name.len() <= NAME_BYTES);
        limits.retain(|name, _| name.len() <= NAME_BYTES && self.reported.insert(name.clone()));
        (values, limits)
    }
}

/// `/proc/meminfo`.
fn memory(text: &str, values: &mut Values, limits: &mut Values) {
    let mut all: HashMap<&str, u64> = HashMap::new();
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(':') else {
            continue;
        };
        let number = rest.split_ascii_whitespace().next();
        let kib = number.and_then(|kib| kib.parse::<u64>().ok());
        all.extend(kib.map(|kib| (key, kib << 10)));
    }
    let bytes = |key: &str| all.get(key).copied().unwrap_or(0);
    for (key, name) in [
        ("SUnreclaim", "memory:slab-unreclaimable"),
        ("SReclaimable", "memory:slab-reclaimable"),
        ("PageTables", "memory:page-tables"),
        ("SecPageTables", "memory:second-page-tables"),
        ("KernelStack", "memory:kernel-stacks"),
        ("VmallocUsed", "memory:vmalloc"),
        ("Percpu", "memory:per-cpu"),
        ("AnonPages", "memory:anonymous"),
        ("Shmem", "memory:shared"),
    ] {
        values.extend(all.get(key).map(|bytes| (name.to_string(), *bytes)));
    }
    let Some(total) = all.get("MemTotal").copied() else {
        return;
    };
    let used = total.saturating_sub(bytes("MemAvailable"));
    values.insert(MEMORY_USED.into(), used);
    let swap = bytes("SwapTotal").saturating_sub(bytes("SwapFree"));
    values.insert(SWAP_USED.into(), swap);
    // Pages that drivers allocate have no line.
    let known = [
        "MemFree",
        "Buffers",
        "Cached",
        "SwapCached",
        "AnonPages",
        "Slab",
        "PageTables",
        "SecPageTables",
        "KernelStack",
        "Percpu",
        "VmallocUsed",
    ];
    let known = known.map(bytes).iter().sum();
    values.insert("memory:unaccounted".into(), total.saturating_sub(known));
    limits.insert(MEMORY_TOTAL.into(), total);
    if bytes("SwapTotal") > 0 {
        limits.insert(SWAP_USED.into(), bytes("SwapTotal"));
    }
}

/// `/proc/buddyinfo`: the unusable free space index (Gorman 2005) over all zones.
fn fragmentation(text: &str, values: &mut Values) {
    let (mut small, mut free) = (0, 0);
    for line in text.lines() {
        let counts = line.split_ascii_whitespace().skip(4);
        for (order, count) in counts.enumerate().take(20) {
            let pages = count.parse::<u64>().unwrap_or(0) << order;
            free += pages;
            small += if order < ORDER { pages } else { 0 };
        }
    }
    let name = format!("fragmentation:order-{ORDER}");
    let share = (small * 1000_u64).checked_div(free);
    values.extend(share.map(|share| (name, share)));
}

/// Contents of the files that `kernel` reads.
struct KernelTexts<'t> {
    file_nr: &'t str,
    dentry_state: &'t str,
    inode_nr: &'t str,
    loadavg: &'t str,
    tracked: &'t str,
}

/// Files of `/proc/sys`, and the tasks of `/proc/loadavg`.
fn kernel(texts: &KernelTexts<'_>, values: &mut Values, limits: &mut Values) {
    let number = |text: &str, place: usize| {
        let word = text.split_ascii_whitespace().nth(place)?;
        word.parse::<u64>().ok()
    };
    let mut add = |name: &str, value: Option<u64>| {
        values.extend(value.map(|value| (name.to_string(), value)));
    };
    // The first number includes the free ones, which are the second.
    let used = |text: &str| Some(number(text, 0)?.saturating_sub(number(text, 1)?));
    add("kernel:open-files", used(texts.file_nr));
    add("kernel:dentries", number(texts.dentry_state, 0));
    add("kernel:inodes", used(texts.inode_nr));
    add("kernel:tracked-connections", number(texts.tracked, 0));
    let tasks = texts.loadavg.split_ascii_whitespace().nth(3);
    let tasks = tasks.and_then(|tasks| tasks.split_once('/')?.1.parse().ok());
    add("kernel:threads", tasks);
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |name: &std::ffi::OsStr| {
        let mut letters = name.as_encoded_bytes().iter();
        letters.all(u8::is_ascii_digit)
    };
    let processes = entries.filter(|entry| is_process(&entry.file_name()));
    add("kernel:processes", Some(processes.count() as u64));
    let file = |path: &str| number(&fs::read_to_string(path).ok()?, 0);
    for (name, limit) in [
        // Kernels without a limit have the largest number here.
        ("kernel:open-files", number(texts.file_nr, 2)),
        (
            "kernel:tracked-connections",
            file("/proc/sys/net/netfilter/nf_conntrack_max"),
        ),
        ("kernel:threads", file("/proc/sys/kernel/threads-max")),
        ("kernel:processes", file("/proc/sys/kernel/pid_max")),
    ] {
        let limit = limit.filter(|limit| *limit < 1 << 40);
        limits.extend(limit.map(|limit| (name.to_string(), limit)));
    }
}

/// `/proc/net/sockstat`; returns the number of TCP sockets.
fn sockets(text: &str, page_bytes: u64, values: &mut Values) -> u64 {
    let mut all = 0;
    for line in text.lines() {
        let Some((family, rest)) = line.split_once(':') else {
            continue;
        };
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        for pair in words.chunks_exact(2) {
            let Ok(value) = pair[1].parse::<u64>() else {
                continue;
            };
            if (family, pair[0]) == ("TCP", "alloc") {
                all = value;
            }
            let family = family.to_ascii_lowercase();
            let (name, value) = match pair[0] {
                "mem" | "memory" => (format!("memory:{family}-buffers"), value * page_bytes),
                what => (format!("sockets:{family}-{what}"), value),
            };
            values.insert(name, value);
        }
    }
    all
}

/// `/proc/net/tcp`.
fn states(text: &str, values: &mut Values) {
    for line in text.lines().skip(1) {
        let state = line.split_ascii_whitespace().nth(3);
        let state = state.and_then(|state| usize::from_str_radix(state, 16).ok());
        let name = state.and_then(|state| STATES.get(state.wrapping_sub(1)));
        if let Some(name) = name {
            *values.entry(format!("tcp:{name}")).or_default() += 1;
        }
    }
}

fn add_service(service: &ServiceNow, values: &mut Values, limits: &mut Values) {
    let name = &service.name;
    let processes = service.processes.iter().take(MOST_PROCESSES);
    let files = processes.filter_map(|pid| descriptors(*pid)).sum();
    let limit = service.processes.first().and_then(|pid| most_files(*pid));
    let processes = service.processes.len() as u64;
    for (group, value) in [
        ("service-files", files),
        ("service-threads", service.threads.into()),
        ("service-processes", processes),
        ("service-rss", service.rss_bytes),
    ] {
        values.insert(format!("{group}:{name}"), value);
    }
    let limit = limit.map(|limit| limit.saturating_mul(processes));
    limits.extend(limit.map(|limit| (format!("service-files:{name}"), limit)));
}

/// Number of a process's open descriptors.
fn descriptors(pid: u32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    Some(fs::read_dir(path).ok()?.count() as u64)
}

/// A process's soft limit of open files.
fn most_files(pid: u32) -> Option<u64> {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// `/proc/slabinfo`: bytes of objects in use. Without caches that have never had any.
fn slab(text: &str, caches: &mut HashMap<String, bool>, values: &mut Values) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next().filter(|name| !name.starts_with('#')) else {
            continue;
        };
        let numbers = [words.next(), words.next(), words.next()];
        let [Some(active), Some(_), Some(bytes)] =
            numbers.map(|word| word.and_then(|word| word.parse::<u64>().ok()))
        else {
            continue;
        };
        let is_reclaimable = match caches.get(name) {
            Some(known) => *known,
            None if active == 0 || caches.len() + OTHERS >= MOST => continue,
            None => {
                let is_reclaimable = is_reclaimable(name);
                caches.insert(name.into(), is_reclaimable);
                is_reclaimable
            }
        };
        let group = if is_reclaimable { "cache" } else { "slab" };
        values.insert(format!("{group}:{name}"), active.saturating_mul(bytes));
    }
}

fn is_reclaimable(cache: &str) -> bool {
    let path = Path::new("/sys/kernel/slab")
        .join(cache)
        .join("reclaim_account");
    if let Ok(text) = fs::read_to_string(path) {
        return text.trim() == "1";
    }
    let is_known = |known: &&str| cache == *known || cache.ends_with("_inode_cache");
    RECLAIMABLE.iter().any(is_known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_read_from_this_system() {
        let mut reader = CounterReader::open(&Netns::current()).unwrap();
        let service = ServiceNow {
            name: "own".into(),
            processes: vec![std::process::id()],
            threads: 3,
            rss_bytes: 4096,
        };
        let mut buffer = vec![0; 1024];
        let (values, limits) = reader.read(std::slice::from_ref(&service), &mut buffer);
        for name in [
            MEMORY_USED,
            SWAP_USED,
            "memory:slab-unreclaimable",
            "kernel:open-files",
            "kernel:threads",
            "kernel:processes",
            "service-files:own",
            "fragmentation:order-4",
        ] {
            assert!(values.contains_key(name), "{name} of {values:?}");
        }
        assert!(values["service-files:own"] >= 3);
        assert!(limits[MEMORY_TOTAL] > values[MEMORY_USED]);
        assert!(values.len() <= MOST);
        // Limits are reported once.
        let (_, limits) = reader.read(&[service], &mut buffer);
        assert_eq!(limits, Values::new());
    }

    #[test]
    fn memory_that_no_line_tells_of_is_what_is_left() {
        let (mut values, mut limits) = (Values::new(), Values::new());
        let text = "MemTotal: 1000 kB\nMemFree: 200 kB\nMemAvailable: 600 kB\nCached: 300 kB\nAnonPages: 100 kB\n\
                    Slab: 50 kB\nSUnreclaim: 30 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n";
        memory(text, &mut values, &mut limits);
        let kib = |name: &str| values[name] >> 10;
        assert_eq!((kib(MEMORY_USED), kib(SWAP_USED)), (400, 6));
        assert_eq!(
            (kib("memory:unaccounted"), kib("memory:slab-unreclaimable")),
            (350, 30)
        );
        assert_eq!(limits[SWAP_USED] >> 10, 10);
    }

    #[test]
    fn slab_caches_are_bytes_in_use() {
        let text = "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize>\n\
                    filp 100 120 256 16 1 : tunables 0 0 0 : slabdata 8 8 0\n\
                    never 0 0 64 64 1 : tunables 0 0 0 : slabdata 0 0 0\n\
                    no_such_inode_cache 2 2 1000 4 1 : tunables\n";
        let (mut caches, mut values) = (HashMap::new(), Values::new());
        slab(text, &mut caches, &mut values);
        assert_eq!(values["cache:no_such_inode_cache"], 2000);
        assert!(!values.contains_key("slab:never"));
        assert_eq!(values.len(), 2);
        assert!(values.values().any(|bytes| *bytes == 25_600));
    }

    #[test]
    fn sockets_and_states_are_counted() {
        let mut values = Values::new();
        let text = "sockets: used 7\nTCP: inuse 3 orphan 0 tw 5 alloc 4 mem 2\n";
        assert_eq!(sockets(text, 4096, &mut values), 4);
        assert_eq!(
            (values["sockets:tcp-tw"], values["memory:tcp-buffers"]),
            (5, 8192)
        );
        let text = "  sl  local_address rem_address   st\n 0: 0100007F:1F90 00000000:0000 0A 0\n \
                    1: 0100007F:1F90 0100007F:C000 08 0\n 2: 0100007F:1F90 0100007F:C001 08 0\n";
        states(text, &mut values);
        assert_eq!((values["tcp:listen"], values["tcp:close-wait"]), (1, 2));
    }

    #[test]
    fn free_memory_in_small_pieces_is_fragmented() {
        let mut values = Values::new();
        let text = "Node 0, zone   Normal  16 0 0 0 1 0 0 0 0 0 0\nNode 0, zone DMA 0 0 0 0 0 1\n";
        fragmentation(text, &mut values);
        assert_eq!(values["fragmentation:order-4"], 250);
    }
}
