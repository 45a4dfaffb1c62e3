//! What a trial executed and waited for between the marks of its window, as far as an explanation of a difference needs it.
//!
//! Not a format of its own: it is made from the trial's profile when a run is explained. Counts are sums over the window, not
//! yet divided by its work; the idle task is left out of all of them, as it is out of the metric `instructions`. Where time is the
//! wall clock's, what is counted is nanoseconds of CPU time, from samples (`Sampled`).

/// One trial's account.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Place of the trial in the schedule, `Trial::number`; of its attempts, the one that was measured.
    pub trial: u32,
    /// The work done in the same window as was counted: what counts are divided by. A fraction where the clients' window and
    /// the profile's differ by a thread's start.
    pub work: f64,
    /// What it is counted in.
    pub unit: WorkUnit,
    /// Functions that nodes name, each once.
    pub functions: Vec<Function>,
    /// The call tree, parents before their children. All tasks are in one forest; where the call paths are not known, every
    /// node is a root.
    pub nodes: Vec<Node>,
    /// Instructions of each kind of task; they sum to those of `nodes`.
    pub tasks: Vec<TaskCount>,
    /// Waits of each kind of task.
    pub waits: Vec<Waits>,
    /// Guest time of the window in nanoseconds, on all CPUs; 0 where it is not known, as in samples.
    pub window_ns: u64,
    /// Returns that no known call led to, as a share of all calls: what follows one hangs from its task, without its callers.
    pub lost_calls: f64,
    /// How it was sampled; `None`: it was counted. Instructions of nodes are nanoseconds of CPU time then, and neither calls nor
    /// iterations are known.
    pub sampled: Option<Sampled>,
}

/// How an account was sampled, and what was counted beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// What paced the samples.
    pub clock: SampleClock,
    /// Samples that were asked for in a second of one CPU.
    pub frequency_hz: u32,
    /// Samples in the account.
    pub samples: u64,
    /// Samples that were lost.
    pub lost: u64,
    /// CPU time in nanoseconds that the samples stand for.
    pub cpu_ns: u64,
    /// Counters over the window.
    pub counters: Vec<Counter>,
}

/// What paces samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleClock {
    /// CPU cycles.
    Cycles,
    /// The kernel's timer, which sees nothing where interrupts are off.
    CpuClock,
}

/// What was counted in the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its name: `context-switches`, `softirq NET_RX`.
    pub name: String,
    /// What is counted.
    pub unit: CounterUnit,
    /// How much.
    pub value: u64,
}

/// What a counter counts.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum CounterUnit {
    /// How often something happened.
    Events,
    /// Time in nanoseconds.
    Nanoseconds,
}

/// What the work of a window is counted in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum WorkUnit {
    /// Requests served.
    Request,
    /// The whole of a work that is the same in each trial.
    Run,
    /// One operation of a work that is the same again and again.
    Operation,
    /// Seconds of guest time, where the work is none of these.
    Second,
}

/// A function, or what stands for one where there are no symbols.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// As kallsyms or a program's symbol table gives it (`memset_erms`, `tcp_ack.isra.0`); empty where it is not known.
    pub name: String,
    /// Whose code it is.
    pub domain: Domain,
}

/// Whose code a function is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Domain {
    /// The kernel's own.
    Kernel,
    /// The kernel's own, where it switches interrupts on: a timer's samples of what ran before with interrupts off are there.
    InterruptsOff,
    /// A module's, by its name.
    Module(String),
    /// A program's or a library's, by the name of its file; empty where that is not known.
    User(String),
}

/// A function as it was called from one call path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Who called, by place in `Account::nodes`: a smaller number than the node's own. `None` below nothing but its task.
    pub parent: Option<u32>,
    /// Place in `Account::functions`.
    pub function: u32,
    /// Times entered; 0 where calls are not counted, as in programs.
    pub calls: u64,
    /// Instructions executed in the function itself, without those of functions that it called; of string instructions what the run
    /// charges for them.
    pub instructions: u64,
    /// What string instructions are charged of them.
    pub string_instructions: u64,
}

/// What tasks of one name executed, interrupts that they took included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCount {
    /// The name; several tasks may have it.
    pub name: String,
    /// Instructions.
    pub instructions: u64,
}

/// All waits of one kind of task for one kind of thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// Name of the tasks that waited.
    pub task: String,
    /// What for.
    pub state: WaitState,
    /// The waits by their length; at most one of each `below_log2_ns`, in any order.
    pub sizes: Vec<WaitSize>,
}

/// What a task waits for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum WaitState {
    /// For the CPU, ready to run.
    RunQueue,
    /// For something else, not ready to run; without the wait for the CPU that follows.
    Blocked,
}

/// Waits of about one length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitSize {
    /// They took less than 2 to the power of this in nanoseconds, and no less than half of that; 0: no time at all.
    pub below_log2_ns: u8,
    /// How many.
    pub count: u64,
    /// Nanoseconds of guest time together.
    pub ns: u64,
    /// What they are due to, in any order; may come to less than `ns`.
    pub causes: Vec<WaitCause>,
}

/// What waits are due to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitCause {
    /// On the run queue the task that had the CPU meanwhile; of blocked tasks the call path, outermost function first, joined
    /// by `;`.
    pub name: String,
    /// Nanoseconds of guest time together.
    pub ns: u64,
}
