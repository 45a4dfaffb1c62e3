//! Stalls: CPUs, tasks, grace periods, workers, clocks.
//!
//! In a guest that its host stops for a long time, and under an emulator, these may be the host's fault.

use super::{Extent, Row, row};
use crate::kind::{Kind, Severity};

use Extent::{Follow, Line, Trace};
use Kind::{
    Clocksource, CpuHotplug, HardLockup, HungTask, Irq, Nmi, RcuStall, RtThrottling, SoftLockup,
    Watchdog, WorkqueueLockup,
};
use Severity::{Defect, Notice, Suspicious};

pub(super) const ROWS: &[Row] = &[
    row(
        SoftLockup,
        Defect,
        Trace,
        "watchdog: BUG: soft lockup - CPU#%d stuck for %ds! [%S:%d]",
        &[(
            "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [kworker/1:2:345]",
            "kworker/#:#",
        )],
    ),
    row(
        SoftLockup,
        Defect,
        Trace,
        "%s: BUG: soft lockup - CPU#%d stuck for %ds! [%S:%d]",
        &[(
            "NMI watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nginx:812]",
            "nginx",
        )],
    ),
    row(
        SoftLockup,
        Defect,
        Trace,
        "sched_ext: Soft lockup - CPU %d stuck for %ds",
        &[(
            "sched_ext: Soft lockup - CPU 1 stuck for 22s, disabling BPF scheduler",
            "",
        )],
    ),
    row(
        HardLockup,
        Defect,
        Trace,
        "sched_ext: Hard lockup - CPU %d",
        &[(
            "sched_ext: Hard lockup - CPU 1, disabling BPF scheduler",
            "",
        )],
    ),
    // 5.10 and 6.1: `NMI watchdog:`; 6.12: `watchdog:`; 7.x: also the CPU that detected it.
    row(
        HardLockup,
        Defect,
        Trace,
        "%swatchdog: %sWatchdog detected hard LOCKUP on cpu %d",
        &[
            ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 1", ""),
            ("watchdog: Watchdog detected hard LOCKUP on cpu 1", ""),
            ("watchdog: CPU0: Watchdog detected hard LOCKUP on cpu 1", ""),
        ],
    ),
    row(
        WorkqueueLockup,
        Defect,
        Trace,
        "BUG: workqueue lockup - pool%s",
        &[(
            "BUG: workqueue lockup - pool cpus=1 node=0 flags=0x0 nice=0 stuck for 43s!",
            "",
        )],
    ),
    row(
        WorkqueueLockup,
        Notice,
        Line,
        "workqueue: %N hogged CPU for >%dus %d times",
        &[(
            "workqueue: drm_fb_helper_damage_work hogged CPU for >10000us 4 times, consider switching to WQ_UNBOUND",
            "drm_fb_helper_damage_work",
        )],
    ),
    // 7.x adds `in I/O wait` if it is one.
    row(
        HungTask,
        Defect,
        Trace,
        "INFO: task %S:%d blocked%s for more than %d seconds",
        &[
            (
                "INFO: task mariadbd:812 blocked for more than 120 seconds.",
                "mariadbd",
            ),
            (
                "INFO: task kworker/u8:3:77 blocked in I/O wait for more than 120 seconds.",
                "kworker/u#:#",
            ),
        ],
    ),
    row(
        HungTask,
        Suspicious,
        Line,
        "INFO: The task %P:%d has been waiting for writeback completion for more than %d seconds",
        &[(
            "INFO: The task mariadbd:812 has been waiting for writeback completion for more than 120 seconds.",
            "mariadbd",
        )],
    ),
    row(
        RcuStall,
        Defect,
        Trace,
        "rcu: INFO: %S self-detected stall on CPU",
        &[(
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
            "rcu_preempt",
        )],
    ),
    row(
        RcuStall,
        Defect,
        Trace,
        "rcu: INFO: %S detected stalls on CPUs/tasks:",
        &[(
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "rcu_preempt",
        )],
    ),
    row(
        RcuStall,
        Defect,
        Trace,
        "rcu: INFO: %S detected expedited stalls on CPUs/tasks: {",
        &[(
            "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-.... } 21 jiffies s: 57 root: 0x2/.",
            "rcu_preempt",
        )],
    ),
    // Before 5.1, and still for the kinds for tasks.
    row(
        RcuStall,
        Defect,
        Trace,
        "INFO: %S self-detected stall on CPU",
        &[("INFO: rcu_sched self-detected stall on CPU", "rcu_sched")],
    ),
    row(
        RcuStall,
        Defect,
        Trace,
        "INFO: %S detected stalls on %s",
        &[
            ("INFO: rcu_tasks detected stalls on tasks:", "rcu_tasks"),
            (
                "INFO: rcu_sched detected stalls on CPUs/tasks: { 1}",
                "rcu_sched",
            ),
        ],
    ),
    row(
        RcuStall,
        Defect,
        Trace,
        "INFO: %S detected stalls? (%s)",
        &[(
            "INFO: rcu_tasks_trace detected stalls? (Late IPI?)",
            "rcu_tasks_trace",
        )],
    ),
    row(
        RcuStall,
        Defect,
        Follow,
        "rcu: %S kthread starved for %d jiffies!",
        &[(
            "rcu: rcu_preempt kthread starved for 5250 jiffies! g1234 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=1",
            "rcu_preempt",
        )],
    ),
    row(
        RcuStall,
        Suspicious,
        Line,
        "sched: CPU %d need_resched set for > %d ns",
        &[(
            "sched: CPU 1 need_resched set for > 100000000 ns (25 ticks) without schedule",
            "",
        )],
    ),
    row(
        RtThrottling,
        Suspicious,
        Line,
        "sched: RT throttling activated",
        &[
            ("sched: RT throttling activated", ""),
            (
                "sched: RT throttling activated for rt_rq 00000000a1b2c3d4 (cpu 1)",
                "",
            ),
        ],
    ),
    row(
        Watchdog,
        Suspicious,
        Line,
        "watchdog: %N: watchdog did not stop!",
        &[("watchdog: watchdog0: watchdog did not stop!", "watchdog0")],
    ),
    row(
        Watchdog,
        Defect,
        Line,
        "watchdog: %N: pretimeout event",
        &[("watchdog: watchdog0: pretimeout event", "watchdog0")],
    ),
    row(
        Watchdog,
        Defect,
        Line,
        "softdog: Initiating system reboot",
        &[("softdog: Initiating system reboot", "")],
    ),
    row(
        Watchdog,
        Defect,
        Line,
        "%N: Unexpected close, not stopping watchdog",
        &[(
            "i6300ESB timer: Unexpected close, not stopping watchdog!",
            "i6300ESB timer",
        )],
    ),
    row(
        CpuHotplug,
        Defect,
        Line,
        "smpboot: CPU %d didn't die...",
        &[("smpboot: CPU 1 didn't die...", "")],
    ),
    row(
        CpuHotplug,
        Defect,
        Line,
        "smpboot: do_boot_cpu failed(%d) to wakeup CPU#%d",
        &[("smpboot: do_boot_cpu failed(-1) to wakeup CPU#1", "")],
    ),
    row(
        CpuHotplug,
        Defect,
        Line,
        "CPU%d failed to report %N state",
        &[("CPU1 failed to report alive state", "alive")],
    ),
    row(
        CpuHotplug,
        Defect,
        Line,
        "smpboot: CPU%d is stuck in mwait_play_dead()",
        &[("smpboot: CPU1 is stuck in mwait_play_dead()", "")],
    ),
    row(
        Clocksource,
        Suspicious,
        Line,
        "clocksource: timekeeping watchdog on CPU%d: Marking clocksource '%N' as unstable",
        &[(
            "clocksource: timekeeping watchdog on CPU1: Marking clocksource 'tsc' as unstable because the skew is too large:",
            "tsc",
        )],
    ),
    row(
        Clocksource,
        Suspicious,
        Line,
        "clocksource: timekeeping watchdog on CPU%d: %N read-back delay of %dns, attempt %d, marking unstable",
        &[(
            "clocksource: timekeeping watchdog on CPU1: hpet read-back delay of 120000ns, attempt 4, marking unstable",
            "hpet",
        )],
    ),
    row(
        Clocksource,
        Suspicious,
        Line,
        "clocksource: timekeeping watchdog on CPU%d: wd-%N-wd excessive read-back delay of %dns%s",
        &[(
            "clocksource: timekeeping watchdog on CPU1: wd-tsc-wd excessive read-back delay of 120000ns vs. limit of 125000ns, wd-wd read-back delay only 50000ns, attempt 3, marking tsc unstable",
            "tsc",
        )],
    ),
    // 7.x names which of two checks failed.
    row(
        Clocksource,
        Suspicious,
        Line,
        "clocksource: Marking clocksource %N unstable due to %s skew",
        &[
            (
                "clocksource: Marking clocksource tsc unstable due to frequency skew",
                "tsc",
            ),
            (
                "clocksource: Marking clocksource tsc unstable due to inter CPU skew",
                "tsc",
            ),
        ],
    ),
    row(
        Clocksource,
        Suspicious,
        Line,
        "tsc: Marking TSC unstable due to clocksource watchdog",
        &[("tsc: Marking TSC unstable due to clocksource watchdog", "")],
    ),
    row(
        Nmi,
        Suspicious,
        Line,
        "Uhhuh. NMI received for unknown reason %x on CPU %d",
        &[("Uhhuh. NMI received for unknown reason 2d on CPU 1.", "")],
    ),
    row(
        Nmi,
        Defect,
        Line,
        "NMI: %N error (%s) for reason %x on CPU %d",
        &[
            (
                "NMI: PCI system error (SERR) for reason a1 on CPU 0.",
                "PCI system",
            ),
            (
                "NMI: IOCK error (debug interrupt?) for reason 71 on CPU 0.",
                "IOCK",
            ),
        ],
    ),
    row(
        Irq,
        Defect,
        Trace,
        "irq %d: nobody cared",
        &[(
            "irq 18: nobody cared (try booting with the \"irqpoll\" option)",
            "",
        )],
    ),
];
