//! Reads and parses `/proc`. Parsers are pure: text in, numbers out; formats as in proc(5).
//!
//! Kernels add fields and lines over the years, so every parser takes known ones by name or place and skips
//! the rest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use record::evidence::{Disk, Memory};

use crate::cpus;

/// `/proc/stat`: CPU time in ticks of `USER_HZ`, counters since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stat {
    /// User and nice, including guests.
    pub user: u64,
    pub system: u64,
    pub idle: u64,
    pub iowait: u64,
    pub irq: u64,
    pub softirq: u64,
    pub steal: u64,
    /// Interrupts served.
    pub interrupts: u64,
    pub context_switches: u64,
    /// Processes and threads created.
    pub forks: u64,
    /// Tasks that are runnable now, including the reader.
    pub runnable: u64,
    /// Tasks that are blocked now.
    pub blocked: u64,
}

/// Parses `/proc/stat`. CPU time is the sum over the CPUs in `bound`, or over all if it is empty.
pub fn stat(text: &str, bound: &[u32]) -> Stat {
    let mut stat = Stat::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let key = words.next().unwrap_or_default();
        let mut next = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        match key {
            key if counts(key, bound) => {
                stat.user += next() + next();
                stat.system += next();
                stat.idle += next();
                stat.iowait += next();
                stat.irq += next();
                stat.softirq += next();
                stat.steal += next();
            }
            "intr" => stat.interrupts = next(),
            "ctxt" => stat.context_switches = next(),
            "processes" => stat.forks = next(),
            "procs_running" => stat.runnable = next(),
            "procs_blocked" => stat.blocked = next(),
            _ => {}
        }
    }
    stat
}

/// Whether a line of `/proc/stat` counts. The first line is the sum of all CPUs.
fn counts(key: &str, bound: &[u32]) -> bool {
    match cpus::number(key) {
        Some(cpu) => bound.contains(&cpu),
        None => key == "cpu" && bound.is_empty(),
    }
}

/// Parses `/proc/schedstat`: nanoseconds that tasks other than the idle one ran, summed over the CPUs in
/// `bound`, or over all if it is empty. `None` if there is no such line.
///
/// The seventh number of a CPU's line in versions 15 to 17 (Linux 2.6.24 to 7.x).
pub fn run_time_ns(text: &str, bound: &[u32]) -> Option<u64> {
    let is_counted = |line: &&str| {
        let cpu = cpus::number(line.split(' ').next().unwrap_or_default());
        cpu.is_some_and(|cpu| bound.is_empty() || bound.contains(&cpu))
    };
    let cpus = text.lines().filter(is_counted);
    let times = cpus.map(|line| line.split_ascii_whitespace().nth(7)?.parse::<u64>().ok());
    times.reduce(|sum, time| Some(sum? + time?)).flatten()
}

/// Parses `/proc/meminfo`.
pub fn memory(text: &str) -> Memory {
    let mut memory = Memory::default();
    let (mut swap_total, mut swap_free) = (0, 0);
    for line in text.lines() {
        let Some((key, rest)) = line.split_once(':') else {
            continue;
        };
        let number = rest.split_ascii_whitespace().next();
        let bytes = number.and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10;
        match key {
            "MemTotal" => memory.total_bytes = bytes,
            "MemFree" => memory.free_bytes = bytes,
            "MemAvailable" => memory.available_bytes = bytes,
            "Cached" => memory.cached_bytes = bytes,
            "AnonPages" => memory.anon_bytes = bytes,
            "Slab" => memory.slab_bytes = bytes,
            "Dirty" => memory.dirty_bytes = bytes,
            "SwapTotal" => swap_total = bytes,
            "SwapFree" => swap_free = bytes,
            _ => {}
        }
    }
    memory.swap_used_bytes = swap_total - swap_free.min(swap_total);
    memory
}

/// Parses `/proc/softirqs`: kinds and their counts, summed over all CPUs.
pub fn softirqs(text: &str) -> impl Iterator<Item = (&str, u64)> {
    text.lines().filter_map(|line| {
        let (kind, counts) = line.split_once(':')?;
        let counts = counts.split_ascii_whitespace();
        Some((
            kind.trim(),
            counts.filter_map(|count| count.parse::<u64>().ok()).sum(),
        ))
    })
}

