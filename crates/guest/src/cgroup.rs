//! One cgroup per service, so that all its processes count, including ended ones.
//!
//! Only the CPU controller is used, and only in a guest that clients share with servers: there autogroup, whose
//! default differs between kernels, would schedule them as two groups. Otherwise the agent uses only what every
//! cgroup has: processes, threads, CPU time. Reading a cgroup takes a few small files, however many processes it
//! has; the sum over `/proc/PID/stat` would lack every process that ended.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The cgroup of the agent and of the clients that it runs.
pub use record::instructions::CLIENTS;

/// The parent of the services' cgroups: a directory of a cgroup2 file system. Removed when dropped, if empty by then.
#[derive(Debug)]
pub struct Cgroups {
    base: PathBuf,
}

/// How long a cgroup waits for processes that are ending.
const REMOVAL: Duration = Duration::from_secs(2);

/// A cgroup of one service.
#[derive(Debug)]
pub struct Cgroup {
    /// The service's name.
    pub name: String,
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

    /// Has the kernel schedule all cgroups as one group, whatever their sessions are. `false` for a kernel without
    /// group scheduling, where there is nothing to do.
    pub fn schedule_as_one(&self) -> Result<bool> {
        let outside = self.base.parent().unwrap_or(&self.base);
        let controllers = fs::read_to_string(outside.join("cgroup.controllers"));
        let has_cpu = controllers.is_ok_and(|list| list.split_whitespace().any(|c| c == "cpu"));
        if has_cpu {
            let file = outside.join("cgroup.subtree_control");
            fs::write(&file, "+cpu")
                .with_context(|| format!("switch on the cpu controller: {}", file.display()))?;
        }
        Ok(has_cpu)
    }

    /// Has the kernel count perf events by cgroup. It prepares a cgroup for them only once some controller is
    /// enabled (`cgroup_calc_subtree_ss_mask`, `kernel/cgroup/cgroup.c`), so this enables one and disables it again.
    pub(crate) fn prepare_events(&self) -> Result<()> {
        // Those with the least cost per task.
        const CONTROLLERS: [&str; 5] = ["misc", "rdma", "hugetlb", "pids", "io"];
        let outside = self.base.parent().unwrap_or(&self.base);
        let read = |name| fs::read_to_string(outside.join(name)).unwrap_or_default();
        let (known, on) = (read("cgroup.controllers"), read("cgroup.subtree_control"));
        let has = |list: &str, name: &str| list.split_whitespace().any(|word| word == name);
        let mut usable = CONTROLLERS
            .iter()
            .filter(|name| has(&known, name) && !has(&on, name));
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
        // Fails if a cgroup is left in it.
        let _ = fs::remove_dir(&self.base);
    }
}

impl Cgroup {
    /// Moves the calling process with all its threads into the cgroup, until the result is dropped.
    pub fn join(&self) -> Result<Membership> {
        let file = self.dir.join("cgroup.procs");
        fs::write(&file, "0").with_context(|| format!("join a cgroup: {}", file.display()))?;
        // The parent of the base directory, not necessarily where the process was before.
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

    /// Its processes now.
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
        // If that fails, the process stays in the cgroup, which then cannot be removed.
        let _ = fs::write(&self.outside, "0");
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // A cgroup with processes cannot be removed, and one that is ending counts after it has left the list.
        let end = Instant::now() + REMOVAL;
        while fs::remove_dir(&self.dir).is_err_and(|why| why.kind() == ErrorKind::ResourceBusy)
            && Instant::now() < end
        {
            thread::sleep(Duration::from_millis(5));
        }
    }
}
