//! Reports of several lines: each is one defect, with the relevant frame as top.

use super::{read, summary};

const OOPS: &str = "\
BUG: kernel NULL pointer dereference, address: 0000000000000018
#PF: supervisor read access in kernel mode
#PF: error_code(0x0000) - not-present page
PGD 0 P4D 0
Oops: 0000 [#1] PREEMPT SMP NOPTI
CPU: 1 PID: 812 Comm: nginx Not tainted 6.1.0-50-amd64 #1  Debian 6.1.176-1
Hardware name: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.3
RIP: 0010:tcp_sendmsg_locked+0x2a1/0xc40
Code: 48 8b 45 00 <48> 8b 40 18
RSP: 0018:ffffc90000a3fd40 EFLAGS: 00010246
Call Trace:
 <TASK>
 ? __die_body.cold+0x1a/0x1f
 ? page_fault_oops+0xae/0x280
 tcp_sendmsg+0x28/0x40
 sock_sendmsg+0x5f/0x70
------------[ cut here ]------------
WARNING: CPU: 1 PID: 812 at kernel/exit.c:814 do_exit+0x8d2/0xaf0
Modules linked in: virtio_net virtio_blk
RIP: 0010:do_exit+0x8d2/0xaf0
 </TASK>
Modules linked in: virtio_net virtio_blk
CR2: 0000000000000018
---[ end trace 0000000000000000 ]---
RIP: 0010:tcp_sendmsg_locked+0x2a1/0xc40
note: nginx[812] exited with preempt_count 1
";

fn entry(kind: &'static str, top: &str, count: u64) -> (&'static str, String, u64) {
    (kind, top.to_string(), count)
}

#[test]
fn a_warning_within_an_oops_is_not_a_second_defect() {
    assert_eq!(summary(OOPS), [entry("oops", "tcp_sendmsg_locked", 1)]);
    let lines = read(OOPS).remove(0).lines;
    assert_eq!(lines.first().unwrap(), OOPS.lines().next().unwrap());
    assert_eq!(
        lines.last().unwrap(),
        "---[ end trace 0000000000000000 ]---"
    );
}

#[test]
fn addresses_and_processes_do_not_distinguish_defects() {
    let other = OOPS
        .replace("812", "977")
        .replace("0018", "0420")
        .replace("CPU: 1", "CPU: 0")
        .replace("nginx", "php");
    assert_eq!(
        summary(&format!("{OOPS}{other}")),
        [entry("oops", "tcp_sendmsg_locked", 2)]
    );
    let elsewhere = OOPS.replace("tcp_sendmsg_locked", "udp_sendmsg");
    assert_eq!(
        summary(&format!("{OOPS}{elsewhere}")),
        [
            entry("oops", "tcp_sendmsg_locked", 1),
            entry("oops", "udp_sendmsg", 1)
        ]
    );
}

#[test]
fn a_panic_after_an_oops_is_a_second_defect() {
    let log = format!(
        "{OOPS}Kernel panic - not syncing: Fatal exception\nKernel Offset: disabled\n---[ end Kernel panic - not syncing: Fatal exception ]---\n"
    );
    assert_eq!(
        summary(&log),
        [
            entry("panic", "Fatal exception", 1),
            entry("oops", "tcp_sendmsg_locked", 1)
        ]
    );
}

#[test]
fn an_oops_of_kernels_since_6_10_has_one_word_more() {
    let log = "\
Oops: general protection fault, probably for non-canonical address 0xdead000000000100: 0000 [#1] SMP NOPTI
CPU: 0 UID: 0 PID: 344 Comm: kworker/0:3 Not tainted 7.2.12+deb13-amd64 #1 PREEMPT(lazy)  Debian 7.2.12-1
RIP: 0010:0xdead000000000100
Call Trace:
 <TASK>
 process_one_work+0x1a1/0x370
 worker_thread+0x1a4/0x320
 </TASK>
---[ end trace 0000000000000000 ]---
";
    // The instruction has no name, but the caller has one.
    assert_eq!(
        summary(log),
        [entry("general-protection-fault", "process_one_work", 1)]
    );
}

#[test]
fn the_text_of_a_warning_decides_its_kind() {
    let log = "\
------------[ cut here ]------------
refcount_t: underflow; use-after-free.
WARNING: CPU: 1 PID: 344 at lib/refcount.c:28 refcount_warn_saturate+0xba/0x110
Modules linked in:
RIP: 0010:refcount_warn_saturate+0xba/0x110
Call Trace:
 <TASK>
 ? __warn+0x7d/0xc0
 sk_free+0x3a/0x40
 tcp_close+0x25/0x70
 </TASK>
---[ end trace 0000000000000000 ]---
";
    assert_eq!(summary(log), [entry("refcount", "sk_free", 1)]);
    let newer = log.replace(
        "WARNING: CPU: 1 PID: 344 at lib/refcount.c:28 refcount_warn_saturate+0xba/0x110",
        "WARNING: lib/refcount.c:28 at refcount_warn_saturate+0xba/0x110, CPU#1: nginx/344",
    );
    assert_eq!(summary(&newer), [entry("refcount", "sk_free", 1)]);
    let watchdog = "\
------------[ cut here ]------------
NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out
WARNING: CPU: 0 PID: 0 at net/sched/sch_generic.c:467 dev_watchdog+0x24f/0x260
RIP: 0010:dev_watchdog+0x24f/0x260
---[ end trace 1234567890abcdef ]---
";
    assert_eq!(summary(watchdog), [entry("netdev-watchdog", "eth0", 1)]);
}

#[test]
fn a_warning_without_text_of_the_table_is_a_warning() {
    let log = "\
------------[ cut here ]------------
Device 'eth7' does not have a release() function
WARNING: drivers/base/core.c:2550 at device_release+0x9e/0xb0, CPU#0: ip/99
RIP: 0010:device_release+0x9e/0xb0
Call Trace:
 kobject_put+0x7a/0xb0
---[ end trace 0000000000000000 ]---
";
    assert_eq!(summary(log), [entry("warning", "device_release", 1)]);
    // Its WARNING line was lost.
    let cut: Vec<_> = log
        .lines()
        .filter(|line| !line.starts_with("WARNING"))
        .collect();
    assert_eq!(
        summary(&cut.join("\n")),
        [entry("warning", "device_release", 1)]
    );
    assert_eq!(summary("------------[ cut here ]------------\nhello\n"), []);
}

#[test]
fn a_warning_in_the_timer_interrupt_is_a_separate_defect() {
    let log = "\
WARNING: CPU: 0 PID: 434 at kernel/rcu/tree_plugin.h:761 rcu_sched_clock_irq+0x7cb/0xb60
CPU: 0 UID: 0 PID: 434 Comm: udevd Not tainted 6.12.43+deb13-amd64
RIP: 0010:rcu_sched_clock_irq+0x7cb/0xb60
Call Trace:
 <IRQ>
 update_process_times+0x70/0xb0
 asm_sysvec_apic_timer_interrupt+0x1a/0x20
 </IRQ>
 clear_page_erms+0x7/0x10
---[ end trace 0000000000000000 ]---
";
    assert_eq!(summary(log), [entry("warning", "rcu_sched_clock_irq", 1)]);
}

#[test]
fn corruption_of_a_list_that_ends_in_a_bug_is_one_defect() {
    let log = "\
list_del corruption. prev->next should be ffff888100000000, but was ffff888100000040. (prev=ffff888100000080)
------------[ cut here ]------------
kernel BUG at lib/list_debug.c:59!
invalid opcode: 0000 [#1] PREEMPT SMP NOPTI
CPU: 0 PID: 12 Comm: kworker/0:1 Not tainted 6.1.0-50-amd64
RIP: 0010:__list_del_entry_valid.cold+0xf/0x6f
Call Trace:
 <TASK>
 netif_napi_del+0x31/0xd0
 </TASK>
---[ end trace 0000000000000000 ]---
";
    assert_eq!(
        summary(log),
        [entry("list-corruption", "netif_napi_del", 1)]
    );
}

#[test]
fn the_top_of_a_hung_task_is_the_function_that_waits() {
    let task = |name: &str| {
        format!(
            "\
INFO: task {name} blocked for more than 120 seconds.
      Not tainted 6.1.0-50-amd64 #1 Debian 6.1.176-1
\"echo 0 > /proc/sys/kernel/hung_task_timeout_secs\" disables this message.
task:mariadbd        state:D stack:0     pid:812   ppid:1      flags:0x00000002
Call Trace:
 <TASK>
 __schedule+0x34d/0x9e0
 schedule+0x5a/0xd0
 percpu_rwsem_wait+0x112/0x130
 __percpu_down_read+0x6e/0x80
 mnt_want_write+0x5d/0xc0
 do_sys_openat2+0x95/0x150
 </TASK>
"
        )
    };
    let log = format!("{}{}", task("mariadbd:812"), task("rsyslogd:300"));
    assert_eq!(summary(&log), [entry("hung-task", "mnt_want_write", 2)]);
}

#[test]
fn the_top_of_a_soft_lockup_is_the_interrupted_function() {
    let log = "\
watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [nginx:812]
Modules linked in: virtio_net
CPU: 1 PID: 812 Comm: nginx Not tainted 6.1.0-50-amd64
RIP: 0010:native_queued_spin_lock_slowpath+0x6c/0x2a0
Call Trace:
 <IRQ>
 ? watchdog_timer_fn+0x1a4/0x200
 </IRQ>
 <TASK>
 _raw_spin_lock+0x29/0x30
 inet_csk_reqsk_queue_add+0x2f/0xb0
 </TASK>
";
    assert_eq!(
        summary(log),
        [entry("soft-lockup", "inet_csk_reqsk_queue_add", 1)]
    );
}

#[test]
fn a_stall_of_rcu_is_one_defect_with_its_starved_thread() {
    let log = "\
rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
rcu: \t1-...!: (0 ticks this GP) idle=abc4/1/0x4000000000000000 softirq=12/12 fqs=1
\t(detected by 0, t=5252 jiffies, g=1234, q=99 ncpus=2)
Sending NMI from CPU 0 to CPUs 1:
NMI backtrace for cpu 1
CPU: 1 PID: 812 Comm: nginx Not tainted 6.1.0-50-amd64
RIP: 0010:fib_table_lookup+0x1d/0x6a0
rcu: rcu_preempt kthread starved for 5250 jiffies! g1234 f0x0 RCU_GP_WAIT_FQS(5) ->state=0x0 ->cpu=1
rcu: \tUnless rcu_preempt kthread gets sufficient CPU time, OOM is now expected behavior.
";
    assert_eq!(summary(log), [entry("rcu-stall", "fib_table_lookup", 1)]);
}

#[test]
fn the_top_of_an_oom_kill_is_the_killed_process() {
    let log = "\
nginx invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0
CPU: 0 PID: 300 Comm: nginx Not tainted 6.1.0-50-amd64
Call Trace:
 <TASK>
 dump_stack_lvl+0x44/0x5c
 dump_header+0x4a/0x211
 filemap_fault+0x5f8/0xa90
 </TASK>
Mem-Info:
active_anon:100 inactive_anon:200000 isolated_anon:0
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/,task=mariadbd,pid=812,uid=101
Out of memory: Killed process 812 (mariadbd) total-vm:2097152kB, anon-rss:1048576kB, file-rss:0kB, shmem-rss:0kB, UID:101 pgtables:2200kB oom_score_adj:0
";
    assert_eq!(summary(log), [entry("oom-kill", "mariadbd", 1)]);
    // A console that shows only errors has only the last line.
    let last = log.lines().next_back().unwrap();
    assert_eq!(summary(last), [entry("oom-kill", "mariadbd", 1)]);
}

#[test]
fn the_top_of_a_lockdep_report_is_where_the_lock_was_requested() {
    let log = "
======================================================
WARNING: possible circular locking dependency detected
6.12.0 #1 Not tainted
------------------------------------------------------
nginx/812 is trying to acquire lock:
ffff888100000000 (&a->lock){+.+.}-{3:3}, at: foo_write+0x3a/0x90

but task is already holding lock:
ffff888100000040 (&b->lock){+.+.}-{3:3}, at: bar_write+0x2b/0x70

which lock already depends on the new lock.

the existing dependency chain (in reverse order) is:

-> #1 (&b->lock){+.+.}-{3:3}:
       __mutex_lock+0x9e/0xd50
       chain_open+0x2b/0x70

stack backtrace:
CPU: 0 UID: 0 PID: 812 Comm: nginx Not tainted 6.12.0 #1
Call Trace:
 <TASK>
 dump_stack_lvl+0x5d/0x80
 print_circular_bug.cold+0x178/0x1be
 check_noncircular+0x13d/0x150
 __lock_acquire+0x145e/0x2000
 lock_acquire+0xd1/0x2d0
 __mutex_lock+0x9e/0xd50
 foo_write+0x3a/0x90
 </TASK>
";
    assert_eq!(summary(log), [entry("lockdep", "foo_write", 1)]);
    let suspicious = "\
=============================
WARNING: suspicious RCU usage
6.12.0 #1 Not tainted
-----------------------------
net/ipv4/fib_frontend.c:123 suspicious rcu_dereference_check() usage!
other info that might help us debug this:
stack backtrace:
Call Trace:
 lockdep_rcu_suspicious+0x4f/0x1b0
 fib_lookup+0x1a2/0x1c0
";
    assert_eq!(summary(suspicious), [entry("lockdep", "fib_lookup", 1)]);
}

#[test]
fn the_top_of_a_sanitizer_report_is_the_access_not_the_allocation() {
    let log = "\
==================================================================
BUG: KASAN: slab-use-after-free in tcp_ack+0x12/0x340
Read of size 8 at addr ffff888100000000 by task nginx/812

CPU: 0 UID: 0 PID: 812 Comm: nginx Not tainted 6.12.0
Call Trace:
 <TASK>
 dump_stack_lvl+0x5d/0x80
 print_report+0x171/0x4fb
 kasan_report+0xda/0x110
 tcp_ack+0x12/0x340
 </TASK>

Allocated by task 812:
 kasan_save_stack+0x30/0x50
 sk_prot_alloc+0x36/0x140

Freed by task 900:
 kasan_save_stack+0x30/0x50
 sk_destruct+0x1a/0x20

The buggy address belongs to the object at ffff888100000000
==================================================================
Disabling lock debugging due to kernel taint
";
    assert_eq!(summary(log), [entry("kasan", "tcp_ack", 1)]);
}

#[test]
fn the_top_of_a_failed_allocation_is_its_caller() {
    let log = "\
nginx: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP|__GFP_ZERO), nodemask=(null)
CPU: 0 UID: 0 PID: 812 Comm: nginx Not tainted 6.12.107+deb13-amd64
Call Trace:
 <TASK>
 dump_stack_lvl+0x5d/0x80
 warn_alloc+0x164/0x190
 __alloc_pages_slowpath.constprop.0+0xd4b/0xd80
 __alloc_pages_noprof+0x30d/0x330
 alloc_pages_mpol_noprof+0x8f/0x1f0
 ___kmalloc_large_node+0x75/0x110
 __kmalloc_large_noprof+0x19/0x90
 __kmalloc_noprof+0x3ef/0x4b0
 alloc_fdtable+0x4f/0x110
 </TASK>
";
    assert_eq!(summary(log), [entry("page-allocation", "alloc_fdtable", 1)]);
}

#[test]
fn a_single_line_defect_within_a_report_is_a_separate_defect() {
    let mut lines: Vec<_> = OOPS.lines().collect();
    lines.insert(12, "EXT4-fs error (device vda): ext4_find_entry:1455: inode #2: comm sh: reading directory lblock 0");
    assert_eq!(
        summary(&lines.join("\n")),
        [
            entry("oops", "tcp_sendmsg_locked", 1),
            entry("ext4", "ext4_find_entry", 1)
        ]
    );
}

#[test]
fn an_unrelated_message_is_no_text_of_a_warning() {
    let log = "\
------------[ cut here ]------------
TCP: request_sock_TCP: Possible SYN flooding on port 0.0.0.0:80. Sending cookies.
WARNING: net/ipv4/tcp.c:2650 at tcp_cleanup_rbuf+0x5d/0x70, CPU#3: nginx/1234
---[ end trace 0000000000000000 ]---
";
    assert_eq!(
        summary(log),
        [
            entry("warning", "tcp_cleanup_rbuf", 1),
            entry("syn-flood", "", 1)
        ]
    );
}