/// Parses `/proc/net/snmp` or `/proc/net/netstat`, whose lines come in pairs of names and values. Only groups
/// that begin with `Tcp`, named as in nstat(8): `TcpRetransSegs`, `TcpExtListenDrops`. Without values that are
/// not counters: limits and the number of connections.
pub fn tcp(text: &str) -> impl Iterator<Item = (String, u64)> {
    const NOT_COUNTERS: [&str; 5] = ["RtoAlgorithm", "RtoMin", "RtoMax", "MaxConn", "CurrEstab"];
    let mut lines = text.lines();
    let pairs = std::iter::from_fn(move || Some((lines.next()?, lines.next()?)));
    pairs
        .filter(|(names, _)| names.starts_with("Tcp"))
        .flat_map(|(names, values)| {
            let group = names.split(':').next().unwrap_or_default();
            let names = names.split_ascii_whitespace().skip(1);
            let values = values.split_ascii_whitespace().skip(1);
            names.zip(values).filter_map(move |(name, value)| {
                let value = value.parse().ok()?;
                (!NOT_COUNTERS.contains(&name)).then(|| (format!("{group}{name}"), value))
            })
        })
}

/// The TCP counters of the calling thread's network namespace, as `tcp` names them.
pub(crate) fn thread_tcp() -> std::io::Result<BTreeMap<String, u64>> {
    let mut counters = BTreeMap::new();
    for name in ["snmp", "netstat"] {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{name}"))?;
        counters.extend(tcp(&text));
    }
    Ok(counters)
}

/// Parses the values of `tcp` without the names, in the same order. Allocates only the result.
pub fn tcp_values(text: &str, keep: &[bool], into: &mut Vec<u64>) {
    let values = text
        .lines()
        .skip(1)
        .step_by(2)
        .filter(|line| line.starts_with("Tcp"))
        .flat_map(|line| line.split_ascii_whitespace().skip(1));
    let kept = values.zip(keep).filter(|(_, keep)| **keep);
    into.extend(kept.map(|(value, _)| value.parse().unwrap_or(0)));
}

/// One file of `/proc/pressure`: total microseconds of `some` and of `full`.
pub fn pressure(text: &str) -> (u64, u64) {
    let total = |kind: &str| {
        let line = text.lines().find(|line| line.starts_with(kind))?;
        line.rsplit_once("total=")?.1.trim().parse().ok()
    };
    (total("some").unwrap_or(0), total("full").unwrap_or(0))
}

/// Parses `/proc/diskstats`: the sum over `disks`. Partitions and stacked devices would count bytes twice.
pub fn disks(text: &str, disks: &[String]) -> Disk {
    const SECTOR_BYTES: u64 = 512;
    let mut sum = Disk::default();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(2);
        let name = words.next().unwrap_or_default();
        if !disks.iter().any(|disk| disk == name) {
            continue;
        }
        let mut after = |skip: usize| {
            words
                .nth(skip)
                .and_then(|word| word.parse().ok())
                .unwrap_or(0)
        };
        // reads, merged, sectors, ms, writes, merged, sectors, ms, in flight, busy ms
        sum.reads += after(0);
        sum.read_bytes += after(1) * SECTOR_BYTES;
        sum.writes += after(1);
        sum.written_bytes += after(1) * SECTOR_BYTES;
        sum.busy_ms += after(2);
    }
    sum
}

/// A cgroup's `cpu.stat`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "each field names its unit")]
pub struct CgroupTime {
    /// The total, exact.
    pub usage_us: u64,
    /// In programs, estimated from ticks.
    pub user_us: u64,
    /// In the kernel, estimated from ticks.
    pub system_us: u64,
}

/// Parses a cgroup's `cpu.stat`.
pub fn cgroup_time(text: &str) -> CgroupTime {
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        lines.find(|(name, _)| *name == key)?.1.parse().ok()
    };
    CgroupTime {
        usage_us: value("usage_usec").unwrap_or(0),
        user_us: value("user_usec").unwrap_or(0),
        system_us: value("system_usec").unwrap_or(0),
    }
}

/// Resident pages from `/proc/PID/statm`.
pub fn resident_pages(text: &str) -> u64 {
    let word = text.split_ascii_whitespace().nth(1);
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Reads a file from its start, however often it was read before. Empty if it cannot be read.
pub(crate) fn slurp<'b>(file: &File, buffer: &'b mut Vec<u8>) -> &'b str {
    let mut length = 0;
    loop {
        if length == buffer.len() {
            buffer.resize(2 * length, 0);
        }
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) | Err(_) => break,
            Ok(read) => length += read,
        }
    }
    std::str::from_utf8(&buffer[..length]).unwrap_or_default()
}

/// Release of the running kernel: `6.1.0-40-cloud-amd64`.
pub(crate) fn release() -> String {
    rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned()
}

