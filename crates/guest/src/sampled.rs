//! Samples of what runs in the window, by call path and task, and counters beside them: a profile where no emulator counts.
//!
//! ```text
//! open    events on every CPU, off (`events`); who runs already, and its code (`processes`)
//! begins  counters are read, events switched on, a thread empties their rings into sums
//! ends    events are switched off
//! finish  addresses become names (`names`), counters differences (`counters`, `locks`): a Profile
//! ```
//! It costs the system time, so nothing that is measured meanwhile is judged. What cannot be had is named and left out.

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

/// The rings hold some seconds of samples.
const EMPTYING: Duration = Duration::from_millis(100);

/// The number of the PID namespace that a kernel begins with (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
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
    /// Between two of the others.
    Over,
}

/// What the rings held.
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

/// Where a task was.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stack {
    process: u32,
    task: u32,
    /// Addresses in the kernel, innermost first; return addresses from the second on.
    kernel: Box<[u64]>,
    /// The address in the program, where the kernel was not entered.
    user: Option<u64>,
}

/// How often and how much.
#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    samples: u64,
    weight: u64,
}

impl Recorder {
    /// Opens all events on the CPUs of the trial, switched off; software counters are those of the whole system, or of the trial's
    /// control group where others run beside it.
    ///
    /// # Errors
    /// Why nothing can be sampled, with the remedy.
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
            // Last, so that whoever starts meanwhile is in the news.
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
        if let State::Open(mut events) = std::mem::replace(&mut self.state, State::Over) {
            self.counters.begin();
            let enabled = events.enable();
            let (stop, stopped) = channel();
            let thread = thread::spawn(move || record(*events, enabled.err(), &stopped));
            self.state = State::Running(thread, stop);
        }
    }

    /// The window ends; a second end is none.
    pub(crate) fn ends(&mut self) {
        if let State::Running(_, stop) = &self.state {
            // Gone only if it has ended by itself.
            let _ = stop.send(());
            self.counters.end();
        }
    }

    /// The profile of the window, in which the system used what the meter says and the samples show.
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

/// CPU time of all that is sampled: of a whole system, or of the trial's own control groups where others run beside it.
pub(crate) fn cpu_time(meter: &Meter, cpus: &Cpus) -> Duration {
    if cpus.bound.is_empty() && has_whole_system() {
        meter.busy
    } else {
        meter.services.values().sum()
    }
}

/// Whether every task can be seen from here.
fn has_whole_system() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST_PID_NAMESPACE)
}

/// What keeps a system from being sampled, and what to do.
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

/// Empties the rings until the window ends, and then what is left in them.
fn record(mut events: Events, failure: Option<std::io::Error>, stopped: &Receiver<()>) -> Recorded {
    // A ring that nobody empties loses samples.
    priority::raise();
    let mut recorded = Recorded {
        processes: std::mem::take(&mut events.processes),
        ..Recorded::default()
    };
    let failed = |why| format!("events could not be switched: {why}");
    recorded.failures.extend(failure.map(failed));
    while stopped.recv_timeout(EMPTYING) == Err(RecvTimeoutError::Timeout) {
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
        unread += ring.each_record(|record| processes.hear(&record));
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
