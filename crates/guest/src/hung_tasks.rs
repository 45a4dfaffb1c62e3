//! The kernel's watch for hung tasks. While an idle guest waits for its disk, its counted clock leaps from timer to
//! timer. So a wait of the host's seconds can take many minutes there, and would be reported as a hung task.

use std::fs;
use std::path::{Path, PathBuf};

use record::protocol::Job;

const TIMEOUT: &str = "/proc/sys/kernel/hung_task_timeout_secs";

/// Hung tasks are not reported while this exists.
#[derive(Debug)]
pub(crate) struct Unwatched {
    timeout: PathBuf,
    /// Its value before.
    before: String,
}

impl Unwatched {
    /// Begins, if the job's clock counts instructions and its kernel has the watch.
    pub(crate) fn begin(job: &Job) -> Option<Self> {
        job.ns_per_instruction?;
        Self::of(Path::new(TIMEOUT))
    }

    fn of(timeout: &Path) -> Option<Self> {
        let before = fs::read_to_string(timeout).ok()?;
        fs::write(timeout, "0").ok()?;
        let timeout = timeout.into();
        Some(Self { timeout, before })
    }
}

impl Drop for Unwatched {
    fn drop(&mut self) {
        if let Err(why) = fs::write(&self.timeout, &self.before) {
            eprintln!("bakeoff agent: hung tasks are not watched: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hung_tasks_are_watched_again_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let timeout = dir.path().join("timeout");
        assert!(
            Unwatched::of(&timeout).is_none(),
            "a kernel without the watch"
        );
        fs::write(&timeout, "120\n").unwrap();
        let now = || fs::read_to_string(&timeout).unwrap();
        let unwatched = Unwatched::of(&timeout).unwrap();
        assert_eq!(now(), "0");
        drop(unwatched);
        assert_eq!(now(), "120\n");
    }
}
