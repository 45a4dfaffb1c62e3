//! Properties of this host that affect the speed of its guests: facts of each trial under KVM, and what
//! a host lacks, with remedies.
//!
//! All files are read below a root directory, mostly `/`, so that tests can make up a host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Bytes of a page that a host reserves.
pub(crate) const RESERVED_PAGE_BYTES: u64 = 2 << 20;

/// A property that makes guests slower or their figures less steady.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// The property.
    pub what: &'static str,
    /// Its value.
    pub found: String,
    /// The remedy.
    pub remedy: &'static str,
}

/// The pages of guests' memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestMemory {
    /// Reserved pages of 2 MiB, allocated before the guest begins.
    Reserved,
    /// Transparent huge pages, where the kernel finds room.
    Transparent,
    /// Pages of 4 KiB.
    Small,
}

impl GuestMemory {
    /// For facts and for the machine's description.
    pub fn words(self) -> &'static str {
        match self {
            Self::Reserved => "reserved huge pages",
            Self::Transparent => "transparent huge pages",
            Self::Small => "small pages",
        }
    }
}

/// A host by its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostState {
    root: PathBuf,
}

impl HostState {
    /// This host, or a made-up one below another root.
    pub fn at(root: &Path) -> Self {
        Self { root: root.into() }
    }

    /// The directory where the kernel shows the host's devices.
    pub(crate) fn sys(&self) -> PathBuf {
        self.root.join("sys")
    }

    fn read(&self, path: &str) -> Option<String> {
        let text = fs::read_to_string(self.root.join(path)).ok()?;
        Some(text.trim().to_string())
    }

    /// Whether the host's CPU is virtual.
    pub(crate) fn is_guest(&self) -> bool {
        self.flags().contains("hypervisor")
    }

    /// Whether the CPU can run guests.
    pub(crate) fn has_virtualization(&self) -> bool {
        let flags = self.flags();
        flags.contains("vmx") || flags.contains("svm")
    }

    fn flags(&self) -> BTreeSet<String> {
        let text = self.read("proc/cpuinfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("flags"));
        let words = line.unwrap_or_default().split_whitespace();
        words.map(String::from).collect()
    }

    fn clocksource(&self) -> Option<String> {
        self.read("sys/devices/system/clocksource/clocksource0/current_clocksource")
    }

    /// The governors of all CPUs, each once.
    fn governors(&self) -> BTreeSet<String> {
        let dir = self.root.join("sys/devices/system/cpu/cpufreq");
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        let governor = |dir: PathBuf| fs::read_to_string(dir.join("scaling_governor")).ok();
        entries
            .filter_map(|entry| Some(governor(entry.path())?.trim().to_string()))
            .collect()
    }

    /// Whether CPUs may exceed their rated clock; `None` if the kernel does not show it.
    fn has_turbo(&self) -> Option<bool> {
        let no_turbo = self.read("sys/devices/system/cpu/intel_pstate/no_turbo");
        let boost = self.read("sys/devices/system/cpu/cpufreq/boost");
        no_turbo
            .map(|text| text == "0")
            .or(boost.map(|text| text == "1"))
    }

    fn has_smt(&self) -> Option<bool> {
        let active = self.read("sys/devices/system/cpu/smt/active");
        active.map(|text| text == "1")
    }

    /// The mode in brackets: `always [madvise] never`.
    fn transparent(&self) -> Option<String> {
        let text = self.read("sys/kernel/mm/transparent_hugepage/enabled")?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_string())
    }

    /// The pages for memory of this size, near the CPUs of a node.
    pub fn memory(&self, bytes: u64, node: usize) -> GuestMemory {
        if bytes.is_multiple_of(RESERVED_PAGE_BYTES)
            && self.reserved(node) * RESERVED_PAGE_BYTES >= bytes
        {
            return GuestMemory::Reserved;
        }
        match self.transparent().as_deref() {
            // QEMU requests huge pages, so `madvise` is as good.
            Some("always" | "madvise") => GuestMemory::Transparent,
            Some(_) | None => GuestMemory::Small,
        }
    }

    /// Free reserved pages.
    fn reserved(&self, node: usize) -> u64 {
        let pages = "hugepages/hugepages-2048kB";
        let number = |path: &str| self.read(path).and_then(|text| text.parse::<u64>().ok());
        // Only the host's count excludes pages that are promised to other processes.
        let host = number(&format!("sys/kernel/mm/{pages}/free_hugepages")).unwrap_or(0);
        let promised = number(&format!("sys/kernel/mm/{pages}/resv_hugepages")).unwrap_or(0);
        let near = number(&format!(
            "sys/devices/system/node/node{node}/{pages}/free_hugepages"
        ));
        host.saturating_sub(promised).min(near.unwrap_or(host))
    }

