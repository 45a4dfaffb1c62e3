//! What an explanation says of a function: what its code is for, and which arms have it.

use serde::{Deserialize, Serialize};

/// What code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Mechanism {
    /// Choosing who runs, waking, switching; pressure stall accounting.
    #[serde(rename = "scheduler")]
    Scheduler,
    /// Network protocols, sockets, packet buffers' way through the stack.
    #[serde(rename = "TCP/IP")]
    TcpIp,
    /// Moving bytes.
    #[serde(rename = "copying")]
    Copying,
    /// Clearing memory.
    #[serde(rename = "zeroing")]
    Zeroing,
    /// Slab, pages, packet buffers.
    #[serde(rename = "memory allocation")]
    Allocation,
    /// Page faults, page tables, mappings, TLB.
    #[serde(rename = "paging")]
    Paging,
    /// Control groups and their accounting of memory.
    #[serde(rename = "cgroups")]
    Cgroups,
    /// Files, directories, page cache, pipes, file systems.
    #[serde(rename = "VFS")]
    Vfs,
    /// Block layer and disks.
    #[serde(rename = "block I/O")]
    BlockIo,
    /// epoll, poll, select.
    #[serde(rename = "epoll")]
    Epoll,
    /// Spin locks, mutexes, semaphores, futexes.
    #[serde(rename = "locks")]
    Locks,
    /// Read-copy-update.
    #[serde(rename = "RCU")]
    Rcu,
    /// Timers, clocks, the tick.
    #[serde(rename = "timers")]
    Timers,
    /// Interrupts, soft interrupts, work queues.
    #[serde(rename = "interrupts")]
    Interrupts,
    /// Entry into and exit from the kernel.
    #[serde(rename = "entry/exit")]
    EntryExit,
    /// Work against speculative execution.
    #[serde(rename = "mitigations")]
    Mitigations,
    /// Security modules, audit, seccomp, credentials.
    #[serde(rename = "security")]
    Security,
    /// Fork, exec, exit, signals.
    #[serde(rename = "processes")]
    Processes,
    /// BPF, probes, trace points, performance counters.
    #[serde(rename = "tracing")]
    Tracing,
    /// Ciphers, hashes, random numbers.
    #[serde(rename = "crypto")]
    Crypto,
    /// Programs and their libraries.
    #[serde(rename = "user code")]
    User,
    /// Where the kernel switches interrupts on: a timer's samples there are of whatever ran before.
    #[serde(rename = "not attributable")]
    Unattributable,
    /// Whatever is not known.
    #[serde(rename = "other")]
    Other,
}

impl Mechanism {
    /// The name as people read it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::TcpIp => "TCP/IP",
            Self::Copying => "copying",
            Self::Zeroing => "zeroing",
            Self::Allocation => "memory allocation",
            Self::Paging => "paging",
            Self::Cgroups => "cgroups",
            Self::Vfs => "VFS",
            Self::BlockIo => "block I/O",
            Self::Epoll => "epoll",
            Self::Locks => "locks",
            Self::Rcu => "RCU",
            Self::Timers => "timers",
            Self::Interrupts => "interrupts",
            Self::EntryExit => "entry/exit",
            Self::Mitigations => "mitigations",
            Self::Security => "security",
            Self::Processes => "processes",
            Self::Tracing => "tracing",
            Self::Crypto => "crypto",
            Self::User => "user code",
            Self::Unattributable => "not attributable",
            Self::Other => "other",
        }
    }
}

/// In which arms there is a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Presence {
    /// In both.
    Both,
    /// In the baseline alone: removed, renamed or inlined elsewhere.
    Vanished,
    /// In the arm alone.
    New,
    /// In both under different names, because calls and cost agree; the name that stands beside this is the arm's.
    Renamed {
        /// Its name in the baseline.
        from: String,
    },
}
