//! Names of kernel functions by mechanism: 5.10 to 7.x, x86-64.
//!
//! `name` matches that name alone, `name*` names that begin with it, `*name*` names that contain it. A whole name takes
//! precedence, then the longest beginning, then the longest part. Leading underscores are removed, and `sys_` stands for all
//! prefixes of system calls. Functions without a rule count for their caller's mechanism.

use record::verdict::mechanism::Mechanism;
use record::verdict::mechanism::Mechanism::{
    Allocation, BlockIo, Cgroups, Copying, Crypto, EntryExit, Epoll, Interrupts, Locks,
    Mitigations, Paging, Processes, Rcu, Scheduler, Security, TcpIp, Timers, Tracing, Vfs, Zeroing,
};

/// The rules, separated by blanks.
pub(crate) const RULES: &[(Mechanism, &str)] = &[
    (
        Scheduler,
        "account_idle* account_process_tick account_steal* account_system_* account_user_time \
         accumulate_pelt_segments accumulate_sum accumulate_thread_* activate_task \
         add_wait_queue* arch_cpu_idle* arch_scale_* attach_entity* attach_task* \
         autoremove_wake_function available_idle_cpu avg_vruntime balance_* bit_wait* \
         calc_global_load* calc_load_* can_migrate_* cfs_* check_preempt* clear_buddies \
         complete complete_all complete_with_flags cond_resched* context_switch core_sched* \
         cpu_idle_* cpu_startup_entry cpu_util* cpuacct_* cpufreq_this_cpu* \
         cpufreq_update_util* cpuidle_* cpus_share_cache cputime_* deactivate_task dec_rt_tasks \
         decay_load default_idle* default_wake_function dequeue_entities dequeue_entity \
         dequeue_pushable* dequeue_task* detach_entity* detach_task* dl_se_* dl_server_* \
         dl_task_timer do_idle do_sched_* do_task_dead double_rq_lock effective_cpu_util \
         enqueue_entity enqueue_pushable* enqueue_task* enter_lazy_tlb entity_* find_idlest* \
         finish_swait finish_task_switch* finish_wait groups_* hrtick hrtick_* idle_cpu \
         inc_rt_tasks init_wait_entry io_schedule* is_core_idle kick_ilb* \
         ktime_get_seconds_sched load_balance* menu_* migrate_task* migration_* min_vruntime* \
         mm_cid_* mm_get_cid move_queued_task* need_active_balance newidle_balance nohz_* \
         nohz_balance* nohz_run* nr_context_switches* nr_iowait* nr_running* ops_cpu_* \
         out_of_line_wait_on_bit* pelt_* pick_eevdf pick_first_entity pick_idle_cpu* \
         pick_last_entity pick_next* pick_root_entity pick_task* place_entity preempt_schedule* \
         prepare_task_switch* prepare_to_swait* prepare_to_wait* prio_changed* propagate_* \
         psi_* pull_*_task* push_*_task* put_prev_* put_task_stack* raw_spin_rq_* rb_*_cached* \
         rebalance_* record_times record_wakee* remove_wait_queue* requeue_* resched_* \
         reweight_* rq_* rt_se_* run_rebalance_domains sched sched_* schedule schedule_* \
         scheduler_* schedutil_* scx_* se_is_idle select_cpu_* select_fallback_rq select_idle* \
         select_task_rq* set_*_buddy set_cpus_allowed* set_load_weight set_next_* set_task_cpu \
         stop_one_cpu* sugov_* swake_up* switch_to switch_to_asm switch_to_xtra switched_* \
         sys_sched_* task_fork* task_h_load task_numa* task_of task_scan* task_tick_* task_unlink_from_dsq* task_woken* \
         task_work_run_sched teo_* tg_* thread_group_cputime* throttle_cfs* tick_nohz_idle_* \
         trigger_load_balance try_to_wake_up* ttwu_* uclamp_* unthrottle_cfs* update_averages \
         update_blocked* update_cfs* update_curr* update_dl_* update_entity_lag \
         update_group_capacity update_idle* update_idle_core update_irq_load_avg \
         update_load_avg* update_load_sum* update_min_vruntime update_misfit* update_newidle* \
         update_rq_clock* update_rt_* update_sd_* update_se update_sg_* update_stats_* \
         update_tg_* util_est* vruntime_* vtime_* wait_for_completion* wait_woken wake_affine* \
         wake_bit_function wake_q_* wake_up wake_up_* wake_wide wakeup_gran wakeup_preempt* \
         walk_tg_* woken_wake_function yield yield_*",
    ),
    (
        TcpIp,
        "af_unix* arp_* backlog_* bbr_* bictcp_* br_* bridge_* busy_poll* conntrack* \
         consume_skb* consume_stateless_skb copy_msghdr* copy_skb_header csk_* ct_nf* \
         cubictcp_* datagram_* deliver_skb dev_* do_accept do_ip_* do_recvmmsg do_sock_* \
         do_tcp_* dql_* dst_* enqueue_to_backlog established_get* eth_* eth_type_trans ether_* \
         fib4_* fib6_* fib_* flow_* fq_* free_old_xmit* get_rps_cpu gro_* gso_* icmp_* icmpv6_* \
         import_msghdr inet4_* inet6_* inet_* inet_bhash* inet_csk_* inet_ehash* inet_gro* \
         inet_lookup* io_uring_net* ip4_* ip6_* ip_* ipmr_* ipt_* ipv4_* ipv6_* kfree_skb_list* \
         kick_defer_list* llc_* lock_sock* lookup_reuseport* loopback_* lwtunnel_* minmax_* \
         minmax_running* move_addr_to_* mptcp_* mq_* msg_zerocopy_* msghdr_* mtu* napi_* \
         neigh_* net_* netdev_* netif_* netlink_* netns_* newreno* nf_* nft_* nla_* nlmsg_* \
         noop_* nskb_* packet_* page_to_skb peernet2id* pfifo_* process_backlog proto_* pskb_* \
         put_cmsg* qdisc_* rack_* raw_local* raw_rcv* raw_recvmsg raw_sendmsg raw_v4* \
         receive_buf receive_mergeable receive_sock receiver_wake_function release_sock \
         release_sock* reno_* reqsk_* request_sock* retransmits_timed_out rfs_* rps_* rt_cache* \
         rt_dst* rt_set* rtnetlink_* rtnl_* run_backlog_napi sch_* scm_* secure_ipv* \
         secure_tcp* sendmsg_* siphash_aligned* sk_* sk_stream_* skb_* skbuff_* sock sock_* \
         socket_* sockfd_* sockfs_* sockopt_* sockptr* start_xmit stream_* sys_accept* sys_bind \
         sys_connect sys_getpeername sys_getsockname sys_getsockopt sys_listen sys_recv \
         sys_recvfrom sys_recvmmsg sys_recvmsg sys_send sys_sendfile_sock sys_sendmmsg \
         sys_sendmsg sys_sendto sys_setsockopt sys_shutdown sys_socket* tc_* tcf_* tcp4_* \
         tcp6_* tcp_* tcpv* timewait_* tpacket_* trigger_rx_softirq try_fill_recv* tso_* \
         tw_timer_handler twsk_* udp_* udpv* unix_* validate_linkmsg validate_xmit* veth_* \
         virtnet_* vlan_* xdp_* xfrm_* xmit_* xsk_* xt_* zerocopy_*",
    ),
    (
        Copying,
        "*copy_user_generic* *hardened_usercopy* bad_range check_heap_object check_object_size \
         check_stack_object copy_compat_iovec* copy_folio* copy_from_iter* copy_from_user* \
         copy_highpage* copy_mc_* copy_page copy_page_* copy_string* copy_to_iter* \
         copy_to_user* copy_user* copyin copyin_* copyout copyout_* csum_and_copy* \
         csum_partial* do_csum get_user_* get_user_nocheck* hash_and_copy* iovec_from_user \
         memcpy memcpy_* memcpy_from* memcpy_to* memmove memmove_* put_user_* put_user_nocheck* \
         raw_copy_* rep_movs_alternative simple_copy_to_iter sized_strscpy skb_copy_and_csum* \
         skb_copy_bits* skb_copy_datagram* skb_copy_to_* skb_datagram_iter \
         skb_do_copy_data_nocache* strcpy strlcpy strncpy strncpy_from_user* strnlen_user \
         strscpy* usercopy_*",
    ),
    (
        Zeroing,
        "bzero clear_contig* clear_gigantic* clear_highpage* clear_huge_page* clear_page* \
         clear_pages* clear_subpage clear_user* folio_zero_* init_on_* kernel_init_pages memset \
         memset16 memset32 memset64 memset_* memset_erms memset_orig memzero_* \
         rep_stos_alternative zero_fill* zero_user*",
    ),
    (
        Allocation,
        "*_cache_alloc* add_partial* alloc_bulk* alloc_contig* alloc_from_pcs* alloc_frozen* \
         alloc_full_sheaf* alloc_page* alloc_pages* alloc_percpu* alloc_skb* alloc_slab* \
         alloc_vmap_area* allocate_slab* balance_pgdat barn_* buddy_* build_skb* bulk_free* \
         cache_* cache_from_obj compact_* deactivate_slab* decay_pcp* decode_stackdepot* \
         defer_free* del_page_from_free* discard_slab* dma_alloc* dma_pool* do_slab_free \
         drain_* expand fill_pool* finalize_skb* find_suitable_fallback find_vmap_area* \
         folio_batch* folio_put* folios_put* free_folio* free_frozen_* free_hot_cold* \
         free_large_kmalloc* free_one_page* free_page* free_pages* free_pcp* free_percpu* \
         free_prepared_* free_sheaf* free_slab* free_tail_page_prepare free_to_pcs* free_unref* \
         free_vmap_area* gen_pool* get_any_partial* get_free_page* get_from_any_partial* \
         get_from_partial* get_page_from_freelist get_partial* get_pfnblock* get_zeroed_page* \
         gfp_pfmemalloc_allowed ida_* ida_alloc* idr_* init_object* isolate_* kfree kfree_* \
         kfree_skb* kfree_skbmem kmalloc* kmalloc_reserve kmem_* kmem_cache_* kmemdup* \
         krealloc* ksize kswapd* kvfree* kvmalloc* kzalloc* list_lru_* lru_* mempool_* \
         mm_account_reclaimed_pages move_freepages* napi_alloc_* napi_build* napi_consume* \
         napi_get_frags* napi_skb_* netdev_alloc* netdev_frag* new_slab* node_alloc* nr_free_* \
         object_err* page_cache_release page_frag_* page_pool_* pagevec* pcpu_* pcs_* poison_* \
         post_alloc_hook prep_compound* prep_new_page* prepare_alloc_pages* put_cpu_partial* \
         put_page* put_pages_list radix_tree_node_alloc rcu_free_sheaf* refill_objects* \
         refill_pi* refill_sheaf* release_pages* rmqueue* set_freepointer set_pfnblock* \
         setup_object* sheaf_* should_fail_alloc* should_failslab shrink_* skb_clone_fclone* \
         skb_free_head skb_kfree* skb_page_frag* skb_panic* skb_release_* slab_* slub_* \
         split_large_buddy split_page stack_depot_* steal_suitable* unfreeze_partials* vfree* \
         vmalloc* vmap* vunmap* zone_* zone_watermark*",
    ),
    (
        Paging,
        "*_mm_fault access_error account_kernel_stack* alloc_vma* anon_vma_* arch_get_unmapped* \
         arch_invlpg* asm_exc_page_fault bad_area* brk_* can_vma_merge* change_p* \
         change_page_attr* change_protection* commit_merge copy_page_range copy_pmd* copy_pte* \
         cpa_* do_anonymous_page* do_brk* do_cow_fault do_fault* do_huge_* do_mmap* do_munmap* \
         do_pte_* do_read_fault do_set_pte do_swap_page do_user_addr_fault do_vmi_* do_wp_page* \
         exc_page_fault exit_mmap expand_downwards expand_stack* fault_* faultin_* \
         filemap_fault* filemap_map_pages* find_mergeable* find_vma* finish_fault flush_tlb* \
         folio_add_anon* folio_add_file* folio_add_new_anon* folio_move_anon* \
         folio_remove_rmap* follow_page* free_p4d* free_pgd* free_pgtables free_pte* free_pud* \
         get_unmapped_area* get_user_pages* gup_* handle_mm_fault huge_* hugetlb_* inc_mm_tlb* \
         insert_vm* is_mergeable* kernel_page_table* khugepaged* ksys_mmap* lazy_mmu* \
         load_new_mm_cr3 lock_mm_* lock_vma_* ma_* madvise_* map_pages mas_* mlock* mm_counter* \
         mm_cpumask* mm_update* mmap_* mmu_* mpol_* mprotect_* mremap_* mt_* mtree_* munmap* \
         native_flush_tlb* native_pgd* native_set_pte* native_write_cr3 numa_* p4d_* page_add_* \
         page_move* page_remove_* pgd_* pin_user* pmd_* pmd_alloc* pmdp_* pte_* ptep_* pud_* \
         release_pte* remap_* remove_vma rmap_* set_memory_* set_p4d* set_pmd* set_pte* \
         set_pud* split_vma swap_* swapin_* switch_ldt switch_mm* sync_regs_fault sys_brk \
         sys_madvise sys_mmap* sys_mprotect sys_mremap sys_munmap thp_* tlb_* tlb_flush* \
         transparent_* unlink_*_vmas unmap_* unmapped_area* vm_* vm_area_* vm_normal_* vma_* \
         vms_* wp_page_* zap_*",
    ),
    (
        Cgroups,
        "*_memcg* account_slab* blkcg_* blkg_* cancel_charge* cgroup1_* cgroup_* charge_memcg* \
         consume_obj_stock consume_stock* count_memcg* cpuset_* css_* current_obj_cgroup \
         dec_node* dec_zone* drain_obj* drain_stock* folio_memcg_* get_obj_cgroup* inc_lruvec* \
         inc_node* inc_zone* iocg_* kernfs_* lock_page_memcg lruvec_* lruvec_stat* mem_cgroup* \
         memcg* mod_lruvec* mod_memcg* mod_node_page* mod_node_state* mod_objcg* mod_zone_page* \
         obj_cgroup* page_counter* pids_* propagate_protected_usage refill_obj* refill_stock* \
         rstat_* try_charge* unaccount_slab* uncharge_* unlock_page_memcg",
    ),
    (
        Vfs,
        "add_to_page_cache* aio_* alloc_empty_file* alloc_fd* alloc_file* alloc_pipe_info \
         anon_* anon_inode* anon_pipe* atime_* balance_dirty* bh_* block_* bprm_* btrfs_* \
         buffer_* build_open_* bvec_* chmod_common chown_common close_fd* complete_walk \
         cp_new_stat* cp_statx create_pipe* current_time* d_* dcache_* debugfs_* delayed_fput \
         dentry_* devpts_* dget* dir_* direct_splice* dnotify* do_close* do_dentry_open do_dup* \
         do_faccessat do_fcntl do_file_open* do_filp_open do_fsync* do_getname* do_iter_* \
         do_lookup* do_loop_readv* do_mkdirat do_open* do_page_cache_ra do_pipe* do_preadv \
         do_pwritev do_readlinkat do_readv* do_renameat2 do_rmdir do_sendfile do_splice* \
         do_statx* do_sys_open* do_unlinkat do_writepages do_writev* dput* drop_* dup_fd \
         eventfd_* evict* expand_files ext2_* ext4_* f_* fanotify_* fasync_* fcntl_* fd_* \
         fdget* fget* fifo_* file_* file_modified* file_update_time* filemap_* filename_* \
         filldir* filp_* filp_close* find_get_* find_inode* find_lock_* flock_* folio_* \
         folios_* follow_* force_page_cache* fput* free_pipe_info fsnotify* full_name_hash \
         fuse_* generic_* get_pipe_info get_tree* get_unused_fd* getname* grab_cache_page* \
         handle_dots* handle_mounts* hashlen_string iget* igrab import_iovec \
         import_single_range* import_ubuf init_file* inode_* inotify_* io_* io_getevents* \
         io_submit* io_uring_* iomap_* iov_* iput* iter_* iterate_* iterate_dir* jbd2_* \
         kern_path* kernel_read kernel_write* kiocb_* ksys_* ksys_lseek ksys_pread* \
         ksys_pwrite* ksys_read ksys_write ldsem_* legitimize_* libfs_* link_path_walk* \
         lockref_* locks_* lookup* lookup_* mark_buffer* mark_inode_dirty mark_inode_dirty* \
         mark_page_accessed may_delete* may_lookup* may_open* memfd_* mnt_* mntget* mntput* \
         mount_* mpage_* n_tty_* namespace_* nd_* new_inode* new_sync_* nfs_* notify_change \
         ondemand_readahead* open_last_lookups overlay_* ovl_* page_cache_* page_get_link* \
         page_mapping* pagecache_* path_* percpu_down_write* pick_link pid_* pipe_* posix_lock* \
         proc_* procfs_* pty_* put_unused_fd* putname read_null read_pages* readahead_* \
         readdir* receive_fd* restore_nameidata round_pipe_size rw_verify_area sb_* send_sigio* \
         seq_* set_close_on_exec* set_nameidata* set_root setattr_* shmem_* signalfd_* simple_* \
         splice_* stat_* step_into* submit_bh* super_* sync_* sys_access* sys_chmod sys_chown* \
         sys_close* sys_dup* sys_faccessat* sys_fallocate sys_fchmod* sys_fchown* sys_fcntl* \
         sys_fdatasync sys_flock sys_fstat* sys_fsync sys_ftruncate sys_getcwd sys_getdents* \
         sys_ioctl sys_lseek sys_lstat* sys_mkdir* sys_newfstat* sys_newlstat* sys_newstat* \
         sys_open* sys_pipe* sys_pread* sys_pwrite* sys_read sys_readlink* sys_readv \
         sys_rename* sys_sendfile* sys_splice sys_stat* sys_statx sys_tee sys_truncate \
         sys_unlink* sys_utime* sys_write sys_writev sysfs_* terminate_walk timerfd_* \
         timestamp_* tmpfs_* touch_atime traverse_mounts* try_to_unlazy* tty_* umount_* \
         update_time user_path* vfs_* wait_for_partner walk_component* wb_* wbc_* \
         write_cache_pages write_null writeback_* xa_* xarray_* xas_* xfs_*",
    ),
    (
        BlockIo,
        "ata_* bd_* bdev_* bfq_* bio_* bioset_* biovec_* blk* blk_* blk_mq_* blkdev_* \
         bvec_split* dd_* deadline_* detach_buf* disk_* dm_* dma_direct_* dma_map_* dma_sync_* \
         dma_unmap_* elevator_* elv_* ioc_* iolatency* iommu_* ioprio_* kyber_* lo_* loop_* \
         md_* more_used* mq_ops* nvme_* part_* req_* request_*io* rq_clear* rq_depth* rq_qos* \
         sbitmap_* scsi_* sd_* sg_* submit_bio* swiotlb_* virtblk_* virtio_* virtio_blk* \
         virtqueue* virtqueue_* vp_* vp_notify vring_* wbt_* zram_*",
    ),
    (
        Epoll,
        "*_poll_callback attach_epitem* core_sys_select datagram_poll do_epoll_* do_pollfd* \
         do_select do_sys_poll ep_* ep_poll_callback epoll_* eventpoll_* pipe_poll poll_* \
         poll_schedule* poll_select* pollwait* pollwake rb_first_ep reverse_path_* \
         select_estimate* sock_poll sys_epoll_* sys_poll sys_ppoll sys_pselect* sys_select \
         tcp_poll udp_poll unix_poll unregister_pollwait",
    ),
    (
        Locks,
        "atomic_dec_and_lock* atomic_dec_and_mutex* bit_spin* debug_lockdep* do_futex down \
         down_* fixup_* futex_* get_futex_key* hash_futex* in_lock_functions lg_* local_lock* \
         lock_buffer lock_page* lock_two* lockdep_* mark_wake_futex mcs_spin* mutex* mutex_* \
         native_queued_spin* osq_* owner_on_cpu percpu_down_read percpu_rwsem* percpu_up_* \
         plist_* pv_kick* pv_native_* pv_queued_spin* pv_wait* queued_read* queued_spin* \
         queued_write* raw_read_* raw_spin_lock* raw_spin_trylock* raw_spin_unlock* raw_write_* \
         rcuref_* read_seq* refcount_* rt_mutex* rt_mutex_* rt_spin* rtmutex_* rw_semaphore* \
         rwsem_* seqcount_* seqlock_* spin_* sys_futex* unlock_buffer unlock_page* up up_* \
         wait_on_bit_lock ww_mutex*",
    ),
    (
        Rcu,
        "call_rcu* check_cpu_stall* cleanup_srcu* ct_nmi_* dyntick_* force_qs* invoke_rcu* \
         kvfree_call_rcu kvfree_rcu* note_gp* note_gp_changes* rcu_* rcutree_* srcu_* \
         strict_work* sync_exp* sync_rcu* synchronize_rcu* tasks_rcu* wake_nocb* \
         wakeme_after_rcu",
    ),
    (
        Timers,
        "add_timer* alarm_* base_* calc_load_nohz* calc_wheel_index call_timer_fn clockevents_* \
         clocksource_* collect_expired* common_nsleep* del_timer* delay_tsc* \
         delayed_work_timer_fn detach_if_pending do_clock_* do_nanosleep do_timer* \
         enqueue_hrtimer enqueue_timer* expire_timers fetch_next_timer* forward_timer* \
         get_jiffies* get_next_timer* get_timespec* getnstimeofday* hpet_* hres_timers* \
         hrtimer* hrtimer_* hrtimers_* init_timer* itimer_* jiffies_* ktime_* kvm_clock* \
         lapic_next* lapic_timer* local_clock* lock_hrtimer* mod_timer* msleep* nanosleep* \
         native_sched_clock next_expiry* ns_to_* ntp_* posix_cpu_timer* posix_timer* \
         process_timeout put_timespec* pvclock_* quarantine_timer* rb_next_hrtimer read_tsc \
         remove_hrtimer run_hrtimer* run_local_timers run_posix_cpu* run_timer* run_timer_* \
         sched_clock* schedule_hrtimeout* schedule_timeout* second_overflow set_normalized* \
         sys_alarm sys_clock_* sys_gettimeofday sys_nanosleep sys_setitimer sys_time sys_timer* \
         tick_* tick_do_* tick_sched* timekeeping_* timens_* timer_* timer_list* timerqueue_* \
         timers_* timespec64_* tk_* tmigr_* trigger_dyntick* try_to_del_timer* tsc_* \
         update_process_times update_vsyscall* update_wall_time* usleep_*",
    ),
    (
        Interrupts,
        "ack_* add_interrupt_randomness apic apic_* asm_common_interrupt asm_exc_nmi \
         asm_sysvec_* call_function_* cancel_delayed* cancel_work* common_interrupt csd_* \
         default_send_IPI* delayed_work_* do_irq* do_softirq* enter_irq* exc_nmi exit_irq* \
         find_next_bit_irq find_worker* flush_delayed* flush_smp* flush_work* flush_workqueue* \
         generic_handle* generic_smp_call* get_work_pool* handle_edge* handle_fasteoi* \
         handle_irq* handle_level* handle_nested* handle_percpu* handle_simple* handle_softirqs \
         insert_work* invoke_softirq* io_apic_* ioapic_* irq_* irqaction* irqchip* irqs_* \
         irqtime_* kick_pool* ksoftirqd* kthread kthread_* kworker* lapic_eoi legacy_pic* \
         local_bh_* mask_* mod_delayed_work* move_linked_works msi_* native_apic_* \
         native_send_call* native_smp_* native_smp_send* nmi_* note_interrupt pci_msi* \
         process_one_work* process_scheduled_works pwq_* queue_delayed_work* queue_work* \
         raise_softirq* record_irq_time restart_irq* run_ksoftirqd send_call_function* \
         set_work_* smp_* smp_call* smpboot_* softirq_* spurious_* sysvec_* tasklet_* \
         try_to_grab_pending unmask_* virtblk_done vp_interrupt vp_vring_interrupt \
         vring_interrupt wakeup_softirqd work_* worker_* workqueue_* wq_* x2apic_*",
    ),
    (
        EntryExit,
        "arch_exit_to* asm_exc_* asm_fred* asm_load_gs* common_interrupt_return \
         context_tracking* copy_fpregs* copy_fpstate* copy_xstate* ct_* do_error_trap \
         do_fast_syscall* do_int80* do_syscall_64 do_trap* enter_from_user* entry_INT80* \
         entry_SYSCALL* entry_SYSENTER* entry_text* error_* error_entry error_return exc_* \
         exit_to_user_mode* fire_user_return* fixup_bad_iret fpregs_* fpu_* fred_* \
         ia32_sys_call in_fpu* irqentry_* irqentry_text* kernel_fpu_* kvm_on_user* load_percpu* \
         lookup_syscall* native_iret native_irq_return* native_load_gs* ni_syscall* os_xrstor* \
         os_xsave* paranoid_entry paranoid_exit prepare_exit_to_usermode randomize_kstack* \
         restore_fpregs* restore_regs* resume_user_mode* ret_from_fork* ret_from_intr \
         return_to_user* rseq_* save_fpregs* save_paranoid* swapgs_* switch_fpu* sync_regs \
         sys_* syscall_* task_work_* user_enter* user_exit* user_return_* x64_sys_call xrstor* \
         xsave*",
    ),
    (
        Mitigations,
        "clear_bhb_loop* cond_mitigation entry_ibpb entry_untrain_ret fill_return_buffer* \
         ibpb_* indirect_thunk* its_* l1d_flush* l1tf_* mds_* pti_* retbleed_* spec_ctrl* \
         speculation_* speculative_* srso_* ssb_* untrain_* update_spec* verw_* warn_thunk* \
         write_ibpb write_spec_ctrl* x86_ibpb* x86_indirect_* x86_indirect_thunk* \
         x86_return_thunk x86_verw* x86_virt_spec* zen_untrain*",
    ),
    (
        Security,
        "aa_* abort_creds access_override* acl_* acl_permission* apparmor_* audit* audit_* \
         auditd_* auditsc_* avc_* bpf_lsm_* bpf_prog_seccomp* cap_* capable* check_acl* \
         commit_creds common_file_perm* common_perm* copy_creds cred_* dfa_* evm_* \
         file_ns_capable from_kgid* from_kuid* generic_permission* get_cached_acl* \
         get_task_cred groups_search has_capability* hook_* i_gid* i_uid* idmap* ima_* \
         in_egroup_p in_group_p inode_permission* integrity_* kauditd* key_* keyring_* kmod_* \
         label_* landlock_* lsm_* make_kuid* make_vfsgid* make_vfsuid* map_id* match_mnt* \
         ns_capable* override_creds path_name posix_acl* prepare_creds profile_* put_cred* \
         revert_creds seccomp_* security_* selinux_* smack_* tomoyo_* vfsgid* vfsuid* yama_*",
    ),
    (
        Processes,
        "acct_* alloc_pid* alloc_thread_stack* arch_do_signal* arch_dup* attach_pid* \
         begin_new_exec bprm_execve* change_pid* complete_signal* copy_files copy_fs* copy_mm \
         copy_namespaces copy_process copy_sighand copy_signal copy_strings* copy_thread* \
         create_elf* de_thread dec_rlimit* dequeue_signal* detach_pid* do_exec* do_execve* \
         do_exit do_group_exit do_notify_parent* do_prlimit do_rt_tgsigqueue* do_send_sig* \
         do_send_specific do_sigaction do_signal* do_wait* dup_mm dup_mmap* dup_task* dup_user* \
         elf_* exit_* find_get_pid* find_task_by* find_vpid flush_old* flush_signal* \
         flush_thread* force_sig* fork_* free_pid* free_task* get_signal* get_task_* getrusage* \
         group_send_sig* handle_signal* inc_rlimit* kernel_clone kill_* load_elf_* mm_alloc \
         mm_init mm_release* mmdrop* mmput* nsproxy* pid_nr* prepare_signal proc_exit* \
         proc_fork* ptrace_* put_task_struct* recalc_sigpending* release_task \
         restore_saved_sigmask* restore_sigcontext* rlimit* search_binary* send_sig* \
         send_signal* set_current_blocked* set_user_sig* setup_arg_pages setup_new_exec \
         setup_rt_frame* setup_sigcontext* sig_* signal_* sigprocmask* sigqueue_* start_thread* \
         switch_task_namespaces sys_clone* sys_execve* sys_exit* sys_fork sys_getpid \
         sys_getppid sys_getrusage sys_gettid sys_getuid sys_kill sys_prctl sys_rt_sig* \
         sys_tgkill sys_times sys_tkill sys_uname sys_vfork sys_wait* sys_waitid task_* \
         taskstats_* tgid_* thread_stack* tsk_* unshare_* wait_consider* wait_task* \
         wake_up_new_task",
    ),
    (
        Tracing,
        "*_bpf_prog_* aggr_pre* amd_pmu* arch_ftrace* arch_stack_walk* array_map_* asm_exc_int3 \
         bpf bpf_* bpf_prog_* btf_* console_* cpu_clock_event* ctx_sched_* do_int3* dyn_event* \
         event_sched_* exc_int3 fentry* fprobe_* ftrace_* get_kprobe* get_perf_callchain htab_* \
         intel_pmu* interpreter kallsyms_* kprobe_* kprobe_ftrace* kprobes_* kretprobe* \
         merge_sched_in* migrate_disable migrate_enable opt_* optimized_* optprobe_* perf_* \
         perf_swevent* prb_* printk* probe_* rb_commit* rb_end* rb_move* rb_reserve* rb_update* \
         rethook_* ring_buffer_* run_bpf* setup_singlestep* sk_filter_* stack_trace_* \
         syscall_trace* tp_* trace_* tracepoint_* tracing_* unwind_* uprobe_* visit_groups* \
         vprintk* x86_perf* x86_pmu_* x86_schedule_events*",
    ),
    (
        Crypto,
        "FSE_* HUF_* LZ4_* ZSTD* add_device_random* aes_* aesni_* ahash_* akcipher_* \
         asymmetric_* blake2* cbc_* chacha* crc32* crc_* crct10* crng_* crypto_* ctr_* deflate* \
         extract_* fast_mix gcm_* get_random* get_random_* ghash* halfsip* hmac_* hsiphash* \
         inflate* jhash* lz4_* lzo* md5_* mix_interrupt* mix_pool* mpi_* mpih* pkcs* poly1305* \
         random_* rng_* rsa_* sha1* sha1_* sha256* sha256_* sha512* sha512_* shash_* \
         siphash* skcipher_* sys_getrandom urandom_* x509_* xxh* xxhash* xz_* zlib_* zstd_*",
    ),
];

