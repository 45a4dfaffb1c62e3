//! The class of a fact, from a table of names. Add names that are missing.
//!
//! A pattern is a name, a suffix (`*_DEBUG`) or a prefix (`KASAN*`). Names take precedence over suffixes, suffixes over prefixes, and
//! longer patterns over shorter ones, so the order of rows does not matter. Kernel options are written without `CONFIG_`, sysctls as
//! `sysctl:NAME`, and other facts by their names.

use record::verdict::weighed::Class;

/// The class of a fact; `None` if no pattern fits.
pub(crate) fn of(fact: &str) -> Option<Class> {
    let name = fact.strip_prefix("CONFIG_").unwrap_or(fact);
    let name = name.replacen("sysctl ", "sysctl:", 1);
    let fitting = patterns().filter_map(|(class, pattern)| Some((fit(pattern, &name)?, class)));
    fitting.max_by_key(|(fit, _)| *fit).map(|(_, class)| class)
}

fn patterns() -> impl Iterator<Item = (Class, &'static str)> {
    let rows = RULES.iter();
    rows.flat_map(|(class, names)| names.split_whitespace().map(move |name| (*class, name)))
}

/// How specific a fitting pattern is: its kind, then its length. `None` if it does not fit.
fn fit(pattern: &str, name: &str) -> Option<(Kind, usize)> {
    let (fits, kind) = match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => (name.ends_with(end), Kind::Suffix),
        (None, Some(begin)) => (name.starts_with(begin), Kind::Prefix),
        (None, None) => (name == pattern, Kind::Name),
    };
    fits.then_some((kind, pattern.len()))
}

/// Kinds of patterns; later ones take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Prefix,
    Suffix,
    Name,
}

