//! Disturbances: what a plan has done to each trial's system on purpose, at the same instants of every window.

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

/// Most times that the disturbances of a plan are carried out in a window, all together: each leaves a record.
pub const MOST_TIMES: usize = 1000;

/// What may be done to a system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, IntoStaticStr, VariantNames)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum DisturbanceKind {
    /// Packets are lost, in each direction.
    Loss {
        /// Of how many, a fraction.
        share: f64,
    },
    /// Packets come later, in each direction.
    Delay {
        /// By so much, in milliseconds.
        delay_ms: u64,
        /// More or less by up to so much.
        jitter_ms: u64,
    },
    /// Packets overtake others, which come later.
    Reorder {
        /// How many overtake, a fraction.
        share: f64,
        /// How much later the others come, in milliseconds.
        delay_ms: u64,
    },
    /// Packets come twice.
    Duplicate {
        /// How many, a fraction.
        share: f64,
    },
    /// One bit of a packet is another.
    Corrupt {
        /// Of how many packets, a fraction.
        share: f64,
    },
    /// The server's end of the network is down.
    LinkDown,
    /// The file system of the servers' data and logs is full.
    DiskFull,
    /// A process takes memory and uses it.
    Memory {
        /// How much.
        bytes: u64,
    },
    /// A CPU is off.
    CpuOffline {
        /// Which, from 1 on.
        cpu: u32,
    },
    /// The time of day is another.
    ClockStep {
        /// By so much, in milliseconds.
        step_ms: i64,
    },
    /// A worker process of a server is killed, at the beginning and each second after it.
    KillWorker,
    /// Connections are asked for and never made, from addresses that nobody has.
    SynFlood {
        /// How many in each second.
        rate_per_s: u32,
    },
    /// Clients ask for pages and hardly read them.
    SlowClients {
        /// How many.
        connections: u32,
    },
    /// Servers may open no more files than they have open.
    Descriptors,
}

/// What a disturbance takes, and no other may take meanwhile.
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
    /// What a plan writes.
    pub fn word(&self) -> &'static str {
        self.into()
    }

    /// Whether the kernel's network emulator does it.
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

    /// Whether it touches only what a trial has to itself: namespaces and processes that end with the agent.
    fn is_of_trial(&self) -> bool {
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
    /// What is done.
    pub kind: DisturbanceKind,
    /// When it begins each time, in milliseconds since the window opened; ascending.
    pub at_ms: Vec<u64>,
    /// How long it lasts each time, in milliseconds.
    pub length_ms: u64,
}

/// What disturbances have to fit.
pub(crate) struct Ground<'p> {
    pub(crate) machine: &'p MachinePlan,
    pub(crate) arms: &'p [Arm],
    pub(crate) workloads: &'p [WorkloadPlan],
    pub(crate) seed: u64,
    pub(crate) can_be_disturbed: &'p dyn Fn(&WorkloadPlan) -> bool,
}

impl Ground<'_> {
    /// The shortest window of all workloads.
    fn window(&self) -> Duration {
        let windows = self.workloads.iter().map(|one| one.window);
        windows.min().unwrap_or(Duration::MAX)
    }
}

/// Reads all of `[[disturb]]`.
pub(crate) fn read_disturbances(top: &Fields<'_>, ground: &Ground<'_>) -> Vec<PlannedDisturbance> {
    let tables = top.tables("disturb");
    let Some(first) = tables.first() else {
        return Vec::new();
    };
    check_ground(first, ground);
    let mut all = Vec::new();
    for table in &tables {
        if let Some(one) = read_one(table, ground) {
            check_name(table, &one.name, &all);
            check_overlap(table, &one, &all);
            all.push(one);
        }
    }
    let times: usize = all.iter().map(|one| one.at_ms.len()).sum();
    if times > MOST_TIMES {
        let what = format!("disturbances more often than {MOST_TIMES} times in a window: {times}");
        first.wrong("every", what, "let more time pass between them");
    }
    all
}

/// Whether anything can be disturbed here at all.
fn check_ground(first: &Fields<'_>, ground: &Ground<'_>) {
    if ground.machine.kind == MachineKind::Url {
        let what = "[[disturb]] on a machine of kind \"url\"";
        first.wrong(
            "kind",
            what,
            "remove it: nobody can reach into these systems",
        );
        return;
    }
    if let Some(clients) = ground.machine.clients.filter(|one| *one != Clients::Guest) {
        let what = format!("[[disturb]] with clients \"{}\"", clients.word());
        let remedy = "write clients = \"guest\" in [machine]: the network that is disturbed lies in the guest";
        first.wrong("kind", what, remedy);
    }
    for workload in ground.workloads {
        if !(ground.can_be_disturbed)(workload) {
            let what = format!(
                "[[disturb]] with a workload that ends at the first failure: {}",
                workload.id
            );
            let remedy = "give it a plan of its own; \"web-soak\" and \"web-static\" go on";
            first.wrong("kind", what, remedy);
        }
    }
}

fn read_one(table: &Fields<'_>, ground: &Ground<'_>) -> Option<PlannedDisturbance> {
    // Of a kind that is not known nobody can say which keys belong to it.
    let kind = read_kind(table, ground)?;
    let name = match table.text("name") {
        Some(name) => name,
        None => kind.word(),
    };
    let length = read_length(table, &kind);
    let times = length.and_then(|length| read_times(table, (name, length), ground));
    // What was not read for a mistake before it is not unknown.
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

/// `for`; killing a worker takes no time, and counts as a second.
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

/// Two of one resource would undo each other.
fn check_overlap(table: &Fields<'_>, one: &PlannedDisturbance, others: &[PlannedDisturbance]) {
    let resource = one.kind.resource();
    let spans = |of: &PlannedDisturbance| -> Vec<(u64, u64)> {
        let span = |at: &u64| (*at, at.saturating_add(of.length_ms));
        of.at_ms.iter().map(span).collect()
    };
    let own = spans(one);
    let within = own.windows(2).find(|two| two[0].1 > two[1].0);
    let beside = || {
        let rivals = others
            .iter()
            .filter(|other| other.kind.resource() == resource);
        rivals.into_iter().find_map(|other| {
            let theirs = spans(other);
            let clash = own
                .iter()
                .find(|a| theirs.iter().any(|b| a.0 < b.1 && b.0 < a.1));
            clash.map(|clash| (other.name.clone(), clash.0))
        })
    };
    let found = match within {
        Some(two) => Some((one.name.clone(), two[1].0)),
        None => beside(),
    };
    if let Some((other, at_ms)) = found {
        let key = times::key_of(table);
        let at = units::show_duration(Duration::from_millis(at_ms));
        let what = format!(
            "overlapping disturbances of {}: {} and {other} at {at}",
            resource.word(),
            one.name
        );
        table.wrong(key, what, "let one end before the other begins");
    }
}

#[cfg(test)]
mod tests;