/// Functions on the way to sleep; their caller tells what a task waits for. `NAME*` matches names that begin with `NAME`.
pub(crate) const WAYS_TO_SLEEP: &[&str] = &[
    "__futex_wait",
    "__schedule",
    "__switch_to",
    "__switch_to_asm",
    "__wait_for_common",
    "__wait_on_bit",
    "bit_wait",
    "bit_wait_io",
    "context_switch",
    "do_wait_for_common",
    "ep_poll",
    "folio_wait_bit*",
    "futex_do_wait",
    "futex_wait_queue",
    "futex_wait_queue_me",
    "io_schedule*",
    "out_of_line_wait_on_bit",
    "poll_schedule_timeout",
    "preempt_schedule*",
    "rcu_gp_fqs_loop",
    "schedule",
    "schedule_*",
    "unix_stream_data_wait",
    "wait_for_common",
    "wait_for_completion*",
    "wait_on_page_bit*",
    "wait_woken",
];

/// Functions that are reached only by a jump at the beginning of the function that `ALIASES` names.
///
/// The kernel patches in this jump if the CPU lacks an instruction.
pub(crate) const JUMPED_TO: &[&str] = &["memcpy_erms", "memcpy_orig", "memset_erms", "memset_orig"];

/// Functions with other names in other versions, and the name under which they are compared; all without suffixes.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    // 6.4 replaced three routines that were patched in by one.
    ("copy_user_enhanced_fast_string", "rep_movs_alternative"),
    ("copy_user_fast_string", "rep_movs_alternative"),
    ("copy_user_generic_string", "rep_movs_alternative"),
    ("copy_user_generic_unrolled", "rep_movs_alternative"),
    ("clear_user_erms", "rep_stos_alternative"),
    ("clear_user_original", "rep_stos_alternative"),
    ("clear_user_rep_good", "rep_stos_alternative"),
    // Variants of one function for different CPU features.
    ("memcpy_erms", "memcpy"),
    ("memcpy_orig", "memcpy"),
    ("__memcpy", "memcpy"),
    ("memset_erms", "memset"),
    ("memset_orig", "memset"),
    ("__memset", "memset"),
    ("__memmove", "memmove"),
    ("clear_page_erms", "clear_page"),
    ("clear_page_orig", "clear_page"),
    ("clear_page_rep", "clear_page"),
    ("__clear_pages_unrolled", "clear_page"),
    // Renamed between 5.14 and 6.12.
    ("scheduler_tick", "sched_tick"),
    ("check_preempt_curr", "wakeup_preempt"),
    ("check_preempt_wakeup", "check_preempt_wakeup_fair"),
    ("newidle_balance", "sched_balance_newidle"),
    ("load_balance", "sched_balance_rq"),
    ("rebalance_domains", "sched_balance_domains"),
    ("run_rebalance_domains", "sched_balance_softirq"),
    ("trigger_load_balance", "sched_balance_trigger"),
    (
        "update_blocked_averages",
        "sched_balance_update_blocked_averages",
    ),
    ("__do_softirq", "handle_softirqs"),
    ("tick_sched_timer", "tick_nohz_handler"),
    ("del_timer", "timer_delete"),
    ("del_timer_sync", "timer_delete_sync"),
    ("try_to_del_timer_sync", "timer_delete_sync_try"),
    ("kmem_cache_alloc_trace", "__kmalloc_cache"),
    ("kmalloc_trace", "__kmalloc_cache"),
    ("__kmem_cache_alloc_node", "__kmalloc_cache_node"),
    ("kmem_cache_alloc_node_trace", "__kmalloc_cache_node"),
    ("kmalloc_node_trace", "__kmalloc_cache_node"),
    ("__alloc_pages_nodemask", "__alloc_frozen_pages"),
    ("__alloc_pages", "__alloc_frozen_pages"),
    ("free_unref_page", "free_frozen_pages"),
    ("pagecache_get_page", "__filemap_get_folio"),
    ("page_add_file_rmap", "folio_add_file_rmap_ptes"),
    ("page_remove_rmap", "folio_remove_rmap_ptes"),
    ("__page_cache_release", "__folio_put"),
    ("__put_page", "__folio_put"),
    ("mark_page_accessed", "folio_mark_accessed"),
    ("lock_page_memcg", "folio_memcg_lock"),
    ("__add_to_page_cache_locked", "__filemap_add_folio"),
    (
        "syscall_exit_to_user_mode_prepare",
        "syscall_exit_to_user_mode",
    ),
    ("exit_to_user_mode_prepare", "exit_to_user_mode_loop"),
    ("sock_sendmsg", "__sock_sendmsg"),
    ("generic_file_splice_read", "filemap_splice_read"),
    ("__fdget_pos", "fdget_pos"),
    ("__fdget", "fdget"),
    ("__fget_light", "fdget"),
];
