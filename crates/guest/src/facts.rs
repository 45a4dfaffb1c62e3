//! Facts of a trial: everything a fairness check may want to compare between arms, now or years later.
//!
//! Collected after the window, so that it disturbs nothing. A source that a kernel lacks is left out, so a missing
//! key is a fact too. Values that differ between boots of one kernel (counters, random ids, addresses) are left
//! out, because they would drown every comparison.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use plan::cpu::{Presence, fact_key};
use record::evidence::Facts;
use record::fact;
use record::hash;
use workload::context::command;
use workload::service::Service;

use crate::arch;
use crate::cpus;
use crate::java_log;
use crate::netns::NetnsPair;
use crate::sampler::whole_disks;
use crate::services::{Running, program};

/// Version of the collection.
pub(crate) const VERSION: u32 = 1;

/// Longest value kept, in bytes: a full `/proc/modules` or mount table fits.
const VALUE_LIMIT: usize = 16 << 10;

/// Most lines of the kernel's log kept; a guest's boot has a few hundred.
const LOG_LIMIT: usize = 4000;

/// Files whose whole content is a fact.
const FILES: &[&str] = &[
    fact::CMDLINE,
    fact::KERNEL_VERSION,
    "/proc/filesystems",
    fact::MOUNTS,
    fact::SWAPS,
    "/proc/self/limits",
    fact::IRQ_AFFINITY,
    "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    fact::CLOCKSOURCE,
    fact::CPUS_ONLINE,
    fact::CPUS_POSSIBLE,
    fact::CPUS_ISOLATED,
    "/sys/devices/system/cpu/nohz_full",
    fact::SMT_ACTIVE,
    fact::SMT_CONTROL,
    fact::SCALING_DRIVER,
    fact::SCALING_GOVERNOR,
    "/sys/devices/system/cpu/cpu0/microcode/version",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    fact::CPUIDLE_DRIVER,
    "/sys/devices/system/cpu/cpuidle/current_governor",
    fact::NODES_ONLINE,
    fact::SECURITY_MODULES,
    "/sys/kernel/notes",
    fact::CGROUP_CONTROLLERS,
    fact::CUBIC,
    fact::OS_RELEASE,
    fact::DEBIAN_VERSION,
];

/// Directories whose files are all facts.
const DIRECTORIES: &[&str] = &[
    "/sys/devices/system/cpu/vulnerabilities",
    "/sys/kernel/mm/transparent_hugepage",
    "/sys/kernel/mm/transparent_hugepage/khugepaged",
    "/sys/kernel/mm/ksm",
    "/sys/kernel/mm/lru_gen",
    "/sys/kernel/mm/swap",
];

/// Settings of a disk that are facts.
const DISK_SETTINGS: &[&str] = &[
    "scheduler",
    "read_ahead_kb",
    "nr_requests",
    "rotational",
    "logical_block_size",
    "max_sectors_kb",
    "nomerges",
    "rq_affinity",
    "wbt_lat_usec",
    "write_cache",
];

/// Sysctls that are states, not settings: they differ between two boots of one kernel.
const STATES: &[&str] = &[
    "fs.aio-nr",
    "fs.binfmt_misc.",
    "fs.dentry-state",
    "fs.file-nr",
    "fs.inode-nr",
    "fs.inode-state",
    "fs.quota.",
    "kernel.hung_task_detect_count",
    "kernel.hung_task_warnings",
    "kernel.ns_last_pid",
    "kernel.pty.nr",
    "kernel.random.boot_id",
    "kernel.random.entropy_avail",
    "kernel.random.uuid",
    "kernel.tainted",
    "net.core.netdev_rss_key",
    "net.ipv4.tcp_fastopen_key",
    "net.netfilter.nf_conntrack_count",
];

/// Collects all facts. `kernel_config` is the configuration for a kernel without `/proc/config.gz`.
pub fn collect(netns: &NetnsPair, services: &[Running], kernel_config: Option<&str>) -> Facts {
    let mut values = BTreeMap::new();
    collect_files(&mut values);
    collect_cpu(&mut values);
    collect_fast_strings(&mut values);
    collect_disks(&mut values);
    collect_network(&mut values, netns);
    // The list of all packages with their versions represents the user land.
    if let Ok(hash) = hash_file(Path::new("/var/lib/dpkg/status")) {
        keep(&mut values, fact::USERLAND, &hash);
    }
    collect_hardware("hardware", &mut values);
    // Kernels reserve different amounts of memory; `/proc/meminfo` shows what is left.
    for name in ["hardware:memory", "hardware:numa:memory"] {
        values.remove(name);
    }
    // `DISK_SETTINGS` has the scheduler in the kernel's words.
    values.retain(|name, _| !(name.starts_with("hardware:disk:") && name.ends_with(":scheduler")));
    for running in services {
        collect_service(&mut values, running);
    }
    // The server's namespace has the `net.*` that apply to the server; the rest is the whole kernel's.
    let server_sysctls = netns.server.within(all_sysctls).unwrap_or_default();
    let config = read_gzip(Path::new("/proc/config.gz")).ok();
    let config = config.as_deref().or(kernel_config).unwrap_or_default();
    Facts {
        version: VERSION,
        values,
        sysctls: with_first_namespace(server_sysctls, all_sysctls()),
        kernel_config: parse_config(config),
        boot_log: read_boot_log(),
    }
}

