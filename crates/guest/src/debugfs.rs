//! An arm's files of debugfs, written before anything is started. Refused values are reported with their names.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::refused::Refused;

const PLACE: &str = "/sys/kernel/debug";

/// Writes all files, in the order of their names. If debugfs is not mounted, it is mounted only meanwhile: the values
/// stay in force, and no arm has one more file system than the others.
pub(crate) fn set(files: &BTreeMap<String, String>) -> Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    write_mounted(
        || mount("debugfs", PLACE, "debugfs", flags, None),
        || write_all(Path::new(PLACE), files),
        || unmount(PLACE, UnmountFlags::DETACH),
    )
}

fn write_mounted(
    mount: impl FnOnce() -> Result<(), Errno>,
    write: impl FnOnce() -> Result<()>,
    unmount: impl FnOnce() -> Result<(), Errno>,
) -> Result<()> {
    match mount() {
        Ok(()) => {}
        // It is mounted already, and stays.
        Err(Errno::BUSY) => return write(),
        Err(why) => {
            let what = "this kernel has no debugfs (remove it from the arm)";
            return Err(why).context(Refused(what.into()));
        }
    }
    let written = write();
    let unmounted = unmount().context("unmount debugfs");
    written.and(unmounted)
}

fn write_all(place: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    for (name, value) in files {
        // Must not create a file.
        let file = fs::OpenOptions::new().write(true).open(place.join(name));
        let done = file.and_then(|mut file| io::Write::write_all(&mut file, value.as_bytes()));
        match done {
            Ok(()) => {}
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                bail!(Refused(format!(
                    "this kernel has no file {name} in debugfs (remove it from the arm)"
                )))
            }
            Err(why) => bail!(Refused(format!(
                "the kernel refuses {value:?} for {name} in debugfs: {why} (correct the arm's value)"
            ))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn what_was_mounted_for_the_files_is_unmounted_and_nothing_else() {
        let check = |mounted: Result<(), Errno>, written: Result<()>| {
            let steps = Cell::new(String::new());
            let step = |name: &str| steps.set(steps.take() + name + " ");
            let ended = write_mounted(
                || {
                    step("mount");
                    mounted
                },
                || {
                    step("write");
                    written
                },
                || {
                    step("unmount");
                    Ok(())
                },
            );
            let ended = ended.map_or_else(|why| why.to_string(), |()| "set".into());
            steps.take() + &ended
        };
        assert_eq!(check(Ok(()), Ok(())), "mount write unmount set");
        let refused = check(Ok(()), Err(anyhow!("refused")));
        assert_eq!(refused, "mount write unmount refused");
        assert_eq!(check(Err(Errno::BUSY), Ok(())), "mount write set");
        let none = "mount this kernel has no debugfs (remove it from the arm)";
        assert_eq!(check(Err(Errno::NODEV), Ok(())), none);
    }

    #[test]
    fn files_are_written_and_missing_or_refusing_ones_are_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("features");
        fs::write(&file, "").unwrap();
        let set = |name: &str| {
            let files = [(name.to_string(), "NO_X".to_string())].into();
            write_all(place.path(), &files).map_err(|why| why.to_string())
        };
        assert_eq!(set("features"), Ok(()));
        assert_eq!(fs::read_to_string(&file).unwrap(), "NO_X");
        let missing = set("sched/none").unwrap_err();
        assert!(
            missing.starts_with("this kernel has no file sched/none"),
            "{missing}"
        );
        assert!(!place.path().join("sched/none").exists());
        let refused = set("../..").unwrap_err();
        assert!(
            refused.starts_with("the kernel refuses \"NO_X\" for ../.."),
            "{refused}"
        );
    }
}
