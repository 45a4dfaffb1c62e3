//! The work of a simulated drive under a load.

use std::collections::BTreeMap;

use crate::disk::{Counts, Disk};
use plan::SeekDisk;
use record::protocol::Job;

use crate::env::Environment;

/// A drive that is watched from the beginning of a load.
pub(crate) struct DiskWatch<'e> {
    plan: &'e SeekDisk,
    disk: &'e Disk,
    before: Counts,
}

impl<'e> DiskWatch<'e> {
    /// Begins to watch the job's simulated drive, if it has one.
    pub(crate) fn begin(job: &'e Job, environment: &'e Environment) -> Option<Self> {
        let (plan, disk) = job.disk.as_ref().zip(environment.seeks.as_ref())?;
        let before = disk.counts();
        Some(Self { plan, disk, before })
    }

    /// The drive's geometry and its work, including the warm-up, as facts.
    pub(crate) fn end(self) -> BTreeMap<String, String> {
        facts(self.plan, self.disk.counts().since(self.before))
    }
}

fn facts(plan: &SeekDisk, work: Counts) -> BTreeMap<String, String> {
    let Counts {
        reads,
        writes,
        flushes,
        seeks,
        hits,
        busy_ns,
        deepest,
        kept_bytes,
        refused,
    } = work;
    [
        ("geometry", plan.words()),
        ("reads", reads.to_string()),
        ("writes", writes.to_string()),
        ("flushes", flushes.to_string()),
        ("seeks", seeks.to_string()),
        ("read-ahead-hits", hits.to_string()),
        ("busy-ms", (busy_ns / 1_000_000).to_string()),
        ("queue-depth-reached", deepest.to_string()),
        ("kept-bytes", kept_bytes.to_string()),
        ("refused", refused.to_string()),
    ]
    .map(|(name, value)| (format!("seek-disk:{name}"), value))
    .into()
}
