//! Where a job runs, why it gave no figure, and how it tells what it does.

use std::path::PathBuf;
use std::time::Duration;

use crate::disk::Disk;
use record::protocol::FromAgent;
use record::trial::VoidReason;
use workload::Wrong;

use crate::boot::on_box::BoxNetwork;
use crate::refused::Refused;

/// Where a job runs.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Empty directory for the workload's data, in memory.
    pub dir: PathBuf,
    /// Directory of a cgroup2 file system that may be made.
    pub cgroup: PathBuf,
    /// The kernel's configuration, where the machine knows better than `/proc/config.gz`.
    pub kernel_config: Option<String>,
    /// The workload's own disk, if the machine has one.
    pub disk: Option<PathBuf>,
    /// That disk, where it is one with seeks.
    pub seeks: Option<Disk>,
    /// Longest wait for the system to become idle.
    pub max_idle_wait: Duration,
    /// Whether clients and network are looked at: not where the clients share a guest with the server by design.
    pub watches_path: bool,
    /// The network of a box whose servers have their clients elsewhere.
    pub box_network: Option<BoxNetwork>,
}

/// Why a job gave no figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub reason: VoidReason,
    /// What happened, with the last lines of a log where there is one.
    pub detail: String,
}

impl From<anyhow::Error> for Failure {
    fn from(why: anyhow::Error) -> Self {
        let reason = if why.is::<Wrong>() {
            VoidReason::CheckFailed
        } else if why.is::<Refused>() {
            VoidReason::SettingRefused
        } else {
            VoidReason::AgentFailed
        };
        Self {
            reason,
            detail: format!("{why:#}"),
        }
    }
}

impl Failure {
    pub(crate) fn of(reason: VoidReason, detail: String) -> Self {
        Self { reason, detail }
    }
}

/// How the job tells what it does; messages go out in the order of the calls.
pub type Tell<'t> = dyn Fn(FromAgent) + Sync + 't;
