//! The machine of a run, as determined before the first trial.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// The machine of a run; a resumed run must have the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MachineDescription {
    /// Guests of an emulator.
    Qemu(Guests),
    /// The host itself.
    Local {
        /// Release of its kernel.
        release: String,
        /// Number of CPUs that trials may use.
        cpus: usize,
    },
    /// A box reached by ssh.
    Ssh {
        /// Its ssh destination: `root@box`.
        host: String,
        /// Its CPU's name.
        cpu: String,
        /// Number of CPUs online.
        cpus: u64,
        /// Size of its memory.
        memory_bytes: u64,
        /// The interface of the load.
        interface: String,
        /// The interface's driver; empty if unknown.
        driver: String,
        /// How arms are booted: `kexec`.
        boot: String,
        /// The cards for remote clients; empty if clients run on the box.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cards: Vec<BoxCard>,
        /// Remote clients; `None` if clients run on the box.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clients: Option<BoxClients>,
    },
    /// Systems on the network.
    Url {
        /// Whether arms exchange systems from block to block.
        exchanged: bool,
        /// Hosts of the clients; empty for this host.
        client_hosts: Vec<String>,
        /// Release of the clients' kernel.
        release: String,
        /// Number of CPUs that clients may use.
        cpus: usize,
    },
    /// The machine of tests, in simulated time.
    Fake,
}

/// A network card of a box, for remote clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxCard {
    /// Its name in the box's host operating system.
    pub interface: String,
    /// The name of its driver.
    pub driver: String,
    /// Its address.
    pub address: String,
}

/// Remote clients of a box's servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BoxClients {
    /// On the host that runs the plan.
    Host {
        /// Release of its kernel.
        release: String,
        /// Number of CPUs that clients may use.
        cpus: usize,
    },
    /// Shared among several hosts.
    Hosts {
        /// Their names.
        names: Vec<String>,
    },
}

/// Guests of an emulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guests {
    /// The emulator and its version.
    pub emulator: String,
    /// How their instructions are executed.
    pub acceleration: Acceleration,
    /// Unit of their time.
    pub clock: GuestClock,
    /// Numbers of virtual CPUs; several if arms differ.
    pub cpus: BTreeSet<u32>,
    /// Their CPU model, as the emulator names it.
    pub cpu_model: String,
    /// Memory of each guest.
    pub memory_bytes: u64,
    /// Whether trials are profiled.
    pub profiled: bool,
    /// Host resources of the guests; only with KVM.
    pub host: Option<HostOfGuests>,
    /// Clients outside the guest; `None` if they run in it.
    pub clients: Option<ClientsApart>,
    /// Settings that bakeoff chose for the user.
    pub choices: Vec<Choice>,
}

/// How a guest's instructions are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// By the host's CPU.
    Kvm,
    /// By emulation.
    Tcg,
}

/// Unit of a guest's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestClock {
    /// Seconds of the host.
    Wall,
    /// Executed instructions.
    Instructions,
}

/// Host resources of guests under KVM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostOfGuests {
    /// Where virtual CPUs run, or why they are not pinned.
    pub placement: Result<Placement, String>,
    /// Backing of the guests' memory, as in each trial's facts: `transparent huge pages`.
    pub memory: String,
}

/// Host CPUs of virtual CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Their numbers in the kernel's list format: `2-3`.
    pub cpus: String,
    /// What they share.
    pub locality: Locality,
    /// Whether some are threads of the same core.
    pub shares_cores: bool,
}

/// What host CPUs of virtual CPUs share, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locality {
    /// The last-level cache.
    Cache,
    /// The memory of one NUMA node.
    Node,
    /// Only the host.
    Host,
}

/// Clients outside the servers' guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ClientsApart {
    /// In a network namespace of the host.
    Host {
        /// Whether the host's kernel forwards packets between them and the guest (vhost-net).
        vhost: bool,
    },
    /// In a separate guest.
    Guest {
        /// Release of its kernel.
        release: String,
    },
}

/// A setting that bakeoff chose for the user, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Choice {
    /// Emulation, because KVM is unavailable.
    NoKvm {
        /// The obstacle, with its remedy.
        obstacle: String,
    },
    /// Emulation, because no stock kernel boots under KVM.
    KvmFails,
    /// Emulation, because counting instructions needs it.
    CountsInstructions,
    /// Clients in the guest, because they cannot run on the host.
    ClientsInGuest {
        /// The obstacle.
        obstacle: String,
    },
    /// One virtual CPU, because counting instructions allows no more.
    OneCpu {
        /// CPUs that the plan asks for.
        asked: u32,
    },
}
