//! Who waited for the CPU, who had it meanwhile, and where tasks slept.
//!
//! ```text
//! preempted  |---------------- queued ----------------|            by the count of instructions
//! slept      |---- slept ----| woken |---- queued ----|            by the count, parted by the kernel's run_delay
//!            leaves the CPU                           gets it
//! ```
//! Under counted instructions the guest's time is their number, and what passes while the CPU idles. The plugin knows the number
//! at each switch. The kernel's `sched_info` has the clock of the run queue instead, which is behind at a switch: where a task that
//! wakes preempts another one the kernel does not read the time again. By it the one that was preempted would wait while it
//! still runs. So it is asked only for what is not known otherwise: when a task woke, and how long the CPU was idle.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Turns on the CPU that are remembered, to say who ran while somebody waited.
const MOST_TURNS: usize = 1 << 13;

/// Causes of waits that are kept apart; those beyond are nobody's.
const MOST_CAUSES: usize = 1 << 17;

/// Tasks that are remembered.
const MOST_TASKS: usize = 1 << 16;

/// `TASK_DEAD`, which a task leaves in that never comes back.
const DEAD: u32 = 0x80;

/// The task that leaves the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    /// Its address; 0 when it is not known yet.
    pub task: u64,
    /// The node of its name.
    pub root: u32,
    /// Where in the call tree it was.
    pub node: u32,
    /// Whether it is the idle task, which waits for nothing.
    pub is_idle: bool,
    /// Its state: 0 when it was ready to run on.
    pub state: u32,
}

impl Left {
    /// Whether it never comes back.
    pub fn is_dead(&self) -> bool {
        self.state & DEAD != 0
    }
}

/// The task that gets the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Its address.
    pub task: u64,
    /// The node of its name.
    pub root: u32,
    /// Whether it is the idle task, of which the kernel keeps no account.
    pub is_idle: bool,
    /// Whether it has the CPU for the first time; what lay at its address before was another task.
    pub is_new: bool,
    /// What it has waited on run queues since its start.
    pub run_delay_ns: u64,
    /// When it got the CPU, by the run queue's clock.
    pub at_ns: u64,
}

/// Waits of one kind and size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub count: u64,
    /// How long together.
    pub ns: u64,
}

/// The sizes of waits: power of two of nanoseconds below which they are.
pub type Bucket = u32;

/// All waits since the start.
#[derive(Debug, Default)]
pub struct Waits {
    /// Waits on the run queue, by task and size.
    pub queued: BTreeMap<(u32, Bucket), Sum>,
    /// Who had the CPU during these: task, size, who; nanoseconds.
    pub blame: BTreeMap<(u32, Bucket, u32), u64>,
    /// Sleeps, by node of the call tree and size; without the wait for the CPU that followed.
    pub asleep: BTreeMap<(u32, Bucket), Sum>,
    /// How often a task lost the CPU while it was ready to run on.
    pub preempted: BTreeMap<u32, u64>,
    /// Nanoseconds on the CPU that each task had, the idle one too.
    pub ran: BTreeMap<u32, u64>,
    clock: Clock,
    tasks: HashMap<u64, Task>,
    turns: VecDeque<(u64, u32)>,
    /// The node of the idle task's name.
    idle: Option<u32>,
    /// Since when the running task has the CPU, or since the last mark.
    turn_ns: u64,
    /// When the last mark was.
    marked_ns: u64,
}

/// A task that had the CPU.
#[derive(Debug, Clone, Copy)]
struct Task {
    /// Its `run_delay` when it got the CPU.
    run_delay_ns: u64,
    /// Since it left.
    off: Option<Off>,
}

/// A task that does not have the CPU.
#[derive(Debug, Clone, Copy)]
struct Off {
    since_ns: u64,
    left: Left,
    /// Whether it was ready to run all the time.
    is_ready: bool,
}

impl Waits {
    /// Nothing has waited yet.
    pub fn new(ns_per_instruction: u64) -> Self {
        Self {
            clock: Clock {
                ns_per_instruction,
                ..Clock::default()
            },
            ..Self::default()
        }
    }

    /// A switch of tasks after so many instructions.
    pub fn switch(&mut self, left: Left, arrival: Arrival, total: i64) {
        let before = self.clock.now(total);
        let behind = if arrival.is_idle {
            0
        } else {
            self.clock.hear(arrival.at_ns, total)
        };
        let now = self.clock.now(total);
        if arrival.is_idle {
            self.idle = Some(arrival.root);
        }
        // What has passed besides instructions was idle. Some of it is heard of late: it was another task's that leaves.
        let idle = self.idle.unwrap_or(left.root);
        *self.ran.entry(left.root).or_default() += before - self.turn_ns;
        *self.ran.entry(idle).or_default() += now - before;
        if before < now && !left.is_idle {
            self.turn(before, idle);
        }
        self.leave(left, before);
        self.turn(now, arrival.root);
        self.turn_ns = now;
        if !arrival.is_idle {
            self.arrive(arrival, behind, now);
        }
    }

    fn turn(&mut self, now: u64, root: u32) {
        if self.turns.len() >= MOST_TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back((now, root));
    }

    fn leave(&mut self, left: Left, now: u64) {
        if left.is_dead() {
            self.tasks.remove(&left.task);
        } else if left.task != 0 && !left.is_idle {
            let is_ready = left.state == 0;
            if is_ready {
                *self.preempted.entry(left.root).or_default() += 1;
            }
            if let Some(task) = self.tasks.get_mut(&left.task) {
                task.off = Some(Off {
                    since_ns: now,
                    left,
                    is_ready,
                });
            }
        }
    }