pub(crate) type Values = BTreeMap<String, String>;

/// Inserts a value, trimmed and cut to `VALUE_LIMIT`.
fn keep(values: &mut Values, key: impl Into<String>, value: &str) {
    let value = value.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    let mut ends = (0..=value.len().min(VALUE_LIMIT)).rev();
    let end = ends.find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    values.insert(key.into(), value[..end].to_string());
}

fn keep_file(values: &mut Values, path: &Path) {
    if let Ok(bytes) = fs::read(path) {
        keep(
            values,
            path.to_string_lossy(),
            &String::from_utf8_lossy(&bytes),
        );
    }
}

fn collect_files(values: &mut Values) {
    for path in FILES {
        keep_file(values, Path::new(path));
    }
    for directory in DIRECTORIES {
        for path in files_in(Path::new(directory)) {
            keep_file(values, &path);
        }
    }
    // Notes hold the build id in binary; a hash distinguishes kernels as well.
    values.remove("/sys/kernel/notes");
    if let Ok(hash) = hash_file(Path::new("/sys/kernel/notes")) {
        keep(values, fact::KERNEL_NOTES, &hash);
    }
    let text = fs::read_to_string("/proc/modules").unwrap_or_default();
    let mut modules: Vec<_> = text
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    modules.sort_unstable();
    keep(values, fact::MODULES, &modules.join(" "));
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    for line in text.lines() {
        if let Some((
            key @ ("MemTotal" | "SwapTotal" | "Hugepagesize" | "HugePages_Total"),
            value,
        )) = line.split_once(':')
        {
            keep(values, format!("/proc/meminfo:{key}"), value);
        }
    }
}

fn files_in(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files
}

/// The first CPU's description without current frequencies, the number of CPUs, and those of the arm.
fn collect_cpu(values: &mut Values) {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let count = text
        .lines()
        .filter(|line| line.starts_with("processor"))
        .count();
    keep(values, fact::CPU_COUNT, &count.to_string());
    // Not from /proc/self/status, which also lists offline CPUs.
    if let Ok(numbers) = cpus::numbers() {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        keep(values, "cpus", &numbers.join(","));
    }
    // Arm's /proc/cpuinfo has no such line.
    if let Some(model) = base::hardware::cpu_model(&text) {
        keep(values, fact::CPU_MODEL, &model);
    }
    for line in text.split("\n\n").next().unwrap_or_default().lines() {
        let Some((key, value)) = line.split_once(':') else {
            continue;
        };
        let key = key.trim();
        if ![
            "processor",
            "cpu MHz",
            "bogomips",
            "apicid",
            "initial apicid",
        ]
        .contains(&key)
        {
            keep(values, format!("/proc/cpuinfo:{key}"), value);
        }
    }
}

/// The fast string features of the CPU.
fn collect_fast_strings(values: &mut Values) {
    for (feature, has_feature) in arch::fast_strings() {
        let presence = if has_feature {
            Presence::Present
        } else {
            Presence::Absent
        };
        keep(values, fact_key(feature), presence.word());
    }
}

fn collect_disks(values: &mut Values) {
    for disk in whole_disks() {
        for setting in DISK_SETTINGS {
            keep_file(
                values,
                &Path::new("/sys/block")
                    .join(&disk)
                    .join("queue")
                    .join(setting),
            );
        }
    }
}

/// Network devices of both namespaces from ip(8), without hardware addresses, which are random.
fn collect_network(values: &mut Values, netns: &NetnsPair) {
    for (name, netns) in [("server", &netns.server), ("client", &netns.client)] {
        // Remote clients have no namespace here.
        if name == "client" && netns.is_current() {
            continue;
        }
        let output = netns.within(|| command("ip").args(["-details", "link", "show"]).output());
        if let Ok(Ok(output)) = output {
            let text = String::from_utf8_lossy(&output.stdout);
            let lines: Vec<_> = text.lines().map(without_addresses).collect();
            keep(values, format!("net:{name}"), &lines.join("\n"));
        }
    }
}

