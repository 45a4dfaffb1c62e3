//! Waits of tasks for the CPU, the tasks that ran meanwhile, and sleeps.
//!
//! ```text
//! preempted  |---------------- queued ----------------|            by the instruction count
//! slept      |---- slept ----| woken |---- queued ----|            by the instruction count, split by the kernel's run_delay
//!            leaves the CPU                           gets it
//! ```
//! Under counted instructions the guest's time is the number of instructions, plus the time while the CPU idles. The plugin
//! knows the number at each switch. The kernel's `sched_info` uses the run queue's clock, which lags at a switch. If a waking
//! task preempts another one, the kernel does not read the time again, and the preempted task seems to wait while it still
//! runs. The kernel's clock is therefore used only for wake-ups and idle time, which are not known otherwise.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Number of recent turns on the CPU, to know who ran while a task waited.
const MOST_TURNS: usize = 1 << 13;

/// Most causes of waits; further ones are dropped.
const MOST_CAUSES: usize = 1 << 17;

/// Most tasks with a saved state.
const MOST_TASKS: usize = 1 << 16;

/// `TASK_DEAD`, the state of a task that never runs again.
const DEAD: u32 = 0x80;

/// The task that leaves the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    /// Address of the task; 0 if not known yet.
    pub task: u64,
    /// The node of its name.
    pub root: u32,
    /// Its current node in the call tree.
    pub node: u32,
    /// Whether it is the idle task, which never waits.
    pub is_idle: bool,
    /// Its state; 0 if it is still runnable.
    pub state: u32,
}

impl Left {
    /// Whether it never runs again.
    pub fn is_dead(&self) -> bool {
        self.state & DEAD != 0
    }
}

/// The task that gets the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Address of the task.
    pub task: u64,
    /// The node of its name.
    pub root: u32,
    /// Whether it is the idle task, which has no `sched_info`.
    pub is_idle: bool,
    /// Whether it gets the CPU for the first time; an earlier task may have had the same address.
    pub is_new: bool,
    /// Time that it has waited on run queues since its start.
    pub run_delay_ns: u64,
    /// When it got the CPU, by the run queue's clock.
    pub at_ns: u64,
}

/// Waits of one kind and size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of waits.
    pub count: u64,
    /// Total duration.
    pub ns: u64,
}

/// Size of a wait: the smallest power of two above it in nanoseconds, as an exponent.
pub type Bucket = u32;

/// All waits since the start.
#[derive(Debug, Default)]
pub struct Waits {
    /// Waits on the run queue, by task and size.
    pub queued: BTreeMap<(u32, Bucket), Sum>,
    /// Who had the CPU during these, by waiting task, size and running task; nanoseconds.
    pub blame: BTreeMap<(u32, Bucket, u32), u64>,
    /// Sleeps, by node of the call tree and size, without the wait for the CPU that followed.
    pub asleep: BTreeMap<(u32, Bucket), Sum>,
    /// Number of times that a task lost the CPU while runnable.
    pub preempted: BTreeMap<u32, u64>,
    /// Nanoseconds on the CPU of each task, including the idle one.
    pub ran: BTreeMap<u32, u64>,
    clock: Clock,
    tasks: HashMap<u64, Task>,
    turns: VecDeque<(u64, u32)>,
    /// The node of the idle task's name.
    idle: Option<u32>,
    /// Start of the running task's turn, or of the part of it after the last mark.
    turn_ns: u64,
    /// Time of the last mark.
    marked_ns: u64,
}

/// A task that has had the CPU.
#[derive(Debug, Clone, Copy)]
struct Task {
    /// Its `run_delay` when it got the CPU.
    run_delay_ns: u64,
    /// Set while it does not have the CPU.
    off: Option<Off>,
}

/// State of a task that does not have the CPU.
#[derive(Debug, Clone, Copy)]
struct Off {
    since_ns: u64,
    left: Left,
    /// Whether it has been runnable all the time.
    is_ready: bool,
}

