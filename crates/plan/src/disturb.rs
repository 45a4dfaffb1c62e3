//! `[[disturb]]`: planned disturbances of each trial's system, at the same times of every window.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantNames};

use crate::fields::Fields;
use crate::{Arm, Clients, MachineKind, MachinePlan, WorkloadPlan};
use base::input::units;

mod kinds;
mod times;

use kinds::read_kind;
use times::read_times;

/// Most disturbances in a window, counting each repetition, as each has a record.
pub const MOST_TIMES: usize = 1000;

/// A kind of disturbance, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, IntoStaticStr, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum DisturbanceKind {
    /// Packets are lost, in each direction.
    Loss {
        /// Share of lost packets, a fraction.
        share: f64,
    },
    /// Packets are delayed, in each direction.
    Delay {
        /// Mean delay in milliseconds.
        delay_ms: u64,
        /// Largest deviation from it in milliseconds.
        jitter_ms: u64,
    },
    /// Some packets overtake others, which are delayed.
    Reorder {
        /// Share of packets that overtake, a fraction.
        share: f64,
        /// Delay of the other packets in milliseconds.
        delay_ms: u64,
    },
    /// Packets are duplicated.
    Duplicate {
        /// Share of duplicated packets, a fraction.
        share: f64,
    },
    /// One bit of a packet is flipped.
    Corrupt {
        /// Share of corrupted packets, a fraction.
        share: f64,
    },
    /// The server's end of the network is down.
    LinkDown,
    /// The file system of the servers' data and logs is full.
    DiskFull,
    /// A process allocates and uses memory.
    Memory {
        /// Its amount.
        bytes: u64,
    },
    /// A CPU is offline.
    CpuOffline {
        /// Its number, at least 1.
        cpu: u32,
    },
    /// The wall-clock time is changed.
    ClockStep {
        /// The change in milliseconds.
        step_ms: i64,
    },
    /// A worker process of a server is killed, at the beginning and each second after it.
    KillWorker,
    /// SYN packets from unused addresses, without connections.
    SynFlood {
        /// Packets per second.
        rate_per_s: u32,
    },
    /// Clients request pages and read them very slowly.
    SlowClients {
        /// Number of connections.
        connections: u32,
    },
    /// Servers cannot open any more files.
    Descriptors,
}

/// A resource that only one disturbance may use at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Network,
    Disk,
    Memory,
    Cpus,
    Clock,
    Workers,
    Backlog,
    Clients,
    Descriptors,
}

impl Resource {
    fn word(self) -> &'static str {
        match self {
            Self::Network => "the network",
            Self::Disk => "the disk",
            Self::Memory => "the memory",
            Self::Cpus => "the CPUs",
            Self::Clock => "the clock",
            Self::Workers => "the workers",
            Self::Backlog => "the backlog",
            Self::Clients => "the slow clients",
            Self::Descriptors => "the descriptors",
        }
    }
}

impl DisturbanceKind {
    /// Its name in a plan.
    pub fn word(&self) -> &'static str {
        self.into()
    }

    /// Whether the kernel's network emulator (netem) does it.
    pub fn is_netem(&self) -> bool {
        match self {
            Self::Loss { .. }
            | Self::Delay { .. }
            | Self::Reorder { .. }
            | Self::Duplicate { .. }
            | Self::Corrupt { .. } => true,
            Self::LinkDown
            | Self::DiskFull
            | Self::Memory { .. }
            | Self::CpuOffline { .. }
            | Self::ClockStep { .. }
            | Self::KillWorker
            | Self::SynFlood { .. }
            | Self::SlowClients { .. }
            | Self::Descriptors => false,
        }
    }

    /// Whether it affects only namespaces and processes of the trial, which end with the agent.
    fn affects_only_trial(&self) -> bool {
        match self {
            Self::Loss { .. }
            | Self::Delay { .. }
            | Self::Reorder { .. }
            | Self::Duplicate { .. }
            | Self::Corrupt { .. }
            | Self::LinkDown
            | Self::KillWorker
            | Self::SynFlood { .. }
            | Self::SlowClients { .. }
            | Self::Descriptors => true,
            Self::DiskFull
            | Self::Memory { .. }
            | Self::CpuOffline { .. }
            | Self::ClockStep { .. } => false,
        }
    }

    fn resource(&self) -> Resource {
        match self {
            Self::Loss { .. }
            | Self::Delay { .. }
            | Self::Reorder { .. }
            | Self::Duplicate { .. }
            | Self::Corrupt { .. }
            | Self::LinkDown => Resource::Network,
            Self::DiskFull => Resource::Disk,
            Self::Memory { .. } => Resource::Memory,
            Self::CpuOffline { .. } => Resource::Cpus,
            Self::ClockStep { .. } => Resource::Clock,
            Self::KillWorker => Resource::Workers,
            Self::SynFlood { .. } => Resource::Backlog,
            Self::SlowClients { .. } => Resource::Clients,
            Self::Descriptors => Resource::Descriptors,
        }
    }
}

/// A disturbance of a plan: the same in all arms and blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedDisturbance {
    /// Unique in the plan: its `name`, or its kind.
    pub name: String,
    /// Its kind.
    pub kind: DisturbanceKind,
    /// When it begins, in milliseconds since the window opened; ascending.
    pub at_ms: Vec<u64>,
    /// Its length each time, in milliseconds.
    pub length_ms: u64,
}

/// The rest of the plan, as far as disturbances depend on it.
pub(crate) struct DisturbContext<'p> {
    pub(crate) machine: &'p MachinePlan,
    pub(crate) arms: &'p [Arm],
    pub(crate) workloads: &'p [WorkloadPlan],
    pub(crate) seed: u64,
    pub(crate) can_be_disturbed: &'p dyn Fn(&WorkloadPlan) -> bool,
}

