//! Keys of facts (`evidence::Facts`) that several crates use. A key that a single crate uses is defined in that crate.
//! Sysctls are facts named `sysctl NAME`, options of the kernel's configuration `CONFIG_NAME`.

/// The kernel's command line.
pub const CMDLINE: &str = "/proc/cmdline";

/// The kernel's version and its compiler.
pub const KERNEL_VERSION: &str = "/proc/version";

/// Number of CPUs that the kernel lists.
pub const CPU_COUNT: &str = "/proc/cpuinfo:count";

/// Microcode of the first CPU.
pub const CPU_MICROCODE: &str = "/proc/cpuinfo:microcode";

/// CPUs online.
pub const CPUS_ONLINE: &str = "/sys/devices/system/cpu/online";

/// CPUs that can come online.
pub const CPUS_POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// CPUs excluded from the scheduler.
pub const CPUS_ISOLATED: &str = "/sys/devices/system/cpu/isolated";

/// Whether SMT is in use.
pub const SMT_ACTIVE: &str = "/sys/devices/system/cpu/smt/active";

/// Whether SMT may be used.
pub const SMT_CONTROL: &str = "/sys/devices/system/cpu/smt/control";

/// The cpufreq driver.
pub const SCALING_DRIVER: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver";

/// The cpufreq governor.
pub const SCALING_GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

/// The cpuidle driver.
pub const CPUIDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// The kernel's clock source.
pub const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// CPUs that new interrupts go to.
pub const IRQ_AFFINITY: &str = "/proc/irq/default_smp_affinity";

/// NUMA nodes.
pub const NODES_ONLINE: &str = "/sys/devices/system/node/online";

/// Memory managed by the kernel.
pub const MEMORY_TOTAL: &str = "/proc/meminfo:MemTotal";

/// Size of the swap space.
pub const SWAP_TOTAL: &str = "/proc/meminfo:SwapTotal";

/// Swap areas.
pub const SWAPS: &str = "/proc/swaps";

/// Transparent huge pages.
pub const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Mounted file systems.
pub const MOUNTS: &str = "/proc/mounts";

/// Names of the loaded modules.
pub const MODULES: &str = "/proc/modules";

/// Security modules.
pub const SECURITY_MODULES: &str = "/sys/kernel/security/lsm";

/// Available cgroup controllers.
pub const CGROUP_CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

/// Version of TCP CUBIC.
pub const CUBIC: &str = "/sys/module/tcp_cubic/version";

/// The distribution.
pub const OS_RELEASE: &str = "/etc/os-release";

/// Point release of the distribution.
pub const DEBIAN_VERSION: &str = "/etc/debian_version";

/// SHA-256 of the list of packages.
pub const USERLAND: &str = "hash:userland";

/// SHA-256 of the kernel's notes, which hold its build id.
pub const KERNEL_NOTES: &str = "hash:kernel-notes";

/// Prefix of a service's and a file's name: SHA-256 of a server's configuration.
pub const CONFIGURATION: &str = "hash:configuration:";

/// Prefix of a setting's name: Java of an application server, such as `java:collector`. The server's name is not part of
/// it, so that arms with different servers are compared.
pub const JAVA: &str = "java:";

/// How the wait for an idle system ended.
pub const SETTLED: &str = "agent:settled";

/// Whether services and the clients beside them were scheduled as one group.
pub const ONE_CPU_GROUP: &str = "agent:one-cpu-group";

/// Whether HyStart of TCP CUBIC was switched off for clients beside services.
pub const NO_HYSTART: &str = "agent:no-hystart";

/// Model of the first CPU, as `/proc/cpuinfo` names it; on Arm, by its numbers there.
pub const CPU_MODEL: &str = "/proc/cpuinfo:model name";

/// CPU model of the guest.
pub const MACHINE_CPU: &str = "machine:cpu";

/// NUMA nodes of the hardware.
pub const NUMA: &str = "hardware:numa";

/// Prefix of facts about the hardware of the clients' host.
pub const HOST_HARDWARE: &str = "host:hardware";

/// The host's cpufreq governor.
pub const HOST_GOVERNOR: &str = "host:governor";

/// Host CPUs to which virtual CPUs are pinned.
pub const HOST_PINNING: &str = "host:pinning";

/// URL of the system under test, where it is a server on the network.
pub const REMOTE_URL: &str = "remote:url";

/// Addresses of that server.
pub const REMOTE_ADDRESSES: &str = "remote:addresses";

/// Source of that server's resource usage.
pub const REMOTE_EVIDENCE: &str = "remote:evidence";
