//! The CPUs' event counters over the window: instructions, cycles, branch misses and misses of the last-level cache, of
//! each service's cgroup and of all tasks.
//!
//! ```text
//! open     a group of events for each scope on each CPU; they count from here on (`KernelCounters`)
//! begins   reads all groups as the window begins
//! ends     reads all groups again
//! finish   differences, with an estimate for the time in which other events had the counters
//! ```
//! The events of a group are on the counters together or not at all, so their ratios are of the same time. They count
//! before the window begins, so that nothing but the reading happens there.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::time::Duration;

use perf_event::events::{Event, Hardware};
use perf_event::{Counter, ReadFormat};
use record::hardware_counters::{
    CountedWindow, EventCounts, HardwareCounters, LEAST_RUNNING, NoCounters,
};

use crate::cgroup::{Cgroup, Cgroups};
use crate::perf_open::{is_forbidden, on_cpu, paranoid};

/// The events of a group, its leader first. The last two are optional.
pub type Events<E> = [E; 4];

/// The events of a trial. `CACHE_MISSES` are those of the last-level cache on CPUs of Intel and AMD.
pub const EVENTS: Events<Hardware> = [
    Hardware::INSTRUCTIONS,
    Hardware::CPU_CYCLES,
    Hardware::BRANCH_MISSES,
    Hardware::CACHE_MISSES,
];

/// The tasks whose events a group counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Tasks of a service's cgroup, by its name.
    Service(String),
    /// All tasks.
    System,
}

/// Events of a group on one CPU since it was opened.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupReading {
    /// The tasks that were counted.
    pub scope: Scope,
    /// Time in which the scope's tasks were on the CPU.
    pub enabled_ns: u64,
    /// Time of it in which the events were on the counters.
    pub running_ns: u64,
    /// Count of each event; `None` if the CPU does not count it.
    pub counts: Events<Option<u64>>,
}

/// A source of event counts.
pub trait CounterSource: Send + fmt::Debug {
    /// All groups now, always in the same order.
    fn read(&mut self) -> io::Result<Vec<GroupReading>>;
}

/// Counts one window.
#[derive(Debug)]
pub struct Counting {
    source: Result<Box<dyn CounterSource>, NoCounters>,
    begin: Option<io::Result<Vec<GroupReading>>>,
    end: Option<io::Result<Vec<GroupReading>>>,
}

impl Counting {
    /// Counts with a source; without one, the reason is the result.
    pub fn new(source: Result<Box<dyn CounterSource>, NoCounters>) -> Self {
        Self {
            source,
            begin: None,
            end: None,
        }
    }

    /// The window begins.
    pub fn begins(&mut self) {
        self.begin = self.source.as_mut().ok().map(|source| source.read());
    }

    /// The window ends. A second call does nothing.
    pub fn ends(&mut self) {
        if self.begin.is_some() && self.end.is_none() {
            self.end = self.source.as_mut().ok().map(|source| source.read());
        }
    }

    /// The counts of the window.
    pub fn finish(self) -> HardwareCounters {
        let counted = || -> Result<CountedWindow, NoCounters> {
            self.source?;
            let read = |reading: Option<io::Result<Vec<GroupReading>>>| match reading {
                Some(Ok(groups)) => Ok(groups),
                Some(Err(why)) => Err(failed(&why)),
                None => Err(NoCounters::Failed {
                    error: "the window did not end".into(),
                }),
            };
            let window = between(&read(self.begin)?, &read(self.end)?);
            if window.running_share() < LEAST_RUNNING {
                return Err(NoCounters::Shared);
            }
            Ok(window)
        };
        match counted() {
            Ok(window) => HardwareCounters::Counted(window),
            Err(why) => HardwareCounters::Missing(why),
        }
    }
}

/// Events between two readings, by scope.
fn between(begin: &[GroupReading], end: &[GroupReading]) -> CountedWindow {
    let mut sums = BTreeMap::<&Scope, Sum>::new();
    for (begin, end) in begin.iter().zip(end) {
        sums.entry(&end.scope).or_default().add(begin, end);
    }
    let mut window = CountedWindow::default();
    for (scope, sum) in sums {
        match scope {
            Scope::Service(name) => drop(window.services.insert(name.clone(), sum.counts())),
            Scope::System => window.system = sum.counts(),
        }
    }
    window
}

