//! Output of emulated guests that were made to fail: parts of their consoles, unchanged.
//!
//! Each guest's first process wrote to a bad address twice, executed an invalid instruction, opened too many files, poisoned
//! a page, triggered a dump of all stacks, exhausted memory, and ran with real-time priority for 2.5 s. Then it ran for 14 s
//! without the real-time limit and with stalls reported after 3 s, and made the kernel panic.

use super::summary;

fn check(log: &str, want: &[(&str, &str, u64)]) {
    let defects = summary(log);
    let defects: Vec<_> = defects
        .iter()
        .map(|(kind, top, count)| (*kind, top.as_str(), *count))
        .collect();
    assert_eq!(defects, want);
    // Serial consoles use other line ends.
    assert_eq!(summary(&log.replace('\n', "\r\r\n")).len(), want.len());
}

#[test]
fn kernel_5_10() {
    check(
        include_str!("guest/5.10.log"),
        &[
            ("panic", "sysrq triggered crash", 1),
            ("rcu-stall", "rcu_sched", 2),
            ("oom-kill", "init", 1),
            ("rt-throttling", "", 1),
            ("file-limit", "", 1),
            ("user-fault", "init", 3),
        ],
    );
}

#[test]
fn kernel_6_1() {
    check(
        include_str!("guest/6.1.log"),
        &[
            ("panic", "sysrq triggered crash", 1),
            ("rcu-stall", "rcu_preempt", 2),
            ("oom-kill", "init", 1),
            ("memory-failure", "dirty LRU page", 1),
            ("memory-failure", "init", 1),
            ("rt-throttling", "", 1),
            ("file-limit", "", 1),
            ("user-fault", "init", 3),
        ],
    );
}

/// Since 6.12 fair tasks have a guaranteed share: no stall. A process that the OOM killer ends may still fail to allocate.
#[test]
fn kernel_7_2() {
    check(
        include_str!("guest/7.2.log"),
        &[
            ("panic", "sysrq triggered crash", 1),
            ("page-allocation", "do_anonymous_page", 1),
            ("oom-kill", "init", 1),
            ("memory-failure", "dirty LRU page", 1),
            ("memory-failure", "init", 1),
            ("file-limit", "", 1),
            ("user-fault", "init", 3),
        ],
    );
}

/// Two processes wrote to a frozen file system; then the emulator raised an NMI and a machine check.
#[test]
fn a_frozen_file_system_and_hardware_errors() {
    let logs = [
        include_str!("guest/6.1-freeze.log"),
        include_str!("guest/7.2-freeze.log"),
    ];
    for log in logs {
        check(
            log,
            &[
                ("panic", "Fatal local machine check", 1),
                ("hung-task", "mnt_want_write", 2),
                ("machine-check", "Bank 1", 1),
                ("nmi", "", 1),
            ],
        );
    }
}

/// Modules whose first instructions were overwritten: the first one uses a bad address, the second executes an invalid
/// instruction, the third never returns. 7.2 preempts that one.
#[test]
fn modules_that_fault_or_never_return() {
    let faults = [
        ("oops", "configfs_init", 1),
        ("oops", "dummy_init_module", 1),
    ];
    check(include_str!("guest/7.2-modules.log"), &faults);
    let [first, second] = faults;
    check(
        include_str!("guest/6.1-modules.log"),
        &[first, second, ("soft-lockup", "loop_init", 3)],
    );
}
