//! The kernel's events: what is opened on each CPU, and how their records are read (`perf_event_open(2)`).

use std::io;

use perf_event::data::{Record, Sample};
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, SampleFlag, Sampler};
use profiler::profile::Clock;

use super::Stack;
use super::locks::Lock;
use super::processes::{self, Processes};

/// Samples in a second of each CPU: no multiple of the tick's rates, so that what the tick does is not always or never seen. Twice
/// as many cost an emulated guest a third of what it serves.
pub(super) const FREQUENCY_HZ: u32 = 997;

/// Bytes of a ring: some seconds of deep stacks.
const RING_BYTES: usize = 2 << 20;

/// Bytes of a ring of what seldom happens.
const SMALL_RING_BYTES: usize = 256 << 10;

/// Deepest call path that is kept; the kernel's own limit is 127.
const DEEPEST: u16 = 100;

/// Marks in a call path of where the kernel's part begins and the program's (`include/uapi/linux/perf_event.h`).
const CONTEXT_KERNEL: u64 = -128_i64 as u64;
const FIRST_CONTEXT: u64 = -4095_i64 as u64;

/// All that is open.
#[derive(Debug)]
pub(super) struct Events {
    pub(super) stacks: Stacks,
    pub(super) news: Vec<Ring>,
    pub(super) contention: Vec<Lock>,
    pub(super) processes: Processes,
}

/// One event on one CPU, with its ring.
pub(super) struct Ring(pub(super) Sampler);

impl std::fmt::Debug for Ring {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Ring({})", self.0.as_counter().id())
    }
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

/// Takes all records out of a ring; how many of them cannot be read.
pub(super) fn each_record(ring: &mut Ring, mut hear: impl FnMut(Record<'_>)) -> u64 {
    let mut unread = 0;
    while let Some(record) = ring.0.next_record() {
        match record.parse_record() {
            Ok(parsed) => hear(parsed),
            Err(_) => unread += 1,
        }
    }
    unread
}

/// Where the sampled task was; `None` where it is not to be seen from here.
pub(super) fn stack(sample: &Sample<'_>) -> Option<Stack> {
    let (process, task) = (sample.pid()?, sample.tid()?);
    if !processes::can_be_seen(process) {
        return None;
    }
    let kernel = kernel_part(sample.callchain().unwrap_or_default());
    let user = sample.ip().filter(|_| kernel.is_empty());
    Some(Stack {
        process,
        task,
        kernel,
        user,
    })
}

/// Addresses of the kernel in a call path, innermost first.
pub(super) fn kernel_part(callchain: &[u64]) -> Box<[u64]> {
    let begin = callchain.iter().position(|one| *one == CONTEXT_KERNEL);
    let rest = begin.map_or(&[][..], |begin| &callchain[begin + 1..]);
    let own = rest.iter().take_while(|one| **one < FIRST_CONTEXT);
    own.copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_part_of_a_call_path_ends_where_the_programs_begins() {
        let user = -512_i64 as u64;
        let path = [CONTEXT_KERNEL, 3, 2, 1, user, 7, 8];
        assert_eq!(*kernel_part(&path), [3, 2, 1]);
        assert!(kernel_part(&[user, 7, 8]).is_empty());
        assert!(kernel_part(&[]).is_empty());
    }
}