/// Events of one scope on all CPUs.
#[derive(Debug)]
struct Sum {
    enabled_ns: u64,
    running_ns: u64,
    counts: Events<Option<f64>>,
}

impl Default for Sum {
    fn default() -> Self {
        Self {
            enabled_ns: 0,
            running_ns: 0,
            counts: [Some(0.0); 4],
        }
    }
}

impl Sum {
    /// Adds a CPU's events. Assumes the same rate while the events were not on the counters as while they were.
    fn add(&mut self, begin: &GroupReading, end: &GroupReading) {
        let enabled_ns = end.enabled_ns.saturating_sub(begin.enabled_ns);
        let running_ns = end.running_ns.saturating_sub(begin.running_ns);
        let scale = match running_ns {
            0 => 0.0,
            running_ns => enabled_ns as f64 / running_ns as f64,
        };
        self.enabled_ns += enabled_ns;
        self.running_ns += running_ns;
        let each = self
            .counts
            .iter_mut()
            .zip(begin.counts.iter().zip(&end.counts));
        for (sum, (begin, end)) in each {
            let happened = begin
                .zip(*end)
                .map(|(begin, end)| end.saturating_sub(begin));
            *sum = sum
                .zip(happened)
                .map(|(sum, more)| sum + more as f64 * scale);
        }
    }

    fn counts(self) -> EventCounts {
        let [instructions, cycles, branch_misses, llc_misses] = self.counts;
        let running_share = match self.enabled_ns {
            // Nothing ran, so nothing was missed.
            0 => 1.0,
            enabled_ns => (self.running_ns as f64 / enabled_ns as f64).min(1.0),
        };
        EventCounts {
            instructions: instructions.unwrap_or(0.0),
            cycles: cycles.unwrap_or(0.0),
            branch_misses,
            llc_misses,
            running_share,
        }
    }
}

/// The kernel's events.
#[derive(Debug)]
pub(crate) struct KernelCounters(Vec<OpenGroup>);

/// An open group.
#[derive(Debug)]
struct OpenGroup {
    scope: Scope,
    leader: Counter,
    members: [Option<Counter>; 3],
}

impl KernelCounters {
    /// Opens events of each service's cgroup and of all tasks on these CPUs. They count from now on.
    pub(crate) fn open<E: Event + Copy>(
        cgroups: &Cgroups,
        services: &[&Cgroup],
        cpus: &[u32],
        events: Events<E>,
    ) -> Result<Self, NoCounters> {
        let mut groups = Vec::new();
        // First, so that a later failure is known to come from cgroups.
        for cpu in cpus {
            let group = OpenGroup::open(Scope::System, events, None, *cpu);
            groups.push(group.map_err(|why| missing(&why))?);
        }
        let mut service_groups = open_services(services, cpus, events);
        if let Err(why) = &service_groups
            && why.raw_os_error() == Some(libc::ENOENT)
            && cgroups.prepare_events().is_ok()
        {
            service_groups = open_services(services, cpus, events);
        }
        groups.extend(service_groups.map_err(|why| match why.raw_os_error() {
            Some(libc::EINVAL | libc::ENOENT) => NoCounters::NoCgroupEvents,
            _ => missing(&why),
        })?);
        Ok(Self(groups))
    }
}

fn open_services<E: Event + Copy>(
    services: &[&Cgroup],
    cpus: &[u32],
    events: Events<E>,
) -> io::Result<Vec<OpenGroup>> {
    let mut groups = Vec::new();
    for service in services {
        let dir = File::open(&service.dir)?;
        for cpu in cpus {
            let scope = Scope::Service(service.name.clone());
            groups.push(OpenGroup::open(scope, events, Some(&dir), *cpu)?);
        }
    }
    Ok(groups)
}

impl CounterSource for KernelCounters {
    fn read(&mut self) -> io::Result<Vec<GroupReading>> {
        self.0.iter_mut().map(OpenGroup::read).collect()
    }
}

