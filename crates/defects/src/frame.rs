//! Functions in stack traces, and which of them do not identify a defect.

/// The function of `tcp_ack.isra.0+0x12/0x340 [ipv4]`, without its offset and without the compiler's suffix,
/// because another compiler adds a different one.
pub(crate) fn function(text: &str) -> Option<&str> {
    let (name, offset) = text.split_once('+')?;
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$');
    let begins = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
    if !begins || !name.bytes().all(is_name) || !offset.starts_with("0x") {
        return None;
    }
    let end = name.find('.').unwrap_or(name.len());
    Some(&name[..end])
}

/// A place in the kernel that a line of a report names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// The instruction that was interrupted: x86 `RIP:`, arm64 `pc :`.
    Instruction(&'a str),
    /// A line of a stack trace.
    Frame(&'a str),
    /// A line of a stack trace that may be a leftover of earlier calls.
    Doubtful,
    /// The place where a lock was taken, in reports of the lock validator: `(&lock){..}, at: tcp_ack+0x12/0x340`.
    Acquired(&'a str),
}

/// The place in the kernel that this line of a report names, if any. User space is ignored.
pub(crate) fn place(message: &str) -> Option<Place<'_>> {
    let text = message.trim_start();
    if let Some(rest) = text.strip_prefix("RIP: ") {
        // Skips the segment and a colon; an address without a name is user space or a wild jump.
        let (_, symbol) = rest.split_once(':')?;
        return function(symbol).map(Place::Instruction);
    }
    if let Some(symbol) = text.strip_prefix("pc : ") {
        return function(symbol).map(Place::Instruction);
    }
    // Before 4.10 each frame began with its address.
    let text = match text.strip_prefix("[<") {
        Some(rest) => rest.split_once(">] ").map_or(text, |(_, rest)| rest),
        None => text,
    };
    if let Some(doubtful) = text.strip_prefix("? ") {
        return function(doubtful).map(|_| Place::Doubtful);
    }
    if let Some((_, symbol)) = text.split_once(", at: ") {
        return function(symbol).map(Place::Acquired);
    }
    let first = text.split(' ').next().unwrap_or("");
    first
        .contains('/')
        .then(|| function(text).map(Place::Frame))
        .flatten()
}

/// Whether a function only reports, checks or takes a lock, so that its caller identifies the defect.
pub(crate) fn is_check(function: &str) -> bool {
    matches_any(CHECKS, function)
}

/// Whether a function further up in a stack does not identify a defect, because it checks, waits, interrupts or allocates.
pub(crate) fn is_passage(function: &str) -> bool {
    matches_any(CHECKS, function) || matches_any(PASSAGES, function)
}

fn matches_any(rules: &[&str], function: &str) -> bool {
    rules.iter().any(|rule| match rule.strip_suffix('*') {
        Some(start) => function.starts_with(start),
        None => *rule == function,
    })
}

/// Functions that never identify a defect; `*` stands for any ending.
const CHECKS: &[&str] = &[
    // Printing of stacks.
    "dump_stack*",
    "__dump_stack",
    "show_stack*",
    "show_regs*",
    "__show_regs",
    "show_trace*",
    "sched_show_task*",
    "dump_backtrace*",
    "nmi_cpu_backtrace*",
    "nmi_trigger_cpumask_backtrace",
    "arch_trigger_cpumask_backtrace",
    "trigger_single_cpu_backtrace",
    "dump_cpu_task",
    "panic",
    "vpanic",
    "nmi_panic",
    // WARN, BUG, and the exceptions that they are made of.
    "__warn*",
    "warn_slowpath*",
    "report_bug*",
    "__report_bug*",
    "handle_bug",
    "die",
    "__die*",
    "die_addr",
    "oops_end",
    "do_trap*",
    "do_error_trap",
    "exc_*",
    "asm_exc_*",
    "do_invalid_op",
    "invalid_op",
    "do_general_protection",
    "general_protection",
    "page_fault_oops",
    "no_context",
    "bad_area*",
    "__bad_area*",
    "do_user_addr_fault",
    "do_kern_addr_fault",
    "do_page_fault",
    "__do_page_fault",
    "page_fault",
    "async_page_fault",
    "error_entry",
    "bug_handler",
    "call_break_hook",
    "brk_handler",
    "do_debug_exception",
    "el1*",
    "do_mem_abort",
    "do_translation_fault",
    "__do_kernel_fault",
    // Functions that find damage, but did not cause it.
    "refcount_warn_saturate",
    "refcount_error_report",
    "__refcount_*",
    "refcount_*",
    "kref_*",
    "__list_add_valid*",
    "__list_del_entry_valid*",
    "__list_del_entry",
    "list_del",
    "fortify_panic",
    "__fortify_panic",
    "__fortify_report",
    "usercopy_abort",
    "__check_object_size",
    "__check_heap_object",
    "check_heap_object",
    "__stack_chk_fail",
    "skb_panic",
    "skb_over_panic",
    "skb_under_panic",
    "skb_put",
    "skb_push",
    "debug_print_object",
    "debug_check_no_obj_freed",
    "debug_object_*",
    "__debug_object_init",
    "__debug_check_no_obj_freed",
    "slab_bug",
    "slab_err",
    "slab_pad_check",
    "slab_fix",
    "object_err",
    "print_trailer",
    "check_bytes_and_report",
    "check_object",
    "check_slab",
    "free_debug_processing",
    "alloc_debug_processing",
    "free_to_partial_list",
    "alloc_single_from_partial",
    "__slab_free",
    "___cache_free",
    "slab_free*",
    "kfree*",
    "kvfree*",
    "kmem_cache_free*",
    "bad_page*",
    "free_page_is_bad*",
    "check_free_page*",
    "check_new_page*",
    "free_pages_prepare*",
    "free_pcp_prepare",
    "free_unref_*",
    "free_frozen_page*",
    "__free_pages*",
    "__free_frozen_pages",
    "prep_new_page",
    "rmqueue*",
    "print_bad_pte",
    "print_bad_page_map",
    "vm_normal_page",
    "__netdev_watchdog_up",
    "report_cfi_failure",
    "handle_cfi_failure",
    // Sanitizers.
    "print_report",
    "print_address_description*",
    "kasan_*",
    "__kasan_*",
    "__asan_*",
    "__hwasan_*",
    "check_memory_region*",
    "end_report*",
    "kfence_*",
    "__kfence_*",
    "kcsan_*",
    "__tsan_*",
    "kmsan_*",
    "__msan_*",
    "ubsan_*",
    "__ubsan_*",
    "val_to_string",
    "handle_overflow",
    // The lock validator and other checks of context.
    "lock_acquire*",
    "lock_release*",
    "__lock_acquire",
    "__lock_release",
    "validate_chain",
    "check_noncircular",
    "check_prev_add",
    "check_prevs_add",
    "check_deadlock",
    "check_irq_usage",
    "check_wait_context",
    "check_usage*",
    "check_path",
    "check_chain_key",
    "mark_lock*",
    "mark_usage",
    "mark_held_locks",
    "print_circular_bug*",
    "print_deadlock_bug",
    "print_usage_bug*",
    "print_bad_irq_dependency",
    "print_irq_inversion_bug*",
    "print_unlock_imbalance_bug*",
    "print_lock_invalid_wait_context",
    "lockdep_*",
    "register_lock_class",
    "assign_lock_key",
    "debug_check_no_locks_*",
    "debug_locks_off",
    "___might_sleep",
    "__might_sleep",
    "__might_resched",
    "__might_fault",
    "might_fault",
    "__schedule_bug",
    "spin_dump",
    "spin_bug",
    "do_raw_*",
    "_raw_*",
    "__raw_*",
    "queued_spin_lock_slowpath",
    "native_queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
    "__pv_queued_spin_lock_slowpath",
    // Locks: their caller is meant.
    "__mutex_lock*",
    "mutex_lock*",
    "__ww_mutex_lock*",
    "ww_mutex_lock*",
    "__rt_mutex*",
    "rt_mutex*",
    "rtlock_slowlock*",
    "rwsem_down_*",
    "__down*",
    "down",
    "down_*",
    "rwbase_*",
    "percpu_down_*",
    "__percpu_down_read",
];

/// Functions that identify a defect only if the kernel was in them itself. Further up in a stack they only show how it
/// came to wait, to be interrupted or to need memory.
const PASSAGES: &[&str] = &[
    // Waiting.
    "__schedule",
    "schedule*",
    "preempt_schedule*",
    "__preempt_schedule*",
    "__cond_resched",
    "_cond_resched",
    "io_schedule*",
    "context_switch",
    "__switch_to*",
    "percpu_rwsem_wait",
    "wait_for_completion*",
    "__wait_for_common",
    "do_wait_for_common",
    "__wait_on_bit*",
    "out_of_line_wait_on_bit*",
    "wait_on_bit*",
    "bit_wait*",
    "wait_on_page_bit*",
    "folio_wait_bit*",
    "folio_wait_bit_common",
    "__lock_page*",
    "__folio_lock*",
    "__wait_rcu_gp",
    "__synchronize_srcu*",
    "synchronize_*",
    "do_nanosleep",
    "msleep*",
    "usleep_range*",
    // Watchdogs, stalls, and the timer interrupts that they run in.
    "watchdog_*",
    "watchdog",
    "__perf_event_overflow",
    "nmi_handle",
    "default_do_nmi",
    "do_nmi",
    "end_repeat_nmi",
    "asm_common_interrupt",
    "common_interrupt",
    "handle_pmi_common",
    "intel_pmu_handle_irq",
    "perf_event_nmi_handler",
    "rcu_dump_cpu_stacks",
    "rcu_gp_*",
    "kthread",
    "ret_from_fork*",
    "rcu_check_gp_kthread*",
    "rcu_sched_clock_irq*",
    "rcu_pending",
    "print_cpu_stall*",
    "print_other_cpu_stall",
    "check_cpu_stall*",
    "update_process_times",
    "tick_sched_*",
    "tick_nohz_handler",
    "tick_handle_periodic",
    "tick_periodic",
    "__hrtimer_run_queues",
    "__run_hrtimer",
    "hrtimer_*",
    "__sysvec_*",
    "sysvec_*",
    "asm_sysvec_*",
    "asm_call_*",
    "run_irq_on_irqstack_cond",
    "smp_apic_timer_interrupt",
    "apic_timer_interrupt",
    "local_apic_timer_interrupt",
    "__irq_exit_rcu",
    "irq_exit*",
    "check_hung_*",
    "hung_task_info",
    // Allocation: the caller is meant.
    "warn_alloc*",
    "__alloc_pages*",
    "__alloc_frozen_pages*",
    "alloc_frozen_pages*",
    "alloc_pages*",
    "alloc_page*",
    "__folio_alloc*",
    "folio_alloc*",
    "vma_alloc_folio*",
    "__get_free_pages*",
    "get_free_pages*",
    "get_zeroed_page*",
    "get_page_from_freelist",
    "__alloc_contig_*",
    "alloc_slab_page",
    "allocate_slab",
    "new_slab",
    "___slab_alloc",
    "__slab_alloc*",
    "refill_objects",
    "slab_alloc*",
    "slab_out_of_memory",
    "kmem_cache_alloc*",
    "__kmem_cache_alloc*",
    "kmalloc*",
    "__kmalloc*",
    "___kmalloc*",
    "__do_kmalloc_node",
    "kvmalloc*",
    "__kvmalloc*",
    "krealloc*",
    "vmalloc*",
    "__vmalloc*",
    "vzalloc*",
    "kzalloc*",
    "dump_header",
    "oom_kill_process",
    "__oom_kill_process",
    "out_of_memory",
    "mem_cgroup_out_of_memory",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_no_offset_no_module_and_no_suffix_of_a_compiler() {
        assert_eq!(function("tcp_ack+0x12/0x340"), Some("tcp_ack"));
        assert_eq!(
            function("nf_hook.constprop.0+0x1/0x2 [nf_tables]"),
            Some("nf_hook")
        );
        assert_eq!(function("0x7f00+0x1/0x2"), None);
        assert_eq!(function("a b+0x1/0x2"), None);
        assert_eq!(function("tcp_ack"), None);
        assert_eq!(function("libc.so.6[7f0000+18a000]"), None);
    }

    #[test]
    fn lines_of_a_report_name_the_place_in_the_kernel() {
        assert_eq!(
            place("RIP: 0010:tcp_ack+0x1/0x2"),
            Some(Place::Instruction("tcp_ack"))
        );
        assert_eq!(
            place("RIP: e030:tcp_ack+0x1/0x2"),
            Some(Place::Instruction("tcp_ack"))
        );
        assert_eq!(
            place("pc : tcp_ack+0x1/0x2"),
            Some(Place::Instruction("tcp_ack"))
        );
        assert_eq!(place("RIP: 0033:0x7f0123456789"), None);
        assert_eq!(
            place(" tcp_ack+0x1/0x2 [ipv4 0a1b]"),
            Some(Place::Frame("tcp_ack"))
        );
        assert_eq!(
            place(" [<ffffffff81000000>] tcp_ack+0x1/0x2"),
            Some(Place::Frame("tcp_ack"))
        );
        assert_eq!(place(" ? tcp_ack+0x1/0x2"), Some(Place::Doubtful));
        assert_eq!(
            place("ffff8881 (&lock){+.+.}-{3:3}, at: tcp_ack+0x1/0x2"),
            Some(Place::Acquired("tcp_ack"))
        );
        assert_eq!(place("Hardware name: QEMU"), None);
        assert_eq!(place(" </TASK>"), None);
    }

    #[test]
    fn what_only_reports_or_locks_is_a_check_and_what_waits_or_allocates_a_passage() {
        for name in [
            "dump_stack_lvl",
            "_raw_spin_lock_irqsave",
            "mutex_lock",
            "refcount_warn_saturate",
        ] {
            assert!(is_check(name) && is_passage(name), "{name}");
        }
        for name in [
            "__schedule",
            "kmem_cache_alloc_node_noprof",
            "asm_sysvec_apic_timer_interrupt",
        ] {
            assert!(!is_check(name) && is_passage(name), "{name}");
        }
        for name in [
            "tcp_sendmsg",
            "dev_watchdog",
            "ext4_find_entry",
            "do_exit",
            "download",
        ] {
            assert!(!is_passage(name), "{name}");
        }
    }
}
