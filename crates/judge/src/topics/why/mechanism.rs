//! Mechanisms: the purpose of a function, by its name. Also the names under which functions of different kernels are compared.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::LazyLock;

use record::account::{Domain, Function};
use record::verdict::mechanism::Mechanism;

pub mod knobs;
mod rules;

/// The mechanism of a function; `None` if no rule has its name, and it counts for its caller's mechanism.
pub fn of(function: &Function) -> Option<Mechanism> {
    match &function.domain {
        Domain::User(_) => Some(Mechanism::User),
        Domain::InterruptsOff => Some(Mechanism::Unattributable),
        Domain::Kernel | Domain::Module(_) => of_kernel(normalized(&function.name)),
    }
}

/// The name under which a function is compared with others: `BINARY: NAME` in programs.
///
/// Kernel and modules share their names, because one kernel may build in what another has as a module.
pub fn compared_name(function: &Function) -> String {
    let normal = normalized(&function.name);
    match &function.domain {
        Domain::Kernel if normal.is_empty() => "(kernel code without a symbol)".into(),
        Domain::Module(name) if name.is_empty() && normal.is_empty() => {
            "(outside kernel and modules)".into()
        }
        Domain::Module(name) if normal.is_empty() => format!("(module {name})"),
        Domain::Kernel | Domain::InterruptsOff | Domain::Module(_) => alias(normal).to_string(),
        Domain::User(file) if file.is_empty() => "(program not known)".into(),
        Domain::User(file) if normal.is_empty() => file.clone(),
        Domain::User(file) => format!("{file}: {normal}"),
    }
}

/// The compared name of the only function that jumps to this one: `memset` for `memset_orig`, and for a function's `.cold` part.
///
/// Both together are one call.
pub fn jumps_from(function: &Function) -> Option<&str> {
    let normal = normalized(&function.name);
    let is_inner = function.name.contains(".cold") || rules::JUMPED_TO.contains(&normal);
    is_inner.then(|| alias(normal))
}

/// The compared name of the function in which a call path sleeps: the innermost one without a rule in `WAYS_TO_SLEEP`.
///
/// Kernels and compilers differ in the functions around it.
pub fn sleeping_function(path: &str) -> &str {
    let mut inwards = path.split(';').map(normalized);
    let innermost = inwards.clone().next_back().unwrap_or_default();
    let sleeping = inwards.rfind(|name| !is_way_to_sleep(name));
    alias(sleeping.unwrap_or(innermost))
}

fn is_way_to_sleep(name: &str) -> bool {
    rules::WAYS_TO_SLEEP.iter().any(|way| {
        way.strip_suffix('*')
            .map_or(*way == name, |beginning| name.starts_with(beginning))
    })
}

/// A name without prefixes and suffixes that compilers and the kernel's macros add.
fn normalized(name: &str) -> &str {
    let name = name.strip_prefix("__pfx_").unwrap_or(name);
    // `.isra.0`, `.constprop.0`, `.part.0`, `.cold`, `.llvm.123`: names of C, C++ and Rust have no dots.
    let name = match name.find('.') {
        Some(dot) if dot > 0 => &name[..dot],
        Some(_) | None => name,
    };
    name.strip_suffix("_noprof").unwrap_or(name)
}

fn alias(name: &str) -> &str {
    static ALIASES: LazyLock<HashMap<&str, &str>> =
        LazyLock::new(|| rules::ALIASES.iter().copied().collect());
    ALIASES.get(name).copied().unwrap_or(name)
}

/// `rules::RULES`, indexed for look-up.
#[derive(Default)]
struct Rules {
    whole: HashMap<&'static str, Mechanism>,
    beginnings: HashMap<&'static str, Mechanism>,
    /// Lengths of beginnings, the longest first.
    lengths: Vec<usize>,
    /// The longest first.
    parts: Vec<(&'static str, Mechanism)>,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let mut all = Rules::default();
    let words = rules::RULES.iter().flat_map(|(mechanism, words)| {
        words.split_whitespace().map(move |word| (word, *mechanism))
    });
    for (word, mechanism) in words {
        match (word.strip_prefix('*'), word.strip_suffix('*')) {
            (None, None) => drop(all.whole.insert(bare(word), mechanism)),
            (None, Some(beginning)) => drop(all.beginnings.insert(bare(beginning), mechanism)),
            (Some(part), _) => all.parts.push((part.trim_end_matches('*'), mechanism)),
        }
    }
    all.lengths = all.beginnings.keys().map(|text| text.len()).collect();
    all.lengths.sort_unstable_by_key(|length| Reverse(*length));
    all.lengths.dedup();
    all.parts.sort_by_key(|(text, _)| Reverse(text.len()));
    all
});