fn without_addresses(line: &str) -> String {
    let is_address = |word: &&str| word.len() == 17 && word.matches(':').count() == 5;
    line.split(' ')
        .filter(|word| !is_address(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// This system's hardware, under keys with this prefix.
pub(crate) fn collect_hardware(prefix: &str, values: &mut Values) {
    for (name, value) in base::hardware::facts() {
        keep(values, format!("{prefix}:{name}"), &value);
    }
}

fn collect_service(values: &mut Values, running: &Running) {
    let service = &running.service;
    let name = &service.name;
    keep(
        values,
        format!("command:{name}"),
        &service.command.join(" "),
    );
    keep(values, format!("version:{name}"), &version(service));
    if let Some(java) = &service.java {
        let settings = java.settings.iter();
        let settings = settings.map(|(name, value)| (*name, value.clone()));
        for (name, value) in settings.chain(java_log::facts(&java.log)) {
            keep(values, format!("{}{name}", fact::JAVA), &value);
        }
    }
    if let Ok(hash) = hash_file(Path::new(program(service))) {
        keep(values, format!("hash:server:{name}"), &hash);
    }
    for path in &service.configuration {
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if let Ok(hash) = hash_file(path) {
            keep(values, format!("hash:configuration:{name}:{file}"), &hash);
        }
    }
    let limits = fs::read_to_string(format!("/proc/{}/limits", running.leader()));
    for (limit, value) in parse_limits(&limits.unwrap_or_default()) {
        keep(values, format!("limit:{name}:{limit}"), &value);
    }
    keep(
        values,
        format!("workers:{name}"),
        &running.cgroup.processes().len().to_string(),
    );
}

/// Name and version, from the first line that a version command prints to standard output or error.
pub fn version(service: &Service) -> String {
    if let Some(release) = service.java.as_ref().and_then(|java| java.release.as_ref()) {
        return release.clone();
    }
    let Some((program, arguments)) = service.version.split_first() else {
        return String::new();
    };
    let Ok(output) = command(program).args(arguments).output() else {
        return String::new();
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.lines().map(str::trim);
    short_version(program, lines.find(|line| !line.is_empty()).unwrap_or(""))
}

/// Shortens a version to name and number: some lines lack the name, others have the path or the platform.
fn short_version(program: &str, line: &str) -> String {
    let line = line.rsplit_once(": ").map_or(line, |(_, version)| version);
    let line = line.split_once(" for ").map_or(line, |(line, _)| line);
    match line.split_once("Ver ").or(line.split_once("Version ")) {
        Some((_, version)) => {
            let name = program.rsplit('/').next().unwrap_or(program);
            format!("{name} {version}")
        }
        None => line.into(),
    }
}

/// Soft limits by name from `/proc/PID/limits`, whose columns are separated by two or more spaces.
fn parse_limits(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().skip(1).filter_map(|line| {
        let (name, rest) = line.split_once("  ")?;
        let soft = rest.split_ascii_whitespace().next()?;
        Some((
            name.trim_start_matches("Max ").to_string(),
            soft.to_string(),
        ))
    });
    lines.collect()
}

/// Sysctls as the calling thread's network namespace shows them.
fn all_sysctls() -> Values {
    let mut sysctls = Values::new();
    collect_sysctls(Path::new("/proc/sys"), &mut sysctls);
    sysctls
}

/// Adds to the servers' sysctls those that only the kernel's first namespace has, which is this process's: limits
/// of socket buffers, queues of the network stack, the default queueing discipline. Sysctls of its devices do not
/// apply to the servers.
fn with_first_namespace(mut servers: Values, first: Values) -> Values {
    let is_of_device = |name: &str| name.contains(".conf.") || name.contains(".neigh.");
    for (name, value) in first {
        if !is_of_device(&name) {
            servers.entry(name).or_insert(value);
        }
    }
    servers
}

/// Every readable sysctl below `directory`, without links and states.
fn collect_sysctls(directory: &Path, into: &mut Values) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect_sysctls(&path, into),
            Ok(kind) if kind.is_file() => {
                let name = plan::sysctl_name(&path);
                if STATES.iter().any(|state| name.starts_with(state)) {
                    continue;
                }
                if let Ok(bytes) = fs::read(&path) {
                    keep(into, name, &String::from_utf8_lossy(&bytes));
                }
            }
            _ => {}
        }
    }
}

/// Longest unpacked configuration of a kernel, in bytes.
const CONFIG_BYTES: u64 = 16 << 20;

fn read_gzip(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(File::open(path)?)
        .take(CONFIG_BYTES)
        .read_to_string(&mut text)?;
    Ok(text)
}

/// Options and their values, `n` for one that "is not set".
fn parse_config(text: &str) -> BTreeMap<String, String> {
    let options = text.lines().filter_map(|line| {
        if let Some(name) = line.strip_prefix("# ") {
            let name = name.strip_suffix(" is not set")?;
            return name
                .starts_with("CONFIG_")
                .then(|| (name.to_string(), "n".to_string()));
        }
        let (name, value) = line.split_once('=')?;
        Some((name.to_string(), value.to_string()))
    });
    options.collect()
}

/// The kernel's log so far, without priorities and time stamps.
fn read_boot_log() -> Vec<String> {
    // At the end of the log, read fails instead of waiting for the next line.
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let log = OpenOptions::new()
        .read(true)
        .custom_flags(nonblock)
        .open("/dev/kmsg");
    let Ok(mut log) = log else { return Vec::new() };
    let mut lines = Vec::new();
    let mut record = [0; 8 << 10];
    while lines.len() < LOG_LIMIT {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => lines.extend(parse_record(&String::from_utf8_lossy(&record[..length]))),
            // Records were overwritten: the next read continues with the oldest that is left.
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => {}
            Err(_) => break,
        }
    }
    lines
}

