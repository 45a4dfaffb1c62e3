//! A profile: what a guest executed between two marks, by call path and task, and which tasks waited.

/// Format version of counted profiles; see `format`.
pub const VERSION: u32 = 1;

/// Format version of sampled profiles.
pub const SAMPLED_VERSION: u32 = 2;

/// What was executed between marks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// The call tree: the root first, each parent before its children. It contains only nodes counted in a window, and their
    /// callers.
    pub nodes: Vec<Node>,
    /// One window from each mark to the next, in order.
    pub windows: Vec<Window>,
    /// What is unknown, in words: a kernel without BTF, a server without symbols.
    pub lacks: Vec<String>,
    /// How it was sampled; `None` if it was counted. In a sampled profile, the instructions of `Window` and `Count` are the
    /// weight of samples in units of the clock; calls, iterations, waits and health are unknown.
    pub sampling: Option<Sampling>,
}

/// How a profile was sampled, and the counters of the same window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    /// What paced the samples.
    pub clock: Clock,
    /// Requested samples per second and CPU.
    pub frequency_hz: u32,
    /// Samples in the profile.
    pub samples: u64,
    /// Samples that the kernel dropped.
    pub lost: u64,
    /// Samples of tasks outside the trial, which are not in the profile.
    pub outside: u64,
    /// CPU time of the sampled tasks by the kernel's accounting; all samples together represent it.
    pub cpu_ns: u64,
    /// Counters over the window.
    pub counters: Vec<Counter>,
}

/// What paces samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// CPU cycles, by the performance monitoring unit, whose interrupt cannot be blocked.
    Cycles,
    /// The kernel's timer: code that runs with interrupts off is charged to the place where they are enabled again.
    CpuClock,
}

/// A counter over the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Name, with a label if there are several: `context-switches`, `softirq NET_RX`.
    pub name: String,
    /// Unit of the value.
    pub unit: CounterUnit,
    /// Count over the window.
    pub value: u64,
}

/// Unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterUnit {
    /// Number of events.
    Events,
    /// Time in nanoseconds.
    Nanoseconds,
}

/// What a node of the call tree stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The root.
    All,
    /// A task, by its name; tasks of the same name are one. `swapper/0` is the idle task.
    Task,
    /// A function of the kernel.
    Kernel,
    /// A function of a module, by its entry; functions that it jumps to at its end count as part of it.
    Module,
    /// Code of a program, without its callers.
    User,
}

/// A node of the call tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its parent; the root is its own parent.
    pub parent: u32,
    /// What it stands for.
    pub kind: Kind,
    /// Name of the function or task; empty if the code has no symbol.
    pub name: String,
    /// The module, or the program's file; empty for the kernel and if unknown.
    pub image: String,
}

/// What happened from one mark to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// The marks at its start and its end; see `mark`.
    pub marks: (u8, u8),
    /// All instructions, by the clock.
    pub instructions: u64,
    /// Counts by node, ascending.
    pub counts: Vec<Count>,
    /// Waits on the run queue.
    pub queued: Vec<Wait>,
    /// Which tasks had the CPU during these waits.
    pub blame: Vec<Blame>,
    /// Sleeps by the node where they began, without the wait for the CPU that followed.
    pub asleep: Vec<Wait>,
    /// Number of times that each task lost the CPU while runnable.
    pub preempted: Vec<(u32, u64)>,
    /// Nanoseconds on the CPU of each task, including the idle one.
    pub ran: Vec<(u32, u64)>,
    /// How reliable the call paths are.
    pub health: Health,
}

/// Numbers of marks.
pub mod mark {
    /// The window begins.
    pub const BEGIN: u8 = 1;
    /// The window ends.
    pub const END: u8 = 2;
    /// A step of a ramp begins.
    pub const STEP: u8 = 3;
}

/// Counts of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// The node.
    pub node: u32,
    /// Instructions, without those of children.
    pub instructions: u64,
    /// REP string instructions among them.
    pub strings: StringCounts,
    /// Number of entries; 0 for code of programs.
    pub calls: u64,
}

/// REP string instructions that move or fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StringCounts {
    /// Iterations; the clock counts each as an instruction.
    pub iterations: u64,
    /// Bytes moved or filled.
    pub bytes: u64,
    /// Number of starts.
    pub starts: u64,
}

/// Waits of one node and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wait {
    /// The task's node, or the node where it slept.
    pub node: u32,
    /// Exponent of the smallest power of two above their duration in nanoseconds; 0 for no time at all.
    pub size: u8,
    /// Number of waits.
    pub count: u64,
    /// Total nanoseconds.
    pub ns: u64,
}

/// A task that ran while another one waited for the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Blame {
    /// The node of the task that waited.
    pub waiter: u32,
    /// Duration of the wait, as in `Wait::size`.
    pub size: u8,
    /// The node of the task that ran.
    pub runner: u32,
    /// Nanoseconds.
    pub ns: u64,
}

/// How often call tracking lost its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Returns without a known call: what followed is attributed to the task, without its callers.
    pub lost: u64,
    /// Returns without a known call, into a function among the callers: what followed is attributed correctly.
    pub mended: u64,
    /// Blocks of code left before their end; the unexecuted rest is not counted.
    pub cut: u64,
    /// Task switches.
    pub switches: u64,
}

impl Profile {
    /// Instructions of the whole measurement, including all steps of a ramp.
    pub fn instructions(&self) -> u64 {
        self.windows.iter().map(|window| window.instructions).sum()
    }

    /// The task that a node belongs to; `None` for the root.
    pub fn task_of(&self, node: u32) -> Option<u32> {
        let mut index = node;
        // Parents precede their children, so this terminates.
        loop {
            let entry = self.nodes.get(index as usize)?;
            match entry.kind {
                Kind::All => return None,
                Kind::Task => return Some(index),
                Kind::Kernel | Kind::Module | Kind::User => index = entry.parent,
            }
        }
    }

    /// The name of each node's task; `None` for the root and for nodes of the idle task.
    pub fn busy_tasks(&self) -> Vec<Option<&str>> {
        let mut tasks: Vec<Option<&str>> = Vec::with_capacity(self.nodes.len());
        // Parents precede their children.
        for node in &self.nodes {
            tasks.push(match node.kind {
                Kind::All => None,
                Kind::Task => Some(node.name.as_str()).filter(|name| !name.starts_with("swapper")),
                Kind::Kernel | Kind::Module | Kind::User => tasks[node.parent as usize],
            });
        }
        tasks
    }

    /// Nanoseconds of guest time on all CPUs, including the idle task's.
    pub fn ran_ns(&self) -> u64 {
        let windows = self.windows.iter();
        windows
            .flat_map(|window| &window.ran)
            .map(|(_, ns)| ns)
            .sum()
    }

    /// Instructions of all tasks except the idle one.
    pub fn busy_instructions(&self) -> u64 {
        let tasks = self.busy_tasks();
        let counts = self.windows.iter().flat_map(|window| &window.counts);
        let busy = counts.filter(|count| tasks[count.node as usize].is_some());
        busy.map(|count| count.instructions).sum()
    }
}