/// Patterns by class, from `Kconfig` of Linux 6.1 and 7.2 and Documentation/admin-guide/sysctl.
const RULES: [(Class, &str); 23] = [
    (
        Class::Debugging,
        "BUG_ON_DATA_CORRUPTION DEBUG_* DMA_API_DEBUG* FAULT_INJECTION* GCOV* KASAN* KCOV* KCSAN* KFENCE* KMEMLEAK* KMSAN* LATENCYTOP LOCKDEP* LOCK_STAT \
         LOCK_TORTURE* MEM_ALLOC_PROFILING* PAGE_EXTENSION PAGE_OWNER PAGE_POISONING* PAGE_POOL_STATS PAGE_TABLE_CHECK* PER_VMA_LOCK_STATS PROVE_* \
         RCU_EQS_DEBUG RCU_TRACE RSEQ_STATS RUST_DEBUG_ASSERTIONS RUST_OVERFLOW_CHECKS SCHEDSTATS SCHED_DEBUG SCHED_STACK_END_CHECK SLUB_DEBUG* SLUB_STATS \
         STACKDEPOT* TRACE_IRQFLAGS* *_DEBUG sysctl:kernel.sched_schedstats sysctl:vm.stat_refresh",
    ),
    (
        Class::Mitigations,
        "CALL_DEPTH_TRACKING CALL_THUNKS CPU_IBPB_ENTRY CPU_IBRS_ENTRY CPU_MITIGATIONS CPU_SRSO CPU_UNRET_ENTRY GDS_FORCE_MITIGATION MITIGATION_* \
         PAGE_TABLE_ISOLATION RETHUNK RETPOLINE SLS SPECULATION_MITIGATIONS X86_INTEL_TSX_MODE_* /proc/cpuinfo:bugs /sys/devices/system/cpu/vulnerabilities/*",
    ),
    (
        Class::Preemption,
        "PREEMPT PREEMPTION PREEMPT_* PREEMPT_COUNT PREEMPT_RCU RSEQ_SLICE_EXTENSION TREE_RCU",
    ),
    (
        Class::Tick,
        "CLOCKSOURCE_* CONTEXT_TRACKING* CPU_IDLE* CPU_ISOLATION HIGH_RES_TIMERS HRTIMER_* HZ HZ_* IDLE_INJECT INTEL_IDLE IRQ_TIME_ACCOUNTING NO_HZ* \
         POSIX_AUX_CLOCKS RCU_BOOST* RCU_FANOUT* RCU_LAZY* RCU_NOCB* TICK_* TICK_CPU_ACCOUNTING VIRT_CPU_ACCOUNTING* /sys/devices/system/clocksource/* \
         /sys/devices/system/cpu/cpuidle/* /sys/devices/system/cpu/nohz_full",
    ),
    (
        Class::Hardening,
        "BLK_DEV_WRITE_MOUNTED BPF_UNPRIV_DEFAULT_OFF CFI* DYNAMIC_MEMORY_LAYOUT FORTIFY_SOURCE GCC_PLUGIN_* HARDENED_USERCOPY* IA32_EMULATION* INIT_ON_* \
         INIT_STACK_* KMALLOC_PARTITION_CACHES KSTACK_ERASE* LEGACY_TIOCSTI LIST_HARDENED PROC_MEM_* RANDOMIZE_* RANDOM_KMALLOC_CACHES RANDSTRUCT* \
         RUST_BITMAP_HARDENED SHUFFLE_PAGE_ALLOCATOR SLAB_BUCKETS SLAB_FREELIST_* STACKPROTECTOR* STRICT_* UBSAN* VMAP_STACK X86_CET X86_KERNEL_IBT X86_UMIP \
         X86_USER_SHADOW_STACK ZERO_CALL_USED_REGS sysctl:dev.tty.legacy_tiocsti sysctl:fs.protected_* sysctl:kernel.dmesg_restrict sysctl:kernel.kptr_restrict \
         sysctl:kernel.randomize_va_space sysctl:vm.memfd_noexec sysctl:vm.mmap_*",
    ),
    (
        Class::Compiler,
        "AUTOFDO_CLANG CALL_PADDING CC_IS_* CC_MS_EXTENSIONS CC_OPTIMIZE_* CC_OPT_* CC_VERSION_TEXT CLANG_VERSION DEBUG_INFO_REDUCED FRAME_POINTER \
         FUNCTION_ALIGNMENT* FUNCTION_PADDING* GCC_VERSION GENERIC_CPU JUMP_LABEL LTO* MATOM MCORE2 MK8 MPSC PROPELLER_CLANG UNWINDER_* X86_NATIVE_CPU \
         /proc/version",
    ),
    (
        Class::Allocator,
        "ASYNC_KERNEL_PGTABLE_FREE KVFREE_RCU_* MEMCG_KMEM PAGE_BLOCK_* PCP_BATCH_* SLAB* SLOB SLUB* ZSMALLOC* sysctl:vm.compact* sysctl:vm.defrag_mode \
         sysctl:vm.percpu_pagelist_* sysctl:vm.watermark_*",
    ),
    (
        Class::Scheduler,
        "BLK_CGROUP* CFS_BANDWIDTH CGROUPS CGROUP_* CPUFREQ_* CPUSETS* CPU_FREQ* ENERGY_MODEL EXT_GROUP_SCHED EXT_SUB_SCHED FAIR_GROUP_SCHED FUTEX_* \
         GROUP_SCHED_* MEMCG* MMU_LAZY_TLB_* MM_ID NUMA_BALANCING* PROC_PID_CPUSET PSI* RSEQ* RT_GROUP_SCHED SCHED_* UCLAMP_* WQ_* X86_AMD_PSTATE* \
         X86_INTEL_PSTATE /sys/fs/cgroup/* /sys/kernel/debug/sched/* sysctl:kernel.numa_balancing* sysctl:kernel.rseq_* sysctl:kernel.sched_* \
         sysctl:kernel.timer_migration",
    ),
    (
        Class::Memory,
        "ANON_VMA_NAME BALLOON* BROADCAST_TLB_FLUSH CMA* COMPACTION DAMON* DEVICE_PRIVATE DMA_CMA DMA_NUMA_CMA FRONTSWAP GUP_* HMM_MIRROR HUGETLB* \
         IDLE_PAGE_TRACKING KSM LAZY_MMU_MODE LRU_GEN* MEMORY_* MEMORY_BALLOON MHP_* MIGRATION NO_PAGE_MAPCOUNT NUMA* PAGE_* PERSISTENT_HUGE_ZERO_FOLIO \
         PER_VMA_LOCK PTE_MARKER* PT_RECLAIM READ_ONLY_THP_FOR_FS SPARSEMEM* SPLIT_* SWAP THP_* TRANSPARENT_HUGEPAGE* UNACCEPTED_MEMORY USERFAULTFD VMAP_PFN \
         ZRAM* ZSWAP* /proc/meminfo:* /proc/swaps /sys/kernel/mm/* sysctl:kernel.shm* sysctl:vm.*",
    ),
    (
        Class::Network,
        "ATALK BPFILTER BQL BRIDGE* CAIF DEFAULT_TCP_CONG IFB INET* INET_PSP IP6_* IPV6* IP_* LWTUNNEL* MAX_SKB_FRAGS MPTCP* NET NETFILTER* NETKIT NET_* NFT_* \
         NF_* OVPN PAGE_POOL RFS_ACCEL RPS SCTP_* SKB_* SMC* SOCK_* TCP_* TLS* VETH VLAN_* WIREGUARD* XDP_* XFRM_* XPS net:* /sys/module/tcp_* sysctl:net.* \
         sysctl:sunrpc.*",
    ),
    (
        Class::Block,
        "AIO BCACHE* BLKDEV_* BLK_* BLOCK* BUFFER_HEAD DM_* FS_DAX* IOSCHED_* IO_URING* LEGACY_DIRECT_IO MD_* MQ_IOSCHED_* RAID6_* /sys/block/* sysctl:fs.aio-* \
         sysctl:kernel.io_uring_*",
    ),
    (
        Class::Tracing,
        "AUDIT* BOOTTIME_TRACING BPF* DYNAMIC_EVENTS DYNAMIC_FTRACE* EPROBE_EVENTS FPROBE* FTRACE* FUNCTION_* KALLSYMS* KLP_* KPROBE* LIVEPATCH \
         NETFILTER_BPF_LINK OSNOISE_TRACER PERF_* PROBE_EVENTS* PROFILING RETHOOK RING_BUFFER* TIMERLAT_TRACER TRACE* TRACING UNWIND_USER* UPROBE* USER_EVENTS \
         sysctl:kernel.bpf_* sysctl:kernel.ftrace* sysctl:kernel.perf_* sysctl:kernel.stack_tracer_enabled sysctl:net.core.bpf_*",
    ),
    (
        Class::Security,
        "BIG_KEYS DEFAULT_SECURITY_* EVM* IMA* INTEGRITY* IPE_* KEYS* LSM* MODULE_SIG* SECCOMP* SECONDARY_TRUSTED_* SECURITY* SECURITYFS /sys/kernel/security/* \
         sysctl:kernel.apparmor* sysctl:kernel.keys.* sysctl:kernel.unprivileged_* sysctl:kernel.yama.*",
    ),
    (
        Class::Virtualization,
        "ACRN_GUEST AMD_MEM_ENCRYPT* AMD_SECURE_AVIC BHYVE_GUEST EFI_SECRET HYPERV* HYPERVISOR_GUEST INTEL_TDX_* IOASID JAILHOUSE_GUEST KVM* MSHV* NITRO_* NSM \
         OVMF_* PARAVIRT* PCI_HYPERV* PTP_1588_CLOCK_VMCLOCK PVH SEV_* TCG_SVSM TDX_* TSM_* VBOXGUEST VHOST* VIRTIO* VIRTUALIZATION VIRT_* VMGENID VMWARE_* \
         XEN*",
    ),
    (
        Class::Checksums,
        "842_* ASYNC_* CRC* CRYPTO_* DECOMPRESS_* LIBCRC32C LZ4HC_* LZ4_* LZO_* XOR_BLOCKS* XXHASH XZ_* ZLIB_* ZSTD_* sysctl:crypto.*",
    ),
    (
        Class::FileSystems,
        "9P_* AUTOFS* BTRFS_* CACHEFILES* CEPH_* CIFS* EROFS_* EXT2_* EXT3_* EXT4_* F2FS_* FAT_* FSCACHE* FS_* FUSE_* ISO9660_* JBD2* NETFS_* NFSD_* NFS_* \
         NLS_* NTFS* OVERLAY_* PRINT_QUOTA_WARNING PROC_* QUOTA* REISERFS_* SMB_* SQUASHFS_* SUNRPC_* SYSFS_* SYSV_* TMPFS* UNICODE* VFS_* XFS_* \
         /proc/filesystems /proc/mounts sysctl:fs.*",
    ),
    (
        Class::Drivers,
        "ACPI* ADVANTECH_* ALIBABA_* AMD_* ANDROID_* APPLICOM ATA* CDROM_* CLOSURES COMEDI_* CXL_* DEV_DAX* DIBS DMABUF_* DMAPOOL_* DMA_NEED_SYNC DMA_OPS* DNET \
         DRIVER_* DRM_* DWC_* ECHO EFI_* FB* FBNIC FIRMWARE_* FONT_* FWCTL FW_* GOOGLE_* GPIB GPIO* HABANA_* HAMRADIO HIBMCGE HID* HIPPI HOTPLUG_PCI_* HTC_* \
         HWPOISON_INJECT HW_* I2C* IDPF* IFCVF INFINIBAND_* INPUT_* INTEL_* INTEL_TCC IOMMU* IONIC IRQ_* ISA_* ISDN IXGB LEDS_* LIBETH* MANA_* MDIO_* MFD_* \
         MGBE MICROCODE* MISC_* MLX5_* MTK_* MUX_* MWAVE NETCONSOLE* NEW_LEDS NGBEVF NOVA_* NTSYNC NVDIMM_* NVME_* OCTEONEP_* OPTEE_* P2SB PCIE_* PCI_* PCS_* \
         PDA_* PFCP PM_* POWER_* PPS_* PSE_* PTP_* RAMDAX RAS* REMOTE_* RESCTRL* RMI4_* RPMB RTC_* SATA_* SCREEN_* SCSI* SECURITY_TPM* SERIAL_* SERIO_* SND_* \
         SNET_* SOUNDWIRE* STM* SURFACE_* SWIOTLB* SYSFB* TCG_* TEE* THERMAL* TXGBE* UDMABUF UHID UIO_* UNION_FIND USB* VDPA* VFIO* VIDEO* VP_VDPA WPCM450_* \
         X86_BUS_LOCK_DETECT X86_FRED X86_MCE* X86_PLATFORM_* X86_POSTED_MSI *_FF *_WATCHDOG *_WDT /proc/cpuinfo:* /proc/modules /sys/devices/* hardware:* host:hardware:*",
    ),
    (
        Class::Interfaces,
        "BASE_FULL BASE_SMALL CACHESTAT_SYSCALL CHECKPOINT_RESTORE COMPAT* EMBEDDED EXPERT FORCE_NR_CPUS GENERIC_TIME_VSYSCALL GENERIC_VDSO_* MSEAL_* \
         NAMESPACES NR_CPUS* POSIX_* RANDOM_TRUST_* SHADOW_CALL_STACK SYSVIPC* TIME_NS* USELIB USER_NS VDSO_GETRANDOM X86_X32_ABI sysctl:kernel.msg* \
         sysctl:kernel.real-root-dev sysctl:kernel.sem*",
    ),
    (
        Class::Sizes,
        "limit:* /proc/meminfo:MemTotal /proc/self/limits sysctl:fs.epoll.max_user_watches sysctl:fs.fanotify.max_user_marks sysctl:fs.file-max \
         sysctl:fs.inotify.* sysctl:fs.nr_open sysctl:fs.pipe-* sysctl:kernel.pid_max sysctl:kernel.pty.* sysctl:kernel.threads-max \
         sysctl:net.ipv4.inet_peer_threshold sysctl:net.ipv4.tcp_max_orphans sysctl:net.ipv4.tcp_mem sysctl:net.ipv4.udp_mem sysctl:user.max_* sysctl:vm.admin_reserve_kbytes \
         sysctl:vm.min_free_kbytes sysctl:vm.user_reserve_kbytes",
    ),
    (
        Class::Accidents,
        "BOOTPARAM_* BUG CMDLINE_* CRASH_* DETECT_HUNG_TASK* EARLYPRINTK* EARLY_PRINTK* HARDLOCKUP_* HIBERNATION* KEXEC* LOG_* MAGIC_SYSRQ* MEMORY_FAILURE \
         NMI_CHECK_CPU PANIC_* PRINTK* PSTORE* RCU_CPU_STALL_* RESET_ATTACK_MITIGATION SERIAL_EARLYCON SOFTLOCKUP_* SUSPEND* VMCORE_INFO WATCHDOG* *_sys_info \
         sysctl:fs.fanotify.watchdog_timeout sysctl:kernel.core_* sysctl:kernel.hardlockup_* sysctl:kernel.hung_task_* sysctl:kernel.kexec_* \
         sysctl:kernel.panic* sysctl:kernel.printk* sysctl:kernel.softlockup_* sysctl:kernel.watchdog* sysctl:vm.enable_soft_offline sysctl:vm.memory_failure_*",
    ),
    (
        Class::Tests,
        "CRYPTO_MANAGER_* KUNIT* RUNTIME_TESTING_MENU SAMPLES TEST_* TORTURE_TEST *_BENCHMARK *_BENCHMARK_RUST *_EXTRA_TESTS *_KUNIT *_KUNIT_TEST *_SELFTEST \
         *_SELFTESTS *_SELFTESTS_FULL *_TEST",
    ),
    (
        Class::Metadata,
        "ARCH_* ASM_* AS_* BINDGEN_* BTF* BUILD_* CC_CAN_* CC_HAS_* CC_NO_* CLOCKSOURCE_VALIDATE_LAST_CYCLE DEBUG_INFO* EXECMEM FIND_* FTRACE_MCOUNT_RECORD \
         GCC_ASM_* GCC_NO_* GENERIC_* GENERIC_PT* HAS_* HAVE_* HID_SUPPORT HOTPLUG_* INITRAMFS_* INPUT ISA_BUS_API KERNEL_* KLP_BUILD KVM_COMMON KVM_WERROR \
         LD_* LEGACY_VSYSCALL_* LOCALVERSION* MIN_HEAP MODULES* MODULE_ALLOW_* MODULE_COMPRESS* MODULE_DECOMPRESS MODVERSIONS NEED_* NET_VENDOR_* \
         NLS_UCS2_UTILS OBJTOOL* OPENSSL_* PAHOLE_* PGTABLE_* PTDUMP* RUST* RUSTC_* SRCU SYSFS_DEPRECATED SYSTEM_REVOCATION* THREAD_INFO_IN_TASK TOOLS_* \
         TRACEFS_AUTOMOUNT_DEPRECATED UAPI_* USE_* VENDOR_* VIRT_DRIVERS WERROR X86_5LEVEL X86_64_SMP X86_CMPXCHG64 X86_CX8 X86_DISABLED_FEATURE_* \
         X86_FEATURE_NAMES X86_HAVE_PAE X86_REQUIRED_FEATURE_* X86_SUPPORTS_* *_KUNIT_DEFAULT hash:* uname sysctl:crypto.fips_* sysctl:kernel.osrelease \
         sysctl:kernel.ostype sysctl:kernel.version",
    ),
    (Class::BootLog, "boot*"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(class: Class, facts: &[&str]) {
        for fact in facts {
            assert_eq!(of(fact), Some(class), "{fact}");
        }
    }

    #[test]
    fn names_take_precedence_over_suffixes_and_suffixes_over_prefixes() {
        check(
            Class::Preemption,
            &["CONFIG_PREEMPT", "CONFIG_PREEMPT_LAZY"],
        );
        check(
            Class::Debugging,
            &["CONFIG_KASAN", "CONFIG_XFS_DEBUG", "CONFIG_PROVE_LOCKING"],
        );
        check(Class::FileSystems, &["CONFIG_XFS_LIVE_HOOKS"]);
        check(
            Class::Metadata,
            &["CONFIG_HAVE_PREEMPT_DYNAMIC", "CONFIG_NET_VENDOR_META"],
        );
        check(
            Class::Network,
            &["CONFIG_NET_XGRESS", "sysctl net.core.rmem_max"],
        );
        check(
            Class::Sizes,
            &["sysctl net.ipv4.tcp_mem", "sysctl user.max_user_namespaces"],
        );
        check(Class::Scheduler, &["sysctl kernel.sched_autogroup_enabled"]);
        assert_eq!(of("CONFIG_OPTION_7"), None);
        assert_eq!(of("sysctl made.up"), None);
    }

    #[test]
    fn no_pattern_is_repeated() {
        let mut seen = std::collections::BTreeSet::new();
        for (_, pattern) in patterns() {
            assert!(seen.insert(pattern), "{pattern}");
        }
    }
}
