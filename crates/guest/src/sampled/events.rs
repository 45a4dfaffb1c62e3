//! The kernel's events that are opened on each CPU (`perf_event_open(2)`).

use std::io;

use perf_event::data::Sample;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, SampleFlag};
use profiler::profile::Clock;

use super::Stack;
use super::locks::Lock;
use super::processes::{self, Processes};
use super::ring::{self, Ring};

/// Samples a second on each CPU. Not a multiple of the tick's rate, so that the tick's work is sampled in proportion.
/// Twice the rate slows an emulated guest down by a third.
pub(super) const FREQUENCY_HZ: u32 = 997;

/// Some seconds of deep stacks.
const RING_BYTES: usize = 2 << 20;

/// For rare records.
const SMALL_RING_BYTES: usize = 256 << 10;

/// Longest call path that is kept; the kernel's limit is 127.
const MAX_STACK: u16 = 100;

/// All open events.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) stacks: Stacks,
    pub(super) news: Vec<Ring>,
    pub(super) contention: Vec<Lock>,
    pub(super) processes: Processes,
}

/// The sampling event of every CPU.
#[derive(Debug)]
pub(super) struct Stacks(pub(super) Vec<Ring>);

impl Stacks {
    /// Samples by cycles if they can be counted, else by the kernel's timer.
    pub(super) fn open(cpus: &[u32]) -> io::Result<(Self, Clock)> {
        let cycles = |cpu: &u32| stacks(&mut Builder::new(Hardware::CPU_CYCLES), *cpu);
        if let Ok(rings) = cpus.iter().map(cycles).collect() {
            return Ok((Self(rings), Clock::Cycles));
        }
        let timer = |cpu: &u32| stacks(&mut Builder::new(Software::CPU_CLOCK), *cpu);
        let rings: io::Result<_> = cpus.iter().map(timer).collect();
        Ok((Self(rings?), Clock::CpuClock))
    }
}

fn stacks(event: &mut Builder<'_>, cpu: u32) -> io::Result<Ring> {
    event
        .any_pid()
        .one_cpu(cpu as usize)
        .include_kernel()
        .include_hv()
        .exclude_idle(true)
        // Programs are built without frame pointers, so their call paths would be wrong.
        .exclude_callchain_user(true)
        .sample_max_stack(MAX_STACK)
        .sample(SampleFlag::IP)
        .sample(SampleFlag::TID)
        .sample(SampleFlag::PERIOD)
        .sample(SampleFlag::CALLCHAIN)
        // Unused, but the parser refuses a record that ends in a call path without an address, as every sample of
        // a program does.
        .sample(SampleFlag::DATA_SRC)
        .sample_frequency(FREQUENCY_HZ.into());
    Ok(Ring(event.build()?.sampled(RING_BYTES)?))
}

/// Events of tasks that start, fork, change their names, or map code; enabled from the beginning.
pub(super) fn news(cpus: &[u32]) -> io::Result<Vec<Ring>> {
    let open = |cpu: &u32| {
        let mut event = Builder::new(Software::DUMMY);
        event
            .any_pid()
            .one_cpu(*cpu as usize)
            .include_kernel()
            .mmap(true)
            .mmap2(true)
            .comm(true)
            .task(true)
            .sample(SampleFlag::TID)
            .enabled(true);
        Ok(Ring(event.build()?.sampled(SMALL_RING_BYTES)?))
    };
    cpus.iter().map(open).collect()
}

impl Events {
    pub(super) fn enable(&mut self) -> io::Result<()> {
        for lock in &mut self.contention {
            lock.ring.0.as_counter_mut().enable()?;
        }
        let mut rings = self.stacks.0.iter_mut();
        rings.try_for_each(|ring| ring.0.as_counter_mut().enable())
    }

    pub(super) fn disable(&mut self) -> io::Result<()> {
        for ring in &mut self.stacks.0 {
            ring.0.as_counter_mut().disable()?;
        }
        let mut locks = self.contention.iter_mut();
        locks.try_for_each(|lock| lock.ring.0.as_counter_mut().disable())
    }
}

/// Where the sampled task was; `None` if the task is not visible to this process.
pub(super) fn stack(sample: &Sample<'_>) -> Option<Stack> {
    let (process, task) = (sample.pid()?, sample.tid()?);
    if !processes::is_visible(process) {
        return None;
    }
    let kernel = ring::kernel_part(sample.callchain().unwrap_or_default());
    let user = sample.ip().filter(|_| kernel.is_empty());
    Some(Stack {
        process,
        task,
        kernel,
        user,
    })
}
