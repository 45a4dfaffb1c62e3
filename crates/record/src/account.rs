//! Breakdown of what a trial executed and waited for in its window, to explain a difference.
//!
//! It is not stored, but made from the trial's profile when a run is explained. Counts are sums over the window, not yet divided by its
//! work. They leave out the idle task, as the metric `instructions` does. In runs by the wall clock they are nanoseconds of CPU time, from
//! samples (`Sampled`).

/// Breakdown of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    /// Number of the trial, `Trial::number`; the breakdown is that of its measured attempt.
    pub trial: u32,
    /// Work done in the window, by which counts are divided. A fraction if the clients' window and the profile's differ by a thread's
    /// start.
    pub work: f64,
    /// Unit of `work`.
    pub unit: WorkUnit,
    /// Functions of the nodes, each once.
    pub functions: Vec<Function>,
    /// The call tree, parents before their children. All tasks are in one forest. Without call paths every node is a root.
    pub nodes: Vec<Node>,
    /// Instructions of each kind of task; they sum to those of `nodes`.
    pub tasks: Vec<TaskCount>,
    /// Waits of each kind of task.
    pub waits: Vec<Waits>,
    /// Guest time of the window in nanoseconds, on all CPUs; 0 if unknown, as in samples.
    pub window_ns: u64,
    /// Returns without a known call, as a share of all calls. What follows such a return is attributed to its task, without callers.
    pub lost_calls: f64,
    /// How it was sampled; `None` if instructions were counted. In samples, instructions of nodes are nanoseconds of CPU time, and calls
    /// and iterations are unknown.
    pub sampled: Option<Sampled>,
}

/// How a breakdown was sampled, and what was counted beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    /// Clock of the samples.
    pub clock: SampleClock,
    /// Requested samples per second and CPU.
    pub frequency_hz: u32,
    /// Samples in the breakdown.
    pub samples: u64,
    /// Samples that were lost.
    pub lost: u64,
    /// CPU time in nanoseconds that the samples represent.
    pub cpu_ns: u64,
    /// Counters over the window.
    pub counters: Vec<Counter>,
}

/// Clock of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampleClock {
    /// CPU cycles.
    Cycles,
    /// The kernel's timer, which takes no samples while interrupts are off.
    CpuClock,
}

/// A counter over the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its name: `context-switches`, `softirq NET_RX`.
    pub name: String,
    /// Unit of `value`.
    pub unit: CounterUnit,
    /// The count.
    pub value: u64,
}

/// Unit of a counter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum CounterUnit {
    /// Number of events.
    Events,
    /// Time in nanoseconds.
    Nanoseconds,
}

/// Unit of the work in a window.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum WorkUnit {
    /// Requests served.
    Request,
    /// The whole workload, which is the same in each trial.
    Run,
    /// One operation of a repeated workload.
    Operation,
    /// Seconds of guest time, for any other workload.
    Second,
}

/// A function, or a whole program or library without symbols.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Name in kallsyms or in a program's symbol table (`memset_erms`, `tcp_ack.isra.0`); empty if unknown.
    pub name: String,
    /// Where its code belongs.
    pub domain: Domain,
}

/// Where a function's code belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Domain {
    /// The kernel.
    Kernel,
    /// The kernel, where it enables interrupts: a timer's samples of preceding code with interrupts off end up there.
    InterruptsOff,
    /// A module, by its name.
    Module(String),
    /// A program or a library, by the name of its file; empty if unknown.
    User(String),
}

/// A function as it was called from one call path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Index of the caller in `Account::nodes`, smaller than the node's index. `None` for a root.
    pub parent: Option<u32>,
    /// Index in `Account::functions`.
    pub function: u32,
    /// Number of calls; 0 if calls are not counted, as in programs.
    pub calls: u64,
    /// Instructions executed in the function itself, without its callees; string instructions at the run's price.
    pub instructions: u64,
    /// Part of `instructions` that is charged for string instructions.
    pub string_instructions: u64,
}

/// What tasks of one name executed, including interrupts that they took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskCount {
    /// The name, which several tasks may share.
    pub name: String,
    /// Instructions.
    pub instructions: u64,
}

/// All waits of tasks of one name in one state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// Name of the tasks that waited.
    pub task: String,
    /// State of the waiting tasks.
    pub state: WaitState,
    /// The waits by length; at most one of each `below_log2_ns`, in any order.
    pub sizes: Vec<WaitSize>,
}

/// State of a waiting task.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum WaitState {
    /// Runnable, waits for a CPU.
    RunQueue,
    /// Not runnable; without the wait for a CPU that follows.
    Blocked,
}

/// Waits of similar length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitSize {
    /// Each took less than 2 to the power of this in nanoseconds, and at least half of that; 0: no time at all.
    pub below_log2_ns: u8,
    /// Number of waits.
    pub count: u64,
    /// Total guest time in nanoseconds.
    pub ns: u64,
    /// Causes, in any order; their sum may be less than `ns`.
    pub causes: Vec<WaitCause>,
}

/// Cause of waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitCause {
    /// For runnable tasks, the task that had the CPU meanwhile. For blocked tasks, the call path, outermost function first, joined by
    /// `;`.
    pub name: String,
    /// Total guest time in nanoseconds.
    pub ns: u64,
}
