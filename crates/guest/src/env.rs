//! Where a job runs, why it failed, and how it reports progress.

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
    /// Directory to create in a cgroup2 file system.
    pub cgroup: PathBuf,
    /// The kernel's configuration, for kernels without `/proc/config.gz`.
    pub kernel_config: Option<String>,
    /// The disk reserved for the workload, if the machine has one.
    pub disk: Option<PathBuf>,
    /// The simulated drive behind `disk`, if it is one.
    pub seeks: Option<Disk>,
    /// Longest wait for the system to become idle.
    pub max_idle_wait: Duration,
    /// Whether to watch clients and network: not where clients share a guest with the server by design.
    pub watches_path: bool,
    /// The network of a box whose clients run elsewhere.
    pub box_network: Option<BoxNetwork>,
}

/// Why a job failed.
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
        Self::new(reason, format!("{why:#}"))
    }
}

impl Failure {
    pub(crate) fn new(reason: VoidReason, detail: String) -> Self {
        Self { reason, detail }
    }
}

/// Reports progress of the job; messages go out in the order of the calls.
pub type Report<'r> = dyn Fn(FromAgent) + Sync + 'r;
