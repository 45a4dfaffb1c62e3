//! Chooses a CPU of this host for each virtual CPU.
//!
//! It chooses whole cores below one last-level cache if there are enough of them, else of one NUMA node, else of the
//! host; threads that share a core only if the host has too few cores. The kernel's work and interrupts gather on
//! the CPUs of low numbers, so cores of high numbers go first.

use record::machine;
use record::machine::Locality;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// One CPU, and what it shares with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cpu {
    number: usize,
    /// The lowest number of the threads of its core.
    core: usize,
    /// The lowest number of the CPUs below its last-level cache.
    cache: usize,
    /// Its NUMA node.
    node: usize,
}

/// The CPUs that bakeoff may use, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology(Vec<Cpu>);

/// Where a guest's threads run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// CPU of each virtual CPU. An arm with fewer has the first of them.
    pub vcpus: Vec<usize>,
    /// CPUs of all other threads of the emulator; empty if none is left, so that they run anywhere.
    pub others: Vec<usize>,
    /// What the virtual CPUs have in common.
    pub locality: Locality,
    /// Some of them share a core.
    pub shares_cores: bool,
    /// The NUMA node of the first of them.
    pub node: usize,
}

impl Topology {
    /// Reads `sys`, mostly `/sys`, for the `allowed` CPUs; those that are offline are left out. What a kernel does not tell
    /// is taken for the simplest: a core, a cache and a node of its own.
    pub fn read(sys: &Path, allowed: &[usize]) -> Self {
        let cpus = sys.join("devices/system/cpu");
        let nodes = read_nodes(&sys.join("devices/system/node"));
        let is_online = |number: &&usize| {
            // The first CPU of most hosts cannot go offline and has no such file.
            let state = fs::read_to_string(cpus.join(format!("cpu{number}/online")));
            state.map_or(true, |state| state.trim() != "0")
        };
        let cpu = |number: &usize| {
            let dir = cpus.join(format!("cpu{number}"));
            let siblings = read_list(&dir.join("topology/thread_siblings_list"));
            Cpu {
                number: *number,
                core: lowest(&siblings, *number),
                cache: lowest(&last_level(&dir.join("cache")), *number),
                node: nodes.get(number).copied().unwrap_or(0),
            }
        };
        Self(allowed.iter().filter(is_online).map(cpu).collect())
    }

    /// Chooses CPUs for so many virtual ones.
    ///
    /// # Errors
    /// There are more virtual CPUs than CPUs.
    pub fn place(&self, vcpus: usize) -> Result<Placement, String> {
        let cores = first_threads(&self.0);
        for (cpus, shares_cores) in [(&cores, false), (&self.0, true)] {
            for locality in [Locality::Cache, Locality::Node, Locality::Host] {
                if let Some(chosen) = choose(cpus, locality, vcpus) {
                    return Ok(self.placement(&chosen, locality, shares_cores));
                }
            }
        }
        Err(format!(
            "{vcpus} virtual CPUs on {} host CPUs",
            self.0.len()
        ))
    }

    fn placement(&self, chosen: &[Cpu], locality: Locality, shares_cores: bool) -> Placement {
        let is_near = |cpu: &Cpu| chosen.iter().any(|other| other.node == cpu.node);
        let is_beside = |cpu: &Cpu| chosen.iter().any(|other| other.core == cpu.core);
        let is_taken = |cpu: &Cpu| chosen.contains(cpu);
        // Near, so that memory which the emulator itself touches first is near too.
        let tiers: [&dyn Fn(&Cpu) -> bool; 3] = [
            &|cpu| is_near(cpu) && !is_beside(cpu),
            &|cpu| !is_beside(cpu),
            &|cpu| !is_taken(cpu),
        ];
        let numbers = |fits: &&dyn Fn(&Cpu) -> bool| -> Vec<usize> {
            let fitting = self.0.iter().filter(|cpu| fits(cpu));
            fitting.map(|cpu| cpu.number).collect()
        };
        let others = tiers
            .iter()
            .map(numbers)
            .find(|numbers| !numbers.is_empty());
        Placement {
            vcpus: chosen.iter().map(|cpu| cpu.number).collect(),
            others: others.unwrap_or_default(),
            locality,
            shares_cores,
            node: chosen.first().map_or(0, |cpu| cpu.node),
        }
    }
}

