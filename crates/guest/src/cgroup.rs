//! One cgroup per service, so that its processes are counted whole, ended ones included.
//!
//! Of controllers only that of the CPU is used, and only in a guest that clients share with servers: autogroup gives each session a
//! group, and would part clients from servers by a default that differs between kernels. On a real server clients are elsewhere.
//! Otherwise only what every cgroup has is used (processes, threads, CPU time). Reading one is a few small files, however many
//! processes a service has; summing `/proc/PID/stat` would miss every process that ended.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The cgroup of the agent itself and of the clients that it runs.
pub use record::instructions::CLIENTS;

/// The parent of the services' cgroups: a directory of a cgroup2 file system. Removed when dropped, if empty by then.
#[derive(Debug)]
pub struct Cgroups {
    base: PathBuf,
}

/// A cgroup of one service.
#[derive(Debug)]
pub struct Cgroup {
    /// The service's name.
    pub name: String,
    /// Its directory.
    pub dir: PathBuf,
}

/// The calling process in a cgroup; it leaves when this is dropped.
#[derive(Debug)]
pub struct Membership {
    outside: PathBuf,
}

impl Cgroups {
    /// Makes the base directory, such as `/sys/fs/cgroup/bakeoff`.
    pub fn make(base: &Path) -> Result<Self> {
        fs::create_dir_all(base)
            .with_context(|| format!("make a cgroup (is cgroup2 there?): {}", base.display()))?;
        Ok(Self { base: base.into() })
    }

    /// Has the kernel schedule all that is in them as one group, whatever their sessions are; whether it does: a kernel without
    /// groups parts nothing.
    pub fn schedule_as_one(&self) -> Result<bool> {
        let outside = self.base.parent().unwrap_or(&self.base);
        let controllers = fs::read_to_string(outside.join("cgroup.controllers"));
        let has_cpu = controllers.is_ok_and(|text| text.split_whitespace().any(|one| one == "cpu"));
        if has_cpu {
            let file = outside.join("cgroup.subtree_control");
            fs::write(&file, "+cpu")
                .with_context(|| format!("switch on the cpu controller: {}", file.display()))?;
        }
        Ok(has_cpu)
    }

    /// Has the kernel keep perf events by cgroup. It prepares a cgroup for them only once some controller was switched on beside it
    /// (`cgroup_calc_subtree_ss_mask`, `kernel/cgroup/cgroup.c`), which nobody does in a guest. Here one is, and off again at once.
    pub(crate) fn follow_events(&self) -> Result<()> {
        // Those that cost a task the least.
        const CONTROLLERS: [&str; 5] = ["misc", "rdma", "hugetlb", "pids", "io"];
        let outside = self.base.parent().unwrap_or(&self.base);
        let read = |name| fs::read_to_string(outside.join(name)).unwrap_or_default();
        let (known, on) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
        let has = |list: &str, one: &str| list.split_whitespace().any(|word| word == one);
        let mut usable = CONTROLLERS
            .iter()
            .filter(|one| has(&known, one) && !has(&on, one));
        let controller = usable.next().context("no controller to switch on")?;
        let file = outside.join("cgroup.subtree_control");
        for sign in ['+', '-'] {
            fs::write(&file, format!("{sign}{controller}")).with_context(|| {
                format!("switch the {controller} controller: {}", file.display())
            })?;
        }
        Ok(())
    }

    /// A cgroup of this name.
    pub fn child(&self, name: &str) -> Result<Cgroup> {
        let dir = self.base.join(name);
        fs::create_dir_all(&dir).with_context(|| format!("make a cgroup: {}", dir.display()))?;
        Ok(Cgroup {
            name: name.into(),
            dir,
        })
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        // Fails while a cgroup is left, and then the cgroup is what to look at.
        let _ = fs::remove_dir(&self.base);
    }
}

impl Cgroup {
    /// Moves the calling process in, all its threads with it, until what it returns is dropped.
    pub fn join(&self) -> Result<Membership> {
        let file = self.dir.join("cgroup.procs");
        fs::write(&file, "0").with_context(|| format!("join a cgroup: {}", file.display()))?;
        // Beside the base directory: where it was before is none of the agent's business to restore.
        let outside = self.dir.ancestors().nth(2).unwrap_or(&self.dir);
        Ok(Membership {
            outside: outside.join("cgroup.procs"),
        })
    }

    /// The file that a process writes `0` to in order to join.
    pub(crate) fn procs_file(&self) -> Result<File> {
        let file = self.dir.join("cgroup.procs");
        OpenOptions::new()
            .write(true)
            .open(&file)
            .with_context(|| format!("open {}", file.display()))
    }

    /// Processes in it now.
    pub fn processes(&self) -> Vec<i32> {
        processes(&self.dir)
    }
}

/// Processes in the cgroup of a directory now.
pub(crate) fn processes(dir: &Path) -> Vec<i32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

impl Drop for Membership {
    fn drop(&mut self) {
        // Who cannot leave stays counted; the cgroup is left behind then, which is what to look at.
        let _ = fs::write(&self.outside, "0");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A cgroup with processes cannot be removed.
        let _ = fs::remove_dir(&self.dir);
    }
}
