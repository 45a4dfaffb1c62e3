//! The kernel's events: what is opened on each CPU (`perf_event_open(2)`).

use std::io;

use perf_event::data::Sample;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, SampleFlag};
use profiler::profile::Clock;

use super::Stack;
use super::locks::Lock;
use super::processes::{self, Processes};
use super::ring::{self, Ring};

/// Samples in a second of each CPU: no multiple of the tick's rates, so that what the tick does is not always or never seen. Twice
/// as many cost an emulated guest a third of what it serves.
pub(super) const FREQUENCY_HZ: u32 = 997;

/// Bytes of a ring: some seconds of deep stacks.
const RING_BYTES: usize = 2 << 20;

/// Bytes of a ring of what seldom happens.
const SMALL_RING_BYTES: usize = 256 << 10;

/// Deepest call path that is kept; the kernel's own limit is 127.
const DEEPEST: u16 = 100;

/// All that is open.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) stacks: Stacks,
    pub(super) news: Vec<Ring>,
    pub(super) contention: Vec<Lock>,
    pub(super) processes: Processes,
}

/// What samples, on every CPU.
#[derive(Debug)]
pub(super) struct Stacks(pub(super) Vec<Ring>);

impl Stacks {
    /// By cycles where they can be counted, else by the kernel's timer.
    pub(super) fn open(cpus: &[u32]) -> io::Result<(Self, Clock)> {
        let cycles: io::Result<Vec<Ring>> = cpus
            .iter()
            .map(|cpu| stacks(&mut Builder::new(Hardware::CPU_CYCLES), *cpu))
            .collect();
        if let Ok(rings) = cycles {
            return Ok((Self(rings), Clock::Cycles));
        }
        let timer: io::Result<Vec<Ring>> = cpus
            .iter()
            .map(|cpu| stacks(&mut Builder::new(Software::CPU_CLOCK), *cpu))
            .collect();
        Ok((Self(timer?), Clock::CpuClock))
    }
}

fn stacks(event: &mut Builder<'_>, cpu: u32) -> io::Result<Ring> {
    event
        .any_pid()
        .one_cpu(cpu as usize)
        .include_kernel()
        .include_hv()
        .exclude_idle(true)
        // Programs are built without frame pointers, so their call paths would be made up.
        .exclude_callchain_user(true)
        .sample_max_stack(DEEPEST)
        .sample(SampleFlag::IP)
        .sample(SampleFlag::TID)
        .sample(SampleFlag::PERIOD)
        .sample(SampleFlag::CALLCHAIN)
        // Nothing is wanted of it, but a call path without an address may not end a record: the parser would refuse it, and with it
        // every sample of a program.
        .sample(SampleFlag::DATA_SRC)
        .sample_frequency(FREQUENCY_HZ.into());
    Ok(Ring(event.build()?.sampled(RING_BYTES)?))
}

/// Tells of programs that start, fork and change their names; on from the beginning.
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

/// Where the sampled task was; `None` where it is not to be seen from here.
pub(super) fn stack(sample: &Sample<'_>) -> Option<Stack> {
    let (process, task) = (sample.pid()?, sample.tid()?);
    if !processes::can_be_seen(process) {
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
