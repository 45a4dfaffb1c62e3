//! Who waited for the CPU, who had it meanwhile, and where tasks slept: read from `sched_info` at each switch.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// Turns on the CPU that are remembered, to say who ran while somebody waited.
const MOST_TURNS: usize = 1 << 13;

/// Tasks that are remembered.
const MOST_TASKS: usize = 1 << 16;

/// The task that leaves the CPU.
#[derive(Debug, Clone, Copy)]
pub struct Left {
    /// Its address; 0 when it is not known yet.
    pub task: u64,
    /// The node of its name.
    pub root: u32,
    /// Where in the call tree it was.
    pub node: u32,
    /// Its state: 0 when it was ready to run on.
    pub state: u32,
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
    ns_per_instruction: u64,
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
    delays: HashMap<u64, u64>,
    left: HashMap<u64, (u64, Left)>,
    turns: VecDeque<(u64, u32)>,
    now_ns: u64,
    total: i64,
}

impl Waits {
    /// Nothing has waited yet.
    pub fn new(ns_per_instruction: u64) -> Self {
        Self {
            ns_per_instruction,
            ..Self::default()
        }
    }

    /// A switch of tasks after so many instructions.
    pub fn switch(&mut self, left: Left, arrival: Arrival, total: i64) {
        let passed = (total - self.total).max(0) as u64 * self.ns_per_instruction;
        let before = self.now_ns;
        let now = if arrival.is_idle {
            // Since the last one that has a time nothing but instructions have passed.
            self.now_ns + passed
        } else {
            arrival.at_ns.max(self.now_ns)
        };
        (self.now_ns, self.total) = (now, total);
        *self.ran.entry(left.root).or_default() += now - before;
        if left.task != 0 {
            if left.state == 0 {
                *self.preempted.entry(left.root).or_default() += 1;
            }
            if self.left.len() >= MOST_TASKS {
                self.left.clear();
                self.delays.clear();
            }
            self.left.insert(left.task, (now, left));
        }
        if !arrival.is_idle {
            self.arrive(arrival, now);
        }
        if self.turns.len() >= MOST_TURNS {
            self.turns.pop_front();
        }
        self.turns.push_back((now, arrival.root));
    }

    fn arrive(&mut self, arrival: Arrival, now: u64) {
        let Arrival {
            task,
            root,
            run_delay_ns,
            ..
        } = arrival;
        let known = self.delays.insert(task, run_delay_ns);
        // A task that is new, or lies where another one lay.
        let Some(waited) = known.and_then(|known| run_delay_ns.checked_sub(known)) else {
            self.left.remove(&task);
            return;
        };
        let Some((since, left)) = self
            .left
            .remove(&task)
            .filter(|(_, left)| left.root == root)
        else {
            return;
        };
        let bucket = bucket(waited);
        add(self.queued.entry((root, bucket)).or_default(), waited);
        self.blame(root, bucket, now.saturating_sub(waited), now);
        if left.state != 0 {
            let slept = (now - since).saturating_sub(waited);
            add(
                self.asleep
                    .entry((left.node, self::bucket(slept)))
                    .or_default(),
                slept,
            );
        }
    }

    /// Charges who ran from one time to another.
    fn blame(&mut self, waiter: u32, bucket: Bucket, from: u64, to: u64) {
        let mut end = to;
        for (begin, runner) in self.turns.iter().rev() {
            let ran = end.saturating_sub((*begin).max(from));
            if ran > 0 {
                *self.blame.entry((waiter, bucket, *runner)).or_default() += ran;
            }
            end = *begin;
            if end <= from {
                return;
            }
        }
    }
}

fn add(sum: &mut Sum, ns: u64) {
    sum.count += 1;
    sum.ns += ns;
}

fn bucket(ns: u64) -> Bucket {
    u64::BITS - ns.leading_zeros()
}