/// A file's text, or nothing if it cannot be read.
pub(crate) fn text_of(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn stat_of_5_10_is_read() {
        let text = "\
cpu  10 5 20 300 7 2 3 1 0 0
cpu0 10 5 20 300 7 2 3 1 0 0
intr 4242 38 9 0 0
ctxt 777
btime 1700000000
processes 321
procs_running 3
procs_blocked 1
softirq 900 1 2 3
";
        expect!["Stat { user: 15, system: 20, idle: 300, iowait: 7, irq: 2, softirq: 3, steal: 1, interrupts: 4242, context_switches: 777, forks: 321, runnable: 3, blocked: 1 }"].assert_eq(&format!("{:?}", stat(text, &[])));
    }

    #[test]
    fn lines_that_a_later_kernel_adds_are_skipped() {
        let text = "cpu  1 0 2 3 4 5 6 7 8 9 10\nfuture 9 9 9\nctxt 5\nnew_line\n";
        let stat = stat(text, &[]);
        assert_eq!((stat.user, stat.steal, stat.context_switches), (1, 7, 5));
    }

    #[test]
    fn run_time_is_the_same_column_in_all_versions() {
        let v15 = "version 15\ntimestamp 4294937241\ncpu0 0 0 9 4 5 6 1000 80 7\ndomain0 3 1 2\n";
        let v17 = "version 17\ntimestamp 4294937241\ncpu0 0 0 9 4 5 6 1000 80 7\n\
                   domain0 SMT 3 1 2\ncpu1 0 0 9 4 5 6 234 80 7\n";
        assert_eq!(run_time_ns(v15, &[]), Some(1000));
        assert_eq!(run_time_ns(v17, &[]), Some(1234));
        assert_eq!(run_time_ns("version 15\n", &[]), None);
    }

    #[test]
    fn of_a_host_only_the_arms_own_cpus_count() {
        let text = "cpu 111 0 0 0\ncpu0 1 0 0 0\ncpu1 10 0 0 0\ncpu2 100 0 0 0\nctxt 5\n";
        let user = |bound: &[u32]| stat(text, bound).user;
        assert_eq!([user(&[]), user(&[0]), user(&[0, 2])], [111, 1, 101]);
        let text = "version 17\ncpu0 0 0 9 4 5 6 1000 80 7\ncpu1 0 0 9 4 5 6 234 80 7\n";
        assert_eq!(run_time_ns(text, &[1]), Some(234));
        assert_eq!(run_time_ns(text, &[7]), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        let text = "MemTotal:        2030000 kB\nMemFree:  1000 kB\nMemAvailable: 1500000 kB\n\
                    Cached: 10 kB\nSwapCached: 99 kB\nAnonPages: 4 kB\nSlab: 5 kB\nDirty: 6 kB\n\
                    SwapTotal: 100 kB\nSwapFree: 60 kB\nHugePages_Total: 0\n";
        let memory = memory(text);
        assert_eq!(memory.total_bytes, 2_030_000 << 10);
        assert_eq!(memory.cached_bytes, 10 << 10);
        assert_eq!(memory.swap_used_bytes, 40 << 10);
    }

    #[test]
    fn softirqs_are_summed_over_cpus() {
        let text = "                    CPU0       CPU1\n          HI:          1          2\n      \
                    NET_RX:        100         23\n";
        assert_eq!(
            softirqs(text).collect::<Vec<_>>(),
            [("HI", 3), ("NET_RX", 123)]
        );
    }

    #[test]
    fn tcp_counters_have_the_names_of_nstat() {
        let text = "\
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm MaxConn ActiveOpens CurrEstab RetransSegs
Tcp: 1 -1 174 3 9
TcpExt: TW ListenDrops
TcpExt: 5 6
";
        let counters: Vec<_> = tcp(text)
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        expect!["TcpActiveOpens=174 TcpRetransSegs=9 TcpExtTW=5 TcpExtListenDrops=6"]
            .assert_eq(&counters.join(" "));
    }

    #[test]
    fn pressure_of_a_cpu_has_no_full_line_before_5_13() {
        let old = "some avg10=1.49 avg60=2.45 avg300=2.67 total=25173669\n";
        let new = format!("{old}full avg10=0.00 avg60=0.00 avg300=0.00 total=12\n");
        assert_eq!(pressure(old), (25_173_669, 0));
        assert_eq!(pressure(&new), (25_173_669, 12));
    }

    #[test]
    fn partitions_do_not_count_twice() {
        let text = "\
 254       0 vda 10 1 80 4 20 2 160 5 0 30 9 0 0 0 0 0 0
 254       1 vda1 10 1 80 4 20 2 160 5 0 30 9 0 0 0 0
   7       0 loop0 9 9 9 9 9 9 9 9 9 9 9
";
        expect![
            "Disk { reads: 10, writes: 20, read_bytes: 40960, written_bytes: 81920, busy_ms: 30 }"
        ]
        .assert_eq(&format!("{:?}", disks(text, &["vda".into()])));
    }

    #[test]
    fn a_cgroups_time_is_found_by_name() {
        let text = "usage_usec 300\nuser_usec 100\nsystem_usec 200\nnice_usec 0\nnr_periods 0\n";
        let time = cgroup_time(text);
        assert_eq!(
            (time.usage_us, time.user_us, time.system_us),
            (300, 100, 200)
        );
        assert_eq!(cgroup_time(""), CgroupTime::default());
    }
}
