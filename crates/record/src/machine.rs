//! The machine of a run as it was settled before the first trial, as data. `report` puts it into words.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// What trials ran on. A run that is resumed must have the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum MachineDescription {
    /// Guests of an emulator.
    Qemu(Guests),
    /// The host itself.
    Local {
        /// Release of its kernel.
        release: String,
        /// CPUs that trials may use.
        cpus: usize,
    },
    /// A box that is reached by ssh.
    Ssh {
        /// How it is reached: `root@box`.
        host: String,
        /// Its CPU's name.
        cpu: String,
        /// CPUs online.
        cpus: u64,
        /// Its memory.
        memory_bytes: u64,
        /// The interface that the load goes through.
        interface: String,
        /// The interface's driver; empty where the box does not say.
        driver: String,
        /// How arms are booted: `kexec`.
        boot: String,
        /// The cards that serve clients elsewhere; none where clients are on the box.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        cards: Vec<BoxCard>,
        /// Clients elsewhere; `None` where they are on the box.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        clients: Option<BoxClients>,
    },
    /// Systems on the network.
    Url {
        /// Whether arms exchange systems from block to block.
        exchanged: bool,
        /// Hosts of the clients; none: this host.
        client_hosts: Vec<String>,
        /// Release of the kernel that the clients run on.
        release: String,
        /// CPUs that they may use.
        cpus: usize,
    },
    /// The machine of tests, in simulated time.
    Fake,
}

/// A network card of a box that serves clients elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoxCard {
    /// Its name in the box's own operating system.
    pub interface: String,
    /// The name of its driver.
    pub driver: String,
    /// Its address.
    pub address: String,
}

/// Clients of a box's servers that are not on the box.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum BoxClients {
    /// On the host that runs the plan.
    Host {
        /// Release of its kernel.
        release: String,
        /// CPUs that they may use.
        cpus: usize,
    },
    /// On hosts that share them.
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
    /// What executes their instructions.
    pub acceleration: Acceleration,
    /// What their time is measured in.
    pub clock: GuestClock,
    /// Numbers of virtual CPUs; several where arms differ in them.
    pub cpus: BTreeSet<u32>,
    /// The CPU that they see, as the emulator was asked for it.
    pub cpu_model: String,
    /// Memory of each.
    pub memory_bytes: u64,
    /// Whether trials are profiled.
    pub profiled: bool,
    /// What the host gives them; under KVM alone.
    pub host: Option<HostOfGuests>,
    /// Clients elsewhere; `None` where they are in the guest.
    pub clients: Option<ClientsApart>,
    /// What was decided for the user.
    pub choices: Vec<Choice>,
}

/// What executes a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Acceleration {
    /// The host's CPU.
    Kvm,
    /// Emulation.
    Tcg,
}

/// What a guest's time is measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuestClock {
    /// Seconds of the host.
    Wall,
    /// Executed instructions.
    Instructions,
}

/// What a host gives to guests under KVM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostOfGuests {
    /// Where virtual CPUs run, or why they are not pinned.
    pub placement: Result<Placement, String>,
    /// What the guests' memory is made of: `transparent huge pages`, as the fact of each trial says it.
    pub memory: String,
}

/// Host CPUs of virtual CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Their numbers as the kernel writes lists of CPUs: `2-3`.
    pub cpus: String,
    /// What they have in common.
    pub locality: Locality,
    /// Whether some are threads of one core.
    pub shares_cores: bool,
}

/// What virtual CPUs have in common, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Locality {
    /// The last-level cache.
    Cache,
    /// The memory of one NUMA node.
    Node,
    /// Nothing but the host.
    Host,
}

/// Clients that are not in the servers' guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ClientsApart {
    /// In a network namespace of the host.
    Host {
        /// Whether the host's kernel moves packets between them and the guest.
        vhost: bool,
    },
    /// In a guest of their own.
    Guest {
        /// Release of its kernel.
        release: String,
    },
}

/// What was decided for the user, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Choice {
    /// Emulation: KVM cannot even be tried.
    NoKvm {
        /// What is in the way, with its remedy.
        obstacle: String,
    },
    /// Emulation: no stock kernel comes up under KVM.
    KvmFails,
    /// Emulation: counting instructions needs it.
    CountsInstructions,
    /// Clients are in the guest: they cannot be on the host.
    ClientsInGuest {
        /// What is in the way.
        obstacle: String,
    },
    /// One virtual CPU: counting instructions allows no more.
    OneCpu {
        /// CPUs that the plan asks for.
        asked: u32,
    },
}