impl Placement {
    /// The place for messages: `on host CPUs 2-3, of one NUMA node`.
    pub(crate) fn spread(&self) -> String {
        let locality = match self.locality {
            Locality::Cache => "below one cache",
            Locality::Node => "of one NUMA node",
            Locality::Host => "of several NUMA nodes",
        };
        let shared = if self.shares_cores {
            ", some on one core"
        } else {
            ""
        };
        format!("on host CPUs {}, {locality}{shared}", list(&self.vcpus))
    }

    /// The placement as a run records it.
    pub(crate) fn describe(&self) -> machine::Placement {
        machine::Placement {
            cpus: list(&self.vcpus),
            locality: self.locality,
            shares_cores: self.shares_cores,
        }
    }
}

/// One CPU of each core.
fn first_threads(cpus: &[Cpu]) -> Vec<Cpu> {
    let mut firsts = BTreeMap::new();
    for cpu in cpus {
        firsts.entry(cpu.core).or_insert(*cpu);
    }
    firsts.into_values().collect()
}

/// Chooses `count` CPUs of one group, preferably of one that has another CPU for the emulator.
fn choose(cpus: &[Cpu], locality: Locality, count: usize) -> Option<Vec<Cpu>> {
    let mut groups: BTreeMap<usize, Vec<Cpu>> = BTreeMap::new();
    for cpu in cpus {
        let group = match locality {
            Locality::Cache => cpu.cache,
            Locality::Node => cpu.node,
            Locality::Host => 0,
        };
        groups.entry(group).or_default().push(*cpu);
    }
    let fitting = groups.into_iter().filter(|(_, group)| group.len() >= count);
    let (_, mut group) = fitting.max_by_key(|(first, group)| (group.len() > count, *first))?;
    // Threads of one core beside each other.
    group.sort_by_key(|cpu| (cpu.core, cpu.number));
    let mut chosen = group.split_off(group.len() - count);
    chosen.sort_by_key(|cpu| cpu.number);
    Some(chosen)
}

fn lowest(shared: &[usize], default: usize) -> usize {
    shared.iter().copied().min().unwrap_or(default)
}

/// The CPUs below a CPU's cache of the highest level.
fn last_level(dir: &Path) -> Vec<usize> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let level = |path: &Path| {
        let text = fs::read_to_string(path.join("level")).ok()?;
        text.trim().parse::<u32>().ok()
    };
    let caches = entries.filter_map(|entry| Some((level(&entry.path())?, entry.path())));
    let last = caches.max();
    last.map(|(_, path)| read_list(&path.join("shared_cpu_list")))
        .unwrap_or_default()
}

/// The node of each CPU.
fn read_nodes(dir: &Path) -> BTreeMap<usize, usize> {
    let mut nodes = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.strip_prefix("node").and_then(|rest| rest.parse().ok());
        if let Some(node) = number {
            let cpus = read_list(&entry.path().join("cpulist"));
            nodes.extend(cpus.into_iter().map(|cpu| (cpu, node)));
        }
    }
    nodes
}

fn read_list(path: &Path) -> Vec<usize> {
    parse_list(&fs::read_to_string(path).unwrap_or_default())
}

/// Numbers of the kernel's form of a list: `0-3,8`.
fn parse_list(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            numbers.extend(first..=last);
        }
    }
    numbers
}