    /// Facts of the host by their keys, without unknown ones.
    pub fn facts(&self) -> BTreeMap<String, String> {
        let word = |is_on: bool| if is_on { "on" } else { "off" }.to_string();
        let governors: Vec<_> = self.governors().into_iter().collect();
        let governors = (!governors.is_empty()).then(|| governors.join(", "));
        let is_guest = if self.is_guest() { "yes" } else { "no" };
        let found = [
            ("clocksource", self.clocksource()),
            ("governor", governors),
            (
                "halt-poll-ns",
                self.read("sys/module/kvm/parameters/halt_poll_ns"),
            ),
            ("is-a-guest", Some(is_guest.into())),
            ("kernel", self.read("proc/sys/kernel/osrelease")),
            ("smt", self.has_smt().map(word)),
            ("turbo", self.has_turbo().map(word)),
        ];
        let facts = found
            .into_iter()
            .filter_map(|(key, value)| Some((fact(key), value?)));
        facts.collect()
    }

    /// What a host with working KVM lacks.
    pub fn lacks(&self) -> Vec<Lack> {
        let mut lacks = Vec::new();
        let mut add = |what, found: String, remedy| {
            lacks.push(Lack {
                what,
                found,
                remedy,
            });
        };
        if self.is_guest() {
            let found = "itself a guest: its CPUs may be taken away, and each exit of a guest costs several".into();
            add(
                "the host",
                found,
                "run on the machine itself; until then look at host:steal in the facts",
            );
        }
        let governors: Vec<_> = self.governors().into_iter().collect();
        if governors.iter().any(|governor| governor != "performance") {
            let remedy = "cpupower frequency-set --governor performance";
            add("CPU frequency governor", governors.join(", "), remedy);
        }
        if self.has_turbo() == Some(true) {
            let found = "on: the clock rate depends on heat and on other CPUs".into();
            let remedy = "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost";
            add("turbo", found, remedy);
        }
        if self.has_smt() == Some(true) {
            let found = "on: what runs on a sibling slows a virtual CPU down".into();
            add(
                "SMT",
                found,
                "echo off > /sys/devices/system/cpu/smt/control",
            );
        }
        if self.memory(RESERVED_PAGE_BYTES, 0) == GuestMemory::Small {
            let found = "neither reserved nor transparent".into();
            let remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or reserve a guest's memory with sysctl vm.nr_hugepages";
            add("huge pages", found, remedy);
        }
        if let Some(source) = self
            .clocksource()
            .filter(|source| source != "tsc" && !self.is_guest())
        {
            let remedy = "see why in dmesg | grep -i tsc; tsc=reliable on the host's command line where its counter is sound";
            add(
                "clock source",
                format!("{source}: slow to read, and guests inherit it"),
                remedy,
            );
        }
        lacks
    }

    /// Stolen time of CPUs so far, and their total time, in ticks.
    fn stolen(&self, cpus: &[usize]) -> (u64, u64) {
        let text = self.read("proc/stat").unwrap_or_default();
        let mut sum = (0, 0);
        for line in text.lines() {
            let mut words = line.split_whitespace();
            let number = words
                .next()
                .and_then(|word| word.strip_prefix("cpu")?.parse::<usize>().ok());
            if number.is_some_and(|number| cpus.contains(&number)) {
                // user nice system idle iowait irq softirq steal; what follows is counted in user and nice already.
                let ticks: Vec<u64> = words.take(8).filter_map(|word| word.parse().ok()).collect();
                sum.0 += ticks.get(7).copied().unwrap_or(0);
                sum.1 += ticks.iter().sum::<u64>();
            }
        }
        sum
    }
}

/// Facts of this host's hardware, and of the kernel that emulates.
pub(crate) fn hardware() -> BTreeMap<String, String> {
    let values = base::hardware::facts().into_iter();
    let mut facts: BTreeMap<String, String> = values
        .map(|(name, value)| (fact(&format!("hardware:{name}")), value))
        .collect();
    facts.insert(fact("kernel"), crate::host::release());
    facts
}

/// The key of a fact about the host.
pub(crate) fn fact(name: &str) -> String {
    format!("host:{name}")
}

/// The time of some CPUs that was stolen from the host during a trial.
#[derive(Debug)]
pub(crate) struct StealMeter {
    host: HostState,
    cpus: Vec<usize>,
    before: (u64, u64),
}

impl StealMeter {
    pub(crate) fn start(host: &HostState, cpus: &[usize]) -> Self {
        Self {
            host: host.clone(),
            cpus: cpus.to_vec(),
            before: host.stolen(cpus),
        }
    }