    /// A task gets the CPU, by a clock of the kernel's that was so far behind.
    fn arrive(&mut self, arrival: Arrival, behind_ns: u64, now: u64) {
        let Arrival {
            root, run_delay_ns, ..
        } = arrival;
        if self.tasks.len() >= MOST_TASKS {
            self.tasks.clear();
        }
        let task = Task {
            run_delay_ns,
            off: None,
        };
        let known = self.tasks.insert(arrival.task, task);
        if arrival.is_new {
            let waited = (run_delay_ns + behind_ns).min(now - self.marked_ns);
            self.queue(root, now - waited, now);
            return;
        }
        let Some((old, off)) = known.and_then(|old| Some((old, old.off?))) else {
            return;
        };
        let woke = if off.is_ready {
            off.since_ns
        } else {
            // The kernel's account begins when it woke and ends at a time that was behind.
            let waited = run_delay_ns.saturating_sub(old.run_delay_ns) + behind_ns;
            now.saturating_sub(waited).max(off.since_ns)
        };
        self.queue(root, woke, now);
        if !off.is_ready {
            self.sleep(off, woke);
        }
    }

    /// A mark: what goes on is told up to it, and what comes after it is another wait. `queued_since` says of a task's address
    /// when it was put on the run queue, by the kernel's clock; 0: it sleeps.
    pub fn mark(&mut self, running: u32, total: i64, queued_since: impl Fn(u64) -> u64) {
        let now = self.clock.now(total);
        *self.ran.entry(running).or_default() += now - self.turn_ns;
        self.turn_ns = now;
        let mut tasks = std::mem::take(&mut self.tasks);
        for (address, task) in &mut tasks {
            let Some(off) = &mut task.off else {
                continue;
            };
            if !off.is_ready {
                let woke = match queued_since(*address) {
                    0 => None,
                    at_ns => Some(self.clock.of_kernel(at_ns).clamp(off.since_ns, now)),
                };
                // A task that sleeps from one mark to the next has no part in what is between them.
                if woke.is_some() || off.since_ns > self.marked_ns {
                    self.sleep(*off, woke.unwrap_or(now));
                }
                off.is_ready = woke.is_some();
                off.since_ns = woke.unwrap_or(now);
            }
            if off.is_ready {
                self.queue(off.left.root, off.since_ns, now);
                off.since_ns = now;
            }
        }
        self.tasks = tasks;
        self.marked_ns = now;
    }

    fn sleep(&mut self, off: Off, woke: u64) {
        let slept = woke - off.since_ns;
        let key = (off.left.node, bucket(slept));
        add(self.asleep.entry(key).or_default(), slept);
    }

    /// A wait for the CPU, and who ran meanwhile.
    fn queue(&mut self, waiter: u32, from: u64, to: u64) {
        let bucket = bucket(to - from);
        add(self.queued.entry((waiter, bucket)).or_default(), to - from);
        let mut end = to;
        for (begin, runner) in self.turns.iter().rev() {
            let ran = end.saturating_sub((*begin).max(from));
            if ran > 0 {
                let cause = (waiter, bucket, *runner);
                if self.blame.len() < MOST_CAUSES || self.blame.contains_key(&cause) {
                    *self.blame.entry(cause).or_default() += ran;
                }
            }
            end = *begin;
            if end <= from {
                return;
            }
        }
    }
}

/// Switches after which what the kernel's clock said before them is forgotten: the rate of that clock is measured by the kernel,
/// and some parts in a million off.
const MOST_HEARD: u32 = 256;

/// The guest's time: of instructions, and of idling.
#[derive(Debug, Default)]
struct Clock {
    ns_per_instruction: u64,
    /// What has passed without instructions.
    idle_ns: u64,
    /// The kernel's clock less this one, the most of the last switches and of those before them.
    ahead: [Option<i64>; 2],
    heard: u32,
}

impl Clock {
    fn now(&self, total: i64) -> u64 {
        total.max(0) as u64 * self.ns_per_instruction + self.idle_ns
    }

    /// The kernel's clock at a switch. It was read at the switch or before it, so that the most it was ahead of this one is right;
    /// returns by how much it is behind that. Where it is ahead of that, time has passed without instructions.
    fn hear(&mut self, at_ns: u64, total: i64) -> u64 {
        let ahead = at_ns.cast_signed() - self.now(total).cast_signed();
        let most = self.most().unwrap_or(ahead);
        self.idle_ns += (ahead - most).max(0).cast_unsigned();
        let ahead = ahead.min(most);
        if self.heard >= MOST_HEARD {
            (self.ahead, self.heard) = ([None, self.ahead[0]], 0);
        }
        self.heard += 1;
        self.ahead[0] = self.ahead[0].max(Some(ahead));
        (most - ahead).cast_unsigned()
    }

    fn most(&self) -> Option<i64> {
        self.ahead[0].max(self.ahead[1])
    }

    /// A time of the kernel's clock by this one.
    fn of_kernel(&self, at_ns: u64) -> u64 {
        let at_ns = at_ns.cast_signed() - self.most().unwrap_or(0);
        at_ns.max(0).cast_unsigned()
    }
}

fn add(sum: &mut Sum, ns: u64) {
    sum.count += 1;
    sum.ns += ns;
}

fn bucket(ns: u64) -> Bucket {
    u64::BITS - ns.leading_zeros()
}