/// The text of a record `priority,sequence,time,flags;text`, without its further lines, which are properties.
fn parse_record(record: &str) -> Option<String> {
    let (_, text) = record.split_once(';')?;
    Some(text.lines().next()?.trim_end().to_string())
}

fn hash_file(path: &Path) -> io::Result<String> {
    hash::sha256_of(File::open(path)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn versions_name_the_server_and_no_more() {
        for (program, line, version) in [
            (
                "/usr/sbin/apache2",
                "Server version: Apache/2.4.68 (Debian)",
                "Apache/2.4.68 (Debian)",
            ),
            (
                "/usr/sbin/mariadbd",
                "/usr/sbin/mariadbd  Ver 10.11.18-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)",
                "mariadbd 10.11.18-MariaDB-0+deb12u1",
            ),
            (
                "/usr/sbin/smbd",
                "Version 4.17.12-Debian",
                "smbd 4.17.12-Debian",
            ),
            (
                "/usr/lib/postgresql/15/bin/postgres",
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
                "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)",
            ),
        ] {
            assert_eq!(short_version(program, line), version);
        }
    }

    #[test]
    fn options_that_are_not_set_are_n() {
        let text = "#\n# Automatically generated\n# CONFIG_DEBUG_INFO is not set\nCONFIG_HZ=250\n\
                    CONFIG_LSM=\"a=b,c\"\n";
        expect![[r#"{"CONFIG_DEBUG_INFO": "n", "CONFIG_HZ": "250", "CONFIG_LSM": "\"a=b,c\""}"#]]
            .assert_eq(&format!("{:?}", parse_config(text)));
    }

    #[test]
    fn sysctls_of_the_first_namespace_complete_those_of_the_servers() {
        let values = |pairs: &[(&str, &str)]| -> Values {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect()
        };
        let servers = values(&[("net.core.somaxconn", "128"), ("vm.swappiness", "60")]);
        let first = values(&[
            ("net.core.rmem_max", "212992"),
            ("net.core.somaxconn", "4096"),
            ("net.ipv4.conf.eth0.forwarding", "0"),
            ("vm.swappiness", "60"),
        ]);
        let want = values(&[
            ("net.core.rmem_max", "212992"),
            ("net.core.somaxconn", "128"),
            ("vm.swappiness", "60"),
        ]);
        assert_eq!(with_first_namespace(servers, first), want);
    }

    #[test]
    fn a_record_of_the_kernels_log_loses_its_time_and_properties() {
        let record = "6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=net\n";
        assert_eq!(
            parse_record(record).unwrap(),
            "NET: Registered protocol family 10"
        );
        assert_eq!(parse_record("no record"), None);
    }

    #[test]
    fn limits_are_read_by_name() {
        let text = "Limit                     Soft Limit           Hard Limit           Units     \n\
                    Max open files            1024                 1048576              files     \n\
                    Max cpu time              unlimited            unlimited            seconds   \n";
        let limits = parse_limits(text);
        assert_eq!(limits[0], ("open files".into(), "1024".into()));
        assert_eq!(limits[1], ("cpu time".into(), "unlimited".into()));
    }

    #[test]
    fn hardware_addresses_are_left_out() {
        let line = "    link/ether 2e:b0:0c:11:22:33 brd ff:ff:ff:ff:ff:ff link-netnsid 0";
        assert_eq!(without_addresses(line), "    link/ether brd link-netnsid 0");
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        let mut values = Values::new();
        keep(&mut values, "long", &"ä".repeat(VALUE_LIMIT));
        assert_eq!(values["long"].len(), VALUE_LIMIT);
    }
}