    /// The stolen share since the start, in whole percent: `2 %`. So it is the same in all trials of a quiet host.
    pub(crate) fn words(&self) -> String {
        let (stolen, passed) = self.host.stolen(&self.cpus);
        let (stolen, passed) = (
            stolen.saturating_sub(self.before.0),
            passed.saturating_sub(self.before.1),
        );
        let percent = (stolen * 100 + passed / 2).checked_div(passed).unwrap_or(0);
        format!("{percent} %")
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostState) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let state = HostState::at(dir.path());
        (dir, state)
    }

    const LAPTOP: [(&str, &str); 9] = [
        ("proc/cpuinfo", "model name\t: x\nflags\t\t: fpu vmx sse\n"),
        ("proc/sys/kernel/osrelease", "6.12.1\n"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet\n",
        ),
        (
            "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
            "powersave\n",
        ),
        (
            "sys/devices/system/cpu/cpufreq/policy1/scaling_governor",
            "powersave\n",
        ),
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/smt/active", "1\n"),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always madvise [never]\n",
        ),
        ("sys/module/kvm/parameters/halt_poll_ns", "200000\n"),
    ];

    fn check(state: &HostState, want: &Expect) {
        let facts = state
            .facts()
            .into_iter()
            .map(|(key, value)| format!("{key} = {value}\n"));
        let lacks = state.lacks().into_iter().map(
            |Lack {
                 what,
                 found,
                 remedy,
             }| format!("{what}: {found} ({remedy})\n"),
        );
        want.assert_eq(&facts.chain(lacks).collect::<String>());
    }

    #[test]
    fn a_laptop_as_it_comes_lacks_much_and_each_lack_has_a_remedy() {
        let (_dir, state) = host(&LAPTOP);
        check(
            &state,
            &expect![[r#"
            host:clocksource = hpet
            host:governor = powersave
            host:halt-poll-ns = 200000
            host:is-a-guest = no
            host:kernel = 6.12.1
            host:smt = on
            host:turbo = on
            CPU frequency governor: powersave (cpupower frequency-set --governor performance)
            turbo: on: the clock rate depends on heat and on other CPUs (echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo, or echo 0 > /sys/devices/system/cpu/cpufreq/boost)
            SMT: on: what runs on a sibling slows a virtual CPU down (echo off > /sys/devices/system/cpu/smt/control)
            huge pages: neither reserved nor transparent (echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or reserve a guest's memory with sysctl vm.nr_hugepages)
            clock source: hpet: slow to read, and guests inherit it (see why in dmesg | grep -i tsc; tsc=reliable on the host's command line where its counter is sound)
        "#]],
        );
    }

    #[test]
    fn a_guest_with_kvm_is_told_so() {
        let (_dir, state) = host(&[
            ("proc/cpuinfo", "flags\t\t: fpu svm hypervisor\n"),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "kvm-clock\n",
            ),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "always [madvise] never\n",
            ),
        ]);
        check(
            &state,
            &expect![[r#"
            host:clocksource = kvm-clock
            host:is-a-guest = yes
            the host: itself a guest: its CPUs may be taken away, and each exit of a guest costs several (run on the machine itself; until then look at host:steal in the facts)
        "#]],
        );
        assert!(state.has_virtualization());
    }

    #[test]
    fn a_tuned_server_lacks_nothing() {
        let (_dir, state) = host(&[
            ("proc/cpuinfo", "flags\t\t: fpu svm\n"),
            (
                "sys/devices/system/clocksource/clocksource0/current_clocksource",
                "tsc\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
                "performance\n",
            ),
            ("sys/devices/system/cpu/cpufreq/boost", "0\n"),
            ("sys/devices/system/cpu/smt/active", "0\n"),
            (
                "sys/kernel/mm/transparent_hugepage/enabled",
                "[always] madvise never\n",
            ),
        ]);
        assert_eq!(state.lacks(), []);
    }

    #[test]
    fn reserved_pages_are_taken_where_they_hold_the_whole_guest_near_its_cpus() {
        let pages = "hugepages/hugepages-2048kB/free_hugepages";
        let (near, all) = (
            format!("sys/devices/system/node/node1/{pages}"),
            format!("sys/kernel/mm/{pages}"),
        );
        let transparent = (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never",
        );
        let memory = |free_near: &str, free: &str, bytes| {
            let (_dir, state) = host(&[(&near, free_near), (&all, free), transparent]);
            state.memory(bytes, 1)
        };
        assert_eq!(memory("256", "512", 512 << 20), GuestMemory::Reserved);
        assert_eq!(memory("255", "512", 512 << 20), GuestMemory::Transparent);
        assert_eq!(
            memory("512", "512", 511 << 20),
            GuestMemory::Transparent,
            "half a page"
        );
        let (_dir, state) = host(&[(&all, "256")]);
        assert_eq!(
            state.memory(512 << 20, 0),
            GuestMemory::Reserved,
            "no node is told"
        );
        assert_eq!(state.memory(514 << 20, 0), GuestMemory::Small);
    }

    #[test]
    fn steal_is_that_of_the_guests_cpus_in_percent() {
        let stat = |steal| {
            format!(
                "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 0 0 0 0 0 0 0 90 0 0\ncpu1 100 0 0 {} 0 0 0 {steal} 7 0\n",
                900 - steal
            )
        };
        let (dir, state) = host(&[("proc/stat", &stat(0))]);
        let meter = StealMeter::start(&state, &[1]);
        assert_eq!(meter.words(), "0 %", "no time has passed");
        let later = "cpu0 0 0 0 0 0 0 0 990 0 0\ncpu1 170 0 0 925 0 0 0 5 7 0\n";
        fs::write(dir.path().join("proc/stat"), later).unwrap();
        assert_eq!(meter.words(), "5 %");
    }
}
