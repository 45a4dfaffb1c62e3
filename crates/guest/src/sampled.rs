//! A sampled profile of the window, by call path and task, with counters: for systems without an emulator's profiler.
//!
//! ```text
//! open    opens disabled events on every CPU (`events`), lists running tasks and their code (`processes`)
//! begins  reads counters, enables events, starts a thread that empties their rings into sums
//! ends    disables events
//! finish  turns addresses into names (`names`) and counters into differences (`counters`, `locks`): a Profile
//! ```
//! Sampling takes CPU time, so other measurements of the trial are not judged. The profile names what was not available.

mod counters;
mod events;
mod locks;
mod names;
mod processes;
mod ring;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use perf_event::data::Record;
use profiler::profile::{Clock, Counter, Profile, Sampling};
use workload::figures::Meter;

use self::counters::Counters;
use self::events::{Events, FREQUENCY_HZ, Stacks};
use self::locks::Contention;
use self::processes::Processes;
use crate::cpus;
use crate::cpus::Cpus;
use crate::perf_open::{is_forbidden, paranoid};
use crate::priority;
use record::evidence::Sample;

/// Between two times that rings are emptied; they hold some seconds of samples.
const EMPTY_INTERVAL: Duration = Duration::from_millis(100);

/// The kernel's initial PID namespace (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Samples one window.
#[derive(Debug)]
pub(crate) struct Recorder {
    state: State,
    counters: Counters,
    clock: Clock,
    lacks: Vec<String>,
}

#[derive(Debug)]
enum State {
    Open(Box<Events>),
    Running(JoinHandle<Recorded>, Sender<()>),
    /// While one of the other states replaces another.
    Changing,
}

/// The contents of the rings.
#[derive(Debug, Default)]
struct Recorded {
    sums: HashMap<Stack, Sum>,
    processes: Processes,
    contention: Contention,
    samples: u64,
    lost: u64,
    outside: u64,
    failures: Vec<String>,
}

/// Where a task was sampled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stack {
    process: u32,
    task: u32,
    /// Addresses in the kernel, innermost first; return addresses from the second on.
    kernel: Box<[u64]>,
    /// The address in the program, if the task was not in the kernel.
    user: Option<u64>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    samples: u64,
    weight: u64,
}

impl Recorder {
    /// Opens all events on the trial's CPUs, disabled. Software counters cover the whole system, or the trial's cgroup if
    /// this process does not see the whole system.
    ///
    /// # Errors
    /// Says why sampling is not possible, with the remedy.
    pub(crate) fn open(cgroup: &Path) -> Result<Self> {
        let cpus = cpus::numbers()?;
        let mut lacks = Vec::new();
        let (stacks, clock) = Stacks::open(&cpus).map_err(|why| explain(&why))?;
        if clock == Clock::CpuClock {
            lacks.push(
                "no cycle counter (performance monitoring unit): sampled by the kernel's timer"
                    .into(),
            );
        }
        let contention = locks::open(&cpus);
        if let Err(why) = &contention {
            lacks.push(format!("lock contention: {why:#}"));
        }
        let group = (!has_whole_system()).then_some(cgroup);
        let counters = Counters::open(group, &cpus, &mut lacks);
        let events = Events {
            stacks,
            news: events::news(&cpus).context("watch for new programs")?,
            contention: contention.unwrap_or_default(),
            // Last, so that `news` has all tasks that start meanwhile.
            processes: Processes::running(),
        };
        Ok(Self {
            state: State::Open(Box::new(events)),
            counters,
            clock,
            lacks,
        })
    }

    /// The window begins.
    pub(crate) fn begins(&mut self) {
        if let State::Open(mut events) = std::mem::replace(&mut self.state, State::Changing) {
            self.counters.begin();
            let enabled = events.enable();
            let (stop, stopped) = channel();
            let thread = thread::spawn(move || record(*events, enabled.err(), &stopped));
            self.state = State::Running(thread, stop);
        }
    }

