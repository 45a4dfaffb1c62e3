//! Panics, exceptions of the kernel, `BUG()` and `WARN()`.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::{Exception, Line, Trace};
use Kind::{
    ControlFlow, DebugObjects, DoubleFault, GeneralProtectionFault, KernelBug, MsrAccess, Oops,
    Panic, Refcount, StackOverflow, Taint, Warning,
};
use Severity::{Defect, Notice, Suspicious};

pub(super) const ROWS: &[Row] = &[
    row(
        Panic,
        Defect,
        Trace,
        "Kernel panic - not syncing: %P",
        &[
            (
                "Kernel panic - not syncing: Fatal exception in interrupt",
                "Fatal exception in interrupt",
            ),
            (
                "Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b",
                "Attempted to kill init! exitcode=#",
            ),
        ],
    ),
    row(
        Panic,
        Defect,
        Trace,
        "Kernel panic - not syncing",
        &[("Kernel panic - not syncing", "")],
    ),
    row(
        KernelBug,
        Defect,
        Exception,
        "kernel BUG at %S:%d!",
        &[("kernel BUG at fs/ext4/inode.c:2721!", "fs/ext4/inode.c")],
    ),
    row(
        KernelBug,
        Defect,
        Exception,
        "Kernel BUG at %F [verbose debug info unavailable]",
        &[(
            "Kernel BUG at ext4_writepages+0x1c4/0xe10 [verbose debug info unavailable]",
            "ext4_writepages",
        )],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "BUG: kernel NULL pointer dereference, address: %x",
        &[(
            "BUG: kernel NULL pointer dereference, address: 0000000000000018",
            "",
        )],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "BUG: unable to handle page fault for address: %x",
        &[(
            "BUG: unable to handle page fault for address: ffffc90000a3e000",
            "",
        )],
    ),
    // Before 5.2.
    row(
        Oops,
        Defect,
        Exception,
        "BUG: unable to handle kernel %s at %x",
        &[(
            "BUG: unable to handle kernel paging request at ffffc90000a3e000",
            "",
        )],
    ),
    // arm64 and others.
    row(
        Oops,
        Defect,
        Exception,
        "Unable to handle kernel %s at virtual address %x",
        &[(
            "Unable to handle kernel NULL pointer dereference at virtual address 0000000000000018",
            "",
        )],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "Internal error: %s: %x [#%d]",
        &[("Internal error: Oops: 0000000096000004 [#1] SMP", "")],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "BUG: invalid or fatal FRED event",
        &[(
            "BUG: invalid or fatal FRED event; event type 3 vector 14 error 0x0 aux 0x0 at 0010:ffffffff81000000",
            "",
        )],
    ),
    row(
        DoubleFault,
        Defect,
        Exception,
        "traps: PANIC: double fault",
        &[("traps: PANIC: double fault, error_code: 0x0", "")],
    ),
    row(
        DoubleFault,
        Defect,
        Exception,
        "PANIC: double fault, error_code",
        &[("PANIC: double fault, error_code: 0x0", "")],
    ),
    // From 6.10 on every exception is reported as an Oops.
    row(
        GeneralProtectionFault,
        Defect,
        Exception,
        "Oops: general protection fault%s: %x [#%d]",
        &[(
            "Oops: general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] SMP NOPTI",
            "",
        )],
    ),
    row(
        GeneralProtectionFault,
        Defect,
        Exception,
        "general protection fault%s: %x [#%d]",
        &[
            (
                "general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] PREEMPT SMP NOPTI",
                "",
            ),
            ("general protection fault: 0000 [#2] SMP", ""),
        ],
    ),
    row(
        DoubleFault,
        Defect,
        Exception,
        "Oops: double fault: %x [#%d]",
        &[("Oops: double fault: 0000 [#1] SMP NOPTI", "")],
    ),
    row(
        DoubleFault,
        Defect,
        Exception,
        "double fault: %x [#%d]",
        &[("double fault: 0000 [#1] SMP NOPTI", "")],
    ),
    row(
        StackOverflow,
        Defect,
        Exception,
        "Oops: stack guard page: %x [#%d]",
        &[("Oops: stack guard page: 0000 [#1] SMP NOPTI", "")],
    ),
    // 5.10 names neither the stack nor the guard page.
    row(
        StackOverflow,
        Defect,
        Exception,
        "BUG: %sstack guard page was hit at %x",
        &[
            (
                "BUG: TASK stack guard page was hit at 00000000a1b2c3d4 (stack is 000000001234abcd..00000000deadbeef)",
                "",
            ),
            (
                "BUG: stack guard page was hit at 00000000a1b2c3d4 (stack is 000000001234abcd..00000000deadbeef)",
                "",
            ),
        ],
    ),
    row(
        StackOverflow,
        Defect,
        Exception,
        "kernel stack overflow (%s): %x [#%d]",
        &[("kernel stack overflow (double-fault): 0000 [#1] SMP", "")],
    ),
    row(
        StackOverflow,
        Defect,
        Exception,
        "Insufficient stack space to handle exception!",
        &[("Insufficient stack space to handle exception!", "")],
    ),
    row(
        StackOverflow,
        Defect,
        Line,
        "Thread overran stack, or stack corrupted",
        &[("Thread overran stack, or stack corrupted", "")],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "Oops: %s: %x [#%d]",
        &[
            ("Oops: invalid opcode: 0000 [#1] SMP NOPTI", ""),
            ("Oops: divide error: 0000 [#1] SMP", ""),
            ("Oops: Oops: 0002 [#1] SMP NOPTI", ""),
        ],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "Oops: %x [#%d]",
        &[("Oops: 0002 [#1] PREEMPT SMP NOPTI", "")],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "invalid opcode: %x [#%d]",
        &[("invalid opcode: 0000 [#1] PREEMPT SMP", "")],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "divide error: %x [#%d]",
        &[("divide error: 0000 [#1] PREEMPT SMP", "")],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "stack segment: %x [#%d]",
        &[("stack segment: 0000 [#1] SMP", "")],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "int3: %x [#%d]",
        &[("int3: 0000 [#1] SMP", "")],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "alignment check: %x [#%d]",
        &[("alignment check: 0000 [#1] SMP", "")],
    ),
    row(
        Oops,
        Defect,
        Exception,
        "control protection fault: %x [#%d]",
        &[("control protection fault: 0000 [#1] SMP", "")],
    ),
    row(
        Oops,
        Defect,
        Line,
        "Fixing recursive fault but reboot is needed!",
        &[("Fixing recursive fault but reboot is needed!", "")],
    ),
    row(
        ControlFlow,
        Defect,
        Exception,
        "CFI failure at %F",
        &[(
            "CFI failure at tcp_v4_rcv+0xd10/0xe40 (target: foo+0x0/0x10; expected type: 0x12345678)",
            "tcp_v4_rcv",
        )],
    ),
    row(
        ControlFlow,
        Defect,
        Exception,
        "Missing ENDBR: %F",
        &[("Missing ENDBR: foo_show+0x0/0x20", "foo_show")],
    ),
    row(
        Refcount,
        Defect,
        Trace,
        "refcount_t: %s",
        &[
            ("refcount_t: underflow; use-after-free.", ""),
            ("refcount_t: addition on 0; use-after-free.", ""),
        ],
    ),
    row(
        DebugObjects,
        Defect,
        Trace,
        "ODEBUG: %s object%stype: %S hint: %s",
        &[
            (
                "ODEBUG: free active (active state 0) object type: timer_list hint: delayed_work_timer_fn+0x0/0x40",
                "timer_list",
            ),
            (
                "ODEBUG: free active (active state 0) object: 00000000a1b2c3d4 object type: timer_list hint: foo+0x0/0x40",
                "timer_list",
            ),
        ],
    ),
    row(
        Refcount,
        Defect,
        Exception,
        "WARNING: CPU: %d PID: %d at lib/refcount.c:%d %F",
        &[(
            "WARNING: CPU: 1 PID: 344 at lib/refcount.c:28 refcount_warn_saturate+0xba/0x110",
            "refcount_warn_saturate",
        )],
    ),
    row(
        Kind::NetdevWatchdog,
        Defect,
        Exception,
        "WARNING: CPU: %d PID: %d at net/sched/sch_generic.c:%d dev_watchdog%s",
        &[(
            "WARNING: CPU: 0 PID: 0 at net/sched/sch_generic.c:467 dev_watchdog+0x24f/0x260",
            "",
        )],
    ),
    row(
        Warning,
        Defect,
        Exception,
        "WARNING: CPU: %d PID: %d at %s %F",
        &[(
            "WARNING: CPU: 3 PID: 1234 at net/ipv4/tcp.c:2650 tcp_cleanup_rbuf+0x5d/0x70",
            "tcp_cleanup_rbuf",
        )],
    ),
    row(
        Warning,
        Defect,
        Exception,
        "WARNING: CPU: %d PID: %d at %F",
        &[(
            "WARNING: CPU: 3 PID: 1234 at tcp_cleanup_rbuf+0x5d/0x70",
            "tcp_cleanup_rbuf",
        )],
    ),
    // 7.x: file first, function after `at`, CPU last.
    row(
        Refcount,
        Defect,
        Exception,
        "WARNING: lib/refcount.c:%d at %F, CPU#%d: %s",
        &[(
            "WARNING: lib/refcount.c:28 at refcount_warn_saturate+0xba/0x110, CPU#1: nginx/344",
            "refcount_warn_saturate",
        )],
    ),
    row(
        Warning,
        Defect,
        Exception,
        "WARNING: %s:%d at %F, CPU#%d: %s",
        &[(
            "WARNING: net/ipv4/tcp.c:2650 at tcp_cleanup_rbuf+0x5d/0x70, CPU#3: nginx/1234",
            "tcp_cleanup_rbuf",
        )],
    ),
    row(
        Warning,
        Defect,
        Exception,
        "WARNING: at %F, CPU#%d: %s",
        &[(
            "WARNING: at tcp_cleanup_rbuf+0x5d/0x70, CPU#3: nginx/1234",
            "tcp_cleanup_rbuf",
        )],
    ),
    row(
        MsrAccess,
        Suspicious,
        Trace,
        "unchecked MSR access error: %s at rIP: %x (%F)",
        &[(
            "unchecked MSR access error: WRMSR to 0x1a0 (tried to write 0x0000000000000000) at rIP: 0xffffffff81000000 (native_write_msr+0x4/0x20)",
            "native_write_msr",
        )],
    ),
    row(
        Taint,
        Notice,
        Line,
        "%N: loading out-of-tree module taints kernel",
        &[("zfs: loading out-of-tree module taints kernel.", "zfs")],
    ),
    // 5.10 and 6.1 quote the licence; later kernels may not.
    row(
        Taint,
        Notice,
        Line,
        "%N: module license%s taints kernel",
        &[
            ("zfs: module license 'CDDL' taints kernel.", "zfs"),
            ("zfs: module license taints kernel.", "zfs"),
        ],
    ),
    row(
        Taint,
        Suspicious,
        Line,
        "%N: %s: kernel tainted.",
        &[("foo: version magic mismatch: kernel tainted.", "foo")],
    ),
];