impl OpenGroup {
    fn open<E: Event + Copy>(
        scope: Scope,
        events: Events<E>,
        cgroup: Option<&File>,
        cpu: u32,
    ) -> io::Result<Self> {
        let event = |event: E| {
            let mut builder = on_cpu(event, cgroup, cpu);
            // Guests of this system are not its work; a kernel that passes its counters to guests requires this.
            builder.exclude_guest(true);
            builder
        };
        let [first, second, rest @ ..] = events;
        let mut leader = event(first)
            .read_format(
                ReadFormat::GROUP
                    | ReadFormat::ID
                    | ReadFormat::TOTAL_TIME_ENABLED
                    | ReadFormat::TOTAL_TIME_RUNNING,
            )
            .build()?;
        let second = event(second).build_with_group(&mut leader)?;
        // A CPU that lacks such an event, or counters for all, still counts the others.
        let [third, fourth] = rest.map(|kind| event(kind).build_with_group(&mut leader).ok());
        leader.enable_group()?;
        Ok(Self {
            scope,
            leader,
            members: [Some(second), third, fourth],
        })
    }

    fn read(&mut self) -> io::Result<GroupReading> {
        let data = self.leader.read_group()?;
        let count = |counter: &Counter| data.get(counter).map(|entry| entry.value());
        let [second, third, fourth] = &self.members;
        let member = |counter: &Option<Counter>| counter.as_ref().and_then(count);
        let ns = |time: Option<Duration>| {
            time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        Ok(GroupReading {
            scope: self.scope.clone(),
            enabled_ns: ns(data.time_enabled()),
            running_ns: ns(data.time_running()),
            counts: [
                count(&self.leader),
                member(second),
                member(third),
                member(fourth),
            ],
        })
    }
}

/// Why events cannot be opened.
fn missing(why: &io::Error) -> NoCounters {
    match why.raw_os_error() {
        _ if is_forbidden(why) => NoCounters::Refused {
            paranoid: paranoid(),
        },
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => NoCounters::NoUnit,
        Some(libc::ENOSYS) => NoCounters::NoPerfEvents,
        _ => failed(why),
    }
}

fn failed(why: &io::Error) -> NoCounters {
    NoCounters::Failed {
        error: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::process::Command;

    use perf_event::events::Software;

    use super::*;

    /// Mount point of the cgroup2 file system.
    fn cgroup2() -> Option<PathBuf> {
        let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
        let mut places = mounts.lines().filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let place = words.next()?;
            (words.next() == Some("cgroup2")).then_some(place)
        });
        places.next().map(PathBuf::from)
    }

    /// A source with prepared readings.
    #[derive(Debug)]
    struct Prepared(std::vec::IntoIter<io::Result<Vec<GroupReading>>>);

    impl CounterSource for Prepared {
        fn read(&mut self) -> io::Result<Vec<GroupReading>> {
            self.0.next().expect("two readings are asked for")
        }
    }

    fn group(service: Option<&str>, [enabled, running]: [u64; 2], count: u64) -> GroupReading {
        GroupReading {
            scope: service.map_or(Scope::System, |name| Scope::Service(name.into())),
            enabled_ns: enabled,
            running_ns: running,
            counts: [Some(count), Some(2 * count), Some(count / 10), None],
        }
    }

    fn counted(readings: Vec<io::Result<Vec<GroupReading>>>) -> HardwareCounters {
        let mut counting = Counting::new(Ok(Box::new(Prepared(readings.into_iter()))));
        counting.begins();
        counting.ends();
        counting.ends();
        counting.finish()
    }

    fn window(begin: Vec<GroupReading>, end: Vec<GroupReading>) -> CountedWindow {
        match counted(vec![Ok(begin), Ok(end)]) {
            HardwareCounters::Counted(window) => window,
            HardwareCounters::Missing(why) => panic!("{why:?}"),
        }
    }