impl Waits {
    /// No waits yet.
    pub fn new(ns_per_instruction: u64) -> Self {
        Self {
            clock: Clock {
                ns_per_instruction,
                ..Clock::default()
            },
            ..Self::default()
        }
    }

    /// Records a task switch after `total` instructions.
    pub fn switch(&mut self, left: Left, arrival: Arrival, total: i64) {
        let before = self.clock.now(total);
        let lag_ns = if arrival.is_idle {
            0
        } else {
            self.clock.update(arrival.at_ns, total)
        };
        let now = self.clock.now(total);
        if arrival.is_idle {
            self.idle = Some(arrival.root);
        }
        // Time without instructions was idle. Part of it is known only now, after another task had the CPU.
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
            self.arrive(arrival, lag_ns, now);
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

    /// Records that a task gets the CPU, with the kernel's clock lagging by `lag_ns`.
    fn arrive(&mut self, arrival: Arrival, lag_ns: u64, now: u64) {
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
        let previous = self.tasks.insert(arrival.task, task);
        if arrival.is_new {
            let waited = (run_delay_ns + lag_ns).min(now - self.marked_ns);
            self.queue(root, now - waited, now);
            return;
        }
        let Some((old, off)) = previous.and_then(|old| Some((old, old.off?))) else {
            return;
        };
        let woke = if off.is_ready {
            off.since_ns
        } else {
            // The kernel's run_delay starts at the wake-up and ends at a time that lags.
            let waited = run_delay_ns.saturating_sub(old.run_delay_ns) + lag_ns;
            now.saturating_sub(waited).max(off.since_ns)
        };
        self.queue(root, woke, now);
        if !off.is_ready {
            self.sleep(off, woke);
        }
    }

    /// Splits waits and sleeps at a mark: the part before it is recorded, the rest is another wait. `queued_since` returns
    /// when the task at an address was put on the run queue, by the kernel's clock, or 0 if it sleeps.
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
                    at_ns => Some(
                        self.clock
                            .convert_kernel_time(at_ns)
                            .clamp(off.since_ns, now),
                    ),
                };
                // A sleep from one mark to the next is not recorded.
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

    /// Records a wait for the CPU, and who ran meanwhile.
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

/// Number of switches after which earlier readings of the kernel's clock are dropped. The kernel measures the rate of that
/// clock, with an error of some parts per million.
const MOST_READINGS: u32 = 256;

/// The guest's time: instructions, plus idle time.
#[derive(Debug, Default)]
struct Clock {
    ns_per_instruction: u64,
    /// Time without instructions.
    idle_ns: u64,
    /// Largest lead of the kernel's clock over this one, of the last switches and of those before them.
    lead: [Option<i64>; 2],
    readings: u32,
}

impl Clock {
    fn now(&self, total: i64) -> u64 {
        total.max(0) as u64 * self.ns_per_instruction + self.idle_ns
    }

    /// Takes the kernel's clock at a switch and returns by how much it lags. It was read at the switch or before, so its largest
    /// lead over this clock is right; a larger lead means that time has passed without instructions.
    fn update(&mut self, at_ns: u64, total: i64) -> u64 {
        let lead = at_ns.cast_signed() - self.now(total).cast_signed();
        let max_lead = self.max_lead().unwrap_or(lead);
        self.idle_ns += (lead - max_lead).max(0).cast_unsigned();
        let lead = lead.min(max_lead);
        if self.readings >= MOST_READINGS {
            (self.lead, self.readings) = ([None, self.lead[0]], 0);
        }
        self.readings += 1;
        self.lead[0] = self.lead[0].max(Some(lead));
        (max_lead - lead).cast_unsigned()
    }

    fn max_lead(&self) -> Option<i64> {
        self.lead[0].max(self.lead[1])
    }

    /// Converts a time of the kernel's clock to this one.
    fn convert_kernel_time(&self, at_ns: u64) -> u64 {
        let at_ns = at_ns.cast_signed() - self.max_lead().unwrap_or(0);
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
