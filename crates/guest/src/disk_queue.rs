//! Settings of the workload's disk: the arm's I/O scheduler, and settings of it and of the queue.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plan::Tuning;

use crate::refused::Refused;

/// Sets a disk's I/O scheduler, then the arm's settings of it and of the queue. The rest keeps the kernel's defaults.
pub(crate) fn set(disk: Option<&Path>, tuning: &Tuning) -> Result<()> {
    if tuning.io_scheduler.is_empty() && tuning.queue.is_empty() {
        return Ok(());
    }
    let name = disk.and_then(Path::file_name);
    let name = name.context("a scheduler or queue for a disk that is not there")?;
    let queue = Path::new("/sys/block").join(name).join("queue");
    if !tuning.io_scheduler.is_empty() {
        set_scheduler(&queue, &tuning.io_scheduler)?;
    }
    for (name, value) in &tuning.queue {
        set_value(&queue, name, value)?;
    }
    Ok(())
}

fn set_scheduler(queue: &Path, scheduler: &str) -> Result<()> {
    let file = queue.join("scheduler");
    if fs::write(&file, scheduler).is_err() {
        let known = fs::read_to_string(&file).unwrap_or_default();
        bail!(Refused(format!(
            "this kernel has no I/O scheduler {scheduler} (choose one of these: {})",
            known.trim().replace(['[', ']'], "")
        )));
    }
    Ok(())
}

/// Writes one setting and reads it back: the kernel rounds or limits some without an error.
fn set_value(queue: &Path, name: &str, value: &str) -> Result<()> {
    let places = [queue.join(name), queue.join("iosched").join(name)];
    let Some(file) = places.iter().find(|file| file.exists()) else {
        let known = [names(queue), names(&queue.join("iosched"))].concat();
        bail!(Refused(format!(
            "this kernel's queue has no setting {name} (it has: {})",
            known.join(", ")
        )));
    };
    fs::write(file, value)
        .with_context(|| Refused(format!("set {name} of the queue to {value}")))?;
    let now = fs::read_to_string(file).unwrap_or_default();
    if now.trim() != value.trim() {
        bail!(Refused(format!(
            "the kernel made {name} of the queue {}: {value} (write a value that it takes)",
            now.trim()
        )));
    }
    Ok(())
}

/// Names of a directory's files, sorted.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let files = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_file());
    let name = |path: PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    let mut names: Vec<String> = files.filter_map(name).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_in_the_queue_and_in_its_scheduler() {
        let dir = tempfile::tempdir().unwrap();
        let queue = dir.path();
        fs::create_dir(queue.join("iosched")).unwrap();
        fs::write(queue.join("nr_requests"), "2\n").unwrap();
        fs::write(queue.join("iosched/slice_idle"), "8\n").unwrap();
        set_value(queue, "nr_requests", "128").unwrap();
        set_value(queue, "slice_idle", "0").unwrap();
        let text = |name: &str| fs::read_to_string(queue.join(name)).unwrap();
        assert_eq!(
            (text("nr_requests"), text("iosched/slice_idle")),
            ("128".into(), "0".into())
        );
        let why = set_value(queue, "fifo_batch", "1").unwrap_err().to_string();
        assert_eq!(
            why,
            "this kernel's queue has no setting fifo_batch (it has: nr_requests, slice_idle)"
        );
    }
}
