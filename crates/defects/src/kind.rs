//! Kinds of defects, and what they mean for reliability.

/// What a defect means for the reliability of the system that told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth a line beside a run: the system met a limit or what somebody else did, and coped.
    Notice,
    /// Something failed that need not be the kernel's or the service's fault: hardware, a host that stole time, memory
    /// that was given out.
    Suspicious,
    /// The kernel or a service did what it must never do.
    Defect,
}

impl Severity {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Suspicious => "suspicious",
            Severity::Defect => "defect",
        }
    }

    /// The severity of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Severity::Notice, Severity::Suspicious, Severity::Defect]
            .into_iter()
            .find(|severity| severity.name() == name)
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $name:literal,)*) => {
        /// What happened. The order is that of a report: what ends a system first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $($(#[$doc])* $kind,)*
        }

        impl Kind {
            /// All kinds, in their order.
            pub const ALL: &[Kind] = &[$(Kind::$kind,)*];

            /// Its name in records: lower case, with hyphens.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// The kernel gave up.
    Panic = "panic",
    /// `BUG()`: a state that must not be.
    KernelBug = "kernel-bug",
    /// The kernel used an address that it has not, or another exception that it has no answer to.
    Oops = "oops",
    /// A general protection fault of the kernel: mostly a non-canonical address.
    GeneralProtectionFault = "general-protection-fault",
    /// An exception while an exception was handled.
    DoubleFault = "double-fault",
    /// A kernel stack that overflowed or was overwritten.
    StackOverflow = "stack-overflow",
    /// `WARN()`.
    Warning = "warning",
    /// A CPU that did not schedule for long.
    SoftLockup = "soft-lockup",
    /// A CPU that took no interrupts for long.
    HardLockup = "hard-lockup",
    /// A pool of workers that made no progress.
    WorkqueueLockup = "workqueue-lockup",
    /// A task that waited uninterruptibly for long.
    HungTask = "hung-task",
    /// A grace period that did not end.
    RcuStall = "rcu-stall",
    /// A watchdog device or timer that was not served.
    Watchdog = "watchdog",
    /// `schedule()` where preemption is off.
    SchedulingWhileAtomic = "scheduling-while-atomic",
    /// A function that may sleep, called where that is not allowed.
    SleepInAtomic = "sleep-in-atomic",
    /// A reference counter that overflowed or fell below zero.
    Refcount = "refcount",
    /// A linked list whose neighbours disagree.
    ListCorruption = "list-corruption",
    /// A page, or an entry of a page table, in a state that must not be.
    BadPage = "bad-page",
    /// Counters of an address space that were not zero at its end.
    BadRssCounter = "bad-rss-counter",
    /// Damage found by the slab allocator.
    SlabCorruption = "slab-corruption",
    /// A copy beyond a buffer, stopped by fortify, usercopy or the stack protector.
    BufferOverflow = "buffer-overflow",
    /// `debugobjects`: an object used outside its life.
    DebugObjects = "debug-objects",
    /// A damaged or misused spinlock.
    Spinlock = "spinlock",
    /// The address sanitizer.
    Kasan = "kasan",
    /// The sampling memory-error detector.
    Kfence = "kfence",
    /// The data-race detector.
    Kcsan = "kcsan",
    /// The detector of uninitialized memory.
    Kmsan = "kmsan",
    /// The detector of undefined behaviour.
    Ubsan = "ubsan",
    /// Memory that nothing points to.
    Kmemleak = "kmemleak",
    /// Any report of the lock validator.
    Lockdep = "lockdep",
    /// An indirect call to what is no target of it.
    ControlFlow = "control-flow",
    /// An allocation of pages that failed.
    PageAllocation = "page-allocation",
    /// A process killed for want of memory.
    OomKill = "oom-kill",
    /// Swap that could not be read or written, or entries of it that make no sense.
    Swap = "swap",
    /// A network card that stopped sending.
    NetdevWatchdog = "netdev-watchdog",
    /// A driver of a network card that reported a hang or a reset.
    NetworkDriver = "network-driver",
    /// A network device whose references were not given back.
    NetdevRefcount = "netdev-refcount",
    /// A checksum computed by a card that does not fit its packet.
    HardwareChecksum = "hardware-checksum",
    /// The table of neighbours is full.
    NeighbourOverflow = "neighbour-overflow",
    /// The table of tracked connections is full: packets were dropped.
    ConntrackFull = "conntrack-full",
    /// TCP has no memory left.
    TcpMemory = "tcp-memory",
    /// More closed connections than are allowed to linger.
    TcpOrphans = "tcp-orphans",
    /// The sequence numbers of a socket's queue make no sense.
    TcpSequence = "tcp-sequence",
    /// A queue of half-open connections that overflowed.
    SynFlood = "syn-flood",
    /// ext4 and its journal.
    Ext4 = "ext4",
    /// XFS.
    Xfs = "xfs",
    /// Btrfs.
    Btrfs = "btrfs",
    /// JFS.
    Jfs = "jfs",
    /// F2FS.
    F2fs = "f2fs",
    /// NFS, client or server.
    Nfs = "nfs",
    /// SMB client.
    Cifs = "cifs",
    /// Another file system, or what all have in common.
    FileSystem = "file-system",
    /// A request to a block device that failed.
    BlockIo = "block-io",
    /// A SCSI host or device that was reset or taken offline.
    Scsi = "scsi",
    /// An ATA port or device with an error.
    Ata = "ata",
    /// An `NVMe` controller that did not answer.
    Nvme = "nvme",
    /// A virtio device that disagreed with its driver.
    Virtio = "virtio",
    /// A software RAID that lost a disk.
    Raid = "raid",
    /// A mapped device that failed.
    DeviceMapper = "device-mapper",
    /// A machine check.
    MachineCheck = "machine-check",
    /// An error that the memory controller reported.
    Edac = "edac",
    /// A hardware error told by firmware.
    HardwareError = "hardware-error",
    /// A page of memory that was found bad and taken out of use.
    MemoryFailure = "memory-failure",
    /// An error on a bus of `PCIe` or CXL.
    Pcie = "pcie",
    /// A device that used memory it may not.
    Iommu = "iommu",
    /// A processor that was too hot.
    Thermal = "thermal",
    /// A non-maskable interrupt that nobody expected.
    Nmi = "nmi",
    /// An interrupt that no driver claimed.
    Irq = "irq",
    /// A register of the processor that does not exist.
    MsrAccess = "msr-access",
    /// A CPU that did not come or go when it was told to.
    CpuHotplug = "cpu-hotplug",
    /// A clock that another clock contradicts.
    Clocksource = "clocksource",
    /// Real-time tasks that were stopped because they left nothing to others.
    RtThrottling = "rt-throttling",
    /// Soft interrupts pending or unbalanced where they must not be.
    Softirq = "softirq",
    /// No more open files in the whole system.
    FileLimit = "file-limit",
    /// No more processes in a cgroup.
    PidLimit = "pid-limit",
    /// A kernel that says of itself that it is no longer what was built.
    Taint = "taint",
    /// A program that died of an exception.
    UserFault = "user-fault",
    /// A core dump, or the attempt of one.
    CoreDump = "core-dump",
    /// A service that a signal ended.
    ServiceCrash = "service-crash",
    /// A service that ended by itself, with an exit status.
    ServiceExit = "service-exit",
    /// A service, or a worker of it, that was started again.
    ServiceRestart = "service-restart",
    /// A line at error level in a service's log.
    ServiceLog = "service-log",
}

impl Kind {
    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Kind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}
