//! Kinds of defects, and what they mean for reliability.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// What a defect means for the reliability of the system that told it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
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
        self.into()
    }
}

/// What happened. The order is that of a report: what ends a system first.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// The kernel gave up.
    Panic,
    /// `BUG()`: a state that must not be.
    KernelBug,
    /// The kernel used an address that it has not, or another exception that it has no answer to.
    Oops,
    /// A general protection fault of the kernel: mostly a non-canonical address.
    GeneralProtectionFault,
    /// An exception while an exception was handled.
    DoubleFault,
    /// A kernel stack that overflowed or was overwritten.
    StackOverflow,
    /// `WARN()`.
    Warning,
    /// A CPU that did not schedule for long.
    SoftLockup,
    /// A CPU that took no interrupts for long.
    HardLockup,
    /// A pool of workers that made no progress.
    WorkqueueLockup,
    /// A task that waited uninterruptibly for long.
    HungTask,
    /// A grace period that did not end.
    RcuStall,
    /// A watchdog device or timer that was not served.
    Watchdog,
    /// `schedule()` where preemption is off.
    SchedulingWhileAtomic,
    /// A function that may sleep, called where that is not allowed.
    SleepInAtomic,
    /// A reference counter that overflowed or fell below zero.
    Refcount,
    /// A linked list whose neighbours disagree.
    ListCorruption,
    /// A page, or an entry of a page table, in a state that must not be.
    BadPage,
    /// Counters of an address space that were not zero at its end.
    BadRssCounter,
    /// Damage found by the slab allocator.
    SlabCorruption,
    /// A copy beyond a buffer, stopped by fortify, usercopy or the stack protector.
    BufferOverflow,
    /// `debugobjects`: an object used outside its life.
    DebugObjects,
    /// A damaged or misused spinlock.
    Spinlock,
    /// The address sanitizer.
    Kasan,
    /// The sampling memory-error detector.
    Kfence,
    /// The data-race detector.
    Kcsan,
    /// The detector of uninitialized memory.
    Kmsan,
    /// The detector of undefined behaviour.
    Ubsan,
    /// Memory that nothing points to.
    Kmemleak,
    /// Any report of the lock validator.
    Lockdep,
    /// An indirect call to what is no target of it.
    ControlFlow,
    /// An allocation of pages that failed.
    PageAllocation,
    /// A process killed for want of memory.
    OomKill,
    /// Swap that could not be read or written, or entries of it that make no sense.
    Swap,
    /// A network card that stopped sending.
    NetdevWatchdog,
    /// A driver of a network card that reported a hang or a reset.
    NetworkDriver,
    /// A network device whose references were not given back.
    NetdevRefcount,
    /// A checksum computed by a card that does not fit its packet.
    HardwareChecksum,
    /// The table of neighbours is full.
    NeighbourOverflow,
    /// The table of tracked connections is full: packets were dropped.
    ConntrackFull,
    /// TCP has no memory left.
    TcpMemory,
    /// More closed connections than are allowed to linger.
    TcpOrphans,
    /// The sequence numbers of a socket's queue make no sense.
    TcpSequence,
    /// A queue of half-open connections that overflowed.
    SynFlood,
    /// ext4 and its journal.
    Ext4,
    /// XFS.
    Xfs,
    /// Btrfs.
    Btrfs,
    /// JFS.
    Jfs,
    /// F2FS.
    F2fs,
    /// NFS, client or server.
    Nfs,
    /// SMB client.
    Cifs,
    /// Another file system, or what all have in common.
    FileSystem,
    /// A request to a block device that failed.
    BlockIo,
    /// A SCSI host or device that was reset or taken offline.
    Scsi,
    /// An ATA port or device with an error.
    Ata,
    /// An `NVMe` controller that did not answer.
    Nvme,
    /// A virtio device that disagreed with its driver.
    Virtio,
    /// A software RAID that lost a disk.
    Raid,
    /// A mapped device that failed.
    DeviceMapper,
    /// A machine check.
    MachineCheck,
    /// An error that the memory controller reported.
    Edac,
    /// A hardware error told by firmware.
    HardwareError,
    /// A page of memory that was found bad and taken out of use.
    MemoryFailure,
    /// An error on a bus of `PCIe` or CXL.
    Pcie,
    /// A device that used memory it may not.
    Iommu,
    /// A processor that was too hot.
    Thermal,
    /// A non-maskable interrupt that nobody expected.
    Nmi,
    /// An interrupt that no driver claimed.
    Irq,
    /// A register of the processor that does not exist.
    MsrAccess,
    /// A CPU that did not come or go when it was told to.
    CpuHotplug,
    /// A clock that another clock contradicts.
    Clocksource,
    /// Real-time tasks that were stopped because they left nothing to others.
    RtThrottling,
    /// Soft interrupts pending or unbalanced where they must not be.
    Softirq,
    /// No more open files in the whole system.
    FileLimit,
    /// No more processes in a cgroup.
    PidLimit,
    /// A kernel that says of itself that it is no longer what was built.
    Taint,
    /// A program that died of an exception.
    UserFault,
    /// A core dump, or the attempt of one.
    CoreDump,
    /// A service that a signal ended.
    ServiceCrash,
    /// A service that ended by itself, with an exit status.
    ServiceExit,
    /// A service, or a worker of it, that was started again.
    ServiceRestart,
    /// A line at error level in a service's log.
    ServiceLog,
}

impl Kind {
    /// All kinds, in their order.
    pub const ALL: &[Kind] = Kind::VARIANTS;

    /// Its name in records: lower case, with hyphens.
    pub fn name(self) -> &'static str {
        self.into()
    }
}