impl DisturbContext<'_> {
    /// The shortest window of all workloads.
    fn window(&self) -> Duration {
        let windows = self.workloads.iter().map(|workload| workload.window);
        windows.min().unwrap_or(Duration::MAX)
    }
}

/// Reads all `[[disturb]]` tables.
pub(crate) fn read_disturbances(
    top: &Fields<'_>,
    context: &DisturbContext<'_>,
) -> Vec<PlannedDisturbance> {
    let tables = top.tables("disturb");
    let Some(first) = tables.first() else {
        return Vec::new();
    };
    check_context(first, context);
    let mut all = Vec::new();
    for table in &tables {
        if let Some(disturbance) = read_disturbance(table, context) {
            check_name(table, &disturbance.name, &all);
            check_overlap(table, &disturbance, &all);
            all.push(disturbance);
        }
    }
    let times: usize = all.iter().map(|disturbance| disturbance.at_ms.len()).sum();
    if times > MOST_TIMES {
        let what = format!("disturbances more often than {MOST_TIMES} times in a window: {times}");
        first.wrong("every", what, "let more time pass between them");
    }
    all
}

/// Refuses disturbances that the machine, the clients or a workload do not support.
fn check_context(first: &Fields<'_>, context: &DisturbContext<'_>) {
    if context.machine.kind == MachineKind::Url {
        let what = "[[disturb]] on a machine of kind \"url\"";
        first.wrong(
            "kind",
            what,
            "remove it: nobody can reach into these systems",
        );
        return;
    }
    if let Some(clients) = context.machine.clients
        && clients != Clients::Guest
    {
        let what = format!("[[disturb]] with clients \"{}\"", clients.word());
        let remedy = "write clients = \"guest\" in [machine]: the network that is disturbed lies in the guest";
        first.wrong("kind", what, remedy);
    }
    for workload in context.workloads {
        if !(context.can_be_disturbed)(workload) {
            let what = format!(
                "[[disturb]] with a workload that ends at the first failure: {}",
                workload.id
            );
            let remedy = "give it a plan of its own; \"web-soak\" and \"web-static\" go on";
            first.wrong("kind", what, remedy);
        }
    }
}

fn read_disturbance(
    table: &Fields<'_>,
    context: &DisturbContext<'_>,
) -> Option<PlannedDisturbance> {
    // The keys of an unknown kind cannot be checked.
    let kind = read_kind(table, context)?;
    let name = table.text("name").unwrap_or_else(|| kind.word());
    let length = read_length(table, &kind);
    let times = length.and_then(|length| read_times(table, name, length, context));
    // After a mistake some keys were not read, and must not be reported as unknown.
    if times.is_some() {
        table.finish();
    }
    Some(PlannedDisturbance {
        name: name.into(),
        kind,
        at_ms: times?,
        length_ms: length?.as_millis() as u64,
    })
}

/// Reads `for`. Killing a worker takes no time, and counts as a second.
fn read_length(table: &Fields<'_>, kind: &DisturbanceKind) -> Option<Duration> {
    if !table.has("for") {
        if *kind == DisturbanceKind::KillWorker {
            return Some(Duration::from_secs(1));
        }
        table.missing("for", "\"20s\"");
        return None;
    }
    let length = table.read("for", units::duration)?;
    if length < Duration::from_secs(1) {
        let what = format!("for below 1 s: {}", units::show_duration(length));
        table.wrong(
            "for",
            what,
            "write \"1s\" or more: service is seen by the second",
        );
        return None;
    }
    Some(length)
}

fn check_name(table: &Fields<'_>, name: &str, others: &[PlannedDisturbance]) {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 40 || !name.bytes().all(is_plain) {
        let what = format!("not a name of a disturbance: {name:?}");
        table.wrong(
            "name",
            what,
            "write up to 40 small letters, digits and hyphens",
        );
    }
    if others.iter().any(|other| other.name == name) {
        let what = format!("two disturbances of one name: {name:?}");
        table.wrong("kind", what, "give one of them another name = \"...\"");
    }
}

/// Refuses a disturbance that overlaps itself or another one of the same resource: they would undo each other.
fn check_overlap(
    table: &Fields<'_>,
    disturbance: &PlannedDisturbance,
    others: &[PlannedDisturbance],
) {
    let resource = disturbance.kind.resource();
    if let Some((other, at_ms)) = first_overlap(disturbance, others) {
        let key = times::key_of(table);
        let at = units::show_duration(Duration::from_millis(at_ms));
        let what = format!(
            "overlapping disturbances of {}: {} and {other} at {at}",
            resource.word(),
            disturbance.name
        );
        table.wrong(key, what, "let one end before the other begins");
    }
}

/// Name of the disturbance that overlaps, and the time in milliseconds.
fn first_overlap<'p>(
    disturbance: &'p PlannedDisturbance,
    others: &'p [PlannedDisturbance],
) -> Option<(&'p str, u64)> {
    let length_ms = disturbance.length_ms;
    for pair in disturbance.at_ms.windows(2) {
        if pair[0].saturating_add(length_ms) > pair[1] {
            return Some((&disturbance.name, pair[1]));
        }
    }
    let resource = disturbance.kind.resource();
    for other in others {
        if other.kind.resource() != resource {
            continue;
        }
        for at_ms in &disturbance.at_ms {
            let overlaps = |other_ms: &u64| {
                *at_ms < other_ms.saturating_add(other.length_ms)
                    && *other_ms < at_ms.saturating_add(length_ms)
            };
            if other.at_ms.iter().any(overlaps) {
                return Some((&other.name, *at_ms));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