/// A name without leading underscores, and without the prefix of position-independent code, which runs before relocation.
fn bare(name: &str) -> &str {
    let name = name.strip_prefix("__pi_").unwrap_or(name);
    name.trim_start_matches('_')
}

/// Prefixes of system calls: for 64-bit programs, for 32-bit ones, and of inner functions.
const SYSTEM_CALLS: [&str; 6] = [
    "x64_sys_",
    "ia32_sys_",
    "ia32_compat_sys_",
    "se_sys_",
    "do_sys_",
    "do_compat_sys_",
];

fn of_kernel(name: &str) -> Option<Mechanism> {
    let name = bare(name);
    let direct = by_rules(name);
    let call = SYSTEM_CALLS
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix));
    match call {
        // `do_sys_poll` and `x64_sys_call` have separate rules.
        Some(_) if RULES.whole.contains_key(name) => direct,
        Some(call) => by_rules(&format!("sys_{call}")),
        None => direct,
    }
}

fn by_rules(name: &str) -> Option<Mechanism> {
    let rules = &*RULES;
    let begins = |length: &usize| rules.beginnings.get(name.get(..*length)?).copied();
    let contains = |(text, _): &&(&str, Mechanism)| name.contains(text);
    let whole = rules.whole.get(name).copied();
    let beginning = || rules.lengths.iter().find_map(begins);
    whole
        .or_else(beginning)
        .or_else(|| rules.parts.iter().find(contains).map(|rule| rule.1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn kernel(name: &str) -> Function {
        Function {
            name: name.into(),
            domain: Domain::Kernel,
        }
    }

    /// Names from kallsyms of Debian's 5.10, 6.1, 6.12 and 7.2, selected from what servers execute.
    const KNOWN: [(Mechanism, &str); 23] = [
        (
            Mechanism::Scheduler,
            "__schedule finish_task_switch.isra.0 pick_next_task_fair pick_eevdf update_curr enqueue_task_fair dequeue_entities \
             place_entity avg_vruntime psi_group_change psi_task_switch try_to_wake_up ttwu_do_activate __switch_to __switch_to_asm \
             select_task_rq_fair check_preempt_wakeup_fair wakeup_preempt sched_balance_newidle newidle_balance scheduler_tick sched_tick \
             __wake_up_common_lock default_wake_function autoremove_wake_function update_load_avg __update_load_avg_cfs_rq \
             __update_load_avg_se cpuacct_charge resched_curr dl_server_update vruntime_eligible set_next_entity.isra.0",
        ),
        (
            Mechanism::TcpIp,
            "tcp_sendmsg_locked tcp_v4_rcv tcp_ack __tcp_transmit_skb tcp_rcv_established ip_queue_xmit __ip_queue_xmit ip_rcv \
             ip_finish_output2 __dev_queue_xmit __netif_receive_skb_core.constprop.0 process_backlog net_rx_action nf_hook_slow \
             sock_sendmsg __sock_sendmsg __sys_sendto __x64_sys_recvfrom sk_stream_wait_memory tcp_cleanup_rbuf inet_recvmsg \
             loopback_xmit veth_xmit lock_sock_nested release_sock validate_xmit_skb skb_clone __copy_skb_header \
             cubictcp_cong_avoid tcp_wfree sock_wfree __inet_lookup_established dev_hard_start_xmit",
        ),
        (
            Mechanism::Copying,
            "copy_user_generic_string copy_user_enhanced_fast_string rep_movs_alternative memcpy memcpy_orig memmove _copy_to_iter \
             _copy_from_iter __check_object_size _copy_to_user csum_partial_copy_generic strncpy_from_user copy_page_to_iter",
        ),
        (
            Mechanism::Zeroing,
            "memset memset_erms memset_orig clear_page_rep clear_page_erms clear_page_orig rep_stos_alternative clear_huge_page",
        ),
        (
            Mechanism::Allocation,
            "kmem_cache_alloc_noprof kmem_cache_alloc kmem_cache_free kfree __kmalloc_node_track_caller_noprof ___slab_alloc __slab_free \
             __alloc_skb kmalloc_reserve get_page_from_freelist __alloc_pages __alloc_frozen_pages_noprof rmqueue_bulk free_unref_page \
             free_frozen_pages skb_release_data kfree_skbmem napi_skb_cache_put __build_skb_around page_frag_free __refill_objects_any",
        ),
        (
            Mechanism::Paging,
            "exc_page_fault asm_exc_page_fault handle_mm_fault do_anonymous_page filemap_map_pages switch_mm_irqs_off flush_tlb_mm_range \
             mas_walk lock_vma_under_rcu unmap_page_range __x64_sys_mmap vma_merge",
        ),
        (
            Mechanism::Cgroups,
            "__memcg_slab_post_alloc_hook obj_cgroup_charge mod_objcg_state refill_obj_stock try_charge_memcg page_counter_try_charge \
             __mod_memcg_lruvec_state cgroup_rstat_updated __count_memcg_events",
        ),
        (
            Mechanism::Vfs,
            "vfs_read vfs_write path_openat link_path_walk.part.0.constprop.0 __d_lookup_rcu lookup_fast filemap_read __fget_light \
             fput do_sys_openat2 __x64_sys_openat __x64_sys_sendfile64 do_sendfile splice_direct_to_actor generic_file_splice_read \
             filemap_splice_read ext4_file_read_iter ovl_open touch_atime fsnotify step_into terminate_walk xas_load shmem_file_read_iter",
        ),
        (
            Mechanism::BlockIo,
            "blk_mq_submit_bio submit_bio_noacct bio_endio virtqueue_add_split virtblk_add_req __blk_mq_issue_directly scsi_queue_rq",
        ),
        (
            Mechanism::Epoll,
            "do_epoll_wait ep_poll ep_poll_callback ep_send_events __x64_sys_epoll_wait do_epoll_ctl tcp_poll sock_poll ep_item_poll.isra.0 \
             __x64_sys_poll do_sys_poll core_sys_select",
        ),
        (
            Mechanism::Locks,
            "_raw_spin_lock _raw_spin_lock_bh _raw_spin_unlock_irqrestore mutex_lock mutex_unlock down_read up_write futex_wake \
             do_futex __x64_sys_futex native_queued_spin_lock_slowpath rwsem_down_write_slowpath osq_lock __rt_mutex_slowlock_locked.constprop.0",
        ),
        (
            Mechanism::Rcu,
            "__rcu_read_lock __rcu_read_unlock rcu_core call_rcu __call_rcu_common.constprop.0 rcu_segcblist_enqueue note_gp_changes",
        ),
        (
            Mechanism::Timers,
            "hrtimer_interrupt __hrtimer_run_queues tick_sched_timer tick_nohz_handler read_tsc ktime_get native_sched_clock sched_clock_cpu \
             mod_timer __mod_timer update_process_times lapic_next_deadline timerqueue_add run_timer_softirq update_wall_time",
        ),
        (
            Mechanism::Interrupts,
            "__do_softirq handle_softirqs do_softirq.part.0 __local_bh_enable_ip sysvec_apic_timer_interrupt asm_sysvec_apic_timer_interrupt \
             irq_exit_rcu __common_interrupt handle_edge_irq raise_softirq_irqoff native_apic_msr_eoi __queue_work process_one_work",
        ),
        (
            Mechanism::EntryExit,
            "entry_SYSCALL_64 entry_SYSCALL_64_after_hwframe do_syscall_64 x64_sys_call syscall_exit_to_user_mode \
             exit_to_user_mode_prepare irqentry_exit error_entry switch_fpu_return syscall_return_via_sysret sync_regs",
        ),
        (
            Mechanism::Mitigations,
            "__x86_return_thunk __x86_indirect_thunk_rax srso_return_thunk clear_bhb_loop entry_ibpb its_return_thunk \
             __x86_indirect_thunk_array retbleed_untrain_ret",
        ),
        (
            Mechanism::Security,
            "apparmor_file_permission security_file_permission aa_file_perm common_file_perm security_socket_sendmsg cap_capable \
             __audit_syscall_entry __seccomp_filter inode_permission",
        ),
        (
            Mechanism::Processes,
            "copy_process do_exit kernel_clone __x64_sys_execve load_elf_binary get_signal __x64_sys_rt_sigprocmask do_wait dup_task_struct",
        ),
        (
            Mechanism::Tracing,
            "bpf_prog_6deef7357e7b4530 __bpf_prog_run32 kprobe_ftrace_handler trace_event_raw_event_sched_switch perf_event_task_tick \
             __perf_event_task_sched_out bpf_trace_run4 ring_buffer_lock_reserve",
        ),
        (
            Mechanism::Crypto,
            "sha256_transform_rorx crypto_shash_update chacha_block_generic get_random_bytes crc32c_pcl_intel_update mpihelp_mul_1",
        ),
        (Mechanism::User, ""),
        (Mechanism::Unattributable, ""),
        (Mechanism::Other, ""),
    ];

    #[test]
    fn known_names_of_four_kernels_have_their_mechanism() {
        let mut wrong = Vec::new();
        for (want, names) in KNOWN {
            for name in names.split_whitespace() {
                let got = of(&kernel(name));
                if got != Some(want) {
                    wrong.push(format!("{name}: {got:?}, not {want:?}"));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn names_without_a_rule_count_for_their_callers() {
        for name in [
            "rb_insert_color",
            "strlen",
            "_find_next_bit",
            "memcmp",
            "__list_add_valid_or_report",
            "",
        ] {
            assert_eq!(of(&kernel(name)), None, "{name}");
        }
    }

    #[test]
    fn code_of_programs_is_user_code_whatever_its_name() {
        let memcpy = Function {
            name: "memcpy".into(),
            domain: Domain::User("libc.so.6".into()),
        };
        assert_eq!(of(&memcpy), Some(Mechanism::User));
        assert_eq!(compared_name(&memcpy), "libc.so.6: memcpy");
    }

    #[test]
    fn renamed_functions_have_one_name() {
        for (name, want) in [
            ("finish_task_switch.isra.0", "finish_task_switch"),
            ("link_path_walk.part.0.constprop.0", "link_path_walk"),
            ("page_frag_alloc_align.cold", "page_frag_alloc_align"),
            ("__pfx_tcp_ack", "tcp_ack"),
            ("kmem_cache_alloc_noprof", "kmem_cache_alloc"),
            ("copy_user_enhanced_fast_string", "rep_movs_alternative"),
            ("__alloc_pages", "__alloc_frozen_pages"),
            ("__alloc_frozen_pages_noprof", "__alloc_frozen_pages"),
            ("kmalloc_trace", "__kmalloc_cache"),
            ("__kmalloc_cache_noprof", "__kmalloc_cache"),
            ("memset_erms", "memset"),
            ("scheduler_tick", "sched_tick"),
        ] {
            assert_eq!(compared_name(&kernel(name)), want);
        }
        let module = Function {
            name: "virtblk_done".into(),
            domain: Domain::Module("virtio_blk".into()),
        };
        assert_eq!(
            compared_name(&module),
            compared_name(&kernel("virtblk_done"))
        );
    }

    #[test]
    fn a_sleep_has_one_name_although_kernels_go_to_sleep_by_different_paths() {
        let switch = "schedule;__schedule;__switch_to";
        for (path, want) in [
            ("ret_from_fork;kthread;kcompactd", "kcompactd"),
            (
                "ret_from_fork_asm;ret_from_fork;kthread;kcompactd",
                "kcompactd",
            ),
            ("do_futex;futex_wait;futex_wait_queue_me", "futex_wait"),
            ("do_futex;futex_wait;futex_wait_queue", "futex_wait"),
            (
                "do_futex;futex_wait;__futex_wait;futex_do_wait",
                "futex_wait",
            ),
            ("kthread;rcu_gp_kthread;rcu_gp_fqs_loop", "rcu_gp_kthread"),
            (
                "__x64_sys_ppoll;do_sys_poll;poll_schedule_timeout.constprop.0",
                "do_sys_poll",
            ),
            (
                "__x64_sys_epoll_wait;do_epoll_wait;ep_poll",
                "do_epoll_wait",
            ),
            (
                "tcp_recvmsg;tcp_recvmsg_locked;sk_wait_data;wait_woken",
                "sk_wait_data",
            ),
        ] {
            assert_eq!(sleeping_function(path), want);
            assert_eq!(sleeping_function(&format!("{path};{switch}")), want);
        }
        assert_eq!(sleeping_function(switch), "__switch_to");
    }

    #[test]
    fn rules_are_unique_and_aliases_keep_their_mechanism() {
        let mut seen: BTreeMap<&str, Mechanism> = BTreeMap::new();
        let mut contradictions = Vec::new();
        for (mechanism, words) in rules::RULES {
            for word in words.split_whitespace() {
                let exact = word.trim_start_matches('_');
                let other = seen
                    .insert(exact, *mechanism)
                    .filter(|other| other != mechanism);
                if let Some(other) = other {
                    contradictions.push(format!("{word}: {other:?} and {mechanism:?}"));
                }
            }
        }
        assert!(contradictions.is_empty(), "{}", contradictions.join("\n"));
        let mut wrong = Vec::new();
        for (old, new) in rules::ALIASES {
            let both = [of(&kernel(old)), of(&kernel(new))];
            if both[0] != both[1] || old == new {
                wrong.push(format!("{old} -> {new}: {both:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
