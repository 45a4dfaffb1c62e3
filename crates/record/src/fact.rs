//! Keys of facts (`evidence::Facts`) that several rooms name. What one room alone writes and reads is named there.

/// The kernel's command line.
pub const CMDLINE: &str = "/proc/cmdline";

/// The kernel with its compiler.
pub const KERNEL_VERSION: &str = "/proc/version";

/// CPUs that the kernel shows.
pub const CPU_COUNT: &str = "/proc/cpuinfo:count";

/// Microcode of the first CPU.
pub const CPU_MICROCODE: &str = "/proc/cpuinfo:microcode";

/// CPUs online.
pub const CPUS_ONLINE: &str = "/sys/devices/system/cpu/online";

/// CPUs that could come online.
pub const CPUS_POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// CPUs kept from the scheduler.
pub const CPUS_ISOLATED: &str = "/sys/devices/system/cpu/isolated";

/// Whether cores run several threads.
pub const SMT_ACTIVE: &str = "/sys/devices/system/cpu/smt/active";

/// Whether cores may run several threads.
pub const SMT_CONTROL: &str = "/sys/devices/system/cpu/smt/control";

/// What sets the frequency.
pub const SCALING_DRIVER: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver";

/// How it is set.
pub const SCALING_GOVERNOR: &str = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";

/// What puts CPUs to sleep.
pub const CPUIDLE_DRIVER: &str = "/sys/devices/system/cpu/cpuidle/current_driver";

/// What the kernel tells the time by.
pub const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// CPUs that new interrupts go to.
pub const IRQ_AFFINITY: &str = "/proc/irq/default_smp_affinity";

/// NUMA nodes.
pub const NODES_ONLINE: &str = "/sys/devices/system/node/online";

/// Memory that the kernel manages.
pub const MEMORY_TOTAL: &str = "/proc/meminfo:MemTotal";

/// Swap space.
pub const SWAP_TOTAL: &str = "/proc/meminfo:SwapTotal";

/// Swap areas.
pub const SWAPS: &str = "/proc/swaps";

/// Transparent huge pages.
pub const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// File systems that are mounted.
pub const MOUNTS: &str = "/proc/mounts";

/// Names of the loaded modules.
pub const MODULES: &str = "/proc/modules";

/// Security modules.
pub const SECURITY_MODULES: &str = "/sys/kernel/security/lsm";

/// Controllers of control groups.
pub const CGROUP_CONTROLLERS: &str = "/sys/fs/cgroup/cgroup.controllers";

/// Version of TCP CUBIC.
pub const CUBIC: &str = "/sys/module/tcp_cubic/version";

/// The distribution.
pub const OS_RELEASE: &str = "/etc/os-release";

/// Its point release.
pub const DEBIAN_VERSION: &str = "/etc/debian_version";

/// SHA-256 of the list of packages.
pub const USERLAND: &str = "hash:userland";

/// SHA-256 of the kernel's notes, which hold its build id.
pub const KERNEL_NOTES: &str = "hash:kernel-notes";

/// Before a service's and a file's name: SHA-256 of a server's configuration.
pub const CONFIGURATION: &str = "hash:configuration:";

/// How the wait for an idle system ended.
pub const SETTLED: &str = "agent:settled";

/// Services and clients beside them were scheduled as one group.
pub const ONE_CPU_GROUP: &str = "agent:one-cpu-group";

/// The CPU model that the guest has.
pub const MACHINE_CPU: &str = "machine:cpu";

/// NUMA nodes of the hardware.
pub const NUMA: &str = "hardware:numa";

/// Before what is known of the hardware of the host that the clients are on.
pub const HOST_HARDWARE: &str = "host:hardware";

/// How the host sets frequencies.
pub const HOST_GOVERNOR: &str = "host:governor";

/// Host CPUs of virtual CPUs.
pub const HOST_PINNING: &str = "host:pinning";

/// The system on the network that is loaded.
pub const REMOTE_URL: &str = "remote:url";

/// Its addresses.
pub const REMOTE_ADDRESSES: &str = "remote:addresses";

/// What tells what it uses.
pub const REMOTE_EVIDENCE: &str = "remote:evidence";
