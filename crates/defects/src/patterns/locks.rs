//! Locks and context: all reports of the lock validator, and functions called in a context that forbids them.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::{Line, Trace};
use Kind::{Lockdep, SchedulingWhileAtomic, SleepInAtomic, Softirq, Spinlock, WorkqueueLockup};
use Severity::{Defect, Suspicious};

pub(super) const ROWS: &[Row] = &[
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: possible circular locking dependency detected",
        &[("WARNING: possible circular locking dependency detected", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: possible recursive locking detected",
        &[("WARNING: possible recursive locking detected", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: possible irq lock inversion dependency detected",
        &[(
            "WARNING: possible irq lock inversion dependency detected",
            "",
        )],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: %s-safe -> %s-unsafe lock order detected",
        &[(
            "WARNING: SOFTIRQ-safe -> SOFTIRQ-unsafe lock order detected",
            "",
        )],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: inconsistent lock state",
        &[("WARNING: inconsistent lock state", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: bad unlock balance detected!",
        &[("WARNING: bad unlock balance detected!", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: bad contention detected!",
        &[("WARNING: bad contention detected!", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: held lock freed!",
        &[("WARNING: held lock freed!", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: Nested lock was not taken",
        &[("WARNING: Nested lock was not taken", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: lock held when returning to user space!",
        &[("WARNING: lock held when returning to user space!", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: %S/%d still has locks held!",
        &[("WARNING: nginx/812 still has locks held!", "nginx")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "WARNING: suspicious RCU usage",
        &[("WARNING: suspicious RCU usage", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "[ BUG: Invalid wait context ]",
        &[("[ BUG: Invalid wait context ]", "")],
    ),
    // `[ BUG: .. ]` is the frame of older kernels; some reports kept it.
    row(
        Lockdep,
        Defect,
        Trace,
        "[ BUG: %S ]",
        &[(
            "[ BUG: bad unlock balance detected! ]",
            "bad unlock balance detected",
        )],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "INFO: trying to register non-static key.",
        &[("INFO: trying to register non-static key.", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "BUG: key %x %s",
        &[("BUG: key ffff888100000000 has not been registered!", "")],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "DEBUG_LOCKS_WARN_ON(%N)",
        &[(
            "DEBUG_LOCKS_WARN_ON(lock->magic != lock)",
            "lock->magic != lock",
        )],
    ),
    // The validator is out of memory and stops checking; nothing else is wrong.
    row(
        Lockdep,
        Suspicious,
        Trace,
        "BUG: MAX_%N too low!",
        &[
            ("BUG: MAX_LOCKDEP_ENTRIES too low!", "LOCKDEP_ENTRIES"),
            (
                "BUG: MAX_LOCKDEP_CHAIN_HLOCKS too low!",
                "LOCKDEP_CHAIN_HLOCKS",
            ),
        ],
    ),
    row(
        Spinlock,
        Defect,
        Trace,
        "BUG: spinlock %S on CPU#%d, %s",
        &[
            ("BUG: spinlock bad magic on CPU#1, nginx/812", "bad magic"),
            (
                "BUG: spinlock lockup suspected on CPU#0, nginx/812",
                "lockup suspected",
            ),
            ("BUG: spinlock recursion on CPU#0, nginx/812", "recursion"),
        ],
    ),
    row(
        Spinlock,
        Defect,
        Trace,
        "BUG: rwlock %S on CPU#%d, %s",
        &[(
            "BUG: rwlock wrong CPU on CPU#1, nginx/812, 00000000a1b2c3d4",
            "wrong CPU",
        )],
    ),
    row(
        SchedulingWhileAtomic,
        Defect,
        Trace,
        "BUG: scheduling while atomic: %S/%d/%x",
        &[(
            "BUG: scheduling while atomic: kworker/1:2/345/0x00000002",
            "kworker/#:#",
        )],
    ),
    row(
        SleepInAtomic,
        Defect,
        Trace,
        "BUG: sleeping function called from invalid context at %S:%d",
        &[(
            "BUG: sleeping function called from invalid context at mm/slab.h:494",
            "mm/slab.h",
        )],
    ),
    row(
        SleepInAtomic,
        Defect,
        Trace,
        "BUG: using %S in preemptible [%x] code: %s",
        &[(
            "BUG: using smp_processor_id() in preemptible [00000000] code: nginx/812",
            "smp_processor_id()",
        )],
    ),
    row(
        SleepInAtomic,
        Defect,
        Trace,
        "BUG: assuming non migratable context at %S:%d",
        &[(
            "BUG: assuming non migratable context at net/core/dev.c:44",
            "net/core/dev.c",
        )],
    ),
    row(
        SleepInAtomic,
        Defect,
        Trace,
        "BUG: assuming atomic context at %S:%d",
        &[(
            "BUG: assuming atomic context at net/core/dev.c:44",
            "net/core/dev.c",
        )],
    ),
    // 6.9 has another wording for a work item that did not release its resources.
    row(
        WorkqueueLockup,
        Defect,
        Trace,
        "BUG: workqueue leaked lock or atomic: %S/%x/%d",
        &[(
            "BUG: workqueue leaked lock or atomic: kworker/1:2/0x00000001/345",
            "kworker/#:#",
        )],
    ),
    row(
        WorkqueueLockup,
        Defect,
        Trace,
        "BUG: workqueue leaked atomic, lock or RCU: %S[%d]",
        &[(
            "BUG: workqueue leaked atomic, lock or RCU: kworker/1:2[345]",
            "kworker/#:#",
        )],
    ),
    row(
        Softirq,
        Defect,
        Line,
        "softirq: huh, entered softirq %d %N %x with preempt_count %x",
        &[(
            "softirq: huh, entered softirq 3 NET_RX 00000000a1b2c3d4 with preempt_count 00000100, exited with 00000101?",
            "NET_RX",
        )],
    ),
    // 5.10 prints `Non-RCU local`.
    row(
        Softirq,
        Suspicious,
        Line,
        "NOHZ tick-stop error: %slocal softirq work is pending",
        &[
            (
                "NOHZ tick-stop error: local softirq work is pending, handler #08!!!",
                "",
            ),
            (
                "NOHZ tick-stop error: Non-RCU local softirq work is pending, handler #08!!!",
                "",
            ),
        ],
    ),
    row(
        Lockdep,
        Defect,
        Trace,
        "rtmutex deadlock detected",
        &[("rtmutex deadlock detected", "")],
    ),
];