/// Rising numbers in the kernel's form.
pub(crate) fn list(numbers: &[usize]) -> String {
    let mut text = String::new();
    let mut rest = numbers;
    while let [first, ..] = rest {
        let run = rest
            .iter()
            .zip(*first..)
            .take_while(|(number, next)| **number == *next)
            .count();
        let separator = if text.is_empty() { "" } else { "," };
        let _ = match run {
            1 => write!(text, "{separator}{first}"),
            _ => write!(text, "{separator}{first}-{}", first + run - 1),
        };
        rest = &rest[run..];
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    /// A made-up `/sys`: node, cache and core of each CPU.
    fn sys(cpus: &[(usize, usize, usize)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: String, text: String| {
            let path = dir.path().join("devices/system").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let sharing = |with: &dyn Fn(&(usize, usize, usize)) -> bool| {
            let numbers = cpus.iter().enumerate().filter(|(_, cpu)| with(cpu));
            list(&numbers.map(|(number, _)| number).collect::<Vec<_>>()) + "\n"
        };
        for (number, (node, cache, core)) in cpus.iter().enumerate() {
            let cpu = format!("cpu/cpu{number}");
            write(
                format!("{cpu}/topology/thread_siblings_list"),
                sharing(&|place| place.2 == *core),
            );
            write(format!("{cpu}/cache/index0/level"), "1\n".into());
            write(
                format!("{cpu}/cache/index0/shared_cpu_list"),
                sharing(&|place| place.2 == *core),
            );
            write(format!("{cpu}/cache/index3/level"), "3\n".into());
            write(
                format!("{cpu}/cache/index3/shared_cpu_list"),
                sharing(&|place| place.1 == *cache),
            );
            write(
                format!("node/node{node}/cpulist"),
                sharing(&|place| place.0 == *node),
            );
        }
        dir
    }

    /// Two nodes of four cores each with two threads; a cache for each pair of cores. Threads of a core are 8 apart.
    fn server() -> tempfile::TempDir {
        let cpu = |number: usize| {
            let core = number % 8;
            (core / 4, core / 2, core)
        };
        sys(&(0..16).map(cpu).collect::<Vec<_>>())
    }

    fn check(sys: &Path, allowed: &[usize], vcpus: usize, want: &Expect) {
        let result = match Topology::read(sys, allowed).place(vcpus) {
            Ok(placement) => format!(
                "{}; others on {}",
                placement.spread(),
                list(&placement.others)
            ),
            Err(why) => why,
        };
        want.assert_eq(&result);
    }

    #[test]
    fn cores_below_one_cache_come_first_then_of_one_node_then_of_the_host() {
        let server = server();
        let all: Vec<usize> = (0..16).collect();
        let check = |vcpus, want| check(server.path(), &all, vcpus, &want);
        check(
            1,
            expect!["on host CPUs 7, below one cache; others on 4-6,12-14"],
        );
        check(
            2,
            expect!["on host CPUs 6-7, below one cache; others on 4-5,12-13"],
        );
        check(
            4,
            expect!["on host CPUs 4-7, of one NUMA node; others on 0-3,8-11"],
        );
        check(
            8,
            expect!["on host CPUs 0-7, of several NUMA nodes; others on 8-15"],
        );
    }

    #[test]
    fn threads_of_one_core_are_taken_where_cores_are_too_few() {
        let server = server();
        let all: Vec<usize> = (0..16).collect();
        check(
            server.path(),
            &all,
            10,
            &expect![
                "on host CPUs 3-7,11-15, of several NUMA nodes, some on one core; others on 0-2,8-10"
            ],
        );
        check(
            server.path(),
            &all,
            17,
            &expect!["17 virtual CPUs on 16 host CPUs"],
        );
    }

    #[test]
    fn a_cpuset_smaller_than_the_host_is_kept_to() {
        let server = server();
        // Both threads of cores 2 and 3, one of core 0.
        let allowed = [0, 2, 3, 10, 11];
        check(
            server.path(),
            &allowed,
            2,
            &expect!["on host CPUs 2-3, below one cache; others on 0"],
        );
        check(
            server.path(),
            &allowed,
            3,
            &expect!["on host CPUs 0,2-3, of one NUMA node; others on 10-11"],
        );
        check(
            server.path(),
            &allowed,
            4,
            &expect!["on host CPUs 2-3,10-11, below one cache, some on one core; others on 0"],
        );
    }

    #[test]
    fn one_cpu_is_shared_with_the_emulator() {
        let single = sys(&[(0, 0, 0)]);
        check(
            single.path(),
            &[0],
            1,
            &expect!["on host CPUs 0, below one cache; others on "],
        );
        check(
            single.path(),
            &[0],
            2,
            &expect!["2 virtual CPUs on 1 host CPUs"],
        );
    }

    #[test]
    fn offline_cpus_are_left_out() {
        let server = server();
        for number in [6, 7, 14, 15] {
            let file = server
                .path()
                .join(format!("devices/system/cpu/cpu{number}/online"));
            fs::write(file, "0\n").unwrap();
        }
        let all: Vec<usize> = (0..16).collect();
        check(
            server.path(),
            &all,
            2,
            &expect!["on host CPUs 4-5, below one cache; others on 0-3,8-11"],
        );
    }

    #[test]
    fn a_kernel_that_tells_nothing_has_cores_alone() {
        let nothing = tempfile::tempdir().unwrap();
        check(
            nothing.path(),
            &[0, 1],
            2,
            &expect!["on host CPUs 0-1, of one NUMA node; others on "],
        );
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        assert_eq!(parse_list("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert!(parse_list("\n").is_empty());
        assert_eq!(list(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(list(&[]), "");
    }
}