    #[test]
    fn what_happened_before_the_window_is_not_counted_and_cpus_add_up() {
        let window = window(
            vec![
                group(None, [100, 100], 1_000),
                group(None, [100, 100], 5_000),
                group(Some("nginx"), [10, 10], 70),
                group(Some("nginx"), [0, 0], 0),
            ],
            vec![
                group(None, [200, 200], 1_500),
                group(None, [200, 200], 5_300),
                group(Some("nginx"), [40, 40], 170),
                group(Some("nginx"), [20, 20], 50),
            ],
        );
        let nginx = window.services["nginx"];
        assert_eq!((nginx.instructions, nginx.cycles), (150.0, 300.0));
        assert_eq!(
            (window.system.instructions, window.system.cycles),
            (800.0, 1600.0)
        );
        assert_eq!((nginx.branch_misses, nginx.llc_misses), (Some(15.0), None));
        assert!((window.running_share() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn what_was_missed_while_others_had_the_counters_is_estimated_cpu_by_cpu() {
        let window = window(
            vec![group(None, [0, 0], 0), group(None, [0, 0], 0)],
            vec![group(None, [100, 50], 1_000), group(None, [100, 100], 10)],
        );
        assert_eq!(window.system.instructions as u64, 2_010);
        assert!((window.running_share() - 0.75).abs() < 1e-12);
    }

    #[test]
    fn an_estimate_for_most_of_the_window_is_none() {
        let begin = vec![group(None, [0, 0], 0), group(Some("nginx"), [0, 0], 0)];
        let end = |running| {
            vec![
                group(None, [100, 100], 9),
                group(Some("nginx"), [100, running], 9),
            ]
        };
        let shared = HardwareCounters::Missing(NoCounters::Shared);
        assert_eq!(counted(vec![Ok(begin.clone()), Ok(end(24))]), shared);
        assert_ne!(counted(vec![Ok(begin), Ok(end(25))]), shared);
    }

    #[test]
    fn a_service_that_never_ran_in_the_window_has_missed_nothing() {
        let idle = group(Some("postgres"), [30, 30], 500);
        let all = |count| vec![group(None, [count, count], count), idle.clone()];
        let window = window(all(100), all(200));
        assert_eq!(window.services["postgres"].instructions as u64, 0);
        assert!((window.running_share() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn each_way_to_fail_has_its_reason() {
        let why = |code| missing(&io::Error::from_raw_os_error(code));
        for code in [libc::ENOENT, libc::EOPNOTSUPP, libc::ENODEV] {
            assert_eq!(why(code), NoCounters::NoUnit);
        }
        for code in [libc::EACCES, libc::EPERM] {
            assert!(matches!(why(code), NoCounters::Refused { .. }));
        }
        assert_eq!(why(libc::ENOSYS), NoCounters::NoPerfEvents);
        let result = counted(vec![Ok(Vec::new()), Err(io::Error::other("gone"))]);
        let error = "gone".to_string();
        let failed = HardwareCounters::Missing(NoCounters::Failed { error });
        assert_eq!(result, failed);
    }

    /// Events that every kernel counts, with page faults instead of cycles.
    const SOFTWARE: Events<Software> = [
        Software::TASK_CLOCK,
        Software::PAGE_FAULTS,
        Software::CONTEXT_SWITCHES,
        Software::CPU_MIGRATIONS,
    ];

    /// Runs a shell script in a cgroup, with `$1` turns.
    fn work_in(cgroup: &Cgroup, turn: &str, turns: u32) {
        let script = format!(
            "echo $$ > \"$0/cgroup.procs\" && i=0; while [ $i -lt $1 ]; do {turn} i=$((i+1)); done"
        );
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).arg(&cgroup.dir);
        let status = shell.arg(turns.to_string()).status().unwrap();
        assert!(status.success(), "{status}");
    }

    /// Starts a program, which has page faults.
    const PROGRAM: &str = "/bin/true;";

    /// Two cgroups whose events a test counts. `cgroups` is dropped after those in it.
    struct Stage<E: 'static> {
        server: Cgroup,
        clients: Cgroup,
        cgroups: Cgroups,
        cpus: Vec<u32>,
        events: Events<E>,
    }

    impl<E: Event + Copy> Stage<E> {
        /// Nothing, with a note, where this host cannot count.
        fn set(name: &str, events: Events<E>) -> Option<Self> {
            let unused = format!("bakeoff-counters-{name}-{}", std::process::id());
            let Some(mount) = cgroup2().filter(|_| rustix::process::geteuid().is_root()) else {
                base::skip::skip("no real job on this host: not root, or no cgroup2 file system");
                return None;
            };
            let cgroups = Cgroups::make(&mount.join(unused)).unwrap();
            let [server, clients] = ["nginx", "clients"].map(|name| cgroups.child(name).unwrap());
            let cpus = crate::cpus::numbers().unwrap();
            let stage = Self {
                server,
                clients,
                cgroups,
                cpus,
                events,
            };
            match stage.open() {
                Ok(_) => Some(stage),
                Err(NoCounters::Refused { .. }) => {
                    base::skip::skip("no right to perf_event_open(2)");
                    None
                }
                Err(NoCounters::NoUnit) => {
                    base::skip::skip("no performance monitoring unit");
                    None
                }
                Err(why) => panic!("{why:?}"),
            }
        }

        fn open(&self) -> Result<KernelCounters, NoCounters> {
            KernelCounters::open(&self.cgroups, &[&self.server], &self.cpus, self.events)
        }

        /// Events while something works. Work outside of that does not count.
        fn counted(&self, work: &dyn Fn()) -> CountedWindow {
            let counters = self.open().unwrap();
            let groups = counters.0.len();
            let expected = 2 * self.cpus.len();
            assert_eq!(
                groups, expected,
                "one of the server and one of all, on each CPU"
            );
            let mut counting = Counting::new(Ok(Box::new(counters)));
            work_in(&self.server, PROGRAM, 5);
            counting.begins();
            work();
            counting.ends();
            work_in(&self.server, PROGRAM, 5);
            match counting.finish() {
                HardwareCounters::Counted(window) => window,
                HardwareCounters::Missing(why) => panic!("{why:?}"),
            }
        }
    }

    #[test]
    fn events_are_those_of_the_servers_group_in_the_window_and_not_the_clients() {
        let Some(stage) = Stage::set("software", SOFTWARE) else {
            return;
        };
        let Stage {
            server, clients, ..
        } = &stage;
        let faults = |counts: EventCounts| counts.cycles;
        let of_clients = stage.counted(&|| work_in(clients, PROGRAM, 20));
        assert_eq!(faults(of_clients.services["nginx"]) as u64, 0);
        assert!(faults(of_clients.system) > 20.0, "{:?}", of_clients.system);
        let of_server = stage.counted(&|| work_in(server, PROGRAM, 20));
        let nginx = of_server.services["nginx"];
        assert!(
            faults(nginx) > 20.0 && nginx.instructions > 0.0,
            "{nginx:?}"
        );
        assert!(faults(nginx) <= faults(of_server.system));
        let both = stage.counted(&|| {
            work_in(clients, PROGRAM, 40);
            work_in(server, PROGRAM, 20);
        });
        // The same programs have the same faults, except for pages that the page cache reads.
        assert!(
            faults(both.services["nginx"]) < 1.5 * faults(nginx),
            "{both:?}"
        );
        assert!(faults(both.system) > 2.0 * faults(nginx), "{both:?}");
    }

    /// Twice the turns are twice the path length. Runs in guests, because a host's interrupts and other users of its counters add
    /// noise without a bound.
    #[test]
    #[ignore = "needs a guest of counted instructions whose CPU has counters: make test-arm64"]
    fn the_path_length_of_a_loop_grows_with_its_turns_and_each_instruction_takes_cycles() {
        let Some(stage) = Stage::set("hardware", EVENTS) else {
            return;
        };
        let [first, second, third] = [20_000, 40_000, 60_000].map(|turns| {
            let window = stage.counted(&|| work_in(&stage.server, "", turns));
            window.services["nginx"]
        });
        let ratio =
            (third.instructions - first.instructions) / (second.instructions - first.instructions);
        println!("{first:?}\n{second:?}\n{third:?}\nratio {ratio}");
        assert!((ratio - 2.0).abs() < 0.02, "{ratio}");
        let each = (second.instructions - first.instructions) / 20_000.0;
        assert!((100.0..100_000.0).contains(&each), "{each}");
        let cpi = third.cycles / third.instructions;
        assert!((0.05..50.0).contains(&cpi), "{cpi}");
    }

    #[test]
    fn without_a_source_the_reason_is_the_result() {
        let mut counting = Counting::new(Err(NoCounters::NoUnit));
        counting.begins();
        counting.ends();
        let none = HardwareCounters::Missing(NoCounters::NoUnit);
        assert_eq!(counting.finish(), none);
    }
}