    /// The window ends. A second call does nothing.
    pub(crate) fn ends(&mut self) {
        if let State::Running(_, stop) = &self.state {
            // Fails if the thread has ended already.
            let _ = stop.send(());
            self.counters.end();
        }
    }

    /// The profile of the window; `meter` and `samples` are those of the same window.
    pub(crate) fn finish(self, meter: &Meter, cpus: &Cpus, samples: &[Sample]) -> Result<Profile> {
        let State::Running(thread, stop) = self.state else {
            anyhow::bail!("the window has not begun");
        };
        drop(stop);
        let recorded = match thread.join() {
            Ok(recorded) => recorded,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let mut lacks = self.lacks;
        lacks.extend(recorded.failures.iter().cloned());
        let names = names::Names::read(&mut lacks);
        let mut counted: Vec<Counter> = self.counters.counted(&mut lacks);
        counted.extend(counters::of_samples(samples));
        counted.extend(recorded.contention.counted(&names));
        let cpu = cpu_time(meter, cpus);
        let mut profile = names::profile(&recorded, &names, &mut lacks);
        profile.lacks = lacks;
        profile.sampling = Some(Sampling {
            clock: self.clock,
            frequency_hz: FREQUENCY_HZ,
            samples: recorded.samples,
            lost: recorded.lost,
            outside: recorded.outside,
            cpu_ns: cpu.as_nanos() as u64,
            counters: counted,
        });
        Ok(profile)
    }
}

/// CPU time of what is sampled: the whole system, or the trial's cgroups if other programs run beside them.
pub(crate) fn cpu_time(meter: &Meter, cpus: &Cpus) -> Duration {
    if cpus.bound.is_empty() && has_whole_system() {
        meter.busy
    } else {
        meter.services.values().sum()
    }
}

/// Whether this process sees all tasks of the system.
fn has_whole_system() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST_PID_NAMESPACE)
}

/// Explains why sampling is not possible, with the remedy.
fn explain(why: &std::io::Error) -> anyhow::Error {
    let remedy = match why.raw_os_error() {
        _ if is_forbidden(why) => format!(
            "run as root, or write -1 to /proc/sys/kernel/perf_event_paranoid, which is {}",
            paranoid().map_or_else(|| "not known".into(), |level| level.to_string())
        ),
        Some(libc::ENOSYS) => "the kernel needs CONFIG_PERF_EVENTS".into(),
        _ => "see perf_event_open(2)".into(),
    };
    anyhow::anyhow!("perf_event_open failed: {why} ({remedy})")
}

/// Empties the rings until the window ends, and once more after it.
fn record(mut events: Events, failure: Option<std::io::Error>, stopped: &Receiver<()>) -> Recorded {
    // A full ring loses samples.
    priority::raise();
    let mut recorded = Recorded {
        processes: std::mem::take(&mut events.processes),
        ..Recorded::default()
    };
    let failed = |why| format!("events could not be switched: {why}");
    recorded.failures.extend(failure.map(failed));
    while stopped.recv_timeout(EMPTY_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        empty(&mut events, &mut recorded);
    }
    recorded.failures.extend(events.disable().err().map(failed));
    empty(&mut events, &mut recorded);
    recorded
}

fn empty(events: &mut Events, recorded: &mut Recorded) {
    let Recorded {
        sums,
        processes,
        contention,
        samples,
        lost,
        outside,
        ..
    } = recorded;
    let mut unread = 0;
    for ring in &mut events.news {
        unread += ring.each_record(|record| processes.update(&record));
    }
    for ring in &mut events.stacks.0 {
        unread += ring.each_record(|record| match record {
            Record::Sample(sample) => match events::stack(&sample) {
                Some(stack) => {
                    *samples += 1;
                    let sum: &mut Sum = sums.entry(stack).or_default();
                    sum.samples += 1;
                    sum.weight += sample.period().unwrap_or(1);
                }
                None => *outside += 1,
            },
            Record::Lost(record) => *lost += record.lost,
            Record::LostSamples(record) => *lost += record.lost,
            _ => {}
        });
    }
    for ring in &mut events.contention {
        unread += contention.empty(ring);
    }
    *lost += unread;
}
