//! Kinds of defects, and what they mean for reliability.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// What a defect means for the reliability of the system that reported it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Severity {
    /// Worth a line beside a run: the system met a limit or an outside influence, and coped.
    Notice,
    /// A failure that may not be the fault of the kernel or the service: hardware, stolen CPU time,
    /// exhausted memory.
    Suspicious,
    /// The kernel or a service did what must never happen.
    Defect,
}

impl Severity {
    /// Its name in records.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What happened, ordered as in a report: what ends a system comes first.
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
    /// `BUG()`: an impossible state.
    KernelBug,
    /// The kernel used an invalid address, or hit another exception that it does not handle.
    Oops,
    /// A general protection fault of the kernel: mostly a non-canonical address.
    GeneralProtectionFault,
    /// An exception while an exception was handled.
    DoubleFault,
    /// A kernel stack that overflowed or was overwritten.
    StackOverflow,
    /// `WARN()`.
    Warning,
    /// A CPU that did not schedule for a long time.
    SoftLockup,
    /// A CPU that took no interrupts for a long time.
    HardLockup,
    /// A pool of workers that made no progress.
    WorkqueueLockup,
    /// A task that waited uninterruptibly for a long time.
    HungTask,
    /// An RCU grace period that did not end.
    RcuStall,
    /// A watchdog device or timer that was not served.
    Watchdog,
    /// `schedule()` with preemption off.
    SchedulingWhileAtomic,
    /// A function that may sleep, called where that is not allowed.
    SleepInAtomic,
    /// A reference counter that overflowed or underflowed.
    Refcount,
    /// A linked list with inconsistent neighbours.
    ListCorruption,
    /// A page or page table entry in an invalid state.
    BadPage,
    /// Counters of an address space that were not zero at its end.
    BadRssCounter,
    /// Damage found by the slab allocator.
    SlabCorruption,
    /// A copy beyond a buffer, stopped by fortify, usercopy or the stack protector.
    BufferOverflow,
    /// `debugobjects`: an object used outside its lifetime.
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
    /// Leaked memory.
    Kmemleak,
    /// Any report of the lock validator.
    Lockdep,
    /// An indirect call to an invalid target.
    ControlFlow,
    /// An allocation of pages that failed.
    PageAllocation,
    /// A process killed because memory ran out.
    OomKill,
    /// Swap that could not be read or written, or invalid swap entries.
    Swap,
    /// A network card that stopped sending.
    NetdevWatchdog,
    /// A driver of a network card that reported a hang or a reset.
    NetworkDriver,
    /// A network device whose references were not released.
    NetdevRefcount,
    /// A checksum from a card that does not match its packet.
    HardwareChecksum,
    /// The neighbour table is full.
    NeighbourOverflow,
    /// The connection tracking table is full: packets were dropped.
    ConntrackFull,
    /// TCP is out of memory.
    TcpMemory,
    /// More closed connections than are allowed to linger.
    TcpOrphans,
    /// Inconsistent sequence numbers in a socket's queue.
    TcpSequence,
    /// An overflowed queue of half-open connections.
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
    /// Another file system, or a message common to all.
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
    /// A hardware error reported by firmware.
    HardwareError,
    /// A page of memory that was found bad and taken out of use.
    MemoryFailure,
    /// An error on a bus of `PCIe` or CXL.
    Pcie,
    /// A device that accessed memory without permission.
    Iommu,
    /// A processor that was too hot.
    Thermal,
    /// An unexpected non-maskable interrupt.
    Nmi,
    /// An interrupt that no driver claimed.
    Irq,
    /// Access to a processor register that does not exist.
    MsrAccess,
    /// A CPU that did not go online or offline on request.
    CpuHotplug,
    /// A clock that another clock contradicts.
    Clocksource,
    /// Real-time tasks that were throttled because they starved all others.
    RtThrottling,
    /// Soft interrupts pending or unbalanced in an invalid context.
    Softirq,
    /// The system-wide limit of open files was reached.
    FileLimit,
    /// A cgroup's limit of processes was reached.
    PidLimit,
    /// A taint flag of the kernel.
    Taint,
    /// A program that died of an exception.
    UserFault,
    /// A core dump, or an attempt to write one.
    CoreDump,
    /// A service killed by a signal.
    ServiceCrash,
    /// A service that exited, with its status.
    ServiceExit,
    /// A service, or one of its workers, that was restarted.
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
