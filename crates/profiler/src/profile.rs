//! A profile: what a guest executed between two marks, by call path and task, and who waited meanwhile.

/// Version of the format of a profile that was counted; see `format`.
pub const VERSION: u32 = 1;

/// Version of the format of a profile that was sampled.
pub const SAMPLED_VERSION: u32 = 2;

/// What was executed between marks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    /// The call tree: the whole first, each parent before its children. Only what was counted in a window, and its callers.
    pub nodes: Vec<Node>,
    /// From each mark to the next one, in their order.
    pub windows: Vec<Window>,
    /// What is not known, in words: a kernel without BTF, a server without symbols.
    pub lacks: Vec<String>,
    /// How it was sampled; `None`: it was counted. What `Window` and `Count` call instructions is the weight of samples then,
    /// in units of the clock; calls, iterations, waits and health are not known.
    pub sampling: Option<Sampling>,
}

/// How a profile was sampled, and what was counted beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampling {
    /// What paced the samples.
    pub clock: Clock,
    /// Samples that were asked for in a second of one CPU.
    pub frequency_hz: u32,
    /// Samples in the profile.
    pub samples: u64,
    /// Samples that the kernel could not keep.
    pub lost: u64,
    /// Samples of tasks that are not the trial's; they are not in the profile.
    pub outside: u64,
    /// CPU time of the sampled tasks by the kernel's own account, which all samples together stand for.
    pub cpu_ns: u64,
    /// Counters over the window.
    pub counters: Vec<Counter>,
}

/// What paces samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// CPU cycles, by the performance monitoring unit, whose interrupt no code can hold off.
    Cycles,
    /// The kernel's timer: code that runs with interrupts off is charged to where they are switched on again.
    CpuClock,
}

/// What was counted in the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// A name, and of what where there are several: `context-switches`, `softirq NET_RX`.
    pub name: String,
    /// What is counted.
    pub unit: CounterUnit,
    /// How much.
    pub value: u64,
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterUnit {
    /// How often something happened.
    Events,
    /// Time in nanoseconds.
    Nanoseconds,
}

/// What a node of the call tree stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The whole.
    All,
    /// A task, by its name; all tasks of a name are one. `swapper/0` is the idle one.
    Task,
    /// A function of the kernel.
    Kernel,
    /// A function of a module, by where it was entered: what it jumps to at its end counts as its own.
    Module,
    /// Code of a program, without its callers.
    User,
}

/// A node of the call tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its parent; the whole is its own.
    pub parent: u32,
    /// What it stands for.
    pub kind: Kind,
    /// The function's name, or the task's; empty where the code has no symbol.
    pub name: String,
    /// The module, or the file that the program's code is from; empty for the kernel and where it is not known.
    pub image: String,
}

/// What happened from one mark to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// The mark that it begins with, and the one that it ends with; see `mark`.
    pub marks: (u8, u8),
    /// All instructions, by the clock.
    pub instructions: u64,
    /// What was counted, by node, ascending.
    pub counts: Vec<Count>,
    /// Waits on the run queue.
    pub queued: Vec<Wait>,
    /// Who had the CPU during these waits.
    pub blame: Vec<Blame>,
    /// Sleeps by where in the call tree they began, without the wait for the CPU that followed.
    pub asleep: Vec<Wait>,
    /// How often each task lost the CPU while it was ready to run on.
    pub preempted: Vec<(u32, u64)>,
    /// Nanoseconds on the CPU of each task, the idle one too.
    pub ran: Vec<(u32, u64)>,
    /// How sound the call paths are.
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

/// What a node counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Count {
    /// The node.
    pub node: u32,
    /// Instructions, without those of children.
    pub instructions: u64,
    /// REP string instructions among them.
    pub strings: StringCounts,
    /// Times entered; 0 for code of programs.
    pub calls: u64,
}

/// REP string instructions that move or fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StringCounts {
    /// Their iterations: the clock counts each as an instruction.
    pub iterations: u64,
    /// Bytes that they move or fill.
    pub bytes: u64,
    /// How often one of them began.
    pub starts: u64,
}

/// Waits of one node and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Wait {
    /// The task's node, or where in the call tree it slept.
    pub node: u32,
    /// They took less than 2 to the power of this in nanoseconds, and no less than half of that; 0: no time at all.
    pub size: u8,
    /// How many.
    pub count: u64,
    /// Nanoseconds together.
    pub ns: u64,
}

/// Who ran while tasks waited for the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Blame {
    /// The node of the task that waited.
    pub waiter: u32,
    /// How long it waited, as in `Wait::size`.
    pub size: u8,
    /// The node of the task that ran.
    pub runner: u32,
    /// Nanoseconds.
    pub ns: u64,
}

/// How often the account of calls lost its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Returns to where no call came from: what followed hangs from the task, without its callers.
    pub lost: u64,
    /// The same, into a function that was among the callers: what followed hangs where it should.
    pub mended: u64,
    /// Blocks of code left before their end; what was not executed is not counted.
    pub cut: u64,
    /// Task switches.
    pub switches: u64,
}

impl Profile {
    /// The window of the measurement: from its first mark on to the mark of its end, steps of a ramp together.
    pub fn instructions(&self) -> u64 {
        self.windows.iter().map(|window| window.instructions).sum()
    }

    /// The task that a node belongs to; `None` for the whole.
    pub fn task_of(&self, node: u32) -> Option<u32> {
        let mut at = node;
        // Parents come first, so this ends.
        loop {
            let own = self.nodes.get(at as usize)?;
            match own.kind {
                Kind::All => return None,
                Kind::Task => return Some(at),
                Kind::Kernel | Kind::Module | Kind::User => at = own.parent,
            }
        }
    }

    /// The name of each node's task; `None` for the whole and for what the idle task did.
    pub fn busy_tasks(&self) -> Vec<Option<&str>> {
        let mut tasks: Vec<Option<&str>> = Vec::with_capacity(self.nodes.len());
        // Parents come first.
        for node in &self.nodes {
            tasks.push(match node.kind {
                Kind::All => None,
                Kind::Task => Some(node.name.as_str()).filter(|name| !name.starts_with("swapper")),
                Kind::Kernel | Kind::Module | Kind::User => tasks[node.parent as usize],
            });
        }
        tasks
    }

    /// Nanoseconds of guest time on all CPUs, the idle task's too.
    pub fn ran_ns(&self) -> u64 {
        let windows = self.windows.iter();
        windows
            .flat_map(|window| &window.ran)
            .map(|(_, ns)| ns)
            .sum()
    }

    /// Instructions of all tasks but the idle one.
    pub fn busy_instructions(&self) -> u64 {
        let tasks = self.busy_tasks();
        let counts = self.windows.iter().flat_map(|window| &window.counts);
        let busy = counts.filter(|count| tasks[count.node as usize].is_some());
        busy.map(|count| count.instructions).sum()
    }
}
